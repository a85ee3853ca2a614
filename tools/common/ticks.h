/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A cheap clock for measured loops: the processor's counter where it runs at a constant rate, else
 * CLOCK_MONOTONIC. Its rate is found by comparison with CLOCK_MONOTONIC over the whole run so far, so
 * that it becomes the more exact the longer the program has run.
 *
 * Callers: the performance tool, the demonstration and the bare-limit programs.
 * cw_ticks_start() comes first, once per process.
 */
#ifndef CW_TOOLS_TICKS_H
#define CW_TOOLS_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Set by cw_ticks_start(): whether the processor's counter can be trusted as a clock. */
extern bool cw_ticks_from_counter;

/* Starts the comparison of the two clocks; blocks for about 10 ms to have a first estimate. */
void cw_ticks_start(void);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t cw_clock_ns(void);

/* Nanoseconds per tick, by what is known now. */
double cw_ticks_ns(void);

static inline uint64_t cw_ticks_now(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(cw_ticks_from_counter, 1)) {
        return __builtin_ia32_rdtsc();
    }
#elif defined(__aarch64__)
    if (__builtin_expect(cw_ticks_from_counter, 1)) {
        uint64_t ticks;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
        return ticks;
    }
#endif
    return cw_clock_ns();
}

#endif
