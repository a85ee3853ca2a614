/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of connect/cm.h: an endpoint dials a listener by TCP. If another transport also reaches the
 * server's worker, the endpoint then dials that one and changes to it.
 */
#include "connect/cm.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "connect/path.h"
#include "core/lane_cm.h"
#include "os/random.h"
#include "wire/hello.h"
#include "wire/packet.h"

struct ucp_ep *cw_cm_ep_new(struct ucp_worker *worker, const struct cw_cm_request *asked, bool is_server)
{
    struct cw_peer *peer = cw_peer_get(worker, asked->number, NULL, 0);
    struct ucp_ep *ep = (peer == NULL) ? NULL : cw_ep_new(worker, peer, is_server);

    if (ep == NULL) {
        return NULL;
    }
    ep->cm = calloc(1, sizeof(*ep->cm));
    if (ep->cm == NULL) {
        cw_ep_destroy(ep);
        return NULL;
    }
    ep->cm->is_server = is_server;
    ep->err_mode = asked->err_mode;
    return ep;
}

ucs_status_t cw_cm_address(const ucs_sock_addr_t *given, const char *whose, struct cw_net_address *address)
{
    const size_t size = cw_net_sockaddr_size(given->addr, given->addrlen);

    if (size == 0) {
        cw_error("invalid socket address of %s: not IPv4 or IPv6, or addrlen %u is wrong", whose,
                 (unsigned)given->addrlen);
        return UCS_ERR_INVALID_PARAM;
    }
    if (given->addrlen < size) {
        cw_error("invalid socket address of %s: addrlen is %u bytes, but its family needs %zu", whose,
                 (unsigned)given->addrlen, size);
        return UCS_ERR_INVALID_PARAM;
    }
    cw_net_from_sockaddr(given->addr, address);
    return UCS_OK;
}

