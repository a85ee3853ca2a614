/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cells (transport/fastpath.h): what the transport does with them beside the functions for everybody.
 */
#ifndef CW_TRANSPORT_SHM_CELL_H
#define CW_TRANSPORT_SHM_CELL_H

#include <assert.h>

#include "transport/transport.h"

static inline uint64_t cw_cell_word(uint64_t lap, uint32_t length, uint8_t id)
{
    return (lap << 48) | ((uint64_t)length << 16) | ((uint64_t)id << 8) | 1;
}

/* Cells taken, and read, since the beginning. */
static inline uint64_t cw_cell_num_sent(const struct cw_tx *producer)
{
    return producer->lap_count + (uint64_t)(producer->cell - producer->cells);
}

static inline uint64_t cw_cell_num_read(const struct cw_rx *consumer)
{
    return consumer->lap_count + (uint64_t)(consumer->cell - consumer->cells);
}

/* Counts with packets in open cells: another number after each packet. */
static inline uint64_t cw_cell_sent_mark(const struct cw_tx *producer)
{
    return cw_cell_num_sent(producer) * CW_CELL_SLOTS + producer->slot;
}

static inline uint64_t cw_cell_read_mark(const struct cw_rx *consumer)
{
    return cw_cell_num_read(consumer) * CW_CELL_SLOTS + consumer->slot;
}

/* Goes on behind `stop`, if it can: whether a cell is free. */
int cw_cell_go_on(struct cw_tx *producer);
/* The consumer said that there is room up to here. */
void cw_cell_set_limit(struct cw_tx *producer, uint64_t limit);
/* Number of cells read at which the producer is told next. */
void cw_cell_tell_at(struct cw_rx *consumer, uint64_t count);

/* Goes on behind an open cell: whether the next one may be written at once. */
int cw_cell_close(struct cw_tx *producer);

/* Whether a cell may be written at once; if not, cw_cell_is_free must be called first. */
static inline int cw_cell_is_next(struct cw_tx *producer)
{
    return producer->cell != producer->stop && (cw_likely(producer->slot == 0) || cw_cell_close(producer));
}

/* Whether a cell is free, as far as we know. */
static inline int cw_cell_is_free(struct cw_tx *producer)
{
    return cw_likely(cw_cell_is_next(producer)) || cw_cell_go_on(producer);
}

/* Publishes the next cell, with what was written to it or to the byte area. */
static inline void cw_cell_publish(struct cw_tx *producer, uint64_t length, uint8_t id)
{
    struct cw_cell *cell = producer->cell;

    assert(producer->slot == 0);
    producer->cell = cell + 1;
    __atomic_store_n(&cell->control, producer->stamp + (length << 16) + ((uint64_t)id << 8),
                     __ATOMIC_RELEASE); /* pairs with the acquire in cw_rx_look */
    cw_tx_fetch_ahead(producer, cell + 1);
}

/* Short packets: those of send_short of a transport that fit a cell. */
#define CW_CELL_SHORT (CW_CELL_DATA - (uint32_t)sizeof(uint64_t))

/* Publishes a packet that was written to the cell. */
static CW_INLINE void cw_cell_send(struct cw_tx *producer, uint8_t id, size_t length)
{
    CW_PROBE(send_short, CW_CELL_TRANSPORT, length, 0);
    cw_cell_publish(producer, length, id);
    if (cw_unlikely(__atomic_load_n(producer->attention, __ATOMIC_RELAXED) != 0)) {
        producer->bell(producer);
    }
}

/* cw_rx_look of the next packet, or 0 when there is none. Goes on behind a cell that is said to be over. */
uint64_t cw_shm_cell_look_behind(struct cw_rx *consumer);

static inline uint64_t shm_cell_peek(struct cw_rx *consumer)
{
    uint64_t seen = cw_rx_look(consumer);

    if (cw_unlikely(seen == CW_CELL_OVER && consumer->slot != 0)) {
        seen = cw_shm_cell_look_behind(consumer);
    }
    return (seen < CW_CELL_LAP) ? seen : 0;
}

/* Behind a packet that does not lie in its cell. */
static inline void cw_cell_advance(struct cw_rx *consumer)
{
    consumer->slot = 0; /* as it is, unless the peer writes nonsense */
    consumer->cell++;
    cw_rx_passed(consumer);
}

#endif
