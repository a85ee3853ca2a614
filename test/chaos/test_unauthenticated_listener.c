/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated peers at a listener of the program, and in the place of the server: handshakes and answers that are
 * wrong somewhere, packets before their time, ends at every stage. Only their own connection is lost, and an endpoint
 * fails once.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <string.h>

#include "hostile_tcp.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tcp/tcp_wire.h"
#include "wire/cm.h"
#include "wire/packet.h"

enum { HELLO_BYTES = CW_TCP_HANDSHAKE_SIZE + CW_CM_REQUEST_LENGTH, MAX_REQUESTS = 2000 };

static ucp_listener_h listener;
static struct sockaddr_in listener_name;
static ucp_conn_request_h requests[MAX_REQUESTS];
static int num_requests, failures;
static uint64_t seed = 4711;

static void requested(ucp_conn_request_h request, void *arg)
{
    (void)arg;
    cw_check(num_requests < MAX_REQUESTS);
    requests[num_requests++] = request;
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    cw_check(status < 0);
    ++*(int *)arg;
}

static void begin(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(const struct sockaddr *)&name, sizeof(name)},
                                    .conn_handler.cb = requested};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};

    cw_hostile_begin();
    cw_check(ucp_listener_create(cw_server.worker, &params, &listener) == UCS_OK);
    cw_check(ucp_listener_query(listener, &attr) == UCS_OK);
    memcpy(&listener_name, &attr.sockaddr, sizeof(listener_name));
}

static void end(void)
{
    ucp_listener_destroy(listener);
    cw_hostile_end();
}

static int one_requested(void *argument)
{
    return num_requests == *(int *)argument;
}

static int has_failed(void *argument)
{
    return *(int *)argument > 0;
}

static void hello_bytes(uint8_t bytes[HELLO_BYTES], uint64_t number)
{
    const struct cw_cm_request asked = {.number = number, .err_mode = UCP_ERR_HANDLING_MODE_PEER};

    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_CM_REQUEST_LENGTH, 0);
    cw_cm_request_encode(&asked, bytes + CW_TCP_HANDSHAKE_SIZE);
}

static void must_close(uint16_t port, const void *bytes, size_t length, int finish)
{
    const int before = num_requests;

    cw_must_close(port, bytes, length, finish);
    cw_check(num_requests == before);
}

CHILD_TEST(test_handshakes)
{
    uint8_t good[HELLO_BYTES], bytes[512];
    struct cw_hello hello;
    struct cw_tcp_address address;
    const void *entry;
    size_t length, i;
    uint16_t port;

    begin();
    port = listener_name.sin_port;
    hello_bytes(good, 77);
    must_close(port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 0);
    must_close(port, "SSH", 3, 0);
    for (i = 1; i < HELLO_BYTES; i += 5) {
        must_close(port, good, i, 1);
    }
    for (i = 0; i < 24; i++) { /* the handshake, magic, version and the zero of the hello */
        if (i == CW_TCP_HANDSHAKE_SIZE + 6) {
            continue;
        }
        memcpy(bytes, good, sizeof(good));
        bytes[i] ^= 0x80;
        must_close(port, bytes, sizeof(good), 1);
    }
    memcpy(bytes, good, sizeof(good));
    bytes[CW_TCP_HANDSHAKE_SIZE + 6] = UCP_ERR_HANDLING_MODE_FAILOVER + 1;
    must_close(port, bytes, sizeof(good), 0);
    memset(bytes, 0, sizeof(bytes)); /* a hello of another length */
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_CM_REQUEST_LENGTH + 8, 0);
    must_close(port, bytes, CW_TCP_HANDSHAKE_SIZE + CW_CM_REQUEST_LENGTH + 8, 0);

    hello = cw_hostile_hello(); /* for a worker, with its key and without */
    entry = cw_server_entry(cw_tcp_transport.wire_id, &length);
    cw_check(cw_tcp_address_decode(entry, length, &address) == NULL);
    for (i = 0; i < 2; i++) {
        cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_HELLO_LENGTH, i ? address.key : 0);
        cw_hello_encode(&hello, bytes + CW_TCP_HANDSHAKE_SIZE);
        must_close(port, bytes, CW_TCP_HANDSHAKE_SIZE + CW_HELLO_LENGTH, 0);
    }
    must_close(htons(address.port), good, sizeof(good), 0); /* for a listener, at a worker */
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_CM_REQUEST_LENGTH, address.key);
    memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, good + CW_TCP_HANDSHAKE_SIZE, CW_CM_REQUEST_LENGTH);
    must_close(htons(address.port), bytes, sizeof(good), 0);
    hello.flags = CW_HELLO_CM; /* goes on with a connection request that nobody has */
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, CW_HELLO_LENGTH, address.key);
    cw_hello_encode(&hello, bytes + CW_TCP_HANDSHAKE_SIZE);
    must_close(htons(address.port), bytes, CW_TCP_HANDSHAKE_SIZE + CW_HELLO_LENGTH, 0);
    end();
}

