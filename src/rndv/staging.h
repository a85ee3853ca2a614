/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging: pipelines a message between device memory and packets through pinned host bounce buffers. The device copies
 * to or from some buffers while others are sent or filled. Staging replaces a cursor over contiguous device memory
 * (class CW_DT_STAGED of msg/datatype.h). Progress never waits for a copy: a transfer that has nothing to do until a
 * copy ends registers a callback for an alarm of the worker, which also wakes a sleeping program.
 *
 *      out: device --copy--> buffer --pack--> packet        in: packet --unpack--> buffer --copy--> device
 *
 * Open staging copies to bounce buffers that the peer's device reads (rndv/bounce.h); nothing is packed.
 */
#ifndef CW_RNDV_STAGING_H
#define CW_RNDV_STAGING_H

#include <stdbool.h>

#include "msg/datatype.h"

struct cw_bounce;
struct cw_staging;
struct ucp_ep;
struct ucp_worker;

/* Shorter messages are copied within the call that packs or unpacks them. */
#define CW_STAGING_LEAST ((size_t)64 << 10)

/* Whether staging pays for a message of that length. */
static inline bool cw_staging_is_worth(const struct cw_dt_cursor *cursor, size_t length)
{
    return cw_dt_is_flat_device(cursor) && length >= CW_STAGING_LEAST;
}

/* Switches the cursor, which is at its beginning, to staging; `length`: of the message. Out of memory: the cursor is
 * unchanged. */
void cw_staging_begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, size_t length);

/* cw_staging_ready (out): begins further copies, and returns how many bytes from the message's beginning can be packed
 * now. cw_staging_left (in): returns how many unpacked buffers are not copied to the device yet. *status_p: UCS_OK, or
 * the error of a copy that failed. */
size_t cw_staging_ready(struct cw_staging *staging, ucs_status_t *status_p);
unsigned cw_staging_left(struct cw_staging *staging, ucs_status_t *status_p);
/* The last result of cw_staging_ready. */
size_t cw_staging_complete(const struct cw_staging *staging);
/* Waits for the copies in flight. Returns the status of all copies. */
ucs_status_t cw_staging_wait(struct cw_staging *staging);

/* Makes progress call `wake` when the result of cw_staging_ready or cw_staging_left may have changed. */
void cw_staging_await(struct cw_staging *staging, void (*wake)(void *arg), void *arg);

/* ---- open staging ---- */

/* As cw_staging_begin, for a message to that peer. Returns whether open staging has begun. */
int cw_staging_open(struct cw_dt_cursor *cursor, struct ucp_ep *ep, size_t length);
/* Whether it has no bounce buffer and cannot get one. */
bool cw_staging_is_barren(const struct cw_staging *staging);
/* Returns the bounce buffer that holds the bytes at that offset, ready for the peer, and their number. */
struct cw_bounce *cw_staging_bounce(struct cw_staging *staging, size_t offset, size_t *length_p);
/* These bytes were announced to the peer. */
void cw_staging_shown(struct cw_staging *staging, size_t offset);
/* The peer has copied them; `keeps`: it has retained its mapping of the buffer. 0: no such bytes were announced. */
int cw_staging_taken(struct cw_staging *staging, size_t offset, int keeps);
/* Whether nothing can change before the peer has taken a buffer. */
int cw_staging_waits_for_peer(const struct cw_staging *staging);
/* Returns whether no copy is in flight; begins none. */
bool cw_staging_is_quiet(struct cw_staging *staging);
/* Requires cw_staging_is_quiet. Resets the cursor to its state before staging, at its beginning. */
void cw_staging_undo(struct cw_dt_cursor *cursor);

#endif
