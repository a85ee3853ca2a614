/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrival of active messages, and the calls of their handlers. The handler of a message in one packet gets the data in
 * place, in the transport's buffer, or a copy if the handler requests persistent or aligned data. A message in several
 * packets is assembled in the memory that its handler gets. A handler may call everything except progress. After the
 * call this file therefore uses only the descriptor, which lives until the handler has returned, and the endpoint,
 * which only progress frees.
 */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "am/desc.h"
#include "base/bytes.h"
#include "base/log.h"
#include "msg/msg.h"
#include "rndv/recv_device.h"
#include "wire/packet.h"

/* A message as its handler sees it. */
struct message {
    struct ucp_ep *ep;
    const void *header;
    uint32_t header_length;
    uint16_t id;
    uint8_t flags;          /* CW_WIRE_AM_* */
    uint64_t attr;          /* UCP_AM_RECV_ATTR_FLAG_* */
    void *data;
    size_t length;
};

static CW_INLINE ucs_status_t call(const struct cw_am_handler *handler, const struct message *message)
{
    struct ucp_ep *reply_ep = (message->flags & CW_WIRE_AM_REPLY) ? message->ep : NULL;
    ucp_am_recv_param_t param = {.recv_attr = message->attr, .reply_ep = reply_ep};

    cw_count_message(message->ep->worker, CW_COUNT_AM_RECEIVED, message->length);
    if (reply_ep != NULL) {
        param.recv_attr |= UCP_AM_RECV_ATTR_FIELD_REPLY_EP;
        reply_ep->handle = (reply_ep->handle == CW_HANDLE_NONE) ? CW_HANDLE_LENT : reply_ep->handle;
        reply_ep->lent = 1;
    }
    if (handler->is_old) {
        return handler->old(handler->arg, message->data, message->length, reply_ep,
                            (message->attr & UCP_AM_RECV_ATTR_FLAG_DATA) ? UCP_CB_PARAM_FLAG_DATA : 0);
    }
    return handler->recv(handler->arg, message->header, message->header_length, message->data, message->length,
                         &param);
}

static CW_COLD const struct cw_am_handler *find_unusual(const struct message *message,
                                                        const struct cw_am_handler *handler)
{
    static struct cw_log_limit limit;
    const char *why;

    if (handler == NULL) {
        why = "no handler is set for that id";
    } else if (message->attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        why = "the handler set by ucp_worker_set_am_handler cannot receive by rendezvous";
    } else if (message->header_length > 0) {
        why = "the handler set by ucp_worker_set_am_handler takes no headers";
    } else {
        return handler;
    }
    cw_log_ratelimited(&limit, CW_LOG_WARN, "dropped active message with id %u from worker %016llx: %s",
                       message->id, (unsigned long long)cw_ep_peer_uid(message->ep), why);
    return NULL;
}

/* Returns the handler that can take the message. NULL: there is none; logs a warning. */
static CW_INLINE const struct cw_am_handler *find_handler(const struct message *message)
{
    const struct cw_am_handler *handler = cw_am_find_handler(message->ep->worker->am, message->id);

    return cw_likely(handler != NULL && !handler->is_old) ? handler : find_unusual(message, handler);
}

/* Whether the message asks for a reply endpoint that the program has closed here. */
static bool is_unwanted(const struct message *message)
{
    return cw_ep_was_closed(message->ep) && (message->flags & CW_WIRE_AM_REPLY);
}

static CW_COLD void complain(unsigned id)
{
    cw_error("the handler of active message %u returned UCS_INPROGRESS for data without UCP_AM_RECV_ATTR_FLAG_DATA, "
             "which it cannot retain; set the handler with UCP_AM_FLAG_PERSISTENT_DATA", id);
}

/* Calls the handler with data in the transport's buffer. */
static void deliver_borrowed(const struct cw_am_handler *handler, const struct message *message)
{
    struct cw_am_state *state = message->ep->worker->am;
    struct cw_am_current current = {.data = message->data, .length = message->length};
    ucs_status_t status;

    state->current = &current; /* no other message is current, because only progress calls handlers */
    status = call(handler, message);
    state->current = NULL;
    if (cw_unlikely(status == UCS_INPROGRESS && !current.taken)) {
        complain(message->id);
    }
}

