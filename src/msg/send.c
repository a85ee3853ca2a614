/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager sends, and the lifetime of a send's request. If the first attempt sends the whole message, the request is
 * released at once.
 */
#include "msg/send.h"

#include "base/bytes.h"
#include "core/ep_batch.h"
#include "core/lane_access.h"
#include "core/lanes.h"
#include "msg/credit.h"
#include "proto/select.h"

/* Registered memory completes later than a copy, so a requested early completion has precedence. */
#define WITH_HANDLE                                                                                                    \
    (UCP_OP_ATTR_FIELD_MEMH | (uint32_t)UCP_OP_ATTR_FLAG_FAST_CMPL | (uint32_t)UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)

/* Asks the receiver to return an unmatched message, unless it has matched it. */
static void ask_back(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    const struct cw_wire_tag_cancel packet = {.send_id = htole64(send->id)};

    send->cancelling = 1;
    if (!send->acknowledged) {
        cw_ep_send_control(request->ep, CW_PACKET_TAG_CANCEL, &packet, sizeof(packet));
    }
}

/* All bytes were handed to the transport. Returns whether the request is still incomplete. */
ucs_status_t cw_send_left(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    send->phase = CW_SEND_SENT;
    if (cw_unlikely(send->cancelling)) {
        ask_back(request);
    }
    return (request->outstanding == 0 && (!send->kind->acknowledged || send->acknowledged)) ? UCS_OK : UCS_INPROGRESS;
}

/* The transport released a piece of user memory. */
static void zcopy_done(struct cw_completion *completion, ucs_status_t status)
{
    struct cw_send *send = cw_container_of(completion, struct cw_send, completion);
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

/* Counts `length` bytes of the program's memory as sent if the transport has accepted them. */
static inline ucs_status_t went(struct cw_request *request, size_t length, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);

    if (status != UCS_OK && status != UCS_INPROGRESS) {
        return status;
    }
    cw_dt_skip(&send->cursor, length);
    request->ep->turn += (uint32_t)length;
    request->outstanding += (status == UCS_INPROGRESS);
    return UCS_OK;
}

ucs_status_t cw_send_memory_on(struct cw_request *request, struct cw_conn *conn, uint8_t id, const void *header,
                               size_t header_length, size_t max, enum cw_send_slot slot)
{
    struct cw_send *send = cw_request_state(request);
    unsigned max_iov = conn->iface->limits.max_iov;
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_t status;
    unsigned count;
    size_t length;

    count = cw_dt_window(&send->cursor, max, iov, (max_iov < CW_PLACE_MAX_IOV) ? max_iov : CW_PLACE_MAX_IOV, &length);
    switch (slot) {
    case CW_SEND_PLACED:
        status = cw_lanes_send(request->ep, conn, id, header, iov, count, &send->completion);
        break;
    case CW_SEND_IN_PLACE:
        status = cw_lane_send_in_place(conn, id, header, iov, count, &send->completion);
        break;
    default:
        status = cw_lane_send_zcopy(conn, id, header, header_length, iov, count, &send->completion);
        break;
    }
    return went(request, length, status);
}

ucs_status_t cw_send_packed(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                            size_t max, enum cw_send_slot slot)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    struct cw_completion *completion;
    ucs_status_t status;
    struct iovec iov;

    completion = cw_dt_pack_piece(&send->cursor, max, &iov, &send->completion);
    if (completion == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = (slot == CW_SEND_IN_PLACE) ? cw_lane_send_in_place(conn, id, header, &iov, 1, completion) :
                                          cw_lane_send_zcopy(conn, id, header, header_length, &iov, 1, completion);
    if (status != UCS_OK && status != UCS_INPROGRESS) {
        return status;
    }
    cw_dt_sent_piece(&send->cursor, iov.iov_len, status == UCS_INPROGRESS);
    request->ep->turn += (uint32_t)iov.iov_len;
    request->outstanding += (status == UCS_INPROGRESS);
    return UCS_OK;
}

ucs_status_t cw_send_memory(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                            size_t max, enum cw_send_slot slot)
{
    return cw_send_memory_on(request, request->ep->conn, id, header, header_length, max, slot);
}

ucs_status_t cw_send_zcopy(struct cw_request *request, uint8_t id, const void *header, size_t header_length)
{
    size_t max = request->ep->conn->iface->limits.max_zcopy - header_length;

    return cw_send_memory(request, id, header, header_length, max, CW_SEND_ZCOPY);
}

ucs_status_t cw_send_registered(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                                size_t length, int is_last)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const struct cw_access_iov payload = {.address = send->cursor.contig + send->cursor.offset,
                                          .length = length,
                                          .memh = cw_send_memh(send, conn->iface)};
    ucs_status_t status;

    status = cw_lane_send_registered(conn, id, header, header_length, &payload, is_last ? &send->completion : NULL);
    return went(request, length, status);
}

/* The protocol of the message. NULL: an eager protocol is chosen, but there is not enough credit yet. */
static const struct cw_protocol *chosen(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_protocol *protocol = cw_choice(ep, send, send->force);

    return (send->kind->credited && !protocol->announces && !cw_credit_has(ep, send->cursor.length)) ? NULL : protocol;
}

