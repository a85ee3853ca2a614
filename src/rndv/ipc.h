/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Single-copy transfer of a long message between device memory of two processes of a host, or within a process
 * (docs/change/long-messages.md). The sender sends the name of its memory, the receiver maps it for its own device, and
 * that device copies; progress does not wait for the copy. If any step fails, the message is sent in packets.
 */
#ifndef CW_RNDV_IPC_H
#define CW_RNDV_IPC_H

#include <stdbool.h>

#include "core/ep.h"
#include "mem/md.h"
#include "msg/datatype.h"
#include "wire/packet.h"

/* Shorter messages are cheaper in packets. */
#define CW_IPC_LEAST ((size_t)16 << 10)

/* Whether memory of a device may be named to the peer of this endpoint, or be named by the peer. */
bool cw_ipc_is_possible(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length);

/* ---- the receiver ---- */

struct cw_ipc;

/* Decodes the name of a peer's memory; the input is untrusted. UCS_ERR_IO_ERROR: protocol violation. Otherwise the name
 * holds the descriptors that the peer passed; cw_ipc_begin takes them over. */
ucs_status_t cw_ipc_decode(struct ucp_ep *ep, const struct cw_wire_rndv_name *packet, size_t length,
                           struct cw_md_name *name);
/* Closes the descriptors of the name and begins the copy of `length` bytes into memory of the cursor. Progress calls
 * `ended` once, never inside this call. NULL: the copy is impossible, and `ended` is not called. */
struct cw_ipc *cw_ipc_begin(struct ucp_ep *ep, struct cw_md_name *name, const struct cw_dt_cursor *cursor,
                            size_t length, void (*ended)(void *arg, ucs_status_t status), void *arg);
/* Waits for a copy in flight, and frees. */
void cw_ipc_end(struct cw_ipc *ipc);
/* The endpoint has lost its connection. */
void cw_ipc_ep_ended(struct ucp_ep *ep);

/* ---- the sender ---- */

/* A number for passed descriptors. Each is used once, so a descriptor is never matched with another purpose. */
uint64_t cw_ipc_next_number(void);

/* The attempt (request->send) that sends the name of a send's memory, or continues with cw_bounce_or_data if there is
 * none. The send has the phase CW_SEND_NAMING. */
ucs_status_t cw_ipc_send_name(struct cw_request *request);

#endif
