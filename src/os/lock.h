/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a worker that several threads use, and of the table of memory. Recursive, because callbacks call back
 * into the library. A thread that finds it taken spins for a moment, then sleeps. A thread that only polls (progress)
 * yields to waiting threads, and gets the lock after a few refused attempts: docs/why/threads.md.
 *
 * Entering takes one locked instruction, leaving takes none: the owner first checks whether a thread sleeps, then
 * releases the lock. The owner misses a thread that goes to sleep between these two steps. So every sleep is short, and
 * the sleeper checks the word after it.
 */
#ifndef CW_OS_LOCK_H
#define CW_OS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/thread.h"

struct cw_lock {
    uint32_t word;              /* 0 free, 1 taken */
    uint32_t asleep;            /* not 0: threads may sleep, and the owner wakes one when it leaves */
    uintptr_t owner;            /* the owning thread; 0: none */
    unsigned depth;             /* of the owner: recursion depth */
    uint32_t waiting;           /* threads inside cw_lock_enter that found it taken */
    unsigned refused;           /* calls of cw_lock_offer in a row that returned 0 */
};

void cw_lock_init(struct cw_lock *lock);
void cw_lock_enter(struct cw_lock *lock);
void cw_lock_leave(struct cw_lock *lock);

/* 1: entered. For a thread that owns a lock which comes later in the lock order: if this one is taken, the thread must
 * release that one before it waits. */
int cw_lock_try_enter(struct cw_lock *lock);

/* Call before the next cw_lock_try_enter. */
void cw_lock_yield(void);

/* For calls in a loop. 1: entered. 0: another thread is inside or waits, try again later. */
int cw_lock_offer(struct cw_lock *lock);

/* The slow parts of cw_lock_enter and cw_lock_leave: the lock was taken, or a thread may sleep. */
void cw_lock_enter_taken(struct cw_lock *lock);
void cw_lock_leave_wake(struct cw_lock *lock);
int cw_lock_offer_taken(struct cw_lock *lock);

/* Safe without the lock: only the owner itself can find its own id there. */
static CW_INLINE bool cw_lock_is_mine(const struct cw_lock *lock)
{
    return __atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == cw_thread_self();
}

/* Inline forms of the functions above, for places where a call would cost as much as its work. */
static CW_INLINE int cw_lock_try_enter_inline(struct cw_lock *lock)
{
    uint32_t expected = 0;

    if (cw_lock_is_mine(lock)) {
        lock->depth++;
        return 1;
    }
    if (!__atomic_compare_exchange_n(&lock->word, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        return 0;
    }
    __atomic_store_n(&lock->owner, cw_thread_self(), __ATOMIC_RELAXED);
    return 1;
}

static CW_INLINE void cw_lock_enter_inline(struct cw_lock *lock)
{
    if (cw_unlikely(!cw_lock_try_enter_inline(lock))) {
        cw_lock_enter_taken(lock);
    }
}

/* Once the word is 0 the lock is not accessed any more: another thread may have freed it. */
static CW_INLINE void cw_lock_leave_inline(struct cw_lock *lock)
{
    if (lock->depth > 0) {
        lock->depth--;
        return;
    }
    __atomic_store_n(&lock->owner, 0, __ATOMIC_RELAXED);
    if (cw_unlikely(__atomic_load_n(&lock->asleep, __ATOMIC_RELAXED) != 0)) {
        cw_lock_leave_wake(lock);
    } else {
        __atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
    }
}

static CW_INLINE int cw_lock_offer_inline(struct cw_lock *lock)
{
    if (cw_unlikely(__atomic_load_n(&lock->waiting, __ATOMIC_RELAXED) > 0 || !cw_lock_try_enter_inline(lock))) {
        return cw_lock_offer_taken(lock);
    }
    if (cw_unlikely(__atomic_load_n(&lock->refused, __ATOMIC_RELAXED) != 0)) {
        __atomic_store_n(&lock->refused, 0, __ATOMIC_RELAXED);
    }
    return 1;
}

#endif
