/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An eager message in several packets: the first tells the length, the others follow, out of the program's memory where
 * the transport supports that. If the device knows that memory, all packets go out of it, and the completion of the
 * last one covers all. Fits every message.
 */
#include "base/bytes.h"
#include "core/ep_round.h"
#include "op/credit.h"
#include "op/send.h"
#include "proto/proto.h"

/* The first packet of a message that is received in place, with its header: a cache line, so that the rest is aligned
 * as before. */
#define FIRST_BYTES 64u

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const int rings = ask->used_in_place && ask->lanes->input.memory;

    row->way = "eager pieces";
    row->why = rings ? "one packet where rings are wide, else several" : "more than one packet takes";
    return 1;
}

static size_t pack_first(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header        = send->kind->header(send, CW_SEND_FIRST, dest);

    return header + cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + header, max - header);
}

static struct cw_wire_next next_header(const struct cw_send *send)
{
    return (struct cw_wire_next){.message = htole32(send->message), .offset = htole64(send->cursor.offset)};
}

static size_t pack_next(void *dest, size_t max, void *arg)
{
    struct cw_send *send             = arg;
    const struct cw_wire_next header = next_header(send);

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) +
           cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + sizeof(header), max - sizeof(header));
}

static ucs_status_t send_registered(struct cw_request *request, uint8_t id, const void *header, size_t header_length)
{
    const struct cw_send *send = cw_request_state(request);
    const struct cw_conn *conn = request->ep->conn;
    const size_t max = cw_smaller(conn->iface->limits.max_registered, cw_conn_max_piece(conn)) - header_length;
    const size_t left          = send->cursor.length - send->cursor.offset;

    return cw_send_registered(request, id, header, header_length, cw_smaller(left, max), left <= max);
}

static ucs_status_t send_next(struct cw_request *request)
{
    struct cw_send *send       = cw_request_state(request);
    struct cw_conn *conn       = request->ep->conn;
    struct cw_wire_next header = next_header(send);
    size_t left                = send->cursor.length - send->cursor.offset;
    size_t max                 = cw_conn_max_piece(conn);

    if (cw_send_memh(send, conn->iface) != NULL) {
        return send_registered(request, CW_PACKET_NEXT, &header, sizeof(header));
    }
    if (left >= conn->iface->plan->zcopy_min && cw_dt_is_memory(&send->cursor)) {
        return cw_lane_sends_in_place(conn) ? cw_send_memory(request, CW_PACKET_NEXT, &header, sizeof(header),
                                                             conn->iface->limits.max_placed, CW_SEND_IN_PLACE)
                                            : cw_send_zcopy(request, CW_PACKET_NEXT, &header, sizeof(header));
    }
    left += sizeof(header);
    return cw_lane_send_bcopy(conn, CW_PACKET_NEXT, (left < max) ? left : max, pack_next, send);
}

/* Bytes of the first packet. A message that will be received in place needs no copy here, so its first packet is
 * short. */
static size_t first_length(const struct cw_send *send, const struct cw_conn *conn)
{
    const size_t max = conn->iface->limits.max_bcopy;
    size_t least     = send->kind->header(send, CW_SEND_FIRST, NULL) + FIRST_BYTES;

    return (cw_lane_sends_in_place(conn) && cw_dt_is_memory(&send->cursor) && least < max &&
            send->cursor.length >= conn->iface->plan->zcopy_min + FIRST_BYTES)
               ? least
               : max;
}

static ucs_status_t send_first(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const uint8_t id     = send->kind->ids[CW_SEND_FIRST];
    char bytes[CW_PLAN_MAX_HEADER];
    size_t header;

    if (cw_send_memh(send, conn->iface) == NULL) {
        return cw_lane_send_bcopy(conn, id, first_length(send, conn), pack_first, send);
    }
    header = send->kind->header(send, CW_SEND_FIRST, bytes);
    return send_registered(request, id, bytes, header);
}

static ucs_status_t send_pieces(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status;
    size_t begin;

    if (send->phase == CW_SEND_QUEUED) {
        cw_dt_pack_ahead(&send->cursor);
        send->message = cw_op_ep(request->ep)->next_message_id;
        status        = send_first(request);
        if (status != UCS_OK) {
            return status;
        }
        send->phase   = CW_SEND_PIECES;
        request->send = cw_proto_eager_pieces.start;
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_PIECES, 0, send->cursor.length);
        cw_op_ep(request->ep)->next_message_id++;
        if (send->kind->credited) {
            cw_credit_sent(request->ep, send->cursor.length);
        }
    }
    while (send->cursor.offset < send->cursor.length) {
        if (cw_ep_must_pause(request->ep)) {
            return CW_AGAIN;
        }
        begin  = send->cursor.offset;
        status = send_next(request);
        if (status != UCS_OK) {
            return status;
        }
        cw_ep_spend(request->ep, send->cursor.offset - begin);
    }
    return cw_send_left(request);
}

/* The pieces of a message share a system call where they can. */
static ucs_status_t start(struct cw_request *request)
{
    struct cw_conn *conn = request->ep->conn;
    ucs_status_t status;

    if (!cw_lane_batches(conn)) {
        return send_pieces(request);
    }
    cw_lane_batch(conn, CW_BATCH_BEGIN);
    status = send_pieces(request);
    cw_lane_batch(conn, CW_BATCH_END);
    return status;
}

const struct cw_protocol cw_proto_eager_pieces = {.query = query, .start = start};