/* Whether the handler may get the data in place, in the packet. */
static bool is_suitable(const struct cw_am_handler *handler, const struct message *message)
{
    return !handler->persistent && ((uintptr_t)message->data & (message->ep->worker->am_alignment - 1)) == 0;
}

/* Calls the handler with data in the descriptor, which the handler may retain. */
static void deliver_desc(const struct cw_am_handler *handler, struct message *message, struct cw_am_desc *desc)
{
    struct ucp_worker *worker = message->ep->worker;
    ucs_status_t status;

    desc->state = CW_AM_DESC_EAGER;
    desc->in_handler = 1;
    message->data = cw_am_desc_data(desc);
    message->attr = UCP_AM_RECV_ATTR_FLAG_DATA;
    status = call(handler, message);
    desc->in_handler = 0;
    if (desc->state == CW_AM_DESC_EAGER && status == UCS_INPROGRESS) {
        cw_list_add_tail(&worker->am->retained, &desc->in.link);
    } else {
        cw_am_desc_free(desc);
    }
}

static CW_INLINE int decode(struct ucp_ep *ep, const struct cw_wire_am *am, size_t packet_header, const void *data,
                  size_t length, struct message *message)
{
    *message = (struct message){.ep = ep,
                     .header = (const char *)data + packet_header,
                     .header_length = le32toh(am->header_length),
                     .id = le16toh(am->handler),
                     .flags = am->flags};
    if (message->header_length > length - packet_header || (am->flags & ~CW_WIRE_AM_REPLY) != 0) {
        return 0;
    }
    message->data = (char *)(uintptr_t)message->header + message->header_length;
    message->length = length - packet_header - message->header_length;
    return 1;
}

#define MAX_MOVED 64u /* the longest user header that is copied so that its message can stay in the packet */

/* Returns a descriptor for the message with its data, in the packet if possible. `moved` has a capacity of MAX_MOVED
 * bytes for the user's header. NULL: no memory. */
static struct cw_am_desc *make_desc(struct cw_conn *lane, struct message *message, const void *packet, char *moved)
{
    struct cw_am_desc *desc = NULL;

    if (message->header_length <= MAX_MOVED) {
        cw_bytes_copy_any(moved, message->header, message->header_length);
        desc = cw_am_desc_lend(message->ep->worker, lane, packet,
                               (size_t)((const char *)message->data - (const char *)packet));
    }
    if (desc != NULL) {
        message->header = moved;
    } else {
        desc = cw_am_desc_new(message->ep->worker, message->length, 0, CW_AM_DESC_EAGER);
        if (desc == NULL) {
            return NULL;
        }
        cw_bytes_copy_any(cw_am_desc_data(desc), message->data, message->length);
    }
    desc->in.total = message->length;
    return desc;
}

ucs_status_t cw_am_on_eager(struct ucp_ep *ep, const void *data, size_t length)
{
    const struct cw_am_handler *handler;
    struct message message;
    struct cw_am_desc *desc;
    char moved[MAX_MOVED];
    struct cw_wire_am am;

    memcpy(&am, data, sizeof(am));
    if (!decode(ep, &am, sizeof(am), data, length, &message)) {
        return UCS_ERR_IO_ERROR;
    }
    handler = is_unwanted(&message) ? NULL : find_handler(&message);
    if (cw_unlikely(handler == NULL)) {
        return UCS_OK;
    }
    if (!handler->has_demands || is_suitable(handler, &message)) {
        deliver_borrowed(handler, &message);
        return UCS_OK;
    }
    desc = make_desc(ep->conn, &message, data, moved);
    if (desc == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    deliver_desc(handler, &message, desc);
    return UCS_OK;
}

/* Slow path of the function below. */
static CW_NOINLINE void on_other(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    const ucs_status_t status =
        (length >= sizeof(struct cw_wire_am)) ? cw_am_on_eager(ep, data, length) : UCS_ERR_IO_ERROR;

    if (cw_unlikely(status != UCS_OK)) {
        cw_op_refused(ep, id, length, status);
    }
}

void cw_am_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    struct cw_am_state *state = ep->worker->am;
    ucp_am_recv_param_t param = {.recv_attr = 0};
    const struct cw_am_handler *handler;
    struct cw_am_current current;
    ucs_status_t status;
    uint64_t word;
    size_t header;

    _Static_assert(sizeof(struct cw_wire_am) == sizeof(word), "it is one word, the id in the lowest bytes");
    if (cw_likely(length >= sizeof(word))) {
        memcpy(&word, data, sizeof(word));
        word = le64toh(word);
        header = word >> 32;
        data = (const char *)data + sizeof(word);
        length -= sizeof(word);
        if (cw_likely((uint32_t)word < state->num_dense && header <= length)) { /* any flag makes the word larger */
            handler = state->dense + (uint32_t)word;
            if (cw_likely(handler->is_fast)) {
                current.data = (const char *)data + header;
                current.length = length - header;
                current.id = (uint16_t)word;
                current.taken = 0;
                state->current = &current;
                cw_count_message(ep->worker, CW_COUNT_AM_RECEIVED, current.length);
                status = handler->recv(handler->arg, data, header, (void *)(uintptr_t)current.data,
                                       current.length, &param);
                state->current = NULL;
                if (cw_unlikely(status == UCS_INPROGRESS && !current.taken)) {
                    complain(current.id);
                }
                return;
            }
        }
        data = (const char *)data - sizeof(word);
        length += sizeof(word);
    }
    on_other(ep, id, data, length);
}

