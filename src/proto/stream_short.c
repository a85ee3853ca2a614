/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contiguous stream data that the call itself gives to the transport, or writes into a cell, without a request
 * (cw_stream_send). An empty send ends in the call as well; nothing is sent then.
 */
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    if (!ask->in_call || ask->data != CW_DATA_CONTIG) {
        return 0;
    }
    row->last = ask->lanes->input.max_short;
    row->way  = "short";
    row->why  = "copied into the packet by the call itself";
    return 1;
}

const struct cw_protocol cw_proto_stream_short = {.query = query, .at_once = 1};
