/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated peers at the worker's TCP port: before the handshake, with a handshake that is wrong somewhere, and
 * with broken packets after a valid one. Only their own connection is lost.
 */
#define _GNU_SOURCE
#include <string.h>

#include "hostile_tcp.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tcp/tcp_wire.h"

enum { HELLO_BYTES = CW_TCP_HANDSHAKE_SIZE + CW_HELLO_LENGTH };

struct cw_hostile_conn {
    int fd;
};

static struct cw_tcp_address server_address(void)
{
    struct cw_tcp_address address;
    size_t length;
    const void *entry = cw_server_entry(cw_tcp_transport.wire_id, &length);

    cw_check(cw_tcp_address_decode(entry, length, &address) == NULL);
    return address;
}

static int dial(void)
{
    return cw_dial_port(htons(server_address().port));
}

static void hello_bytes(uint8_t bytes[HELLO_BYTES])
{
    struct cw_hello hello = cw_hostile_hello();

    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_HELLO_LENGTH, server_address().key);
    cw_hello_encode(&hello, bytes + CW_TCP_HANDSHAKE_SIZE);
}

static int has_reply(void *argument)
{
    uint8_t reply[CW_TCP_HANDSHAKE_SIZE + CW_HELLO_REPLY_LENGTH];

    return recv(*(int *)argument, reply, sizeof(reply), MSG_PEEK) == (ssize_t)sizeof(reply);
}

static struct cw_hostile_conn *open_conn(void)
{
    static struct cw_hostile_conn conn;
    uint8_t bytes[HELLO_BYTES];

    conn.fd = dial();
    hello_bytes(bytes);
    cw_check(send(conn.fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes));
    cw_server_until(has_reply, &conn.fd);
    cw_check(recv(conn.fd, bytes, CW_TCP_HANDSHAKE_SIZE + CW_HELLO_REPLY_LENGTH, 0) ==
             CW_TCP_HANDSHAKE_SIZE + CW_HELLO_REPLY_LENGTH);
    cw_check(bytes[5] == CW_TCP_ACCEPTED);
    return &conn;
}

static void send_packet(struct cw_hostile_conn *conn, uint8_t id, const void *data, size_t length)
{
    uint8_t frame[CW_TCP_FRAME_HEADER + CW_MAX_BAD_PACKET];

    cw_tcp_frame_encode(frame, CW_TCP_PACKET, id, length);
    memcpy(frame + CW_TCP_FRAME_HEADER, data, length);
    (void)!send(conn->fd, frame, CW_TCP_FRAME_HEADER + length, MSG_NOSIGNAL);
}

static int conn_ended(struct cw_hostile_conn *conn)
{
    return fd_ended(&conn->fd);
}

static void leave(struct cw_hostile_conn *conn)
{
    (void)close(conn->fd);
}

static const struct cw_hostile_ops ops = {
    .open = open_conn, .send = send_packet, .ended = conn_ended, .leave = leave};

static void must_close(const void *bytes, size_t length, int finish)
{
    cw_must_close(htons(server_address().port), bytes, length, finish);
}

CHILD_TEST(test_handshakes)
{
    uint8_t bytes[1024], good[HELLO_BYTES];
    struct cw_hello hello;
    size_t i;

    cw_hostile_begin();
    hello_bytes(good);
    must_close("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 0);
    must_close("SSH", 3, 0);
    memset(bytes, 0xff, sizeof(bytes));
    must_close(bytes, sizeof(bytes), 0);
    must_close("", 0, 1);
    for (i = 1; i < sizeof(good); i += 9) {
        must_close(good, i, 1); /* a part of it */
    }
    memset(bytes, 0, sizeof(bytes));
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, 400, server_address().key);
    must_close(bytes, 416, 0); /* over-long */
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, 200, server_address().key);
    memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, good + CW_TCP_HANDSHAKE_SIZE, CW_HELLO_LENGTH);
    must_close(bytes, 216, 0);
    for (i = 0; i < sizeof(good); i++) { /* the worker's uid among them; the source's own and its number are free */
        if (i < CW_TCP_HANDSHAKE_SIZE + 6 || (i >= CW_TCP_HANDSHAKE_SIZE + 16 && i < CW_TCP_HANDSHAKE_SIZE + 24)) {
            memcpy(bytes, good, sizeof(good));
            bytes[i] ^= 0x41;
            must_close(bytes, sizeof(good), 1);
        }
    }
    hello = cw_hostile_hello();
    hello.target_uid++;
    memcpy(bytes, good, sizeof(good));
    cw_hello_encode(&hello, bytes + CW_TCP_HANDSHAKE_SIZE);
    must_close(bytes, sizeof(good), 0);
    cw_hostile_end();
}

