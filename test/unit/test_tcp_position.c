/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Positions of plain TCP connections (docs/why/silence.md): a middle box between two nodes loses or adds bytes at
 * every part of the greeting and of packets, and nothing follows. Each connection must end at both ends within the
 * interval of keep-alive, by an error; without damage none does, whatever one side leaves undone.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp.h"
#include "transport/tcp/tcp_position.h"
#include "transport/tcp/tcp_watch.h"

#define TRIALS      28u         /* at once */
#define PAYLOAD     300u
#define PACKETS     2u
#define INTERVAL_NS UINT64_C(1000000000)
#define BOUND_NS    (3 * INTERVAL_NS)

static const struct cw_transport *const tcp = &cw_tcp_transport;
static struct node left, right;

/* What becomes of one connection. Bytes of each direction are counted from its beginning. */
struct pipe {
    int fds[2];                 /* towards the dialler, towards the acceptor */
    size_t passed[2];
    int direction;              /* of the damage: 0: what the dialler says */
    size_t at;
    size_t lose;
    size_t add;
};

static struct pipe pipes[TRIALS];
static unsigned num_pipes;
static int listening;

static void box_open(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct cw_tcp_address address;
    socklen_t length = sizeof(name);

    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(listening, TRIALS), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&name, &length), 0);
    assert_null(cw_tcp_address_decode(right.address, right.address_length, &address));
    address.port      = ntohs(name.sin_port);
    address.listens   = CW_TCP_LISTENS_IPV4;
    address.num_hosts = 0;
    right.address_length = cw_tcp_address_encode(&address, right.address);
    num_pipes            = 0;
}

