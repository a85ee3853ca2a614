/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a connection except for its greeting: states, activity, the end. A connection that the core has closed
 * lingers while bytes are in progress: when a socket is closed that still receives bytes, the kernel sends a reset,
 * which destroys bytes that the peer has not read yet (CLS-5).
 */
#include "transport/tcp/tcp_dial.h"
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_send.h"
#include "transport/tcp/tcp_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"

#define DISCARD_BYTES     (256u << 10) /* read at most in each look at a lingering connection */
#define LINGER_END_NS     UINT64_C(250000000)
#define LINGER_WAIT_MS    10

static unsigned conn_ready(struct cw_poll_item *item, unsigned events);

/* If a greeting came and went between the blocks that stay, the allocator would leave a hole for each peer. */
static struct cw_tcp_greeting *greeting_new(struct cw_tcp_iface *iface)
{
    struct cw_tcp_greeting *greeting = iface->spare_greeting;

    if (greeting == NULL) {
        return calloc(1, sizeof(*greeting));
    }
    iface->spare_greeting = NULL;
    memset(greeting, 0, sizeof(*greeting));
    return greeting;
}

void cw_tcp_greeting_release(struct cw_tcp_iface *iface, struct cw_tcp_greeting *greeting)
{
    cw_text_free(&greeting->tried);
    if (iface->spare_greeting == NULL) {
        iface->spare_greeting = greeting;
    } else {
        free(greeting);
    }
}

struct cw_tcp_conn *cw_tcp_conn_new(struct cw_tcp_iface *iface, enum cw_tcp_state state, int fd)
{
    struct cw_tcp_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    conn->greeting = greeting_new(iface);
    if (conn->greeting == NULL) {
        free(conn);
        return NULL;
    }
    conn->greeting->conn = conn;
    conn->super.iface = &iface->super;
    conn->item.fd     = fd;
    conn->item.ready  = conn_ready;
    conn->state       = (uint8_t)state;
    cw_list_init(&conn->link);
    return conn;
}

void cw_tcp_greeting_free(struct cw_tcp_conn *conn)
{
    if (conn->greeting != NULL) {
        cw_poller_alarm_cancel(cw_tcp_iface_of(&conn->super)->poller, &conn->greeting->alarm);
        cw_tcp_greeting_release(cw_tcp_iface_of(&conn->super), conn->greeting);
        conn->greeting = NULL;
    }
}

void cw_tcp_conn_drop_fd(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    cw_tcp_forget_active(conn);
    cw_tcp_filter_free(conn);
    cw_tcp_watch_pause(conn);
    if (conn->item.fd >= 0) {
        cw_poller_remove(iface->poller, &conn->item);
        cw_net_close(conn->item.fd);
        conn->item.fd = -1;
        cw_tcp_accept_resume(iface);
    }
}

void cw_tcp_conn_leave(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (!cw_list_empty(&conn->link)) {
        iface->num_strangers -= conn->state == CW_TCP_STRANGER;
        iface->num_lingering -= conn->state == CW_TCP_LINGERING;
        if (iface->num_strangers == 0) {
            cw_poller_alarm_cancel(iface->poller, &iface->hello_deadline);
        }
        if (iface->num_lingering == 0) {
            cw_poller_alarm_cancel(iface->poller, &iface->linger_deadline);
        }
    }
    cw_list_remove(&conn->link);
}

void cw_tcp_conn_free(struct cw_tcp_conn *conn)
{
    cw_tcp_conn_leave(conn);
    cw_tcp_conn_drop_fd(conn);
    cw_tcp_greeting_free(conn);
    free(conn->watch);
    free(conn->super.end);
    free(conn->rx_frame);
    free(conn->place);
    if (conn->tx != NULL) {
        cw_tcp_iface_of(&conn->super)->num_tx--;
        free(conn->tx);
    }
    free(conn);
}

void cw_tcp_conn_open(struct cw_tcp_conn *conn)
{
    cw_tcp_conn_leave(conn);
    conn->state = CW_TCP_OPEN;
    conn->quiet = conn->watch != NULL;
    cw_tcp_note_active(conn);
}

void cw_tcp_conn_note_end(struct cw_tcp_conn *conn, const char *reason)
{
    struct cw_text text = {0};
    char peer[CW_NET_TEXT_MAX];

    if (conn->super.end == NULL && conn->item.fd >= 0) {
        cw_net_peer_text(conn->item.fd, peer);
        cw_text_addf(&text, "TCP connection with %s: %s", peer, reason);
        conn->super.end = text.data;
    }
}

