/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sent packets. A packet is in a slot of the transport and requests a completion, so a failure identifies its
 * connection. On a connection with acknowledged packets a short one is injected (fi_inject) without a completion, if
 * the provider preserves its order with the others. Then a flush sends a packet with a completion behind it, and
 * keepalive checks request an acknowledgement (ofi_conn.c), since some providers lose injected packets without a
 * report. A packet that the provider rejects (FI_EAGAIN) waits in the order of its connection, which accepts no further
 * packets until that one is sent.
 */
#include "transport/ofi/ofi_send.h"

#include "transport/ofi/ofi_access.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/probe.h"
#include "os/clock.h"

#define MAX_LARGE    32u        /* limit of large packets, and of accesses, in flight per connection */
#define MAX_LONG     4u         /* limit of long accesses in flight per connection */
#define REPEATING_NS 300000000u /* ofi_rxm may take that long to detect the end of its own connection */

/* The provider rejected a packet to the peer. If its queue has space, this is because it is not connected to the
 * peer. */
static void not_reached(const struct ofi_iface *iface, struct ofi_peer *peer)
{
    if (!peer->is_reached && iface->posted < iface->info->tx_attr->size / 2) {
        cw_ofi_peer_is_strange(peer, OFI_ADDRESSED);
    }
}

/* Posts a packet. Returns 0 if the provider did not accept it. */
static int post_packet(struct ofi_iface *iface, struct ofi_slot *slot)
{
    const struct ofi_route *route = slot->peer->route;
    struct iovec iov = {.iov_base = slot->bytes, .iov_len = slot->length};
    struct fi_msg message = {.msg_iov = &iov, .iov_count = 1, .addr = route->address};
    ssize_t error;

    if (cw_unlikely(iface->posted >= iface->most_posted)) {
        return 0;
    }
    message.desc = &slot->block->desc;
    message.context = &slot->context;
    slot->state = OFI_FLYING;
    if (cw_unlikely(iface->is_fragile) && cw_ofi_peer_is_dead(slot->peer)) {
        error = -FI_EHOSTUNREACH;
    } else if (slot->length <= iface->inject) {
        error = fi_sendmsg(iface->ep, &message, FI_INJECT | FI_COMPLETION);
    } else {
        error = fi_send(iface->ep, slot->bytes, slot->length, slot->block->desc, route->address, &slot->context);
    }
    if (error == 0) {
        iface->posted++;
        if (cw_unlikely(!slot->peer->is_reached)) {
            cw_ofi_peer_reached(slot->peer);
        }
        return 1;
    }
    slot->state = OFI_WAITING;
    if (error == -FI_EAGAIN) {
        not_reached(iface, slot->peer);
        return 0;
    }
    (void)cw_ofi_sent(iface, slot, (int)-error, iface->fi->strerror((int)-error));
    return 1;
}

static int post(struct ofi_iface *iface, struct ofi_slot *slot)
{
    return cw_likely(slot->access.use == OFI_USE_PACKET) ? post_packet(iface, slot) : cw_ofi_access_post(iface, slot);
}

/* Adds the slot to the connection's list of those in flight. */
static void note(struct ofi_conn *conn, struct ofi_slot *slot)
{
    if (cw_likely(slot->access.use == OFI_USE_PACKET)) {
        conn->flying++;
        conn->large += slot->block->kind == OFI_BLOCK_LARGE;
        cw_list_add_tail(&conn->slots, &slot->link);
    } else {
        conn->accessing++;
        conn->fetching += slot->access.use != OFI_USE_PUT;
        conn->longs += slot->block->kind == OFI_BLOCK_LONG;
        cw_list_add_tail(&conn->accesses, &slot->link);
    }
}

void cw_ofi_submit(struct ofi_iface *iface, struct ofi_conn *conn, struct ofi_peer *peer, struct ofi_slot *slot)
{
    slot->conn = conn;
    slot->peer = peer;
    cw_ofi_peer_hold(peer);
    iface->flying++;
    if (conn != NULL) {
        note(conn, slot);
    } else {
        cw_list_add_tail(&iface->orphans, &slot->link);
    }
    if ((conn != NULL && conn->stuck > 0) || !post(iface, slot)) {
        slot->state = OFI_WAITING;
        cw_ofi_line_up(iface, &iface->waiting, &slot->waiting);
        if (conn != NULL) {
            conn->stuck++;
        }
    }
}

/* Writes the header of a packet with `length` bytes behind it. `conn` NULL: the packet names no connection of this
 * side. */
