/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device makes one copy for a long message between memory of devices in two processes of a host, or within a
 * process (docs/change/long-messages.md). The sender names its memory, the receiver makes it accessible to its own
 * device, and that device copies; progress does not wait for the copy. If any of that fails, the message comes in
 * pieces.
 */
#ifndef CW_RNDV_IPC_H
#define CW_RNDV_IPC_H

#include "core/ep.h"
#include "mem/md.h"
#include "msg/datatype.h"
#include "wire/packet.h"

/* Shorter messages cost less in packets. */
#define CW_IPC_LEAST ((size_t)16 << 10)

/* Whether memory of a device may be named to the peer of this endpoint, or be named by the peer. */
int cw_ipc_is_possible(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length);

/* ---- the receiver ---- */

struct cw_ipc;

/* Reads what a peer says of its memory; any bytes may stand there. UCS_ERR_IO_ERROR: it breaks the protocol. Otherwise
 * the name has the descriptors that the peer has passed, and goes to cw_ipc_begin. */
ucs_status_t cw_ipc_decode(struct ucp_ep *ep, const struct cw_wire_rndv_name *packet, size_t length,
                           struct cw_md_name *name);
/* Closes the descriptors of the name and begins the copy of `length` bytes into memory of the cursor. `ended` is called
 * by progress, once, and not inside this call. NULL: it cannot be done, and nothing happens. */
struct cw_ipc *cw_ipc_begin(struct ucp_ep *ep, struct cw_md_name *name, const struct cw_dt_cursor *cursor,
                            size_t length, void (*ended)(void *arg, ucs_status_t status), void *arg);
/* Waits for the copy, if it is under way, and frees. */
void cw_ipc_end(struct cw_ipc *ipc);
/* The endpoint has lost its connection. */
void cw_ipc_ep_lost(struct ucp_ep *ep);

/* ---- the sender ---- */

/* A number for descriptors that are passed. Each is used once, so that what was passed for one purpose is never taken
 * for another. */
uint64_t cw_ipc_next_number(void);

/* The attempt (request->send) that tells the name of a send's memory, or goes on by cw_chunks_or_data if there is none.
 * The send has the phase CW_SEND_NAMING. */
ucs_status_t cw_ipc_send_name(struct cw_request *request);

#endif
