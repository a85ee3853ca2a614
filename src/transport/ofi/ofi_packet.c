/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received packets. Their content is untrusted: a packet must carry the token that this side chose for the connection,
 * and lengths are checked against the bytes received. Packets are delivered in order of their sequence numbers; with a
 * provider that preserves order none is retained here.
 */
#include "transport/ofi/ofi_access.h"
#include "transport/ofi/ofi_send.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/counter.h"
#include "base/log.h"

static struct cw_log_limit limit;

/* The parts of a packet. */
struct arrived {
    struct cw_ofi_header header;
    struct cw_ofi_control control;
    const char *data; /* behind the header */
    size_t length;
    const char *entry; /* address entry of a control packet */
    const char *reach; /* struct cw_ofi_reach of a control packet */
    const char *core;  /* the bytes for the core */
    fi_addr_t source;  /* as in cw_ofi_arrived() */
};

static void drop(const struct ofi_iface *iface, const char *why)
{
    cw_log_ratelimited(&limit, CW_LOG_DEBUG, "dropped a packet over %s: %s", iface->info->fabric_attr->prov_name,
                       why);
}

static int parse_control(struct arrived *arrived)
{
    if (arrived->length < sizeof(arrived->control)) {
        return 0;
    }
    memcpy(&arrived->control, arrived->data, sizeof(arrived->control));
    arrived->entry = arrived->data + sizeof(arrived->control);
    arrived->reach = arrived->entry + arrived->control.entry_length;
    arrived->core = arrived->reach + arrived->control.reach_length;
    return arrived->control.version == CW_OFI_VERSION && arrived->control.length <= CW_HELLO_MAX &&
           arrived->length == sizeof(arrived->control) + arrived->control.entry_length + arrived->control.reach_length +
                                  arrived->control.length;
}

/* Whether the packet has an address entry that its source does not contradict. */
static bool has_sender(struct ofi_iface *iface, const struct arrived *arrived)
{
    const size_t length = arrived->control.entry_length;
    const char *why;

    if (!cw_ofi_entry_check(iface, arrived->entry, length, &why)) {
        drop(iface, why);
        return false;
    }
    if (cw_ofi_is_contradicted(iface, arrived->entry, length, arrived->source)) {
        drop(iface, "it does not come from the address that it names");
        return false;
    }
    return true;
}

/* The sender, if packets have reached it before; NULL otherwise. */
static struct ofi_peer *known_sender(struct ofi_iface *iface, const struct arrived *arrived)
{
    struct ofi_peer *peer = cw_ofi_peer_find(iface, arrived->entry, arrived->control.entry_length);

    return (peer != NULL && peer->is_reached && !cw_ofi_peer_is_dead(peer)) ? peer : NULL;
}

/* The sender, with a reference, even if only this packet names it. NULL: it is dead, or out of memory. */
static struct ofi_peer *any_sender(struct ofi_iface *iface, const struct arrived *arrived)
{
    struct ofi_peer *peer;

    if (cw_ofi_peer_get(iface, arrived->entry, arrived->control.entry_length, false, &peer) != UCS_OK) {
        cw_ofi_peer_drop(peer);
        return NULL;
    }
    return peer;
}

/* Whether packets have reached the sender before, or the provider confirms its address as the packet's source. */
static bool is_confirmed(const struct ofi_peer *peer, const struct arrived *arrived)
{
    return peer->is_reached || arrived->source == peer->route->address;
}

/* Answers a sender that named its connection in its packet. */
static void answer(struct ofi_iface *iface, struct ofi_peer *peer, const struct arrived *arrived,
                   const struct cw_ofi_notice *what)
{
    struct cw_ofi_notice notice = *what;

    notice.to = arrived->control.number;
    notice.token = arrived->control.token;
    (void)cw_ofi_notify(iface, peer, NULL, &notice, NULL);
}

