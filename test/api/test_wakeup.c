/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping and being woken: WAK-1..21 for worker-address endpoints. The long run is wakeup_soak.c. */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define NO_DESCRIPTOR "shm:,udp:", "it has no descriptor, so a sleeping worker polls each millisecond"

static const struct cw_pair_config wakeup_config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};

static void pair_drain(struct cw_pair *pair)
{
    for (int i = 0; i < pair->count; i++) {
        while (ucp_worker_progress(pair->sides[i].worker) != 0) {
        }
    }
}

/* Sleeps once, on all workers of a drained pair; a sleep without end is what must not happen. */
static void pair_sleep(struct cw_pair *pair, const char *what)
{
    struct pollfd items[2];
    bool busy = false;
    int count;

    for (int i = 0; i < pair->count; i++) {
        ucs_status_t status = ucp_worker_arm(pair->sides[i].worker);

        assert_true(status == UCS_OK || status == UCS_ERR_BUSY);
        busy = busy || status == UCS_ERR_BUSY;
        items[i] = (struct pollfd){.fd = cw_worker_efd(pair->sides[i].worker), .events = POLLIN};
    }
    if (busy) {
        return;
    }
    count = poll(items, (nfds_t)pair->count, CW_WAIT_S * 1000);
    if (count == 0) {
        fail_msg("%s: everybody slept for %d s", what, CW_WAIT_S);
    }
}

/* As cw_op_wait, but never spins. */
static void op_sleep(struct cw_pair *pair, struct cw_op *op, const char *what)
{
    for (pair_drain(pair); UCS_PTR_IS_PTR(op->result) && op->calls == 0; pair_drain(pair)) {
        pair_sleep(pair, what);
    }
    assert_int_equal(cw_op_wait(pair, op, what), UCS_OK);
}

static void exchange_sleeping(struct cw_pair *pair, size_t length)
{
    struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
    struct cw_op send = {0}, recv = {0};

    cw_pattern_fill(out.data, length, length);
    cw_op_recv(&recv, pair->rx->worker, in.data, length, 1, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, out.data, length, 1);
    op_sleep(pair, &recv, "receive while sleeping");
    op_sleep(pair, &send, "send while sleeping");
    cw_pattern_check(in.data, length, length);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

API_TEST(test_wak1_feature_is_needed)
{
    int fd = -7;

    cw_pair_open(pair, NULL);
    assert_int_equal(ucp_worker_get_efd(pair->tx->worker, &fd), UCS_ERR_INVALID_PARAM);
    assert_int_equal(fd, -7);
    assert_int_equal(ucp_worker_arm(pair->tx->worker), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_worker_wait(pair->tx->worker), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_worker_signal(pair->tx->worker), UCS_ERR_INVALID_PARAM);
    cw_pair_close(pair);
}

API_TEST(test_wak2_efd_is_stable_and_pollable)
{
    int fd, epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};

    cw_pair_open_wakeup(pair);
    fd = cw_worker_efd(pair->tx->worker);
    for (int i = 0; i < 3; i++) {
        cw_worker_drain_and_arm(pair->tx->worker);
        assert_int_equal(cw_worker_efd(pair->tx->worker), fd);
        exchange_sleeping(pair, 8);
    }
    assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event), 0); /* R26 */
    if (pair->rx != pair->tx) {
        assert_int_not_equal(cw_worker_efd(pair->rx->worker), fd);
    }
    close(epoll_fd);
    cw_pair_close(pair);
}

