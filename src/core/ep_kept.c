/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bounds of core/ep_kept.h. Invariant: worker->kept is the sum of ep->kept. Beyond the worker's bound an endpoint
 * may only fill its equal share. All shares together are as large as the bound, so a worker keeps at most twice the
 * bound, or CW_KEPT_LEAST for each endpoint.
 */
#include "core/ep_kept.h"

/* The equal share of each endpoint of the worker, by the present number of endpoints. */
static uint64_t share_of(const struct ucp_worker *worker, uint64_t limit)
{
    const uint64_t num_eps = worker->counts.values[CW_COUNT_EPS];
    const uint64_t share = limit * CW_KEPT_PEERS / ((num_eps > 0) ? num_eps : 1);

    return (share > CW_KEPT_LEAST) ? share : CW_KEPT_LEAST;
}

int cw_ep_keep(struct ucp_ep *ep, uint64_t bytes)
{
    struct ucp_worker *worker = ep->worker;
    const uint64_t limit = cw_kept_limit(worker);

    if (bytes > limit || ep->kept > limit - bytes) {
        return 0;
    }
    if (limit <= UINT64_MAX / CW_KEPT_PEERS && worker->kept + bytes > limit * CW_KEPT_PEERS &&
        ep->kept + bytes > share_of(worker, limit)) {
        return 0;
    }
    ep->kept += bytes;
    worker->kept += bytes;
    return 1;
}
