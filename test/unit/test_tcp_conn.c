/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes over connections of the TCP transport, over real sockets: packets by every kind of send through buffers of
 * any size, a close with bytes under way (CLS-5), loss of the peer, and what an idle connection holds. Most tests begin
 * with a connection between two nodes. How it comes about is in test_tcp_dial.c.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp_pair.h"

struct pattern {
    uint32_t seed;
    size_t length;
};

static void fill(uint8_t *to, size_t length, uint32_t seed)
{
    size_t i;

    for (i = 0; i < length; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (uint8_t)(seed >> 24);
    }
}

static size_t pack_pattern(void *dest, size_t max, void *arg)
{
    const struct pattern *pattern = arg;

    assert_true(pattern->length <= max);
    fill(dest, pattern->length, pattern->seed);
    return pattern->length;
}

/* Sends packet number i of a stream that mixes all kinds. What is sent is written down on `sent`. */
static ucs_status_t send_one(struct link *from, unsigned i, struct link *sent, struct wait *wait, uint8_t *memory)
{
    static uint8_t buffer[CW_TCP_PACKET_MAX];
    const uint8_t id = (uint8_t)i;
    struct pattern pattern = {.seed = i, .length = (i * 977u) % 8193u};
    const uint64_t header = i;
    struct iovec iov[3];
    ucs_status_t status;
    size_t length = 0;

    switch (i % 3) {
    case 0:
        length = i % 2049u;
        fill(buffer, length, i);
        status = tcp->packets->send_short(from->conn, id, header, buffer, length);
        memmove(buffer + 8, buffer, length);
        memcpy(buffer, &header, 8);
        length += 8;
        break;
    case 1:
        status = tcp->packets->send_bcopy(from->conn, id, 8192, pack_pattern, &pattern);
        length = pack_pattern(buffer, sizeof(buffer), &pattern);
        break;
    default:
        length = (i * 7919u) % (CW_TCP_PACKET_MAX - 8u);
        fill(memory, length, i);
        iov[0] = (struct iovec){memory, length / 3};
        iov[1] = (struct iovec){memory + length / 3, 0};
        iov[2] = (struct iovec){memory + length / 3, length - length / 3};
        *wait = (struct wait)WAIT_INIT;
        status = tcp->packets->send_zcopy(from->conn, id, &header, 8, iov, 3, &wait->completion);
        memcpy(buffer, &header, 8);
        memcpy(buffer + 8, memory, length);
        length += 8;
        break;
    }
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        put_packet(&sent->bytes, &sent->length, id, buffer, length);
    }
    return status;
}

/* Everything arrives, once and in order, whatever the kernel takes at a time. */
static void stream(size_t sndbuf, size_t rcvbuf, unsigned packets)
{
    static uint8_t memory[CW_TCP_PACKET_MAX];
    struct link sent = {0};
    struct wait zcopy_wait = WAIT_INIT, flush_wait = WAIT_INIT;
    unsigned i = 0, again = 0, zcopies = 0;
    ucs_status_t status;

    node_configure(&left);
    node_configure(&right);
    left.config.tcp_sndbuf = right.config.tcp_sndbuf = sndbuf;
    left.config.tcp_rcvbuf = right.config.tcp_rcvbuf = rcvbuf;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    while (i < packets) {
        status = send_one(dialled, i, &sent, &zcopy_wait, memory);
        if (status == CW_AGAIN) {
            const unsigned rooms = dialled->rooms;

            again++;
            DRIVE_UNTIL(&left, &right, dialled->rooms > rooms);
            continue;
        }
        i++;
        if (status == UCS_INPROGRESS) {
            zcopies++;
            DRIVE_UNTIL(&left, &right, zcopy_wait.status != UCS_INPROGRESS); /* the memory is used again */
            assert_int_equal(zcopy_wait.status, UCS_OK);
        } else {
            assert_int_equal(status, UCS_OK);
        }
    }
    status = tcp->packets->flush(dialled->conn, &flush_wait.completion);
    if (status != UCS_OK) {
        assert_int_equal(status, UCS_INPROGRESS);
        DRIVE_UNTIL(&left, &right, flush_wait.status == UCS_OK);
    }
    assert_null(tcp_conn(dialled)->tx);
    DRIVE_UNTIL(&left, &right, accepted->packets == packets);
    assert_int_equal(accepted->length, sent.length);
    assert_memory_equal(accepted->bytes, sent.bytes, sent.length);
    if (sndbuf == TINY) {
        assert_true(again > 0 && zcopies > 0);
    }
    test_free(sent.bytes);
    both_end();
}