static CW_INLINE void set_header(char *bytes, struct ofi_conn *conn, uint64_t to, uint32_t token, uint32_t sequence,
                                 size_t length)
{
    struct cw_ofi_header header = {.to = to, .token = token, .sequence = sequence, .length = (uint32_t)length};

    if (conn != NULL) {
        header.handled = conn->next_in;
        conn->reported = conn->next_in;
    }
    memcpy(bytes, &header, sizeof(header));
}

/* The number of packets that the peer has not acknowledged. */
static uint32_t ahead_of(const struct ofi_conn *conn)
{
    return (conn->next_out - conn->handled) % CW_OFI_SEQUENCES;
}

static unsigned window_of(const struct ofi_conn *conn)
{
    return cw_ofi_iface_of(&conn->super)->window;
}

int cw_ofi_has_space(const struct ofi_conn *conn)
{
    return conn->flying < window_of(conn) && conn->stuck == 0 && (!conn->wants_large || conn->large < MAX_LARGE) &&
           (!conn->wants_access || conn->accessing < MAX_LARGE) && (!conn->wants_long || conn->longs < MAX_LONG) &&
           (!conn->wants_fetched || conn->fetching == 0);
}

/* A connection with a full window is visited only after a packet of the peer. */
ucs_status_t cw_ofi_again(struct ofi_iface *iface, struct ofi_conn *conn)
{
    if (!conn->wants_access && ahead_of(conn) >= window_of(conn)) {
        conn->is_ahead = 1;
    } else if (cw_list_empty(&conn->blocked)) {
        cw_ofi_line_up(iface, &iface->blocked, &conn->blocked);
    }
    return CW_AGAIN;
}

static ucs_status_t take_slot(struct ofi_iface *iface, struct ofi_conn *conn, enum ofi_block_kind kind,
                              struct ofi_slot **slot_p)
{
    if (cw_unlikely(conn->state != OFI_OPEN)) {
        return conn->status;
    }
    conn->wants_large = kind == OFI_BLOCK_LARGE;
    conn->wants_access = 0;
    conn->wants_long = 0;
    conn->wants_fetched = 0;
    if (cw_unlikely(!cw_ofi_has_space(conn) || ahead_of(conn) >= window_of(conn))) {
        return cw_ofi_again(iface, conn);
    }
    *slot_p = cw_ofi_slot_new(iface, kind);
    return (*slot_p != NULL) ? UCS_OK : cw_ofi_again(iface, conn);
}

/* Sends a packet of `length` bytes behind the header. */
static ucs_status_t send(struct ofi_iface *iface, struct ofi_conn *conn, uint8_t id, struct ofi_slot *slot,
                         size_t length)
{
    slot->length = (uint32_t)(sizeof(struct cw_ofi_header) + length);
    slot->number = conn->next_out;
    cw_ofi_marked(iface, conn);
    set_header(slot->bytes, conn, conn->peer_number, conn->peer_token, conn->next_out << 8 | id, length);
    conn->next_out = (conn->next_out + 1) % CW_OFI_SEQUENCES;
    cw_ofi_submit(iface, conn, conn->peer, slot);
    return cw_likely(conn->state == OFI_OPEN) ? UCS_OK : conn->status;
}

static CW_NOINLINE ucs_status_t not_injected(struct ofi_iface *iface, struct ofi_conn *conn, int error)
{
    cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, iface->fi->strerror(error));
    return conn->status;
}

/* Injects a short packet. Returns CW_AGAIN if the provider did not accept it. */
static CW_INLINE ucs_status_t inject(struct ofi_iface *iface, struct ofi_conn *conn, uint8_t id, uint64_t header,
                                     const void *payload, size_t length)
{
    char bytes[CW_OFI_INJECT_MOST];
    ssize_t error;

    set_header(bytes, conn, conn->peer_number, conn->peer_token, conn->next_out << 8 | id, sizeof(header) + length);
    memcpy(bytes + sizeof(struct cw_ofi_header), &header, sizeof(header));
    cw_bytes_copy_short(bytes + sizeof(struct cw_ofi_header) + sizeof(header), payload, length);
    error =
        fi_inject(iface->ep, bytes, sizeof(struct cw_ofi_header) + sizeof(header) + length, conn->peer->route->address);
    if (cw_unlikely(error != 0)) {
        return (error == -FI_EAGAIN) ? CW_AGAIN : not_injected(iface, conn, (int)-error);
    }
    conn->next_out = (conn->next_out + 1) % CW_OFI_SEQUENCES;
    if (!conn->unmarked) {
        conn->unmarked = 1;
        iface->unmarked++;
    }
    return UCS_OK;
}

