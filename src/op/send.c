/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager sends and the life of a send's request. A request is given back at once when the first attempt takes it all.
 */
#include "op/send.h"

#include "op/credit.h"

/* Of a message that is received in place, with its header. A line of memory, so that the rest is aligned as before. */
#define FIRST_BYTES 64u

static size_t pack_whole(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header        = send->kind->header(send, CW_SEND_WHOLE, dest);

    return header + cw_dt_pack_far(&send->cursor, cw_send_far(send), (char *)dest + header, max - header);
}

static size_t pack_first(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header        = send->kind->header(send, CW_SEND_FIRST, dest);

    return header + cw_dt_pack_far(&send->cursor, cw_send_far(send), (char *)dest + header, max - header);
}

static struct cw_wire_next next_header(const struct cw_send *send)
{
    return (struct cw_wire_next){.message = htole32(send->message), .offset = htole64(send->cursor.offset)};
}

static size_t pack_next(void *dest, size_t max, void *arg)
{
    struct cw_send *send             = arg;
    const struct cw_wire_next header = next_header(send);

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) + cw_dt_pack_far(&send->cursor, cw_send_far(send), (char *)dest + sizeof(header),
                                           max - sizeof(header));
}

/* Asks the receiver for an unmatched message, unless it was matched already. */
static void ask_back(struct cw_request *request)
{
    struct cw_send *send                   = cw_request_state(request);
    const struct cw_wire_tag_cancel packet = {.send_id = htole64(send->id)};

    send->cancelling = 1;
    if (!send->acknowledged) {
        cw_ep_send_control(request->ep, CW_PACKET_TAG_CANCEL, &packet, sizeof(packet));
    }
}

/* Everything was handed to the transport: what remains to wait for? */
static ucs_status_t sent(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    send->phase = CW_SEND_SENT;
    if (cw_unlikely(send->cancelling)) {
        ask_back(request);
    }
    return (request->outstanding == 0 && (!send->kind->acknowledged || send->acknowledged)) ? UCS_OK : UCS_INPROGRESS;
}

/* The transport gave a piece of user memory back. */
static void zcopy_done(struct cw_completion *completion, ucs_status_t status)
{
    struct cw_send *send       = cw_container_of(completion, struct cw_send, completion);
    struct cw_request *request = cw_send_request(send);

    request->outstanding--;
    if (send->cancelled && status == UCS_OK) {
        status = UCS_ERR_CANCELED;
    }
    if (request->outstanding == 0 && send->phase == CW_SEND_SENT &&
        (status != UCS_OK || !send->kind->acknowledged || send->acknowledged)) {
        cw_send_finish(request, status);
    }
}

void cw_send_finish(struct cw_request *request, ucs_status_t status)
{
    cw_ep_waited(request);
    cw_list_remove(&request->link);
    cw_request_complete(request, status);
}

ucs_status_t cw_send_memory(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                            size_t max, enum cw_send_slot slot)
{
    struct cw_send *send                 = cw_request_state(request);
    struct cw_conn *conn                 = request->ep->conn;
    const struct cw_transport *transport = conn->iface->transport;
    unsigned max_iov                     = conn->iface->limits.max_iov;
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_t status;
    unsigned count;
    size_t length;

    count  = cw_dt_window(&send->cursor, max, iov, (max_iov < CW_PLACE_MAX_IOV) ? max_iov : CW_PLACE_MAX_IOV, &length);
    status = (slot == CW_SEND_PLACED) ? transport->send_placed(conn, id, header, iov, count, &send->completion) :
             (slot == CW_SEND_IN_PLACE) ? transport->send_in_place(conn, id, header, iov, count, &send->completion) :
             transport->send_zcopy(conn, id, header, header_length, iov, count, &send->completion);
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        cw_dt_skip(&send->cursor, length);
        request->ep->turn    += (uint32_t)length;
        request->outstanding += (status == UCS_INPROGRESS);
        status                = UCS_OK;
    }
    return status;
}

