/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring in memory shared by one producer and one consumer process. Two parts: cells of one cache line, with a control
 * word and small packets, so that one costs one line transfer; and a byte area for larger ones, in the order of the
 * cells. A cell is published by its control word, whose lap number differs from round to round: nothing needs clearing.
 *
 *   control word: lap 16 bits | length 32 bits | id 8 bits | 6 bits 0 | byte area 1 bit | 1, so that no word is 0
 *
 * The consumer trusts nothing of what it reads: positions are its own counters, only length and id come from the peer
 * and are checked. Each side keeps its counters to itself; what it tells the other lies in struct shm_ring_control.
 */
#ifndef CW_TRANSPORT_SHM_RING_H
#define CW_TRANSPORT_SHM_RING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define SHM_CELL_DATA 56u

struct shm_cell {
    uint64_t control;               /* written last with release, read first with acquire */
    char data[SHM_CELL_DATA];
};

_Static_assert(sizeof(struct shm_cell) == CW_CACHE_LINE, "one cell, one line");

struct shm_ring_control {
    /* written by the consumer, read by the producer when it runs out of room; if it may sleep, at each send */
    _Alignas(CW_CACHE_LINE) uint64_t cells_done;
    uint64_t bytes_done;
    uint32_t consumer_sleeps;       /* set before it sleeps, exchanged for 0 by the producer that wakes it */
    /* written by the producer, read by the consumer when it gives room */
    _Alignas(CW_CACHE_LINE) uint32_t producer_waits;
    /* SHM_ATTENTION_*: written seldom, by the consumer; read after each packet, hence in a line of its own */
    _Alignas(CW_CACHE_LINE) uint32_t attention;
};

#define SHM_ATTENTION_SLEEPS 1u     /* may sleep: look at consumer_sleeps */
#define SHM_ATTENTION_COLD   2u     /* does not look at this ring: cleared by the producer, which sends a byte */

_Static_assert(sizeof(struct shm_ring_control) == 3 * CW_CACHE_LINE, "layout shared with the peer");

/* The producer's private view. */
struct shm_producer {
    struct shm_cell *cell;          /* the next one */
    uint64_t stamp;                 /* its lap, where a control word has it */
    uint64_t cell_count;            /* cells taken so far */
    uint64_t cell_limit;            /* cells before this one are free, as far as we know */
    uint64_t fetch_from;            /* from this one on cells are fetched ahead */
    uint64_t byte_count;            /* bytes taken so far, with what was skipped at the end of the area */
    uint64_t bytes_done;            /* last seen of the consumer */
    char *bytes;                    /* the area in use */
    uint32_t num_bytes;             /* a power of two */
    uint32_t cell_shift;            /* 1 << cell_shift cells */
    struct shm_cell *cells;
    struct shm_cell *cells_end;
    struct shm_ring_control *control;
};

/* The consumer's private view. */
struct shm_consumer {
    struct shm_cell *cell;          /* the next one */
    uint64_t stamp;                 /* likewise */
    uint64_t cell_count;            /* cells read so far */
    uint64_t tell_at;               /* the producer is told when so many were read */
    uint64_t byte_count;
    uint64_t bytes_told;            /* last told to the producer */
    uint64_t wide;                  /* SHM_WIDE: the area is the wide one */
    char *bytes;                    /* the area of the last packet */
    uint32_t num_bytes;
    uint32_t cell_shift;
    struct shm_cell *cells;
    struct shm_cell *cells_end;
    struct shm_ring_control *control;
};

#define SHM_LAP_ONE (UINT64_C(1) << 48)
#define SHM_WIDE    UINT64_C(2)     /* in a control word, and in the producer's stamp: the other byte area (shm.h) */

static inline uint64_t shm_lap(uint64_t cell_count, uint32_t cell_shift)
{
    return ((cell_count >> cell_shift) + 1) & 0xffff;
}

static inline struct shm_cell *shm_cell_at(struct shm_cell *cells, uint64_t cell_count, uint32_t cell_shift)
{
    return &cells[cell_count & ((UINT64_C(1) << cell_shift) - 1)];
}

