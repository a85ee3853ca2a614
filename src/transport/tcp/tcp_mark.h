/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks: what a guarded connection says when it has said something and then nothing, so that bytes that were dropped on
 * the way are missed. A guard notices them by those that follow, and where none follow both sides would wait for each
 * other (docs/why/silence.md).
 *
 * A moment after a connection spoke it asks the peer, once: a small mark. If no answer comes it asks by a mark that is
 * longer than any record, which completes whatever the peer still waits for, wrongly. Then it is silent whether the
 * peer answers or not: it may just be busy.
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

/* Of a guard; zero but for its link. */
struct cw_tcp_mark {
    struct cw_list link;    /* iface->spoke, by due_ns, or alone; iface->mark_due is set while there are any */
    uint64_t due_ns;
    uint32_t number;        /* of the last question */
    uint8_t spoke;          /* since that */
    uint8_t asks;           /* and waits for the answer, to ask once more */
    uint8_t sends;          /* a mark just now */
};

/* Bytes were sent through the guard. */
void cw_tcp_mark_spoke(struct cw_tcp_conn *conn);
/* The body of a mark arrived. 0: it is none. */
int cw_tcp_mark_arrived(struct cw_tcp_conn *conn, const uint8_t *body, size_t length);
/* The guard leaves its iface. */
void cw_tcp_mark_leave(struct cw_tcp_conn *conn);
/* `fire` of iface->mark_due. */
unsigned cw_tcp_marks_send(struct cw_alarm *alarm);

/* tcp_send.c. Sends a mark, its body and `count` times the padding, which stays where it is. Nothing must be unsent,
 * and the spare tx there. */
ucs_status_t cw_tcp_send_mark(struct cw_tcp_conn *conn, const struct cw_tcp_mark_body *body, const void *padding,
                              size_t length, unsigned count);

#endif