static void close_conn(struct cw_tcp_conn *conn, ucs_status_t status)
{
    cw_tcp_conn_leave(conn);
    cw_tcp_conn_drop_fd(conn);
    free(conn->rx_frame);
    free(conn->place);
    conn->rx_frame = NULL;
    conn->place    = NULL;
    conn->state    = CW_TCP_CLOSED;
    conn->broken   = status;
}

void cw_tcp_conn_lost(struct cw_tcp_conn *conn, ucs_status_t status)
{
    close_conn(conn, status);
    cw_tcp_tx_cancel(conn, status, 0);
    conn->super.iface->upcalls->closed(&conn->super, status);
}

void cw_tcp_note_active(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (iface->active != conn) {
        iface->active = conn;
        iface->hot    = NULL;
        iface->streak = 0;
    }
    if (iface->hot == NULL && ++iface->streak >= CW_TCP_STREAK) {
        iface->hot = conn;
    }
    conn->fruitless = 0;
}

void cw_tcp_forget_active(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (iface->active == conn) {
        iface->active = iface->hot = NULL;
    }
}

/* The peer sends a whole message at once, so its rest must come soon. */
void cw_tcp_greeting_await_rest(struct cw_tcp_conn *conn, unsigned (*expire)(struct cw_alarm *alarm))
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_greeting *greeting = conn->greeting;
    const uint64_t interval_ns       = iface->settings.silence_ns;
    const int waits                  = cw_alarm_is_set(&greeting->alarm) && greeting->alarm.fire == expire;

    if (greeting->have == 0) {
        if (waits) {
            cw_poller_alarm_cancel(iface->poller, &greeting->alarm);
        }
    } else if (!waits) {
        cw_poller_alarm_cancel(iface->poller, &greeting->alarm);
        greeting->alarm.fire = expire;
        cw_poller_alarm_set(iface->poller, &greeting->alarm,
                            cw_clock_ns() + ((interval_ns > 0 && interval_ns < CW_TCP_HELLO_TIMEOUT_NS) ?
                                             interval_ns : CW_TCP_HELLO_TIMEOUT_NS));
    }
}

int cw_tcp_greeting_read(struct cw_tcp_conn *conn, size_t need)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    ssize_t got;

    while (greeting->have < need) {
        got = cw_tcp_filter_recv(conn, greeting->in + greeting->have, need - greeting->have);
        if (got <= 0) {
            return (got == 0) ? -EPIPE : (got == -EAGAIN) ? 0 : (int)got;
        }
        greeting->have += (size_t)got;
    }
    return 1;
}

/* True when closing the descriptor can lose nothing any more. A peer that sends no more may still receive. */
static int linger_step(struct cw_tcp_conn *conn)
{
    if (conn->tx != NULL) {
        (void)cw_tcp_send_rest(conn);
    }
    if (conn->tx != NULL && conn->broken == UCS_OK) {
        conn->deaf |= (uint8_t)cw_net_discard(conn->item.fd, DISCARD_BYTES);
        cw_tcp_tx_update_interest(conn);
        return 0;
    }
    if (conn->tx == NULL && !conn->finished) {
        conn->finished = 1;
        cw_net_finish(conn->item.fd);
        conn->deadline_ns = cw_clock_ns() + CW_TCP_LINGER_NS;
    }
    return conn->broken != UCS_OK || cw_net_discard(conn->item.fd, DISCARD_BYTES) ||
           (conn->finished && cw_net_unacknowledged(conn->item.fd) == 0);
}

/* Makes one step of a connection on the list of lingering ones. */
static void linger_on(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (linger_step(conn)) {
        cw_tcp_conn_free(conn);
    } else if (conn->finished && !cw_alarm_is_set(&iface->linger_deadline)) {
        cw_poller_alarm_set(iface->poller, &iface->linger_deadline, conn->deadline_ns);
    }
}

static void linger_all(struct cw_tcp_iface *iface)
{
    struct cw_tcp_conn *conn, *next;

    cw_list_for_each_safe(conn, next, &iface->lingering, struct cw_tcp_conn, link) {
        linger_on(conn);
    }
}

/* Drops connections that linger too long: the system goes on sending the bytes that it has, and the peer's bytes need
 * not be read for ever. */
