/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work budget of one endpoint in one round of progress beside the packets that it delivers: bytes that are sent in
 * several packets or copied in shares. Without this limit a peer that reads as fast as we send, or that requests small
 * pieces, would starve the other peers of the worker.
 */
#ifndef CW_CORE_EP_ROUND_H
#define CW_CORE_EP_ROUND_H

#include "core/ep.h"

/* The most bytes of one endpoint in a round ... */
#define CW_EP_ROUND_BYTES (16u << 20)
/* ... where each packet and each share counts as at least this many. */
#define CW_EP_PIECE_BYTES 4096u

static inline void cw_ep_spend(struct ucp_ep *ep, uint64_t bytes)
{
    if (ep->spent_round != ep->worker->round) {
        ep->spent_round = ep->worker->round;
        ep->spent = 0;
    }
    ep->spent += (bytes > CW_EP_PIECE_BYTES) ? (uint32_t)bytes : CW_EP_PIECE_BYTES;
}

/* Whether the endpoint has used up its bytes of this round. */
static inline bool cw_ep_is_spent(const struct ucp_ep *ep)
{
    return ep->spent >= CW_EP_ROUND_BYTES && ep->spent_round == ep->worker->round;
}

/* Whether a queued request must stop because the bytes of this round are used up; the next round continues it. */
static inline bool cw_ep_must_pause(struct ucp_ep *ep)
{
    if (cw_likely(!cw_ep_is_spent(ep))) {
        return false;
    }
    cw_ep_reap_later(ep);
    return true;
}

#endif
