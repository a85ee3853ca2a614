/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One test from parameters to final row.
 *
 * Callers: main.c.
 */
#ifndef CW_PERF_RUN_H
#define CW_PERF_RUN_H

#include "oob.h"
#include "options.h"
#include "report.h"
#include "tests.h"

/*
 * Runs the test of `params` in the given role. `oob` is NULL in loopback. 0, or -1 after an error line; the peer
 * has then been told the reason and the out-of-band connection is closed.
 */
int cw_run_test(enum cw_perf_role role, struct cw_oob *oob, const struct cw_perf_params *params,
                const struct cw_report *report);

#endif
