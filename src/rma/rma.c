/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue, the counts, the waits and the target's answers of rma/rma.h. Invariants: an operation is counted in one
 * generation from cw_rma_begin to cw_rma_end. A wait closes a generation; it ends when it is the oldest wait and its
 * count is 0. The queue runs whenever an operation ends that the request at its head may wait for. A job of progress
 * ends waits and runs the queue, so that the callback of a flush never runs before those of the operations that it
 * waited for.
 */
#include "rma/rma.h"

#include <stdlib.h>

#include "base/counter.h"
#include "base/log.h"
#include "core/ep_batch.h"
#include "rma/cma.h"
#include "rma/put_list.h"

/* Operations that one endpoint starts before it yields to other endpoints. */
#define TURN 64

void cw_rma_update(struct cw_rma *rma)
{
    rma->ep->busy = 0;
    if (rma->open > 0 || !cw_list_empty(&rma->waits) || rma->sent_mark != rma->acked_mark || rma->unflushed ||
        rma->error != UCS_OK) {
        cw_ep_add_flush_rma(rma->ep);
    }
}

void cw_rma_kick(struct cw_rma *rma)
{
    if (cw_list_empty(&rma->job.link)) {
        cw_worker_add_job(rma->ep->worker, &rma->job);
    }
}

void cw_rma_end(struct ucp_ep *ep, uint32_t generation)
{
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    struct cw_flush_wait *wait;

    if (rma == NULL) {
        return; /* the endpoint is lost, and with it all counts */
    }
    if (generation == rma->generation) {
        rma->open--;
        cw_rma_update(rma);
    } else {
        cw_list_for_each(wait, &rma->waits, struct cw_flush_wait, link) {
            if (wait->generation == generation) {
                wait->count--;
                break;
            }
        }
    }
    if (!cw_list_empty(&rma->waits) || !cw_list_empty(&rma->queue)) {
        cw_rma_kick(rma);
    }
}

/* ---- the queue ---- */

static void put_inflight(struct cw_request *request)
{
    cw_list_add_tail(&request->ep->inflight, &request->link);
}

/* UCS_OK: the queue is empty, or cw_rma_kick will be called for it. CW_AGAIN, CW_LATER: it waits for its turn. */
static ucs_status_t run_some(struct cw_rma *rma)
{
    ucs_status_t result = UCS_OK, status;
    struct cw_request *request;
    struct cw_list *link;
    unsigned turn = 0;

    rma->running = 1;
    while (result == UCS_OK && rma->ep->state == CW_EP_OPEN && (link = cw_list_pop_head(&rma->queue)) != NULL) {
        request = cw_container_of(link, struct cw_request, link);
        status = request->send(request);
        if (status == CW_AGAIN || status == CW_LATER || status == CW_BLOCKED) {
            cw_list_add_head(&rma->queue, link);
            if (status == CW_BLOCKED) {
                break;
            }
            /* Yields to requests behind the pump in ep->pending, which new operations would starve otherwise. */
            result = (turn > 0) ? CW_LATER : status;
        } else if (status == UCS_INPROGRESS || (status != CW_RMA_OWNED && request->outstanding > 0)) {
            put_inflight(request);
        } else if (status != CW_RMA_OWNED) {
            cw_request_complete(request, status);
        }
        if (++turn == TURN && result == UCS_OK && !cw_list_empty(&rma->queue)) {
            result = CW_LATER;
        }
    }
    rma->running = 0;
    rma->in_order = rma->in_order && !cw_list_empty(&rma->queue);
    return result;
}

/* As run_some; packets of several operations leave in one batch. */
static ucs_status_t run_queue(struct cw_rma *rma)
{
    struct cw_conn *conn = rma->ep->conn;
    ucs_status_t result;

    if (rma->queue.next == rma->queue.prev || !cw_lane_batches(conn)) {
        return run_some(rma);
    }
    cw_lane_batch(conn, CW_BATCH_LONG);
    result = run_some(rma);
    cw_lane_batch(conn, CW_BATCH_END);
    return result;
}

