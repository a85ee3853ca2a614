/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put in one packet, which the owner's library carries out: inline within the call, by a copy, or out of the
 * program's memory.
 */
#include "op/put.h"
#include "proto/proto.h"

/* The transport has taken the packet. */
static ucs_status_t left(struct cw_request *request, enum cw_trace_way way)
{
    struct cw_send *send = cw_request_state(request);

    cw_ep_spend(request->ep, send->cursor.length);
    cw_trace_note(request, CW_TRACE_WAY, way, 0, send->cursor.length);
    cw_op_ep(request->ep)->rma->sent_mark++;
    send->phase = CW_SEND_SENT;
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

static ucs_status_t admit(struct cw_request *request)
{
    const ucs_status_t status = cw_put_admit(request);

    return (status == UCS_OK && cw_ep_must_pause(request->ep)) ? CW_AGAIN : status;
}

static int query_short(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t max = ask->lanes->input.max_short;

    if (max < sizeof(uint64_t)) {
        return 0;
    }
    row->last  = (max - sizeof(uint64_t) < CW_PUT_SHORT) ? max - sizeof(uint64_t) : CW_PUT_SHORT;
    row->fixed = 1;
    row->way   = "short";
    row->why   = "copied into the packet by the call itself";
    return 1;
}

static ucs_status_t start_short(struct cw_request *request)
{
    struct cw_send *send            = cw_request_state(request);
    const struct cw_wire_put header = cw_put_header(send);
    struct cw_dt_cursor cursor      = send->cursor;
    ucs_status_t status             = admit(request);
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

static int query_zcopy(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t max = ask->lanes->input.max_zcopy, header = sizeof(struct cw_wire_put);

    if (ask->data > CW_DATA_LIST || ask->force == CW_FORCE_EAGER || max <= header ||
        max - header < ask->lanes->plan->zcopy_min) {
        return 0;
    }
    row->first = ask->lanes->plan->zcopy_min;
    row->last  = max - header;
    row->fixed = 1;
    row->way   = "eager zero copy";
    row->why =
        (ask->lanes->input.zcopy_thresh == CW_PLAN_AUTO) ? "the copy costs more than its bookkeeping" : "ZCOPY_THRESH";
    return 1;
}

static ucs_status_t start_zcopy(struct cw_request *request)
{
    const struct cw_wire_put header = cw_put_header(cw_request_state(request));
    ucs_status_t status             = admit(request);

    status = (status == UCS_OK)
                 ? cw_send_memory(request, CW_PACKET_PUT, &header, sizeof(header),
                                  request->ep->conn->iface->limits.max_zcopy - sizeof(header), CW_SEND_ZCOPY)
                 : status;
    return (status == UCS_OK) ? left(request, CW_TRACE_WITHOUT_COPY) : status;
}

static int query_copy(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->last = ask->lanes->input.max_bcopy - sizeof(struct cw_wire_put);
    row->way  = "eager copy";
    row->why  = "fits one packet";
    return 1;
}

static ucs_status_t start_copy(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status  = admit(request);

    status = (status == UCS_OK)
                 ? cw_lane_send_bcopy(request->ep->conn, CW_PACKET_PUT,
                                      sizeof(struct cw_wire_put) + send->cursor.length, cw_put_pack, send)
                 : status;
    return (status == UCS_OK) ? left(request, CW_TRACE_COPIED) : status;
}

const struct cw_protocol cw_proto_put_short = {.query = query_short, .start = start_short, .at_once = 1};
const struct cw_protocol cw_proto_put_zcopy = {.query = query_zcopy, .start = start_zcopy};
const struct cw_protocol cw_proto_put_copy  = {.query = query_copy, .start = start_copy, .at_once = 1};
