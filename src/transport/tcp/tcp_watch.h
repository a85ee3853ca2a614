/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Noticing that a peer's machine has fallen silent (UCX_KEEPALIVE_INTERVAL), on connections of which the core wants to
 * know (slot `watch`).
 *
 * A connection without anything to be acknowledged is probed by the system, which costs this process nothing. One that
 * has sent something is looked at a few times per interval until all is acknowledged; then it is quiet again. The
 * system's own limit for that (TCP_USER_TIMEOUT) would not do: it takes a peer for dead whose program merely does not
 * read for long. It does for what is on the way already, and so it takes the place of the looks while the program
 * sleeps: they wake nobody then.
 */
#ifndef CW_TRANSPORT_TCP_TCP_WATCH_H
#define CW_TRANSPORT_TCP_TCP_WATCH_H

#include "transport/tcp/tcp.h"

struct cw_tcp_watch {
    struct cw_list link;          /* iface->in_flight, unless the connection is quiet */
    struct cw_tcp_conn *conn;
    uint64_t silent_ns;           /* since when the peer's system does not answer; 0: it does */
    uint64_t stands_ns;           /* tcp_position.h: since when nothing more of a packet has come; 0: it is whole */
    uint64_t tell_ns;             /* when the peer is to be told so */
    uint32_t taken;               /* conn->received at the last look */
    uint32_t first;               /* conn->received before anything came, if it awaits that */
    uint32_t acknowledged;        /* conn->sent when the peer's system had all of it */
    uint32_t known;               /* conn->sent of which the peer has all, or was asked enough */
    uint32_t asked;               /* behind the last question */
    uint32_t seen;                /* at the last look */
    uint32_t number;              /* of the last question */
    uint8_t questions;
    uint8_t looks;                /* since anything was said, or asked */
    uint8_t talked;               /* looks that found something said, since the last question */
    uint8_t by_system;            /* the system has a limit for what is not acknowledged */
};

/* The slot. Also of a connection that is not established yet. */
void cw_tcp_watch(struct cw_conn *conn);
/* The connection is there and its greeting on the way; the answer may take as long as the peer's program likes. */
void cw_tcp_watch_greeting(struct cw_tcp_conn *conn);
void cw_tcp_watch_greeted(struct cw_tcp_conn *conn);
/* conn->quiet is set and something is about to be sent, or a packet has come in part. */
void cw_tcp_watch_sends(struct cw_tcp_conn *conn);
/* The program is about to sleep. */
void cw_tcp_watch_settle(struct cw_tcp_iface *iface);
/* From one look to the next; 0: there are none. */
uint64_t cw_tcp_watch_pace(const struct cw_tcp_conn *conn);
/* The peer's machine is taken for dead: for the log. */
void cw_tcp_watch_tell(struct cw_tcp_conn *conn);
/* The descriptor goes. */
void cw_tcp_watch_pause(struct cw_tcp_conn *conn);
/* `fire` of iface->look. */
unsigned cw_tcp_watch_look(struct cw_alarm *alarm);

#endif
