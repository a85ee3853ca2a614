/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The event set of os/poll.h, watched through pipes: descriptors that are ready are reported until they are dealt with
 * and may go away in the middle of a dispatch; signals coalesce (WAK-9, WAK-10); the set nests in a program's own epoll
 * descriptor (WAK-3); sleeping survives interruptions (WAK-11). Alarms are in test_poller_alarms.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "test_poller.h"

#include "os/clock.h"

#define MANY 160u

struct watch {
    struct cw_poll_item item;
    int peer;                   /* the other end */
    unsigned calls;
    unsigned events;            /* of the last call */
    int no_work;                /* it counts nothing */
    void (*act)(struct watch *watch);
};

static struct watch *watches[MANY];

static unsigned on_ready(struct cw_poll_item *item, unsigned events)
{
    struct watch *watch = cw_container_of(item, struct watch, item);

    watch->calls++;
    watch->events = events;
    if (watch->no_work) {
        return 0;
    }
    if (watch->act != NULL) {
        watch->act(watch); /* which may free it */
    }
    return 3;
}

/* A watched pipe: item.fd is read, peer is written. */
static struct watch *watch_new(unsigned events)
{
    struct watch *watch = calloc(1, sizeof(*watch));
    int fds[2];

    assert_non_null(watch);
    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
    watch->item.fd = fds[0];
    watch->peer = fds[1];
    watch->item.ready = on_ready;
    assert_int_equal(cw_poller_add(poller, &watch->item, events), UCS_OK);
    return watch;
}

static void watch_free(struct watch *watch)
{
    cw_poller_remove(poller, &watch->item);
    close(watch->item.fd);
    if (watch->peer >= 0) {
        close(watch->peer);
    }
    memset(watch, 0xa5, sizeof(*watch));
    free(watch);
}

static void feed(const struct watch *watch)
{
    assert_int_equal(write(watch->peer, "x", 1), 1);
}

static void drain_one(struct watch *watch)
{
    char byte;

    assert_int_equal(read(watch->item.fd, &byte, 1), 1);
}

static int set_up(void **state)
{
    memset(watches, 0, sizeof(watches));
    return poller_set_up(state);
}

static int tear_down(void **state)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        if (watches[i] != NULL) {
            watch_free(watches[i]);
        }
    }
    return poller_tear_down(state);
}

TEST_WITH(readiness_is_reported_until_it_is_gone, set_up, tear_down)
{
    struct watch *watch;

    watch = watches[0] = watch_new(CW_POLL_READ);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    assert_false(readable(cw_poller_fd(poller)));
    feed(watch);
    feed(watch);
    assert_true(readable(cw_poller_fd(poller)));
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(watch->calls, 2);
    assert_int_equal(watch->events, CW_POLL_READ);
    watch->act = drain_one;
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    assert_int_equal(watch->calls, 4);
    assert_false(readable(cw_poller_fd(poller)));
}

TEST_WITH(only_what_is_asked_for_is_reported_but_hangups_always, set_up, tear_down)
{
    struct watch *watch;

    watch = watches[0] = watch_new(0);
    feed(watch);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    cw_poller_modify(poller, &watch->item, CW_POLL_READ);
    assert_int_equal(watch->item.events, CW_POLL_READ);
    assert_int_equal(cw_poller_dispatch(poller), 3);
    cw_poller_modify(poller, &watch->item, CW_POLL_READ);
    assert_int_equal(cw_poller_dispatch(poller), 3);
    cw_poller_modify(poller, &watch->item, 0);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    close(watch->peer);
    watch->peer = -1;
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(watch->events, CW_POLL_HANGUP);
    cw_poller_modify(poller, &watch->item, CW_POLL_READ | CW_POLL_WRITE);
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(watch->events, CW_POLL_HANGUP | CW_POLL_READ);
}

TEST_WITH(writability_is_reported, set_up, tear_down)
{
    struct cw_poll_item item = {.ready = on_ready};
    struct watch *watch;
    char block[4096];

    watch = watches[0] = watch_new(CW_POLL_READ);
    item = watch->item;
    cw_poller_remove(poller, &watch->item);
    watch->item.fd = watch->peer;
    watch->peer = item.fd;
    assert_int_equal(cw_poller_add(poller, &watch->item, CW_POLL_WRITE | CW_POLL_READ), UCS_OK);
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(watch->events, CW_POLL_WRITE);
    memset(block, 0, sizeof(block));
    while (write(watch->item.fd, block, sizeof(block)) > 0) {
    }
    assert_int_equal(cw_poller_dispatch(poller), 0);
    while (read(watch->peer, block, sizeof(block)) > 0) {
    }
    assert_int_equal(cw_poller_dispatch(poller), 3);
}

