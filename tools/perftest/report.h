/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the performance tool prints on stdout (PRF-20 to PRF-29): information box, table header, result rows,
 * comma-separated values. Every row is flushed (PRF-29) and nothing follows the final row (PRF-28).
 *
 * Callers: session.c, run.c, group.c.
 */
#ifndef CW_PERF_REPORT_H
#define CW_PERF_REPORT_H

#include "meter.h"
#include "options.h"
#include "tests.h"

/* A test within others: one level for each batch file, one for the size of a sweep. */
#define CW_REPORT_LEVELS (CW_PERF_MAX_BATCH + 1)

struct cw_report {
    const struct cw_perf_options *options;
    unsigned levels;
    const char *heads[CW_REPORT_LEVELS]; /* columns of comma-separated values */
    const char *names[CW_REPORT_LEVELS]; /* of the present test */
    bool silent;                         /* nothing is printed while a test runs */
};

/* What one test has come to; filled by cw_run_test(). */
struct cw_perf_result {
    const struct cw_perf_test *test;
    struct cw_perf_params params; /* window filled in */
    struct cw_meter meter;        /* its histogram is that of all threads */
    struct cw_meter_row row;
    uint64_t verified; /* messages checked byte by byte */
    struct cw_perf_path path;
};

/* The information box of a server, or of a loopback run (then without its last rule). */
void cw_report_box(const struct cw_perf_test *test, const struct cw_perf_params *params, bool loopback);

/* The header of the table or of the comma-separated values. */
void cw_report_header(const struct cw_report *report, const struct cw_perf_test *test);

/* A text as a column of comma-separated values, with the comma before it. */
void cw_report_csv_text(const char *text);

/* A member of an object of JSON whose value is a text, with the comma before it. */
void cw_report_json_text(const char *name, const char *text);

/* Batch: the rule line with the name of the test written into it (PRF-25). */
void cw_report_test_name(const struct cw_report *report);

/* Asks the library by what the endpoint goes. */
void cw_report_path(const struct cw_link *link, struct cw_perf_path *path);

/* -X: which library runs the test and over what. */
void cw_report_extra(const struct cw_report *report, const struct cw_perf_path *path);

/* An intermediate row. */
void cw_report_interval(const struct cw_report *report, const struct cw_meter_row *row,
                        const struct cw_perf_run *run);

/* A final row of several threads or processes (PRF-26). */
void cw_report_total(const struct cw_report *report, const struct cw_meter_row *row);

/* The final row with all that is said about a test, or its object of JSON in a line of its own. */
void cw_report_result(const struct cw_report *report, const struct cw_perf_result *result);

#endif
