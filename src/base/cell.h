/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cells: packets of one cache line, in a ring in memory that two processes share (transport/shm/shm_ring.h). Here are
 * the inline functions that fill a cell; those that empty it are in cell_take.h. The transport calls them, and so does
 * the core where a transport allows it. A cell is published by its control word, whose lap number differs from that of
 * the round before, so nothing needs clearing.
 *
 *   control word: lap 16 bits | length 32 bits | id 8 bits | 5 bits 0 | open 1 bit | byte area 1 bit | 1, so that no
 *   word is 0
 *
 * Between distant processors a short packet costs the transfer of its cache line; between near ones it costs the time
 * in which both access the line. So a cell with a packet of a few bytes is left open: up to two more follow in it, each
 * published by a word of its own, or a word says that the next packet is in the next cell. Those words are cleared
 * before the cell is published, hence have no lap. Both sides stay at an open cell, which counts as taken, and as read,
 * when it is over.
 */
#ifndef CW_BASE_CELL_H
#define CW_BASE_CELL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/nt_copy.h"
#include "base/probe.h"

#define CW_CELL_DATA 56u

#define CW_CELL_SLOTS 3u
#define CW_CELL_SLOT  16u

struct cw_cell {
    uint64_t control;               /* written last with release, read first with acquire */
    union {
        char data[CW_CELL_DATA];
        struct {                    /* of an open one */
            uint32_t more[CW_CELL_SLOTS - 1]; /* of slots behind the first: likewise */
            char slots[CW_CELL_SLOTS][CW_CELL_SLOT];
        };
    };
};

_Static_assert(sizeof(struct cw_cell) == CW_CACHE_LINE, "one cell, one line");

struct cw_conn;
struct shm_ring_control;

/* The producer's private view. Cells are counted by laps: the place of a cell is the number taken in this lap. */
struct cw_producer {
    struct cw_cell *cell;           /* the next one; may be cells_end until it is asked for */
    struct cw_cell *stop;           /* cw_cell_go_on must be called at this one */
    struct cw_cell *fetch_from;     /* from this one on cells are fetched ahead */
    uint64_t stamp;                 /* lap, area and lowest bit, where a control word has them */
    uint64_t lap_count;             /* cells taken before this lap */
    uint64_t cell_limit;            /* cells before this one are free, as far as we know */
    uint64_t byte_count;            /* bytes taken so far, with what was skipped at the end of the area */
    uint64_t bytes_done;            /* last seen of the consumer */
    char *bytes;                    /* the area in use */
    uint32_t num_bytes;             /* a power of two */
    uint32_t cell_shift;            /* 1 << cell_shift cells */
    uint32_t slot;                  /* not 0: `cell` is open, and this is the next one in it */
    struct cw_cell *cells;
    struct cw_cell *cells_end;
    struct shm_ring_control *control;
    const uint32_t *attention;      /* in the ring: not 0 while the consumer does more than look into it; then `bell` */
    void (*bell)(struct cw_producer *producer);     /* follows each packet */
    struct cw_nt_choice nt;         /* the way in which long packets are copied into the area */
};

/* The consumer's private view. */
struct cw_consumer {
    struct cw_cell *cell;           /* the next one */
    struct cw_cell *turn;           /* cw_cell_turn must be called behind the cell before this one */
    uint64_t stamp;                 /* its lap, where a control word has it */
    uint64_t most;                  /* CW_CELL_MOST; 0 when the producer is to be told how much was read */
    uint64_t lap_count;             /* cells read before this lap */
    uint64_t tell_at;               /* the producer is told when so many were read */
    uint64_t byte_count;
    uint64_t bytes_told;            /* last told to the producer */
    uint64_t wide;                  /* CW_CELL_WIDE: the area is the wide one */
    const char *ahead;              /* where the next packet of a few lines is likely to be, */
    const char *ahead_end;          /* and its end; both NULL: nowhere */
    char *bytes;                    /* the area of the last packet */
    uint32_t num_bytes;
    uint32_t cell_shift;
    uint32_t slot;                  /* as the producer's */
    struct cw_cell *cells;
    struct cw_cell *cells_end;
    struct shm_ring_control *control;
    struct cw_conn *conn;           /* whose packets these are ... */
    struct cw_producer *answers;    /* ... and where the answers to them go */
};

/* For connections without cells: no cell is next, and no packet is short. */
extern struct cw_producer cw_cell_no_producer;
extern struct cw_consumer cw_cell_no_consumer;

#define CW_CELL_LAP  (UINT64_C(1) << 48)
#define CW_CELL_WIDE UINT64_C(2)
#define CW_CELL_OPEN UINT64_C(4)

/* A control word without its lap is at most this when the packet lies in its cell. */
#define CW_CELL_MOST (((uint64_t)CW_CELL_DATA << 16) | 0xffff)

/* A packet in a slot: its word, without a lap, is at most this and says open. And: nothing more comes in this cell. */
#define CW_CELL_MOST_IN_SLOT ((CW_CELL_SLOT << 16) | 0xffff)
#define CW_CELL_OVER         UINT32_MAX

static inline uint64_t cw_cell_word(uint64_t lap, uint32_t length, uint8_t id)
{
    return (lap << 48) | ((uint64_t)length << 16) | ((uint64_t)id << 8) | 1;
}

/* Cells taken, and read, since the beginning. */
static inline uint64_t cw_cell_num_sent(const struct cw_producer *producer)
{
    return producer->lap_count + (uint64_t)(producer->cell - producer->cells);
}

static inline uint64_t cw_cell_num_read(const struct cw_consumer *consumer)
{
    return consumer->lap_count + (uint64_t)(consumer->cell - consumer->cells);
}

