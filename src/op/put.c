/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts (docs/RMA.md). What can be stored directly, or fits a short packet, needs no request. Everything else is a send
 * of op/send.h whose attempts are made here until it is announced. Invariant: a put counts in rma->async_puts while a
 * copy in shares or an announcement is under way, and has its place among the peer's answers while it is announced.
 */
#include "base/bytes.h"
#include "core/ep_round.h"
#include "op/copy.h"
#include "op/ledger.h"
#include "op/send.h"

#define SHORT_BYTES 256u         /* put together with the header on the stack */
#define TURN_BYTES  (256u << 10) /* sent before others get their turn */

static size_t write_header(const struct cw_send *send, enum cw_send_part part, void *dest)
{
    struct cw_wire_put_rts header = {.token   = htole64(send->put.rkey->key.token),
                                     .address = htole64(send->put.address)};

    (void)part; /* only announcements go by op/send.h */
    if (dest != NULL) {
        header.rts         = cw_send_rts(send);
        header.rts.address = 0;
        memcpy(dest, &header, sizeof(header));
    }
    return sizeof(header);
}

static void release_put(struct cw_send *send);

static const struct cw_send_kind put_kind = {
    .counter = CW_COUNT_PUT_SENT,
    .header  = write_header,
    .release = release_put,
};

static const struct cw_send_kind announced_kind = {
    .ids          = {[CW_SEND_RTS] = CW_PACKET_PUT_RTS},
    .acknowledged = 1,
    .confirmed    = 1,
    .header       = write_header,
    .release      = release_put,
};

static void release_put(struct cw_send *send)
{
    struct ucp_ep *ep  = cw_send_request(send)->ep;
    struct cw_rma *rma = cw_op_ep(ep)->rma;

    if (send->phase == CW_SEND_COPYING && send->kind == &put_kind) {
        cw_copy_cancel(send->copy);
    }
    if (rma != NULL) {
        rma->replies    -= send->kind == &announced_kind;
        rma->async_puts -= send->kind == &announced_kind || send->phase == CW_SEND_COPYING;
    }
    cw_rma_end(ep, send->message);
}

/* ---- copies ---- */

static void copied(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;

    send->phase = CW_SEND_QUEUED;
    rma->async_puts--;
    cw_list_remove(&request->link);
    if (status == UCS_OK) {
        cw_request_complete(request, UCS_OK);
        return;
    }
    send->no_copies = 1;
    cw_list_add_head(&rma->queue, &request->link); /* nothing may pass it */
    cw_rma_kick(rma);
}

/* UCS_ERR_UNSUPPORTED: not this way. */
static ucs_status_t copy(struct cw_request *request)
{
    struct cw_send *send       = cw_request_state(request);
    const struct cw_key *key   = &send->put.rkey->key;
    ucs_status_t status;

    send->no_copies = 1; /* should it come back */
    if (send->cursor.length <= CW_COPY_CALL_BYTES) {
        status = cw_copy_now(request->ep, key, send->put.address, &send->cursor, CW_COPY_PUT);
        if (status == UCS_OK) {
            cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SYSTEM, 0, send->cursor.length);
        }
        return status;
    }
    if (send->force == CW_FORCE_EAGER) {
        return CW_AGAIN;
    }
    status = cw_dt_keep(&send->cursor);
    if (status != UCS_OK) {
        return status;
    }
    if (cw_copy_begin(request, key, send->put.address, &send->cursor, CW_COPY_PUT, copied, &send->copy) != UCS_OK) {
        return UCS_ERR_UNSUPPORTED;
    }
    send->phase = CW_SEND_COPYING;
    cw_op_ep(request->ep)->rma->async_puts++;
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SHARES, 0, send->cursor.length);
    return UCS_INPROGRESS;
}

/* ---- packets ---- */

static struct cw_wire_put piece_header(const struct cw_send *send)
{
    return (struct cw_wire_put){.token   = htole64(send->put.rkey->key.token),
                                .address = htole64(send->put.address + send->cursor.offset)};
}

static size_t pack_piece(void *dest, size_t max, void *arg)
{
    struct cw_send *send            = arg;
    const struct cw_wire_put header = piece_header(send);

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack_far(&send->cursor, cw_send_far(send), (char *)dest + sizeof(header),
                                           max - sizeof(header));
}

/* All of it in one packet from the stack. */
static ucs_status_t send_short(struct cw_conn *conn, struct cw_send *send)
{
    const struct cw_wire_put header = piece_header(send);
    struct cw_dt_cursor cursor      = send->cursor;
    char bytes[sizeof(header.address) + SHORT_BYTES];
    ucs_status_t status;

    memcpy(bytes, &header.address, sizeof(header.address));
    (void)cw_dt_pack(&cursor, bytes + sizeof(header.address), cursor.length);
    status = cw_lane_send_short(conn, CW_PACKET_PUT, header.token, bytes, sizeof(header.address) + cursor.length);
    if (status == UCS_OK) {
        send->cursor = cursor;
    }
    return status;
}

