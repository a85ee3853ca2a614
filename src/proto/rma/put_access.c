/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put that the device of the lane carries out while the owner's processor does other work: straight out of the
 * program's memory where the device knows that memory, else through memory of the transport.
 */
#include "op/access.h"
#include "op/put.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    *row = (struct cw_protocol_row){.first = 0,
                                    .last  = CW_PLAN_NEVER,
                                    .cost  = cw_protocol_cost(ask->lanes, 1),
                                    .fixed = 1,
                                    .way   = "write by the device",
                                    .why   = "the device reaches the memory, whatever the owner does"};
    return (ask->remote & CW_REMOTE_ACCESS) && ask->force != CW_FORCE_EAGER;
}

static void ended(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);

    send->phase = CW_SEND_SENT;
    cw_send_finish(request, status);
}

static size_t pack(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;

    return cw_dt_pack(&send->cursor, dest, max);
}

static ucs_status_t write_some(struct cw_request *request, const struct cw_access_target *to)
{
    struct cw_send *send                  = cw_request_state(request);
    struct cw_access *access              = send->access;
    struct cw_conn *conn                  = request->ep->conn;
    const size_t left                     = send->cursor.length - send->cursor.offset;
    const int is_flat                     = send->cursor.class_id == UCP_DATATYPE_CONTIG;
    const char *memory                    = is_flat ? send->cursor.contig + send->cursor.offset : NULL;
    struct cw_access_iov iov;
    ucs_status_t status;
    size_t length;
    int in_place;

    length = cw_access_next_put(conn, access->use.memh, memory, to->address, left, &in_place);
    if (length == 0) {
        return UCS_ERR_IO_ERROR; /* the device could do this when the put began */
    }
    if (!in_place) {
        return cw_access_taken(access, cw_lane_put_bcopy(conn, length, pack, send, to, access->flags,
                                                         &access->completion));
    }
    iov    = (struct cw_access_iov){send->cursor.contig + send->cursor.offset, length, access->use.memh};
    status = cw_access_taken(access, cw_lane_put_zcopy(conn, &iov, 1, to, access->flags, &access->completion));
    if (status == UCS_OK) {
        cw_dt_skip(&send->cursor, length);
    }
    return status;
}

static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_access_target to;
    ucs_status_t status;

    while (send->cursor.offset < send->cursor.length) {
        if (!cw_rkey_target(send->put.rkey, request->ep->conn, send->put.address + send->cursor.offset, &to)) {
            return UCS_ERR_IO_ERROR; /* the device could do this when the put began */
        }
        status = write_some(request, &to);
        if (status != UCS_OK) {
            return status;
        }
    }
    return cw_access_begun(send->access);
}

static int is_plain(const struct cw_send *send, const struct cw_access_limits *limits)
{
    return send->cursor.class_id == UCP_DATATYPE_CONTIG && send->cursor.length > limits->max_put_bcopy &&
           limits->max_put_zcopy > 0 && limits->max_iov > 0;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;
    unsigned flags;
    ucs_status_t status  = cw_rma_admit_device(rma, send->put.address, send->cursor.length, &flags);

    status = (status == UCS_OK) ? cw_dt_keep(&send->cursor) : status; /* a put that has begun must not fail any more */
    if (status != UCS_OK) {
        return status;
    }
    send->access = cw_access_new(request, ended);
    if (send->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    send->access->flags = flags;
    if (is_plain(send, &request->ep->conn->iface->limits.access)) {
        cw_access_use(send->access, send->cursor.contig, send->cursor.length, 0);
    }
    send->kind    = &cw_put_access_kind;
    request->send = go_on;
    rma->async_puts++;
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, send->cursor.length);
    return go_on(request);
}

const struct cw_protocol cw_proto_put_access = {.query = query, .start = start};
