/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager messages: sent without a handshake with the receiver.
 */
#include "base/bytes.h"
#include "core/ep_round.h"
#include "msg/credit.h"
#include "msg/send.h"
#include "proto/proto.h"

/*
 * A short message of contiguous memory that the call itself passes to the transport, or writes into a ring, without a
 * request (cw_tag_send, cw_am_send). A short message that must be queued uses another eager protocol.
 */

static int short_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    if (!ask->in_call || ask->data != CW_DATA_CONTIG || ask->lanes->plan->short_end == 0) {
        return 0;
    }
    row->last = ask->lanes->plan->short_end - 1;
    row->name = "short";
    row->why = "copied inline into the packet";
    return 1;
}

const struct cw_protocol cw_proto_short = {.query = short_query, .at_once = 1};

/*
 * An eager message in one packet that the device reads from memory whose handle the program gave. The request completes
 * when the peer's device has received the packet.
 */

/* Below this length a copy is cheaper than another completion of the device. */
#define REGISTERED_LEAST 2048u

static int registered_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const int is_set = input->zcopy_thresh != CW_PLAN_AUTO;
    const size_t least = is_set ? input->zcopy_thresh : REGISTERED_LEAST;
    const size_t packet =
        (input->max_registered < ask->lanes->max_piece) ? input->max_registered : ask->lanes->max_piece;

    if (!ask->registered || ask->data != CW_DATA_CONTIG || ask->header > CW_PLAN_MAX_HEADER || ask->header > packet ||
        packet - ask->header < least) {
        return 0;
    }
    row->first = (least > 0) ? least : 1;
    row->last = packet - ask->header;
    row->fixed = 1;
    row->name = "eager zero copy by the device";
    row->why = is_set ? "ZCOPY_THRESH" : "the copy costs more than a completion";
    return 1;
}

static ucs_status_t registered_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    char bytes[CW_PLAN_MAX_HEADER];
    size_t header = send->kind->header(send, CW_SEND_WHOLE, bytes);
    ucs_status_t status =
        cw_send_registered(request, send->kind->ids[CW_SEND_WHOLE], bytes, header, send->cursor.length, 1);

    return (status == UCS_OK) ? cw_send_left_whole(request, CW_TRACE_WITHOUT_COPY) : status;
}

const struct cw_protocol cw_proto_eager_registered = {.query = registered_query, .start = registered_start};

/*
 * A zero-copy eager message in one packet: the transport reads the program's memory until it reports completion.
 */

int cw_proto_zcopy_row(const struct cw_protocol_ask *ask, size_t header, struct cw_protocol_row *row)
{
    const size_t packet = ask->lanes->input.max_zcopy;

    if (ask->data > CW_DATA_LIST || packet <= header || packet - header < ask->lanes->plan->zcopy_min) {
        return 0;
    }
    row->first = ask->lanes->plan->zcopy_min;
    row->last = packet - header;
    row->fixed = 1;
    row->name = "eager zero copy";
    row->why =
        (ask->lanes->input.zcopy_thresh == CW_PLAN_AUTO) ? "the copy costs more than its completion" : "ZCOPY_THRESH";
    return 1;
}

static int zcopy_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    return ask->header <= CW_PLAN_MAX_HEADER && cw_proto_zcopy_row(ask, ask->header, row);
}

static ucs_status_t zcopy_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    char bytes[CW_PLAN_MAX_HEADER];
    size_t header = send->kind->header(send, CW_SEND_WHOLE, bytes);
    ucs_status_t status = cw_send_zcopy(request, send->kind->ids[CW_SEND_WHOLE], bytes, header);

    return (status == UCS_OK) ? cw_send_left_whole(request, CW_TRACE_WITHOUT_COPY) : status;
}

const struct cw_protocol cw_proto_eager_zcopy = {.query = zcopy_query, .start = zcopy_start};

/*
 * An eager message in one packet that is copied. The packet may be longer if the receiver uses the message in place.
 */

static int copy_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t packet = (ask->used_in_place && ask->lanes->max_whole > ask->lanes->max_piece) ? ask->lanes->max_whole
                                                                                                : ask->lanes->max_piece;

    if (ask->header > packet) {
        return 0;
    }
    row->last = packet - ask->header;
    row->name = "eager copy";
    row->why = "fits one packet";
    return 1;
}

static size_t pack_whole(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header = send->kind->header(send, CW_SEND_WHOLE, dest);

    return header + cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + header, max - header);
}

static ucs_status_t copy_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    size_t header = send->kind->header(send, CW_SEND_WHOLE, NULL);
    ucs_status_t status =
        cw_lane_send_bcopy(request->ep->conn, send->kind->ids[CW_SEND_WHOLE], header + send->cursor.length,
                           pack_whole, send);

    return (status == UCS_OK) ? cw_send_left_whole(request, CW_TRACE_COPIED) : status;
}

