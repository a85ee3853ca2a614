/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put in several packets, each of which the owner's library carries out. Fits every put but one that must end within
 * its call.
 */
#include "op/put.h"
#include "proto/proto.h"

#define TURN_BYTES (256u << 10) /* sent before other requests get their turn */

static int query(const struct cw_protocol_ask *ask CW_UNUSED, struct cw_protocol_row *row)
{
    row->way = "eager pieces";
    row->why = "more than one packet takes";
    return 1;
}

static ucs_status_t send_piece(struct cw_request *request)
{
    struct cw_send *send            = cw_request_state(request);
    struct cw_conn *conn            = request->ep->conn;
    const struct cw_limits *limits  = &conn->iface->limits;
    const struct cw_wire_put header = cw_put_header(send);
    const size_t left               = send->cursor.length - send->cursor.offset;

    if (left >= conn->iface->plan->zcopy_min && cw_dt_is_memory(&send->cursor)) {
        return cw_send_memory(request, CW_PACKET_PUT, &header, sizeof(header), limits->max_zcopy - sizeof(header),
                              CW_SEND_ZCOPY);
    }
    return cw_lane_send_bcopy(conn, CW_PACKET_PUT,
                              (left < limits->max_bcopy - sizeof(header)) ? sizeof(header) + left : limits->max_bcopy,
                              cw_put_pack, send);
}

static ucs_status_t go_on(struct cw_request *request)
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
        cw_op_ep(request->ep)->rma->sent_mark++;
        if (begin == 0) {
            send->phase   = CW_SEND_PIECES;
            request->send = go_on;
            cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_PIECES, 0, send->cursor.length);
        }
        if (send->cursor.offset >= turn_end && send->cursor.offset < send->cursor.length) {
            return CW_LATER;
        }
    }
    send->phase = CW_SEND_SENT;
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status  = (send->force == CW_FORCE_EAGER) ? CW_AGAIN : cw_put_admit(request);

    status = (status == UCS_OK) ? cw_dt_keep(&send->cursor) : status; /* a put of which a piece was sent must not fail
                                                                       * any more */
    return (status == UCS_OK) ? go_on(request) : status;
}

const struct cw_protocol cw_proto_put_pieces = {.query = query, .start = start};
