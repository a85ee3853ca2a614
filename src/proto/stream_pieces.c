/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream data in several packets that are copied, as the transport and the receiver's window allow. Fits everything.
 */
#include "op/stream.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask CW_UNUSED, struct cw_protocol_row *row)
{
    row->way = "eager pieces";
    row->why = "more than one packet takes";
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    return cw_stream_send_begin(request, 0);
}

const struct cw_protocol cw_proto_stream_pieces = {.query = query, .start = start};
