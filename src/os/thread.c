/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of os/thread.h.
 */
#define _GNU_SOURCE
#include "os/thread.h"

#include <sched.h>
#include <sys/resource.h>

void cw_thread_yield(void)
{
    sched_yield();
}

uint64_t cw_thread_switches(void)
{
    struct rusage usage;

    return (getrusage(RUSAGE_THREAD, &usage) == 0) ? (uint64_t)usage.ru_nivcsw + (uint64_t)usage.ru_nvcsw : 0;
}
