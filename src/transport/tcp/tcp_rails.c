/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further sockets of a connection, over which placed packets are spread, so that they use more than one flow of the
 * network and leave the first socket to ordinary packets. The dialler opens them when the first large packet comes or
 * goes, and shows the pass that it got when it was accepted: the number of the connection and a random token. Joining
 * may fail at any time without notice; then everything stays on the sockets that there are.
 *
 * A further socket that ends is done without (tcp_rail_count.c). With the first, all end: when it has ended, sends fail
 * and the other sockets are told that no more comes, but what still comes on them counts. A peer that closes ends them
 * all, and their ends arrive in any order.
 */
#include "transport/tcp/tcp_rails.h"
#include "transport/tcp/tcp_watch.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "os/random.h"
#include "transport/tcp/tcp_dial.h"
#include "transport/tcp/tcp_guard.h"
#include "transport/tcp/tcp_send.h"

static struct cw_tcp_rails *rails_new(void)
{
    struct cw_tcp_rails *rails = calloc(1, sizeof(*rails));
    unsigned slot;

    for (slot = 0; rails != NULL && slot < CW_TCP_MAX_JOINED; slot++) {
        cw_list_init(&rails->counts[slot].kept);
    }
    if (rails != NULL) {
        cw_list_init(&rails->lost);
    }
    return rails;
}

size_t cw_tcp_rails_offer(struct cw_tcp_conn *conn, void *pass)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_rails *rails = (iface->settings.num_joined > 0) ? rails_new() : NULL;
    uint64_t random[CW_TCP_TOKEN_SIZE / sizeof(uint64_t)], id;

    if (rails == NULL || cw_idmap_add(&iface->joinable, conn, &rails->id) != UCS_OK) {
        free(rails);
        return 0;
    }
    rails->is_joinable = 1;
    random[0]          = cw_random_u64();
    random[1]          = cw_random_u64();
    memcpy(rails->token, random, sizeof(random));
    id = htole64(rails->id);
    memcpy(pass, &id, sizeof(id));
    memcpy((uint8_t *)pass + sizeof(id), rails->token, sizeof(rails->token));
    conn->rails = rails;
    conn->super.placed_piece = CW_TCP_RAILS_PLACED;
    return CW_TCP_PASS_SIZE;
}

void cw_tcp_rails_take(struct cw_tcp_conn *conn, const void *pass)
{
    const struct cw_tcp_greeting *greeting = conn->greeting;
    struct cw_tcp_rails *rails             = rails_new();
    uint64_t id;

    if (rails == NULL) {
        return;
    }
    memcpy(&id, pass, sizeof(id));
    memcpy(rails->token, (const uint8_t *)pass + sizeof(id), sizeof(rails->token));
    rails->id       = le64toh(id);
    rails->key      = greeting->key;
    rails->peer     = greeting->candidates[greeting->next];
    rails->may_dial = 1;
    conn->rails     = rails;
    conn->super.placed_piece = CW_TCP_RAILS_PLACED;
}

/* Returns 0 when it has failed already. */
static int dial_one(struct cw_tcp_conn *first, unsigned slot)
{
    struct cw_tcp_rails *rails = first->rails;
    struct cw_tcp_conn *conn   = cw_tcp_conn_new(cw_tcp_iface_of(&first->super), CW_TCP_CONNECTING, -1);
    const uint64_t id          = htole64(rails->id);
    struct cw_tcp_greeting *greeting;

    if (conn == NULL) {
        return 0;
    }
    greeting                 = conn->greeting;
    greeting->num_candidates = 1;
    greeting->candidates[0]  = rails->peer;
    greeting->key            = rails->key;
    greeting->out_length     = CW_TCP_GREETING_SIZE + CW_TCP_PASS_SIZE;
    cw_tcp_greeting_encode(greeting->out, CW_TCP_JOIN, CW_TCP_PASS_SIZE, rails->key);
    memcpy(greeting->out + CW_TCP_GREETING_SIZE, &id, sizeof(id));
    memcpy(greeting->out + CW_TCP_GREETING_SIZE + sizeof(id), rails->token, sizeof(rails->token));
    conn->first          = first;
    conn->slot           = (uint8_t)slot;
    rails->sockets[slot] = conn;
    if (!cw_tcp_dial_next(conn)) {
        cw_tcp_rails_leave(conn);
        return 0;
    }
    return 1;
}