/* As much as one packet takes. */
static ucs_status_t send_zcopy(struct cw_request *request, uint8_t id, const void *header, size_t header_length)
{
    size_t max = request->ep->conn->iface->limits.max_zcopy - header_length;

    return cw_send_memory(request, id, header, header_length, max, CW_SEND_ZCOPY);
}

static int goes_in_place(const struct cw_conn *conn)
{
    return conn->iface->transport->send_in_place != NULL && conn->iface->limits.max_placed > 0;
}

static ucs_status_t send_next(struct cw_request *request)
{
    struct cw_send *send       = cw_request_state(request);
    struct cw_conn *conn       = request->ep->conn;
    struct cw_wire_next header = next_header(send);
    size_t left                = send->cursor.length - send->cursor.offset;
    size_t max                 = cw_conn_max_piece(conn);

    if (left >= conn->iface->plan->zcopy_min && cw_dt_is_memory(&send->cursor)) {
        return goes_in_place(conn) ? cw_send_memory(request, CW_PACKET_NEXT, &header, sizeof(header),
                                                    conn->iface->limits.max_placed, CW_SEND_IN_PLACE) :
               send_zcopy(request, CW_PACKET_NEXT, &header, sizeof(header));
    }
    left += sizeof(header);
    return conn->iface->transport->send_bcopy(conn, CW_PACKET_NEXT, (left < max) ? left : max, pack_next, send);
}

/* What will be received in place needs no copy here; an announcement of it is enough. */
static size_t first_length(const struct cw_send *send, const struct cw_conn *conn)
{
    const size_t max = conn->iface->limits.max_bcopy;
    size_t least     = send->kind->header(send, CW_SEND_FIRST, NULL) + FIRST_BYTES;

    return (goes_in_place(conn) && cw_dt_is_memory(&send->cursor) && least < max &&
            send->cursor.length >= conn->iface->plan->zcopy_min + FIRST_BYTES) ? least : max;
}

static ucs_status_t send_pieces(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    ucs_status_t status;

    if (send->phase == CW_SEND_QUEUED) {
        send->message = request->ep->next_message_id;
        status        = conn->iface->transport->send_bcopy(conn, send->kind->ids[CW_SEND_FIRST],
                                                           first_length(send, conn), pack_first, send);
        if (status != UCS_OK) {
            return status;
        }
        send->phase = CW_SEND_PIECES;
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_PIECES, 0, send->cursor.length);
        request->ep->next_message_id++;
        if (send->kind->credited) {
            cw_credit_sent(request->ep, send->cursor.length);
        }
    }
    while (send->cursor.offset < send->cursor.length) {
        status = send_next(request);
        if (status != UCS_OK) {
            return status;
        }
    }
    return sent(request);
}

/* The pieces of a message share a system call where they can. */
static ucs_status_t send_in_pieces(struct cw_request *request)
{
    struct cw_conn *conn = request->ep->conn;
    ucs_status_t status;

    if (conn->iface->transport->batch == NULL) {
        return send_pieces(request);
    }
    conn->iface->transport->batch(conn, CW_BATCH_BEGIN);
    status = send_pieces(request);
    conn->iface->transport->batch(conn, CW_BATCH_END);
    return status;
}

static int fits_one_packet(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_conn *conn = ep->conn;
    const size_t length        = send->cursor.length + send->kind->header(send, CW_SEND_WHOLE, NULL);

    return length <= cw_conn_max_piece(conn) || (send->kind->used_in_place && length <= conn->max_whole);
}

static int is_forced(const struct cw_send *send, const struct cw_protocol_plan *plan)
{
    return plan->rndv_forced || (send->fast && plan->rndv_fast_min != plan->rndv_min);
}

