/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer makes this process keep beside its window of eager messages (op/credit.h) and of answers that it waits
 * for (op/rma.h): announced messages that nobody received, active messages of which parts are missing, answers that it
 * does not read. Bounded by UCX_PEER_MEMORY for each endpoint; a peer that exceeds it loses its connection. The same
 * bound holds, for a worker, for what peers that are gone have left for it to be received.
 */
#ifndef CW_CORE_EP_KEPT_H
#define CW_CORE_EP_KEPT_H

#include "core/config.h"
#include "core/context.h"
#include "core/ep.h"

#define CW_KEPT_ONE 256u /* what a message or an answer costs beside its bytes: its object, its place in an index */

static inline uint64_t cw_kept_limit(const struct ucp_worker *worker)
{
    return worker->context->config->peer_memory;
}

/* Whether so much more may be kept; it is counted then. */
static inline int cw_ep_keep(struct ucp_ep *ep, uint64_t bytes)
{
    const uint64_t limit = cw_kept_limit(ep->worker);

    if (cw_unlikely(bytes > limit || ep->kept > limit - bytes)) {
        return 0;
    }
    ep->kept += bytes;
    return 1;
}

static inline void cw_ep_let_go(struct ucp_ep *ep, uint64_t bytes)
{
    assert(ep->kept >= bytes);
    ep->kept -= bytes;
}

#endif
