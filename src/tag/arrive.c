/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers of tag packets. A header is copied before it is checked, because the peer may still be able to write to the
 * packet. Pieces of one message come in order on its connection; anything else breaks the protocol.
 */
#include "tag/tag.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/probe.h"
#include "msg/credit.h"
#include "msg/msg.h"
#include "os/random.h"
#include "rndv/recv_device.h"
#include "tag/desc.h"
#include "wire/packet.h"

#define MAX_UNMATCHED_WARNINGS 16

#define FAST_CALLED (CW_REQUEST_FAST | CW_REQUEST_CALLBACK)

_Static_assert(CW_REQUEST_SHARED == 1 << 8, "the lower byte of the flags excludes a fast receive");

void cw_tag_begin(struct cw_request *request, ucp_tag_t tag, uint64_t total)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    request->info = (ucp_tag_recv_info_t){.sender_tag = tag, .length = total};
    cw_count_message(request->worker, CW_COUNT_TAG_RECEIVED, total);
    if (cw_unlikely(total > state->cursor.length)) {
        state->status = UCS_ERR_MESSAGE_TRUNCATED;
    }
}

void cw_tag_store(struct cw_request *request, const void *data, size_t length)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    if (cw_likely(state->status == UCS_OK)) {
        state->status = cw_dt_unpack(&state->cursor, data, length);
    }
}

/* Delivers a complete message to its receive: cw_tag_begin and cw_tag_store in one. */
static inline void take_whole(struct cw_request *request, ucp_tag_t tag, const void *data, size_t length)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    if (cw_likely(state->cursor.class_id == UCP_DATATYPE_CONTIG && length <= state->cursor.length)) {
        request->info.sender_tag = tag;
        request->info.length = length;
        cw_count_message(request->worker, CW_COUNT_TAG_RECEIVED, length);
        cw_bytes_copy_short(state->cursor.contig, data, length);
        return;
    }
    cw_tag_begin(request, tag, length);
    cw_tag_store(request, data, length);
}

static void finish(struct cw_request *request)
{
    const struct cw_tag_recv_state *state = cw_request_state(request);

    cw_request_complete(request, state->status);
}

void cw_tag_acknowledge(struct ucp_recv_desc *desc)
{
    const struct cw_wire_tag_ack ack = {.sync_id = htole64(desc->id)};

    desc->id = 0;
    cw_ep_send_control(desc->in.ep, CW_PACKET_TAG_ACK, &ack, sizeof(ack));
}

ucs_status_t cw_tag_fetch(struct ucp_recv_desc *desc, struct cw_request *request)
{
    struct cw_offer offer = {.length = desc->in.total,
                           .send_id = desc->id,
                           .address = desc->address,
                           .num_keys = desc->num_keys};
    struct cw_tag_recv_state *state = cw_request_state(request);
    struct ucp_ep *ep = desc->in.ep;
    struct ucp_worker *worker = ep->worker;
    ucs_status_t status;

    if (offer.num_keys > 0) {
        memcpy(&offer.keys, desc->data, sizeof(offer.keys));
    }
    status = cw_rndv_recv_start(ep, &offer, request, &state->cursor);
    cw_reassembly_detach(&desc->in);
    cw_tag_desc_free(worker, desc);
    return status;
}

static char *place(struct cw_reassembly *reassembly, size_t length)
{
    struct ucp_recv_desc *desc = cw_container_of(reassembly, struct ucp_recv_desc, in);
    struct cw_tag_recv_state *state;

    if (desc->request == NULL) {
        return desc->data + reassembly->received;
    }
    state = cw_request_state(desc->request);
    if (state->status == UCS_OK && state->cursor.class_id == UCP_DATATYPE_GENERIC) {
        return cw_dt_piece_place(&state->cursor, length);
    }
    return (state->status == UCS_OK && state->cursor.class_id == UCP_DATATYPE_CONTIG) ?
           state->cursor.contig + state->cursor.offset : NULL;
}

