/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Target side of puts and gets (docs/change/one-sided.md). The handler of a packet does all work of one packet, under
 * the lock of the memory. An operation of several packets pins the memory, and counts as an unsent answer until it has
 * ended.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "mem/copy.h"
#include "rma/rma.h"
#include "rndv/bounce.h"
#include "rndv/ipc.h"
#include "rndv/recv.h"
#include "rndv/send.h"

#define SHORT_BYTES 256u        /* largest answer sent by a short send */
#define ONE_LANE    (64u << 10) /* largest answer that uses no further lanes, and that the handler sends if it can */

/* The datatype of contiguous memory of any type. */
static ucp_datatype_t datatype_of(const struct cw_dt_device *device)
{
    return (device->memory_type == UCS_MEMORY_TYPE_HOST) ? device->datatype : cw_dt_make_device(device);
}

/* ---- put ---- */

/* Copies the bytes of a put to memory that the CPU may not access. */
static CW_COLD void put_to_device(struct ucp_ep *ep, const struct cw_wire_put *header, const void *bytes,
                                  size_t length)
{
    struct cw_mem_pin pin;
    ucs_status_t status;
    void *to;

    status = cw_mem_pin(ep->worker->context, le64toh(header->token), le64toh(header->address), length,
                        cw_rma_rights(ep, header->token, CW_KEY_WRITE), ep, &pin, &to);
    if (status == UCS_OK) {
        status = cw_mem_copy(to, pin.memory_type, bytes, UCS_MEMORY_TYPE_HOST, length);
        cw_mem_unpin(ep->worker->context, &pin);
    }
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_PUT_RECEIVED, length);
    } else {
        cw_rma_refuse(ep, le64toh(header->address), length, status);
    }
}

ucs_status_t cw_rma_target_on_put(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_put header;
    ucs_status_t status;
    void *to;

    memcpy(&header, data, sizeof(header));
    length -= sizeof(header);
    status = cw_mem_enter(ep->worker->context, le64toh(header.token), le64toh(header.address), length,
                          cw_rma_rights(ep, header.token, CW_KEY_WRITE), &to);
    if (cw_unlikely(status == UCS_ERR_UNSUPPORTED)) {
        put_to_device(ep, &header, (const char *)data + sizeof(header), length);
        return UCS_OK;
    }
    if (cw_unlikely(status != UCS_OK)) {
        cw_rma_refuse(ep, le64toh(header.address), length, status);
        return UCS_OK;
    }
    cw_bytes_copy(to, (const char *)data + sizeof(header), length);
    cw_count_message(ep->worker, CW_COUNT_PUT_RECEIVED, length);
    cw_mem_leave(ep->worker->context);
    return UCS_OK;
}

/* ---- announced put ---- */

struct put {
    struct cw_dt_cursor cursor;
    struct cw_mem_pin pin;
    uint64_t send_id;
};

_Static_assert(sizeof(struct put) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static ucs_status_t answer_put(struct ucp_ep *ep, uint64_t send_id, ucs_status_t status)
{
    const struct cw_wire_rndv_done packet = {.send_id = htole64(send_id), .status = (int32_t)htole32((uint32_t)status)};

    return cw_rma_answer(ep, CW_PACKET_RNDV_DONE, &packet, sizeof(packet));
}

static void put_release(struct cw_request *request)
{
    struct put *put = cw_request_state(request);

    cw_dt_finish(&put->cursor);
    cw_mem_unpin(request->worker->context, &put->pin);
    cw_rma_target_end(request->ep);
}

/* Callback of the receive: all bytes of the put have arrived, or the endpoint is lost. */
static void put_ended(void *handle, ucs_status_t status, void *user_data CW_UNUSED)
{
    struct cw_request *request = cw_request_of(handle);
    const struct put *put = cw_request_state(request);

    if (status == UCS_OK) {
        status = answer_put(request->ep, put->send_id, UCS_OK);
        if (status != UCS_OK) {
            cw_ep_fail(request->ep, status);
        }
    }
}

/* Called after cw_rma_target_begin has counted the answer. */
static ucs_status_t receive_put(struct ucp_ep *ep, uint64_t token, uint64_t address, const struct cw_offer *offer)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = put_ended};
    struct ucp_context *context = ep->worker->context;
    struct cw_request *request = cw_request_get(ep->worker, &param, CW_REQUEST_SEND);
    struct cw_dt_device device;
    ucs_status_t status;
    struct put *put;
    void *to;

    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    put = cw_request_state(request);
    *put = (struct put){.send_id = offer->send_id};
    status = cw_mem_pin(context, token, address, offer->length, cw_rma_rights(ep, token, CW_KEY_WRITE), ep, &put->pin,
                        &to);
    if (status == UCS_OK) {
        device = (struct cw_dt_device){.datatype = ucp_dt_make_contig(1), .memory_type = put->pin.memory_type};
        (void)cw_dt_start(&put->cursor, datatype_of(&device), to, offer->length, CW_DT_RECV); /* cannot fail */
        request->ep = ep;
        request->release = put_release;
        status = cw_rndv_recv_receive(ep, offer, request, &put->cursor);
        if (status == UCS_OK) {
            cw_request_release(request, 1);
            return UCS_OK;
        }
        cw_mem_unpin(context, &put->pin);
    }
    cw_request_put(request);
    return status;
}

