/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calling thread and its processor.
 */
#ifndef CW_OS_THREAD_H
#define CW_OS_THREAD_H

#include <stdint.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <pthread.h>
#endif

/* A name for the calling thread that no other has while it lives, and not 0: where the system keeps what belongs to it.
 * Unlike pthread_self no call into another library. */
static inline uintptr_t cw_thread_self(void)
{
    uintptr_t self;

#if defined(__x86_64__)
    __asm__("mov %%fs:0, %0" : "=r"(self));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(self));
#else
    self = (uintptr_t)pthread_self();
#endif
    return self;
}

/* Lets another thread have it that waits for this very processor; returns at once if there is none. */
void cw_thread_yield(void);

/* How often another one had it in between, by this one's will or not. */
uint64_t cw_thread_switches(void);

/* How often this one slept: it waited for something else than a processor. */
uint64_t cw_thread_sleeps(void);

#endif