/* Counts with packets in open cells: another number after each packet. */
static inline uint64_t cw_cell_sent_mark(const struct cw_producer *producer)
{
    return cw_cell_num_sent(producer) * CW_CELL_SLOTS + producer->slot;
}

static inline uint64_t cw_cell_read_mark(const struct cw_consumer *consumer)
{
    return cw_cell_num_read(consumer) * CW_CELL_SLOTS + consumer->slot;
}

/* Goes on behind `stop`, if it can: whether a cell is free. */
int cw_cell_go_on(struct cw_producer *producer);
/* The consumer said that there is room up to here. */
void cw_cell_set_limit(struct cw_producer *producer, uint64_t limit);
/* `turn` was reached. */
void cw_cell_turn(struct cw_consumer *consumer);
/* Number of cells read at which the producer is told next. */
void cw_cell_tell_at(struct cw_consumer *consumer, uint64_t count);

/* Goes on behind an open cell: whether the next one may be written at once. */
int cw_cell_close(struct cw_producer *producer);

/* Whether a cell may be written at once; if not, cw_cell_is_free must be called first. */
static inline int cw_cell_is_next(struct cw_producer *producer)
{
    return producer->cell != producer->stop && (cw_likely(producer->slot == 0) || cw_cell_close(producer));
}

/* Packets whose header of 8 bytes has no more than this behind it leave their cell open. */
#define CW_CELL_FEW (CW_CELL_SLOT - (uint32_t)sizeof(uint64_t))

/* Whether a cell is free, as far as we know. */
static inline int cw_cell_is_free(struct cw_producer *producer)
{
    return cw_likely(cw_cell_is_next(producer)) || cw_cell_go_on(producer);
}

/* Cells ahead that are fetched for writing: the consumer has them in its cache since the last lap, and a store that
 * must wait for each of them in turn is what limits the rate of small packets. */
#define CW_CELLS_AHEAD 4

/* A producer that answers each packet before the next one comes fetches nothing ahead: the consumer looks at the next
 * cell as soon as it has read one, and would have to fetch the line back (docs/why/short-messages.md). */
#define CW_CELLS_CALM 2

/* A packet came from the peer: the next ones to it may be answers. */
static inline void cw_cell_answering(struct cw_producer *producer)
{
    producer->fetch_from = producer->cell + CW_CELLS_CALM;
}

/* `next`: behind the cell that was just published. */
static CW_INLINE void cw_cell_fetch_ahead(const struct cw_producer *producer, const struct cw_cell *next)
{
    if (next >= producer->fetch_from && producer->stop - next > CW_CELLS_AHEAD) { /* else it may be needed */
        cw_prefetch_write(next + CW_CELLS_AHEAD);
    }
}

/* Publishes the next cell, with what was written to it or to the byte area. */
static inline void cw_cell_publish(struct cw_producer *producer, uint64_t length, uint8_t id)
{
    struct cw_cell *cell = producer->cell;

    assert(producer->slot == 0);
    producer->cell = cell + 1;
    __atomic_store_n(&cell->control, producer->stamp + (length << 16) + ((uint64_t)id << 8),
                     __ATOMIC_RELEASE); /* pairs with the acquire in cw_cell_look */
    cw_cell_fetch_ahead(producer, cell + 1);
}

/* Name in probes of the one transport that has cells. */
#define CW_CELL_TRANSPORT 2u

/* Short packets: those of send_short of a transport that fit a cell. */
#define CW_CELL_SHORT (CW_CELL_DATA - (uint32_t)sizeof(uint64_t))

/* Publishes that slot of that cell, the next one. */
static inline void cw_cell_publish_slot(struct cw_producer *producer, struct cw_cell *cell, size_t slot,
                                        uint64_t length, uint8_t id)
{
    if (slot == 0) {
        memset(cell->more, 0, sizeof(cell->more));
        producer->slot = 1;
        __atomic_store_n(&cell->control, producer->stamp + CW_CELL_OPEN + (length << 16) + ((uint64_t)id << 8),
                         __ATOMIC_RELEASE); /* pairs with the acquire in cw_cell_look, as does the next one */
        cw_cell_fetch_ahead(producer, cell + 1);
        return;
    }
    if (slot == CW_CELL_SLOTS - 1) {
        producer->slot = 0;
        producer->cell = cell + 1;
    } else {
        producer->slot = (uint32_t)slot + 1;
    }
    __atomic_store_n(cell->more + slot - 1,
                     (uint32_t)CW_CELL_OPEN + 1 + ((uint32_t)length << 16) + ((uint32_t)id << 8), __ATOMIC_RELEASE);
}

/* Whether cw_cell_put_few may be called. */
static CW_INLINE int cw_cell_can_put_few(const struct cw_producer *producer, size_t length)
{
    return length <= CW_CELL_FEW && producer->cell != producer->stop;
}

/* Sends one of few bytes. */
static CW_INLINE void cw_cell_put_few(struct cw_producer *producer, uint8_t id, uint64_t header, const void *payload,
                                      size_t length)
{
    struct cw_cell *cell = producer->cell;
    const size_t slot    = producer->slot;
    char *data           = cell->slots[slot];

    memcpy(data, &header, sizeof(header));
    cw_bytes_copy_few(data + sizeof(header), payload, length);
    CW_PROBE(send_short, CW_CELL_TRANSPORT, sizeof(header) + length, 0);
    cw_cell_publish_slot(producer, cell, slot, sizeof(header) + length, id);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}

/* Publishes a packet that was written to the cell. */
static CW_INLINE void cw_cell_send(struct cw_producer *producer, uint8_t id, size_t length)
{
    CW_PROBE(send_short, CW_CELL_TRANSPORT, length, 0);
    cw_cell_publish(producer, length, id);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}

#endif
