/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This machine: timer, processor, topology, copies in memory (INF-4).
 *
 * Callers: main.c.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "say.h"
#include "show.h"

#define TIMER_NS     UINT64_C(20000000)
#define COPY_NS      UINT64_C(20000000)
#define COPY_FIRST   4096u
#define COPY_LAST    (64u << 20)
#define MB           1048576.0

/* The value of the first line of that key in /proc/cpuinfo. */
static int cpuinfo(const char *key, char *value, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512], *colon;
    size_t length;

    value[0] = '\0';
    while (file != NULL && value[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
        colon  = strchr(line, ':');
        length = strlen(key);
        if (colon == NULL || strncmp(line, key, length) != 0 || !isspace((unsigned char)line[length])) {
            continue;
        }
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(value, size, "%s", colon);
    }
    if (file != NULL) {
        fclose(file);
    }
    return value[0] != '\0';
}

static const char *vendor_name(const char *id)
{
    static const char *const names[][2] = {
        {"AuthenticAMD", "AMD"}, {"GenuineIntel", "Intel"}, {"HygonGenuine", "Hygon"},
        {"  Shanghai  ", "Zhaoxin"}, {"0x41", "Generic ARM"}, {"0x48", "Huawei"}, {"0x46", "Fujitsu ARM"},
    };
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(id, names[i][0]) == 0) {
            return names[i][1];
        }
    }
    return id;
}

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
    const double off   = (first > second) ? (first - second) / first : (second - first) / second;
    const double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    char vendor[128], model[128];

    if (!cpuinfo("vendor_id", vendor, sizeof(vendor)) && !cpuinfo("CPU implementer", vendor, sizeof(vendor))) {
        snprintf(vendor, sizeof(vendor), "unknown");
    }
    if (!cpuinfo("model name", model, sizeof(model)) && !cpuinfo("CPU part", model, sizeof(model))) {
        snprintf(model, sizeof(model), "unknown");
    }
    printf("# Timer frequency: %.3f MHz\n", second);
    printf("# Timer accuracy: %.3f %%\n", 100.0 * (1.0 - off));
    printf("# CPU vendor: %s\n", vendor_name(vendor));
    printf("# CPU model: %s\n", model);
    printf("# CPUs: %ld, of which this process may use %u\n", sysconf(_SC_NPROCESSORS_ONLN), cw_cpu_count());
    printf("# Memory: %.0f MB\n", pages / MB);
}

void cw_show_topology(void)
{
    printf("#\n# System topology:\n#\n# +------+\n# |      |\n# | MB/s |\n# |      |\n# +------+\n#\n"
           "# < no distances: this library does not look at them, so no device has one >\n#\n");
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
        best  = (after - before < best) ? after - before : best;
    } while (after - start < COPY_NS);
    return (double)size / MB * 1e9 / (double)((best == 0) ? 1 : best);
}

void cw_show_copies(void)
{
    char *from = malloc(COPY_LAST), *to = malloc(COPY_LAST);
    size_t size;

    printf("# Using memcpy() of the C library\n# Memcpy bandwidth:\n");
    if (from == NULL || to == NULL) {
        printf("#     < there is not enough memory >\n");
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
