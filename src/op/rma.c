/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op/rma.h: the queue, the counts, flush and fence. Invariants: an operation is counted from cw_rma_begin to cw_rma_end
 * under one generation; a wait closes a generation and ends when it is the oldest and its count is 0; the queue is
 * looked at whenever something ended that its head may wait for. Waits end and the queue moves in a job of progress, so
 * that no callback of a flush runs before that of the operation which it waited for.
 */
#include "op/rma.h"

#include <stdlib.h>

#include "base/log.h"
#include "op/ledger.h"
#include "op/op.h"

/* Operations started before others of the worker get their turn. */
#define TURN 64

struct flush_op {
    struct cw_list link;    /* rma->confirms, while it waits for the ledger and has no id */
    uint64_t id;
    uint32_t generation;
    uint32_t mark;
    uint32_t count;
    int local;              /* asks the peer nothing: of a close */
};

_Static_assert(sizeof(struct flush_op) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Tells the core whether a flush has to come here. */
static void update(struct cw_rma *rma)
{
    rma->ep->rma_busy = 0;
    if (rma->open > 0 || !cw_list_empty(&rma->waits) || rma->sent_mark != rma->acked_mark ||
        rma->counted != rma->carried || rma->error != UCS_OK) {
        cw_ep_owes_rma(rma->ep);
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
    struct cw_rma *rma = ep->rma;
    struct cw_flush_wait *wait;

    if (rma == NULL) {
        return; /* the endpoint is lost, and with it all counts */
    }
    if (generation == rma->generation) {
        rma->open--;
        update(rma);
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

/* UCS_OK: the queue is empty or waits for what kicks it; CW_AGAIN, CW_LATER: it waits for its turn. */
static ucs_status_t run_queue(struct cw_rma *rma)
{
    ucs_status_t result = UCS_OK, status;
    struct cw_request *request;
    struct cw_list *link;
    unsigned turn = 0;

    rma->running = 1;
    while (result == UCS_OK && rma->ep->state == CW_EP_OPEN && (link = cw_list_pop_head(&rma->queue)) != NULL) {
        request = cw_container_of(link, struct cw_request, link);
        status  = request->send(request);
        if (status == CW_AGAIN || status == CW_LATER || status == CW_HOLD) {
            cw_list_add_head(&rma->queue, link);
            if (status == CW_HOLD) {
                break;
            }
            /* Those behind the pump get their turn, or it would stand before them as long as new operations come. */
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
    return result;
}

static ucs_status_t pump_send(struct cw_request *request)
{
    struct cw_rma *rma = request->ep->rma;

    return rma->running ? CW_AGAIN : run_queue(rma);
}

static void pump_release(struct cw_request *request)
{
    if (request->ep->rma != NULL) {
        request->ep->rma->pump = NULL;
    }
}

/* The queue goes on when the endpoint is open and has room. */
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
    request->ep      = rma->ep;
    request->send    = pump_send;
    request->release = pump_release;
    rma->pump        = request;
    cw_request_release(request, 0);
    cw_ep_queue(rma->ep, request);
    return UCS_OK;
}

static void go_on(struct cw_rma *rma)
{
    struct ucp_ep *ep   = rma->ep;
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
        cw_ep_reap_later(ep); /* which drains pending */
    }
}

static void end_waits(struct cw_rma *rma)
{
    struct ucp_ep *ep = rma->ep;
    struct cw_flush_wait *wait;
    ucs_status_t status;

    while (ep->rma == rma && !cw_list_empty(&rma->waits)) {
        wait = cw_list_head(&rma->waits, struct cw_flush_wait, link);
        if (wait->count > 0) {
            return;
        }
        status     = rma->error;
        rma->error = UCS_OK;
        cw_list_remove(&wait->link);
        update(rma);
        wait->done(wait, status); /* callbacks may post and even close, but not free the endpoint */
    }
}

static void run_job(struct cw_job *job)
{
    struct cw_rma *rma = cw_container_of(job, struct cw_rma, job);
    struct ucp_ep *ep  = rma->ep;

    if (ep->state == CW_EP_FAILED) {
        return;
    }
    end_waits(rma);
    if (ep->rma != rma) {
        return;
    }
    if (rma->passed > 0) { /* active messages that were held go before new ones */
        ep->fences -= rma->passed;
        rma->passed = 0;
        if (ep->state == CW_EP_OPEN) {
            cw_ep_release_held(ep);
        }
    }
    go_on(rma);
}

static ucs_status_ptr_t give_up(struct cw_request *request, ucs_status_t status)
{
    if (request->release != NULL) {
        request->release(request);
    }
    cw_request_put(request);
    return UCS_STATUS_PTR(status);
}

/* `why`: what its attempt answered; CW_HOLD: somebody else sees to the queue. */
static ucs_status_ptr_t enqueue(struct cw_request *request, ucs_status_t why, ucs_status_t (*keep)(struct cw_request *))
{
    struct cw_rma *rma  = request->ep->rma;
    ucs_status_t status = (keep == NULL) ? UCS_OK : keep(request);

    if (status == UCS_OK && why != CW_HOLD) {
        status = start_pump(rma);
    }
    if (status != UCS_OK) {
        return give_up(request, status);
    }
    cw_list_add_tail(&rma->queue, &request->link);
    if (why == CW_LATER) {
        cw_ep_reap_later(rma->ep);
    }
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_rma_post(struct cw_request *request, uint32_t attr_mask, ucs_status_t (*keep)(struct cw_request *))
{
    struct ucp_ep *ep   = request->ep;
    struct cw_rma *rma  = ep->rma;
    ucs_status_t status = CW_AGAIN;

    if (!cw_list_empty(&rma->queue) || rma->running) {
        return enqueue(request, CW_HOLD, keep);
    }
    if (cw_ep_ready(ep)) {
        status = request->send(request);
    }
    switch (status) {
    case UCS_OK:
        if (attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
            cw_request_complete(request, UCS_OK);
            return cw_request_handle(request);
        }
        return give_up(request, UCS_OK);
    case UCS_INPROGRESS:
        put_inflight(request);
        return cw_request_handle(request);
    case CW_RMA_OWNED:
        return cw_request_handle(request);
    case CW_AGAIN:
    case CW_LATER:
    case CW_HOLD:
        return enqueue(request, status, keep);
    default:
        if (request->outstanding == 0) {
            return give_up(request, status);
        }
        put_inflight(request);
        return cw_request_handle(request);
    }
}

/* ---- flush ---- */

static void flush_op_release(struct cw_request *request)
{
    struct flush_op *op = cw_request_state(request);

    cw_list_remove(&op->link);
    if (op->id != 0) {
        cw_idmap_remove(&request->worker->ids, op->id);
        if (request->ep->rma != NULL) {
            request->ep->rma->replies--;
        }
    }
    cw_rma_end(request->ep, op->generation);
}

/* Counted puts need no packet. */
static ucs_status_t wait_for_ledger(struct cw_rma *rma, struct flush_op *op)
{
    if (cw_ledger_is_settled(rma)) {
        return UCS_OK;
    }
    cw_list_add_tail(&rma->confirms, &op->link);
    cw_patience_begin(rma, 1);
    return UCS_INPROGRESS;
}

static ucs_status_t flush_op_send(struct cw_request *request)
{
    struct flush_op *op  = cw_request_state(request);
    struct cw_rma *rma   = request->ep->rma;
    struct cw_conn *conn = request->ep->conn;
    ucs_status_t status;
    uint64_t id;

    cw_ledger_look(rma);
    op->mark  = rma->sent_mark;
    op->count = rma->counted;
    if (op->local || rma->acked_mark == rma->sent_mark) {
        return wait_for_ledger(rma, op);
    }
    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_HOLD;
    }
    status = cw_idmap_add(&request->worker->ids, request, &id);
    if (status != UCS_OK) {
        return status;
    }
    status = conn->iface->transport->send_short(conn, CW_PACKET_FLUSH, htole64(id), NULL, 0);
    if (status != UCS_OK) {
        cw_idmap_remove(&request->worker->ids, id);
        return status;
    }
    op->id          = id;
    rma->asked_mark = rma->sent_mark;
    rma->must_ask   = 0;
    rma->replies++;
    return UCS_INPROGRESS;
}

static struct cw_request *flush_op_new(struct cw_rma *rma)
{
    struct cw_request *request = cw_request_get(rma->ep->worker, NULL, CW_REQUEST_SEND);
    struct flush_op *op;

    if (request == NULL) {
        return NULL;
    }
    op               = cw_request_state(request);
    op->id           = 0;
    op->local        = 0;
    cw_list_init(&op->link);
    op->generation   = cw_rma_begin(rma);
    request->ep      = rma->ep;
    request->send    = flush_op_send;
    request->release = flush_op_release;
    return request;
}

ucs_status_t cw_rma_on_flushed(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_flushed packet;
    struct cw_request *request;
    ucs_status_t status;
    int32_t told; /* ucs_status_t has one byte only */

    if (length != sizeof(packet)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&packet, data, sizeof(packet));
    told    = (int32_t)le32toh((uint32_t)packet.status);
    request = cw_idmap_get(&ep->worker->ids, le64toh(packet.flush_id));
    if (request == NULL || request->ep != ep || request->send != flush_op_send || told > 0 || told <= UCS_ERR_LAST ||
        ep->rma == NULL) {
        return UCS_ERR_IO_ERROR;
    }
    status = (ucs_status_t)told;
    ep->rma->acked_mark = ((struct flush_op *)cw_request_state(request))->mark;
    cw_ledger_confirmed(ep->rma, ((struct flush_op *)cw_request_state(request))->count);
    if (status != UCS_OK) {
        cw_error("worker %016llx refused a put or an atomic of endpoint %p: %s; the memory was unmapped, or the key "
                 "does not allow it", (unsigned long long)cw_ep_peer_uid(ep), (void *)ep, ucs_status_string(status));
        ep->rma->error = status;
    }
    update(ep->rma);
    cw_list_remove(&request->link);
    cw_request_complete(request, UCS_OK);
    cw_rma_end_confirms(ep->rma);
    if (!cw_ledger_is_settled(ep->rma) || !cw_list_empty(&ep->rma->quick)) {
        cw_patience_begin(ep->rma, !cw_ledger_is_settled(ep->rma));
    }
    return UCS_OK;
}

/* Asks the peer to confirm all packets sent so far, now. UCS_OK: asked, or asked before. */
static ucs_status_t confirm(struct cw_rma *rma)
{
    struct cw_request *request;
    ucs_status_t status;

    if (rma->asked_mark == rma->sent_mark) {
        return UCS_OK;
    }
    request = flush_op_new(rma);
    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    status = flush_op_send(request);
    if (status != UCS_INPROGRESS) {
        (void)give_up(request, status);
        return status;
    }
    put_inflight(request);
    cw_request_release(request, 0);
    return UCS_OK;
}

ucs_status_t cw_rma_admit(struct cw_rma *rma, uint64_t address, uint64_t length, int writes, int packets)
{
    ucs_status_t status;

    if (writes && cw_rma_is_late(rma, address, length)) {
        return CW_HOLD;
    }
    if (packets || cw_rma_confirmed(rma)) {
        return UCS_OK;
    }
    cw_ledger_look(rma);
    if (cw_rma_confirmed(rma)) {
        return UCS_OK;
    }
    if (!cw_ledger_is_settled(rma)) {
        cw_patience_begin(rma, 1);
    }
    status = confirm(rma);
    return (status == UCS_OK) ? CW_HOLD : status;
}

ucs_status_t cw_rma_admit_copy(struct cw_rma *rma, uint64_t address, uint64_t length, int writes)
{
    cw_ledger_look(rma);
    if (cw_ledger_is_settled(rma)) {
        return cw_rma_admit(rma, address, length, writes, 0);
    }
    cw_patience_begin(rma, 1);
    return CW_HOLD;
}

void cw_rma_end_confirms(struct cw_rma *rma)
{
    struct cw_request *request;
    struct flush_op *op;

    while (!cw_list_empty(&rma->confirms)) {
        op = cw_list_head(&rma->confirms, struct flush_op, link);
        if ((int32_t)(rma->carried - op->count) < 0) {
            break;
        }
        request = (struct cw_request *)(void *)op - 1;
        cw_list_remove(&op->link);
        cw_list_remove(&request->link);
        if (rma->must_ask) { /* there is more to be told */
            cw_list_add_head(&rma->queue, &request->link);
            cw_rma_kick(rma);
            break;
        }
        cw_request_complete(request, UCS_OK); /* has no callback */
    }
    update(rma);
}

/* A close asks the peer nothing, for it may make no progress any more (CLS-19). But counted puts can be carried out
 * without it, and are: behind a close the program may tell the peer by other ways that they are there (CLS-4). */
static int needs_flush_op(const struct cw_rma *rma, int confirm_packets)
{
    return rma->counted != rma->carried || (!cw_list_empty(&rma->queue) && (confirm_packets || rma->ledger != NULL)) ||
           (confirm_packets && rma->asked_mark != rma->sent_mark);
}

ucs_status_t cw_rma_flush(struct ucp_ep *ep, struct cw_flush_wait *wait, int confirm_packets)
{
    struct cw_rma *rma = ep->rma;
    struct cw_request *request;
    ucs_status_ptr_t result;
    ucs_status_t status;

    if (rma == NULL) {
        return UCS_OK;
    }
    cw_ledger_look(rma);
    if (needs_flush_op(rma, confirm_packets)) {
        request = flush_op_new(rma);
        if (request == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        ((struct flush_op *)cw_request_state(request))->local = !confirm_packets;
        result = cw_rma_post(request, 0, NULL);
        if (UCS_PTR_IS_ERR(result)) {
            return UCS_PTR_STATUS(result);
        }
        if (result != NULL) {
            cw_request_release(request, 0);
        }
    }
    if (rma->open == 0 && cw_list_empty(&rma->waits)) {
        status     = rma->error;
        rma->error = UCS_OK;
        update(rma);
        return status;
    }
    wait->generation = rma->generation++;
    wait->count      = rma->open;
    rma->open        = 0;
    cw_list_add_tail(&rma->waits, &wait->link);
    if (wait->count == 0) {
        cw_rma_kick(rma); /* an older one may be about to end */
    }
    return UCS_INPROGRESS;
}

/* What waits for the ledger waits for FLUSHED then, too. */
void cw_rma_ask(struct cw_rma *rma)
{
    struct cw_request *request;

    if (rma->asked_mark != rma->acked_mark) {
        return; /* it will be told */
    }
    request = flush_op_new(rma);
    if (request == NULL) {
        return; /* the next time */
    }
    rma->sent_mark += rma->asked_mark == rma->sent_mark;
    if (flush_op_send(request) == UCS_INPROGRESS) {
        put_inflight(request);
        cw_request_release(request, 0);
    } else {
        (void)give_up(request, CW_AGAIN); /* no room: the next time, or everything is carried out meanwhile */
    }
}

/* ---- the owner's side ---- */

static void answer_release(struct cw_request *request)
{
    cw_rma_serve_end(request->ep);
}

ucs_status_t cw_rma_serve_begin(struct ucp_ep *ep)
{
    struct cw_rma *rma = cw_rma_get(ep);

    if (rma == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (rma->serving >= CW_RMA_WINDOW) {
        return UCS_ERR_IO_ERROR;
    }
    rma->serving++;
    return UCS_OK;
}

void cw_rma_serve_end(struct ucp_ep *ep)
{
    if (ep->rma != NULL) {
        ep->rma->serving--;
    }
}

ucs_status_t cw_rma_answer(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    ucs_status_t status;

    if (cw_ep_control_now(ep, id, packet, length)) {
        return UCS_OK;
    }
    status = cw_rma_serve_begin(ep);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_ep_control_later(ep, id, packet, length, answer_release);
    if (status != UCS_OK) {
        cw_rma_serve_end(ep);
    }
    return status;
}

void cw_rma_refuse(struct ucp_ep *ep, uint64_t address, uint64_t length, ucs_status_t status)
{
    static struct cw_log_limit limit;
    struct cw_rma *rma = cw_rma_get(ep);

    cw_log_ratelimited(&limit, CW_LOG_WARN, "refused worker %016llx an access to %llu bytes at 0x%llx: %s",
                       (unsigned long long)cw_ep_peer_uid(ep), (unsigned long long)length, (unsigned long long)address,
                       (status == UCS_ERR_INVALID_ADDR) ? "no such memory is registered" :
                       "the memory was not registered for that");
    if (rma == NULL) {
        cw_ep_fail(ep, UCS_ERR_NO_MEMORY);
    } else if (rma->refused == UCS_OK) {
        rma->refused = status;
    }
}

ucs_status_t cw_rma_on_flush(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_flush flush;
    struct cw_wire_flushed answer = {.status = 0};

    if (length != sizeof(flush)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&flush, data, sizeof(flush));
    answer.flush_id = flush.flush_id;
    if (ep->rma != NULL) {
        answer.status    = (int32_t)htole32((uint32_t)ep->rma->refused);
        ep->rma->refused = UCS_OK;
    }
    return cw_rma_answer(ep, CW_PACKET_FLUSHED, &answer, sizeof(answer));
}

/* ---- life ---- */

struct cw_rma *cw_rma_get(struct ucp_ep *ep)
{
    struct cw_rma *rma = ep->rma;

    if (cw_likely(rma != NULL)) {
        return rma;
    }
    rma = calloc(1, sizeof(*rma));
    if (rma == NULL) {
        return NULL;
    }
    rma->ep      = ep;
    rma->error   = UCS_OK;
    rma->refused = UCS_OK;
    rma->job.run = run_job;
    cw_list_init(&rma->queue);
    cw_list_init(&rma->waits);
    cw_list_init(&rma->job.link);
    cw_patience_init(rma);
    cw_list_add_tail(&cw_op_state(ep->worker)->rma, &rma->link);
    ep->rma = rma;
    return rma;
}

/* The core has ended the requests on its own lists, among them those of flushes. */
void cw_rma_ep_lost(struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_rma *rma = ep->rma;
    struct cw_flush_wait *wait;
    struct cw_list *link;

    if (rma == NULL) {
        return;
    }
    while ((link = cw_list_pop_head(&rma->queue)) != NULL) {
        cw_request_complete(cw_container_of(link, struct cw_request, link), status);
    }
    while ((link = cw_list_pop_head(&rma->waits)) != NULL) { /* of fences */
        wait = cw_container_of(link, struct cw_flush_wait, link);
        wait->done(wait, status);
    }
    ep->rma      = NULL;
    ep->rma_busy = 0;
    cw_patience_end(rma);
    cw_ledger_free(rma);
    cw_list_remove(&rma->job.link);
    cw_list_remove(&rma->link);
    free(rma);
}