API_TEST(test_wak5_wak6_message_wakes_armed_receiver)
{
    ucp_request_param_t param = cw_param_none();
    char small[40] = "wake up";

    cw_test_need_two_workers(); /* to itself, a message needs no event: it arrives inside the call */
    cw_pair_open_wakeup(pair);
    for (int round = 0; round < 200; round++) {
        struct cw_op recv = {0};
        char in[40];
        ucs_status_ptr_t send;

        if (round % 2 == 0) {
            cw_op_recv(&recv, pair->rx->worker, in, sizeof(in), 1, CW_TAG_ALL);
        }
        cw_worker_drain_and_arm(pair->rx->worker);
        send = ucp_tag_send_nbx(pair->tx->ep, small, sizeof(small), 1, &param);
        for (double end = cw_time_now_s() + CW_WAIT_S; cw_fd_poll(cw_worker_efd(pair->rx->worker), 0) == 0;) {
            ucp_worker_progress(pair->tx->worker); /* the receiver only sleeps */
            if (cw_time_now_s() > end) {
                fail_msg("Round %d: the armed receiver was not woken within %d s", round, CW_WAIT_S);
            }
        }
        if (round % 2 == 1) {
            cw_op_recv(&recv, pair->rx->worker, in, sizeof(in), 1, CW_TAG_ALL);
        }
        op_sleep(pair, &recv, "receive");
        assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    }
    cw_pair_close(pair);
}

API_TEST(test_wak5_no_event_between_progress_and_arm_is_lost)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 1, in;

    cw_test_need_two_workers();
    cw_pair_open_wakeup(pair);
    exchange_sleeping(pair, 8);
    for (int round = 0; round < 2000; round++) {
        struct cw_op recv = {0};
        ucs_status_ptr_t send;
        ucs_status_t armed;

        cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
        while (cw_pair_progress(pair) != 0) {
        }
        /* The event falls exactly into the window: after the last progress, before arm. */
        send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
        while (ucp_worker_progress(pair->tx->worker) != 0) {
        }
        armed = ucp_worker_arm(pair->rx->worker);
        assert_true(armed == UCS_ERR_BUSY || cw_fd_poll(cw_worker_efd(pair->rx->worker), CW_WAIT_S * 1000) == 1);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    }
    cw_pair_close(pair);
}

API_TEST(test_wak8_arm_after_a_fired_fd_keeps_the_event)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 1, in;
    struct cw_op recv = {0};
    ucs_status_ptr_t send;

    cw_test_need_two_workers();
    cw_pair_open_wakeup(pair);
    exchange_sleeping(pair, 8);
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
    cw_worker_drain_and_arm(pair->rx->worker);
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
    ucp_worker_progress(pair->tx->worker);
    assert_int_equal(cw_fd_poll(cw_worker_efd(pair->rx->worker), CW_WAIT_S * 1000), 1);
    assert_int_equal(cw_fd_poll(cw_worker_efd(pair->rx->worker), 0), 1); /* level-like until consumed */
    /* "normally" BUSY; OK is legal too as long as the fd stays readable (WAK-5), as the reference does over tcp. */
    assert_true(ucp_worker_arm(pair->rx->worker) == UCS_ERR_BUSY ||
                cw_fd_poll(cw_worker_efd(pair->rx->worker), 0) == 1);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(pair->rx->worker);
    cw_pair_close(pair);
}

API_TEST(test_wak7_all_sizes_while_only_sleeping)
{
    static const size_t sizes[] = {0, 8, 5000, 9000, 70000, 1000000, 5000000};

    cw_pair_open_wakeup(pair);
    for (int round = 0; round < 21; round++) {
        exchange_sleeping(pair, sizes[round % 7]);
    }
    cw_pair_close(pair);
}

API_TEST(test_wak7_burst_then_sleep)
{
    enum { COUNT = 3000, LENGTH = 4000 };
    struct cw_op *sends = calloc(COUNT, sizeof(*sends)), *recvs = calloc(COUNT, sizeof(*recvs));
    char *out = malloc(LENGTH), *in = malloc(LENGTH);

    cw_pair_open_wakeup(pair);
    for (int i = 0; i < COUNT; i++) { /* fills every queue on the way before anybody receives */
        cw_op_send(&sends[i], pair->tx->ep, out, LENGTH, 1);
    }
    for (int i = 0; i < COUNT; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, in, LENGTH, 1, CW_TAG_ALL);
        op_sleep(pair, &recvs[i], "receive of a burst");
    }
    for (int i = 0; i < COUNT; i++) {
        op_sleep(pair, &sends[i], "send of a burst");
    }
    free(sends);
    free(recvs);
    free(out);
    free(in);
    cw_pair_close(pair);
}