const struct cw_protocol cw_proto_eager_copy = {.query = copy_query, .start = copy_start, .at_once = 1};

/*
 * An eager message in several packets: the first contains the total length. The others are zero copy where the
 * transport supports it. If the memory is registered with the device, all packets are sent from it, and the completion
 * of the last one covers all. Fits every message.
 */

/* The first packet of a message that is received in place, with its header: a cache line, so that the rest is aligned
 * as before. */
#define FIRST_BYTES 64u

static int pieces_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const int rings = ask->used_in_place && ask->lanes->input.memory;

    row->name = "eager fragments";
    row->why = rings ? "one packet if the ring is large, else several" : "exceeds one packet";
    return 1;
}

static size_t pack_first(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header = send->kind->header(send, CW_SEND_FIRST, dest);

    return header + cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + header, max - header);
}

static struct cw_wire_next next_header(const struct cw_send *send)
{
    return (struct cw_wire_next){.message = htole32(send->message), .offset = htole64(send->cursor.offset)};
}

static size_t pack_next(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    const struct cw_wire_next header = next_header(send);

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) +
           cw_dt_pack_next(&send->cursor, cw_send_nt(send), (char *)dest + sizeof(header), max - sizeof(header));
}

static ucs_status_t send_registered(struct cw_request *request, uint8_t id, const void *header, size_t header_length)
{
    const struct cw_send *send = cw_request_state(request);
    const struct cw_conn *conn = request->ep->conn;
    const size_t max = cw_smaller(conn->iface->limits.max_registered, cw_conn_max_piece(conn)) - header_length;
    const size_t left = send->cursor.length - send->cursor.offset;

    return cw_send_registered(request, id, header, header_length, cw_smaller(left, max), left <= max);
}

static ucs_status_t send_next(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    struct cw_wire_next header = next_header(send);
    size_t left = send->cursor.length - send->cursor.offset;
    ucs_status_t status;

    if (cw_send_memh(send, conn->iface) != NULL) {
        return send_registered(request, CW_PACKET_NEXT, &header, sizeof(header));
    }
    if (left >= conn->iface->plan->zcopy_min && cw_dt_is_memory(&send->cursor)) {
        return cw_lane_sends_in_place(conn) ? cw_send_memory(request, CW_PACKET_NEXT, &header, sizeof(header),
                                                             conn->iface->limits.max_placed, CW_SEND_IN_PLACE)
                                            : cw_send_zcopy(request, CW_PACKET_NEXT, &header, sizeof(header));
    }
    if (send->cursor.class_id == UCP_DATATYPE_GENERIC && cw_lane_sends_in_place(conn)) {
        status = cw_send_packed(request, CW_PACKET_NEXT, &header, sizeof(header), conn->iface->limits.max_placed,
                                CW_SEND_IN_PLACE);
        if (status != UCS_ERR_NO_MEMORY) {
            return status;
        }
    }
    return cw_lane_send_bcopy(conn, CW_PACKET_NEXT, cw_send_piece(send, conn, sizeof(header)), pack_next, send);
}

/* Bytes of the first packet. A message that will be received in place needs no copy here, so its first packet is
 * short. */
static size_t first_length(const struct cw_send *send, const struct cw_conn *conn)
{
    const size_t max = conn->iface->limits.max_bcopy;
    size_t least = send->kind->header(send, CW_SEND_FIRST, NULL) + FIRST_BYTES;

    return (cw_lane_sends_in_place(conn) && cw_dt_is_memory(&send->cursor) && least < max &&
            send->cursor.length >= conn->iface->plan->zcopy_min + FIRST_BYTES)
               ? least
               : max;
}

static ucs_status_t send_first(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const uint8_t id = send->kind->ids[CW_SEND_FIRST];
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
        send->message = cw_op_ep(request->ep)->next_message_id;
        status = send_first(request);
        if (status != UCS_OK) {
            return status;
        }
        send->phase = CW_SEND_PIECES;
        request->send = cw_proto_eager_pieces.start;
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_PIECES, 0, send->cursor.length);
        cw_op_ep(request->ep)->next_message_id++;
        if (send->kind->credited) {
            cw_credit_sent(request->ep, send->cursor.length);
        }
    }
    while (send->cursor.offset < send->cursor.length) {
        if (cw_ep_must_pause(request->ep)) {
            return CW_AGAIN;
        }
        begin = send->cursor.offset;
        status = send_next(request);
        if (status != UCS_OK) {
            return status;
        }
        cw_ep_spend(request->ep, send->cursor.offset - begin);
    }
    return cw_send_left(request);
}

/* Batches the pieces of a message into one system call where possible. */
static ucs_status_t pieces_start(struct cw_request *request)
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

const struct cw_protocol cw_proto_eager_pieces = {.query = pieces_query, .start = pieces_start};
