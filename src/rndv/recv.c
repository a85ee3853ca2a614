/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states and packets of rndv/recv.h. Invariants: received + reserved never exceeds the length of the message, so
 * that the request cannot complete while the transport still writes into its memory; a claim pair is in use from READY
 * COPY until the sender reports that it has stopped, or everything is copied.
 */
#include "rndv/recv.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/ep_round.h"
#include "core/lane_copies.h"
#include "msg/reassembly.h"
#include "msg/msg.h"
#include "rndv/bounce.h"
#include "rndv/bounce_table.h"
#include "rndv/ipc.h"
#include "rndv/recv_device.h"
#include "rndv/shares.h"
#include "rndv/staging.h"
#include "wire/rma.h"

#define SHARE_BYTES (128u << 10) /* about what one side copies at a time */
#define PAGE        4096u
#define ALONE_BYTES (32u << 10)  /* up to this length one side copies as fast as two */
#define BOTH_BYTES  (256u << 10) /* from this length on two copy faster even if both send */
#define CALL_BYTES  (16u << 10)  /* progress copies longer messages after it has handled all packets that arrived */
#define QUIESCE_NS  UINT64_C(20000000)

enum phase { WAITING, COPYING, RECEIVING, MOVING, NAMING, IPC, BOUNCING };

struct cw_rndv_recv {
    struct cw_reassembly in;
    struct cw_job job;
    struct cw_request *request;
    struct cw_dt_cursor *cursor;
    struct cw_offer offer;
    uint64_t id;       /* in worker->msg->receives */
    uint64_t reserved; /* bytes that the transport is placing */
    struct cw_shares shares;
    struct cw_request *moving; /* MOVING: the request of the device's transfer, which ends first */
    struct cw_ipc *ipc;        /* IPC */
    struct cw_bounce_recv *bounce; /* BOUNCING */
    uint8_t phase;
    uint8_t accepts; /* CW_WIRE_GET_NAME, CW_WIRE_GET_CHUNKS: what the sender may answer */
    uint8_t has_bounced; /* bounce buffers have arrived */
    uint8_t asked;   /* READY COPY, or DONE for a get, was sent, and no COPIED has arrived */
    uint8_t copy_failed;
    uint8_t unannounced;   /* begun by cw_rndv_recv_expect */
    uint8_t is_placeable;  /* the transport can place any part of the message */
    uint8_t shown;         /* begun by cw_rndv_recv_receive, whose caller answers */
    ucs_status_t status;   /* of unpacking */
};

static void answer(struct ucp_ep *ep, uint64_t send_id, ucs_status_t status)
{
    const struct cw_wire_rndv_done packet = {.send_id = htole64(send_id), .status = (int32_t)htole32((uint32_t)status)};

    cw_ep_send_control(ep, CW_PACKET_RNDV_DONE, &packet, sizeof(packet));
}

void cw_rndv_recv_refuse(struct ucp_ep *ep, const struct cw_offer *offer, ucs_status_t status)
{
    answer(ep, offer->send_id, status);
}

/* No copy of the device is in flight after the return. */
static void end_ipc(struct cw_rndv_recv *receive)
{
    if (cw_unlikely(receive->ipc != NULL)) {
        cw_ipc_end(receive->ipc);
        receive->ipc = NULL;
    }
    if (cw_unlikely(receive->bounce != NULL)) {
        cw_bounce_recv_end(receive->bounce);
        receive->bounce = NULL;
    }
}

/* `ep`: the endpoint of the transfer, even if it is lost. */
static void finish(struct cw_rndv_recv *receive, struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_request *request = receive->request;

    cw_list_remove(&receive->job.link);
    end_ipc(receive);
    receive->phase = WAITING;
    if (receive->in.ep != NULL) {
        cw_shares_release(ep, &receive->shares);
    }
    cw_reassembly_detach(&receive->in);
    cw_idmap_remove(&ep->worker->msg->receives, receive->id);
    free(receive);
    cw_request_complete(request, status);
}