/* At the beginning, or as if so many cells and bytes had gone through. */
static inline void shm_producer_init(struct shm_producer *producer, struct shm_cell *cells, uint32_t cell_shift,
                                     char *bytes, uint32_t num_bytes, struct shm_ring_control *control,
                                     uint64_t cell_count, uint64_t byte_count)
{
    *producer = (struct shm_producer){.cell       = shm_cell_at(cells, cell_count, cell_shift),
                                      .stamp      = shm_lap(cell_count, cell_shift) * SHM_LAP_ONE,
                                      .cell_count = cell_count, .fetch_from = cell_count,
                                      .cell_limit = cell_count + (UINT64_C(1) << cell_shift),
                                      .byte_count = byte_count, .bytes_done = byte_count,
                                      .bytes      = bytes, .num_bytes = num_bytes, .cell_shift = cell_shift,
                                      .cells      = cells, .cells_end = cells + (UINT64_C(1) << cell_shift),
                                      .control    = control};
}

static inline void shm_consumer_init(struct shm_consumer *consumer, struct shm_cell *cells, uint32_t cell_shift,
                                     char *bytes, uint32_t num_bytes, struct shm_ring_control *control,
                                     uint64_t cell_count, uint64_t byte_count)
{
    *consumer = (struct shm_consumer){.cell       = shm_cell_at(cells, cell_count, cell_shift),
                                      .stamp      = shm_lap(cell_count, cell_shift) * SHM_LAP_ONE,
                                      .cell_count = cell_count,
                                      .tell_at    = cell_count + (UINT64_C(1) << cell_shift) / 4,
                                      .byte_count = byte_count, .bytes_told = byte_count,
                                      .bytes      = bytes, .num_bytes = num_bytes, .cell_shift = cell_shift,
                                      .cells      = cells, .cells_end = cells + (UINT64_C(1) << cell_shift),
                                      .control    = control};
}

static inline uint64_t shm_control_word(uint64_t lap, uint32_t length, uint8_t id)
{
    return (lap << 48) | ((uint64_t)length << 16) | ((uint64_t)id << 8) | 1;
}

/* Bytes that a packet of this length takes from the byte area at position `at`, with the rest of the area if it must
 * start at its beginning. */
static inline uint64_t shm_bytes_needed(uint64_t at, uint64_t length, uint32_t num_bytes)
{
    uint64_t offset = at & (num_bytes - 1), rounded = (length + CW_CACHE_LINE - 1) & ~(uint64_t)(CW_CACHE_LINE - 1);

    return (offset + rounded <= num_bytes) ? rounded : (num_bytes - offset) + rounded;
}

/* Where the packet starts. */
static inline uint64_t shm_bytes_place(uint64_t at, uint64_t length, uint32_t num_bytes)
{
    uint64_t offset = at & (num_bytes - 1);

    return (offset + length <= num_bytes) ? offset : 0;
}

/* What the consumer told since we last looked. A peer that tells nonsense only harms itself: at worst its own unread
 * packets are overwritten. */
static inline void shm_look(struct shm_producer *producer)
{
    const uint64_t num_cells = UINT64_C(1) << producer->cell_shift;
    uint64_t done;

    /* pairs with the release in shm_tell: what the consumer read is read before we overwrite it */
    done                 = __atomic_load_n(&producer->control->cells_done, __ATOMIC_ACQUIRE);
    producer->bytes_done = __atomic_load_n(&producer->control->bytes_done, __ATOMIC_ACQUIRE);
    producer->cell_limit = (producer->cell_count - done <= num_cells) ? done + num_cells : producer->cell_count;
}

/* What is longer than the byte area has no room whatever the peer tells. */
static inline int shm_bytes_free(const struct shm_producer *producer, uint64_t length)
{
    const uint64_t used   = producer->byte_count - producer->bytes_done;
    const uint64_t needed = shm_bytes_needed(producer->byte_count, length, producer->num_bytes);

    return used <= producer->num_bytes && needed <= producer->num_bytes - used;
}

/* Whether a cell is free, as far as we know. */
static inline int shm_has_cell(const struct shm_producer *producer)
{
    return producer->cell_count != producer->cell_limit;
}

/* Whether a packet of this length has room, as far as we know. */
static inline int shm_has_room_known(const struct shm_producer *producer, uint64_t length)
{
    return shm_has_cell(producer) && (length <= SHM_CELL_DATA || shm_bytes_free(producer, length));
}

/* Whether a packet of this length has room; looks at what the consumer told last only if need be. */
static inline int shm_has_room(struct shm_producer *producer, uint64_t length)
{
    if (cw_likely(shm_has_room_known(producer, length))) {
        return 1;
    }
    shm_look(producer);
    return shm_has_room_known(producer, length);
}

/* The memory for a packet that has room; at most `length` bytes of it. */
static inline void *shm_reserve(struct shm_producer *producer, uint64_t length)
{
    if (length <= SHM_CELL_DATA) {
        return producer->cell->data;
    }
    return producer->bytes + shm_bytes_place(producer->byte_count, length, producer->num_bytes);
}

