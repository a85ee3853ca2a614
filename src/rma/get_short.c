/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short gets of contiguous bytes by the device of the message lane, through bounce buffers of the transport. Such a get
 * is a single access with its own completion and needs no struct cw_access. It counts as late and as fetching from the
 * call to its end.
 */
#include "access/access.h"
#include "base/bytes.h"
#include "core/ep_batch.h"
#include "rma/cma.h"
#include "rma/get.h"

struct short_get {
    struct cw_completion completion;
    void *to;
    uint32_t generation;
};

_Static_assert(sizeof(struct short_get) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static void unpack(const void *data, size_t length, void *arg)
{
    const struct short_get *get = arg;

    cw_bytes_copy_any(get->to, data, length);
}

static void done(struct cw_completion *completion, ucs_status_t status)
{
    struct short_get *get = cw_container_of(completion, struct short_get, completion);
    struct cw_request *request = (struct cw_request *)(void *)get - 1;

    request->outstanding--;
    cw_list_remove(&request->link);
    cw_request_complete(request, status);
}

static void release(struct cw_request *request)
{
    const struct short_get *get = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    if (rma != NULL) {
        rma->late.fetching--;
        cw_rma_late_remove(rma);
    }
    cw_rma_end(request->ep, get->generation);
}

/* Whether nothing has to precede the get, and the protocol selection would choose a read by the device (rma/get.c). */
static bool is_open(struct ucp_ep *ep, size_t length, const struct ucp_rkey *rkey)
{
    const struct cw_rma *rma = (cw_ep_ready(ep) && !cw_ep_collects(ep)) ? cw_rma_get(ep) : NULL;

    return rma != NULL && !rma->running && cw_list_empty(&rma->queue) && cw_rma_confirmed(rma) &&
           length <= ep->conn->iface->limits.access.max_get_bcopy && !cw_cma_is_possible(ep, &rkey->key);
}

ucs_status_ptr_t cw_get_short(struct ucp_ep *ep, void *buffer, size_t length, uint64_t address,
                              const struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    struct cw_access_target from;
    struct cw_request *request;
    struct short_get *get;
    ucs_status_t status;

    if (!is_open(ep, length, rkey) || !cw_rkey_target(rkey, ep->conn, address, &from)) {
        return NULL;
    }
    request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    get = cw_request_state(request);
    *get = (struct short_get){.completion.done = done, .to = buffer};
    request->ep = ep;
    status = cw_lane_get_bcopy(ep->conn, length, unpack, get, &from, 0, &get->completion);
    if (status != UCS_INPROGRESS) { /* the slow path waits, or reports the failure */
        cw_request_put(request);
        return NULL;
    }
    get->generation = cw_rma_begin(cw_op_ep(ep)->rma);
    request->release = release;
    request->flags |= CW_REQUEST_TYPED; /* host memory */
    request->outstanding++;
    cw_list_add_tail(&ep->inflight, &request->link);
    cw_op_ep(ep)->rma->late.fetching++;
    cw_rma_late_add(cw_op_ep(ep)->rma, address, length);
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_GET_RECEIVED, 0, length);
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, length);
    return cw_request_handle(request);
}
