/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Emptying cells (cell.h): what is in the next one, and going on behind it. Lengths and ids are the peer's.
 */
#ifndef CW_BASE_CELL_TAKE_H
#define CW_BASE_CELL_TAKE_H

#include "base/cell.h"

/* Goes on behind a cell that is said to be over; what cw_cell_look says there. */
uint64_t cw_cell_look_behind(struct cw_consumer *consumer);

/* A control word without the lap that comes next; a huge number if it is of another lap. Or the word of a slot. */
static CW_INLINE uint64_t cw_cell_look(const struct cw_consumer *consumer)
{
    const size_t slot = consumer->slot;

    return (slot == 0) ? __atomic_load_n(&consumer->cell->control, __ATOMIC_ACQUIRE) ^ consumer->stamp :
           __atomic_load_n(consumer->cell->more + slot - 1, __ATOMIC_ACQUIRE);
}

/* Whether that is a packet that lies in its cell, and the producer need not be told of the ones before. */
static CW_INLINE int cw_cell_is_short(const struct cw_consumer *consumer, uint64_t seen)
{
    return seen - 1 < consumer->most; /* 0 is no packet */
}

/* Whether it is a packet of any length, or a cell is over: then the transport must be called. */
static CW_INLINE int cw_cell_is_packet(uint64_t seen)
{
    return seen - 1 < CW_CELL_LAP - 1;
}

/* cw_cell_look of the next packet, or 0 when there is none. */
static inline uint64_t cw_cell_peek(struct cw_consumer *consumer)
{
    uint64_t seen = cw_cell_look(consumer);

    if (cw_unlikely(seen == CW_CELL_OVER && consumer->slot != 0)) {
        seen = cw_cell_look_behind(consumer);
    }
    return (seen < CW_CELL_LAP) ? seen : 0;
}

/* Nothing came: what follows the next control word, if anything, is asked for together with it, and not behind it. */
static inline void cw_cell_fetch(const struct cw_consumer *consumer)
{
    const char *at;

    for (at = consumer->ahead; at != consumer->ahead_end; at += CW_CACHE_LINE) {
        __builtin_prefetch(at);
    }
}

static inline uint32_t cw_cell_length(uint64_t word)
{
    return (uint32_t)(word >> 16);
}

static inline uint8_t cw_cell_id(uint64_t word)
{
    return (uint8_t)(word >> 8);
}

/* Goes on behind a packet that lies in its cell, as seen by cw_cell_look: its bytes, which stay until the producer is
 * told. cw_cell_passed comes before the next look. */
static CW_INLINE const void *cw_cell_pass(struct cw_consumer *consumer, uint64_t seen)
{
    struct cw_cell *cell = consumer->cell;
    const size_t slot    = consumer->slot;

    if (cw_unlikely(!(seen & CW_CELL_OPEN) || seen > CW_CELL_MOST_IN_SLOT)) {
        consumer->slot = 0;
        consumer->cell = cell + 1;
        return cell->data;
    }
    if (slot == CW_CELL_SLOTS - 1) {
        consumer->slot = 0;
        consumer->cell = cell + 1;
    } else {
        consumer->slot = (uint32_t)slot + 1;
    }
    return cell->slots[slot];
}

static inline void cw_cell_passed(struct cw_consumer *consumer)
{
    if (cw_unlikely(consumer->cell == consumer->turn)) {
        cw_cell_turn(consumer);
    }
}

/* Both; within an open cell there is nothing to be done. */
static CW_INLINE uint64_t cw_cell_look_next(struct cw_consumer *consumer)
{
    if (consumer->slot == 0) {
        cw_cell_passed(consumer);
    }
    return cw_cell_look(consumer);
}

/* Behind a packet that does not lie in its cell. */
static inline void cw_cell_advance(struct cw_consumer *consumer)
{
    consumer->slot = 0; /* as it is, unless the peer writes nonsense */
    consumer->cell++;
    cw_cell_passed(consumer);
}

/* After a packet: a quarter of the ring was read since the producer was told last. Told that rarely, the line with the
 * counters seldom travels. */
static inline int cw_cell_should_tell(const struct cw_consumer *consumer)
{
    return consumer->most == 0;
}

#endif
