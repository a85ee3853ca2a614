/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions for all filters: the calls of their operations, and the list of filters with bytes that no descriptor
 * announces.
 */
#include "transport/tcp/tcp_filter.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "transport/tcp/tcp_filter_wire.h"
#include "transport/tcp/tcp_send.h"

#define EMPTY_SIZE 1024u

ssize_t cw_tcp_filter_sendv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count)
{
    const ssize_t sent = conn->filter->ops->sendv(conn->filter, iov, count);

    conn->filter->said += (sent > 0) ? (size_t)sent : 0;
    return sent;
}

ssize_t cw_tcp_filter_send(struct cw_tcp_conn *conn, const void *data, size_t length)
{
    const struct iovec iov = {(void *)(uintptr_t)data, length};

    return (conn->filter != NULL) ? cw_tcp_filter_sendv(conn, &iov, 1) : cw_net_send(conn->item.fd, data, length);
}

ssize_t cw_tcp_filter_recvv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count)
{
    struct cw_tcp_filter *filter = conn->filter;
    const ssize_t got            = filter->ops->recvv(filter, iov, count);

    if (filter->has_unread) {
        cw_tcp_filter_enter(conn);
    } else {
        cw_list_remove(&filter->unread);
    }
    return got;
}

ssize_t cw_tcp_filter_recv(struct cw_tcp_conn *conn, void *data, size_t length)
{
    const struct iovec iov = {data, length};

    return (conn->filter != NULL) ? cw_tcp_filter_recvv(conn, &iov, 1) : cw_net_recv(conn->item.fd, data, length);
}

void cw_tcp_filter_free(struct cw_tcp_conn *conn)
{
    struct cw_tcp_filter *filter = conn->filter;

    if (filter != NULL) {
        conn->filter = NULL;
        cw_list_remove(&filter->unread);
        filter->ops->free(filter);
    }
}

void cw_tcp_filter_leave(struct cw_tcp_conn *conn)
{
    if (conn->filter != NULL) {
        cw_list_remove(&conn->filter->unread);
    }
}

void cw_tcp_filter_enter(struct cw_tcp_conn *conn)
{
    if (conn->filter != NULL && conn->filter->has_unread && cw_list_empty(&conn->filter->unread)) {
        cw_list_add_tail(&cw_tcp_iface_of(&conn->super)->unread, &conn->filter->unread);
        cw_poller_stir(cw_tcp_iface_of(&conn->super)->poller);
    }
}

unsigned cw_tcp_filter_progress(struct cw_tcp_iface *iface)
{
    struct cw_list unread;
    struct cw_list *link;
    struct cw_tcp_conn *conn;
    unsigned events = 0;

    cw_list_init(&unread);
    cw_list_splice_tail(&unread, &iface->unread);
    while ((link = cw_list_pop_head(&unread)) != NULL) {
        conn = cw_container_of(link, struct cw_tcp_filter, unread)->conn;
        cw_list_add_tail(&iface->unread, link); /* until it has no more such bytes */
        events += conn->item.ready(&conn->item, CW_POLL_READ);
    }
    return events;
}

bool cw_tcp_filter_look(struct cw_tcp_conn *conn)
{
    static const uint8_t empty[EMPTY_SIZE] = {[4] = 2}; /* a peer of release 1.0 refuses other beginnings */
    struct cw_tcp_filter *filter           = conn->filter;
    const size_t said                      = filter->said;
    size_t sent;

    if (said == 0 || conn->broken != UCS_OK) {
        return false;
    }
    if (said != filter->seen) {
        filter->seen = said;
        return true;
    }
    for (sent = 0; sent < said && sent < CW_TCP_RECORD_MAX; sent += EMPTY_SIZE) {
        if (conn->tx != NULL || !cw_tcp_tx_reserve(cw_tcp_iface_of(&conn->super)) ||
            cw_tcp_send_frame(conn, CW_TCP_EMPTY, empty, sizeof(empty)) != UCS_OK) {
            return true;
        }
    }
    filter->said = filter->seen = 0;
    return false;
}

const char *cw_tcp_filter_reason(const struct cw_tcp_conn *conn, ssize_t error)
{
    return (conn->filter != NULL && conn->filter->why != NULL) ? conn->filter->why : strerror((int)-error);
}
