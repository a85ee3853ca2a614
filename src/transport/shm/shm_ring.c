/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slow paths of a ring (shm_ring.h).
 */
#include "transport/shm/shm_ring.h"

/* The position is published after a quarter of the first lap: rarely, so that its line seldom moves between caches; and
 * as long as a packet has at most three eighths of the ring, bytes that are read but not published never block it for
 * good. */
#define NOTIFY_PARTS 4u

/* Sets `stop` to the end of the lap, or to the first byte that the consumer has not read. */
static void set_stop(struct shm_tx *tx)
{
    uint32_t end = shm_tx_is_in_head(tx) ? SHM_HEAD_BYTES : tx->bytes;

    if (tx->behind && !tx->apart && tx->done < end) {
        end = tx->done;
    }

    tx->fast.stop = shm_line(tx->base, end - SHM_LINE);
}

void cw_shm_tx_init(struct shm_tx *tx, const struct shm_place *place, uint32_t lap)
{
    struct cw_line *base = (place->head != NULL) ? place->head : place->ring;

    *tx = (struct shm_tx){.fast = {.line = base, .fetch_from = base, .stamp = shm_stamp(lap) + 1},
                          .base = base,
                          .ring = place->ring,
                          .bytes = place->first,
                          .most = place->most,
                          .lap = lap,
                          .control = place->control};
    cw_nt_new_memory(&tx->nt);
    set_stop(tx);
}

void cw_shm_rx_init(struct shm_rx *rx, const struct shm_place *place, uint32_t lap)
{
    struct cw_line *base = (place->head != NULL) ? place->head : place->ring;

    *rx = (struct shm_rx){.fast = {.line = base, .stamp = shm_stamp(lap)},
                          .base = base,
                          .end = shm_line(base, (place->head != NULL) ? SHM_HEAD_BYTES : place->most),
                          .ring = place->ring,
                          .most = place->most,
                          .notify_after = place->first / NOTIFY_PARTS,
                          .lap = lap,
                          .control = place->control};
    cw_shm_rx_notify_after(rx, rx->notify_after);
}

void cw_shm_tx_poll(struct shm_tx *tx)
{
    /* pairs with the release in cw_shm_rx_notify: what the consumer read is read before we overwrite it */
    const uint64_t packed = __atomic_load_n(&tx->control->done, __ATOMIC_ACQUIRE);
    const uint32_t done = (uint32_t)packed & ~(SHM_LINE - 1), here = shm_offset(tx->base, tx->fast.line);
    const uint32_t lap = (uint32_t)(packed >> 32);

    if (lap == tx->lap && done <= here) {
        tx->behind = 0;
        tx->done = done;
        set_stop(tx);
    } else if (lap == tx->lap - 1 && (tx->apart || (done > here && done <= tx->most))) {
        tx->behind = 1;
        tx->done = done;
        set_stop(tx);
    } else {
        tx->fast.stop = tx->fast.line;
    }
}

CW_NOINLINE void cw_shm_tx_close(struct shm_tx *tx)
{
    __atomic_store_n(&tx->fast.line->more[tx->fast.slot - 1], CW_LINE_OVER, __ATOMIC_RELEASE);
    tx->fast.slot = 0;
    tx->fast.line++;
}

CW_NOINLINE int cw_shm_tx_turn(struct shm_tx *tx, uint64_t length)
{
    struct cw_line *line = tx->fast.line;
    const bool in_head = shm_tx_is_in_head(tx);

    if (!in_head && (tx->behind || shm_behind(0, length) + SHM_LINE > tx->done)) {
        return 0;
    }
    tx->passed += shm_offset(tx->base, line);
    tx->base = tx->ring;
    tx->fast.line = tx->base;
    tx->fast.fetch_from = tx->base;
    tx->behind = 1;
    tx->apart = in_head;
    set_stop(tx);
    __atomic_store_n(&line->word, tx->fast.stamp + SHM_WRAP, __ATOMIC_RELEASE); /* pairs with cw_rx_poll */
    tx->lap++;
    tx->fast.stamp = shm_stamp(tx->lap) + 1;
    return !in_head || shm_has_space_here(tx, length);
}

int cw_shm_tx_grow(struct shm_tx *tx, uint64_t length, uint32_t limit)
{
    const uint32_t was = tx->bytes;

    limit = (limit < tx->most) ? limit : tx->most;
    if (shm_tx_is_in_head(tx)) {
        return 0;
    }
    if (tx->behind && !tx->apart) {
        tx->wants_more = was < limit;
        return 0;
    }
    while (tx->bytes < limit && (tx->bytes == was || !shm_has_space_here(tx, length))) {
        tx->bytes *= 2;
        set_stop(tx);
    }
    tx->wants_more = 0;
    return tx->bytes > was;
}

void cw_shm_tx_shrink(struct shm_tx *tx, uint32_t bytes)
{
    tx->wants_more = 0;
    tx->bytes = bytes;
    set_stop(tx);
}

/* Prefetch distance for records of a few lines: the lines are needed two or three packets later. */
#define AHEAD (6u * SHM_LINE)

void cw_shm_tx_fetch_ahead(struct shm_tx *tx, uint64_t length, bool answers)
{
    const uint64_t bytes = shm_behind(0, length);
    const char *at = (const char *)tx->fast.line, *end;

    tx->nt.fetched = 0;
    if (length <= SHM_FEW) {
        if (length <= CW_LINE_DATA || at - bytes < (const char *)tx->fast.fetch_from) {
            return; /* ping-pong */
        }
        at += AHEAD;
    }
    end = at + bytes;
    if (length > (answers ? SHM_ANSWER : SHM_VECTORS) || end >= (const char *)tx->fast.stop) {
        return;
    }
    tx->nt.fetched = (uint16_t)length;
    for (; at != end; at += SHM_LINE) {
        cw_prefetch_write(at);
    }
}

CW_NOINLINE uint64_t cw_shm_rx_step(struct shm_rx *rx, uint64_t seen)
{
    if (rx->fast.slot != 0) {
        rx->fast.slot = 0;
        rx->fast.line++;
        cw_rx_passed(&rx->fast);
        seen = cw_rx_poll(&rx->fast);
    }
    if (seen >= SHM_WRAP && seen < CW_LINE_LAP && rx->fast.line != rx->ring) {
        rx->lap++;
        rx->base = rx->ring;
        rx->end = shm_line(rx->ring, rx->most);
        rx->fast.line = rx->ring;
        rx->fast.stamp = shm_stamp(rx->lap);
        rx->fast.most = 0; /* a position update is due */
       seen = cw_rx_poll(&rx->fast);
    }
    return seen;
}

void cw_shm_rx_notify_after(struct shm_rx *rx, uint32_t bytes)
{
    const size_t left = (size_t)((char *)rx->end - (char *)rx->fast.line);
    const size_t most = (rx->notify_after < left) ? rx->notify_after : left;

    rx->fast.turn = shm_line(rx->fast.line, (bytes < most) ? bytes : most);
    rx->fast.most = (left > 0) ? CW_LINE_MOST : 0;
}

void cw_shm_rx_notify(struct shm_rx *rx)
{
    cw_shm_rx_notify_after(rx, rx->notify_after);
    __atomic_store_n(&rx->control->done, shm_position(rx->lap, shm_offset(rx->base, rx->fast.line)), __ATOMIC_RELEASE);
}
