/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag calls.
 */
#include "api/call.h"
#include "core/ep_short.h"
#include "msg/credit.h"
#include "tag/tag.h"
#include "wire/packet.h"

static CW_NOINLINE ucs_status_ptr_t send_general(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                                 const ucp_request_param_t *param, int sync, const char *call)
{
    ucp_worker_h worker = ep->worker;
    struct cw_call_device device;
    ucs_status_ptr_t result;
    ucs_status_t status;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_TAG))) {
        return UCS_STATUS_PTR(cw_call_feature_missing(call, "UCP_FEATURE_TAG"));
    }
    status = cw_call_check(worker, &param, buffer, count, &device);
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    cw_worker_enter(worker);
    result = cw_tag_send(ep, buffer, count, tag, param, sync);
    cw_worker_leave(worker);
    return result;
}

static CW_INLINE ucs_status_ptr_t send_fast(ucp_ep_h ep, const void *buffer, size_t length, ucp_tag_t tag,
                                            const ucp_request_param_t *param)
{
    if (cw_unlikely(!cw_ep_can_send_fast(ep, length) || !cw_credit_has(ep, length))) {
        return cw_tag_send(ep, buffer, length, tag, param, 0);
    }
    cw_credit_sent(ep, length);
    cw_count_message(ep->worker, CW_COUNT_TAG_SENT, length);
    cw_tx_send(ep->tx, CW_PACKET_TAG_EAGER, htole64(tag), buffer, length);
    return NULL;
}

static CW_NOINLINE ucs_status_ptr_t send_fast_locked(ucp_ep_h ep, const void *buffer, size_t length, ucp_tag_t tag,
                                                     const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_ptr_t result;

    cw_lock_enter_inline(&worker->lock);
    result = send_fast(ep, buffer, length, tag, param);
    cw_lock_leave_inline(&worker->lock);
    return result;
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param)
{
    CW_PROBE(tag_send, ep, count, tag);
    switch (cw_call_form(ep->worker, UCP_FEATURE_TAG, buffer, param, UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
    case CW_CALL_FAST:
        return send_fast(ep, buffer, count, tag, param);
    case CW_CALL_FAST_LOCKED:
        return send_fast_locked(ep, buffer, count, tag, param);
    default:
        return send_general(ep, buffer, count, tag, param, 0, __func__);
    }
}

ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                       const ucp_request_param_t *param)
{
    CW_PROBE(tag_send, ep, count, tag);
    return send_general(ep, buffer, count, tag, param, 1, __func__);
}

static inline ucs_status_t check_recv(ucp_worker_h worker, const void *buffer, size_t count,
                                      const ucp_request_param_t **param_p, struct cw_call_device *device,
                                      const char *call)
{
    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_TAG))) {
        return cw_call_feature_missing(call, "UCP_FEATURE_TAG");
    }
    return cw_call_check(worker, param_p, buffer, count, device);
}

static CW_NOINLINE ucs_status_ptr_t recv_general(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag,
                                                 ucp_tag_t tag_mask, const ucp_request_param_t *param)
{
    struct cw_call_device device;
    ucs_status_t status = check_recv(worker, buffer, count, &param, &device, "ucp_tag_recv_nbx");

    return (status != UCS_OK)
               ? UCS_STATUS_PTR(status)
               : CW_CALL_INSIDE(worker, cw_tag_recv(worker, buffer, count, tag, tag_mask, param));
}

static CW_NOINLINE ucs_status_ptr_t recv_fast_locked(ucp_worker_h worker, void *buffer, size_t length, ucp_tag_t tag,
                                                     ucp_tag_t tag_mask, const ucp_request_param_t *param)
{
    return CW_CALL_LOCKED(worker, cw_tag_recv_fast_locked(worker, buffer, length, tag, tag_mask, param));
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t tag_mask,
                                  const ucp_request_param_t *param)
{
    CW_PROBE(tag_recv, worker, count, tag);
    switch (cw_call_form(worker, UCP_FEATURE_TAG, buffer, param,
                         UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)) {
    case CW_CALL_FAST:
        return cw_tag_recv_fast(worker, buffer, count, tag, tag_mask, param);
    case CW_CALL_FAST_LOCKED:
        return recv_fast_locked(worker, buffer, count, tag, tag_mask, param);
    default:
        return recv_general(worker, buffer, count, tag, tag_mask, param);
    }
}

static CW_NOINLINE ucs_status_ptr_t recv_message_general(ucp_worker_h worker, void *buffer, size_t count,
                                                         ucp_tag_message_h message, const ucp_request_param_t *param)
{
    struct cw_call_device device;
    ucs_status_t status = check_recv(worker, buffer, count, &param, &device, "ucp_tag_msg_recv_nbx");

    return (status != UCS_OK) ? UCS_STATUS_PTR(status)
                              : CW_CALL_INSIDE(worker, cw_tag_recv_message(worker, buffer, count, message, param));
}

ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_message_h message,
                                      const ucp_request_param_t *param)
{
    return (cw_call_form(worker, UCP_FEATURE_TAG, buffer, param, 0) == CW_CALL_FAST)
               ? cw_tag_recv_message(worker, buffer, count, message, param)
               : recv_message_general(worker, buffer, count, message, param);
}

ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask, int remove,
                                   ucp_tag_recv_info_t *info)
{
    if (CW_CALL_NEEDS(worker, UCP_FEATURE_TAG) != UCS_OK) {
        return NULL;
    }
    return CW_CALL_INSIDE(worker, cw_tag_probe(worker, tag, tag_mask, remove, info));
}
