/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of connect/cm.h: listeners, connection requests, and the endpoints made from them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "connect/connect.h"
#include "connect/cm.h"
#include "core/lane_cm.h"

static ucs_status_t check_params(const ucp_listener_params_t *params, struct cw_net_address *address)
{
    const uint64_t mask = params->field_mask;
    const int accepts = (mask & UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER) != 0;
    const int hands = (mask & UCP_LISTENER_PARAM_FIELD_CONN_HANDLER) != 0;

    if (!(mask & UCP_LISTENER_PARAM_FIELD_SOCK_ADDR) || params->sockaddr.addr == NULL) {
        cw_error("a listener needs a socket address");
        return UCS_ERR_INVALID_PARAM;
    }
    if (accepts == hands || (accepts && params->accept_handler.cb == NULL) ||
        (hands && params->conn_handler.cb == NULL)) {
        cw_error("a listener needs either an accept handler or a connection handler");
        return UCS_ERR_INVALID_PARAM;
    }
    return cw_cm_address(&params->sockaddr, "a listener", address);
}

static int backlog_of(const struct ucp_worker *worker)
{
    const uint64_t setting = worker->context->config->listener_backlog;

    return (setting > 0 && setting < 1u << 20) ? (int)setting : 0;
}

ucs_status_t cw_listener_create(struct ucp_worker *worker, const ucp_listener_params_t *params,
                                struct ucp_listener **listener_p)
{
    struct cw_iface *iface = cw_worker_cm_iface(worker);
    struct ucp_listener *listener;
    struct cw_net_address address;
    ucs_status_t status = check_params(params, &address);

    if (status != UCS_OK) {
        return status;
    }
    if (iface == NULL) {
        cw_error("cannot listen: this needs TCP, which the worker could not open");
        return UCS_ERR_UNSUPPORTED;
    }
    listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    listener->worker = worker;
    listener->iface = iface;
    listener->address = address;
    if (params->field_mask & UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER) {
        listener->accept = params->accept_handler;
    } else {
        listener->handler = params->conn_handler;
    }
    status = cw_cm_listen(iface, &listener->address, backlog_of(worker), listener, &listener->listening);
    if (status != UCS_OK) {
        free(listener);
        return status;
    }
    *listener_p = listener;
    return UCS_OK;
}

void cw_listener_destroy(struct ucp_listener *listener)
{
    struct ucp_context *context = listener->worker->context;
    struct ucp_conn_request *request;
    unsigned waiting = 0;

    cw_cm_listen_end(listener->iface, listener->listening);
    cw_lock_enter(&context->requests_lock);
    cw_list_for_each(request, &context->conn_requests, struct ucp_conn_request, link) {
        if (request->listener == listener) {
            request->listener = NULL;
            waiting++;
        }
    }
    cw_lock_leave(&context->requests_lock);
    if (waiting > 0) {
        cw_warn("listener destroyed with %u connection requests neither accepted nor rejected; they are rejected when "
                "its worker is destroyed", waiting);
    }
    free(listener);
}

/* A client that is accepted or refused. */
struct client {
    struct cw_conn *conn;
    const struct cw_transport_cm *cm;
    struct cw_cm_request asked;
};

/* Takes the client from its request, which ends. False: the worker's end has rejected it. */
static bool take(struct ucp_conn_request *request, struct client *client)
{
    struct ucp_context *context = request->context;

    cw_lock_enter(&context->requests_lock);
    cw_list_remove(&request->link);
    *client = (struct client){.conn = request->conn, .cm = request->cm, .asked = request->asked};
    cw_lock_leave(&context->requests_lock);
    free(request);
    return client->conn != NULL;
}

static void refuse(struct ucp_worker *worker, const struct cw_transport_cm *cm, struct cw_conn *conn,
                   enum cw_cm_verdict answer)
{
    uint8_t reply[CW_CM_REPLY_HEADER];
    size_t length = cw_cm_reply_encode(answer, NULL, 0, reply, sizeof(reply));

    (void)cw_cm_answer(cm, conn, cw_worker_cm_iface(worker), 0, reply, length);
}

void cw_request_reject(struct ucp_worker *worker, struct ucp_conn_request *request, enum cw_cm_verdict answer)
{
    struct client client;

    if (take(request, &client)) {
        refuse(worker, client.cm, client.conn, answer);
    }
}

void cw_requests_end(struct ucp_worker *worker)
{
    struct ucp_context *context = worker->context;
    struct ucp_conn_request *request;

    cw_lock_enter(&context->requests_lock);
    cw_list_for_each(request, &context->conn_requests, struct ucp_conn_request, link) {
        if (request->worker == worker && request->conn != NULL) {
            refuse(worker, request->cm, request->conn, CW_CM_REJECTED);
            request->conn = NULL;
        }
    }
    cw_lock_leave(&context->requests_lock);
}

