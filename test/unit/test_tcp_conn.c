/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the TCP transport over real sockets: greeting, refusal, packets by every kind of send through tiny
 * socket buffers, flush, close with bytes under way, loss of the peer, candidates, port ranges, what an idle connection
 * holds.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp.h"

#define TINY 4608u /* about the least that Linux gives a socket */

static const struct cw_transport *const tcp = &cw_tcp_transport;

struct pattern {
    uint32_t seed;
    size_t length;
};

static void fill(uint8_t *to, size_t length, uint32_t seed)
{
    size_t i;

    for (i = 0; i < length; i++) {
        seed  = seed * 1664525u + 1013904223u;
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

static void test_greeting(void **state)
{
    struct node left, right;
    struct link *dialled, *accepted;

    (void)state;
    node_open(&left);
    node_open(&right);
    right.try_send_in_accept = 1;
    dialled                  = connect_nodes(&left, &right, &accepted);
    assert_int_equal(dialled->hello_length, 5);
    assert_memory_equal(dialled->hello, "rrrrr", 5);
    assert_int_equal(accepted->hello_length, 5);
    assert_memory_equal(accepted->hello, "hello", 5);
    DRIVE_UNTIL(&left, &right, accepted->rooms == 1); /* what was tried too early can be tried again */
    assert_null(tcp_conn(dialled)->greeting);
    assert_null(tcp_conn(accepted)->greeting);
    node_close(&left);
    node_close(&right);
}

static void test_to_itself(void **state)
{
    struct link *dialled, *accepted;
    struct node node;

    (void)state;
    node_open(&node);
    dialled = connect_nodes(&node, &node, &accepted);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 3, 77, "abc", 3), UCS_OK);
    DRIVE_UNTIL(&node, &node, accepted->packets == 1);
    assert_int_equal(accepted->last_id, 3);
    node_close(&node);
}

static void test_refused(void **state)
{
    struct node left, right;
    struct link *dialled;

    (void)state;
    node_open(&left);
    node_open(&right);
    right.answer        = UCS_ERR_REJECTED;
    right.answer_length = CW_HELLO_MAX;
    dialled             = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_REJECTED);
    assert_int_equal(dialled->hello_length, CW_HELLO_MAX);
    assert_int_equal(right.num_links, 0);
    DRIVE_UNTIL(&left, &right, cw_list_empty(&tcp_of(&right)->lingering));
    assert_int_equal(tcp->packets->send_short(dialled->conn, 3, 0, NULL, 0), UCS_ERR_REJECTED);
    node_close(&left);
    node_close(&right);
}

/* Sends packet number i of a stream that mixes all kinds. What is sent is written down on `sent`. */
static ucs_status_t send_one(struct link *from, unsigned i, struct link *sent, struct wait *wait, uint8_t *memory)
{
    static uint8_t buffer[CW_TCP_PACKET_MAX];
    const uint8_t id        = (uint8_t)i;
    struct pattern pattern  = {.seed = i, .length = (i * 977u) % 8193u};
    const uint64_t header   = i;
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
        *wait  = (struct wait)WAIT_INIT;
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
    struct node left, right;
    struct link *dialled, *accepted;
    struct link sent       = {0};
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
    node_close(&left);
    node_close(&right);
}

static void test_stream(void **state)
{
    (void)state;
    stream(CW_MEMUNITS_AUTO, CW_MEMUNITS_AUTO, 900);
}

