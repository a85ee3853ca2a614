/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An announced message that devices of the sender write into the receiver's memory. The receiver registers this memory
 * for this message alone and names it to the sender. The sender waits for its devices and tells the receiver
 * (op/send_device.c). The right to write ends before the program gets its memory back, so a late write cannot reach it.
 */
#include "config/config.h"
#include "op/rndv_recv_device.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const int is_set                      = input->rndv_scheme == CW_RNDV_PUT_ZCOPY;

    row->first = 1;
    row->cost  = cw_protocol_cost(ask->lanes, 5);
    row->fixed = is_set;
    row->way   = "written by the sender's device";
    row->why   = is_set ? "RNDV_SCHEME" : "no processor copies a byte";
    row->cost.fixed_ns += 2 * input->register_ns; /* on each side */
    row->cost.byte_ns += 2 * input->register_byte_ns;
    return ask->data == CW_DATA_CONTIG && input->access &&
           (is_set || input->rndv_scheme == CW_RNDV_AUTO || input->rndv_scheme == CW_RNDV_RKEY_PTR);
}

/* cw_rndv_recv_device_written ends what this function starts. */
static ucs_status_t start(struct cw_request *request)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    ucs_status_t status = cw_rndv_recv_device_register(request, CW_RIGHT_LOCAL_WRITE | CW_RIGHT_REMOTE_WRITE);

    if (status != UCS_OK) {
        return status;
    }
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, receive->length);
    receive->is_written = 1;
    return cw_rndv_recv_device_offer(request);
}

const struct cw_protocol cw_proto_rndv_write = {.query = query, .start = start};
