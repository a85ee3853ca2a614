/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving. The kernel fills the iface's staging buffer, and whole frames are delivered from it. A partial frame at
 * the end moves to a buffer of exactly the frame's size, which the next receive fills directly. The payload of a placed
 * packet goes to the destination that the core supplies; only the part that arrived together with its header is copied
 * there. Invariant between receives: `place` is set and its payload comes next; or rx_frame holds rx_have < rx_size
 * bytes beginning with a valid header; or neither, and rx_head holds rx_have bytes, less than the headers of the next
 * frame.
 */
#include "transport/tcp/tcp_filter.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/log.h"

/* After a placed packet of at least this many bytes another one is likely: only its headers should go to the staging
 * buffer. */
#define BULK_MIN  (32u << 10)
#define BULK_PEEK 512u

/* Bytes received at a time while such packets follow one another: as many as the core sends before it queries for space
 * again. If the sender ran further ahead, its bytes would leave the caches before they are read. */
#define BULK_TURN (512u << 10)

/* A receive of at most this many bytes rarely contains two packets. */
#define MOSTLY_ONE 64u

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
        if (max_polls == 0 && conn->bulk && taken < BULK_TURN) {
            max_polls = 1;
        }
    }
    return CW_TCP_RECV_MORE;
}