ucs_status_t cw_rma_target_on_put_rts(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_put_rts header;
    struct cw_offer offer;
    ucs_status_t status;

    memcpy(&header, data, sizeof(header));
    offer = cw_offer_decode(&header.rts);
    offer.address = 0;
    if (offer.length == 0) {
        return UCS_ERR_IO_ERROR;
    }
    status = cw_rma_target_begin(ep);
    if (status != UCS_OK) {
        return status;
    }
    status = receive_put(ep, le64toh(header.token), le64toh(header.address), &offer);
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_PUT_RECEIVED, offer.length);
        return UCS_OK;
    }
    cw_rma_target_end(ep);
    if (status == UCS_ERR_CONNECTION_RESET) {
        cw_rma_refuse(ep, le64toh(header.address), offer.length, status);
        return UCS_OK;
    }
    return answer_put(ep, offer.send_id, status);
}

/* ---- get ---- */

/* A GET in host order. */
struct get {
    uint64_t token;
    uint64_t address;
    uint64_t length;
    uint64_t receive_id;
    uint32_t piece;
    unsigned accepts; /* CW_WIRE_GET_NAME, CW_WIRE_GET_CHUNKS */
};

/* A packet of the answer. */
struct part {
    struct cw_wire_rndv_data header;
    const void *from;
    size_t length;
    struct cw_nt_choice *nt;
};

static size_t pack_part(void *dest, size_t max CW_UNUSED, void *arg)
{
    const struct part *part = arg;

    memcpy(dest, &part->header, sizeof(part->header));
    cw_nt_copy(part->nt, (char *)dest + sizeof(part->header), part->from, part->length);
    return sizeof(part->header) + part->length;
}

/* Packs the only packet of an answer. */
static size_t pack_whole(void *dest, size_t max CW_UNUSED, void *arg)
{
    const struct cw_wire_get_data header = {.receive_id = ((const struct part *)arg)->header.receive_id};
    const struct part *part = arg;

    memcpy(dest, &header, sizeof(header));
    cw_nt_copy(part->nt, (char *)dest + sizeof(header), part->from, part->length);
    return sizeof(header) + part->length;
}

static ucs_status_t send_part(struct cw_conn *conn, struct part *part, int whole)
{
    if (!whole) {
        return cw_lane_send_bcopy(conn, CW_PACKET_RNDV_DATA, sizeof(part->header) + part->length, pack_part, part);
    }
    if (part->length <= SHORT_BYTES && part->length <= conn->iface->limits.max_short) {
        return cw_lane_send_short(conn, CW_PACKET_GET_DATA, part->header.receive_id, part->from, part->length);
    }
    return cw_lane_send_bcopy(conn, CW_PACKET_GET_DATA, sizeof(struct cw_wire_get_data) + part->length, pack_whole,
                              part);
}

/* Whether the answer can be sent now, in one or a few packets that are copied. */
static bool fits_now(const struct ucp_ep *ep, const struct get *get)
{
    const uint64_t max = ep->conn->iface->limits.max_bcopy - sizeof(struct cw_wire_rndv_data);

    return cw_ep_ready(ep) && get->length <= get->piece && get->length < ep->conn->iface->plan->zcopy_min &&
           get->length <= (max > ONE_LANE ? max : ONE_LANE);
}

