/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tool as a job of several processes, started by mpirun, prun or srun.
 *
 * Callers: main.c.
 */
#ifndef CW_PERF_GROUP_H
#define CW_PERF_GROUP_H

#include "options.h"


/* Whether this process is one of such a job, and not a server or client of its own. */
bool cw_group_wanted(const struct cw_perf_options *options);

/*
 * Runs all tests among the processes of the job. 0, or -1 after an error line. Two of them are a server and a client as
 * if started by hand; more measure in pairs, by the pattern of the options.
 */
int cw_group_run(struct cw_perf_options *options);

#endif
