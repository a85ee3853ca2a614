/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an endpoint as drawn in core/ep.h: creation, adoption, the queue of pending operations, failure, and the
 * end. Flush and close are in ep_close.c. No function of this file sends a packet by itself.
 */
#include "core/ep.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counter.h"
#include "base/log.h"
#include "core/ep_batch.h"
#include "core/ep_slots.h"
#include "core/failover/failover.h"
#include "core/lanes.h"

#define REDIAL_NS   UINT64_C(1000000000)
#define DIALS_PER_ROUND 16u

struct cw_peer *cw_peer_get(struct ucp_worker *worker, uint64_t uid, const void *address, size_t address_length)
{
    struct cw_hash_link *link = cw_hash_find(&worker->peers, uid);
    struct cw_peer *peer = (link == NULL) ? NULL : cw_container_of(link, struct cw_peer, link);
    struct cw_peer *known = peer;
    struct ucp_ep *ep;

    if (peer != NULL && (peer->address_length > 0 || address_length == 0)) {
        return peer;
    }
    peer = malloc(sizeof(*peer) + address_length);
    if (peer == NULL) {
        return NULL;
    }
    *peer = (struct cw_peer){.address_length = (uint16_t)address_length, .next_number = (uint32_t)cw_counter_start};
    if (address_length > 0) {
        memcpy(peer->address, address, address_length);
    }
    if (known != NULL) { /* the peer dialled this worker first, and its address is known only now */
        peer->references = known->references;
        peer->next_number = known->next_number;
        peer->direct = known->direct;
        cw_list_for_each(ep, &worker->eps, struct ucp_ep, link) {
            ep->peer = (ep->peer == known) ? peer : ep->peer;
        }
        cw_hash_remove(&worker->peers, &known->link);
        free(known);
    }
    cw_hash_add(&worker->peers, &peer->link, uid);
    return peer;
}

static uint64_t key_of(uint64_t peer_uid, uint32_t number)
{
    return cw_hash_mix(peer_uid) + number;
}

struct ucp_ep *cw_ep_find(struct ucp_worker *worker, uint64_t peer_uid, uint32_t number)
{
    struct cw_hash_link *link;
    struct ucp_ep *ep;

    for (link = cw_hash_find(&worker->ep_index, key_of(peer_uid, number)); link != NULL; link = cw_hash_next(link)) {
        ep = cw_container_of(link, struct ucp_ep, index_link);
        if (ep->number == number && cw_ep_peer_uid(ep) == peer_uid) {
            return ep;
        }
    }
    return NULL;
}

/* `ep`: memory, NULL if allocation failed. */
static struct ucp_ep *ep_init(struct ucp_ep *ep, struct ucp_worker *worker, struct cw_peer *peer, uint32_t number,
                              int in_slot)
{
    if (ep == NULL) {
        return NULL;
    }
    *ep = (struct ucp_ep){.worker = worker,
                         .peer = peer,
                         .number = number,
                         .state = CW_EP_IDLE,
                         .in_slot = in_slot != 0,
                         .tx = &cw_no_tx};
    cw_list_init(&ep->pending);
    cw_list_init(&ep->inflight);
    cw_list_init(&ep->blocked);
    cw_list_init(&ep->reap_link);
    cw_list_init(&ep->flush_link);
    cw_list_add_tail(&worker->eps, &ep->link);
    cw_count(worker, CW_COUNT_EPS, 1);
    cw_hash_add(&worker->ep_index, &ep->index_link, key_of(peer->link.key, number));
    peer->references++;
    worker->handlers->ep_init(ep);
    return ep;
}

struct ucp_ep *cw_ep_new(struct ucp_worker *worker, struct cw_peer *peer, uint32_t number)
{
    return ep_init(malloc(sizeof(struct ucp_ep) + worker->handlers->ep_state_size), worker, peer, number, 0);
}

