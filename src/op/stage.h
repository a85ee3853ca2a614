/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message between memory of a device and packets, by way of pinned memory of the host: chunks that the
 * device copies to or from while others are sent or filled. It takes the place of a cursor over contiguous memory of a
 * device (class CW_DT_STAGED of op/datatype.h). Progress never waits for a copy; who has nothing to do before one ends
 * names a function, which an alarm of the worker calls, so that a sleeping program wakes up for it, too.
 *
 *      out: device --copy--> chunk --pack--> packet        in: packet --unpack--> chunk --copy--> device
 */
#ifndef CW_OP_STAGE_H
#define CW_OP_STAGE_H

#include "op/datatype.h"

struct cw_stage;
struct ucp_worker;

/* Shorter messages are copied within the call that packs or unpacks them. */
#define CW_STAGE_LEAST ((size_t)64 << 10)

/* Whether a stage would serve such a message. */
static inline int cw_stage_is_worth(const struct cw_dt_cursor *cursor, size_t length)
{
    return cursor->class_id == CW_DT_DEVICE && cursor->layout == UCP_DATATYPE_CONTIG && length >= CW_STAGE_LEAST;
}

/* The cursor, which is at its beginning, goes by a stage from now on; `length`: of the message. Where there is no
 * memory for one everything stays as it is. */
void cw_stage_begin(struct cw_dt_cursor *cursor, struct ucp_worker *worker, size_t length);

/* Out: up to which byte of the message can be packed now; further copies begin. In: how many chunks of what was
 * unpacked are not yet with the device. *status_p: UCS_OK, or that a copy failed. */
size_t cw_stage_ready(struct cw_stage *stage, ucs_status_t *status_p);
unsigned cw_stage_left(struct cw_stage *stage, ucs_status_t *status_p);
/* What cw_stage_ready told last. */
size_t cw_stage_complete(const struct cw_stage *stage);
/* Waits for the copies under way; the status of all. */
ucs_status_t cw_stage_wait(struct cw_stage *stage);

/* Calls `wake` from progress once one of these may have changed. */
void cw_stage_await(struct cw_stage *stage, void (*wake)(void *arg), void *arg);

/* For op/datatype.c. */
void cw_stage_pack(struct cw_stage *stage, struct cw_nt_choice *nt, size_t offset, char *dest, size_t length);
ucs_status_t cw_stage_unpack(struct cw_stage *stage, size_t offset, const char *src, size_t length);
/* Nothing copies from or to the program's memory when this returns; waits for copies that are under way. */
void cw_stage_end(struct cw_stage *stage);

#endif
