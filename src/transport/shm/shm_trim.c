/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Returns pages of idle rings to the system (docs/why/scale.md), and lets laps grow. A ring with more than a little
 * traffic has touched the pages of a lap, and a worker with thousands of peers would retain them all.
 *
 * Packets pay nothing for this. Both ends detect on their slow paths that a ring is in use and set an alarm: the
 * producer when it reads the consumer's position, the consumer when it publishes it. Only the producer writes to a
 * ring. It returns the ring's pages when the ring was idle for a while and the consumer has read everything: zeros are
 * not a packet in any lap.
 *
 * The laps of a ring that moved many bytes may grow until it is idle again (docs/why/shared-memory.md).
 */
#include "transport/shm/shm.h"

#include "os/clock.h"
#include "os/segment.h"

#define REST_NS    UINT64_C(5000000000)
#define MAX_POLLS 4u /* if the consumer publishes nothing in that time, the pages stay until the next packets */

#define ENLARGE_BYTES (1u << 20) /* bytes sent before a ring may become large */
#define LARGE_PIECE   ((16u << 10) + CW_CACHE_LINE) /* including its header */
#define MAX_LARGE     16u        /* connections of a worker at a time; bounds their share of memory */

/* A ring is in use if more bytes than this went through it. */
#define SMALL_BYTES 4096u

/* Laps grow beyond a small ring only for packets of at least this length: shorter ones gain nothing. */
#define GROW_LEAST 4096u

/* Whether the consumer has published that it read everything. Its position is validated. */
static bool is_drained(struct shm_tx *tx)
{
    cw_shm_tx_poll(tx);
    return !tx->behind && tx->done == shm_offset(tx->base, tx->fast.line);
}

/* Makes both ends take the slow path soon, where they detect use of the ring. */
void cw_shm_trim_begin(struct shm_conn *conn)
{
    shm_tx_stop(&conn->tx, SMALL_BYTES);
    cw_shm_rx_notify_after(&conn->rx, SMALL_BYTES);
}

void cw_shm_trim_later(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    conn->trim_polls = MAX_POLLS;
    if (!cw_alarm_is_set(&iface->trim)) { /* lazy: checked when another event wakes a sleeping program */
        cw_poller_alarm_set_lazy(iface->poller, &iface->trim, cw_clock_ns() + REST_NS);
    }
}

/* Returns all pages except that of the next record, whose line may be open. */
static void give_back(struct shm_tx *tx)
{
    const uint32_t next = shm_offset(tx->base, tx->fast.line) & ~(SHM_PAGE - 1);

    if (shm_tx_is_in_head(tx)) {
        return; /* the ring has no pages yet */
    }
    cw_segment_give_back(tx->base, next);
    if (tx->most - next > SHM_PAGE) {
        cw_segment_give_back(shm_line(tx->base, next + SHM_PAGE), tx->most - next - SHM_PAGE);
    }
    cw_nt_new_memory(&tx->nt);
}

static void set_large(struct shm_conn *conn, bool large)
{
    conn->is_large = large;
    conn->super.max_whole = shm_max_whole(large ? conn->tx.most : conn->small_bytes);
    conn->super.max_piece = large ? LARGE_PIECE : 0;
}

void cw_shm_consider(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    if (!conn->is_large && conn->tx.most >= SHM_LARGE_BYTES && conn->small_bytes < SHM_LARGE_BYTES &&
        iface->num_large < MAX_LARGE &&
        shm_bytes_sent(&conn->tx) - conn->rested >= ENLARGE_BYTES) {
        iface->num_large++;
        set_large(conn, true);
    }
}

int cw_shm_enlarge(struct shm_conn *conn, size_t length)
{
    struct shm_tx *tx = &conn->tx;
    const uint32_t was = tx->bytes;
    uint32_t limit = conn->small_bytes;

    if (length <= CW_LINE_DATA) {
        return 0;
    }
    if (length > shm_max_whole(conn->small_bytes) || (conn->is_large && length >= GROW_LEAST)) {
        limit = tx->most;
    }
    if (!cw_shm_tx_grow(tx, length, limit)) {
        return 0;
    }
    if (tx->bytes > conn->small_bytes) {
        cw_segment_populate(shm_line(tx->base, was), tx->bytes - was);
        cw_nt_new_memory(&tx->nt);
    }
    return shm_has_space_known(tx, length);
}

static void make_small(struct shm_conn *conn)
{
    if (conn->is_large) {
        shm_iface_of(&conn->super)->num_large--;
        set_large(conn, false);
        conn->wanted = 0; /* the ring is empty, so any packet fits */
    }
    cw_shm_tx_shrink(&conn->tx, conn->first_bytes);
}

void cw_shm_trim_end(struct shm_conn *conn)
{
    shm_iface_of(&conn->super)->num_large -= conn->is_large;
    conn->is_large = 0;
}

/* Whether another check is needed. */
static int trim(struct shm_conn *conn)
{
    const uint64_t sent = shm_sent_mark(&conn->tx), received = shm_read_mark(&conn->rx);

    if (conn->seen[0] != sent || conn->seen[1] != received) {
        conn->seen[0] = sent;
        conn->seen[1] = received;
        conn->trim_polls = MAX_POLLS;
        return 1;
    }
    cw_shm_notify(conn);
    if (is_drained(&conn->tx)) {
        make_small(conn);
        give_back(&conn->tx);
        conn->rested = shm_bytes_sent(&conn->tx);
        conn->trim_polls = 0;
    } else {
        conn->trim_polls--;
    }
    if (conn->trim_polls == 0) {
        cw_shm_trim_begin(conn);
    }
    return conn->trim_polls > 0;
}

unsigned cw_shm_trim(struct cw_alarm *alarm)
{
    struct shm_iface *iface = cw_container_of(alarm, struct shm_iface, trim);
    int again = 0;
    unsigned i;

    for (i = 0; i < iface->num_open; i++) {
        again |= iface->open[i]->trim_polls > 0 && trim(iface->open[i]);
    }
    if (again) {
        cw_poller_alarm_set_lazy(iface->poller, alarm, cw_clock_ns() + REST_NS);
    }
    return 0;
}
