/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An eager message in one packet out of the program's memory, which the transport reads until it reports completion.
 */
#include "op/send.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t packet = ask->lanes->input.max_zcopy;

    if ((ask->data != CW_DATA_CONTIG && ask->data != CW_DATA_LIST) || ask->header > CW_PLAN_MAX_HEADER ||
        ask->header > packet || packet - ask->header < ask->lanes->plan->zcopy_min) {
        return 0;
    }
    row->first = ask->lanes->plan->zcopy_min;
    row->last  = packet - ask->header;
    row->fixed = 1;
    row->way   = "eager zero copy";
    row->why =
        (ask->lanes->input.zcopy_thresh == CW_PLAN_AUTO) ? "the copy costs more than its bookkeeping" : "ZCOPY_THRESH";
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    char bytes[CW_PLAN_MAX_HEADER];
    size_t header       = send->kind->header(send, CW_SEND_WHOLE, bytes);
    ucs_status_t status = cw_send_zcopy(request, send->kind->ids[CW_SEND_WHOLE], bytes, header);

    return (status == UCS_OK) ? cw_send_left_whole(request, CW_TRACE_WITHOUT_COPY) : status;
}

const struct cw_protocol cw_proto_eager_zcopy = {.query = query, .start = start};
