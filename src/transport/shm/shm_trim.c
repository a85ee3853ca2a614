/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives pages of unused rings back to the system (docs/why/scale.md). A ring through which more than a little has gone
 * has touched all of its pages, and a worker with thousands of peers would keep them all.
 *
 * A packet pays nothing for this. Both ends notice on their rare paths that a ring is in use and set an alarm: the
 * producer when it reads the consumer's position, the consumer when it tells it. Only the producer writes to a ring. It
 * gives the ring's pages back when nothing went through for a while and the consumer has read everything. A cell that
 * became zeros is no packet for the consumer in any lap.
 *
 * A ring that moved many bytes uses its wide byte area until it is unused again; bytes of announced messages count as
 * well. While it does, long messages also go through it (docs/why/shared-memory.md).
 */
#include "transport/shm/shm.h"

#include "os/clock.h"
#include "os/shm.h"

#define REST_NS   UINT64_C(500000000)
#define MOST_LOOKS 4u /* if the consumer has not told in that time, its pages stay until the next packets */

#define WIDEN_BYTES (1u << 20) /* bytes that must have been sent before */
#define WIDE_PIECE  ((16u << 10) + CW_CACHE_LINE) /* with its header */
#define MAX_WIDE    16u        /* connections of a worker at a time, which limits their part of the machine's memory */

/* Messages shorter than this go through a wide area. */
#define EAGER_END (UINT64_C(8) << 20)

/* After so long a wait for room the peer has no processor, or computes, or this process did. If such waits come again
 * before the ring has moved the bytes that rendezvous would have moved meanwhile, rendezvous is better. Packets are
 * then tried again after that many times the wait. A single such wait is no reason: it also happens when processors are
 * shared, and at the beginning, while the peer is not ready yet. */
#define STALL_NS      UINT64_C(1000000)
#define STALL_BYTES   16u       /* per nanosecond of the wait */
#define PAUSE         64u
#define MOST_PAUSE_NS UINT64_C(1000000000)

/* A ring counts as in use when more than this went through: half a page of cells, or a page of bytes. */
#define SMALL_CELLS 32u
#define SMALL_BYTES 4096u

/* Has the producer read the consumer's position after a few more packets, earlier than it needs to. */
static void look_early(struct cw_tx *producer)
{
    if (producer->cell_limit - cw_cell_num_sent(producer) > SMALL_CELLS) {
        cw_cell_set_limit(producer, cw_cell_num_sent(producer) + SMALL_CELLS);
    }
    if (producer->byte_count - producer->bytes_done + SMALL_BYTES < producer->num_bytes) {
        producer->bytes_done = producer->byte_count - producer->num_bytes + SMALL_BYTES;
    }
}

/* Has the consumer tell its position after a few more packets, earlier than it needs to. */
static void tell_early(struct cw_rx *consumer)
{
    if (consumer->tell_at - cw_cell_num_read(consumer) > SMALL_CELLS) {
        cw_cell_tell_at(consumer, cw_cell_num_read(consumer) + SMALL_CELLS);
    }
    if (consumer->byte_count - consumer->bytes_told + SMALL_BYTES < consumer->num_bytes / 4) {
        consumer->bytes_told = consumer->byte_count - consumer->num_bytes / 4 + SMALL_BYTES;
    }
}

/* Whether the consumer has told that it read everything. Its number is checked. */
static int is_drained(struct cw_tx *producer)
{
    shm_look(producer);
    return producer->cell_limit - cw_cell_num_sent(producer) == UINT64_C(1) << producer->cell_shift &&
           producer->bytes_done == producer->byte_count;
}

void cw_shm_trim_begin(struct shm_conn *conn)
{
    look_early(&conn->tx);
    tell_early(&conn->rx);
}

void cw_shm_trim_later(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    conn->trim_looks = MOST_LOOKS;
    if (!cw_alarm_is_set(&iface->trim)) { /* the alarm does not wake a sleeping program, which looks when another event
                                           * wakes it */
        cw_poller_alarm_set_lazy(iface->poller, &iface->trim, cw_clock_ns() + REST_NS);
    }
}

/* Gives all pages back but that of the next cell. */
static void give_back(struct cw_tx *ring)
{
    char *const cells = (char *)ring->cells, *const end = (char *)ring->cells_end;
    char *const next  = cells + (((char *)ring->cell - cells) & ~(ptrdiff_t)(SHM_PAGE - 1));

    cw_shm_give_back(cells, (size_t)(next - cells));
    if (end - next > (ptrdiff_t)SHM_PAGE) {
        cw_shm_give_back(next + SHM_PAGE, (size_t)(end - next) - SHM_PAGE);
    }
    cw_shm_give_back(ring->bytes - SHM_BYTES_LEAD, (size_t)ring->num_bytes + SHM_PAGE);
}

