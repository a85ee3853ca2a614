/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag calls (TAG-*, TPR-*).
 */
#include "abi/call.h"
#include "op/tag.h"

/* Out of line, so that without a lock the public call saves no registers across the call of the core. */
static CW_APART ucs_status_ptr_t send_locked(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                             const ucp_request_param_t *param, int sync)
{
    ucp_worker_h worker = ep->worker;

    return CW_CALL_INSIDE(worker, cw_tag_send(ep, buffer, count, tag, param, sync));
}

static CW_APART ucs_status_ptr_t tag_send(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                           const ucp_request_param_t *param, int sync, const char *call)
{
    ucp_worker_h worker = ep->worker;
    struct cw_call_device device;
    ucs_status_t status;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_TAG))) {
        return UCS_STATUS_PTR(cw_call_feature_missing(call, "UCP_FEATURE_TAG"));
    }
    status = cw_call_check(worker, &param, buffer, count, &device);
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return cw_likely(!worker->mt) ? cw_tag_send(ep, buffer, count, tag, param, sync) :
           send_locked(ep, buffer, count, tag, param, sync);
}

/* A plain call on a worker with a lock takes the lock and then the same short way. */
static CW_APART ucs_status_ptr_t send_shared(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                             const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;

    if (!cw_call_is_plain(param, UCP_OP_ATTR_FLAG_NO_IMM_CMPL) || !cw_worker_is_host(worker, buffer)) {
        return tag_send(ep, buffer, count, tag, param, 0, "ucp_tag_send_nbx");
    }
    return CW_CALL_LOCKED(worker, cw_tag_send_plain(ep, buffer, count, tag, param));
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param)
{
    CW_PROBE(tag_send, ep, count, tag);
    if (cw_likely((ep->worker->quick & UCP_FEATURE_TAG) && cw_call_is_plain(param, UCP_OP_ATTR_FLAG_NO_IMM_CMPL) &&
                  cw_worker_is_host(ep->worker, buffer))) {
        return cw_tag_send_plain(ep, buffer, count, tag, param);
    }
    return (ep->worker->quick_locked & UCP_FEATURE_TAG) ? send_shared(ep, buffer, count, tag, param) :
           tag_send(ep, buffer, count, tag, param, 0, __func__);
}

ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                       const ucp_request_param_t *param)
{
    CW_PROBE(tag_send, ep, count, tag);
    return tag_send(ep, buffer, count, tag, param, 1, __func__);
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

static CW_APART ucs_status_ptr_t recv_locked(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag,
                                             ucp_tag_t tag_mask, const ucp_request_param_t *param)
{
    return CW_CALL_INSIDE(worker, cw_tag_recv(worker, buffer, count, tag, tag_mask, param));
}

static CW_APART ucs_status_ptr_t recv_any(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag,
                                          ucp_tag_t tag_mask, const ucp_request_param_t *param)
{
    struct cw_call_device device;
    ucs_status_t status = check_recv(worker, buffer, count, &param, &device, "ucp_tag_recv_nbx");

    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return cw_likely(!worker->mt) ? cw_tag_recv(worker, buffer, count, tag, tag_mask, param) :
           recv_locked(worker, buffer, count, tag, tag_mask, param);
}

#define RECEIVE_UNUSUAL (UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)

static CW_APART ucs_status_ptr_t recv_shared(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag,
                                             ucp_tag_t tag_mask, const ucp_request_param_t *param)
{
    if (!cw_call_is_plain(param, RECEIVE_UNUSUAL) || !cw_worker_is_host(worker, buffer)) {
        return recv_any(worker, buffer, count, tag, tag_mask, param);
    }
    return CW_CALL_LOCKED(worker, cw_tag_recv_plain_shared(worker, buffer, count, tag, tag_mask, param));
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t tag_mask,
                                  const ucp_request_param_t *param)
{
    CW_PROBE(tag_recv, worker, count, tag);
    return cw_likely((worker->quick & UCP_FEATURE_TAG) && cw_call_is_plain(param, RECEIVE_UNUSUAL) &&
                     cw_worker_is_host(worker, buffer)) ?
           cw_tag_recv_plain(worker, buffer, count, tag, tag_mask, param) :
           (worker->quick_locked & UCP_FEATURE_TAG) ?
           recv_shared(worker, buffer, count, tag, tag_mask, param) :
           recv_any(worker, buffer, count, tag, tag_mask, param);
}

static CW_APART ucs_status_ptr_t recv_message_locked(ucp_worker_h worker, void *buffer, size_t count,
                                                     ucp_tag_message_h message, const ucp_request_param_t *param)
{
    return CW_CALL_LOCKED(worker, cw_tag_recv_message(worker, buffer, count, message, param));
}

static CW_APART ucs_status_ptr_t recv_message_any(ucp_worker_h worker, void *buffer, size_t count,
                                                  ucp_tag_message_h message, const ucp_request_param_t *param)
{
    struct cw_call_device device;
    ucs_status_t status = check_recv(worker, buffer, count, &param, &device, "ucp_tag_msg_recv_nbx");

    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return cw_likely(!worker->mt) ? cw_tag_recv_message(worker, buffer, count, message, param) :
           recv_message_locked(worker, buffer, count, message, param);
}

ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_message_h message,
                                      const ucp_request_param_t *param)
{
    return cw_likely((worker->quick & UCP_FEATURE_TAG) && cw_call_is_plain(param, 0) &&
                     cw_worker_is_host(worker, buffer)) ?
           cw_tag_recv_message(worker, buffer, count, message, param) :
           recv_message_any(worker, buffer, count, message, param);
}

static CW_APART ucp_tag_message_h probe_locked(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask, int remove,
                                               ucp_tag_recv_info_t *info)
{
    return CW_CALL_LOCKED(worker, cw_tag_probe(worker, tag, tag_mask, remove, info));
}

ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask, int remove,
                                   ucp_tag_recv_info_t *info)
{
    if (CW_CALL_NEEDS(worker, UCP_FEATURE_TAG) != UCS_OK) {
        return NULL;
    }
    return cw_likely(!worker->mt) ? cw_tag_probe(worker, tag, tag_mask, remove, info) :
           probe_locked(worker, tag, tag_mask, remove, info);
}
