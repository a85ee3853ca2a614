/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream calls (STR-*).
 */
#include "abi/call.h"
#include "op/stream.h"

/* Out of line, so that the most frequent call saves no registers across its inner call. */
static CW_APART ucs_status_ptr_t send_checked(ucp_ep_h ep, const void *buffer, size_t count,
                                              const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    struct cw_call_device device;
    ucs_status_t status;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_STREAM))) {
        return UCS_STATUS_PTR(cw_call_feature_missing("ucp_stream_send_nbx", "UCP_FEATURE_STREAM"));
    }
    status = cw_call_check(worker, &param, buffer, count, &device);
    if (status == UCS_OK && (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && param->flags != 0) {
        cw_error("ucp_stream_send_nbx knows no flags, but 0x%x was given", (unsigned)param->flags);
        status = UCS_ERR_INVALID_PARAM; /* STR-2 */
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return CW_CALL_INSIDE(worker, cw_stream_send(ep, buffer, count, param));
}

#define SEND_UNUSUAL (UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS)

/* A plain call on a worker with a lock takes the lock and then the same short way. */
static CW_APART ucs_status_ptr_t send_shared(ucp_ep_h ep, const void *buffer, size_t count,
                                             const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;

    if (!cw_call_is_plain(param, SEND_UNUSUAL) || !cw_worker_is_host(worker, buffer)) {
        return send_checked(ep, buffer, count, param);
    }
    return CW_CALL_LOCKED(worker, cw_likely(cw_stream_has_cell(ep, count)) ? cw_stream_send_cell(ep, buffer, count)
                                                                           : cw_stream_send(ep, buffer, count, param));
}

ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, const ucp_request_param_t *param)
{
    if (cw_likely((ep->worker->quick & UCP_FEATURE_STREAM) &&
                  cw_call_is_plain(param, SEND_UNUSUAL) && cw_worker_is_host(ep->worker, buffer))) {
        return cw_likely(cw_stream_has_cell(ep, count)) ? cw_stream_send_cell(ep, buffer, count) :
               cw_stream_send(ep, buffer, count, param);
    }
    return (ep->worker->quick_locked & UCP_FEATURE_STREAM) ? send_shared(ep, buffer, count, param) :
           send_checked(ep, buffer, count, param);
}

static CW_APART ucs_status_ptr_t recv_checked(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                              const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    struct cw_call_device device;
    ucs_status_t status;

    if (!cw_worker_has(worker, UCP_FEATURE_STREAM)) {
        return UCS_STATUS_PTR(cw_call_feature_missing("ucp_stream_recv_nbx", "UCP_FEATURE_STREAM"));
    }
    status = cw_call_check(worker, &param, buffer, count, &device);
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return CW_CALL_INSIDE(worker, cw_stream_recv(ep, buffer, count, length, param));
}

ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                     const ucp_request_param_t *param)
{
    return cw_likely((ep->worker->quick & UCP_FEATURE_STREAM) && cw_call_is_plain(param, 0) &&
                     cw_worker_is_host(ep->worker, buffer)) ?
           cw_stream_recv(ep, buffer, count, length, param) :
           recv_checked(ep, buffer, count, length, param);
}

static CW_APART ucs_status_ptr_t recv_data_checked(ucp_ep_h ep, size_t *length)
{
    ucp_worker_h worker = ep->worker;

    if (worker->quick_locked & UCP_FEATURE_STREAM) {
        return CW_CALL_LOCKED(worker, cw_stream_recv_data(ep, length));
    }
    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_STREAM))) {
        return UCS_STATUS_PTR(cw_call_feature_missing("ucp_stream_recv_data_nb", "UCP_FEATURE_STREAM"));
    }
    return CW_CALL_INSIDE(worker, cw_stream_recv_data(ep, length));
}

ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length)
{
    return cw_likely(ep->worker->quick & UCP_FEATURE_STREAM) ? cw_stream_recv_data(ep, length) :
           recv_data_checked(ep, length);
}

ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned int flags)
{
    ucs_status_t status = CW_CALL_NEEDS(worker, UCP_FEATURE_STREAM);

    (void)flags; /* reserved (STR-13) */
    if (cw_unlikely(status != UCS_OK)) {
        return status;
    }
    return CW_CALL_INSIDE(worker, cw_stream_poll(worker, poll_eps, max_eps));
}

ucs_status_t ucp_stream_recv_request_test(void *request, size_t *length_p)
{
    const struct cw_request *req = cw_request_of(request);
    ucs_status_t status          = __atomic_load_n(&req->status, __ATOMIC_ACQUIRE);

    if (status != UCS_INPROGRESS) {
        *length_p = req->info.length;
    }
    return status;
}

/* Data that were handed out belong to the program: neither endpoint nor worker is touched, so no lock. */
void ucp_stream_data_release(ucp_ep_h ep CW_UNUSED, void *data)
{
    if (!CW_CALL_LACKS(data, "pointer to stream data")) {
        cw_stream_data_free(data);
    }
}
