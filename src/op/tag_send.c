/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending tag messages. The shortest way is a contiguous buffer that fits the transport's short send: no request, no
 * copy but the transport's own. Everything else is described by a request, which is given back at once when the first
 * attempt takes it all.
 */
#include "op/tag.h"

#include "wire/packet.h"

struct send_state {
    struct cw_completion completion; /* of all zcopy pieces; they are counted in the request */
    struct cw_dt_cursor cursor;
    uint64_t tag;
    uint64_t sync_id;       /* 0: not synchronous */
    uint32_t message;
    uint8_t started;        /* the first piece of several was sent */
    uint8_t waiting;        /* all was sent */
    uint8_t acknowledged;   /* the receiver matched it before all was sent */
};

_Static_assert(sizeof(struct send_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static size_t pack_eager(void *dest, size_t max, void *arg)
{
    struct send_state *state  = arg;
    struct cw_wire_tag header = {.tag = htole64(state->tag)};

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack(&state->cursor, (char *)dest + sizeof(header), max - sizeof(header));
}

static size_t pack_sync(void *dest, size_t max, void *arg)
{
    struct send_state *state       = arg;
    struct cw_wire_tag_sync header = {.tag = htole64(state->tag), .sync_id = htole64(state->sync_id)};

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack(&state->cursor, (char *)dest + sizeof(header), max - sizeof(header));
}

static size_t pack_first(void *dest, size_t max, void *arg)
{
    struct send_state *state        = arg;
    struct cw_wire_tag_first header = {.tag     = htole64(state->tag),
                                       .total   = htole64(state->cursor.length),
                                       .sync_id = htole64(state->sync_id),
                                       .message = htole32(state->message)};

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack(&state->cursor, (char *)dest + sizeof(header), max - sizeof(header));
}

static size_t pack_next(void *dest, size_t max, void *arg)
{
    struct send_state *state       = arg;
    struct cw_wire_next header = {.message = htole32(state->message), .offset = htole64(state->cursor.offset)};

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack(&state->cursor, (char *)dest + sizeof(header), max - sizeof(header));
}

/* Everything was handed to the transport: what remains to wait for? */
static ucs_status_t sent(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);

    state->waiting = 1;
    return (request->outstanding == 0 && (state->sync_id == 0 || state->acknowledged)) ? UCS_OK : UCS_INPROGRESS;
}

/* The transport gave a piece of user memory back. */
static void zcopy_done(struct cw_completion *completion, ucs_status_t status)
{
    struct send_state *state   = cw_container_of(completion, struct send_state, completion);
    struct cw_request *request = (struct cw_request *)(void *)state - 1;

    request->outstanding--;
    if (request->outstanding == 0 && state->waiting &&
        (status != UCS_OK || state->sync_id == 0 || state->acknowledged)) {
        cw_list_remove(&request->link);
        cw_request_complete(request, status);
    }
}

/* The message fits one packet. */
static ucs_status_t send_whole(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);
    struct cw_conn *conn     = request->ep->conn;
    size_t header            = (state->sync_id == 0) ? sizeof(struct cw_wire_tag) : sizeof(struct cw_wire_tag_sync);
    ucs_status_t status;

    if (state->sync_id == 0) {
        status = conn->iface->transport->send_bcopy(conn, CW_PACKET_TAG_EAGER, header + state->cursor.length,
                                                    pack_eager, state);
    } else {
        status = conn->iface->transport->send_bcopy(conn, CW_PACKET_TAG_SYNC, header + state->cursor.length, pack_sync,
                                                    state);
    }
    return (status == UCS_OK) ? sent(request) : status;
}

static ucs_status_t send_next_bcopy(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);
    struct cw_conn *conn     = request->ep->conn;
    size_t max               = conn->iface->limits.max_bcopy;
    size_t left              = state->cursor.length - state->cursor.offset + sizeof(struct cw_wire_next);

    return conn->iface->transport->send_bcopy(conn, CW_PACKET_NEXT, (left < max) ? left : max, pack_next, state);
}

