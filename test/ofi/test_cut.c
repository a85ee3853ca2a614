/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages of two processes. When one of them stops or dies in the middle and its receive ends, its memory is the
 * program's again: nothing is written there any more, even after the process goes on. The message of the other process,
 * which is under way meanwhile, arrives whole.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

enum { BYTES = 16 << 20, POISON = 0xee };

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    assert_int_not_equal(status, UCS_OK);
}

static const struct cw_pair_config peer_mode = {.no_endpoints = true, .peer_mode = true, .on_failure = on_failure};

/* Sends one message with that tag, and works on until a byte comes. */
static int sender(int fd, const char *argument)
{
    const ucp_tag_t tag = (ucp_tag_t)atoi(argument);
    ucp_request_param_t none = cw_param_none();
    struct cw_side side = {0};
    char *data = malloc(BYTES);
    ucs_status_ptr_t sent;
    ucp_ep_h ep;

    cw_pattern_fill(data, BYTES, tag);
    cw_side_open(&side, &peer_mode);
    ep = cw_fd_connect(fd, &side, &peer_mode);
    cw_fd_barrier(fd, side.worker);
    sent = ucp_tag_send_nbx(ep, data, BYTES, tag, &none);
    while (!cw_fd_poll(fd, 0)) {
        ucp_worker_progress(side.worker);
    }
    if (UCS_PTR_IS_PTR(sent)) {
        ucp_request_free(sent);
    }
    cw_side_destroy(&side);
    free(data);
    return 0;
}

struct transfer {
    struct cw_remote remote;
    char *memory;
    ucp_ep_h ep;
    ucs_status_ptr_t receive;
};

static void begin(struct transfer *transfer, struct cw_side *side, const char *tag)
{
    ucp_request_param_t none = cw_param_none();

    transfer->memory = calloc(1, BYTES);
    cw_remote_start(&transfer->remote, "sender", tag);
    transfer->ep = cw_fd_connect(transfer->remote.fd, side, &peer_mode);
    transfer->receive =
        ucp_tag_recv_nbx(side->worker, transfer->memory, BYTES, (ucp_tag_t)atoi(tag), UINT64_MAX, &none);
    assert_true(UCS_PTR_IS_PTR(transfer->receive));
}

static void end(struct transfer *transfer)
{
    cw_remote_join(&transfer->remote);
    free(transfer->memory);
}

static void progress_for(struct cw_side *side, double seconds)
{
    const double until = cw_time_now_s() + seconds;

    while (cw_time_now_s() < until) {
        ucp_worker_progress(side->worker);
    }
}

static int is_poisoned(const char *memory)
{
    size_t i;

    for (i = 0; i < BYTES && (unsigned char)memory[i] == POISON; i++) {
    }
    return i == BYTES;
}

/* Waits for the middle of the message, ends the process by a signal there, and waits for the end of the receive. */
static void stop_in_the_middle(struct transfer *cut, struct cw_side *side, int signal_number)
{
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const volatile char *memory = cut->memory;

    cw_fd_barrier(cut->remote.fd, side->worker);
    while (*memory == 0 && ucp_request_check_status(cut->receive) == UCS_INPROGRESS) {
        ucp_worker_progress(side->worker);
    }
    kill(cut->remote.pid, signal_number);
    assert_int_equal(ucp_request_check_status(cut->receive), UCS_INPROGRESS);
    if (signal_number == SIGSTOP) {
        assert_int_equal(cw_worker_wait_request(side->worker, ucp_ep_close_nbx(cut->ep, &force), "closing"), UCS_OK);
    }
    assert_int_not_equal(cw_worker_wait_request(side->worker, cut->receive, "the end of a receive"), UCS_OK);
    memset(cut->memory, POISON, BYTES);
    if (signal_number != SIGSTOP) {
        (void)cw_worker_wait_request(side->worker, ucp_ep_close_nbx(cut->ep, &force), "closing");
    }
}

/* Lets both messages come, and ends the first process by a signal in the middle of its own. */
static void cut(int signal_number)
{
    struct transfer cut = {.memory = NULL}, whole = {.memory = NULL};
    struct cw_side side = {0};

    cw_side_open(&side, &peer_mode);
    begin(&cut, &side, "1");
    begin(&whole, &side, "2");
    cw_fd_barrier(whole.remote.fd, side.worker);
    stop_in_the_middle(&cut, &side, signal_number);
    kill(cut.remote.pid, SIGCONT); /* which a killed one does not notice */
    assert_int_equal(cw_worker_wait_request(side.worker, whole.receive, "the message of the other process"), UCS_OK);
    cw_pattern_check(whole.memory, BYTES, 2);
    progress_for(&side, 0.5);
    assert_true(is_poisoned(cut.memory));
    if (signal_number != SIGSTOP) {
        cw_remote_kill(&cut.remote);
        free(cut.memory);
    } else {
        cw_fd_write(cut.remote.fd, "q", 1);
        end(&cut);
    }
    cw_fd_write(whole.remote.fd, "q", 1);
    end(&whole);
    cw_side_destroy(&side);
}

/* The worker ends while the other process is stopped. */
API_TEST(test_stopped_for_good)
{
    struct transfer cut = {.memory = NULL};
    struct cw_side side = {0};

    cw_side_open(&side, &peer_mode);
    begin(&cut, &side, "1");
    stop_in_the_middle(&cut, &side, SIGSTOP);
    cw_side_destroy(&side);
    kill(cut.remote.pid, SIGCONT);
    assert_true(is_poisoned(cut.memory));
    cw_fd_write(cut.remote.fd, "q", 1);
    end(&cut);
}

API_TEST(test_stopped)
{
    cut(SIGSTOP);
}

API_TEST(test_killed)
{
    cut(SIGKILL);
}

static void set(const char *path, const char *value)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, value, strlen(value)) < 0) {
        print_message("%s stays as it is\n", path);
    }
    close(fd);
}

/* A network of its own with small buffers, so that a process stops in the middle of what it sends; without the right to
 * make one the tests show less. */
static int make_network(void **state)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd;

    (void)state;
    if (unshare(CLONE_NEWNET) != 0) {
        print_message("the tests run in the network of this machine\n");
        return 0;
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) {
        return -1;
    }
    close(fd);
    set("/proc/sys/net/ipv4/tcp_wmem", "4096 131072 262144");
    set("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 262144");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"sender", sender}};
    int code;

    if (cw_test_role(argc, argv, roles, sizeof(roles) / sizeof(roles[0]), &code)) {
        return code;
    }
    return cw_tests_run(make_network, NULL);
}
