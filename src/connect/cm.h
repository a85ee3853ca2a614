/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints by socket address, and the listeners at which they are created (docs/change/client-server.md). Worker
 * entered, unless stated otherwise.
 */
#ifndef CW_CONNECT_CM_H
#define CW_CONNECT_CM_H

#include <stdbool.h>

#include "core/ep.h"
#include "wire/cm.h"

struct ucp_listener {
    struct ucp_worker *worker;
    struct cw_iface *iface;
    struct cw_listening *listening;
    struct cw_net_address address; /* as given, with the real port */
    ucp_listener_accept_handler_t accept;
    ucp_listener_conn_handler_t handler;
};

/* Belongs to the program; accessed by one thread at a time, with no worker entered. The ends of its listener and of
 * that listener's worker access it under the context's requests_lock. */
struct ucp_conn_request {
    struct cw_list link;              /* context->conn_requests, until the program answers; first */
    struct ucp_context *context;
    struct ucp_worker *worker;        /* of the listener */
    const struct ucp_listener *listener; /* NULL: it is gone */
    struct cw_conn *conn;             /* belongs to no worker until the program answers; NULL: rejected, as `worker`
                                         ended */
    const struct cw_transport_cm *cm; /* of the interface that received the request, which may be gone */
    struct cw_cm_request asked;
    struct cw_net_address client;
};

/* Reads the socket address that a program passed for `whose`. UCS_ERR_INVALID_PARAM, with a log line, if it is no
 * internet address or is shorter than one. */
ucs_status_t cw_cm_address(const ucs_sock_addr_t *given, const char *whose, struct cw_net_address *address);

ucs_status_t cw_listener_create(struct ucp_worker *worker, const ucp_listener_params_t *params,
                                struct ucp_listener **listener_p);
void cw_listener_destroy(struct ucp_listener *listener);
/* Both calls consume the request, whatever they return. `err_mode`: that the program selects; NULL: the client's. */
ucs_status_t cw_request_accept(struct ucp_worker *worker, struct ucp_conn_request *request, const uint8_t *err_mode,
                               struct ucp_ep **ep_p);
void cw_request_reject(struct ucp_worker *worker, struct ucp_conn_request *request, enum cw_cm_verdict answer);
/* The worker ends: rejects the clients of its listeners that the program has not answered. Their requests stay the
 * program's, which can only release them by either of the calls above. */
void cw_requests_end(struct ucp_worker *worker);

/* ucp_ep_create with UCP_EP_PARAMS_FLAGS_CLIENT_SERVER. `own` (may be NULL): the address to connect from. */
ucs_status_t cw_cm_create(struct ucp_worker *worker, const ucs_sock_addr_t *server, const ucs_sock_addr_t *own,
                          uint64_t client_id, uint8_t err_mode, struct ucp_ep **ep_p);

/* Makes either side's endpoint, before it has a connection. NULL: no memory. */
struct ucp_ep *cw_cm_ep_new(struct ucp_worker *worker, const struct cw_cm_request *asked, bool is_server);

/* Upcalls: the transport's `requested`, and `opened` for endpoints with a connection request. */
bool cw_cm_requested(void *user, struct cw_conn *conn, const void *hello, size_t length);
void cw_cm_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length);

#endif