API_TEST(test_wak7_flush_and_close_while_sleeping)
{
    struct cw_op flush = {0}, close_op = {0}, send = {0}, recv = {0};
    struct cw_buffer out = cw_buffer_new(300000), in = cw_buffer_new(300000);
    ucp_request_param_t param;

    cw_pair_open_wakeup(pair);
    cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 1, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, out.data, out.length, 1);
    param = cw_param_send(&flush);
    cw_op_started(&flush, ucp_worker_flush_nbx(pair->tx->worker, &param));
    op_sleep(pair, &flush, "flush while sleeping");
    param = cw_param_send(&close_op);
    cw_op_started(&close_op, ucp_ep_close_nbx(pair->tx->ep, &param));
    pair->tx->ep = NULL;
    op_sleep(pair, &close_op, "close while sleeping");
    op_sleep(pair, &recv, "receive");
    op_sleep(pair, &send, "send");
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_wak3_workers_on_the_users_epoll)
{
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), fd = -7, cookies[2];
    struct epoll_event events[8];
    ucp_request_param_t param = cw_param_none();
    uint64_t value = 3;

    cw_test_need_two_workers();
    pair->count = 2;
    pair->tx = &pair->sides[0];
    pair->rx = &pair->sides[1];
    for (int i = 0; i < 2; i++) {
        cw_side_open_on_epoll(&pair->sides[i], epoll_fd, &cookies[i], 0);
        assert_int_equal(ucp_worker_get_efd(pair->sides[i].worker, &fd), UCS_ERR_UNSUPPORTED);
    }
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    for (int round = 0; round < 50; round++) {
        struct cw_op recv = {0};
        ucs_status_ptr_t send;
        bool seen = false;
        int count;

        cw_op_recv(&recv, pair->rx->worker, &value, sizeof(value), 1, CW_TAG_ALL);
        cw_worker_drain_and_arm(pair->rx->worker);
        send = ucp_tag_send_nbx(pair->tx->ep, &value, sizeof(value), 1, &param);
        for (double end = cw_time_now_s() + CW_WAIT_S; !seen;) {
            ucp_worker_progress(pair->tx->worker);
            count = epoll_wait(epoll_fd, events, 8, 0);
            for (int i = 0; i < count; i++) {
                assert_true(events[i].data.ptr == &cookies[0] || events[i].data.ptr == &cookies[1]);
                seen = seen || events[i].data.ptr == &cookies[1];
            }
            if (cw_time_now_s() > end) {
                fail_msg("Round %d: the user's epoll did not report the receiver within %d s", round, CW_WAIT_S);
            }
        }
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    }
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(pair->rx->worker);
    cw_worker_drain_and_arm(pair->tx->worker);
    assert_int_equal(epoll_wait(epoll_fd, events, 8, 0), 0);
    assert_int_equal(ucp_worker_signal(pair->tx->worker), UCS_OK);
    assert_int_equal(epoll_wait(epoll_fd, events, 8, 1000), 1);
    assert_ptr_equal(events[0].data.ptr, &cookies[0]);
    cw_pair_close(pair);
    assert_int_equal(epoll_wait(epoll_fd, events, 8, 50), 0); /* removed again at destroy */
    close(epoll_fd);
}

