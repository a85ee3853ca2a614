/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream data.
 */
#include "proto/proto.h"
#include "stream/stream.h"

/*
 * Contiguous stream data that the call itself passes to the transport, or writes into a ring, without a request
 * (cw_stream_send). An empty send ends in the call as well; nothing is sent then.
 */

static int short_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    if (!ask->in_call || ask->data != CW_DATA_CONTIG) {
        return 0;
    }
    row->last = ask->lanes->input.max_short;
    row->name = "short";
    row->why = "copied inline into the packet";
    return 1;
}

const struct cw_protocol cw_proto_stream_short = {.query = short_query, .at_once = 1};

/*
 * Zero-copy stream data from contiguous memory, as long as more is left than fits one copied packet. A packet ends at
 * its largest size or at the end of the receiver's window.
 */

static int zcopy_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;

    if (ask->data != CW_DATA_CONTIG || input->max_zcopy <= input->max_bcopy) {
        return 0;
    }
    row->first = input->max_bcopy - ask->header + 1;
    row->fixed = 1;
    row->name = "eager zero copy";
    row->why = "exceeds one copied packet";
    return 1;
}

static ucs_status_t zcopy_start(struct cw_request *request)
{
    return cw_stream_send_begin(request, 1);
}

const struct cw_protocol cw_proto_stream_zcopy = {.query = zcopy_query, .start = zcopy_start};

/*
 * Stream data in one packet that is copied, if it fits the receiver's window.
 */

static int copy_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->last = cw_stream_max_piece(ask->lanes->max_piece - ask->header, CW_STREAM_WINDOW);
    row->name = "eager copy";
    row->why = "fits one packet";
    return 1;
}

static ucs_status_t copy_start(struct cw_request *request)
{
    return cw_stream_send_begin(request, 0);
}

const struct cw_protocol cw_proto_stream_copy = {.query = copy_query, .start = copy_start, .at_once = 1};

/*
 * Stream data in several packets that are copied, as the transport and the receiver's window allow. Fits everything.
 */

static int pieces_query(const struct cw_protocol_ask *ask CW_UNUSED, struct cw_protocol_row *row)
{
    row->name = "eager fragments";
    row->why = "exceeds one packet";
    return 1;
}

static ucs_status_t pieces_start(struct cw_request *request)
{
    return cw_stream_send_begin(request, 0);
}

const struct cw_protocol cw_proto_stream_pieces = {.query = pieces_query, .start = pieces_start};