static void test_stream_tiny_buffers(void **state)
{
    (void)state;
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

static void test_close_delivers(void **state)
{
    struct node left, right;
    struct link *dialled, *accepted;
    struct link sent       = {0};
    struct wait waits[CW_TCP_MAX_FLUSHES + 1];
    unsigned packets, i;

    (void)state;
    node_configure(&left);
    node_configure(&right);
    left.config.tcp_sndbuf  = TINY;
    right.config.tcp_rcvbuf = TINY;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    assert_false(tcp->packets->owes(left.iface));
    packets = fill_up(dialled, &sent);
    assert_true(packets > 0);
    assert_true(tcp->packets->owes(left.iface));
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
    node_close(&left);
    node_close(&right);
}

/* A peer that lives and does not read: what the system has is its business after a while, and the descriptor goes. */
static void test_lingering_ends(void **state)
{
    static const uint8_t block[2000];
    const int larger = 200000;
    struct node left, right;
    struct link *dialled, *accepted;
    struct cw_tcp_conn *conn;
    unsigned sent = 0;

    (void)state;
    node_configure(&left);
    node_configure(&right);
    left.config.tcp_sndbuf  = TINY;
    right.config.tcp_rcvbuf = TINY;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    conn    = tcp_conn(dialled);
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
    node_close(&left);
    node_close(&right);
}

/* The iface itself ends while the peer both owes it an ear and talks to it. */
static void test_iface_close_delivers(void **state)
{
    struct node left, right;
    struct link *dialled, *accepted;
    struct link sent = {0};
    unsigned packets;

    (void)state;
    node_open(&left);
    node_open(&right);
    dialled = connect_nodes(&left, &right, &accepted);
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

static void test_close_cancels_zcopy(void **state)
{
    static uint8_t memory[CW_TCP_PACKET_MAX];
    struct node left, right;
    struct link *dialled, *accepted;
    struct link sent = {0};
    struct wait wait = WAIT_INIT;
    unsigned i;

    (void)state;
    node_configure(&left);
    node_configure(&right);
    left.config.tcp_sndbuf  = TINY;
    right.config.tcp_rcvbuf = TINY;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    for (i = 0; send_one(dialled, i * 3 + 2, &sent, &wait, memory) == UCS_OK; i++) {
    }
    assert_int_equal(wait.status, UCS_INPROGRESS);
    link_close(dialled);
    assert_int_equal(wait.status, UCS_ERR_CANCELED);
    assert_int_equal(wait.times, 1);
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    assert_int_equal(accepted->packets, i); /* those before it are whole */
    test_free(sent.bytes);
    node_close(&left);
    node_close(&right);
}

/* The peer's process dies: what it sent is handed up, completions end once, and no signal is raised. */
static void test_peer_lost(void **state)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct node left, right;
    struct link *dialled, *accepted;
    struct link sent = {0};
    struct wait wait = WAIT_INIT;
    unsigned i;

    (void)state;
    node_open(&left);
    node_open(&right);
    dialled = connect_nodes(&left, &right, &accepted);
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
    node_close(&left);
    node_close(&right);
}

/* A send finds the connection broken; what had arrived is handed up before `closed`, and arm does not let the worker
 * sleep over it. */
static void test_send_finds_loss(void **state)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct node left, right;
    struct link *dialled, *accepted;

    (void)state;
    node_open(&left);
    node_open(&right);
    dialled = connect_nodes(&left, &right, &accepted);
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
    node_close(&left);
    node_close(&right);
}

static void test_dial_nobody(void **state)
{
    struct node left, right;
    struct link *dialled;

    (void)state;
    node_open(&left);
    node_open(&right);
    node_close(&right); /* its address outlives it */
    dialled = dial(&left, &right);
    assert_false(dialled->opened);
    while (!dialled->opened) {
        step(&left);
    }
    assert_int_equal(dialled->opened_status, UCS_ERR_UNREACHABLE);
    node_close(&left);
}

/* The port went to another worker: its refusal leads to the next candidate and in the end to an error, never to the
 * wrong worker. */
static void test_dial_wrong_worker(void **state)
{
    struct node left, right;
    struct link *dialled;

    (void)state;
    node_open(&left);
    node_open(&right);
    right.address[10] ^= 1; /* the key */
    dialled = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(right.num_links, 0);
    node_close(&left);
    node_close(&right);
}

/* Somebody begins to answer and does not go on. */
static void test_dial_half_answered(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    uint8_t answer[CW_TCP_GREETING_SIZE + 8] = {0}, hello[CW_TCP_GREETING_SIZE];
    const int trap   = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof(name);
    struct cw_tcp_greeting *greeting;
    struct cw_tcp_address address;
    struct node left, right;
    struct link *dialled;
    int fd;

    (void)state;
    assert_int_equal(bind(trap, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(trap, 1), 0);
    assert_int_equal(getsockname(trap, (struct sockaddr *)&name, &length), 0);
    node_configure(&left);
    left.config.keepalive_interval_ns = CW_TIME_INF;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    node_open(&right);
    assert_null(cw_tcp_address_decode(right.address, right.address_length, &address));
    address.port    = ntohs(name.sin_port);
    address.listens = CW_TCP_LISTENS_IPV4;
    assert_int_equal(cw_tcp_address_encode(&address, right.address), right.address_length);
    dialled = dial(&left, &right);
    fd      = accept(trap, NULL, NULL);
    DRIVE_UNTIL(&left, &right, recv(fd, hello, sizeof(hello), MSG_DONTWAIT) == (ssize_t)sizeof(hello));
    greeting = tcp_conn(dialled)->greeting;
    assert_false(cw_alarm_is_set(&greeting->alarm));
    cw_tcp_greeting_encode(answer, CW_TCP_ACCEPTED, 8, address.key);
    assert_int_equal(send(fd, answer, sizeof(answer) - 1, 0), sizeof(answer) - 1);
    DRIVE_UNTIL(&left, &right, cw_alarm_is_set(&greeting->alarm));
    assert_in_range(greeting->alarm.at_ns, cw_clock_ns(), cw_clock_ns() + CW_TCP_HELLO_TIMEOUT_NS);
    assert_int_equal(close(trap), 0); /* the peer's other addresses */
    cw_poller_alarm_set(left.poller, &greeting->alarm, cw_clock_ns()); /* ten seconds later */
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_UNREACHABLE);
    assert_int_equal(close(fd), 0);
    node_close(&left);
    node_close(&right);
}

