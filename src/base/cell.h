/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cells: packets of one cache line, in a ring in memory that two processes share (transport/shm/shm_ring.h). Here is
 * what the shortest ways need: filling a cell, and emptying one. The transport does it, and the core where a transport
 * says that it may. A cell is published by its control word, whose lap number differs from one round to the next, so
 * nothing needs clearing.
 *
 *   control word: lap 16 bits | length 32 bits | id 8 bits | 6 bits 0 | byte area 1 bit | 1, so that no word is 0
 */
#ifndef CW_BASE_CELL_H
#define CW_BASE_CELL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/probe.h"

#define CW_CELL_DATA 56u

struct cw_cell {
    uint64_t control;               /* written last with release, read first with acquire */
    char data[CW_CELL_DATA];
};

_Static_assert(sizeof(struct cw_cell) == CW_CACHE_LINE, "one cell, one line");

struct cw_conn;
struct shm_ring_control;

/* The producer's private view. */
struct cw_producer {
    struct cw_cell *cell;           /* the next one */
    uint64_t stamp;                 /* its lap, where a control word has it */
    uint64_t cell_count;            /* cells taken so far */
    uint64_t cell_limit;            /* cells before this one are free, as far as we know */
    uint64_t fetch_from;            /* from this one on cells are fetched ahead */
    uint64_t byte_count;            /* bytes taken so far, with what was skipped at the end of the area */
    uint64_t bytes_done;            /* last seen of the consumer */
    char *bytes;                    /* the area in use */
    uint32_t num_bytes;             /* a power of two */
    uint32_t cell_shift;            /* 1 << cell_shift cells */
    struct cw_cell *cells;
    struct cw_cell *cells_end;
    struct shm_ring_control *control;
    const uint32_t *attention;      /* in the ring: not 0 while the consumer does more than look into it; then `bell` */
    void (*bell)(struct cw_producer *producer);     /* follows each packet */
};

/* The consumer's private view. */
struct cw_consumer {
    struct cw_cell *cell;           /* the next one */
    uint64_t stamp;                 /* likewise */
    uint64_t cell_count;            /* cells read so far */
    uint64_t tell_at;               /* the producer is told when so many were read */
    uint64_t byte_count;
    uint64_t bytes_told;            /* last told to the producer */
    uint64_t wide;                  /* CW_CELL_WIDE: the area is the wide one */
    char *bytes;                    /* the area of the last packet */
    uint32_t num_bytes;
    uint32_t cell_shift;
    struct cw_cell *cells;
    struct cw_cell *cells_end;
    struct shm_ring_control *control;
    struct cw_conn *conn;           /* whose packets these are ... */
    struct cw_producer *answers;    /* ... and where the answers to them go */
};

#define CW_CELL_LAP  (UINT64_C(1) << 48)
#define CW_CELL_WIDE UINT64_C(2)

static inline uint64_t cw_cell_word(uint64_t lap, uint32_t length, uint8_t id)
{
    return (lap << 48) | ((uint64_t)length << 16) | ((uint64_t)id << 8) | 1;
}

/* Whether a cell is free, as far as we know. */
static inline int cw_cell_is_free(const struct cw_producer *producer)
{
    return producer->cell_count != producer->cell_limit;
}

/* Cells ahead that are fetched for writing: the consumer has them in its cache since the last lap, and a store that
 * must wait for each of them in turn is what limits the rate of small packets. */
#define CW_CELLS_AHEAD 4u

/* Who answers each packet before the next one comes fetches nothing ahead: the consumer looks at the next cell as soon
 * as it has read one, and would have to get back what was fetched (docs/decisions/short-messages.md). */
#define CW_CELLS_CALM 2u

/* A packet came from the peer: the next ones to it may be answers. */
static inline void cw_cell_answering(struct cw_producer *producer)
{
    producer->fetch_from = producer->cell_count + CW_CELLS_CALM;
}

/* Publishes the next cell, with what was written to it or to the byte area. */
static inline void cw_cell_publish(struct cw_producer *producer, uint64_t length, uint8_t id)
{
    struct cw_cell *cell = producer->cell, *next = cell + 1, *ahead = cell + 1 + CW_CELLS_AHEAD;
    const uint64_t word   = producer->stamp | cw_cell_word(0, (uint32_t)length, id);
    const uint64_t count  = producer->cell_count + 1;

    if (cw_unlikely(next == producer->cells_end)) {
        next             = producer->cells;
        producer->stamp += CW_CELL_LAP; /* after the last lap comes the first: the carry is lost */
    }
    producer->cell_count = count;
    producer->cell       = next;
    __atomic_store_n(&cell->control, word, __ATOMIC_RELEASE); /* pairs with the acquire in cw_cell_peek */
    if (count >= producer->fetch_from && producer->cell_limit - count > CW_CELLS_AHEAD) { /* else it may be needed */
        cw_prefetch_write((ahead < producer->cells_end) ? ahead : producer->cells);
    }
}

/* As probes name the one transport that has cells. */
#define CW_CELL_TRANSPORT 2u

/* Short packets: what send_short of a transport takes, as far as it fits a cell. */
#define CW_CELL_SHORT (CW_CELL_DATA - (uint32_t)sizeof(uint64_t))

/* Sends one; a cell is free. */
static CW_INLINE void cw_cell_put(struct cw_producer *producer, uint8_t id, uint64_t header, const void *payload,
                                  size_t length)
{
    char *data = producer->cell->data;

    memcpy(data, &header, sizeof(header));
    cw_bytes_copy_few(data + sizeof(header), payload, length);
    CW_PROBE(send_short, CW_CELL_TRANSPORT, sizeof(header) + length, 0);
    cw_cell_publish(producer, sizeof(header) + length, id);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}

/* The control word of the next packet, or 0 when there is none. */
static inline uint64_t cw_cell_peek(const struct cw_consumer *consumer)
{
    const uint64_t word = __atomic_load_n(&consumer->cell->control, __ATOMIC_ACQUIRE);

    return ((word ^ consumer->stamp) >> 48 == 0) ? word : 0;
}

static inline uint32_t cw_cell_length(uint64_t word)
{
    return (uint32_t)(word >> 16);
}

static inline uint8_t cw_cell_id(uint64_t word)
{
    return (uint8_t)(word >> 8);
}

static inline void cw_cell_advance(struct cw_consumer *consumer)
{
    consumer->cell_count++;
    consumer->cell++;
    if (cw_unlikely(consumer->cell == consumer->cells_end)) {
        consumer->cell   = consumer->cells;
        consumer->stamp += CW_CELL_LAP;
    }
}

/* After a packet: a quarter of the ring was read since the producer was told last. Told that rarely, the line with the
 * counters seldom travels. */
static inline int cw_cell_should_tell(const struct cw_consumer *consumer)
{
    return consumer->cell_count >= consumer->tell_at;
}

#endif
