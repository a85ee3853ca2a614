/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin's side of op/put_list.h. Invariant: the last PUT_LIST named `offered` elements, the first of which is
 * `next`, and their bytes were not sent yet. The endpoint sends no other put between PUT_LIST and these bytes, because
 * this request stays at the head of the queue.
 */
#include "op/put_list.h"

#include "core/ep_round.h"

#define TURN_BYTES (512u << 10) /* bytes sent before other requests get their turn */

struct put_list {
    struct cw_completion completion; /* of all placed packets; request->outstanding counts them */
    void *const *buffers;
    const size_t *lengths;
    const uint64_t *addresses;
    size_t next, end;
    uint64_t token;
    uint64_t first_byte, span; /* the range at the owner that holds all pieces */
    uint32_t generation;
    uint32_t offered;
};

_Static_assert(sizeof(struct put_list) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static struct cw_request *request_of(struct put_list *list)
{
    return (struct cw_request *)(void *)list - 1;
}

static unsigned max_entries(const struct cw_conn *conn)
{
    const struct cw_limits *limits = &conn->iface->limits;
    const unsigned most            = (limits->max_placed_iov > 0) ? limits->max_placed_iov : limits->max_iov;

    return (most < CW_WIRE_PUT_LIST_MAX) ? most : CW_WIRE_PUT_LIST_MAX;
}

int cw_put_list_is_possible(const struct ucp_ep *ep)
{
    const struct cw_limits *limits = &ep->conn->iface->limits;

    return cw_lane_sends_in_place(ep->conn) && max_entries(ep->conn) >= CW_PUT_LIST_FEW &&
           limits->max_placed >= CW_PUT_LIST_LONG && limits->max_bcopy >= CW_WIRE_PUT_LIST_BYTES(CW_PUT_LIST_FEW);
}

/* How many elements the next packet takes. */
static unsigned window(const struct put_list *list, const struct cw_conn *conn)
{
    const struct cw_limits *limits = &conn->iface->limits;
    const size_t max   = (limits->max_placed < CW_WIRE_PUT_LIST_TOTAL) ? limits->max_placed : CW_WIRE_PUT_LIST_TOTAL;
    const unsigned all = max_entries(conn);
    size_t total       = 0;
    unsigned count;

    for (count = 0; count < all && list->next + count < list->end; count++) {
        total += list->lengths[list->next + count];
        if (total > max || CW_WIRE_PUT_LIST_BYTES(count + 1) > limits->max_bcopy) {
            break;
        }
    }
    return count;
}

static size_t pack(void *dest, size_t max CW_UNUSED, void *arg)
{
    const struct put_list *list            = arg;
    const struct cw_wire_put_list header   = {.token = htole64(list->token), .count = htole32(list->offered)};
    struct cw_wire_put_list_element *place = (void *)((char *)dest + sizeof(header));
    struct cw_wire_put_list_element element;

    memcpy(dest, &header, sizeof(header));
    for (size_t i = list->next; i < list->next + list->offered; i++) {
        element = (struct cw_wire_put_list_element){.address = htole64(list->addresses[i]),
                                                    .length  = htole64(list->lengths[i])};
        memcpy(place++, &element, sizeof(element));
    }
    return CW_WIRE_PUT_LIST_BYTES(list->offered);
}

static ucs_status_t offer(struct put_list *list, struct cw_conn *conn)
{
    ucs_status_t status;

    list->offered = window(list, conn);
    status        = cw_lane_send_bcopy(conn, CW_PACKET_PUT_LIST, CW_WIRE_PUT_LIST_BYTES(list->offered), pack, list);
    if (status != UCS_OK) {
        list->offered = 0;
    }
    return status;
}

/* Sends the bytes of the elements that the last PUT_LIST named. */
static ucs_status_t send_bytes(struct cw_request *request)
{
    struct put_list *list                     = cw_request_state(request);
    const struct cw_wire_put_list_data header = {.token = htole64(list->token)};
    struct iovec iov[CW_WIRE_PUT_LIST_MAX];
    ucs_status_t status;
    size_t length = 0;

    for (unsigned i = 0; i < list->offered; i++) {
        iov[i] = (struct iovec){list->buffers[list->next + i], list->lengths[list->next + i]};
        length += iov[i].iov_len;
    }
    status =
        cw_lane_send_in_place(request->ep->conn, CW_PACKET_PUT_LIST, &header, iov, list->offered, &list->completion);
    if (status != UCS_OK && status != UCS_INPROGRESS) {
        return status;
    }
    request->outstanding += status == UCS_INPROGRESS;
    request->ep->turn += (uint32_t)length;
    list->next += list->offered;
    list->offered = 0;
    cw_op_ep(request->ep)->rma->sent_mark++;
    cw_ep_spend(request->ep, length);
    cw_count_message(request->worker, CW_COUNT_PUT_SENT, length);
    return UCS_OK;
}

static ucs_status_t send_some(struct cw_request *request)
{
    struct put_list *list   = cw_request_state(request);
    const uint32_t turn_end = request->ep->turn + TURN_BYTES;
    ucs_status_t status;

    while (list->next < list->end) {
        if (cw_ep_must_pause(request->ep)) {
            return CW_AGAIN;
        }
        status = (list->offered > 0) ? UCS_OK : offer(list, request->ep->conn);
        status = (status == UCS_OK) ? send_bytes(request) : status;
        if (status != UCS_OK) {
            return status;
        }
        if ((int32_t)(request->ep->turn - turn_end) >= 0 && list->next < list->end) {
            return CW_LATER;
        }
    }
    return (request->outstanding == 0) ? UCS_OK : UCS_INPROGRESS;
}

/* PUT_LIST and the bytes of its elements leave in one batch. */
static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_conn *conn = request->ep->conn;
    ucs_status_t status;

    if (!cw_lane_batches(conn)) {
        return send_some(request);
    }
    cw_lane_batch(conn, CW_BATCH_LONG);
    status = send_some(request);
    cw_lane_batch(conn, CW_BATCH_END);
    return status;
}

