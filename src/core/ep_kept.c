/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who may keep how much. Invariant: worker->kept is the sum of ep->kept. Beyond the worker's bound only shares are
 * filled, which are that bound all together, so it holds twice that at most, or CW_KEPT_LEAST for each endpoint.
 */
#include "core/ep_kept.h"

/* An equal share for each endpoint of the worker; what it is now is what counts. */
static uint64_t share_of(const struct ucp_worker *worker, uint64_t limit)
{
    const uint64_t num_eps = worker->counts.values[CW_COUNT_EPS];
    const uint64_t share   = limit * CW_KEPT_PEERS / ((num_eps > 0) ? num_eps : 1);

    return (share > CW_KEPT_LEAST) ? share : CW_KEPT_LEAST;
}

int cw_ep_keep(struct ucp_ep *ep, uint64_t bytes)
{
    struct ucp_worker *worker = ep->worker;
    const uint64_t limit      = cw_kept_limit(worker);

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
