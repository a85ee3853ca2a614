/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put that is announced; the owner's library receives it in place (docs/change/long-messages.md, op/send_rndv.c).
 */
#include "op/put.h"
#include "op/stage.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_lane *lane = cw_protocol_placing(ask);
    const int is_staged                 = ask->on_device && ask->force == CW_FORCE_NONE;
    size_t least, min = CW_PLAN_NEVER;

    row->first = 1;
    row->cost  = cw_protocol_cost((lane != NULL) ? lane : ask->lanes, 3);
    row->fixed = 1;
    row->way   = "rendezvous";
    row->why   = "the owner's device may copy";
    if (ask->force == CW_FORCE_RNDV) {
        return 1;
    }
    if (lane != NULL && ask->force != CW_FORCE_EAGER) {
        least      = lane->input.max_bcopy - sizeof(struct cw_wire_put) + 1;
        min        = ask->fast ? lane->plan->rndv_fast_min : lane->plan->rndv_min;
        row->first = (min > least) ? min : least;
        row->way   = "rendezvous, received in place";
        row->why   = lane->plan->rndv_forced ? lane->input.rndv_setting : "a round trip costs less than a copy there";
    }
    if (is_staged && (min == CW_PLAN_NEVER || row->first > CW_STAGE_LEAST)) {
        row->first = CW_STAGE_LEAST;
        row->way   = "rendezvous, copied to the device";
        row->why   = "the owner copies while packets travel";
    }
    return is_staged || min != CW_PLAN_NEVER;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;
    ucs_status_t status  = cw_put_admit(request);

    if (status != UCS_OK) {
        return status;
    }
    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_HOLD;
    }
    send->kind = &cw_put_announced_kind;
    status     = cw_send_announce(request);
    if (status != UCS_INPROGRESS) {
        send->kind = &cw_put_kind;
        return status;
    }
    rma->replies++;
    rma->async_puts++;
    return UCS_INPROGRESS;
}

const struct cw_protocol cw_proto_put_rndv = {.query = query, .start = start, .announces = 1};
