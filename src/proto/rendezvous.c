/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that is announced; the receiver decides how its bytes are moved (docs/change/long-messages.md,
 * op/send_rndv.c).
 */
#include "op/send.h"
#include "op/stage.h"
#include "proto/proto.h"

static int is_forced(const struct cw_protocol_ask *ask)
{
    return ask->lanes->plan->rndv_forced ||
           (ask->fast && ask->lanes->plan->rndv_fast_min != ask->lanes->plan->rndv_min);
}

/* Whether messages of CW_STAGE_LEAST bytes are announced because memory of a GPU is copied at both ends. */
static int is_staged(const struct cw_protocol_ask *ask)
{
    return ask->on_device && ask->force == CW_FORCE_NONE && !ask->lanes->plan->rndv_forced;
}

/* The least length of such a message, with the program's own header. */
static size_t least(const struct cw_protocol_ask *ask)
{
    const struct cw_protocol_plan *plan = ask->lanes->plan;
    size_t min                          = ask->fast ? plan->rndv_fast_min : plan->rndv_min;
    const int is_list                   = ask->data == CW_DATA_LIST || ask->data == CW_DATA_SCATTERED;

    if ((is_list || (ask->used_in_place && min == plan->rndv_min)) && min < plan->rndv_late_min) {
        min = plan->rndv_late_min;
    }
    return (min < ask->lanes->eager_end && !is_forced(ask)) ? ask->lanes->eager_end : min;
}

static const char *why(const struct cw_protocol_ask *ask)
{
    if (ask->force == CW_FORCE_RNDV) {
        return "the program, or the receiver's window, asks for it";
    }
    if (is_forced(ask)) {
        return ask->lanes->plan->rndv_forced ? ask->lanes->input.rndv_setting : "RNDV_SEND_NBR_THRESH";
    }
    if (ask->lanes->input.grows) {
        return (ask->lanes->eager_end > 0) ? "two copies through the ring in use cost less below"
                                           : "a round trip costs less than copies from here, unless a ring is in use";
    }
    return "a round trip costs less than copies from here";
}

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const size_t min                      = (ask->force == CW_FORCE_RNDV) ? 0 : least(ask);
    const int is_long                     = min == CW_PLAN_NEVER;

    if (ask->force == CW_FORCE_EAGER || (is_long && !is_staged(ask))) {
        return 0;
    }
    row->first = is_long ? CW_PLAN_NEVER : (min > ask->extra) ? min - ask->extra : 0;
    row->cost  = cw_protocol_cost(ask->lanes, 3);
    row->fixed = 1;
    row->way   = input->memory             ? "rendezvous, copied from memory to memory by both sides"
                 : (input->max_placed > 0) ? "rendezvous, received in place"
                                           : "rendezvous, in pieces";
    row->why   = why(ask);
    if (is_staged(ask) && row->first >= CW_STAGE_LEAST) {
        row->first = CW_STAGE_LEAST;
        row->way   = "rendezvous, copied from and to the devices";
        row->why   = "both ends copy while packets travel";
    }
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send                = cw_request_state(request);
    struct cw_conn *conn                = request->ep->conn;
    const struct cw_protocol_plan *plan = conn->iface->plan;

    cw_dt_pack_ahead(&send->cursor);
    if (cw_iface_grows(conn->iface) && send->force == CW_FORCE_NONE && !plan->rndv_forced &&
        !(send->fast && plan->rndv_fast_min != plan->rndv_min)) {
        cw_lane_grow(conn, send->extra + send->cursor.length);
    }
    return cw_send_announce(request);
}

const struct cw_protocol cw_proto_rendezvous = {.query = query, .start = start, .announces = 1};
