/* SPDX-License-Identifier: BSD-3-Clause */
/* ucp_worker_signal, _wait and _wait_mem: WAK-9..13, ABU-28. Messages are in test_wakeup.c. */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

API_TEST(test_wak9_signal_arm_sequence)
{
    ucp_worker_h worker;
    int fd;

    cw_pair_open_wakeup(pair);
    worker = pair->tx->worker;
    fd = cw_worker_efd(worker);
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(worker);
    assert_int_equal(ucp_worker_arm(worker), UCS_OK); /* two in a row without event */
    assert_int_equal(cw_fd_poll(fd, 0), 0);
    for (int round = 0; round < 50; round++) {
        assert_int_equal(ucp_worker_signal(worker), UCS_OK);
        assert_int_equal(ucp_worker_signal(worker), UCS_OK);
        assert_int_equal(cw_fd_poll(fd, 1000), 1);
        assert_int_equal(ucp_worker_arm(worker), UCS_ERR_BUSY);
        assert_int_equal(ucp_worker_arm(worker), UCS_OK);
        assert_int_equal(cw_fd_poll(fd, 0), 0);
    }
    cw_pair_close(pair);
}

API_TEST(test_wak9_signal_survives_progress)
{
    ucp_worker_h worker;
    unsigned handled = 0;

    cw_pair_open_wakeup(pair);
    worker = pair->tx->worker;
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(worker);
    assert_int_equal(ucp_worker_signal(worker), UCS_OK);
    for (int i = 0; i < 100; i++) {
        handled += ucp_worker_progress(worker);
    }
    assert_true(ucp_worker_arm(worker) == UCS_ERR_BUSY || handled > 0); /* reported by the one or by the other */
    cw_worker_drain_and_arm(worker);
    cw_pair_close(pair);
}

API_TEST(test_wak9_signal_saturates_without_blocking)
{
    cw_pair_open_wakeup(pair);
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(ucp_worker_signal(pair->tx->worker), UCS_OK);
    }
    cw_worker_drain_and_arm(pair->tx->worker);
    assert_int_equal(cw_fd_poll(cw_worker_efd(pair->tx->worker), 0), 0);
    cw_pair_close(pair);
}

struct waker {
    ucp_worker_h worker;
    pthread_t waiting;
    int interrupts;
    int delay_ms;
    int failed;
};

static void *waker_run(void *argument)
{
    struct waker *waker = argument;

    for (int i = 0; i < waker->interrupts; i++) {
        usleep(2000);
        pthread_kill(waker->waiting, SIGUSR1);
    }
    usleep((useconds_t)waker->delay_ms * 1000);
    waker->failed = ucp_worker_signal(waker->worker) != UCS_OK;
    return NULL;
}

API_TEST(test_wak9_signal_from_a_thread_ends_wait)
{
    cw_pair_open_wakeup(pair);
    cw_pair_settle(pair);
    for (int round = 0; round < 5; round++) {
        struct waker waker = {.worker = pair->tx->worker, .delay_ms = 50};
        double start;
        pthread_t thread;

        cw_worker_drain_and_arm(pair->tx->worker);
        start = cw_time_now_s();
        assert_int_equal(pthread_create(&thread, NULL, waker_run, &waker), 0);
        while (cw_time_now_s() - start < 0.045) { /* spurious returns are allowed */
            assert_int_equal(ucp_worker_wait(pair->tx->worker), UCS_OK);
        }
        pthread_join(thread, NULL);
        assert_int_equal(waker.failed, 0);
        assert_true(cw_time_now_s() - start < 5);
    }
    cw_pair_close(pair);
}

struct drummer {
    ucp_worker_h worker;
    int stop; /* atomic */
};

static void *drummer_run(void *argument)
{
    struct drummer *drummer = argument;

    for (unsigned i = 0; !__atomic_load_n(&drummer->stop, __ATOMIC_RELAXED); i++) {
        (void)ucp_worker_signal(drummer->worker);
        for (volatile unsigned spin = 0; spin < i % 4096 * 16; spin++) {
        }
    }
    return NULL;
}

