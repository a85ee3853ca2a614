/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring in memory shared by one producer and one consumer process (docs/WIRE.md): packets as records of whole cache
 * lines (transport/fastpath.h), each at a line and not over the end of the ring.
 *
 *     | word | packet ... | word | packet ... | ... | word: the lap ends |      not used in this lap      |
 *
 * The consumer looks at its own position only, for a word of its lap. Bytes of an older lap may look like one, so
 * before a record is published, the producer looks at the word behind it and clears it; a line behind the last record
 * is always free. The producer ends a lap where it likes. A lap begins with few bytes and may grow up to the whole
 * ring.
 *
 * The consumer trusts nothing that it reads: position and lap are its own; only length and id come from the peer, and
 * they are checked. One that tells a wrong position harms itself: at worst its own unread packets are overwritten.
 */
#ifndef CW_TRANSPORT_SHM_RING_H
#define CW_TRANSPORT_SHM_RING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/nt_copy.h"
#include "transport/transport.h"

struct shm_ring_control {
    /* written by the consumer; the producer reads it when it has no more room, or at each send if the consumer may
     * sleep */
    _Alignas(CW_CACHE_LINE) uint64_t done; /* lap and offset of its position: see shm_position */
    uint32_t consumer_sleeps;       /* the consumer sets it before it sleeps; the producer that wakes it exchanges it
                                     * for 0 */
    /* written by the producer, read by the consumer when it frees room */
    _Alignas(CW_CACHE_LINE) uint32_t producer_waits;
    /* SHM_ATTENTION_*: seldom written by the consumer, read after each packet, hence in a line of its own */
    _Alignas(CW_CACHE_LINE) uint32_t attention;
};

#define SHM_ATTENTION_SLEEPS 1u     /* the consumer may sleep: see consumer_sleeps */
#define SHM_ATTENTION_COLD   2u     /* the consumer does not look at this ring: the producer clears the bit and sends a
                                     * byte */

_Static_assert(sizeof(struct shm_ring_control) == 3 * CW_CACHE_LINE, "layout shared with the peer");

#define SHM_LINE  ((uint32_t)CW_CACHE_LINE)
#define SHM_SHORT (CW_LINE_DATA - (uint32_t)sizeof(uint64_t)) /* of a packet of one line, behind its header */

#define SHM_LEAD_FROM 512u          /* packets longer than this begin at ... */
#define SHM_LEAD      56u

/* Room of the smallest ring that this file can use. */
#define SHM_LEAST (16 * SHM_LINE)

/* Up to this length libc copies by vectors. Beyond it takes whole lines without fetching them (`rep movsb`), on some
 * processors. */
#define SHM_VECTORS 2176u

/* A length that says: the next record is the first one of the next lap. */
#define SHM_WRAP (UINT64_C(0xffffffff) << 16)

struct shm_tx {
    struct cw_tx fast;
    struct cw_line *base;
    uint32_t bytes;                 /* that a lap may use now */
    uint32_t most;                  /* bytes of the ring */
    uint32_t lap;
    uint32_t done;                  /* offset that the consumer has told ... */
    uint8_t behind;                 /* ... in the lap before this one */
    uint8_t wants_more;             /* a packet found no room where the lap could not grow */
    uint64_t passed;                /* bytes of the laps before */
    struct shm_ring_control *control;
    struct cw_nt_choice nt;         /* the way in which long packets are copied into the ring */
};

struct shm_rx {
    struct cw_rx fast;
    struct cw_line *base;
    struct cw_line *end;            /* of the ring */
    uint32_t tell_after;            /* bytes */
    uint32_t lap;
    struct shm_ring_control *control;
};

static inline uint64_t shm_stamp(uint32_t lap)
{
    return (uint64_t)lap << 48;
}

static inline uint32_t shm_offset(const struct cw_line *base, const struct cw_line *line)
{
    return (uint32_t)((const char *)line - (const char *)base);
}

