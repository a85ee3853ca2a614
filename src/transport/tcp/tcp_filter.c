/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions for all filters: the calls of their operations, and the list of filters with bytes that no descriptor
 * announces.
 */
#include "transport/tcp/tcp_filter.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

ssize_t cw_tcp_filter_sendv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count)
{
    const ssize_t sent = conn->filter->ops->sendv(conn->filter, iov, count);

    if (sent > 0) {
        cw_tcp_mark_spoke(conn);
    }
    return sent;
}

ssize_t cw_tcp_filter_send(struct cw_tcp_conn *conn, const void *data, size_t length)
{
    const struct iovec iov = {(void *)(uintptr_t)data, length};

    return (conn->filter != NULL) ? cw_tcp_filter_sendv(conn, &iov, 1) : cw_net_send(conn->item.fd, data, length);
}

ssize_t cw_tcp_filter_recvv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count, unsigned shown)
{
    struct cw_tcp_filter *filter = conn->filter;
    const ssize_t got            = filter->ops->recvv(filter, iov, count, shown);

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

    return (conn->filter != NULL) ? cw_tcp_filter_recvv(conn, &iov, 1, 0) : cw_net_recv(conn->item.fd, data, length);
}

void cw_tcp_filter_free(struct cw_tcp_conn *conn)
{
    struct cw_tcp_filter *filter = conn->filter;

    if (filter != NULL) {
        cw_tcp_mark_leave(conn);
        conn->filter = NULL;
        cw_list_remove(&filter->unread);
        filter->ops->free(filter);
    }
}

void cw_tcp_filter_leave(struct cw_tcp_conn *conn)
{
    if (conn->filter != NULL) {
        cw_tcp_mark_leave(conn);
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

const char *cw_tcp_filter_reason(const struct cw_tcp_conn *conn, ssize_t error)
{
    return (conn->filter != NULL && conn->filter->why != NULL) ? conn->filter->why : strerror((int)-error);
}
