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

/* A number, not 0, that no other living thread has: the address of the thread control block. Unlike pthread_self it
 * needs no call into another library. */
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

/* Yields the processor to another thread that waits for this very processor; returns at once if there is none. */
void cw_thread_yield(void);

/* Number of context switches of the calling thread, voluntary and involuntary. */
uint64_t cw_thread_switches(void);

#endif
