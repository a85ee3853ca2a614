/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short packets without a call of the transport: the core writes them into the memory of a connection, and takes them
 * out of it, by the inline functions of this file (docs/why/short-messages.md). What lies in that memory is a matter
 * of the transport (transport/shm).
 *
 * Packets are records of whole cache lines, one behind the other. A record is published by its first word, whose lap
 * number is that of the round, and the word behind a record is never one of this round when the record is published.
 *
 *   word: lap 16 bits | length 32 bits | id 8 bits | 5 bits 0 | open 1 bit | 0 | 1, so that no word is 0
 *
 * Between distant processors a short packet costs the transfer of its line; between near ones it costs the time in
 * which both access the line. So a line with a packet of a few bytes is left open: up to two more follow in it, each
 * published by a word of its own, or a word says that the next packet is in the next line. Those words are cleared
 * before the line is published, hence have no lap. Both sides stay at an open line, which counts as taken, and as read,
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
#include "base/probe.h"
#include "transport/iface.h"

#define CW_LINE_DATA 56u

#define CW_LINE_SLOTS 3u
#define CW_LINE_SLOT  16u

struct cw_line {
    uint64_t word;                  /* of a record: written last with release, read first with acquire */
    union {
        char data[CW_LINE_DATA];
        struct {                    /* of an open one */
            uint32_t more[CW_LINE_SLOTS - 1]; /* of slots behind the first: likewise */
            char slots[CW_LINE_SLOTS][CW_LINE_SLOT];
        };
    };
};

_Static_assert(sizeof(struct cw_line) == CW_CACHE_LINE, "the processor's lines");

/* What a producer knows. */
struct cw_tx {
    struct cw_line *line;           /* the next record begins here */
    struct cw_line *stop;           /* and must end here at the latest, as far as we know */
    struct cw_line *fetch_from;     /* from this one on lines are fetched ahead */
    uint64_t stamp;                 /* lap and lowest bit of a word */
    const uint32_t *attention;      /* in the ring: not 0 while the consumer does more than look into it; then `bell` */
    void (*bell)(struct cw_tx *tx); /* follows each packet */
    uint32_t slot;                  /* not 0: `line` is open, and this is the next one in it */
};

