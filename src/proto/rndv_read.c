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

    *row = (struct cw_protocol_row){.first = 1,
                                    .last  = CW_PLAN_NEVER,
                                    .cost  = cw_protocol_cost(ask->lanes, 3),
                                    .fixed = is_set,
                                    .way   = "read by the receiver's device",
                                    .why   = is_set ? "RNDV_SCHEME" : "no processor copies a byte"};
    if (!ask->registered) {
        row->cost.fixed_ns += input->register_ns;
        row->cost.byte_ns += input->register_byte_ns;
    }
    return (ask->remote & CW_REMOTE_ACCESS) && ask->data == CW_DATA_CONTIG && input->access &&
           (is_set || input->rndv_scheme == CW_RNDV_AUTO || input->rndv_scheme == CW_RNDV_RKEY_PTR);
}

/* Begins one access. UCS_OK: a lane took it. */
static ucs_status_t read_some(struct cw_rndv_recv_device *fetch)
{
    struct cw_access *access   = fetch->access;
    char *to                   = fetch->memory + fetch->offset;
    struct cw_stripe_way way   = {.length = 0};
    ucs_status_t status        = cw_stripes_next(access, fetch->length - fetch->offset, &way);
    struct cw_access_target from;
    struct cw_access_iov iov;
    size_t length;
    int in_place;

    if (status != UCS_OK) {
        return status;
    }
    from   = (struct cw_access_target){.address = fetch->address + fetch->offset, .key = *way.key};
    length = cw_access_next_get(way.lane, way.memh, to, from.address, way.length, &in_place);
    if (length == 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    iov    = (struct cw_access_iov){to, length, way.memh};
    status = in_place ? cw_lane_get_zcopy(way.lane, &iov, 1, &from, 0, way.completion)
                      : cw_access_get_bcopy(access, way.lane, length, to, &from);
    status = cw_stripes_taken(access, &way, length, status);
    if (status == UCS_OK) {
        fetch->offset += length;
    }
    return status;
}

static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_rndv_recv_device *fetch = cw_request_state(request);
    struct cw_access *access          = fetch->access;
    ucs_status_t status;

    while (fetch->offset < fetch->length && access->status == UCS_OK) {
        status = read_some(fetch);
        if (status == CW_AGAIN || status == CW_HOLD) {
            return status;
        }
        if (status != UCS_OK) {
            access->status = status;
        }
    }
    return cw_access_begun(access);
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_rndv_recv_device *fetch = cw_request_state(request);
    ucs_status_t status               = cw_rndv_recv_device_register(request, CW_RIGHT_LOCAL_WRITE);

    if (status != UCS_OK) {
        return status;
    }
    cw_rndv_recv_device_share(request);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, fetch->length);
    request->send = go_on;
    return go_on(request);
}

const struct cw_protocol cw_proto_rndv_read = {.query = query, .start = start, .reads = 1};