/* Whether the set reports the receiver within this time; nothing else is on it. */
static int reports(int epoll_fd, void *user_data, int timeout_ms)
{
    struct epoll_event events[4];
    int count;

    while ((count = epoll_wait(epoll_fd, events, 4, timeout_ms)) < 0 && errno == EINTR) {
    }
    assert_in_range(count, 0, 1);
    assert_true(count == 0 || events[0].data.ptr == user_data);
    return count;
}

/* A message, or a signal, that nobody looks after is reported once with EDGE and each time without. A further one is
 * reported beside it, and after the program has drained and armed. */
static void report_unprocessed(struct cw_pair *pair, unsigned events)
{
    const int level = (events & UCP_WAKEUP_EDGE) == 0;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), cookie;
    uint64_t out = 5, in[2];

    pair->count = 2;
    pair->tx = &pair->sides[0];
    pair->rx = &pair->sides[1];
    cw_side_open(pair->tx, NULL);
    cw_side_open_on_epoll(pair->rx, epoll_fd, &cookie, events);
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    for (int round = 0; round < 20; round++) {
        struct cw_op recvs[2] = {{0}}, sends[2] = {{0}};
        int signals = round % 4 == 3;

        for (int i = 0; i < 2 && round > 0; i++) {
            cw_op_recv(&recvs[i], pair->rx->worker, &in[i], sizeof(in[i]), 1, CW_TAG_ALL);
        }
        cw_pair_settle(pair); /* the first round connects */
        if (round == 0) {
            cw_op_recv(&recvs[0], pair->rx->worker, &in[0], sizeof(in[0]), 1, CW_TAG_ALL);
            cw_op_send(&sends[0], pair->tx->ep, &out, sizeof(out), 1);
            assert_int_equal(cw_op_wait(pair, &recvs[0], "receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &sends[0], "send"), UCS_OK);
            continue;
        }
        cw_worker_drain_and_arm(pair->rx->worker);
        (void)reports(epoll_fd, &cookie, 0); /* what was drained */
        assert_int_equal(reports(epoll_fd, &cookie, 0), 0);
        for (int i = 0; i < 2; i++) {
            if (signals) {
                assert_int_equal(ucp_worker_signal(pair->rx->worker), UCS_OK);
            } else {
                cw_op_send(&sends[i], pair->tx->ep, &out, sizeof(out), 1);
                ucp_worker_progress(pair->tx->worker);
            }
            if (i == 0 || signals || cw_test_tls_has("tcp")) { /* shared memory rings once for each arming */
                assert_int_equal(reports(epoll_fd, &cookie, CW_WAIT_S * 1000), 1);
            }
            for (int k = 0; k < 3; k++) {
                assert_int_equal(reports(epoll_fd, &cookie, 2), level);
            }
        }
        for (int i = 0; i < 2; i++) {
            if (signals) {
                cw_op_send(&sends[i], pair->tx->ep, &out, sizeof(out), 1);
            }
            assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        }
    }
    cw_pair_close(pair);
    close(epoll_fd);
}

API_TEST(test_wak15_edge_reports_once)
{
    cw_test_need_two_workers();
    cw_test_skip_over("ofi", "a provider's descriptor reports what the provider says to itself, too");
    report_unprocessed(pair, UCP_WAKEUP_TX | UCP_WAKEUP_RX | UCP_WAKEUP_EDGE);
    report_unprocessed(pair, UCP_WAKEUP_EDGE | UCP_WAKEUP_TAG_RECV);
    report_unprocessed(pair, UCP_WAKEUP_TX | UCP_WAKEUP_RX);
    report_unprocessed(pair, 0);
}

static void wake_with_events(struct cw_pair *pair, unsigned events)
{
    struct cw_pair_config config = wakeup_config;

    config.events = events;
    if (cw_test_self_only()) {
        cw_test_skip_reference("its self transport has no wake-up and refuses the endpoint");
    }
    cw_pair_open(pair, &config);
    for (int i = 0; i < 20; i++) {
        exchange_sleeping(pair, i % 2 == 0 ? 8 : 20000);
    }
    cw_pair_close(pair);
}

API_TEST(test_wak14_wak15_event_masks_and_edge)
{
    wake_with_events(pair, UCP_WAKEUP_TX | UCP_WAKEUP_RX);
    wake_with_events(pair, UCP_WAKEUP_TAG_SEND | UCP_WAKEUP_TAG_RECV);
    wake_with_events(pair, UCP_WAKEUP_TX | UCP_WAKEUP_RX | UCP_WAKEUP_EDGE);
    wake_with_events(pair, 0xffffffffu & ~(unsigned)UCP_WAKEUP_EDGE); /* WRK-5: hints, unknown bits ignored */
}

API_TEST(test_wak17_wak18_arm_without_endpoint_and_with_operations)
{
    struct cw_pair_config config = wakeup_config;
    struct cw_op recv = {0};
    uint64_t in;

    cw_test_skip_over_providers(NO_DESCRIPTOR);
    config.no_endpoints = true;
    cw_pair_open(pair, &config);
    for (int i = 0; i < 1000; i++) {
        cw_worker_drain_and_arm(pair->rx->worker);
    }
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
    cw_worker_drain_and_arm(pair->rx->worker);
    assert_int_equal(cw_fd_poll(cw_worker_efd(pair->rx->worker), 50), 0);
    ucp_request_cancel(pair->rx->worker, recv.result);
    assert_int_equal(cw_op_wait(pair, &recv, "cancelled receive"), UCS_ERR_CANCELED);
    cw_pair_close(pair);
}

struct watcher {
    int fd;
    int reported;
};

static void *watcher_run(void *argument)
{
    struct watcher *watcher = argument;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};

    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watcher->fd, &event);
    watcher->reported = epoll_wait(epoll_fd, &event, 1, CW_WAIT_S * 1000);
    close(epoll_fd);
    return NULL;
}