/* The first candidate is dead, the second works. */
static void test_next_candidate(void **state)
{
    static char *families[] = {"inet"};
    struct cw_tcp_address address;
    struct node left, right;
    struct link *dialled;

    (void)state;
    node_open(&left);
    node_configure(&right);
    right.config.tcp_af_prio.names = families;
    right.config.tcp_af_prio.count = 1;
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    tcp_of(&left)->local.loopback   = CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6;
    tcp_of(&left)->local.ipv6_first = 1;
    assert_null(cw_tcp_address_decode(right.address, right.address_length, &address));
    assert_int_equal(address.listens, CW_TCP_LISTENS_IPV4);
    address.listens |= CW_TCP_LISTENS_IPV6; /* which is not true */
    assert_int_equal(cw_tcp_address_encode(&address, right.address), right.address_length);
    dialled = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_OK);
    node_close(&left);
    node_close(&right);
}

static void test_close_while_dialling(void **state)
{
    struct node left, right;
    struct link *dialled;

    (void)state;
    node_open(&left);
    node_open(&right);
    dialled = dial(&left, &right);
    link_close(dialled);
    drive_for_ms(&left, &right, 20);
    assert_false(dialled->opened);
    dialled = dial(&left, &right);
    drive_for_ms(&left, &left, 5); /* connected and greeted, not answered */
    link_close(dialled);
    drive_for_ms(&left, &right, 20);
    assert_false(dialled->opened);
    node_close(&left);
    node_close(&right);
}

/* Two free neighbours below the range from which the system takes ports for others are found by trying. */
static void test_port_range(void **state)
{
    unsigned port = 20000u + (unsigned)getpid() % 10000u, tries;
    struct cw_tcp_address address;
    struct node nodes[3];

    (void)state;
    for (tries = 0;; tries++, port += 2) {
        assert_true(tries < 100);
        node_configure(&nodes[0]);
        nodes[0].config.tcp_port_range.first = port;
        nodes[0].config.tcp_port_range.last  = port + 1;
        nodes[1] = nodes[2] = nodes[0];
        if (node_try_open(&nodes[0], NULL) != UCS_OK) {
            continue;
        }
        if (node_try_open(&nodes[1], NULL) == UCS_OK) {
            break;
        }
        node_close(&nodes[0]);
    }
    assert_int_equal(node_try_open(&nodes[2], NULL), UCS_ERR_BUSY);
    assert_null(cw_tcp_address_decode(nodes[0].address, nodes[0].address_length, &address));
    assert_in_range(address.port, port, port + 1);
    node_close(&nodes[0]);
    assert_int_equal(node_try_open(&nodes[2], NULL), UCS_OK);
    node_close(&nodes[1]);
    node_close(&nodes[2]);
}

static void test_ipv6(void **state)
{
    static char *families[] = {"inet6"};
    char text[CW_NET_TEXT_MAX];
    struct node left, right;
    struct link *dialled, *accepted;

    (void)state;
    node_configure(&left);
    left.config.tcp_af_prio.names = families;
    left.config.tcp_af_prio.count = 1;
    right                         = left;
    if (tcp->query_devices(&left.config, NULL, 0) == 0) {
        skip(); /* no IPv6 address on this machine */
    }
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    cw_net_peer_text(tcp_conn(dialled)->item.fd, text);
    assert_int_equal(text[0], '[');
    node_close(&left);
    node_close(&right);
}

/* With loopback alone nobody from outside can reach the port. */
static void test_loopback_only(void **state)
{
    struct node left, right;
    struct link *dialled, *accepted;
    struct cw_tcp_address address;
    const char *why = NULL;

    (void)state;
    node_configure(&left);
    node_configure(&right);
    assert_int_equal(node_try_open(&left, "lo"), UCS_OK);
    assert_int_equal(node_try_open(&right, "lo"), UCS_OK);
    assert_null(cw_tcp_address_decode(left.address, left.address_length, &address));
    assert_int_equal(address.num_hosts, 0);
    dialled = connect_nodes(&left, &right, &accepted);
    assert_int_equal(dialled->opened_status, UCS_OK);
    right.address[5] ^= 1; /* another network namespace */
    assert_false(tcp->reachable(left.iface, right.address, right.address_length, &why));
    assert_non_null(strstr(why, "loopback"));
    node_close(&left);
    node_close(&right);
}

