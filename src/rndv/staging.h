/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves a message between memory of a device and packets by way of chunks of pinned host memory: the device copies to
 * or from some chunks while others are sent or filled. A stage takes the place of a cursor over contiguous memory of a
 * device (class CW_DT_STAGED of msg/datatype.h). Progress never waits for a copy: a transfer with nothing to do before
 * a copy ends names a function, which an alarm of the worker calls, so that a sleeping program wakes up for the copy,
 * too.
 *
 *      out: device --copy--> chunk --pack--> packet        in: packet --unpack--> chunk --copy--> device
 *
 * An open stage copies to chunks that the peer's device reads (rndv/chunks.h); nothing is packed.
 */
#ifndef CW_RNDV_STAGING_H
#define CW_RNDV_STAGING_H

#include "msg/datatype.h"

struct cw_chunk;
struct cw_staging;
struct ucp_ep;
struct ucp_worker;

/* Shorter messages are copied within the call that packs or unpacks them. */
#define CW_STAGING_LEAST ((size_t)64 << 10)

/* Whether a message of that length should go by a stage. */
static inline int cw_staging_is_worth(const struct cw_dt_cursor *cursor, size_t length)
{
    return cw_dt_is_flat_device(cursor) && length >= CW_STAGING_LEAST;
}

/* From now on the cursor, which is at its beginning, goes by a stage; `length`: of the message. Without memory for a
 * stage nothing changes. */
void cw_staging_begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, size_t length);

/* cw_staging_ready (out): begins further copies, and returns how many bytes from the message's beginning can be packed
 * now. cw_staging_left (in): returns how many unpacked chunks are not copied to the device yet. *status_p: UCS_OK, or
 * the error of a copy that failed. */
size_t cw_staging_ready(struct cw_staging *staging, ucs_status_t *status_p);
unsigned cw_staging_left(struct cw_staging *staging, ucs_status_t *status_p);
/* The last result of cw_staging_ready. */
size_t cw_staging_complete(const struct cw_staging *staging);
/* Waits for the copies under way. Returns the status of all copies. */
ucs_status_t cw_staging_wait(struct cw_staging *staging);

/* Has progress call `wake` when the result of cw_staging_ready or cw_staging_left may have changed. */
void cw_staging_await(struct cw_staging *staging, void (*wake)(void *arg), void *arg);

/* ---- an open stage ---- */

/* As cw_staging_begin, for a message to that peer. Returns whether the stage has begun. */
int cw_staging_open(struct cw_dt_cursor *cursor, struct ucp_ep *ep, size_t length);
/* Whether it has no chunk, and will never have one. */
int cw_staging_is_barren(const struct cw_staging *staging);
/* Returns the chunk with the bytes at that offset, which are ready to be sent, and their number. */
struct cw_chunk *cw_staging_chunk(struct cw_staging *staging, size_t offset, size_t *length_p);
/* The peer has been told of these bytes. */
void cw_staging_shown(struct cw_staging *staging, size_t offset);
/* The peer has copied them; `keeps`: it can find the chunk again. 0: no such bytes are shown. */
int cw_staging_taken(struct cw_staging *staging, size_t offset, int keeps);
/* Whether nothing can change before the peer has taken a chunk. */
int cw_staging_waits_for_peer(const struct cw_staging *staging);
/* Returns whether no copy is under way; begins none. */
int cw_staging_is_quiet(struct cw_staging *staging);
/* Once it is quiet: the cursor is as before the stage, at its beginning. */
void cw_staging_undo(struct cw_dt_cursor *cursor);

#endif