/* ---- clients that were accepted ---- */

static int has_reply(void *argument)
{
    uint8_t reply[CW_TCP_HANDSHAKE_SIZE];

    return recv(*(int *)argument, reply, sizeof(reply), MSG_PEEK) == (ssize_t)sizeof(reply);
}

static ucp_ep_h accept_request(ucp_conn_request_h request, ucs_status_t *status)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .conn_request = request, .err_handler = {failed, &failures}};
    ucp_ep_h ep = NULL;

    *status = ucp_ep_create(cw_server.worker, &params, &ep);
    return ep;
}

static int connect_client(uint64_t number, ucp_ep_h *ep_p)
{
    uint8_t bytes[HELLO_BYTES];
    int fd = cw_dial_port(listener_name.sin_port), one = 1;
    ucs_status_t status;

    failures = num_requests = 0;
    hello_bytes(bytes, number);
    cw_check(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes));
    cw_server_until(one_requested, &one);
    *ep_p = accept_request(requests[0], &status);
    cw_check(status == UCS_OK);
    cw_server_until(has_reply, &fd);
    cw_check(recv(fd, bytes, CW_TCP_HANDSHAKE_SIZE, 0) == CW_TCP_HANDSHAKE_SIZE && bytes[5] == CW_TCP_ACCEPTED);
    return fd;
}

static void say(int fd, uint8_t id, const void *data, size_t length)
{
    uint8_t frame[CW_TCP_FRAME_HEADER + 256];

    cw_tcp_frame_encode(frame, CW_TCP_PACKET, id, length);
    memcpy(frame + CW_TCP_FRAME_HEADER, data, length);
    (void)!send(fd, frame, CW_TCP_FRAME_HEADER + length, MSG_NOSIGNAL);
}

static void part(ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    (void)cw_party_wait(&cw_server, &cw_client, ucp_ep_close_nbx(ep, &param));
}

/* What is said costs the connection, and the endpoint fails once. */
static void must_cost(const uint8_t *ids, unsigned count, size_t length)
{
    static const uint8_t zero[256];
    ucp_ep_h ep;
    unsigned i;
    int fd;

    cw_log_mark();
    fd = connect_client(cw_random(&seed), &ep);
    for (i = 0; i < count; i++) {
        say(fd, ids[i], zero, length);
    }
    cw_server_until(fd_ended, &fd);
    (void)close(fd);
    cw_check(failures == 1);
    part(ep);
    cw_check(failures == 1);
    cw_check_served(1);
    cw_sleep_ms(110);
}

CHILD_TEST(test_packets)
{
    static const uint8_t twice[] = {CW_PACKET_STAY, CW_PACKET_STAY};
    static const uint8_t early[] = {CW_PACKET_CLOSE, CW_PACKET_END, CW_PACKET_TAG_EAGER, CW_PACKET_TAG_SYNC,
                                    CW_PACKET_AM_EAGER, CW_PACKET_CREDIT, CW_PACKET_INVALID, CW_PACKET_COUNT, 255};
    const uint8_t stay = CW_PACKET_STAY;
    ucp_ep_h ep;
    size_t i;
    int fd;

    begin();
    for (i = 0; i < sizeof(early); i++) {
        must_cost(&early[i], 1, 16);
    }
    must_cost(twice, 2, 8);
    must_cost(&stay, 1, 0);
    must_cost(&stay, 1, 9);

    fd = connect_client(5, &ep); /* as it should be: it ends with CLOSE */
    say(fd, CW_PACKET_STAY, &(uint64_t){0}, 8);
    say(fd, CW_PACKET_CLOSE, &(uint64_t){0}, 8);
    cw_server_until(has_failed, &failures);
    part(ep);
    cw_check(failures == 1);
    (void)close(fd);
    end();
}

