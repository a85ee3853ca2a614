/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between memory of devices of one host, or of one process, which no device can copy alone: the sender's
 * device copies to chunks of memory of the host, the receiver's device copies from these very chunks, and no processor
 * touches the bytes (docs/change/long-messages.md). Several chunks are under way. If the receiver cannot have a chunk,
 * the message comes in pieces.
 */
#ifndef CW_RNDV_CHUNKS_H
#define CW_RNDV_CHUNKS_H

#include "core/ep.h"
#include "msg/datatype.h"
#include "wire/packet.h"

/* Whether a message between this memory of a device and the endpoint's peer may go by chunks, in either direction. */
int cw_chunks_are_possible(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length);

/* ---- the receiver ---- */

struct cw_chunks;

/* A packet in host order. */
void cw_chunks_decode(const void *data, struct cw_wire_rndv_chunk *packet);
/* Expects `length` bytes for memory of the cursor, by chunks of that send. `ended` is called by progress, once, when no
 * copy is under way any more: UCS_OK: all bytes are there; otherwise a chunk cannot be had, or the device has failed,
 * and the sender is still to be told. NULL: no memory. */
struct cw_chunks *cw_chunks_begin(struct ucp_ep *ep, uint64_t send_id, const struct cw_dt_cursor *cursor, size_t length,
                                  void (*ended)(void *arg, ucs_status_t status), void *arg);
/* Begins the copy from a chunk. UCS_ERR_IO_ERROR: the packet breaks the protocol. */
ucs_status_t cw_chunks_take(struct cw_chunks *chunks, const struct cw_wire_rndv_chunk *packet);
/* Waits for the copies under way. UCS_OK: all bytes are there. */
ucs_status_t cw_chunks_wait(struct cw_chunks *chunks);
/* Waits, and frees. */
void cw_chunks_end(struct cw_chunks *chunks);

/* ---- the sender ---- */

/* An attempt (request->send) of a send that has sent nothing: it goes by chunks if the receiver takes them and it is
 * possible, else in pieces. */
ucs_status_t cw_chunks_or_data(struct cw_request *request);
/* An attempt: the receiver wants pieces after it has got chunks. */
ucs_status_t cw_chunks_withdraw(struct cw_request *request);
ucs_status_t cw_chunks_on_taken(struct ucp_ep *ep, const void *data, size_t length);

#endif
