/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending tag messages. A contiguous buffer that fits the transport's short send needs no request, and no copy but the
 * transport's own; nor does one of any length that matches a receive of the same worker (loopback). All other sends use
 * msg/send.h.
 */
#include "core/ep_short.h"
#include "msg/credit.h"
#include "rndv/send.h"
#include "tag/tag.h"

/* A send without acknowledgement may have an id as well: its announcement found no tx space, and then credit
 * arrived. */
static size_t write_first(const struct cw_send *send, void *dest)
{
    const uint64_t sync_id = send->kind->acknowledged ? send->id : 0;
    const struct cw_wire_tag_first header = {.tag = htole64(send->tag),
                                         .total = htole64(send->cursor.length),
                                         .sync_id = htole64(sync_id),
                                         .message = htole32(send->message)};

    if (dest != NULL) {
        memcpy(dest, &header, sizeof(header));
    }
    return sizeof(header);
}

static size_t write_rts(const struct cw_send *send, void *dest)
{
    struct cw_wire_tag_rts header = {.tag = htole64(send->tag)};

    if (dest != NULL) {
        header.rts = cw_send_rts(send);
        memcpy(dest, &header, sizeof(header));
    }
    return sizeof(header);
}

static size_t write_header(const struct cw_send *send, enum cw_send_part part, void *dest)
{
    const struct cw_wire_tag_sync header = {.tag = htole64(send->tag), .sync_id = htole64(send->id)};
    size_t length = send->kind->acknowledged ? sizeof(header) : sizeof(struct cw_wire_tag);

    if (part == CW_SEND_FIRST) {
        return write_first(send, dest);
    }
    if (part == CW_SEND_RTS) {
        return write_rts(send, dest);
    }
    if (dest != NULL) {
        memcpy(dest, &header, length); /* the eager header is a prefix of the synchronous one */
    }
    return length;
}

static const struct cw_send_kind tag_kind = {
    .ids = {CW_PACKET_TAG_EAGER, CW_PACKET_TAG_FIRST, CW_PACKET_TAG_RTS},
    .counter = CW_COUNT_TAG_SENT,
    .operation = CW_PROTO_TAG,
    .names_memory = 1,
    .credited = 1,
    .header = write_header,
    .take_back = cw_tag_take_back,
};

static const struct cw_send_kind tag_sync_kind = {
    .ids = {CW_PACKET_TAG_SYNC, CW_PACKET_TAG_FIRST, CW_PACKET_TAG_RTS},
    .counter = CW_COUNT_TAG_SENT,
    .operation = CW_PROTO_TAG,
    .names_memory = 1,
    .credited = 1,
    .acknowledged = 1,
    .header = write_header,
    .take_back = cw_tag_take_back,
};

static CW_NOINLINE ucs_status_ptr_t send_request(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                                                 const ucp_request_param_t *param, int sync)
{
    struct cw_request *request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    ucs_status_t status;

    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    status = cw_send_init(request, ep, sync ? &tag_sync_kind : &tag_kind, buffer, count, param);
    if (status != UCS_OK) {
        return UCS_STATUS_PTR(status);
    }
    ((struct cw_send *)cw_request_state(request))->tag = tag;
    return cw_send_start(request, param->op_attr_mask);
}

/* Sends without a request: to the worker itself at any length if the receive is posted, else by a short packet. */
static CW_INLINE bool send_at_once(struct ucp_ep *ep, const void *buffer, size_t length, ucp_tag_t tag, int sync)
{
    const bool is_short = cw_likely(!sync) && length < ep->conn->iface->plan->short_end;

    if (cw_lane_hand_over(ep->conn, htole64(tag), buffer, length, is_short)) {
        return true;
    }
    if (!is_short || cw_ep_collects(ep) ||
        cw_lane_send_short(ep->conn, CW_PACKET_TAG_EAGER, htole64(tag), buffer, length) != UCS_OK) {
        return false;
    }
    cw_ep_sent_alone(ep);
    return true;
}

ucs_status_ptr_t cw_tag_send(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                             const ucp_request_param_t *param, int sync)
{
    const uint32_t attr_mask = param->op_attr_mask;
    size_t length = count;

    if (cw_likely(!(attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL))) {
        if (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
            length = cw_dt_is_contig(param->datatype) ? cw_dt_contig_length(param->datatype, count) : SIZE_MAX;
            if (param->datatype == ucp_dt_make_iov() && !sync &&
                cw_send_list(ep, &tag_kind, htole64(tag), buffer, count)) {
                return NULL;
            }
        }
        if (cw_credit_has(ep, length) && cw_ep_ready(ep) && send_at_once(ep, buffer, length, tag, sync)) {
            cw_credit_sent(ep, length);
            cw_count_message(ep->worker, CW_COUNT_TAG_SENT, length);
            return NULL;
        }
    }
    return cw_likely(ep->state != CW_EP_FAILED) ? send_request(ep, buffer, count, tag, param, sync)
                                                : UCS_STATUS_PTR(ep->status);
}

ucs_status_t cw_tag_on_ack(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_tag_ack header;
    struct cw_request *request;
    struct cw_send *send;

    memcpy(&header, data, sizeof(header));
    request = cw_send_find(ep, le64toh(header.sync_id));
    send = (request == NULL) ? NULL : cw_request_state(request);
    /* protocol error: TAG_ACK for no send, for one that expects no answer, or for one that is not sent yet */
    if (send == NULL || !send->kind->acknowledged || send->acknowledged ||
        (send->phase != CW_SEND_PIECES && send->phase != CW_SEND_SENT)) {
        return UCS_ERR_IO_ERROR;
    }
    send->acknowledged = 1;
    if (send->phase == CW_SEND_SENT && request->outstanding == 0) { /* otherwise its first piece was matched */
        cw_send_finish(request, UCS_OK);
    }
    return UCS_OK;
}
