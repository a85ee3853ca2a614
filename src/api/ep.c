/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoint calls.
 */
#include <string.h>

#include "api/call.h"
#include "connect/choose.h"
#include "connect/cm.h"
#include "connect/connect.h"
#include "connect/path.h"
#include "core/failover/failover.h"
#include "core/lanes.h"
#include "proto/info.h"

static bool is_known_mode(const ucp_ep_params_t *params)
{
    if ((params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE) &&
        (unsigned)params->err_mode > UCP_ERR_HANDLING_MODE_FAILOVER) {
        cw_error("cannot create an endpoint: unknown error handling mode %u", (unsigned)params->err_mode);
        return false;
    }
    return true;
}

/* Whether the parameters name a peer. */
static bool names_peer(const ucp_ep_params_t *params, unsigned flags)
{
    if (flags & UCP_EP_PARAMS_FLAGS_CLIENT_SERVER) {
        if (!(params->field_mask & UCP_EP_PARAM_FIELD_SOCK_ADDR) || params->sockaddr.addr == NULL) {
            cw_error("UCP_EP_PARAMS_FLAGS_CLIENT_SERVER needs a socket address");
            return false;
        }
        return true;
    }
    if (params->field_mask & UCP_EP_PARAM_FIELD_CONN_REQUEST) {
        if (params->conn_request == NULL) {
            cw_error("cannot create an endpoint: the connection request is NULL");
            return false;
        }
        return true;
    }
    if (!(params->field_mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS) || params->address == NULL) {
        cw_error("an endpoint needs a worker address, a connection request, or a socket address with "
                 "UCP_EP_PARAMS_FLAGS_CLIENT_SERVER");
        return false;
    }
    return true;
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p)
{
    const unsigned flags = (params->field_mask & UCP_EP_PARAM_FIELD_FLAGS) ? params->flags : 0;
    const int has_mode = (params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE) != 0;
    const int has_own = (params->field_mask & UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR) &&
                        params->local_sockaddr.addr != NULL;
    uint8_t err_mode = UCP_ERR_HANDLING_MODE_NONE;
    ucs_status_t status;
    ucp_ep_h ep = NULL;

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    if (!is_known_mode(params) || !names_peer(params, flags)) {
        return UCS_ERR_INVALID_PARAM;
    }
    CW_PROBE(ep_create, worker, params->field_mask, flags);
    if (has_mode) {
        err_mode = (uint8_t)params->err_mode;
    }
    cw_worker_enter(worker);
    if (flags & UCP_EP_PARAMS_FLAGS_CLIENT_SERVER) {
        status = cw_cm_create(worker, &params->sockaddr, has_own ? &params->local_sockaddr : NULL,
                              (flags & UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID) ? worker->client_id : 0, err_mode, &ep);
    } else if (params->field_mask & UCP_EP_PARAM_FIELD_CONN_REQUEST) {
        status = cw_request_accept(worker, params->conn_request, has_mode ? &err_mode : NULL, &ep);
    } else {
        status = cw_wireup_create(worker, params->address, err_mode, &ep);
    }
    if (status == UCS_OK) {
        cw_ep_give(ep, params);
        *ep_p = ep;
    }
    cw_worker_leave(worker);
    return status;
}

ucs_status_ptr_t ucp_ep_modify_nb(ucp_ep_h ep, const ucp_ep_params_t *params)
{
    const uint64_t forbidden =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    if (params->field_mask & forbidden) {
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    }
    cw_worker_enter(ep->worker);
    cw_ep_set_handlers(ep, params);
    cw_worker_leave(ep->worker);
    return NULL;
}

