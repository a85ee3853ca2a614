/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending and receiving frames.
 *
 * A frame to be sent is built in the iface's spare buffer and passed to the kernel at once. If the kernel does not
 * accept all of it, the rest stays in that buffer, which then belongs to the connection until it is drained, and the
 * iface gets a new spare before the next send. Small frames may be appended to that buffer. Invariant: conn->tx is not
 * NULL exactly while some bytes are unsent. Also completions that wait for such bytes; batches; and corking (MSG_MORE).
 *
 * Received bytes fill the iface's staging buffer, and whole frames are delivered from it. A partial frame at the end
 * moves to a buffer of exactly the frame's size, which the next receive fills directly. The payload of a placed packet
 * goes to the destination that the core supplies; only the part that arrived together with its header is copied there.
 * Invariant between receives: `place` is set and its payload comes next; or rx_frame holds rx_have < rx_size bytes
 * beginning with a valid header; or neither, and rx_head holds rx_have bytes, less than the headers of the next frame.
 */
#include "transport/tcp/tcp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/probe.h"

/* After a placed packet of at least this many bytes another one is likely: only its headers should go to the staging
 * buffer. */
#define BULK_MIN  (32u << 10)
#define BULK_PEEK 512u

/* A receive of at most this many bytes rarely contains two packets. */
#define MOSTLY_ONE 64u

/* ---- sending ---- */

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

/* ---- receiving ---- */

/* Allocates the buffers that any receive needs. 0: no memory. */
static int staging_reserve(struct cw_tcp_iface *iface)
{
    if (cw_unlikely(iface->staging == NULL)) {
        iface->staging = malloc(iface->staging_size);
    }
    if (cw_unlikely(iface->spare_place == NULL)) {
        iface->spare_place = malloc(sizeof(*iface->spare_place));
    }
    return iface->staging != NULL && iface->spare_place != NULL;
}

static enum cw_tcp_recv_result end_conn(struct cw_tcp_conn *conn, ucs_status_t status, unsigned *events)
{
    (*events)++;
    cw_tcp_conn_end(conn, (conn->broken != UCS_OK) ? conn->broken : status);
    return CW_TCP_RECV_ENDED;
}

static enum cw_tcp_recv_result ended(struct cw_tcp_conn *conn, ssize_t error, unsigned *events)
{
    const char *reason = (error < 0) ? strerror((int)-error) : "closed by the peer";
    char peer[CW_NET_TEXT_MAX];

    if (error == -ETIMEDOUT && conn->watch != NULL) {
        cw_tcp_watch_notify(conn);
    }
    if (cw_log_enabled(CW_LOG_DEBUG)) {
        cw_net_peer_text(conn->item.fd, peer);
        cw_debug("the TCP connection with %s ended: %s", peer, reason);
    }
    cw_tcp_conn_note_end(conn, reason);
    return end_conn(conn, cw_tcp_end_status(error), events);
}

static enum cw_tcp_recv_result malformed(struct cw_tcp_conn *conn, unsigned *events)
{
    static struct cw_log_limit limit;
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_log_ratelimited(&limit, CW_LOG_WARN, "closed the TCP connection with %s: it sent a malformed packet",
                       peer);
    cw_tcp_conn_note_end(conn, "the peer sent a malformed packet");
    return end_conn(conn, UCS_ERR_IO_ERROR, events);
}

/* Ends a connection with damaged bytes, which only a filter can detect. */
static enum cw_tcp_recv_result damaged(struct cw_tcp_conn *conn, unsigned *events)
{
    static struct cw_log_limit limit;
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_log_ratelimited(&limit, CW_LOG_WARN, "closed the TCP connection with %s: %s%s", peer,
                       (conn->filter->ops->handshake != NULL) ? "TLS alert, or data corrupted in transit: "
                                                              : "",
                       cw_tcp_filter_reason(conn, -EBADMSG));
    cw_tcp_conn_note_end(conn, "data corrupted in transit");
    return end_conn(conn, UCS_ERR_IO_ERROR, events);
}

/* Saves a partial frame of the staging buffer. Out of memory, the staging buffer itself becomes the frame's. */
static void save_frame(struct cw_tcp_conn *conn, uint8_t *from, size_t length, size_t frame)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->rx_have = length;
    conn->rx_size = frame;
    conn->rx_frame = malloc(frame);
    if (conn->rx_frame != NULL) {
        cw_bytes_copy_any(conn->rx_frame, from, length);
        return;
    }
    cw_bytes_move(iface->staging, from, length);
    conn->rx_frame = iface->staging;
    iface->staging = NULL;
}

