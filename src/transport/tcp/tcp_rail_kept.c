/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placed packets on further sockets. What is sent there is kept, and the memory of the operation in use, until the peer
 * has told that it came (frame TAKEN). When a socket has ended both sides know how many came whole, and so which, for
 * its bytes are in order: the others are sent again on the sockets that are left (docs/decisions/lanes.md).
 *
 * Invariant: sent = confirmed + length of `kept`, until the socket was settled; then its list is empty.
 */
#include "transport/tcp/tcp_rails.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "transport/tcp/tcp_send.h"

static struct cw_tcp_kept *kept_new(struct cw_tcp_conn *first, uint8_t id, const void *header, const struct iovec *iov,
                                    unsigned count, struct cw_completion *completion)
{
    struct cw_tcp_kept *kept = malloc(sizeof(*kept) + count * sizeof(*iov));

    if (kept != NULL) {
        kept->completion = completion;
        kept->count      = count;
        kept->id         = id;
        memcpy(kept->header, header, sizeof(kept->header));
        memcpy(kept->iov, iov, count * sizeof(*iov));
        cw_list_init(&kept->link);
        cw_tcp_iface_of(&first->super)->num_kept++;
    }
    return kept;
}

static void kept_free(struct cw_tcp_conn *first, struct cw_tcp_kept *kept)
{
    if (kept != NULL) {
        cw_tcp_iface_of(&first->super)->num_kept--;
        free(kept);
    }
}

/* It is no list's any more. */
static void end(struct cw_tcp_conn *first, struct cw_tcp_kept *kept, ucs_status_t status)
{
    struct cw_completion *completion = kept->completion;

    kept_free(first, kept);
    completion->done(completion, status);
}

static struct cw_tcp_kept *pop(struct cw_list *list)
{
    struct cw_list *link = cw_list_pop_head(list);

    return (link == NULL) ? NULL : cw_container_of(link, struct cw_tcp_kept, link);
}

/* On the next idle further socket. 0: there is none. Of a packet that a socket refuses nothing was sent. */
static int send_further(struct cw_tcp_conn *first, struct cw_tcp_kept *kept)
{
    struct cw_tcp_conn *conn;
    ucs_status_t status;

    while (first->broken == UCS_OK && (conn = cw_tcp_rails_choose(first)) != NULL) {
        status = cw_tcp_send_kept(conn, kept, 1);
        if (status == UCS_OK || status == UCS_INPROGRESS) {
            cw_list_add_tail(&first->rails->counts[conn->slot].kept, &kept->link);
            first->rails->counts[conn->slot].sent++;
            return 1;
        }
        if (!conn->failed) {
            break;
        }
    }
    return 0;
}

ucs_status_t cw_tcp_rails_send(struct cw_tcp_conn *first, uint8_t id, const void *header, const struct iovec *iov,
                               unsigned count, struct cw_completion *completion)
{
    struct cw_tcp_kept *kept;

    if (cw_tcp_rails_choose(first) == NULL) {
        return CW_AGAIN;
    }
    kept = kept_new(first, id, header, iov, count, completion);
    if (kept != NULL && send_further(first, kept)) {
        return UCS_INPROGRESS;
    }
    kept_free(first, kept);
    return CW_AGAIN;
}

static void end_flushes(struct cw_tcp_conn *first, unsigned bits, ucs_status_t status)
{
    struct cw_completion *done[CW_TCP_MAX_FLUSHES];
    const unsigned count = cw_tcp_rails_drained(first, bits, done);
    unsigned i;

    for (i = 0; i < count; i++) {
        done[i]->done(done[i], status);
    }
}

static void confirm(struct cw_tcp_conn *first, unsigned slot, uint64_t at_peer)
{
    struct cw_tcp_rail_count *count = &first->rails->counts[slot];

    while (count->confirmed < at_peer && !cw_list_empty(&count->kept)) {
        count->confirmed++;
        end(first, pop(&count->kept), UCS_OK);
    }
    if (cw_list_empty(&count->kept)) {
        end_flushes(first, 2u << slot, UCS_OK);
    }
}

int cw_tcp_rail_confirmed(struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length)
{
    static const uint8_t zeros[sizeof(((struct cw_tcp_taken_body *)0)->reserved)];
    const struct cw_tcp_rail_count *count;
    struct cw_tcp_taken_body body;

    if (conn->first != NULL || conn->rails == NULL || length != sizeof(body)) {
        return 0;
    }
    memcpy(&body, bytes, sizeof(body));
    body.taken = le64toh(body.taken);
    if (body.slot >= CW_TCP_MAX_JOINED || memcmp(body.reserved, zeros, sizeof(zeros)) != 0) {
        return 0;
    }
    count = &conn->rails->counts[body.slot];
    if (count->heard || body.taken <= count->confirmed || body.taken > count->sent) {
        return 0;
    }
    confirm(conn, body.slot, body.taken);
    return 1;
}

void cw_tcp_rail_settled(struct cw_tcp_conn *first, unsigned slot, uint64_t at_peer)
{
    struct cw_tcp_rails *rails = first->rails;
    struct cw_tcp_rail_count *count = &rails->counts[slot];
    unsigned i;

    confirm(first, slot, at_peer);
    if (cw_list_empty(&count->kept)) {
        return;
    }
    cw_list_splice_tail(&rails->lost, &count->kept);
    for (i = 0; i < rails->num_flushes; i++) {
        rails->flushes[i].waits_for |= CW_TCP_WAITS_LOST;
    }
    end_flushes(first, 2u << slot, UCS_OK);
    cw_tcp_rails_resend(first);
}

/* The next one. 0: later, or the end follows. */
static int resend(struct cw_tcp_conn *first, struct cw_tcp_kept *kept)
{
    ucs_status_t status;

    if (send_further(first, kept)) {
        return 1;
    }
    status = cw_tcp_send_kept(first, kept, 0);
    if (status == UCS_OK) {
        end(first, kept, UCS_OK);
    } else if (status == UCS_INPROGRESS) {
        kept_free(first, kept);
    } else {
        cw_list_add_head(&first->rails->lost, &kept->link);
        return 0;
    }
    return 1;
}

void cw_tcp_rails_resend(struct cw_tcp_conn *first)
{
    struct cw_tcp_rails *rails = first->rails;
    unsigned i;

    while (!cw_list_empty(&rails->lost)) {
        if (first->state != CW_TCP_OPEN || first->broken != UCS_OK || !resend(first, pop(&rails->lost))) {
            return;
        }
    }
    for (i = 0; i < rails->num_flushes; i++) {
        rails->flushes[i].waits_for |= cw_tcp_rails_busy(first) | (first->tx != NULL);
    }
    end_flushes(first, CW_TCP_WAITS_LOST, UCS_OK);
}

void cw_tcp_rails_cancel(struct cw_tcp_conn *first, ucs_status_t status)
{
    struct cw_tcp_kept *kept;
    unsigned slot;

    for (slot = 0; slot < CW_TCP_MAX_JOINED; slot++) {
        while ((kept = pop(&first->rails->counts[slot].kept)) != NULL) {
            end(first, kept, status);
        }
    }
    while ((kept = pop(&first->rails->lost)) != NULL) {
        end(first, kept, status);
    }
    end_flushes(first, ~0u, status);
}
