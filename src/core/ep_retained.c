/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bounds of core/ep_retained.h. Invariant: worker->retained is the sum of ep->retained. Beyond the worker's bound
 * an endpoint may only fill its equal share. All shares together are as large as the bound, so a worker retains at most
 * twice the bound, or CW_RETAINED_LEAST for each endpoint.
 */
#include "core/ep_retained.h"

/* The equal share of each endpoint of the worker, by the present number of endpoints. */
static uint64_t share_of(const struct ucp_worker *worker, uint64_t limit)
{
    const uint64_t num_eps = worker->counts.values[CW_COUNT_EPS];
    const uint64_t share = limit * CW_RETAINED_PEERS / ((num_eps > 0) ? num_eps : 1);

    return (share > CW_RETAINED_LEAST) ? share : CW_RETAINED_LEAST;
}

int cw_ep_keep(struct ucp_ep *ep, uint64_t bytes)
{
    struct ucp_worker *worker = ep->worker;
    const uint64_t limit = cw_retained_limit(worker);

    if (bytes > limit || ep->retained > limit - bytes) {
        return 0;
    }
    if (limit <= UINT64_MAX / CW_RETAINED_PEERS && worker->retained + bytes > limit * CW_RETAINED_PEERS &&
        ep->retained + bytes > share_of(worker, limit)) {
        return 0;
    }
    ep->retained += bytes;
    worker->retained += bytes;
    return 1;
}
