/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active message calls. The deprecated send is in compat.c.
 */
#include "am/am.h"
#include "api/call.h"
#include "core/ep_short.h"
#include "core/mem.h"
#include "msg/op_ep.h"

#define KNOWN_FLAGS ((uint32_t)(UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA))

static ucs_status_t set_handler(ucp_worker_h worker, unsigned id, struct cw_am_handler handler, uint32_t flags,
                                const char *call)
{
    if (!cw_worker_has(worker, UCP_FEATURE_AM)) {
        return cw_call_feature_missing(call, "UCP_FEATURE_AM");
    }
    if (flags & ~KNOWN_FLAGS) {
        cw_error("%s: unknown flags 0x%x", call, (unsigned)(flags & ~KNOWN_FLAGS));
        return UCS_ERR_INVALID_PARAM;
    }
    if (id > UINT16_MAX) {
        cw_error("%s: active message id %u is out of range, the maximum is %u", call, id, (unsigned)UINT16_MAX);
        return UCS_ERR_INVALID_PARAM;
    }
    handler.persistent = (flags & UCP_AM_FLAG_PERSISTENT_DATA) != 0;
    return CW_CALL_INSIDE(worker, cw_am_set_handler(worker, (uint16_t)id, &handler));
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
    const uint64_t needed = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    uint64_t mask = param->field_mask;
    struct cw_am_handler handler = {0};

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    if ((mask & needed) != needed) {
        cw_error("ucp_worker_set_am_recv_handler needs both id and cb");
        return UCS_ERR_INVALID_PARAM;
    }
    handler.recv = param->cb;
    handler.arg = (mask & UCP_AM_HANDLER_PARAM_FIELD_ARG) ? param->arg : NULL;
    handler.is_set = param->cb != NULL;
    return set_handler(worker, param->id, handler, (mask & UCP_AM_HANDLER_PARAM_FIELD_FLAGS) ? param->flags : 0,
                       __func__);
}

ucs_status_t ucp_worker_set_am_handler(ucp_worker_h worker, uint16_t id, ucp_am_callback_t cb, void *arg,
                                       uint32_t flags)
{
    struct cw_am_handler handler = {.old = cb, .arg = arg, .is_old = 1, .is_set = cb != NULL};

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    return set_handler(worker, id, handler, flags, __func__);
}

static ucs_status_t check_send(ucp_worker_h worker, size_t header_length, const ucp_request_param_t *param)
{
    const uint32_t both = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_RNDV;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_AM))) {
        return cw_call_feature_missing("ucp_am_send_nbx", "UCP_FEATURE_AM");
    }
    if (cw_unlikely(header_length > 0 && header_length > cw_am_max_header(worker))) {
        cw_error("active message header of %zu bytes is too long, the maximum is %zu (max_am_header of "
                 "ucp_worker_query)",
                 header_length, cw_am_max_header(worker));
        return UCS_ERR_INVALID_PARAM;
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && cw_unlikely((param->flags & both) == both)) {
        cw_error("UCP_AM_SEND_FLAG_EAGER and UCP_AM_SEND_FLAG_RNDV are mutually exclusive");
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

/* A payload in imported memory uses rendezvous unless EAGER is set. `*with`: storage for the changed copy. */
static const ucp_request_param_t *choose_path(const ucp_request_param_t *param, ucp_request_param_t *with)
{
    const uint32_t flags = (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) ? param->flags : 0;

    if (cw_likely(!(param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH)) || (flags & UCP_AM_SEND_FLAG_EAGER) ||
        !cw_mem_is_imported(param->memh)) {
        return param;
    }
    cw_call_copy_param(with, param);
    with->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    with->flags = flags | UCP_AM_SEND_FLAG_RNDV;
    return with;
}

static CW_NOINLINE ucs_status_ptr_t send_general(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_t status = check_send(worker, header_length, param);
    struct cw_call_device device;
    ucp_request_param_t with;
    ucs_status_ptr_t result;

    if (cw_likely(status == UCS_OK)) {
        status = cw_call_check(worker, &param, buffer, count, &device);
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    cw_worker_enter(worker);
    result = cw_am_send(ep, id, header, header_length, buffer, count, choose_path(param, &with));
    cw_worker_leave(worker);
    return result;
}

static CW_INLINE ucs_status_ptr_t send_fast(ucp_ep_h ep, unsigned id, const void *buffer, size_t length,
                                            const ucp_request_param_t *param)
{
    if (cw_unlikely(!cw_ep_can_send_fast(ep, length) || cw_op_ep(ep)->fences != 0 || id > UINT16_MAX)) {
        return cw_am_send_bytes(ep, id, buffer, length, param);
    }
    cw_count_message(ep->worker, CW_COUNT_AM_SENT, length);
    cw_tx_send(ep->tx, CW_PACKET_AM_EAGER, cw_am_first_bytes((uint16_t)id, 0, 0), buffer, length);
    return NULL;
}

static CW_NOINLINE ucs_status_ptr_t send_fast_locked(ucp_ep_h ep, unsigned id, const void *buffer, size_t length,
                                                     const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_ptr_t result;

    cw_lock_enter_inline(&worker->lock);
    result = send_fast(ep, id, buffer, length, param);
    cw_lock_leave_inline(&worker->lock);
    return result;
}

static CW_NOINLINE ucs_status_ptr_t send_with_header(ucp_ep_h ep, unsigned id, const void *header,
                                                     size_t header_length, const void *buffer, size_t length,
                                                     const ucp_request_param_t *param)
{
    if (cw_unlikely(header_length > CW_AM_SMALL_HEADER)) {
        return send_general(ep, id, header, header_length, buffer, length, param);
    }
    return cw_am_send(ep, id, header, header_length, buffer, length, param);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
    const uint32_t unusual = UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS;

    CW_PROBE(am_send, ep, id, count);
    switch (cw_call_form(ep->worker, UCP_FEATURE_AM, buffer, param, unusual)) {
    case CW_CALL_FAST:
        if (cw_likely(header_length == 0)) {
            return send_fast(ep, id, buffer, count, param);
        }
        return send_with_header(ep, id, header, header_length, buffer, count, param);
    case CW_CALL_FAST_LOCKED:
        if (cw_likely(header_length == 0)) {
            return send_fast_locked(ep, id, buffer, count, param);
        }
        break;
    default:
        break;
    }
    return send_general(ep, id, header, header_length, buffer, count, param);
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer, size_t count,
                                      const ucp_request_param_t *param)
{
    ucs_status_t status = CW_CALL_NEEDS(worker, UCP_FEATURE_AM);
    struct cw_call_device device;

    if (cw_likely(status == UCS_OK)) {
        status = cw_call_check(worker, &param, buffer, count, &device);
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return CW_CALL_INSIDE(worker, cw_am_recv_data(worker, data_desc, buffer, count, param));
}

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
    if (CW_CALL_NEEDS(worker, UCP_FEATURE_AM) != UCS_OK) {
        return;
    }
    cw_worker_enter(worker);
    cw_am_data_release(worker, data);
    cw_worker_leave(worker);
}
