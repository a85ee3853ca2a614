/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the endpoints that peers open. The program may know such an endpoint as the reply_ep of a handler, and
 * nothing tells it when the peer has gone. So the handle of one that was lent stays what it is until the worker ends: a
 * *tombstone*, which answers calls with an error, and which no later endpoint takes the place of. Pages of nothing but
 * tombstones go back to the system.
 */
#ifndef CW_CORE_EP_SLOTS_H
#define CW_CORE_EP_SLOTS_H

#include <stddef.h>

struct cw_ep_slots;
struct ucp_ep;
struct ucp_worker;

/* Room for an endpoint and the state of the operations. NULL: no memory. */
struct ucp_ep *cw_ep_slot_take(struct ucp_worker *worker);
/* The endpoint has ended. One that was lent leaves a tombstone. */
void cw_ep_slot_end(struct ucp_ep *ep);
/* No handle is valid any more. */
void cw_ep_slots_free(struct ucp_worker *worker);

#endif