/* If all bytes have arrived and only copies to the device remain, the message completes although the endpoint is lost.
 */
static void aborted(struct cw_reassembly *reassembly, struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_rndv_recv *receive = cw_container_of(reassembly, struct cw_rndv_recv, in);

    if (receive->cursor->class_id == CW_DT_STAGED && reassembly->received == receive->offer.length) {
        status = cw_staging_wait(receive->cursor->staging);
    }
    if (receive->bounce != NULL && cw_bounce_recv_wait(receive->bounce) == UCS_OK) {
        status = UCS_OK;
    }
    finish(receive, ep, status);
}

static const struct cw_reassembly_kind receive_kind = {.aborted = aborted};

static void send_ready(struct cw_rndv_recv *receive, enum cw_wire_rndv_mode mode, uint64_t address, uint32_t piece)
{
    const uint32_t pair = (mode == CW_WIRE_RNDV_COPY) ? receive->shares.pair : 0;
    const struct cw_wire_rndv_ready packet = {.send_id = htole64(receive->offer.send_id),
                                           .receive_id = htole64(receive->id),
                                           .address = htole64(address),
                                           .mode = htole32((uint32_t)mode),
                                           .piece = htole32(piece),
                                           .pair = htole32(pair),
                                           .generation = htole32(receive->shares.generation)};

    cw_ep_send_control(receive->in.ep, CW_PACKET_RNDV_READY, &packet, sizeof(packet));
}

static int scheme_of(const struct ucp_ep *ep)
{
    return ep->worker->context->config->rndv_scheme;
}

/* The longest piece for the sender. Unless placed, bytes arrive in packets of ordinary length, except through shared
 * memory. */
static uint32_t piece_of(const struct cw_rndv_recv *receive)
{
    const struct cw_conn *conn = receive->in.ep->conn;

    return (receive->is_placeable || (!cw_conn_places(conn) && conn->max_whole > 0)) ?
           UINT32_MAX : (uint32_t)conn->iface->limits.max_bcopy;
}

static void begin_receiving(struct cw_rndv_recv *receive)
{
    receive->phase = RECEIVING;
    if (cw_unlikely(cw_staging_is_worth(receive->cursor, receive->offer.length))) {
        cw_staging_begin(receive->cursor, receive->in.ep->worker, receive->offer.length);
    }
}

/* Whether the local device can copy the message from the sender's memory, or from bounce buffers. */
static uint8_t what_it_accepts(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length)
{
    return (uint8_t)((cw_ipc_is_possible(ep, cursor, length) ? CW_WIRE_GET_NAME : 0) |
                     (cw_bounce_is_possible(ep, cursor, length) ? CW_WIRE_GET_CHUNKS : 0));
}

static void ask_for_name(struct cw_rndv_recv *receive, unsigned accepts)
{
    static const enum cw_wire_rndv_mode modes[] = {
        [CW_WIRE_GET_NAME] = CW_WIRE_RNDV_NAME,
        [CW_WIRE_GET_CHUNKS] = CW_WIRE_RNDV_CHUNKS,
        [CW_WIRE_GET_NAME | CW_WIRE_GET_CHUNKS] = CW_WIRE_RNDV_EITHER,
    };

    receive->accepts = (uint8_t)accepts;
    receive->phase = NAMING;
    send_ready(receive, modes[accepts], 0, piece_of(receive));
}

/* Asks the sender for packets, or for the name of its memory if a device can copy from there. */
static void ask_for_data(struct cw_rndv_recv *receive)
{
    if (cw_unlikely(receive->cursor->class_id == CW_DT_DEVICE && receive->phase == WAITING)) {
        const unsigned accepts = what_it_accepts(receive->in.ep, receive->cursor, receive->offer.length);

        if (accepts != 0) {
            ask_for_name(receive, accepts);
            return;
        }
    }
    begin_receiving(receive);
    send_ready(receive, CW_WIRE_RNDV_SEND, 0, piece_of(receive));
}

