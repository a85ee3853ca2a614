/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives pages of rings that rest back to the system (docs/why/scale.md). A ring that took more than a little has
 * walked through all of its pages; a worker with thousands of peers would keep them all.
 *
 * Nothing of this is on the way of a packet: both ends notice on their rare ways (the producer when it looks how far
 * the consumer is, the consumer when it tells that) that a ring is in use, and set an alarm. The producer, the only one
 * that writes to a ring, lets go of its pages when nothing went through for a while and the consumer has read all. A
 * cell that became zeros is no packet for the consumer, whatever lap it waits for.
 *
 * A ring that moved a good deal goes on in a wide byte area until it rests, and what was announced counts as well; then
 * long messages go through it, too (docs/why/shared-memory.md).
 */
#include "transport/shm/shm.h"

#include "os/clock.h"
#include "os/shm.h"

#define REST_NS   UINT64_C(500000000)
#define MOST_LOOKS 4u /* a consumer that does not come round in that time may keep its pages until the next packets */

#define WIDEN_BYTES (1u << 20) /* so many have been sent before */
#define WIDE_PIECE  ((16u << 10) + CW_CACHE_LINE) /* with its header: two copies overlap, a packet costs 50 ns */
#define MAX_WIDE    16u        /* connections of a worker at a time: what they may keep of the machine's memory */

/* Through a wide area go messages that are shorter. */
#define EAGER_END (UINT64_C(8) << 20)

/* Whoever waits for room so long has a peer without a processor, or one that computes, or did so itself. Where that
 * comes again before the ring has moved what rendezvous would have moved meanwhile, rendezvous is better; packets are
 * tried again after that many times the wait. Once in a while it happens to everybody whose processor is shared, and
 * to who begins while its peer is still getting ready. */
#define STALL_NS      UINT64_C(1000000)
#define STALL_BYTES   16u       /* per nanosecond of the wait */
#define PAUSE         64u
#define MOST_PAUSE_NS UINT64_C(1000000000)

/* What a ring takes before it is taken for one in use: half a page of cells, a page of bytes. */
#define SMALL_CELLS 32u
#define SMALL_BYTES 4096u

/* Lets the producer look at what the consumer told when it has sent little from now on: it knows less than it might. */
static void look_early(struct cw_producer *producer)
{
    if (producer->cell_limit - cw_cell_num_sent(producer) > SMALL_CELLS) {
        cw_cell_set_limit(producer, cw_cell_num_sent(producer) + SMALL_CELLS);
    }
    if (producer->byte_count - producer->bytes_done + SMALL_BYTES < producer->num_bytes) {
        producer->bytes_done = producer->byte_count - producer->num_bytes + SMALL_BYTES;
    }
}

/* Likewise the consumer tells when it has read little from now on. */
static void tell_early(struct cw_consumer *consumer)
{
    if (consumer->tell_at - cw_cell_num_read(consumer) > SMALL_CELLS) {
        cw_cell_tell_at(consumer, cw_cell_num_read(consumer) + SMALL_CELLS);
    }
    if (consumer->byte_count - consumer->bytes_told + SMALL_BYTES < consumer->num_bytes / 4) {
        consumer->bytes_told = consumer->byte_count - consumer->num_bytes / 4 + SMALL_BYTES;
    }
}

/* The consumer has told that it read all. Its word is looked at. */
static int is_drained(struct cw_producer *producer)
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
    if (!cw_alarm_is_set(&iface->trim)) { /* who sleeps is not woken by it, and looks when something else did */
        cw_poller_alarm_set_lazy(iface->poller, &iface->trim, cw_clock_ns() + REST_NS);
    }
}

/* All but the page of the next cell. */
static void give_back(struct cw_producer *ring)
{
    char *const cells = (char *)ring->cells, *const end = (char *)ring->cells_end;
    char *const next  = cells + (((char *)ring->cell - cells) & ~(ptrdiff_t)(SHM_PAGE - 1));

    cw_shm_give_back(cells, (size_t)(next - cells));
    if (end - next > (ptrdiff_t)SHM_PAGE) {
        cw_shm_give_back(next + SHM_PAGE, (size_t)(end - next) - SHM_PAGE);
    }
    cw_shm_give_back(ring->bytes - SHM_BYTES_LEAD, (size_t)ring->num_bytes + SHM_PAGE);
    ring->claim_end = ring->claim;
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
        conn->wanted = 0; /* it is empty: there is room for whatever comes next */
    }
}

void cw_shm_trim_end(struct shm_conn *conn)
{
    shm_iface_of(&conn->super)->num_wide -= conn->is_wide;
    conn->is_wide = 0;
}

/* Whether to look again. */
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
