/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatches received packets to their operations.
 */
#include "api/dispatch.h"

#include "am/am.h"
#include "base/probe.h"
#include "core/failover/failover.h"
#include "core/lanes.h"
#include "msg/credit.h"
#include "msg/reassembly.h"
#include "msg/msg.h"
#include "rma/put_list.h"
#include "rma/rma.h"
#include "rndv/bounce.h"
#include "rndv/recv.h"
#include "rndv/send.h"
#include "stream/stream.h"
#include "tag/tag.h"
#include "wire/packet.h"

typedef ucs_status_t (*packet_fn)(struct ucp_ep *ep, const void *data, size_t length);

static ucs_status_t peer_closed(struct ucp_ep *ep, const void *data CW_UNUSED, size_t length CW_UNUSED)
{
    cw_ep_peer_closed(ep);
    return UCS_OK;
}

static ucs_status_t peer_ended(struct ucp_ep *ep, const void *data CW_UNUSED, size_t length CW_UNUSED)
{
    cw_ep_peer_ended(ep);
    return UCS_OK;
}

static ucs_status_t stay(struct ucp_ep *ep, const void *data CW_UNUSED, size_t length CW_UNUSED)
{
    if (ep->cm == NULL || !ep->cm->is_server || !ep->cm->carries || ep->state != CW_EP_DIALING) {
        return UCS_ERR_IO_ERROR;
    }
    cw_ep_opened(ep, ep->conn);
    return UCS_OK;
}

#define EXACTLY(type)   sizeof(type), sizeof(type)
#define AT_LEAST(type)  sizeof(type), SIZE_MAX
#define MORE_THAN(type) sizeof(type) + 1, SIZE_MAX

/* A handler and the valid lengths of its packets; no handler gets another length. */
static const struct handler {
    packet_fn handle;
    size_t least, most;
} handlers[CW_PACKET_COUNT] = {
    [CW_PACKET_CLOSE] = {peer_closed, 0, SIZE_MAX},
    [CW_PACKET_END] = {peer_ended, 0, SIZE_MAX},
    [CW_PACKET_TAG_EAGER] = {cw_tag_on_eager, AT_LEAST(struct cw_wire_tag)},
    [CW_PACKET_TAG_SYNC] = {cw_tag_on_sync, AT_LEAST(struct cw_wire_tag_sync)},
    [CW_PACKET_TAG_FIRST] = {cw_tag_on_first, MORE_THAN(struct cw_wire_tag_first)},
    [CW_PACKET_NEXT] = {cw_reassembly_on_next, MORE_THAN(struct cw_wire_next)},
    [CW_PACKET_TAG_ACK] = {cw_tag_on_ack, EXACTLY(struct cw_wire_tag_ack)},
    [CW_PACKET_TAG_RTS] = {cw_tag_on_rts, AT_LEAST(struct cw_wire_tag_rts)},
    [CW_PACKET_RNDV_READY] = {cw_send_on_ready, AT_LEAST(struct cw_wire_rndv_ready)},
    [CW_PACKET_RNDV_DATA] = {cw_rndv_recv_on_data, MORE_THAN(struct cw_wire_rndv_data)},
    [CW_PACKET_RNDV_DONE] = {cw_send_on_done, EXACTLY(struct cw_wire_rndv_done)},
    [CW_PACKET_RNDV_COPIED] = {cw_rndv_recv_on_copied, EXACTLY(struct cw_wire_rndv_copied)},
    [CW_PACKET_TAG_CANCEL] = {cw_tag_on_cancel, EXACTLY(struct cw_wire_tag_cancel)},
    [CW_PACKET_CREDIT] = {cw_credit_on_packet, EXACTLY(struct cw_wire_credit)},
    [CW_PACKET_AM_EAGER] = {cw_am_on_eager, AT_LEAST(struct cw_wire_am)},
    [CW_PACKET_AM_FIRST] = {cw_am_on_first, AT_LEAST(struct cw_wire_am_first)},
    [CW_PACKET_AM_RTS] = {cw_am_on_rts, AT_LEAST(struct cw_wire_am_rts)},
    [CW_PACKET_STREAM_DATA] = {cw_stream_on_data, MORE_THAN(struct cw_wire_stream_data)},
    [CW_PACKET_STREAM_CREDIT] = {cw_stream_on_credit, EXACTLY(struct cw_wire_stream_credit)},
    [CW_PACKET_PUT] = {cw_rma_target_on_put, MORE_THAN(struct cw_wire_put)},
    [CW_PACKET_PUT_RTS] = {cw_rma_target_on_put_rts, EXACTLY(struct cw_wire_put_rts)},
    [CW_PACKET_GET] = {cw_rma_target_on_get, EXACTLY(struct cw_wire_get)},
    [CW_PACKET_GET_REFUSED] = {cw_get_on_refused, EXACTLY(struct cw_wire_get_refused)},
    [CW_PACKET_AMO] = {cw_amo_on_request, EXACTLY(struct cw_wire_amo)},
    [CW_PACKET_AMO_REPLY] = {cw_amo_on_reply, EXACTLY(struct cw_wire_amo_reply)},
    [CW_PACKET_FLUSH] = {cw_rma_on_flush, EXACTLY(struct cw_wire_flush)},
    [CW_PACKET_FLUSHED] = {cw_rma_on_flushed, EXACTLY(struct cw_wire_flushed)},
    [CW_PACKET_STAY] = {stay, EXACTLY(uint64_t)},
    [CW_PACKET_GET_DATA] = {cw_rndv_recv_on_whole, MORE_THAN(struct cw_wire_get_data)},
    [CW_PACKET_LANE] = {cw_lanes_on_packet, AT_LEAST(struct cw_wire_lane)},
    [CW_PACKET_PUT_LIST] = {cw_put_list_on_packet, AT_LEAST(struct cw_wire_put_list)},
    [CW_PACKET_RNDV_NAME] = {cw_rndv_recv_on_name, EXACTLY(struct cw_wire_rndv_name)},
    [CW_PACKET_RNDV_CHUNK] = {cw_rndv_recv_on_chunk, EXACTLY(struct cw_wire_rndv_chunk)},
    [CW_PACKET_RNDV_TAKEN] = {cw_bounce_on_taken, EXACTLY(struct cw_wire_rndv_taken)},
};

