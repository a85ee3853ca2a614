/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets in the byte area of a ring, without a transport.
 */
#include "base/byte_ring.h"

/* Lines that an idle round claims: with the look at the next cell behind them, a packet that comes waits for few. */
#define CLAIMED_A_ROUND 8u

/* Lines beyond are not claimed: the first ones of a longer packet are on their way while the last ones are written. */
#define CLAIM_MOST (256u * CW_CACHE_LINE)

/* Lines of long packets are claimed if a copy moves fewer bytes than this in a nanosecond. Between processors that
 * share a cache copies are faster, and claiming would only cost time. */
#define CLAIM_BELOW 24u

/* The producer times one of TIMED_EVERY copies. */
#define TIMED_EVERY 32u

/* Whether the lines of the next long packet are claimed: not if its copy is timed, here or by base/nt_copy.h, or goes
 * past the caches. */
static int claims_long(const struct cw_producer *producer)
{
    return producer->claims_long && producer->until_timed > 0 && cw_nt_is_plain(&producer->nt);
}

/* The lines are fetched during idle time, unless the copy does not need their contents, or the consumer would ask for
 * them before they are written (docs/why/shared-memory.md, short-messages.md). */
void cw_byte_ring_fetch_ahead(struct cw_producer *producer, uint64_t length)
{
    uint64_t at;
    char *place;

    if (length <= CW_CELL_DATA || !cw_byte_ring_free(producer, length)) {
        return; /* the consumer may still need them */
    }
    place = producer->bytes + cw_byte_ring_place(producer->byte_count, length, producer->num_bytes);
    if (length <= CW_BYTE_RING_VECTORS && (length > CW_BYTE_RING_FEW || producer->cell >= producer->fetch_from)) {
        for (at = 0; at < length; at += CW_CACHE_LINE) {
            cw_prefetch_write(place + at);
        }
    }
    if (length > CW_BYTE_RING_FEW && (length <= CW_BYTE_RING_VECTORS || claims_long(producer))) {
        producer->claim     = place;
        producer->claim_end = place + ((length < CLAIM_MOST) ? length : CLAIM_MOST);
    }
}

void cw_byte_ring_note(struct cw_producer *producer, uint64_t length, uint64_t ns)
{
    producer->claims_long = ns * CLAIM_BELOW > length;
    producer->until_timed = TIMED_EVERY - 1;
}

CW_APART void cw_byte_ring_copied(struct cw_producer *producer, uint64_t length, uint64_t begin_ns)
{
    if (begin_ns != 0) {
        cw_byte_ring_note(producer, length, cw_clock_ns() - begin_ns);
    } else if (!producer->no_claims) {
        producer->until_timed--;
    }
}

/* Stores, for fetching for writing leaves some processors with lines that they share (Zen 4). */
CW_APART void cw_byte_ring_claim_some(struct cw_producer *producer)
{
    char *at = producer->claim;
    unsigned i;

    for (i = 0; i < CLAIMED_A_ROUND && at < producer->claim_end; i++, at += CW_CACHE_LINE) {
        __atomic_store_n(at, 0, __ATOMIC_RELAXED);
    }
    producer->claim = (at < producer->claim_end) ? at : producer->claim_end;
}

static CW_INLINE void send_written(struct cw_producer *producer, uint8_t id, uint64_t length)
{
    CW_PROBE(send_short, CW_CELL_TRANSPORT, length, 0);
    cw_byte_ring_taken(producer, length);
    cw_cell_publish(producer, length, id);
    cw_byte_ring_fetch_ahead(producer, length);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}

void cw_byte_ring_send(struct cw_producer *producer, uint8_t id, uint64_t length)
{
    send_written(producer, id, length);
}

int cw_byte_ring_put(struct cw_producer *producer, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    const uint64_t whole = sizeof(header) + length;
    char *place          = cw_byte_ring_take(producer, whole);
    uint64_t begin;

    if (cw_unlikely(place == NULL)) {
        return 0;
    }
    begin = cw_byte_ring_copy_begins(producer, whole);
    memcpy(place, &header, sizeof(header));
    cw_nt_copy(&producer->nt, place + sizeof(header), payload, length);
    cw_byte_ring_copy_ends(producer, whole, begin);
    send_written(producer, id, whole);
    return 1;
}