static ucs_status_t piece(struct cw_reassembly *reassembly, const void *data, size_t length)
{
    struct ucp_recv_desc *desc = cw_container_of(reassembly, struct ucp_recv_desc, in);

    if (desc->request == NULL) {
        if (data != desc->data + reassembly->received) {
            cw_bytes_copy_any(desc->data + reassembly->received, data, length);
        }
    } else if (cw_tag_cursor(desc->request)->class_id == UCP_DATATYPE_CONTIG && data == place(reassembly, length)) {
        cw_dt_skip(cw_tag_cursor(desc->request), length);
    } else {
        cw_tag_store(desc->request, data, length);
    }
    return UCS_OK;
}

static void complete(struct cw_reassembly *reassembly)
{
    struct ucp_recv_desc *desc = cw_container_of(reassembly, struct ucp_recv_desc, in);
    struct cw_request *request = desc->request;

    if (request != NULL) {
        cw_reassembly_detach(reassembly);
        cw_tag_desc_free(request->worker, desc);
        finish(request);
    } else if (desc->id == 0) {
        cw_reassembly_store(reassembly);
    } else {
        cw_reassembly_await(reassembly);
    }
}

static void aborted(struct cw_reassembly *reassembly, struct ucp_ep *ep, ucs_status_t status)
{
    struct ucp_recv_desc *desc = cw_container_of(reassembly, struct ucp_recv_desc, in);
    struct cw_request *request = desc->request;

    cw_tag_desc_keep(ep->worker, desc);
    if (!desc->announced) {
        desc->id = 0;
        if (reassembly->received == reassembly->total) { /* complete: the program can still receive it */
            desc->left = desc->queued && cw_op_leave(ep->worker, reassembly->total + CW_RETAINED_ONE);
            if (desc->left || !desc->queued) {
                return;
            }
        }
    }
    if (desc->queued) {
        cw_tag_matcher_remove_message(&ep->worker->tag->matcher, &desc->match);
        cw_tag_dequeued(ep->worker, desc);
    } else if (request == NULL) {
        desc->aborted = 1; /* a probe has handed the message to the program */
        return;
    }
    cw_tag_desc_free(ep->worker, desc);
    if (request != NULL) {
        cw_request_complete(request, status);
    }
}

static const struct cw_reassembly_kind message_kind = {
    .piece = piece, .place = place, .complete = complete, .aborted = aborted};

static inline void fill_desc(const struct ucp_ep *ep, struct ucp_recv_desc *desc, uint64_t total, uint64_t id)
{
    desc->in = (struct cw_reassembly){.kind = &message_kind, .total = total};
    desc->request = NULL; /* member by member: clearing the whole struct takes a slow instruction */
    desc->id = id;
    desc->announced = false;
    desc->queued = false;
    desc->aborted = 0;
    desc->left = 0;
    desc->revocable = 0;
    desc->is_lent = 0;
    desc->since = ep->worker->moment;
}

/* Allocates the descriptor of a message that cannot be completed at once, with capacity for `space` bytes; it is on no
 * list of its endpoint. */
static inline struct ucp_recv_desc *make_desc(struct ucp_ep *ep, uint64_t total, uint64_t space, uint64_t id)
{
    struct ucp_recv_desc *desc = cw_tag_desc_alloc(ep->worker, space);

    if (desc != NULL) {
        fill_desc(ep, desc, total, id);
    }
    return desc;
}

static inline void enqueue(struct ucp_worker *worker, struct ucp_recv_desc *desc, uint64_t tag)
{
    desc->queued = true;
    cw_count(worker, CW_COUNT_UNEXPECTED_BYTES, desc->in.total);
    cw_tag_matcher_add_unexpected(&worker->tag->matcher, &desc->match, tag);
}

/* Queues a message that is stored whole in its descriptor and whose sender does not wait. */
static inline void enqueue_whole(struct ucp_ep *ep, struct ucp_recv_desc *desc, uint64_t tag, size_t length)
{
    desc->in.received = length;
    cw_reassembly_add_stored(&desc->in, ep);
    enqueue(ep->worker, desc, tag);
}

