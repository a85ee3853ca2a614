/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A short message of contiguous memory that the call itself gives to the transport, or writes into a cell, without a
 * request (cw_tag_send, cw_am_send). A short message that must be queued goes by an eager protocol.
 */
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    if (!ask->in_call || ask->data != CW_DATA_CONTIG || ask->lanes->plan->short_end == 0) {
        return 0;
    }
    row->last = ask->lanes->plan->short_end - 1;
    row->way  = "short";
    row->why  = "copied into the packet by the call itself";
    return 1;
}

const struct cw_protocol cw_proto_short = {.query = query, .at_once = 1};
