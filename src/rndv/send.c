/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sender side of a rendezvous (docs/change/long-messages.md, states in msg/send.h). Each packet of the receiver is
 * checked against the state. Addresses from the receiver are used only for copies into its own process.
 */
#include "rndv/send.h"

#include "base/bytes.h"
#include "core/ep_round.h"
#include "core/lane_copies.h"
#include "core/lanes.h"
#include "msg/op_ep.h"
#include "rndv/bounce.h"
#include "rndv/ipc.h"
#include "rndv/shares.h"
#include "rndv/staging.h"

/* Bytes and packets that one send passes to the transport before it yields to others. */
#define TURN_BYTES   (256u << 10)
#define TURN_PACKETS (TURN_BYTES / CW_EP_PIECE_BYTES)

/* Of a generic type whose pieces end inside elements, in a packet. */
#define PACKED_INSIDE (CW_DT_LEAST_INSIDE + CW_DT_ITEM)

/* An announcement: headers, then the memory for devices. */
struct announcement {
    const struct cw_send *send;
    size_t memory_length;
    uint8_t memory[CW_KEY_MEMORY_MAX];
};

struct cw_wire_rts cw_send_rts(const struct cw_send *send)
{
    const struct cw_request *request = (const struct cw_request *)(const void *)send - 1;
    int useful = (send->on_device ||
                  (cw_lane_has_copies(request->ep->conn) && send->cursor.class_id == UCP_DATATYPE_CONTIG)) &&
                 send->cursor.length > 0;

    return (struct cw_wire_rts){.length = htole64(send->cursor.length),
                               .send_id = htole64(send->id),
                               .address = useful ? htole64((uint64_t)(uintptr_t)send->cursor.contig) : 0};
}

static size_t pack_rts(void *dest, size_t max CW_UNUSED, void *arg)
{
    const struct announcement *announcement = arg;
    const struct cw_send *send = announcement->send;
    const size_t length = send->kind->header(send, CW_SEND_RTS, dest);

    cw_bytes_copy_any((char *)dest + length, announcement->memory, announcement->memory_length);
    return length + announcement->memory_length;
}

/* Adds the name of the memory for devices to the announcement, if it fits the packet. */
static void name_memory(struct cw_request *request, size_t header, struct announcement *announcement)
{
    const struct cw_send *send = announcement->send;
    const size_t max = request->ep->conn->iface->limits.max_bcopy;

    if (cw_unlikely(request->ep->conn->iface->domain != NULL) && send->kind->names_memory &&
        header + CW_KEY_MEMORY_LEAST <= max) {
        announcement->memory_length = cw_send_device_name(request, max - header, announcement->memory);
    }
}

ucs_status_t cw_send_announce(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const size_t header = send->kind->header(send, CW_SEND_RTS, NULL);
    struct announcement announcement = {.send = send};
    ucs_status_t status = cw_dt_keep(&send->cursor);

    cw_send_drop_mem(send);
    if (status == UCS_OK && send->id == 0) {
        status = cw_idmap_add(&request->worker->ids, request, &send->id);
    }
    if (status != UCS_OK) {
        return status;
    }
    name_memory(request, header, &announcement);
    status = cw_lane_send_bcopy(conn, send->kind->ids[CW_SEND_RTS], header + announcement.memory_length, pack_rts,
                                &announcement);
    if (status != UCS_OK) {
        return status;
    }
    send->phase = CW_SEND_ANNOUNCED;
    cw_count(request->worker, CW_COUNT_RNDV_SENT, 1);
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_ANNOUNCED, 0, send->cursor.length);
    return UCS_INPROGRESS;
}

static struct cw_wire_rndv_data data_header(const struct cw_send *send)
{
    return (struct cw_wire_rndv_data){.receive_id = htole64(send->receive_id),
                                      .offset = htole64(send->cursor.offset)};
}

static size_t pack_data(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    const struct cw_wire_rndv_data header = data_header(send);

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack_next(&send->cursor, cw_send_nt(send), (char *)dest + sizeof(header),
                                            max - sizeof(header));
}