static void use_area(struct shm_conn *conn, int wide)
{
    const uint32_t num_bytes = wide ? conn->wide_bytes : conn->num_bytes;

    conn->is_wide         = (uint8_t)wide;
    conn->super.max_whole = shm_max_whole(num_bytes);
    conn->super.max_piece = wide ? WIDE_PIECE : 0;
    shm_producer_use(&conn->tx, cw_shm_area(conn, 1, wide), num_bytes, wide ? SHM_WIDE : 0);
}

static void let_long_in(struct shm_conn *conn)
{
    if (cw_clock_ns() >= conn->eager_ns) {
        conn->super.eager_end = EAGER_END;
    }
}

void cw_shm_widen(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    if (!conn->is_wide && conn->wide_bytes > 0 && iface->num_wide < MAX_WIDE &&
        conn->tx.byte_count - conn->rested + conn->announced >= WIDEN_BYTES) {
        iface->num_wide++;
        use_area(conn, 1);
        let_long_in(conn);
    }
}

void cw_shm_grow(struct cw_conn *super, size_t length)
{
    struct shm_conn *conn = shm_conn_of(super);

    if (length >= EAGER_END) {
        return;
    }
    if (conn->is_wide) {
        let_long_in(conn);
    } else {
        conn->announced += length;
        cw_shm_trim_later(conn);
        cw_shm_widen(conn);
    }
}

void cw_shm_unblocked(struct shm_conn *conn)
{
    uint64_t now, waited, before;

    if (conn->super.eager_end > 0 && shm_iface_of(&conn->super)->stalls) {
        now    = cw_clock_ns();
        waited = now - conn->blocked_ns;
        before = conn->stalled;
        if (waited > STALL_NS) {
            conn->stalled = conn->tx.byte_count;
        }
        if (waited > STALL_NS && before > 0 && (conn->stalled - before) / STALL_BYTES < waited) {
            conn->super.eager_end = 0;
            conn->eager_ns        = now + ((waited < MOST_PAUSE_NS / PAUSE) ? waited * PAUSE : MOST_PAUSE_NS);
        }
    }
}

static void narrow(struct shm_conn *conn)
{
    if (conn->is_wide) {
        cw_shm_give_back(conn->tx.bytes - SHM_BYTES_LEAD, (size_t)conn->wide_bytes + SHM_PAGE);
        shm_iface_of(&conn->super)->num_wide--;
        use_area(conn, 0);
        conn->super.eager_end = 0;
        conn->wanted = 0; /* the ring is empty, so there is room for any packet */
    }
}

void cw_shm_trim_end(struct shm_conn *conn)
{
    shm_iface_of(&conn->super)->num_wide -= conn->is_wide;
    conn->is_wide = 0;
}

/* Whether another look is needed. */
static int trim(struct shm_conn *conn)
{
    const uint64_t sent = cw_cell_sent_mark(&conn->tx), received = cw_cell_read_mark(&conn->rx);

    if (conn->seen[0] != sent || conn->seen[1] != received) {
        conn->seen[0]    = sent;
        conn->seen[1]    = received;
        conn->trim_looks = MOST_LOOKS;
        return 1;
    }
    cw_shm_tell(conn);
    if (is_drained(&conn->tx)) {
        narrow(conn);
        give_back(&conn->tx);
        cw_nt_new_memory(&conn->tx.nt);
        conn->rested     = conn->tx.byte_count;
        conn->announced  = 0;
        conn->trim_looks = 0;
    } else {
        conn->trim_looks--;
    }
    if (conn->trim_looks == 0) {
        cw_shm_trim_begin(conn);
    }
    return conn->trim_looks > 0;
}

unsigned cw_shm_trim(struct cw_alarm *alarm)
{
    struct shm_iface *iface = cw_container_of(alarm, struct shm_iface, trim);
    int again               = 0;
    unsigned i;

    for (i = 0; i < iface->num_open; i++) {
        again |= iface->open[i]->trim_looks > 0 && trim(iface->open[i]);
    }
    if (again) {
        cw_poller_alarm_set_lazy(iface->poller, alarm, cw_clock_ns() + REST_NS);
    }
    return 0;
}
