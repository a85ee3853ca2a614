/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of the interface that serves a peer: a pure function of numbers.
 */
#ifndef CW_CONNECT_CHOOSE_H
#define CW_CONNECT_CHOOSE_H

#include <stdbool.h>

struct cw_plan_candidate {
    double latency_ns;
    double bandwidth_bps;
};

/* The figures by which candidates are compared. */
enum cw_plan_number { CW_PLAN_LATENCY, CW_PLAN_BANDWIDTH, CW_PLAN_PLACE };

/* Whether `a` is better than `b`, which stands behind it in the list: so `a` wins if both are equal. *by (may be NULL)
 * is the figure that decides. */
bool cw_plan_is_better(const struct cw_plan_candidate *a, const struct cw_plan_candidate *b, enum cw_plan_number *by);

#endif
