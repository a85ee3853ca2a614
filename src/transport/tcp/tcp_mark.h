/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks: short frames that a protected connection sends when it has sent bytes and then none for a moment, so that the
 * peer notices if bytes before them were dropped on the way. A filter notices dropped bytes by the bytes behind them;
 * without any, both sides would wait for each other (docs/why/silence.md).
 *
 * A moment after a connection has sent something it asks the peer once, by a small mark. If no answer comes, it sends a
 * mark that is longer than any record: with it the record is complete that the peer still waits for, and its check
 * fails. After that the connection sends no more marks, with or without an answer: the peer may just be busy.
 */
#ifndef CW_TRANSPORT_TCP_TCP_MARK_H
#define CW_TRANSPORT_TCP_TCP_MARK_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "ucs/type/status.h"

struct cw_alarm;
struct cw_tcp_conn;
struct cw_tcp_mark_body;

/* Belongs to a filter; zero but for its link. */
struct cw_tcp_mark {
    struct cw_list link;    /* in iface->spoke, by due_ns, or alone; iface->mark_due is set while that list has any */
    uint64_t due_ns;
    uint32_t number;        /* of the last question */
    uint8_t spoke;          /* bytes were sent since the last question */
    uint8_t asks;           /* it has asked, and waits for the answer to ask once more */
    uint8_t sends;          /* it is sending a mark */
};

/* Bytes were sent through the filter. */
void cw_tcp_mark_spoke(struct cw_tcp_conn *conn);
/* The body of a mark arrived. 0: it is not valid. */
int cw_tcp_mark_arrived(struct cw_tcp_conn *conn, const uint8_t *body, size_t length);
/* The filter leaves its iface. */
void cw_tcp_mark_leave(struct cw_tcp_conn *conn);
/* `fire` of iface->mark_due. */
unsigned cw_tcp_marks_send(struct cw_alarm *alarm);

/* tcp_send.c. Sends a mark: its body and `count` times the padding, which is not copied. There must be no unsent bytes,
 * and the spare tx must be there. */
ucs_status_t cw_tcp_send_mark(struct cw_tcp_conn *conn, const struct cw_tcp_mark_body *body, const void *padding,
                              size_t length, unsigned count);

#endif