/* Marks the next n bytes of the place as received; with `from` they are copied to it first. */
static void place_advance(struct cw_tcp_place *place, const uint8_t *from, size_t n)
{
    struct iovec *iov;
    size_t part;

    place->missing -= n;
    while (n > 0) {
        iov = &place->iov[place->first];
        part = (n < iov->iov_len) ? n : iov->iov_len;
        if (from != NULL) {
            cw_bytes_copy_any(iov->iov_base, from, part);
            from += part;
        }
        iov->iov_base = (char *)iov->iov_base + part;
        iov->iov_len -= part;
        n -= part;
        place->first += iov->iov_len == 0;
    }
}

/* The last byte of conn->place has arrived. */
static void place_end(struct cw_tcp_conn *conn, unsigned *events)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_place *place = conn->place;

    conn->place = NULL;
    conn->super.iface->upcalls->placed(&conn->super, place->id, place->header, place->length);
    (*events)++;
    if (iface->spare_place == NULL) {
        iface->spare_place = place;
    } else {
        free(place);
    }
}

/* Calls `place` for a packet of which the first `length` bytes, at least the headers, are in the staging buffer, and
 * copies them to the destination. Returns how many of them belong to the packet; 0: the core refuses. */
static size_t place_begin(struct cw_tcp_conn *conn, const struct cw_tcp_frame_header *frame, const uint8_t *from,
                          size_t length, unsigned *events)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    const struct cw_upcalls *upcalls = iface->super.upcalls;
    struct cw_tcp_place *place = iface->spare_place;
    const size_t come = length - CW_TCP_PLACED_HEADER;
    unsigned count;

    if (upcalls->place == NULL || upcalls->placed == NULL) {
        return 0;
    }
    place->id = frame->id;
    place->length = frame->length - CW_PLACE_HEADER;
    place->first = frame->padding == 0;
    place->iov[0] = (struct iovec){place->padding, frame->padding};
    memcpy(place->header, from + CW_TCP_FRAME_HEADER, CW_PLACE_HEADER);
    count = upcalls->place(&conn->super, place->id, place->header, place->length, &place->iov[1]);
    if (count == 0) {
        return 0;
    }
    assert(count <= CW_PLACE_MAX_IOV && cw_bytes_in_iov(&place->iov[1], count) == place->length);
    place->count = 1 + count;
    iface->spare_place = NULL;
    conn->place = place;
    conn->bulk = place->length >= BULK_MIN;
    place->missing = frame->padding + place->length;
    length = (come < place->missing) ? come : place->missing;
    place_advance(place, from + CW_TCP_PLACED_HEADER, length);
    if (place->missing == 0) {
        place_end(conn, events);
    }
    return CW_TCP_PLACED_HEADER + length;
}

/* Delivers the complete packets in the first `length` bytes of the staging buffer. 0: the framing is broken. */
static int parse(struct cw_tcp_conn *conn, size_t length, unsigned *events)
{
    uint8_t *at = cw_tcp_iface_of(&conn->super)->staging;
    struct cw_tcp_frame_header header;
    uint8_t *body;
    size_t size;

    while (length >= CW_TCP_FRAME_HEADER) {
        if (cw_unlikely(conn->state != CW_TCP_OPEN)) {
            return 1; /* an upcall abandoned the connection */
        }
        if (cw_unlikely(!cw_tcp_frame_decode(at, &header))) {
            return 0;
        }
        body = at + CW_TCP_FRAME_HEADER + header.padding;
        size = CW_TCP_FRAME_HEADER + header.padding + header.length;
        if (header.kind == CW_TCP_PLACED) {
            if (length < CW_TCP_PLACED_HEADER) {
                break;
            }
            size = place_begin(conn, &header, at, length, events);
            if (size == 0) {
                return conn->state != CW_TCP_OPEN; /* 1: the core abandoned the connection in `place` */
            }
        } else if (length < size) {
            save_frame(conn, at, length, size);
            return 1;
        } else if (cw_likely(header.kind == CW_TCP_PACKET)) {
            conn->super.iface->upcalls->packet(&conn->super, header.id, body, header.length);
            (*events)++;
        }
        at += size;
        length -= size;
    }
    conn->rx_have = length;
    if (cw_unlikely(length > 0)) {
        memcpy(conn->rx_head, at, length);
    }
    return 1;
}

/* Handles `got` new bytes: those of the saved frame, already in rx_frame, and those behind it in the staging buffer. */
static int frame_arrived(struct cw_tcp_conn *conn, size_t got, unsigned *events)
{
    const size_t missing = conn->rx_size - conn->rx_have;
    uint8_t *frame = conn->rx_frame;
    struct cw_tcp_frame_header header;

    if (got < missing) {
        conn->rx_have += got;
        return 1;
    }
    (void)cw_tcp_frame_decode(frame, &header);
    conn->rx_frame = NULL;
    conn->rx_have = 0;
    if (header.kind == CW_TCP_PACKET) {
        conn->super.iface->upcalls->packet(&conn->super, header.id, frame + CW_TCP_FRAME_HEADER + header.padding,
                                           header.length);
        (*events)++;
    }
    free(frame);
    return (got == missing) || parse(conn, got - missing, events);
}

