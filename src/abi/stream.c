/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream calls (STR-*).
 */
#include "abi/door.h"
#include "op/stream.h"

ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_t status = CW_DOOR_NEEDS(worker, UCP_FEATURE_STREAM);
    ucs_status_ptr_t result;

    if (cw_likely(status == UCS_OK)) {
        status = cw_door_check_param(param, buffer, count);
    }
    if (status == UCS_OK && (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && param->flags != 0) {
        cw_error("ucp_stream_send_nbx knows no flags, but 0x%x was given", (unsigned)param->flags);
        status = UCS_ERR_INVALID_PARAM; /* STR-2 */
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    cw_worker_enter(worker);
    result = cw_stream_send(ep, buffer, count, param);
    cw_worker_leave(worker);
    return result;
}

ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                     const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_t status = CW_DOOR_NEEDS(worker, UCP_FEATURE_STREAM);
    ucs_status_ptr_t result;

    if (cw_likely(status == UCS_OK)) {
        status = cw_door_check_param(param, buffer, count);
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    cw_worker_enter(worker);
    result = cw_stream_recv(ep, buffer, count, length, param);
    cw_worker_leave(worker);
    return result;
}

ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_t status = CW_DOOR_NEEDS(worker, UCP_FEATURE_STREAM);
    ucs_status_ptr_t result;

    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    cw_worker_enter(worker);
    result = cw_stream_recv_data(ep, length);
    cw_worker_leave(worker);
    return result;
}

ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned int flags)
{
    ucs_status_t status = CW_DOOR_NEEDS(worker, UCP_FEATURE_STREAM);
    ssize_t count;

    (void)flags; /* reserved (STR-13) */
    if (cw_unlikely(status != UCS_OK)) {
        return status;
    }
    cw_worker_enter(worker);
    count = cw_stream_poll(worker, poll_eps, max_eps);
    cw_worker_leave(worker);
    return count;
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

/* Data handed out belong to the program: neither the endpoint nor its worker is touched, so no lock. */
void ucp_stream_data_release(ucp_ep_h ep, void *data)
{
    (void)ep;
    cw_stream_data_free(data);
}
