/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This machine: timer, processor, topology, copies in memory (INF-4).
 *
 * Callers: main.c.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/machine.h"
#include "say.h"
#include "show.h"

#define TIMER_NS     UINT64_C(20000000)
#define COPY_NS      UINT64_C(20000000)
#define COPY_FIRST   4096u
#define COPY_LAST    (64u << 20)
#define MB           1048576.0

/* Ticks per microsecond over some milliseconds. */
static double timer_mhz(void)
{
    const uint64_t ticks = cw_clock_ticks(), start = cw_clock_ns();
    uint64_t end;

    do {
        end = cw_clock_ns();
    } while (end - start < TIMER_NS);
    return (double)(cw_clock_ticks() - ticks) * 1e3 / (double)(end - start);
}

void cw_show_system(void)
{
    const double first = timer_mhz(), second = timer_mhz();
    const double off = (first > second) ? (first - second) / first : (second - first) / second;
    const double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    struct cw_machine machine;

    cw_machine_read(&machine);
    printf("# Timer frequency: %.3f MHz\n", second);
    printf("# Timer accuracy: %.3f %%\n", 100.0 * (1.0 - off));
    printf("# CPU vendor: %s\n", machine.cpu_vendor);
    printf("# CPU model: %s\n", machine.cpu_model);
    printf("# Product name: %s\n", machine.product);
    printf("# CPUs: %ld, of which this process may use %u\n", sysconf(_SC_NPROCESSORS_ONLN), cw_cpu_count());
    printf("# Memory: %.0f MB\n", pages / MB);
}

void cw_show_topology(void)
{
    printf("#\n# System topology:\n#\n# +------+\n# |      |\n# | MB/s |\n# |      |\n# +------+\n#\n# < distances of "
           "devices are not measured by this library >\n#\n");
}

/* MB/s, the best of as many copies as fit into some milliseconds. */
static double copy_rate(char *to, const char *from, size_t size)
{
    const uint64_t start = cw_clock_ns();
    uint64_t best = UINT64_MAX, before, after;

    do {
        before = cw_clock_ns();
        memcpy(to, from, size);
        __asm__ volatile("" : : "r"(to) : "memory");
        after = cw_clock_ns();
        best = (after - before < best) ? after - before : best;
    } while (after - start < COPY_NS);
    return (double)size / MB * 1e9 / (double)((best == 0) ? 1 : best);
}

void cw_show_copies(void)
{
    char *from = malloc(COPY_LAST), *to = malloc(COPY_LAST);
    size_t size;

    printf("# Using memcpy() of the C library\n# Memcpy bandwidth:\n");
    if (from == NULL || to == NULL) {
        printf("#     < out of memory >\n");
    } else {
        memset(from, 1, COPY_LAST);
        memset(to, 2, COPY_LAST);
        for (size = COPY_FIRST; size <= COPY_LAST; size *= 2) {
            cw_watchdog_beat();
            printf("#     %10zu bytes: %.3f MB/s\n", size, copy_rate(to, from, size));
        }
    }
    free(from);
    free(to);
}
