/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the copies between processes offer themselves, for puts and for gets: a short one within the call, a longer one
 * in shares.
 */
#ifndef CW_PROTO_RMA_CMA_H
#define CW_PROTO_RMA_CMA_H

#include "plan/protocol.h"

int cw_cma_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row);
int cw_cma_query_shares(const struct cw_protocol_ask *ask, struct cw_protocol_row *row);

#endif
