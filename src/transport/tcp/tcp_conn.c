/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life cycle of a connection except for its handshake: states, activity, close, keepalive. A connection that the
 * core has closed lingers while bytes are in flight: if a socket is closed that still receives bytes, the kernel sends
 * a reset, which destroys bytes that the peer has not read yet.
 *
 * Keepalive (struct cw_tcp_watch) detects that a peer's machine has fallen silent. The kernel probes a connection
 * without unacknowledged bytes, at no cost for this process. A connection that has sent bytes is checked a few times
 * per interval until all are acknowledged; then it is quiet again. A peer is considered dead if its kernel has not
 * answered retransmissions or probes for most of the interval; the kernel of a stopped or busy process still answers.
 * TCP_USER_TIMEOUT is not used for that: it would declare a peer dead whose program merely does not read for a long
 * time. It is safe for bytes that are already in flight, so it replaces the checks while the program sleeps: they need
 * not wake it then.
 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/clock.h"

#define DISCARD_BYTES  (256u << 10) /* read at most in each check of a lingering connection */
#define LINGER_END_NS  UINT64_C(250000000)
#define LINGER_WAIT_MS 10

#define POLLS_PER_INTERVAL 8u
#define POLLS_OF_SILENCE   6u /* the rest is for the first retransmission and for the check that detects it */
#define NS_PER_MS          1000000u

/* Sets TCP_USER_TIMEOUT to the interval, or to less by the settings. */
static void watch_limit(const struct cw_tcp_conn *conn)
{
    const uint64_t own_ms = conn->watch->own_limit_ms;
    const uint64_t silence_ms = cw_tcp_iface_of(&conn->super)->settings.silence_ns / NS_PER_MS;

    cw_net_set_user_timeout(conn->item.fd, (own_ms != 0 && own_ms < silence_ms) ? own_ms : silence_ms);
}

static void watch_begin(struct cw_tcp_conn *conn)
{
    if (conn->watch == NULL) {
        conn->watch = malloc(sizeof(*conn->watch));
    }
    if (conn->watch == NULL) {
        cw_diag("out of memory: keepalive is disabled for a TCP connection");
        return;
    }
    *conn->watch = (struct cw_tcp_watch){.conn = conn};
    cw_list_init(&conn->watch->link);
    conn->quiet = conn->state == CW_TCP_OPEN;
    if (conn->item.fd >= 0) {
        conn->watch->own_limit_ms = cw_net_user_timeout(conn->item.fd);
        cw_net_keepalive(conn->item.fd, &cw_tcp_iface_of(&conn->super)->settings.keepalive);
    }
    if (conn->quiet && conn->filter != NULL && conn->filter->said > 0) {
        cw_tcp_watch_sends(conn);
    }
}

void cw_tcp_watch(struct cw_conn *super)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);

    if (cw_tcp_iface_of(super)->settings.silence_ns != 0 && conn->watch == NULL) {
        watch_begin(conn);
    }
}

void cw_tcp_watch_handshake(struct cw_tcp_conn *conn)
{
    const struct cw_tcp_settings *settings = &cw_tcp_iface_of(&conn->super)->settings;

    if (conn->watch != NULL) {
        conn->watch->own_limit_ms = cw_net_user_timeout(conn->item.fd);
        cw_net_keepalive(conn->item.fd, &settings->keepalive);
        watch_limit(conn);
    }
}

void cw_tcp_watch_handshake_done(struct cw_tcp_conn *conn)
{
    if (conn->watch != NULL) {
        cw_net_set_user_timeout(conn->item.fd, conn->watch->own_limit_ms);
    }
}

/* Schedules the next check. `wakes`: it also wakes a sleeping program. */
static void check_at(struct cw_tcp_iface *iface, uint64_t at_ns, int wakes)
{
    if (iface->check.at_ns == at_ns && iface->check.lazy == !wakes) {
        return;
    }
    if (wakes) {
        cw_poller_alarm_set(iface->poller, &iface->check, at_ns);
    } else {
        cw_poller_alarm_set_lazy(iface->poller, &iface->check, at_ns);
    }
}

static void poll_later(struct cw_tcp_iface *iface, uint64_t now_ns)
{
    iface->checked_ns = now_ns;
    check_at(iface, now_ns + iface->settings.silence_ns / POLLS_PER_INTERVAL, 0);
}