static CW_NOINLINE void handle(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
{
    const struct handler *handler;
    ucs_status_t status;

    if (cw_unlikely(ep->state != CW_EP_OPEN)) {
        if (ep->state == CW_EP_FAILED) {
            return;
        }
        if (ep->cm != NULL && id != CW_PACKET_STAY) {
            id = CW_PACKET_INVALID; /* the client has not chosen a connection yet */
        }
    }
    handler = &handlers[(id < CW_PACKET_COUNT) ? id : CW_PACKET_INVALID];
    status = cw_likely(handler->handle != NULL && length >= handler->least && length <= handler->most)
                 ? handler->handle(ep, data, length)
                 : UCS_ERR_IO_ERROR;
    if (cw_unlikely(status != UCS_OK)) {
        cw_op_refused(ep, id, length, status);
    }
}

static bool is_further(const struct ucp_ep *ep, const struct cw_conn *conn)
{
    return conn != ep->conn && conn != ep->loop_conn;
}

/* A further lane carries placed packets only, unless messages can move to it. Packets on a lane that the endpoint has
 * abandoned are ignored. */
static CW_COLD void packet_further(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    const ucs_status_t status = (ep->state == CW_EP_OPEN) ? cw_failover_on_packet(ep, conn, id, data, length) : UCS_OK;

    if (status != UCS_OK) {
        cw_op_refused(ep, id, length, status);
    }
}

/* Fast path: dispatches short and frequent packets without the table. */
void cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct ucp_ep *ep = conn->user;

    CW_PROBE(packet, ep, id, length);
    if (cw_unlikely(conn != ep->conn) && is_further(ep, conn)) {
        packet_further(ep, conn, id, data, length);
        return;
    }
    if (cw_likely(ep->state == CW_EP_OPEN)) {
        if (id == CW_PACKET_TAG_EAGER) {
            cw_tag_on_short(ep, id, data, length);
            return;
        }
        if (id == CW_PACKET_AM_EAGER) {
            cw_am_on_short(ep, id, data, length);
            return;
        }
        if (id == CW_PACKET_STREAM_DATA) {
            cw_stream_on_short(ep, id, data, length);
            return;
        }
    }
    handle(ep, id, data, length);
}

/* A further lane carries RNDV_DATA packets only. */
static unsigned place_further(struct ucp_ep *ep, const struct cw_conn *conn, uint8_t id, const void *header,
                              size_t length, struct iovec *iov)
{
    const unsigned count = (id == CW_PACKET_RNDV_DATA && cw_lanes_find(ep, conn) != NULL) ?
                           cw_rndv_recv_place(ep, header, length, iov) : 0;

    if (count > 0 && !cw_lanes_placing(ep, conn, id, header, length)) {
        cw_rndv_recv_unplaced(ep, header, length);
        return 0;
    }
    return count;
}

unsigned cw_op_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    struct ucp_ep *ep = conn->user;

    if (ep->state == CW_EP_FAILED) { /* the endpoint failed: the packet is not the peer's fault; the lane closes soon */
        cw_lane_abandon(conn);
        return 0;
    }
    if (ep->state != CW_EP_OPEN || length == 0) {
        return 0;
    }
    if (is_further(ep, conn)) {
        return place_further(ep, conn, id, header, length, iov);
    }
    switch (id) {
    case CW_PACKET_RNDV_DATA:
        return cw_rndv_recv_place(ep, header, length, iov);
    case CW_PACKET_NEXT:
        return cw_reassembly_place(ep, header, length, iov);
    case CW_PACKET_PUT_LIST:
        return cw_put_list_place(ep, header, length, iov);
    default:
        return 0;
    }
}

/* Packets triggered by the placed data are sent in one batch, on the message lane. */
static void placed_further(struct ucp_ep *ep, const struct cw_conn *conn, const void *header, size_t length)
{
    struct cw_conn *message_lane = ep->conn;
    const int batches = ep->state == CW_EP_OPEN && cw_lane_batches(message_lane);

    if (batches) {
        cw_lane_batch(message_lane, CW_BATCH_BEGIN);
    }
    cw_lanes_placed(ep, conn, header, length);
    cw_rndv_recv_placed(ep, header, length);
    if (batches) {
        cw_lane_batch(message_lane, CW_BATCH_END);
    }
}

void cw_op_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    struct ucp_ep *ep = conn->user;

    if (is_further(ep, conn)) {
        placed_further(ep, conn, header, length);
    } else if (id == CW_PACKET_NEXT) {
        cw_reassembly_placed(conn->user, header, length);
    } else if (id == CW_PACKET_PUT_LIST) {
        cw_put_list_placed(conn->user, header, length);
    } else {
        cw_rndv_recv_placed(conn->user, header, length);
    }
}

void cw_op_unplaced(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    if (id == CW_PACKET_RNDV_DATA) {
        cw_rndv_recv_unplaced(conn->user, header, length);
    } else {
        cw_ep_fail(conn->user, UCS_ERR_IO_ERROR); /* a packet that is sent in order is never lost */
    }
}
