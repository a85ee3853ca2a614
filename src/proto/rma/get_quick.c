/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short get that asks the owner although the system could copy as well: an owner that makes progress answers in a
 * fraction of the time of such a copy. If the answer does not come in time, the system copies (op/get_quick.c).
 */
#include "op/get.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->last = CW_RMA_QUICK;
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->way  = "request, copied if it is late";
    row->why  = "an owner that makes progress answers first";
    return cw_get_asks_first(ask);
}

const struct cw_protocol cw_proto_get_quick = {.query = query, .start = cw_get_ask_quickly};
