/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A refused access breaks the queue pairs of both sides. It costs only that access (docs/why/refused.md): each side
 * gives up its queue pair, the connection is reopened as a parked one, and what was not received is sent again:
 *
 *   OPEN --refusal, or hello of the next epoch--> BROKEN --requests and packets came back--> PARKED --> REOPENING
 *
 * The device executes nothing behind a request that it refused. So the side whose access was refused repeats exactly
 * the requests behind it. The other side does not know which of its requests were executed, except that those before a
 * packet that the peer handled were. It repeats packets by the peer's count, reads and writes, but no atomic
 * operation. If neither side knows which access was refused, all accesses fail that may have been executed.
 *
 * A count is final when it is reported: packets that are received later by the old queue pair are ignored.
 */
#include "transport/verbs/verbs_conn.h"

#include <string.h>

#include "os/clock.h"

/* Queue pairs that a connection may break at once, and then one per interval, so that a peer cannot make this side
 * create them all the time. */
#define BURST       16u
#define INTERVAL_NS UINT64_C(50000000)

bool cw_verbs_reopens_for_ever(const struct cw_verbs_conn *conn)
{
    return !conn->is_renewing || !conn->is_watched || cw_verbs_is_seen(conn) ||
           cw_verbs_iface_of(&conn->super)->settings.keepalive_ns == UINT64_MAX;
}

void cw_verbs_renew(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    const uint64_t now = cw_clock_ns();

    if (conn->state == CW_VERBS_BROKEN || conn->state == CW_VERBS_ACCEPTING) {
        return; /* ACCEPTING: READY was received already, or the peer gives the queue pair up itself */
    }
    if (conn->state != CW_VERBS_OPEN && conn->state != CW_VERBS_PARKING) {
        cw_verbs_conn_fail(conn, UCS_ERR_CONNECTION_RESET, "the device refused one of its requests");
        return;
    }
    conn->state = CW_VERBS_BROKEN;
    conn->is_renewing = 1;
    conn->is_returning = 0;
    conn->unsent += cw_verbs_chain_drop(conn);
    conn->paced_ns = (conn->paced_ns + BURST * INTERVAL_NS < now) ? now - BURST * INTERVAL_NS : conn->paced_ns;
    conn->paced_ns += INTERVAL_NS;
    (void)iface->lib->modify_qp(conn->qp, &attr, IBV_QP_STATE);
    iface->drained = 0;
    cw_poller_alarm_set(iface->poller, &conn->alarm, now + CW_VERBS_STOP_NS);
    cw_verbs_conn_due(conn);
}

static struct cw_verbs_op *find_op(const struct cw_verbs_conn *conn, uint32_t number)
{
    struct cw_verbs_op *op = conn->ops;

    while (op != NULL && (op->is_over || op->number != number)) {
        op = op->next;
    }
    return op;
}

/* Ends an access, which may be one without a completion, or a packet that was received. */
static void end_one(struct cw_verbs_conn *conn, uint32_t number, ucs_status_t status)
{
    struct cw_verbs_op *op = find_op(conn, number);

    if (op != NULL) {
        op->is_over = 1;
        op->status = status;
        op->segment = NULL; /* it is released with the request */
    } else if (conn->access_status == UCS_OK) {
        conn->access_status = status;
    }
}

/* Ends an access that the device refused. What remains of its operation would be refused, too, and break a queue pair
 * each time. */
static void refuse(struct cw_verbs_conn *conn, uint32_t number)
{
    struct cw_verbs_op *const refused = find_op(conn, number);
    struct cw_verbs_op *op = (refused != NULL && refused->completion != NULL) ? refused->next : NULL;

    for (; op != NULL; op = op->next) {
        op->is_refused = op->completion == refused->completion;
    }
    end_one(conn, number, UCS_ERR_INVALID_ADDR);
}

/* Not a packet, and not one of the empty writes, which no memory is accessed by. */
static bool is_access(const struct cw_verbs_request *request)
{
    return request->opcode != IBV_WR_SEND_WITH_IMM && request->num_sge > 0;
}

