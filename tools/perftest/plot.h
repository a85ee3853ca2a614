/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pictures of results: latency and bandwidth against message size, several runs in one picture.
 *
 * Callers: main.c, session.c. plot.c holds the curves, plot_read.c reads what --json has written, plot_draw.c writes
 * the SVG. A curve is one test of one run.
 */
#ifndef CW_PERF_PLOT_H
#define CW_PERF_PLOT_H

#include <stdio.h>

#include "report.h"

struct cw_plot_point {
    uint64_t size;
    double usec; /* median */
    double mib_per_s;
};

struct cw_plot_curve {
    char run[64];  /* what tells the runs apart: the name of a file; empty: this run */
    char test[96]; /* what tells the tests of a run apart */
    bool latency;
    unsigned count;
    struct cw_plot_point *points; /* by size */
};

struct cw_plot {
    unsigned count;
    struct cw_plot_curve *curves;
};

/* Whether a picture can be written there. 0, or -1 after an error line; so all of them. */
int cw_plot_check(const char *path);

/* Adds one result to the curve that it belongs to. */
int cw_plot_add(struct cw_plot *plot, const char *run, const char *test, bool latency,
                const struct cw_plot_point *point);
int cw_plot_add_result(struct cw_plot *plot, const struct cw_report *report, const struct cw_perf_result *result);

/* Adds all results of a file. */
int cw_plot_add_file(struct cw_plot *plot, const char *path);

/* Writes the picture; a file of that name is replaced when all is written. */
int cw_plot_write(const struct cw_plot *plot, const char *path);

/* Draws; what went wrong is the file's to tell (ferror()). */
void cw_plot_draw(const struct cw_plot *plot, FILE *file);

void cw_plot_free(struct cw_plot *plot);

#endif