static CW_NOINLINE ucs_status_t send_short(struct ofi_iface *iface, struct ofi_conn *conn, uint8_t id, uint64_t header,
                                           const void *payload, size_t length)
{
    struct ofi_slot *slot = NULL;
    ucs_status_t status = take_slot(iface, conn, OFI_BLOCK_SMALL, &slot);
    char *bytes;

    CW_PROBE(send_short, CW_OFI_WIRE_ID, sizeof(header) + length, (int)status);
    if (slot == NULL) {
        return status;
    }
    bytes = slot->bytes + sizeof(struct cw_ofi_header);
    memcpy(bytes, &header, sizeof(header));
    cw_bytes_copy_short(bytes + sizeof(header), payload, length);
    return send(iface, conn, id, slot, sizeof(header) + length);
}

ucs_status_t cw_ofi_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    struct ofi_iface *iface = cw_ofi_iface_of(super);
    ucs_status_t status;

    if (cw_likely(conn->injects && conn->state == OFI_OPEN && conn->stuck == 0 &&
                  sizeof(header) + length <= iface->inject_short && ahead_of(conn) < iface->window)) {
        status = inject(iface, conn, id, header, payload, length);
        if (cw_likely(status != CW_AGAIN)) {
            CW_PROBE(send_short, CW_OFI_WIRE_ID, sizeof(header) + length, (int)status);
            return status;
        }
    }
    return send_short(iface, conn, id, header, payload, length);
}

ucs_status_t cw_ofi_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    struct ofi_iface *iface = cw_ofi_iface_of(super);
    const int is_small = max <= CW_OFI_SMALL - sizeof(struct cw_ofi_header);
    struct ofi_slot *slot = NULL;
    ucs_status_t status = take_slot(iface, conn, is_small ? OFI_BLOCK_SMALL : OFI_BLOCK_LARGE, &slot);

    CW_PROBE(send_bcopy, CW_OFI_WIRE_ID, max, (int)status);
    if (slot == NULL) {
        return status;
    }
    return send(iface, conn, id, slot, pack(slot->bytes + sizeof(struct cw_ofi_header), max, arg));
}

struct ofi_slot *cw_ofi_write_notify(struct ofi_iface *iface, struct ofi_conn *conn, const struct cw_ofi_notice *notice,
                                     struct ofi_slot *slot)
{
    struct cw_ofi_control control = {
        .kind = (uint8_t)notice->kind, .version = CW_OFI_VERSION, .length = (uint16_t)notice->length};
    char *bytes, *at;

    if (slot == NULL) {
        slot = cw_ofi_slot_new(iface, OFI_BLOCK_SMALL);
    }
    if (slot == NULL) {
        return NULL;
    }
    if (conn != NULL) {
        control.number = conn->number;
        control.token = conn->token;
    }
    bytes = slot->bytes + sizeof(struct cw_ofi_header);
    at = bytes + sizeof(control);
    if (notice->with_entry) {
        cw_bytes_copy_any(at, &iface->entry, iface->entry_length);
        control.entry_length = (uint8_t)iface->entry_length;
        control.watch_port = iface->watch.port;
        at += iface->entry_length;
    }
    if (notice->with_reach) {
        control.reach_length = (uint8_t)cw_ofi_reach_write(iface, at);
        at += control.reach_length;
    }
    if (notice->length > 0) {
        cw_bytes_copy_any(at, notice->bytes, notice->length);
    }
    memcpy(bytes, &control, sizeof(control));
    slot->length = (uint32_t)((size_t)(at - slot->bytes) + notice->length);
    slot->number = (conn != NULL) ? conn->next_out : 0;
    set_header(slot->bytes, conn, notice->to, notice->token, notice->number << 8,
               slot->length - sizeof(struct cw_ofi_header));
    return slot;
}

struct ofi_slot *cw_ofi_notify(struct ofi_iface *iface, struct ofi_peer *peer, struct ofi_conn *conn,
                               const struct cw_ofi_notice *notice, struct ofi_slot *slot)
{
    slot = cw_ofi_write_notify(iface, conn, notice, slot);
    if (slot != NULL) {
        cw_ofi_submit(iface, conn, peer, slot);
    }
    return slot;
}

