/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short packets without a call of the transport: the core writes them into the memory of a connection, and takes them
 * out of it, by the inline functions of this file (docs/why/short-messages.md). What lies in that memory is a matter
 * of the transport (transport/shm).
 *
 * A cell is one cache line. It is published by its control word, whose lap number differs from that of the round
 * before, so nothing needs clearing.
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
#ifndef CW_TRANSPORT_FASTPATH_H
#define CW_TRANSPORT_FASTPATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/nt_copy.h"
#include "base/probe.h"
#include "transport/iface.h"

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

struct shm_ring_control;

/* The producer's private view. Cells are counted by laps: the place of a cell is the number taken in this lap. */
struct cw_tx {
    struct cw_cell *cell;           /* the next one; may be cells_end until it is asked for */
    struct cw_cell *stop;           /* the transport must be called at this one */
    struct cw_cell *fetch_from;     /* from this one on cells are fetched ahead */
    uint64_t stamp;                 /* lap, area and lowest bit, where a control word has them */
    uint32_t slot;                  /* not 0: `cell` is open, and this is the next one in it */
    const uint32_t *attention;      /* in the ring: not 0 while the consumer does more than look into it; then `bell` */
    void (*bell)(struct cw_tx *tx); /* follows each packet */

    /* the transport's */
    uint64_t lap_count;             /* cells taken before this lap */
    uint64_t cell_limit;            /* cells before this one are free, as far as we know */
    uint64_t byte_count;            /* bytes taken so far, with what was skipped at the end of the area */
    uint64_t bytes_done;            /* last seen of the consumer */
    char *bytes;                    /* the area in use */
    uint32_t num_bytes;             /* a power of two */
    uint32_t cell_shift;            /* 1 << cell_shift cells */
    struct cw_cell *cells;
    struct cw_cell *cells_end;
    struct shm_ring_control *control;
    struct cw_nt_choice nt;         /* the way in which long packets are copied into the area */
};

/* The consumer's private view. */
struct cw_rx {
    struct cw_cell *cell;           /* the next one */
    struct cw_cell *turn;           /* cw_rx_turn must be called behind the cell before this one */
    uint64_t stamp;                 /* its lap, where a control word has it */
    uint64_t most;                  /* CW_CELL_MOST; 0 when the producer is to be told how much was read */
    uint32_t slot;                  /* as the producer's */
    struct cw_conn *conn;           /* whose packets these are ... */
    struct cw_tx *answers;          /* ... and where the answers to them go */
    const char *ahead;              /* where the next packet of a few lines is likely to be, */
    const char *ahead_end;          /* and its end; both NULL: nowhere */

    /* the transport's */
    uint64_t lap_count;             /* cells read before this lap */
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
};

/* The group of slots. */
struct cw_transport_fastpath {
    /* The core asks once a connection is open: where it may put short packets by itself, in one order with the send
     * slots, whenever there is room; a packet that finds none goes through a send slot. */
    struct cw_tx *(*tx)(struct cw_conn *conn);
};

/* For connections without: nothing has room, and no packet comes. */
extern struct cw_tx cw_no_tx;
extern struct cw_rx cw_no_rx;

#define CW_CELL_LAP  (UINT64_C(1) << 48)
#define CW_CELL_WIDE UINT64_C(2)
#define CW_CELL_OPEN UINT64_C(4)

/* A control word without its lap is at most this when the packet lies in its cell. */
#define CW_CELL_MOST (((uint64_t)CW_CELL_DATA << 16) | 0xffff)

/* A packet in a slot: its word, without a lap, is at most this and says open. And: nothing more comes in this cell. */
#define CW_CELL_MOST_IN_SLOT ((CW_CELL_SLOT << 16) | 0xffff)
#define CW_CELL_OVER         UINT32_MAX

/* Packets whose header of 8 bytes has no more than this behind it leave their cell open. */
#define CW_CELL_FEW (CW_CELL_SLOT - (uint32_t)sizeof(uint64_t))

/* Name in probes of the one transport that has cells. */
#define CW_CELL_TRANSPORT 2u

/* Cells ahead that are fetched for writing: the consumer has them in its cache since the last lap, and a store that
 * must wait for each of them in turn is what limits the rate of small packets. */
#define CW_CELLS_AHEAD 4

/* A producer that answers each packet before the next one comes fetches nothing ahead: the consumer looks at the next
 * cell as soon as it has read one, and would have to fetch the line back (docs/why/short-messages.md). */
#define CW_CELLS_CALM 2

/* ---- short send ---- */

/* `next`: behind the cell that was just published. */
static CW_INLINE void cw_tx_fetch_ahead(const struct cw_tx *tx, const struct cw_cell *next)
{
    if (next >= tx->fetch_from && tx->stop - next > CW_CELLS_AHEAD) { /* else it may be needed */
        cw_prefetch_write(next + CW_CELLS_AHEAD);
    }
}

