/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get that the device of the lane carries out while the owner's processor does other work: straight into the
 * program's memory where the device knows that memory, else through memory of the transport.
 */
#include "op/access.h"
#include "op/get.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    *row = (struct cw_protocol_row){.first = 0,
                                    .last  = CW_PLAN_NEVER,
                                    .cost  = cw_protocol_cost(ask->lanes, 2),
                                    .fixed = 1,
                                    .way   = "read by the device",
                                    .why   = "the device reaches the memory, whatever the owner does"};
    return (ask->remote & CW_REMOTE_ACCESS) && ask->force != CW_FORCE_EAGER && ask->data == CW_DATA_CONTIG;
}

static void ended(struct cw_request *request, ucs_status_t status)
{
    cw_list_remove(&request->link);
    cw_request_complete(request, status);
}

static ucs_status_t read_some(struct cw_request *request, const struct cw_access_target *from)
{
    struct cw_get *get                    = cw_request_state(request);
    struct cw_access *access              = get->access;
    struct cw_conn *conn                  = request->ep->conn;
    const size_t left                     = get->cursor.length - get->cursor.offset;
    char *to                              = get->cursor.contig + get->cursor.offset;
    struct cw_access_iov iov;
    ucs_status_t status;
    size_t length;
    int in_place;

    length = cw_access_next_get(conn, access->use.memh, to, from->address, left, &in_place);
    if (length == 0) {
        return UCS_ERR_IO_ERROR; /* the device could do this when the get began */
    }
    iov    = (struct cw_access_iov){to, length, access->use.memh};
    status = in_place ? cw_lane_get_zcopy(conn, &iov, 1, from, 0, &access->completion)
                                    : cw_access_get_bcopy(access, conn, length, to, from);
    status = cw_access_taken(access, status);
    if (status == UCS_OK) {
        cw_dt_skip(&get->cursor, length);
    }
    return status;
}

static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct cw_access_target from;
    ucs_status_t status;

    while (get->cursor.offset < get->cursor.length) {
        if (!cw_rkey_target(get->rkey, request->ep->conn, get->address + get->cursor.offset, &from)) {
            return UCS_ERR_IO_ERROR; /* the device could do this when the get began */
        }
        status = read_some(request, &from);
        if (status != UCS_OK) {
            return status;
        }
    }
    status = cw_access_begun(get->access);
    if (status == UCS_INPROGRESS) {
        get->fetching = 1;
        cw_op_ep(request->ep)->rma->num_fetching++;
    }
    return status;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_get *get                    = cw_request_state(request);
    struct cw_rma *rma                    = cw_op_ep(request->ep)->rma;
    const struct cw_access_limits *limits = &request->ep->conn->iface->limits.access;
    ucs_status_t status                   = cw_rma_admit(rma, get->address, get->cursor.length, 0);

    if (status != UCS_OK) {
        return status;
    }
    get->access = cw_access_new(request, ended);
    if (get->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (get->cursor.length > limits->max_get_bcopy && limits->max_get_zcopy > 0 && limits->max_iov > 0) {
        cw_access_use(get->access, get->cursor.contig, get->cursor.length, CW_RIGHT_LOCAL_WRITE);
    }
    request->send = go_on;
    get->late     = 1;
    cw_rma_late_add(rma, get->address, get->cursor.length);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, get->cursor.length);
    return go_on(request);
}

const struct cw_protocol cw_proto_get_access = {.query = query, .start = start};
