/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts (docs/change/one-sided.md). A put needs no request if its bytes can be stored directly, if the kernel copies
 * them, or if they fit a short packet. Every other put is a send of msg/send.h, whose protocol is chosen at each
 * attempt until something was sent. Invariant: rma->async_puts counts a put while it is announced and while the device
 * of the lane writes it; rma->replies counts it while it is announced.
 */
#include "rma/put.h"

#include "access/access.h"
#include "base/bytes.h"
#include "core/ep_batch.h"
#include "proto/select.h"
#include "rma/cma.h"
#include "rndv/bounce.h"
#include "rndv/ipc.h"
#include "rndv/send.h"
#include "rndv/staging.h"

static size_t write_header(const struct cw_send *send, enum cw_send_part part, void *dest)
{
    struct cw_wire_put_rts header = {.token = htole64(send->put.rkey->key.token),
                                   .address = htole64(send->put.address)};

    (void)part; /* only headers of announcements are requested here */
    if (dest != NULL) {
        header.rts = cw_send_rts(send);
        header.rts.address = 0;
        memcpy(dest, &header, sizeof(header));
    }
    return sizeof(header);
}

static void release_put(struct cw_send *send);

const struct cw_send_kind cw_put_kind = {
    .counter = CW_COUNT_PUT_SENT,
    .header = write_header,
    .release = release_put,
};

const struct cw_send_kind cw_put_announced_kind = {
    .ids = {[CW_SEND_RTS] = CW_PACKET_PUT_RTS},
    .acknowledged = 1,
    .confirmed = 1,
    .header = write_header,
    .release = release_put,
};

/* Puts that the device of the lane writes. */
const struct cw_send_kind cw_put_access_kind = {
    .counter = CW_COUNT_PUT_SENT,
    .header = write_header,
    .release = release_put,
};

static void release_put(struct cw_send *send)
{
    struct ucp_ep *ep = cw_send_request(send)->ep;
    struct cw_rma *rma = cw_op_ep(ep)->rma;

    if (send->kind == &cw_put_access_kind) {
        cw_access_free(send->access);
    }
    if (rma != NULL) {
        rma->placing = (rma->placing == cw_send_request(send)) ? NULL : rma->placing;
        rma->replies -= send->kind == &cw_put_announced_kind;
        rma->async_puts -= send->kind == &cw_put_announced_kind || send->kind == &cw_put_access_kind;
    }
    cw_rkey_release(send->put.rkey);
    cw_rma_end(ep, send->message);
}

size_t cw_put_pack(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    const struct cw_wire_put header = cw_put_header(send);

    memcpy(dest, &header, sizeof(header));
    return sizeof(header) +
           cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + sizeof(header), max - sizeof(header));
}

static ucs_status_t refuse(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);

    return cw_rma_refuse_packets(request->ep, &send->cursor, "put");
}

static const struct cw_protocol refused = {.start = refuse};

/* Whether the target's device may copy from the local device memory. */
static bool is_better_announced(const struct cw_send *send, struct ucp_ep *ep)
{
    return cw_unlikely(send->cursor.class_id == CW_DT_DEVICE) &&
           (cw_ipc_is_possible(ep, &send->cursor, send->cursor.length) ||
            cw_bounce_is_possible(ep, &send->cursor, send->cursor.length));
}

/* The bits of proto/select.h. A key without a validity word is one to memory of a device. */
static uint32_t bits_of(const struct cw_send *send, unsigned remote)
{
    return (send->fast ? CW_CHOICE_FAST : 0) |
           (cw_unlikely(send->put.rkey->key.validity == 0 && remote == 0) ? CW_CHOICE_ON_DEVICE : 0);
}

