/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte area beside the cells of a ring (cell.h): packets that are longer than a cell. Here are its inline
 * functions; the rest is the transport's (transport/shm/shm_ring.h). Packets begin at a cache line and do not
 * wrap around.
 */
#ifndef CW_BASE_BYTE_RING_H
#define CW_BASE_BYTE_RING_H

#include "base/cell.h"
#include "os/clock.h"

/* Bytes that a packet of this length takes from the byte area at position `at`, with the rest of the area if it must
 * start at its beginning. */
static inline uint64_t cw_byte_ring_needed(uint64_t at, uint64_t length, uint32_t num_bytes)
{
    uint64_t offset = at & (num_bytes - 1), rounded = (length + CW_CACHE_LINE - 1) & ~(uint64_t)(CW_CACHE_LINE - 1);

    return (offset + rounded <= num_bytes) ? rounded : (num_bytes - offset) + rounded;
}

/* Where the packet starts. */
static inline uint64_t cw_byte_ring_place(uint64_t at, uint64_t length, uint32_t num_bytes)
{
    uint64_t offset = at & (num_bytes - 1);

    return (offset + length <= num_bytes) ? offset : 0;
}

/* A packet longer than the byte area has no room, whatever number the peer sends. */
static inline int cw_byte_ring_free(const struct cw_producer *producer, uint64_t length)
{
    const uint64_t used   = producer->byte_count - producer->bytes_done;
    const uint64_t needed = cw_byte_ring_needed(producer->byte_count, length, producer->num_bytes);

    return used <= producer->num_bytes && needed <= producer->num_bytes - used;
}

/* The next packet may be as long. */
#define CW_BYTE_RING_FEW (3u * CW_CACHE_LINE)

/* A packet of this length came: in idle rounds what follows the next control word is asked for together with it
 * (cw_cell_fetch), if that is a few lines. */
static inline void cw_byte_ring_look_ahead(struct cw_consumer *consumer, uint32_t length)
{
    const uint32_t lines = (length + CW_CACHE_LINE - 1) & ~(CW_CACHE_LINE - 1u);

    consumer->ahead     = consumer->bytes + cw_byte_ring_place(consumer->byte_count, length, consumer->num_bytes);
    consumer->ahead_end = consumer->ahead + ((length <= CW_BYTE_RING_FEW) ? lines : 0);
}

/* A packet of this length has taken its room. */
static inline void cw_byte_ring_taken(struct cw_producer *producer, uint64_t length)
{
    producer->byte_count += cw_byte_ring_needed(producer->byte_count, length, producer->num_bytes);
    producer->claim_end = producer->claim;
}

/* After a packet: the next one is likely to be as long, and the consumer has its lines in its cache since the last lap.
 * They are fetched for writing, or claimed in idle rounds. */
void cw_byte_ring_fetch_ahead(struct cw_producer *producer, uint64_t length);

/* Up to this length libc copies by vectors. Beyond it takes whole lines without fetching them (`rep movsb`), on some
 * processors; so longer copies into the area are timed now and then, without a claim before. */
#define CW_BYTE_RING_VECTORS 2176u

/* A copy ended; begin_ns 0: it was not timed. */
void cw_byte_ring_copied(struct cw_producer *producer, uint64_t length, uint64_t begin_ns);

/* Before a copy: the time in nanoseconds, or 0 if the copy is not timed. */
static inline uint64_t cw_byte_ring_copy_begins(const struct cw_producer *producer, uint64_t length)
{
    return cw_unlikely(length > CW_BYTE_RING_VECTORS && producer->until_timed == 0 && !producer->no_claims) ?
           cw_clock_ns() : 0;
}

static inline void cw_byte_ring_copy_ends(struct cw_producer *producer, uint64_t length, uint64_t begin_ns)
{
    if (length > CW_BYTE_RING_VECTORS) {
        cw_byte_ring_copied(producer, length, begin_ns);
    }
}

/* A copy of `length` bytes to lines that were not claimed took `ns` nanoseconds. */
void cw_byte_ring_note(struct cw_producer *producer, uint64_t length, uint64_t ns);

/* Claims some of the lines. */
void cw_byte_ring_claim_some(struct cw_producer *producer);

/* In an idle round: a few lines that are to be claimed are written to, so that no copy waits for them. */
static inline void cw_byte_ring_claim(struct cw_producer *producer)
{
    if (cw_unlikely(producer->claim != producer->claim_end)) {
        cw_byte_ring_claim_some(producer);
    }
}

/* Room for a packet that does not fit a cell, if that needs nothing but room that is known; else NULL. */
static inline char *cw_byte_ring_take(struct cw_producer *producer, uint64_t length)
{
    if (cw_unlikely(!cw_cell_is_next(producer) || !cw_byte_ring_free(producer, length))) {
        return NULL;
    }
    return producer->bytes + cw_byte_ring_place(producer->byte_count, length, producer->num_bytes);
}

/* Sends what was written there. */
void cw_byte_ring_send(struct cw_producer *producer, uint8_t id, uint64_t length);

/* Both steps; 0: there is no such room. */
int cw_byte_ring_put(struct cw_producer *producer, uint8_t id, uint64_t header, const void *payload, size_t length);

#endif
