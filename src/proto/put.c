/* SPDX-License-Identifier: BSD-3-Clause */
/* Protocols of puts. */
#include <assert.h>

#include "proto/select.h"
#include "rma/put.h"
#include "rndv/send.h"

#include "access/access.h"
#include "access/stripes.h"
#include "proto/proto.h"
#include "rma/cma.h"
#include "rndv/staging.h"

/*
 * A put to memory that is mapped here, by stores. A put of contiguous bytes needs no request: the call carries it out
 * (api/rma.c).
 */
static int mapped_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = CW_COST_MEMORY;
    row->fixed = 1;
    row->name = "store";
    row->why = "the memory is mapped here";
    return (ask->remote & CW_REMOTE_MAPPED) != 0;
}

static ucs_status_t mapped_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const size_t length = send->cursor.length;
    char *to = cw_rkey_direct(send->put.rkey, send->put.address, CW_KEY_WRITE);
    ucs_status_t status;

    if (cw_unlikely(to == NULL)) {
        return UCS_ERR_UNSUPPORTED; /* no longer registered; the next protocol selection takes that into account */
    }
    status = cw_rma_admit(cw_op_ep(request->ep)->rma, send->put.address, length, 1);
    if (status == UCS_OK) {
        (void)cw_dt_pack(&send->cursor, to, length);
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_MAPPED, 0, length);
    }
    return status;
}

const struct cw_protocol cw_proto_put_mapped = {.query = mapped_query, .start = mapped_start, .at_once = 1};

/*
 * A put by the device of the lane, without the target's CPU: zero copy from registered memory, else through bounce
 * buffers of the transport.
 */
static int access_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->fixed = 1;
    row->name = "write by the device";
    row->why = "the device accesses the memory without the target's CPU";
    return (ask->remote & CW_REMOTE_ACCESS) && ask->force != CW_FORCE_EAGER;
}

static ucs_status_t access_go_on(struct cw_request *request);

/* The attempt of a put after an access over a further lane has failed: writes everything again over the message lane.
 * */
static ucs_status_t access_repeat(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const ucs_status_t status = cw_stripes_give_up(send->access);

    if (status == UCS_OK) {
        cw_dt_rewind(&send->cursor);
        request->send = access_go_on;
        return access_go_on(request);
    }
    return status;
}

static void access_ended(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);

    if (status != UCS_OK && send->access->stripes != NULL && request->ep->state == CW_EP_OPEN) {
        request->send = access_repeat;
        cw_list_remove(&request->link);
        cw_ep_queue(request->ep, request);
        cw_ep_reap_later(request->ep); /* which sends from the queue */
        return;
    }
    send->phase = CW_SEND_SENT;
    cw_send_finish(request, status);
}

static ucs_status_t access_go_on(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_access *access = send->access;
    ucs_status_t status = UCS_OK;

    while (send->cursor.offset < send->cursor.length && access->status == UCS_OK) {
        status = cw_stripes_put(access, &send->cursor, send->put.address);
        if (status != UCS_OK) {
            break;
        }
    }
    return cw_stripes_begun(access, status, access_repeat);
}

static bool is_fast(const struct cw_send *send, const struct cw_conn *lane)
{
    const struct cw_access_limits *limits = &lane->iface->limits.access;

    return send->cursor.length > limits->max_put_bcopy && limits->max_put_zcopy > 0 && limits->max_iov > 0 &&
           cw_choice_is_flat(lane, &send->cursor);
}

static ucs_status_t access_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    struct cw_access_target to;
    struct cw_mem_part part;
    unsigned flags;
    ucs_status_t status = cw_rma_admit_device(rma, send->put.address, send->cursor.length, &flags);

    status = (status == UCS_OK) ? cw_dt_keep(&send->cursor) : status; /* a put that has begun must not fail any more */
    if (status != UCS_OK) {
        return status;
    }
    send->access = cw_access_new(request, access_ended);
    if (send->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    send->access->flags = flags;
    if (!cw_rkey_target(send->put.rkey, request->ep->conn, send->put.address, &to)) {
        return UCS_ERR_IO_ERROR; /* the device could do this when queried */
    }
    send->access->key = to.key;
    if (is_fast(send, request->ep->conn)) {
        part = (struct cw_mem_part){send->cursor.contig, send->cursor.length, cw_dt_memory_type(&send->cursor)};
        cw_access_use(send->access, &part, 0);
        if (flags == 0) { /* other lanes are not ordered behind the fetches of the message lane */
            cw_stripes_for_key(send->access, send->put.rkey, &part, 0,
                               request->ep->conn->iface->limits.access.max_put_zcopy);
        }
    }
    send->kind = &cw_put_access_kind;
    request->send = access_go_on;
    rma->async_puts++;
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, send->cursor.length);
    return cw_rma_stripes_started(request, access_go_on(request));
}