/* Chooses a protocol, without those that have failed for this put. */
static const struct cw_protocol *choose(const struct cw_send *send, struct ucp_ep *ep)
{
    const struct ucp_rkey *rkey = send->put.rkey;
    unsigned remote = 0, force = send->force;

    if (cw_rkey_direct(rkey, send->put.address, CW_KEY_WRITE) != NULL) {
        remote = CW_REMOTE_MAPPED;
    } else if (!send->no_copies && cw_cma_is_possible(ep, &rkey->key)) {
        remote = CW_REMOTE_COPIES;
    } else if (cw_access_is_possible(ep, rkey) && ep->conn->iface->limits.access.max_put_bcopy > 0) {
        remote = CW_REMOTE_ACCESS;
    }
    if (cw_unlikely(remote == 0 && (cw_op_ep(ep)->rma->no_packets || ep->state != CW_EP_OPEN))) {
        return &refused;
    }
    if (remote == 0 && force == CW_FORCE_NONE && is_better_announced(send, ep)) {
        force = CW_FORCE_RNDV;
    }
    return cw_choice_of_data(ep, cw_choice_table(CW_PROTO_PUT, remote), &send->cursor, force, bits_of(send, remote));
}

ucs_status_t cw_put_attempt(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);
    ucs_status_t status;

    do {
        status = choose(send, request->ep)->start(request);
    } while (cw_unlikely(status == UCS_ERR_UNSUPPORTED));
    return status;
}

static ucs_status_t keep(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    return cw_dt_keep(&send->cursor);
}

/* A put that needs no packets ends in its first attempt. One whose first packet carries no bytes may wait for progress
 * behind other sends, if the endpoint batches them. */
static enum cw_rma_haste haste_of(struct ucp_ep *ep, const struct cw_send *send)
{
    if (cw_rkey_direct(send->put.rkey, send->put.address, CW_KEY_WRITE) != NULL ||
        (!send->no_copies && cw_cma_is_possible(ep, &send->put.rkey->key))) {
        return CW_RMA_AT_ONCE;
    }
    return (ep->state == CW_EP_OPEN && cw_ep_collects(ep) && choose(send, ep)->announces) ? CW_RMA_COLLECTED
                                                                                          : CW_RMA_FOLLOWS;
}

static ucs_status_ptr_t put_request(struct ucp_ep *ep, const void *buffer, size_t count, uint64_t address,
                                    struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    struct cw_rma *rma = cw_rma_get(ep);
    struct cw_request *request;
    struct cw_send *send;
    ucs_status_t status;

    request = (rma == NULL) ? NULL : cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    status = cw_send_init(request, ep, &cw_put_kind, buffer, count, param);
    if (status != UCS_OK) {
        return UCS_STATUS_PTR(status);
    }
    cw_rkey_hold(rkey);
    send = cw_request_state(request);
    send->put.rkey = rkey;
    send->put.address = address;
    send->no_copies = !cw_dt_is_memory(&send->cursor);
    send->message = cw_rma_begin(rma);
    request->send = cw_put_attempt;
    cw_rma_note_type(request, &send->cursor);
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_PUT_SENT, 0, send->cursor.length);
    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
        send->force = CW_FORCE_EAGER;
        return cw_rma_post_forced(request);
    }
    return cw_rma_post(request, param->op_attr_mask, haste_of(ep, send), keep);
}

/* Whether a packet may be sent now without a request. fits_short says whether the put fits one. */
static bool may_send(struct ucp_ep *ep, size_t length, uint64_t address)
{
    const struct cw_rma *rma = cw_ep_ready(ep) ? cw_rma_get(ep) : NULL;

    return rma != NULL && !rma->running && !rma->no_packets && cw_list_empty(&rma->queue) &&
           !cw_rma_is_late(rma, address, length);
}

/* Whether one short send carries the put. */
static bool fits_short(const struct ucp_ep *ep, size_t length)
{
    return length <= CW_PUT_SHORT && sizeof(uint64_t) + length <= ep->conn->iface->limits.max_short;
}

/* Whether the device of the message lane carries the put, its bytes inlined in the work request. The lane must be
 * ordered, since only a flush of the lane reports the completion. */
