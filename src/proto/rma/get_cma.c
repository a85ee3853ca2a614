/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get that the system copies out of the owner's process: a short one at once, a longer one in shares, during
 * progress, of which the owner takes some if it makes progress, too (op/cma.h).
 */
#include "op/cma.h"
#include "op/get.h"
#include "proto/proto.h"
#include "proto/rma/cma.h"

static ucs_status_t start(struct cw_request *request)
{
    struct cw_get *get  = cw_request_state(request);
    ucs_status_t status = cw_rma_admit_copy(cw_op_ep(request->ep)->rma, get->address, get->cursor.length, 0);

    if (status != UCS_OK) {
        return status;
    }
    get->no_copies = 1; /* should the request be started again */
    status         = cw_cma_now(request->ep, &get->rkey->key, get->address, &get->cursor, CW_CMA_GET);
    if (status == UCS_OK) {
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SYSTEM, 0, get->cursor.length);
    }
    return status;
}

static void copied(struct cw_request *request, ucs_status_t status)
{
    struct cw_get *get = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    get->copy = NULL;
    get->late = 0;
    cw_rma_late_remove(rma);
    cw_list_remove(&request->link);
    if (status == UCS_OK) {
        cw_request_complete(request, UCS_OK);
        return;
    }
    cw_list_add_head(&rma->queue, &request->link); /* writes must not overtake it */
    cw_rma_kick(rma);
}

static ucs_status_t start_shares(struct cw_request *request)
{
    struct cw_get *get  = cw_request_state(request);
    struct cw_rma *rma  = cw_op_ep(request->ep)->rma;
    ucs_status_t status = cw_rma_admit_copy(rma, get->address, get->cursor.length, 0);

    status = (status == UCS_OK) ? cw_dt_keep(&get->cursor) : status;
    if (status != UCS_OK) {
        return status;
    }
    get->no_copies = 1; /* should the request be started again */
    if (cw_cma_begin(request, &get->rkey->key, get->address, &get->cursor, CW_CMA_GET, copied, &get->copy) != UCS_OK) {
        return UCS_ERR_UNSUPPORTED;
    }
    get->late = 1;
    cw_rma_late_add(rma, get->address, get->cursor.length);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SHARES, 0, get->cursor.length);
    return UCS_INPROGRESS;
}

const struct cw_protocol cw_proto_get_cma        = {.query = cw_cma_query, .start = start, .at_once = 1};
const struct cw_protocol cw_proto_get_cma_shares = {.query = cw_cma_query_shares, .start = start_shares};
