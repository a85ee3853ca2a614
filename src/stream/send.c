/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending on a stream. A contiguous buffer that fits the window and a line of a ring, or the transport's short send,
 * needs no request. Any other send is cut into packets within the limits of the transport and the window, zero copy
 * where the transport supports it.
 */
#include "core/ep_batch.h"
#include "proto/select.h"
#include "stream/stream.h"

#include <string.h>

#include "wire/packet.h"

struct send_state {
    struct cw_completion completion; /* of all zcopy pieces; request->outstanding counts them */
    struct cw_dt_cursor cursor;
    uint64_t position;               /* in the stream, of the next piece */
    size_t piece;                    /* its length */
    uint8_t sent;                    /* all bytes were handed to the transport */
    uint8_t zcopy;                   /* the protocol uses zcopy while many bytes are left */
};

_Static_assert(sizeof(struct send_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static void zcopy_done(struct cw_completion *completion, ucs_status_t status)
{
    struct send_state *state = cw_container_of(completion, struct send_state, completion);
    struct cw_request *request = (struct cw_request *)(void *)state - 1;

    request->outstanding--;
    if (request->outstanding == 0 && state->sent) {
        cw_list_remove(&request->link);
        cw_request_complete(request, status);
    }
}

static size_t pack_piece(void *dest, size_t max CW_UNUSED, void *arg)
{
    struct send_state *state = arg;
    const struct cw_request *request = (struct cw_request *)arg - 1;
    const struct cw_wire_stream_data header = {.offset = htole64(state->position)};

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack_nt(&state->cursor, request->ep->conn->nt, (char *)dest + sizeof(header),
                                           state->piece);
}

static ucs_status_t send_zcopy(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    struct cw_wire_stream_data header = {.offset = htole64(state->position)};
    struct iovec iov = {.iov_base = state->cursor.contig + state->cursor.offset,
                        .iov_len = state->piece};
    ucs_status_t status;

    status = cw_lane_send_zcopy(conn, CW_PACKET_STREAM_DATA, &header, sizeof(header), &iov, 1, &state->completion);
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        state->cursor.offset += state->piece;
        request->ep->turn += (uint32_t)state->piece;
        request->outstanding += (status == UCS_INPROGRESS);
        status = UCS_OK;
    }
    return status;
}

/* Records the protocol in the trace, once the first piece was sent. */
static CW_COLD void note_path(const struct cw_request *request, int zcopy)
{
    const struct send_state *state = (const void *)(request + 1);
    const size_t length = state->cursor.length;
    enum cw_trace_path path = CW_TRACE_PIECES;

    if (state->piece == length) {
        path = zcopy ? CW_TRACE_WITHOUT_COPY : CW_TRACE_COPIED;
    }
    cw_trace_note(request, CW_TRACE_PATH, path, 0, length);
}

static ucs_status_t send_piece(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);
    struct cw_stream *stream = cw_op_ep(request->ep)->stream;
    struct cw_conn *conn = request->ep->conn;
    const struct cw_limits *limits = &conn->iface->limits;
    size_t left = state->cursor.length - state->cursor.offset;
    size_t window = cw_stream_window(stream);
    size_t header = sizeof(struct cw_wire_stream_data);
    int zcopy = state->zcopy && left + header > limits->max_bcopy;
    size_t max = (zcopy ? limits->max_zcopy : cw_conn_max_piece(conn)) - header;
    ucs_status_t status;

    if (window == 0) {
        return CW_BLOCKED;
    }
    max = cw_stream_max_piece(max, window);
    state->piece = (left < max) ? left : max;
    state->position = stream->sent;
    status = zcopy ? send_zcopy(request)
                   : cw_lane_send_bcopy(conn, CW_PACKET_STREAM_DATA, header + state->piece, pack_piece, state);
    if (status == UCS_OK) {
        stream->sent += state->piece;
        if (cw_unlikely(request->worker->trace != NULL) && left == state->cursor.length) {
            note_path(request, zcopy);
        }
    }
    return status;
}

/* Credit that arrives while sends are blocked belongs to these sends: it takes effect when progress retries the oldest
 * of them. Otherwise a send that the program has just posted would overtake them. */
static void use_credit(const struct cw_request *request)
{
    struct cw_stream *stream = cw_op_ep(request->ep)->stream;

    if (stream->credit_later != 0 && (request->flags & CW_REQUEST_WAITING) && !request->ep->tries_blocked) {
        stream->credited = stream->credit_later;
        stream->credit_later = 0;
    }
}

static ucs_status_t send_pieces(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);
    ucs_status_t status;

    use_credit(request);
    while (state->cursor.offset < state->cursor.length) {
        status = send_piece(request);
        if (status != UCS_OK) {
            return status;
        }
    }
    state->sent = 1;
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

ucs_status_t cw_stream_send_begin(struct cw_request *request, int zcopy)
{
    struct send_state *state = cw_request_state(request);
    ucs_status_t status;

    state->zcopy = (uint8_t)zcopy;
    status = send_pieces(request);
    if (state->cursor.offset > 0) {
        request->send = send_pieces;
    }
    return status;
}

/* The protocol is chosen at each attempt, because the endpoint may connect while data is queued. */
static ucs_status_t stream_send(struct cw_request *request)
{
    const struct send_state *state = cw_request_state(request);

    return cw_choice_stream(request->ep, &state->cursor)->start(request);
}

static void release(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);

    cw_dt_finish(&state->cursor);
}

static int takes_all_now(const struct ucp_ep *ep, size_t length)
{
    return cw_ep_ready(ep) && length <= cw_stream_window(cw_op_ep(ep)->stream) &&
           length + sizeof(struct cw_wire_stream_data) <= ep->conn->iface->limits.max_bcopy;
}

