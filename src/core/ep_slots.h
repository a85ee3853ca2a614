/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the endpoints that peers open. The program may know such an endpoint as the reply_ep of a handler, and is
 * not notified when the peer has gone. So the handle of a lent endpoint stays valid until the worker ends: a
 * *tombstone*, which answers calls with an error, and whose slot no later endpoint reuses. Pages that contain only
 * tombstones return to the kernel.
 */
#ifndef CW_CORE_EP_SLOTS_H
#define CW_CORE_EP_SLOTS_H

#include <stddef.h>

struct cw_ep_slots;
struct ucp_ep;
struct ucp_worker;

/* Allocates an endpoint and the state of the operations. NULL: out of memory. */
struct ucp_ep *cw_ep_slot_take(struct ucp_worker *worker);
/* The endpoint has ended. One that was lent leaves a tombstone. */
void cw_ep_slot_end(struct ucp_ep *ep);
/* All handles become invalid. */
void cw_ep_slots_free(struct ucp_worker *worker);

#endif
