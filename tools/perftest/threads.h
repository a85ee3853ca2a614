/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test with several threads (-T): one context, and for each thread a worker of its own with an endpoint to the worker
 * of the same number at the peer.
 *
 * Callers: run.c.
 */
#ifndef CW_PERF_THREADS_H
#define CW_PERF_THREADS_H

#include "run.h"

/*
 * Runs `run->params.threads` threads in the role of `run`. 0 with their common numbers in `result`, or -1 with a
 * sentence: the peer has then been notified.
 */
int cw_threads_run(const struct cw_perf_run *run, struct cw_oob *oob, struct cw_perf_result *result,
                   char sentence[CW_SENTENCE]);

#endif