/* Silent ones and such as reset the connection in every state. */
CHILD_TEST(test_silent)
{
    const struct linger at_once = {.l_onoff = 1};
    struct cw_hostile_conn *conn;
    int silent[50], fd;
    uint8_t good[HELLO_BYTES];
    uint64_t end;
    unsigned i;

    cw_hostile_begin();
    cw_log_mark();
    end = cw_now_ns() + CW_SILENCE_NS;
    for (i = 0; i < 50; i++) {
        silent[i] = dial();
        cw_server_progress();
    }
    for (i = 0; i < 100 && cw_now_ns() < end; i++) {
        hello_bytes(good);
        fd = dial();
        (void)!send(fd, good, i % (HELLO_BYTES + 1), MSG_NOSIGNAL);
        if (i & 1) {
            cw_server_progress();
        }
        cw_check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
        (void)close(fd);
        conn = open_conn();
        cw_check(setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
        leave(conn);
        cw_server_progress();
    }
    cw_check_served(0);
    for (i = 0; i < 50; i++) {
        (void)close(silent[i]);
    }
    cw_hostile_end();
}

/* Bytes that are wrong in each way, among them a hello that only the core can refuse. Ends by a reset, which keeps the
 * ports free. */
static int attempt(unsigned number)
{
    const struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in name = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                          .sin_port = htons(server_address().port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint8_t bytes[HELLO_BYTES];
    size_t length = sizeof(bytes);

    if (fd < 0 || connect(fd, (const struct sockaddr *)&name, sizeof(name)) != 0) {
        (void)close(fd);
        return 0;
    }
    hello_bytes(bytes);
    switch (number % 4) {
    case 0:
        bytes[0] ^= 0x41;
        break;
    case 1:
        length = HELLO_BYTES / 2;
        break;
    case 2:
        bytes[CW_TCP_HANDSHAKE_SIZE - 1] ^= 0x41; /* for another worker */
        break;
    default:
        bytes[CW_TCP_HANDSHAKE_SIZE + 16] ^= 0x41; /* the worker's uid */
        break;
    }
    (void)!send(fd, bytes, length, MSG_NOSIGNAL);
    if (number % 4 == 1) {
        (void)shutdown(fd, SHUT_WR);
    }
    (void)!recv(fd, bytes, sizeof(bytes), 0); /* until it is closed */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)close(fd);
    return 1;
}

CHILD_TEST(test_flood)
{
    cw_hostile_flood(attempt);
}

CHILD_TEST(test_frames)
{
    static const uint8_t broken[][CW_TCP_FRAME_HEADER] = {
        {0xff, 0xff, 0xff, 0xff, 3}, {1, 0, 1, 0, 3}, {0, 0, 0, 0x80, 3}, {8, 0, 0, 0, 3, 1}, {8, 0, 0, 0, 3, 0, 0, 9}};
    struct cw_hostile_conn *conn;
    size_t i;

    cw_hostile_begin();
    for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        cw_log_mark();
        conn = open_conn();
        cw_check(send(conn->fd, broken[i], sizeof(broken[i]), MSG_NOSIGNAL) == (ssize_t)sizeof(broken[i]));
        cw_server_until(fd_ended, &conn->fd);
        leave(conn);
        cw_check_served(1);
    }
    cw_hostile_end();
}

CHILD_TEST(test_packets)
{
    cw_hostile_packets(&ops);
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