void cw_tcp_rails_want(struct cw_tcp_conn *conn)
{
    const unsigned count = cw_tcp_iface_of(&conn->super)->settings.num_joined;
    unsigned i;

    if (conn->rails == NULL || !conn->rails->may_dial || conn->state != CW_TCP_OPEN || conn->broken != UCS_OK) {
        return;
    }
    conn->rails->may_dial = 0;
    for (i = 0; i < count && dial_one(conn, i); i++) {
    }
}

/* Takes equally long wherever they differ. */
static int same_token(const uint8_t *left, const uint8_t *right)
{
    uint8_t differ = 0;
    unsigned i;

    for (i = 0; i < CW_TCP_TOKEN_SIZE; i++) {
        differ |= left[i] ^ right[i];
    }
    return differ == 0;
}

const char *cw_tcp_rails_join(struct cw_tcp_conn *conn, enum cw_log_level *level_p)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    const uint8_t *pass        = conn->greeting->in + CW_TCP_GREETING_SIZE;
    uint8_t answer[CW_TCP_GREETING_SIZE + sizeof(struct cw_tcp_joined_body)];
    struct cw_tcp_joined_body joined = {0};
    struct cw_tcp_conn *first;
    unsigned slot = 0;
    uint64_t id;

    memcpy(&id, pass, sizeof(id));
    first = cw_idmap_get(&iface->joinable, le64toh(id));
    if (first == NULL) {
        *level_p = CW_LOG_DIAG; /* it may have been closed just now */
        return "it wants to join a connection that is not there";
    }
    if (!same_token(first->rails->token, pass + sizeof(id))) {
        return "it wants to join a connection and does not know its token";
    }
    while (slot < CW_TCP_MAX_JOINED &&
           (first->rails->sockets[slot] != NULL || first->rails->counts[slot].has_ended ||
            first->rails->counts[slot].heard)) {
        slot++;
    }
    if (slot == CW_TCP_MAX_JOINED || first->state != CW_TCP_OPEN || first->broken != UCS_OK) {
        *level_p = CW_LOG_DIAG;
        return "it wants to join a connection that takes no more sockets";
    }
    joined.slot = (uint8_t)slot;
    cw_tcp_greeting_encode(answer, CW_TCP_JOINED, sizeof(joined), iface->key);
    memcpy(answer + CW_TCP_GREETING_SIZE, &joined, sizeof(joined));
    if (cw_tcp_guard_send(conn, answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
        *level_p = CW_LOG_DIAG;
        return "it takes no answer";
    }
    conn->sent += (uint32_t)sizeof(answer);
    cw_tcp_conn_open(conn);
    cw_tcp_greeting_free(conn);
    conn->first                 = first;
    conn->slot                  = (uint8_t)slot;
    first->rails->sockets[slot] = conn;
    cw_tcp_watch_joined(conn);
    return NULL;
}

struct cw_tcp_conn *cw_tcp_rails_choose(struct cw_tcp_conn *conn)
{
    struct cw_tcp_rails *rails = conn->rails;
    struct cw_tcp_conn *candidate;
    unsigned i, slot;

    for (i = 0; rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        slot      = (rails->next + i) % CW_TCP_MAX_JOINED;
        candidate = rails->sockets[slot];
        if (candidate != NULL && candidate->state == CW_TCP_OPEN && candidate->tx == NULL && !candidate->failed &&
            !rails->counts[slot].heard) {
            rails->next = (uint8_t)((slot + 1) % CW_TCP_MAX_JOINED);
            return candidate;
        }
    }
    return NULL;
}

unsigned cw_tcp_rails_busy(const struct cw_tcp_conn *conn)
{
    unsigned busy = 0, i;

    for (i = 0; conn->rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        busy |= cw_list_empty(&conn->rails->counts[i].kept) ? 0 : 2u << i;
    }
    return busy | ((conn->rails == NULL || cw_list_empty(&conn->rails->lost)) ? 0 : CW_TCP_WAITS_LOST);
}