static int is_short(const struct cw_send *send, const struct cw_limits *limits)
{
    return send->cursor.length <= SHORT_BYTES && sizeof(uint64_t) + send->cursor.length <= limits->max_short;
}

/* Of the next piece, with `left` bytes to go. */
static int is_zcopy(const struct cw_send *send, const struct cw_conn *conn, size_t left)
{
    return left >= conn->iface->plan->zcopy_min && send->force != CW_FORCE_EAGER && cw_dt_is_memory(&send->cursor);
}

static ucs_status_t send_piece(struct cw_request *request)
{
    struct cw_send *send            = cw_request_state(request);
    struct cw_conn *conn            = request->ep->conn;
    const struct cw_limits *limits  = &conn->iface->limits;
    const struct cw_wire_put header = piece_header(send);
    const size_t left               = send->cursor.length - send->cursor.offset;

    if (send->cursor.offset == 0 && is_short(send, limits)) {
        return send_short(conn, send);
    }
    if (is_zcopy(send, conn, left)) {
        return cw_send_memory(request, CW_PACKET_PUT, &header, sizeof(header), limits->max_zcopy - sizeof(header),
                              CW_SEND_ZCOPY);
    }
    return cw_lane_send_bcopy(conn, CW_PACKET_PUT,
                              (left < limits->max_bcopy - sizeof(header)) ? sizeof(header) + left : limits->max_bcopy,
                              pack_piece, send);
}

/* The first piece was sent. */
static void note_way(const struct cw_request *request, const struct cw_send *send)
{
    const struct cw_conn *conn = request->ep->conn;
    const size_t length        = send->cursor.length;
    enum cw_trace_way way      = CW_TRACE_PIECES;

    if (send->cursor.offset == length) {
        way = (!is_short(send, &conn->iface->limits) && is_zcopy(send, conn, length)) ? CW_TRACE_WITHOUT_COPY :
              CW_TRACE_COPIED;
    }
    cw_trace_note(request, CW_TRACE_WAY, way, 0, length);
}

static ucs_status_t send_pieces(struct cw_request *request)
{
    struct cw_send *send  = cw_request_state(request);
    const size_t turn_end = send->cursor.offset + TURN_BYTES;
    ucs_status_t status;
    size_t begin;

    while (send->cursor.offset < send->cursor.length) {
        if (cw_ep_must_pause(request->ep)) {
            return CW_AGAIN;
        }
        begin  = send->cursor.offset;
        status = send_piece(request);
        if (status != UCS_OK) {
            return status;
        }
        cw_ep_spend(request->ep, send->cursor.offset - begin);
        if (begin == 0) {
            note_way(request, send);
        }
        send->phase = CW_SEND_PIECES;
        cw_op_ep(request->ep)->rma->sent_mark++;
        if (send->cursor.offset >= turn_end && send->cursor.offset < send->cursor.length) {
            return CW_LATER;
        }
    }
    send->phase = CW_SEND_SENT;
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

/* In the ledger, where the system could copy as well. UCS_ERR_UNSUPPORTED: that is better now. */
static ucs_status_t send_counted(struct cw_request *request)
{
    struct cw_send *send     = cw_request_state(request);
    struct cw_parcel parcel  = {.cursor = &send->cursor};
    ucs_status_t status      = UCS_OK;
    size_t left;

    if (send->phase == CW_SEND_QUEUED && send->cursor.length > cw_ledger_max(request->ep)) {
        status = cw_dt_keep(&send->cursor); /* once a piece is under way it must not fail any more */
    }
    if (status != UCS_OK) {
        return status;
    }
    while (send->cursor.offset < send->cursor.length) {
        if (!cw_ledger_is_open(request->ep, send->put.rkey)) {
            cw_dt_rewind(&send->cursor); /* a part that was sent is written once more: nothing newer can be there */
            send->phase     = CW_SEND_QUEUED;
            send->overtaken = 1; /* not once more by packets, for an owner that comes and goes */
            return UCS_ERR_UNSUPPORTED;
        }
        left          = send->cursor.length - send->cursor.offset;
        parcel.length = (left < cw_ledger_max(request->ep)) ? left : cw_ledger_max(request->ep);
        status        = cw_ledger_send(request->ep, send->put.rkey, send->put.address + send->cursor.offset, &parcel);
        if (status != UCS_OK) {
            return status;
        }
        send->phase = CW_SEND_COUNTED;
    }
    send->phase = CW_SEND_SENT;
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_COUNTED, 0, send->cursor.length);
    return UCS_OK;
}

