/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks, see tcp_mark.h. The delay is equal for all connections, so the list of those that are due is a queue. A mark
 * is only sent when the kernel has all bytes before it; bytes that it does not have yet start the delay again when they
 * are sent.
 */
#include "transport/tcp/tcp_mark.h"

#include <string.h>

#include "base/compiler.h"
#include "os/clock.h"
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_filter_wire.h"
#include "transport/tcp/tcp_send.h"

#define WAIT_NS UINT64_C(1000000000)
#define PARTS   8u

/* Longer than a record of any filter. */
static const uint8_t padding[CW_TCP_MARK_MAX / PARTS];

_Static_assert(sizeof(padding) * PARTS > CW_TCP_RECORD_HEAD + CW_TCP_RECORD_MAX, "a long mark outlasts a record");

static void enqueue(struct cw_tcp_conn *conn, uint64_t now_ns)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_mark *mark   = &conn->filter->mark;

    mark->due_ns = now_ns + WAIT_NS;
    cw_list_add_tail(&iface->spoke, &mark->link);
    if (!cw_alarm_is_set(&iface->mark_due)) {
        cw_poller_alarm_set(iface->poller, &iface->mark_due, mark->due_ns);
    }
}

void cw_tcp_mark_leave(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (!cw_list_empty(&conn->filter->mark.link)) {
        cw_list_remove(&conn->filter->mark.link);
        if (cw_list_empty(&iface->spoke)) {
            cw_poller_alarm_cancel(iface->poller, &iface->mark_due);
        }
    }
}

void cw_tcp_mark_spoke(struct cw_tcp_conn *conn)
{
    struct cw_tcp_mark *mark = &conn->filter->mark;

    if (cw_likely(mark->spoke) || mark->sends || conn->state != CW_TCP_OPEN) {
        return;
    }
    mark->spoke = 1;
    if (cw_list_empty(&mark->link)) {
        enqueue(conn, cw_clock_ns());
    }
}

static void send_mark(struct cw_tcp_conn *conn, enum cw_tcp_mark_kind kind, uint32_t number, int is_long)
{
    const struct cw_tcp_mark_body body = {htole32(number), (uint8_t)kind, {0, 0, 0}};

    conn->filter->mark.sends = 1;
    (void)cw_tcp_send_mark(conn, &body, padding, sizeof(padding), is_long ? PARTS : 0);
    if (conn->filter != NULL) {
        conn->filter->mark.sends = 0;
    }
}

/* Sends the first or the second question. 0: there is no memory now. */
static int ask(struct cw_tcp_conn *conn, uint64_t now_ns)
{
    struct cw_tcp_mark *mark = &conn->filter->mark;

    if (conn->tx != NULL || conn->broken != UCS_OK) {
        mark->spoke = mark->asks = 0;
        return 1;
    }
    if (!cw_tcp_tx_reserve(cw_tcp_iface_of(&conn->super))) {
        return 0;
    }
    if (mark->spoke) {
        mark->spoke = 0;
        mark->asks  = 1;
        enqueue(conn, now_ns);
        send_mark(conn, CW_TCP_MARK_ASKS, ++mark->number, 0);
    } else if (mark->asks) {
        mark->asks = 0;
        send_mark(conn, CW_TCP_MARK_ASKS, mark->number, 1);
    }
    return 1;
}

unsigned cw_tcp_marks_send(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, mark_due);
    const uint64_t now_ns      = cw_clock_ns();
    struct cw_tcp_mark *mark;
    struct cw_tcp_conn *conn;

    while (!cw_list_empty(&iface->spoke)) {
        mark = cw_list_head(&iface->spoke, struct cw_tcp_mark, link);
        if (mark->due_ns > now_ns) {
            cw_poller_alarm_set(iface->poller, alarm, mark->due_ns);
            break;
        }
        cw_list_remove(&mark->link);
        conn = cw_container_of(mark, struct cw_tcp_filter, mark)->conn;
        if (!ask(conn, now_ns)) {
            enqueue(conn, now_ns);
        }
    }
    return 0;
}

int cw_tcp_mark_arrived(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length)
{
    struct cw_tcp_mark_body body;
    struct cw_tcp_mark *mark;

    if (conn->filter == NULL || length < sizeof(body)) {
        return 0;
    }
    memcpy(&body, bytes, sizeof(body));
    mark = &conn->filter->mark;
    if (body.kind == CW_TCP_MARK_ANSWERS) {
        if (le32toh(body.number) == mark->number) {
            mark->asks = 0;
            if (!mark->spoke) {
                cw_tcp_mark_leave(conn);
            }
        }
        return 1;
    }
    if (body.kind != CW_TCP_MARK_ASKS) {
        return 0;
    }
    if (conn->tx == NULL && conn->broken == UCS_OK &&
        cw_tcp_tx_reserve(cw_tcp_iface_of(&conn->super))) {
        send_mark(conn, CW_TCP_MARK_ANSWERS, le32toh(body.number), 0);
    }
    return 1;
}