/* Sends the next piece directly from the user's memory. */
static ucs_status_t send_piece_zcopy(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);
    const struct cw_wire_rndv_data header = data_header(send);
    const size_t max = request->ep->conn->iface->limits.max_zcopy - sizeof(header);

    return cw_send_memory(request, CW_PACKET_RNDV_DATA, &header, sizeof(header), cw_smaller(max, send->rndv.piece),
                          CW_SEND_ZCOPY);
}

/* Sends the next piece from the user's memory directly to its place at the peer, on the lane that will be free first.
 */
static ucs_status_t send_piece_placed(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep = request->ep;
    const struct cw_wire_rndv_data header = data_header(send);
    const int one_sided = send->kind->confirmed || send->kind->counter == CW_COUNT_GET_SENT;
    struct cw_conn *lane;
    size_t piece;

    if (send->one_lane) {
        return cw_send_memory_on(request, ep->conn, CW_PACKET_RNDV_DATA, &header, sizeof(header),
                                 cw_smaller(ep->conn->iface->limits.max_placed, send->rndv.piece), CW_SEND_PLACED);
    }
    lane = cw_lanes_choose(ep, send->cursor.length - send->cursor.offset,
                           one_sided ? cw_lanes_for_rma(ep->worker) : cw_lanes_for_rndv(ep->worker), &piece);
    return (lane == NULL) ? CW_BLOCKED
                          : cw_send_memory_on(request, lane, CW_PACKET_RNDV_DATA, &header, sizeof(header),
                                              cw_smaller(piece, send->rndv.piece), CW_SEND_PLACED);
}

/* Sends the next bytes of a generic type on the message lane, so that they arrive in order. Packets that are not placed
 * may be longer than those that are copied. */
static ucs_status_t send_piece_packed(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);
    const struct cw_limits *limits = &request->ep->conn->iface->limits;
    const struct cw_wire_rndv_data header = data_header(send);
    const int placed = send->rndv.piece > limits->max_bcopy;
    size_t max = CW_DT_PIECE / 2;

    if (placed) {
        max = cw_smaller(send->rndv.piece, limits->max_placed);
    } else if (send->cursor.pieces == CW_DT_INSIDE) {
        max = PACKED_INSIDE;
    }
    return cw_send_packed(request, CW_PACKET_RNDV_DATA, &header, sizeof(header), max,
                          placed ? CW_SEND_IN_PLACE : CW_SEND_ZCOPY);
}

static ucs_status_t send_piece(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const struct cw_limits *limits = &conn->iface->limits;
    size_t left = send->cursor.length - send->cursor.offset;
    ucs_status_t status;

    if (cw_dt_is_memory(&send->cursor)) {
        if (limits->max_placed > 0 && send->rndv.piece > limits->max_bcopy) {
            return send_piece_placed(request);
        }
        if (left >= conn->iface->plan->zcopy_min) {
            return send_piece_zcopy(request);
        }
    }
    if (send->cursor.class_id == UCP_DATATYPE_GENERIC && cw_lane_sends_in_place(conn) &&
        limits->max_zcopy >= PACKED_INSIDE + sizeof(struct cw_wire_rndv_data)) {
        status = send_piece_packed(request);
        if (status != UCS_ERR_NO_MEMORY) {
            return status;
        }
    }
    if (cw_unlikely(send->cursor.class_id == CW_DT_STAGED)) {
        left = cw_staging_complete(send->cursor.staging) - send->cursor.offset;
    }
    left = cw_smaller(left, send->rndv.piece) + sizeof(struct cw_wire_rndv_data);
    return cw_lane_send_bcopy(conn, CW_PACKET_RNDV_DATA,
                              cw_smaller(left, cw_send_piece(send, conn, sizeof(struct cw_wire_rndv_data))), pack_data,
                              send);
}

void cw_send_go_on(void *arg)
{
    struct cw_request *request = arg;

    if (request->ep->state == CW_EP_OPEN) {
        cw_list_remove(&request->link);
        cw_ep_queue(request->ep, request);
        cw_ep_reap_later(request->ep); /* which sends from the queue */
    }
}

