/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending. A frame is built in the iface's spare buffer and passed to the kernel at once. If the kernel does not accept
 * all of it, the rest stays in that buffer, which then belongs to the connection until it is drained, and the iface
 * gets a new spare before the next send. Small frames may be appended to that buffer. Invariant: conn->tx is not NULL
 * exactly while some bytes are unsent. Also completions that wait for such bytes; batches; and corking (MSG_MORE).
 */
#include "transport/tcp/tcp_filter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/probe.h"

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

/* Returns the tx to the iface as spare, or frees it. */
static void tx_release(struct cw_tcp_iface *iface, struct cw_tcp_tx *tx)
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
    return ((conn->tx != NULL || conn->wants_space) ? CW_POLL_WRITE : 0u) | (conn->rx_eof ? 0u : CW_POLL_READ);
}

void cw_tcp_tx_update_interest(struct cw_tcp_conn *conn)
{
    if (conn->item.fd >= 0) {
        cw_poller_modify(cw_tcp_iface_of(&conn->super)->poller, &conn->item, interest(conn));
    }
}

/* Requests the upcall `space`. */
static void want_space(struct cw_tcp_conn *conn)
{
    if (!conn->wants_space) {
        conn->wants_space = 1;
        if (conn->state == CW_TCP_OPEN) {
            cw_tcp_tx_update_interest(conn);
        }
    }
}

static ucs_status_t again(struct cw_tcp_conn *conn)
{
    want_space(conn);
    return CW_AGAIN;
}

/* Why nothing can be sent: the connection has ended, or tx space lacks. */
static ucs_status_t no_space(struct cw_tcp_conn *conn)
{
    return (conn->broken != UCS_OK) ? conn->broken : again(conn);
}

/* A send failed. Progress reports the end of the connection, after the bytes that were received before it. */
static ucs_status_t send_failed(struct cw_tcp_conn *conn, ssize_t error)
{
    const ucs_status_t status = cw_tcp_end_status(error);

    cw_debug("cannot send on TCP connection %d: %s", conn->item.fd, strerror((int)-error));
    cw_tcp_conn_note_end(conn, strerror((int)-error));
    conn->failed = 1;
    conn->broken = status;
    if (conn->state == CW_TCP_OPEN && cw_list_empty(&conn->link)) {
        cw_tcp_notify_later(conn);
    }
    return status;
}