static CW_NOINLINE ucs_status_ptr_t flush_locked(ucp_ep_h ep, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;

    return CW_CALL_LOCKED(worker, cw_ep_flush(ep, param));
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    CW_PROBE(ep_flush, ep, ep->worker, 0);
    return cw_likely(!ep->worker->mt) ? cw_ep_flush(ep, param) : flush_locked(ep, param);
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    int force = (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && (param->flags & UCP_EP_CLOSE_FLAG_FORCE);
    ucs_status_ptr_t result;
    ucp_worker_h worker;

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    worker = ep->worker;
    if (cw_call_is_inherited(worker->context, __func__)) {
        return NULL;
    }
    cw_worker_enter(worker);
    CW_PROBE(ep_close, ep, worker, force);
    result = cw_ep_close(ep, param, force);
    cw_worker_leave(worker);
    return result;
}

/* The transport in use, or the one that would be used; the address was checked when the endpoint was created. */
static const struct cw_iface *iface_of(ucp_ep_h ep)
{
    const uint8_t *bytes = cw_ep_address(ep);
    struct cw_address address;
    struct cw_path path;

    if (ep->conn != NULL) {
        return ep->conn->iface;
    }
    if (bytes == NULL || cw_address_decode(bytes, &address) != UCS_OK ||
        !cw_path_next(ep->worker, &address, 0, NULL, &path)) {
        return NULL;
    }
    return path.iface;
}

/* Fills the next entry for a lane, if the program's array has space for one more. */
static void add_transport(const struct cw_iface *iface, ucp_transports_t *transports, unsigned space)
{
    const ucp_transport_entry_t entry = {.transport_name = cw_iface_name(iface), .device_name = cw_iface_device(iface)};
    const size_t size = (transports->entry_size < sizeof(entry)) ? transports->entry_size : sizeof(entry);

    if (transports->num_entries < space) {
        memcpy((char *)transports->entries + transports->num_entries * transports->entry_size, &entry, size);
        transports->num_entries++;
    }
}

/* The message lane, then the further lanes. */
static void query_transports(ucp_ep_h ep, ucp_transports_t *transports)
{
    const struct cw_iface *iface = iface_of(ep);
    const unsigned space = transports->num_entries;
    unsigned i;

    transports->num_entries = 0;
    if (iface == NULL) {
        return;
    }
    add_transport(iface, transports, space);
    for (i = 0; ep->lanes != NULL && i < CW_MAX_LANES; i++) {
        if (ep->lanes->further[i].state == CW_FURTHER_OPEN) {
            add_transport(ep->lanes->further[i].conn->iface, transports, space);
        }
    }
}

static ucs_status_t query_sockaddrs(ucp_ep_h ep, ucp_ep_attr_t *attr)
{
    const struct cw_ep_cm *cm = ep->cm;

    if (cm == NULL || ep->state == CW_EP_FAILED || cm->remote.family == CW_NET_NONE) {
        return UCS_ERR_NOT_CONNECTED;
    }
    if (attr->field_mask & UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR) {
        cw_net_to_sockaddr(&cm->local, &attr->local_sockaddr);
    }
    if (attr->field_mask & UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR) {
        cw_net_to_sockaddr(&cm->remote, &attr->remote_sockaddr);
    }
    return UCS_OK;
}

ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr)
{
    ucs_status_t status = UCS_OK;

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", UCS_ERR_INVALID_PARAM);
    cw_worker_enter(ep->worker);
    if (attr->field_mask & UCP_EP_ATTR_FIELD_NAME) {
        cw_name_set(attr->name, NULL, ep);
    }
    if (attr->field_mask & (UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR | UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR)) {
        status = query_sockaddrs(ep, attr);
    }
    if (status == UCS_OK && (attr->field_mask & UCP_EP_ATTR_FIELD_TRANSPORTS)) {
        query_transports(ep, &attr->transports);
    }
    if (status == UCS_OK && (attr->field_mask & UCP_EP_ATTR_FIELD_USER_DATA)) {
        attr->user_data = ep->has_user_data ? ep->user_data : NULL; /* last, after all other attributes */
    }
    cw_worker_leave(ep->worker);
    return status;
}

/* Cache lines that a receiver fetches one after the other, before the prefetcher of its CPU runs ahead. */
#define LINES_IN_TURN 8u
#define LINE          64u

