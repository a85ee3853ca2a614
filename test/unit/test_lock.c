/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of os/lock.h (WRK-3, WRK-4): recursion, who is let in when, and that nobody is forgotten asleep.
 */

#include <pthread.h>
#include <sched.h>

#include "runner.h"
#include "os/lock.h"

enum { THREADS = 4, ROUNDS = 20000, PATIENCE = 16 };

/* Another thread that has the lock from `in` on until `out` is set. */
struct holder {
    struct cw_lock *lock;
    int in, out;
};

static void *hold(void *arg)
{
    struct holder *holder = arg;

    cw_lock_enter(holder->lock);
    __atomic_store_n(&holder->in, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&holder->out, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    cw_lock_leave(holder->lock);
    return NULL;
}

static void *try_once(void *arg)
{
    struct cw_lock *lock = arg;

    if (!cw_lock_try_enter(lock)) {
        return NULL;
    }
    cw_lock_leave(lock);
    return lock;
}

/* Whether another thread could enter. */
static int is_free(struct cw_lock *lock)
{
    pthread_t thread;
    void *result;

    assert_int_equal(pthread_create(&thread, NULL, try_once, lock), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result != NULL;
}

TEST(its_owner_comes_in_again)
{
    struct cw_lock lock;

    cw_lock_init(&lock);
    cw_lock_enter(&lock);
    cw_lock_enter(&lock);
    assert_true(cw_lock_try_enter(&lock));
    assert_true(cw_lock_offer(&lock));
    for (int i = 0; i < 4; i++) {
        assert_false(is_free(&lock));
        cw_lock_leave(&lock);
    }
    assert_true(is_free(&lock));
}

TEST(an_offer_is_refused_while_another_is_inside)
{
    struct cw_lock lock;
    struct holder holder = {.lock = &lock};
    pthread_t thread;

    cw_lock_init(&lock);
    assert_int_equal(pthread_create(&thread, NULL, hold, &holder), 0);
    while (!__atomic_load_n(&holder.in, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    for (int i = 1; i < PATIENCE; i++) {
        assert_false(cw_lock_offer(&lock));
    }
    __atomic_store_n(&holder.out, 1, __ATOMIC_RELEASE);
    assert_true(cw_lock_offer(&lock)); /* waits */
    cw_lock_leave(&lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

TEST(an_offer_gives_way_to_who_waits_but_not_for_ever)
{
    struct cw_lock lock;

    cw_lock_init(&lock);
    lock.waiting = 1; /* as if somebody were about to sleep */
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i < PATIENCE; i++) {
            assert_false(cw_lock_offer(&lock));
        }
        assert_true(cw_lock_offer(&lock));
        assert_true(cw_lock_offer(&lock)); /* who is inside gives way to nobody */
        cw_lock_leave(&lock);
        cw_lock_leave(&lock);
    }
    lock.waiting = 0;
    assert_true(cw_lock_offer(&lock));
    cw_lock_leave(&lock);
}

static void *enter_and_leave(void *arg)
{
    cw_lock_enter(arg);
    cw_lock_leave(arg);
    return NULL;
}

/* Who leaves may miss one that goes to sleep at that moment: it must come in nevertheless. */
TEST(one_that_nobody_wakes_comes_in)
{
    struct cw_lock lock;
    pthread_t thread;

    cw_lock_init(&lock);
    cw_lock_enter(&lock);
    assert_int_equal(pthread_create(&thread, NULL, enter_and_leave, &lock), 0);
    while (!__atomic_load_n(&lock.asleep, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        sched_yield(); /* mostly it sleeps by then */
    }
    __atomic_store_n(&lock.owner, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lock.word, 0, __ATOMIC_RELEASE); /* as who leaves does that saw nobody */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lock.waiting, 0);
    assert_true(is_free(&lock));
}

/* The mark that somebody may sleep is gone with the one who was woken, who puts it back while there are more. */
TEST(several_that_sleep_are_woken_one_by_one)
{
    struct cw_lock lock;
    pthread_t threads[THREADS];

    cw_lock_init(&lock);
    cw_lock_enter(&lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, enter_and_leave, &lock), 0);
    }
    while (__atomic_load_n(&lock.waiting, __ATOMIC_ACQUIRE) < THREADS ||
           !__atomic_load_n(&lock.asleep, __ATOMIC_ACQUIRE)) {
        sched_yield();
    }
    assert_false(is_free(&lock));
    cw_lock_leave(&lock);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(lock.waiting, 0);
    assert_true(is_free(&lock));
}

struct counting {
    struct cw_lock lock;
    uint64_t count;
    int over;
};

static void *count(void *arg)
{
    struct counting *counting = arg;

    for (int i = 0; i < ROUNDS; i++) {
        cw_lock_enter(&counting->lock);
        counting->count++;
        if (i % 64 == 0) {
            sched_yield(); /* so that others find it taken for long, and sleep */
        }
        cw_lock_leave(&counting->lock);
    }
    return NULL;
}

static void *offer(void *arg)
{
    struct counting *counting = arg;

    while (!__atomic_load_n(&counting->over, __ATOMIC_ACQUIRE)) {
        if (cw_lock_offer(&counting->lock)) {
            counting->count += 2;
            counting->count -= 2;
            cw_lock_leave(&counting->lock);
        }
    }
    return NULL;
}

/* A wake-up that is lost hangs here. */
TEST(threads_count_beside_one_that_spins)
{
    struct counting counting = {.count = 0};
    pthread_t threads[THREADS], spinning;

    cw_lock_init(&counting.lock);
    assert_int_equal(pthread_create(&spinning, NULL, offer, &counting), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count, &counting), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    __atomic_store_n(&counting.over, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(spinning, NULL), 0);
    assert_int_equal(counting.count, (uint64_t)THREADS * ROUNDS);
    assert_int_equal(counting.lock.waiting, 0);
    assert_true(is_free(&counting.lock));
}
