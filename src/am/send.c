/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends of active messages. The fast path is the transport's short send without a request, as for tags; it joins a
 * small user header and the data on the stack where the transport cannot. All other messages use msg/send.h.
 */
#include <stdlib.h>

#include "am/am.h"
#include "base/bytes.h"
#include "base/log.h"
#include "core/ep_short.h"
#include "msg/op_ep.h"
#include "rndv/send.h"

#define SHORT_BYTES 4224u /* header and data that are joined on the stack */

static size_t write_header(const struct cw_send *send, enum cw_send_part part, void *dest)
{
    static const size_t lengths[CW_SEND_PARTS] = {sizeof(struct cw_wire_am), sizeof(struct cw_wire_am_first),
                                                  sizeof(struct cw_wire_am_rts)};
    const struct cw_wire_am am = {.handler = htole16(send->am.handler),
                            .flags = send->am.flags,
                            .header_length = htole32(send->am.header_length)};
    struct cw_wire_am_first first;
    struct cw_wire_am_rts rts;

    if (dest == NULL) {
        return lengths[part] + send->am.header_length;
    }
    if (part == CW_SEND_FIRST) {
        first = (struct cw_wire_am_first){.am = am,
                                     .total = htole64(send->cursor.length),
                                     .message = htole32(send->message)};
        memcpy(dest, &first, sizeof(first));
    } else if (part == CW_SEND_RTS) {
        rts = (struct cw_wire_am_rts){.am = am, .rts = cw_send_rts(send)};
        memcpy(dest, &rts, sizeof(rts));
    } else {
        memcpy(dest, &am, sizeof(am));
    }
    if (send->am.header_length > 0) {
        cw_bytes_copy_any((char *)dest + lengths[part], send->am.header, send->am.header_length);
    }
    return lengths[part] + send->am.header_length;
}

static ucs_status_t keep_header(struct cw_send *send)
{
    void *copy;

    if (!send->am.copy_header || send->am.owns_header || send->am.header_length == 0) {
        return UCS_OK;
    }
    copy = malloc(send->am.header_length);
    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_bytes_copy_any(copy, send->am.header, send->am.header_length);
    send->am.header = copy;
    send->am.owns_header = 1;
    return UCS_OK;
}

static void release_header(struct cw_send *send)
{
    if (send->am.owns_header) {
        free((void *)(uintptr_t)send->am.header);
        send->am.owns_header = 0;
    }
}

static const struct cw_send_kind am_kind = {
    .ids = {CW_PACKET_AM_EAGER, CW_PACKET_AM_FIRST, CW_PACKET_AM_RTS},
    .counter = CW_COUNT_AM_SENT,
    .operation = CW_PROTO_AM,
    .names_memory = 1,
    .after_fence = 1,
    .used_in_place = 1,
    .header = write_header,
    .keep = keep_header,
    .release = release_header,
};

static CW_NOINLINE ucs_status_ptr_t send_request(struct ucp_ep *ep, uint16_t id, const void *header,
                                                 size_t header_length, const void *buffer, size_t count,
                                                 uint32_t flags, const ucp_request_param_t *param)
{
    struct cw_request *request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    struct cw_send *send;
    ucs_status_t status;

    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    status = cw_send_init(request, ep, &am_kind, buffer, count, param);
    if (status != UCS_OK) {
        return UCS_STATUS_PTR(status);
    }
    send = cw_request_state(request);
    send->am.header = header;
    send->am.header_length = (uint32_t)header_length;
    send->am.handler = id;
    send->am.flags = (flags & UCP_AM_SEND_FLAG_REPLY) ? CW_WIRE_AM_REPLY : 0;
    send->am.owns_header = 0;
    send->am.copy_header = (flags & UCP_AM_SEND_FLAG_COPY_HEADER) != 0;
    send->extra = (uint32_t)header_length;
    if (flags & UCP_AM_SEND_FLAG_RNDV) {
        send->force = CW_FORCE_RNDV;
    } else if (flags & UCP_AM_SEND_FLAG_EAGER) {
        send->force = CW_FORCE_EAGER;
    }
    return cw_send_start(request, param->op_attr_mask);
}

static CW_NOINLINE ucs_status_t send_on_stack(struct ucp_ep *ep, uint64_t first, const void *header,
                                              size_t header_length, const void *buffer, size_t length)
{
    char bytes[SHORT_BYTES];

    if (header_length + length > SHORT_BYTES) {
        return CW_AGAIN;
    }
    cw_bytes_copy_part(bytes, header, header_length);
    if (length > 0) {
        memcpy(bytes + header_length, buffer, length);
    }
    return cw_lane_send_short(ep->conn, CW_PACKET_AM_EAGER, first, bytes, header_length + length);
}

