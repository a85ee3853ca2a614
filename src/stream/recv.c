/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving from a stream. A receive completes once it has one granule: one element of a contiguous type, one byte of
 * any other, or the whole buffer with WAITALL. A part of a granule stays in the buffer of the first receive, which
 * cannot be cancelled.
 */
#include "stream/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "msg/msg.h"
#include "wire/packet.h"

#define SHORT_BYTES 56u /* upper bound of a short packet, which has segments of its own kind */

#define SHARED_SEGMENT 4096u
#define MAX_SHARED     512u     /* limits the space lost at the end */

struct recv_state {
    struct cw_dt_cursor cursor;
    size_t granule;
    ucs_status_t status;        /* of the transfer so far */
};

_Static_assert(sizeof(struct recv_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

_Static_assert(offsetof(struct cw_stream_segment, data) ==
               offsetof(struct cw_stream_segment, back) + sizeof(size_t), "the distance stands below the data");

static void recv_release(struct cw_request *request)
{
    struct recv_state *state = cw_request_state(request);

    cw_dt_finish(&state->cursor);
}

static void store(struct recv_state *state, const void *data, size_t length)
{
    if (cw_likely(state->status == UCS_OK)) {
        state->status = cw_dt_unpack(&state->cursor, data, length);
    } else {
        state->cursor.offset += length;
    }
}

/* The number of available bytes that a receive may take: whole granules within its buffer, or all bytes if they are
 * less than one. */
static size_t share(size_t granule, size_t done, size_t space, size_t available)
{
    size_t part = (available < space) ? available : space;

    return (part == 0 || granule <= 1 || done + part < granule) ? part : (done + part) / granule * granule - done;
}

/* Completes a receive that is on no list any more. */
static void finish(struct cw_request *request)
{
    struct recv_state *state = cw_request_state(request);

    request->info.length = (state->status == UCS_OK) ? state->cursor.offset : 0;
    cw_request_complete(request, state->status);
}

/* Copies arrived data to the oldest receive, and completes it once it has enough. Returns the number of bytes it
 * took. */
static size_t feed(struct cw_stream *stream, const char *data, size_t length)
{
    struct cw_request *request = cw_list_head(&stream->receives, struct cw_request, link);
    struct recv_state *state = cw_request_state(request);
    size_t part = share(state->granule, state->cursor.offset,
                        state->cursor.length - state->cursor.offset, length);

    store(state, data, part);
    cw_stream_consume(stream, part);
    if (state->cursor.offset >= state->granule) {
        cw_list_remove(&request->link);
        finish(request);
    }
    return part;
}

static CW_INLINE void add_last(struct cw_stream *stream, struct cw_stream_segment *segment)
{
    segment->next = NULL;
    if (stream->first == NULL) {
        stream->first = segment;
    } else {
        stream->last->next = segment;
    }
    stream->last = segment;
    stream->segments++;
}

static inline struct cw_stream_segment *segment_new(size_t size)
{
    struct cw_stream_segment *segment = malloc(sizeof(*segment) + size);

    if (cw_likely(segment != NULL)) {
        segment->length = (uint32_t)size;
        segment->taken = 0;
        segment->size = 0;
        segment->state = CW_STREAM_PLAIN;
    }
    return segment;
}

static inline struct cw_stream_segment *append(struct cw_stream *stream, size_t size)
{
    struct cw_stream_segment *segment = NULL;

    if (size > SHARED_SEGMENT && size <= CW_STREAM_LONG) {
        segment = cw_stream_get_long(stream->ep->worker, size);
    }
    if (segment == NULL) {
        segment = segment_new(size);
    }
    if (segment == NULL) {
        return NULL;
    }
    add_last(stream, segment);
    return segment;
}

static CW_NOINLINE struct cw_stream_segment *new_short_segment(struct cw_stream *stream)
{
    struct cw_stream_segment *segment = segment_new(SHORT_BYTES - sizeof(uint64_t));

    if (segment != NULL) {
        segment->state = (stream->spare == NULL) ? CW_STREAM_USED : CW_STREAM_PLAIN;
        stream->spare = (stream->spare == NULL) ? segment : stream->spare;
    }
    return segment;
}

/* Returns a segment for a short packet; NULL: no memory. */
static CW_INLINE struct cw_stream_segment *get_short_segment(struct cw_stream *stream)
{
    struct cw_stream_segment *segment = stream->spare;

    if (cw_unlikely(segment == NULL || __atomic_load_n(&segment->state, __ATOMIC_ACQUIRE) != CW_STREAM_SPARE)) {
        return new_short_segment(stream); /* the program holds it, or it is unread */
    }
    __atomic_store_n(&segment->state, CW_STREAM_USED, __ATOMIC_RELAXED);
    return segment;
}

/* Stores a short packet in the last segment together with others, so that single-byte sends do not cost an allocation
 * each. Returns the address of its bytes; NULL: no memory. */
static char *share_last(struct cw_stream *stream, size_t length)
{
    struct cw_stream_segment *segment = stream->last;
    const uint16_t piece = (uint16_t)length;
    char *to;

    if (segment->size == 0 || segment->size - segment->end_at < sizeof(piece) + length) {
        segment = append(stream, SHARED_SEGMENT);
        if (segment == NULL) {
            return NULL;
        }
        segment->length = 0;
        segment->size = SHARED_SEGMENT;
        segment->first_at = 0;
        segment->end_at = 0;
    }
    to = segment->data + segment->end_at;
    memcpy(to, &piece, sizeof(piece));
    segment->end_at += (uint32_t)(sizeof(piece) + length);
    segment->length += (uint32_t)length;
    return to + sizeof(piece);
}

/* Moves the oldest packet of a shared segment into a segment of its own. NULL: no memory. */
static CW_NOINLINE struct cw_stream_segment *take_apart(struct cw_stream *stream)
{
    struct cw_stream_segment *shared = stream->first, *segment;
    const char *from = shared->data + shared->first_at;
    uint16_t length;

    memcpy(&length, from, sizeof(length));
    segment = segment_new(length);
    if (segment == NULL) {
        return NULL;
    }
    cw_bytes_copy_any(segment->data, from + sizeof(length), length);
    shared->first_at += (uint32_t)sizeof(length) + length;
    shared->length -= length;
    segment->next = shared;
    stream->first = segment;
    stream->segments++;
    if (shared->length == 0) {
        segment->next = shared->next;
        stream->last = (stream->last == shared) ? segment : stream->last;
        stream->segments--;
        free(shared);
    }
    return segment;
}

static ucs_status_t keep(struct cw_stream *stream, const char *data, size_t length)
{
    struct ucp_ep *ep = stream->ep;
    struct cw_stream_segment *segment;
    char *to;

    if (cw_likely(stream->segments < CW_STREAM_SEGMENTS) || length > MAX_SHARED) {
        segment = append(stream, length);
        to = (segment == NULL) ? NULL : segment->data + segment->taken;
    } else {
        to = share_last(stream, length);
    }
    if (to == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_bytes_copy_any(to, data, length);
    stream->unread += length;
    ep->unread = 1;
    if (cw_ep_has_user(ep) && cw_list_empty(&stream->ready_link)) {
        cw_list_add_tail(&ep->worker->stream->ready, &stream->ready_link);
    }
    return UCS_OK;
}

ucs_status_t cw_stream_on_data(struct ucp_ep *ep, const void *data, size_t length)
{
    const char *payload = (const char *)data + sizeof(struct cw_wire_stream_data);
    struct cw_stream *stream = cw_stream_get(ep);
    struct cw_wire_stream_data header;
    size_t part;

    if (stream == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(&header, data, sizeof(header));
    length -= sizeof(header);
    if (le64toh(header.offset) != stream->arrived || length > CW_STREAM_WINDOW - (stream->arrived - stream->reported)) {
        return UCS_ERR_IO_ERROR;
    }
    stream->arrived += length;
    cw_count_message(ep->worker, CW_COUNT_STREAM_RECEIVED, length);
    while (length > 0 && !cw_list_empty(&stream->receives)) { /* callbacks may post more, or close the endpoint */
        part = feed(stream, payload, length);
        payload += part;
        length -= part;
    }
    if (length == 0) {
        return UCS_OK;
    }
    if (cw_ep_was_closed(ep) || !cw_worker_has(ep->worker, UCP_FEATURE_STREAM)) {
        cw_stream_consume(stream, length); /* the program will never read it */
        return UCS_OK;
    }
    return keep(stream, payload, length);
}

/* Slow path of the function below. */
static CW_NOINLINE void on_other(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    const ucs_status_t status =
        (length > sizeof(struct cw_wire_stream_data)) ? cw_stream_on_data(ep, data, length) : UCS_ERR_IO_ERROR;

    if (cw_unlikely(status != UCS_OK)) {
        cw_op_refused(ep, id, length, status);
    }
}

void cw_stream_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;
    struct ucp_worker *worker = ep->worker;
    struct cw_wire_stream_data header;
    struct cw_stream_segment *segment;

    if (stream != NULL && cw_list_empty(&stream->receives) && length > sizeof(header) && length <= SHORT_BYTES &&
        cw_likely(cw_ep_has_user(ep))) {
        memcpy(&header, data, sizeof(header));
        if (cw_likely(le64toh(header.offset) == stream->arrived &&
                      stream->arrived - stream->reported <= CW_STREAM_WINDOW - SHORT_BYTES &&
                      stream->segments < CW_STREAM_SEGMENTS && cw_worker_has(worker, UCP_FEATURE_STREAM))) {
            segment = get_short_segment(stream);
            if (cw_likely(segment != NULL)) {
                length -= sizeof(header);
                segment->length = (uint32_t)length;
                segment->taken = 0;
                add_last(stream, segment);
                stream->arrived += length;
                stream->unread += length;
                ep->unread = 1;
                if (cw_list_empty(&stream->ready_link)) {
                    cw_list_add_tail(&worker->stream->ready, &stream->ready_link);
                }
                cw_count_message(worker, CW_COUNT_STREAM_RECEIVED, length);
                cw_bytes_copy_inline(segment->data, (const char *)data + sizeof(header), length);
                return;
            }
        }
    }
    on_other(ep, id, data, length);
}

/* Takes at most `most` bytes of the oldest packet in a shared segment. The length of the rest overwrites consumed bytes
 * in front of it, so nothing is allocated. */
static CW_NOINLINE size_t take_from_shared(struct cw_stream *stream, struct recv_state *state, size_t most)
{
    struct cw_stream_segment *shared = stream->first;
    char *from = shared->data + shared->first_at;
    uint16_t length, left;
    size_t part;

    memcpy(&length, from, sizeof(length));
    part = (length < most) ? length : most;
    left = (uint16_t)(length - part);
    store(state, from + sizeof(length), part);
    if (left > 0) {
        memcpy(from + part, &left, sizeof(left));
    }
    shared->first_at += (uint32_t)(part + ((left > 0) ? 0 : sizeof(length)));
    shared->length -= (uint32_t)part;
    stream->unread -= part;
    if (shared->length == 0) {
        cw_stream_segment_free(cw_stream_pop(stream));
    }
    return part;
}

static size_t take_from_first(struct cw_stream *stream, struct recv_state *state, size_t most)
{
    struct cw_stream_segment *segment = stream->first;
    size_t part = segment->length - segment->taken;

    part = (part < most) ? part : most;
    store(state, segment->data + segment->taken, part);
    segment->taken += (uint32_t)part;
    stream->unread -= part;
    if (segment->taken == segment->length) {
        cw_stream_segment_free(cw_stream_pop(stream));
    }
    return part;
}

/* The length of the unread bytes of a segment's oldest packet. */
static size_t first_length(const struct cw_stream_segment *segment)
{
    uint16_t length = 0;

    if (segment->size != 0) {
        memcpy(&length, segment->data + segment->first_at, sizeof(length));
    }
    return (segment->size == 0) ? segment->length - segment->taken : length;
}

/* Moves unread data into a receive: as much as its granule allows, and if `one`, of one packet only. */
static void take(struct cw_stream *stream, struct recv_state *state, int one)
{
    const size_t available = (one && stream->unread > 0) ? first_length(stream->first) : stream->unread;
    const size_t most = share(state->granule, state->cursor.offset, state->cursor.length - state->cursor.offset,
                              available);
    size_t taken = 0;

    while (taken < most) {
        taken += cw_likely(stream->first->size == 0) ? take_from_first(stream, state, most - taken) :
                 take_from_shared(stream, state, most - taken);
    }
    cw_stream_consume(stream, taken);
}

static void return_length(const ucp_request_param_t *param, size_t *length_p, size_t length)
{
    *length_p = length;
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO) {
        *param->recv_info.length = length;
    }
}

/* Completes a receive whose bytes are available when the call begins. */
static ucs_status_ptr_t complete_now(struct cw_request *request, size_t *length, const ucp_request_param_t *param)
{
    struct recv_state *state = cw_request_state(request);

    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        finish(request);
        return cw_request_handle(request);
    }
    if (state->status == UCS_OK) {
        return_length(param, length, state->cursor.offset);
    }
    request->flags |= CW_REQUEST_COMPLETED;
    request->status = state->status;
    return cw_request_give_up(request, state->status);
}

static size_t granule_of(ucp_datatype_t datatype, const ucp_request_param_t *param, size_t length)
{
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && (param->flags & UCP_STREAM_RECV_FLAG_WAITALL)) {
        return length;
    }
    datatype = cw_dt_of_program(datatype);
    return (cw_dt_is_contig(datatype) && length > 0) ? cw_dt_contig_length(datatype, 1) : (length > 0);
}

