/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A single-producer, single-consumer ring in shared memory (docs/WIRE.md): packets as records of whole cache lines
 * (transport/fastpath.h), line-aligned, never wrapped over the end of the ring.
 *
 *     | word | packet ... | word | packet ... | ... | word: the lap ends |      not used in this lap      |
 *
 * The consumer polls only its own position, for a word of the current lap. Bytes of an older lap may resemble one, so
 * before the producer publishes a record, it checks the word behind it and clears it; a line behind the last record is
 * always free. The producer may end a lap anywhere. A lap starts small and may grow up to the whole ring.
 *
 * The first lap has a few lines in another place, the head, so that a connection with little traffic needs no page of
 * the ring.
 *
 * The consumer trusts nothing that it reads: position and lap are its own; only length and id come from the peer, and
 * they are checked. A consumer that publishes a wrong position harms itself: at worst its own unread packets are
 * overwritten.
 */
#ifndef CW_TRANSPORT_SHM_RING_H
#define CW_TRANSPORT_SHM_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/nt_copy.h"
#include "transport/transport.h"

struct shm_ring_control {
    /* written by the consumer; the producer reads it when it is out of space, or at each send if the consumer may
     * sleep */
    _Alignas(CW_CACHE_LINE) uint64_t done; /* lap and offset of its position: see shm_position */
    uint32_t consumer_sleeps;       /* set by the consumer before it sleeps; the producer that wakes it exchanges it for
                                     * 0 */
    /* written by the producer, read by the consumer when it frees space */
    _Alignas(CW_CACHE_LINE) uint32_t producer_waits;
    uint32_t revocations;           /* changes after the producer's process has cleared a validity word (shm_peer.c);
                                     * 0: it need not change */
    /* SHM_ATTENTION_*: rarely written by the consumer, read after each packet, hence in its own line */
    _Alignas(CW_CACHE_LINE) uint32_t attention;
};

#define SHM_ATTENTION_SLEEPS 1u     /* the consumer may sleep: see consumer_sleeps */
#define SHM_ATTENTION_COLD   2u     /* the consumer does not poll this ring: the producer clears the bit and rings */

_Static_assert(sizeof(struct shm_ring_control) == 3 * CW_CACHE_LINE, "layout shared with the peer");

#define SHM_LINE  ((uint32_t)CW_CACHE_LINE)
#define SHM_SHORT (CW_LINE_DATA - (uint32_t)sizeof(uint64_t)) /* payload of a packet of one line */

#define SHM_LEAD_FROM 512u          /* packets longer than this begin at ... */
#define SHM_LEAD      56u

/* Size of the smallest ring. */
#define SHM_LEAST (16 * SHM_LINE)

/* Up to this length libc copies by vectors; beyond it, on some CPUs, by `rep movsb`, which writes whole lines without
 * fetching them. */
#define SHM_VECTORS 2176u

/* Packets up to this length that answer another one are copied by vectors, too. */
#define SHM_ANSWER 4224u

/* A length that ends the lap: the next record is the first one of the next lap. */
#define SHM_WRAP (UINT64_C(0xffffffff) << 16)

/* Size of a head, without the line behind it that a consumer may read. */
#define SHM_HEAD_BYTES (28 * SHM_LINE)

struct shm_tx {
    struct cw_tx fast;
    struct cw_line *base;           /* of this lap: ring or head */
    struct cw_line *ring;
    uint32_t bytes;                 /* current size of a lap of the ring */
    uint32_t most;                  /* size of the ring */
    uint32_t lap;
    uint32_t done;                  /* last known offset of the consumer ... */
    uint8_t behind;                 /* ... which is in the previous lap */
    uint8_t apart;                  /* the previous lap was in the head, so it limits no space */
    uint8_t wants_more;             /* a packet did not fit, and the lap could not grow */
    uint64_t passed;                /* bytes of all previous laps */
    struct shm_ring_control *control;
    struct cw_nt_choice nt;         /* the copy method for long packets */
};

