/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short puts by the device of the message lane, without a request: their bytes are inlined in the work request, so the
 * program may reuse its buffer when the call returns. Invariant: rma->unflushed is set while the device has such puts
 * for which no flush has begun. The lane must be ordered, since only a flush of the lane reports their completion.
 */
#include "access/access.h"
#include "rma/put.h"

struct device_flush {
    struct cw_access *access;
    uint32_t generation;
};

_Static_assert(sizeof(struct device_flush) <= CW_REQUEST_STATE_SIZE, "state fits the request");

ucs_status_t cw_put_short(struct ucp_ep *ep, const void *buffer, size_t length, uint64_t address,
                          const struct ucp_rkey *rkey)
{
    const struct cw_access_limits *limits = &ep->conn->iface->limits.access;
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    struct cw_access_target to;
    ucs_status_t status;

    if (!limits->in_order || length > limits->max_put_short || !cw_rma_confirmed(rma) ||
        !cw_rkey_target(rkey, ep->conn, address, &to)) {
        return CW_AGAIN;
    }
    status = cw_lane_put_short(ep->conn, buffer, length, &to, 0, NULL);
    if (status != UCS_INPROGRESS) {
        return status;
    }
    rma->unflushed = 1;
    cw_ep_add_flush_rma(ep);
    return UCS_OK;
}

static void release(struct cw_request *request)
{
    struct device_flush *flush = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    if (flush->access != NULL) {
        cw_access_free(flush->access);
        if (rma != NULL) {
            rma->async_puts--;
        }
    }
    cw_rma_end(request->ep, flush->generation);
}

/* The program's next flush returns the status of a refused put. */
static void ended(struct cw_request *request, ucs_status_t status)
{
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    cw_list_remove(&request->link);
    if (status != UCS_OK && rma != NULL) {
        rma->error = status;
    }
    cw_request_complete(request, status);
}

static ucs_status_t attempt(struct cw_request *request)
{
    struct device_flush *flush = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status;

    if (flush->access == NULL) {
        flush->access = cw_access_new(request, ended);
        if (flush->access == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        rma->async_puts++;
    }
    status = cw_access_taken(flush->access,
                             cw_lane_access_flush(request->ep->conn, &flush->access->completion));
    return (status == UCS_OK) ? cw_access_begun(flush->access) : status;
}

ucs_status_t cw_put_short_flush(struct cw_rma *rma)
{
    struct cw_request *request;
    struct device_flush *flush;
    ucs_status_ptr_t result;

    if (cw_likely(!rma->unflushed)) {
        return UCS_OK;
    }
    request = cw_request_get(rma->ep->worker, NULL, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    flush = cw_request_state(request);
    *flush = (struct device_flush){.generation = cw_rma_begin(rma)};
    request->ep = rma->ep;
    request->send = attempt;
    request->release = release;
    result = cw_rma_post(request, 0, CW_RMA_AT_ONCE, NULL);
    if (UCS_PTR_IS_ERR(result)) {
        return UCS_PTR_STATUS(result);
    }
    if (result != NULL) {
        cw_request_release(request, 0);
    }
    rma->unflushed = 0;
    return UCS_OK;
}