static inline uint64_t shm_position(uint32_t lap, uint32_t offset)
{
    return ((uint64_t)lap << 32) | offset;
}

/* Another number after each packet. */
static inline uint64_t shm_sent_mark(const struct shm_tx *tx)
{
    return shm_position(tx->lap, shm_offset(tx->base, tx->fast.line)) + tx->fast.slot;
}

static inline uint64_t shm_read_mark(const struct shm_rx *rx)
{
    return shm_position(rx->lap, shm_offset(rx->base, rx->fast.line)) + rx->fast.slot;
}

static inline uint64_t shm_bytes_sent(const struct shm_tx *tx)
{
    return tx->passed + shm_offset(tx->base, tx->fast.line);
}

static inline size_t shm_lead(uint64_t length)
{
    return (length > SHM_LEAD_FROM) ? SHM_LEAD : sizeof(uint64_t);
}

/* The offset behind a record that begins at `offset`. */
static inline uint64_t shm_behind(uint64_t offset, uint64_t length)
{
    if (length <= CW_LINE_DATA) {
        return offset + SHM_LINE;
    }
    return (offset + shm_lead(length) + length + 2 * SHM_LINE - 1) & ~(uint64_t)(2 * SHM_LINE - 1);
}

static inline struct cw_line *shm_line(struct cw_line *base, uint64_t offset)
{
    return (struct cw_line *)(void *)((char *)base + offset);
}

/* shm_ring.c. Both start at the beginning of that lap. `first`: bytes of a lap until it grows; `most`: bytes of the
 * ring, a power of two as well. The memory is zeros, and has one more line at its end. */
void cw_shm_tx_init(struct shm_tx *tx, void *memory, uint32_t first, uint32_t most, struct shm_ring_control *control,
                    uint32_t lap);
void cw_shm_rx_init(struct shm_rx *rx, void *memory, uint32_t first, uint32_t most, struct shm_ring_control *control,
                    uint32_t lap);

/* Reads the position that the consumer has told. */
void cw_shm_tx_look(struct shm_tx *tx);
/* Ends an open line, so that the next record is at `line`. */
void cw_shm_tx_close(struct shm_tx *tx);
/* Begins the next lap, if a packet of that length has room there and none in this one. */
int cw_shm_tx_turn(struct shm_tx *tx, uint64_t length);
/* Doubles the lap until a packet of that length has room or the lap has `limit` bytes; whether it has grown. It cannot
 * while the lap before is unread; `wants_more` then says to try again before the next turn. */
int cw_shm_tx_grow(struct shm_tx *tx, uint64_t length, uint32_t limit);
/* Lets a lap have that many bytes again. Everything was read. */
void cw_shm_tx_shrink(struct shm_tx *tx, uint32_t bytes);
/* No packet has room until the next cw_shm_tx_look, or only a few bytes of them. */
static inline void shm_tx_stop(struct shm_tx *tx, uint32_t bytes)
{
    if (tx->fast.stop > shm_line(tx->fast.line, bytes)) {
        tx->fast.stop = shm_line(tx->fast.line, bytes);
    }
}

/* Whether a packet of this length has room at `line`, by the last known position of the consumer. */
static inline int shm_has_space_here(struct shm_tx *tx, uint64_t length)
{
    if (cw_unlikely(tx->fast.slot != 0)) {
        cw_shm_tx_close(tx);
    }
    return shm_behind(shm_offset(tx->base, tx->fast.line), length) <= (uint64_t)((char *)tx->fast.stop -
                                                                                  (char *)tx->base);
}

/* As well, with the beginning of the next lap. */
static inline int shm_has_space_known(struct shm_tx *tx, uint64_t length)
{
    return cw_likely(shm_has_space_here(tx, length)) || cw_shm_tx_turn(tx, length);
}

