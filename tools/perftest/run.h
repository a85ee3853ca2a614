/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One test from parameters to its numbers.
 *
 * Callers: session.c, group.c; threads.c (the part of one worker).
 */
#ifndef CW_PERF_RUN_H
#define CW_PERF_RUN_H

#include "oob.h"
#include "options.h"
#include "report.h"
#include "tests.h"

enum { CW_SENTENCE = 512 };

/*
 * Runs the test of `params` in the given role. `oob` is NULL in loopback. 0, and `result` is filled where this side
 * measures (cw_result_free()); or -1 after an error line: the peer has then got the reason and the out-of-band
 * connection is closed.
 */
int cw_run_test(enum cw_perf_role role, struct cw_oob *oob, const struct cw_perf_params *params,
                const struct cw_report *report, struct cw_perf_result *result);

void cw_result_free(struct cw_perf_result *result);

/* What a worker and its endpoint need to be for a test. */
struct cw_link_config cw_run_config(const struct cw_perf_run *run);

/* The meter of a run; false when there is no memory. */
bool cw_run_meter(struct cw_perf_run *run, struct cw_meter *meter);

/*
 * The part of one worker: connects, measures, closes. 0, or -1 with a sentence: the peer has then been notified, and
 * `oob` is closed.
 */
int cw_run_worker(struct cw_perf_run *run, const struct cw_link_config *config, struct cw_oob *oob,
                  char sentence[CW_SENTENCE]);

#endif
