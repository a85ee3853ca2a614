/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wireup: an endpoint that has something to send dials its peer. Both may dial at once: then the connection of the
 * worker with the smaller uid is used and the other one dropped. The states are drawn in core/ep.h. Nothing is sent on
 * a connection before it was accepted, so this race cannot lose or duplicate a message.
 */
#include "connect/connect.h"

#include <stdbool.h>

#include "base/log.h"
#include "connect/further.h"
#include "connect/cm.h"
#include "connect/path.h"
#include "core/failover/failover.h"
#include "wire/hello.h"
#include "wire/lane.h"

/* The number of our endpoint that belongs to a peer's endpoint of this number. */
static uint32_t partner_number(const struct ucp_worker *worker, uint64_t peer_uid, uint32_t number, int no_loopback)
{
    return (peer_uid == worker->uid && no_loopback) ? number ^ 1u : number;
}

ucs_status_t cw_wireup_check(struct ucp_worker *worker, const struct cw_address *address)
{
    const char *why = NULL;
    struct cw_path path;
    unsigned i;

    if (cw_path_next(worker, address, 0, NULL, &path)) {
        return UCS_OK;
    }
    for (i = 0; i < worker->num_ifaces; i++) {
        if (!cw_path_exists(worker->ifaces[i], address, &why)) {
            cw_error("worker %016llx cannot be reached by %s/%s: %s", (unsigned long long)address->uid,
                     cw_iface_name(worker->ifaces[i]), cw_iface_device(worker->ifaces[i]), why);
        }
    }
    cw_error("no transport reaches worker %016llx; enable one that both sides have by UCX_TLS",
             (unsigned long long)address->uid);
    return UCS_ERR_UNREACHABLE;
}

ucs_status_t cw_wireup_create(struct ucp_worker *worker, const void *blob, uint8_t err_mode, struct ucp_ep **ep_p)
{
    struct cw_address address;
    ucs_status_t status = cw_address_decode(blob, &address);
    const char *maker;

    if (status == UCS_ERR_UNREACHABLE) {
        maker = cw_address_maker(blob);
        if (maker != NULL) {
            cw_error("cannot create an endpoint: the worker address given was made by %s; all processes of a job have "
                     "to load the same libucp.so.0 (LD_LIBRARY_PATH, ldd)", maker);
        } else {
            cw_error("cannot create an endpoint: not a worker address of this library");
        }
        return status;
    }
    if (status != UCS_OK) {
        cw_error("cannot create an endpoint: the worker address is truncated or corrupt");
        return status;
    }
    status = cw_wireup_check(worker, &address);
    if (status != UCS_OK) {
        return status;
    }
    return cw_ep_create(worker, address.uid, address.bytes, address.length, err_mode, ep_p);
}

/* The status of an endpoint after a dial that ended so. It was made because some transport reaches the peer's address,
 * so whatever a dial finds there (nobody, an unauthenticated peer, a worker that ends) is a peer that is gone. Only if
 * no device has a route there the peer is unreachable. */
static ucs_status_t dial_status(ucs_status_t status)
{
    switch (status) {
    case UCS_ERR_NO_DEVICE:
        return UCS_ERR_UNREACHABLE;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
        return UCS_ERR_ENDPOINT_TIMEOUT;
    default:
        return status;
    }
}

ucs_status_t cw_wireup_connect(struct ucp_ep *ep)
{
    struct ucp_worker *worker = ep->worker;
    const uint8_t *known = cw_ep_address(ep);
    struct cw_hello hello = {.source_uid = worker->uid,
                             .target_uid = cw_ep_peer_uid(ep),
                             .number = ep->number,
                             .err_mode = ep->err_mode};
    const uint8_t no_loopback = (ep->flags & UCP_EP_PARAMS_FLAGS_NO_LOOPBACK) ? CW_HELLO_NO_LOOPBACK : 0;
    ucs_status_t status = UCS_ERR_UNREACHABLE;
    uint8_t bytes[CW_HELLO_LENGTH];
    struct cw_address address;
    struct cw_path path;

    if (known == NULL || cw_address_decode(known, &address) != UCS_OK) {
        return UCS_ERR_UNREACHABLE;
    }
    while (cw_path_next(worker, &address, ep->tried_path, NULL, &path)) {
        ep->tried_path = path.number;
        hello.flags = no_loopback | (cw_further_can_fail_over(ep, path.iface) ? CW_HELLO_FAILOVER : 0);
        cw_hello_encode(&hello, bytes);
        status = cw_lane_dial(path.iface, path.address, path.length, bytes, sizeof(bytes), ep, &ep->conn);
        if (status == UCS_OK) {
            cw_ep_watch(ep, ep->conn); /* also while a peer that computes leaves the handshake unread */
            cw_ep_set_state(ep, CW_EP_DIALING);
            cw_count(worker, CW_COUNT_DIALS, 1);
            return UCS_OK;
        }
        cw_diag("cannot connect to worker %016llx over %s/%s: "
                "%s", (unsigned long long)address.uid, cw_iface_name(path.iface),
                cw_iface_device(path.iface), ucs_status_string(status));
        status = dial_status(status);
    }
    return status;
}

