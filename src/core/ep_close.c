/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush and close. A flush is an operation in the queue of the endpoint like any other, so it completes after the
 * operations that were posted before it and before those that are posted later. A close is a flush that also notifies
 * the peer; it needs no answer. Messages from the peer that arrive after the close on this side are delivered to the
 * worker, so the connection stays until both ends are closed.
 */
#include "core/ep.h"

#include <assert.h>

#include "base/log.h"
#include "core/lanes.h"
#include "wire/packet.h"

struct flush_state {
    struct cw_completion completion;
    struct cw_flush_wait remote;    /* the wait for one-sided operations */
    struct cw_request *request;
    uint8_t remote_waits;
    uint8_t sent;                   /* the transport's part of the flush is complete */
    ucs_status_t status;            /* result of the one-sided operations */
};

_Static_assert(sizeof(struct flush_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Whether the status of a flush or a send says that the connection is over. `closed` follows once everything that the
 * peer sent before was read, for instance its orderly end, and the failure of the endpoint ends the request. */
static bool is_over(ucs_status_t status)
{
    return status < 0 && status != UCS_ERR_NO_MEMORY && status != CW_AGAIN && status != CW_BLOCKED;
}

static void flush_done(struct cw_completion *completion, ucs_status_t status)
{
    struct flush_state *state = cw_container_of(completion, struct flush_state, completion);

    if (is_over(status)) {
        return;
    }
    state->sent = 1;
    if (status != UCS_OK || !state->remote_waits) {
        cw_list_remove(&state->request->link);
        cw_request_complete(state->request, (status == UCS_OK) ? state->status : status);
    }
}

static void remote_done(struct cw_flush_wait *wait, ucs_status_t status)
{
    struct flush_state *state = cw_container_of(wait, struct flush_state, remote);

    state->remote_waits = 0;
    state->status = status;
    if (state->sent) {
        cw_list_remove(&state->request->link);
        cw_request_complete(state->request, status);
    } else {
        cw_ep_release_blocked(state->request->ep); /* a close may wait in `blocked` */
    }
}

static void flush_release(struct cw_request *request)
{
    struct flush_state *state = cw_request_state(request);

    cw_list_remove(&state->remote.link);
}

static ucs_status_t flush_send(struct cw_request *request)
{
    struct flush_state *state = cw_request_state(request);
    ucs_status_t status;

    if (!cw_list_empty(&request->ep->blocked)) {
        return CW_BLOCKED; /* the blocked requests were posted before */
    }
    status = cw_lanes_flush(request->ep, &state->completion);
    if (status == UCS_OK) {
        state->sent = 1;
        return state->remote_waits ? UCS_INPROGRESS : state->status;
    }
    return is_over(status) ? CW_AGAIN : status;
}

static ucs_status_t send_notice(struct ucp_ep *ep, enum cw_packet_id id)
{
    const uint64_t empty = 0;

    return cw_lane_send_packet(ep->conn, (uint8_t)id, &empty, sizeof(empty));
}

static ucs_status_t close_send(struct cw_request *request)
{
    const struct flush_state *state = cw_request_state(request);
    struct ucp_ep *ep = request->ep;
    ucs_status_t status;

    if (!cw_list_empty(&ep->blocked)) {
        return CW_BLOCKED; /* the blocked requests send first */
    }
    if (state->remote_waits) {
        return CW_BLOCKED; /* the peer still has to answer, and may end the connection once it receives CLOSE */
    }
    if (!(ep->closes & CW_CLOSE_SENT)) {
        status = send_notice(ep, CW_PACKET_CLOSE);
        if (status != UCS_OK) {
            return is_over(status) ? CW_AGAIN : status;
        }
        ep->closes |= CW_CLOSE_SENT;
        if (ep->closes & CW_CLOSE_CAME) {
            cw_ep_reap_later(ep);
        }
    }
    return flush_send(request);
}

bool cw_ep_is_close(const struct cw_request *request)
{
    return request->send == close_send;
}

/* A peer that has sent CLOSE ends the connection once it has ours, and with it all that was sent before. Packets in
 * flight to a peer that ended in good order are lost. */
ucs_status_t cw_ep_close_status(const struct ucp_ep *ep, ucs_status_t status)
{
    const int both_closed = ep->closes == (CW_CLOSE_SENT | CW_CLOSE_CAME);

    if ((both_closed && status == UCS_ERR_CONNECTION_RESET) ||
        (ep->peer_ended && ep->err_mode == UCP_ERR_HANDLING_MODE_NONE)) {
        return UCS_OK;
    }
    return status;
}

static ucs_status_t wait_for_remote(struct ucp_ep *ep, struct flush_state *state, int confirm)
{
    ucs_status_t status;

    if (!ep->busy) {
        return UCS_OK;
    }
    status = ep->worker->handlers->ep_flush(ep, &state->remote, confirm);
    if (status == UCS_INPROGRESS) {
        state->remote_waits = 1;
        return UCS_OK;
    }
    return status;
}

static struct flush_state *state_init(struct cw_request *request)
{
    struct flush_state *state = cw_request_state(request);

    *state = (struct flush_state){.completion.done = flush_done,
                                  .remote.done = remote_done,
                                  .request = request,
                                  .status = UCS_OK};
    cw_list_init(&state->remote.link);
    return state;
}

/* Sends the request at once when nothing is queued; otherwise, or when the transport has not completed it, puts it on
 * the list where it waits. The status of rejected one-sided operations is reported, but does not keep a close from
 * closing. */
static ucs_status_ptr_t start(struct ucp_ep *ep, const ucp_request_param_t *param,
                              ucs_status_t (*send)(struct cw_request *), int confirm)
{
    struct cw_request *request = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    struct flush_state *state;
    ucs_status_t status = CW_AGAIN;

    if (request == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    state = state_init(request);
    state->status = wait_for_remote(ep, state, confirm);
    request->ep = ep;
    request->send = send;
    request->release = flush_release;
    if (cw_ep_ready(ep)) {
        status = send(request);
    }
    if (status == CW_AGAIN) {
        cw_ep_queue(ep, request);
    } else if (status == CW_BLOCKED) {
        cw_ep_wait(ep, &ep->blocked, request);
    } else if (status == UCS_INPROGRESS) {
        cw_list_add_tail(&ep->inflight, &request->link);
    } else {
        flush_release(request);
        cw_request_put(request);
        return UCS_STATUS_PTR(status); /* NULL for UCS_OK */
    }
    return cw_request_handle(request);
}

/* No operation of the endpoint is in flight, so no request is needed to find that out. */
static CW_INLINE bool is_unused(const struct ucp_ep *ep)
{
    return cw_list_empty(&ep->pending) && cw_list_empty(&ep->blocked) && !ep->busy;
}

static CW_INLINE bool is_idle(const struct ucp_ep *ep)
{
    return is_unused(ep) && (ep->state != CW_EP_OPEN ||
                             (cw_lane_flush(ep->conn, NULL) == UCS_OK &&
                              (cw_likely(ep->lanes == NULL) || ep->lanes->num_retained == 0)));
}

/* There is no connection yet, and the flush waits for it. Without error handling it only has to know whether the peer
 * exists, and a transport may know that before the peer makes progress. Direct stores are complete and need no
 * connection. */
static CW_NOINLINE ucs_status_ptr_t flush_unopened(struct ucp_ep *ep, const ucp_request_param_t *param)
{
    const int unused = is_unused(ep);

    if (unused && ep->peer->direct && ep->state != CW_EP_FAILED) {
        return NULL;
    }
    if (ep->state == CW_EP_IDLE) {
        cw_ep_dial(ep);
    }
    if (ep->state == CW_EP_FAILED) {
        return UCS_STATUS_PTR(ep->status);
    }
    return (unused && ep->err_mode == UCP_ERR_HANDLING_MODE_NONE && ep->cm == NULL && ep->conn != NULL &&
            cw_lane_is_there(ep->conn))
               ? NULL
               : start(ep, param, flush_send, 1);
}

ucs_status_ptr_t cw_ep_flush(struct ucp_ep *ep, const ucp_request_param_t *param)
{
    __atomic_thread_fence(__ATOMIC_RELEASE); /* direct stores become visible before any later message to the peer */
    if (cw_unlikely(ep->state != CW_EP_OPEN)) {
        return flush_unopened(ep, param);
    }
    return cw_likely(is_idle(ep)) ? NULL : start(ep, param, flush_send, 1);
}

/* Receives of the endpoint end in this function. */
static void drop_handle(struct ucp_ep *ep)
{
    ep->handle = CW_HANDLE_CLOSED;
    ep->worker->handlers->ep_user_changed(ep);
}

static ucs_status_ptr_t close_force(struct ucp_ep *ep)
{
    struct cw_request *request;
    struct cw_list *link;

    if (!cw_ep_mode_watches(ep->err_mode)) {
        /* The status reports this, and no error line: some programs try a forced close first for any endpoint, and then
         * close with a flush. */
        cw_diag("cannot close endpoint %p by force: it was not created with UCP_ERR_HANDLING_MODE_PEER; close it with "
                "a flush", (void *)ep);
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    }
    drop_handle(ep);
    cw_ep_fail(ep, UCS_ERR_CANCELED);
    cw_list_splice_tail(&ep->blocked, &ep->pending);
    cw_list_splice_tail(&ep->pending, &ep->blocked);
    while ((link = cw_list_pop_head(&ep->pending)) != NULL) {
        request = cw_container_of(link, struct cw_request, link);
        cw_ep_waited(request);
        if (request->outstanding > 0) {
            cw_list_add_tail(&ep->inflight, link); /* the transport still reads its memory; the end of the connection
                                                      completes it */
        } else {
            cw_request_complete(request, UCS_ERR_CANCELED);
        }
    }
    cw_ep_reap_later(ep);
    return NULL;
}

/* Sends CLOSE in its turn; no request of the program waits for it. */
static void close_unasked(struct ucp_ep *ep)
{
    ucs_status_ptr_t result = start(ep, NULL, close_send, 0);

    if (UCS_PTR_IS_PTR(result)) {
        cw_request_release(cw_request_of(result), 0);
    }
}

/* The endpoint dials a peer, and nothing was posted to it. Its close has nothing to deliver, so it does not wait for a
 * peer that may make no progress any more. The dial continues, because the peer may have accepted it for an endpoint of
 * its own that is to stay. */
static int connects_unasked(const struct ucp_ep *ep)
{
    return (ep->state == CW_EP_DIALING || ep->state == CW_EP_WAITING) && ep->cm == NULL && is_idle(ep);
}

ucs_status_ptr_t cw_ep_close(struct ucp_ep *ep, const ucp_request_param_t *param, int force)
{
    ucs_status_ptr_t result;

    if (!cw_ep_has_user(ep)) {
        cw_error("endpoint %p is closed already", (void *)ep);
        return UCS_STATUS_PTR(UCS_ERR_NOT_CONNECTED);
    }
    if (force) {
        return close_force(ep);
    }
    drop_handle(ep);
    if (ep->state == CW_EP_IDLE && !is_unused(ep)) {
        cw_ep_dial(ep);
    }
    if (ep->state == CW_EP_FAILED) {
        result = UCS_STATUS_PTR(cw_ep_close_status(ep, ep->status));
        cw_ep_reap_later(ep);
    } else if (ep->state == CW_EP_IDLE) {
        result = NULL;
        cw_ep_reap_later(ep);
    } else if (connects_unasked(ep)) {
        result = NULL;
        close_unasked(ep);
    } else {
        result = start(ep, param, close_send, 0);
    }
    return result;
}

void cw_ep_peer_closed(struct ucp_ep *ep)
{
    ep->closes |= CW_CLOSE_CAME;
    if (ep->cm != NULL && cw_ep_has_user(ep)) {
        cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
        return;
    }
    if (!cw_ep_has_user(ep) && !ep->unread && !(ep->closes & CW_CLOSE_SENT) && ep->state == CW_EP_OPEN) {
        /* the program holds no handle here, so this end closes too and both sides can end the connection */
        close_unasked(ep);
    }
    cw_ep_unused(ep);
}

void cw_ep_peer_ended(struct ucp_ep *ep)
{
    ep->peer_ended = 1;
}

struct worker_flush_state {
    size_t waiting;      /* endpoint flushes in flight, plus 1 while this flush starts them */
    ucs_status_t status; /* status of a one-sided operation that a peer rejected */
};

static void worker_flush_step(struct cw_request *request)
{
    struct worker_flush_state *state = cw_request_state(request);

    if (--state->waiting == 0) {
        cw_request_complete(request, state->status);
    }
}

/* An endpoint that failed ends its own operations and does not fail the flush of the others. */
static void note_status(struct cw_request *request, const struct ucp_ep *ep, ucs_status_t status)
{
    struct worker_flush_state *state = cw_request_state(request);

    if (status != UCS_OK) {
        cw_diag("flush of an endpoint failed: %s", ucs_status_string(status));
        state->status = (ep->state == CW_EP_FAILED) ? state->status : status;
    }
}

static void ep_flushed(void *handle, ucs_status_t status, void *user_data)
{
    note_status(user_data, cw_request_of(handle)->ep, status);
    worker_flush_step(user_data);
}

/* Endpoints enter worker->flush_list by themselves, except for packets that a transport still buffers. Transports
 * seldom buffer any, so a flush of thousands of idle endpoints visits none of them. */
static void ask_transports(struct ucp_worker *worker)
{
    struct ucp_ep *ep;
    int has_unsent = 0;

    for (unsigned i = 0; i < worker->num_ifaces; i++) {
        has_unsent |= cw_iface_has_unsent(worker->ifaces[i]);
    }
    if (has_unsent) {
        cw_list_for_each(ep, &worker->eps, struct ucp_ep, link) {
            cw_ep_add_flush(ep);
        }
    }
}

/* Some endpoint may be unflushed. */
static CW_NOINLINE ucs_status_ptr_t flush_owing(struct ucp_worker *worker, const ucp_request_param_t *param)
{
    struct cw_request *request = NULL;
    struct worker_flush_state *state = NULL;
    ucp_request_param_t ep_param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                    .cb.send = ep_flushed};
    ucs_status_ptr_t result;
    ucs_status_t status;
    struct ucp_ep *ep, *next;

    cw_list_for_each_safe(ep, next, &worker->flush_list, struct ucp_ep, flush_link) {
        if (is_idle(ep)) {
            cw_list_remove(&ep->flush_link);
            continue;
        }
        if (request == NULL) {
            request = cw_request_get(worker, param, CW_REQUEST_SEND);
            if (request == NULL) {
                return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
            }
            state = cw_request_state(request);
            state->waiting = 1;
            state->status = UCS_OK;
        }
        ep_param.user_data = request;
        result = cw_ep_flush(ep, &ep_param);
        if (UCS_PTR_IS_PTR(result)) {
            state->waiting++;
            cw_request_release(cw_request_of(result), 1);
        } else {
            note_status(request, ep, UCS_PTR_STATUS(result));
        }
    }
    if (request == NULL) {
        return NULL;
    }
    if (state->waiting == 1) {
        status = state->status;
        cw_request_put(request);
        return UCS_STATUS_PTR(status);
    }
    state->waiting--;
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_worker_flush(struct ucp_worker *worker, const ucp_request_param_t *param)
{
    __atomic_thread_fence(__ATOMIC_RELEASE); /* as in cw_ep_flush */
    ask_transports(worker);
    return cw_likely(cw_list_empty(&worker->flush_list)) ? NULL : flush_owing(worker, param);
}
