/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client/server: listeners and connection requests.
 * Callers: programs. Specification: CS.
 * Nothing of this group works yet: every call answers UCS_ERR_NOT_IMPLEMENTED in the form natural for it, leaves its
 * outputs alone and has no effect. docs/STATUS.md lists the calls; remove each from there when it works.
 */
#include <ucp/api/ucp.h>

ucs_status_t ucp_listener_create(ucp_worker_h worker, const ucp_listener_params_t *params, ucp_listener_h *listener_p)
{
    (void)worker;
    (void)params;
    (void)listener_p;
    return UCS_ERR_NOT_IMPLEMENTED;
}

void ucp_listener_destroy(ucp_listener_h listener)
{
    (void)listener;
}

ucs_status_t ucp_listener_query(ucp_listener_h listener, ucp_listener_attr_t *attr)
{
    (void)listener;
    (void)attr;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_listener_reject(ucp_listener_h listener, ucp_conn_request_h conn_request)
{
    (void)listener;
    (void)conn_request;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_conn_request_query(ucp_conn_request_h conn_request, ucp_conn_request_attr_t *attr)
{
    (void)conn_request;
    (void)attr;
    return UCS_ERR_NOT_IMPLEMENTED;
}
