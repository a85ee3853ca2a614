/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of os/lock.h: a word that is exchanged, and a futex for threads that sleep. The lock is not fair: if it were
 * passed to a thread that does not run at the moment, all others would wait for the scheduler.
 */
#define _GNU_SOURCE
#include "os/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Some microseconds: longer than any send, shorter than putting a thread to sleep and waking it. */
#define SPINS 64u

/* Attempts in a row at which cw_lock_offer yields to other threads. */
#define OFFERS 16u

/* A sleeping thread checks the word again after this time: it may have gone to sleep just when the owner was leaving,
 * and then nobody wakes it. */
#define SLEEP_NS 1000000

static inline int grab(struct cw_lock *lock)
{
    uint32_t expected = 0;

    if (!__atomic_compare_exchange_n(&lock->word, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return 0;
    }
    __atomic_store_n(&lock->owner, cw_thread_self(), __ATOMIC_RELAXED);
    return 1;
}

static int spin(struct cw_lock *lock)
{
    unsigned i;

    for (i = 0; i < SPINS; i++) {
        if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && grab(lock)) {
            return 1;
        }
        cw_cpu_relax();
    }
    return 0;
}

static void sleep_while_taken(struct cw_lock *lock)
{
    const struct timespec most = {.tv_nsec = SLEEP_NS};
    const int before = errno;

    (void)syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 1, &most, NULL, 0); /* waking too early does no harm */
    errno = before;
}

/* A waker clears `asleep`. The woken thread sets it again, since others may still sleep: either before it sleeps again,
 * or once it has the lock. */
CW_NOINLINE void cw_lock_enter_taken(struct cw_lock *lock)
{
    unsigned slept = 0;

    __atomic_add_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
    while (!spin(lock)) {
        __atomic_store_n(&lock->asleep, 1, __ATOMIC_SEQ_CST);
        slept = 1;
        if (spin(lock)) { /* an owner that saw no sleeper has released the lock by then */
            break;
        }
        sleep_while_taken(lock);
    }
    if (__atomic_sub_fetch(&lock->waiting, 1, __ATOMIC_RELAXED) > 0 && slept) {
        __atomic_store_n(&lock->asleep, 1, __ATOMIC_RELAXED);
    }
}

/* `asleep` is cleared while the lock is still owned, so a mark that a thread sets later is not lost. */
CW_NOINLINE void cw_lock_leave_wake(struct cw_lock *lock)
{
    const int before = errno;

    __atomic_store_n(&lock->asleep, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = before;
}

void cw_lock_init(struct cw_lock *lock)
{
    *lock = (struct cw_lock){0};
}

int cw_lock_try_enter(struct cw_lock *lock)
{
    return cw_lock_try_enter_inline(lock);
}

void cw_lock_enter(struct cw_lock *lock)
{
    cw_lock_enter_inline(lock);
}

void cw_lock_leave(struct cw_lock *lock)
{
    cw_lock_leave_inline(lock);
}

void cw_lock_yield(void)
{
    sched_yield();
}

int cw_lock_offer(struct cw_lock *lock)
{
    return cw_lock_offer_inline(lock);
}

CW_NOINLINE int cw_lock_offer_taken(struct cw_lock *lock)
{
    const int wanted = __atomic_load_n(&lock->waiting, __ATOMIC_RELAXED) > 0;

    if ((!wanted || cw_lock_is_mine(lock)) && cw_lock_try_enter(lock)) {
        __atomic_store_n(&lock->refused, 0, __ATOMIC_RELAXED);
        return 1;
    }
    if (__atomic_add_fetch(&lock->refused, 1, __ATOMIC_RELAXED) < OFFERS) {
        cw_cpu_relax();
        return 0;
    }
    __atomic_store_n(&lock->refused, 0, __ATOMIC_RELAXED);
    if (wanted) {
        sched_yield(); /* the waiting threads may need this very processor */
    }
    cw_lock_enter(lock);
    return 1;
}
