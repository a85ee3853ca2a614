/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the performance tool prints on stdout (PRF-20 to PRF-29): information box, table header, result rows,
 * comma-separated values. Every row is flushed (PRF-29) and nothing follows the final row (PRF-28).
 *
 * Callers: main.c, run.c.
 */
#ifndef CW_PERF_REPORT_H
#define CW_PERF_REPORT_H

#include "meter.h"
#include "options.h"
#include "tests.h"

struct cw_report {
    const struct cw_perf_options *options;
    const char *names[CW_PERF_MAX_BATCH]; /* of the present test, one per batch file */
};

/* The information box of a server, or of a loopback run (then without its last rule). */
void cw_report_box(const struct cw_perf_test *test, const struct cw_perf_params *params, bool loopback);

/* The header of the table or of the comma-separated values. */
void cw_report_header(const struct cw_report *report, const struct cw_perf_test *test);

/* Batch: the rule line with the name of the test written into it (PRF-25). */
void cw_report_test_name(const struct cw_report *report);

/* One row; final rows follow what cw_report_percentiles() and checks print. */
void cw_report_row(const struct cw_report *report, const struct cw_meter_row *row, bool final);

/* The whole result as one object of JSON in a line of its own. */
void cw_report_json(const struct cw_report *report, const struct cw_perf_run *run, const struct cw_meter_row *row);

/* The additional line of --percentiles. */
void cw_report_percentiles(const struct cw_meter *meter);

#endif