struct ucp_ep *cw_ep_new_of_peer(struct ucp_worker *worker, struct cw_peer *peer, uint32_t number)
{
    return ep_init(cw_ep_slot_take(worker), worker, peer, number, 1);
}

void cw_ep_set_handlers(struct ucp_ep *ep, const ucp_ep_params_t *params)
{
    uint64_t mask = params->field_mask;

    if (mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) {
        ep->err_cb = params->err_handler.cb;
        ep->user_data = params->err_handler.arg;
        ep->has_user_data = 0;
    }
    if (mask & UCP_EP_PARAM_FIELD_USER_DATA) {
        ep->user_data = params->user_data;
        ep->has_user_data = 1;
    }
}

void cw_ep_give(struct ucp_ep *ep, const ucp_ep_params_t *params)
{
    ep->handle = CW_HANDLE_HELD;
    if (params->field_mask & UCP_EP_PARAM_FIELD_FLAGS) {
        ep->flags = params->flags;
    }
    cw_ep_set_handlers(ep, params);
    ep->worker->handlers->ep_user_changed(ep);
}

/* What the mode cannot detect without keepalive on idle connections. */
static void log_unwatched(const struct ucp_ep *ep)
{
    if (ep->err_mode == UCP_ERR_HANDLING_MODE_FAILOVER &&
        ep->worker->context->config->keepalive_interval_ns == CW_TIME_INF) {
        cw_diag("endpoint %p in mode FAILOVER detects a dead lane only while it sends: UCX_KEEPALIVE_INTERVAL is "
                "inf", (const void *)ep);
    }
}

static bool is_address(const uint8_t *known, size_t known_length, const void *address, size_t length)
{
    return known_length == length && memcmp(known, address, length) == 0;
}

/* The slot of a further address that no endpoint uses any more, or a new one; NULL: all are in use, or out of
 * memory. */
static struct cw_peer_address **other_slot(const struct ucp_worker *worker, struct cw_peer *peer)
{
    struct cw_peer_address **others;
    uint64_t used = 0;
    struct ucp_ep *ep;
    unsigned i;

    if (peer->num_others < CW_PEER_OTHERS_MAX) {
        others = realloc(peer->others, (peer->num_others + 1u) * sizeof(struct cw_peer_address *));
        if (others == NULL) {
            return NULL;
        }
        peer->others = others;
        peer->others[peer->num_others++] = NULL;
        return &peer->others[peer->num_others - 1];
    }
    cw_list_for_each(ep, &worker->eps, struct ucp_ep, link) {
        used |= (ep->peer == peer) ? UINT64_C(1) << ep->address : 0;
    }
    for (i = 0; i < CW_PEER_OTHERS_MAX; i++) {
        if (!(used & (UINT64_C(1) << (i + 1)))) {
            return &peer->others[i];
        }
    }
    return NULL;
}