/* Receives into any datatype, with a request. */
static ucs_status_ptr_t recv_request(struct cw_stream *stream, ucp_datatype_t datatype, void *buffer, size_t count,
                                     size_t *length, const ucp_request_param_t *param)
{
    struct cw_request *request = cw_request_get_inline(stream->ep->worker, param, CW_REQUEST_STREAM_RECV);
    struct recv_state *state;
    ucs_status_t status;

    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    state = cw_request_state(request);
    state->status = UCS_OK;
    request->release = recv_release;
    request->info = (ucp_tag_recv_info_t){0};
    if (cw_likely(cw_dt_is_contig(datatype))) {
        cw_dt_start_contig(&state->cursor, buffer, cw_dt_contig_length(datatype, count));
    } else {
        status = cw_dt_start(&state->cursor, datatype, buffer, count, CW_DT_RECV);
        if (status != UCS_OK) {
            cw_request_put(request);
            return UCS_STATUS_PTR(status);
        }
    }
    state->granule = granule_of(datatype, param, state->cursor.length);
    if (stream->unread < state->granule) {
        if (stream->ep->state == CW_EP_FAILED) {
            status = stream->ep->status;
        } else {
            status = (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) ? UCS_ERR_NO_RESOURCE :
                                                                               cw_dt_keep(&state->cursor);
        }
        if (status != UCS_OK) {
            return cw_request_give_up(request, status);
        }
        if (stream->unread > 0) {
            take(stream, state, 0);
        }
        cw_list_add_tail(&stream->receives, &request->link);
        return cw_request_handle(request);
    }
    take(stream, state, state->cursor.class_id == UCP_DATATYPE_GENERIC && state->granule == 1);
    return complete_now(request, length, param);
}

