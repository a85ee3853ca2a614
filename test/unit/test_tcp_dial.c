/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How connections of the TCP transport come about, over real sockets: handshake and refusal, candidates that are dead,
 * another worker's or silent, and what settings of ports, families and devices allow. Most tests begin with two nodes
 * that do not know each other.
 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_log_lines.h"
#include "test_tcp_pair.h"

TEST_WITH(test_both_sides_get_a_handshake, opened, NULL)
{
    right.try_send_in_accept = 1;
    dialled = connect_nodes(&left, &right, &accepted);
    assert_int_equal(dialled->hello_length, 5);
    assert_memory_equal(dialled->hello, "rrrrr", 5);
    assert_int_equal(accepted->hello_length, 5);
    assert_memory_equal(accepted->hello, "hello", 5);
    DRIVE_UNTIL(&left, &right, accepted->rooms == 1); /* what was tried too early can be tried again */
    assert_null(tcp_conn(dialled)->handshake);
    assert_null(tcp_conn(accepted)->handshake);
    both_end();
}

TEST_WITH(test_a_node_dials_itself, nothing, NULL)
{
    struct node node;

    node_open(&node);
    dialled = connect_nodes(&node, &node, &accepted);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 3, 77, "abc", 3), UCS_OK);
    DRIVE_UNTIL(&node, &node, accepted->packets == 1);
    assert_int_equal(accepted->last_id, 3);
    node_close(&node);
}

TEST_WITH(test_a_refusal_reaches_the_dialler, opened, NULL)
{
    right.answer = UCS_ERR_REJECTED;
    right.answer_length = CW_HELLO_MAX;
    dialled = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_REJECTED);
    assert_int_equal(dialled->hello_length, CW_HELLO_MAX);
    assert_int_equal(right.num_links, 0);
    DRIVE_UNTIL(&left, &right, cw_list_empty(&tcp_of(&right)->lingering));
    assert_int_equal(tcp->packets->send_short(dialled->conn, 3, 0, NULL, 0), UCS_ERR_REJECTED);
    both_end();
}

TEST_WITH(test_a_dial_of_nobody_is_unreachable, opened, NULL)
{
    node_close(&right); /* its address outlives it */
    dialled = dial(&left, &right);
    assert_false(dialled->opened);
    while (!dialled->opened) {
        step(&left);
    }
    assert_int_equal(dialled->opened_status, UCS_ERR_UNREACHABLE);
    assert_non_null(strstr(dialled->conn->end, "check that its process runs"));
    node_close(&left);
}

/* Nobody is sent to a firewall where no address could be dialled: the reason is logged. */
TEST_WITH(test_a_peer_without_an_address_is_logged, opened, NULL)
{
    struct cw_tcp_address address;

    assert_null(cw_tcp_address_decode(right.address, right.address_length, &address));
    address.num_hosts = 0;
    address.netns++;
    right.address_length = cw_tcp_address_encode(&address, right.address);
    dialled = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_NO_DEVICE);
    assert_non_null(strstr(dialled->conn->end, "it is on another host"));
    assert_null(strstr(dialled->conn->end, "firewall"));
    both_end();
}

/* The port went to another worker: its refusal leads to the next candidate and in the end to an error, never to the
 * wrong worker. */
TEST_WITH(test_a_dial_never_reaches_the_wrong_worker, opened, NULL)
{
    right.address[10] ^= 1; /* the key */
    dialled = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_CONNECTION_RESET);
    assert_non_null(strstr(dialled->conn->end, "see the log of its process"));
    assert_null(strstr(dialled->conn->end, "firewall"));
    assert_int_equal(right.num_links, 0);
    both_end();
}

/* A socket of the test at which nobody answers by himself; its port in *port. */
static int trap_open(uint16_t *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t length = sizeof(name);
    const int trap = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(trap, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(trap, 1), 0);
    assert_int_equal(getsockname(trap, (struct sockaddr *)&name, &length), 0);
    *port = ntohs(name.sin_port);
    return trap;
}

/* NB-97: nobody knows whether a silent server computes or speaks another protocol; the log says both, once. */
TEST_WITH(test_a_silent_server_is_logged, nothing, NULL)
{
    static char *devices[] = {"all"};
    struct cw_net_address to = {.family = CW_NET_IPV4, .bytes = {127, 0, 0, 1}};
    struct link *link;
    int trap, fd;

    trap = trap_open(&to.port);
    node_configure(&left);
    left.config.net_devices.names = devices;
    left.config.net_devices.count = 1;
    left.config.connect_timeout_ns = UINT64_C(20000000);
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    node_open(&right);
    link = new_link(&left);
    log_count_begin();
    assert_int_equal(tcp->cm->dial_to(left.iface, &to, NULL, "hello", 5, link, &link->conn), UCS_OK);
    fd = accept(trap, NULL, NULL);
    DRIVE_UNTIL(&left, &right, log_lines == 1);
    log_count_end();
    assert_non_null(strstr(log_text, "no handshake from the server"));
    assert_false(link->opened);
    assert_int_equal(close(trap) | close(fd), 0);
    both_end();
}

