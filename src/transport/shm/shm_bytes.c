/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in the byte area of a ring, without a transport.
 */
#include "transport/shm/shm_bytes.h"

/* The lines are fetched during idle time, unless the copy does not need their contents, or the consumer would ask for
 * them before they are written (docs/why/shared-memory.md, short-messages.md). */
void cw_byte_ring_fetch_ahead(struct cw_tx *producer, uint64_t length)
{
    uint64_t at;
    char *place;

    if (length <= CW_CELL_DATA || length > CW_BYTE_RING_VECTORS ||
        (length <= CW_BYTE_RING_FEW && producer->cell < producer->fetch_from) ||
        !cw_byte_ring_free(producer, length)) { /* the consumer may still need them */
        return;
    }
    place = producer->bytes + cw_byte_ring_place(producer->byte_count, length, producer->num_bytes);
    for (at = 0; at < length; at += CW_CACHE_LINE) {
        cw_prefetch_write(place + at);
    }
}

void cw_byte_ring_send(struct cw_tx *producer, uint8_t id, uint64_t length)
{
    CW_PROBE(send_short, CW_CELL_TRANSPORT, length, 0);
    cw_byte_ring_taken(producer, length);
    cw_cell_publish(producer, length, id);
    cw_byte_ring_fetch_ahead(producer, length);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}
