/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watching connections, see tcp_watch.h. A peer is taken for dead when its system has not answered retransmissions or
 * probes for most of the interval; the system of a stopped or busy process still answers.
 */
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_watch.h"

#include <stdlib.h>

#include "base/log.h"
#include "os/clock.h"

#define LOOKS_PER_INTERVAL 8u
#define LOOKS_OF_SILENCE   6u /* the rest is for the first retransmission and for the look that finds it */
#define NS_PER_MS          1000000u

static void begin(struct cw_tcp_conn *conn)
{
    if (conn->watch == NULL) {
        conn->watch = malloc(sizeof(*conn->watch));
    }
    if (conn->watch == NULL) {
        cw_diag("no memory to watch a TCP connection: should the peer's machine fall silent, nobody notices");
        return;
    }
    *conn->watch = (struct cw_tcp_watch){.conn = conn};
    cw_list_init(&conn->watch->link);
    conn->quiet = conn->state == CW_TCP_OPEN;
    if (conn->item.fd >= 0) {
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
        begin(conn);
    }
}

void cw_tcp_watch_greeting(struct cw_tcp_conn *conn)
{
    const struct cw_tcp_settings *settings = &cw_tcp_iface_of(&conn->super)->settings;

    if (conn->watch != NULL) {
        cw_net_keepalive(conn->item.fd, &settings->keepalive);
        cw_net_set_user_timeout(conn->item.fd, settings->silence_ns / NS_PER_MS);
    }
}

void cw_tcp_watch_greeted(struct cw_tcp_conn *conn)
{
    if (conn->watch != NULL) {
        cw_net_set_user_timeout(conn->item.fd, 0);
    }
}

/* Sets the time of the next look. `wakes`: it also wakes a sleeping program. */
static void look_at(struct cw_tcp_iface *iface, uint64_t at_ns, int wakes)
{
    if (iface->look.at_ns == at_ns && iface->look.lazy == !wakes) {
        return;
    }
    if (wakes) {
        cw_poller_alarm_set(iface->poller, &iface->look, at_ns);
    } else {
        cw_poller_alarm_set_lazy(iface->poller, &iface->look, at_ns);
    }
}

static void look_later(struct cw_tcp_iface *iface, uint64_t now_ns)
{
    iface->looked_ns = now_ns;
    look_at(iface, now_ns + iface->settings.silence_ns / LOOKS_PER_INTERVAL, 0);
}

/* Removes the system's limit: the looks do its work again. */
static void take_from_system(struct cw_tcp_watch *watch)
{
    if (watch->by_system) {
        watch->by_system = 0;
        cw_net_set_user_timeout(watch->conn->item.fd, 0);
    }
}

void cw_tcp_watch_sends(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->quiet            = 0;
    conn->watch->silent_ns = 0;
    take_from_system(conn->watch);
    cw_list_remove(&conn->watch->link);
    cw_list_add_tail(&iface->in_flight, &conn->watch->link);
    if (!cw_alarm_is_set(&iface->look)) {
        look_later(iface, cw_clock_ns());
    }
}

void cw_tcp_watch_pause(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->quiet = 0;
    if (conn->watch != NULL) {
        cw_list_remove(&conn->watch->link);
        if (cw_list_empty(&iface->in_flight) && cw_list_empty(&iface->resting)) {
            cw_poller_alarm_cancel(iface->poller, &iface->look);
        }
    }
}

/* Whether a sleeping program must be woken for the next look: the peer does not take the bytes sent to it, or they must
 * be followed by empty frames. */
static bool is_urgent(const struct cw_tcp_conn *conn)
{
    return conn->tx != NULL || (conn->filter != NULL && conn->filter->said > 0) || cw_net_unsent(conn->item.fd) > 0;
}

void cw_tcp_watch_settle(struct cw_tcp_iface *iface)
{
    const uint64_t at_ns = iface->looked_ns + iface->settings.silence_ns / LOOKS_PER_INTERVAL;
    struct cw_tcp_watch *watch, *next;

    cw_list_for_each_safe(watch, next, &iface->in_flight, struct cw_tcp_watch, link) {
        if (is_urgent(watch->conn)) {
            continue;
        }
        cw_list_remove(&watch->link);
        watch->conn->quiet = 1;
        watch->by_system   = 1;
        cw_net_set_user_timeout(watch->conn->item.fd, iface->settings.silence_ns / NS_PER_MS);
        cw_list_add_tail(&iface->resting, &watch->link);
    }
    if (!cw_list_empty(&iface->in_flight) || !cw_list_empty(&iface->resting)) {
        look_at(iface, at_ns, !cw_list_empty(&iface->in_flight));
    }
}

void cw_tcp_watch_tell(struct cw_tcp_conn *conn)
{
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_diag("the machine of %s has acknowledged nothing for UCX_KEEPALIVE_INTERVAL: its connection ends; it is down or "
            "cut off, or, if only long messages are lost, a router drops large packets (net.ipv4.tcp_mtu_probing=1 "
            "helps)",
            peer);
    cw_tcp_conn_note_end(conn, "its machine has acknowledged nothing for UCX_KEEPALIVE_INTERVAL");
}

static void dead(struct cw_tcp_conn *conn)
{
    cw_tcp_watch_tell(conn);
    cw_net_forget(conn->item.fd); /* so that the system does not repeat the remaining bytes */
    if (conn->state == CW_TCP_OPEN) {
        cw_tcp_conn_lost(conn, UCS_ERR_ENDPOINT_TIMEOUT);
    } else {
        cw_tcp_conn_free(conn);
    }
}

/* 1: further looks are needed; 0: the connection is quiet; -1: the peer is dead. */
static int look(struct cw_tcp_watch *watch, uint64_t now_ns, uint64_t passed_ms)
{
    struct cw_tcp_conn *conn   = watch->conn;
    const uint64_t interval_ns = cw_tcp_iface_of(&conn->super)->settings.silence_ns;
    const uint64_t limit_ns    = interval_ns / LOOKS_PER_INTERVAL * LOOKS_OF_SILENCE;
    int more                   = cw_net_unacknowledged(conn->item.fd) > 0;

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
        more |= cw_tcp_filter_look(conn);
    }
    return more;
}

unsigned cw_tcp_watch_look(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, look);
    const uint64_t now_ns      = cw_clock_ns();
    const uint64_t passed_ms   = (now_ns - iface->looked_ns) / NS_PER_MS;
    struct cw_tcp_watch *watch;
    struct cw_list looked, *link;
    unsigned count = 0;
    int more;

    cw_list_init(&looked);
    cw_list_splice_tail(&looked, &iface->in_flight);
    cw_list_splice_tail(&looked, &iface->resting);
    while ((link = cw_list_pop_head(&looked)) != NULL) {
        watch = cw_container_of(link, struct cw_tcp_watch, link);
        take_from_system(watch);
        watch->conn->quiet = 0;
        cw_list_add_tail(&iface->in_flight, &watch->link);
        more = look(watch, now_ns, passed_ms);
        if (more < 0) {
            dead(watch->conn);
            count++;
        } else if (!more) {
            cw_list_remove(&watch->link);
            watch->conn->quiet = 1;
        }
    }
    if (!cw_list_empty(&iface->in_flight)) {
        look_later(iface, now_ns);
    }
    return count;
}
