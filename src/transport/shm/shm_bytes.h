/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The byte area beside the cells of a ring (shm_cell.h): packets that are longer than a cell. Here are its inline
 * functions; the rest is the transport's (transport/shm/shm_ring.h). Packets begin at a cache line and do not
 * wrap around.
 */
#ifndef CW_TRANSPORT_SHM_BYTES_H
#define CW_TRANSPORT_SHM_BYTES_H

#include "transport/shm/shm_cell.h"

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
static inline int cw_byte_ring_free(const struct cw_tx *producer, uint64_t length)
{
    const uint64_t used   = producer->byte_count - producer->bytes_done;
    const uint64_t needed = cw_byte_ring_needed(producer->byte_count, length, producer->num_bytes);

    return used <= producer->num_bytes && needed <= producer->num_bytes - used;
}

/* The next packet may be as long. */
#define CW_BYTE_RING_FEW (3u * CW_CACHE_LINE)

/* A packet of this length came: in idle rounds what follows the next control word is asked for together with it
 * (cw_rx_fetch), if that is a few lines. */
static inline void cw_byte_ring_look_ahead(struct cw_rx *consumer, uint32_t length)
{
    const uint32_t lines = (length + CW_CACHE_LINE - 1) & ~(CW_CACHE_LINE - 1u);

    consumer->ahead     = consumer->bytes + cw_byte_ring_place(consumer->byte_count, length, consumer->num_bytes);
    consumer->ahead_end = consumer->ahead + ((length <= CW_BYTE_RING_FEW) ? lines : 0);
}

/* A packet of this length has taken its room. */
static inline void cw_byte_ring_taken(struct cw_tx *producer, uint64_t length)
{
    producer->byte_count += cw_byte_ring_needed(producer->byte_count, length, producer->num_bytes);
}

/* Up to this length libc copies by vectors. Beyond it takes whole lines without fetching them (`rep movsb`), on some
 * processors. */
#define CW_BYTE_RING_VECTORS 2176u

/* After a packet: the next one is likely to be as long, and the consumer has its lines in its cache since the last lap.
 * They are fetched for writing. */
void cw_byte_ring_fetch_ahead(struct cw_tx *producer, uint64_t length);

/* Room for a packet that does not fit a cell, if that needs nothing but room that is known; else NULL. */
static inline char *cw_byte_ring_take(struct cw_tx *producer, uint64_t length)
{
    if (cw_unlikely(!cw_cell_is_next(producer) || !cw_byte_ring_free(producer, length))) {
        return NULL;
    }
    return producer->bytes + cw_byte_ring_place(producer->byte_count, length, producer->num_bytes);
}

/* Sends what was written there. */
void cw_byte_ring_send(struct cw_tx *producer, uint8_t id, uint64_t length);

#endif