/* What a consumer knows. */
struct cw_rx {
    struct cw_line *line;           /* the next record begins here */
    struct cw_line *turn;           /* from here on the producer is to be told how much was read */
    uint64_t stamp;                 /* the lap, where a word has it */
    uint64_t most;                  /* CW_LINE_MOST; 0 from `turn` on */
    struct cw_conn *conn;           /* whose packets these are ... */
    struct cw_tx *answers;          /* ... and where the answers to them go */
    const char *ahead;              /* lines that the next record is likely to have behind its first one ... */
    const char *ahead_end;          /* ... and their end; the same: none */
    uint32_t slot;                  /* as the producer's */
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

#define CW_LINE_LAP  (UINT64_C(1) << 48)
#define CW_LINE_OPEN UINT64_C(4)

/* A word without its lap is at most this when the packet has one line. */
#define CW_LINE_MOST (((uint64_t)CW_LINE_DATA << 16) | 0xffff)

/* A packet in a slot: its word, without a lap, is at most this and says open. And: nothing more comes in this line. */
#define CW_LINE_MOST_IN_SLOT ((CW_LINE_SLOT << 16) | 0xffff)
#define CW_LINE_OVER         UINT32_MAX

/* Packets whose header of 8 bytes has no more than this behind it leave their line open. */
#define CW_LINE_FEW (CW_LINE_SLOT - (uint32_t)sizeof(uint64_t))

/* Name in probes of the one transport with a fast path. */
#define CW_TX_TRANSPORT 2u

/* Lines ahead that are fetched for writing: the consumer has them in its cache since the last lap, and a store that
 * must wait for each of them in turn is what limits the rate of small packets. */
#define CW_LINES_AHEAD 4

/* A producer that answers each packet before the next one comes fetches nothing ahead: the consumer looks at the next
 * one as soon as it has read one, and would have to fetch the line back (docs/why/short-messages.md). */
#define CW_LINES_CALM 2

/* ---- short send ---- */

/* `next`: behind the line that was just published. */
static CW_INLINE void cw_tx_fetch_ahead(const struct cw_tx *tx, const struct cw_line *next)
{
    if (next >= tx->fetch_from && tx->stop - next > CW_LINES_AHEAD) { /* else it may be needed */
        cw_prefetch_write(next + CW_LINES_AHEAD);
    }
}

/* Before a record is published: bytes of an earlier round that look like a record of this one are cleared in the line
 * behind, where the consumer looks next. */
static CW_INLINE void cw_tx_clear(const struct cw_tx *tx, struct cw_line *behind)
{
    if (cw_unlikely((behind->word ^ tx->stamp) < CW_LINE_LAP)) {
        __atomic_store_n(&behind->word, 0, __ATOMIC_RELAXED);
    }
}

/* Publishes that slot of that line, the next one. */
static inline void cw_tx_publish_slot(struct cw_tx *tx, struct cw_line *line, size_t slot, uint64_t length, uint8_t id)
{
    if (slot == 0) {
        memset(line->more, 0, sizeof(line->more));
        tx->slot = 1;
        cw_tx_clear(tx, line + 1);
        __atomic_store_n(&line->word, tx->stamp + CW_LINE_OPEN + (length << 16) + ((uint64_t)id << 8),
                         __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_look, as does the next one */
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

/* Whether cw_tx_put may be called. */
static CW_INLINE bool cw_tx_takes(const struct cw_tx *tx, size_t length)
{
    return length <= CW_LINE_FEW && tx->line < tx->stop;
}

/* Sends a packet of few bytes. */
static CW_INLINE void cw_tx_put(struct cw_tx *tx, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct cw_line *line = tx->line;
    const size_t slot = tx->slot;
    char *data = line->slots[slot];

    memcpy(data, &header, sizeof(header));
    cw_bytes_copy_few(data + sizeof(header), payload, length);
    CW_PROBE(send_short, CW_TX_TRANSPORT, sizeof(header) + length, 0);
    cw_tx_publish_slot(tx, line, slot, sizeof(header) + length, id);
    if (cw_unlikely(__atomic_load_n(tx->attention, __ATOMIC_RELAXED) != 0)) {
        tx->bell(tx);
    }
}

/* A packet came from the peer: the next ones to it may be answers. */
static inline void cw_tx_answers(struct cw_tx *tx)
{
    tx->fetch_from = tx->line + CW_LINES_CALM;
}

/* ---- peek, and taking what is there. Lengths and ids are the peer's. ---- */

/* A word without the lap that comes next; a huge number if it is of another lap. Or the word of a slot. */
static CW_INLINE uint64_t cw_rx_look(const struct cw_rx *rx)
{
    const size_t slot = rx->slot;

    return (slot == 0) ? __atomic_load_n(&rx->line->word, __ATOMIC_ACQUIRE) ^ rx->stamp :
           __atomic_load_n(rx->line->more + slot - 1, __ATOMIC_ACQUIRE);
}

/* Whether that is a short packet, which cw_rx_take takes, and the producer need not be told of the ones before. */
static CW_INLINE bool cw_rx_is_short(const struct cw_rx *rx, uint64_t seen)
{
    return seen - 1 < rx->most; /* 0 is no packet */
}

/* Whether it is anything, such as a packet of any length: unless it is a short packet, the transport must be called. */
static CW_INLINE bool cw_rx_is_packet(uint64_t seen)
{
    return seen - 1 < CW_LINE_LAP - 1;
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

/* Nothing came: what follows the next word is asked for together with it, and not behind it. */
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

/* After cw_rx_take: looks for the next packet. */
static CW_INLINE uint64_t cw_rx_next(struct cw_rx *rx)
{
    if (rx->slot == 0) {
        cw_rx_passed(rx);
    }
    return cw_rx_look(rx);
}

#endif
