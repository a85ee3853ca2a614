/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lifetime of an endpoint's stream, its unread bytes, and the list of endpoints that have bytes to read.
 */
#include "stream/stream.h"

#include <stdlib.h>

#include "msg/msg.h"

struct cw_stream *cw_stream_get(struct ucp_ep *ep)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;

    if (cw_unlikely(stream == NULL)) {
        stream = malloc(sizeof(*stream));
        if (stream == NULL) {
            return NULL;
        }
        *stream = (struct cw_stream){.ep = ep};
        cw_list_init(&stream->receives);
        cw_list_init(&stream->ready_link);
        cw_op_ep(ep)->stream = stream;
    }
    return stream;
}

CW_COLD void cw_stream_send_credit(struct cw_stream *stream)
{
    const struct cw_wire_stream_credit packet = {.consumed = htole64(stream->consumed)};

    stream->reported = stream->consumed;
    cw_ep_send_control(stream->ep, CW_PACKET_STREAM_CREDIT, &packet, sizeof(packet));
}

/* Padding in front of the data, so that it begins at a cache line. */
#define LEAD (CW_CACHE_LINE - offsetof(struct cw_stream_segment, data) % CW_CACHE_LINE)

static struct cw_stream_segment *new_long_segment(void)
{
    const size_t size = (sizeof(struct cw_stream_segment) + LEAD + CW_STREAM_LONG + CW_CACHE_LINE - 1) &
                        ~(size_t)(CW_CACHE_LINE - 1);
    struct cw_stream_segment *segment = aligned_alloc(CW_CACHE_LINE, size);

    if (segment != NULL) {
        segment->size = 0;
        segment->state = CW_STREAM_SPARE;
    }
    return segment;
}

struct cw_stream_segment *cw_stream_get_long(struct ucp_worker *worker, size_t length)
{
    struct cw_stream_slots *slots = &worker->stream->slots;
    struct cw_stream_segment **segment = &slots->segments[slots->next];

    if (*segment == NULL) {
        *segment = new_long_segment();
    }
    if (*segment == NULL || __atomic_load_n(&(*segment)->state, __ATOMIC_ACQUIRE) != CW_STREAM_SPARE) {
        return NULL; /* the program holds it, or it is unread */
    }
    __atomic_store_n(&(*segment)->state, CW_STREAM_USED, __ATOMIC_RELAXED);
    (*segment)->taken = LEAD;
    (*segment)->length = (uint32_t)(LEAD + length);
    slots->next = (slots->next + 1) % CW_STREAM_SLOTS;
    return *segment;
}

/* A spare segment is freed now, any other when the program releases it. */
static void orphan(struct cw_stream_segment *segment)
{
    if (segment != NULL &&
        __atomic_exchange_n(&segment->state, CW_STREAM_ORPHAN, __ATOMIC_ACQ_REL) == CW_STREAM_SPARE) {
        free(segment);
    }
}

void cw_stream_worker_end(struct ucp_worker *worker)
{
    unsigned i;

    for (i = 0; i < CW_STREAM_SLOTS; i++) {
        orphan(worker->stream->slots.segments[i]);
    }
}

/* An endpoint is reported once, until new data arrives. Endpoints without a handle are reported once they have
 * one. */
ssize_t cw_stream_poll(struct ucp_worker *worker, ucp_stream_poll_ep_t *eps, size_t max)
{
    struct cw_list *ready = &worker->stream->ready;
    struct cw_stream *stream;
    size_t count;

    for (count = 0; count < max && !cw_list_empty(ready); count++) {
        stream = cw_list_head(ready, struct cw_stream, ready_link);
        cw_list_remove(&stream->ready_link);
        eps[count].ep = stream->ep;
        eps[count].user_data = stream->ep->user_data;
    }
    return (ssize_t)count;
}

static void end_receives(struct cw_stream *stream, ucs_status_t status)
{
    struct cw_list *link;

    while ((link = cw_list_pop_head(&stream->receives)) != NULL) {
        cw_request_complete(cw_container_of(link, struct cw_request, link), status);
    }
}

static void drop_unread(struct cw_stream *stream)
{
    size_t length = stream->unread;

    while (stream->first != NULL) {
        cw_stream_segment_free(cw_stream_pop(stream));
    }
    cw_stream_consume(stream, length);
}

/* Whether the program can still read the unread bytes of a lost endpoint. Charges them to the worker, within its limit,
 * while the program has no handle. */
static bool is_left(struct cw_stream *stream)
{
    const struct ucp_ep *ep = stream->ep;
    const uint64_t bytes = stream->unread + sizeof(*stream) + sizeof(*ep);

    if (!ep->unread || cw_ep_was_closed(ep) ||
        !((ep->peer_ended && ep->err_mode == UCP_ERR_HANDLING_MODE_NONE) ||
          ((ep->closes & CW_CLOSE_CAME) && ep->cm != NULL))) {
        return false;
    }
    if (!cw_ep_has_user(ep) && stream->left == 0 && cw_op_leave(ep->worker, bytes)) {
        stream->left = bytes;
    }
    return cw_ep_has_user(ep) || stream->left > 0;
}

static void take_back(struct cw_stream *stream)
{
    stream->ep->worker->msg->left -= stream->left;
    stream->left = 0;
}

void cw_stream_ep_ended(struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;

    if (stream == NULL) {
        return;
    }
    end_receives(stream, status);
    if (is_left(stream)) {
        return; /* the peer closed gracefully: its unread bytes can be read */
    }
    take_back(stream);
    drop_unread(stream);
    orphan(stream->spare);
    cw_op_ep(ep)->stream = NULL;
    free(stream);
}

void cw_stream_ep_user_changed(struct ucp_ep *ep)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;

    if (stream == NULL) {
        return;
    }
    take_back(stream);
    if (!cw_ep_has_user(ep)) {
        end_receives(stream, UCS_ERR_CANCELED);
        drop_unread(stream);
    } else if (ep->unread) {
        cw_list_add_tail(&ep->worker->stream->ready, &stream->ready_link);
    }
}
