/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush of one-sided operations, and the admission of operations that may start only after earlier ones are confirmed
 * (rma/rma.h). A flush waits for the operations that are counted in generations. For packets that are not confirmed yet
 * it starts an operation of its own, which sends FLUSH to the target. Invariant: rma->unflushed is set while the device
 * of the message lane has short puts for which no flush has begun.
 */
#include "rma/rma.h"

#include "access/access.h"
#include "base/log.h"

struct flush_op {
    uint64_t id;
    uint64_t mark;
    uint32_t generation;
};

_Static_assert(sizeof(struct flush_op) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static void flush_op_release(struct cw_request *request)
{
    const struct flush_op *op = cw_request_state(request);

    if (op->id != 0) {
        cw_idmap_remove(&request->worker->ids, op->id);
        if (cw_op_ep(request->ep)->rma != NULL) {
            cw_op_ep(request->ep)->rma->replies--;
        }
    }
    cw_rma_end(request->ep, op->generation);
}

static ucs_status_t flush_op_send(struct cw_request *request)
{
    struct flush_op *op = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    struct cw_conn *conn = request->ep->conn;
    ucs_status_t status;
    uint64_t id;

    op->mark = rma->sent_mark;
    if (rma->acked_mark == rma->sent_mark) {
        return UCS_OK;
    }
    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_BLOCKED;
    }
    status = cw_idmap_add(&request->worker->ids, request, &id);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_lane_send_header(conn, CW_PACKET_FLUSH, htole64(id));
    if (status != UCS_OK) {
        cw_idmap_remove(&request->worker->ids, id);
        return status;
    }
    op->id = id;
    rma->asked_mark = rma->sent_mark;
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
    op = cw_request_state(request);
    op->id = 0;
    op->generation = cw_rma_begin(rma);
    request->ep = rma->ep;
    request->send = flush_op_send;
    request->release = flush_op_release;
    return request;
}

/* Ends a request that did not start. */
static void drop(struct cw_request *request)
{
    flush_op_release(request);
    cw_request_put(request);
}

ucs_status_t cw_rma_on_flushed(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_flushed packet;
    struct cw_request *request;
    ucs_status_t status;
    int32_t wire_status; /* ucs_status_t has only one byte */

    memcpy(&packet, data, sizeof(packet));
    wire_status = (int32_t)le32toh((uint32_t)packet.status);
    request = cw_idmap_get(&ep->worker->ids, le64toh(packet.flush_id));
    if (request == NULL || request->ep != ep || request->send != flush_op_send || wire_status > 0 ||
        wire_status <= UCS_ERR_LAST || cw_op_ep(ep)->rma == NULL) {
        return UCS_ERR_IO_ERROR;
    }
    status = (ucs_status_t)wire_status;
    cw_op_ep(ep)->rma->acked_mark = ((struct flush_op *)cw_request_state(request))->mark;
    if (status != UCS_OK) {
        cw_error("worker %016llx refused a put or an atomic of endpoint %p: %s; %s",
                 (unsigned long long)cw_ep_peer_uid(ep), (void *)ep, ucs_status_string(status),
                 cw_rma_why_refused(status));
        cw_op_ep(ep)->rma->error = status;
    }
    cw_rma_update(cw_op_ep(ep)->rma);
    cw_list_remove(&request->link);
    cw_request_complete(request, UCS_OK);
    return UCS_OK;
}

/* Requests confirmation of all packets sent so far, at once. UCS_OK: the request is sent, now or before. */
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
        drop(request);
        return status;
    }
    cw_list_add_tail(&request->ep->inflight, &request->link);
    cw_request_release(request, 0);
    return UCS_OK;
}

ucs_status_t cw_rma_admit(struct cw_rma *rma, uint64_t address, uint64_t length, int writes)
{
    ucs_status_t status;

    if (writes && cw_rma_is_late(rma, address, length)) {
        return CW_BLOCKED;
    }
    if (cw_rma_confirmed(rma)) {
        return UCS_OK;
    }
    status = confirm(rma);
    return (status == UCS_OK) ? CW_BLOCKED : status;
}

ucs_status_t cw_rma_admit_device(struct cw_rma *rma, uint64_t address, uint64_t length, unsigned *flags_p)
{
    const int device_waits = cw_rma_is_late(rma, address, length) && rma->late.fetching == rma->late.count;

    *flags_p = device_waits ? CW_ACCESS_AFTER_FETCHES : 0;
    return cw_rma_admit(rma, address, length, !device_waits);
}