/* Extra seconds of a message because sender and receiver are on distant CPUs. */
static double distance(const struct cw_limits *limits, size_t length)
{
    const double lines = (length < LINES_IN_TURN * LINE) ? (double)length / LINE : LINES_IN_TURN;

    return (limits->distance_ns + lines * limits->line_ns) * 1e-9;
}

ucs_status_t ucp_ep_evaluate_perf(ucp_ep_h ep, const ucp_ep_evaluate_perf_param_t *param,
                                  ucp_ep_evaluate_perf_attr_t *attr)
{
    const struct cw_proto_table table = {.operation = CW_PROTO_TAG, .data = CW_DATA_CONTIG};
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    const struct cw_iface *iface;
    unsigned count;

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", UCS_ERR_INVALID_PARAM);
    if (!(param->field_mask & UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE) ||
        !(attr->field_mask & UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME)) {
        return UCS_ERR_INVALID_PARAM;
    }
    cw_worker_enter(ep->worker);
    iface = iface_of(ep);
    if (iface != NULL) {
        count = cw_proto_rows(ep->worker, iface, (ep->state == CW_EP_OPEN) ? ep->conn : NULL, &table, rows);
        attr->estimated_time =
            cw_protocol_estimate(rows, count, param->message_size) + distance(&iface->limits, param->message_size);
    }
    cw_worker_leave(ep->worker);
    return (iface == NULL) ? UCS_ERR_NOT_CONNECTED : UCS_OK;
}

static const char *state_name(const struct ucp_ep *ep)
{
    static const char *const names[] = {"not connected yet", "connecting", "waiting for the peer's connection",
                                        "connected", "failed"};

    return names[ep->state];
}

/* In mode FAILOVER the first lane may be lost, and a further one may carry the messages. */
static void print_first_lane(const struct ucp_ep *ep, const struct cw_iface *iface, FILE *stream)
{
    const struct cw_failover *failover = cw_failover_of(ep);

    if (failover == NULL || failover->first != NULL) {
        fprintf(stream, "#                 lane[0]:  0:%s/%s messages\n", cw_iface_name(iface), cw_iface_device(iface));
    } else {
        fprintf(stream, "#                 lane[0]:  0:lost\n");
    }
}

static void print_further_lanes(const struct ucp_ep *ep, FILE *stream)
{
    const struct cw_failover *failover = cw_failover_of(ep);
    const struct cw_further_lane *lane;
    unsigned i;

    for (i = 0; ep->lanes != NULL && i < CW_MAX_LANES; i++) {
        lane = &ep->lanes->further[i];
        if (lane->state == CW_FURTHER_OPEN) {
            fprintf(stream, "#                 lane[%u]:  %u:%s/%s bulk%s\n", i + 1, i + 1, cw_lane_name(lane->conn),
                    cw_iface_device(lane->conn->iface),
                    (failover != NULL && failover->carrier == lane->conn) ? " messages" : "");
        }
    }
}

void ucp_ep_print_info(ucp_ep_h ep, FILE *stream)
{
    const struct cw_iface *iface;
    char reason[512];

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", );
    cw_worker_enter(ep->worker);
    iface = iface_of(ep);
    fprintf(stream, "#\n# UCP endpoint %p\n#\n#               peer: worker %016llx, endpoint number %u\n", (void *)ep,
            (unsigned long long)cw_ep_peer_uid(ep), ep->number);
    if (iface != NULL) {
        print_first_lane(ep, iface, stream);
        print_further_lanes(ep, stream);
    }
    fprintf(stream, "#               state: %s\n", state_name(ep));
    if (ep->state == CW_EP_FAILED) {
        cw_ep_explain(ep, reason, sizeof(reason));
        fprintf(stream, "#              reason: %s\n", reason);
    }
    fprintf(stream, "#\n");
    if (iface != NULL) {
        cw_proto_info_write(ep->worker, iface, (ep->state == CW_EP_OPEN) ? ep->conn : NULL, stream);
    }
    cw_worker_leave(ep->worker);
}