unsigned cw_tcp_lingering_expire(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, linger_deadline);
    const uint64_t now_ns      = cw_clock_ns();
    struct cw_tcp_conn *conn, *next;
    uint64_t first_ns = 0;

    cw_list_for_each_safe(conn, next, &iface->lingering, struct cw_tcp_conn, link) {
        if (!conn->finished) {
            continue;
        }
        if (conn->deadline_ns <= now_ns) {
            cw_tcp_conn_free(conn);
        } else if (first_ns == 0 || conn->deadline_ns < first_ns) {
            first_ns = conn->deadline_ns;
        }
    }
    if (first_ns != 0) {
        cw_poller_alarm_set(iface->poller, alarm, first_ns);
    }
    return 0;
}

void cw_tcp_conn_linger(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    cw_tcp_forget_active(conn);
    cw_tcp_filter_leave(conn);
    cw_tcp_conn_leave(conn);
    cw_tcp_greeting_free(conn);
    free(conn->rx_frame);
    free(conn->place);
    conn->rx_frame   = NULL;
    conn->place      = NULL;
    conn->super.user = NULL;
    conn->wants_room = 0;
    conn->state      = CW_TCP_LINGERING;
    if (linger_step(conn)) {
        cw_tcp_conn_free(conn);
        return;
    }
    if (iface->num_lingering == CW_TCP_MAX_LINGERING) {
        linger_all(iface);
    }
    if (iface->num_lingering == CW_TCP_MAX_LINGERING) {
        cw_tcp_conn_free(cw_list_head(&iface->lingering, struct cw_tcp_conn, link));
    }
    cw_list_add_tail(&iface->lingering, &conn->link);
    iface->num_lingering++;
    cw_tcp_tx_update_interest(conn);
    if (conn->finished && !cw_alarm_is_set(&iface->linger_deadline)) {
        cw_poller_alarm_set(iface->poller, &iface->linger_deadline, conn->deadline_ns);
    }
}

void cw_tcp_lingering_end(struct cw_tcp_iface *iface)
{
    const uint64_t deadline_ns = cw_clock_ns() + LINGER_END_NS;

    for (;;) {
        linger_all(iface);
        if (cw_list_empty(&iface->lingering) || cw_clock_ns() >= deadline_ns) {
            break;
        }
        cw_net_wait_readable(cw_list_head(&iface->lingering, struct cw_tcp_conn, link)->item.fd, LINGER_WAIT_MS);
    }
    while (!cw_list_empty(&iface->lingering)) {
        cw_tcp_conn_free(cw_list_head(&iface->lingering, struct cw_tcp_conn, link));
    }
}

void cw_tcp_close_conn(struct cw_conn *super)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    const int healthy        = conn->state == CW_TCP_OPEN && conn->broken == UCS_OK;

    conn->broken = UCS_ERR_CANCELED;
    cw_tcp_tx_cancel(conn, UCS_ERR_CANCELED, healthy);
    if (!healthy) {
        cw_tcp_conn_free(conn);
        return;
    }
    conn->broken = UCS_OK;
    cw_tcp_conn_linger(conn);
}

/* The connection is neither read nor written any more. */
void cw_tcp_abandon(struct cw_conn *super)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);

    if (conn->greeting != NULL) {
        cw_poller_alarm_cancel(cw_tcp_iface_of(super)->poller, &conn->greeting->alarm);
    }
    close_conn(conn, UCS_ERR_CANCELED);
}

static unsigned open_ready(struct cw_tcp_conn *conn, unsigned events)
{
    unsigned received = 0, sent = 0;

    if (events & CW_POLL_WRITE) {
        sent = cw_tcp_send_rest(conn);
    }
    if ((events & (CW_POLL_READ | CW_POLL_HANGUP)) && conn->state == CW_TCP_OPEN &&
        cw_tcp_recv(conn, cw_tcp_iface_of(&conn->super)->settings.max_poll, &received) == CW_TCP_RECV_ENDED) {
        return sent + received;
    }
    if (sent + received > 0 && conn->state == CW_TCP_OPEN) {
        cw_tcp_note_active(conn);
    }
    return sent + received;
}

static unsigned conn_ready(struct cw_poll_item *item, unsigned events)
{
    struct cw_tcp_conn *conn = cw_container_of(item, struct cw_tcp_conn, item);

    switch ((enum cw_tcp_state)conn->state) {
    case CW_TCP_CONNECTING:
    case CW_TCP_GREETING:
        return cw_tcp_dial_ready(conn);
    case CW_TCP_STRANGER:
        return cw_tcp_stranger_ready(conn);
    case CW_TCP_OPEN:
        return open_ready(conn, events);
    case CW_TCP_LINGERING:
        linger_on(conn);
        return 0;
    case CW_TCP_REQUESTED:
    case CW_TCP_CLOSED:
        break;
    }
    return 0;
}