static bool is_for_this_worker(const struct ofi_iface *iface, const struct arrived *arrived)
{
    const struct cw_upcalls *upcalls = iface->super.upcalls;

    return upcalls->is_ours == NULL || upcalls->is_ours(&iface->super, arrived->core, arrived->control.length);
}

/* Whether this HELLO is a retransmission of an accepted dial. */
static bool is_accepted(struct ofi_iface *iface, const struct ofi_peer *peer, const struct arrived *arrived)
{
    const struct ofi_conn *conn;

    cw_list_for_each(conn, &iface->conns, struct ofi_conn, link)
    {
        if (conn->peer == peer && conn->is_acceptor && conn->peer_number == arrived->control.number &&
            conn->peer_token == arrived->control.token) {
            return true;
        }
    }
    return false;
}

/* Drops the HELLO if the list of unauthenticated peers is full. If the provider reports sources, the dialler is
 * confirmed when it retransmits its HELLO. */
static bool must_wait(struct ofi_iface *iface, struct ofi_peer *peer, const struct arrived *arrived)
{
    if (is_confirmed(peer, arrived) || !cw_ofi_unauth_full(iface)) {
        return false;
    }
    drop(iface, "too many unauthenticated peers wait for a reply");
    if (iface->objects->names_source) {
        cw_ofi_peer_is_strange(peer, OFI_UNANSWERED);
    }
    return true;
}

/* Returns 1 if the dial was accepted. */
static unsigned take_hello(struct ofi_iface *iface, const struct arrived *arrived)
{
    struct ofi_conn *conn = NULL;
    struct ofi_peer *peer;
    char reply[CW_HELLO_MAX];
    size_t length = sizeof(reply);
    ucs_status_t status;

    if (!has_sender(iface, arrived)) {
        return 0;
    }
    peer = cw_ofi_peer_find(iface, arrived->entry, arrived->control.entry_length);
    if (peer != NULL && is_accepted(iface, peer, arrived)) {
        return 0;
    }
    if (known_sender(iface, arrived) == NULL && (iface->closing || !is_for_this_worker(iface, arrived))) {
        drop(iface, "it connects to another worker");
        return 0;
    }
    peer = any_sender(iface, arrived);
    if (peer == NULL || must_wait(iface, peer, arrived)) {
        cw_ofi_peer_drop(peer);
        return 0;
    }
    if (!iface->closing) {
        conn = cw_ofi_conn_new(iface, peer, NULL);
    }
    if (conn == NULL) {
        answer(iface, peer, arrived, &(struct cw_ofi_notice){.kind = CW_OFI_GONE});
        cw_ofi_peer_drop(peer);
        return 0;
    }
    conn->peer_number = arrived->control.number;
    conn->peer_token = arrived->control.token;
    conn->watch_port = arrived->control.watch_port;
    conn->next_out = (conn->next_out + 1) % CW_OFI_SEQUENCES; /* the reply is the first packet */
    conn->is_acceptor = 1;
    conn->state = OFI_OPEN;
    cw_ofi_reach_read(conn, arrived->reach, arrived->control.reach_length);
    status = iface->super.upcalls->accept(iface->super.owner, &conn->super, arrived->core, arrived->control.length,
                                          reply, &length);
    if (status == UCS_OK) {
        const struct cw_ofi_notice notice = {.kind = CW_OFI_REPLY,
                                   .to = conn->peer_number,
                                   .token = conn->peer_token,
                                   .number = (uint32_t)cw_counter_start % CW_OFI_SEQUENCES,
                                   .with_entry = 1,
                                   .with_reach = 1,
                                   .bytes = reply,
                                   .length = length};

        if (cw_ofi_notify(iface, peer, conn, &notice, NULL) == NULL) {
            cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, "out of memory for the reply");
        } else if (iface->injects) {
            cw_ofi_poll_later(conn);
        }
    } else {
        answer(iface, peer, arrived, &(struct cw_ofi_notice){.kind = CW_OFI_REFUSED, .bytes = reply, .length = length});
        cw_ofi_conn_free(conn);
    }
    cw_ofi_peer_drop(peer);
    return status == UCS_OK;
}