TEST_WITH(all_of_many_get_their_turn, set_up, tear_down)
{
    unsigned i, round;

    for (i = 0; i < MANY; i++) {
        watches[i] = watch_new(CW_POLL_READ);
        feed(watches[i]);
    }
    assert_int_equal(cw_poller_signal(poller), UCS_OK);
    for (round = 0; round < 4; round++) {
        assert_true(cw_poller_dispatch(poller) > 0);
    }
    for (i = 0; i < MANY; i++) {
        assert_true(watches[i]->calls >= 1);
        assert_true(watches[i]->calls <= 2);
    }
}

/* GEN-9: what was ready when a drain loop began is dispatched when it ends, however much lies before it that is no
 * work. */
TEST_WITH(work_behind_many_without_work_is_found, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        watches[i] = watch_new(CW_POLL_READ);
        watches[i]->no_work = i + 1 < MANY;
        feed(watches[i]);
    }
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(watches[MANY - 1]->calls, 1);
    watches[MANY - 1]->no_work = 1;
    assert_int_equal(cw_poller_dispatch(poller), 0); /* and ends, though all of them stay ready */
}

static void remove_all_others(struct watch *self)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        if (watches[i] != NULL && watches[i] != self) {
            watch_free(watches[i]);
            watches[i] = NULL;
        }
    }
}

/* Ten are ready in one batch; whoever comes first frees the rest, whose turns must not come. */
TEST_WITH(items_of_the_same_batch_may_be_removed, set_up, tear_down)
{
    struct watch *left = NULL;
    unsigned i;

    for (i = 0; i < 10; i++) {
        watches[i] = watch_new(CW_POLL_READ);
        watches[i]->act = remove_all_others;
        feed(watches[i]);
    }
    assert_int_equal(cw_poller_dispatch(poller), 3);
    for (i = 0; i < 10; i++) {
        if (watches[i] != NULL) {
            assert_null(left);
            left = watches[i];
        }
    }
    assert_non_null(left);
    assert_int_equal(left->calls, 1);
    assert_int_equal(cw_poller_dispatch(poller), 3);
}

static void remove_itself(struct watch *self)
{
    unsigned i;

    for (i = 0; watches[i] != self; i++) {
    }
    watches[i] = NULL;
    watch_free(self);
}

TEST_WITH(an_item_may_remove_itself, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < 10; i++) {
        watches[i] = watch_new(CW_POLL_READ);
        watches[i]->act = remove_itself;
        feed(watches[i]);
    }
    assert_int_equal(cw_poller_dispatch(poller), 30);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    for (i = 0; i < 10; i++) {
        assert_null(watches[i]);
    }
}

static unsigned replaced;

/* Takes the others out and puts them back at once with descriptors on which nothing waits. */
static void replace_others(struct watch *self)
{
    struct watch *fresh;
    unsigned i;

    for (i = 0; i < 10; i++) {
        if (watches[i] == self) {
            continue;
        }
        replaced++;
        cw_poller_remove(poller, &watches[i]->item);
        close(watches[i]->item.fd);
        close(watches[i]->peer);
        fresh = watch_new(CW_POLL_READ);
        watches[i]->item.fd = fresh->item.fd;
        watches[i]->peer = fresh->peer;
        watches[i]->act = NULL;
        cw_poller_remove(poller, &fresh->item);
        free(fresh);
        assert_int_equal(cw_poller_add(poller, &watches[i]->item, CW_POLL_READ), UCS_OK);
    }
}

TEST_WITH(an_item_that_comes_back_is_not_taken_for_the_old_one, set_up, tear_down)
{
    unsigned i, calls = 0;

    for (i = 0; i < 10; i++) {
        watches[i] = watch_new(CW_POLL_READ);
        watches[i]->act = replace_others;
        feed(watches[i]);
    }
    replaced = 0;
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_int_equal(replaced, 9);
    for (i = 0; i < 10; i++) {
        calls += watches[i]->calls;
    }
    assert_int_equal(calls, 1);
}

