/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rma/cma.h. A long copy is made in parts, each of which checks the validity word again: after the
 * target invalidates the memory, at most one more part is written.
 */
#include "rma/cma.h"

#include "core/lane_copies.h"

#define PART_BYTES ((size_t)1 << 20)

static CW_COLD bool is_ready_unopened(struct ucp_ep *ep)
{
    if (ep->state == CW_EP_IDLE) {
        cw_ep_dial(ep);
    }
    return ep->state == CW_EP_DIALING && ep->conn != NULL && cw_lane_can_copy(ep->conn);
}

bool cw_cma_is_ready(struct ucp_ep *ep)
{
    return cw_likely(ep->state == CW_EP_OPEN) ? cw_lane_can_copy(ep->conn) : is_ready_unopened(ep);
}

bool cw_cma_is_possible(struct ucp_ep *ep, const struct cw_key *key)
{
    return key->validity != 0 && cw_cma_is_ready(ep);
}

ucs_status_t cw_cma_copy(struct ucp_ep *ep, const struct cw_key *key, uint64_t address, struct cw_dt_cursor *cursor,
                         enum cw_cma_direction direction)
{
    const struct cw_validity validity = {.address = key->validity, .value = key->token};
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_t status;
    unsigned count;
    size_t part;

    while (cursor->offset < cursor->length) {
        part = cursor->length - cursor->offset;
        count = cw_dt_window(cursor, (part < PART_BYTES) ? part : PART_BYTES, iov, CW_PLACE_MAX_IOV, &part);
        status = (direction == CW_CMA_PUT) ? cw_lane_copy_to(ep->conn, iov, count, address + cursor->offset, &validity)
                                     : cw_lane_copy_from(ep->conn, iov, count, address + cursor->offset, &validity);
        if (status != UCS_OK) {
            cw_dt_rewind(cursor);
            return UCS_ERR_UNSUPPORTED;
        }
        cw_dt_skip(cursor, part);
    }
    if (cw_unlikely(ep->state != CW_EP_OPEN)) {
        ep->peer->direct = 1; /* a flush of nothing else need not wait for the peer's answer */
    }
    return UCS_OK;
}

ucs_status_t cw_cma_start(struct cw_request *request, const struct cw_key *key, uint64_t address,
                          struct cw_dt_cursor *cursor, enum cw_cma_direction direction)
{
    ucs_status_t status;

    status = cw_rma_admit(cw_op_ep(request->ep)->rma, address, cursor->length, direction == CW_CMA_PUT);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_cma_copy(request->ep, key, address, cursor, direction);
    if (status == UCS_OK) {
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_SYSTEM, 0, cursor->length);
    }
    return status;
}