/* UCS_OK: staging has bytes to send. If the device fails, the endpoint fails, because the peer waits for these bytes.
 * */
static ucs_status_t check_staging(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status;
    size_t ready;

    ready = cw_staging_ready(send->cursor.staging, &status);
    if (status != UCS_OK) {
        cw_ep_fail(request->ep, status);
        return CW_AGAIN;
    }
    if (ready > send->cursor.offset) {
        return UCS_OK;
    }
    cw_staging_await(send->cursor.staging, cw_send_go_on, request);
    return UCS_INPROGRESS;
}

ucs_status_t cw_send_data(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    size_t turn_end = send->cursor.offset + TURN_BYTES, begin;
    unsigned packets = 0;
    ucs_status_t status;

    if (cw_ep_must_pause(request->ep)) {
        return CW_AGAIN;
    }
    if (cw_unlikely(send->cursor.offset == 0 && cw_staging_is_worth(&send->cursor, send->cursor.length))) {
        cw_staging_begin(&send->cursor, request->worker, send->cursor.length);
    }
    while (send->cursor.offset < send->cursor.length) {
        begin = send->cursor.offset;
        status = cw_unlikely(send->cursor.class_id == CW_DT_STAGED) ? check_staging(request) : UCS_OK;
        if (status == UCS_OK) {
            status = send_piece(request);
        }
        if (status != UCS_OK) {
            return status;
        }
        cw_ep_spend(request->ep, send->cursor.offset - begin);
        if ((send->cursor.offset >= turn_end || ++packets == TURN_PACKETS) &&
            send->cursor.offset < send->cursor.length) {
            return CW_LATER;
        }
    }
    send->phase = CW_SEND_SENT;
    send->acknowledged = !send->kind->confirmed;
    return (request->outstanding == 0 && send->acknowledged) ? UCS_OK : UCS_INPROGRESS;
}

/* From now on the receiver may name the claim pair for another send. */
static void leave_pair(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);

    if (send->phase == CW_SEND_COPYING) {
        cw_op_ep(request->ep)->pairs_shared &= (uint16_t) ~(1u << send->rndv.pair);
    }
}

static void stop_copying(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);
    const struct cw_wire_rndv_copied packet = {.receive_id = htole64(send->receive_id),
                                               .status = (int32_t)htole32((uint32_t)status)};

    leave_pair(request);
    send->phase = CW_SEND_COPIED;
    cw_ep_send_control(request->ep, CW_PACKET_RNDV_COPIED, &packet, sizeof(packet));
}

/* Copies the share that begins at `offset` into the receiver's memory. An iov can only be copied from front to back, so
 * the sender must take all shares. */
static ucs_status_t write_share(struct cw_request *request, uint64_t offset)
{
    struct cw_send *send = cw_request_state(request);
    size_t length = cw_smaller(send->cursor.length - offset, send->rndv.piece), part;
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_t status;
    unsigned count;

    if (send->cursor.class_id == UCP_DATATYPE_CONTIG) {
        send->cursor.offset = offset;
    } else if (send->cursor.offset != offset) {
        return UCS_ERR_IO_ERROR;
    }
    while (length > 0) {
        count = cw_dt_window(&send->cursor, length, iov, CW_PLACE_MAX_IOV, &part);
        status = cw_lane_copy_to(request->ep->conn, iov, count, send->rndv.address + send->cursor.offset, NULL);
        if (status != UCS_OK) {
            return status;
        }
        cw_dt_skip(&send->cursor, part);
        length -= part;
    }
    return UCS_OK;
}