/* Removes n bytes from the front. True if none is left. */
static int tx_advance(struct cw_tcp_tx *tx, size_t n)
{
    struct iovec *iov;
    size_t part = tx->length - tx->head;

    part = (n < part) ? n : part;
    tx->head += part;
    n -= part;
    while (tx->iov_first < tx->iov_count) {
        iov = &tx->iov[tx->iov_first];
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

/* Passes the tx to the kernel once. `more`: other bytes follow at once, or cw_tcp_batch ends. Returns the bytes
 * accepted, or -errno. */
static ssize_t tx_offer(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx, int more)
{
    struct iovec iov[1 + CW_TCP_MAX_IOV];
    const unsigned count = tx->iov_count - tx->iov_first;

    if (count == 0 && !more) {
        conn->corked = 0;
        return cw_tcp_filter_send(conn, tx->bytes + tx->head, tx->length - tx->head);
    }
    iov[0].iov_base = tx->bytes + tx->head;
    iov[0].iov_len = tx->length - tx->head;
    memcpy(&iov[1], &tx->iov[tx->iov_first], count * sizeof(*iov));
    if (conn->filter != NULL) {
        return cw_tcp_filter_sendv(conn, iov, 1 + count);
    }
    conn->corked = more != 0;
    return more ? cw_net_sendv_more(conn->item.fd, iov, 1 + count) : cw_net_sendv(conn->item.fd, iov, 1 + count);
}

/* All bytes of the tx, the spare one or that of a batch, were sent. */
static void tx_drop(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx)
{
    if (tx == conn->tx) {
        conn->tx = NULL;
        conn->collected = 0;
        tx_release(cw_tcp_iface_of(&conn->super), tx);
    } else {
        memset(tx, 0, sizeof(*tx));
    }
}

/* Sends a batch. What the kernel does not accept stays in conn->tx. */
static void push(struct cw_tcp_conn *conn, int more)
{
    struct cw_tcp_tx *tx = conn->tx;
    const ssize_t sent = tx_offer(conn, tx, more);

    conn->collected = 0;
    if (sent >= 0 && tx_advance(tx, (size_t)sent)) {
        tx_drop(conn, tx);
    } else if (sent < 0 && sent != -EAGAIN) {
        (void)send_failed(conn, sent);
    } else {
        cw_tcp_tx_update_interest(conn);
    }
}

/* Makes the kernel send the end of the last packet, because no other one follows. */
static void uncork(struct cw_tcp_conn *conn)
{
    if (conn->collected) {
        push(conn, 0);
    } else if (conn->corked && conn->tx == NULL && conn->item.fd >= 0) { /* otherwise unsent bytes follow without
                                                                          * `more` */
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
        return again(conn);
    }
    tx->flushes[tx->num_flushes++] = completion;
    return UCS_INPROGRESS;
}

int cw_tcp_has_unsent(const struct cw_iface *super)
{
    const struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);

    return iface->num_tx > (iface->spare_tx != NULL);
}

/* Releases the tx before the callbacks run, because they may send. */
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
    tx->zcopy = NULL;
    tx->num_flushes = 0;
    if (conn->tx != tx) {
        tx_release(cw_tcp_iface_of(&conn->super), tx);
    }
    for (i = 0; i < count; i++) {
        done[i]->done(done[i], status);
    }
    return count;
}

unsigned cw_tcp_send_rest(struct cw_tcp_conn *conn)
{
    struct cw_tcp_tx *tx = conn->tx;
    unsigned events = 0;
    ssize_t sent;

    if (tx != NULL) {
        conn->collected = 0; /* a batch may be in progress */
        sent = tx_offer(conn, tx, 0);
        if (sent == -EAGAIN) {
            return 0;
        }
        if (sent < 0) {
            (void)send_failed(conn, sent);
            return 0;
        }
        if (!tx_advance(tx, (size_t)sent)) {
            return 1;
        }
        conn->tx = NULL;
        events = 1 + complete_tx(conn, tx, UCS_OK);
    }
    if (conn->wants_space && conn->tx == NULL && conn->state == CW_TCP_OPEN && conn->broken == UCS_OK) {
        conn->wants_space = 0;
        events++;
        conn->super.iface->upcalls->space(&conn->super);
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
        conn->tx = NULL;
        conn->collected = 0;
    }
    (void)complete_tx(conn, tx, status);
}

/* Slow path of frame_begin: unsent bytes or another condition. */
static CW_NOINLINE ucs_status_t frame_begin_slow(struct cw_tcp_conn *conn, size_t size, struct cw_tcp_tx **tx_p)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_tx *tx = conn->tx;

    if (conn->state != CW_TCP_OPEN || conn->broken != UCS_OK) {
        return no_space(conn);
    }
    if (conn->quiet) {
        cw_tcp_watch_sends(conn);
    }
    if (tx != NULL && conn->collected && iface->tx_capacity - tx->length < size) {
        push(conn, 1);
        tx = conn->tx;
        if (conn->broken != UCS_OK) {
            return conn->broken;
        }
    }
    if (tx != NULL) {
        if (conn->wants_space || tx->zcopy != NULL || iface->tx_capacity - tx->length < size) {
            return again(conn);
        }
    } else if (!cw_tcp_tx_reserve(iface)) {
        return again(conn);
    } else {
        tx = iface->spare_tx;
    }
    *tx_p = tx;
    return UCS_OK;
}