bool cw_verbs_renew_on_error(struct cw_verbs_conn *conn, uint32_t number, const struct ibv_wc *wc)
{
    const bool is_refused = (wc->status == IBV_WC_REM_ACCESS_ERR || wc->status == IBV_WC_REM_INV_REQ_ERR) &&
                            is_access(cw_verbs_request_at(conn, number));

    if ((conn->state != CW_VERBS_OPEN && conn->state != CW_VERBS_PARKING && conn->state != CW_VERBS_BROKEN) ||
        (!is_refused && wc->status != IBV_WC_WR_FLUSH_ERR)) {
        return false;
    }
    cw_verbs_renew(conn);
    if (!conn->is_returning) {
        conn->is_returning = 1;
        cw_verbs_conn_complete(conn, number, UCS_OK); /* else their own failure would have come first */
        if (is_refused) {
            conn->is_refused = 1;
            refuse(conn, number);
            cw_verbs_conn_complete(conn, number + 1, UCS_OK);
        }
    }
    if ((int32_t)(number + 1 - (conn->posted - conn->unsent)) >= 0) {
        conn->unsent = conn->posted - conn->completed;
    }
    cw_verbs_conn_due(conn);
    return true;
}

bool cw_verbs_renew_leave(struct cw_verbs_conn *conn, bool drained)
{
    if (cw_verbs_is_running(conn) && cw_alarm_is_set(&conn->alarm)) {
        return false;
    }
    if (!drained) {
        cw_verbs_conn_due(conn);
        return false;
    }
    cw_verbs_park(conn);
    return true;
}

bool cw_verbs_renew_for_peer(struct cw_verbs_conn *conn)
{
    if (conn->state != CW_VERBS_BROKEN) {
        if (cw_clock_ns() < conn->paced_ns) {
            return false;
        }
        if (conn->state == CW_VERBS_ACCEPTING) { /* the new queue pair broke before READY came */
            conn->state = CW_VERBS_OPEN;
        }
        cw_verbs_renew(conn);
    }
    (void)cw_verbs_sent(cw_verbs_iface_of(&conn->super));
    return conn->state == CW_VERBS_BROKEN && cw_verbs_renew_leave(conn, true); /* its hello came behind its packets */
}

/* Whether the peer's device has executed the request: the peer handled it, or a packet behind it. */
static bool was_executed(const struct cw_verbs_conn *conn, const struct cw_verbs_request *request)
{
    return (int32_t)(conn->peer_handled - request->before) > 0;
}

/* Decides whether the request must be repeated. */
static void judge(struct cw_verbs_conn *conn, uint32_t number)
{
    struct cw_verbs_request *request = cw_verbs_request_at(conn, number);
    const bool is_read = request->opcode == IBV_WR_RDMA_READ, is_write = request->opcode == IBV_WR_RDMA_WRITE;
    const bool executed = was_executed(conn, request);
    const struct cw_verbs_op *op = is_access(request) ? find_op(conn, number) : NULL;
    ucs_status_t status = UCS_ERR_CONNECTION_RESET;

    if (request->is_over) {
        return;
    }
    if (!is_access(request)) {
        if (cw_verbs_is_packet(request) && !executed) {
            return;
        }
        status = UCS_OK;
    } else if (op != NULL && op->is_refused) {
        status = UCS_ERR_INVALID_ADDR;
    } else if (conn->is_refused || (is_read && executed) ||
               ((is_read || is_write) && conn->peer_is_refused && !executed)) {
        request->before = executed ? conn->peer_handled : request->before; /* its answer got lost */
        return;
    } else if (executed) {
        status = (op == NULL || op->result == NULL) ? UCS_OK : status;
    }
    request->is_over = 1;
    end_one(conn, number, status);
}

/* Removes requests that need not be repeated from both ends of those in flight. Others complete with the ones behind
 * them. */