static bool is_before(uint32_t a, uint32_t b)
{
    return a != b && (b - a) % CW_OFI_SEQUENCES < CW_OFI_SEQUENCES / 2;
}

void cw_ofi_end_flushes(struct ofi_conn *conn)
{
    struct ofi_flush *flush, *next;

    cw_list_for_each_safe(flush, next, &conn->flushes, struct ofi_flush, link)
    {
        if (!cw_list_empty(&conn->slots) &&
            is_before(cw_list_head(&conn->slots, struct ofi_slot, link)->number, flush->number)) {
            return;
        }
        cw_list_remove(&flush->link);
        flush->completion->done(flush->completion, UCS_OK);
        free(flush);
    }
}

void cw_ofi_cancel_flushes(struct ofi_conn *conn)
{
    struct cw_list *link;
    struct ofi_flush *flush;

    while ((link = cw_list_pop_head(&conn->flushes)) != NULL) {
        flush = cw_container_of(link, struct ofi_flush, link);
        flush->completion->done(flush->completion, UCS_ERR_CANCELED);
        free(flush);
    }
}

static bool is_handshake(const struct ofi_slot *slot)
{
    struct cw_ofi_header header;
    struct cw_ofi_control control;

    if (slot->length < sizeof(header) + sizeof(control)) {
        return false;
    }
    memcpy(&header, slot->bytes, sizeof(header));
    memcpy(&control, slot->bytes + sizeof(header), sizeof(control));
    return header.sequence == 0 && (control.kind == CW_OFI_HELLO || control.kind == CW_OFI_REPLY);
}

/* HELLO and REPLY may fail only because the provider's own connection to the peer had ended before; a retry makes the
 * provider reconnect. */
static bool may_repeat(struct ofi_conn *conn)
{
    const uint64_t now_ns = cw_clock_ns();

    if (conn->repeat_until_ns == 0) {
        conn->repeat_until_ns = now_ns + REPEATING_NS;
    }
    return now_ns < conn->repeat_until_ns && (conn->state == OFI_DIALLING || conn->state == OFI_OPEN);
}

static void repeat(struct ofi_iface *iface, struct ofi_conn *conn, struct ofi_slot *slot)
{
    slot->state = OFI_WAITING;
    if (cw_list_empty(&slot->waiting)) {
        conn->stuck++;
        cw_ofi_line_up(iface, &iface->waiting, &slot->waiting);
    }
}

struct ofi_conn *cw_ofi_sent(struct ofi_iface *iface, struct ofi_slot *slot, int error, const char *text)
{
    struct ofi_conn *conn = slot->conn;
    struct ofi_peer *peer = slot->peer;
    unsigned is_large;

    iface->posted -= slot->state == OFI_FLYING;
    if (cw_unlikely(error != 0) && conn != NULL && !peer->dead && is_handshake(slot) && may_repeat(conn)) {
        repeat(iface, conn, slot);
        return conn;
    }
    if (!cw_list_empty(&slot->waiting) && conn != NULL) {
        conn->stuck--;
    }
    is_large = slot->block->kind == OFI_BLOCK_LARGE;
    cw_ofi_slot_free(iface, slot);
    iface->flying--;
    if (conn != NULL) {
        conn->flying--;
        conn->large -= is_large;
        conn->ping = (conn->ping == slot) ? NULL : conn->ping;
        if (cw_unlikely(error != 0)) {
            cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, text);
        }
    }
    cw_ofi_peer_drop(peer);
    return conn;
}

unsigned cw_ofi_send_waiting(struct ofi_iface *iface)
{
    struct ofi_slot *slot, *next;
    unsigned count = 0;

    cw_list_for_each_safe(slot, next, &iface->waiting, struct ofi_slot, waiting)
    {
        if (cw_ofi_peer_is_dead(slot->peer)) { /* some providers would retry the connect for ever */
            count++;
            if (slot->access.use != OFI_USE_PACKET) {
                cw_ofi_access_refuse(iface, slot, FI_EHOSTUNREACH);
            } else {
                (void)cw_ofi_sent(iface, slot, FI_EHOSTUNREACH, "the process ended");
            }
            continue;
        }
        if (slot->conn != NULL && slot->conn->held) {
            continue;
        }
        if (iface->broken || !post(iface, slot)) {
            if (slot->conn != NULL) {
                slot->conn->held = 1; /* the connection's later packets must not overtake it */
            }
            continue;
        }
        count++;
        if (slot->state == OFI_FLYING) {
            cw_list_remove(&slot->waiting);
            if (slot->conn != NULL) {
                slot->conn->stuck--;
            }
        }
    }
    cw_list_for_each(slot, &iface->waiting, struct ofi_slot, waiting)
    {
        if (slot->conn != NULL) {
            slot->conn->held = 0;
        }
    }
    return count;
}