/* Cells ahead that are fetched for writing: they are in the consumer's cache, and stores that wait limit the rate. */
#define SHM_CELLS_AHEAD 4u

/* Who answers each packet before the next one comes fetches nothing ahead: the consumer looks at the next cell as soon
 * as it has read one, and would have to get back what was fetched (docs/decisions/short-messages.md). */
#define SHM_CELLS_CALM 2u

/* A packet came from the peer: the next ones to it may be answers. */
static inline void shm_answering(struct shm_producer *producer)
{
    producer->fetch_from = producer->cell_count + SHM_CELLS_CALM;
}

/* Publishes the next cell, with what was written to it or to the byte area. */
static inline void shm_publish_cell(struct shm_producer *producer, uint64_t length, uint8_t id)
{
    struct shm_cell *cell = producer->cell, *next = cell + 1, *ahead = cell + 1 + SHM_CELLS_AHEAD;
    const uint64_t word   = producer->stamp | shm_control_word(0, (uint32_t)length, id);
    const uint64_t count  = producer->cell_count + 1;

    if (cw_unlikely(next == producer->cells_end)) {
        next             = producer->cells;
        producer->stamp += SHM_LAP_ONE; /* after the last lap comes the first: the carry is lost */
    }
    producer->cell_count = count;
    producer->cell       = next;
    __atomic_store_n(&cell->control, word, __ATOMIC_RELEASE); /* pairs with the acquire in shm_peek */
    if (count >= producer->fetch_from && producer->cell_limit - count > SHM_CELLS_AHEAD) { /* else it may be needed */
        cw_prefetch_write((ahead < producer->cells_end) ? ahead : producer->cells);
    }
}

/* Publishes what was written to shm_reserve(reserved). `length` may be smaller, but of the same kind (cell or not). */
static inline void shm_publish(struct shm_producer *producer, uint64_t length, uint8_t id)
{
    if (length > SHM_CELL_DATA) {
        producer->byte_count += shm_bytes_needed(producer->byte_count, length, producer->num_bytes);
    }
    shm_publish_cell(producer, length, id);
}

/* The control word of the next packet, or 0 when there is none. */
static inline uint64_t shm_peek(const struct shm_consumer *consumer)
{
    const uint64_t word = __atomic_load_n(&consumer->cell->control, __ATOMIC_ACQUIRE);

    return ((word ^ consumer->stamp) >> 48 == 0) ? word : 0;
}

static inline uint32_t shm_word_length(uint64_t word)
{
    return (uint32_t)(word >> 16);
}

static inline uint8_t shm_word_id(uint64_t word)
{
    return (uint8_t)(word >> 8);
}

/* The bytes of the packet under the consumer's position. */
static inline const void *shm_data(const struct shm_consumer *consumer, uint32_t length)
{
    if (length <= SHM_CELL_DATA) {
        return consumer->cell->data;
    }
    return consumer->bytes + shm_bytes_place(consumer->byte_count, length, consumer->num_bytes);
}

static inline void shm_advance_cell(struct shm_consumer *consumer)
{
    consumer->cell_count++;
    consumer->cell++;
    if (cw_unlikely(consumer->cell == consumer->cells_end)) {
        consumer->cell   = consumer->cells;
        consumer->stamp += SHM_LAP_ONE;
    }
}

static inline void shm_advance(struct shm_consumer *consumer, uint32_t length)
{
    if (length > SHM_CELL_DATA) {
        consumer->byte_count += shm_bytes_needed(consumer->byte_count, length, consumer->num_bytes);
        if (consumer->byte_count - consumer->bytes_told >= consumer->num_bytes / 4) {
            consumer->tell_at = consumer->cell_count;
        }
    }
    shm_advance_cell(consumer);
}

/* After a packet: a quarter of the ring was read since the producer was told. So the line seldom travels. */
static inline int shm_should_tell(const struct shm_consumer *consumer)
{
    return consumer->cell_count >= consumer->tell_at;
}

static inline void shm_tell(struct shm_consumer *consumer)
{
    consumer->tell_at    = consumer->cell_count + ((UINT64_C(1) << consumer->cell_shift) / 4);
    consumer->bytes_told = consumer->byte_count;
    __atomic_store_n(&consumer->control->cells_done, consumer->cell_count, __ATOMIC_RELEASE);
    __atomic_store_n(&consumer->control->bytes_done, consumer->byte_count, __ATOMIC_RELEASE);
}

#endif
