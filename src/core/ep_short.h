/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a short packet, a header of 8 bytes and contiguous bytes behind it, may be sent within the call, without a
 * request.
 */
#ifndef CW_CORE_EP_SHORT_H
#define CW_CORE_EP_SHORT_H

#include <stdbool.h>

#include "core/ep_batch.h"
#include "core/lane.h"

/* Whether cw_tx_send may be called: for few bytes, on an open endpoint where nothing waits and the transport has tx
 * space. */
static CW_INLINE bool cw_ep_can_send_fast(const struct ucp_ep *ep, size_t length)
{
    return cw_tx_can_send(ep->tx, length) && cw_list_empty(&ep->pending);
}

/* Whether a short packet may be sent: the endpoint is open, no send waits or is collected, and the plan sends this
 * length by one. */
static CW_INLINE bool cw_ep_can_send_short(const struct ucp_ep *ep, size_t length)
{
    return cw_ep_ready(ep) && length < ep->conn->iface->plan->short_end && cw_likely(!cw_ep_collects(ep));
}

#endif