ucs_status_ptr_t cw_stream_recv(struct ucp_ep *ep, void *buffer, size_t count, size_t *length,
                                const ucp_request_param_t *param)
{
    ucp_datatype_t datatype = cw_dt_of_param(param);
    struct recv_state state;
    struct cw_stream *stream;

    if (cw_unlikely(ep->state == CW_EP_FAILED && !ep->unread)) {
        return UCS_STATUS_PTR(ep->status);
    }
    stream = cw_stream_get(ep);
    if (cw_unlikely(stream == NULL)) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    if (cw_dt_is_contig(datatype) && !(param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
        state.granule = granule_of(datatype, param, cw_dt_contig_length(datatype, count));
        if (stream->unread >= state.granule) { /* the receive completes in the call: no request */
            state.status = UCS_OK;
            cw_dt_start_contig(&state.cursor, buffer, cw_dt_contig_length(datatype, count));
            take(stream, &state, 0);
            return_length(param, length, state.cursor.offset);
            return NULL;
        }
    }
    return recv_request(stream, datatype, buffer, count, length, param);
}

/* A separate function, so that cw_stream_recv_data spills no register for this rare case. */
static CW_NOINLINE ucs_status_ptr_t recv_shared(struct ucp_ep *ep, size_t *length)
{
    return (take_apart(cw_op_ep(ep)->stream) == NULL) ? UCS_STATUS_PTR(UCS_ERR_NO_MEMORY)
                                                      : cw_stream_recv_data(ep, length);
}

ucs_status_ptr_t cw_stream_recv_data(struct ucp_ep *ep, size_t *length)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;
    struct cw_stream_segment *segment;
    char *data;

    if (!ep->unread) {
        return (ep->state == CW_EP_FAILED) ? UCS_STATUS_PTR(ep->status) : NULL;
    }
    if (cw_unlikely(stream->first->size != 0)) {
        return recv_shared(ep, length);
    }
    segment = cw_stream_pop(stream);
    data = segment->data + segment->taken;
    *length = segment->length - segment->taken;
    segment->back = (size_t)(data - (char *)segment);
    memmove(data - sizeof(segment->back), &segment->back, sizeof(segment->back));
    cw_stream_consume(stream, *length);
    return data;
}

void cw_stream_data_free(void *data)
{
    size_t back;

    memcpy(&back, (char *)data - sizeof(back), sizeof(back));
    cw_stream_segment_free((struct cw_stream_segment *)(void *)((char *)data - back));
}