/* Removes the kernel's limit: the checks replace it again. */
static void take_from_system(struct cw_tcp_watch *watch)
{
    if (watch->by_system) {
        watch->by_system = 0;
        cw_net_set_user_timeout(watch->conn->item.fd, watch->own_limit_ms);
    }
}

void cw_tcp_watch_sends(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->quiet = 0;
    conn->watch->silent_ns = 0;
    take_from_system(conn->watch);
    cw_list_remove(&conn->watch->link);
    cw_list_add_tail(&iface->in_flight, &conn->watch->link);
    if (!cw_alarm_is_set(&iface->check)) {
        poll_later(iface, cw_clock_ns());
    }
}

/* The descriptor is about to be closed. */
static void watch_pause(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->quiet = 0;
    if (conn->watch != NULL) {
        cw_list_remove(&conn->watch->link);
        if (cw_list_empty(&iface->in_flight) && cw_list_empty(&iface->resting)) {
            cw_poller_alarm_cancel(iface->poller, &iface->check);
        }
    }
}

/* Whether the next check must wake a sleeping program: the peer does not read the bytes sent to it, or empty frames
 * must follow them. */
static bool is_urgent(const struct cw_tcp_conn *conn)
{
    return conn->tx != NULL || (conn->filter != NULL && conn->filter->said > 0) || cw_net_unsent(conn->item.fd) > 0;
}

void cw_tcp_watch_settle(struct cw_tcp_iface *iface)
{
    const uint64_t at_ns = iface->checked_ns + iface->settings.silence_ns / POLLS_PER_INTERVAL;
    struct cw_tcp_watch *watch, *next;

    cw_list_for_each_safe(watch, next, &iface->in_flight, struct cw_tcp_watch, link) {
        if (is_urgent(watch->conn)) {
            continue;
        }
        cw_list_remove(&watch->link);
        watch->conn->quiet = 1;
        watch->by_system = 1;
        watch_limit(watch->conn);
        cw_list_add_tail(&iface->resting, &watch->link);
    }
    if (!cw_list_empty(&iface->in_flight) || !cw_list_empty(&iface->resting)) {
        check_at(iface, at_ns, !cw_list_empty(&iface->in_flight));
    }
}

void cw_tcp_watch_notify(struct cw_tcp_conn *conn)
{
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_diag("connection to the machine of %s timed out: nothing acknowledged for UCX_KEEPALIVE_INTERVAL; it is down or "
            "unreachable, or, if only long messages are lost, a router drops large packets (net.ipv4.tcp_mtu_probing=1 "
            "helps)",
            peer);
    cw_tcp_conn_note_end(conn, "nothing acknowledged for UCX_KEEPALIVE_INTERVAL");
}

static void dead(struct cw_tcp_conn *conn)
{
    cw_tcp_watch_notify(conn);
    cw_net_forget(conn->item.fd); /* so that the kernel does not retransmit the remaining bytes */
    if (conn->state == CW_TCP_OPEN) {
        cw_tcp_conn_end(conn, UCS_ERR_ENDPOINT_TIMEOUT);
    } else {
        cw_tcp_conn_free(conn);
    }
}

/* 1: further checks are needed; 0: the connection is quiet; -1: the peer is dead. */
static int check(struct cw_tcp_watch *watch, uint64_t now_ns, uint64_t passed_ms)
{
    struct cw_tcp_conn *conn = watch->conn;
    const uint64_t interval_ns = cw_tcp_iface_of(&conn->super)->settings.silence_ns;
    const uint64_t limit_ns = interval_ns / POLLS_PER_INTERVAL * POLLS_OF_SILENCE;
    int more = cw_net_unacknowledged(conn->item.fd) > 0;

    if (!more) {
        watch->silent_ns = 0;
    } else if (!cw_net_is_unanswered(conn->item.fd, passed_ms)) {
        watch->silent_ns = 0;
    } else if (watch->silent_ns == 0) {
        watch->silent_ns = now_ns;
    } else if (now_ns - watch->silent_ns >= limit_ns) {
        return -1;
    }
    if (conn->state == CW_TCP_OPEN && conn->filter != NULL) {
        more |= cw_tcp_filter_check(conn);
    }
    return more;
}