static ucs_status_t start(struct cw_request *request)
{
    const struct put_list *list = cw_request_state(request);
    ucs_status_t status         = cw_rma_admit_packets(cw_op_ep(request->ep)->rma, list->first_byte, list->span);

    if (status != UCS_OK) {
        return status;
    }
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_PIECES, 0, list->span);
    request->send = go_on;
    return go_on(request);
}

static void given_back(struct cw_completion *completion, ucs_status_t status)
{
    struct put_list *list      = cw_container_of(completion, struct put_list, completion);
    struct cw_request *request = request_of(list);

    request->outstanding--;
    if (request->outstanding == 0 && list->next == list->end) {
        cw_ep_waited(request);
        cw_list_remove(&request->link);
        cw_request_complete(request, status);
    }
}

static void release(struct cw_request *request)
{
    const struct put_list *list = cw_request_state(request);

    cw_rma_end(request->ep, list->generation);
}

/* Computes the range of the owner's memory that holds all pieces. */
static void measure(struct put_list *list)
{
    uint64_t first = UINT64_MAX, end = 0;

    for (size_t i = list->next; i < list->end; i++) {
        first = (list->addresses[i] < first) ? list->addresses[i] : first;
        end   = (list->addresses[i] + list->lengths[i] > end) ? list->addresses[i] + list->lengths[i] : end;
    }
    list->first_byte = first;
    list->span       = end - first;
}

ucs_status_ptr_t cw_put_list(struct ucp_ep *ep, const struct cw_sgl *sgl, size_t first, size_t end,
                             const ucp_request_param_t *param)
{
    struct cw_rma *rma = cw_rma_get(ep);
    struct cw_request *request;
    struct put_list *list;

    request = (rma == NULL) ? NULL : cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    list  = cw_request_state(request);
    *list = (struct put_list){.completion = {given_back},
                              .buffers    = sgl->buffers,
                              .lengths    = sgl->lengths,
                              .addresses  = sgl->addresses,
                              .next       = first,
                              .end        = end,
                              .token      = sgl->rkeys[first]->key.token,
                              .generation = cw_rma_begin(rma)};
    measure(list);
    request->ep      = ep;
    request->send    = start;
    request->release = release;
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_PUT_SENT, 0, list->span);
    return cw_rma_post(request, param->op_attr_mask, CW_RMA_AT_ONCE, NULL);
}