static void trim(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct cw_verbs_segment **slot;
    unsigned i;

    while (conn->completed != conn->posted && cw_verbs_request_at(conn, conn->completed)->is_over) {
        cw_verbs_conn_complete(conn, conn->completed + 1, UCS_OK);
    }
    while (conn->completed != conn->posted && cw_verbs_request_at(conn, conn->posted - 1)->is_over) {
        slot = &conn->slots[--conn->posted & (iface->settings.sends - 1)];
        if (*slot != NULL) {
            cw_verbs_segment_put(iface, *slot);
            *slot = NULL;
        }
        iface->in_flight--;
    }
    for (i = 0; i < conn->num_flushes; i++) {
        if ((int32_t)(conn->flushes[i].until - conn->posted) > 0) {
            conn->flushes[i].until = conn->posted;
        }
    }
    conn->lent = ((int32_t)(conn->lent - conn->posted) > 0) ? conn->posted : conn->lent;
    conn->signalled = conn->posted;
}

static void post_again(struct cw_verbs_conn *conn, uint32_t number)
{
    struct cw_verbs_request *request = cw_verbs_request_at(conn, number);
    struct ibv_sge inlined = {.addr = (uintptr_t)request->bytes, .length = request->length};
    struct ibv_send_wr *bad, wr = {.wr_id = ((uint64_t)conn->serial << 32) | number,
                                   .opcode = (enum ibv_wr_opcode)request->opcode,
                                   .num_sge = request->num_sge,
                                   .send_flags = request->flags,
                                   .imm_data = request->word,
                                   .sg_list = (request->flags & IBV_SEND_INLINE) ? &inlined : request->sges};
    int error;

    if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        wr.wr.atomic.remote_addr = request->address;
        wr.wr.atomic.rkey = request->key;
        wr.wr.atomic.compare_add = request->atomic.compare_add;
        wr.wr.atomic.swap = request->atomic.swap;
    } else {
        wr.wr.rdma.remote_addr = request->address;
        wr.wr.rdma.rkey = request->key;
    }
    if (number + 1 == conn->posted) {
        wr.send_flags |= IBV_SEND_SIGNALED;
    }
    error = ibv_post_send(conn->qp, &wr, &bad);
    if (error != 0) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, strerror(error));
    }
}

/* READY is the first request of the new queue pair, so its number is the one before those in flight. */
static void say_ready(struct cw_verbs_conn *conn)
{
    conn->lent -= conn->lent == conn->completed;
    conn->completed--;
    cw_verbs_iface_of(&conn->super)->in_flight++;
    *cw_verbs_request_at(conn, conn->completed) = (struct cw_verbs_request){
        .opcode = IBV_WR_SEND_WITH_IMM, .word = htobe32(CW_VERBS_READY), .before = conn->peer_handled};
    post_again(conn, conn->completed);
}

void cw_verbs_renewed(struct cw_verbs_conn *conn, bool says_ready)
{
    const uint32_t first = (conn->completed == conn->posted)
                               ? conn->packets
                               : cw_verbs_request_at(conn, conn->completed)->before;
    const uint32_t count = conn->peer_handled - first;
    uint32_t number;

    if (conn->is_renewing && (count > conn->packets - first || (conn->is_refused && count > 0))) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, "the peer reported an impossible number of packets");
        return;
    }
    if (conn->is_renewing) {
        for (number = conn->completed; number != conn->posted; number++) {
            judge(conn, number);
        }
        trim(conn);
        if (conn->ops != NULL || conn->num_flushes > 0) {
            cw_verbs_conn_due(conn);
        }
    }
    conn->unsent = 0;
    conn->is_renewing = 0;
    conn->is_refused = 0;
    number = conn->completed;
    if (says_ready && number == conn->posted) {
        cw_verbs_conn_say(conn, CW_VERBS_READY);
        return;
    }
    if (says_ready) {
        say_ready(conn);
    }
    for (; number != conn->posted && conn->state != CW_VERBS_FAILING && conn->state != CW_VERBS_OVER; number++) {
        if (!cw_verbs_request_at(conn, number)->is_over) {
            post_again(conn, number);
        }
    }
}