/* Arms follow each other quickly here, so that signals come while arming looks for what comes at once. */
API_TEST(test_wak9_no_signal_is_lost_while_arming)
{
    struct drummer drummer = {0};
    pthread_t thread;
    ucs_status_t status;

    cw_pair_open_wakeup(pair);
    cw_pair_settle(pair);
    drummer.worker = pair->tx->worker;
    cw_worker_drain_and_arm(drummer.worker);
    assert_int_equal(pthread_create(&thread, NULL, drummer_run, &drummer), 0);
    for (int round = 0; round < 3000; round++) {
        status = ucp_worker_arm(drummer.worker);
        assert_true(status == UCS_ERR_BUSY ||
                    (status == UCS_OK && cw_fd_poll(cw_worker_efd(drummer.worker), CW_WAIT_S * 1000) == 1));
        ucp_worker_progress(drummer.worker);
    }
    __atomic_store_n(&drummer.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    cw_worker_drain_and_arm(drummer.worker);
    assert_int_equal(cw_fd_poll(cw_worker_efd(drummer.worker), 0), 0);
    cw_pair_close(pair);
}

static volatile sig_atomic_t usr1_count;

static void usr1_count_one(int number)
{
    (void)number;
    usr1_count++;
}

API_TEST(test_wak11_wait_retries_eintr)
{
    struct sigaction action = {.sa_handler = usr1_count_one}, old;
    struct waker waker = {.interrupts = 20, .delay_ms = 50};
    pthread_t thread;
    double start;

    cw_pair_open_wakeup(pair);
    cw_pair_settle(pair);
    sigaction(SIGUSR1, &action, &old);
    usr1_count = 0;
    waker.worker = pair->tx->worker;
    waker.waiting = pthread_self();
    cw_worker_drain_and_arm(pair->tx->worker);
    start = cw_time_now_s();
    assert_int_equal(pthread_create(&thread, NULL, waker_run, &waker), 0);
    while (cw_time_now_s() - start < 0.08) {
        assert_int_equal(ucp_worker_wait(pair->tx->worker), UCS_OK); /* ABU-28 */
    }
    pthread_join(thread, NULL);
    assert_true(usr1_count > 0);
    sigaction(SIGUSR1, &old, NULL);
    cw_pair_close(pair);
}

static ucp_worker_h handler_worker;

static void alarm_signals_worker(int number)
{
    (void)number;
    ucp_worker_signal(handler_worker);
}

static void exchange(struct cw_pair *pair)
{
    struct cw_op send = {0}, recv = {0};
    uint64_t out = 5, in = 0;

    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, &out, sizeof(out), 1);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(in, out);
}

API_TEST(test_wak10_signal_from_a_signal_handler)
{
    struct sigaction action = {.sa_handler = alarm_signals_worker}, old;
    const struct itimerval fast = {{0, 100}, {0, 100}};
    double start;

    cw_pair_open_wakeup(pair);
    handler_worker = pair->tx->worker;
    sigaction(SIGALRM, &action, &old);
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(handler_worker);
    assert_int_equal(raise(SIGALRM), 0);
    assert_int_equal(cw_fd_poll(cw_worker_efd(handler_worker), 1000), 1);
    cw_worker_drain_and_arm(handler_worker);

    /* Interrupts that hit anywhere inside progress and arm must neither dead-lock nor break anything. */
    start = cw_time_now_s();
    setitimer(ITIMER_REAL, &fast, NULL);
    while (cw_time_now_s() - start < 0.3) {
        ucp_worker_progress(handler_worker);
        ucp_worker_arm(handler_worker);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    cw_worker_drain_and_arm(handler_worker);
    sigaction(SIGALRM, &old, NULL);
    alarm(CW_HANG_S); /* the timer took the harness's alarm away */
    exchange(pair);
    cw_pair_close(pair);
}

API_TEST(test_wak12_wait_after_signal_returns_at_once)
{
    double start;

    cw_pair_open_wakeup(pair);
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(pair->tx->worker);
    start = cw_time_now_s();
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ucp_worker_signal(pair->tx->worker), UCS_OK);
        assert_int_equal(ucp_worker_wait(pair->tx->worker), UCS_OK);
    }
    assert_true(cw_time_now_s() - start < 1);
    cw_pair_close(pair);
}

static void *store_later(void *argument)
{
    usleep(20000);
    __atomic_store_n((uint64_t *)argument, 1, __ATOMIC_RELEASE);
    return NULL;
}

API_TEST(test_wak13_wait_mem_is_bounded)
{
    uint64_t *word = calloc(1, sizeof(*word));
    pthread_t thread;
    double start = cw_time_now_s();

    cw_pair_open_wakeup(pair);
    assert_int_equal(pthread_create(&thread, NULL, store_later, word), 0);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        ucp_worker_wait_mem(pair->tx->worker, word);
    }
    pthread_join(thread, NULL);
    assert_true(cw_time_now_s() - start < 5);
    free(word);
    cw_pair_close(pair);
}
