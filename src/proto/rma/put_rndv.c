/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put that is announced; the owner's library receives it in place (docs/change/long-messages.md, op/send_rndv.c).
 */
#include "op/put.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_lane *lane = cw_protocol_placing(ask);
    size_t least, min;

    if (ask->force == CW_FORCE_RNDV) {
        *row = (struct cw_protocol_row){.first = 1,
                                        .last  = CW_PLAN_NEVER,
                                        .cost  = cw_protocol_cost(ask->lanes, 3),
                                        .fixed = 1,
                                        .way   = "rendezvous",
                                        .why   = "the owner's device may copy"};
        return 1;
    }
    if (lane == NULL || ask->force == CW_FORCE_EAGER) {
        return 0;
    }
    least = lane->input.max_bcopy - sizeof(struct cw_wire_put) + 1;
    min   = ask->fast ? lane->plan->rndv_fast_min : lane->plan->rndv_min;
    *row  = (struct cw_protocol_row){.first = (min > least) ? min : least,
                                     .last  = CW_PLAN_NEVER,
                                     .cost  = cw_protocol_cost(lane, 3),
                                     .fixed = 1,
                                     .way   = "rendezvous, received in place",
                                     .why   = lane->plan->rndv_forced ? lane->input.rndv_setting
                                                                      : "a round trip costs less than a copy there"};
    return min != CW_PLAN_NEVER;
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