/* ---- short puts by the device of the message lane ---- */

struct device_flush {
    struct cw_access *access;
    uint32_t generation;
};

_Static_assert(sizeof(struct device_flush) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static void device_flush_release(struct cw_request *request)
{
    struct device_flush *flush = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    if (flush->access != NULL) {
        cw_access_free(flush->access);
        if (rma != NULL) {
            rma->async_puts--;
        }
    }
    cw_rma_end(request->ep, flush->generation);
}

/* The program's next flush returns the status of a refused put. */
static void device_flush_ended(struct cw_request *request, ucs_status_t status)
{
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    cw_list_remove(&request->link);
    if (status != UCS_OK && rma != NULL) {
        rma->error = status;
    }
    cw_request_complete(request, status);
}

static ucs_status_t device_flush_send(struct cw_request *request)
{
    struct device_flush *flush = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status;

    if (flush->access == NULL) {
        flush->access = cw_access_new(request, device_flush_ended);
        if (flush->access == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        rma->async_puts++;
    }
    status = cw_access_taken(flush->access,
                             cw_lane_access_flush(request->ep->conn, &flush->access->completion));
    if (status == UCS_OK) {
        return cw_access_begun(flush->access);
    }
    if (cw_lane_access_flush(request->ep->conn, NULL) < 0) {
        return CW_AGAIN; /* the connection is over: the failure of the endpoint ends the request */
    }
    return status;
}

ucs_status_t cw_put_short_flush(struct cw_rma *rma)
{
    struct cw_request *request;
    struct device_flush *flush;
    ucs_status_ptr_t result;

    if (cw_likely(!rma->unflushed)) {
        return UCS_OK;
    }
    request = cw_request_get(rma->ep->worker, NULL, CW_REQUEST_SEND);
    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    flush = cw_request_state(request);
    *flush = (struct device_flush){.generation = cw_rma_begin(rma)};
    request->ep = rma->ep;
    request->send = device_flush_send;
    request->release = device_flush_release;
    result = cw_rma_post(request, 0, CW_RMA_AT_ONCE, NULL);
    if (UCS_PTR_IS_ERR(result)) {
        return UCS_PTR_STATUS(result);
    }
    if (result != NULL) {
        cw_request_release(request, 0);
    }
    rma->unflushed = 0;
    return UCS_OK;
}

/* ---- flush ---- */

ucs_status_t cw_rma_flush(struct ucp_ep *ep, struct cw_flush_wait *wait, int confirm_packets)
{
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    struct cw_request *request;
    ucs_status_ptr_t result;
    ucs_status_t status;

    if (rma == NULL) {
        return UCS_OK;
    }
    status = cw_put_short_flush(rma);
    if (status != UCS_OK) {
        return status;
    }
    /* A close requests no confirmation, because the peer may make no progress any more. */
    if (confirm_packets && (!cw_list_empty(&rma->queue) || rma->asked_mark != rma->sent_mark)) {
        request = flush_op_new(rma);
        if (request == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        result = cw_rma_post(request, 0, CW_RMA_AT_ONCE, NULL);
        if (UCS_PTR_IS_ERR(result)) {
            return UCS_PTR_STATUS(result);
        }
        if (result != NULL) {
            cw_request_release(request, 0);
        }
    }
    if (rma->open == 0 && cw_list_empty(&rma->waits)) {
        status = rma->error;
        rma->error = UCS_OK;
        cw_rma_update(rma);
        return status;
    }
    wait->generation = rma->generation++;
    wait->count = rma->open;
    rma->open = 0;
    cw_list_add_tail(&rma->waits, &wait->link);
    if (wait->count == 0) {
        cw_rma_kick(rma); /* an older wait may be about to end */
    }
    return UCS_INPROGRESS;
}

/* Handler of FLUSH, at the target. */
ucs_status_t cw_rma_on_flush(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_flush flush;
    struct cw_wire_flushed answer = {.status = 0};

    memcpy(&flush, data, sizeof(flush));
    answer.flush_id = flush.flush_id;
    if (cw_op_ep(ep)->rma != NULL) {
        answer.status = (int32_t)htole32((uint32_t)cw_op_ep(ep)->rma->serving.refused);
        cw_op_ep(ep)->rma->serving.refused = UCS_OK;
    }
    return cw_rma_answer(ep, CW_PACKET_FLUSHED, &answer, sizeof(answer));
}