unsigned cw_ofi_give_space(struct ofi_iface *iface)
{
    struct cw_list list, *link;
    struct ofi_conn *conn;
    unsigned count = 0;

    cw_list_init(&list);
    cw_list_splice_tail(&list, &iface->blocked);
    while ((link = cw_list_pop_head(&list)) != NULL) {
        conn = cw_container_of(link, struct ofi_conn, blocked);
        if (conn->state == OFI_OPEN && !cw_ofi_has_space(conn)) {
            cw_ofi_line_up(iface, &iface->blocked, &conn->blocked);
        } else if (conn->state == OFI_OPEN) {
            count++;
            iface->super.upcalls->space(&conn->super);
        }
    }
    return count;
}

int cw_ofi_peer_handled(struct ofi_conn *conn, uint32_t handled)
{
    const uint32_t more = (handled - conn->handled) % CW_OFI_SEQUENCES;

    if (handled >= CW_OFI_SEQUENCES || (more > ahead_of(conn) && more < CW_OFI_SEQUENCES / 2)) {
        return 0;
    }
    if (more >= CW_OFI_SEQUENCES / 2) {
        return 1; /* an older acknowledgement, overtaken by a newer one */
    }
    if (cw_unlikely(!conn->is_proved) && more > 0) {
        cw_ofi_conn_proved(conn);
    }
    conn->injects = conn->injects || (more > 0 && cw_ofi_iface_of(&conn->super)->injects);
    conn->handled = handled;
    if (cw_unlikely(conn->is_ahead) && ahead_of(conn) < window_of(conn)) {
        conn->is_ahead = 0;
        (void)cw_ofi_again(cw_ofi_iface_of(&conn->super), conn);
    }
    return 1;
}

void cw_ofi_notify_handled(struct ofi_conn *conn)
{
    const struct cw_ofi_notice notice = {.kind = CW_OFI_HANDLED, .to = conn->peer_number, .token = conn->peer_token};

    if (conn->state == OFI_OPEN) {
        (void)cw_ofi_notify(cw_ofi_iface_of(&conn->super), conn->peer, conn, &notice, NULL);
    }
}

/* Sends a packet with a completion behind those without, unless the peer has acknowledged them. Returns 0 if out of
 * memory. */
static int mark(struct ofi_iface *iface, struct ofi_conn *conn)
{
    const struct cw_ofi_notice notice = {.kind = CW_OFI_HANDLED, .to = conn->peer_number, .token = conn->peer_token};
    struct ofi_slot *slot;

    if (ahead_of(conn) > 0) {
        slot = cw_ofi_write_notify(iface, conn, &notice, NULL);
        if (slot == NULL) {
            return 0;
        }
        slot->number = (conn->next_out - 1) % CW_OFI_SEQUENCES;
        cw_ofi_submit(iface, conn, conn->peer, slot);
    }
    cw_ofi_marked(iface, conn);
    return 1;
}

ucs_status_t cw_ofi_flush(struct cw_conn *super, struct cw_completion *completion)
{
    struct ofi_conn *conn = cw_ofi_conn_of(super);
    struct ofi_flush *flush;

    if (conn->state != OFI_OPEN) {
        return conn->status;
    }
    if (conn->unmarked && !mark(cw_ofi_iface_of(super), conn)) {
        return (completion == NULL) ? UCS_INPROGRESS : cw_ofi_again(cw_ofi_iface_of(super), conn);
    }
    if (conn->flying == 0) {
        return UCS_OK;
    }
    if (completion == NULL) {
        return UCS_INPROGRESS;
    }
    flush = malloc(sizeof(*flush));
    if (flush == NULL) {
        return cw_ofi_again(cw_ofi_iface_of(super), conn);
    }
    flush->completion = completion;
    flush->number = conn->next_out;
    cw_list_add_tail(&conn->flushes, &flush->link);
    return UCS_INPROGRESS;
}

int cw_ofi_has_unsent(const struct cw_iface *super)
{
    const struct ofi_iface *iface = cw_container_of(super, const struct ofi_iface, super);

    return iface->flying > 0 || iface->unmarked > 0;
}
