/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/watch.h: a watched process that is killed is reported, and nothing else is; what unauthenticated peers do at the
 * listener has a bound and no consequence.
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "os/clock.h"
#include "os/watch.h"

#define HANG_NS UINT64_C(30000000000)
#define HOUR_NS UINT64_C(3600000000000)

static const struct cw_net_address here = {.family = CW_NET_IPV4, .bytes = {127, 0, 0, 1}};

static struct cw_poller *poller;
static struct cw_watch_listener listener;
static struct cw_watch watch;
static unsigned num_conns, ends;
static ucs_status_t end_status;

/* ---- what the watch sees of the network ---- */

static const struct cw_net_address *misled_to; /* where the next connections go instead */
static unsigned misled;                        /* so many */
static unsigned sent;
static bool is_silent; /* nothing is acknowledged */

int __real_cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected);
int __wrap_cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected);
ssize_t __real_cw_net_send(int fd, const void *data, size_t length);
ssize_t __wrap_cw_net_send(int fd, const void *data, size_t length);
size_t __real_cw_net_unacknowledged(int fd);
size_t __wrap_cw_net_unacknowledged(int fd);
bool __real_cw_net_is_unanswered(int fd, uint64_t within_ms);
bool __wrap_cw_net_is_unanswered(int fd, uint64_t within_ms);

int __wrap_cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected)
{
    if (misled > 0) {
        misled--;
        address = misled_to;
    }
    return __real_cw_net_connect(address, options, connected);
}

ssize_t __wrap_cw_net_send(int fd, const void *data, size_t length)
{
    sent++;
    return __real_cw_net_send(fd, data, length);
}

size_t __wrap_cw_net_unacknowledged(int fd)
{
    return is_silent ? 1 : __real_cw_net_unacknowledged(fd);
}

bool __wrap_cw_net_is_unanswered(int fd, uint64_t within_ms)
{
    return is_silent || __real_cw_net_is_unanswered(fd, within_ms);
}

static void on_ended(struct cw_watch *ended, ucs_status_t status, const char *why)
{
    assert_ptr_equal(ended, &watch);
    assert_int_equal(ended->item.fd, -1);
    assert_non_null(why);
    ends++;
    end_status = status;
}

static int setup(void **state)
{
    (void)state;
    ends = num_conns = sent = misled = 0;
    is_silent = false;
    assert_int_equal(cw_poller_new(0, &poller), UCS_OK);
    cw_watch_listener_init(&listener, poller, &num_conns);
    watch = (struct cw_watch){.ended = on_ended, .wakes = 1};
    cw_watch_init(&watch, poller);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cw_watch_end(&watch);
    cw_watch_listener_close(&listener);
    cw_poller_free(poller);
    return 0;
}

static void settle(void)
{
    unsigned i;

    for (i = 0; i < 100; i++) {
        (void)cw_poller_dispatch(poller);
        (void)usleep(1000);
    }
}

static void dispatch_until(const unsigned *count, unsigned value)
{
    const uint64_t end = cw_clock_ns() + HANG_NS;

    while (*count != value) {
        (void)cw_poller_dispatch(poller);
        assert_true(cw_clock_ns() < end);
    }
}

static void await_seen(void)
{
    const uint64_t end = cw_clock_ns() + HANG_NS;

    while (!watch.is_seen) {
        (void)cw_poller_dispatch(poller);
        assert_true(cw_clock_ns() < end);
    }
}

static void begin_watch_for(uint16_t port, uint64_t interval_ns)
{
    struct cw_net_address to = here;

    to.port = port;
    cw_watch_begin(&watch, &to, &here, interval_ns);
}

/* Returns when the connection is established. */
static void listen_and_watch(uint64_t interval_ns)
{
    assert_true(cw_watch_listen(&listener, &here));
    begin_watch_for(listener.port, interval_ns);
    await_seen();
}

