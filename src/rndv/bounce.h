/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between device memory within one host or process that no device can copy alone: the sender's device
 * copies to shared host bounce buffers, the receiver's device copies from the same buffers, and no CPU touches
 * the bytes (docs/change/long-messages.md). Several bounce buffers are in flight. If the receiver cannot map a bounce
 * buffer, the message is sent in packets instead.
 */
#ifndef CW_RNDV_BOUNCE_H
#define CW_RNDV_BOUNCE_H

#include <stdbool.h>

#include "core/ep.h"
#include "msg/datatype.h"
#include "wire/packet.h"

/* Whether a message between this device memory and the endpoint's peer may use bounce buffers, in either direction. */
bool cw_bounce_is_possible(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length);

/* ---- the receiver ---- */

struct cw_bounce_recv;

/* Decodes a packet to host order. */
void cw_bounce_decode(const void *data, struct cw_wire_rndv_chunk *packet);
/* Expects `length` bytes for the cursor's memory, through bounce buffers of that send. Progress calls `ended` once,
 * when no copy is in flight any more. UCS_OK: all bytes have arrived; otherwise a bounce buffer could not be mapped or
 * the device failed, and the caller still has to notify the sender. NULL: out of memory. */
struct cw_bounce_recv *cw_bounce_recv_begin(struct ucp_ep *ep, uint64_t send_id, const struct cw_dt_cursor *cursor,
                                            size_t length, void (*ended)(void *arg, ucs_status_t status), void *arg);
/* Begins the copy from a bounce buffer. UCS_ERR_IO_ERROR: protocol violation. */
ucs_status_t cw_bounce_recv_take(struct cw_bounce_recv *recv, const struct cw_wire_rndv_chunk *packet);
/* Waits for the copies in flight. UCS_OK: all bytes have arrived. */
ucs_status_t cw_bounce_recv_wait(struct cw_bounce_recv *recv);
/* Waits, and frees. */
void cw_bounce_recv_end(struct cw_bounce_recv *recv);

/* ---- the sender ---- */

/* An attempt (request->send) of a send that has sent nothing: it uses bounce buffers if possible and the receiver
 * accepts them, else packets. */
ucs_status_t cw_bounce_or_data(struct cw_request *request);
/* An attempt: the receiver asks for packets after it has received bounce buffers. */
ucs_status_t cw_bounce_withdraw(struct cw_request *request);
ucs_status_t cw_bounce_on_taken(struct ucp_ep *ep, const void *data, size_t length);

#endif