/* The server's endpoint of a client; it opens when the client has chosen. */
static ucs_status_t ep_new(struct ucp_worker *worker, const struct client *client, struct ucp_ep **ep_p)
{
    struct ucp_ep *ep;

    if (cw_worker_cm_iface(worker) == NULL) {
        cw_error("cannot accept clients: this needs TCP, which the worker could not open");
        return UCS_ERR_UNREACHABLE;
    }
    if (cw_ep_find(worker, client->asked.number, 1) != NULL) {
        cw_error("cannot accept a client: its connection number is already in use");
        return UCS_ERR_REJECTED;
    }
    ep = cw_cm_ep_new(worker, &client->asked, true);
    if (ep == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_cm_ends(client->cm, client->conn, &ep->cm->local, &ep->cm->remote);
    *ep_p = ep;
    return UCS_OK;
}

static size_t reply_with_address(struct ucp_worker *worker, const struct ucp_ep *ep, uint8_t reply[CW_HELLO_MAX])
{
    uint8_t address[CW_ADDRESS_MAX];
    size_t length = cw_worker_address(worker, CW_ADDRESS_ALL, address);

    if (length > CW_HELLO_MAX - CW_CM_REPLY_HEADER) {
        length = cw_worker_address(worker, CW_ADDRESS_TO_MOVE, address);
    }
    return cw_cm_reply_encode(ep->cm->carries ? CW_CM_ACCEPTED : CW_CM_MEETS, address, length, reply, CW_HELLO_MAX);
}

ucs_status_t cw_request_accept(struct ucp_worker *worker, struct ucp_conn_request *request, const uint8_t *err_mode,
                               struct ucp_ep **ep_p)
{
    struct cw_iface *iface = cw_worker_cm_iface(worker);
    uint8_t reply[CW_HELLO_MAX];
    struct client client;
    ucs_status_t status;
    struct ucp_ep *ep;

    if (!take(request, &client)) {
        cw_error("cannot accept a client: it was rejected when the worker of its listener was destroyed");
        return UCS_ERR_NOT_CONNECTED;
    }
    if (err_mode != NULL && *err_mode != client.asked.err_mode) {
        cw_error("cannot accept a client with error handling mode %u: it has mode %u; use the same mode on both sides, "
                 "or leave it out at the server", *err_mode, client.asked.err_mode);
        status = UCS_ERR_UNSUPPORTED;
    } else {
        status = ep_new(worker, &client, &ep);
    }
    if (status != UCS_OK) {
        refuse(worker, client.cm, client.conn, CW_CM_IMPOSSIBLE);
        return status;
    }
    client.conn->user = ep;
    ep->cm->carries = cw_cm_carries(client.cm, client.conn, iface) != 0;
    status = cw_cm_answer(client.cm, client.conn, iface, 1, reply, reply_with_address(worker, ep, reply));
    if (status != UCS_OK) {
        cw_ep_destroy(ep);
        return status;
    }
    ep->conn = client.conn;
    cw_ep_watch(ep, ep->conn);
    cw_ep_set_state(ep, CW_EP_DIALING);
    *ep_p = ep;
    return UCS_OK;
}

bool cw_cm_requested(void *user, struct cw_conn *conn, const void *hello, size_t length)
{
    static struct cw_log_limit limit;
    const ucp_ep_params_t defaults = {.field_mask = 0};
    struct ucp_listener *listener = user;
    struct ucp_conn_request *request = calloc(1, sizeof(*request));
    struct cw_net_address local;
    struct ucp_ep *ep;

    if (request == NULL || cw_cm_request_decode(hello, length, &request->asked) != UCS_OK ||
        request->asked.err_mode > UCP_ERR_HANDLING_MODE_FAILOVER) {
        cw_log_ratelimited(&limit, CW_LOG_WARN, "dropped a client of a listener: %s",
                           (request == NULL) ? "no memory" : "its hello is of another protocol or version");
        free(request);
        (void)cw_cm_answer(cw_iface_cm(listener->iface), conn, NULL, 0, NULL, 0);
        return false;
    }
    cw_count(listener->worker, CW_COUNT_CONN_REQUESTS, 1);
    request->context = listener->worker->context;
    request->worker = listener->worker;
    request->listener = listener;
    request->conn = conn;
    request->cm = cw_iface_cm(listener->iface);
    cw_lock_enter(&request->context->requests_lock);
    cw_list_add_tail(&request->context->conn_requests, &request->link);
    cw_lock_leave(&request->context->requests_lock);
    cw_cm_ends(request->cm, conn, &local, &request->client);
    if (listener->handler.cb != NULL) {
        listener->handler.cb(request, listener->handler.arg);
    } else if (cw_request_accept(listener->worker, request, NULL, &ep) == UCS_OK) {
        cw_ep_give(ep, &defaults);
        listener->accept.cb(ep, listener->accept.arg);
    }
    return true;
}
