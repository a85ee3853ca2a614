/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put to memory that is mapped here, by stores. A put of plain bytes needs no request: the call carries it out
 * (abi/rma.c).
 */
#include "op/put.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost  = CW_COST_MEMORY;
    row->fixed = 1;
    row->way   = "store";
    row->why   = "the memory is mapped here";
    return (ask->remote & CW_REMOTE_MAPPED) != 0;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const size_t length  = send->cursor.length;
    char *to             = cw_rkey_direct(send->put.rkey, send->put.address, CW_KEY_WRITE);
    ucs_status_t status;

    if (cw_unlikely(to == NULL)) {
        return UCS_ERR_UNSUPPORTED; /* the memory is not registered any more; the next choice of a protocol sees that as
                                     * well */
    }
    status = cw_rma_admit(cw_op_ep(request->ep)->rma, send->put.address, length, 1);
    if (status == UCS_OK) {
        (void)cw_dt_pack(&send->cursor, to, length);
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_MAPPED, 0, length);
    }
    return status;
}

const struct cw_protocol cw_proto_put_mapped = {.query = query, .start = start, .at_once = 1};