/* Whether it goes there; decided again until the first packet is sent. */
static int is_counted(struct cw_send *send, struct ucp_ep *ep)
{
    return send->phase == CW_SEND_COUNTED ||
           (send->cursor.length <= CW_RMA_QUICK_PUT && !send->overtaken && cw_ledger_is_open(ep, send->put.rkey) &&
            (send->force != CW_FORCE_EAGER || send->cursor.length <= cw_ledger_max(ep)));
}

static ucs_status_t announce(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;
    ucs_status_t status;

    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_HOLD;
    }
    send->kind = &announced_kind;
    status     = cw_send_announce(request);
    if (status != UCS_INPROGRESS) {
        send->kind = &put_kind;
        return status;
    }
    rma->replies++;
    rma->async_puts++;
    return UCS_INPROGRESS;
}

static ucs_status_t send_packets(struct cw_request *request)
{
    struct cw_send *send                = cw_request_state(request);
    const struct cw_iface *iface        = request->ep->conn->iface;
    const struct cw_protocol_plan *plan = iface->plan;
    const size_t length                 = send->cursor.length;
    ucs_status_t status                 = UCS_OK;

    if (length > iface->limits.max_bcopy - sizeof(struct cw_wire_put)) {
        if (send->force == CW_FORCE_EAGER) {
            return CW_AGAIN;
        }
        if (cw_protocol_announces_put(plan, iface->limits.max_bcopy, sizeof(struct cw_wire_put),
                                      iface->limits.max_placed, length, send->fast)) {
            return announce(request);
        }
        status = cw_dt_keep(&send->cursor); /* once a piece is under way it must not fail any more */
    }
    return (status == UCS_OK) ? send_pieces(request) : status;
}

/* By the system or, as long as the owner makes progress, by packets. */
static ucs_status_t attempt_copy(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep    = request->ep;
    ucs_status_t status;

    if (is_counted(send, ep)) {
        status = cw_rma_admit(cw_op_ep(ep)->rma, send->put.address, send->cursor.length, 1, 1);
        status = (status == UCS_OK) ? send_counted(request) : status;
        if (status != UCS_ERR_UNSUPPORTED) {
            return status;
        }
    }
    status = cw_rma_admit_copy(cw_op_ep(ep)->rma, send->put.address, send->cursor.length, 1);
    return (status == UCS_OK) ? copy(request) : status;
}

/* Chosen at each attempt, because a queued put meets its connection only later. */
static ucs_status_t attempt(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep    = request->ep;
    ucs_status_t status;
    char *to;

    if (send->phase == CW_SEND_PIECES) {
        return send_pieces(request);
    }
    to = cw_rkey_direct(send->put.rkey, send->put.address, CW_KEY_WRITE);
    if (to == NULL && !send->no_copies && cw_copy_is_possible(ep, &send->put.rkey->key)) {
        status = attempt_copy(request);
        if (status != UCS_ERR_UNSUPPORTED) {
            return status;
        }
    }
    status = cw_rma_admit(cw_op_ep(ep)->rma, send->put.address, send->cursor.length, 1, to == NULL);
    if (status != UCS_OK) {
        return status;
    }
    if (to != NULL) {
        (void)cw_dt_pack(&send->cursor, to, send->cursor.length);
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_MAPPED, 0, send->cursor.length);
        return UCS_OK;
    }
    if (send->phase == CW_SEND_COUNTED) { /* copies are over */
        send->phase = CW_SEND_QUEUED;
        cw_dt_rewind(&send->cursor);
    }
    return send_packets(request);
}

static ucs_status_t keep(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    return cw_dt_keep(&send->cursor);
}

/* OPA-16: now, or not at all. */
static ucs_status_ptr_t post_forced(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep    = request->ep;
    ucs_status_t status  = CW_AGAIN;

    send->force = CW_FORCE_EAGER;
    if (cw_ep_ready(ep) && cw_list_empty(&cw_op_ep(ep)->rma->queue) && !cw_op_ep(ep)->rma->running) {
        status = attempt(request);
    }
    request->release(request);
    cw_request_put(request);
    return UCS_STATUS_PTR((status == CW_HOLD || status == CW_LATER) ? CW_AGAIN : status);
}

/* Whether it will be announced, as far as that is known by now. */
static int is_announced(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_iface *iface = (ep->state == CW_EP_OPEN) ? ep->conn->iface : NULL;

    return iface != NULL && cw_protocol_announces_put(iface->plan, iface->limits.max_bcopy, sizeof(struct cw_wire_put),
                                                      iface->limits.max_placed, send->cursor.length, send->fast);
}