/* CW_AGAIN: the transport accepted only *sent_p bytes. Other errors: the get is refused. */
static ucs_status_t answer_now(struct ucp_ep *ep, const struct get *get, size_t *sent_p)
{
    const size_t max = cw_conn_max_piece(ep->conn) - sizeof(struct cw_wire_rndv_data);
    struct part part = {.header.receive_id = htole64(get->receive_id), .nt = ep->conn->nt};
    ucs_status_t status;
    void *from;

    status = cw_mem_enter(ep->worker->context, get->token, get->address, get->length,
                          cw_rma_rights(ep, get->token, CW_KEY_READ), &from);
    if (status != UCS_OK) {
        return status;
    }
    while (status == UCS_OK && *sent_p < get->length) {
        part.length = (get->length - *sent_p < max) ? (size_t)get->length - *sent_p : max;
        part.from = (char *)from + *sent_p;
        part.header.offset = htole64(*sent_p);
        status = send_part(ep->conn, &part, part.length == get->length);
        *sent_p += (status == UCS_OK) ? part.length : 0;
    }
    cw_mem_leave(ep->worker->context);
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_GET_SENT, get->length);
    }
    return (status == CW_AGAIN) ? CW_AGAIN : UCS_OK; /* sent; or the connection broke: `closed` follows */
}

static size_t no_header(const struct cw_send *send, enum cw_send_part part, void *dest)
{
    (void)send, (void)part, (void)dest;
    return 0;
}

static void release_get(struct cw_send *send)
{
    struct cw_request *request = cw_send_request(send);

    cw_mem_unpin(request->worker->context, send->pin); /* empty if the bytes were copied */
    free(send->pin);
    cw_rma_target_end(request->ep);
}

/* The answer is sent as the data of a rendezvous. It was not announced, so no packet of the peer refers to it ... */
static const struct cw_send_kind get_kind = {
    .counter = CW_COUNT_GET_SENT,
    .header = no_header,
    .release = release_get,
};

/* The initiator has copied. Its get ends only after this answer, so a program that knows of the end may unmap the
 * memory here. */
static void release_named_get(struct cw_send *send)
{
    struct ucp_ep *ep = cw_send_request(send)->ep;
    const struct cw_wire_rndv_copied packet = {.receive_id = htole64(send->receive_id)};
    const int is_copied =
        (send->phase == CW_SEND_ANNOUNCED || send->phase == CW_SEND_BOUNCE) && ep->state == CW_EP_OPEN;

    release_get(send);
    if (is_copied) {
        cw_ep_send_control(ep, CW_PACKET_RNDV_COPIED, &packet, sizeof(packet));
    }
}

/* ... except one for which this side sends the name of the memory. */
static const struct cw_send_kind get_named_kind = {
    .ids = {[CW_SEND_RTS] = CW_PACKET_RNDV_NAME},
    .counter = CW_COUNT_GET_SENT,
    .header = no_header,
    .release = release_named_get,
};

/* Whether this side may send the name of the memory, or use bounce buffers. */
static bool may_announce(struct ucp_ep *ep, const struct cw_send *send, const struct get *get)
{
    return ((get->accepts & CW_WIRE_GET_NAME) && cw_ipc_is_possible(ep, &send->cursor, (size_t)get->length)) ||
           ((get->accepts & CW_WIRE_GET_CHUNKS) && cw_bounce_is_possible(ep, &send->cursor, (size_t)get->length));
}

static void start_sending(struct ucp_ep *ep, struct cw_request *request, struct cw_mem_pin *pin, const void *from,
                          const struct get *get, size_t sent)
{
    const struct cw_dt_device device = {.datatype = ucp_dt_make_contig(1), .memory_type = pin->memory_type};
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = datatype_of(&device)};
    struct cw_send *send = cw_request_state(request);

    (void)cw_send_init(request, ep, &get_kind, from, (size_t)get->length, &param); /* contiguous: cannot fail */
    cw_dt_skip(&send->cursor, sent);
    send->phase = CW_SEND_DATA;
    request->send = cw_send_data;
    send->pin = pin;
    send->receive_id = get->receive_id;
    send->rndv.piece = get->piece;
    send->one_lane = get->length <= ONE_LANE;
    if (cw_unlikely(get->accepts) && may_announce(ep, send, get) &&
        cw_idmap_add(&ep->worker->ids, request, &send->id) == UCS_OK) {
        send->kind = &get_named_kind;
        send->named = 1;
        send->accepts_bounce = (get->accepts & CW_WIRE_GET_CHUNKS) != 0;
        cw_request_release(request, 0);
        cw_send_by_devices(request, (get->accepts & CW_WIRE_GET_NAME) != 0);
        return;
    }
    cw_request_release(request, 0);
    cw_ep_queue(ep, request);
    cw_ep_reap_later(ep); /* which sends from the queue, outside of upcalls */
}

