/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucp_worker_fence (docs/change/one-sided.md, "Order") never blocks. Within one endpoint a fence records the counts of
 * the earlier operations, and later operations that need no packets wait until the earlier ones have ended. If
 * operations are in flight that later packets could overtake, the fence is also a barrier in the queue. Few programs
 * have several endpoints to one peer: there the queue of each endpoint waits for the earlier operations of the other
 * endpoints, by flushes of those.
 */
#include <stdlib.h>

#include "rma/rma.h"

/* Later operations that need no packets wait for all operations so far: a missing answer of the peer counts like a
 * packet that only FLUSHED confirms, and later writes to any address wait for the gets whose data is yet to be read. */
static void draw_line(struct cw_rma *rma)
{
    if (rma->replies > 0) {
        rma->sent_mark++;
    }
    if (rma->late.count > 0) {
        rma->late.first = 0;
        rma->late.end = UINT64_MAX;
    }
    rma->fence_mark = rma->sent_mark;
}

static ucs_status_t barrier_send(struct cw_request *request)
{
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    if (rma->async_puts > 0) {
        return CW_BLOCKED;
    }
    draw_line(rma);
    return UCS_OK;
}

static void barrier_release(struct cw_request *request)
{
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    if (rma != NULL) {
        rma->passed++;
        cw_rma_kick(rma);
    }
}

/* The earlier operations of one of several endpoints to a peer. The barriers of the other endpoints share this
 * structure. */
struct line {
    struct cw_flush_wait wait;
    struct ucp_worker *worker;
    uint64_t peer_uid;
    uint32_t number;            /* of the endpoint */
    uint32_t references;
    uint8_t is_over;
};

/* Queues a barrier; active messages wait for it, too. `line` is the state of its request, or NULL. */
static ucs_status_t post_barrier(struct cw_rma *rma, ucs_status_t (*send)(struct cw_request *),
                                 void (*release)(struct cw_request *), struct line *line)
{
    struct cw_request *request = cw_request_get(rma->ep->worker, NULL, CW_REQUEST_SEND);
    ucs_status_ptr_t result;

    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (line != NULL) {
        line->references++; /* dropped by `release` */
    }
    *(struct line **)cw_request_state(request) = line;
    request->ep = rma->ep;
    request->send = send;
    request->release = release;
    cw_op_ep(rma->ep)->fences++;
    result = cw_rma_post(request, 0, CW_RMA_AT_ONCE, NULL);
    if (UCS_PTR_IS_PTR(result)) {
        cw_request_release(request, 0);
        rma->in_order = 1;
    }
    return UCS_PTR_IS_ERR(result) ? UCS_PTR_STATUS(result) : UCS_OK;
}

static ucs_status_t fence(struct cw_rma *rma)
{
    const ucs_status_t status = cw_put_short_flush(rma);

    if (status != UCS_OK) {
        return status;
    }
    if (rma->async_puts == 0 && cw_list_empty(&rma->queue)) {
        draw_line(rma);
        return UCS_OK;
    }
    return post_barrier(rma, barrier_send, barrier_release, NULL);
}

/* ---- several endpoints to one peer ---- */

static void line_drop(struct line *line)
{
    if (--line->references == 0) {
        free(line);
    }
}

static void line_done(struct cw_flush_wait *wait, ucs_status_t status)
{
    struct line *line = cw_container_of(wait, struct line, wait);
    const struct ucp_ep *ep = cw_ep_find(line->worker, line->peer_uid, line->number);
    struct cw_rma *rma;

    if (status != UCS_OK && ep != NULL && ep->state == CW_EP_OPEN && cw_op_ep(ep)->rma != NULL) {
        cw_op_ep(ep)->rma->error = status; /* the program's next flush returns it */
        cw_ep_add_flush_rma(cw_op_ep(ep)->rma->ep);
    }
    line->is_over = 1;
    cw_list_for_each(rma, &line->worker->rma->all, struct cw_rma, link) {
        if (cw_ep_peer_uid(rma->ep) == line->peer_uid && !cw_list_empty(&rma->queue)) {
            cw_rma_kick(rma);
        }
    }
    line_drop(line);
}

static ucs_status_t line_send(struct cw_request *request)
{
    return (*(struct line **)cw_request_state(request))->is_over ? barrier_send(request) : CW_BLOCKED;
}

static void line_release(struct cw_request *request)
{
    line_drop(*(struct line **)cw_request_state(request));
    barrier_release(request);
}

static bool is_under_way(const struct cw_rma *rma)
{
    return rma->async_puts > 0 || rma->replies > 0 || !cw_list_empty(&rma->queue) ||
           rma->sent_mark != rma->acked_mark;
}

/* Begins a flush of the endpoint. Returns NULL if no operation is in flight, or after an error, which is in
 * *status_p. */
static struct line *line_new(struct cw_rma *rma, ucs_status_t *status_p)
{
    struct line *line = is_under_way(rma) ? malloc(sizeof(*line)) : NULL;
    ucs_status_t status;

    if (line == NULL) {
        *status_p = is_under_way(rma) ? UCS_ERR_NO_MEMORY : *status_p;
        return NULL;
    }
    *line = (struct line){.wait.done = line_done,
                         .worker = rma->ep->worker,
                         .peer_uid = cw_ep_peer_uid(rma->ep),
                         .number = rma->ep->number,
                         .references = 2}; /* one for the wait, one for the caller */
    cw_list_init(&line->wait.link);
    status = cw_rma_flush(rma->ep, &line->wait, 1);
    if (status == UCS_INPROGRESS) {
        return line;
    }
    free(line);
    *status_p = (status == UCS_OK) ? *status_p : status;
    return NULL;
}

/* Makes the other endpoints to the peer wait for the operations that this endpoint has in flight. */
static ucs_status_t hold_others(struct cw_rma *rma)
{
    const struct ucp_ep *own = rma->ep;
    ucs_status_t status = UCS_OK;
    struct line *line = line_new(rma, &status);
    struct cw_rma *other;
    struct ucp_ep *ep;

    if (line == NULL) {
        return status;
    }
    cw_list_for_each(ep, &own->worker->eps, struct ucp_ep, link) {
        if (ep == own || ep->peer != own->peer || ep->state == CW_EP_FAILED || status != UCS_OK) {
            continue;
        }
        other = cw_rma_get(ep);
        status = (other == NULL) ? UCS_ERR_NO_MEMORY : post_barrier(other, line_send, line_release, line);
    }
    line_drop(line);
    return status;
}

/* First marks the endpoints that others have to wait for: once barriers are queued, every endpoint appears to have
 * operations in flight. */
ucs_status_t cw_rma_fence(struct ucp_worker *worker)
{
    ucs_status_t result = UCS_OK, status;
    struct cw_rma *rma;

    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* orders direct accesses; pairs with no fence: the peer only reads */
    cw_list_for_each(rma, &worker->rma->all, struct cw_rma, link) {
        if (cw_unlikely(rma->ep->peer->references > 1) && is_under_way(rma)) {
            rma->fencing = 1;
        }
    }
    cw_list_for_each(rma, &worker->rma->all, struct cw_rma, link) {
        status = fence(rma);
        result = (result == UCS_OK) ? status : result;
    }
    cw_list_for_each(rma, &worker->rma->all, struct cw_rma, link) {
        if (cw_unlikely(rma->fencing)) {
            rma->fencing = 0;
            status = hold_others(rma);
            result = (result == UCS_OK) ? status : result;
        }
    }
    return result;
}