/* Whether our dial is the one that stays when both sides dial for one endpoint. */
static int our_dial_wins(const struct ucp_ep *ep, const struct cw_hello *hello)
{
    uint64_t uid = ep->worker->uid;

    return uid < hello->source_uid || (uid == hello->source_uid && ep->number < hello->number);
}

/* Whether our dial has not reached the peer although the peer's dial has reached us: a firewall can block one
 * direction. */
static bool dial_is_unseen(const struct ucp_ep *ep)
{
    return ep->conn != NULL && cw_lane_is_unseen(ep->conn);
}

/* Accepts the peer's dial. Ours must be closed at once and not by the next reap: until then it could still send its
 * hello. The peer would accept that hello and give up its own dial, and then each side would have a connection that the
 * other one closed. */
static void yield_dial(struct ucp_ep *ep)
{
    if (dial_is_unseen(ep)) {
        cw_lane_abandon(ep->conn);
    }
    cw_ep_drop_conn(ep);
}

static enum cw_hello_answer accept_on(struct ucp_ep *ep, struct cw_conn *conn, const struct cw_hello *hello)
{
    struct cw_conn *lane = NULL;

    conn->user = ep;
    if ((hello->flags & CW_HELLO_FAILOVER) && ep->cm == NULL && ep->err_mode == UCP_ERR_HANDLING_MODE_FAILOVER &&
        cw_failover_suits(ep->worker, conn->iface)) {
        lane = cw_failover_new(ep, conn);
    }
    cw_ep_opened(ep, (lane != NULL) ? lane : conn);
    return (lane != NULL) ? CW_HELLO_COUNTED : CW_HELLO_ACCEPTED;
}

/* Whether an endpoint has dialled itself, and has no receiving end yet. */
static bool is_own_dial(const struct ucp_ep *ep, const struct cw_hello *hello)
{
    return ep->state == CW_EP_DIALING && hello->source_uid == ep->worker->uid && hello->number == ep->number &&
           ep->loop_conn == NULL;
}

/* The answer to a peer's dial for an endpoint that exists. */
static enum cw_hello_answer answer_for(const struct ucp_ep *ep, const struct cw_hello *hello)
{
    switch (ep->state) {
    case CW_EP_IDLE:
    case CW_EP_WAITING:
        return CW_HELLO_ACCEPTED;
    case CW_EP_DIALING:
        return (is_own_dial(ep, hello) || !our_dial_wins(ep, hello) || dial_is_unseen(ep)) ? CW_HELLO_ACCEPTED :
                                                                                           CW_HELLO_LOST;
    case CW_EP_OPEN:
        return our_dial_wins(ep, hello) ? CW_HELLO_LOST : CW_HELLO_REFUSED;
    default:
        return CW_HELLO_REFUSED;
    }
}

static enum cw_hello_answer accept_known(struct ucp_ep *ep, struct cw_conn *conn, const struct cw_hello *hello)
{
    const enum cw_hello_answer answer = answer_for(ep, hello);

    if (answer != CW_HELLO_ACCEPTED) {
        return answer;
    }
    if (is_own_dial(ep, hello)) {
        conn->user = ep; /* this is its receiving end */
        ep->loop_conn = conn;
        return CW_HELLO_ACCEPTED;
    }
    if (ep->state == CW_EP_DIALING) {
        yield_dial(ep);
    }
    return accept_on(ep, conn, hello);
}

/* Accepts the further connection of a client that changes its transport. */
static enum cw_hello_answer accept_request(struct ucp_ep *ep, struct cw_conn *conn, const struct cw_hello *hello)
{
    if (ep == NULL || ep->cm == NULL || !ep->cm->is_server || ep->state != CW_EP_DIALING) {
        return CW_HELLO_REFUSED;
    }
    cw_ep_drop_conn(ep);
    return accept_on(ep, conn, hello);
}

