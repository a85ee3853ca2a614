/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put that the system copies into the owner's process: a short one at once, a longer one in shares, during progress,
 * of which the owner takes some if it makes progress, too (op/cma.h).
 */
#include "op/cma.h"
#include "op/put.h"
#include "proto/proto.h"
#include "proto/rma/cma.h"

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status  = cw_rma_admit_copy(cw_op_ep(request->ep)->rma, send->put.address, send->cursor.length, 1);

    if (status != UCS_OK) {
        return status;
    }
    send->no_copies = 1; /* should the request be started again */
    status          = cw_cma_now(request->ep, &send->put.rkey->key, send->put.address, &send->cursor, CW_CMA_PUT);
    if (status == UCS_OK) {
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SYSTEM, 0, send->cursor.length);
    }
    return status;
}

static void copied(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;

    send->phase = CW_SEND_QUEUED;
    rma->async_puts--;
    cw_list_remove(&request->link);
    if (status == UCS_OK) {
        cw_request_complete(request, UCS_OK);
        return;
    }
    cw_list_add_head(&rma->queue, &request->link); /* no later operation may overtake it */
    cw_rma_kick(rma);
}

static ucs_status_t start_shares(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;
    ucs_status_t status  = cw_rma_admit_copy(rma, send->put.address, send->cursor.length, 1);

    status = (status == UCS_OK) ? cw_dt_keep(&send->cursor) : status;
    if (status != UCS_OK) {
        return status;
    }
    send->no_copies = 1; /* should the request be started again */
    if (cw_cma_begin(request, &send->put.rkey->key, send->put.address, &send->cursor, CW_CMA_PUT, copied,
                     &send->copy) != UCS_OK) {
        return UCS_ERR_UNSUPPORTED;
    }
    send->phase = CW_SEND_COPYING;
    rma->async_puts++;
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SHARES, 0, send->cursor.length);
    return UCS_INPROGRESS;
}

const struct cw_protocol cw_proto_put_cma        = {.query = cw_cma_query, .start = start, .at_once = 1};
const struct cw_protocol cw_proto_put_cma_shares = {.query = cw_cma_query_shares, .start = start_shares};