static ucs_status_t pump_send(struct cw_request *request)
{
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    return rma->running ? CW_AGAIN : run_queue(rma);
}

static void pump_release(struct cw_request *request)
{
    if (cw_op_ep(request->ep)->rma != NULL) {
        cw_op_ep(request->ep)->rma->pump = NULL;
    }
}

/* Adds a request to ep->pending that runs the queue when the endpoint is open and has tx space. */
static ucs_status_t start_pump(struct cw_rma *rma)
{
    struct cw_request *request;

    if (rma->pump != NULL) {
        return UCS_OK;
    }
    request = cw_request_get(rma->ep->worker, NULL, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    request->ep = rma->ep;
    request->send = pump_send;
    request->release = pump_release;
    rma->pump = request;
    cw_request_release(request, 0);
    cw_ep_queue(rma->ep, request);
    return UCS_OK;
}

static void go_on(struct cw_rma *rma)
{
    struct ucp_ep *ep = rma->ep;
    ucs_status_t status = CW_AGAIN;

    if (cw_list_empty(&rma->queue) || rma->pump != NULL || rma->running || ep->state == CW_EP_FAILED) {
        return;
    }
    if (cw_ep_ready(ep)) {
        status = run_queue(rma);
    }
    if (status != UCS_OK && start_pump(rma) != UCS_OK) {
        cw_ep_fail(ep, UCS_ERR_NO_MEMORY);
    } else if (status == CW_LATER) {
        cw_ep_reap_later(ep); /* which sends from ep->pending */
    }
}

static void end_waits(struct cw_rma *rma)
{
    struct ucp_ep *ep = rma->ep;
    struct cw_flush_wait *wait;
    ucs_status_t status;

    while (cw_op_ep(ep)->rma == rma && !cw_list_empty(&rma->waits)) {
        wait = cw_list_head(&rma->waits, struct cw_flush_wait, link);
        if (wait->count > 0) {
            return;
        }
        status = rma->error;
        rma->error = UCS_OK;
        cw_list_remove(&wait->link);
        cw_rma_update(rma);
        wait->done(wait, status); /* callbacks may post and even close, but not free the endpoint */
    }
}

static bool run_job(struct cw_job *job)
{
    struct cw_rma *rma = cw_container_of(job, struct cw_rma, job);
    struct ucp_ep *ep = rma->ep;

    if (ep->state == CW_EP_FAILED) {
        return true;
    }
    end_waits(rma);
    if (cw_op_ep(ep)->rma != rma) {
        return true;
    }
    if (rma->passed > 0) { /* blocked active messages are sent before new ones */
        cw_op_ep(ep)->fences -= rma->passed;
        rma->passed = 0;
        if (ep->state == CW_EP_OPEN) {
            cw_ep_release_blocked(ep);
        }
    }
    go_on(rma);
    return true;
}

/* `why`: the result of the attempt. CW_BLOCKED: the queue runs without a pump. */
static ucs_status_ptr_t enqueue(struct cw_request *request, ucs_status_t why, ucs_status_t (*keep)(struct cw_request *))
{
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status = (keep == NULL) ? UCS_OK : keep(request);

    if (status == UCS_OK && why != CW_BLOCKED) {
        status = start_pump(rma);
    }
    if (status != UCS_OK && (request->outstanding > 0 || rma->placing == request)) {
        put_inflight(request); /* the transport, or the target, expects more of it */
        cw_ep_fail(request->ep, status);
        return cw_request_handle(request);
    }
    if (status != UCS_OK) {
        return cw_request_give_up(request, status);
    }
    cw_list_add_tail(&rma->queue, &request->link);
    rma->in_order |= keep != NULL;
    if (why == CW_LATER) {
        cw_ep_reap_later(rma->ep);
    }
    return cw_request_handle(request);
}

/* An operation that follows another send without progress in between leaves with it (docs/why/tcp-rate.md), if it may
 * complete in progress: an operation with payload is passed to the transport at once; one that only sends a request to
 * the target waits in the queue. */
static ucs_status_t first_attempt(struct cw_request *request, enum cw_rma_haste haste, bool overtakes)
{
    struct ucp_ep *ep = request->ep;
    const int ready = cw_ep_ready(ep);
    ucs_status_t status;

    if (ep->state == CW_EP_OPEN && !ready && overtakes) {
        return request->send(request); /* packets that wait for space do not delay copies */
    }
    if (!ready && !cw_ep_gathers(ep)) {
        return (ep->state != CW_EP_OPEN && cw_cma_is_ready(ep)) ? request->send(request) : CW_AGAIN;
    }
    if (haste != CW_RMA_AT_ONCE && cw_ep_collects(ep)) {
        return (haste == CW_RMA_FOLLOWS) ? cw_ep_follow(ep, request) : CW_LATER;
    }
    if (!ready) {
        return CW_AGAIN;
    }
    status = request->send(request);
    cw_ep_sent_alone(ep);
    return status;
}

CW_COLD ucs_status_t cw_rma_refuse_packets(const struct ucp_ep *ep, const struct cw_dt_cursor *cursor, const char *what)
{
    const int is_device = cursor->class_id == CW_DT_DEVICE || cursor->class_id == CW_DT_STAGED;

    if (ep->state != CW_EP_OPEN) {
        return CW_AGAIN;
    }
    cw_error("canceled a %s of %zu bytes between %s memory and memory of type host of worker %016llx: it needs "
             "packets, which UCX_PROTO_EMULATION_ENABLE=n forbids", what, cursor->length,
             cw_words_memory_type[is_device ? cursor->memory_type : UCS_MEMORY_TYPE_HOST],
             (unsigned long long)cw_ep_peer_uid(ep));
    return UCS_ERR_CANCELED;
}

ucs_status_ptr_t cw_rma_post(struct cw_request *request, uint32_t attr_mask, enum cw_rma_haste haste,
                             ucs_status_t (*keep)(struct cw_request *))
{
    struct ucp_ep *ep = request->ep;
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    const bool overtakes = keep != NULL && haste == CW_RMA_AT_ONCE && !rma->in_order;
    ucs_status_t status;

    if (rma->running || (!cw_list_empty(&rma->queue) && !overtakes)) {
        return enqueue(request, CW_BLOCKED, keep);
    }
    if (cw_unlikely(rma->no_packets)) { /* so that a refused operation completes in progress */
        return enqueue(request, CW_LATER, keep);
    }
    status = first_attempt(request, (attr_mask & UCP_OP_ATTR_FLAG_FAST_CMPL) ? CW_RMA_AT_ONCE : haste,
                           overtakes);
    if (request->flags & CW_REQUEST_HANDED_OVER) {
        cw_ep_queue(ep, request);
        return cw_request_handle(request);
    }
    if (status == CW_RMA_OWNED) {
        return cw_request_handle(request);
    }
    return (status == CW_AGAIN || status == CW_LATER || status == CW_BLOCKED) ? enqueue(request, status, keep)
                                                                           : cw_ep_answered(request, status, attr_mask);
}

ucs_status_ptr_t cw_rma_post_forced(struct cw_request *request)
{
    const struct ucp_ep *ep = request->ep;
    const struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status = CW_AGAIN;

    if (cw_ep_ready(ep) && cw_list_empty(&rma->queue) && !rma->running) {
        status = request->send(request);
    }
    return cw_request_give_up(request, (status == CW_BLOCKED || status == CW_LATER) ? CW_AGAIN : status);
}

/* ---- target ---- */

static void answer_release(struct cw_request *request)
{
    cw_rma_target_end(request->ep);
}

ucs_status_t cw_rma_target_begin(struct ucp_ep *ep)
{
    struct cw_rma *rma = cw_rma_get(ep);

    if (rma == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (rma->serving.answers >= CW_RMA_WINDOW) {
        return UCS_ERR_IO_ERROR;
    }
    rma->serving.answers++;
    return UCS_OK;
}

void cw_rma_target_end(struct ucp_ep *ep)
{
    if (cw_op_ep(ep)->rma != NULL) {
        cw_op_ep(ep)->rma->serving.answers--;
    }
}

ucs_status_t cw_rma_answer(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    ucs_status_t status;

    if (cw_ep_control_now(ep, id, packet, length)) {
        return UCS_OK;
    }
    status = cw_rma_target_begin(ep);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_ep_control_later(ep, id, packet, length, answer_release);
    if (status != UCS_OK) {
        cw_rma_target_end(ep);
    }
    return status;
}

const char *cw_rma_why_refused(ucs_status_t status)
{
    return (status == UCS_ERR_UNSUPPORTED) ? "GPU memory has no atomic operations, neither by its device nor by the "
                                             "CPU; use host memory"
                                           : "the memory was unmapped, or the key does not allow it";
}

void cw_rma_refuse(struct ucp_ep *ep, uint64_t address, uint64_t length, ucs_status_t status)
{
    static struct cw_log_limit limit;
    struct cw_rma *rma = cw_rma_get(ep);
    const char *why = cw_rma_why_refused(status);

    if (status == UCS_ERR_INVALID_ADDR) {
        why = "no such memory is registered";
    } else if (status == UCS_ERR_CONNECTION_RESET) {
        why = "the program has unmapped the memory; the endpoint to this peer fails";
    }
    cw_log_ratelimited(&limit, CW_LOG_WARN, "refused access of worker %016llx to %llu bytes at 0x%llx: %s",
                       (unsigned long long)cw_ep_peer_uid(ep), (unsigned long long)length, (unsigned long long)address,
                       why);
    if (rma == NULL || status == UCS_ERR_CONNECTION_RESET) {
        cw_ep_fail(ep, (rma == NULL) ? UCS_ERR_NO_MEMORY : status);
    } else if (rma->serving.refused == UCS_OK) {
        rma->serving.refused = status;
    }
}

/* ---- life ---- */

static void start_counters(struct cw_rma *rma)
{
    const uint32_t start = (uint32_t)cw_counter_start;

    rma->generation = start;
    rma->sent_mark = rma->asked_mark = rma->acked_mark = rma->fence_mark = start;
}

struct cw_rma *cw_rma_get(struct ucp_ep *ep)
{
    struct cw_rma *rma = cw_op_ep(ep)->rma;

    if (cw_likely(rma != NULL)) {
        return rma;
    }
    rma = calloc(1, sizeof(*rma));
    if (rma == NULL) {
        return NULL;
    }
    rma->ep = ep;
    rma->error = UCS_OK;
    rma->serving.refused = UCS_OK;
    rma->job.run = run_job;
    rma->no_packets = !ep->worker->context->config->proto_emulation_enable;
    start_counters(rma);
    cw_list_init(&rma->queue);
    cw_list_init(&rma->waits);
    cw_list_init(&rma->job.link);
    cw_list_add_tail(&ep->worker->rma->all, &rma->link);
    cw_op_ep(ep)->rma = rma;
    return rma;
}

/* The core has ended the requests on its own lists; requests of flushes are among them. */
void cw_rma_ep_ended(struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    struct cw_flush_wait *wait;
    struct cw_list *link;

    if (rma == NULL) {
        return;
    }
    while ((link = cw_list_pop_head(&rma->queue)) != NULL) {
        cw_request_complete(cw_container_of(link, struct cw_request, link), status);
    }
    while ((link = cw_list_pop_head(&rma->waits)) != NULL) { /* they belong to fences */
        wait = cw_container_of(link, struct cw_flush_wait, link);
        wait->done(wait, status);
    }
    cw_op_ep(ep)->rma = NULL;
    ep->busy = 0;
    cw_put_list_free(ep->worker->context, rma->serving.places);
    cw_list_remove(&rma->job.link);
    cw_list_remove(&rma->link);
    free(rma);
}

ucs_status_t cw_rma_stripes_started(struct cw_request *request, ucs_status_t status)
{
    if (status != CW_BLOCKED) {
        return status;
    }
    cw_ep_wait(request->ep, &request->ep->blocked, request);
    return CW_RMA_OWNED;
}
