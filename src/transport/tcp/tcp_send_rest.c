/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes that the kernel did not take at once: the buffers that belong to a connection and the operations that wait for
 * them; batches; and the end of a packet that the kernel keeps because another one is to follow (MSG_MORE).
 */
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_send.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/log.h"

int cw_tcp_tx_reserve(struct cw_tcp_iface *iface)
{
    struct cw_tcp_tx *tx = iface->spare_tx;

    if (cw_likely(tx != NULL)) {
        return 1;
    }
    tx = malloc(sizeof(*tx) + iface->tx_capacity);
    if (tx == NULL) {
        return 0;
    }
    memset(tx, 0, sizeof(*tx));
    iface->spare_tx = tx;
    iface->num_tx++;
    return 1;
}

void cw_tcp_tx_release(struct cw_tcp_iface *iface, struct cw_tcp_tx *tx)
{
    if (iface->spare_tx != NULL) {
        iface->num_tx--;
        free(tx);
        return;
    }
    memset(tx, 0, sizeof(*tx));
    iface->spare_tx = tx;
}

static unsigned interest(const struct cw_tcp_conn *conn)
{
    return ((conn->tx != NULL || conn->wants_room) ? CW_POLL_WRITE : 0u) | (conn->deaf ? 0u : CW_POLL_READ);
}

void cw_tcp_tx_update_interest(struct cw_tcp_conn *conn)
{
    if (conn->item.fd >= 0) {
        cw_poller_modify(cw_tcp_iface_of(&conn->super)->poller, &conn->item, interest(conn));
    }
}

void cw_tcp_want_room(struct cw_tcp_conn *conn)
{
    if (!conn->wants_room) {
        conn->wants_room = 1;
        if (conn->state == CW_TCP_OPEN) {
            cw_tcp_tx_update_interest(conn);
        }
    }
}

ucs_status_t cw_tcp_send_failed(struct cw_tcp_conn *conn, ssize_t error)
{
    const ucs_status_t status = cw_tcp_end_status(error);

    cw_debug("cannot send on TCP connection %d: %s", conn->item.fd, strerror((int)-error));
    cw_tcp_conn_note_end(conn, strerror((int)-error));
    conn->failed = 1;
    conn->broken = status;
    if (conn->state == CW_TCP_OPEN && cw_list_empty(&conn->link)) {
        cw_tcp_tell_later(conn);
    }
    return status;
}

int cw_tcp_tx_advance(struct cw_tcp_tx *tx, size_t n)
{
    struct iovec *iov;
    size_t part = tx->length - tx->head;

    part = (n < part) ? n : part;
    tx->head += part;
    n -= part;
    while (tx->iov_first < tx->iov_count) {
        iov  = &tx->iov[tx->iov_first];
        part = (n < iov->iov_len) ? n : iov->iov_len;
        if (part < iov->iov_len) {
            iov->iov_base = (char *)iov->iov_base + part;
            iov->iov_len -= part;
            break;
        }
        n -= part;
        tx->iov_first++;
    }
    return tx->head == tx->length && tx->iov_first == tx->iov_count;
}

ssize_t cw_tcp_tx_offer(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx, int more)
{
    struct iovec iov[1 + CW_TCP_MAX_IOV];
    const unsigned count = tx->iov_count - tx->iov_first;

    if (count == 0 && !more) {
        conn->corked = 0;
        return cw_tcp_filter_send(conn, tx->bytes + tx->head, tx->length - tx->head);
    }
    iov[0].iov_base = tx->bytes + tx->head;
    iov[0].iov_len  = tx->length - tx->head;
    memcpy(&iov[1], &tx->iov[tx->iov_first], count * sizeof(*iov));
    if (conn->filter != NULL) {
        return cw_tcp_filter_sendv(conn, iov, 1 + count);
    }
    conn->corked = more != 0;
    return more ? cw_net_sendv_more(conn->item.fd, iov, 1 + count) : cw_net_sendv(conn->item.fd, iov, 1 + count);
}

void cw_tcp_tx_drop(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx)
{
    if (tx == conn->tx) {
        conn->tx        = NULL;
        conn->collected = 0;
        cw_tcp_tx_release(cw_tcp_iface_of(&conn->super), tx);
    } else {
        memset(tx, 0, sizeof(*tx));
    }
}