static size_t rndv_min(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_protocol_plan *plan = ep->conn->iface->plan;
    size_t min                          = send->fast ? plan->rndv_fast_min : plan->rndv_min;

    if ((send->cursor.class_id == UCP_DATATYPE_IOV || (send->kind->used_in_place && min == plan->rndv_min)) &&
        min < plan->rndv_late_min) {
        min = plan->rndv_late_min;
    }
    return (min < ep->conn->eager_end && !is_forced(send, plan)) ? ep->conn->eager_end : min;
}

/* Would go eagerly, but the receiver, as far as we know, has not let go of enough. */
static int lacks_credit(const struct ucp_ep *ep, const struct cw_send *send)
{
    return send->kind->credited && send->force == CW_SEND_BY_PLAN &&
           send->extra + send->cursor.length < rndv_min(ep, send) && !cw_credit_has(ep, send->cursor.length);
}

static int goes_by_rndv(const struct ucp_ep *ep, const struct cw_send *send)
{
    return send->force == CW_SEND_RNDV ||
           (send->force == CW_SEND_BY_PLAN && send->extra + send->cursor.length >= rndv_min(ep, send)) ||
           lacks_credit(ep, send);
}

/* Whoever fills a ring in use looks at nothing that comes meanwhile, such as credit: that is worth a round of progress
 * before the next message is announced. 1: wait for it. */
static CW_COLD int waits_for_credit(struct ucp_ep *ep)
{
    const uint64_t round = ep->worker->round + 1;

    if (ep->conn->eager_end == 0 || (ep->short_round != 0 && ep->short_round != round)) {
        return 0;
    }
    ep->short_round = round;
    cw_ep_reap_later(ep); /* where the queue is drained */
    return 1;
}

static ucs_status_t announce(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;

    cw_dt_pack_ahead(&send->cursor);
    if (conn->iface->transport->grow != NULL && send->force == CW_SEND_BY_PLAN && !is_forced(send, conn->iface->plan)) {
        conn->iface->transport->grow(conn, send->extra + send->cursor.length);
    }
    return cw_send_announce(request);
}

static int fits_one_zcopy(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_iface *iface = ep->conn->iface;
    size_t header                = send->kind->header(send, CW_SEND_WHOLE, NULL);

    return send->cursor.length >= iface->plan->zcopy_min && header <= CW_SEND_MAX_HEADER &&
           header + send->cursor.length <= iface->limits.max_zcopy && cw_dt_is_memory(&send->cursor) &&
           cw_dt_fits_iov(&send->cursor, iface->limits.max_iov);
}

static ucs_status_t send_whole(struct cw_request *request, int zcopy)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    size_t header        = send->kind->header(send, CW_SEND_WHOLE, NULL);
    uint8_t id           = send->kind->ids[CW_SEND_WHOLE];
    char bytes[CW_SEND_MAX_HEADER];
    ucs_status_t status;

    if (zcopy) {
        send->kind->header(send, CW_SEND_WHOLE, bytes);
        status = send_zcopy(request, id, bytes, header);
    } else {
        status = conn->iface->transport->send_bcopy(conn, id, header + send->cursor.length, pack_whole, send);
    }
    if (status != UCS_OK) {
        return status;
    }
    cw_trace_note(request, CW_TRACE_WAY, zcopy ? CW_TRACE_WITHOUT_COPY : CW_TRACE_COPIED, 0, send->cursor.length);
    if (send->kind->credited) {
        cw_credit_sent(request->ep, send->cursor.length);
    }
    return sent(request);
}

/* Chosen at each attempt, because a queued message meets its connection only later. */
ucs_status_t cw_send_attempt(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    if (send->phase == CW_SEND_DATA) {
        return cw_send_data(request);
    }
    if (send->phase == CW_SEND_QUEUED) {
        if (cw_unlikely(send->kind->after_fence && request->ep->fences > 0)) {
            return CW_HOLD;
        }
        if (goes_by_rndv(request->ep, send)) {
            return (lacks_credit(request->ep, send) && waits_for_credit(request->ep)) ? CW_AGAIN : announce(request);
        }
        if (fits_one_zcopy(request->ep, send)) {
            return send_whole(request, 1);
        }
        if (fits_one_packet(request->ep, send)) {
            return send_whole(request, 0);
        }
        cw_dt_pack_ahead(&send->cursor);
    }
    return send_in_pieces(request);
}