unsigned cw_tcp_watch_check(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, check);
    const uint64_t now_ns = cw_clock_ns();
    const uint64_t passed_ms = (now_ns - iface->checked_ns) / NS_PER_MS;
    struct cw_tcp_watch *watch;
    struct cw_list checked, *link;
    unsigned count = 0;
    int more;

    cw_list_init(&checked);
    cw_list_splice_tail(&checked, &iface->in_flight);
    cw_list_splice_tail(&checked, &iface->resting);
    while ((link = cw_list_pop_head(&checked)) != NULL) {
        watch = cw_container_of(link, struct cw_tcp_watch, link);
        take_from_system(watch);
        watch->conn->quiet = 0;
        cw_list_add_tail(&iface->in_flight, &watch->link);
        more = check(watch, now_ns, passed_ms);
        if (more < 0) {
            dead(watch->conn);
            count++;
        } else if (!more) {
            cw_list_remove(&watch->link);
            watch->conn->quiet = 1;
        }
    }
    if (!cw_list_empty(&iface->in_flight)) {
        poll_later(iface, now_ns);
    }
    return count;
}

static unsigned conn_ready(struct cw_poll_item *item, unsigned events);

/* Cached: a handshake that is freed between long-lived blocks would leave a hole in the heap for each peer. */
static struct cw_tcp_handshake *handshake_new(struct cw_tcp_iface *iface)
{
    struct cw_tcp_handshake *handshake = iface->spare_handshake;

    if (handshake == NULL) {
        return calloc(1, sizeof(*handshake));
    }
    iface->spare_handshake = NULL;
    memset(handshake, 0, sizeof(*handshake));
    return handshake;
}

void cw_tcp_handshake_release(struct cw_tcp_iface *iface, struct cw_tcp_handshake *handshake)
{
    cw_text_free(&handshake->tried);
    if (iface->spare_handshake == NULL) {
        iface->spare_handshake = handshake;
    } else {
        free(handshake);
    }
}

