/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counting on further sockets, and their end. Both sides count the placed packets that they sent on one and those that
 * came whole, which they tell (frame TAKEN). Who sees it end closes it and tells both numbers on the first socket; the
 * other side takes what has come, closes its end and answers with its own. What did not come is sent again
 * (tcp_rail_kept.c), and the connection goes on without that socket (docs/decisions/lanes.md). Both know a socket by
 * its slot at the acceptor. Numbers that cannot be end the connection.
 */
#include "transport/tcp/tcp_rails.h"

#include <endian.h>
#include <stdlib.h>
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

/* While it lives: what has come on it. */
static void tell_taken(struct cw_tcp_conn *first, unsigned slot)
{
    struct cw_tcp_rail_count *count      = &first->rails->counts[slot];
    const struct cw_tcp_taken_body body = {.slot = (uint8_t)slot, .taken = htole64(count->taken)};

    if (count->taken == count->told_taken) {
        return;
    }
    if (cw_tcp_send_frame(first, CW_TCP_TAKEN, &body, sizeof(body)) == UCS_OK) {
        count->told_taken = count->taken;
    }
    first->rails->untold |= count->taken != count->told_taken;
}

void cw_tcp_rails_tell(struct cw_tcp_conn *first)
{
    unsigned slot;

    first->rails->untold = 0;
    for (slot = 0; slot < CW_TCP_MAX_JOINED && first->state == CW_TCP_OPEN && first->broken == UCS_OK; slot++) {
        if (first->rails->counts[slot].has_ended) {
            tell(first, slot);
        } else {
            tell_taken(first, slot);
        }
    }
}

/* Told at once, and so before everything that follows from it: who asks for more has told that it has the last. */
void cw_tcp_rail_took(struct cw_tcp_conn *conn)
{
    struct cw_tcp_conn *first = conn->first;

    first->rails->counts[conn->slot].taken++;
    if (first->state == CW_TCP_OPEN && first->broken == UCS_OK) {
        tell_taken(first, conn->slot);
    }
}

/* The socket has ended here. */
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
    if (count->peer_taken < count->confirmed || count->peer_taken > count->sent || count->taken > count->peer_sent) {
        cw_warn("closing the TCP connection with %s: what it tells of a further socket that has ended cannot be (%llu "
                "of %llu packets arrived there, %llu of %llu here)",
                peer, (unsigned long long)count->peer_taken, (unsigned long long)count->sent,
                (unsigned long long)count->taken, (unsigned long long)count->peer_sent);
        cw_tcp_rails_broke(first);
        return;
    }
    cw_diag("further TCP socket %u to %s has ended, and the connection goes on without it (%llu packets are sent "
            "again, %llu will come again)",
            slot, peer, (unsigned long long)(count->sent - count->peer_taken),
            (unsigned long long)(count->peer_sent - count->taken));
    cw_tcp_rail_settled(first, slot, count->peer_taken);
}

/* Takes the socket out of the connection, with what is under way on it. */
static void leave(struct cw_tcp_conn *conn)
{
    const struct cw_upcalls *upcalls = conn->super.iface->upcalls;
    struct cw_tcp_place *place       = conn->place;

    cw_tcp_tx_cancel(conn, UCS_ERR_CANCELED, 0);
    conn->place = NULL;
    if (place != NULL && upcalls->unplaced != NULL) {
        upcalls->unplaced(&conn->first->super, place->id, place->header, place->length);
    }
    free(place);
    cw_tcp_rails_leave(conn);
}

int cw_tcp_rail_died(struct cw_tcp_conn *conn)
{
    struct cw_tcp_conn *first = conn->first;
    const unsigned slot       = conn->slot;

    if (first->state != CW_TCP_OPEN || first->broken != UCS_OK || first->rails->ending || first->item.fd < 0) {
        return 0;
    }
    leave(conn);
    if (first->state == CW_TCP_OPEN) {
        judge(first, slot);
    }
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
    leave(conn);
    if (first->state == CW_TCP_OPEN) {
        judge(first, slot);
    }
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