/* Straight out of the user's memory; the message completes when the transport has given all of it back. */
static ucs_status_t send_next_zcopy(struct cw_request *request)
{
    struct send_state *state       = cw_request_state(request);
    struct cw_conn *conn           = request->ep->conn;
    struct cw_wire_next header = {.message = htole32(state->message), .offset = htole64(state->cursor.offset)};
    size_t max                     = conn->iface->limits.max_zcopy - sizeof(header);
    size_t left                    = state->cursor.length - state->cursor.offset;
    struct iovec iov               = {.iov_base = state->cursor.contig + state->cursor.offset,
                                      .iov_len  = (left < max) ? left : max};
    ucs_status_t status;

    status = conn->iface->transport->send_zcopy(conn, CW_PACKET_NEXT, &header, sizeof(header), &iov, 1,
                                                &state->completion);
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        state->cursor.offset += iov.iov_len;
        request->outstanding += (status == UCS_INPROGRESS);
        status                = UCS_OK;
    }
    return status;
}

static int wants_zcopy(const struct cw_request *request)
{
    const struct send_state *state = (const void *)(request + 1);
    const struct cw_limits *limits = &request->ep->conn->iface->limits;

    return limits->max_zcopy > limits->max_bcopy && state->cursor.class_id == UCP_DATATYPE_CONTIG &&
           state->cursor.length - state->cursor.offset > limits->max_bcopy;
}

static ucs_status_t send_pieces(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);
    struct cw_conn *conn     = request->ep->conn;
    ucs_status_t status;

    if (!state->started) {
        state->message = request->ep->next_message_id;
        status         = conn->iface->transport->send_bcopy(conn, CW_PACKET_TAG_FIRST, conn->iface->limits.max_bcopy,
                                                            pack_first, state);
        if (status != UCS_OK) {
            return status;
        }
        state->started = 1;
        request->ep->next_message_id++;
    }
    while (state->cursor.offset < state->cursor.length) {
        status = wants_zcopy(request) ? send_next_zcopy(request) : send_next_bcopy(request);
        if (status != UCS_OK) {
            return status;
        }
    }
    return sent(request);
}

static int fits_one_packet(const struct ucp_ep *ep, const struct send_state *state)
{
    size_t header = (state->sync_id == 0) ? sizeof(struct cw_wire_tag) : sizeof(struct cw_wire_tag_sync);

    return state->cursor.length + header <= ep->conn->iface->limits.max_bcopy;
}

/* Chosen at each attempt, because a queued message meets its connection only later. */
static ucs_status_t tag_send(struct cw_request *request)
{
    return fits_one_packet(request->ep, cw_request_state(request)) ? send_whole(request) : send_pieces(request);
}

static void tag_send_release(struct cw_request *request)
{
    struct send_state *state = cw_request_state(request);

    cw_dt_finish(&state->cursor);
    if (state->sync_id != 0) {
        cw_idmap_remove(&request->worker->ids, state->sync_id);
    }
}

static ucs_status_ptr_t give_up(struct cw_request *request, ucs_status_t status)
{
    tag_send_release(request);
    cw_request_put(request);
    return UCS_STATUS_PTR(status);
}

