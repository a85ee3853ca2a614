/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watching connections, see tcp_watch.h. A peer is taken for dead when its system has not answered retransmissions or
 * probes for most of the interval; a stopped or busy process does not keep its system from answering.
 */
#include "transport/tcp/tcp_rails.h"
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
}

void cw_tcp_watch(struct cw_conn *super)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    unsigned i;

    if (cw_tcp_iface_of(super)->settings.silence_ns == 0 || conn->watch != NULL) {
        return;
    }
    begin(conn);
    for (i = 0; conn->rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        if (conn->rails->sockets[i] != NULL) {
            begin(conn->rails->sockets[i]);
        }
    }
}

void cw_tcp_watch_joined(struct cw_tcp_conn *conn)
{
    if (conn->first->watch != NULL) {
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

static void look_later(struct cw_tcp_iface *iface, uint64_t now_ns)
{
    iface->looked_ns = now_ns;
    cw_poller_alarm_set(iface->poller, &iface->look, now_ns + iface->settings.silence_ns / LOOKS_PER_INTERVAL);
}

void cw_tcp_watch_sends(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->quiet            = 0;
    conn->watch->silent_ns = 0;
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
        if (cw_list_empty(&iface->in_flight)) {
            cw_poller_alarm_cancel(iface->poller, &iface->look);
        }
    }
}

/* What the system still has for a dead peer is not sent again and again. Should only that have got lost, it is told so
 * at once. */
static void forget(const struct cw_tcp_conn *first)
{
    unsigned i;

    cw_net_forget(first->item.fd);
    for (i = 0; first->rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        if (first->rails->sockets[i] != NULL) {
            cw_net_forget(first->rails->sockets[i]->item.fd);
        }
    }
}

static void dead(struct cw_tcp_conn *conn)
{
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_diag("the machine of %s has acknowledged nothing for UCX_KEEPALIVE_INTERVAL: its connection ends; it is down or "
            "cut off, or, if only long messages are lost, a router drops large packets (net.ipv4.tcp_mtu_probing=1 "
            "helps)",
            peer);
    forget(cw_tcp_first(conn));
    if (conn->state == CW_TCP_OPEN) {
        cw_tcp_conn_lost(cw_tcp_first(conn), UCS_ERR_ENDPOINT_TIMEOUT);
    } else {
        cw_tcp_conn_free(conn);
    }
}

unsigned cw_tcp_watch_look(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, look);
    const uint64_t now_ns      = cw_clock_ns();
    const uint64_t passed_ms   = (now_ns - iface->looked_ns) / NS_PER_MS;
    const uint64_t limit_ns    = iface->settings.silence_ns / LOOKS_PER_INTERVAL * LOOKS_OF_SILENCE;
    struct cw_tcp_watch *watch;
    struct cw_list looked, *link;
    unsigned count = 0;

    cw_list_init(&looked);
    cw_list_splice_tail(&looked, &iface->in_flight);
    while ((link = cw_list_pop_head(&looked)) != NULL) {
        watch = cw_container_of(link, struct cw_tcp_watch, link);
        if (cw_net_unacknowledged(watch->conn->item.fd) == 0) {
            watch->conn->quiet = 1;
            continue;
        }
        cw_list_add_tail(&iface->in_flight, &watch->link);
        if (!cw_net_is_unanswered(watch->conn->item.fd, passed_ms)) {
            watch->silent_ns = 0;
        } else if (watch->silent_ns == 0) {
            watch->silent_ns = now_ns;
        } else if (now_ns - watch->silent_ns >= limit_ns) {
            dead(watch->conn);
            count++;
        }
    }
    if (!cw_list_empty(&iface->in_flight)) {
        look_later(iface, now_ns);
    }
    return count;
}