static uint64_t num_shares(const struct cw_rndv_recv *receive)
{
    return cw_claim_shares(receive->offer.length, receive->shares.bytes);
}

static int all_copied(const struct cw_rndv_recv *receive)
{
    return cw_claim_num_done(receive->shares.done) >= num_shares(receive);
}

static void copied(struct cw_rndv_recv *receive)
{
    if (!receive->shown) { /* otherwise the caller of cw_rndv_recv_receive answers */
        answer(receive->in.ep, receive->offer.send_id, UCS_OK);
    }
    finish(receive, receive->in.ep, UCS_OK);
}

/* All shares are claimed: decides how the transfer continues. */
static void settle(struct cw_rndv_recv *receive)
{
    if (!receive->copy_failed && all_copied(receive)) {
        copied(receive);
    } else if (receive->asked) {
        receive->phase = WAITING;
    } else {
        cw_shares_release(receive->in.ep, &receive->shares);
        ask_for_data(receive);
    }
}

static ucs_status_t read_part(struct ucp_ep *ep, const struct cw_offer *offer, const struct cw_dt_cursor *cursor,
                              uint64_t offset, uint64_t length)
{
    struct iovec iov = {.iov_base = cursor->contig + offset, .iov_len = length};

    return cw_lane_copy_from(ep->conn, &iov, 1, offer->address + offset, NULL);
}

/* Copies one share. */
static bool copy(struct cw_job *job)
{
    struct cw_rndv_recv *receive = cw_container_of(job, struct cw_rndv_recv, job);
    const uint32_t most = receive->shares.bytes;
    struct ucp_ep *ep = receive->in.ep;
    uint64_t offset, length;
    uint32_t share;

    if (ep->state != CW_EP_OPEN) {
        return true; /* the transfer is about to end */
    }
    if (cw_ep_is_spent(ep)) {
        cw_worker_add_job(ep->worker, job);
        return true;
    }
    if (!cw_claim_next(receive->shares.claim, receive->shares.generation, num_shares(receive), &share)) {
        settle(receive);
        return true;
    }
    offset = (uint64_t)share * most;
    length = receive->offer.length - offset;
    length = (length < most) ? length : most;
    if (read_part(ep, &receive->offer, receive->cursor, offset, length) != UCS_OK) {
        receive->copy_failed = 1;
        cw_claim_end(receive->shares.claim, receive->shares.generation);
        settle(receive);
        return true;
    }
    cw_claim_done(receive->shares.done);
    cw_ep_spend(ep, length);
    if (all_copied(receive)) {
        copied(receive);
    } else {
        cw_worker_add_job(ep->worker, job);
    }
    return true;
}

/* Invites the sender to copy shares, too. */
static void ask_for_copies(struct cw_rndv_recv *receive)
{
    receive->asked = 1;
    send_ready(receive, CW_WIRE_RNDV_COPY, (uint64_t)(uintptr_t)receive->cursor->contig, receive->shares.bytes);
}

/* Whole pages, of 3/2 of SHARE_BYTES at most. Two sides get an even number of equal shares, so that neither waits for
 * the other one. */
static uint32_t bytes_of_share(size_t length, bool both)
{
    const uint64_t sides = both ? 2 : 1;
    const uint64_t rounded = (length + sides * SHARE_BYTES / 2) / (sides * SHARE_BYTES);
    const uint64_t shares = sides * ((rounded > 0) ? rounded : 1);

    return ((uint32_t)((length - 1) / shares) + PAGE) & ~(PAGE - 1);
}

static void begin_shares(struct cw_rndv_recv *receive, bool both)
{
    cw_shares_begin(receive->in.ep, &receive->shares, both);
    receive->shares.bytes = bytes_of_share(receive->offer.length, receive->shares.pair < CW_CLAIM_PAIRS);
}

