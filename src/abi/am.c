/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: handlers, send, fetch and release.
 * Callers: programs. Specification: AMS, AMR and AMD.
 * Nothing of this group works yet: every call answers UCS_ERR_NOT_IMPLEMENTED in the form natural for it, leaves its
 * outputs alone and has no effect. docs/STATUS.md lists the calls; remove each from there when it works.
 */
#include <ucp/api/ucp.h>

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
    (void)worker;
    (void)param;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_worker_set_am_handler(ucp_worker_h worker, uint16_t id, ucp_am_callback_t cb, void *arg,
                                       uint32_t flags)
{
    (void)worker;
    (void)id;
    (void)cb;
    (void)arg;
    (void)flags;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned int id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
    (void)ep;
    (void)id;
    (void)header;
    (void)header_length;
    (void)buffer;
    (void)count;
    (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer, size_t count,
                                      const ucp_request_param_t *param)
{
    (void)worker;
    (void)data_desc;
    (void)buffer;
    (void)count;
    (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
    (void)worker;
    (void)data;
}