/* N23-73: connections by socket address have a limit of their own, at both ends. */
TEST_WITH(test_n23_73_limit_by_socket_address, nothing, NULL)
{
    static char *devices[] = {"all"};
    struct cw_net_address to = {.family = CW_NET_IPV4, .bytes = {127, 0, 0, 1}};
    struct cw_listening *listening;
    struct link *link;

    node_configure(&left);
    left.config.net_devices.names = devices;
    left.config.net_devices.count = 1;
    left.config.tcp_user_timeout_ns = UINT64_C(7000000000);
    left.config.tcp_cm_user_timeout_ns = UINT64_C(9000000000);
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    node_open(&right);
    assert_int_equal(tcp->cm->listen(left.iface, &to, 0, NULL, &listening), UCS_OK);
    assert_int_equal(cw_net_user_timeout(listening->item.fd), 9000);
    link = new_link(&left);
    assert_int_equal(tcp->cm->dial_to(left.iface, &to, NULL, "hello", 5, link, &link->conn), UCS_OK);
    assert_int_equal(cw_net_user_timeout(tcp_conn(link)->item.fd), 9000);
    tcp->cm->listen_end(listening);
    both_end();
}

/* Somebody begins to answer and does not go on. */
TEST_WITH(test_a_half_answered_dial_ends, nothing, NULL)
{
    uint8_t answer[CW_TCP_HANDSHAKE_SIZE + 8] = {0}, hello[CW_TCP_HANDSHAKE_SIZE];
    struct cw_tcp_handshake *handshake;
    struct cw_tcp_address address;
    int trap, fd;

    node_configure(&left);
    left.config.keepalive_interval_ns = CW_TIME_INF;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    node_open(&right);
    assert_null(cw_tcp_address_decode(right.address, right.address_length, &address));
    trap = trap_open(&address.port);
    address.listens = CW_TCP_LISTENS_IPV4;
    assert_int_equal(cw_tcp_address_encode(&address, right.address), right.address_length);
    dialled = dial(&left, &right);
    fd = accept(trap, NULL, NULL);
    DRIVE_UNTIL(&left, &right, recv(fd, hello, sizeof(hello), MSG_DONTWAIT) == (ssize_t)sizeof(hello));
    handshake = tcp_conn(dialled)->handshake;
    assert_false(cw_alarm_is_set(&handshake->alarm));
    cw_tcp_handshake_encode(answer, CW_TCP_ACCEPTED, 8, address.key);
    assert_int_equal(send(fd, answer, sizeof(answer) - 1, 0), sizeof(answer) - 1);
    DRIVE_UNTIL(&left, &right, cw_alarm_is_set(&handshake->alarm));
    assert_in_range(handshake->alarm.at_ns, cw_clock_ns(), cw_clock_ns() + CW_TCP_HELLO_TIMEOUT_NS);
    assert_int_equal(close(trap), 0); /* the peer's other addresses */
    cw_poller_alarm_set(left.poller, &handshake->alarm, cw_clock_ns()); /* ten seconds later */
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_ERR_UNREACHABLE);
    assert_int_equal(close(fd), 0);
    both_end();
}

/* The first candidate is dead, the second works. */
TEST_WITH(test_a_dead_candidate_is_followed_by_the_next, nothing, NULL)
{
    static char *families[] = {"inet"};
    struct cw_tcp_address address;

    node_open(&left);
    node_configure(&right);
    right.config.tcp_af_prio.names = families;
    right.config.tcp_af_prio.count = 1;
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    tcp_of(&left)->local.loopback = CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6;
    tcp_of(&left)->local.ipv6_first = 1;
    assert_null(cw_tcp_address_decode(right.address, right.address_length, &address));
    assert_int_equal(address.listens, CW_TCP_LISTENS_IPV4);
    address.listens |= CW_TCP_LISTENS_IPV6; /* which is not true */
    assert_int_equal(cw_tcp_address_encode(&address, right.address), right.address_length);
    dialled = dial(&left, &right);
    DRIVE_UNTIL(&left, &right, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_OK);
    both_end();
}

