/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets (docs/change/one-sided.md). A get from memory that is mapped here, or that the kernel copies, needs no request;
 * for other gets each attempt chooses a protocol. Invariant: a get counts as late from its GET packet, or from the
 * device's first access, to its end.
 */
#include "rma/get.h"

#include "access/access.h"
#include "base/bytes.h"
#include "proto/select.h"
#include "rma/cma.h"
#include "rndv/recv.h"

static void release(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    cw_access_free(get->access);
    cw_dt_finish(&get->cursor);
    if (rma != NULL && get->asked) {
        rma->replies--;
    }
    if (rma != NULL && get->late) {
        rma->late.fetching -= get->fetching;
        cw_rma_late_remove(rma);
    }
    cw_rkey_release(get->rkey);
    cw_rma_end(request->ep, get->generation);
}

ucs_status_t cw_get_send(struct cw_request *request, uint64_t id, uint32_t piece)
{
    const struct cw_get *get = cw_request_state(request);
    const struct cw_wire_get packet = {.token = htole64(get->rkey->key.token),
                                  .address = htole64(get->address),
                                  .length = htole64(get->cursor.length),
                                  .receive_id = htole64(id),
                                  .piece = htole32(piece),
                                  .flags = htole32(get->accepts)};

    return cw_lane_send_packet(request->ep->conn, CW_PACKET_GET, &packet, sizeof(packet));
}

ucs_status_t cw_get_on_refused(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_get_refused packet;
    int32_t status;

    memcpy(&packet, data, sizeof(packet));
    status = (int32_t)le32toh((uint32_t)packet.status);
    if (status >= 0 || status <= UCS_ERR_LAST) {
        return UCS_ERR_IO_ERROR;
    }
    return cw_rndv_recv_refused(ep, le64toh(packet.receive_id), (ucs_status_t)status);
}

/* ---- the attempts of a get ---- */

static ucs_status_t refuse(struct cw_request *request)
{
    const struct cw_get *get = cw_request_state(request);

    return cw_rma_refuse_packets(request->ep, &get->cursor, "get");
}

static const struct cw_protocol refused = {.start = refuse};

/* Chooses a protocol by how the memory can be reached now, without those that failed before. */
static const struct cw_protocol *choose(const struct cw_get *get, struct ucp_ep *ep)
{
    unsigned remote = 0;

    if (cw_rkey_direct(get->rkey, get->address, CW_KEY_READ) != NULL) {
        remote = CW_REMOTE_MAPPED;
    } else if (!get->no_copies && cw_cma_is_possible(ep, &get->rkey->key)) {
        remote = CW_REMOTE_COPIES;
    } else if (cw_access_is_possible(ep, get->rkey)) {
        remote = CW_REMOTE_ACCESS;
    }
    if (cw_unlikely(remote == 0 && (cw_op_ep(ep)->rma->no_packets || ep->state != CW_EP_OPEN))) {
        return &refused;
    }
    return cw_choice_of_data(ep, cw_choice_table(CW_PROTO_GET, remote), &get->cursor,
                             get->forced ? CW_FORCE_EAGER : CW_FORCE_NONE, 0);
}

/* Each attempt chooses the protocol, because a queued get may get its connection later. */
static ucs_status_t attempt(struct cw_request *request)
{
    const struct cw_get *get = cw_request_state(request);
    ucs_status_t status;

    do {
        status = choose(get, request->ep)->start(request);
    } while (cw_unlikely(status == UCS_ERR_UNSUPPORTED));
    return status;
}

static ucs_status_t keep(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);

    return cw_dt_keep(&get->cursor);
}

/* A get that needs no packets ends in its first attempt. */
static enum cw_rma_haste haste_of(struct ucp_ep *ep, const struct cw_get *get)
{
    return (cw_rkey_direct(get->rkey, get->address, CW_KEY_READ) != NULL ||
            (!get->no_copies && cw_cma_is_possible(ep, &get->rkey->key)))
               ? CW_RMA_AT_ONCE
               : CW_RMA_COLLECTED;
}