/* Two that give the same number: the second is refused, the first is served on. Then both leave without a word. */
CHILD_TEST(test_same_number)
{
    uint8_t bytes[HELLO_BYTES];
    ucs_status_t status;
    ucp_ep_h ep;
    int first, second, two = 2;

    begin();
    cw_log_mark();
    first = connect_client(99, &ep);
    second = cw_dial_port(listener_name.sin_port);
    hello_bytes(bytes, 99);
    cw_check(send(second, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes));
    cw_server_until(one_requested, &two);
    (void)accept_request(requests[1], &status);
    cw_check(status != UCS_OK);
    cw_server_until(fd_ended, &second);
    cw_check(failures == 0);
    (void)close(second);
    (void)close(first);
    cw_server_until(has_failed, &failures);
    part(ep);
    cw_check_served(1);
    end();
}

CHILD_TEST(test_gone_before_the_answer)
{
    uint8_t bytes[HELLO_BYTES];
    ucs_status_t status;
    ucp_ep_h ep;
    int i, fd, one = 1;

    begin();
    for (i = 0; i < 8; i++) {
        failures = num_requests = 0;
        fd = cw_dial_port(listener_name.sin_port);
        hello_bytes(bytes, (uint64_t)i);
        cw_check(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes));
        cw_server_until(one_requested, &one);
        if (i & 1) { /* with a reset */
            cw_check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)) == 0);
        }
        (void)close(fd);
        if (i & 2) {
            cw_check(ucp_listener_reject(listener, requests[0]) == UCS_OK);
            continue;
        }
        ep = accept_request(requests[0], &status);
        cw_check(status == UCS_OK);
        cw_server_until(has_failed, &failures);
        cw_check(failures == 1);
        part(ep);
    }
    end();
}

CHILD_TEST(test_random_packets)
{
    uint8_t data[64];
    ucp_ep_h ep;
    unsigned round, i, k;
    size_t length;
    int fd;

    begin();
    for (round = 0; round < 300; round++) {
        fd = connect_client(cw_random(&seed), &ep);
        if (round % 3 != 0) {
            say(fd, CW_PACKET_STAY, &(uint64_t){0}, 8);
        }
        for (i = 0; i < 10; i++) {
            length = cw_random(&seed) % sizeof(data);
            for (k = 0; k < length; k++) {
                data[k] = (uint8_t)((cw_random(&seed) % 8 == 0) ? cw_random(&seed) : cw_random(&seed) % 2);
            }
            say(fd, (uint8_t)(cw_random(&seed) % (CW_PACKET_COUNT + 1)), data, length);
            cw_server_progress();
        }
        (void)close(fd);
        cw_server_until(has_failed, &failures);
        cw_check(failures == 1);
        part(ep);
    }
    ucp_listener_destroy(listener);
}

/* ---- an impostor in the place of the server ---- */

static int hello_came(void *argument)
{
    uint8_t hello[HELLO_BYTES];

    return recv(*(int *)argument, hello, sizeof(hello), MSG_PEEK) == (ssize_t)sizeof(hello);
}

/* The client's endpoint, and the descriptor on which the bytes were said to it. */
static int mislead(int trap, const void *bytes, size_t length, ucp_ep_h *ep_p)
{
    struct sockaddr_in name = {0};
    socklen_t size = sizeof(name);
    uint8_t hello[HELLO_BYTES];
    ucp_ep_params_t params;
    int fd;

    failures = 0;
    cw_check(getsockname(trap, (struct sockaddr *)&name, &size) == 0);
    params = (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                             UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                               .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                               .sockaddr = {(const struct sockaddr *)&name, sizeof(name)},
                               .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                               .err_handler = {failed, &failures}};
    cw_check(ucp_ep_create(cw_server.worker, &params, ep_p) == UCS_OK);
    fd = accept(trap, NULL, NULL);
    cw_check(fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    cw_server_until(hello_came, &fd);
    cw_check(recv(fd, hello, sizeof(hello), 0) == (ssize_t)sizeof(hello));
    (void)!send(fd, bytes, length, MSG_NOSIGNAL);
    return fd;
}

/* The endpoint fails, at once or (`opens`) after it took the impostor for the server. */
static void must_fail(int trap, const void *bytes, size_t length, int opens)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t request;
    ucp_ep_h ep;
    int fd;

    cw_log_mark();
    fd = mislead(trap, bytes, length, &ep);
    request = ucp_tag_send_nbx(ep, "12345678", 8, 1, &param);
    (void)shutdown(fd, SHUT_WR);
    cw_server_until(has_failed, &failures);
    cw_check(cw_party_wait(&cw_server, &cw_client, request) < 0 || opens);
    part(ep);
    cw_check(failures == 1);
    (void)close(fd);
    cw_check_served(3);
}

