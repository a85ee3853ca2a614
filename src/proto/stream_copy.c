/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream data in one packet that is copied, if the receiver's window has room for it.
 */
#include "op/stream.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->last = cw_stream_max_piece(ask->lanes->max_piece - ask->header, CW_STREAM_WINDOW);
    row->way  = "eager copy";
    row->why  = "fits one packet";
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    return cw_stream_send_begin(request, 0);
}

const struct cw_protocol cw_proto_stream_copy = {.query = query, .start = start, .at_once = 1};