static char *place(struct cw_reassembly *reassembly, size_t length)
{
    struct cw_am_desc *desc = cw_container_of(reassembly, struct cw_am_desc, in);

    return (desc->state == CW_AM_DESC_PIECES) ? cw_am_pieces_space(reassembly->ep->worker, desc, length) : NULL;
}

/* Adds bytes to a message in state PIECES, and charges the growth of its memory to the endpoint. */
static ucs_status_t add_piece(struct ucp_ep *ep, struct cw_am_desc *desc, const void *data, size_t length)
{
    ucs_status_t status = cw_am_pieces_add(ep->worker, desc, data, length);

    if (status == UCS_OK && desc->space > desc->retained) {
        if (!cw_ep_keep(ep, desc->space - desc->retained)) {
            return UCS_ERR_EXCEEDS_LIMIT;
        }
        desc->retained = desc->space;
    }
    return status;
}

static ucs_status_t piece(struct cw_reassembly *reassembly, const void *data, size_t length)
{
    struct cw_am_desc *desc = cw_container_of(reassembly, struct cw_am_desc, in);

    return (desc->state == CW_AM_DESC_PIECES) ? add_piece(reassembly->ep, desc, data, length) : UCS_OK;
}

static void complete(struct cw_reassembly *reassembly)
{
    struct cw_am_desc *desc = cw_container_of(reassembly, struct cw_am_desc, in);
    struct message message = {.ep = reassembly->ep,
                   .header_length = desc->header_length,
                   .id = desc->handler,
                   .flags = desc->flags,
                   .length = reassembly->total};
    const struct cw_am_handler *handler;

    cw_ep_let_go(reassembly->ep, desc->retained);
    cw_reassembly_detach(reassembly);
    desc = cw_am_pieces_end(message.ep->worker, desc);
    message.header = (char *)cw_am_desc_data(desc) + message.length;
    handler = (desc->state == CW_AM_DESC_DISCARDED || cw_ep_was_closed(message.ep)) ? NULL : find_handler(&message);
    if (handler == NULL) {
        cw_am_desc_free(desc);
        return;
    }
    deliver_desc(handler, &message, desc);
}

static void aborted(struct cw_reassembly *reassembly, struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_am_desc *desc = cw_container_of(reassembly, struct cw_am_desc, in);

    if (desc->state == CW_AM_DESC_ANNOUNCED) { /* the program holds the descriptor */
        desc->state = CW_AM_DESC_LOST;
        desc->status = status;
        cw_list_add_tail(&ep->worker->am->retained, &reassembly->link);
    } else {
        cw_am_desc_free(desc);
    }
}

/* Longer messages must be announced; the receiver rejects one that is not. */
#define MAX_EAGER (UINT64_C(1) << 38)

static const struct cw_reassembly_kind am_kind = {
    .piece = piece, .place = place, .complete = complete, .aborted = aborted};

