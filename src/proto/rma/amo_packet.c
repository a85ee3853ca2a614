/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An atomic operation that the owner's processor carries out when a packet asks for it. A posting one is complete when
 * the transport has taken the packet, a fetching one when AMO_REPLY comes.
 */
#include "op/amo.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask CW_UNUSED, struct cw_protocol_row *row)
{
    row->way = "packet to the owner";
    row->why = "the owner's processor carries it out";
    return 1;
}

static ucs_status_t send_fetching(struct cw_request *request)
{
    struct cw_amo *amo = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status;
    uint64_t id;

    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_HOLD;
    }
    status = cw_idmap_add(&request->worker->ids, request, &id);
    if (status != UCS_OK) {
        return status;
    }
    amo->packet.reply_id = htole64(id);
    status               = cw_amo_send(request->ep->conn, amo);
    if (status != UCS_OK) {
        cw_idmap_remove(&request->worker->ids, id);
        amo->packet.reply_id = 0;
        return status;
    }
    rma->replies++;
    return UCS_INPROGRESS;
}

static ucs_status_t start(struct cw_request *request)
{
    const struct cw_amo *amo = cw_request_state(request);
    ucs_status_t status      = cw_rma_admit_packets(cw_op_ep(request->ep)->rma, cw_amo_address(amo), amo->packet.size);

    if (status != UCS_OK) {
        return status;
    }
    status = (amo->reply == NULL) ? cw_amo_send_posted(request->ep, amo) : send_fetching(request);
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_COPIED, 0, amo->packet.size);
    }
    return status;
}

const struct cw_protocol cw_proto_amo_packet = {.query = query, .start = start};