/* Whether the sender's copies would save time. If both sides send, each is busy with what it receives. */
static bool gains_by_two(const struct cw_rndv_recv *receive)
{
    const size_t length = receive->offer.length;

    return length > ALONE_BYTES && (length >= BOTH_BYTES || receive->in.ep->worker->ids.count == 0);
}

static void begin_copy(struct cw_rndv_recv *receive)
{
    struct ucp_ep *ep = receive->in.ep;

    begin_shares(receive, scheme_of(ep) != CW_RNDV_GET_ZCOPY && gains_by_two(receive));
    if (receive->shares.pair < CW_CLAIM_PAIRS) {
        ask_for_copies(receive);
    }
    receive->phase = COPYING;
    receive->job.run = copy;
    cw_worker_add_job(ep->worker, &receive->job);
}

/* The receiver cannot or may not copy: the sender copies if it can, or sends packets. */
static void begin_passive(struct cw_rndv_recv *receive)
{
    const struct ucp_ep *ep = receive->in.ep;
    int scheme = scheme_of(ep);

    if (receive->cursor->class_id == UCP_DATATYPE_CONTIG && cw_lane_has_copies(ep->conn) &&
        receive->offer.length / SHARE_BYTES < CW_CLAIM_MAX_SHARES / 2 &&
        (scheme == CW_RNDV_AUTO || scheme == CW_RNDV_PUT_ZCOPY)) {
        begin_shares(receive, true);
        if (receive->shares.pair < CW_CLAIM_PAIRS) {
            ask_for_copies(receive);
            return;
        }
    }
    ask_for_data(receive);
}

/* The sender's memory is unreachable, or the device has failed: falls back to packets. */
static void come_in_pieces(struct cw_rndv_recv *receive)
{
    end_ipc(receive);
    ask_for_data(receive);
}

/* The memory that the sender has named cannot be opened: falls back to bounce buffers or packets. */
static void come_otherwise(struct cw_rndv_recv *receive)
{
    if (receive->accepts & CW_WIRE_GET_CHUNKS) {
        ask_for_name(receive, CW_WIRE_GET_CHUNKS);
    } else {
        come_in_pieces(receive);
    }
}

/* The device has copied the message, or failed. */
static void ipc_ended(void *arg, ucs_status_t status)
{
    struct cw_rndv_recv *receive = arg;

    if (status != UCS_OK) {
        come_in_pieces(receive);
    } else if (receive->unannounced) { /* a get ends when the target no longer uses the memory */
        end_ipc(receive);
        receive->phase = WAITING;
        receive->asked = 1;
        answer(receive->in.ep, receive->offer.send_id, UCS_OK);
    } else {
        copied(receive);
    }
}

/* The device's transfer has ended, and nothing writes to the memory any more. */
static void moved(struct cw_rndv_recv *receive, ucs_status_t status)
{
    receive->moving = NULL;
    if (status == UCS_OK) {
        copied(receive);
    } else {
        cw_debug("no device can transfer %llu bytes (%s): using packets",
                 (unsigned long long)receive->offer.length, ucs_status_string(status));
        ask_for_data(receive);
    }
}

/* Returns 0 if no device moves the message. */
static int begin_moving(struct cw_rndv_recv *receive)
{
    struct ucp_ep *ep = receive->in.ep;
    const struct cw_rndv_recv_device what = {.memory = receive->cursor->contig,
                                         .length = receive->offer.length,
                                         .address = receive->offer.address,
                                         .keys = &receive->offer.keys,
                                         .num_keys = (uint8_t)receive->offer.num_keys,
                                         .type = (uint8_t)cw_dt_memory_type(receive->cursor),
                                         .send_id = receive->offer.send_id,
                                         .receive_id = receive->id,
                                         .ended = moved,
                                         .receive = receive};
    const struct cw_protocol *protocol = cw_rndv_recv_device_choose(ep, &receive->offer, receive->cursor);

    if (protocol == NULL) {
        return 0;
    }
    receive->moving = cw_rndv_recv_device_begin(ep, protocol, &what);
    if (receive->moving == NULL) {
        return 0;
    }
    receive->phase = MOVING;
    return 1;
}