/* Stores a synchronous message of one packet that no receive matches; its sender waits for the match. */
static CW_NOINLINE ucs_status_t keep_sync(struct ucp_ep *ep, uint64_t tag, uint64_t sync_id, const char *data,
                                          size_t length)
{
    struct ucp_recv_desc *desc = make_desc(ep, length, length + CW_TAG_REVOCABLE, sync_id);

    if (desc == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (!cw_tag_desc_revocable(ep, desc)) {
        cw_tag_desc_free(ep->worker, desc);
        return UCS_ERR_IO_ERROR;
    }
    cw_bytes_copy_short(desc->data, data, length);
    desc->in.received = length;
    cw_reassembly_add(&desc->in, ep);
    enqueue(ep->worker, desc, tag);
    return UCS_OK;
}

/* Stores a message of one packet that no receive matches, and whose sender does not wait. Not CW_COLD: the compiler
 * would optimize its copies for size. */
static CW_NOINLINE ucs_status_t keep_whole(struct ucp_ep *ep, uint64_t tag, const char *data, size_t length)
{
    struct ucp_recv_desc *desc = (length >= CW_TAG_LEND_LEAST) ? cw_tag_desc_lend(ep, data) : NULL;

    if (desc != NULL) {
        fill_desc(ep, desc, length, 0);
        desc->is_lent = 1;
    } else {
        desc = make_desc(ep, length, length, 0);
        if (desc == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        cw_bytes_copy_short(desc->data, data, length);
    }
    enqueue_whole(ep, desc, tag, length);
    return UCS_OK;
}

static inline ucs_status_t arrive_whole(struct ucp_ep *ep, uint64_t tag, uint64_t sync_id, const char *data,
                                        size_t length)
{
    const struct cw_wire_tag_ack ack = {.sync_id = htole64(sync_id)};
    struct cw_tag_recv *match;
    struct cw_request *request;

    if (!cw_credit_arrived(ep, length)) {
        return UCS_ERR_IO_ERROR;
    }
    if (sync_id != 0 && cw_unlikely(cw_tag_is_own(ep)) && !cw_tag_lands(ep, sync_id)) {
        cw_credit_consumed(ep, length);
        return UCS_OK;
    }
    match = cw_tag_matcher_arrive(&ep->worker->tag->matcher, tag);
    if (cw_unlikely(match == NULL)) {
        return (sync_id == 0) ? keep_whole(ep, tag, data, length) : keep_sync(ep, tag, sync_id, data, length);
    }
    request = cw_tag_request_full(match);
    take_whole(request, tag, data, length);
    cw_credit_consumed(ep, length);
    if (sync_id != 0) {
        cw_ep_send_control(ep, CW_PACKET_TAG_ACK, &ack, sizeof(ack));
    }
    finish(request);
    return UCS_OK;
}

ucs_status_t cw_tag_on_eager(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_tag header;

    if (length < sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    return arrive_whole(ep, le64toh(header.tag), 0, (const char *)data + sizeof(header), length - sizeof(header));
}

/* Slow path: all messages that the functions below do not handle. */
static CW_NOINLINE void on_other(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    const ucs_status_t status = cw_tag_on_eager(ep, data, length);

    if (cw_unlikely(status != UCS_OK)) {
        cw_op_refused(ep, id, length, status);
    }
}

/* Handles all other short messages. */
static CW_NOINLINE void on_other_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    const size_t payload = length - sizeof(struct cw_wire_tag);
    struct ucp_recv_desc *desc;
    struct cw_wire_tag header;

    if (cw_tag_matcher_has_posted(&ep->worker->tag->matcher) || !cw_credit_arrived(ep, payload)) {
        on_other(ep, id, data, length);
        return;
    }
    desc = make_desc(ep, payload, payload, 0);
    if (cw_unlikely(desc == NULL)) {
        cw_op_refused(ep, id, length, UCS_ERR_NO_MEMORY);
        return;
    }
    memcpy(&header, data, sizeof(header));
    cw_bytes_copy_inline(desc->data, (const char *)data + sizeof(header), payload);
    enqueue_whole(ep, desc, le64toh(header.tag), payload);
}

/* As cw_request_complete(request, UCS_OK), for a request with the flags FAST_CALLED, CALLBACK and optionally SHARED. */
static CW_INLINE void finish_fast(struct cw_request *request)
{
    assert((request->flags | CW_REQUEST_SHARED) == (CW_REQUEST_FAST | CW_REQUEST_CALLBACK | CW_REQUEST_SHARED));
    assert(request->release == NULL && request->ep == NULL);
    request->flags |= CW_REQUEST_FAST_CALLED;
    cw_request_set_status(request, UCS_OK);
    request->cb.tag_recv(cw_request_handle(request), UCS_OK, &request->info, request->user_data);
    if (cw_likely((request->flags & ~CW_REQUEST_SHARED) == CW_REQUEST_FAST_RELEASED)) { /* the usual case */
        cw_request_pool_put(&request->worker->requests, request,
                            CW_REQUEST_FAST_RELEASED & ~(unsigned)CW_REQUEST_IN_CALLBACK);
    } else {
        cw_request_called(request);
    }
}

/* Handles a message of any length that matches the oldest receive of the array. */
static CW_NOINLINE void on_longer(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    const size_t payload = length - sizeof(struct cw_wire_tag);
    struct cw_tag_recv_state *state;
    const struct cw_tag_posted *match;
    struct cw_wire_tag header;
    struct cw_request *request;

    if (cw_likely(length >= sizeof(header))) {
        memcpy(&header, data, sizeof(header));
        match = cw_tag_matcher_first(&ep->worker->tag->matcher, le64toh(header.tag));
        if (cw_likely(match != NULL)) {
            state = cw_container_of(match->recv, struct cw_tag_recv_state, match);
            request = cw_tag_request_of(match->recv);
            if (cw_likely((uint8_t)request->flags == FAST_CALLED) && /* with SHARED or without */
                cw_likely(payload <= state->cursor.length && cw_credit_passes(ep, payload))) {
                request->info = (ucp_tag_recv_info_t){.sender_tag = le64toh(header.tag), .length = payload};
                cw_tag_matcher_take_first(&ep->worker->tag->matcher);
                cw_count_message(ep->worker, CW_COUNT_TAG_RECEIVED, payload);
                cw_bytes_copy_any(state->cursor.contig, (const char *)data + sizeof(header), payload);
                finish_fast(request);
                return;
            }
        }
    }
    on_other(ep, id, data, length);
}

void cw_tag_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    struct ucp_worker *worker = ep->worker;
    struct cw_tag_matcher *matcher = &worker->tag->matcher;
    const size_t payload = length - sizeof(struct cw_wire_tag);
    struct cw_tag_recv_state *state;
    const struct cw_tag_posted *match;
    struct cw_wire_tag header;
    struct cw_request *request;

    (void)id; /* unused; keeps the other parameters in their registers */
    if (cw_likely(payload <= CW_BYTES_INLINE)) { /* also false without a header */
        memcpy(&header, data, sizeof(header));
        match = cw_tag_matcher_first(matcher, le64toh(header.tag));
        if (cw_likely(match != NULL)) {
            request = cw_tag_request_of(match->recv);
            CW_FORGET(request);
            state = cw_request_state(request);
            request->info.sender_tag = le64toh(header.tag); /* here, so that no register has to hold the tag */
            request->info.length = payload;
            if (cw_likely((uint8_t)request->flags == FAST_CALLED) && /* with SHARED or without */
                cw_likely(payload <= state->cursor.length && cw_credit_passes(ep, payload))) {
                cw_tag_matcher_take_first(matcher);
                cw_count_message(worker, CW_COUNT_TAG_RECEIVED, payload);
                cw_bytes_copy_inline(state->cursor.contig, (const char *)data + sizeof(header), payload);
                CW_FORGET(request); /* reloads the flags instead of keeping them in a register */
                finish_fast(request);
                return;
            }
        }
        on_other_short(ep, CW_PACKET_TAG_EAGER, data, length);
        return;
    }
    on_longer(ep, CW_PACKET_TAG_EAGER, data, length);
}

/* Whether a loopback message can be copied to the receive within the send. */
static inline bool can_consume(struct cw_request *request, size_t length)
{
    const struct cw_tag_recv_state *state = cw_request_state(request);

    return (request->flags & CW_REQUEST_FAST) && length <= state->cursor.length;
}

/* Copies a loopback message to its receive, which has left the matcher. cw_bytes_move, because the program may receive
 * into memory that it sends. */
static void consume(struct ucp_ep *ep, struct cw_request *request, ucp_tag_t tag, const void *payload, size_t length)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    CW_PROBE(packet, ep, CW_PACKET_TAG_EAGER, sizeof(tag) + length);
    request->info.sender_tag = tag;
    request->info.length = length;
    cw_count_message(ep->worker, CW_COUNT_TAG_RECEIVED, length);
    if (length == sizeof(uint64_t)) {
        memcpy(state->cursor.contig, payload, sizeof(uint64_t));
    } else if (length > 0) {
        cw_bytes_move(state->cursor.contig, payload, length);
    }
    cw_list_add_tail(&ep->worker->tag->consumed, &request->link);
    cw_credit_passed(ep, length);
}

