/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An announced message that the receiver's device reads out of the sender's memory, which the announcement names, while
 * the sender's processor does other work. It takes two trips for the bytes and one to tell the sender.
 */
#include "config/config.h"
#include "op/rndv_recv_device.h"
#include "op/stripes.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const int is_set                      = input->rndv_scheme == CW_RNDV_GET_ZCOPY;

    row->first = 1;
    row->cost  = cw_protocol_cost(ask->lanes, 3);
    row->fixed = is_set;
    row->way   = "read by the receiver's device";
    row->why   = is_set ? "RNDV_SCHEME" : "no processor copies a byte";
    if (!ask->registered) {
        row->cost.fixed_ns += input->register_ns;
        row->cost.byte_ns += input->register_byte_ns;
    }
    return (ask->remote & CW_REMOTE_ACCESS) && ask->data == CW_DATA_CONTIG && input->access &&
           (is_set || input->rndv_scheme == CW_RNDV_AUTO || input->rndv_scheme == CW_RNDV_RKEY_PTR);
}

static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    struct cw_access *access            = receive->access;
    size_t length                       = 0;
    ucs_status_t status;

    while (receive->offset < receive->length && access->status == UCS_OK) {
        status = cw_stripes_get(access, receive->memory + receive->offset, receive->address + receive->offset,
                                receive->length - receive->offset, &length);
        if (status == CW_AGAIN || status == CW_HOLD) {
            return status;
        }
        if (status == UCS_OK) {
            receive->offset += length;
        } else {
            access->status = status;
        }
    }
    return cw_access_begun(access);
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    const struct cw_mem_part part       = cw_rndv_recv_device_part(receive);
    ucs_status_t status                 = cw_rndv_recv_device_register(request, CW_RIGHT_LOCAL_WRITE);

    if (status != UCS_OK) {
        return status;
    }
    cw_offer_share(receive->access, &part, CW_RIGHT_LOCAL_WRITE, receive->keys, receive->num_keys);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, receive->length);
    request->send = go_on;
    return go_on(request);
}

const struct cw_protocol cw_proto_rndv_read = {.query = query, .start = start, .reads = 1};
