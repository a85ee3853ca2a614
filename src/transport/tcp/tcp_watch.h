/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Noticing that a peer's machine has fallen silent (UCX_KEEPALIVE_INTERVAL), on connections of which the core wants to
 * know (slot `watch`).
 *
 * A connection without anything to be acknowledged is probed by the system, which costs this process nothing. One that
 * has sent something is looked at a few times per interval until all is acknowledged; then it is quiet again. The
 * system's own limit for that (TCP_USER_TIMEOUT) would not do: it takes a peer for dead whose program merely does not
 * read for long.
 */
#ifndef CW_TRANSPORT_TCP_TCP_WATCH_H
#define CW_TRANSPORT_TCP_TCP_WATCH_H

#include "transport/tcp/tcp.h"

struct cw_tcp_watch {
    struct cw_list link;          /* iface->in_flight, unless the connection is quiet */
    struct cw_tcp_conn *conn;
    uint64_t silent_ns;           /* since when the peer's system does not answer; 0: it does */
};

/* The slot. Also of a connection that is not established yet. */
void cw_tcp_watch(struct cw_conn *conn);
/* A further socket has joined its connection. */
void cw_tcp_watch_joined(struct cw_tcp_conn *conn);
/* The connection is there and its greeting on the way; the answer may take as long as the peer's program likes. */
void cw_tcp_watch_greeting(struct cw_tcp_conn *conn);
void cw_tcp_watch_greeted(struct cw_tcp_conn *conn);
/* conn->quiet is set and something is about to be sent. */
void cw_tcp_watch_sends(struct cw_tcp_conn *conn);
/* The descriptor goes. */
void cw_tcp_watch_pause(struct cw_tcp_conn *conn);
/* `fire` of iface->look. */
unsigned cw_tcp_watch_look(struct cw_alarm *alarm);

#endif