struct cw_tcp_conn *cw_tcp_conn_new(struct cw_tcp_iface *iface, enum cw_tcp_state state, int fd)
{
    struct cw_tcp_conn *conn = calloc(1, sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    conn->handshake = handshake_new(iface);
    if (conn->handshake == NULL) {
        free(conn);
        return NULL;
    }
    conn->handshake->conn = conn;
    conn->super.iface = &iface->super;
    conn->item.fd = fd;
    conn->item.ready = conn_ready;
    conn->state = (uint8_t)state;
    cw_list_init(&conn->link);
    return conn;
}

void cw_tcp_handshake_free(struct cw_tcp_conn *conn)
{
    if (conn->handshake != NULL) {
        cw_poller_alarm_cancel(cw_tcp_iface_of(&conn->super)->poller, &conn->handshake->alarm);
        cw_tcp_handshake_release(cw_tcp_iface_of(&conn->super), conn->handshake);
        conn->handshake = NULL;
    }
}

static void note_active(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (iface->active != conn) {
        iface->active = conn;
        iface->hot = NULL;
        iface->streak = 0;
    }
    if (iface->hot == NULL && ++iface->streak >= CW_TCP_STREAK) {
        iface->hot = conn;
    }
    conn->fruitless = 0;
}

static void forget_active(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (iface->active == conn) {
        iface->active = iface->hot = NULL;
    }
}

void cw_tcp_conn_drop_fd(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    forget_active(conn);
    cw_tcp_filter_free(conn);
    watch_pause(conn);
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
        iface->num_unauth -= conn->state == CW_TCP_UNAUTH;
        iface->num_lingering -= conn->state == CW_TCP_LINGERING;
        if (iface->num_unauth == 0) {
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
    cw_tcp_handshake_free(conn);
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
    note_active(conn);
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

static void mark_closed(struct cw_tcp_conn *conn, ucs_status_t status)
{
    cw_tcp_conn_leave(conn);
    cw_tcp_conn_drop_fd(conn);
    free(conn->rx_frame);
    free(conn->place);
    conn->rx_frame = NULL;
    conn->place = NULL;
    conn->state = CW_TCP_CLOSED;
    conn->broken = status;
}

void cw_tcp_conn_end(struct cw_tcp_conn *conn, ucs_status_t status)
{
    mark_closed(conn, status);
    cw_tcp_tx_cancel(conn, status, 0);
    conn->super.iface->upcalls->closed(&conn->super, status);
}

/* The peer sends a whole message at once, so the rest must arrive soon. */
void cw_tcp_handshake_await_rest(struct cw_tcp_conn *conn, unsigned (*expire)(struct cw_alarm *alarm))
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_handshake *handshake = conn->handshake;
    const uint64_t interval_ns = iface->settings.silence_ns;
    const int waits = cw_alarm_is_set(&handshake->alarm) && handshake->alarm.fire == expire;

    if (handshake->have == 0) {
        if (waits) {
            cw_poller_alarm_cancel(iface->poller, &handshake->alarm);
        }
    } else if (!waits) {
        cw_poller_alarm_cancel(iface->poller, &handshake->alarm);
        handshake->alarm.fire = expire;
        cw_poller_alarm_set(iface->poller, &handshake->alarm,
                            cw_clock_ns() + ((interval_ns > 0 && interval_ns < CW_TCP_HELLO_TIMEOUT_NS) ?
                                             interval_ns : CW_TCP_HELLO_TIMEOUT_NS));
    }
}

int cw_tcp_handshake_read(struct cw_tcp_conn *conn, size_t need)
{
    struct cw_tcp_handshake *handshake = conn->handshake;
    ssize_t got;

    while (handshake->have < need) {
        got = cw_tcp_filter_recv(conn, handshake->in + handshake->have, need - handshake->have);
        if (got <= 0) {
            got = (got == 0) ? -EPIPE : got;
            return (got == -EAGAIN) ? 0 : (int)got;
        }
        handshake->have += (size_t)got;
    }
    return 1;
}

/* True if closing the descriptor can lose nothing. A peer that has sent FIN may still receive. */
static int linger_step(struct cw_tcp_conn *conn)
{
    if (conn->tx != NULL) {
        (void)cw_tcp_send_rest(conn);
    }
    if (conn->tx != NULL && conn->broken == UCS_OK) {
        conn->rx_eof |= (uint8_t)cw_net_discard(conn->item.fd, DISCARD_BYTES);
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

/* One step of a lingering connection. */
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

/* Drops connections that linger too long: the kernel continues to send its bytes, and the peer's bytes need not be read
 * for ever. */
unsigned cw_tcp_lingering_expire(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, linger_deadline);
    const uint64_t now_ns = cw_clock_ns();
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

    forget_active(conn);
    cw_tcp_filter_leave(conn);
    cw_tcp_conn_leave(conn);
    cw_tcp_handshake_free(conn);
    free(conn->rx_frame);
    free(conn->place);
    conn->rx_frame = NULL;
    conn->place = NULL;
    conn->super.user = NULL;
    conn->wants_space = 0;
    conn->state = CW_TCP_LINGERING;
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
    const int healthy = conn->state == CW_TCP_OPEN && conn->broken == UCS_OK;

    conn->broken = UCS_ERR_CANCELED;
    cw_tcp_tx_cancel(conn, UCS_ERR_CANCELED, healthy);
    if (!healthy) {
        cw_tcp_conn_free(conn);
        return;
    }
    conn->broken = UCS_OK;
    cw_tcp_conn_linger(conn);
}

void cw_tcp_abandon(struct cw_conn *super)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);

    if (conn->handshake != NULL) {
        cw_poller_alarm_cancel(cw_tcp_iface_of(super)->poller, &conn->handshake->alarm);
    }
    mark_closed(conn, UCS_ERR_CANCELED);
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
        note_active(conn);
    }
    return sent + received;
}

static unsigned conn_ready(struct cw_poll_item *item, unsigned events)
{
    struct cw_tcp_conn *conn = cw_container_of(item, struct cw_tcp_conn, item);

    switch ((enum cw_tcp_state)conn->state) {
    case CW_TCP_CONNECTING:
    case CW_TCP_HANDSHAKE:
        return cw_tcp_dial_ready(conn);
    case CW_TCP_UNAUTH:
        return cw_tcp_unauth_ready(conn);
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