static bool is_announced(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_protocol *protocol = chosen(ep, send);

    return protocol == NULL || protocol->announces;
}

ucs_status_t cw_send_left_whole(struct cw_request *request, enum cw_trace_path path)
{
    const struct cw_send *send = cw_request_state(request);

    cw_trace_note(request, CW_TRACE_PATH, path, 0, send->cursor.length);
    if (send->kind->credited) {
        cw_credit_sent(request->ep, send->cursor.length);
    }
    return cw_send_left(request);
}

/* The protocol is chosen at each attempt, because the endpoint may connect while a message is queued. */
ucs_status_t cw_send_attempt(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep = request->ep;
    const struct cw_protocol *protocol;

    if (cw_unlikely(send->kind->after_fence && cw_op_ep(ep)->fences > 0)) {
        return CW_BLOCKED;
    }
    protocol = chosen(ep, send);
    if (cw_unlikely(protocol == NULL)) {
        protocol = cw_choice(ep, send, CW_FORCE_RNDV);
    }
    return protocol->start(request);
}

static void release(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    cw_list_remove(&send->rndv.job.link);
    if (cw_unlikely(send->on_device)) {
        request->worker->handlers->send_device_end(send);
    }
    cw_send_drop_mem(send);
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
    struct cw_send *send = cw_request_state(request);
    uint32_t attr_mask = param->op_attr_mask;
    ucp_datatype_t datatype = cw_dt_of_param(param);
    ucs_status_t status;

    request->ep = ep;
    request->send = cw_send_attempt;
    request->release = release;
    send->kind = kind;
    send->id = 0;
    send->phase = CW_SEND_QUEUED;
    send->force = CW_FORCE_NONE;
    send->extra = 0;
    send->fast = (attr_mask & UCP_OP_ATTR_FLAG_FAST_CMPL) != 0;
    send->acknowledged = 0;
    send->cancelling = 0;
    send->cancelled = 0;
    send->landed = 0;
    send->on_device = 0;
    send->named = 0;
    send->has_mem = 0;
    send->holds_mem = 0;
    send->accepts_bounce = 0;
    send->one_lane = 0;
    send->completion.done = zcopy_done;
    cw_list_init(&send->rndv.job.link);
    if (cw_unlikely((attr_mask & WITH_HANDLE) == UCP_OP_ATTR_FIELD_MEMH) && param->memh != NULL &&
        cw_mem_has_handle(param->memh)) {
        send->mem = param->memh;
        send->has_mem = 1;
    }
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

/* Whether the whole message can be sent now. */
static bool is_immediate(const struct ucp_ep *ep, const struct cw_send *send)
{
    const struct cw_protocol *protocol;

    if (!cw_ep_ready(ep) || send->kind->acknowledged) {
        return false;
    }
    protocol = chosen(ep, send);
    return protocol != NULL && protocol->at_once;
}

/* Queues a request; `why`: the status of the attempt. */
static ucs_status_ptr_t queue(struct cw_request *request, ucs_status_t why)
{
    struct cw_send *send = cw_request_state(request);
    struct ucp_ep *ep = request->ep;
    ucs_status_t status = cw_dt_keep(&send->cursor);

    if (status == UCS_OK && send->kind->keep != NULL && send->phase == CW_SEND_QUEUED) {
        status = send->kind->keep(send);
    }
    if (cw_unlikely(send->has_mem) && !send->holds_mem) { /* the program may unmap its memory once it was sent */
        cw_mem_hold(send->mem);
        send->holds_mem = 1;
    }
    if (status != UCS_OK && send->phase != CW_SEND_QUEUED) {
        cw_list_add_tail(&ep->inflight, &request->link);
        cw_ep_fail(ep, status); /* the peer has received a part of the message */
        return cw_request_handle(request);
    }
    if (status != UCS_OK) {
        return cw_request_give_up(request, status);
    }
    if (why == CW_BLOCKED) {
        cw_ep_wait(ep, &ep->blocked, request);
    } else {
        cw_ep_queue(ep, request);
    }
    return cw_request_handle(request);
}

/* Whether the message may be batched (cw_ep_collects) and complete in progress. */
static bool may_wait(const struct cw_send *send, uint32_t attr_mask)
{
    return !send->kind->acknowledged && !(attr_mask & (UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FLAG_FAST_CMPL));
}

/* Posts a message that follows another one without progress in between. CW_AGAIN: the request must be queued. */
static ucs_status_t follow(struct ucp_ep *ep, struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);

    if (send->extra + send->cursor.length < ep->conn->iface->plan->short_end || ep->turn >= cw_ep_turn(ep)) {
        cw_ep_reap_later(ep); /* progress sends from the queue, all with one system call */
        return CW_AGAIN;
    }
    return cw_ep_follow(ep, request);
}

