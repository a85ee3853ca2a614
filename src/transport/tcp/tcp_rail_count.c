/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a further socket on which nothing was lost. Both sides count the placed packets that they sent on it and
 * those that came whole. Who sees it end closes it and tells both numbers on the first socket; the other side takes
 * what has come, closes its end and answers with its own. If they fit, the connection goes on without that socket,
 * otherwise it ends at both sides (docs/decisions/lanes.md). Both know a socket by its slot at the acceptor.
 *
 * What the peer tells is compared with our numbers and used for nothing else.
 */
#include "transport/tcp/tcp_rails.h"

#include <endian.h>
#include <string.h>

#include "transport/tcp/tcp_send.h"

#define DRAIN_RECEIVES 64u

int cw_tcp_rail_named(struct cw_tcp_conn *conn, const void *body)
{
    struct cw_tcp_rails *rails = conn->first->rails;
    struct cw_tcp_joined_body joined;
    struct cw_tcp_conn *other;
    static const uint8_t zeros[sizeof(joined.reserved)];

    memcpy(&joined, body, sizeof(joined));
    if (joined.slot >= CW_TCP_MAX_JOINED || memcmp(joined.reserved, zeros, sizeof(zeros)) != 0 ||
        rails->counts[joined.slot].has_ended) {
        return 0;
    }
    other = rails->sockets[joined.slot];
    if (other != NULL && other != conn && other->state == CW_TCP_OPEN) {
        return 0;
    }
    rails->sockets[conn->slot]  = other;
    rails->sockets[joined.slot] = conn;
    if (other != NULL) {
        other->slot = conn->slot;
    }
    conn->slot = joined.slot;
    return 1;
}

static void tell(struct cw_tcp_conn *first, unsigned slot)
{
    struct cw_tcp_rail_count *count      = &first->rails->counts[slot];
    const struct cw_tcp_rail_body body = {
        .slot = (uint8_t)slot, .sent = htole64(count->sent), .taken = htole64(count->taken)};

    if (!count->told && cw_tcp_send_frame(first, CW_TCP_RAIL, &body, sizeof(body)) == UCS_OK) {
        count->told = 1;
    }
    first->rails->untold |= !count->told;
}

void cw_tcp_rails_tell(struct cw_tcp_conn *first)
{
    unsigned slot;

    first->rails->untold = 0;
    for (slot = 0; slot < CW_TCP_MAX_JOINED; slot++) {
        if (first->rails->counts[slot].has_ended && first->state == CW_TCP_OPEN && first->broken == UCS_OK) {
            tell(first, slot);
        }
    }
}

/* The socket has ended here. The connection ends, too, if the numbers do not fit. */
static void judge(struct cw_tcp_conn *first, unsigned slot)
{
    struct cw_tcp_rail_count *count = &first->rails->counts[slot];
    char peer[CW_NET_TEXT_MAX];

    count->has_ended = 1;
    tell(first, slot);
    if (!count->heard || count->judged) {
        return;
    }
    count->judged = 1;
    cw_net_peer_text(first->item.fd, peer);
    if (count->sent == count->peer_taken && count->taken == count->peer_sent) {
        cw_diag("further TCP socket %u to %s has ended; nothing was lost, and the connection goes on without it", slot,
                peer);
        return;
    }
    cw_diag("further TCP socket %u to %s has ended, and packets with it (%llu of %llu arrived there, %llu of %llu "
            "here): the connection ends",
            slot, peer, (unsigned long long)count->peer_taken, (unsigned long long)count->sent,
            (unsigned long long)count->taken, (unsigned long long)count->peer_sent);
    cw_tcp_rails_broke(first);
}

/* Nothing of a packet that is under way. */
static int is_clean(const struct cw_tcp_conn *conn)
{
    return conn->tx == NULL && conn->place == NULL && conn->rx_have == 0;
}

int cw_tcp_rail_died(struct cw_tcp_conn *conn)
{
    struct cw_tcp_conn *first = conn->first;
    const unsigned slot       = conn->slot;

    if (first->state != CW_TCP_OPEN || first->broken != UCS_OK || first->rails->ending || first->item.fd < 0 ||
        !is_clean(conn)) {
        return 0;
    }
    cw_tcp_rails_leave(conn);
    judge(first, slot);
    return 1;
}

int cw_tcp_rail_heard(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length)
{
    struct cw_tcp_rail_count *count;
    struct cw_tcp_rail_body body;
    static const uint8_t zeros[sizeof(body.reserved)];

    if (conn->first != NULL || conn->rails == NULL || length != sizeof(body)) {
        return 0;
    }
    memcpy(&body, bytes, sizeof(body));
    if (body.slot >= CW_TCP_MAX_JOINED || memcmp(body.reserved, zeros, sizeof(zeros)) != 0) {
        return 0;
    }
    count = &conn->rails->counts[body.slot];
    if (count->heard) {
        return 0;
    }
    count->heard       = 1;
    count->peer_sent   = le64toh(body.sent);
    count->peer_taken  = le64toh(body.taken);
    conn->rails->heard = 1;
    if (cw_list_empty(&conn->link)) { /* not from here: the other socket shares the staging buffer */
        cw_list_add_tail(&cw_tcp_iface_of(&conn->super)->pending, &conn->link);
    }
    return 1;
}

/* The peer has closed its end of a socket that lives here: what has come on it counts. 0: later. */
static int drain(struct cw_tcp_conn *first, struct cw_tcp_conn *conn, unsigned *events)
{
    const struct cw_tcp_iface *iface   = cw_tcp_iface_of(&first->super);
    const unsigned slot                = conn->slot;
    const enum cw_tcp_recv_result ret = cw_tcp_recv(conn, DRAIN_RECEIVES, events);

    if (ret == CW_TCP_RECV_ENDED || first->state != CW_TCP_OPEN) {
        return 1;
    }
    if (ret == CW_TCP_RECV_MORE || iface->staging == NULL || iface->spare_place == NULL) {
        return 0;
    }
    if (!is_clean(conn)) {
        cw_tcp_rails_broke(first);
        return 1;
    }
    cw_tcp_rails_leave(conn);
    judge(first, slot);
    return 1;
}

int cw_tcp_rails_settle(struct cw_tcp_conn *first, unsigned *events)
{
    struct cw_tcp_rail_count *count;
    struct cw_tcp_conn *conn;
    int settled = 1;
    unsigned slot;

    for (slot = 0; slot < CW_TCP_MAX_JOINED; slot++) {
        if (first->state != CW_TCP_OPEN || first->broken != UCS_OK) {
            return 1;
        }
        count = &first->rails->counts[slot];
        conn  = first->rails->sockets[slot];
        if (!count->heard || count->judged) {
            continue;
        }
        if (!count->has_ended && conn != NULL && conn->state == CW_TCP_OPEN) {
            settled &= drain(first, conn, events);
        } else {
            if (!count->has_ended && conn != NULL) {
                cw_tcp_rails_leave(conn); /* it was still being opened */
            }
            judge(first, slot);
        }
    }
    return settled;
}
