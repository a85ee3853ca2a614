/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children that are forked and do not call exec, as runtimes with worker processes make them (GEN-12): what they
 * inherited stays the parent's, and they may begin anew with a context of their own.
 */
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

enum {
    LONG_MESSAGE = 3 << 20,
    ROUNDS = 4
};

static char out[LONG_MESSAGE];
static char in[LONG_MESSAGE];

/* A child that lives, and holds what it inherited, until `holder_end`. */
struct holder {
    pid_t pid;
    int fd;
};

static struct holder holder_start(void)
{
    struct holder holder;
    int fds[2];
    char byte;

    assert_int_equal(pipe(fds), 0);
    holder.fd = fds[1];
    holder.pid = fork();
    assert_true(holder.pid >= 0);
    if (holder.pid == 0) {
        close(fds[1]);
        (void)!read(fds[0], &byte, 1);
        _exit(0);
    }
    close(fds[0]);
    return holder;
}

static void child_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void holder_end(struct holder *holder)
{
    close(holder->fd);
    child_end(holder->pid);
}

static void exchange(struct cw_pair *pair, size_t length)
{
    struct cw_op send = {0}, recv = {0};

    cw_pattern_fill(out, length, length);
    cw_op_recv(&recv, pair->rx->worker, in, length, 1, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, out, length, 1);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pattern_check(in, length, length);
}

/* The program's clean-up runs in the child, too, say from static destructors. */
API_TEST(test_gen12_child_takes_down_what_it_inherited)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const struct cw_pair_config peers = {.peer_mode = true};
    pid_t child;

    cw_test_skip_reference("a destroyed worker of a child takes the connections of its parent along");
    cw_pair_open(pair, cw_test_self_only() ? NULL : &peers);
    for (int round = 0; round < ROUNDS; round++) {
        exchange(pair, 8);
        exchange(pair, LONG_MESSAGE);
        fflush(NULL);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (round % 2 == 0) {
                (void)ucp_ep_close_nbx(pair->tx->ep, &force);
            }
            ucp_worker_destroy(pair->rx->worker);
            ucp_cleanup(pair->rx->context);
            _exit(0);
        }
        child_end(child);
    }
    exchange(pair, LONG_MESSAGE);
    cw_pair_close(pair);
}

API_TEST(test_gen12_peer_sees_the_end_although_a_child_lives)
{
    const struct cw_pair_config peers = {.peer_mode = true};
    const double deadline = cw_time_now_s() + CW_WAIT_S;
    const ucp_request_param_t plain = {0};
    ucs_status_t status = UCS_OK;
    struct holder holder;

    cw_test_need_two_workers();
    cw_test_skip_reference("it does not see it");
    cw_pair_open(pair, &peers);
    exchange(pair, 8);
    holder = holder_start();
    ucp_worker_destroy(pair->rx->worker);
    pair->rx->worker = NULL;
    while (status == UCS_OK && cw_time_now_s() < deadline) {
        status = cw_worker_wait_request(pair->tx->worker, ucp_tag_send_nbx(pair->tx->ep, out, 8, 2, &plain), "send");
        ucp_worker_progress(pair->tx->worker);
    }
    holder_end(&holder);
    assert_int_not_equal(status, UCS_OK);
}

static void never_requested(ucp_conn_request_h request, void *argument)
{
    (void)request;
    (void)argument;
}

API_TEST(test_gen12_port_is_free_although_a_child_lives)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER};
    ucp_listener_attr_t attributes = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    struct holder holder;
    ucp_listener_h listener;
    ucs_status_t status;

    if (!cw_test_tls_has("tcp")) {
        skip();
    }
    cw_test_skip_reference("the port stays in use");
    cw_side_open(&pair->sides[0], NULL);
    pair->count = 1;
    params.sockaddr.addr = (const struct sockaddr *)&name;
    params.sockaddr.addrlen = sizeof(name);
    params.conn_handler.cb = never_requested;
    assert_int_equal(ucp_listener_create(pair->sides[0].worker, &params, &listener), UCS_OK);
    assert_int_equal(ucp_listener_query(listener, &attributes), UCS_OK);
    name.sin_port = ((const struct sockaddr_in *)&attributes.sockaddr)->sin_port;
    holder = holder_start();
    ucp_listener_destroy(listener);
    status = ucp_listener_create(pair->sides[0].worker, &params, &listener);
    holder_end(&holder);
    assert_int_equal(status, UCS_OK);
    ucp_listener_destroy(listener);
}

/* In the child: not a test's process, so what is wrong becomes its status. */
static int answer_parent(int fd)
{
    const ucp_request_param_t plain = {0};
    struct cw_side side = {0};
    ucs_status_t status = UCS_OK;

    cw_side_open(&side, NULL);
    side.ep = cw_fd_connect(fd, &side, NULL);
    for (int round = 0; round < ROUNDS && status == UCS_OK; round++) {
        status = cw_worker_wait_request(side.worker, ucp_tag_recv_nbx(side.worker, in, LONG_MESSAGE, 1, CW_TAG_ALL,
                                                                      &plain), "receive in the child");
        if (status == UCS_OK) {
            status = cw_worker_wait_request(side.worker, ucp_tag_send_nbx(side.ep, in, LONG_MESSAGE, 2, &plain),
                                            "send in the child");
        }
    }
    if (status == UCS_OK) {
        status = cw_worker_wait_request(side.worker, ucp_ep_close_nbx(side.ep, &plain), "close in the child");
    }
    cw_side_destroy(&side);
    return (status == UCS_OK) ? 0 : 1;
}

API_TEST(test_gen12_child_begins_anew_and_talks_to_its_parent)
{
    struct cw_side *side = &pair->sides[0];
    const ucp_request_param_t plain = {0};
    int fds[2];
    pid_t child;

    cw_test_need_two_processes();
    pair->count = 1;
    pair->tx = pair->rx = side;
    cw_side_open(side, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fds[0]);
        _exit(answer_parent(fds[1]));
    }
    close(fds[1]);
    side->ep = cw_fd_connect(fds[0], side, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        cw_pattern_fill(out, LONG_MESSAGE, (uint64_t)round);
        assert_int_equal(cw_worker_wait_request(side->worker, ucp_tag_send_nbx(side->ep, out, LONG_MESSAGE, 1, &plain),
                                                "send"), UCS_OK);
        assert_int_equal(cw_worker_wait_request(side->worker, ucp_tag_recv_nbx(side->worker, in, LONG_MESSAGE, 2,
                                                                               CW_TAG_ALL, &plain), "receive"), UCS_OK);
        cw_pattern_check(in, LONG_MESSAGE, (uint64_t)round);
    }
    assert_int_equal(cw_worker_wait_request(side->worker, ucp_ep_close_nbx(side->ep, &plain), "close"), UCS_OK);
    side->ep = NULL;
    child_end(child);
    close(fds[0]);
}
