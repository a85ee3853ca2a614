/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds out that a peer's machine has fallen silent (UCX_KEEPALIVE_INTERVAL), for connections that the core asks about
 * (slot `watch`).
 *
 * The system probes a connection that has nothing to be acknowledged, which costs this process nothing. A connection
 * that has sent bytes is looked at a few times per interval until all are acknowledged; then it is quiet again. The
 * system's own limit for unacknowledged bytes (TCP_USER_TIMEOUT) is not used for that: it would take a peer for dead
 * whose program merely does not read for a long time. It is safe for bytes that are on the way already, so it replaces
 * the looks while the program sleeps: no look wakes the program then.
 */
#ifndef CW_TRANSPORT_TCP_TCP_WATCH_H
#define CW_TRANSPORT_TCP_TCP_WATCH_H

#include "transport/tcp/tcp.h"

struct cw_tcp_watch {
    struct cw_list link;          /* iface->in_flight, unless the connection is quiet */
    struct cw_tcp_conn *conn;
    uint64_t silent_ns;           /* since when the peer's system does not answer; 0: it does */
    uint8_t by_system;            /* the system has a limit for unacknowledged bytes */
};

/* The slot of the transport's table. Also for a connection that is not established yet. */
void cw_tcp_watch(struct cw_conn *conn);
/* The connection is established and its greeting on the way; the peer's program may take any time to answer. */
void cw_tcp_watch_greeting(struct cw_tcp_conn *conn);
void cw_tcp_watch_greeted(struct cw_tcp_conn *conn);
/* conn->quiet is set and bytes are about to be sent. */
void cw_tcp_watch_sends(struct cw_tcp_conn *conn);
/* The program is about to sleep. */
void cw_tcp_watch_settle(struct cw_tcp_iface *iface);
/* Writes to the log that the peer's machine is taken for dead. */
void cw_tcp_watch_tell(struct cw_tcp_conn *conn);
/* The descriptor is about to be closed. */
void cw_tcp_watch_pause(struct cw_tcp_conn *conn);
/* `fire` of iface->look. */
unsigned cw_tcp_watch_look(struct cw_alarm *alarm);

#endif
