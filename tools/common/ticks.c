/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of measured loops: choice of the counter and its rate.
 *
 * Callers: the performance tool, the demonstration and the bare-limit programs.
 */
#include "ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool cw_ticks_from_counter;

static uint64_t start_ns;
static uint64_t start_ticks;

uint64_t cw_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool counter_is_clock(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;

    /* Leaf 0x80000007, EDX bit 8: the counter runs at one rate in all power states. */
    return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 8)) != 0;
#elif defined(__aarch64__)
    return true;
#else
    return false;
#endif
}

void cw_ticks_start(void)
{
    cw_ticks_from_counter = counter_is_clock();
    start_ns = cw_clock_ns();
    start_ticks = cw_ticks_now();
    while (cw_clock_ns() - start_ns < 10000000) {
    }
}

double cw_ticks_ns(void)
{
    uint64_t ticks = cw_ticks_now() - start_ticks;
    uint64_t ns = cw_clock_ns() - start_ns;

    return ticks == 0 ? 1.0 : (double)ns / (double)ticks;
}