static void release(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    cw_send_stop_job(send);
    cw_dt_finish(&send->cursor);
    if (send->id != 0) {
        cw_idmap_remove(&request->worker->ids, send->id);
    }
    if (send->kind->release != NULL) {
        send->kind->release(send);
    }
}

ucs_status_t cw_send_init(struct cw_request *request, struct ucp_ep *ep, const struct cw_send_kind *kind,
                          const void *buffer, size_t count, const ucp_request_param_t *param)
{
    struct cw_send *send    = cw_request_state(request);
    uint32_t attr_mask      = param->op_attr_mask;
    ucp_datatype_t datatype = (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) ? param->datatype : ucp_dt_make_contig(1);
    ucs_status_t status;

    request->ep           = ep;
    request->send         = cw_send_attempt;
    request->release      = release;
    send->kind            = kind;
    send->id              = 0;
    send->phase           = CW_SEND_QUEUED;
    send->force           = CW_SEND_BY_PLAN;
    send->extra           = 0;
    send->fast            = (attr_mask & UCP_OP_ATTR_FLAG_FAST_CMPL) != 0;
    send->acknowledged    = 0;
    send->cancelling      = 0;
    send->cancelled       = 0;
    send->completion.done = zcopy_done;
    cw_list_init(&send->job.link);
    status = cw_dt_start(&send->cursor, datatype, buffer, count, CW_DT_SEND);
    if (status != UCS_OK) {
        cw_request_put(request);
        return status;
    }
    if (kind->acknowledged) {
        status = cw_idmap_add(&ep->worker->ids, request, &send->id);
        if (status != UCS_OK) {
            cw_dt_finish(&send->cursor);
            cw_request_put(request);
            return status;
        }
    }
    cw_count_message(ep->worker, kind->counter, send->cursor.length);
    return UCS_OK;
}

static ucs_status_ptr_t give_up(struct cw_request *request, ucs_status_t status)
{
    release(request);
    cw_request_put(request);
    return UCS_STATUS_PTR(status);
}

/* OPA-16: whether all of it can go now. */
static int is_immediate(const struct ucp_ep *ep, const struct cw_send *send)
{
    return cw_ep_ready(ep) && !send->kind->acknowledged && !goes_by_rndv(ep, send) && fits_one_packet(ep, send) &&
           send->cursor.length < ep->conn->iface->plan->zcopy_min;
}

/* `why`: what the attempt answered. */
static ucs_status_ptr_t queue(struct cw_request *request, ucs_status_t why)
{
    struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep    = request->ep;
    ucs_status_t status  = cw_dt_keep(&send->cursor);

    if (status == UCS_OK && send->kind->keep != NULL && send->phase == CW_SEND_QUEUED) {
        status = send->kind->keep(send);
    }
    if (status != UCS_OK) {
        if (send->phase != CW_SEND_QUEUED) {
            cw_ep_fail(ep, status); /* the peer has half a message */
        }
        return give_up(request, status);
    }
    if (why == CW_HOLD) {
        cw_ep_wait(ep, &ep->held, request);
    } else {
        cw_ep_queue(ep, request);
    }
    return cw_request_handle(request);
}

/* Whether it may leave with others (cw_ep_collects), and complete in progress. */
static int may_wait(const struct cw_send *send, uint32_t attr_mask)
{
    return !send->kind->acknowledged && !(attr_mask & (UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FLAG_FAST_CMPL));
}

/* Gives one to the system that follows another one without progress between. CW_AGAIN: to the queue with it. */
static ucs_status_t follow(struct ucp_ep *ep, struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);

    if (send->extra + send->cursor.length < ep->conn->iface->plan->short_end || ep->turn >= cw_ep_turn(ep)) {
        cw_ep_reap_later(ep); /* where the queue is drained: nothing is gained by giving each to the system */
        return CW_AGAIN;
    }
    return cw_ep_follow(ep, request);
}