/* Stores a loopback message that no receive matches. */
static CW_NOINLINE bool store(struct ucp_ep *ep, ucp_tag_t tag, const void *payload, size_t length)
{
    struct ucp_recv_desc *desc = (ep->worker->trace == NULL) ? make_desc(ep, length, length, 0) : NULL;

    if (desc == NULL) {
        return false;
    }
    if (!cw_credit_arrived(ep, length)) {
        cw_tag_desc_free(ep->worker, desc);
        return false;
    }
    CW_PROBE(packet, ep, CW_PACKET_TAG_EAGER, sizeof(tag) + length);
    cw_bytes_copy_short(desc->data, payload, length);
    enqueue_whole(ep, desc, tag, length);
    ep->worker->tag->num_stored++;
    return true;
}

/* A message that does not match the oldest receive of the array. Receives are posted. */
static CW_NOINLINE bool consume_other(struct ucp_ep *ep, ucp_tag_t tag, const void *payload, size_t length,
                                      bool may_store)
{
    struct cw_tag_matcher *matcher = &ep->worker->tag->matcher;
    const struct cw_tag_found found = cw_tag_matcher_find_recv(matcher, tag);

    if (found.recv == NULL) {
        return may_store && store(ep, tag, payload, length);
    }
    if (!can_consume(cw_tag_request_of(found.recv), length)) {
        return false;
    }
    cw_tag_matcher_take_found(matcher, &found);
    consume(ep, cw_tag_request_of(found.recv), tag, payload, length);
    return true;
}

