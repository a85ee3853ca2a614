/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get from memory that is mapped here, by loads. A get of plain bytes needs no request: the call carries it out
 * (abi/rma.c).
 */
#include "op/get.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost  = CW_COST_MEMORY;
    row->fixed = 1;
    row->way   = "load";
    row->why   = "the memory is mapped here";
    return (ask->remote & CW_REMOTE_MAPPED) != 0;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_get *get  = cw_request_state(request);
    const char *from    = cw_rkey_direct(get->rkey, get->address, CW_KEY_READ);
    ucs_status_t status = UCS_ERR_UNSUPPORTED; /* the memory is not registered any more; the next choice of a protocol
                                                * sees that as well */

    if (cw_likely(from != NULL)) {
        status = cw_rma_admit(cw_op_ep(request->ep)->rma, get->address, get->cursor.length, 0);
    }
    if (status == UCS_OK) {
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_MAPPED, 0, get->cursor.length);
        status = cw_dt_unpack(&get->cursor, from, get->cursor.length);
    }
    return status;
}

const struct cw_protocol cw_proto_get_mapped = {.query = query, .start = start, .at_once = 1};