/* The first one leaves at once, so that the receiver can begin; further ones before progress wait for it. */
static ucs_status_t announce_first(struct ucp_ep *ep, struct cw_request *request)
{
    ucs_status_t status;

    if (ep->announced_round == ep->worker->round && ep->conn->iface->transport->batch != NULL) {
        cw_ep_reap_later(ep);
        return CW_AGAIN;
    }
    if (ep->gathers) {
        cw_ep_gather_end(ep);
    }
    status              = cw_send_attempt(request);
    ep->announced_round = ep->worker->round;
    return status;
}

static ucs_status_t first_attempt(struct ucp_ep *ep, struct cw_request *request, uint32_t attr_mask)
{
    const int ready = cw_ep_ready(ep);
    ucs_status_t status;

    if (!ready && !cw_ep_gathers(ep)) {
        return CW_AGAIN;
    }
    if (may_wait(cw_request_state(request), attr_mask)) {
        if (goes_by_rndv(ep, cw_request_state(request))) {
            return announce_first(ep, request);
        }
        if (cw_ep_collects(ep)) {
            return follow(ep, request);
        }
    }
    if (!ready) {
        return CW_AGAIN;
    }
    status = cw_send_attempt(request);
    cw_ep_sent_alone(ep);
    return status;
}

ucs_status_ptr_t cw_send_start(struct cw_request *request, uint32_t attr_mask)
{
    const struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep          = request->ep;
    ucs_status_t status;

    cw_trace_note(request, CW_TRACE_BEGIN, send->kind->counter,
                  (send->kind->counter == CW_COUNT_TAG_SENT) ? send->tag : 0, send->cursor.length);
    if ((attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) && !is_immediate(ep, cw_request_state(request))) {
        return give_up(request, UCS_ERR_NO_RESOURCE);
    }
    status = first_attempt(ep, request, attr_mask);
    switch (status) {
    case UCS_OK:
        if (attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
            cw_request_complete(request, UCS_OK);
            return cw_request_handle(request);
        }
        return give_up(request, UCS_OK);
    case UCS_INPROGRESS:
        cw_list_add_tail(&ep->inflight, &request->link);
        return cw_request_handle(request);
    case CW_AGAIN:
    case CW_HOLD:
        return (attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) ? give_up(request, UCS_ERR_NO_RESOURCE) :
               queue(request, status);
    default:
        if (request->outstanding == 0) {
            return give_up(request, status);
        }
        cw_list_add_tail(&ep->inflight, &request->link); /* the connection broke in the middle: ends with it */
        return cw_request_handle(request);
    }
}

size_t cw_send_length(const struct cw_request *request)
{
    return (request->send == cw_send_attempt) ? ((const struct cw_send *)(const void *)(request + 1))->cursor.length :
           0;
}

struct cw_request *cw_send_find(const struct ucp_ep *ep, uint64_t id)
{
    struct cw_request *request = cw_idmap_get(&ep->worker->ids, id);

    return (request != NULL && request->ep == ep && request->send == cw_send_attempt) ? request : NULL;
}

void cw_send_cancel(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    if (request->send != cw_send_attempt || !send->kind->credited ||
        (request->flags & (CW_REQUEST_COMPLETED | CW_REQUEST_IN_POOL))) {
        return;
    }
    if (send->phase == CW_SEND_QUEUED) {
        cw_send_finish(request, UCS_ERR_CANCELED);
    } else if (send->cancelling) {
        return;
    } else if (send->phase == CW_SEND_ANNOUNCED || (send->phase == CW_SEND_SENT && send->kind->acknowledged)) {
        ask_back(request);
    } else if (send->phase == CW_SEND_PIECES && send->kind->acknowledged) {
        send->cancelling = 1; /* asked for behind the last piece */
    }
}
