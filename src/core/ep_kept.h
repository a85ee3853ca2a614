/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer makes this process keep beside its window of eager messages (op/credit.h) and of answers that it waits
 * for (op/rma.h): announced messages that nobody received, active messages of which parts are missing, answers that it
 * does not read. Bounded by UCX_PEER_MEMORY for each endpoint; a peer that exceeds it loses its connection. The same
 * bound holds, for a worker, for what peers that are gone have left for it to be received.
 *
 * All endpoints of a worker together may keep CW_KEPT_PEERS times that. Whoever wants more then loses its connection if
 * it has more than an equal share; who has less goes on, so that many greedy peers, or one with many connections, do
 * not cost the modest ones theirs.
 */
#ifndef CW_CORE_EP_KEPT_H
#define CW_CORE_EP_KEPT_H

#include "config/config.h"
#include "config/value.h"
#include "core/context.h"
#include "core/ep.h"

#define CW_KEPT_ONE   256u              /* what a message or an answer costs beside its bytes: its object, its place in
                                         * an index */
#define CW_KEPT_PEERS 4u
#define CW_KEPT_LEAST (64 * CW_KEPT_ONE) /* so much is nobody's fault, however many share */
#define CW_KEPT_AUTO  (UINT64_C(1) << 30)

static inline uint64_t cw_kept_limit(const struct ucp_worker *worker)
{
    const uint64_t limit = worker->context->config->peer_memory;

    return (limit == CW_MEMUNITS_AUTO) ? CW_KEPT_AUTO : limit;
}

/* Whether so much more may be kept; it is counted then. */
int cw_ep_keep(struct ucp_ep *ep, uint64_t bytes);

static inline void cw_ep_let_go(struct ucp_ep *ep, uint64_t bytes)
{
    assert(ep->kept >= bytes && ep->worker->kept >= bytes);
    ep->kept         -= bytes;
    ep->worker->kept -= bytes;
}

#endif
