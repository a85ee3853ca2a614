/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring in memory shared by one producer and one consumer process. Two parts: cells of one cache line, with a control
 * word and small packets, so that such a packet costs one line transfer; and a byte area for larger ones, in the order
 * of the cells. The functions for cells alone are in shm_cell.h.
 *
 * The consumer trusts nothing that it reads: positions are its own counters; only length and id come from the peer,
 * and they are checked. Each side has private counters; struct shm_ring_control has the values that it tells the other.
 */
#ifndef CW_TRANSPORT_SHM_RING_H
#define CW_TRANSPORT_SHM_RING_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "transport/shm/shm_bytes.h"

struct shm_ring_control {
    /* written by the consumer; the producer reads it when it has no more room, or at each send if the consumer may
     * sleep */
    _Alignas(CW_CACHE_LINE) uint64_t cells_done;
    uint64_t bytes_done;
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

#define SHM_WIDE CW_CELL_WIDE       /* in a control word, and in the producer's stamp: the other byte area (shm.h) */

static inline uint64_t shm_lap(uint64_t cell_count, uint32_t cell_shift)
{
    return ((cell_count >> cell_shift) + 1) & 0xffff;
}

static inline struct cw_cell *shm_cell_at(struct cw_cell *cells, uint64_t cell_count, uint32_t cell_shift)
{
    return &cells[cell_count & ((UINT64_C(1) << cell_shift) - 1)];
}

/* Starts at the beginning, or as if these numbers of cells and bytes had gone through. */
static inline void shm_producer_init(struct cw_tx *producer, struct cw_cell *cells, uint32_t cell_shift,
                                     char *bytes, uint32_t num_bytes, struct shm_ring_control *control,
                                     uint64_t cell_count, uint64_t byte_count)
{
    const uint64_t num_cells = UINT64_C(1) << cell_shift;

    *producer = (struct cw_tx){.cell       = shm_cell_at(cells, cell_count, cell_shift),
                                      .fetch_from = cells,
                                      .stamp      = cw_cell_word(shm_lap(cell_count, cell_shift), 0, 0),
                                      .lap_count  = cell_count & ~(num_cells - 1),
                                      .byte_count = byte_count, .bytes_done = byte_count,
                                      .bytes      = bytes, .num_bytes = num_bytes, .cell_shift = cell_shift,
                                      .cells      = cells, .cells_end = cells + num_cells,
                                      .control    = control};
    cw_nt_new_memory(&producer->nt);
    cw_cell_set_limit(producer, cell_count + num_cells);
}

static inline void shm_consumer_init(struct cw_rx *consumer, struct cw_cell *cells, uint32_t cell_shift,
                                     char *bytes, uint32_t num_bytes, struct shm_ring_control *control,
                                     uint64_t cell_count, uint64_t byte_count)
{
    const uint64_t num_cells = UINT64_C(1) << cell_shift;

    *consumer = (struct cw_rx){.cell       = shm_cell_at(cells, cell_count, cell_shift),
                                      .stamp      = shm_lap(cell_count, cell_shift) * CW_CELL_LAP,
                                      .lap_count  = cell_count & ~(num_cells - 1),
                                      .byte_count = byte_count, .bytes_told = byte_count,
                                      .bytes      = bytes, .num_bytes = num_bytes, .cell_shift = cell_shift,
                                      .cells      = cells, .cells_end = cells + num_cells,
                                      .control    = control};
    cw_cell_tell_at(consumer, cell_count + num_cells / 4);
}

/*
 * A ring that moves many bytes uses its wide byte area instead (shm_trim.c). The count of bytes goes on through both
 * areas, and each packet tells in which one it lies, so the producer may change at any packet.
 */
/* Changes the area, from the next packet on. */
static inline void shm_producer_use(struct cw_tx *producer, char *bytes, uint32_t num_bytes, uint64_t wide)
{
    producer->bytes     = bytes;
    producer->num_bytes = num_bytes;
    producer->stamp     = (producer->stamp & ~SHM_WIDE) | wide;
    cw_nt_new_memory(&producer->nt);
}

static inline void shm_consumer_use(struct cw_rx *consumer, char *bytes, uint32_t num_bytes, uint64_t wide)
{
    consumer->bytes     = bytes;
    consumer->num_bytes = num_bytes;
    consumer->wide      = wide;
    consumer->ahead     = NULL;
    consumer->ahead_end = NULL;
}

/* Reads the position that the consumer has told. A peer that tells a wrong one only harms itself: at worst its own
 * unread packets are overwritten. */
static inline void shm_look(struct cw_tx *producer)
{
    const uint64_t num_cells = UINT64_C(1) << producer->cell_shift;
    const uint64_t sent      = cw_cell_num_sent(producer);
    uint64_t done;

    /* pairs with the release in shm_tell: what the consumer read is read before we overwrite it */
    done                 = __atomic_load_n(&producer->control->cells_done, __ATOMIC_ACQUIRE);
    producer->bytes_done = __atomic_load_n(&producer->control->bytes_done, __ATOMIC_ACQUIRE);
    cw_cell_set_limit(producer, (sent - done <= num_cells) ? done + num_cells : sent);
}

/* Whether a packet of this length has room, by the last known position of the consumer. */
static inline int shm_has_room_known(struct cw_tx *producer, uint64_t length)
{
    return cw_cell_is_free(producer) && (length <= CW_CELL_DATA || cw_byte_ring_free(producer, length));
}

/* Whether a packet of this length has room; reads the consumer's position only if the last known one leaves no room. */
static inline int shm_has_room(struct cw_tx *producer, uint64_t length)
{
    if (cw_likely(shm_has_room_known(producer, length))) {
        return 1;
    }
    shm_look(producer);
    return shm_has_room_known(producer, length);
}

/* The memory for a packet of at most `length` bytes, for which there is room. */
static inline void *shm_reserve(struct cw_tx *producer, uint64_t length)
{
    if (length <= CW_CELL_DATA) {
        return producer->cell->data;
    }
    return producer->bytes + cw_byte_ring_place(producer->byte_count, length, producer->num_bytes);
}

/* Publishes what was written to shm_reserve(reserved). `length` may be smaller, but of the same kind (cell or not). */
static inline void shm_publish(struct cw_tx *producer, uint64_t length, uint8_t id)
{
    if (length > CW_CELL_DATA) {
        cw_byte_ring_taken(producer, length);
    }
    cw_cell_publish(producer, length, id);
}

/* The bytes of the packet at the consumer's position. */
static inline const void *shm_data(const struct cw_rx *consumer, uint32_t length)
{
    if (length <= CW_CELL_DATA) {
        return consumer->cell->data;
    }
    return consumer->bytes + cw_byte_ring_place(consumer->byte_count, length, consumer->num_bytes);
}

static inline void shm_advance(struct cw_rx *consumer, uint32_t length)
{
    if (length > CW_CELL_DATA) {
        consumer->byte_count += cw_byte_ring_needed(consumer->byte_count, length, consumer->num_bytes);
        if (consumer->byte_count - consumer->bytes_told >= consumer->num_bytes / 4) {
            cw_cell_tell_at(consumer, cw_cell_num_read(consumer));
        }
        cw_byte_ring_look_ahead(consumer, length);
    }
    cw_cell_advance(consumer);
}

static inline void shm_tell(struct cw_rx *consumer)
{
    const uint64_t read = cw_cell_num_read(consumer);

    cw_cell_tell_at(consumer, read + ((UINT64_C(1) << consumer->cell_shift) / 4));
    consumer->bytes_told = consumer->byte_count;
    __atomic_store_n(&consumer->control->cells_done, read, __ATOMIC_RELEASE);
    __atomic_store_n(&consumer->control->bytes_done, consumer->byte_count, __ATOMIC_RELEASE);
}

#endif