/* A peer cancels its dial to this side. */
static unsigned take_leave(struct ofi_iface *iface, const struct arrived *arrived)
{
    struct ofi_conn *conn;

    cw_list_for_each(conn, &iface->conns, struct ofi_conn, link)
    {
        if (conn->is_acceptor && conn->state == OFI_OPEN && conn->peer_number == arrived->control.number &&
            conn->peer_token == arrived->control.token) {
            conn->said_bye = 1;
            cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, "the peer canceled the connection");
            cw_ofi_notify_end(conn);
            return 1;
        }
    }
    return 0;
}

static void take_refusal(struct ofi_conn *conn, const struct arrived *arrived)
{
    if (conn->state != OFI_DIALLING) {
        return;
    }
    conn->state = OFI_BROKEN;
    conn->status = UCS_ERR_REJECTED;
    conn->said_bye = 1;
    conn->is_dialling = 0;
    cw_poller_alarm_cancel(cw_ofi_iface_of(&conn->super)->poller, &conn->deadline);
    conn->super.iface->upcalls->opened(&conn->super, UCS_ERR_REJECTED, arrived->core, arrived->control.length);
}

static void break_rules(struct ofi_conn *conn, const char *why)
{
    cw_ofi_end(conn, UCS_ERR_IO_ERROR, why);
}

/* Handles an ordered control packet, in sequence. */
static void take_ordered(struct ofi_conn *conn, const struct arrived *arrived)
{
    if (arrived->control.kind == CW_OFI_REPLY && conn->state == OFI_DIALLING) {
        conn->peer_number = arrived->control.number;
        conn->peer_token = arrived->control.token;
        conn->watch_port = arrived->control.watch_port;
        cw_ofi_reach_read(conn, arrived->reach, arrived->control.reach_length);
        cw_ofi_open_now(conn, arrived->core, arrived->control.length);
    } else if (arrived->control.kind == CW_OFI_BYE && conn->state == OFI_OPEN) {
        conn->said_bye = 1;
        cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, "the peer closed it");
        cw_ofi_notify_end(conn);
    } else {
        break_rules(conn, "unexpected packet");
    }
}

/* Handles the next packet in sequence. */
static void deliver(struct ofi_conn *conn, uint8_t id, const char *data, size_t length)
{
    struct arrived arrived = {.data = data, .length = length};

    conn->next_in = (conn->next_in + 1) % CW_OFI_SEQUENCES;
    if (id != 0) {
        if (conn->state == OFI_OPEN || (conn->state == OFI_ENDING && !conn->is_dialling)) {
            conn->super.iface->upcalls->packet(&conn->super, id, data, length);
        }
    } else if (parse_control(&arrived)) {
        take_ordered(conn, &arrived);
    }
}

static void keep(struct ofi_conn *conn, uint32_t number, uint8_t id, const char *data, size_t length)
{
    const uint32_t ahead = (number - conn->next_in) % CW_OFI_SEQUENCES;
    struct cw_list *place;
    struct ofi_retained *retained;

    if (ahead > CW_OFI_RETAINED) {
        break_rules(conn, (ahead > CW_OFI_SEQUENCES / 2) ? "duplicate packet" : "packets are missing");
        return;
    }
    for (place = conn->retained.prev; place != &conn->retained; place = place->prev) {
        retained = cw_container_of(place, struct ofi_retained, link);
        if (retained->number == number) {
            break_rules(conn, "duplicate packet");
            return;
        }
        if ((retained->number - conn->next_in) % CW_OFI_SEQUENCES < ahead) {
            break;
        }
    }
    retained = malloc(sizeof(*retained) + length);
    if (retained == NULL) {
        break_rules(conn, "out of memory for packets out of order");
        return;
    }
    *retained = (struct ofi_retained){.number = number, .length = (uint32_t)length, .id = id};
    cw_bytes_copy_any(retained->data, data, length);
    cw_list_add_head(place, &retained->link);
}