/* The memory for a packet of at most `length` bytes, for which there is room. */
static inline void *shm_reserve(const struct shm_tx *tx, uint64_t length)
{
    __builtin_prefetch(shm_line(tx->base, shm_behind(shm_offset(tx->base, tx->fast.line), length))); /* shm_publish */
    return (char *)tx->fast.line + shm_lead(length);
}

/* Publishes what was written to shm_reserve(length). */
static inline void shm_publish(struct shm_tx *tx, uint64_t length, uint8_t id)
{
    struct cw_line *line = tx->fast.line, *next;

    next = shm_line(tx->base, shm_behind(shm_offset(tx->base, line), length));
    cw_tx_clear(&tx->fast, next);
    tx->fast.line = next;
    __atomic_store_n(&line->word, tx->fast.stamp + (length << 16) + ((uint64_t)id << 8),
                     __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_look */
}

/* As shm_publish, of a packet of one line. */
static inline void shm_publish_line(struct shm_tx *tx, uint64_t length, uint8_t id)
{
    struct cw_line *line = tx->fast.line;

    cw_tx_clear(&tx->fast, line + 1);
    tx->fast.line = line + 1;
    __atomic_store_n(&line->word, tx->fast.stamp + (length << 16) + ((uint64_t)id << 8),
                     __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_look */
    cw_tx_fetch_ahead(&tx->fast, line + 1);
}

/* After a packet of several lines: the next one is likely to be as long, and the consumer has its lines in its cache
 * since the last lap. They are fetched for writing. */
void cw_shm_tx_fetch_ahead(const struct shm_tx *tx, uint64_t length);

/* Steps over the end of an open line or of a lap; what cw_rx_look says there. */
uint64_t cw_shm_rx_step(struct shm_rx *rx, uint64_t seen);

/* cw_rx_look of the next packet, or 0 when there is none. */
static inline uint64_t shm_peek(struct shm_rx *rx)
{
    uint64_t seen = cw_rx_look(&rx->fast);

    if (cw_unlikely(seen >= CW_LINE_OVER && seen < CW_LINE_LAP)) {
        seen = cw_shm_rx_step(rx, seen);
    }
    return (seen < CW_LINE_LAP) ? seen : 0;
}

/* Whether the packet that was seen lies in the ring. */
static inline int shm_is_inside(const struct shm_rx *rx, uint64_t length)
{
    return shm_behind(shm_offset(rx->base, rx->fast.line), length) <= shm_offset(rx->base, rx->end);
}

/* The bytes of a packet of more than CW_LINE_DATA bytes that was seen. */
static inline const void *shm_data(const struct shm_rx *rx, uint32_t length)
{
    return (const char *)rx->fast.line + shm_lead(length);
}

/* The next packet may be as long: whether its lines are asked for together. */
#define SHM_FEW (4 * SHM_LINE - (uint32_t)sizeof(uint64_t))

static inline const char *shm_ahead_end(const struct cw_line *line, uint64_t length)
{
    return (const char *)line + ((length + sizeof(uint64_t) + SHM_LINE - 1) & ~(uint64_t)(SHM_LINE - 1));
}

/* Goes on behind it. */
static inline void shm_advance(struct shm_rx *rx, uint32_t length)
{
    rx->fast.slot = 0; /* as it is, unless the peer writes nonsense */
    rx->fast.line = shm_line(rx->base, shm_behind(shm_offset(rx->base, rx->fast.line), length));
    rx->fast.ahead = (const char *)rx->fast.line + SHM_LINE;
    rx->fast.ahead_end = (length <= SHM_FEW) ? shm_ahead_end(rx->fast.line, length) : rx->fast.ahead;
    cw_rx_passed(&rx->fast);
}

/* The producer is to be told after so many bytes, or as usual. */
void cw_shm_rx_tell_after(struct shm_rx *rx, uint32_t bytes);
/* Tells the producer. */
void cw_shm_rx_tell(struct shm_rx *rx);

#endif