static void box_accept(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd            = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct cw_tcp_address address;

    if (fd < 0) {
        return;
    }
    assert_true(num_pipes < TRIALS);
    assert_null(cw_tcp_address_decode(tcp_of(&right)->address, tcp_of(&right)->address_length, &address));
    name.sin_port              = htons(address.port);
    pipes[num_pipes].fds[0]    = fd;
    pipes[num_pipes].fds[1]    = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pipes[num_pipes].passed[0] = pipes[num_pipes].passed[1] = 0;
    assert_int_equal(connect(pipes[num_pipes].fds[1], (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(fcntl(pipes[num_pipes].fds[1], F_SETFL, O_NONBLOCK), 0);
    num_pipes++;
}

static void say(int fd, const void *bytes, size_t length)
{
    if (length > 0) {
        (void)!send(fd, bytes, length, MSG_NOSIGNAL);
    }
}

static void box_carry(struct pipe *pipe, int from)
{
    static const uint8_t more[64] = {0};
    uint8_t bytes[4096];
    const ssize_t got = recv(pipe->fds[from], bytes, sizeof(bytes), 0);
    size_t at         = pipe->at - pipe->passed[from], lose;

    if (got <= 0) {
        if (got == 0) {
            (void)shutdown(pipe->fds[1 - from], SHUT_WR);
        }
        return;
    }
    if (from != pipe->direction || pipe->at < pipe->passed[from] || at >= (size_t)got) {
        say(pipe->fds[1 - from], bytes, (size_t)got);
    } else {
        lose = ((size_t)got - at < pipe->lose) ? (size_t)got - at : pipe->lose;
        pipe->lose -= lose; /* the rest of it out of what follows */
        pipe->at += lose;
        say(pipe->fds[1 - from], bytes, at);
        say(pipe->fds[1 - from], more, pipe->add);
        pipe->add = 0;
        say(pipe->fds[1 - from], bytes + at + lose, (size_t)got - at - lose);
        if (pipe->lose == 0) {
            pipe->at = SIZE_MAX;
        }
    }
    pipe->passed[from] += (size_t)got;
}

static void box_close(void)
{
    unsigned i;

    for (i = 0; i < num_pipes; i++) {
        close(pipes[i].fds[0]);
        close(pipes[i].fds[1]);
    }
    close(listening);
}

static void send_all(struct link *link)
{
    static const uint8_t payload[PAYLOAD];
    unsigned i;

    for (i = 0; i < PACKETS; i++) {
        assert_int_equal(tcp->packets->send_short(link->conn, 3, i, payload, PAYLOAD), UCS_OK);
    }
}

static int has_ended(const struct link *link)
{
    return link->opened && (link->opened_status != UCS_OK || link->closed_status != UCS_INPROGRESS);
}

static void turn(unsigned *num_greeted)
{
    unsigned i;

    box_accept();
    for (i = 0; i < num_pipes; i++) {
        box_carry(&pipes[i], 0);
        box_carry(&pipes[i], 1);
    }
    (void)step(&left);
    (void)step(&right);
    for (; *num_greeted < right.num_links; (*num_greeted)++) { /* who was accepted speaks at once */
        cw_tcp_watch(right.links[*num_greeted].conn);
        send_all(&right.links[*num_greeted]);
    }
}

static void open_nodes(void)
{
    struct node *nodes[2] = {&left, &right};
    unsigned i;

    for (i = 0; i < 2; i++) {
        node_configure(nodes[i]);
        nodes[i]->config.keepalive_interval_ns = INTERVAL_NS;
        assert_int_equal(node_try_open(nodes[i], NULL), UCS_OK);
    }
    box_open();
}

static void close_nodes(void)
{
    node_close(&left);
    node_close(&right);
    box_close();
}

/* One connection for each plan; all must end at both sides, in time. */
static void all_end(const struct pipe *plans, unsigned count)
{
    const uint64_t end = cw_clock_ns() + BOUND_NS;
    unsigned i, ended = 0, greeted = 0, said = 0, all = 0;

    assert_true(count <= TRIALS);
    open_nodes();
    for (i = 0; i < count; i++) { /* one after the other, so that the box tells them from each other */
        pipes[i] = plans[i];
        cw_tcp_watch(dial(&left, &right)->conn);
        while (num_pipes == i) {
            turn(&greeted);
        }
    }
    while ((ended < count || ended + all < count + right.num_links) && cw_clock_ns() < end) {
        turn(&greeted);
        for (ended = all = i = 0; i < count; i++) {
            if (left.links[i].opened && left.links[i].opened_status == UCS_OK && !(said & 1u << i) &&
                left.links[i].closed_status == UCS_INPROGRESS) {
                said |= 1u << i;
                send_all(&left.links[i]);
            }
            ended += (unsigned)has_ended(&left.links[i]);
        }
        for (i = 0; i < right.num_links; i++) {
            all += (unsigned)has_ended(&right.links[i]);
        }
    }
    for (i = 0; i < count; i++) {
        if (!has_ended(&left.links[i])) {
            fail_msg("%zu bytes lost or %zu added at byte %zu of what the %s says: nobody noticed", plans[i].lose,
                     plans[i].add, plans[i].at, plans[i].direction ? "acceptor" : "dialler");
        }
    }
    if (all < right.num_links) {
        fail_msg("%u of %u acceptors still wait", right.num_links - all, right.num_links);
    }
    close_nodes();
}

/* Greeting and answer have 21 bytes, each packet 316. */
static void plan(struct pipe *plans, size_t lose, size_t add, size_t from, size_t stride)
{
    unsigned i;

    for (i = 0; i < TRIALS / 2; i++) {
        plans[i] = (struct pipe){.direction = (int)(i & 1), .at = from + (i / 2) * stride, .lose = lose, .add = add};
    }
}

static void test_greeting_loses_bytes(void **state)
{
    struct pipe plans[TRIALS];

    (void)state;
    plan(plans, 1, 0, 0, 3);
    plan(plans + TRIALS / 2, 21, 0, 0, 3); /* all of it, or its end and some of what follows */
    all_end(plans, TRIALS);
}

static void test_packets_lose_bytes(void **state)
{
    struct pipe plans[TRIALS];

    (void)state;
    plan(plans, 1, 0, 22, 47);
    plan(plans + TRIALS / 2, 30, 0, 25, 80);
    all_end(plans, TRIALS);
}

static void test_packets_are_lost_or_grow(void **state)
{
    struct pipe plans[TRIALS];

    (void)state;
    plan(plans, 316, 0, 21, 52); /* as long as a packet; at first and at last exactly one */
    plan(plans + TRIALS / 2, 0, 5, 2, 90);
    all_end(plans, TRIALS);
}

/* Whole packets, and nothing of them is left. */
static void test_all_is_lost(void **state)
{
    struct pipe plans[4] = {{.direction = 0, .at = 21, .lose = 632},
                            {.direction = 1, .at = 21, .lose = 632},
                            {.direction = 0, .at = 337, .lose = 316},
                            {.direction = 1, .at = 337, .lose = 316}};

    (void)state;
    all_end(plans, 4);
}

/* A side that does nothing for long, with a packet half said and half heard, is not taken for a middle box. */
static void test_patience(void **state)
{
    static uint8_t large[60000];
    const struct iovec iov = {large, sizeof(large)};
    struct wait wait[64];
    struct link *dialled, *accepted;
    unsigned i, sent = 0, packets;
    uint64_t end;

    (void)state;
    for (i = 0; i < 2; i++) {
        node_configure(i ? &right : &left);
    }
    left.config.keepalive_interval_ns = right.config.keepalive_interval_ns = INTERVAL_NS;
    left.config.tcp_sndbuf = right.config.tcp_rcvbuf = 4608;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    cw_tcp_watch(dialled->conn);
    cw_tcp_watch(accepted->conn);
    for (i = 0; i < 64 && sent == i; i++) {
        wait[i] = (struct wait)WAIT_INIT;
        sent += tcp->packets->send_zcopy(dialled->conn, 1, "12345678", 8, &iov, 1, &wait[i].completion) != CW_AGAIN;
    }
    assert_non_null(tcp_conn(dialled)->tx);
    for (end = cw_clock_ns() + INTERVAL_NS / 10 * 12; cw_clock_ns() < end;) {
        step(&right); /* inside of a packet, and tells so */
    }
    packets = accepted->packets;
    DRIVE_UNTIL(&left, &right, accepted->packets == sent);
    assert_true(packets < sent);
    drive_for_ms(&left, &right, 600);
    for (end = cw_clock_ns() + INTERVAL_NS / 10 * 12; cw_clock_ns() < end;) {
        step(&left); /* asks a side that does not listen */
    }
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, "x", 1), UCS_OK);
    DRIVE_UNTIL(&left, &right, accepted->packets == sent + 1);
    drive_for_ms(&left, &right, 700);
    assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
    assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
    node_close(&left);
    node_close(&right);
}

/* Puts `count` frames by which the dialler tells that it waits into the socket, at once. */
static void tell_waits(struct link *dialled, unsigned count)
{
    struct cw_tcp_conn *conn         = tcp_conn(dialled);
    struct cw_tcp_position_body body = {.kind = CW_TCP_POSITION_WAITS, .taken = htole32(conn->received)};
    uint8_t frames[4 * (CW_TCP_FRAME_HEADER + sizeof(body))];
    size_t length = 0;
    unsigned i;

    assert_true(count <= 4);
    for (i = 0; i < count; i++) {
        body.sent = htole32(conn->sent + (uint32_t)length);
        cw_tcp_frame_encode(frames + length, CW_TCP_MARK, 0, sizeof(body));
        memcpy(frames + length + CW_TCP_FRAME_HEADER, &body, sizeof(body));
        length += CW_TCP_FRAME_HEADER + sizeof(body);
    }
    say(conn->item.fd, frames, length);
    conn->sent += (uint32_t)length;
}

/* A dialler tells several times that it waits, while its peer's processor is busy elsewhere. The peer then answers, and
 * handles all of these frames in one millisecond, at any part of it. */
static void test_told_at_once(void **state)
{
    struct link *dialled, *accepted;
    unsigned i;

    (void)state;
    node_open(&left);
    node_open(&right);
    dialled = connect_nodes(&left, &right, &accepted);
    for (i = 0; i < 200; i++) {
        assert_int_equal(tcp->packets->send_short(accepted->conn, 1, 0, "x", 1), UCS_OK);
        tell_waits(dialled, 3);
        (void)step(&right);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
        DRIVE_UNTIL(&left, &right, dialled->packets == i + 1);
    }
    node_close(&left);
    node_close(&right);
}

/* How many questions a connection asks that has sent bytes, so long after its peer told that it waits. */
static uint32_t num_asked(uint64_t later_ns)
{
    struct link *dialled, *accepted;
    struct cw_tcp_watch *watch;
    uint32_t number;
    unsigned i;

    for (i = 0; i < 2; i++) {
        node_configure(i ? &right : &left);
        (i ? &right : &left)->config.keepalive_interval_ns = UINT64_C(60000000000); /* no look comes by itself */
        assert_int_equal(node_try_open(i ? &right : &left, NULL), UCS_OK);
    }
    dialled = connect_nodes(&left, &right, &accepted);
    cw_tcp_watch(accepted->conn);
    assert_int_equal(tcp->packets->send_short(accepted->conn, 1, 0, "x", 1), UCS_OK);
    tell_waits(dialled, 1);
    for (i = 0; i < 100; i++) {
        (void)step(&right);
    }
    watch = tcp_conn(accepted)->watch;
    for (i = 0; i < 8; i++) {
        (void)cw_tcp_position_look(watch, cw_clock_ns() + later_ns, 0);
    }
    number = watch->number;
    node_close(&left);
    node_close(&right);
    return number;
}

/* A peer that waited once is not asked for a while, and asked again after that, however long that is. */
static void test_waited_long_ago(void **state)
{
    const uint64_t day_ns        = UINT64_C(24) * 3600 * 1000000000;
    static const unsigned days[] = {1, 24, 25, 30, 49, 50, 51, 75, 100, 400, 20000};

    (void)state;
    assert_int_equal(num_asked(0), 0);
    for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
        assert_in_range(num_asked(days[i] * day_ns), 1, 8);
    }
}

