/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends that leave together: which ones wait for the next one or for progress (docs/why/tcp-rate.md). What is
 * noted for that belongs to the lane.
 */
#ifndef CW_CORE_EP_BATCH_H
#define CW_CORE_EP_BATCH_H

#include "core/ep.h"

/* Small sends after the first one since the last progress wait for the next one, which hands them all to the system in
 * one call (docs/why/tcp-rate.md). Of open endpoints. */
static inline int cw_ep_collects(const struct ucp_ep *ep)
{
    return ep->conn->sent_round == ep->worker->round;
}

/* Longer ones are given to the system at once, but for the end of the last: it leaves with the next one, or with the
 * next progress, which completes them all. Whether one more may be. */
static inline int cw_ep_gathers(const struct ucp_ep *ep)
{
    return ep->state == CW_EP_OPEN && ep->conn->gathers && !cw_list_empty(&ep->pending) &&
           (cw_container_of(ep->pending.prev, struct cw_request, link)->flags & CW_REQUEST_HANDED_OVER);
}

/* From here on until progress, or until it is ended. */
void cw_ep_gather(struct ucp_ep *ep);
void cw_ep_gather_end(struct ucp_ep *ep);
/* Sends what follows another one without progress between. CW_AGAIN: it goes to the queue, sent or not. */
ucs_status_t cw_ep_follow(struct ucp_ep *ep, struct cw_request *request);

/* A send went out alone. */
static inline void cw_ep_sent_alone(struct ucp_ep *ep)
{
    if (cw_lane_batches(ep->conn)) {
        ep->conn->sent_round = ep->worker->round;
    }
}

#endif
