/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dispatch of packets that arrive, and the beginning and the end of the state that op/ keeps in a worker.
 */
#include "op/op.h"

#include <stdlib.h>

#include "base/counter.h"
#include "base/log.h"
#include "base/probe.h"
#include "core/ep_kept.h"
#include "core/failover/failover.h"
#include "core/lanes.h"
#include "op/chunk_table.h"
#include "op/chunks.h"
#include "op/credit.h"
#include "op/rndv_recv.h"
#include "op/shares.h"
#include "op/near.h"
#include "op/put_list.h"
#include "op/rma.h"
#include "op/send.h"
#include "op/tag.h"
#include "os/random.h"
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

/* A handler and the lengths of its packets; no handler sees another length. */
static const struct handler {
    packet_fn handle;
    size_t least, most;
} handlers[CW_PACKET_COUNT] = {
    [CW_PACKET_CLOSE]         = {peer_closed, 0, SIZE_MAX},
    [CW_PACKET_END]           = {peer_ended, 0, SIZE_MAX},
    [CW_PACKET_TAG_EAGER]     = {cw_tag_on_eager, AT_LEAST(struct cw_wire_tag)},
    [CW_PACKET_TAG_SYNC]      = {cw_tag_on_sync, AT_LEAST(struct cw_wire_tag_sync)},
    [CW_PACKET_TAG_FIRST]     = {cw_tag_on_first, MORE_THAN(struct cw_wire_tag_first)},
    [CW_PACKET_NEXT]          = {cw_incoming_on_next, MORE_THAN(struct cw_wire_next)},
    [CW_PACKET_TAG_ACK]       = {cw_tag_on_ack, EXACTLY(struct cw_wire_tag_ack)},
    [CW_PACKET_TAG_RTS]       = {cw_tag_on_rts, AT_LEAST(struct cw_wire_tag_rts)},
    [CW_PACKET_RNDV_READY]    = {cw_send_on_ready, AT_LEAST(struct cw_wire_rndv_ready)},
    [CW_PACKET_RNDV_DATA]     = {cw_rndv_recv_on_data, MORE_THAN(struct cw_wire_rndv_data)},
    [CW_PACKET_RNDV_DONE]     = {cw_send_on_done, EXACTLY(struct cw_wire_rndv_done)},
    [CW_PACKET_RNDV_COPIED]   = {cw_rndv_recv_on_copied, EXACTLY(struct cw_wire_rndv_copied)},
    [CW_PACKET_TAG_CANCEL]    = {cw_tag_on_cancel, EXACTLY(struct cw_wire_tag_cancel)},
    [CW_PACKET_CREDIT]        = {cw_credit_on_packet, EXACTLY(struct cw_wire_credit)},
    [CW_PACKET_AM_EAGER]      = {cw_am_on_eager, AT_LEAST(struct cw_wire_am)},
    [CW_PACKET_AM_FIRST]      = {cw_am_on_first, AT_LEAST(struct cw_wire_am_first)},
    [CW_PACKET_AM_RTS]        = {cw_am_on_rts, AT_LEAST(struct cw_wire_am_rts)},
    [CW_PACKET_STREAM_DATA]   = {cw_stream_on_data, MORE_THAN(struct cw_wire_stream_data)},
    [CW_PACKET_STREAM_CREDIT] = {cw_stream_on_credit, EXACTLY(struct cw_wire_stream_credit)},
    [CW_PACKET_PUT]           = {cw_rma_target_on_put, MORE_THAN(struct cw_wire_put)},
    [CW_PACKET_PUT_RTS]       = {cw_rma_target_on_put_rts, EXACTLY(struct cw_wire_put_rts)},
    [CW_PACKET_GET]           = {cw_rma_target_on_get, EXACTLY(struct cw_wire_get)},
    [CW_PACKET_GET_REFUSED]   = {cw_get_on_refused, EXACTLY(struct cw_wire_get_refused)},
    [CW_PACKET_AMO]           = {cw_amo_on_request, EXACTLY(struct cw_wire_amo)},
    [CW_PACKET_AMO_REPLY]     = {cw_amo_on_reply, EXACTLY(struct cw_wire_amo_reply)},
    [CW_PACKET_FLUSH]         = {cw_rma_on_flush, EXACTLY(struct cw_wire_flush)},
    [CW_PACKET_FLUSHED]       = {cw_rma_on_flushed, EXACTLY(struct cw_wire_flushed)},
    [CW_PACKET_STAY]          = {stay, EXACTLY(uint64_t)},
    [CW_PACKET_GET_DATA]      = {cw_rndv_recv_on_whole, MORE_THAN(struct cw_wire_get_data)},
    [CW_PACKET_LANE]          = {cw_lanes_on_packet, AT_LEAST(struct cw_wire_lane)},
    [CW_PACKET_PUT_LIST]      = {cw_put_list_on_packet, AT_LEAST(struct cw_wire_put_list)},
    [CW_PACKET_RNDV_NAME]     = {cw_rndv_recv_on_name, EXACTLY(struct cw_wire_rndv_name)},
    [CW_PACKET_RNDV_CHUNK]    = {cw_rndv_recv_on_chunk, EXACTLY(struct cw_wire_rndv_chunk)},
    [CW_PACKET_RNDV_TAKEN]    = {cw_chunks_on_taken, EXACTLY(struct cw_wire_rndv_taken)},
};