static ucs_status_ptr_t get_request(struct ucp_ep *ep, void *buffer, size_t count, uint64_t address,
                                    struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    struct cw_rma *rma = cw_rma_get(ep);
    struct cw_request *request;
    ucs_status_t status;
    struct cw_get *get;

    request = (rma == NULL) ? NULL : cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    get = cw_request_state(request);
    *get = (struct cw_get){.rkey = rkey, .address = address};
    status = cw_dt_start(&get->cursor, cw_dt_of_param(param), buffer, count, CW_DT_RECV);
    if (status != UCS_OK) {
        cw_request_put(request);
        return UCS_STATUS_PTR(status);
    }
    cw_rkey_hold(rkey);
    get->no_copies = !cw_dt_is_memory(&get->cursor);
    get->generation = cw_rma_begin(rma);
    request->ep = ep;
    request->send = attempt;
    request->release = release;
    cw_rma_note_type(request, &get->cursor);
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_GET_RECEIVED, 0, get->cursor.length);
    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
        get->forced = 1;
        return cw_rma_post_forced(request);
    }
    return cw_rma_post(request, param->op_attr_mask, haste_of(ep, get), keep);
}

/* Reads mapped memory by loads, into any datatype. Makes a request only if the program wants one. */
static ucs_status_ptr_t get_direct(struct ucp_ep *ep, void *buffer, size_t count, size_t length, const char *from,
                                   const ucp_request_param_t *param)
{
    struct cw_request *request = NULL;
    struct cw_dt_cursor cursor;
    ucs_status_t status;

    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
        if (request == NULL) {
            return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        }
    }
    status = cw_dt_start(&cursor, cw_dt_of_param(param), buffer, count, CW_DT_RECV);
    if (status == UCS_OK) {
        status = cw_dt_unpack(&cursor, from, cursor.length);
        cw_count_message(ep->worker, CW_COUNT_GET_RECEIVED, cursor.length);
        cw_dt_finish(&cursor);
    }
    if (request == NULL) {
        return UCS_STATUS_PTR(status);
    }
    cw_rma_note_mapped(request, CW_COUNT_GET_RECEIVED, length);
    cw_rma_note_type(request, &cursor);
    cw_request_complete(request, status);
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_get(struct ucp_ep *ep, void *buffer, size_t count, size_t length, uint64_t address,
                        struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    const uint32_t plain = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    ucs_status_ptr_t result = NULL;
    struct cw_dt_cursor cursor;
    const char *from;

    if (cw_unlikely(ep->state == CW_EP_FAILED)) {
        return UCS_STATUS_PTR(ep->status);
    }
    from = cw_rkey_direct(rkey, address, CW_KEY_READ);
    if (from == NULL && !(param->op_attr_mask & plain) && cw_rma_is_clear(ep, address, length, 0) &&
        cw_cma_is_possible(ep, &rkey->key)) {
        cw_dt_start_contig(&cursor, buffer, length);
        if (cw_cma_copy(ep, &rkey->key, address, &cursor, CW_CMA_GET) == UCS_OK) {
            cw_count_message(ep->worker, CW_COUNT_GET_RECEIVED, length);
            return NULL;
        }
    }
    if (cw_unlikely(from == NULL || !cw_rma_is_clear(ep, address, length, 0))) {
        if (cw_unlikely(rkey->parts.length > 0) && from == NULL &&
            !(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) && cw_dt_is_contig(cw_dt_of_param(param))) {
            result = cw_get_short(ep, buffer, length, address, rkey, param);
        }
        if (result == NULL) {
            result = get_request(ep, buffer, count, address, rkey, param);
        }
        if (cw_likely(!UCS_PTR_IS_ERR(result))) {
            cw_count_message(ep->worker, CW_COUNT_GET_RECEIVED, length);
        }
        return result;
    }
    if (cw_unlikely(param->op_attr_mask & plain)) {
        return get_direct(ep, buffer, count, length, from, param);
    }
    cw_bytes_copy(buffer, from, length);
    cw_count_message(ep->worker, CW_COUNT_GET_RECEIVED, length);
    return NULL;
}