/* Handles `got` new bytes of a placed packet: those of the payload, already at the destination, and those behind it. */
static int place_arrived(struct cw_tcp_conn *conn, size_t got, unsigned *events)
{
    const size_t missing = conn->place->missing;

    place_advance(conn->place, NULL, (got < missing) ? got : missing);
    if (got < missing) {
        (*events)++;
        return 1;
    }
    place_end(conn, events);
    return (got == missing) || parse(conn, got - missing, events);
}

static CW_INLINE int arrived(struct cw_tcp_conn *conn, size_t got, unsigned *events)
{
    if (conn->place != NULL) {
        return place_arrived(conn, got, events);
    }
    if (conn->rx_frame != NULL) {
        return frame_arrived(conn, got, events);
    }
    return parse(conn, conn->rx_have + got, events);
}

/* Batches the answers to packets that arrived together. */
static CW_NOINLINE int arrived_together(struct cw_tcp_conn *conn, size_t got, unsigned *events)
{
    int right;

    cw_tcp_batch(&conn->super, CW_BATCH_BEGIN);
    right = arrived(conn, got, events);
    cw_tcp_batch(&conn->super, CW_BATCH_END);
    return right;
}

/* Shortens the entries to `max` bytes in all, which is less than they have; returns their number. */
static unsigned shorten(struct iovec *iov, size_t max)
{
    unsigned i;

    for (i = 0; iov[i].iov_len < max; i++) {
        max -= iov[i].iov_len;
    }
    iov[i].iov_len = max;
    return i + 1;
}

/* Receives by one system call. *space_p: its maximum number of bytes. -EAGAIN also if out of memory. */
static ssize_t receive(struct cw_tcp_conn *conn, size_t *space_p)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    const int staging = staging_reserve(iface);
    struct cw_tcp_place *place = conn->place;
    struct iovec iov[1 + CW_PLACE_MAX_IOV + 1];
    unsigned count = 1;

    if (cw_likely(conn->rx_frame == NULL && place == NULL)) {
        if (!staging) {
            return -EAGAIN;
        }
        memcpy(iface->staging, conn->rx_head, conn->rx_have);
        *space_p = (cw_unlikely(conn->bulk) ? BULK_PEEK : iface->staging_size) - conn->rx_have;
        return cw_likely(conn->filter == NULL) ? cw_net_recv(conn->item.fd, iface->staging + conn->rx_have, *space_p)
                                               : cw_tcp_filter_recv(conn, iface->staging + conn->rx_have, *space_p);
    }
    if (place != NULL) {
        count = place->count - place->first;
        memcpy(iov, &place->iov[place->first], count * sizeof(*iov));
        *space_p = place->missing;
    } else {
        iov[0].iov_base = conn->rx_frame + conn->rx_have;
        iov[0].iov_len = conn->rx_size - conn->rx_have;
        *space_p = iov[0].iov_len;
    }
    if (staging) {
        iov[count].iov_base = iface->staging;
        iov[count].iov_len = (place != NULL && place->length >= BULK_MIN) ? BULK_PEEK : iface->staging_size;
        *space_p += iov[count++].iov_len;
    }
    if (*space_p > CW_TCP_TURN) {
        count = shorten(iov, CW_TCP_TURN);
        *space_p = CW_TCP_TURN;
    }
    return (conn->filter == NULL) ? cw_net_recvv(conn->item.fd, iov, count) : cw_tcp_filter_recvv(conn, iov, count);
}

enum cw_tcp_recv_result cw_tcp_recv(struct cw_tcp_conn *conn, unsigned max_polls, unsigned *events)
{
    size_t space = 0, taken = 0;
    ssize_t got;
    int right;

    while (max_polls-- > 0) {
        got = receive(conn, &space);
        if (got == -EAGAIN) {
            return CW_TCP_RECV_DRY;
        }
        if (got <= 0) {
            return (got == -EBADMSG) ? damaged(conn, events) : ended(conn, got, events);
        }
        cw_tcp_iface_of(&conn->super)->unpolled += (size_t)got;
        conn->bulk = conn->bulk && conn->place != NULL;
        right = (got <= (ssize_t)MOSTLY_ONE) ? arrived(conn, (size_t)got, events) :
                arrived_together(conn, (size_t)got, events);
        if (!right) {
            return malformed(conn, events);
        }
        if (cw_unlikely(conn->state != CW_TCP_OPEN)) {
            return CW_TCP_RECV_ENDED;
        }
        if ((size_t)got < space) {
            return CW_TCP_RECV_DRY;
        }
        taken += (size_t)got;
        if (taken >= CW_TCP_TURN) {
            return CW_TCP_RECV_MORE;
        }
        if (max_polls == 0 && conn->bulk) {
            max_polls = 1;
        }
    }
    return CW_TCP_RECV_MORE;
}
