/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of connect/choose.h.
 */
#include "connect/choose.h"

#include <stddef.h>

/* Greater than 0: the first is better; 0: equal. */
static int compare(const struct cw_plan_candidate *a, const struct cw_plan_candidate *b, enum cw_plan_number *by)
{
    *by = CW_PLAN_LATENCY;
    if (a->latency_ns < b->latency_ns || a->latency_ns > b->latency_ns) {
        return (a->latency_ns < b->latency_ns) ? 1 : -1;
    }
    *by = CW_PLAN_BANDWIDTH;
    if (a->bandwidth_bps < b->bandwidth_bps || a->bandwidth_bps > b->bandwidth_bps) {
        return (a->bandwidth_bps > b->bandwidth_bps) ? 1 : -1;
    }
    *by = CW_PLAN_PLACE;
    return 0;
}

bool cw_plan_is_better(const struct cw_plan_candidate *a, const struct cw_plan_candidate *b, enum cw_plan_number *by)
{
    enum cw_plan_number number;
    int result = compare(a, b, &number) >= 0;

    if (by != NULL) {
        *by = number;
    }
    return result;
}