/* The first announcement is sent at once, so that the receiver can begin. Further ones are batched by progress. */
static ucs_status_t announce_first(struct ucp_ep *ep, struct cw_request *request)
{
    ucs_status_t status;

    if (cw_op_ep(ep)->announced_round == ep->worker->round && cw_lane_batches(ep->conn)) {
        cw_ep_reap_later(ep);
        return CW_AGAIN;
    }
    if (ep->conn->gathers) {
        cw_ep_gather_end(ep);
    }
    status = cw_send_attempt(request);
    cw_op_ep(ep)->announced_round = ep->worker->round;
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
        if (is_announced(ep, cw_request_state(request))) {
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
    struct ucp_ep *ep = request->ep;
    ucs_status_t status;

    cw_trace_note(request, CW_TRACE_BEGIN, send->kind->counter,
                  (send->kind->counter == CW_COUNT_TAG_SENT) ? send->tag : 0, send->cursor.length);
    if ((attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) && !is_immediate(ep, cw_request_state(request))) {
        return cw_request_give_up(request, UCS_ERR_NO_RESOURCE);
    }
    status = first_attempt(ep, request, attr_mask);
    if (status != CW_AGAIN && status != CW_BLOCKED) {
        return cw_ep_answered(request, status, attr_mask);
    }
    return (attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) ? cw_request_give_up(request, UCS_ERR_NO_RESOURCE)
                                                         : queue(request, status);
}

/* Whether the request is a send, in any phase. A put is one only once it is announced. */
static bool is_send(const struct cw_request *request)
{
    const struct cw_send *send = (const void *)(request + 1);

    return request->release == release && send->kind->ids[CW_SEND_RTS] != 0;
}

size_t cw_send_length(const struct cw_request *request)
{
    return is_send(request) ? ((const struct cw_send *)(const void *)(request + 1))->cursor.length : 0;
}

ucs_memory_type_t cw_send_memory_type(const struct cw_request *request)
{
    return is_send(request) ? cw_dt_memory_type(&((const struct cw_send *)(const void *)(request + 1))->cursor) :
           UCS_MEMORY_TYPE_HOST;
}

struct cw_request *cw_send_find(const struct ucp_ep *ep, uint64_t id)
{
    struct cw_request *request = cw_idmap_get(&ep->worker->ids, id);

    return (request != NULL && request->ep == ep && is_send(request)) ? request : NULL;
}

void cw_send_cancel(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    if ((request->flags & (CW_REQUEST_COMPLETED | CW_REQUEST_IN_POOL)) || !is_send(request) ||
        !send->kind->credited) {
        return;
    }
    if (send->phase == CW_SEND_QUEUED) {
        cw_send_finish(request, UCS_ERR_CANCELED);
    } else if (send->cancelling || (send->kind->take_back != NULL && send->kind->take_back(request))) {
        return;
    } else if (send->phase == CW_SEND_ANNOUNCED || (send->phase == CW_SEND_SENT && send->kind->acknowledged)) {
        ask_back(request);
    } else if (send->phase == CW_SEND_PIECES && send->kind->acknowledged) {
        send->cancelling = 1; /* requested after the last piece was sent */
    }
}

/* ---- short lists of buffers, copied directly into tx memory of the transport (docs/why/short-messages.md) ---- */

struct list {
    uint64_t header;
    const ucp_dt_iov_t *iov;
    const ucp_dt_iov_t *behind;
};

/* The length of a list that fits a short packet; SIZE_MAX: it does not. */
static size_t list_length(const struct ucp_ep *ep, const ucp_dt_iov_t *iov, size_t count)
{
    const size_t end = ep->conn->iface->plan->short_end;
    size_t length = 0, i;

    for (i = 0; i < count; i++) {
        if (iov[i].length >= end - length) {
            return SIZE_MAX;
        }
        length += iov[i].length;
    }
    return length;
}

static size_t pack_list(void *dest, size_t max, void *arg)
{
    const struct list *list = arg;
    const ucp_dt_iov_t *iov = list->iov;
    char *next = (char *)dest + sizeof(list->header);

    memcpy(dest, &list->header, sizeof(list->header));
    for (; iov != list->behind; next += iov->length, iov++) {
        cw_bytes_copy_part(next, iov->buffer, iov->length);
    }
    return max;
}

bool cw_send_list(struct ucp_ep *ep, const struct cw_send_kind *kind, uint64_t header, const ucp_dt_iov_t *iov,
                  size_t count)
{
    struct list list = {.header = header, .iov = iov, .behind = iov + count};
    size_t length;

    if (!cw_ep_ready(ep) || ep->worker->trace != NULL || !cw_lane_peer_is_own(ep->conn)) {
        return false;
    }
    length = list_length(ep, iov, count);
    if (length == SIZE_MAX || (kind->credited && !cw_credit_has(ep, length)) ||
        cw_lane_send_bcopy(ep->conn, kind->ids[CW_SEND_WHOLE], sizeof(header) + length, pack_list, &list) != UCS_OK) {
        return false;
    }
    if (kind->credited) {
        cw_credit_sent(ep, length);
    }
    cw_count_message(ep->worker, kind->counter, length);
    return true;
}
