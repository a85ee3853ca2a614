/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put or get that the system copies between the processes in the attempt, at every length (op/cma.h).
 */
#include "op/cma.h"
#include "op/get.h"
#include "op/put.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost  = CW_COST_SYSTEM;
    row->fixed = 1;
    row->way   = "copy between processes";
    row->why   = "the system copies, whatever the owner does";
    return (ask->remote & CW_REMOTE_COPIES) != 0;
}

static ucs_status_t copy(struct cw_request *request, const struct ucp_rkey *rkey, uint64_t address,
                         struct cw_dt_cursor *cursor, enum cw_cma_way way)
{
    ucs_status_t status;

    status = cw_rma_admit(cw_op_ep(request->ep)->rma, address, cursor->length, way == CW_CMA_PUT);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_cma_copy(request->ep, &rkey->key, address, cursor, way);
    if (status == UCS_OK) {
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SYSTEM, 0, cursor->length);
    }
    return status;
}

static ucs_status_t start_put(struct cw_request *request)
{
    struct cw_send *send      = cw_request_state(request);
    const ucs_status_t status = copy(request, send->put.rkey, send->put.address, &send->cursor, CW_CMA_PUT);

    send->no_copies = status == UCS_ERR_UNSUPPORTED;
    return status;
}

static ucs_status_t start_get(struct cw_request *request)
{
    struct cw_get *get        = cw_request_state(request);
    const ucs_status_t status = copy(request, get->rkey, get->address, &get->cursor, CW_CMA_GET);

    get->no_copies = status == UCS_ERR_UNSUPPORTED;
    return status;
}

const struct cw_protocol cw_proto_put_cma = {.query = query, .start = start_put, .at_once = 1};
const struct cw_protocol cw_proto_get_cma = {.query = query, .start = start_get, .at_once = 1};