/* Sends a short message with a user header. UCS_OK, or nothing was sent. */
static CW_INLINE ucs_status_t send_with_header(struct ucp_ep *ep, uint64_t first, const void *header,
                                               size_t header_length, const void *buffer, size_t length)
{
    if (length > SIZE_MAX - header_length || !cw_ep_can_send_short(ep, header_length + length)) {
        return CW_AGAIN;
    }
    return cw_lane_joins(ep->conn) ? cw_lane_send_joined(ep->conn, CW_PACKET_AM_EAGER, first, header, header_length,
                                                         buffer, length) :
                                     send_on_stack(ep, first, header, header_length, buffer, length);
}

static CW_COLD ucs_status_ptr_t refuse(unsigned id)
{
    cw_error("ucp_am_send_nbx: active message id %u is out of range, the maximum is %u", id, (unsigned)UINT16_MAX);
    return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
}

/* Sends a short message without a user header. UCS_OK, or nothing was sent. */
static CW_INLINE ucs_status_t send_short(struct ucp_ep *ep, uint64_t first, const void *buffer, size_t length)
{
    return cw_likely(cw_ep_can_send_short(ep, length)) ?
           cw_lane_send_short(ep->conn, CW_PACKET_AM_EAGER, first, buffer, length) : CW_AGAIN;
}

static CW_INLINE void was_sent(struct ucp_ep *ep, size_t length)
{
    cw_ep_sent_alone(ep);
    cw_count_message(ep->worker, CW_COUNT_AM_SENT, length);
}

ucs_status_ptr_t cw_am_send_bytes(struct ucp_ep *ep, unsigned id, const void *buffer, size_t length,
                                  const ucp_request_param_t *param)
{
    if (cw_likely(id <= UINT16_MAX && cw_op_ep(ep)->fences == 0) &&
        cw_likely(send_short(ep, cw_am_first_bytes((uint16_t)id, 0, 0), buffer, length) == UCS_OK)) {
        was_sent(ep, length);
        return NULL;
    }
    return cw_am_send(ep, id, NULL, 0, buffer, length, param);
}

ucs_status_ptr_t cw_am_send(struct ucp_ep *ep, unsigned id, const void *header, size_t header_length,
                            const void *buffer, size_t count, const ucp_request_param_t *param)
{
    const uint32_t attr_mask = param->op_attr_mask;
    const uint32_t flags = (attr_mask & UCP_OP_ATTR_FIELD_FLAGS) ? param->flags : 0;
    const uint64_t first = cw_am_first_bytes((uint16_t)id, flags, header_length);
    size_t length = count;
    ucs_status_t status;

    if (cw_unlikely(id > UINT16_MAX)) {
        return refuse(id);
    }
    if (cw_likely(cw_op_ep(ep)->fences == 0 && !(attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) &&
                  !(flags & UCP_AM_SEND_FLAG_RNDV))) {
        if (attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
            length = cw_dt_is_contig(param->datatype) ? cw_dt_contig_length(param->datatype, count) : SIZE_MAX;
            if (param->datatype == ucp_dt_make_iov() && header_length == 0 &&
                cw_send_list(ep, &am_kind, first, buffer, count)) {
                return NULL;
            }
        }
        status = (header_length == 0) ? send_short(ep, first, buffer, length) :
                 send_with_header(ep, first, header, header_length, buffer, length);
        if (cw_likely(status == UCS_OK)) {
            was_sent(ep, length);
            return NULL;
        }
    }
    return cw_likely(ep->state != CW_EP_FAILED)
               ? send_request(ep, (uint16_t)id, header, header_length, buffer, count, flags, param)
               : UCS_STATUS_PTR(ep->status);
}

_Static_assert(sizeof(struct cw_wire_am_rts) + CW_AM_SMALL_HEADER <= CW_WIRE_LEAST_PIECE,
               "a small header fits the packets of every interface");

size_t cw_am_max_header(struct ucp_worker *worker)
{
    struct cw_am_state *state = worker->am;
    size_t most = CW_AM_MAX_HEADER, packet;
    unsigned i;

    if (cw_unlikely(state->max_header == 0)) { /* the interfaces are opened after the state is created */
        for (i = 0; i < worker->num_ifaces; i++) {
            packet = worker->ifaces[i]->limits.max_bcopy - sizeof(struct cw_wire_am_rts);
            most = (packet < most) ? packet : most;
        }
        state->max_header = most;
    }
    return state->max_header;
}
