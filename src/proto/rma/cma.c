/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ways of rma/cma.h offer themselves where the key allows copies between processes.
 */
#include "proto/rma/cma.h"

#include "op/cma.h"

int cw_cma_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->last  = CW_CMA_CALL_BYTES;
    row->cost  = CW_COST_SYSTEM;
    row->fixed = 1;
    row->way   = "copy between processes";
    row->why   = "the system copies, whatever the owner does";
    return (ask->remote & CW_REMOTE_COPIES) != 0;
}

int cw_cma_query_shares(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->first = CW_CMA_CALL_BYTES + 1;
    row->cost  = CW_COST_SYSTEM;
    row->fixed = 1;
    row->way   = "copy between processes, in shares";
    row->why   = "during progress; the owner helps if it makes progress";
    return (ask->remote & CW_REMOTE_COPIES) && ask->force != CW_FORCE_EAGER;
}