bool cw_tag_consume(struct cw_conn *conn, uint64_t header, const void *payload, size_t length, bool may_store)
{
    struct ucp_ep *ep = conn->user;
    struct cw_tag_matcher *matcher = &ep->worker->tag->matcher;
    const ucp_tag_t tag = le64toh(header);
    const struct cw_tag_posted *first = cw_tag_matcher_first(matcher, tag);
    struct cw_request *request;

    if (cw_unlikely(ep->state != CW_EP_OPEN)) {
        return false;
    }
    if (cw_unlikely(first == NULL)) {
        if (cw_tag_matcher_has_posted(matcher)) {
            return consume_other(ep, tag, payload, length, may_store);
        }
        return may_store && store(ep, tag, payload, length);
    }
    request = cw_tag_request_of(first->recv);
    if (!can_consume(request, length)) {
        return false;
    }
    cw_tag_matcher_take_first(matcher);
    consume(ep, request, tag, payload, length);
    return true;
}

/* Receives that callbacks post wait for the next round, so that progress terminates. */
unsigned cw_tag_finish_consumed(void *owner)
{
    struct ucp_worker *worker = owner;
    struct cw_list *consumed = &worker->tag->consumed;
    const struct cw_list *last = consumed->prev;
    struct cw_list *link;
    struct cw_request *request;
    unsigned count = worker->tag->num_stored;

    worker->tag->num_stored = 0;
    if (cw_list_empty(consumed)) {
        return count;
    }
    do {
        link = cw_list_pop_head(consumed);
        request = cw_container_of(link, struct cw_request, link);
        count++;
        if ((uint8_t)request->flags == FAST_CALLED) {
            finish_fast(request);
        } else {
            cw_request_complete(request, UCS_OK);
        }
    } while (link != last);
    return count;
}