/* Copies one share. */
static bool copy(struct cw_job *job)
{
    struct cw_send *send = cw_container_of(job, struct cw_send, rndv.job);
    struct cw_request *request = cw_send_request(send);
    struct cw_conn *conn = request->ep->conn;
    struct cw_claim_pair *pair;
    ucs_status_t status;
    uint32_t share;

    if (request->ep->state != CW_EP_OPEN) {
        return true; /* the request is about to end */
    }
    if (cw_ep_is_spent(request->ep)) {
        cw_worker_add_job(request->worker, job);
        return true;
    }
    if (!cw_lane_can_copy(conn)) {
        stop_copying(request, UCS_ERR_UNSUPPORTED);
        return true;
    }
    pair = cw_lane_claim_pair(conn, 0, send->rndv.pair);
    if (!cw_claim_next(&pair->claim, send->rndv.generation, cw_claim_shares(send->cursor.length, send->rndv.piece),
                       &share)) {
        stop_copying(request, UCS_OK);
        return true;
    }
    status = write_share(request, (uint64_t)share * send->rndv.piece);
    if (status != UCS_OK) {
        stop_copying(request, status);
        return true;
    }
    cw_claim_done(&pair->done);
    cw_ep_spend(request->ep, send->rndv.piece);
    cw_worker_add_job(request->worker, job);
    return true;
}

void cw_send_from_start(struct cw_request *request, enum cw_send_phase phase,
                        ucs_status_t (*attempt)(struct cw_request *request))
{
    struct cw_send *send = cw_request_state(request);

    send->phase = (uint8_t)phase;
    request->send = attempt;
    cw_dt_rewind(&send->cursor);
    cw_list_remove(&request->link);
    cw_ep_queue(request->ep, request);
    cw_ep_reap_later(request->ep); /* which sends from the queue, outside of upcalls */
}

/* The receiver's device may copy. */
static ucs_status_t begin_naming(struct cw_request *request, enum cw_wire_rndv_mode mode)
{
    struct cw_send *send = cw_request_state(request);
    const int names = mode != CW_WIRE_RNDV_CHUNKS;

    if (send->phase != CW_SEND_ANNOUNCED || (names && send->named)) {
        return UCS_ERR_IO_ERROR;
    }
    send->named |= names;
    send->accepts_bounce = mode != CW_WIRE_RNDV_NAME;
    cw_send_by_devices(request, names);
    return UCS_OK;
}

void cw_send_by_devices(struct cw_request *request, int names)
{
    const struct cw_send *send = cw_request_state(request);

    cw_send_from_start(request, CW_SEND_NAMING,
                       (names && cw_ipc_is_possible(request->ep, &send->cursor, send->cursor.length))
                           ? cw_ipc_send_name
                           : cw_bounce_or_data);
}

/* The receiver cannot map the bounce buffers. */
static ucs_status_t end_bounce(struct cw_request *request, uint32_t mode)
{
    if (mode != CW_WIRE_RNDV_SEND) {
        return UCS_ERR_IO_ERROR;
    }
    cw_send_from_start(request, CW_SEND_DATA, cw_bounce_withdraw);
    return UCS_OK;
}

static ucs_status_t begin_copy(struct cw_request *request, const struct cw_wire_rndv_ready *ready)
{
    struct cw_send *send = cw_request_state(request);

    if (send->phase != CW_SEND_ANNOUNCED || ready->address == 0 || ready->pair >= CW_CLAIM_PAIRS ||
        ready->piece < CW_CLAIM_MIN_SHARE || ready->piece > CW_CLAIM_MAX_SHARE ||
        ready->generation > CW_CLAIM_MAX_GENERATION || !cw_lane_has_copies(request->ep->conn) ||
        (cw_op_ep(request->ep)->pairs_shared & (1u << ready->pair)) ||
        cw_claim_shares(send->cursor.length, ready->piece) > CW_CLAIM_MAX_SHARES) {
        return UCS_ERR_IO_ERROR;
    }
    if (!cw_dt_is_memory(&send->cursor)) {
        stop_copying(request, UCS_ERR_UNSUPPORTED);
        return UCS_OK;
    }
    cw_op_ep(request->ep)->pairs_shared |= (uint16_t)(1u << ready->pair);
    send->phase = CW_SEND_COPYING;
    send->rndv.pair = ready->pair & 0x3f;
    send->rndv.generation = ready->generation & CW_CLAIM_MAX_GENERATION;
    send->rndv.job.run = copy;
    cw_worker_add_job(request->worker, &send->rndv.job);
    return UCS_OK;
}

