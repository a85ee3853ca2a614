/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path: short packets without a call of the transport. The inline functions of this file write them to and
 * read them from the memory of a connection (docs/why/short-messages.md), which the transport lays out (transport/shm).
 *
 * Packets are consecutive records of whole cache lines. A record is published by its first word, which carries the
 * current lap number; when it is published, the word behind it never carries the current lap.
 *
 *   word: lap 16 bits | length 32 bits | id 8 bits | 5 bits 0 | open 1 bit | 0 | 1, so that no word is 0
 *
 * Between cores without a shared cache a short packet costs the transfer of its line; otherwise it costs the time in
 * which both access the line. So a line with a packet of a few bytes is left open: up to two more follow in it, each
 * published by a word of its own, or a word announces that the next packet is in the next line. Those words are cleared
 * before the line is published, hence carry no lap. Both sides stay at an open line; it counts as used, and as read,
 * when it is closed.
 */
#ifndef CW_TRANSPORT_FASTPATH_H
#define CW_TRANSPORT_FASTPATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/probe.h"
#include "transport/iface.h"

#define CW_LINE_DATA 56u

#define CW_LINE_SLOTS 3u
#define CW_LINE_SLOT  16u

struct cw_line {
    uint64_t word;                  /* of a record: stored last with release, loaded first with acquire */
    union {
        char data[CW_LINE_DATA];
        struct {                    /* of an open one */
            uint32_t more[CW_LINE_SLOTS - 1]; /* words of the slots after the first: likewise */
            char slots[CW_LINE_SLOTS][CW_LINE_SLOT];
        };
    };
};

_Static_assert(sizeof(struct cw_line) == CW_CACHE_LINE, "the processor's lines");

/* State of a producer. */
struct cw_tx {
    struct cw_line *line;           /* the next record begins here */
    struct cw_line *stop;           /* and must end here at the latest, by the last known position of the consumer */
    struct cw_line *fetch_from;     /* from this one on lines are prefetched */
    uint64_t stamp;                 /* lap and lowest bit of a word */
    const uint32_t *attention;      /* in the ring; not 0: the consumer sleeps or does not poll it, see `bell` */
    void (*bell)(struct cw_tx *tx); /* called after each packet while *attention is not 0 */
    uint32_t slot;                  /* not 0: `line` is open, and this is its next slot */
};

/* State of a consumer. */
struct cw_rx {
    struct cw_line *line;           /* the next record begins here */
    struct cw_line *turn;           /* from here on the consumer must publish its position */
    uint64_t stamp;                 /* the lap, as in a word */
    uint64_t most;                  /* CW_LINE_MOST; 0 from `turn` on */
    struct cw_conn *conn;           /* whose packets these are ... */
    struct cw_tx *answers;          /* ... and where the answers to them go */
    const char *ahead;              /* lines that the next record probably has behind its first one ... */
    const char *ahead_end;          /* ... and their end; equal: none */
    uint32_t slot;                  /* as in struct cw_tx */
};

/* The slots. */
struct cw_transport_fastpath {
    /* Called once when a connection is open: where the core may write short packets itself, in order with the send
     * slots, while there is space; a packet without space goes through a send slot. */
    struct cw_tx *(*tx)(struct cw_conn *conn);
};

/* For connections without a fast path: no space, no packets. */
extern struct cw_tx cw_no_tx;
extern struct cw_rx cw_no_rx;

#define CW_LINE_LAP  (UINT64_C(1) << 48)
#define CW_LINE_OPEN UINT64_C(4)

/* Upper bound of a word without its lap if the packet has one line. */
#define CW_LINE_MOST (((uint64_t)CW_LINE_DATA << 16) | 0xffff)

/* Upper bound of the word of a packet in a slot, without a lap; CW_LINE_OPEN is set in it. CW_LINE_OVER closes the
 * line. */
#define CW_LINE_MOST_IN_SLOT ((CW_LINE_SLOT << 16) | 0xffff)
#define CW_LINE_OVER         UINT32_MAX

/* Packets with at most this many bytes after the 8-byte header leave their line open. */
#define CW_SLOT_DATA (CW_LINE_SLOT - (uint32_t)sizeof(uint64_t))

/* The transport with a fast path, in probes. */
#define CW_TX_TRANSPORT 2u

/* Distance of the prefetch for writing: the consumer has cached these lines since the last lap, and stores that miss on
 * each of them in turn limit the rate of small packets. */
#define CW_LINES_AHEAD 4

/* In a ping-pong the producer prefetches nothing: the consumer polls the next line as soon as it has read one, and
 * would have to fetch the line back (docs/why/short-messages.md). */
#define CW_LINES_CALM 2

/* ---- short send ---- */

/* `next`: the line behind the one just published. */
static CW_INLINE void cw_tx_fetch_ahead(const struct cw_tx *tx, const struct cw_line *next)
{
    if (next >= tx->fetch_from && tx->stop - next > CW_LINES_AHEAD) { /* otherwise the consumer may need the line */
        cw_prefetch_write(next + CW_LINES_AHEAD);
    }
}

/* Before a record is published: clears stale bytes of an earlier lap in the line behind it that could be taken for a
 * record of this lap, because the consumer polls that line next. */
