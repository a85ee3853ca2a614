/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An atomic operation on memory that is mapped here, by our processor. Without a request the call makes it (cw_amo).
 */
#include "op/amo.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost  = CW_COST_MEMORY;
    row->fixed = 1;
    row->way   = "this processor";
    row->why   = "the memory is mapped here";
    return (ask->remote & CW_REMOTE_MAPPED) != 0;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_amo *amo  = cw_request_state(request);
    char *word          = cw_amo_word(amo->rkey, cw_amo_address(amo), amo->packet.size);
    ucs_status_t status = UCS_ERR_UNSUPPORTED; /* the memory is not registered any more; the next choice of a protocol
                                                * sees that as well */

    if (cw_likely(word != NULL)) {
        status = cw_rma_admit(cw_op_ep(request->ep)->rma, cw_amo_address(amo), amo->packet.size, 1);
    }
    if (status == UCS_OK) {
        cw_amo_carry_out(amo, word);
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_MAPPED, 0, amo->packet.size);
    }
    return status;
}

const struct cw_protocol cw_proto_amo_mapped = {.query = query, .start = start, .at_once = 1};