/* A connection that is not in use owns no buffers, and leaves the hot set after a while. */
static void test_idle(void **state)
{
    struct link *dialled, *accepted;
    struct node left, right;
    unsigned i;

    (void)state;
    node_open(&left);
    node_open(&right);
    dialled = connect_nodes(&left, &right, &accepted);
    for (i = 0; i < 100; i++) {
        assert_int_equal(tcp->packets->send_short(dialled->conn, 1, i, "ping", 4), UCS_OK);
        DRIVE_UNTIL(&left, &right, accepted->packets == i + 1);
    }
    assert_true(tcp_conn(accepted)->is_hot);
    for (i = 0; i < CW_TCP_MAX_FRUITLESS + 1; i++) {
        step(&right);
    }
    assert_false(tcp_conn(accepted)->is_hot);
    assert_null(tcp_conn(accepted)->tx);
    assert_null(tcp_conn(dialled)->tx);
    assert_null(tcp_conn(accepted)->rx_frame);
    assert_null(tcp_conn(accepted)->greeting);
    assert_true(sizeof(struct cw_tcp_conn) <= 256);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, i, "ping", 4), UCS_OK);
    DRIVE_UNTIL(&left, &right, accepted->packets == 101);
    assert_true(tcp_conn(accepted)->is_hot);
    node_close(&left);
    node_close(&right);
}

static void assert_probed(struct link *link, int idle_s)
{
    const int fd     = tcp_conn(link)->item.fd;
    socklen_t length = sizeof(int);
    int value        = -1;

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &length), 0);
    assert_int_equal(value, idle_s > 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &length), 0);
    assert_true(idle_s == 0 || value == idle_s);
}

/* A silent machine is noticed in the end although nobody watches, at both ends; not if the program wants no probes. */
static void test_patience(void **state)
{
    struct node left, right;
    struct link *dialled, *accepted;
    int round;

    (void)state;
    for (round = 0; round < 3; round++) {
        node_configure(&left);
        node_configure(&right);
        left.config.keepalive_interval_ns = (round == 1) ? CW_TIME_INF : TIMEOUT_NS;
        left.config.tcp_keepidle_ns       = (round == 2) ? CW_TIME_INF : TIMEOUT_NS / 2;
        right.config                      = left.config;
        assert_int_equal(node_try_open(&left, NULL), UCS_OK);
        assert_int_equal(node_try_open(&right, NULL), UCS_OK);
        dialled = connect_nodes(&left, &right, &accepted);
        assert_probed(dialled, (round == 0) ? 300 : 0);
        assert_probed(accepted, (round == 0) ? 300 : 0);
        if (round == 0) {
            tcp->connect->watch(accepted->conn);
            assert_probed(accepted, 10);
        }
        node_close(&left);
        node_close(&right);
    }
}

/* More active connections than the hot set holds, answering from inside the upcall. */
static void test_many(void **state)
{
    struct link *dialled[CW_TCP_MAX_HOT + 3], *accepted;
    const unsigned count = CW_TCP_MAX_HOT + 3;
    struct node left, right;
    unsigned round, i;

    (void)state;
    node_open(&left);
    node_open(&right);
    for (i = 0; i < count; i++) {
        dialled[i]     = connect_nodes(&left, &right, &accepted);
        accepted->echo = 1;
    }
    for (round = 1; round <= 200; round++) {
        for (i = 0; i < count; i++) {
            assert_int_equal(tcp->packets->send_short(dialled[i]->conn, 1, i, "ping", 4), UCS_OK);
        }
        for (i = 0; i < count; i++) {
            DRIVE_UNTIL(&left, &right, dialled[i]->packets == round);
        }
        assert_true(tcp_of(&left)->num_hot <= CW_TCP_MAX_HOT);
    }
    node_close(&right);
    for (i = 0; i < count; i++) {
        while (dialled[i]->closed_status == UCS_INPROGRESS) {
            step(&left);
        }
    }
    node_close(&left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting),
        cmocka_unit_test(test_to_itself),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_tiny_buffers),
        cmocka_unit_test(test_close_delivers),
        cmocka_unit_test(test_lingering_ends),
        cmocka_unit_test(test_iface_close_delivers),
        cmocka_unit_test(test_close_cancels_zcopy),
        cmocka_unit_test(test_peer_lost),
        cmocka_unit_test(test_send_finds_loss),
        cmocka_unit_test(test_dial_nobody),
        cmocka_unit_test(test_dial_wrong_worker),
        cmocka_unit_test(test_dial_half_answered),
        cmocka_unit_test(test_next_candidate),
        cmocka_unit_test(test_close_while_dialling),
        cmocka_unit_test(test_port_range),
        cmocka_unit_test(test_ipv6),
        cmocka_unit_test(test_loopback_only),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