struct shm_rx {
    struct cw_rx fast;
    struct cw_line *base;           /* of this lap: ring or head ... */
    struct cw_line *end;            /* ... and its end */
    struct cw_line *ring;
    uint32_t most;                  /* size of the ring */
    uint32_t notify_after;          /* bytes */
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

/* Differs after each packet. */
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

/* The memory of a ring, zeroed. Ring and head have one more line at their end. */
struct shm_place {
    void *ring;
    void *head;                     /* NULL: none */
    struct shm_ring_control *control;
    uint32_t first;                 /* initial size of a lap of the ring ... */
    uint32_t most;                  /* ... and size of the ring: powers of two */
};

/* shm_ring.c. Both start at the beginning of lap `lap`, in the head if there is one. */
void cw_shm_tx_init(struct shm_tx *tx, const struct shm_place *place, uint32_t lap);
void cw_shm_rx_init(struct shm_rx *rx, const struct shm_place *place, uint32_t lap);

/* Reads the position that the consumer has published. */
void cw_shm_tx_poll(struct shm_tx *tx);
/* Closes an open line, so that the next record is at `line`. */
void cw_shm_tx_close(struct shm_tx *tx);
/* Begins the next lap in the ring if a packet of that length fits there and not into this one. Whether it fits: a lap
 * in the head ends in any case. */
int cw_shm_tx_turn(struct shm_tx *tx, uint64_t length);
static inline bool shm_tx_is_in_head(const struct shm_tx *tx)
{
    return tx->base != tx->ring;
}
/* Doubles the lap until a packet of that length fits or the lap has `limit` bytes; whether it has grown. It cannot
 * while the previous lap is unread; `wants_more` then requests a retry before the next turn. A lap in the head never
 * grows. */
int cw_shm_tx_grow(struct shm_tx *tx, uint64_t length, uint32_t limit);
/* Resets the size of a lap. Everything must be read. */
void cw_shm_tx_shrink(struct shm_tx *tx, uint32_t bytes);
/* Limits the space to `bytes` (0: none) until the next cw_shm_tx_poll. */
static inline void shm_tx_stop(struct shm_tx *tx, uint32_t bytes)
{
    if (tx->fast.stop > shm_line(tx->fast.line, bytes)) {
        tx->fast.stop = shm_line(tx->fast.line, bytes);
    }
}

/* Whether a packet of this length fits at `line`, by the last known position of the consumer. */
static inline bool shm_has_space_here(struct shm_tx *tx, uint64_t length)
{
    if (cw_unlikely(tx->fast.slot != 0)) {
        cw_shm_tx_close(tx);
    }
    return shm_behind(shm_offset(tx->base, tx->fast.line), length) <= (uint64_t)((char *)tx->fast.stop -
                                                                                  (char *)tx->base);
}

/* As shm_has_space_here, or at the beginning of the next lap, which it begins. */
static inline bool shm_has_space_known(struct shm_tx *tx, uint64_t length)
{
    return cw_likely(shm_has_space_here(tx, length)) || cw_shm_tx_turn(tx, length);
}

/* The memory for a packet of at most `length` bytes, for which there is space. */
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
                     __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_poll */
}

/* As shm_publish, for a packet of one line. */
static inline void shm_publish_line(struct shm_tx *tx, uint64_t length, uint8_t id)
{
    struct cw_line *line = tx->fast.line;

    cw_tx_clear(&tx->fast, line + 1);
    tx->fast.line = line + 1;
    __atomic_store_n(&line->word, tx->fast.stamp + (length << 16) + ((uint64_t)id << 8),
                     __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_poll */
    cw_tx_fetch_ahead(&tx->fast, line + 1);
}

/* After a packet of several lines: prefetches for writing the lines of the next one, which is probably as long; the
 * consumer has cached them since the last lap. `answers`: a packet came from the consumer since the packet before, so
 * there is time to fetch many lines. */
void cw_shm_tx_fetch_ahead(struct shm_tx *tx, uint64_t length, bool answers);

/* Steps over the end of an open line or of a lap; returns cw_rx_poll there. */
uint64_t cw_shm_rx_step(struct shm_rx *rx, uint64_t seen);

/* cw_rx_poll of the next packet, or 0 when there is none. */
static inline uint64_t shm_peek(struct shm_rx *rx)
{
    uint64_t seen = cw_rx_poll(&rx->fast);

    if (cw_unlikely(seen >= CW_LINE_OVER && seen < CW_LINE_LAP)) {
        seen = cw_shm_rx_step(rx, seen);
    }
    return (seen < CW_LINE_LAP) ? seen : 0;
}

/* Whether the packet lies within the ring. */
static inline bool shm_is_inside(const struct shm_rx *rx, uint64_t length)
{
    return shm_behind(shm_offset(rx->base, rx->fast.line), length) <= shm_offset(rx->base, rx->end);
}

/* The bytes of a packet of more than CW_LINE_DATA bytes that was seen. */
static inline const void *shm_data(const struct shm_rx *rx, uint32_t length)
{
    return (const char *)rx->fast.line + shm_lead(length);
}

/* Up to this length of a packet the lines of the next one, probably as long, are prefetched together. */
#define SHM_FEW (4 * SHM_LINE - (uint32_t)sizeof(uint64_t))

static inline const char *shm_ahead_end(const struct cw_line *line, uint64_t length)
{
    return (const char *)line + ((length + sizeof(uint64_t) + SHM_LINE - 1) & ~(uint64_t)(SHM_LINE - 1));
}

/* Advances behind it. */
static inline void shm_advance(struct shm_rx *rx, uint32_t length)
{
    rx->fast.slot = 0; /* it is 0 already unless the peer writes garbage */
    rx->fast.line = shm_line(rx->base, shm_behind(shm_offset(rx->base, rx->fast.line), length));
    rx->fast.ahead = (const char *)rx->fast.line + SHM_LINE;
    rx->fast.ahead_end = (length <= SHM_FEW) ? shm_ahead_end(rx->fast.line, length) : rx->fast.ahead;
    cw_rx_passed(&rx->fast);
}

/* Makes the next position update due after `bytes` more bytes, at the latest after the default interval. */
void cw_shm_rx_notify_after(struct shm_rx *rx, uint32_t bytes);
/* Publishes the position. */
void cw_shm_rx_notify(struct shm_rx *rx);

#endif
