/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks: memory of the host, pinned at both ends of a connection, in which one end's device leaves bytes for the other
 * end's device (rndv/chunks.h). The sender makes them. A chunk belongs to its connection until it ends, so that nobody
 * else ever sees bytes that were in it. The receiver finds it by its place in the table of the connection, from a
 * descriptor that was passed once; in one process, by its number.
 */
#ifndef CW_RNDV_CHUNK_TABLE_H
#define CW_RNDV_CHUNK_TABLE_H

#include "core/ep.h"
#include "core/worker.h"
#include "mem/md.h"
#include "wire/packet.h"

struct cw_chunk_table;

/* Memory of a chunk in this process. */
struct cw_chunk {
    struct cw_list link;          /* sender: all chunks of the process */
    struct cw_chunk_table *table; /* NULL: it is in no table any more */
    const struct cw_md *md;
    struct cw_memory memory;
    uint64_t number; /* sender: of this process, for all time */
    uint64_t passed; /* sender: number of the descriptor, as long as no packet has named the chunk; else 0 */
    unsigned uses;   /* the table; a message; a copy by a receiver in this process */
    uint8_t place;   /* in the table */
    uint8_t is_lent; /* sender: a message uses it */
    uint8_t is_lost; /* sender: the receiver may not have it any more */
    uint8_t is_own;  /* this process is the sender */
};

/* Whether the endpoint's peer is in this process. */
int cw_chunk_is_here(struct ucp_ep *ep);
/* Whether chunks may come from the peer, or go there. */
int cw_chunk_has_way(struct ucp_ep *ep);
/* The endpoint has lost its connection. */
void cw_chunk_ep_lost(struct ucp_ep *ep);

/* Time between two looks at copies to or from chunks. A program that sleeps is not woken too often; for another one a
 * look costs little. */
static inline uint64_t cw_chunk_look_ns(const struct ucp_worker *worker)
{
    return cw_worker_has(worker, UCP_FEATURE_WAKEUP) ? 20000 : 4000;
}

/* ---- the sender ---- */

/* Lends a message a chunk with room for `length` bytes; its descriptor has been passed. NULL: there is none; *wait_p: 1
 * if there will be one when another message ends. */
struct cw_chunk *cw_chunk_take(struct ucp_ep *ep, const struct cw_md *md, const void *device, size_t length,
                               int *wait_p);
/* The message does not use it any more. The endpoint may be lost. */
void cw_chunk_rest(struct cw_chunk *chunk);

/* ---- the receiver ---- */

/* Opens the chunk that a packet (in host order) names, for copies to `device` by that domain. UCS_ERR_IO_ERROR: it
 * breaks the protocol; UCS_ERR_UNREACHABLE: it cannot be had. */
ucs_status_t cw_chunk_open(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md,
                           const void *device, struct cw_chunk **chunk_p);
/* Returns whether it is kept for the next bytes. */
int cw_chunk_close(struct cw_chunk *chunk);
/* Closes the descriptor that came with a packet that nobody wants any more. */
void cw_chunk_discard(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet);

#endif
