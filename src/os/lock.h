/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's lock: recursive, because callbacks call back into the library (WRK-4), and polite: a thread that only
 * spins on progress stands aside while others wait, so that senders are not starved.
 */
#ifndef CW_OS_LOCK_H
#define CW_OS_LOCK_H

#include <pthread.h>
#include <sched.h>

#include "ucs/type/status.h"

struct cw_lock {
    pthread_mutex_t mutex;
    int waiters; /* threads inside cw_lock_enter that found the lock taken; read by cw_lock_enter_spinning without the
                  * lock */
};

/* UCS_ERR_NO_MEMORY when the system has no resources for another mutex. */
ucs_status_t cw_lock_init(struct cw_lock *lock);
void cw_lock_cleanup(struct cw_lock *lock);

static inline void cw_lock_enter(struct cw_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0) {
        __atomic_add_fetch(&lock->waiters, 1, __ATOMIC_RELAXED);
        pthread_mutex_lock(&lock->mutex);
        __atomic_sub_fetch(&lock->waiters, 1, __ATOMIC_RELAXED);
    }
}

/* 1: entered. For who holds a lock that comes later in the order, and must let it go if this one is taken. */
static inline int cw_lock_try_enter(struct cw_lock *lock)
{
    return pthread_mutex_trylock(&lock->mutex) == 0;
}

/* To be called before it tries again. */
static inline void cw_lock_yield(void)
{
    sched_yield();
}

/* For calls that are made in a loop: gives way once if somebody waits. */
static inline void cw_lock_enter_spinning(struct cw_lock *lock)
{
    if (__atomic_load_n(&lock->waiters, __ATOMIC_RELAXED) > 0) {
        sched_yield();
    }
    cw_lock_enter(lock);
}

static inline void cw_lock_leave(struct cw_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

#endif