ucs_status_t cw_am_on_first(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_am_first first;
    struct message message;
    struct cw_am_desc *desc;
    ucs_status_t status;
    uint64_t total;

    memcpy(&first, data, sizeof(first));
    total = le64toh(first.total);
    if (!decode(ep, &first.am, sizeof(first), data, length, &message) || total <= message.length ||
        total > MAX_EAGER || !cw_reassembly_may_begin(ep, le32toh(first.message))) {
        return UCS_ERR_IO_ERROR;
    }
    if (cw_ep_was_closed(ep)) {
        desc = cw_am_desc_new(ep->worker, 0, 0, CW_AM_DESC_DISCARDED);
    } else {
        desc = cw_am_pieces_new(ep->worker, total, message.header, message.header_length);
    }
    if (desc == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = (desc->state == CW_AM_DESC_PIECES) ? add_piece(ep, desc, message.data, message.length) : UCS_OK;
    if (status != UCS_OK) {
        cw_am_desc_free(desc);
        return status;
    }
    desc->in.kind = &am_kind;
    desc->in.total = total;
    desc->in.received = message.length;
    desc->in.number = le32toh(first.message);
    desc->in.in_pieces = 1;
    desc->handler = message.id;
    desc->flags = message.flags;
    cw_reassembly_add_partial(&desc->in, ep);
    return UCS_OK;
}

/* Calls the handler of an announced message. Refuses the message if the handler neither received nor retained it. */
static void deliver_offer(const struct cw_am_handler *handler, struct message *message, struct cw_am_desc *desc)
{
    struct cw_offer offer = cw_am_desc_offer(desc);
    ucs_status_t status;

    message->data = cw_am_desc_data(desc);
    message->length = offer.length;
    desc->in_handler = 1;
    status = call(handler, message);
    desc->in_handler = 0;
    if (desc->state == CW_AM_DESC_USED) {
        cw_am_desc_free(desc);
    } else if (desc->state == CW_AM_DESC_ANNOUNCED && status != UCS_INPROGRESS) {
        cw_rndv_recv_refuse(message->ep, &offer, UCS_STATUS_IS_ERR(status) ? status : UCS_OK);
        cw_reassembly_detach(&desc->in);
        cw_am_desc_free(desc);
    }
}

/* Without memory for the keys the sender sends the message in packets. */
static void keep_keys(struct cw_am_desc *desc, const struct cw_offer *offer)
{
    desc->keys = (offer->num_keys > 0) ? malloc(sizeof(*desc->keys)) : NULL;
    if (desc->keys != NULL) {
        *desc->keys = offer->keys;
        desc->num_keys = offer->num_keys & 7u;
    }
}

ucs_status_t cw_am_on_rts(struct ucp_ep *ep, const void *data, size_t length)
{
    const struct cw_am_handler *handler;
    struct cw_wire_am_rts rts;
    struct message message;
    struct cw_am_desc *desc;
    struct cw_offer offer;

    memcpy(&rts, data, sizeof(rts));
    offer = cw_offer_decode(&rts.rts);
    if (!decode(ep, &rts.am, sizeof(rts), data, length, &message) || offer.send_id == 0 ||
        cw_offer_take_memory(ep, &offer, message.data, message.length) != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }
    message.attr = UCP_AM_RECV_ATTR_FLAG_RNDV;
    if (cw_ep_was_closed(ep)) {
        cw_rndv_recv_refuse(ep, &offer, UCS_ERR_CONNECTION_RESET);
        return UCS_OK;
    }
    handler = find_handler(&message);
    if (handler == NULL) {
        cw_rndv_recv_refuse(ep, &offer, UCS_ERR_INVALID_PARAM);
        return UCS_OK;
    }
    if (cw_unlikely(!cw_ep_keep(ep, CW_RETAINED_ONE))) {
        cw_rndv_recv_refuse(ep, &offer, UCS_ERR_EXCEEDS_LIMIT);
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    desc = cw_am_desc_new(ep->worker, 0, 0, CW_AM_DESC_ANNOUNCED);
    if (desc == NULL) {
        cw_ep_let_go(ep, CW_RETAINED_ONE);
        cw_rndv_recv_refuse(ep, &offer, UCS_ERR_NO_MEMORY);
        return UCS_OK;
    }
    desc->in.kind = &am_kind;
    desc->in.retained = 1;
    desc->in.total = offer.length;
    desc->send_id = offer.send_id;
    desc->address = offer.address;
    keep_keys(desc, &offer);
    cw_reassembly_add(&desc->in, ep);
    deliver_offer(handler, &message, desc);
    return UCS_OK;
}