ucs_status_t cw_send_on_ready(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_rndv_ready ready;
    struct cw_request *request;
    struct cw_send *send;

    memcpy(&ready, data, sizeof(ready));
    ready.address = le64toh(ready.address);
    ready.mode = le32toh(ready.mode);
    ready.piece = le32toh(ready.piece);
    ready.pair = le32toh(ready.pair);
    ready.generation = le32toh(ready.generation);
    request = cw_send_find(ep, le64toh(ready.send_id));
    if (request == NULL || ready.piece < CW_WIRE_LEAST_PIECE ||
        (ready.mode != CW_WIRE_RNDV_WRITE && length != sizeof(ready))) {
        return UCS_ERR_IO_ERROR;
    }
    cw_trace_note(request, CW_TRACE_ANSWER, CW_PACKET_RNDV_READY, 0, 0);
    send = cw_request_state(request);
    if (cw_unlikely(send->phase == CW_SEND_BOUNCE)) {
        send->rndv.piece = ready.piece;
        return end_bounce(request, ready.mode);
    }
    if (send->phase != CW_SEND_ANNOUNCED && send->phase != CW_SEND_COPIED) {
        return UCS_ERR_IO_ERROR; /* an earlier READY is already being served */
    }
    if (ready.mode == CW_WIRE_RNDV_WRITE) {
        return cw_send_device_write(request, &ready, (const char *)data + sizeof(ready), length - sizeof(ready));
    }
    cw_send_device_end(send);
    send->receive_id = le64toh(ready.receive_id);
    send->rndv.address = ready.address;
    send->rndv.piece = ready.piece;
    if (ready.mode == CW_WIRE_RNDV_COPY) {
        return begin_copy(request, &ready);
    }
    if (ready.mode >= CW_WIRE_RNDV_NAME && ready.mode <= CW_WIRE_RNDV_EITHER) {
        return begin_naming(request, (enum cw_wire_rndv_mode)ready.mode);
    }
    if (ready.mode != CW_WIRE_RNDV_SEND) {
        return UCS_ERR_IO_ERROR;
    }
    cw_send_from_start(request, CW_SEND_DATA, cw_send_data);
    return UCS_OK;
}

/* All bytes of a put are in the target's memory. The target may confirm this before the transport releases the sender's
 * memory. */
static ucs_status_t confirmed(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);

    if (status != UCS_OK || send->acknowledged) {
        return UCS_ERR_IO_ERROR;
    }
    send->acknowledged = 1;
    if (request->outstanding == 0) {
        cw_send_finish(request, UCS_OK);
    }
    return UCS_OK;
}

/* The receiver's answer that ends a send: the message is received, rejected, or returned. */
ucs_status_t cw_send_on_done(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_rndv_done done;
    struct cw_request *request;
    struct cw_send *send;
    int32_t status;

    memcpy(&done, data, sizeof(done));
    status = (int32_t)le32toh((uint32_t)done.status);
    request = cw_send_find(ep, le64toh(done.send_id));
    if (request == NULL || status > 0 || status <= UCS_ERR_LAST) {
        return UCS_ERR_IO_ERROR;
    }
    cw_trace_note(request, CW_TRACE_ANSWER, CW_PACKET_RNDV_DONE, 0, 0);
    send = cw_request_state(request);
    switch (send->phase) {
    case CW_SEND_COPYING:
        leave_pair(request);
        break;
    case CW_SEND_ANNOUNCED:
    case CW_SEND_COPIED:
        break;
    case CW_SEND_BOUNCE:
        if (send->cursor.offset < send->cursor.length) {
            return UCS_ERR_IO_ERROR;
        }
        break;
    case CW_SEND_SENT:
        if (send->kind->confirmed) {
            return confirmed(request, (ucs_status_t)status);
        }
        /* the receiver returns a synchronous message */
        if (status != UCS_ERR_CANCELED || !send->cancelling || send->acknowledged || send->cancelled) {
            return UCS_ERR_IO_ERROR;
        }
        if (request->outstanding > 0) {
            send->cancelled = 1;
            return UCS_OK;
        }
        break;
    default:
        return UCS_ERR_IO_ERROR;
    }
    cw_send_finish(request, (ucs_status_t)status);
    return UCS_OK;
}