ucs_status_t cw_tag_on_sync(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_tag_sync header;

    memcpy(&header, data, sizeof(header));
    if (header.sync_id == 0) {
        return UCS_ERR_IO_ERROR;
    }
    return arrive_whole(ep, le64toh(header.tag), le64toh(header.sync_id), (const char *)data + sizeof(header),
                        length - sizeof(header));
}

ucs_status_t cw_tag_on_first(struct ucp_ep *ep, const void *data, size_t length)
{
    const char *payload = (const char *)data + sizeof(struct cw_wire_tag_first);
    struct cw_wire_tag_first header;
    struct ucp_recv_desc *desc;
    struct cw_tag_recv *match;
    uint64_t tag, total, sync_id, space;

    memcpy(&header, data, sizeof(header));
    length -= sizeof(header);
    tag = le64toh(header.tag);
    total = le64toh(header.total);
    sync_id = le64toh(header.sync_id);
    if (total <= length || !cw_reassembly_may_begin(ep, le32toh(header.message)) || !cw_credit_arrived(ep, total)) {
        return UCS_ERR_IO_ERROR;
    }
    if (sync_id != 0 && cw_unlikely(cw_tag_is_own(ep)) && !cw_tag_lands(ep, sync_id)) {
        return cw_tag_swallow(ep, total, length, le32toh(header.message));
    }
    match = cw_tag_matcher_arrive(&ep->worker->tag->matcher, tag);
    space = (sync_id == 0) ? total : total + CW_TAG_REVOCABLE;
    desc = make_desc(ep, total, (match == NULL) ? space : 0, sync_id);
    if (desc == NULL) {
        if (match != NULL) {
            cw_request_complete(cw_tag_request_full(match), UCS_ERR_NO_MEMORY);
        }
        return UCS_ERR_NO_MEMORY;
    }
    if (match == NULL && sync_id != 0 && !cw_tag_desc_revocable(ep, desc)) {
        cw_tag_desc_free(ep->worker, desc);
        return UCS_ERR_IO_ERROR;
    }
    desc->in.number = le32toh(header.message);
    desc->in.in_pieces = 1;
    desc->in.received = length;
    cw_reassembly_add_partial(&desc->in, ep);
    if (match == NULL) {
        cw_bytes_copy_any(desc->data, payload, length);
        enqueue(ep->worker, desc, tag);
        return UCS_OK;
    }
    desc->request = cw_tag_request_full(match);
    cw_tag_begin(desc->request, tag, total);
    cw_dt_gather(cw_tag_cursor(desc->request), total);
    cw_tag_store(desc->request, payload, length);
    cw_tag_matched(ep->worker, desc);
    return UCS_OK;
}

