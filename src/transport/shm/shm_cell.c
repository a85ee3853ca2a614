/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rare steps of cells: the end of a lap, the end of the cells known to be free, and telling the producer. Called
 * by the inline functions of fastpath.h and by the transport.
 */
#include "transport/shm/shm_cell.h"

#include <stddef.h>

/* As many cells as are known to be free, in this lap. */
static void set_stop(struct cw_tx *producer)
{
    const uint64_t known = producer->cell_limit - cw_cell_num_sent(producer);
    const uint64_t lap   = (uint64_t)(producer->cells_end - producer->cell);

    producer->stop = producer->cell + ((known < lap) ? known : lap);
}

void cw_cell_set_limit(struct cw_tx *producer, uint64_t limit)
{
    producer->cell_limit = limit;
    set_stop(producer);
}

CW_APART int cw_cell_go_on(struct cw_tx *producer)
{
    ptrdiff_t i;

    if (producer->cell == producer->cells_end) {
        producer->cell       = producer->cells;
        producer->fetch_from = producer->cells;
        producer->lap_count += UINT64_C(1) << producer->cell_shift;
        producer->stamp     += CW_CELL_LAP; /* after the last lap comes the first: the carry is lost */
        set_stop(producer);
    }
    for (i = 1; i <= CW_CELLS_AHEAD && i < producer->stop - producer->cell; i++) {
        cw_prefetch_write(producer->cell + i); /* as was not done shortly before */
    }
    return producer->cell != producer->stop;
}

CW_APART int cw_cell_close(struct cw_tx *producer)
{
    __atomic_store_n(&producer->cell->more[producer->slot - 1], CW_CELL_OVER, __ATOMIC_RELEASE);
    producer->slot = 0;
    producer->cell++;
    return producer->cell != producer->stop;
}

void cw_cell_tell_at(struct cw_rx *consumer, uint64_t count)
{
    const uint64_t lap  = (uint64_t)(consumer->cells_end - consumer->cell);
    const uint64_t read = cw_cell_num_read(consumer);

    consumer->tell_at = count;
    consumer->most    = (count > read) ? CW_CELL_MOST : 0;
    consumer->turn    = consumer->cell + ((count > read && count - read < lap) ? count - read : lap);
}

CW_APART void cw_rx_turn(struct cw_rx *consumer)
{
    if (consumer->cell == consumer->cells_end) {
        consumer->cell       = consumer->cells;
        consumer->lap_count += UINT64_C(1) << consumer->cell_shift;
        consumer->stamp     += CW_CELL_LAP;
    }
    cw_cell_tell_at(consumer, consumer->tell_at);
}

CW_APART uint64_t cw_shm_cell_look_behind(struct cw_rx *consumer)
{
    cw_cell_advance(consumer);
    return cw_rx_look(consumer);
}
