/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that this process retains because of a peer, beside its window of eager messages (msg/credit.h) and the
 * answers that it waits for (rma/rma.h): announced messages that nobody received, active messages with missing
 * fragments, answers that the peer does not read. UCX_PEER_MEMORY bounds it for each endpoint; a peer that exceeds the
 * bound loses its connection. The bound also applies, per worker, to messages of peers that have gone.
 *
 * All endpoints of a worker together may retain CW_RETAINED_PEERS times the bound. Beyond that, an endpoint that needs
 * more loses its connection if it has more than an equal share. An endpoint with less goes on, so that greedy peers, or
 * one with many connections, do not cost modest peers their connections.
 */
#ifndef CW_CORE_EP_RETAINED_H
#define CW_CORE_EP_RETAINED_H

#include "config/config.h"
#include "config/value.h"
#include "core/context.h"
#include "core/ep.h"

#define CW_RETAINED_ONE   256u          /* the overhead of a message or an answer: its object and its index entry */
#define CW_RETAINED_PEERS 4u
#define CW_RETAINED_LEAST (64 * CW_RETAINED_ONE) /* always granted to each endpoint, however many there are */
#define CW_RETAINED_AUTO  (UINT64_C(1) << 30)

static inline uint64_t cw_retained_limit(const struct ucp_worker *worker)
{
    const uint64_t limit = worker->context->config->peer_memory;

    return (limit == CW_MEMUNITS_AUTO) ? CW_RETAINED_AUTO : limit;
}

/* Charges this many bytes to the endpoint. 0: over the limit, nothing is charged. */
int cw_ep_keep(struct ucp_ep *ep, uint64_t bytes);

static inline void cw_ep_let_go(struct ucp_ep *ep, uint64_t bytes)
{
    assert(ep->retained >= bytes && ep->worker->retained >= bytes);
    ep->retained -= bytes;
    ep->worker->retained -= bytes;
}

#endif