/* Stores an announcement that no receive matches. */
static ucs_status_t keep_announced(struct ucp_ep *ep, uint64_t tag, const struct cw_offer *offer)
{
    const size_t keys = (offer->num_keys > 0) ? sizeof(offer->keys) : 0;
    struct ucp_recv_desc *desc;

    if (cw_unlikely(!cw_ep_keep(ep, CW_RETAINED_ONE))) {
        cw_rndv_recv_refuse(ep, offer, UCS_ERR_EXCEEDS_LIMIT); /* sends the reason to the sender */
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    desc = make_desc(ep, offer->length, keys + CW_TAG_REVOCABLE, offer->send_id);
    if (desc == NULL) {
        cw_ep_let_go(ep, CW_RETAINED_ONE);
        return UCS_ERR_NO_MEMORY;
    }
    desc->announced = true;
    desc->address = offer->address;
    desc->num_keys = offer->num_keys;
    cw_bytes_copy_any(desc->data, &offer->keys, keys);
    if (!cw_tag_desc_revocable(ep, desc)) {
        cw_tag_desc_free(ep->worker, desc);
        cw_ep_let_go(ep, CW_RETAINED_ONE);
        return UCS_ERR_IO_ERROR;
    }
    desc->in.retained = 1;
    cw_reassembly_add(&desc->in, ep);
    enqueue(ep->worker, desc, tag);
    return UCS_OK;
}

ucs_status_t cw_tag_on_rts(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_tag_recv_state *state;
    struct cw_wire_tag_rts header;
    struct cw_tag_recv *match;
    struct cw_request *request;
    struct cw_offer offer;
    ucs_status_t status;

    memcpy(&header, data, sizeof(header));
    offer = cw_offer_decode(&header.rts);
    status = cw_offer_take_memory(ep, &offer, (const char *)data + sizeof(header), length - sizeof(header));
    if (offer.send_id == 0 || status != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }
    if (cw_unlikely(cw_tag_is_own(ep)) && !cw_tag_lands(ep, offer.send_id)) {
        return UCS_OK;
    }
    match = cw_tag_matcher_arrive(&ep->worker->tag->matcher, le64toh(header.tag));
    if (match == NULL) {
        return keep_announced(ep, le64toh(header.tag), &offer);
    }
    request = cw_tag_request_full(match);
    state = cw_request_state(request);
    cw_tag_begin(request, le64toh(header.tag), offer.length);
    status = cw_rndv_recv_start(ep, &offer, request, &state->cursor);
    if (status != UCS_INPROGRESS) {
        cw_request_complete(request, status);
    }
    return UCS_OK;
}

/* Limit of the descriptor cache: the unexpected messages of one peer's window. A descriptor may have twice the capacity
 * that its message needs. */
static size_t most_spare(const struct ucp_worker *worker)
{
    const size_t bound = worker->context->config->peer_memory;

    return (bound < 2 * CW_CREDIT_WINDOW) ? bound : 2 * CW_CREDIT_WINDOW;
}

void cw_tag_init(struct ucp_worker *worker)
{
    struct cw_tag_state *state = worker->tag;

    cw_tag_matcher_init(&state->matcher, cw_random_u64());
    cw_tag_spares_init(&state->spares, worker->poller, most_spare(worker));
    cw_list_init(&state->consumed);
    cw_list_init(&state->dropped);
    cw_hash_init(&state->revocable, cw_random_u64());
}

static void drop_receive(struct cw_request *request, ucs_status_t status)
{
    request->flags &= (uint16_t)~CW_REQUEST_CALLBACK;
    cw_request_complete(request, status);
}

void cw_tag_cleanup(struct ucp_worker *worker)
{
    struct cw_tag_matcher *matcher = &worker->tag->matcher;
    struct cw_tag_message *message;
    struct ucp_recv_desc *desc;
    struct cw_tag_recv *match;
    struct cw_list *link;
    unsigned warnings = 0;

    while ((link = cw_list_pop_head(&worker->tag->consumed)) != NULL) {
        drop_receive(cw_container_of(link, struct cw_request, link), UCS_OK);
    }
    while ((match = cw_tag_matcher_take_recv(matcher)) != NULL) {
        drop_receive(cw_tag_request_full(match), UCS_ERR_CANCELED);
    }
    while ((message = cw_tag_matcher_first_message(matcher)) != NULL) {
        desc = cw_container_of(message, struct ucp_recv_desc, match);
        cw_tag_matcher_remove_message(matcher, message);
        cw_tag_dequeued(worker, desc);
        if (warnings++ < MAX_UNMATCHED_WARNINGS) {
            cw_warn("worker %s: unexpected tag message %016llx of %llu bytes was not matched", worker->name,
                    (unsigned long long)desc->match.tag, (unsigned long long)desc->in.total);
        }
        cw_reassembly_detach(&desc->in);
        cw_tag_desc_free(worker, desc);
    }
    cw_tag_spares_cleanup(&worker->tag->spares);
    if (warnings > MAX_UNMATCHED_WARNINGS) {
        cw_warn("worker %s: %u tag messages in all were not matched", worker->name, warnings);
    }
    cw_tag_matcher_cleanup(matcher);
    cw_hash_cleanup(&worker->tag->revocable);
}
