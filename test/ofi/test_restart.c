/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that ends, and another one that has its address of the provider from then on (FI_TCP_PORT_LOW_RANGE): what
 * was sent to the former life never reaches the later one, its endpoint fails, and its worker address leads nowhere.
 * The second test hides the end of the process, as if it ran on another machine.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static volatile int failures;

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    assert_int_not_equal(status, UCS_OK);
    failures++;
}

static const struct cw_pair_config peer_mode = {.no_endpoints = true, .peer_mode = true, .on_failure = on_failure};

/* A life: sends its address, takes messages until a byte comes, and reports how many had its own tag and another one.
 * */
static int live(int fd, const char *argument)
{
    const ucp_tag_t own = (ucp_tag_t)atoi(argument);
    ucp_request_param_t none = cw_param_none();
    struct cw_side side = {0};
    uint64_t count[2] = {0, 0};
    ucp_tag_recv_info_t info = {0};
    ucp_tag_message_h message;
    size_t length;
    void *address;
    char data[64];

    cw_side_open(&side, &peer_mode);
    address = cw_test_worker_address(side.worker, &length);
    cw_fd_write(fd, &length, sizeof(length));
    cw_fd_write(fd, address, length);
    free(address);
    while (!cw_fd_poll(fd, 0)) {
        ucp_worker_progress(side.worker);
        message = ucp_tag_probe_nb(side.worker, 0, 0, 1, &info);
        if (message != NULL) {
            count[info.sender_tag != own]++;
            (void)cw_worker_wait_request(
                side.worker, ucp_tag_msg_recv_nbx(side.worker, data, sizeof(data), message, &none), "a message");
        }
    }
    cw_fd_write(fd, count, sizeof(count));
    cw_side_destroy(&side);
    return 0;
}

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void start(struct cw_remote *remote, int port, const char *number, ucp_worker_h worker, void **address)
{
    char text[16];
    size_t length;

    (void)snprintf(text, sizeof(text), "%d", port);
    setenv("FI_TCP_PORT_LOW_RANGE", text, 1);
    setenv("FI_TCP_PORT_HIGH_RANGE", text, 1);
    cw_remote_start(remote, "live", number);
    cw_fd_read(remote->fd, &length, sizeof(length), worker);
    *address = malloc(length);
    cw_fd_read(remote->fd, *address, length, worker);
}

static ucp_ep_h connect_to(struct cw_side *side, const void *address)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_failure}};
    ucp_ep_h ep;

    assert_int_equal(ucp_ep_create(side->worker, &params, &ep), UCS_OK);
    return ep;
}

/* Sends until the endpoint fails. */
static void send_until_failure(struct cw_side *side, ucp_ep_h ep, ucp_tag_t tag)
{
    ucp_request_param_t none = cw_param_none();
    const double end = cw_time_now_s() + CW_WAIT_S;
    const int before = failures;
    uint64_t word = 0;
    ucs_status_ptr_t sent;

    while (failures == before) {
        sent = ucp_tag_send_nbx(ep, &word, sizeof(word), tag, &none);
        if (UCS_PTR_IS_PTR(sent)) {
            (void)cw_worker_wait_request(side->worker, sent, "a send to a former life");
        }
        ucp_worker_progress(side->worker);
        usleep(1000);
        if (cw_time_now_s() > end) {
            fail_msg("nobody noticed within %d s that the process had ended", CW_WAIT_S);
        }
    }
}

static void send_one(struct cw_side *side, ucp_ep_h ep, ucp_tag_t tag)
{
    ucp_request_param_t none = cw_param_none();
    uint64_t word = 0;

    assert_int_equal(
        cw_worker_wait_request(side->worker, ucp_tag_send_nbx(ep, &word, sizeof(word), tag, &none), "a send"), UCS_OK);
    assert_int_equal(cw_worker_wait_request(side->worker, ucp_ep_flush_nbx(ep, &none), "a flush"), UCS_OK);
}

static void close_ep(struct cw_side *side, ucp_ep_h ep)
{
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    (void)cw_worker_wait_request(side->worker, ucp_ep_close_nbx(ep, &force), "closing");
}

/* Processes that start from now on have a name space of process ids of their own, or that of this process. Returns 0 if
 * the system forbids that. */
static int hide(int is_hidden)
{
    const int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    const int worked = own >= 0 && setns(own, CLONE_NEWPID) == 0 && (!is_hidden || unshare(CLONE_NEWPID) == 0);

    close(own);
    return worked;
}

static void restart(int is_hidden)
{
    struct cw_remote former, later;
    struct cw_side side = {0};
    uint64_t count[2];
    void *addresses[2];
    ucp_ep_h ep;
    int port;

    cw_side_open(&side, &peer_mode);
    port = free_port();
    if (is_hidden && !hide(1)) {
        cw_side_destroy(&side);
        skip();
    }
    start(&former, port, "1", side.worker, &addresses[0]);
    ep = connect_to(&side, addresses[0]);
    send_one(&side, ep, 1);
    send_one(&side, ep, 1);
    cw_remote_kill(&former);
    if (is_hidden) {
        assert_true(hide(1));
    }
    start(&later, port, "2", NULL, &addresses[1]);
    if (is_hidden) {
        assert_true(hide(0));
    }
    send_until_failure(&side, ep, 1);
    close_ep(&side, ep);
    ep = connect_to(&side, addresses[0]); /* by the address of the former life */
    send_until_failure(&side, ep, 1);
    close_ep(&side, ep);
    ep = connect_to(&side, addresses[1]);
    send_one(&side, ep, 2);
    send_one(&side, ep, 2);
    usleep(200000);
    cw_fd_write(later.fd, "q", 1);
    cw_fd_read(later.fd, count, sizeof(count), side.worker);
    assert_int_equal(count[0], 2);
    assert_int_equal(count[1], 0);
    close_ep(&side, ep);
    cw_remote_join(&later);
    cw_side_destroy(&side);
    free(addresses[0]);
    free(addresses[1]);
}

API_TEST(test_restart)
{
    restart(0);
}

API_TEST(test_restart_elsewhere)
{
    restart(1);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"live", live}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
