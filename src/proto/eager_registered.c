/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An eager message in one packet that the device reads out of memory whose handle the program gave. The request
 * completes when the peer's device has the packet.
 */
#include "op/send.h"
#include "proto/proto.h"

/* Below this length a copy takes less time than another completion of the device. */
#define LEAST 2048u

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const int is_set                      = input->zcopy_thresh != CW_PLAN_AUTO;
    const size_t least                    = is_set ? input->zcopy_thresh : LEAST;
    const size_t packet =
        (input->max_registered < ask->lanes->max_piece) ? input->max_registered : ask->lanes->max_piece;

    if (!ask->registered || ask->data != CW_DATA_CONTIG || ask->header > CW_PLAN_MAX_HEADER || ask->header > packet ||
        packet - ask->header < least) {
        return 0;
    }
    row->first = (least > 0) ? least : 1;
    row->last  = packet - ask->header;
    row->fixed = 1;
    row->way   = "eager zero copy by the device";
    row->why   = is_set ? "ZCOPY_THRESH" : "the copy costs more than a completion";
    return 1;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    char bytes[CW_PLAN_MAX_HEADER];
    size_t header = send->kind->header(send, CW_SEND_WHOLE, bytes);
    ucs_status_t status =
        cw_send_registered(request, send->kind->ids[CW_SEND_WHOLE], bytes, header, send->cursor.length, 1);

    return (status == UCS_OK) ? cw_send_left_whole(request, CW_TRACE_WITHOUT_COPY) : status;
}

const struct cw_protocol cw_proto_eager_registered = {.query = query, .start = start};
