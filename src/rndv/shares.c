/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Claim pairs of an endpoint for transfers that this side begins: which claim pairs are in use, and the number of the
 * transfer.
 */
#include "core/lane_copies.h"
#include "msg/op_ep.h"
#include "rndv/shares.h"

void cw_shares_begin(struct ucp_ep *ep, struct cw_shares *shares, int shared)
{
    struct cw_claim_pair *pair;
    unsigned index = 0;

    cw_op_ep(ep)->pair_generation = (cw_op_ep(ep)->pair_generation % CW_CLAIM_MAX_GENERATION) + 1;
    shares->generation = cw_op_ep(ep)->pair_generation;
    shares->claim = &shares->alone[0];
    shares->done = &shares->alone[1];
    shares->pair = CW_CLAIM_PAIRS;
    while (index < CW_CLAIM_PAIRS && (cw_op_ep(ep)->pairs_used & (1u << index))) {
        index++;
    }
    if (shared && index < CW_CLAIM_PAIRS) {
        pair = cw_lane_claim_pair(ep->conn, 1, index);
        shares->claim = &pair->claim;
        shares->done = &pair->done;
        shares->pair = (uint8_t)index;
        cw_op_ep(ep)->pairs_used |= (uint16_t)(1u << index);
    }
    cw_claim_begin(shares->claim, shares->done, shares->generation);
}

void cw_shares_release(struct ucp_ep *ep, struct cw_shares *shares)
{
    if (shares->pair < CW_CLAIM_PAIRS) {
        cw_op_ep(ep)->pairs_used &= (uint16_t) ~(1u << shares->pair);
        shares->pair = CW_CLAIM_PAIRS;
    }
}
