/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long gets that the system could copy, asked for in parts, each of them a short get (op/get.h): an owner in progress
 * then copies while the asker does, and has to keep no more for it than for short ones (docs/RMA.md). Invariant: `left`
 * counts the parts that are not over, and one more as long as they are posted. The program's request is on no list and
 * waits for its parts alone, which end with the endpoint.
 */
#include "op/copy.h"
#include "op/get.h"

/* Longer ones are copied by the system, which is as fast there and takes fewer requests. */
#define MOST_BYTES (UINT64_C(4) << 20)

struct parts {
    size_t left;
    ucs_status_t status;        /* of the first that failed */
};

static void note(struct parts *parts, ucs_status_t status)
{
    if (parts->status == UCS_OK) {
        parts->status = status;
    }
}

static void part_done(void *request, ucs_status_t status, void *user_data)
{
    struct cw_request *whole = user_data;
    struct parts *parts      = cw_request_state(whole);

    (void)request;
    note(parts, status);
    if (--parts->left == 0) {
        cw_request_complete(whole, parts->status);
    }
}

int cw_get_has_parts(struct ucp_ep *ep, uint64_t length, uint64_t address, const struct ucp_rkey *rkey,
                     const ucp_request_param_t *param)
{
    return length > CW_RMA_QUICK && length <= MOST_BYTES && !(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) &&
           (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) || cw_dt_is_contig(param->datatype)) &&
           cw_ep_ready(ep) && (cw_op_ep(ep)->rma == NULL || cw_op_ep(ep)->rma->absent == 0) &&
           ep->conn->iface->limits.max_placed == 0 && cw_rkey_direct(rkey, address, CW_KEY_READ) == NULL &&
           cw_copy_is_possible(ep, &rkey->key);
}

/* Posts them; they may end meanwhile. */
static void post(struct ucp_ep *ep, struct cw_request *whole, char *buffer, uint64_t length, uint64_t address,
                 struct ucp_rkey *rkey)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send      = part_done,
                                       .user_data    = whole};
    struct parts *parts             = cw_request_state(whole);
    uint64_t offset, part;
    ucs_status_ptr_t result;

    for (offset = 0; offset < length && parts->status == UCS_OK; offset += part) {
        part = (length - offset < CW_RMA_QUICK) ? length - offset : CW_RMA_QUICK;
        if (ep->state == CW_EP_FAILED) {
            note(parts, ep->status);
            return;
        }
        result = cw_get_request(ep, buffer + offset, part, address + offset, rkey, &param);
        if (UCS_PTR_IS_PTR(result)) {
            parts->left++;
            cw_request_release(cw_request_of(result), 1);
        } else {
            note(parts, UCS_PTR_STATUS(result));
        }
    }
}

ucs_status_ptr_t cw_get_in_parts(struct ucp_ep *ep, void *buffer, uint64_t length, uint64_t address,
                                 struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    struct cw_request *whole = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    struct parts *parts;
    ucs_status_t status;

    if (whole == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    parts  = cw_request_state(whole);
    *parts = (struct parts){.left = 1, .status = UCS_OK};
    cw_trace_note(whole, CW_TRACE_BEGIN, CW_COUNT_GET_RECEIVED, 0, length);
    cw_trace_note(whole, CW_TRACE_WAY, CW_TRACE_PARTS, 0, length);
    post(ep, whole, buffer, length, address, rkey);
    if (--parts->left > 0) {
        return cw_request_handle(whole);
    }
    status = parts->status;
    if (status == UCS_OK && (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
        cw_request_complete(whole, UCS_OK);
        return cw_request_handle(whole);
    }
    cw_request_put(whole);
    return UCS_STATUS_PTR(status);
}
