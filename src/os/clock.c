/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monotonic clock of os/clock.h. It is a function so that a simulation can replace the clock.
 */
#include "os/clock.h"

#include <time.h>

uint64_t cw_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