static bool fits_device(const struct ucp_ep *ep, size_t length, uint64_t address, const struct ucp_rkey *rkey,
                        struct cw_access_target *to)
{
    const struct cw_access_limits *limits = &ep->conn->iface->limits.access;

    return limits->in_order && length <= limits->max_put_short && cw_rma_confirmed(cw_op_ep(ep)->rma) &&
           cw_rkey_target(rkey, ep->conn, address, to);
}

/* Stores the bytes of any datatype in the target's mapped memory. Allocates a request only if the program wants one. */
static ucs_status_ptr_t put_direct(struct ucp_ep *ep, const void *buffer, size_t count, size_t length, char *to,
                                   const ucp_request_param_t *param)
{
    const uint32_t attr_mask = param->op_attr_mask;
    struct cw_request *request = NULL;
    struct cw_dt_cursor cursor;
    ucs_status_t status;

    if (attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
        if (request == NULL) {
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        }
    }
    status = cw_dt_start(&cursor, cw_dt_of_param(param), buffer, count, CW_DT_SEND);
    if (status == UCS_OK) {
        (void)cw_dt_pack(&cursor, to, cursor.length);
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, cursor.length);
        cw_dt_finish(&cursor);
    }
    if (request == NULL) {
        return UCS_STATUS_PTR(status);
    }
    cw_rma_note_mapped(request, CW_COUNT_PUT_SENT, length);
    cw_rma_note_type(request, &cursor);
    cw_request_complete(request, status);
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_put(struct ucp_ep *ep, const void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    const uint32_t attributes = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    const int plain = cw_likely(!(param->op_attr_mask & attributes));
    const uint64_t at = htole64(address);
    char bytes[sizeof(at) + CW_PUT_SHORT];
    ucs_status_t status = CW_AGAIN;
    struct cw_access_target target;
    struct cw_dt_cursor cursor;
    char *to;

    if (cw_unlikely(ep->state == CW_EP_FAILED)) {
        return UCS_STATUS_PTR(ep->status);
    }
    to = cw_rkey_direct(rkey, address, CW_KEY_WRITE);
    if (to != NULL && cw_rma_is_clear(ep, address, length, 1)) {
        if (!plain) {
            return put_direct(ep, buffer, count, length, to, param);
        }
        cw_bytes_copy(to, buffer, length);
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, length);
        return NULL;
    }
    if (to == NULL && plain && cw_cma_is_possible(ep, &rkey->key)) {
        cw_dt_start_contig(&cursor, (void *)(uintptr_t)buffer, length);
        if (cw_rma_is_clear(ep, address, length, 1) &&
            cw_cma_copy(ep, &rkey->key, address, &cursor, CW_CMA_PUT) == UCS_OK) {
            status = UCS_OK;
        }
    } else if (to == NULL && plain && may_send(ep, length, address)) {
        if (cw_unlikely(rkey->parts.length > 0) && cw_access_reaches(ep, rkey)) {
            if (fits_device(ep, length, address, rkey, &target)) {
                status = cw_lane_put_short(ep->conn, buffer, length, &target, 0, NULL);
            }
            if (status == UCS_INPROGRESS) {
                cw_op_ep(ep)->rma->unflushed = 1;
                cw_ep_add_flush_rma(ep);
                status = UCS_OK;
            }
        } else if (fits_short(ep, length) && !cw_ep_collects(ep)) {
            memcpy(bytes, &at, sizeof(at));
            cw_bytes_copy(bytes + sizeof(at), buffer, length);
            status = cw_lane_send_short(ep->conn, CW_PACKET_PUT, htole64(rkey->key.token), bytes,
                                        sizeof(at) + length);
            if (status == UCS_OK) {
                cw_op_ep(ep)->rma->sent_mark++;
                cw_ep_add_flush_rma(ep);
                cw_ep_sent_alone(ep);
            }
        }
    }
    if (status == CW_AGAIN || status == CW_BLOCKED) {
        return put_request(ep, buffer, count, address, rkey, param);
    }
    if (status == UCS_OK) {
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, length);
    }
    return UCS_STATUS_PTR(status);
}