static bool can_copy(struct ucp_ep *ep, const struct cw_offer *offer, const struct cw_dt_cursor *cursor)
{
    int scheme = scheme_of(ep);

    return offer->address != 0 && cursor->class_id == UCP_DATATYPE_CONTIG && cw_lane_has_copies(ep->conn) &&
           (scheme == CW_RNDV_AUTO || scheme == CW_RNDV_GET_ZCOPY || scheme == CW_RNDV_RKEY_PTR) &&
           offer->length / SHARE_BYTES < CW_CLAIM_MAX_SHARES / 2 && cw_lane_can_copy(ep->conn);
}

static struct cw_rndv_recv *receive_new(struct ucp_ep *ep, const struct cw_offer *offer, struct cw_request *request,
                                        struct cw_dt_cursor *cursor)
{
    struct cw_rndv_recv *receive = malloc(sizeof(*receive));

    if (receive == NULL) {
        return NULL;
    }
    *receive = (struct cw_rndv_recv){.in = {.kind = &receive_kind, .total = offer->length},
                                .request = request,
                                .cursor = cursor,
                                .offer = *offer,
                                .shares = {.pair = CW_CLAIM_PAIRS},
                                .phase = WAITING,
                                .status = UCS_OK};
    if (cw_idmap_add(&ep->worker->msg->receives, receive, &receive->id) != UCS_OK) {
        free(receive);
        return NULL;
    }
    receive->is_placeable = cw_dt_is_memory(cursor) && cw_dt_fits_iov(cursor, CW_PLACE_MAX_IOV);
    cw_list_init(&receive->job.link);
    cw_reassembly_add(&receive->in, ep);
    return receive;
}

ucs_status_t cw_rndv_recv_start(struct ucp_ep *ep, const struct cw_offer *offer, struct cw_request *request,
                                struct cw_dt_cursor *cursor)
{
    struct cw_rndv_recv *receive;
    bool is_short, copies;

    if (ep->state != CW_EP_OPEN) {
        return (ep->status != UCS_OK) ? ep->status : UCS_ERR_CONNECTION_RESET;
    }
    cw_count(ep->worker, CW_COUNT_RNDV_RECEIVED, 1);
    if (offer->length > cursor->length || offer->length == 0) {
        answer(ep, offer->send_id, UCS_OK);
        return (offer->length == 0) ? UCS_OK : UCS_ERR_MESSAGE_TRUNCATED;
    }
    cw_dt_gather(cursor, offer->length);
    is_short = offer->length < ep->conn->iface->plan->rndv_copy_min && cursor->class_id == UCP_DATATYPE_CONTIG &&
               scheme_of(ep) == CW_RNDV_AUTO;
    copies = !is_short && can_copy(ep, offer, cursor);
    if (copies && offer->length <= (ep->worker->progress_depth > 0 ? CALL_BYTES : ALONE_BYTES)) {
        if (read_part(ep, offer, cursor, 0, offer->length) == UCS_OK) {
            answer(ep, offer->send_id, UCS_OK);
            return UCS_OK;
        }
        copies = 0;
    }
    receive = receive_new(ep, offer, request, cursor);
    if (receive == NULL) {
        answer(ep, offer->send_id, UCS_ERR_NO_MEMORY);
        return UCS_ERR_NO_MEMORY;
    }
    if (copies) {
        begin_copy(receive);
    } else if (is_short) {
        ask_for_data(receive);
    } else if (cw_likely(ep->conn->iface->domain == NULL) || !begin_moving(receive)) {
        begin_passive(receive);
    }
    return UCS_INPROGRESS;
}