static CW_INLINE void cw_tx_clear(const struct cw_tx *tx, struct cw_line *behind)
{
    if (cw_unlikely((behind->word ^ tx->stamp) < CW_LINE_LAP)) {
        __atomic_store_n(&behind->word, 0, __ATOMIC_RELAXED);
    }
}

/* Publishes slot `slot` of `line`, the next one. */
static inline void cw_tx_publish_slot(struct cw_tx *tx, struct cw_line *line, size_t slot, uint64_t length, uint8_t id)
{
    if (slot == 0) {
        memset(line->more, 0, sizeof(line->more));
        tx->slot = 1;
        cw_tx_clear(tx, line + 1);
        __atomic_store_n(&line->word, tx->stamp + CW_LINE_OPEN + (length << 16) + ((uint64_t)id << 8),
                         __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_poll, as does the next one */
        cw_tx_fetch_ahead(tx, line + 1);
        return;
    }
    if (slot == CW_LINE_SLOTS - 1) {
        tx->slot = 0;
        tx->line = line + 1;
    } else {
        tx->slot = (uint32_t)slot + 1;
    }
    __atomic_store_n(line->more + slot - 1,
                     (uint32_t)CW_LINE_OPEN + 1 + ((uint32_t)length << 16) + ((uint32_t)id << 8), __ATOMIC_RELEASE);
}

/* Whether cw_tx_send may be called. */
static CW_INLINE bool cw_tx_can_send(const struct cw_tx *tx, size_t length)
{
    return length <= CW_SLOT_DATA && tx->line < tx->stop;
}

/* Sends a packet; cw_tx_can_send must hold. */
static CW_INLINE void cw_tx_send(struct cw_tx *tx, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct cw_line *line = tx->line;
    const size_t slot = tx->slot;
    char *data = line->slots[slot];

    memcpy(data, &header, sizeof(header));
    cw_bytes_copy_inline(data + sizeof(header), payload, length);
    CW_PROBE(send_short, CW_TX_TRANSPORT, sizeof(header) + length, 0);
    cw_tx_publish_slot(tx, line, slot, sizeof(header) + length, id);
    if (cw_unlikely(__atomic_load_n(tx->attention, __ATOMIC_RELAXED) != 0)) {
        tx->bell(tx);
    }
}

/* A packet arrived from the peer: the next sends to it may be answers. */
static inline void cw_tx_answers(struct cw_tx *tx)
{
    tx->fetch_from = tx->line + CW_LINES_CALM;
}

/* ---- receive. Lengths and ids come from the peer and are untrusted. ---- */

/* The next word without its lap, a huge number if it is of another lap; or the word of a slot. */
static CW_INLINE uint64_t cw_rx_poll(const struct cw_rx *rx)
{
    const size_t slot = rx->slot;

    return (slot == 0) ? __atomic_load_n(&rx->line->word, __ATOMIC_ACQUIRE) ^ rx->stamp :
           __atomic_load_n(rx->line->more + slot - 1, __ATOMIC_ACQUIRE);
}

/* Whether `seen` is a short packet for cw_rx_pop, and no position update is due. */
static CW_INLINE bool cw_rx_is_short(const struct cw_rx *rx, uint64_t seen)
{
    return seen - 1 < rx->most; /* 0 is no packet */
}

/* Whether `seen` is a packet or another word of this lap: unless cw_rx_is_short holds, the transport must be called. */
static CW_INLINE bool cw_rx_is_packet(uint64_t seen)
{
    return seen - 1 < CW_LINE_LAP - 1;
}

/* After a packet: whether a position update is due, after a quarter of the ring. Updates are that rare so that the line
 * with the counters seldom moves between caches. */
static inline bool cw_rx_should_notify(const struct cw_rx *rx)
{
    return rx->most == 0;
}

/* Whether there is a ring to poll. */
static inline bool cw_rx_has_ring(const struct cw_rx *rx)
{
    return rx->answers != &cw_no_tx;
}

/* Nothing arrived: prefetches the lines behind the next word, so that their misses overlap with the one on it. */
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

/* Advances behind a short packet, which cw_rx_poll returned as `seen`. Returns its bytes, valid until the position
 * update. Call cw_rx_next before the next cw_rx_poll. */
static CW_INLINE const void *cw_rx_pop(struct cw_rx *rx, uint64_t seen)
{
    struct cw_line *line = rx->line;
    const size_t slot = rx->slot;

    if (cw_unlikely(!(seen & CW_LINE_OPEN) || seen > CW_LINE_MOST_IN_SLOT)) {
        rx->slot = 0;
        rx->line = line + 1;
        return line->data;
    }
    if (slot == CW_LINE_SLOTS - 1) {
        rx->slot = 0;
        rx->line = line + 1;
    } else {
        rx->slot = (uint32_t)slot + 1;
    }
    return line->slots[slot];
}

static CW_INLINE void cw_rx_passed(struct cw_rx *rx)
{
    if (cw_unlikely(rx->line >= rx->turn)) {
        rx->most = 0;
    }
}

/* After cw_rx_pop: polls for the next packet. */
static CW_INLINE uint64_t cw_rx_next(struct cw_rx *rx)
{
    if (rx->slot == 0) {
        cw_rx_passed(rx);
    }
    return cw_rx_poll(rx);
}

#endif
