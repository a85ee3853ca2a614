/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of os/lock.h: a word that is exchanged, and a futex for those who sleep. It is not fair: handing it on to a
 * thread that does not run at the moment would make all others wait for the scheduler.
 */
#define _GNU_SOURCE
#include "os/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/compiler.h"

/* Some microseconds: longer than any send, shorter than putting a thread to sleep and waking it. */
#define SPINS 64u

/* So often in a row cw_lock_offer gives way. */
#define OFFERS 16u

static inline uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

/* Only the owner itself ever finds its own name there. */
static inline int is_mine(const struct cw_lock *lock, uintptr_t me)
{
    return __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == me;
}

static inline int grab(struct cw_lock *lock, uintptr_t me, uint32_t word)
{
    uint32_t expected = 0;

    if (!__atomic_compare_exchange_n(&lock->word, &expected, word, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return 0;
    }
    __atomic_store_n(&lock->owner, me, __ATOMIC_RELAXED);
    return 1;
}

static int spin(struct cw_lock *lock, uintptr_t me, uint32_t word)
{
    unsigned i;

    for (i = 0; i < SPINS; i++) {
        if (__atomic_load_n(&lock->word, __ATOMIC_RELAXED) == 0 && grab(lock, me, word)) {
            return 1;
        }
        cw_cpu_relax();
    }
    return 0;
}

static void sleep_while_taken(struct cw_lock *lock)
{
    const int before = errno;

    (void)syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0); /* a wake-up too many does no harm */
    errno = before;
}

static CW_APART void enter_taken(struct cw_lock *lock, uintptr_t me)
{
    uint32_t word = 1;

    __atomic_add_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
    while (!spin(lock, me, word)) {
        word = 2; /* who was woken up wakes the next: others may sleep still */
        if (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) == 0) {
            __atomic_store_n(&lock->owner, me, __ATOMIC_RELAXED);
            break;
        }
        sleep_while_taken(lock);
    }
    __atomic_sub_fetch(&lock->waiting, 1, __ATOMIC_RELAXED);
}

static CW_APART void wake_one(struct cw_lock *lock)
{
    const int before = errno;

    (void)syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    errno = before;
}

void cw_lock_init(struct cw_lock *lock)
{
    *lock = (struct cw_lock){0};
}

int cw_lock_try_enter(struct cw_lock *lock)
{
    const uintptr_t me = self();

    if (grab(lock, me, 1)) {
        return 1;
    }
    if (!is_mine(lock, me)) {
        return 0;
    }
    lock->depth++;
    return 1;
}

void cw_lock_enter(struct cw_lock *lock)
{
    if (cw_unlikely(!cw_lock_try_enter(lock))) {
        enter_taken(lock, self());
    }
}

void cw_lock_leave(struct cw_lock *lock)
{
    if (lock->depth > 0) {
        lock->depth--;
        return;
    }
    __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
    if (cw_unlikely(__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)) {
        wake_one(lock);
    }
}

void cw_lock_yield(void)
{
    sched_yield();
}

int cw_lock_offer(struct cw_lock *lock)
{
    const int wanted = __atomic_load_n(&lock->waiting, __ATOMIC_RELAXED) > 0;

    if ((!wanted || is_mine(lock, self())) && cw_lock_try_enter(lock)) {
        __atomic_store_n(&lock->refused, 0, __ATOMIC_RELAXED);
        return 1;
    }
    if (__atomic_add_fetch(&lock->refused, 1, __ATOMIC_RELAXED) < OFFERS) {
        cw_cpu_relax();
        return 0;
    }
    __atomic_store_n(&lock->refused, 0, __ATOMIC_RELAXED);
    if (wanted) {
        sched_yield(); /* it may be this very processor that the others wait for */
    }
    cw_lock_enter(lock);
    return 1;
}
