/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory access: put and get.
 * Callers: programs. Specification: RMA.
 * Nothing of this group works yet: every call answers UCS_ERR_NOT_IMPLEMENTED in the form natural for it, leaves its
 * outputs alone and has no effect. docs/STATUS.md lists the calls; remove each from there when it works.
 */
#include <ucp/api/ucp.h>

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)remote_addr;
    (void)rkey;
    (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    (void)ep;
    (void)buffer;
    (void)count;
    (void)remote_addr;
    (void)rkey;
    (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}