static void begin_watch(uint16_t port)
{
    begin_watch_for(port, HOUR_NS);
}

static int connect_unauth(void)
{
    const struct cw_net_options options = {0};
    struct cw_net_address to = here;
    int is_connected = 0, fd;
    const uint64_t end = cw_clock_ns() + HANG_NS;

    to.port = listener.port;
    fd = cw_net_connect(&to, &options, &is_connected);
    assert_true(fd >= 0);
    while (cw_net_connect_result(fd) == -EINPROGRESS) {
        assert_true(cw_clock_ns() < end);
    }
    assert_int_equal(cw_net_connect_result(fd), 0);
    return fd;
}

/* A process that makes no progress, so nobody accepts the watch. */
static pid_t start_child(uint16_t *port)
{
    int fds[2];
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!cw_watch_listen(&listener, &here) ||
            write(fds[1], &listener.port, sizeof(listener.port)) != sizeof(listener.port)) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(fds[0], port, sizeof(*port)), sizeof(*port));
    close(fds[0]);
    close(fds[1]);
    return child;
}

static void kill_child(pid_t child)
{
    int status;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

TEST_WITH(a_killed_process_is_reported, setup, teardown)
{
    uint16_t port;
    const pid_t child = start_child(&port);

    begin_watch(port);
    await_seen();
    assert_true(fcntl(watch.item.fd, F_GETFD) & FD_CLOEXEC);
    settle();
    assert_int_equal(ends, 0);
    kill_child(child);
    dispatch_until(&ends, 1);
    assert_int_equal(end_status, UCS_ERR_CONNECTION_RESET);
    settle();
    assert_int_equal(ends, 1);
}

/* It ends before this side has seen that the connection is there. */
TEST_WITH(an_early_death_is_reported, setup, teardown)
{
    uint16_t port;
    const pid_t child = start_child(&port);

    begin_watch(port);
    usleep(200000);
    kill_child(child);
    dispatch_until(&ends, 1);
    assert_int_equal(end_status, UCS_ERR_CONNECTION_RESET);
}

/* The first reconnects meet a listener that nobody reads. */
static void end_behind_listener(const struct cw_net_options *options)
{
    const struct cw_net_options plain = {0};
    struct cw_net_address to = here;
    uint16_t port, other = 0;
    const pid_t child = start_child(&port);
    int fds[3], is_connected;
    unsigned i;

    fds[0] = cw_net_listen(&here, 1, options, &other);
    assert_true(fds[0] >= 0);
    to.port = other;
    for (i = 1; i < 3; i++) {
        fds[i] = cw_net_connect(&to, &plain, &is_connected);
        assert_true(fds[i] >= 0);
    }
    begin_watch(port);
    await_seen();
    misled_to = &to;
    misled = 3;
    kill_child(child);
    dispatch_until(&ends, 1);
    assert_int_equal(end_status, UCS_ERR_CONNECTION_RESET);
    assert_int_equal(misled, 0);
    assert_false(cw_alarm_is_set(&watch.alarm));
    for (i = 0; i < 3; i++) {
        cw_net_close(fds[i]);
    }
}

/* A process that is ending takes connections once more, and forgets them. */
TEST_WITH(the_last_connection_is_no_life, setup, teardown)
{
    const struct cw_net_options options = {0};

    end_behind_listener(&options);
}

/* Or it drops them: the queue is full. */
TEST_WITH(a_lost_connection_is_no_life, setup, teardown)
{
    const struct cw_net_options options = {.backlog = 1};

    end_behind_listener(&options);
}

/* Within short intervals the watch itself sees to it that the other machine answers. */
TEST_WITH(silence_is_reported, setup, teardown)
{
    const uint64_t interval_ns = UINT64_C(1000000000);
    uint64_t begin;

    listen_and_watch(interval_ns);
    dispatch_until(&sent, 6);
    settle();
    assert_int_equal(listener.count, 1);
    assert_int_equal(watch.asked, 0);
    assert_int_equal(ends, 0);
    is_silent = true;
    begin = cw_clock_ns();
    dispatch_until(&ends, 1);
    assert_true(cw_clock_ns() - begin < interval_ns / 2); /* all of it, less the time that the kernel waits */
    assert_int_equal(end_status, UCS_ERR_ENDPOINT_TIMEOUT);
    assert_false(cw_alarm_is_set(&watch.alarm));
}

/* A program that makes no progress while the other machine is silent, and after that asks once more: the connection
 * repeats its bytes too rarely by then. */
TEST_WITH(an_outage_without_progress_is_no_death, setup, teardown)
{
    const uint64_t interval_ns = UINT64_C(1000000000);
    unsigned i;

    listen_and_watch(interval_ns);
    for (i = 0; i < 2; i++) {
        settle();
        is_silent = true;
        usleep(1500000);
        (void)cw_poller_dispatch(poller);
        is_silent = false;
        assert_int_not_equal(watch.until_ns, 0);
        await_seen();
        assert_int_equal(watch.until_ns, 0);
        dispatch_until(&listener.count, 1);
    }
    dispatch_until(&sent, sent + 12);
    assert_int_equal(ends, 0);
    assert_int_equal(watch.asked, 0);
}

/* It asks in vain. */
static void be_lost(const struct cw_net_address *to, ucs_status_t status)
{
    const uint64_t interval_ns = UINT64_C(1000000000);
    uint64_t begin;

    listen_and_watch(interval_ns);
    is_silent = true;
    usleep(1500000);
    misled_to = to;
    misled = 100;
    begin = cw_clock_ns();
    (void)cw_poller_dispatch(poller);
    assert_true(ends == 0 || status == UCS_ERR_CONNECTION_RESET);
    dispatch_until(&ends, 1);
    assert_true(cw_clock_ns() - begin < interval_ns);
    assert_int_equal(end_status, status);
    assert_false(cw_alarm_is_set(&watch.alarm));
    assert_int_equal(watch.until_ns, 0);
}

TEST_WITH(a_loss_without_progress_is_reported, setup, teardown)
{
    const struct cw_net_options options = {.backlog = 1}, plain = {0};
    struct cw_net_address to = here;
    int fds[4], is_connected;
    unsigned i;

    fds[0] = cw_net_listen(&here, 1, &options, &to.port); /* its queue is full */
    assert_true(fds[0] >= 0);
    for (i = 1; i < 4; i++) {
        fds[i] = cw_net_connect(&to, &plain, &is_connected);
        assert_true(fds[i] >= 0);
    }
    be_lost(&to, UCS_ERR_ENDPOINT_TIMEOUT);
    for (i = 0; i < 4; i++) {
        cw_net_close(fds[i]);
    }
}

TEST_WITH(a_death_without_progress_is_reported, setup, teardown)
{
    const struct cw_net_options options = {0};
    struct cw_net_address to = here;
    const int fd = cw_net_listen(&here, 1, &options, &to.port);

    assert_true(fd >= 0);
    cw_net_close(fd); /* nobody is at its port */
    be_lost(&to, UCS_ERR_CONNECTION_RESET);
}

/* The process answers in another way. */
TEST_WITH(an_answer_ends_silence, setup, teardown)
{
    listen_and_watch(UINT64_C(1000000000));
    dispatch_until(&listener.count, 1);
    cw_watch_heard(&watch);
    assert_true(watch.is_seen); /* nothing was silent */
    is_silent = true;
    cw_watch_heard(&watch);
    is_silent = false;
    assert_int_not_equal(watch.until_ns, 0);
    await_seen();
    dispatch_until(&sent, sent + 12);
    assert_int_equal(ends, 0);
}

static unsigned option(int name)
{
    socklen_t length = sizeof(int);
    int value = 0;

    assert_int_equal(getsockopt(watch.item.fd, IPPROTO_TCP, name, &value, &length), 0);
    return (unsigned)value;
}

/* Longer intervals are the kernel's, which needs less than one; an idle watch wakes nobody. */
TEST_WITH(the_kernel_keeps_the_interval, setup, teardown)
{
    static const unsigned intervals_s[] = {5, 6, 7, 10, 20, 60, 3600};
    unsigned i;

    assert_true(cw_watch_listen(&listener, &here));
    for (i = 0; i < sizeof(intervals_s) / sizeof(intervals_s[0]); i++) {
        begin_watch_for(listener.port, intervals_s[i] * UINT64_C(1000000000));
        await_seen();
        assert_true(option(TCP_KEEPIDLE) + option(TCP_KEEPCNT) * option(TCP_KEEPINTVL) < intervals_s[i]);
        assert_true(option(TCP_KEEPCNT) >= 2);
        assert_false(cw_alarm_is_set(&watch.alarm));
        cw_watch_end(&watch);
    }
}

/* Bytes of a watcher are discarded, up to a bound, and few of them wake nobody. */
TEST_WITH(bytes_have_a_bound, setup, teardown)
{
    static const char bytes[1 << 16];
    struct pollfd item = {.events = POLLIN};
    unsigned i;
    int fd;

    assert_true(cw_watch_listen(&listener, &here));
    item.fd = cw_poller_fd(poller);
    fd = connect_unauth();
    dispatch_until(&listener.count, 1);
    assert_int_equal(cw_net_send(fd, bytes, 100), 100);
    assert_int_equal(poll(&item, 1, 50), 0);
    for (i = 0; i < 10; i++) {
        assert_int_equal(cw_net_send(fd, bytes, 1500), 1500);
        assert_int_equal(poll(&item, 1, 10000), 1);
        settle();
        assert_int_equal(poll(&item, 1, 0), 0);
    }
    assert_int_equal(listener.count, 1);
    assert_int_equal(cw_net_send(fd, bytes, sizeof(bytes)), sizeof(bytes));
    dispatch_until(&listener.count, 0);
    cw_net_close(fd);
}

TEST_WITH(nobody_at_the_port_is_no_death, setup, teardown)
{
    uint16_t port;

    assert_true(cw_watch_listen(&listener, &here));
    port = listener.port;
    cw_watch_listener_close(&listener);
    begin_watch(port);
    settle();
    assert_int_equal(watch.item.fd, -1);
    assert_int_equal(ends, 0);
}

/* What listens at the port is another program, which talks. */
TEST_WITH(bytes_are_no_death, setup, teardown)
{
    const struct cw_net_options options = {0};
    uint16_t port = 0;
    const int fd = cw_net_listen(&here, 1, &options, &port);
    int accepted = -EAGAIN;
    const uint64_t end = cw_clock_ns() + HANG_NS;

    assert_true(fd >= 0);
    begin_watch(port);
    while (accepted == -EAGAIN) {
        (void)cw_poller_dispatch(poller);
        accepted = cw_net_accept(fd);
        assert_true(cw_clock_ns() < end);
    }
    await_seen();
    assert_int_equal(cw_net_send(accepted, "SSH-2.0", 7), 7);
    settle();
    assert_int_equal(watch.item.fd, -1);
    cw_net_close(accepted);
    settle();
    assert_int_equal(ends, 0);
    cw_net_close(fd);
}

/* Whoever resets the connection while the process listens kills nobody: the watch begins anew, but not for ever. */
TEST_WITH(a_reset_is_no_death, setup, teardown)
{
    const struct cw_net_options options = {0};
    uint16_t port = 0;
    const int fd = cw_net_listen(&here, 1, &options, &port);
    const uint64_t end = cw_clock_ns() + HANG_NS;
    unsigned resets = 0;
    int accepted;

    assert_true(fd >= 0);
    begin_watch(port);
    while (resets < 5) {
        (void)cw_poller_dispatch(poller);
        accepted = cw_net_accept(fd);
        if (accepted >= 0) {
            if (resets++ % 2 == 0) {
                cw_net_forget(accepted);
            }
            cw_net_close(accepted);
        }
        assert_true(cw_clock_ns() < end);
    }
    await_seen();
    assert_int_equal(ends, 0);
    while (watch.item.fd >= 0) {
        (void)cw_poller_dispatch(poller);
        accepted = cw_net_accept(fd);
        if (accepted >= 0) {
            cw_net_close(accepted);
        }
        assert_true(cw_clock_ns() < end);
    }
    cw_net_close(fd);
    settle();
    assert_int_equal(ends, 0);
}

/* Unauthenticated peers take up so many places and no more, and who comes behind them still watches. */
TEST_WITH(unauth_have_a_bound, setup, teardown)
{
    int fds[2 * CW_WATCH_UNAUTH];
    unsigned i;

    assert_true(cw_watch_listen(&listener, &here));
    for (i = 0; i < 2 * CW_WATCH_UNAUTH; i++) {
        fds[i] = connect_unauth();
    }
    settle();
    assert_int_equal(listener.count, CW_WATCH_UNAUTH);
    begin_watch(listener.port);
    await_seen();
    num_conns = 3; /* lets further ones in */
    cw_watch_listener_more(&listener);
    dispatch_until(&listener.count, CW_WATCH_UNAUTH + 3);
    for (i = 0; i < 2 * CW_WATCH_UNAUTH; i++) {
        assert_int_equal(cw_net_send(fds[i], "x", 1), 1);
        cw_net_close(fds[i]);
    }
    dispatch_until(&listener.count, 1); /* the watch */
    assert_int_equal(ends, 0);
    cw_watch_listener_close(&listener);
    dispatch_until(&ends, 1);
}

/* One port serves all addresses, and the bound counts watchers of all together. */
TEST_WITH(several_addresses_have_one_port, setup, teardown)
{
    const struct cw_net_address second = {.family = CW_NET_IPV4, .bytes = {127, 0, 0, 2}};
    const struct cw_net_address foreign = {.family = CW_NET_IPV4, .bytes = {192, 0, 2, 1}}; /* of no interface */
    struct cw_net_address to = second;
    uint16_t port;

    assert_true(cw_watch_listen(&listener, &here));
    port = listener.port;
    assert_false(cw_watch_listen(&listener, &foreign));
    assert_true(cw_watch_listen(&listener, &second));
    assert_int_equal(listener.num_sockets, 2);
    assert_int_equal(listener.port, port);
    to.port = port;
    cw_watch_begin(&watch, &to, NULL, HOUR_NS);
    await_seen();
    dispatch_until(&listener.count, 1);
    cw_watch_listener_close(&listener);
    dispatch_until(&ends, 1);
    assert_int_equal(end_status, UCS_ERR_CONNECTION_RESET);
}

/* Neither side takes a descriptor of the upper half of those that the process may have. */
TEST_WITH(descriptors_are_left, setup, teardown)
{
    struct rlimit before, limit;
    int fds[32], num = 0, unauth;

    assert_true(cw_watch_listen(&listener, &here));
    unauth = connect_unauth();
    settle();
    assert_int_equal(listener.count, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    do {
        fds[num] = dup(unauth);
    } while (fds[num++] < 31);
    fds[num++] = connect_unauth();
    begin_watch(listener.port);
    assert_int_equal(watch.item.fd, -1);
    settle();
    assert_int_equal(listener.count, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    begin_watch(listener.port);
    await_seen();
    num_conns++;
    cw_watch_listener_more(&listener);
    dispatch_until(&listener.count, 3); /* the watch that was given up is gone */
    while (num > 0) {
        cw_net_close(fds[--num]);
    }
    cw_net_close(unauth);
    assert_int_equal(ends, 0);
}
