/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further sockets of a TCP connection, which carry placed packets only.
 */
#ifndef CW_TRANSPORT_TCP_TCP_RAILS_H
#define CW_TRANSPORT_TCP_TCP_RAILS_H

#include "transport/tcp/tcp.h"

/* The acceptor writes a pass, or nothing: returns its length. */
size_t cw_tcp_rails_offer(struct cw_tcp_conn *conn, void *pass);
/* The dialler got that pass. Without memory there will be no further sockets. */
void cw_tcp_rails_take(struct cw_tcp_conn *conn, const void *pass);
/* A large packet comes or goes: the dialler opens the further sockets, once. */
void cw_tcp_rails_want(struct cw_tcp_conn *conn);
/* A stranger came with the pass in its greeting. NULL: joined, or why not. */
const char *cw_tcp_rails_join(struct cw_tcp_conn *conn, enum cw_log_level *level_p);
/* The socket for a placed packet: an idle one, the first only if no other is; NULL: none. */
struct cw_tcp_conn *cw_tcp_rails_choose(struct cw_tcp_conn *conn);
/* Whether further sockets have unsent bytes, as bits of waits_for. */
unsigned cw_tcp_rails_busy(const struct cw_tcp_conn *conn);
/* This socket has sent everything: writes the flushes that waited for it alone to `done`, and returns how many. */
unsigned cw_tcp_rails_drained(struct cw_tcp_conn *conn, struct cw_completion **done);
/* A socket came to its end. The connection is lost with the last one; until then the others are read. From progress. */
void cw_tcp_rails_ended(struct cw_tcp_conn *conn, ucs_status_t status);
/* Nothing more is sent on any socket, and the connection ends when all have been read. From progress. */
void cw_tcp_rails_broke(struct cw_tcp_conn *first);
/* Takes a further socket out of its connection and frees it. */
void cw_tcp_rails_leave(struct cw_tcp_conn *conn);
/* Frees the further sockets, after their completions; `linger`: those that are open in the background. */
void cw_tcp_rails_end(struct cw_tcp_conn *conn, ucs_status_t status, int linger);

/* tcp_rail_count.c. The answer JOINED came with this body. 0: it is none. */
int cw_tcp_rail_named(struct cw_tcp_conn *conn, const void *body);
/* A further socket came to its end. True: it is gone, and the connection may live without it. From progress. */
int cw_tcp_rail_died(struct cw_tcp_conn *conn);
/* The peer told its numbers. 0: they are none. */
int cw_tcp_rail_heard(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length);
/* From progress, later. 0: to be called again. */
int cw_tcp_rails_settle(struct cw_tcp_conn *first, unsigned *events);
/* There is room for what could not be told. */
void cw_tcp_rails_tell(struct cw_tcp_conn *first);

#endif