ucs_status_t cw_cm_create(struct ucp_worker *worker, const ucs_sock_addr_t *server, const ucs_sock_addr_t *own,
                          uint64_t client_id, uint8_t err_mode, struct ucp_ep **ep_p)
{
    const struct cw_cm_request asked = {.number = cw_random_u64(), .client_id = client_id, .err_mode = err_mode};
    struct cw_iface *iface = cw_worker_cm_iface(worker);
    struct cw_net_address to, from = {.family = CW_NET_NONE};
    uint8_t bytes[CW_CM_REQUEST_LENGTH];
    ucs_status_t status = cw_cm_address(server, "an endpoint's server", &to);
    struct ucp_ep *ep;

    if (status == UCS_OK && own != NULL) {
        status = cw_cm_address(own, "an endpoint's own side", &from);
    }
    if (status != UCS_OK) {
        return status;
    }
    if (iface == NULL) {
        cw_error("cannot connect to a socket address: this needs TCP, which the worker could not open");
        return UCS_ERR_UNREACHABLE;
    }
    cw_cm_request_encode(&asked, bytes);
    ep = cw_cm_ep_new(worker, &asked, false);
    if (ep == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = cw_cm_dial(iface, &to, (from.family != CW_NET_NONE) ? &from : NULL, bytes, sizeof(bytes), ep, &ep->conn);
    if (status != UCS_OK) {
        cw_ep_destroy(ep);
        return status;
    }
    cw_ep_watch(ep, ep->conn);
    cw_ep_set_state(ep, CW_EP_DIALING);
    cw_count(worker, CW_COUNT_DIALS, 1);
    *ep_p = ep;
    return UCS_OK;
}

/* ---- after the server's answer ---- */

/* Starts to change to another connection, by the next untried path to the server. 0: there is none. */
static int move(struct ucp_ep *ep)
{
    struct cw_conn *met = ep->conn;
    struct cw_address address;
    struct cw_path path;
    uint8_t bytes[CW_HELLO_LENGTH];
    struct cw_hello hello;

    if (ep->cm->server_address == NULL || cw_address_decode(ep->cm->server_address, &address) != UCS_OK) {
        return 0;
    }
    hello = (struct cw_hello){.source_uid = cw_ep_peer_uid(ep),
                              .target_uid = address.uid,
                              .number = 1,
                              .err_mode = ep->err_mode,
                              .flags = CW_HELLO_CM};
    cw_hello_encode(&hello, bytes);
    while (cw_path_next(ep->worker, &address, ep->tried_path, ep->cm->carries ? met->iface : NULL, &path)) {
        ep->tried_path = path.number;
        if (cw_lane_dial(path.iface, path.address, path.length, bytes, sizeof(bytes), ep, &ep->conn) == UCS_OK) {
            ep->loop_conn = met;
            ep->cm->moves = 1;
            cw_count(ep->worker, CW_COUNT_DIALS, 1);
            return 1;
        }
        ep->conn = met;
    }
    return 0;
}

/* Keeps the connection on which client and server met. */
static void stay(struct ucp_ep *ep)
{
    /* nothing was sent on it, so there is tx space */
    ucs_status_t status = cw_lane_send_header(ep->conn, CW_PACKET_STAY, 0);

    if (status == UCS_OK) {
        ep->conn->dialled = 1;
        cw_ep_opened(ep, ep->conn);
    } else {
        cw_ep_fail(ep, (status == CW_AGAIN) ? UCS_ERR_NO_MEMORY : status);
    }
}

/* Chooses the connection that carries data. */
static void choose(struct ucp_ep *ep)
{
    char text[CW_NET_TEXT_MAX];

    if (move(ep)) {
        return;
    }
    if (ep->cm->carries) {
        stay(ep);
        return;
    }
    cw_net_format(&ep->cm->remote, text);
    cw_error("the server at %s accepted, but no transport enabled on both sides reaches it; check UCX_TLS and "
             "UCX_NET_DEVICES of both", text);
    cw_ep_fail(ep, UCS_ERR_UNREACHABLE);
}

static void moved(struct ucp_ep *ep, struct cw_conn *conn, ucs_status_t status)
{
    struct cw_conn *met = ep->loop_conn;

    ep->cm->moves = 0;
    ep->loop_conn = NULL;
    if (status != UCS_OK) {
        cw_diag("cannot move a connection to %s: %s", cw_lane_name(conn), ucs_status_string(status));
        cw_ep_drop_conn(ep);
        ep->conn = met;
        if (ep->cm->ended == UCS_OK) {
            choose(ep);
        } else {
            cw_ep_fail(ep, ep->cm->ended);
        }
        return;
    }
    ep->conn = met;
    cw_ep_drop_conn(ep);
    conn->dialled = 1;
    cw_ep_opened(ep, conn);
}

/* NULL: no address, or out of memory; the endpoint then has no further lanes. */
static uint8_t *copy_of(const struct cw_address *address)
{
    uint8_t *copy = (address->length == 0) ? NULL : malloc(address->length);

    if (copy != NULL) {
        memcpy(copy, address->bytes, address->length);
    }
    return copy;
}

static void met(struct ucp_ep *ep, const void *reply, size_t reply_length)
{
    enum cw_cm_verdict answer;
    struct cw_address address;

    if (cw_cm_reply_decode(reply, reply_length, &answer, &address) != UCS_OK ||
        (answer != CW_CM_ACCEPTED && answer != CW_CM_MEETS)) {
        cw_ep_fail(ep, UCS_ERR_IO_ERROR);
        return;
    }
    cw_cm_ends(cw_iface_cm(ep->conn->iface), ep->conn, &ep->cm->local, &ep->cm->remote);
    ep->cm->server_uid = address.uid;
    ep->cm->server_address = copy_of(&address);
    ep->cm->carries = answer == CW_CM_ACCEPTED &&
               cw_cm_carries(cw_iface_cm(ep->conn->iface), ep->conn, ep->conn->iface);
    choose(ep);
}

static ucs_status_t refusal(const void *reply, size_t reply_length)
{
    enum cw_cm_verdict answer;
    struct cw_address address;

    return (cw_cm_reply_decode(reply, reply_length, &answer, &address) == UCS_OK && answer == CW_CM_IMPOSSIBLE)
               ? UCS_ERR_NOT_CONNECTED
               : UCS_ERR_REJECTED;
}

void cw_cm_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    struct ucp_ep *ep = conn->user;

    if (ep->cm->moves) {
        moved(ep, conn, status);
    } else if (status == UCS_OK) {
        met(ep, reply, reply_length);
    } else {
        if (status == UCS_ERR_REJECTED) {
            status = refusal(reply, reply_length);
        }
        cw_ep_drop_conn(ep);
        cw_ep_fail(ep, status);
    }
}
