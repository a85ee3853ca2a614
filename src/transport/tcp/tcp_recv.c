/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving. The kernel fills the iface's staging buffer, whole frames are handed up out of it, and what remains of a
 * frame moves to a buffer of its own, exactly its size, which the next receive fills directly. Invariant between
 * receives: rx_frame is NULL and fewer than 8 bytes are in rx_head, or rx_frame holds rx_have < rx_size bytes beginning
 * with a checked header.
 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/log.h"

static int staging_reserve(struct cw_tcp_iface *iface)
{
    if (cw_unlikely(iface->staging == NULL)) {
        iface->staging = malloc(iface->staging_size);
    }
    return iface->staging != NULL;
}

static enum cw_tcp_recv_result lost(struct cw_tcp_conn *conn, ucs_status_t status, unsigned *events)
{
    (*events)++;
    cw_tcp_conn_lost(conn, (conn->broken != UCS_OK) ? conn->broken : status);
    return CW_TCP_RECV_ENDED;
}

static enum cw_tcp_recv_result ended(struct cw_tcp_conn *conn, ssize_t error, unsigned *events)
{
    char peer[CW_NET_TEXT_MAX];

    if (cw_log_enabled(CW_LOG_DEBUG)) {
        cw_net_peer_text(conn->item.fd, peer);
        cw_debug("the TCP connection with %s ended: %s", peer,
                 (error < 0) ? strerror((int)-error) : "closed by the peer");
    }
    return lost(conn, UCS_ERR_CONNECTION_RESET, events);
}

static enum cw_tcp_recv_result malformed(struct cw_tcp_conn *conn, unsigned *events)
{
    static struct cw_log_limit limit;
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_log_ratelimited(&limit, CW_LOG_WARN, "closed the TCP connection with %s: it sent bytes that are no packet",
                       peer);
    return lost(conn, UCS_ERR_IO_ERROR, events);
}

/* Saves the beginning of a frame that stands in the staging buffer. Without memory the staging buffer itself is given
 * away. */
static void save_rest(struct cw_tcp_conn *conn, uint8_t *from, size_t length, size_t frame)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    conn->rx_have = length;
    if (length < CW_TCP_FRAME_HEADER) {
        memcpy(conn->rx_head, from, length);
        return;
    }
    conn->rx_size  = frame;
    conn->rx_frame = malloc(frame);
    if (conn->rx_frame != NULL) {
        memcpy(conn->rx_frame, from, length);
        return;
    }
    memmove(iface->staging, from, length);
    conn->rx_frame = iface->staging;
    iface->staging = NULL;
}

/* Hands up what is complete in the first `length` bytes of the staging buffer. 0 when the framing is broken. */
static int parse(struct cw_tcp_conn *conn, size_t length, unsigned *events)
{
    uint8_t *at = cw_tcp_iface_of(&conn->super)->staging;
    int32_t packet = 0;
    uint8_t id;

    while (length >= CW_TCP_FRAME_HEADER) {
        packet = cw_tcp_frame_decode(at, &id);
        if (cw_unlikely(packet < 0)) {
            return 0;
        }
        if (length < CW_TCP_FRAME_HEADER + (size_t)packet) {
            break;
        }
        conn->super.iface->upcalls->packet(&conn->super, id, at + CW_TCP_FRAME_HEADER, (size_t)packet);
        (*events)++;
        at += CW_TCP_FRAME_HEADER + (size_t)packet;
        length -= CW_TCP_FRAME_HEADER + (size_t)packet;
    }
    save_rest(conn, at, length, CW_TCP_FRAME_HEADER + (size_t)packet);
    return 1;
}

/* Takes `got` new bytes: those of the saved frame, in place already, and those behind it in the staging buffer. */
static int arrived(struct cw_tcp_conn *conn, size_t got, unsigned *events)
{
    const size_t missing = conn->rx_size - conn->rx_have;
    uint8_t *frame       = conn->rx_frame;
    uint8_t id           = 0;
    int32_t packet;

    if (cw_likely(frame == NULL)) {
        return parse(conn, conn->rx_have + got, events);
    }
    if (got < missing) {
        conn->rx_have += got;
        return 1;
    }
    packet         = cw_tcp_frame_decode(frame, &id);
    conn->rx_frame = NULL;
    conn->rx_have  = 0;
    conn->super.iface->upcalls->packet(&conn->super, id, frame + CW_TCP_FRAME_HEADER, (size_t)packet);
    (*events)++;
    free(frame);
    return (got == missing) || parse(conn, got - missing, events);
}

/* One system call. *room_p: how many bytes it could have brought. -EAGAIN also without memory. */
static ssize_t receive(struct cw_tcp_conn *conn, size_t *room_p)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    const int staging          = staging_reserve(iface);
    struct iovec iov[2];

    if (cw_likely(conn->rx_frame == NULL)) {
        if (!staging) {
            return -EAGAIN;
        }
        memcpy(iface->staging, conn->rx_head, conn->rx_have);
        *room_p = iface->staging_size - conn->rx_have;
        return cw_net_recv(conn->item.fd, iface->staging + conn->rx_have, *room_p);
    }
    iov[0].iov_base = conn->rx_frame + conn->rx_have;
    iov[0].iov_len  = conn->rx_size - conn->rx_have;
    iov[1].iov_base = iface->staging;
    iov[1].iov_len  = staging ? iface->staging_size : 0;
    *room_p         = iov[0].iov_len + iov[1].iov_len;
    return cw_net_recvv(conn->item.fd, iov, 2);
}

enum cw_tcp_recv_result cw_tcp_recv(struct cw_tcp_conn *conn, unsigned max_polls, unsigned *events)
{
    size_t room = 0;
    ssize_t got;

    while (max_polls-- > 0) {
        got = receive(conn, &room);
        if (got == -EAGAIN) {
            return CW_TCP_RECV_DRY;
        }
        if (got <= 0) {
            return ended(conn, got, events);
        }
        if (!arrived(conn, (size_t)got, events)) {
            return malformed(conn, events);
        }
        if ((size_t)got < room) {
            return CW_TCP_RECV_DRY;
        }
    }
    return CW_TCP_RECV_MORE;
}
