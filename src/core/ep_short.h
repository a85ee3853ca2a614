/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short packets sent within the call: a header of 8 bytes and contiguous bytes behind it, without a request.
 */
#ifndef CW_CORE_EP_SHORT_H
#define CW_CORE_EP_SHORT_H

#include <stdbool.h>

#include "core/ep_batch.h"

/* Whether cw_ep_send_few() may be called: for few bytes, on an open endpoint where nothing waits and the transport has
 * tx space. */
static CW_INLINE bool cw_ep_takes_few(const struct ucp_ep *ep, size_t length)
{
    return cw_tx_takes(ep->tx, length) && cw_list_empty(&ep->pending);
}

/* Sends a packet at once; it cannot fail. */
static CW_INLINE void cw_ep_send_few(struct ucp_ep *ep, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    cw_tx_put(ep->tx, id, header, payload, length);
}

/* Tries to send a packet. False: nothing was sent, because the plan sends this length by another protocol, the endpoint
 * is not open, other sends wait or are collected, or the transport has no tx space or has failed. */
static CW_INLINE bool cw_ep_send_short(struct ucp_ep *ep, uint8_t id, uint64_t header, const void *payload,
                                       size_t length)
{
    if (!cw_ep_ready(ep) || length >= ep->conn->iface->plan->short_end || cw_unlikely(cw_ep_collects(ep)) ||
        cw_lane_send_short(ep->conn, id, header, payload, length) != UCS_OK) {
        return false;
    }
    cw_ep_sent_alone(ep);
    return true;
}

#endif