API_TEST(test_wak20_efd_in_another_threads_epoll)
{
    ucp_request_param_t param = cw_param_none();
    struct watcher watcher = {0};
    struct cw_op recv = {0};
    pthread_t thread;
    uint64_t value = 1;
    ucs_status_ptr_t send;

    cw_test_need_two_workers();
    cw_pair_open_wakeup(pair);
    watcher.fd = cw_worker_efd(pair->rx->worker);
    cw_worker_drain_and_arm(pair->rx->worker);
    assert_int_equal(pthread_create(&thread, NULL, watcher_run, &watcher), 0);
    usleep(20000);
    send = ucp_tag_send_nbx(pair->tx->ep, &value, sizeof(value), 1, &param);
    for (double end = cw_time_now_s() + CW_WAIT_S + 1; pthread_tryjoin_np(thread, NULL) == EBUSY;) {
        ucp_worker_progress(pair->tx->worker);
        assert_true(cw_time_now_s() < end);
    }
    assert_int_equal(watcher.reported, 1);
    cw_op_recv(&recv, pair->rx->worker, &value, sizeof(value), 1, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    cw_pair_close(pair);
}

/* Further endpoints, and a message by each, so that each has a connection. */
static void open_more_connections(struct cw_pair *pair, int count)
{
    ucp_request_param_t param = cw_param_none();

    for (int i = 0; i < count; i++) {
        ucp_ep_h ep = cw_side_connect(pair->tx, pair->rx->worker, &wakeup_config);
        struct cw_op recv = {0};
        uint64_t out = 1, in;

        cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
        assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(ep, &out, sizeof(out), 1, &param), "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    }
}

/* Drains and arms all, and waits for whatever happens. */
static int wait_armed(struct cw_pair *pair, int timeout_ms)
{
    struct pollfd items[2];

    for (int i = 0; i < pair->count; i++) {
        cw_worker_drain_and_arm(pair->sides[i].worker);
        items[i] = (struct pollfd){.fd = cw_worker_efd(pair->sides[i].worker), .events = POLLIN};
    }
    return poll(items, (nfds_t)pair->count, timeout_ms);
}

/* Guarded connections ask, a second after they spoke, whether all has come, and once more if there is no answer in
 * another. When nothing happened for longer than a second nothing is left to come. */
static void settle(struct cw_pair *pair)
{
    const bool guarded = getenv("UCX_TCP_CHECKSUM") != NULL || getenv("UCX_AUTH_TLS") != NULL;
    int wakeups = 0;

    for (double end = cw_time_now_s() + 0.1; cw_time_now_s() < end;) {
        cw_pair_progress(pair);
    }
    while (guarded && wait_armed(pair, 1200) > 0) {
        assert_true(++wakeups < 1000);
    }
}

static double cpu_time_s(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* Waits for a time in which nothing may happen. Returns the CPU time of the process in it. */
static double sleep_armed(struct cw_pair *pair, int idle_ms)
{
    struct rusage before, after;
    struct pollfd items[2];
    double cpu_s;

    for (int i = 0; i < pair->count; i++) {
        cw_worker_drain_and_arm(pair->sides[i].worker);
        items[i] = (struct pollfd){.fd = cw_worker_efd(pair->sides[i].worker), .events = POLLIN};
    }
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(poll(items, (nfds_t)pair->count, idle_ms), 0); /* not one wake-up */
    getrusage(RUSAGE_SELF, &after);
    cpu_s = cpu_time_s(&after) - cpu_time_s(&before);
    print_message("idle %d ms: %.1f us of CPU, %ld context switches\n", idle_ms, cpu_s * 1e6,
                  after.ru_nvcsw - before.ru_nvcsw);
    assert_true(after.ru_nvcsw - before.ru_nvcsw <= 4); /* our own poll is one */
    return cpu_s;
}

/* An armed worker to which nothing happens costs nothing, whatever it is connected to. A hypervisor that stops the
 * process between two instructions adds to its CPU time, so one of three tries counts. */
API_TEST(test_wak21_idle_costs_nothing)
{
    enum { IDLE_MS = 2000, TRIES = 3 };
    int tries = 1;

#ifdef __SANITIZE_THREAD__
    skip(); /* the thread sanitizer has a thread of its own that wakes up */
#endif
    cw_test_skip_over_providers(NO_DESCRIPTOR);
    cw_pair_open_wakeup(pair);
    for (int i = 0; i < 10; i++) {
        exchange_sleeping(pair, 8);
        exchange_sleeping(pair, 100000);
    }
    if (pair->count == 2) {
        open_more_connections(pair, 9);
    }
    settle(pair);
    while (sleep_armed(pair, IDLE_MS) >= 0.005) {
        assert_true(tries++ < TRIES);
    }
    cw_pair_close(pair);
}

/* Receives slowly and never sleeps on the fd, so that the sender's queues are full most of the time. */
static int role_slow_receiver(int fd, const char *argument)
{
    struct cw_side side;
    int count = atoi(argument), length;
    char *in;

    cw_side_open(&side, &wakeup_config);
    side.ep = cw_fd_connect(fd, &side, NULL);
    cw_fd_read(fd, &length, sizeof(length), NULL);
    in = malloc((size_t)length);
    for (int i = 0; i < count; i++) {
        struct cw_op recv = {0};

        cw_op_recv(&recv, side.worker, in, (size_t)length, 1, CW_TAG_ALL);
        while (UCS_PTR_IS_PTR(recv.result) && recv.calls == 0) {
            usleep(200);
            ucp_worker_progress(side.worker);
        }
        if (UCS_PTR_IS_PTR(recv.result)) {
            ucp_request_free(recv.result);
        }
        if (cw_pattern_find(in, (size_t)length, (uint64_t)i) >= 0) {
            return 3;
        }
    }
    cw_fd_barrier(fd, side.worker);
    cw_side_destroy(&side);
    free(in);
    return 0;
}

API_TEST(test_wak7_sleeping_sender_slow_receiver)
{
    enum { COUNT = 300 };
    struct cw_side *side = &pair->sides[0];
    struct cw_remote remote;
    int length = 30000;
    char *out;
    ucs_status_ptr_t *sends;
    ucp_request_param_t param = cw_param_none();

    cw_test_need_two_processes();
    out = malloc((size_t)length * COUNT);
    sends = calloc(COUNT, sizeof(*sends));
    assert_true(out != NULL && sends != NULL);
    cw_remote_start(&remote, "slow_receiver", "300");
    cw_side_open(side, &wakeup_config);
    pair->count = 1;
    side->ep = cw_fd_connect(remote.fd, side, NULL);
    cw_fd_write(remote.fd, &length, sizeof(length));
    for (int i = 0; i < COUNT; i++) {
        cw_pattern_fill(out + (size_t)i * (size_t)length, (size_t)length, (uint64_t)i);
        sends[i] = ucp_tag_send_nbx(side->ep, out + (size_t)i * (size_t)length, (size_t)length, 1, &param);
        assert_false(UCS_PTR_IS_ERR(sends[i]));
    }
    for (int i = 0; i < COUNT; i++) {
        for (pair_drain(pair); UCS_PTR_IS_PTR(sends[i]) && !ucp_request_is_completed(sends[i]); pair_drain(pair)) {
            pair_sleep(pair, "sender with full queues");
        }
        assert_int_equal(cw_pair_wait(pair, sends[i], "send"), UCS_OK);
    }
    cw_fd_barrier(remote.fd, side->worker);
    /* The peer may be gone by now: CLS-10 leaves the status open. */
    cw_worker_wait_request(side->worker, ucp_ep_close_nbx(side->ep, &param), "close");
    cw_remote_join(&remote);
    free(out);
    free(sends);
}

/* WAK-21, ERR-3: that the peer is watched, and how far each has got is compared, wakes nobody once talk has ended. */
API_TEST(test_wak21_error_handling_wakes_nobody)
{
    static const struct cw_pair_config config = {
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP, .peer_mode = true};
    static const size_t lengths[] = {8, 5000, 3000000};

    if (getenv("UCX_TCP_CHECKSUM") != NULL || getenv("UCX_AUTH_TLS") != NULL) {
        print_message("[  SKIPPED ] records are asked about once when talk ends\n");
        skip();
    }
    cw_test_skip_reference("it watches its peers by a timer");
    cw_test_skip_over_providers(NO_DESCRIPTOR);
    /* Over RDMA the checks of shorter intervals wake a sleeper, docs/why/watch.md. */
    setenv("UCX_KEEPALIVE_INTERVAL", cw_test_tls_has("rc") ? "5s" : "1s", 1);
    cw_pair_open(pair, &config);
    unsetenv("UCX_KEEPALIVE_INTERVAL");
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct pollfd items[2];
        int wakings = 0;

        exchange_sleeping(pair, lengths[i]);
        for (double end = cw_time_now_s() + 0.45; cw_time_now_s() < end;) {
            pair_drain(pair);
            for (int k = 0; k < pair->count; k++) {
                cw_worker_drain_and_arm(pair->sides[k].worker);
                items[k] = (struct pollfd){.fd = cw_worker_efd(pair->sides[k].worker), .events = POLLIN};
            }
            wakings += poll(items, (nfds_t)pair->count, (int)((end - cw_time_now_s()) * 1e3) + 1);
        }
        if (wakings > 0) {
            fail_msg("idle workers were woken %d times after a message of %zu bytes", wakings, lengths[i]);
        }
    }
}

int main(int argc, char **argv)
{
    const struct cw_role roles[] = {{"slow_receiver", role_slow_receiver}};

    return cw_test_main(argc, argv, roles, 1);
}