CW_COLD void cw_op_refused(struct ucp_ep *ep, uint8_t id, size_t length, ucs_status_t status)
{
    static struct cw_log_limit limit;

    if (status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT) {
        cw_ep_fail(ep, status); /* the packet is correct; the peer is gone or stands still */
        return;
    }
    cw_log_ratelimited(&limit, CW_LOG_ERROR,
                       "a packet (id %u, %zu bytes) from worker %016llx cannot be taken: %s; its connection is closed",
                       id, length, (unsigned long long)cw_ep_peer_uid(ep),
                       (status == UCS_ERR_NO_MEMORY)     ? "no memory" :
                       (status == UCS_ERR_EXCEEDS_LIMIT) ? "it makes us keep more than UCX_PEER_MEMORY" :
                                                           "it breaks the protocol");
    cw_count(ep->worker, CW_COUNT_BAD_PACKETS, 1);
    cw_ep_fail(ep, status);
}

CW_APART void cw_op_handle(struct ucp_ep *ep, uint8_t id, const void *data, size_t length)
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
    status  = cw_likely(handler->handle != NULL && length >= handler->least && length <= handler->most)
                  ? handler->handle(ep, data, length)
                  : UCS_ERR_IO_ERROR;
    if (cw_unlikely(status != UCS_OK)) {
        cw_op_refused(ep, id, length, status);
    }
}

static int is_further(const struct ucp_ep *ep, const struct cw_conn *conn)
{
    return conn != ep->conn && conn != ep->loop_conn;
}

/* A further lane carries placed packets only, unless messages can move to it. Packets on a lane that the endpoint has
 * given up are ignored. */
static CW_COLD void packet_further(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    const ucs_status_t status = (ep->state == CW_EP_OPEN) ? cw_failover_on_packet(ep, conn, id, data, length) : UCS_OK;

    if (status != UCS_OK) {
        cw_op_refused(ep, id, length, status);
    }
}

/* Handles short and frequent packets without the table. */
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
    cw_op_handle(ep, id, data, length);
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
    return (id == CW_PACKET_RNDV_DATA) ? cw_rndv_recv_place(ep, header, length, iov) :
           (id == CW_PACKET_NEXT) ? cw_incoming_place(ep, header, length, iov) :
           (id == CW_PACKET_PUT_LIST) ? cw_put_list_place(ep, header, length, iov) : 0;
}

