/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in the byte area of a ring, without a transport.
 */
#include "base/area.h"

/* Up to this length libc copies by vectors. Beyond it takes whole lines without fetching them (`rep movsb`). */
#define BYTES_AHEAD 2176u

/* They are fetched while we wait anyway, unless the copy does not need what is in them, or the consumer would ask for
 * them before they are written (docs/decisions/shared-memory.md, short-messages.md). */
void cw_area_fetch_ahead(const struct cw_producer *producer, uint64_t length)
{
    uint64_t at;
    char *place;

    if (length > CW_CELL_DATA && length <= BYTES_AHEAD &&
        (length > CW_AREA_FEW || producer->cell >= producer->fetch_from) &&
        cw_area_free(producer, length)) { /* else the consumer may still need them */
        place = producer->bytes + cw_area_place(producer->byte_count, length, producer->num_bytes);
        for (at = 0; at < length; at += CW_CACHE_LINE) {
            cw_prefetch_write(place + at);
        }
    }
}

static CW_INLINE void send_written(struct cw_producer *producer, uint8_t id, uint64_t length)
{
    CW_PROBE(send_short, CW_CELL_TRANSPORT, length, 0);
    producer->byte_count += cw_area_needed(producer->byte_count, length, producer->num_bytes);
    cw_cell_publish(producer, length, id);
    cw_area_fetch_ahead(producer, length);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}

void cw_area_send(struct cw_producer *producer, uint8_t id, uint64_t length)
{
    send_written(producer, id, length);
}

int cw_area_put(struct cw_producer *producer, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    char *place = cw_area_take(producer, sizeof(header) + length);

    if (cw_unlikely(place == NULL)) {
        return 0;
    }
    memcpy(place, &header, sizeof(header));
    cw_far_copy(&producer->far, place + sizeof(header), payload, length);
    send_written(producer, id, sizeof(header) + length);
    return 1;
}
