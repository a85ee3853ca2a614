/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: send, receive, poll and release.
 * Callers: programs. Specification: STR.
 * Nothing of this group works yet: every call answers UCS_ERR_NOT_IMPLEMENTED in the form natural for it, leaves its
 * outputs alone and has no effect. docs/STATUS.md lists the calls; remove each from there when it works.
 */
#include <ucp/api/ucp.h>

ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, const ucp_request_param_t *param)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                     const ucp_request_param_t *param)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)length;
    (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length)
{
    (void)ep;
    (void)length;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned int flags)
{
    (void)worker;
    (void)poll_eps;
    (void)max_eps;
    (void)flags;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_stream_recv_request_test(void *request, size_t *length_p)
{
    (void)request;
    (void)length_p;
    return UCS_ERR_NOT_IMPLEMENTED;
}

void ucp_stream_data_release(ucp_ep_h ep, void *data)
{
    (void)ep;
    (void)data;
}
