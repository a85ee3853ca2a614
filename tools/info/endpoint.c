/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: by worker address to a peer that is here or pretends to be elsewhere, or by socket address (INF-12,
 * INF-13).
 *
 * Callers: see endpoint.h.
 */
#define _GNU_SOURCE
#include "endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "say.h"

ucp_address_t *cw_endpoint_peer(struct cw_info_side *side, struct cw_info_side *peer, enum cw_info_place place,
                                const struct cw_info_options *options, uint64_t features)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS,
                           .address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY};
    struct cw_info_side *at = (place == CW_INFO_SAME) ? side : peer;
    ucp_address_t *copy;

    if (place != CW_INFO_SAME && (cw_side_open(peer, options, features, options->only) != UCS_OK ||
                                  cw_side_add_worker(peer) != UCS_OK)) {
        return NULL;
    }
    attr.field_mask |= (place == CW_INFO_INTER) ? UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS : 0;
    if (ucp_worker_query(at->worker, &attr) != UCS_OK) {
        cw_say_error("cannot get the address of the worker");
        return NULL;
    }
    copy = malloc(attr.address_length);
    if (copy == NULL) {
        cw_say_error("out of memory");
    } else {
        memcpy(copy, attr.address, attr.address_length);
    }
    ucp_worker_release_address(at->worker, attr.address);
    return copy;
}

static int show_by_address(struct cw_info_side *side, const struct cw_info_options *options)
{
    struct cw_info_side peer = {.context = NULL};
    ucp_address_t *address = cw_endpoint_peer(side, &peer, options->place, options, options->features);
    ucs_status_t status = UCS_ERR_UNREACHABLE;
    ucp_ep_h ep;

    if (address != NULL) {
        status = cw_side_meet(side, (peer.worker == NULL) ? NULL : &peer, address, options->error_handling, &ep);
        if (status == UCS_OK) {
            ucp_ep_print_info(ep, stdout);
            cw_side_part(side, (peer.worker == NULL) ? NULL : &peer, ep);
        } else {
            cw_say_error("-e: the endpoint cannot be connected: %s", ucs_status_string(status));
        }
    }
    free(address);
    cw_side_close(&peer);
    return (status == UCS_OK) ? CW_INFO_OK : CW_INFO_FAILED;
}

/* ---- by socket address ---- */

static int read_ip(const struct cw_info_options *options, struct sockaddr_storage *address, socklen_t *length)
{
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)(void *)address;
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)(void *)address;
    void *bytes;

    memset(address, 0, sizeof(*address));
    address->ss_family = (sa_family_t)options->family;
    bytes = (options->family == AF_INET6) ? (void *)&ipv6->sin6_addr : (void *)&ipv4->sin_addr;
    *length = (options->family == AF_INET6) ? sizeof(*ipv6) : sizeof(*ipv4);
    return inet_pton(options->family, options->ip, bytes) == 1;
}

/* The server's end of the one client. */
struct server {
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucs_status_t status;
};

static void accept_client(ucp_conn_request_h request, void *arg)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request};
    struct server *server = arg;

    if (server->ep == NULL) {
        server->status = ucp_ep_create(server->worker, &params, &server->ep);
    }
}

static ucs_status_t connect_client(struct cw_info_side *side, struct cw_info_side *peer, ucp_listener_h listener,
                                   const struct cw_info_options *options)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                              .err_mode = options->error_handling ? UCP_ERR_HANDLING_MODE_PEER :
                                                                      UCP_ERR_HANDLING_MODE_NONE};
    ucs_status_t status = ucp_listener_query(listener, &attr);
    ucp_ep_h ep;

    if (status != UCS_OK) {
        return status;
    }
    params.sockaddr.addr = (const struct sockaddr *)&attr.sockaddr;
    params.sockaddr.addrlen = sizeof(attr.sockaddr);
    status = ucp_ep_create(side->worker, &params, &ep);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_side_connect(side, peer, ep);
    if (status == UCS_OK) {
        ucp_ep_print_info(ep, stdout);
    }
    cw_side_part(side, peer, ep);
    return status;
}

static int show_by_socket(struct cw_info_side *side, const struct cw_info_options *options)
{
    struct cw_info_side peer = {.context = NULL};
    struct server server = {.ep = NULL};
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                  .conn_handler = {.cb = accept_client, .arg = &server}};
    struct sockaddr_storage address;
    ucp_listener_h listener;
    ucs_status_t status;
    socklen_t length;

    if (!read_ip(options, &address, &length)) {
        cw_say_error("-A: '%s' is not an %s address", options->ip, (options->family == AF_INET6) ? "IPv6" :
                     "IPv4; for IPv6 add -6");
        return CW_INFO_USAGE;
    }
    params.sockaddr.addr = (const struct sockaddr *)&address;
    params.sockaddr.addrlen = length;
    if (cw_side_open(&peer, options, options->features, options->only) != UCS_OK ||
        cw_side_add_worker(&peer) != UCS_OK) {
        cw_side_close(&peer);
        return CW_INFO_FAILED;
    }
    server.worker = peer.worker;
    status = ucp_listener_create(peer.worker, &params, &listener);
    if (status == UCS_OK) {
        status = connect_client(side, &peer, listener, options);
        if (server.ep != NULL) {
            cw_side_part(&peer, side, server.ep);
        }
        ucp_listener_destroy(listener);
    }
    if (status != UCS_OK) {
        cw_say_error("-e: no endpoint comes about through %s: %s", options->ip, ucs_status_string(status));
    }
    cw_side_close(&peer);
    return (status == UCS_OK) ? CW_INFO_OK : CW_INFO_FAILED;
}

int cw_endpoint_show(struct cw_info_side *side, const struct cw_info_options *options)
{
    return (options->ip == NULL) ? show_by_address(side, options) : show_by_socket(side, options);
}