/* Packets that follow from the placed data leave in one batch, on the message lane. */
static void placed_further(struct ucp_ep *ep, const struct cw_conn *conn, const void *header, size_t length)
{
    struct cw_conn *message_lane = ep->conn;
    const int batches            = ep->state == CW_EP_OPEN && cw_lane_batches(message_lane);

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
        cw_incoming_placed(conn->user, header, length);
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

int cw_op_leave(struct ucp_worker *worker, uint64_t bytes)
{
    static struct cw_log_limit limit;
    struct cw_op_state *state = cw_op_state(worker);

    if (state->left + bytes > cw_kept_limit(worker)) {
        cw_log_ratelimited(&limit, CW_LOG_WARN, "worker %s: peers that are gone have left more messages than "
                           "UCX_PEER_MEMORY; further ones are dropped", worker->name);
        return 0;
    }
    state->left += bytes;
    return 1;
}

/* Unexpected messages of one peer's window are kept at most, when they were received. */
static size_t most_spare(const struct ucp_worker *worker)
{
    const size_t bound = worker->context->config->peer_memory;

    return (bound < CW_CREDIT_WINDOW) ? bound : CW_CREDIT_WINDOW;
}

ucs_status_t cw_op_worker_init(struct ucp_worker *worker)
{
    struct cw_op_state *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_tag_matcher_init(&state->tags, cw_random_u64());
    cw_tag_spares_init(&state->spare_tags, worker->poller, most_spare(worker));
    cw_idmap_init(&state->receives);
    cw_am_init(&state->am, cw_random_u64());
    cw_list_init(&state->taken);
    cw_list_init(&state->dropped);
    cw_list_init(&state->streams);
    cw_list_init(&state->rma);
    cw_hash_init(&state->revocable, cw_random_u64());
    worker->op_state = state;
    return UCS_OK;
}

void cw_op_worker_cleanup(struct ucp_worker *worker)
{
    struct cw_op_state *state = cw_op_state(worker);

    cw_am_cleanup(&state->am); /* this may call callbacks of the program */
    cw_tag_drop_all(worker);
    cw_tag_matcher_cleanup(&state->tags);
    cw_stream_worker_end(worker);
    cw_idmap_cleanup(&state->receives);
    cw_hash_cleanup(&state->revocable);
    free(state->choices);
    free(state->choices_rma);
    free(state);
    worker->op_state = NULL;
}

void cw_op_worker_gauges(struct ucp_worker *worker)
{
    const struct cw_tag_matcher *tags = &cw_op_state(worker)->tags;

    worker->counts.values[CW_COUNT_POSTED]     = cw_tag_matcher_num_posted(tags);
    worker->counts.values[CW_COUNT_UNEXPECTED] = tags->num_unexpected;
}

void cw_op_ep_quiesce(struct ucp_ep *ep)
{
    cw_rndv_recv_quiesce(ep);
}

void cw_op_ep_init(struct ucp_ep *ep)
{
    struct cw_op_ep *state = cw_op_ep(ep);

    *state = (struct cw_op_ep){.next_message_id = (uint32_t)cw_counter_start,
                               .pair_generation = (uint32_t)cw_counter_start & CW_CLAIM_MAX_GENERATION};
    cw_list_init(&state->incoming.receiving);
    cw_list_init(&state->incoming.partial);
    cw_list_init(&state->incoming.stored);
}

int cw_op_ep_expects(const struct ucp_ep *ep)
{
    const struct cw_op_incoming *incoming = &cw_op_ep(ep)->incoming;

    return !cw_list_empty(&incoming->receiving) || !cw_list_empty(&incoming->partial);
}

void cw_op_ep_lost(struct ucp_ep *ep, ucs_status_t status)
{
    cw_incoming_ep_lost(ep, status);
    cw_tag_ep_lost(ep);
    cw_stream_ep_lost(ep, status);
    cw_rma_ep_lost(ep, status);
    cw_near_ep_lost(ep);
    cw_chunk_ep_lost(ep);
}

void cw_op_ep_user_changed(struct ucp_ep *ep)
{
    cw_stream_ep_user_changed(ep);
}
