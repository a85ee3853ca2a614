/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Boards of an endpoint for transfers that this side begins: which boards are in use, and the number of the transfer.
 */
#include "op/board.h"
#include "op/op_ep.h"

void cw_shares_begin(struct ucp_ep *ep, struct cw_shares *shares, int shared)
{
    struct cw_board *board;
    unsigned index = 0;

    cw_op_ep(ep)->board_generation = (cw_op_ep(ep)->board_generation % CW_BOARD_MAX_GENERATION) + 1;
    shares->generation             = cw_op_ep(ep)->board_generation;
    shares->claim        = &shares->alone[0];
    shares->done         = &shares->alone[1];
    shares->board        = CW_BOARDS;
    while (index < CW_BOARDS && (cw_op_ep(ep)->boards_used & (1u << index))) {
        index++;
    }
    if (shared && index < CW_BOARDS) {
        board            = cw_lane_board(ep->conn, 1, index);
        shares->claim    = &board->claim;
        shares->done     = &board->done;
        shares->board    = (uint8_t)index;
        cw_op_ep(ep)->boards_used |= (uint16_t)(1u << index);
    }
    cw_board_begin(shares->claim, shares->done, shares->generation);
}

void cw_shares_release(struct ucp_ep *ep, struct cw_shares *shares)
{
    if (shares->board < CW_BOARDS) {
        cw_op_ep(ep)->boards_used &= (uint16_t) ~(1u << shares->board);
        shares->board    = CW_BOARDS;
    }
}