const struct cw_protocol cw_proto_put_access = {.query = access_query, .start = access_start};

/* A put that the kernel copies between the processes within the attempt, at every length (rma/cma.h). */
int cw_proto_copies_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = CW_COST_SYSTEM;
    row->fixed = 1;
    row->name = "copy between processes";
    row->why = "the kernel copies without the target's CPU";
    return (ask->remote & CW_REMOTE_COPIES) != 0;
}

static ucs_status_t cma_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const ucs_status_t status = cw_cma_start(request, &send->put.rkey->key, send->put.address, &send->cursor,
                                             CW_CMA_PUT);

    send->no_copies = status == UCS_ERR_UNSUPPORTED;
    return status;
}

const struct cw_protocol cw_proto_put_cma = {.query = cw_proto_copies_query, .start = cma_start, .at_once = 1};

/* Whether the pieces of an eager put are received in place. */
static bool is_eager_placed(const struct cw_protocol_ask *ask)
{
    return ask->lanes->input.places_in_order && ask->data <= CW_DATA_LIST;
}

/* Whether an announcement gains nothing over that, and costs a round trip. */
static bool is_better_eager(const struct cw_protocol_ask *ask)
{
    return is_eager_placed(ask) && ask->lanes->input.rma_rails <= 1 && !ask->on_device &&
           !ask->lanes->plan->rndv_forced;
}

/* An announced put; the target receives it in place (docs/change/long-messages.md, rndv/send.c). */
static int rndv_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_lane *lane = is_better_eager(ask) ? NULL : cw_protocol_placing(ask);
    const int is_staged = ask->on_device && ask->force == CW_FORCE_NONE;
    size_t least, min = CW_PLAN_NEVER;

    row->first = 1;
    row->cost = cw_protocol_cost((lane != NULL) ? lane : ask->lanes, 3);
    row->fixed = 1;
    row->name = "rendezvous";
    row->why = "the target's device may copy";
    if (ask->force == CW_FORCE_RNDV) {
        return 1;
    }
    if (lane != NULL && ask->force != CW_FORCE_EAGER) {
        least = lane->input.max_bcopy - sizeof(struct cw_wire_put) + 1;
        min = ask->fast ? lane->plan->rndv_fast_min : lane->plan->rndv_min;
        row->first = (min > least) ? min : least;
        row->name = "rendezvous, received in place";
        row->why = lane->plan->rndv_forced ? lane->input.rndv_setting : "a round trip costs less than a copy there";
    }
    if (is_staged && (min == CW_PLAN_NEVER || row->first > CW_STAGING_LEAST)) {
        row->first = CW_STAGING_LEAST;
        row->name = "rendezvous, copied to the device";
        row->why = "the target copies while packets are in flight";
    }
    return is_staged || min != CW_PLAN_NEVER;
}

static ucs_status_t rndv_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status = cw_put_admit(request);

    if (status != UCS_OK) {
        return status;
    }
    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_BLOCKED;
    }
    send->kind = &cw_put_announced_kind;
    status = cw_send_announce(request);
    if (status != UCS_INPROGRESS) {
        send->kind = &cw_put_kind;
        return status;
    }
    rma->replies++;
    rma->async_puts++;
    return UCS_INPROGRESS;
}

const struct cw_protocol cw_proto_put_rndv = {.query = rndv_query, .start = rndv_start, .announces = 1};

/*
 * A put in one packet, which the target's CPU carries out: inline within the call, by a copy, or zero copy.
 */
