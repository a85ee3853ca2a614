/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared bounce buffers: host memory, pinned at both ends of a connection, through which one end's device
 * passes bytes to the other end's device (rndv/bounce.h). The sender allocates them. A bounce buffer belongs to its
 * connection until the connection ends, so its contents never leak to another peer. The receiver maps it from a
 * descriptor passed once and finds it by its index in the connection's table; within one process, by its number.
 */
#ifndef CW_RNDV_BOUNCE_TABLE_H
#define CW_RNDV_BOUNCE_TABLE_H

#include <stdbool.h>

#include "core/ep.h"
#include "core/worker.h"
#include "mem/md.h"
#include "wire/packet.h"

struct cw_bounce_table;

/* A bounce buffer as mapped in this process. */
struct cw_bounce {
    struct cw_list link;           /* sender: all bounce buffers of the process */
    struct cw_bounce_table *table; /* NULL: removed from its table */
    const struct cw_md *md;
    struct cw_memory memory;
    uint64_t number;  /* sender: unique in this process, never reused */
    uint64_t passed;  /* sender: number of the passed descriptor until a packet names the bounce buffer; then 0 */
    unsigned uses;    /* references: the table, a message, a copy by a receiver in this process */
    uint8_t slot;     /* index in the table */
    uint8_t is_lent;  /* sender: a message uses it */
    uint8_t in_doubt; /* sender: the receiver may have dropped it */
    uint8_t is_own;   /* this process is the sender */
};

/* Whether the endpoint's peer is in this process. */
bool cw_bounce_is_here(struct ucp_ep *ep);
/* Whether bounce buffers may be exchanged with the peer, in either direction. */
bool cw_bounce_has_path(struct ucp_ep *ep);
/* The endpoint has lost its connection. */
void cw_bounce_ep_ended(struct ucp_ep *ep);

/* Interval between polls of copies to or from bounce buffers. Longer for a worker that may sleep, to limit wakeups;
 * polling is cheap otherwise. */
static inline uint64_t cw_bounce_poll_ns(const struct ucp_worker *worker)
{
    return cw_worker_has(worker, UCP_FEATURE_WAKEUP) ? 20000 : 4000;
}

/* ---- the sender ---- */

/* Lends a message a bounce buffer of at least `length` bytes; its descriptor has been passed. NULL: none is available;
 * *wait_p is 1 if one becomes available when another message ends. */
struct cw_bounce *cw_bounce_take(struct ucp_ep *ep, const struct cw_md *md, const void *device, size_t length,
                                 int *wait_p);
/* The message returns the bounce buffer. The endpoint may be lost. */
void cw_bounce_return(struct cw_bounce *bounce);

/* ---- the receiver ---- */

/* Opens the bounce buffer that a packet (in host order) names, for copies to `device` by that domain. UCS_ERR_IO_ERROR:
 * protocol violation; UCS_ERR_UNREACHABLE: it cannot be mapped. */
ucs_status_t cw_bounce_open(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md,
                            const void *device, struct cw_bounce **bounce_p);
/* Returns whether the mapping is retained for reuse. */
int cw_bounce_close(struct cw_bounce *bounce);
/* Closes the descriptor that came with a packet whose receive is over. */
void cw_bounce_discard(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet);

#endif