/* Queues a request on the list that it waits on. */
static ucs_status_ptr_t wait_on(struct ucp_ep *ep, struct cw_request *request, ucs_status_t why)
{
    struct send_state *state = cw_request_state(request);
    ucs_status_t status = cw_dt_keep(&state->cursor);

    if (status != UCS_OK && request->outstanding == 0) {
        if (state->cursor.offset > 0) {
            cw_ep_fail(ep, status); /* the peer has received a part of the bytes */
        }
        return cw_request_give_up(request, status);
    }
    if (why == CW_BLOCKED) {
        cw_ep_wait(ep, &ep->blocked, request);
    } else {
        cw_ep_queue(ep, request);
    }
    return cw_request_handle(request);
}

/* Whether a send may be batched (cw_ep_collects) and complete in progress. */
static bool may_wait(uint32_t attr_mask)
{
    return !(attr_mask & (UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FLAG_FAST_CMPL));
}

static ucs_status_t first_attempt(struct ucp_ep *ep, struct cw_request *request, uint32_t attr_mask)
{
    const struct send_state *state = cw_request_state(request);
    const int ready = cw_ep_ready(ep);
    ucs_status_t status;

    if (!ready && !cw_ep_gathers(ep)) {
        return CW_AGAIN;
    }
    if (may_wait(attr_mask) && cw_ep_collects(ep)) {
        if (state->cursor.length >= ep->conn->iface->plan->short_end && ep->turn < cw_ep_turn(ep)) {
            return cw_ep_follow(ep, request);
        }
        cw_ep_reap_later(ep); /* progress sends from the queue */
        return CW_AGAIN;
    }
    if (!ready) {
        return CW_AGAIN;
    }
    status = stream_send(request);
    cw_ep_sent_alone(ep);
    return status;
}

/* Makes the first attempt, or puts the request into a queue. */
static ucs_status_ptr_t start(struct ucp_ep *ep, struct cw_request *request, uint32_t attr_mask)
{
    struct send_state *state = cw_request_state(request);
    ucs_status_t status = (state->cursor.length == 0) ? UCS_OK : CW_AGAIN;

    if ((attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) && status != UCS_OK &&
        !takes_all_now(ep, state->cursor.length)) {
        return cw_request_give_up(request, UCS_ERR_NO_RESOURCE);
    }
    if (status != UCS_OK) {
        status = first_attempt(ep, request, attr_mask);
    }
    if (status != CW_AGAIN && status != CW_BLOCKED) {
        return cw_ep_answered(request, status, attr_mask);
    }
    return (status == CW_AGAIN && (attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL))
               ? cw_request_give_up(request, UCS_ERR_NO_RESOURCE)
               : wait_on(ep, request, status);
}

static ucs_status_ptr_t send_request(struct ucp_ep *ep, const void *buffer, size_t count,
                                     const ucp_request_param_t *param)
{
    uint32_t attr_mask = param->op_attr_mask;
    ucp_datatype_t datatype = cw_dt_of_param(param);
    struct cw_request *request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    struct send_state *state;
    ucs_status_t status;

    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    state = cw_request_state(request);
    state->completion.done = zcopy_done;
    state->sent = 0;
    request->ep = ep;
    request->send = stream_send;
    request->release = release;
    status = cw_dt_start(&state->cursor, datatype, buffer, count, CW_DT_SEND);
    if (status != UCS_OK) {
        cw_request_put(request);
        return UCS_STATUS_PTR(status);
    }
    cw_count_message(ep->worker, CW_COUNT_STREAM_SENT, state->cursor.length);
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_STREAM_SENT, 0, state->cursor.length);
    return start(ep, request, attr_mask);
}

ucs_status_ptr_t cw_stream_send(struct ucp_ep *ep, const void *buffer, size_t count, const ucp_request_param_t *param)
{
    uint32_t attr_mask = param->op_attr_mask;
    struct cw_stream *stream;
    struct cw_conn *conn;
    ucs_status_t status;
    size_t length = count;

    if (cw_unlikely(ep->state == CW_EP_FAILED)) {
        return UCS_STATUS_PTR(ep->status);
    }
    stream = cw_stream_get(ep);
    if (cw_unlikely(stream == NULL)) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    if (cw_likely(cw_ep_ready(ep) && !(attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL))) {
        if (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
            length = cw_dt_is_contig(param->datatype) ? cw_dt_contig_length(param->datatype, count) : SIZE_MAX;
        }
        conn = ep->conn;
        if (length - 1 < conn->iface->limits.max_short && length <= cw_stream_window(stream) &&
            cw_likely(!cw_ep_collects(ep))) {
            status = cw_lane_send_short(conn, CW_PACKET_STREAM_DATA, htole64(stream->sent), buffer, length);
            if (cw_likely(status != CW_AGAIN)) {
                cw_ep_sent_alone(ep);
                stream->sent += length;
                cw_count_message(ep->worker, CW_COUNT_STREAM_SENT, length);
                return UCS_STATUS_PTR(status); /* NULL for UCS_OK */
            }
        }
    }
    return send_request(ep, buffer, count, param);
}

ucs_status_t cw_stream_on_credit(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;
    struct cw_wire_stream_credit header;
    uint64_t consumed;

    if (stream == NULL) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    consumed = le64toh(header.consumed);
    if (consumed < stream->credited || consumed < stream->credit_later || consumed > stream->sent) {
        return UCS_ERR_IO_ERROR;
    }
    if (cw_list_empty(&ep->blocked) && stream->credit_later == 0) {
        stream->credited = consumed;
    } else {
        stream->credit_later = consumed;
        cw_ep_release_blocked_later(ep); /* once for several credits */
    }
    return UCS_OK;
}
