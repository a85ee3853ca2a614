/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables and progress display of the demonstration.
 *
 * Callers: demo.c.
 * The display is one line at the foot, redrawn at most ten times a second and wiped before anything else is
 * printed. Without a terminal on stdout there is none.
 */
#include "demo.h"

#include "ticks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 32

static bool shown;
static uint64_t shown_ns;

void demo_show_progress(double fraction, const char *transport, const char *text)
{
    char bar[BAR_WIDTH + 1];
    uint64_t now = cw_clock_ns();
    int full = (int)(fraction * BAR_WIDTH);

    if (!isatty(STDOUT_FILENO) || (shown && now - shown_ns < 100000000)) {
        return;
    }
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < full ? '#' : '.';
    }
    bar[BAR_WIDTH] = '\0';
    printf("\r\033[K  [%s] %3d %%  %s: %s", bar, (int)(fraction * 100), transport, text);
    fflush(stdout);
    shown = true;
    shown_ns = now;
}

void demo_hide_progress(void)
{
    if (shown) {
        printf("\r\033[K");
        fflush(stdout);
    }
    shown = false;
}

const char *demo_size_text(size_t size, char text[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    unsigned unit = 0;

    while (unit < 3 && size >= 1024 && size % 1024 == 0) {
        size /= 1024;
        unit++;
    }
    snprintf(text, 16, "%zu %s", size, units[unit]);
    return text;
}

void demo_show_table_head(void)
{
    printf("  %10s  %16s  %13s  %14s\n", "size", "median (usec)", "p99 (usec)", "MB/s");
}

void demo_show_table_row(size_t size, double median_usec, double p99_usec, double mbps)
{
    char text[16];

    printf("  %10s  %16.2f  %13.2f  %14.2f\n", demo_size_text(size, text), median_usec, p99_usec, mbps);
    fflush(stdout);
}