TEST_WITH(test_everything_arrives_once_in_order, nothing, NULL)
{
    stream(CW_MEMUNITS_AUTO, CW_MEMUNITS_AUTO, 900);
}

TEST_WITH(test_everything_arrives_through_tiny_buffers, nothing, NULL)
{
    stream(TINY, TINY, 300);
}

/* Fills the connection until it takes no more; nothing moves on the other side. */
static unsigned fill_up(struct link *link, struct link *sent)
{
    static uint8_t memory[CW_TCP_PACKET_MAX];
    struct wait wait;
    unsigned i = 0;

    while (send_one(link, i * 3 + 1, sent, &wait, memory) == UCS_OK) {
        i++;
    }
    return i;
}

TEST_WITH(test_cls5_a_close_delivers_what_was_sent, connected_tiny, NULL)
{
    struct link sent = {0};
    struct wait waits[CW_TCP_MAX_FLUSHES + 1];
    unsigned packets, i;

    assert_false(tcp->packets->has_unsent(left.iface));
    packets = fill_up(dialled, &sent);
    assert_true(packets > 0);
    assert_true(tcp->packets->has_unsent(left.iface));
    /* bytes for the closer that it will never read must not make the kernel destroy what it sent (CLS-5) */
    assert_int_equal(tcp->packets->send_short(accepted->conn, 1, 1, "unread", 6), UCS_OK);
    for (i = 0; i <= CW_TCP_MAX_FLUSHES; i++) {
        waits[i] = (struct wait)WAIT_INIT;
        assert_int_equal(tcp->packets->flush(dialled->conn, &waits[i].completion),
                         (i < CW_TCP_MAX_FLUSHES) ? UCS_INPROGRESS : CW_AGAIN);
    }
    link_close(dialled);
    for (i = 0; i < CW_TCP_MAX_FLUSHES; i++) {
        assert_int_equal(waits[i].status, UCS_ERR_CANCELED);
        assert_int_equal(waits[i].times, 1);
    }
    assert_int_equal(waits[CW_TCP_MAX_FLUSHES].times, 0);
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    assert_int_equal(accepted->closed_status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(accepted->packets, packets);
    assert_memory_equal(accepted->bytes, sent.bytes, sent.length);
    assert_int_equal(tcp->packets->send_short(accepted->conn, 1, 0, NULL, 0), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(tcp->packets->flush(accepted->conn, &waits[0].completion), UCS_ERR_CONNECTION_RESET);
    DRIVE_UNTIL(&left, &right, tcp_of(&left)->num_lingering == 0);
    test_free(sent.bytes);
    both_end();
}

/* A peer that lives and does not read: what the system has is its business after a while, and the descriptor goes. */
TEST_WITH(test_a_close_waits_for_a_stalled_peer_for_a_while_only, connected_tiny, NULL)
{
    static const uint8_t block[2000];
    const int larger = 200000;
    struct cw_tcp_conn *conn;
    unsigned sent = 0;

    conn = tcp_conn(dialled);
    do { /* until the system takes no more, since the peer's has no room, either; then it is given room for the rest */
        assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, block, sizeof(block)), UCS_OK);
        sent++;
    } while (conn->tx == NULL);
    assert_int_equal(setsockopt(conn->item.fd, SOL_SOCKET, SO_SNDBUF, &larger, sizeof(larger)), 0);
    DRIVE_UNTIL(&left, &left, conn->tx == NULL);
    assert_true(cw_net_unacknowledged(conn->item.fd) > 0);
    link_close(dialled);
    assert_int_equal(tcp_of(&left)->num_lingering, 1);
    assert_in_range(conn->deadline_ns, cw_clock_ns(), cw_clock_ns() + CW_TCP_LINGER_NS);
    assert_int_equal(tcp_of(&left)->linger_deadline.at_ns, conn->deadline_ns);
    cw_poller_alarm_set(left.poller, &tcp_of(&left)->linger_deadline, 1);
    step(&left);
    assert_int_equal(tcp_of(&left)->num_lingering, 1); /* it was too early */
    assert_int_equal(tcp_of(&left)->linger_deadline.at_ns, conn->deadline_ns);
    conn->deadline_ns = cw_clock_ns();
    cw_poller_alarm_set(left.poller, &tcp_of(&left)->linger_deadline, conn->deadline_ns);
    DRIVE_UNTIL(&left, &left, tcp_of(&left)->num_lingering == 0);
    assert_false(cw_alarm_is_set(&tcp_of(&left)->linger_deadline));
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    assert_int_equal(accepted->closed_status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(accepted->packets, sent); /* nothing of it was lost */
    both_end();
}

/* The iface itself ends while the peer does not read, and sends. */
TEST_WITH(test_cls5_the_end_of_an_interface_delivers_what_was_sent, connected, NULL)
{
    struct link sent = {0};
    unsigned packets;

    for (packets = 0; packets < 40; packets++) {
        assert_int_equal(send_one(dialled, packets * 3, &sent, NULL, NULL), UCS_OK);
    }
    assert_int_equal(tcp->packets->send_short(accepted->conn, 1, 1, "unread", 6), UCS_OK);
    node_close(&left);
    assert_true(tcp->packets->send_short(accepted->conn, 1, 1, "late", 4) == UCS_OK);
    while (accepted->closed_status == UCS_INPROGRESS) {
        step(&right);
    }
    assert_int_equal(accepted->packets, packets);
    assert_memory_equal(accepted->bytes, sent.bytes, sent.length);
    test_free(sent.bytes);
    node_close(&right);
}

TEST_WITH(test_a_close_cancels_sends_from_user_memory, connected_tiny, NULL)
{
    static uint8_t memory[CW_TCP_PACKET_MAX];
    struct link sent = {0};
    struct wait wait = WAIT_INIT;
    unsigned i;

    for (i = 0; send_one(dialled, i * 3 + 2, &sent, &wait, memory) == UCS_OK; i++) {
    }
    assert_int_equal(wait.status, UCS_INPROGRESS);
    link_close(dialled);
    assert_int_equal(wait.status, UCS_ERR_CANCELED);
    assert_int_equal(wait.times, 1);
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    assert_int_equal(accepted->packets, i); /* those before it are whole */
    test_free(sent.bytes);
    both_end();
}

/* The peer's process dies: what it sent is handed up, completions end once, and no signal is raised. */
TEST_WITH(test_a_lost_peer_ends_each_completion_once, connected, NULL)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct link sent = {0};
    struct wait wait = WAIT_INIT;
    unsigned i;

    (void)fill_up(dialled, &sent);
    assert_int_equal(tcp->packets->flush(dialled->conn, &wait.completion), UCS_INPROGRESS);
    for (i = 0; i < 10; i++) {
        assert_int_equal(tcp->packets->send_short(accepted->conn, 5, i, NULL, 0), UCS_OK);
    }
    assert_int_equal(setsockopt(tcp_conn(accepted)->item.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    cw_tcp_conn_drop_fd(tcp_conn(accepted));
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, NULL, 0),
                     CW_AGAIN); /* not known yet: the buffer is full */
    while (dialled->closed_status == UCS_INPROGRESS) {
        step(&left);
    }
    assert_int_equal(dialled->closed_status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(dialled->packets, 10);
    assert_int_equal(wait.status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(wait.times, 1);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, NULL, 0), UCS_ERR_CONNECTION_RESET);
    test_free(sent.bytes);
    both_end();
}

