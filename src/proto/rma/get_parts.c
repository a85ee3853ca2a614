/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A long get that the system could copy, asked for in parts, each of them a short get. An owner in progress then copies
 * while the origin does, and keeps no more memory for a part than for any short get (docs/change/one-sided.md).
 * Invariant: `left` counts the parts that are not complete, and one more while they are being posted. The request of
 * the whole get is on no list and waits for its parts alone; they end with the endpoint. Used only where nothing is
 * queued, so that no fence comes between the request and its parts.
 */
#include "op/get.h"
#include "proto/proto.h"

/* The system copies a longer get, which is as fast there and takes fewer requests. */
#define MOST_BYTES (4u << 20)

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->first = CW_RMA_QUICK + 1;
    row->last  = MOST_BYTES;
    row->cost  = cw_protocol_cost(ask->lanes, 2);
    row->way   = "requests of 64 KiB, copied if they are late";
    row->why   = "owner and asker copy at the same time";
    return cw_get_asks_first(ask);
}

static void note(struct cw_get *whole, ucs_status_t status)
{
    if (whole->parts.status == UCS_OK) {
        whole->parts.status = status;
    }
}

static void part_done(void *request CW_UNUSED, ucs_status_t status, void *user_data)
{
    struct cw_get *whole = cw_request_state((struct cw_request *)user_data);

    note(whole, status);
    if (--whole->parts.left == 0) {
        cw_request_complete(user_data, whole->parts.status);
    }
}

/* Posts the parts; they may complete meanwhile. */
static ucs_status_t start(struct cw_request *request)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send      = part_done,
                                       .user_data    = request};
    struct cw_get *whole            = cw_request_state(request);
    const uint64_t length           = whole->cursor.length;
    uint64_t offset, part;
    ucs_status_ptr_t result;

    if (cw_op_ep(request->ep)->rma->running) {
        whole->declined = 1;
        return UCS_ERR_UNSUPPORTED;
    }
    whole->parts.left   = 1;
    whole->parts.status = UCS_OK;
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_PARTS, 0, length);
    for (offset = 0; offset < length && whole->parts.status == UCS_OK; offset += part) {
        part   = (length - offset < CW_RMA_QUICK) ? length - offset : CW_RMA_QUICK;
        result = (request->ep->state == CW_EP_FAILED) ? UCS_STATUS_PTR(request->ep->status)
                                                      : cw_get_request(request->ep, whole->cursor.contig + offset, part,
                                                                       whole->address + offset, whole->rkey, &param);
        if (UCS_PTR_IS_PTR(result)) {
            whole->parts.left++;
            cw_request_release(cw_request_of(result), 1);
        } else {
            note(whole, UCS_PTR_STATUS(result));
        }
    }
    return (--whole->parts.left > 0) ? CW_RMA_OWNED : whole->parts.status;
}

const struct cw_protocol cw_proto_get_parts = {.query = query, .start = start};
