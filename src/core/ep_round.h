/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one endpoint may do in one round of progress beside what it hands up: bytes that are sent in several packets or
 * copied in shares. A peer that reads as fast as it is sent to, or that asks for small pieces, would keep the others of
 * the worker waiting otherwise.
 */
#ifndef CW_CORE_EP_ROUND_H
#define CW_CORE_EP_ROUND_H

#include "core/ep.h"

/* So many bytes, ... */
#define CW_EP_ROUND_BYTES (16u << 20)
/* ... each packet and each share counted as so many at least. */
#define CW_EP_PIECE_BYTES 4096u

static inline void cw_ep_spend(struct ucp_ep *ep, uint64_t bytes)
{
    if (ep->spent_round != ep->worker->round) {
        ep->spent_round = ep->worker->round;
        ep->spent       = 0;
    }
    ep->spent += (bytes > CW_EP_PIECE_BYTES) ? (uint32_t)bytes : CW_EP_PIECE_BYTES;
}

/* All of that is used up. */
static inline int cw_ep_is_spent(const struct ucp_ep *ep)
{
    return ep->spent >= CW_EP_ROUND_BYTES && ep->spent_round == ep->worker->round;
}

/* Likewise, for requests that wait in the queue: the next round goes on with them. */
static inline int cw_ep_must_pause(struct ucp_ep *ep)
{
    if (cw_likely(!cw_ep_is_spent(ep))) {
        return 0;
    }
    cw_ep_reap_later(ep);
    return 1;
}

#endif