static size_t answer_bytes(uint8_t *bytes, enum cw_tcp_handshake_kind kind, enum cw_cm_verdict answer,
                           const void *address, size_t length)
{
    const size_t total = cw_cm_reply_encode(answer, address, length, bytes + CW_TCP_HANDSHAKE_SIZE, CW_HELLO_MAX);

    cw_tcp_handshake_encode(bytes, kind, total, 0);
    return CW_TCP_HANDSHAKE_SIZE + total;
}

CHILD_TEST(test_answers)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int trap = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint8_t bytes[1024] = {0}, blob[1024];
    size_t length, total, i;

    begin();
    cw_check(bind(trap, (struct sockaddr *)&name, sizeof(name)) == 0 && listen(trap, 10) == 0);
    must_fail(trap, "", 0, 0);
    must_fail(trap, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, 0);
    total = answer_bytes(bytes, CW_TCP_ACCEPTED, CW_CM_ACCEPTED, NULL, 0);
    for (i = 1; i < total; i++) {
        must_fail(trap, bytes, i, 0);
    }
    for (i = 0; i < total; i++) {
        bytes[i] ^= 0x40;
        must_fail(trap, bytes, total, 0);
        bytes[i] ^= 0x40;
    }
    must_fail(trap, bytes, answer_bytes(bytes, CW_TCP_ACCEPTED, CW_CM_REJECTED, NULL, 0), 0);
    must_fail(trap, bytes, answer_bytes(bytes, CW_TCP_REFUSED, CW_CM_ACCEPTED, NULL, 0), 0);
    must_fail(trap, bytes, answer_bytes(bytes, (enum cw_tcp_handshake_kind)7, CW_CM_ACCEPTED, NULL, 0), 0);
    must_fail(trap, bytes, answer_bytes(bytes, (enum cw_tcp_handshake_kind)5, CW_CM_ACCEPTED, NULL, 0), 0);

    length = cw_party_address(&cw_client, blob); /* somebody else's, who knows nothing of the connection request */
    total = answer_bytes(bytes, CW_TCP_ACCEPTED, CW_CM_ACCEPTED, blob, length);
    must_fail(trap, bytes, total, 1);
    length = cw_party_address(&cw_server, blob); /* its own */
    total = answer_bytes(bytes, CW_TCP_ACCEPTED, CW_CM_ACCEPTED, blob, length);
    must_fail(trap, bytes, total, 1);
    for (i = 0; i < 300; i++) { /* damaged */
        memcpy(blob, bytes, total);
        blob[CW_TCP_HANDSHAKE_SIZE + CW_CM_REPLY_HEADER +
             cw_random(&seed) % (total - CW_TCP_HANDSHAKE_SIZE - CW_CM_REPLY_HEADER)] ^=
            (uint8_t)(1u << cw_random(&seed) % 8);
        must_fail(trap, blob, total, 1);
    }
    total = answer_bytes(bytes, CW_TCP_ACCEPTED, CW_CM_ACCEPTED, NULL, 0); /* good, and then: */
    cw_tcp_frame_encode(bytes + total, CW_TCP_PACKET, CW_PACKET_STAY, 8);
    must_fail(trap, bytes, total + CW_TCP_FRAME_HEADER + 8, 1);
    cw_tcp_frame_encode(bytes + total, CW_TCP_PACKET, CW_PACKET_COUNT, 8);
    must_fail(trap, bytes, total + CW_TCP_FRAME_HEADER + 8, 1);
    (void)close(trap);
    end();
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