/* Replaces the pin by an empty one, followed by a copy of the memory, from which the CPU packs the packets. */
static ucs_status_t copy_from_device(struct ucp_context *context, size_t length, struct cw_mem_pin **pin_p,
                                     void **from_p)
{
    struct cw_mem_pin *copy = malloc(sizeof(*copy) + length);
    ucs_status_t status;

    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *copy = (struct cw_mem_pin){.memory_type = UCS_MEMORY_TYPE_HOST};
    status = cw_mem_copy(copy + 1, UCS_MEMORY_TYPE_HOST, *from_p, (*pin_p)->memory_type, length);
    if (status != UCS_OK) {
        free(copy);
        return status;
    }
    cw_mem_unpin(context, *pin_p);
    free(*pin_p);
    *pin_p = copy;
    *from_p = copy + 1;
    return UCS_OK;
}

/* Called after cw_rma_target_begin has counted the answer. */
static ucs_status_t answer_pieces(struct ucp_ep *ep, const struct get *get, size_t sent)
{
    struct ucp_context *context = ep->worker->context;
    struct cw_mem_pin *pin = calloc(1, sizeof(*pin));
    struct cw_request *request = (pin == NULL) ? NULL : cw_request_get(ep->worker, NULL, CW_REQUEST_SEND);
    ucs_status_t status = UCS_ERR_NO_MEMORY;
    void *from;

    if (request == NULL) {
        free(pin);
        return status;
    }
    status = cw_mem_pin(context, get->token, get->address, get->length, cw_rma_rights(ep, get->token, CW_KEY_READ), ep,
                        pin, &from);
    if (status == UCS_OK && get->length <= ONE_LANE && pin->memory_type != UCS_MEMORY_TYPE_HOST) {
        status = copy_from_device(context, (size_t)get->length, &pin, &from);
    }
    if (status == UCS_OK) {
        start_sending(ep, request, pin, from, get, sent);
        return UCS_OK;
    }
    cw_mem_unpin(context, pin);
    free(pin);
    cw_request_put(request);
    return status;
}

static ucs_status_t refuse_get(struct ucp_ep *ep, uint64_t receive_id, ucs_status_t status)
{
    const struct cw_wire_get_refused packet = {.receive_id = htole64(receive_id),
                                               .status = (int32_t)htole32((uint32_t)status)};

    return cw_rma_answer(ep, CW_PACKET_GET_REFUSED, &packet, sizeof(packet));
}

ucs_status_t cw_rma_target_on_get(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_get packet;
    ucs_status_t status = CW_AGAIN;
    struct get get;
    size_t sent = 0;

    memcpy(&packet, data, sizeof(packet));
    get = (struct get){.token = le64toh(packet.token),
                  .address = le64toh(packet.address),
                  .length = le64toh(packet.length),
                  .receive_id = le64toh(packet.receive_id),
                  .piece = le32toh(packet.piece),
                  .accepts = le32toh(packet.flags)};
    if (get.length == 0 || get.piece < CW_WIRE_LEAST_PIECE || get.accepts > (CW_WIRE_GET_NAME | CW_WIRE_GET_CHUNKS)) {
        return UCS_ERR_IO_ERROR;
    }
    if (fits_now(ep, &get)) {
        status = answer_now(ep, &get, &sent);
    }
    if (status == CW_AGAIN || status == UCS_ERR_UNSUPPORTED) {
        status = cw_rma_target_begin(ep);
        if (status != UCS_OK) {
            return status;
        }
        status = answer_pieces(ep, &get, sent);
        if (status != UCS_OK) {
            cw_rma_target_end(ep);
        }
    }
    if (cw_unlikely(status == UCS_ERR_CONNECTION_RESET)) {
        cw_rma_refuse(ep, get.address, get.length, status);
        return UCS_OK;
    }
    return (status == UCS_OK) ? UCS_OK : refuse_get(ep, get.receive_id, status);
}