static ucs_status_ptr_t put_request(struct ucp_ep *ep, const void *buffer, size_t count, uint64_t address,
                                    struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    struct cw_rma *rma = cw_rma_get(ep);
    struct cw_request *request;
    struct cw_send *send;
    ucs_status_t status;

    request = (rma == NULL) ? NULL : cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    status = cw_send_init(request, ep, &put_kind, buffer, count, param);
    if (status != UCS_OK) {
        return UCS_STATUS_PTR(status);
    }
    send              = cw_request_state(request);
    send->put.rkey    = rkey;
    send->put.address = address;
    send->no_copies   = !cw_dt_is_memory(&send->cursor);
    send->overtaken   = 0;
    send->message     = cw_rma_begin(rma);
    request->send     = attempt;
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_PUT_SENT, 0, send->cursor.length);
    return (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) ? post_forced(request) :
           cw_rma_post(request, param->op_attr_mask,
                       cw_unlikely(is_announced(ep, send)) ? CW_RMA_COLLECTED : CW_RMA_FOLLOWS, keep);
}

/* Whether packets may go now, if there is a way for them that needs no request. */
static int may_send(struct ucp_ep *ep, size_t length, uint64_t address)
{
    const struct cw_rma *rma = cw_ep_ready(ep) ? cw_rma_get(ep) : NULL;

    return rma != NULL && !rma->running && cw_list_empty(&rma->queue) && !cw_rma_is_late(rma, address, length);
}

/* Whether one packet in the ledger is the way. */
static int fits_ledger(struct ucp_ep *ep, size_t length, const struct ucp_rkey *rkey)
{
    return length <= CW_RMA_QUICK_PUT && cw_ledger_is_open(ep, rkey) && length <= cw_ledger_max(ep);
}

/* Whether a short send is. */
static int fits_short(const struct ucp_ep *ep, size_t length)
{
    return length <= SHORT_BYTES && sizeof(uint64_t) + length <= ep->conn->iface->limits.max_short;
}

/* By stores, of any datatype; a request only if the program wants to see one. */
static ucs_status_ptr_t put_direct(struct ucp_ep *ep, const void *buffer, size_t count, size_t length, char *to,
                                   const ucp_request_param_t *param)
{
    const uint32_t attr_mask   = param->op_attr_mask;
    struct cw_request *request = NULL;
    struct cw_dt_cursor cursor;
    ucs_status_t status;

    if (attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
        if (request == NULL) {
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        }
    }
    status = cw_dt_start(&cursor, (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) ? param->datatype : ucp_dt_make_contig(1),
                         buffer, count, CW_DT_SEND);
    if (status == UCS_OK) {
        (void)cw_dt_pack(&cursor, to, cursor.length);
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, cursor.length);
        cw_dt_finish(&cursor);
    }
    if (request == NULL) {
        return UCS_STATUS_PTR(status);
    }
    cw_rma_note_mapped(request, CW_COUNT_PUT_SENT, length);
    cw_request_complete(request, status);
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_put(struct ucp_ep *ep, const void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    const uint32_t attributes     = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    const int plain               = cw_likely(!(param->op_attr_mask & attributes));
    const struct cw_parcel parcel = {.from = buffer, .length = length};
    const uint64_t at             = htole64(address);
    char bytes[sizeof(at) + SHORT_BYTES];
    ucs_status_t status           = CW_AGAIN;
    char *to;

    if (cw_unlikely(ep->state == CW_EP_FAILED)) {
        return UCS_STATUS_PTR(ep->status);
    }
    to = cw_rkey_direct(rkey, address, CW_KEY_WRITE);
    if (to != NULL && cw_rma_is_clear(ep, address, length, 1)) {
        if (!plain) {
            return put_direct(ep, buffer, count, length, to, param);
        }
        cw_bytes_copy(to, buffer, length);
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, length);
        return NULL;
    }
    if (to != NULL || !plain || !may_send(ep, length, address)) {
        return put_request(ep, buffer, count, address, rkey, param);
    }
    if (cw_copy_is_possible(ep, &rkey->key)) {
        status = fits_ledger(ep, length, rkey) ? cw_ledger_send(ep, rkey, address, &parcel) : CW_AGAIN;
    } else if (fits_short(ep, length) && !cw_ep_collects(ep)) {
        memcpy(bytes, &at, sizeof(at));
        cw_bytes_copy(bytes + sizeof(at), buffer, length);
        status = cw_lane_send_short(ep->conn, CW_PACKET_PUT, htole64(rkey->key.token), bytes, sizeof(at) + length);
        if (status == UCS_OK) {
            cw_op_ep(ep)->rma->sent_mark++;
            cw_ep_owes_rma(ep);
            cw_ep_sent_alone(ep);
        }
    }
    if (status == CW_AGAIN || status == CW_HOLD) {
        return put_request(ep, buffer, count, address, rkey, param);
    }
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, length);
    }
    return UCS_STATUS_PTR(status);
}