/* Returns the transfer of this endpoint with that id, or NULL. */
static struct cw_rndv_recv *find(const struct ucp_ep *ep, uint64_t id)
{
    struct cw_rndv_recv *receive = cw_idmap_get(&ep->worker->msg->receives, id);

    return (receive != NULL && receive->in.ep == ep) ? receive : NULL;
}

ucs_status_t cw_rndv_recv_receive(struct ucp_ep *ep, const struct cw_offer *offer, struct cw_request *request,
                                  struct cw_dt_cursor *cursor)
{
    struct cw_rndv_recv *receive = receive_new(ep, offer, request, cursor);

    if (receive == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    receive->shown = 1;
    ask_for_data(receive);
    return UCS_OK;
}

ucs_status_t cw_rndv_recv_expect(struct ucp_ep *ep, struct cw_request *request, struct cw_dt_cursor *cursor,
                                 uint64_t *id_p, uint32_t *piece_p, uint8_t *accepts_p)
{
    const struct cw_offer offer = {.length = cursor->length};
    struct cw_rndv_recv *receive = receive_new(ep, &offer, request, cursor);

    if (receive == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    receive->unannounced = 1;
    receive->accepts = cursor->class_id == CW_DT_DEVICE ? what_it_accepts(ep, cursor, cursor->length) : 0;
    *accepts_p = receive->accepts;
    if (cw_unlikely(receive->accepts != 0)) {
        receive->phase = NAMING;
    } else {
        begin_receiving(receive);
    }
    *id_p = receive->id;
    *piece_p = piece_of(receive);
    return UCS_OK;
}

void cw_rndv_recv_forget(struct ucp_ep *ep, uint64_t id)
{
    struct cw_rndv_recv *receive = find(ep, id);

    cw_list_remove(&receive->in.link);
    cw_idmap_remove(&ep->worker->msg->receives, id);
    free(receive);
}

ucs_status_t cw_rndv_recv_refused(struct ucp_ep *ep, uint64_t id, ucs_status_t status)
{
    struct cw_rndv_recv *receive = find(ep, id);

    if (receive == NULL || !receive->unannounced || receive->in.received > 0 || receive->reserved > 0 ||
        receive->offer.send_id != 0) {
        return UCS_ERR_IO_ERROR;
    }
    finish(receive, receive->in.ep, status);
    return UCS_OK;
}

/* Whether these bytes are valid now. Pieces that can be placed may arrive in any order, others only in sequence. */
static bool expects(const struct cw_rndv_recv *receive, uint64_t offset, uint64_t length)
{
    return receive != NULL && receive->phase == RECEIVING &&
           length <= receive->offer.length - receive->in.received - receive->reserved &&
           offset <= receive->offer.length && length <= receive->offer.length - offset &&
           (receive->is_placeable || offset == receive->in.received);
}

/* All bytes have arrived: ends the transfer once the copies to the device have ended. */
static void drain(void *arg)
{
    struct cw_rndv_recv *receive = arg;

    if (cw_staging_left(receive->cursor->staging, &receive->status) > 0) {
        cw_staging_await(receive->cursor->staging, drain, receive);
    } else {
        finish(receive, receive->in.ep, receive->status);
    }
}

static void received(struct cw_rndv_recv *receive, uint64_t length)
{
    receive->in.received += length;
    if (cw_unlikely(receive->cursor->class_id == CW_DT_STAGED)) {
        if (receive->in.received == receive->offer.length) {
            drain(receive);
        }
        return;
    }
    if (receive->in.received == receive->offer.length) {
        finish(receive, receive->in.ep, receive->status);
    }
}

/* Stores a piece that the transport did not place. */
static void store(struct cw_rndv_recv *receive, uint64_t offset, const char *payload, size_t length)
{
    struct iovec iov[CW_PLACE_MAX_IOV];
    unsigned count, i;

    if (!receive->is_placeable) {
        if (receive->status == UCS_OK) {
            receive->status = cw_dt_unpack(receive->cursor, payload, length);
        }
        return;
    }
    count = cw_dt_part(receive->cursor, offset, length, iov, CW_PLACE_MAX_IOV);
    for (i = 0; i < count; i++) {
        cw_bytes_copy_any(iov[i].iov_base, payload, iov[i].iov_len);
        payload += iov[i].iov_len;
    }
}

static ucs_status_t take(struct ucp_ep *ep, uint64_t id, uint64_t offset, const void *payload, size_t length)
{
    struct cw_rndv_recv *receive = find(ep, id);

    if (cw_unlikely(receive != NULL && receive->phase == NAMING)) {
        begin_receiving(receive); /* the sender does not name its memory */
    }
    if (!expects(receive, offset, length)) {
        return UCS_ERR_IO_ERROR;
    }
    store(receive, offset, payload, length);
    received(receive, length);
    return UCS_OK;
}

ucs_status_t cw_rndv_recv_on_data(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_rndv_data header;

    memcpy(&header, data, sizeof(header));
    return take(ep, le64toh(header.receive_id), le64toh(header.offset), (const char *)data + sizeof(header),
                length - sizeof(header));
}

ucs_status_t cw_rndv_recv_on_whole(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_get_data header;

    memcpy(&header, data, sizeof(header));
    return take(ep, le64toh(header.receive_id), 0, (const char *)data + sizeof(header), length - sizeof(header));
}

unsigned cw_rndv_recv_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov)
{
    struct cw_wire_rndv_data data;
    struct cw_rndv_recv *receive;
    uint64_t offset;

    _Static_assert(sizeof(data) == CW_PLACE_HEADER, "the header of packets that are placed");
    memcpy(&data, header, sizeof(data));
    offset = le64toh(data.offset);
    receive = find(ep, le64toh(data.receive_id));
    if (!expects(receive, offset, length) || !receive->is_placeable) {
        return 0;
    }
    receive->reserved += length;
    return cw_dt_part(receive->cursor, offset, length, iov, CW_PLACE_MAX_IOV);
}

/* Ends the reservation of a place. NULL: the endpoint failed meanwhile. */
static struct cw_rndv_recv *give_back(struct ucp_ep *ep, const void *header, size_t length)
{
    struct cw_wire_rndv_data data;
    struct cw_rndv_recv *receive;