/* The peer created its endpoint first, or our endpoint was closed and freed already: the program has no handle of it
 * now. */
static enum cw_hello_answer accept_new(struct ucp_worker *worker, struct cw_conn *conn, const struct cw_hello *hello,
                                       uint32_t number)
{
    struct cw_peer *peer;
    struct ucp_ep *ep;

    if (hello->err_mode > UCP_ERR_HANDLING_MODE_FAILOVER) {
        return CW_HELLO_REFUSED;
    }
    peer = cw_peer_get(worker, hello->source_uid, NULL, 0);
    ep = (peer == NULL) ? NULL : cw_ep_new_of_peer(worker, peer, number);
    if (ep == NULL) {
        cw_error("out of memory for the endpoint that worker %016llx connects to",
                 (unsigned long long)hello->source_uid);
        return CW_HELLO_REFUSED;
    }
    ep->err_mode = hello->err_mode;
    return accept_on(ep, conn, hello);
}

/* Logs why the first bytes of a connection are rejected. */
static void log_refused(const struct cw_iface *iface, const void *bytes, size_t length)
{
    static struct cw_log_limit limit;
    unsigned foreign = cw_hello_foreign(bytes, length);

    if (foreign != 0) {
        cw_log_ratelimited(&limit, CW_LOG_WARN,
                           "dropped a connection over %s: the peer speaks version %u of the protocol, which this "
                           "release does not; use the same release on both sides",
                           cw_iface_name(iface), foreign);
    } else {
        cw_log_ratelimited(&limit, CW_LOG_WARN,
                           "dropped a connection over %s: its first %zu bytes are not a handshake of this protocol",
                           cw_iface_name(iface), length);
    }
}

bool cw_wireup_is_ours(const struct cw_iface *iface, const void *bytes, size_t length)
{
    const struct ucp_worker *worker = iface->owner;
    struct cw_lane_hello lane;
    struct cw_hello hello;

    if (cw_is_lane_hello(bytes, length)) {
        return cw_lane_hello_decode(bytes, length, &lane) == UCS_OK && lane.target_uid == worker->uid;
    }
    if (cw_hello_decode(bytes, length, &hello) != UCS_OK) {
        log_refused(iface, bytes, length);
        return false;
    }
    return hello.target_uid == worker->uid;
}

static struct ucp_ep *ep_for(struct ucp_worker *worker, const struct cw_hello *hello, uint32_t *number)
{
    *number = partner_number(worker, hello->source_uid, hello->number, hello->flags & CW_HELLO_NO_LOOPBACK);
    return cw_ep_find(worker, hello->source_uid, *number);
}

bool cw_wireup_refuses(const struct cw_iface *iface, const void *bytes, size_t length, void *reply,
                       size_t *reply_length)
{
    struct ucp_worker *worker = iface->owner;
    enum cw_hello_answer answer;
    struct cw_hello hello;
    struct ucp_ep *ep;
    uint32_t number;

    if (cw_is_lane_hello(bytes, length) || cw_hello_decode(bytes, length, &hello) != UCS_OK ||
        (hello.flags & CW_HELLO_CM) || *reply_length < CW_HELLO_REPLY_LENGTH) {
        return false;
    }
    ep = ep_for(worker, &hello, &number);
    answer = (ep != NULL && ep->cm == NULL) ? answer_for(ep, &hello) : CW_HELLO_ACCEPTED;
    if (answer == CW_HELLO_ACCEPTED) {
        return false;
    }
    cw_hello_reply_encode(answer, reply);
    *reply_length = CW_HELLO_REPLY_LENGTH;
    return true;
}

