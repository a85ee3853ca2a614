/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Positions: how both ends of a plain connection find out that bytes got lost or were added on the way, with nothing
 * behind them that would show it (docs/why/silence.md). Each end counts what it sent and what it took since the
 * connection was established. A frame of the transport tells both numbers: who has said something asks whether all of
 * it came, and who stands in the middle of a packet tells where, so that the other end sees whether the rest is still
 * to come. Connections with a guard have marks instead (tcp_mark.h).
 */
#ifndef CW_TRANSPORT_TCP_TCP_POSITION_H
#define CW_TRANSPORT_TCP_TCP_POSITION_H

#include "transport/tcp/tcp.h"

struct cw_tcp_watch;

/* Whether a packet has begun to come and is not complete. */
static inline int cw_tcp_position_inside(const struct cw_tcp_conn *conn)
{
    return conn->rx_have > 0 || conn->rx_frame != NULL || conn->place != NULL;
}

/* Whether the rest of a packet has to come, or the first one. */
int cw_tcp_position_waits(const struct cw_tcp_watch *watch);
/* Whether that is so, or the peer is still to be asked. */
int cw_tcp_position_is_due(const struct cw_tcp_watch *watch);
/* The look at an open, watched connection without a guard; `unacknowledged`: the peer's system has not all that was
 * sent. 0: nothing is left to be found out until somebody says more. From an alarm. */
int cw_tcp_position_look(struct cw_tcp_watch *watch, uint64_t now_ns, int unacknowledged);
/* The body of such a frame arrived, `behind` bytes from the beginning of the frame to the end of what was received.
 * 0: it is none, or it does not fit, which conn->lossy says. From progress. */
int cw_tcp_position_arrived(struct cw_tcp_conn *conn, const uint8_t *body, size_t length, size_t behind);
/* The greeting was sent and its answer has not begun: tells so, again and again, ever more rarely. The acceptor finds
 * out whether the answer got lost. */
void cw_tcp_position_await_answer(struct cw_tcp_conn *conn);

#endif
