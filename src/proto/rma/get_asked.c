/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get that asks the owner. The owner's library sends the bytes to a receive of op/rndv_recv.h, which owns the request
 * from then on. Fits every get but one that must end within its call.
 */
#include "op/rndv_recv.h"
#include "op/get.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->way  = "request to the owner";
    row->why  = "only the owner's library reaches the memory";
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct ucp_ep *ep  = request->ep;
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    ucs_status_t status;
    uint32_t piece;
    uint8_t takes;
    uint64_t id;

    if (get->forced) {
        return CW_AGAIN;
    }
    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_HOLD;
    }
    status = cw_dt_keep(&get->cursor);
    if (status == UCS_OK) {
        status = cw_rndv_recv_expect(ep, request, &get->cursor, &id, &piece, &takes);
    }
    if (status != UCS_OK) {
        return status;
    }
    get->takes = takes;
    status     = cw_get_send(request, id, piece);
    if (status != UCS_OK) {
        cw_rndv_recv_forget(ep, id);
        return status;
    }
    get->asked = 1;
    get->late  = 1;
    rma->replies++;
    cw_rma_late_add(rma, get->address, get->cursor.length);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_ASKED, 0, get->cursor.length);
    return CW_RMA_OWNED;
}

const struct cw_protocol cw_proto_get_asked = {.query = query, .start = start};
