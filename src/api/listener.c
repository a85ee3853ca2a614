/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners and connection requests. A connection request belongs to no worker; accept and reject enter one.
 */
#include "api/call.h"
#include "connect/cm.h"

ucs_status_t ucp_listener_create(ucp_worker_h worker, const ucp_listener_params_t *params, ucp_listener_h *listener_p)
{
    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    return CW_CALL_INSIDE(worker, cw_listener_create(worker, params, listener_p));
}

void ucp_listener_destroy(ucp_listener_h listener)
{
    ucp_worker_h worker;

    CW_CALL_RETURN_IF_NULL(listener, "listener", );
    worker = listener->worker;
    if (cw_call_is_inherited(worker->context, __func__)) {
        return;
    }
    cw_worker_enter(worker);
    cw_listener_destroy(listener);
    cw_worker_leave(worker);
}

ucs_status_t ucp_listener_query(ucp_listener_h listener, ucp_listener_attr_t *attr)
{
    CW_CALL_RETURN_IF_NULL(listener, "listener", UCS_ERR_INVALID_PARAM);
    if (attr->field_mask & UCP_LISTENER_ATTR_FIELD_SOCKADDR) {
        cw_net_to_sockaddr(&listener->address, &attr->sockaddr);
    }
    return UCS_OK;
}

ucs_status_t ucp_listener_reject(ucp_listener_h listener, ucp_conn_request_h conn_request)
{
    CW_CALL_RETURN_IF_NULL(listener, "listener", UCS_ERR_INVALID_PARAM);
    CW_CALL_RETURN_IF_NULL(conn_request, "connection request", UCS_ERR_INVALID_PARAM);
    cw_worker_enter(listener->worker);
    cw_request_reject(listener->worker, conn_request, CW_CM_REJECTED);
    cw_worker_leave(listener->worker);
    return UCS_OK;
}

ucs_status_t ucp_conn_request_query(ucp_conn_request_h conn_request, ucp_conn_request_attr_t *attr)
{
    CW_CALL_RETURN_IF_NULL(conn_request, "connection request", UCS_ERR_INVALID_PARAM);
    if (attr->field_mask & UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR) {
        if (conn_request->client.family == CW_NET_NONE) {
            return UCS_ERR_UNSUPPORTED; /* the client disconnected meanwhile */
        }
        cw_net_to_sockaddr(&conn_request->client, &attr->client_address);
    }
    if (attr->field_mask & UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID) {
        attr->client_id = conn_request->asked.client_id;
    }
    return UCS_OK;
}