/* Finds a tx with space for a frame of `size` bytes. */
static CW_INLINE ucs_status_t frame_begin(struct cw_tcp_conn *conn, size_t size, struct cw_tcp_tx **tx_p)
{
    struct cw_tcp_tx *spare = cw_tcp_iface_of(&conn->super)->spare_tx;

    if (cw_unlikely(conn->state != CW_TCP_OPEN || conn->broken != UCS_OK || conn->quiet || conn->tx != NULL ||
                    spare == NULL)) {
        return frame_begin_slow(conn, size, tx_p);
    }
    *tx_p = spare;
    return UCS_OK;
}

/* The kernel accepted the first `sent` bytes of the spare tx; the tx with the rest becomes the connection's. */
static void keep_rest(struct cw_tcp_conn *conn, size_t sent)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->tx = iface->spare_tx;
    conn->tx->head = sent;
    iface->spare_tx = NULL;
    cw_tcp_tx_update_interest(conn);
}

/* A frame of `size` bytes was built behind tx->length. Inline for the probes after it. */
static CW_INLINE ucs_status_t frame_end(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx, size_t size)
{
    ssize_t sent;

    if (cw_unlikely(tx == conn->tx)) {
        tx->length += size;
        return UCS_OK;
    }
    if (cw_unlikely(conn->batches > 0)) {
        tx->length = size;
        conn->tx = tx;
        conn->collected = 1;
        cw_tcp_iface_of(&conn->super)->spare_tx = NULL;
        return UCS_OK;
    }
    sent = cw_likely(conn->filter == NULL) ? cw_net_send(conn->item.fd, tx->bytes, size)
                                           : cw_tcp_filter_send(conn, tx->bytes, size);
    if (cw_likely(sent == (ssize_t)size)) {
        return UCS_OK;
    }
    if (sent < 0 && sent != -EAGAIN) {
        return send_failed(conn, sent);
    }
    tx->length = size;
    keep_rest(conn, (sent < 0) ? 0 : (size_t)sent);
    return UCS_OK;
}

ucs_status_t cw_tcp_send_frame(struct cw_tcp_conn *conn, enum cw_tcp_frame_kind kind, const void *body, size_t length)
{
    struct cw_tcp_tx *tx;
    ucs_status_t status = frame_begin(conn, CW_TCP_FRAME_HEADER + length, &tx);

    if (status == UCS_OK) {
        cw_tcp_frame_encode(tx->bytes + tx->length, kind, 0, length);
        memcpy(tx->bytes + tx->length + CW_TCP_FRAME_HEADER, body, length);
        status = frame_end(conn, tx, CW_TCP_FRAME_HEADER + length);
    }
    return status;
}

ucs_status_t cw_tcp_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    const size_t packet = sizeof(header) + length;
    struct cw_tcp_tx *tx;
    ucs_status_t status;
    uint8_t *to;

    assert(length <= super->iface->limits.max_short);
    status = frame_begin(conn, CW_TCP_FRAME_HEADER + packet, &tx);
    if (cw_unlikely(status != UCS_OK)) {
        CW_PROBE(send_short, CW_TCP_WIRE_ID, packet, (int)status);
        return status;
    }
    to = tx->bytes + tx->length;
    cw_tcp_frame_encode(to, CW_TCP_PACKET, id, packet);
    memcpy(to + CW_TCP_FRAME_HEADER, &header, sizeof(header));
    if (length > 0) {
        memcpy(to + CW_TCP_FRAME_HEADER + sizeof(header), payload, length);
    }
    status = frame_end(conn, tx, CW_TCP_FRAME_HEADER + packet);
    CW_PROBE(send_short, CW_TCP_WIRE_ID, packet, (int)status);
    return status;
}

ucs_status_t cw_tcp_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    struct cw_tcp_tx *tx;
    ucs_status_t status;
    size_t packet;
    uint8_t *to;

    assert(max <= super->iface->limits.max_bcopy);
    status = frame_begin(conn, CW_TCP_FRAME_HEADER + max, &tx);
    if (cw_unlikely(status != UCS_OK)) {
        CW_PROBE(send_bcopy, CW_TCP_WIRE_ID, max, (int)status);
        return status;
    }
    to = tx->bytes + tx->length;
    packet = pack(to + CW_TCP_FRAME_HEADER, max, arg);
    assert(packet <= max);
    cw_tcp_frame_encode(to, CW_TCP_PACKET, id, packet);
    status = frame_end(conn, tx, CW_TCP_FRAME_HEADER + packet);
    CW_PROBE(send_bcopy, CW_TCP_WIRE_ID, packet, (int)status);
    return status;
}