    memcpy(&data, header, sizeof(data));
    receive = find(ep, le64toh(data.receive_id));
    if (receive == NULL || receive->reserved < length) {
        return NULL;
    }
    receive->reserved -= length;
    return receive;
}

void cw_rndv_recv_placed(struct ucp_ep *ep, const void *header, size_t length)
{
    struct cw_rndv_recv *receive = give_back(ep, header, length);

    if (receive != NULL) {
        received(receive, length);
    }
}

void cw_rndv_recv_unplaced(struct ucp_ep *ep, const void *header, size_t length)
{
    (void)give_back(ep, header, length);
}

ucs_status_t cw_rndv_recv_on_name(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_rndv_name packet;
    struct cw_rndv_recv *receive;
    struct cw_md_name name;
    uint64_t send_id;

    memcpy(&packet, data, sizeof(packet));
    send_id = le64toh(packet.send_id);
    receive = find(ep, le64toh(packet.receive_id));
    if (receive == NULL || receive->phase != NAMING || !(receive->accepts & CW_WIRE_GET_NAME) || send_id == 0 ||
        (!receive->unannounced && send_id != receive->offer.send_id) ||
        cw_ipc_decode(ep, &packet, receive->offer.length, &name) != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }
    receive->offer.send_id = send_id;
    receive->phase = IPC;
    receive->ipc = cw_ipc_begin(ep, &name, receive->cursor, receive->offer.length, ipc_ended, receive);
    if (receive->ipc == NULL) {
        come_otherwise(receive);
    } else {
        cw_trace_note(receive->request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, receive->offer.length);
    }
    return UCS_OK;
}

/* Whether this bounce buffer is valid now. */
static bool expects_chunk(const struct cw_rndv_recv *receive, const struct cw_wire_rndv_chunk *chunk)
{
    return (receive->phase == NAMING || receive->phase == BOUNCING) && (receive->accepts & CW_WIRE_GET_CHUNKS) &&
           chunk->send_id != 0 && (receive->offer.send_id == 0 || chunk->send_id == receive->offer.send_id);
}

ucs_status_t cw_rndv_recv_on_chunk(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_rndv_chunk chunk;
    struct cw_rndv_recv *receive;

    cw_bounce_decode(data, &chunk);
    receive = find(ep, chunk.receive_id);
    if (receive == NULL) {
        return UCS_ERR_IO_ERROR;
    }
    if (receive->phase == RECEIVING && receive->has_bounced && receive->in.received == 0) {
        cw_bounce_discard(ep, &chunk); /* sent before the sender learned of the switch to packets */
        return UCS_OK;
    }
    if (!expects_chunk(receive, &chunk)) {
        return UCS_ERR_IO_ERROR;
    }
    if (receive->phase == NAMING) {
        receive->offer.send_id = chunk.send_id;
        receive->has_bounced = 1;
        receive->bounce =
            cw_bounce_recv_begin(ep, chunk.send_id, receive->cursor, receive->offer.length, ipc_ended, receive);
        receive->phase = BOUNCING;
        if (receive->bounce == NULL) {
            come_in_pieces(receive);
            return UCS_OK;
        }
        cw_trace_note(receive->request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, receive->offer.length);
    }
    return cw_bounce_recv_take(receive->bounce, &chunk);
}

ucs_status_t cw_rndv_recv_on_copied(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_rndv_copied packet;
    struct cw_rndv_recv *receive;
    int32_t status;

    memcpy(&packet, data, sizeof(packet));
    status = (int32_t)le32toh((uint32_t)packet.status);
    receive = find(ep, le64toh(packet.receive_id));
    if (receive == NULL) {
        return UCS_OK; /* everything was copied before the sender noticed */
    }
    if (receive->moving != NULL) {
        return cw_rndv_recv_device_written(receive->moving, (ucs_status_t)status);
    }
    if (!receive->asked) {
        return UCS_ERR_IO_ERROR;
    }
    if (receive->unannounced) {
        finish(receive, ep, (status > UCS_ERR_LAST && status <= UCS_OK) ? (ucs_status_t)status : UCS_ERR_IO_ERROR);
        return UCS_OK;
    }
    receive->asked = 0;
    receive->copy_failed |= (status != UCS_OK && status != UCS_ERR_UNSUPPORTED);
    if (receive->phase == WAITING) {
        settle(receive);
    }
    return UCS_OK;
}

void cw_rndv_recv_quiesce(struct ucp_ep *ep)
{
    const uint64_t give_up_ns = cw_clock_ns() + QUIESCE_NS;
    struct cw_reassembly *reassembly;
    struct cw_rndv_recv *receive;
    uint64_t claimed;

    cw_list_for_each(reassembly, &cw_op_ep(ep)->reassembly.receiving, struct cw_reassembly, link)
    {
        receive = cw_container_of(reassembly, struct cw_rndv_recv, in);
        if (reassembly->kind != &receive_kind || !receive->asked || receive->unannounced ||
            receive->phase == RECEIVING) {
            continue;
        }
        claimed = cw_claim_end(receive->shares.claim, receive->shares.generation);
        while (cw_claim_num_done(receive->shares.done) < claimed && cw_lane_can_copy(ep->conn) &&
               cw_clock_ns() < give_up_ns) {
        }
    }
}