/* Frames of this kind that are none. */
static void test_wrong_positions(void **state)
{
    uint8_t frame[CW_TCP_FRAME_HEADER + 24];
    struct link *dialled, *accepted;
    unsigned i;

    (void)state;
    for (i = 0; i < 6; i++) {
        struct cw_tcp_position_body body = {.kind = CW_TCP_POSITION_ASKS};

        node_open(&left);
        node_open(&right);
        dialled     = connect_nodes(&left, &right, &accepted);
        body.sent   = htole32(tcp_conn(dialled)->sent + (i == 0));
        body.taken  = htole32(tcp_conn(dialled)->received + (i == 1));
        body.kind   = (uint8_t)(body.kind + ((i == 2) ? 3 : 0));
        body.inside = (i == 3) ? 2 : 0;
        body.reserved[1] = i == 4;
        cw_tcp_frame_encode(frame, CW_TCP_MARK, 0, sizeof(body) + (i == 5));
        memcpy(frame + CW_TCP_FRAME_HEADER, &body, sizeof(body));
        say(tcp_conn(dialled)->item.fd, frame, CW_TCP_FRAME_HEADER + sizeof(body));
        DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        node_close(&left);
        node_close(&right);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting_loses_bytes), cmocka_unit_test(test_packets_lose_bytes),
        cmocka_unit_test(test_packets_are_lost_or_grow), cmocka_unit_test(test_all_is_lost),
        cmocka_unit_test(test_patience),             cmocka_unit_test(test_told_at_once),
        cmocka_unit_test(test_wrong_positions),      cmocka_unit_test(test_waited_long_ago),
    };

    return cmocka_run_group_tests_name("unit.tcp_position", tests, NULL, NULL);
}