/* Publishes that slot of that cell, the next one. */
static inline void cw_tx_publish_slot(struct cw_tx *tx, struct cw_cell *cell, size_t slot, uint64_t length, uint8_t id)
{
    if (slot == 0) {
        memset(cell->more, 0, sizeof(cell->more));
        tx->slot = 1;
        __atomic_store_n(&cell->control, tx->stamp + CW_CELL_OPEN + (length << 16) + ((uint64_t)id << 8),
                         __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_look, as does the next one */
        cw_tx_fetch_ahead(tx, cell + 1);
        return;
    }
    if (slot == CW_CELL_SLOTS - 1) {
        tx->slot = 0;
        tx->cell = cell + 1;
    } else {
        tx->slot = (uint32_t)slot + 1;
    }
    __atomic_store_n(cell->more + slot - 1,
                     (uint32_t)CW_CELL_OPEN + 1 + ((uint32_t)length << 16) + ((uint32_t)id << 8), __ATOMIC_RELEASE);
}

/* Whether cw_tx_put may be called. */
static CW_INLINE bool cw_tx_takes(const struct cw_tx *tx, size_t length)
{
    return length <= CW_CELL_FEW && tx->cell != tx->stop;
}

/* Sends a packet of few bytes. */
static CW_INLINE void cw_tx_put(struct cw_tx *tx, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct cw_cell *cell = tx->cell;
    const size_t slot    = tx->slot;
    char *data           = cell->slots[slot];

    memcpy(data, &header, sizeof(header));
    cw_bytes_copy_few(data + sizeof(header), payload, length);
    CW_PROBE(send_short, CW_CELL_TRANSPORT, sizeof(header) + length, 0);
    cw_tx_publish_slot(tx, cell, slot, sizeof(header) + length, id);
    if (cw_unlikely(__atomic_load_n(tx->attention, __ATOMIC_RELAXED) != 0)) {
        tx->bell(tx);
    }
}

/* A packet came from the peer: the next ones to it may be answers. */
static inline void cw_tx_answers(struct cw_tx *tx)
{
    tx->fetch_from = tx->cell + CW_CELLS_CALM;
}

/* ---- peek, and taking what is there. Lengths and ids are the peer's. ---- */

/* A control word without the lap that comes next; a huge number if it is of another lap. Or the word of a slot. */
static CW_INLINE uint64_t cw_rx_look(const struct cw_rx *rx)
{
    const size_t slot = rx->slot;

    return (slot == 0) ? __atomic_load_n(&rx->cell->control, __ATOMIC_ACQUIRE) ^ rx->stamp :
           __atomic_load_n(rx->cell->more + slot - 1, __ATOMIC_ACQUIRE);
}

/* Whether that is a short packet, which cw_rx_take takes, and the producer need not be told of the ones before. */
static CW_INLINE bool cw_rx_is_short(const struct cw_rx *rx, uint64_t seen)
{
    return seen - 1 < rx->most; /* 0 is no packet */
}

/* Whether it is anything, such as a packet of any length: unless it is a short packet, the transport must be called. */
static CW_INLINE bool cw_rx_is_packet(uint64_t seen)
{
    return seen - 1 < CW_CELL_LAP - 1;
}

/* After a packet: a quarter of the ring was read since the producer was told last. Told that rarely, the line with the
 * counters seldom travels. */
static inline bool cw_rx_should_tell(const struct cw_rx *rx)
{
    return rx->most == 0;
}

/* Whether the transport has nothing to do here. */
static inline bool cw_rx_is_quiet(const struct cw_rx *rx)
{
    return !cw_rx_is_packet(cw_rx_look(rx)) && !cw_rx_should_tell(rx);
}

/* Nothing came: what follows the next control word, if anything, is asked for together with it, and not behind it. */
static inline void cw_rx_fetch(const struct cw_rx *rx)
{
    const char *at;

    for (at = rx->ahead; at != rx->ahead_end; at += CW_CACHE_LINE) {
        __builtin_prefetch(at);
    }
}

static inline uint32_t cw_rx_length(uint64_t word)
{
    return (uint32_t)(word >> 16);
}

static inline uint8_t cw_rx_id(uint64_t word)
{
    return (uint8_t)(word >> 8);
}

/* Goes on behind a short packet, as seen by cw_rx_look: its bytes, which stay until the producer is told. cw_rx_next
 * comes before the next look. */
static CW_INLINE const void *cw_rx_take(struct cw_rx *rx, uint64_t seen)
{
    struct cw_cell *cell = rx->cell;
    const size_t slot    = rx->slot;

    if (cw_unlikely(!(seen & CW_CELL_OPEN) || seen > CW_CELL_MOST_IN_SLOT)) {
        rx->slot = 0;
        rx->cell = cell + 1;
        return cell->data;
    }
    if (slot == CW_CELL_SLOTS - 1) {
        rx->slot = 0;
        rx->cell = cell + 1;
    } else {
        rx->slot = (uint32_t)slot + 1;
    }
    return cell->slots[slot];
}

/* `turn` was reached. */
void cw_rx_turn(struct cw_rx *rx);

static inline void cw_rx_passed(struct cw_rx *rx)
{
    if (cw_unlikely(rx->cell == rx->turn)) {
        cw_rx_turn(rx);
    }
}

/* After cw_rx_take: looks for the next packet. */
static CW_INLINE uint64_t cw_rx_next(struct cw_rx *rx)
{
    if (rx->slot == 0) {
        cw_rx_passed(rx);
    }
    return cw_rx_look(rx);
}

#endif
