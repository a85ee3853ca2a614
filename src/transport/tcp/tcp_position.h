/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Positions: both ends of a plain connection use them to notice that bytes were lost or added on the way, when no bytes
 * follow that would show it (docs/why/silence.md). Each end counts the bytes that it sent and took since the connection
 * was established. A frame of the transport tells both numbers. An end that has sent bytes asks whether all of them
 * came; an end that waits within a packet tells its position, so that the other end sees whether the rest is still to
 * come. Connections with a filter have marks instead (tcp_mark.h).
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

/* Whether this end waits for the rest of a packet, or for the first packet. */
int cw_tcp_position_waits(const struct cw_tcp_watch *watch);
/* Whether this end waits for bytes, or the peer is still to be asked. */
int cw_tcp_position_is_due(const struct cw_tcp_watch *watch);
/* A look at an open, watched connection without a filter; `unacknowledged`: the peer's system does not have all bytes
 * that were sent. 0: there is nothing to find out until more bytes are sent. From an alarm. */
int cw_tcp_position_look(struct cw_tcp_watch *watch, uint64_t now_ns, int unacknowledged);
/* The body of a position frame arrived; `behind` is the number of bytes from the beginning of the frame to the end of
 * the bytes received. 0: it is not valid, or the positions differ, and then conn->lossy is set. From progress. */
int cw_tcp_position_arrived(struct cw_tcp_conn *conn, const uint8_t *body, size_t length, size_t behind);
/* The greeting was sent and its answer has not begun: sends the position again and again, at growing intervals. The
 * acceptor notices by it whether the answer was lost. */
void cw_tcp_position_await_answer(struct cw_tcp_conn *conn);

#endif