/* The transport has accepted the packet. */
static ucs_status_t left(struct cw_request *request, enum cw_trace_path path)
{
    struct cw_send *send = cw_request_state(request);

    cw_ep_spend(request->ep, send->cursor.length);
    cw_trace_note(request, CW_TRACE_PATH, path, 0, send->cursor.length);
    cw_op_ep(request->ep)->rma->sent_mark++;
    send->phase = CW_SEND_SENT;
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

static ucs_status_t admit(struct cw_request *request)
{
    const ucs_status_t status = cw_put_admit(request);

    return (status == UCS_OK && cw_ep_must_pause(request->ep)) ? CW_AGAIN : status;
}

static int short_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t max = ask->lanes->input.max_short;

    if (max < sizeof(uint64_t)) {
        return 0;
    }
    row->last = (max - sizeof(uint64_t) < CW_PUT_SHORT) ? max - sizeof(uint64_t) : CW_PUT_SHORT;
    row->fixed = 1;
    row->name = "short";
    row->why = "copied inline into the packet";
    return 1;
}

static ucs_status_t short_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const struct cw_wire_put header = cw_put_header(send);
    struct cw_dt_cursor cursor = send->cursor;
    ucs_status_t status = admit(request);
    char bytes[sizeof(header.address) + CW_PUT_SHORT];

    if (status != UCS_OK) {
        return status;
    }
    memcpy(bytes, &header.address, sizeof(header.address));
    (void)cw_dt_pack(&cursor, bytes + sizeof(header.address), cursor.length);
    status = cw_lane_send_short(request->ep->conn, CW_PACKET_PUT, header.token, bytes,
                                sizeof(header.address) + cursor.length);
    return (status == UCS_OK) ? left(request, CW_TRACE_COPIED) : status;
}

static int zcopy_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    return ask->force != CW_FORCE_EAGER && cw_proto_zcopy_row(ask, sizeof(struct cw_wire_put), row);
}

static ucs_status_t zcopy_start(struct cw_request *request)
{
    const struct cw_wire_put header = cw_put_header(cw_request_state(request));
    ucs_status_t status = admit(request);

    status = (status == UCS_OK)
                 ? cw_send_memory(request, CW_PACKET_PUT, &header, sizeof(header),
                                  request->ep->conn->iface->limits.max_zcopy - sizeof(header), CW_SEND_ZCOPY)
                 : status;
    return (status == UCS_OK) ? left(request, CW_TRACE_WITHOUT_COPY) : status;
}

static int copy_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->last = ask->lanes->input.max_bcopy - sizeof(struct cw_wire_put);
    row->name = "eager copy";
    row->why = "fits one packet";
    return 1;
}

static ucs_status_t copy_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status = admit(request);

    status = (status == UCS_OK)
                 ? cw_lane_send_bcopy(request->ep->conn, CW_PACKET_PUT,
                                      sizeof(struct cw_wire_put) + send->cursor.length, cw_put_pack, send)
                 : status;
    return (status == UCS_OK) ? left(request, CW_TRACE_COPIED) : status;
}

const struct cw_protocol cw_proto_put_short = {.query = short_query, .start = short_start, .at_once = 1};
const struct cw_protocol cw_proto_put_zcopy = {.query = zcopy_query, .start = zcopy_start};
const struct cw_protocol cw_proto_put_copy = {.query = copy_query, .start = copy_start, .at_once = 1};

/*
 * A put in several packets, each carried out by the target's CPU. Fits every put except one that must end within its
 * call.
 */
#define TURN_BYTES (512u << 10) /* sent before the put yields to other requests */

static int pieces_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->name = is_eager_placed(ask) ? "eager fragments, received in place" : "eager fragments";
    row->why = "exceeds one packet";
    return 1;
}

static ucs_status_t pieces_go_on(struct cw_request *request);

/* Announces the bytes that the next placed packet carries. */
static ucs_status_t send_place(struct cw_request *request, size_t length)
{
    const struct cw_send *send = cw_request_state(request);
    struct {
        struct cw_wire_put_list list;
        struct cw_wire_put_list_element element;
    } place = {.list = {.token = htole64(send->put.rkey->key.token), .count = htole32(1)},
               .element = {.address = htole64(send->put.address + send->cursor.offset), .length = htole64(length)}};

    return cw_lane_send_packet(request->ep->conn, CW_PACKET_PUT_LIST, &place, sizeof(place));
}

/* Sends a piece that the target receives in place. Its two packets leave together. If the second one must wait, the
 * request stays in rma->placing until it was sent. */
