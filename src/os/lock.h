/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock of a worker that several threads use, and of the table of memory. Recursive, because callbacks call back
 * into the library (WRK-4). Who finds it taken spins for a moment, then sleeps. Whoever only looks for work (progress)
 * gives way to those, and is itself let in after a few attempts: docs/decisions/threads.md.
 */
#ifndef CW_OS_LOCK_H
#define CW_OS_LOCK_H

#include <stdint.h>

struct cw_lock {
    uint32_t word;              /* 0 free, 1 taken, 2 taken while somebody may sleep */
    uint32_t waiting;           /* threads inside cw_lock_enter that found it taken */
    uintptr_t owner;            /* the thread that has it; 0: none */
    unsigned depth;             /* the owner's: how often it came in again */
    unsigned refused;           /* attempts of cw_lock_offer in a row that came to nothing */
};

void cw_lock_init(struct cw_lock *lock);
void cw_lock_enter(struct cw_lock *lock);
void cw_lock_leave(struct cw_lock *lock);

/* 1: entered. For who holds a lock that comes later in the order, and must let it go if this one is taken. */
int cw_lock_try_enter(struct cw_lock *lock);

/* To be called before it tries again. */
void cw_lock_yield(void);

/* For calls that are made in a loop. 1: entered. 0: another thread is inside or waits, come again later. */
int cw_lock_offer(struct cw_lock *lock);

#endif
