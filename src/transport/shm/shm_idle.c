/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * If there are many connections, progress stops polling those without traffic. Such a connection is cold: it is behind
 * the polled ones in iface->open, and a flag in the ring is set for its peer. With the next packet the peer sets a
 * doorbell (shm_arrivals.c), or sends a byte on the socket if it has none or the worker may sleep and polls the socket;
 * progress then polls the ring again (docs/why/scale.md).
 *
 * There is no fence between the peer's packet and its load of the flag, because each packet would pay for it. Instead
 * progress continues to poll for a whole round of the alarm after the flag was set: 1 ms or more, while a CPU delays a
 * store by less than a microsecond. A peer that never rings harms only itself; one that rings constantly costs this
 * process a poll per ring.
 */
#include "transport/shm/shm.h"

#include "os/clock.h"
#include "os/unix_socket.h"
#include "transport/shm/shm_pass.h"

/* A byte on the socket costs more than a doorbell, so connections that are rung by bytes are polled longer. */
#define ROUND_NS       UINT64_C(1000000)
#define ROUND_BYTES_NS UINT64_C(50000000)

/* Limited, because an offer is a message on a socket with a descriptor. */
#define OFFERS_PER_ROUND 16u

/* Any peer can clear doorbells, so all rings are polled at this interval. */
#define SWEEP_NS UINT64_C(50000000)

#define FEW      8u /* this many connections are always polled */

static void swap(struct shm_iface *iface, struct shm_conn *conn, unsigned index)
{
    struct shm_conn *other = iface->open[index];

    iface->open[conn->index] = other;
    other->index = conn->index;
    iface->open[index] = conn;
    conn->index = index;
}

static void set_flag(struct shm_conn *conn)
{
    __atomic_fetch_or(&conn->rx.control->attention, SHM_ATTENTION_COLD, __ATOMIC_RELAXED);
}

static void clear_flag(struct shm_conn *conn)
{
    __atomic_fetch_and(&conn->rx.control->attention, ~SHM_ATTENTION_COLD, __ATOMIC_RELAXED);
}

static void set_alarm(struct shm_iface *iface)
{
    const uint64_t round_ns = iface->wakeup ? ROUND_BYTES_NS : ROUND_NS;

    if (iface->num_open > FEW && (iface->num_hot > 0 || iface->arrivals != NULL)) {
        cw_poller_alarm_set_lazy(iface->poller, &iface->cool,
                                 cw_clock_ns() + ((iface->num_hot > 0) ? round_ns : SWEEP_NS));
    }
}

void cw_shm_warm(struct shm_conn *conn)
{
    struct shm_iface *iface = shm_iface_of(&conn->super);

    if (conn->heat != SHM_HOT) {
        clear_flag(conn);
    }
    if (conn->heat == SHM_COLD) {
        swap(iface, conn, iface->num_hot++);
        cw_poller_wake(iface->poller); /* rearming requests the byte from the producer */
    }
    conn->heat = SHM_HOT;
    cw_shm_inbox(iface);
    if (iface->num_hot == 1 || !cw_alarm_is_set(&iface->cool)) {
        set_alarm(iface);
    }
}

void cw_shm_open_add(struct shm_iface *iface, struct shm_conn *conn)
{
    conn->heat = SHM_COLD;
    conn->index = iface->num_open;
    iface->open[iface->num_open] = conn;
    iface->num_open++;
    cw_shm_warm(conn);
}

void cw_shm_open_remove(struct shm_iface *iface, struct shm_conn *conn)
{
    if (conn->heat != SHM_COLD) {
        swap(iface, conn, --iface->num_hot);
    }
    swap(iface, conn, --iface->num_open);
    cw_shm_inbox(iface);
}

unsigned cw_shm_bell(struct shm_conn *conn)
{
    const int bell = cw_shm_take_message(conn);

    if (bell < 0) {
        return 0;
    }
    if (!bell) {
        conn->hangup = 1;
        shm_no_space(conn);
    }
    cw_shm_warm(conn);
    return 1;
}

/* Only the peer clears the flag, when it polls again; a surplus byte is harmless. */
CW_COLD void cw_shm_ring(struct shm_conn *conn)
{
    __atomic_fetch_and(&conn->tx.control->attention, ~SHM_ATTENTION_COLD, __ATOMIC_RELAXED);
    if (!cw_shm_bell_set(conn)) {
        cw_shm_wake(conn);
    }
}

CW_COLD void cw_shm_wake(struct shm_conn *conn)
{
    if (conn->item.fd >= 0 && !cw_unix_send_byte(conn->item.fd)) {
        conn->hangup = 1;
        shm_no_space(conn);
        cw_shm_warm(conn);
    }
}

/* Whether the peer can ring, so that the connection may become COLD. A peer that got no doorbell sends a byte. */
static bool can_ring(struct shm_iface *iface, struct shm_conn *conn, unsigned *offers)
{
    if (!iface->wakeup && conn->bell == 0 && !conn->bell_refused) {
        if (*offers == 0) {
            return false;
        }
        --*offers;
        cw_shm_bell_offer(conn);
    }
    return true;
}

/* Moves a connection one step closer to COLD if no packet arrived since the last round. */
static void cool(struct shm_iface *iface, struct shm_conn *conn, unsigned *offers)
{
    if (conn->blocked || conn->hangup || conn->cool_seen != shm_read_mark(&conn->rx)) {
        conn->cool_seen = shm_read_mark(&conn->rx);
        cw_shm_warm(conn);
    } else if (conn->heat == SHM_HOT) {
        if (can_ring(iface, conn, offers)) {
            conn->heat = SHM_COOLING;
            set_flag(conn);
        }
    } else if (shm_peek(&conn->rx) == 0) {
        conn->heat = SHM_COLD;
        swap(iface, conn, --iface->num_hot);
        cw_shm_inbox(iface);
    }
}

static void sweep(struct shm_iface *iface)
{
    const uint64_t now_ns = cw_clock_ns();
    unsigned i;

    if (iface->arrivals == NULL || now_ns < iface->sweep_ns) {
        return;
    }
    iface->sweep_ns = now_ns + SWEEP_NS;
    for (i = iface->num_hot; i < iface->num_open; i++) {
        if (shm_peek(&iface->open[i]->rx) != 0) {
            cw_shm_warm(iface->open[i]);
        }
    }
}

unsigned cw_shm_cool(struct cw_alarm *alarm)
{
    struct shm_iface *iface = cw_container_of(alarm, struct shm_iface, cool);
    unsigned offers = OFFERS_PER_ROUND, i;

    for (i = iface->num_hot; iface->num_open > FEW && i > 0; i--) { /* a connection that is removed is replaced by one
                                                                     * that was handled already */
        cool(iface, iface->open[i - 1], &offers);
    }
    sweep(iface);
    set_alarm(iface);
    return 0;
}
