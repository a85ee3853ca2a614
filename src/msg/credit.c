/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CREDIT packet of msg/credit.h, at the receiver and at the sender.
 */
#include "msg/credit.h"

#include "wire/packet.h"

void cw_credit_send(struct ucp_ep *ep)
{
    const struct cw_wire_credit packet = {.consumed =
                                              htole64(cw_op_ep(ep)->credit.reported + cw_op_ep(ep)->credit.unreported)};

    cw_op_ep(ep)->credit.reported += cw_op_ep(ep)->credit.unreported;
    cw_op_ep(ep)->credit.unreported = 0;
    cw_ep_send_control(ep, CW_PACKET_CREDIT, &packet, sizeof(packet));
}

ucs_status_t cw_credit_on_packet(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_credit packet;

    memcpy(&packet, data, sizeof(packet));
    packet.consumed = le64toh(packet.consumed);
    if (packet.consumed < cw_op_ep(ep)->credit.acked ||
        packet.consumed - cw_op_ep(ep)->credit.acked > cw_op_ep(ep)->credit.flying) {
        return UCS_ERR_IO_ERROR;
    }
    cw_op_ep(ep)->credit.flying -= packet.consumed - cw_op_ep(ep)->credit.acked;
    cw_op_ep(ep)->credit.acked = packet.consumed;
    return UCS_OK;
}
