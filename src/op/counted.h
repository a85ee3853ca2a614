/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts by packets that the origin can take back (docs/change/one-sided.md, "Counted packets"): the owner carries them
 * out in the order of the connection and counts them in a board that both see. Should it not come along, the origin
 * lets the system write what is left, and the owner passes over those packets. Callers: put.c, rma_flush.c, fallback.c;
 * op.c for the owner.
 *
 *   board->claim: who is carrying out now, enum cw_counted_state
 *   board->done:  packets carried out since the beginning 32 bits, and above how many of them were refused
 */
#ifndef CW_OP_COUNTED_H
#define CW_OP_COUNTED_H

#include "op/rma.h"

enum cw_counted_state {
    CW_COUNTED_FREE   = 0,
    CW_COUNTED_OWNER  = 1,
    CW_COUNTED_ORIGIN = 2,
    CW_COUNTED_AWAY   = 3,   /* free; the owner has not looked since the origin carried out */
    CW_COUNTED_SHUT   = 4    /* the owner carries out all of it: the origin kept it waiting for too long */
};

/* Packets that wait for the owner at most: a power of two. */
#define CW_COUNTED_PACKETS 256u

/* What one counted packet is to hold: bytes, or what is next in a cursor. */
struct cw_parcel {
    const void *from;               /* NULL: the cursor */
    struct cw_dt_cursor *cursor;
    size_t length;
};

/* Whether puts with this key may go that way now: the system could write as well, and the owner is not known to be
 * away. */
int cw_counted_is_open(struct ucp_ep *ep, const struct ucp_rkey *rkey);
/* The longest parcel. */
static inline size_t cw_counted_max(const struct ucp_ep *ep)
{
    return cw_conn_max_piece(ep->conn) - sizeof(struct cw_wire_put);
}

/* Sends one packet; the endpoint has its struct cw_rma and counted packets may go. CW_AGAIN: no room; CW_HOLD: too many
 * wait already. Both end without the owner's help. */
ucs_status_t cw_counted_send(struct ucp_ep *ep, const struct ucp_rkey *rkey, uint64_t address,
                            const struct cw_parcel *parcel);

/* Looks how far the owner is. */
void cw_counted_look(struct cw_rma *rma);
static inline int cw_counted_is_settled(const struct cw_rma *rma)
{
    return rma->counted == rma->carried;
}
/* The owner has said by FLUSHED that it is so far. */
void cw_counted_confirmed(struct cw_rma *rma, uint32_t number);

/* The origin carries out what is left, or some of it. UCS_OK: something is done; CW_AGAIN: the owner is at it just now;
 * UCS_ERR_UNSUPPORTED: only the owner can. */
ucs_status_t cw_counted_rescue(struct cw_rma *rma);

void cw_counted_free(struct cw_rma *rma);

/* The owner's packet. */
ucs_status_t cw_counted_on_put(struct ucp_ep *ep, const void *data, size_t length);

#endif
