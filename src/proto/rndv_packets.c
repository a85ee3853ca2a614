/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An announced message that comes in packets, over a lane whose device could move it: for memory that the device cannot
 * use, or a message too short for the cost of the device. Both sides copy each byte.
 */
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->way  = "in packets";
    row->why  = "copies cost less than to register the memory, or no device takes it";
    row->cost.byte_ns += 2 * CW_COST_COPY_BYTE_NS;
    return 1;
}

const struct cw_protocol cw_proto_rndv_packets = {.query = query};