void cw_tcp_push(struct cw_tcp_conn *conn, int more)
{
    struct cw_tcp_tx *tx = conn->tx;
    const ssize_t sent   = cw_tcp_tx_offer(conn, tx, more);

    conn->collected = 0;
    if (sent >= 0 && cw_tcp_tx_advance(tx, (size_t)sent)) {
        cw_tcp_tx_drop(conn, tx);
    } else if (sent < 0 && sent != -EAGAIN) {
        (void)cw_tcp_send_failed(conn, sent);
    } else {
        cw_tcp_tx_update_interest(conn);
    }
}

/* Has the kernel send the end of the last packet, because no other one follows. */
static void uncork(struct cw_tcp_conn *conn)
{
    if (conn->collected) {
        cw_tcp_push(conn, 0);
    } else if (conn->corked && conn->tx == NULL && conn->item.fd >= 0) { /* otherwise the rest is sent without `more` */
        conn->corked = 0;
        cw_net_push(conn->item.fd);
    }
}

void cw_tcp_batch(struct cw_conn *super, enum cw_batch what)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);

    switch (what) {
    case CW_BATCH_LONG:
        conn->more = 1;
        conn->batches++;
        return;
    case CW_BATCH_BEGIN:
        conn->batches++;
        return;
    case CW_BATCH_LAST:
        conn->more = 0;
        return;
    default:
        break;
    }
    conn->batches--;
    if (conn->batches == 0) {
        conn->more = 0;
        uncork(conn);
    }
}

ucs_status_t cw_tcp_flush(struct cw_conn *super, struct cw_completion *completion)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    struct cw_tcp_tx *tx;

    if (completion != NULL) {
        uncork(conn);
    }
    tx = conn->tx;
    if (conn->broken != UCS_OK) {
        return conn->broken;
    }
    if (completion == NULL) {
        return (tx == NULL) ? UCS_OK : UCS_INPROGRESS;
    }
    if (tx == NULL) {
        return UCS_OK;
    }
    if (tx->num_flushes == CW_TCP_MAX_FLUSHES) {
        return cw_tcp_again(conn);
    }
    tx->flushes[tx->num_flushes++] = completion;
    return UCS_INPROGRESS;
}

int cw_tcp_owes(const struct cw_iface *super)
{
    const struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);

    return iface->num_tx > (iface->spare_tx != NULL);
}

/* Releases the buffer before the callbacks run, because they may send. */
static unsigned complete_tx(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx, ucs_status_t status)
{
    struct cw_completion *done[1 + CW_TCP_MAX_FLUSHES];
    unsigned count = 0, i;

    if (tx->zcopy != NULL) {
        done[count++] = tx->zcopy;
    }
    for (i = 0; i < tx->num_flushes; i++) {
        done[count++] = tx->flushes[i];
    }
    tx->zcopy       = NULL;
    tx->num_flushes = 0;
    if (conn->tx != tx) {
        cw_tcp_tx_release(cw_tcp_iface_of(&conn->super), tx);
    }
    for (i = 0; i < count; i++) {
        done[i]->done(done[i], status);
    }
    return count;
}

unsigned cw_tcp_send_rest(struct cw_tcp_conn *conn)
{
    struct cw_tcp_tx *tx = conn->tx;
    unsigned events      = 0;
    ssize_t sent;

    if (tx != NULL) {
        conn->collected = 0; /* a batch may be in progress */
        sent            = cw_tcp_tx_offer(conn, tx, 0);
        if (sent == -EAGAIN) {
            return 0;
        }
        if (sent < 0) {
            (void)cw_tcp_send_failed(conn, sent);
            return 0;
        }
        if (!cw_tcp_tx_advance(tx, (size_t)sent)) {
            return 1;
        }
        conn->tx = NULL;
        events = 1 + complete_tx(conn, tx, UCS_OK);
    }
    if (conn->wants_room && conn->tx == NULL && conn->state == CW_TCP_OPEN && conn->broken == UCS_OK) {
        conn->wants_room = 0;
        events++;
        conn->super.iface->upcalls->room(&conn->super);
    }
    cw_tcp_tx_update_interest(conn);
    return events;
}

void cw_tcp_tx_cancel(struct cw_tcp_conn *conn, ucs_status_t status, int keep_bytes)
{
    struct cw_tcp_tx *tx = conn->tx;

    if (tx == NULL) {
        return;
    }
    if (!keep_bytes || tx->zcopy != NULL) {
        conn->tx        = NULL;
        conn->collected = 0;
    }
    (void)complete_tx(conn, tx, status);
}
