/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts by packets that the origin can take back (docs/change/one-sided.md, "Counted packets"): the owner carries them
 * out in the order of the connection and counts them in a claim pair that both sides see. If the owner makes no
 * progress, the origin lets the system write the bytes that are left, and the owner skips those packets. Callers:
 * put.c, rma_flush.c, fallback.c; op.c for the owner.
 *
 *   pair->claim: the side that carries out packets now, enum cw_counted_state
 *   pair->done:  lower 32 bits: packets carried out since the beginning; upper 32 bits: how many of them were refused
 */
#ifndef CW_OP_COUNTED_H
#define CW_OP_COUNTED_H

#include "op/rma.h"

enum cw_counted_state {
    CW_COUNTED_FREE   = 0,
    CW_COUNTED_OWNER  = 1,
    CW_COUNTED_ORIGIN = 2,
    CW_COUNTED_AWAY   = 3,   /* free; the origin carried out packets, and the owner has not looked since */
    CW_COUNTED_SHUT   = 4    /* only the owner carries out packets; set by owners of release 1.0 */
};

/* The most packets that may wait for the owner: a power of two. */
#define CW_COUNTED_PACKETS 256u

/* The bytes of one counted packet: from memory, or the next bytes of a cursor. */
struct cw_parcel {
    const void *from;               /* NULL: the bytes are the cursor's */
    struct cw_dt_cursor *cursor;
    size_t length;
};

/* Returns whether puts with this key may go by counted packets now: the system could write the bytes, too, and the
 * owner is not known to be away. */
int cw_counted_is_open(struct ucp_ep *ep, const struct ucp_rkey *rkey);
/* Returns the length of the longest parcel. */
static inline size_t cw_counted_max(const struct ucp_ep *ep)
{
    return cw_conn_max_piece(ep->conn) - sizeof(struct cw_wire_put);
}

/* Sends one packet. The endpoint has its struct cw_rma, and cw_counted_is_open is true. CW_AGAIN: the lane has no room;
 * CW_HOLD: too many packets wait already. Both states end without the owner's help. */
ucs_status_t cw_counted_send(struct ucp_ep *ep, const struct ucp_rkey *rkey, uint64_t address,
                            const struct cw_parcel *parcel);

/* Reads from the claim pair how many packets were carried out. */
void cw_counted_look(struct cw_rma *rma);
static inline int cw_counted_is_settled(const struct cw_rma *rma)
{
    return rma->counted == rma->carried;
}
/* The owner has confirmed by FLUSHED that it has passed all packets before `number`. */
void cw_counted_confirmed(struct cw_rma *rma, uint64_t number);

/* The origin carries out packets that are left, all or some of them. UCS_OK: some were carried out; CW_AGAIN: the owner
 * holds the claim now; UCS_ERR_UNSUPPORTED: only the owner can carry them out. */
ucs_status_t cw_counted_rescue(struct cw_rma *rma);

void cw_counted_free(struct cw_rma *rma);

/* The owner's handler of PUT_COUNTED packets. */
ucs_status_t cw_counted_on_put(struct ucp_ep *ep, const void *data, size_t length);

#endif