TEST_WITH(test_a_dial_may_be_closed_at_any_stage, opened, NULL)
{
    dialled = dial(&left, &right);
    link_close(dialled);
    drive_for_ms(&left, &right, 20);
    assert_false(dialled->opened);
    dialled = dial(&left, &right);
    drive_for_ms(&left, &left, 5); /* connected, its handshake sent, not answered */
    link_close(dialled);
    drive_for_ms(&left, &right, 20);
    assert_false(dialled->opened);
    both_end();
}

/* Two free neighbours below the range from which the system takes ports for others are found by trying. */
TEST_WITH(test_ports_come_from_the_range, nothing, NULL)
{
    unsigned port = 20000u + (unsigned)getpid() % 10000u, tries;
    struct cw_tcp_address address;
    struct node nodes[3];

    for (tries = 0;; tries++, port += 2) {
        assert_true(tries < 100);
        node_configure(&nodes[0]);
        nodes[0].config.tcp_port_range.first = port;
        nodes[0].config.tcp_port_range.last = port + 1;
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

static int listen_error;      /* 0: listening works */
static int allowed_port = -1; /* works always */

int __wrap_cw_net_listen(const struct cw_net_address *address, int reuse, const struct cw_net_options *options,
                         uint16_t *port_p);
int __real_cw_net_listen(const struct cw_net_address *address, int reuse, const struct cw_net_options *options,
                         uint16_t *port_p);

int __wrap_cw_net_listen(const struct cw_net_address *address, int reuse, const struct cw_net_options *options,
                         uint16_t *port_p)
{
    const int error = (address->port == allowed_port) ? 0 : listen_error;

    return (error != 0) ? -error : __real_cw_net_listen(address, reuse, options, port_p);
}

static ucs_status_t open_in_range(struct node *node, unsigned first, unsigned last, int error)
{
    ucs_status_t status;

    node_configure(node);
    node->config.tcp_port_range.first = first;
    node->config.tcp_port_range.last = last;
    listen_error = error;
    log_count_begin();
    status = node_try_open(node, NULL);
    log_count_end();
    listen_error = 0;
    return status;
}

/* Setting, value, cause and remedy. */
TEST_WITH(test_a_range_without_a_port_is_named, nothing, NULL)
{
    static const struct {
        unsigned first, last;
        int error;
        ucs_status_t status;
        const char *text;
    } cases[] = {
        {80, 81, EACCES, UCS_ERR_IO_ERROR, " on any port of UCX_TCP_PORT_RANGE=80-81: Permission denied; this user "
                                           "cannot bind them, use ports from 1024 on"},
        {80, 80, EADDRINUSE, UCS_ERR_BUSY, " on the port of UCX_TCP_PORT_RANGE=80: Address already in use; each worker "
                                           "needs one, so widen the range"},
        {80, 81, EMFILE, UCS_ERR_IO_ERROR, " on any port of UCX_TCP_PORT_RANGE=80-81: Too many open files; raise the "
                                           "limit of open files (ulimit -n)"},
        {0, 0, EMFILE, UCS_ERR_IO_ERROR, ": Too many open files; raise the limit of open files (ulimit -n)"},
    };
    const char *before = "cannot listen for TCP connections";
    struct node node;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(open_in_range(&node, cases[i].first, cases[i].last, cases[i].error), cases[i].status);
        assert_int_equal(log_lines, 1);
        assert_memory_equal(log_text, before, strlen(before));
        assert_string_equal(log_text + strlen(before), cases[i].text);
    }
}

/* Some ports of a range may be closed to this user, and others not. The search begins anywhere. */
TEST_WITH(test_a_port_that_may_not_be_taken_is_passed_over, nothing, NULL)
{
    unsigned port = 20000u + (unsigned)getpid() % 10000u, tries, place;
    struct node node;

    for (tries = place = 0; place < 5; tries++, port++) {
        assert_true(tries < 100);
        allowed_port = (int)port;
        if (open_in_range(&node, port - place, port - place + 4, EACCES) == UCS_OK) {
            node_close(&node);
            place++;
        }
    }
    allowed_port = -1;
}

TEST_WITH(test_ipv6_is_used_alone, nothing, NULL)
{
    static char *families[] = {"inet6"};
    char text[CW_NET_TEXT_MAX];

    node_configure(&left);
    left.config.tcp_af_prio.names = families;
    left.config.tcp_af_prio.count = 1;
    right = left;
    if (tcp->query_devices(&left.config, NULL, 0) == 0) {
        skip(); /* no IPv6 address on this machine */
    }
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    cw_net_peer_text(tcp_conn(dialled)->item.fd, text);
    assert_int_equal(text[0], '[');
    both_end();
}

/* With loopback alone nobody from outside can reach the port. */
TEST_WITH(test_loopback_alone_reaches_nobody_else, nothing, NULL)
{
    struct cw_tcp_address address;
    const char *why = NULL;

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
    both_end();
}