/* The index of an address for ep->address; the peer retains it. */
static ucs_status_t number_address(const struct ucp_worker *worker, struct cw_peer *peer, const void *address,
                                   size_t length, uint8_t *number_p)
{
    struct cw_peer_address **slot, *other;
    unsigned i;

    if (is_address(peer->address, peer->address_length, address, length)) {
        *number_p = 0;
        return UCS_OK;
    }
    for (i = 0; i < peer->num_others; i++) {
        other = peer->others[i];
        if (is_address(other->bytes, other->length, address, length)) {
            *number_p = (uint8_t)(i + 1);
            return UCS_OK;
        }
    }
    other = malloc(sizeof(*other) + length);
    if (other == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    slot = other_slot(worker, peer);
    if (slot == NULL) {
        free(other);
        cw_error("cannot create an endpoint: endpoints to worker %016llx already use %u different addresses",
                 (unsigned long long)peer->link.key, 1u + peer->num_others);
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    other->length = (uint16_t)length;
    memcpy(other->bytes, address, length);
    free(*slot);
    *slot = other;
    *number_p = (uint8_t)(slot - peer->others + 1);
    return UCS_OK;
}

void cw_peer_free(struct cw_peer *peer)
{
    while (peer->num_others > 0) {
        free(peer->others[--peer->num_others]);
    }
    free(peer->others);
    free(peer);
}

ucs_status_t cw_ep_create(struct ucp_worker *worker, uint64_t peer_uid, const void *address, size_t address_length,
                          uint8_t err_mode, struct ucp_ep **ep_p)
{
    struct cw_peer *peer = cw_peer_get(worker, peer_uid, address, address_length);
    uint8_t number = 0;
    ucs_status_t status;
    struct ucp_ep *ep;

    if (peer == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = number_address(worker, peer, address, address_length, &number);
    if (status != UCS_OK) {
        return status;
    }
    ep = cw_ep_find(worker, peer_uid, peer->next_number);
    if (ep == NULL) {
        ep = cw_ep_new(worker, peer, peer->next_number);
        if (ep == NULL) {
            if (peer->references == 0) {
                cw_hash_remove(&worker->peers, &peer->link);
                cw_peer_free(peer);
            }
            return UCS_ERR_NO_MEMORY;
        }
        if (cw_ep_mode_watches(err_mode)) {
            cw_ep_reap_later(ep);
        }
    } else if (cw_ep_mode_watches(ep->err_mode) != cw_ep_mode_watches(err_mode)) {
        cw_error("cannot create endpoint %u to worker %016llx with error handling mode %u: the peer opened it with "
                 "mode %u; use the same mode on both sides", ep->number, (unsigned long long)cw_ep_peer_uid(ep),
                 err_mode, ep->err_mode);
        return UCS_ERR_UNSUPPORTED;
    } else if (ep->state == CW_EP_FAILED) {
        ep->error_reported = 0;
        cw_ep_reap_later(ep); /* progress reports the failure to the new owner */
    }
    ep->err_mode = err_mode; /* with worker addresses each side chooses PEER or FAILOVER by itself */
    ep->address = number & CW_PEER_OTHERS_MAX;
    log_unwatched(ep);
    peer->next_number++;
    *ep_p = ep;
    return UCS_OK;
}

#define TURN_BYTES (512u << 10)
#define TURN_HELD  8192u

/* True when `turn` bytes were sent, or when TURN_HELD requests moved to `blocked`, while requests are left. */
static int drain(struct ucp_ep *ep, struct cw_conn *batch, uint64_t turn)
{
    struct cw_request *request;
    ucs_status_t status;
    unsigned blocked = 0;

    ep->turn = 0;
    while (ep->state == CW_EP_OPEN && !cw_list_empty(&ep->pending)) {
        if (ep->turn >= turn) {
            return 1;
        }
        request = cw_list_head(&ep->pending, struct cw_request, link);
        if (batch != NULL && ep->pending.next == ep->pending.prev) {
            cw_lane_batch(batch, CW_BATCH_LAST);
        }
        status = (request->flags & CW_REQUEST_HANDED_OVER) ? UCS_OK : request->send(request);
        if (status == CW_AGAIN) {
            cw_count(ep->worker, CW_COUNT_RETRIES, 1);
            return 0;
        }
        cw_list_remove(&request->link);
        if (status == CW_LATER || status == CW_BLOCKED) {
            cw_list_add_tail((status == CW_LATER) ? &ep->pending : &ep->blocked, &request->link);
            if (status == CW_BLOCKED && ++blocked == TURN_HELD) {
                return 1;
            }
            continue;
        }
        cw_ep_waited(request);
        if (status == UCS_INPROGRESS || request->outstanding > 0) {
            cw_list_add_tail(&ep->inflight, &request->link);
        } else {
            cw_request_complete(request, status);
        }
    }
    return 0;
}

static void drain_turn(struct ucp_ep *ep, uint64_t turn)
{
    struct cw_conn *conn = ep->conn;
    int gathers;

    if (ep->state != CW_EP_OPEN || (cw_list_empty(&ep->pending) && !conn->gathers)) {
        return;
    }
    gathers = conn->gathers;
    conn->gathers = 0;
    if (!gathers && (!cw_lane_batches(conn) || ep->pending.next == ep->pending.prev)) {
        if (drain(ep, NULL, turn)) {
            cw_ep_reap_later(ep);
        }
        return;
    }
    if (!gathers) {
        cw_lane_batch(conn, CW_BATCH_LONG);
    }
    if (drain(ep, conn, turn)) {
        conn->gathers = 1; /* the batch stays open until the queue is empty */
        cw_ep_reap_later(ep);
        return;
    }
    cw_lane_batch(conn, CW_BATCH_END);
}

static bool is_expecting(const struct ucp_ep *ep)
{
    return ep->worker->handlers->ep_expects(ep);
}

bool cw_ep_awaits(const struct ucp_ep *ep)
{
    return !cw_list_empty(&ep->inflight) || !cw_list_empty(&ep->blocked) || is_expecting(ep);
}

/* While both sides send long messages, a side that passes its whole queue to the kernel first makes the peer wait for
 * its answers, so only one direction moves at a time; therefore each side sends a turn of TURN_BYTES. While no long
 * message arrives, no peer waits for a turn, and a queue left over would only delay the next send. */
uint64_t cw_ep_turn(const struct ucp_ep *ep)
{
    return is_expecting(ep) ? TURN_BYTES : UINT64_MAX;
}

void cw_ep_drain(struct ucp_ep *ep)
{
    drain_turn(ep, cw_ep_turn(ep));
}

void cw_ep_drain_all(struct ucp_ep *ep)
{
    drain_turn(ep, UINT64_MAX);
}

void cw_ep_gather(struct ucp_ep *ep)
{
    if (!ep->conn->gathers) {
        ep->conn->gathers = 1;
        cw_lane_batch(ep->conn, CW_BATCH_LONG);
        cw_ep_reap_later(ep);
    }
}

void cw_ep_gather_end(struct ucp_ep *ep)
{
    ep->conn->gathers = 0;
    cw_lane_batch(ep->conn, CW_BATCH_END);
}

ucs_status_t cw_ep_follow(struct ucp_ep *ep, struct cw_request *request)
{
    ucs_status_t status;

    cw_ep_gather(ep);
    status = request->send(request);
    if (status == UCS_OK) {
        request->flags |= CW_REQUEST_HANDED_OVER;
        return CW_AGAIN;
    }
    if (status != CW_AGAIN) {
        cw_ep_gather_end(ep); /* the kernel accepts no more: a batch gains nothing either */
    }
    return status;
}

/* Requests that were handed over are sent already and stay at the front, so that cw_ep_gathers detects by the last
 * request whether anything is unsent. */
void cw_ep_release_blocked(struct ucp_ep *ep)
{
    struct cw_list handed_over;
    struct cw_request *request;

    cw_list_init(&handed_over);
    while (!cw_list_empty(&ep->pending)) {
        request = cw_list_head(&ep->pending, struct cw_request, link);
        if (!(request->flags & CW_REQUEST_HANDED_OVER)) {
            break;
        }
        cw_list_remove(&request->link);
        cw_list_add_tail(&handed_over, &request->link);
    }
    cw_list_splice_tail(&ep->blocked, &ep->pending);
    cw_list_splice_tail(&ep->pending, &handed_over);
    cw_list_splice_tail(&ep->pending, &ep->blocked);
    cw_ep_drain(ep);
}

void cw_ep_dial(struct ucp_ep *ep)
{
    const ucs_status_t status = ep->worker->handlers->ep_connect(ep);

    if (status != UCS_OK) {
        cw_ep_fail(ep, status);
    }
}

void cw_ep_queue(struct ucp_ep *ep, struct cw_request *request)
{
    cw_ep_wait(ep, &ep->pending, request);
    if (ep->state != CW_EP_IDLE) {
        return;
    }
    /* Processes that all begin to send to all others would dial each other twice: after a few dials peers that have
     * dialled already are accepted first. */
    if (ep->worker->num_connecting < DIALS_PER_ROUND) {
        cw_ep_dial(ep);
    } else {
        cw_ep_reap_later(ep);
    }
}

ucs_status_ptr_t cw_ep_answered(struct cw_request *request, ucs_status_t status, uint32_t attr_mask)
{
    if (status == UCS_OK && (attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
        cw_request_complete(request, UCS_OK);
    } else if (status == UCS_OK || (status != UCS_INPROGRESS && request->outstanding == 0)) {
        return cw_request_give_up(request, status);
    } else {
        cw_list_add_tail(&request->ep->inflight, &request->link); /* after an error the end of the connection ends it */
    }
    return cw_request_handle(request);
}

void cw_ep_release_blocked_later(struct ucp_ep *ep)
{
    ep->tries_blocked = 1;
    cw_ep_reap_later(ep);
}

static bool is_connecting(const struct ucp_ep *ep)
{
    return ep->state == CW_EP_DIALING || ep->state == CW_EP_WAITING;
}

/* Destination for short packets of the core; none if the plan sends none of them, or where a trace records packets. */
static struct cw_tx *find_tx(const struct ucp_ep *ep)
{
    const struct cw_iface *iface = (ep->conn == NULL) ? NULL : ep->conn->iface;

    if (iface == NULL || !cw_iface_has_fastpath(iface) || ep->worker->trace != NULL) {
        return &cw_no_tx;
    }
    return (iface->plan->short_end > CW_SLOT_DATA) ? cw_lane_tx(ep->conn) : &cw_no_tx;
}

void cw_ep_set_state(struct ucp_ep *ep, enum cw_ep_state state)
{
    struct ucp_worker *worker = ep->worker;

    if (ep->state == CW_EP_OPEN) {
        cw_counters_ended(worker, ep->conn);
    }
    if (state == CW_EP_OPEN) {
        cw_counters_opened(worker, ep->conn);
    }
    if (cw_unlikely(worker->trace != NULL)) {
        cw_trace_ep(ep, CW_TRACE_STATE, (unsigned)state, UCS_OK);
    }
    worker->num_connecting -= (unsigned)is_connecting(ep);
    worker->num_waiting -= (unsigned)(ep->state == CW_EP_WAITING);
    ep->state = (uint8_t)state;
    ep->tx = (state == CW_EP_OPEN) ? find_tx(ep) : &cw_no_tx;
    if (is_connecting(ep)) {
        worker->num_connecting++;
        worker->polling.rounds_to_clock = 0;
    }
    worker->num_waiting += (unsigned)(state == CW_EP_WAITING);
    if (worker->num_waiting == 0) {
        cw_poller_alarm_cancel(worker->poller, &worker->redial);
    } else if (!cw_alarm_is_set(&worker->redial)) {
        cw_poller_alarm_set(worker->poller, &worker->redial, cw_clock_ns() + REDIAL_NS);
    }
}

unsigned cw_ep_redial_waiting(struct cw_alarm *alarm)
{
    struct ucp_worker *worker = cw_container_of(alarm, struct ucp_worker, redial);
    unsigned count = 0;
    struct ucp_ep *ep;

    cw_list_for_each(ep, &worker->eps, struct ucp_ep, link) {
        if (ep->state == CW_EP_WAITING) {
            ep->tried_path = 0;
            cw_ep_set_state(ep, CW_EP_IDLE);
            cw_count(worker, CW_COUNT_REDIALS, 1);
            cw_ep_dial(ep);
            count++;
        }
    }
    return count;
}

void cw_ep_watch(struct ucp_ep *ep, struct cw_conn *conn)
{
    if (cw_ep_mode_watches(ep->err_mode)) {
        cw_lane_watch(conn);
    }
}

void cw_ep_opened(struct ucp_ep *ep, struct cw_conn *conn)
{
    cw_ep_watch(ep, conn);
    ep->conn = conn;
    free(ep->end);
    ep->end = NULL;
    cw_ep_set_state(ep, CW_EP_OPEN);
    if (ep->worker->handlers->ep_opened != NULL) {
        ep->worker->handlers->ep_opened(ep);
    }
    cw_ep_reap_later(ep);
}

void cw_ep_reap_later(struct ucp_ep *ep)
{
    if (cw_list_empty(&ep->reap_link)) {
        ep->worker->todo = 1;
        cw_list_add_tail(&ep->worker->reap, &ep->reap_link);
        cw_worker_wake(ep->worker);
    }
}

/* Takes over the transport's phrase about how a connection of the endpoint ended. */
static void take_end(struct ucp_ep *ep, struct cw_conn *conn)
{
    if (conn != NULL && conn->end != NULL) {
        free(ep->end);
        ep->end = conn->end;
        conn->end = NULL;
    }
}

void cw_ep_fail(struct ucp_ep *ep, ucs_status_t status)
{
    if (ep->state == CW_EP_FAILED) {
        return;
    }
    take_end(ep, ep->conn);
    cw_ep_set_state(ep, CW_EP_FAILED);
    cw_count(ep->worker, CW_COUNT_EPS_FAILED, 1);
    if (cw_unlikely(ep->worker->trace != NULL)) {
        cw_trace_ep(ep, CW_TRACE_FAILED, 0, status);
    }
    ep->status = status;
    cw_ep_reap_later(ep);
}

static void end_requests(struct cw_list *list, ucs_status_t status, ucs_status_t close_status)
{
    struct cw_request *request;
    struct cw_list *link;

    while ((link = cw_list_pop_head(list)) != NULL) {
        request = cw_container_of(link, struct cw_request, link);
        cw_ep_waited(request);
        cw_request_complete(request, cw_ep_is_close(request) ? close_status : status);
    }
}

static void close_and_clear(struct cw_conn **conn_p)
{
    struct cw_conn *conn = *conn_p;

    if (conn != NULL) {
        *conn_p = NULL;
        cw_lane_close(conn); /* completes the requests that the transport still owns */
    }
}

static void close_old_conns(struct ucp_ep *ep)
{
    struct cw_conn *conn;

    while ((conn = ep->old_conns) != NULL) {
        ep->old_conns = conn->next_old;
        cw_lane_close(conn);
    }
}

static void close_conns(struct ucp_ep *ep)
{
    if (ep->conn != NULL) {
        ep->worker->handlers->ep_quiesce(ep);
    }
    close_and_clear(&ep->conn);
    close_and_clear(&ep->loop_conn);
    close_old_conns(ep);
    cw_lanes_end(ep, (ep->state == CW_EP_FAILED) ? ep->status : UCS_ERR_CANCELED);
}

void cw_ep_drop_conn(struct ucp_ep *ep)
{
    take_end(ep, ep->conn);
    if (ep->conn != NULL) {
        ep->conn->next_old = ep->old_conns;
        ep->old_conns = ep->conn;
        ep->conn = NULL;
    }
    cw_ep_reap_later(ep);
}

/* Where the transport gave the reason of a failed dial, that includes the advice. */
static const char *advice(const struct ucp_ep *ep)
{
    switch (ep->status) {
    case UCS_ERR_CONNECTION_RESET:
        return "; see the last output of the peer's process";
    case UCS_ERR_ENDPOINT_TIMEOUT:
        return "; check that its process and machine are up and that the network passes packets of every size (MTU)";
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NOT_CONNECTED:
        return (ep->end != NULL) ? "" : "; set UCX_LOG_LEVEL=diag for details";
    default:
        return "; see the preceding log lines";
    }
}

void cw_ep_explain(const struct ucp_ep *ep, char *text, size_t size)
{
    if (ep->closes & CW_CLOSE_CAME) {
        (void)snprintf(text, size, "%s: the peer closed the endpoint", ucs_status_string(ep->status));
        return;
    }
    (void)snprintf(text, size, "%s%s%s%s", ucs_status_string(ep->status), (ep->end != NULL) ? ": " : "",
                   (ep->end != NULL) ? ep->end : "", advice(ep));
}

/* No callback reports the failure. In mode NONE the program cannot learn of it, so it is logged. */
static void log_failure(const struct ucp_ep *ep)
{
    enum cw_log_level level = cw_ep_mode_watches(ep->err_mode) ? CW_LOG_ERROR : CW_LOG_WARN;

    level = (ep->closes & CW_CLOSE_CAME) ? CW_LOG_DIAG : level;
    cw_log(level,
           "endpoint %p to worker %016llx failed: %s%s%s; this will not be handled since no error callback is "
           "installed%s",
           (void *)(uintptr_t)ep, (unsigned long long)cw_ep_peer_uid(ep), ucs_status_string(ep->status),
           (ep->end != NULL) ? ": " : "", (ep->end != NULL) ? ep->end : "", advice(ep));
}

/* In mode NONE the orderly end of the peer is no error. A lent handle ends with it in any mode, which an error handler
 * of its own has to report. */
static bool wants_report(const struct ucp_ep *ep)
{
    if (ep->handle == CW_HANDLE_LENT) {
        return ep->err_cb != NULL;
    }
    return cw_ep_has_user(ep) && !(ep->peer_ended && ep->err_mode == UCP_ERR_HANDLING_MODE_NONE);
}

/* The failure is reported once, from progress, and not after close. */
static void report_failure(struct ucp_ep *ep)
{
    if (ep->error_reported || !wants_report(ep)) {
        return;
    }
    ep->error_reported = 1;
    if (ep->err_cb != NULL) {
        ep->err_cb(ep->user_data, ep, ep->status);
        return;
    }
    log_failure(ep);
}

/* The program holds no handle, and nothing that the peer can send would be visible to the program. */
static bool is_done(const struct ucp_ep *ep)
{
    return !cw_ep_has_user(ep) && !ep->unread && cw_list_empty(&ep->pending) && cw_list_empty(&ep->inflight) &&
           cw_list_empty(&ep->blocked) && !is_expecting(ep) &&
           (ep->state == CW_EP_FAILED || ep->state == CW_EP_IDLE ||
            (ep->closes == (CW_CLOSE_SENT | CW_CLOSE_CAME) && cw_failover_is_settled(ep) && cw_lanes_are_settled(ep)));
}

static void ep_free(struct ucp_ep *ep)
{
    struct ucp_worker *worker = ep->worker;
    struct cw_peer *peer = ep->peer;

    if (ep->state == CW_EP_OPEN) {
        cw_counters_ended(worker, ep->conn);
    }
    cw_count(worker, CW_COUNT_EPS, (uint64_t)-1);
    close_conns(ep);
    worker->handlers->ep_ended(ep, UCS_ERR_CANCELED);
    cw_hash_remove(&worker->ep_index, &ep->index_link);
    cw_list_remove(&ep->link);
    cw_list_remove(&ep->flush_link);
    cw_list_remove(&ep->reap_link);
    /* the peer is retained while numbers were given out, so that a later endpoint to it continues the count */
    if (--peer->references == 0 && peer->next_number == (uint32_t)cw_counter_start) {
        cw_hash_remove(&worker->peers, &peer->link);
        cw_peer_free(peer);
    }
    if (ep->cm != NULL) {
        free(ep->cm->server_address);
        free(ep->cm);
    }
    free(ep->end);
    if (ep->in_slot) {
        cw_ep_slot_end(ep);
    } else {
        free(ep);
    }
}

/* A connection of the failed endpoint waits for its device, which may take a while. */
static bool is_stopping(struct ucp_ep *ep)
{
    const int first = ep->conn != NULL && cw_lane_stopping(ep->conn);

    return cw_lanes_stopping(ep) || first;
}

/* A callback of this function may close the endpoint; only a later round frees it. Returns whether it did its work. */
static unsigned reap(struct ucp_ep *ep)
{
    if (ep->state == CW_EP_FAILED && is_stopping(ep)) {
        cw_ep_reap_later(ep);
        return 0;
    }
    close_old_conns(ep);
    if (cw_unlikely(cw_failover_of(ep) != NULL)) {
        cw_failover_reap(ep);
    }
    if (ep->state == CW_EP_OPEN && ep->lanes != NULL) {
        cw_lanes_space(ep);
    }
    if (ep->state == CW_EP_OPEN && ep->tries_blocked) {
        ep->tries_blocked = 0;
        cw_ep_release_blocked(ep);
    } else if (ep->state == CW_EP_OPEN) {
        cw_ep_drain(ep);
    } else if (ep->state == CW_EP_FAILED) {
        close_conns(ep);
        end_requests(&ep->blocked, ep->status, cw_ep_close_status(ep, ep->status));
        end_requests(&ep->pending, ep->status, cw_ep_close_status(ep, ep->status));
        end_requests(&ep->inflight, ep->status, cw_ep_close_status(ep, ep->status));
        ep->worker->handlers->ep_ended(ep, ep->status);
        report_failure(ep);
    }
    if (is_done(ep) && wants_report(ep) && !ep->error_reported && ep->state != CW_EP_FAILED) {
        cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET); /* the next round reports it, and then frees the endpoint */
    } else if (is_done(ep)) {
        ep_free(ep);
    }
    return 1;
}

/* Only a connection shows whether the peer lives, so an endpoint with error handling connects before the first send. An
 * endpoint whose peer has dialled meanwhile is connected already. */
static bool should_dial(const struct ucp_ep *ep)
{
    return ep->state == CW_EP_IDLE &&
           (!cw_list_empty(&ep->pending) || (cw_ep_has_user(ep) && cw_ep_mode_watches(ep->err_mode)));
}

/* The remaining endpoints come first in the next round: a dial costs system calls, and meanwhile peers may dial
 * themselves. */
static void put_off(struct ucp_worker *worker, struct cw_list *rest)
{
    cw_list_splice_tail(rest, &worker->reap);
    cw_list_splice_tail(&worker->reap, rest);
    worker->todo = 1;
}

unsigned cw_ep_reap_all(struct ucp_worker *worker)
{
    struct cw_list todo, *link;
    unsigned count = 0, dials = 0;
    struct ucp_ep *ep;

    cw_list_init(&todo);
    cw_list_splice_tail(&todo, &worker->reap);
    while ((link = cw_list_pop_head(&todo)) != NULL) {
        ep = cw_container_of(link, struct ucp_ep, reap_link);
        if (should_dial(ep)) {
            if (dials++ == DIALS_PER_ROUND) {
                cw_list_add_head(&todo, link);
                put_off(worker, &todo);
                break;
            }
            cw_ep_dial(ep);
        }
        count += reap(ep);
    }
    return count;
}

void cw_ep_destroy(struct ucp_ep *ep)
{
    ep->handle = CW_HANDLE_CLOSED;
    cw_ep_set_state(ep, CW_EP_FAILED);
    ep->status = UCS_ERR_CANCELED;
    close_conns(ep);
    end_requests(&ep->blocked, UCS_ERR_CANCELED, UCS_ERR_CANCELED);
    end_requests(&ep->pending, UCS_ERR_CANCELED, UCS_ERR_CANCELED);
    end_requests(&ep->inflight, UCS_ERR_CANCELED, UCS_ERR_CANCELED);
    ep_free(ep);
}
