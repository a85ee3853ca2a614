/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put in packets that the owner counts (op/counted.h), where the system could copy as well. As long as the owner
 * makes progress, packets take a fraction of the time of such a copy. A packet of plain bytes needs no request
 * (cw_put).
 */
#include "op/counted.h"
#include "op/put.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t packet = ask->lanes->max_piece - sizeof(struct cw_wire_put);

    row->last = (ask->force == CW_FORCE_EAGER) ? packet : CW_RMA_QUICK_PUT;
    row->way  = "counted packets";
    row->why  = "the owner makes progress; if it stops, the system copies the rest";
    return (ask->remote & CW_REMOTE_COPIES) && (ask->remote & CW_REMOTE_OWNER);
}

static ucs_status_t go_on(struct cw_request *request);

/* UCS_ERR_UNSUPPORTED: the owner makes no progress. */
static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send    = cw_request_state(request);
    struct ucp_ep *ep       = request->ep;
    struct cw_parcel parcel = {.cursor = &send->cursor};
    ucs_status_t status     = cw_put_admit(request);
    size_t left;

    if (status == UCS_OK && send->phase == CW_SEND_QUEUED && send->cursor.length > cw_counted_max(ep)) {
        status = cw_dt_keep(&send->cursor); /* once a piece was sent, the put must not fail any more */
    }
    while (status == UCS_OK && send->cursor.offset < send->cursor.length) {
        if (!cw_counted_is_open(ep, send->put.rkey)) {
            cw_dt_rewind(&send->cursor); /* the pieces that were sent are written again, which is safe: no newer bytes
                                          * can stand there */
            send->phase     = CW_SEND_QUEUED;
            send->overtaken = 1; /* packets are not tried again for this put, as the owner makes progress only at
                                  * times */
            request->send   = cw_put_attempt;
            return UCS_ERR_UNSUPPORTED;
        }
        left          = send->cursor.length - send->cursor.offset;
        parcel.length = (left < cw_counted_max(ep)) ? left : cw_counted_max(ep);
        status        = cw_counted_send(ep, send->put.rkey, send->put.address + send->cursor.offset, &parcel);
        if (status == UCS_OK) {
            send->phase   = CW_SEND_COUNTED;
            request->send = go_on;
        }
    }
    if (status == UCS_OK) {
        send->phase = CW_SEND_SENT;
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_COUNTED, 0, send->cursor.length);
    }
    return status;
}

static ucs_status_t go_on(struct cw_request *request)
{
    const ucs_status_t status = start(request);

    return (status == UCS_ERR_UNSUPPORTED) ? cw_put_attempt(request) : status;
}

const struct cw_protocol cw_proto_put_counted = {.query = query, .start = start, .at_once = 1};