TEST_WITH(signals_coalesce_and_check_consumes_them, set_up, tear_down)
{
    unsigned i;

    assert_false(cw_poller_check(poller));
    for (i = 0; i < 1000; i++) {
        assert_int_equal(cw_poller_signal(poller), UCS_OK);
    }
    assert_true(readable(cw_poller_fd(poller)));
    assert_int_equal(cw_poller_dispatch(poller), 0);
    assert_true(readable(cw_poller_fd(poller)));
    assert_true(cw_poller_check(poller));
    assert_false(readable(cw_poller_fd(poller)));
    assert_false(cw_poller_check(poller));
}

TEST_WITH(check_leaves_descriptors_ready, set_up, tear_down)
{
    struct watch *watch;

    watch = watches[0] = watch_new(CW_POLL_READ);
    feed(watch);
    assert_int_equal(cw_poller_signal(poller), UCS_OK);
    assert_true(cw_poller_check(poller));
    assert_true(cw_poller_check(poller));
    assert_int_equal(watch->calls, 0);
    assert_false(readable(cw_poller_signal_fd(poller)));
    watch->act = drain_one;
    assert_int_equal(cw_poller_dispatch(poller), 3);
    assert_false(cw_poller_check(poller));
}

/* Also when so much is ready that the signal is not among the first that the system names. */
TEST_WITH(check_consumes_the_signal_among_many, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        watches[i] = watch_new(CW_POLL_READ);
        feed(watches[i]);
    }
    assert_int_equal(cw_poller_signal(poller), UCS_OK);
    assert_true(cw_poller_check(poller));
    assert_false(readable(cw_poller_signal_fd(poller)));
    remove_all_others(NULL);
    assert_false(cw_poller_check(poller));
}

TEST_WITH(a_full_counter_does_not_block_the_signal, set_up, tear_down)
{
    const uint64_t most = UINT64_MAX - 1;

    assert_int_equal(write(cw_poller_signal_fd(poller), &most, sizeof(most)), sizeof(most));
    errno = 4711;
    assert_int_equal(cw_poller_signal(poller), UCS_OK);
    assert_int_equal(errno, 4711);
    assert_true(cw_poller_check(poller));
    assert_false(cw_poller_check(poller));
}