/* A send finds the connection broken; what had arrived is handed up before `closed`, and arm does not let the worker
 * sleep over it. */
TEST_WITH(test_what_arrived_is_handed_up_before_a_loss, connected, NULL)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};

    assert_int_equal(tcp->arm(left.iface), UCS_OK);
    assert_int_equal(tcp->packets->send_short(accepted->conn, 5, 1, "last words", 10), UCS_OK);
    assert_int_equal(setsockopt(tcp_conn(accepted)->item.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    cw_tcp_conn_drop_fd(tcp_conn(accepted));
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, NULL, 0), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
    assert_int_equal(tcp->arm(left.iface), UCS_ERR_BUSY);
    step(&left);
    assert_int_equal(dialled->packets, 1);
    assert_int_equal(dialled->closed_status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(tcp->arm(left.iface), UCS_OK);
    both_end();
}

/* A connection that is not in use owns no buffers, and is not received from directly after a while. */
TEST_WITH(test_an_idle_connection_owns_no_buffers, connected, NULL)
{
    unsigned i;

    for (i = 0; i < 100; i++) {
        assert_int_equal(tcp->packets->send_short(dialled->conn, 1, i, "ping", 4), UCS_OK);
        DRIVE_UNTIL(&left, &right, accepted->packets == i + 1);
    }
    assert_ptr_equal(tcp_of(&right)->hot, tcp_conn(accepted));
    for (i = 0; i < CW_TCP_MAX_FRUITLESS + 1; i++) {
        step(&right);
    }
    assert_null(tcp_of(&right)->hot);
    assert_null(tcp_conn(accepted)->tx);
    assert_null(tcp_conn(dialled)->tx);
    assert_null(tcp_conn(accepted)->rx_frame);
    assert_null(tcp_conn(accepted)->handshake);
    assert_true(sizeof(struct cw_tcp_conn) <= 240);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, i, "ping", 4), UCS_OK);
    DRIVE_UNTIL(&left, &right, accepted->packets == 101);
    both_end();
}

