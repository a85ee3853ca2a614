/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who measures with whom among several processes: in each round a process is client of one other, or server of some, or
 * rests.
 *
 * Callers: group.c.
 */
#ifndef CW_PERF_PLAN_H
#define CW_PERF_PLAN_H

#include "options.h"

#define CW_NOBODY UINT32_MAX

/* How many rounds `size` processes need. */
unsigned cw_plan_rounds(enum cw_perf_pattern pattern, uint32_t size);

/* The server of client `rank` in a round, or CW_NOBODY when it is none. */
uint32_t cw_plan_server(enum cw_perf_pattern pattern, uint32_t size, unsigned round, uint32_t rank);

/* How many clients `rank` serves in a round. */
unsigned cw_plan_clients(enum cw_perf_pattern pattern, uint32_t size, unsigned round, uint32_t rank);

#endif