static ucs_status_t send_placed(struct cw_request *request, size_t length)
{
    const struct cw_send *send = cw_request_state(request);
    const struct cw_wire_put_list_data header = {.token = htole64(send->put.rkey->key.token)};
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    struct cw_conn *conn = request->ep->conn;
    const bool batches = cw_lane_batches(conn);
    ucs_status_t status = UCS_OK;

    if (batches) {
        cw_lane_batch(conn, CW_BATCH_BEGIN);
    }
    if (rma->placing == NULL) {
        status = send_place(request, length);
    }
    if (status == UCS_OK) {
        rma->placing = request;
        request->send = pieces_go_on;
        status = cw_send_memory(request, CW_PACKET_PUT_LIST, &header, sizeof(header), length, CW_SEND_IN_PLACE);
        rma->placing = (status == UCS_OK) ? NULL : request;
    }
    if (batches) {
        cw_lane_batch(conn, CW_BATCH_END);
    }
    return status;
}

/* Whether the next piece is received in place, because it exceeds one packet; *length_p: its bytes. */
static bool is_placed(struct cw_request *request, size_t *length_p)
{
    const struct cw_send *send = cw_request_state(request);
    const struct cw_request *placing = cw_op_ep(request->ep)->rma->placing;
    const struct cw_conn *conn = request->ep->conn;
    const struct cw_limits *limits = &conn->iface->limits;
    const size_t packet = (limits->max_zcopy > limits->max_bcopy) ? limits->max_zcopy : limits->max_bcopy;
    struct iovec iov[CW_PLACE_MAX_IOV];

    if ((placing != NULL && placing != request) || !cw_lane_sends_in_place(conn) || !cw_dt_is_memory(&send->cursor)) {
        return false;
    }
    (void)cw_dt_window(&send->cursor, cw_smaller(limits->max_placed, CW_WIRE_PUT_LIST_TOTAL), iov,
                       (unsigned)cw_smaller(limits->max_iov, CW_PLACE_MAX_IOV), length_p);
    return *length_p > packet - sizeof(struct cw_wire_put);
}

static ucs_status_t send_piece(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const struct cw_limits *limits = &conn->iface->limits;
    const struct cw_wire_put header = cw_put_header(send);
    const size_t left = send->cursor.length - send->cursor.offset;
    size_t length;

    if (is_placed(request, &length)) {
        return send_placed(request, length);
    }
    assert(cw_op_ep(request->ep)->rma->placing != request);
    if (left >= conn->iface->plan->zcopy_min && cw_dt_is_memory(&send->cursor)) {
        return cw_send_memory(request, CW_PACKET_PUT, &header, sizeof(header), limits->max_zcopy - sizeof(header),
                              CW_SEND_ZCOPY);
    }
    return cw_lane_send_bcopy(conn, CW_PACKET_PUT,
                              (left < limits->max_bcopy - sizeof(header)) ? sizeof(header) + left : limits->max_bcopy,
                              cw_put_pack, send);
}

static ucs_status_t pieces_go_on(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const size_t turn_end = send->cursor.offset + TURN_BYTES;
    ucs_status_t status;
    size_t begin;

    while (send->cursor.offset < send->cursor.length) {
        if (cw_ep_must_pause(request->ep)) {
            return CW_AGAIN;
        }
        begin = send->cursor.offset;
        status = send_piece(request);
        if (status != UCS_OK) {
            return status;
        }
        cw_ep_spend(request->ep, send->cursor.offset - begin);
        cw_op_ep(request->ep)->rma->sent_mark++;
        if (begin == 0) {
            send->phase = CW_SEND_PIECES;
            request->send = pieces_go_on;
            cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_PIECES, 0, send->cursor.length);
        }
        if (send->cursor.offset >= turn_end && send->cursor.offset < send->cursor.length) {
            return CW_LATER;
        }
    }
    send->phase = CW_SEND_SENT;
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

static ucs_status_t pieces_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status = (send->force == CW_FORCE_EAGER) ? CW_AGAIN : cw_put_admit(request);

    status = (status == UCS_OK) ? cw_dt_keep(&send->cursor) : status; /* a put of which a piece was sent must not fail
                                                                       * any more */
    return (status == UCS_OK) ? pieces_go_on(request) : status;
}

const struct cw_protocol cw_proto_put_pieces = {.query = pieces_query, .start = pieces_start};