/* Sends a frame that ends in user memory, so it needs a tx of its own. */
static ucs_status_t send_user(struct cw_tcp_conn *conn, enum cw_tcp_frame_kind kind, uint8_t id, const void *header,
                              size_t header_length, const struct iovec *iov, unsigned iov_count, size_t payload,
                              struct cw_completion *completion)
{
    const size_t headers = CW_TCP_FRAME_HEADER + header_length;
    struct cw_tcp_tx *tx;
    ucs_status_t status;
    ssize_t sent;

    if (conn->tx != NULL && !conn->collected) {
        return no_space(conn);
    }
    status = frame_begin(conn, headers, &tx);
    if (status != UCS_OK) {
        return status;
    }
    cw_tcp_frame_encode(tx->bytes + tx->length, kind, id, header_length + payload);
    if (header_length > 0) {
        memcpy(tx->bytes + tx->length + CW_TCP_FRAME_HEADER, header, header_length);
    }
    if (iov_count > 0) {
        memcpy(tx->iov, iov, iov_count * sizeof(*iov));
    }
    tx->length += headers;
    tx->iov_count = iov_count;
    sent = tx_offer(conn, tx, conn->more);
    if ((sent >= 0 && tx_advance(tx, (size_t)sent)) || (sent < 0 && sent != -EAGAIN)) {
        tx_drop(conn, tx);
        return (sent >= 0) ? UCS_OK : send_failed(conn, sent);
    }
    tx->zcopy = completion;
    if (tx != conn->tx) {
        keep_rest(conn, tx->head);
    } else {
        conn->collected = 0;
        cw_tcp_tx_update_interest(conn);
    }
    return UCS_INPROGRESS;
}

ucs_status_t cw_tcp_send_zcopy(struct cw_conn *super, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion)
{
    const size_t payload = cw_bytes_in_iov(iov, iov_count);
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    ucs_status_t status;

    assert(header_length + payload <= super->iface->limits.max_zcopy &&
           header_length <= super->iface->limits.max_bcopy && iov_count <= super->iface->limits.max_iov);
    status = send_user(conn, CW_TCP_PACKET, id, header, header_length, iov, iov_count, payload, completion);
    CW_PROBE(send_zcopy, CW_TCP_WIRE_ID, header_length + payload, (int)status);
    return status;
}

ucs_status_t cw_tcp_send_in_place(struct cw_conn *super, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion)
{
    const size_t payload = cw_bytes_in_iov(iov, iov_count);
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    ucs_status_t status;

    assert(payload > 0 && payload <= super->iface->limits.max_placed && iov_count <= CW_TCP_MAX_IOV);
    status = send_user(conn, CW_TCP_PLACED, id, header, CW_PLACE_HEADER, iov, iov_count, payload, completion);
    CW_PROBE(send_placed, CW_TCP_WIRE_ID, CW_PLACE_HEADER + payload, (int)status);
    return status;
}

void cw_tcp_send_raw(struct cw_tcp_conn *conn, const void *data, size_t length)
{
    struct cw_tcp_tx *tx = cw_tcp_iface_of(&conn->super)->spare_tx;
    ssize_t sent = cw_tcp_filter_send(conn, data, length);

    assert(tx != NULL && conn->tx == NULL);
    if (sent == (ssize_t)length) {
        return;
    }
    if (sent < 0 && sent != -EAGAIN) {
        (void)send_failed(conn, sent);
        return;
    }
    memcpy(tx->bytes, data, length);
    tx->length = length;
    keep_rest(conn, (sent < 0) ? 0 : (size_t)sent);
}