ucs_status_t cw_wireup_accept(void *owner, struct cw_conn *conn, const void *bytes, size_t length, void *reply,
                              size_t *reply_length)
{
    struct ucp_worker *worker = owner;
    enum cw_hello_answer answer = CW_HELLO_WRONG_WORKER;
    struct cw_hello hello;
    struct ucp_ep *ep;
    uint32_t number;

    if (cw_is_lane_hello(bytes, length)) {
        return cw_further_accept(worker, conn, bytes, length, reply, reply_length);
    }
    if (*reply_length < CW_HELLO_REPLY_LENGTH || cw_hello_decode(bytes, length, &hello) != UCS_OK) {
        log_refused(conn->iface, bytes, length);
        *reply_length = 0;
        return UCS_ERR_INVALID_PARAM;
    }
    if (hello.target_uid == worker->uid) {
        ep = ep_for(worker, &hello, &number);
        if (hello.flags & CW_HELLO_CM) {
            answer = accept_request(ep, conn, &hello);
        } else if (ep != NULL) {
            answer = (ep->cm == NULL) ? accept_known(ep, conn, &hello) : CW_HELLO_REFUSED;
        } else {
            answer = accept_new(worker, conn, &hello, number);
        }
    }
    cw_hello_reply_encode(answer, reply);
    *reply_length = CW_HELLO_REPLY_LENGTH;
    return (answer == CW_HELLO_ACCEPTED || answer == CW_HELLO_COUNTED) ? UCS_OK : UCS_ERR_REJECTED;
}

/* The dial failed: dials by another interface if there is one. */
static void dial_failed(struct ucp_ep *ep, ucs_status_t status)
{
    cw_ep_drop_conn(ep);
    cw_count(ep->worker, CW_COUNT_REDIALS, 1);
    if (cw_wireup_connect(ep) != UCS_OK) {
        cw_debug("cannot connect to worker %016llx: %s", (unsigned long long)cw_ep_peer_uid(ep),
                 ucs_status_string(status));
        cw_ep_fail(ep, status);
    }
}

/* The peer agrees to count packets. */
static void opened_counted(struct ucp_ep *ep, struct cw_conn *conn)
{
    struct cw_conn *lane = NULL;

    conn->dialled = 1;
    if (ep->err_mode == UCP_ERR_HANDLING_MODE_FAILOVER && cw_failover_suits(ep->worker, conn->iface)) {
        lane = cw_failover_new(ep, conn);
    }
    if (lane == NULL) {
        cw_ep_fail(ep, UCS_ERR_NO_MEMORY);
    } else {
        cw_ep_opened(ep, lane);
    }
}

void cw_wireup_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    enum cw_hello_answer answer = CW_HELLO_REFUSED;
    struct ucp_ep *ep = conn->user;
    bool gone;

    if (ep->lanes != NULL && ep->conn != conn) {
        cw_further_opened(conn, status, reply, reply_length);
        return;
    }
    if (ep->conn != conn || ep->state != CW_EP_DIALING) {
        return; /* the peer's dial won meanwhile, or the endpoint failed: progress closes this connection */
    }
    if (ep->cm != NULL) {
        cw_cm_opened(conn, status, reply, reply_length);
        return;
    }
    if (reply != NULL && cw_hello_reply_decode(reply, reply_length, &answer) != UCS_OK) {
        answer = CW_HELLO_REFUSED;
        status = UCS_ERR_IO_ERROR;
    }
    if (status == UCS_OK && answer == CW_HELLO_ACCEPTED) {
        conn->dialled = 1;
        cw_ep_opened(ep, conn);
    } else if (status == UCS_OK && answer == CW_HELLO_COUNTED) {
        opened_counted(ep, conn);
    } else if (status == UCS_ERR_REJECTED && answer == CW_HELLO_LOST) {
        cw_ep_drop_conn(ep);
        cw_ep_set_state(ep, CW_EP_WAITING);
    } else {
        /* a rejection without a reply is the transport's: the sides do not agree on the protection */
        gone = status == UCS_OK || (status == UCS_ERR_REJECTED && reply != NULL);
        dial_failed(ep, gone ? UCS_ERR_ENDPOINT_TIMEOUT : dial_status(status));
    }
}

void cw_wireup_space(struct cw_conn *conn)
{
    struct ucp_ep *ep = conn->user;

    if (ep->conn != conn) {
        cw_further_space(conn);
        return;
    }
    if (ep->lanes != NULL) {
        cw_lanes_space(ep);
    }
    cw_ep_drain(ep);
}

int cw_wireup_awaits(const struct cw_conn *conn)
{
    return cw_ep_awaits(conn->user);
}

void cw_wireup_closed(struct cw_conn *conn, ucs_status_t status)
{
    struct ucp_ep *ep = conn->user;

    if (ep->cm != NULL && ep->cm->moves && conn == ep->loop_conn) {
        ep->cm->ended = status; /* most likely the server already uses the faster connection */
    } else if (conn == ep->conn || conn == ep->loop_conn) {
        cw_ep_fail(ep, status);
    } else {
        cw_further_closed(conn, status);
    }
}