TEST_WITH(without_signal_there_is_one_descriptor, set_up, tear_down)
{
    struct cw_poller *plain;
    int probe = dup(0);

    close(probe);
    assert_int_equal(cw_poller_new(0, &plain), UCS_OK);
    assert_int_equal(cw_poller_signal_fd(plain), -1);
    assert_false(cw_poller_check(plain));
    assert_int_equal(cw_poller_dispatch(plain), 0);
    assert_int_equal(dup(0), probe); /* none before somebody needs it */
    close(probe);
    assert_int_equal(fcntl(cw_poller_fd(plain), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    cw_poller_free(plain);
    cw_poller_free(NULL);
    assert_int_equal(fcntl(cw_poller_signal_fd(poller), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* Every descriptor that a poller needs is refused once; nothing is left open. */
TEST_WITH(a_poller_that_cannot_be_had_leaves_nothing_open, set_up, tear_down)
{
    struct cw_poller *none = (struct cw_poller *)&none;
    struct rlimit old, low;
    int probe, extra;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (extra = 0; extra < 3; extra++) {
        probe = dup(0);
        assert_true(probe >= 0);
        close(probe);
        low = (struct rlimit){.rlim_cur = (rlim_t)(probe + extra), .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        assert_int_equal(cw_poller_new(1, &none), UCS_ERR_IO_ERROR);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        assert_ptr_equal(none, &none);
        assert_int_equal(dup(0), probe);
        close(probe);
    }
}

TEST_WITH(what_cannot_be_watched_is_refused, set_up, tear_down)
{
    struct cw_poll_item item = {.fd = -1, .ready = on_ready};

    assert_int_equal(cw_poller_add(poller, &item, CW_POLL_READ), UCS_ERR_IO_ERROR);
    watches[0] = watch_new(CW_POLL_READ);
    item.fd = watches[0]->item.fd;
    assert_int_equal(cw_poller_add(poller, &item, CW_POLL_READ), UCS_ERR_IO_ERROR);
}

TEST_WITH(a_program_watches_the_poller_in_its_own_set, set_up, tear_down)
{
    struct epoll_event event;
    int set = epoll_create1(EPOLL_CLOEXEC), data = 0;

    assert_true(set >= 0);
    assert_int_equal(cw_poller_attach(poller, set, &data, 0), UCS_OK);
    assert_int_equal(epoll_wait(set, &event, 1, 0), 0);
    assert_int_equal(cw_poller_signal(poller), UCS_OK);
    assert_int_equal(epoll_wait(set, &event, 1, 0), 1);
    assert_ptr_equal(event.data.ptr, &data);
    assert_int_equal(event.events, EPOLLIN);
    assert_true(cw_poller_check(poller));
    assert_int_equal(epoll_wait(set, &event, 1, 0), 0);

    watches[0] = watch_new(CW_POLL_READ);
    feed(watches[0]);
    assert_int_equal(epoll_wait(set, &event, 1, 0), 1);
    assert_int_equal(epoll_wait(set, &event, 1, 0), 1); /* level triggered there, too */
    assert_int_equal(cw_poller_attach(poller, set, &data, 0), UCS_ERR_IO_ERROR);
    assert_int_equal(epoll_wait(set, &event, 1, 0), 1);
    cw_poller_detach(poller, set);
    assert_int_equal(epoll_wait(set, &event, 1, 0), 0);
    cw_poller_detach(poller, set);
    assert_int_equal(cw_poller_attach(poller, watches[0]->item.fd, &data, 0), UCS_ERR_IO_ERROR);
    assert_int_equal(cw_poller_attach(poller, -1, &data, 0), UCS_ERR_IO_ERROR);
    close(set);
}

static void *signal_later(void *arg)
{
    usleep(20000);
    assert_int_equal(cw_poller_signal(arg), UCS_OK);
    return NULL;
}

TEST_WITH(wait_sleeps_until_a_signal_or_the_timeout, set_up, tear_down)
{
    uint64_t start = cw_clock_ns();
    pthread_t thread;

    assert_int_equal(cw_poller_wait(poller, 30), UCS_OK);
    assert_true(cw_clock_ns() - start >= 29000000u);
    assert_int_equal(pthread_create(&thread, NULL, signal_later, poller), 0);
    assert_int_equal(cw_poller_wait(poller, -1), UCS_OK);
    assert_true(cw_poller_check(poller));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(cw_poller_signal(poller), UCS_OK);
    assert_int_equal(cw_poller_wait(poller, -1), UCS_OK);
    assert_true(cw_poller_check(poller));
    assert_int_equal(cw_poller_wait(poller, 0), UCS_OK);
}

static volatile sig_atomic_t alarms;
static struct cw_poller *alarm_signals;     /* from the handler, after a while */

static void on_alarm(int number)
{
    struct itimerval off = {{0, 0}, {0, 0}};

    (void)number;
    alarms++;
    if (alarms == 300) {
        setitimer(ITIMER_REAL, &off, NULL);
    }
    if (alarms >= 10 && alarm_signals != NULL) {
        (void)cw_poller_signal(alarm_signals);
    }
}

static void alarms_start(struct cw_poller *signals)
{
    struct itimerval every = {{0, 10000}, {0, 10000}};
    struct sigaction action = {.sa_handler = on_alarm};

    alarms = 0;
    alarm_signals = signals;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static void alarms_stop(void)
{
    struct itimerval off = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = SIG_DFL};

    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &action, NULL);
}

/* Interruptions neither end the sleep early nor stretch it: they come more often than the timeout. */
TEST_WITH(interruptions_do_not_change_the_timeout, set_up, tear_down)
{
    uint64_t start = cw_clock_ns(), passed;

    alarms_start(NULL);
    assert_int_equal(cw_poller_wait(poller, 100), UCS_OK);
    passed = cw_clock_ns() - start;
    alarms_stop();
    assert_true(alarms >= 2);
    assert_true(passed >= 99000000u);
    assert_true(passed < 2000000000u); /* 300 alarms take 3 s */
}

TEST_WITH(a_signal_handler_may_wake_the_sleeper, set_up, tear_down)
{
    alarms_start(poller);
    assert_int_equal(cw_poller_wait(poller, -1), UCS_OK);
    alarms_stop();
    assert_true(alarms >= 10);
    assert_true(cw_poller_check(poller));
}
