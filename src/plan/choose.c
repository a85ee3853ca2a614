/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of plan/choose.h.
 */
#include "plan/choose.h"

static int is_better(const struct cw_plan_candidate *a, const struct cw_plan_candidate *b)
{
    if (a->latency_ns < b->latency_ns) {
        return 1;
    }
    return a->latency_ns <= b->latency_ns && a->bandwidth_bps > b->bandwidth_bps;
}

int cw_plan_choose(const struct cw_plan_candidate *candidates, unsigned count)
{
    int best = -1;
    unsigned i;

    for (i = 0; i < count; i++) {
        if (candidates[i].usable && (best < 0 || is_better(&candidates[i], &candidates[best]))) {
            best = (int)i;
        }
    }
    return best;
}

double cw_plan_estimate(double latency_ns, double overhead_ns, double bandwidth_bps, double bytes)
{
    return (latency_ns + overhead_ns) * 1e-9 + bytes / bandwidth_bps;
}