static void deliver_retained(struct ofi_conn *conn)
{
    struct ofi_retained *retained;

    while (!cw_list_empty(&conn->retained)) {
        retained = cw_list_head(&conn->retained, struct ofi_retained, link);
        if (retained->number != conn->next_in || conn->state == OFI_BROKEN) {
            return;
        }
        cw_list_remove(&retained->link);
        deliver(conn, retained->id, retained->data, retained->length);
        free(retained);
    }
}

/* Handles an unordered control packet. Returns 0 if it is an ordered one. */
static int take_loose(struct ofi_conn *conn, const struct arrived *arrived)
{
    const struct cw_ofi_notice pong = {.kind = CW_OFI_PONG, .to = conn->peer_number, .token = conn->peer_token};

    switch (arrived->control.kind) {
    case CW_OFI_REFUSED:
        take_refusal(conn, arrived);
        return 1;
    case CW_OFI_GONE:
        conn->said_bye = 1;
        cw_ofi_end(conn, UCS_ERR_CONNECTION_RESET, "the peer no longer knows it");
        return 1;
    case CW_OFI_PING:
        if (conn->state == OFI_OPEN) {
            (void)cw_ofi_notify(cw_ofi_iface_of(&conn->super), conn->peer, conn, &pong, NULL);
        }
        return 1;
    case CW_OFI_PONG:
        cw_ofi_ponged(conn);
        return 1;
    case CW_OFI_HANDLED:
        return 1;
    default:
        return 0;
    }
}

static bool is_former(const struct ofi_iface *iface, const struct cw_ofi_header *header)
{
    unsigned i;

    for (i = 0; i < CW_OFI_FORMER; i++) {
        if (header->to != 0 && iface->former[i].number == header->to && iface->former[i].token == header->token) {
            return true;
        }
    }
    return false;
}

/* A packet refers to a connection that does not exist. Its sender is notified if it proves that the connection existed,
 * or if the provider confirms the source address. A provider knows that only for addresses in its vector, so the
 * address of an unauthenticated peer is inserted and its next packet is answered; nothing is sent to it before. */
static void take_lost(struct ofi_iface *iface, const struct arrived *arrived)
{
    struct ofi_peer *peer;

    if (!has_sender(iface, arrived) || (!is_former(iface, &arrived->header) && !iface->objects->names_source &&
                                        known_sender(iface, arrived) == NULL)) {
        return;
    }
    peer = any_sender(iface, arrived);
    if (peer == NULL) {
        return;
    }
    if (is_confirmed(peer, arrived) ||
        (is_former(iface, &arrived->header) && !cw_ofi_unauth_full(iface))) {
        answer(iface, peer, arrived, &(struct cw_ofi_notice){.kind = CW_OFI_GONE});
    } else {
        cw_ofi_peer_is_strange(peer, OFI_UNANSWERED);
    }
    cw_ofi_peer_drop(peer);
}

/* Handles a control packet that names no connection of this side. */
static unsigned take_stray(struct ofi_iface *iface, const struct arrived *arrived)
{
    switch (arrived->control.kind) {
    case CW_OFI_HELLO:
        return take_hello(iface, arrived);
    case CW_OFI_LEAVE:
        return take_leave(iface, arrived);
    case CW_OFI_REPLY: /* the dial was canceled; its LEAVE arrives later or arrived before the HELLO */
    case CW_OFI_PING:
        take_lost(iface, arrived);
        return 0;
    default:
        return 0; /* for a connection that this side closed */
    }
}

static inline void after_packet(const struct ofi_iface *iface, struct ofi_conn *conn)
{
    if (cw_unlikely((conn->next_in - conn->reported) % CW_OFI_SEQUENCES >= iface->window / 2)) {
        cw_ofi_notify_handled(conn); /* the peer may wait for the acknowledgement */
    }
}

