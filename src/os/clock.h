/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time. cw_clock_ns is the monotonic clock. cw_clock_ticks reads a free-running counter, which takes a few cycles. It
 * serves for pacing only: its rate is known no better than "between 10 MHz and 10 GHz".
 */
#ifndef CW_OS_CLOCK_H
#define CW_OS_CLOCK_H

#include <stdint.h>

uint64_t cw_clock_ns(void);

static inline uint64_t cw_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#else
    return cw_clock_ns();
#endif
}

/* Number of ticks that take about ten microseconds on current machines. */
#if defined(__aarch64__)
#define CW_CLOCK_TICKS_SHORT 512u
#else
#define CW_CLOCK_TICKS_SHORT 32768u
#endif

#endif
