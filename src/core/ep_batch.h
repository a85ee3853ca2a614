/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends that leave together: which ones wait for the next one or for progress (docs/why/tcp-rate.md). The state of a
 * batch belongs to the lane.
 */
#ifndef CW_CORE_EP_BATCH_H
#define CW_CORE_EP_BATCH_H

#include "core/ep.h"

/* Small sends after the first one since the last progress are collected; a later send or progress passes them all to
 * the kernel in one call (docs/why/tcp-rate.md). For open endpoints. The round bits wrap after 2^32 rounds: then a send
 * only waits for progress. */
static inline bool cw_ep_collects(const struct ucp_ep *ep)
{
    return ep->conn->sent_round == (uint32_t)ep->worker->round && cw_lane_batches(ep->conn);
}

/* Longer sends are passed to the kernel at once, except for the end of the last one: it leaves with the next send, or
 * with the next progress, which completes them all. Whether one more send may be gathered so. */
static inline bool cw_ep_gathers(const struct ucp_ep *ep)
{
    return ep->state == CW_EP_OPEN && ep->conn->gathers && !cw_list_empty(&ep->pending) &&
           (cw_container_of(ep->pending.prev, struct cw_request, link)->flags & CW_REQUEST_HANDED_OVER);
}

/* Collects sends until progress, or until cw_ep_gather_end. */
void cw_ep_gather(struct ucp_ep *ep);
void cw_ep_gather_end(struct ucp_ep *ep);
/* Sends a request that follows another one without progress in between. CW_AGAIN: the request goes to the queue,
 * whether it was sent or not. */
ucs_status_t cw_ep_follow(struct ucp_ep *ep, struct cw_request *request);

/* Records that a send was passed to the kernel alone. */
static inline void cw_ep_sent_alone(struct ucp_ep *ep)
{
    if (cw_lane_batches(ep->conn)) {
        ep->conn->sent_round = (uint32_t)ep->worker->round;
    }
}

#endif