unsigned cw_tcp_rails_drained(struct cw_tcp_conn *first, unsigned bits, struct cw_completion **done)
{
    struct cw_tcp_rails *rails = first->rails;
    unsigned count = 0, kept = 0, i;

    for (i = 0; i < rails->num_flushes; i++) {
        rails->flushes[i].waits_for &= ~bits;
        if (rails->flushes[i].waits_for == 0) {
            done[count++] = rails->flushes[i].completion;
        } else {
            rails->flushes[kept++] = rails->flushes[i];
        }
    }
    rails->num_flushes = (uint8_t)kept;
    return count;
}

void cw_tcp_rails_leave(struct cw_tcp_conn *conn)
{
    conn->first->rails->sockets[conn->slot] = NULL;
    cw_tcp_conn_free(conn);
}

/* The first ended socket: nothing is sent any more, and the peer is told so on those that are left. */
static void begin_ending(struct cw_tcp_conn *first, ucs_status_t status)
{
    struct cw_tcp_rails *rails = first->rails;
    struct cw_tcp_conn *conn;
    unsigned i;

    rails->ending = 1;
    if (first->broken == UCS_OK) {
        first->broken = status;
    }
    first->wants_room = 0;
    for (i = 0; i <= CW_TCP_MAX_JOINED; i++) {
        conn = (i == CW_TCP_MAX_JOINED) ? first : rails->sockets[i];
        if (first->state != CW_TCP_OPEN) {
            return; /* abandoned in a completion */
        }
        if (conn != NULL && conn->state != CW_TCP_OPEN) {
            cw_tcp_rails_leave(conn);
        } else if (conn != NULL) {
            cw_tcp_tx_cancel(conn, first->broken, 0);
            cw_net_finish(conn->item.fd);
            cw_tcp_tx_update_interest(conn);
        }
    }
    cw_tcp_rails_cancel(first, first->broken);
}

void cw_tcp_rails_broke(struct cw_tcp_conn *first)
{
    if (!first->rails->ending) {
        begin_ending(first, UCS_ERR_CONNECTION_RESET);
    }
}

/* Whether another socket of the connection is still read. */
static int others_live(const struct cw_tcp_conn *conn, const struct cw_tcp_conn *first)
{
    const struct cw_tcp_conn *other;
    unsigned i;

    for (i = 0; first->rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        other = first->rails->sockets[i];
        if (other != NULL && other != conn && other->state == CW_TCP_OPEN) {
            return 1;
        }
    }
    return conn != first && first->item.fd >= 0;
}

void cw_tcp_rails_ended(struct cw_tcp_conn *conn, ucs_status_t status)
{
    struct cw_tcp_conn *first = cw_tcp_first(conn);

    if (conn != first && status != UCS_ERR_ENDPOINT_TIMEOUT && cw_tcp_rail_died(conn)) {
        return;
    }
    if (status == UCS_ERR_ENDPOINT_TIMEOUT || !others_live(conn, first)) { /* nothing comes from a dead machine */
        cw_tcp_conn_lost(first, (first->broken != UCS_OK) ? first->broken : status);
        return;
    }
    if (!first->rails->ending) {
        begin_ending(first, status);
        if (first->state != CW_TCP_OPEN) {
            return;
        }
    }
    if (conn != first) {
        cw_tcp_rails_leave(conn);
        return;
    }
    cw_tcp_conn_drop_fd(conn);
    free(conn->rx_frame);
    free(conn->place);
    conn->rx_frame = NULL;
    conn->place    = NULL;
}

void cw_tcp_rails_end(struct cw_tcp_conn *conn, ucs_status_t status, int linger)
{
    struct cw_tcp_rails *rails = conn->rails;
    struct cw_tcp_conn *socket;
    unsigned i;

    if (rails == NULL) {
        return;
    }
    if (rails->is_joinable) {
        rails->is_joinable = 0;
        cw_idmap_remove(&cw_tcp_iface_of(&conn->super)->joinable, rails->id);
    }
    for (i = 0; i < CW_TCP_MAX_JOINED; i++) {
        socket = rails->sockets[i];
        if (socket == NULL) {
            continue;
        }
        cw_tcp_tx_cancel(socket, status, linger);
        rails->sockets[i] = NULL;
        socket->first     = NULL;
        if (linger && socket->state == CW_TCP_OPEN) {
            cw_tcp_conn_linger(socket);
        } else {
            cw_tcp_conn_free(socket);
        }
    }
    cw_tcp_rails_cancel(conn, status);
}