/* The first attempt, or the place in the queue. */
static ucs_status_ptr_t start(struct ucp_ep *ep, struct cw_request *request, uint32_t attr_mask)
{
    struct send_state *state = cw_request_state(request);
    ucs_status_t status      = CW_AGAIN;

    if (attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) { /* all of it now, or nothing (OPA-16) */
        if (!cw_ep_ready(ep) || state->sync_id != 0 || !fits_one_packet(ep, state)) {
            return give_up(request, UCS_ERR_NO_RESOURCE);
        }
    }
    if (cw_ep_ready(ep)) {
        status = tag_send(request);
    }
    switch (status) {
    case UCS_OK:
        if (attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
            cw_request_complete(request, UCS_OK);
            return cw_request_handle(request);
        }
        return give_up(request, UCS_OK);
    case UCS_INPROGRESS:
        cw_list_add_tail(&ep->inflight, &request->link);
        break;
    case CW_AGAIN:
        if (attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
            return give_up(request, UCS_ERR_NO_RESOURCE);
        }
        status = cw_dt_keep(&state->cursor);
        if (status != UCS_OK) {
            if (state->started) {
                cw_ep_fail(ep, status); /* the peer has half a message */
            }
            return give_up(request, status);
        }
        cw_ep_queue(ep, request);
        break;
    default:
        if (request->outstanding == 0) {
            return give_up(request, status);
        }
        cw_list_add_tail(&ep->inflight, &request->link); /* the connection broke in the middle: ends with it */
    }
    return cw_request_handle(request);
}

static ucs_status_ptr_t send_request(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                                     const ucp_request_param_t *param, int sync)
{
    uint32_t attr_mask       = param->op_attr_mask;
    ucp_datatype_t datatype  = (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) ? param->datatype : ucp_dt_make_contig(1);
    struct cw_request *request;
    struct send_state *state;
    ucs_status_t status;

    request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    state                  = cw_request_state(request);
    request->ep            = ep;
    request->send          = tag_send;
    request->release       = tag_send_release;
    state->tag             = tag;
    state->sync_id         = 0;
    state->started         = 0;
    state->waiting         = 0;
    state->acknowledged    = 0;
    state->completion.done = zcopy_done;
    status                 = cw_dt_start(&state->cursor, datatype, buffer, count, CW_DT_SEND);
    if (status != UCS_OK) {
        cw_request_put(request);
        return UCS_STATUS_PTR(status);
    }
    if (sync) {
        status = cw_idmap_add(&ep->worker->ids, request, &state->sync_id);
        if (status != UCS_OK) {
            return give_up(request, status);
        }
    }
    return start(ep, request, attr_mask);
}

ucs_status_ptr_t cw_tag_send(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                             const ucp_request_param_t *param, int sync)
{
    uint32_t attr_mask = param->op_attr_mask;
    struct cw_conn *conn;
    ucs_status_t status;
    size_t length = count;

    if (cw_likely(cw_ep_ready(ep) && !sync && !(attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL))) {
        if (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
            length = cw_dt_is_contig(param->datatype) ? cw_dt_contig_length(param->datatype, count) : SIZE_MAX;
        }
        conn = ep->conn;
        if (length <= conn->iface->limits.max_short) {
            status = conn->iface->transport->send_short(conn, CW_PACKET_TAG_EAGER, htole64(tag), buffer, length);
            if (cw_likely(status != CW_AGAIN)) {
                return UCS_STATUS_PTR(status); /* NULL for UCS_OK */
            }
        }
    } else if (cw_unlikely(ep->state == CW_EP_FAILED)) {
        return UCS_STATUS_PTR(ep->status);
    }
    return send_request(ep, buffer, count, tag, param, sync);
}

size_t cw_tag_send_length(const struct cw_request *request)
{
    return (request->send == tag_send) ? ((const struct send_state *)(const void *)(request + 1))->cursor.length : 0;
}

ucs_status_t cw_tag_on_ack(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_tag_ack header;
    struct cw_request *request;
    struct send_state *state;

    if (length != sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    request = cw_idmap_get(&ep->worker->ids, le64toh(header.sync_id));
    state   = (request == NULL) ? NULL : cw_request_state(request);
    /* an answer to nothing, to somebody else's request, or to one that was not sent yet */
    if (request == NULL || request->ep != ep || request->send != tag_send || (!state->waiting && !state->started) ||
        state->acknowledged) {
        return UCS_ERR_IO_ERROR;
    }
    state->acknowledged = 1;
    if (state->waiting && request->outstanding == 0) { /* else it was matched by its first piece, others follow */
        cw_list_remove(&request->link);
        cw_request_complete(request, UCS_OK);
    }
    return UCS_OK;
}
