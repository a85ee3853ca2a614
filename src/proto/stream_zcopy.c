/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream data out of the program's contiguous memory, as long as more is left than one copied packet takes. A packet
 * ends at its largest size or at the end of the receiver's window.
 */
#include "op/stream.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;

    if (ask->data != CW_DATA_CONTIG || input->max_zcopy <= input->max_bcopy) {
        return 0;
    }
    row->first = input->max_bcopy - ask->header + 1;
    row->fixed = 1;
    row->way   = "eager zero copy";
    row->why   = "more than one copied packet takes";
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    return cw_stream_send_begin(request, 1);
}

const struct cw_protocol cw_proto_stream_zcopy = {.query = query, .start = start};
