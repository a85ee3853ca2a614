/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An eager message in one packet that is copied. The packet may be longer if the receiver uses the message in place.
 */
#include "op/send.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const size_t packet = (ask->used_in_place && ask->lanes->max_whole > ask->lanes->max_piece) ? ask->lanes->max_whole
                                                                                                : ask->lanes->max_piece;

    if (ask->header > packet) {
        return 0;
    }
    row->last = packet - ask->header;
    row->way  = "eager copy";
    row->why  = "fits one packet";
    return 1;
}

static size_t pack(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header        = send->kind->header(send, CW_SEND_WHOLE, dest);

    return header + cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + header, max - header);
}

static ucs_status_t eager_copy_start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    size_t header        = send->kind->header(send, CW_SEND_WHOLE, NULL);
    ucs_status_t status =
        cw_lane_send_bcopy(request->ep->conn, send->kind->ids[CW_SEND_WHOLE], header + send->cursor.length, pack, send);

    return (status == UCS_OK) ? cw_send_left_whole(request, CW_TRACE_COPIED) : status;
}

const struct cw_protocol cw_proto_eager_copy = {.query = query, .start = eager_copy_start, .at_once = 1};