/* Slow path: handles a packet of any kind, with all checks. */
static CW_NOINLINE unsigned take_any(struct ofi_iface *iface, const char *bytes, size_t length, fi_addr_t source)
{
    struct arrived arrived = {.source = source};
    struct ofi_conn *conn;
    uint32_t number;
    uint8_t id;

    memcpy(&arrived.header, bytes, sizeof(arrived.header));
    arrived.data = bytes + sizeof(arrived.header);
    arrived.length = length - sizeof(arrived.header);
    id = (uint8_t)arrived.header.sequence;
    number = arrived.header.sequence >> 8;
    conn = (arrived.header.to != 0) ? cw_idmap_get(&iface->numbers, arrived.header.to) : NULL;
    conn = (conn != NULL && conn->token == arrived.header.token) ? conn : NULL;
    if (arrived.header.length != arrived.length) {
        drop(iface, "its length differs from that in its header");
        if (conn != NULL) {
            break_rules(conn, "truncated packet");
        }
        return conn != NULL;
    }
    if (id == 0 && !parse_control(&arrived)) {
        drop(iface, "not a control packet of this version");
        return 0;
    }
    if (conn == NULL) {
        return (id == 0) ? take_stray(iface, &arrived) : 0;
    }
    conn->heard = 1;
    if (conn->state == OFI_OPEN && !cw_ofi_peer_handled(conn, arrived.header.handled)) {
        break_rules(conn, "the peer acknowledged packets that were not sent");
        return 1;
    }
    if (conn->state == OFI_BROKEN || (id == 0 && take_loose(conn, &arrived))) {
        return 1;
    }
    if (number != conn->next_in) {
        keep(conn, number, id, arrived.data, arrived.length);
        return 1;
    }
    deliver(conn, id, arrived.data, arrived.length);
    if (!cw_list_empty(&conn->retained)) {
        deliver_retained(conn);
    }
    after_packet(iface, conn);
    return 1;
}

/* As cw_ofi_peer_handled(), for a connection on which nothing waits for acknowledgements. */
static inline int note_handled(struct ofi_conn *conn, uint32_t handled)
{
    const uint32_t more = (handled - conn->handled) % CW_OFI_SEQUENCES;
    const uint32_t ahead = (conn->next_out - conn->handled) % CW_OFI_SEQUENCES;

    if (cw_likely(handled < CW_OFI_SEQUENCES && more <= ahead && conn->injects && !conn->is_ahead)) {
        conn->handled = handled;
        return 1;
    }
    return cw_ofi_peer_handled(conn, handled);
}

/* Fast path: an in-sequence packet with an id on an open connection. */
unsigned cw_ofi_arrived(struct ofi_iface *iface, const char *bytes, size_t length, fi_addr_t source)
{
    struct cw_ofi_header header;
    struct ofi_conn *conn;

    if (cw_unlikely(length < sizeof(header))) {
        drop(iface, "it is too short");
        return 0;
    }
    memcpy(&header, bytes, sizeof(header));
    conn = cw_idmap_get(&iface->numbers, header.to);
    if (cw_unlikely(conn == NULL || conn->token != header.token || conn->state != OFI_OPEN ||
                    header.sequence >> 8 != conn->next_in || (uint8_t)header.sequence == 0 ||
                    header.length != length - sizeof(header) || !note_handled(conn, header.handled))) {
        return take_any(iface, bytes, length, source);
    }
    conn->heard = 1;
    conn->next_in = (conn->next_in + 1) % CW_OFI_SEQUENCES;
    conn->super.iface->upcalls->packet(&conn->super, (uint8_t)header.sequence, bytes + sizeof(header), header.length);
    if (cw_unlikely(!cw_list_empty(&conn->retained))) {
        deliver_retained(conn);
    }
    after_packet(iface, conn);
    return 1;
}