static void assert_probed(struct link *link, int idle_s)
{
    const int fd = tcp_conn(link)->item.fd;
    socklen_t length = sizeof(int);
    int value = -1;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &length), 0);
    assert_int_equal(value, idle_s > 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &length), 0);
    assert_true(idle_s == 0 || value == idle_s);
}

static unsigned limit_of(const struct link *link)
{
    return (unsigned)cw_net_user_timeout(cw_tcp_conn_of(link->conn)->item.fd);
}

/* N23-73: the limit for unacknowledged bytes that the settings give stands at both ends, and comes back when the system
 * no longer watches for a sleeping program, unless it is the shorter one. */
TEST_WITH(test_n23_73_limit_for_unacknowledged_bytes, nothing, NULL)
{
    static const struct {
        uint64_t given_s;
        unsigned by_itself_ms, asleep_ms;
    } cases[] = {{0, 0, 20000}, {7, 7000, 7000}, {40, 40000, 20000}};
    struct cw_tcp_iface *iface;
    struct cw_tcp_conn *conn;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        node_configure(&left);
        node_configure(&right);
        left.config.keepalive_interval_ns = UINT64_C(20000000000);
        left.config.tcp_user_timeout_ns = cases[i].given_s * 1000000000;
        right.config.tcp_user_timeout_ns = cases[i].given_s * 1000000000;
        assert_int_equal(node_try_open(&left, NULL), UCS_OK);
        assert_int_equal(node_try_open(&right, NULL), UCS_OK);
        dialled = connect_nodes(&left, &right, &accepted);
        assert_int_equal(limit_of(dialled), cases[i].by_itself_ms);
        assert_int_equal(limit_of(accepted), cases[i].by_itself_ms);
        conn = cw_tcp_conn_of(dialled->conn);
        iface = cw_tcp_iface_of(dialled->conn);
        tcp->connect->watch(dialled->conn);
        cw_tcp_watch_sends(conn);
        cw_tcp_watch_settle(iface);
        assert_int_equal(limit_of(dialled), cases[i].asleep_ms);
        cw_tcp_watch_sends(conn);
        assert_int_equal(limit_of(dialled), cases[i].by_itself_ms);
        both_end();
    }
}

/* A silent machine is noticed in the end although nobody watches, at both ends; not if the program wants no probes. */
TEST_WITH(test_a_silent_machine_is_probed_unless_unwanted, nothing, NULL)
{
    int round;

    for (round = 0; round < 3; round++) {
        node_configure(&left);
        node_configure(&right);
        left.config.keepalive_interval_ns = (round == 1) ? CW_TIME_INF : TIMEOUT_NS;
        left.config.tcp_keepidle_ns = (round == 2) ? CW_TIME_INF : TIMEOUT_NS / 2;
        right.config = left.config;
        assert_int_equal(node_try_open(&left, NULL), UCS_OK);
        assert_int_equal(node_try_open(&right, NULL), UCS_OK);
        dialled = connect_nodes(&left, &right, &accepted);
        assert_probed(dialled, (round == 0) ? 300 : 0);
        assert_probed(accepted, (round == 0) ? 300 : 0);
        if (round == 0) {
            tcp->connect->watch(accepted->conn);
            assert_probed(accepted, 10);
        }
        both_end();
    }
}

/* Connections that take turns are not received from directly. They answer from inside the upcall. */
TEST_WITH(test_connections_that_take_turns_are_served, opened, NULL)
{
    enum { count = 11 };
    struct link *dialled[count], *accepted;
    unsigned round, i;

    for (i = 0; i < count; i++) {
        dialled[i] = connect_nodes(&left, &right, &accepted);
        accepted->echo = 1;
    }
    for (round = 1; round <= 200; round++) {
        for (i = 0; i < count; i++) {
            assert_int_equal(tcp->packets->send_short(dialled[i]->conn, 1, i, "ping", 4), UCS_OK);
        }
        for (i = 0; i < count; i++) {
            DRIVE_UNTIL(&left, &right, dialled[i]->packets == round);
        }
        assert_null(tcp_of(&left)->hot);
    }
    node_close(&right);
    for (i = 0; i < count; i++) {
        while (dialled[i]->closed_status == UCS_INPROGRESS) {
            step(&left);
        }
    }
    node_close(&left);
}
