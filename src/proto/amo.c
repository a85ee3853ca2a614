/* SPDX-License-Identifier: BSD-3-Clause */
/* Protocols of atomic operations. */
#include "rma/amo.h"

#include "access/access.h"
#include "proto/proto.h"
#include "rma/amo_word.h"

/*
 * An atomic operation by this CPU on memory that is mapped here. Without a request the call carries it out (cw_amo).
 */
static int mapped_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = CW_COST_MEMORY;
    row->fixed = 1;
    row->name = "this CPU";
    row->why = "the memory is mapped here";
    return (ask->remote & CW_REMOTE_MAPPED) != 0;
}

static ucs_status_t mapped_start(struct cw_request *request)
{
    struct cw_amo *amo = cw_request_state(request);
    char *word = cw_amo_word(amo->rkey, cw_amo_address(amo), amo->packet.size);
    ucs_status_t status = UCS_ERR_UNSUPPORTED; /* no longer registered; the next protocol selection takes that into
                                                  account */

    if (cw_likely(word != NULL)) {
        status = cw_rma_admit(cw_op_ep(request->ep)->rma, cw_amo_address(amo), amo->packet.size, 1);
    }
    if (status == UCS_OK) {
        cw_amo_carry_out(amo, word);
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_MAPPED, 0, amo->packet.size);
    }
    return status;
}

const struct cw_protocol cw_proto_amo_mapped = {.query = mapped_query, .start = mapped_start, .at_once = 1};

/*
 * An atomic operation that a device of the target carries out, because the key names that device (`executor`). An
 * operation that the device lacks is a loop of read, compute, and compare-and-swap by the device, repeated whenever
 * another initiator has changed the word in between.
 */
static int access_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->fixed = 1;
    row->name = "the target's device";
    row->why = "the key offers its atomics";
    return (ask->remote & CW_REMOTE_ACCESS) != 0;
}

static enum cw_access_op op_of(const struct cw_amo *amo)
{
    static const uint8_t ops[CW_WIRE_AMO_OPS] = {
        [CW_WIRE_AMO_ADD] = CW_ACCESS_ADD, [CW_WIRE_AMO_SWAP] = CW_ACCESS_SWAP, [CW_WIRE_AMO_CSWAP] = CW_ACCESS_CSWAP,
        [CW_WIRE_AMO_AND] = CW_ACCESS_AND, [CW_WIRE_AMO_OR] = CW_ACCESS_OR,     [CW_WIRE_AMO_XOR] = CW_ACCESS_XOR};

    return (enum cw_access_op)ops[amo->packet.op];
}

/* The value of the word after the operation. */
static uint64_t made_of(const struct cw_amo *amo, uint64_t before)
{
    uint64_t word = before;

    (void)cw_amo_apply64(&word, (enum cw_wire_amo_op)amo->packet.op, le64toh(amo->packet.operand),
                         le64toh(amo->packet.swap));
    return word;
}

static ucs_status_t access_go_on(struct cw_request *request);

static void access_ended(struct cw_request *request, ucs_status_t status)
{
    struct cw_amo *amo = cw_request_state(request);
    struct cw_amo_device *device = amo->device;
    struct cw_access *access = device->access;

    cw_list_remove(&request->link);
    if (status == UCS_OK && device->loops && access->result != device->expected) { /* changed by another initiator */
        device->expected = access->result;
        access->all_begun = 0;
        cw_list_add_head(&cw_op_ep(request->ep)->rma->queue, &request->link);
        cw_rma_kick(cw_op_ep(request->ep)->rma);
        return;
    }
    if (status == UCS_OK && amo->reply != NULL) {
        memcpy(amo->reply, &access->result, sizeof(access->result));
    }
    if (status != UCS_OK && amo->reply == NULL && cw_op_ep(request->ep)->rma != NULL) {
        cw_op_ep(request->ep)->rma->error = status; /* the program gets the error from its next flush */
    }
    cw_request_complete(request, status);
}

static ucs_status_t access_go_on(struct cw_request *request)
{
    struct cw_amo *amo = cw_request_state(request);
    struct cw_conn *conn = request->ep->conn;
    const struct cw_access_limits *limits = &conn->iface->limits.access;
    const struct cw_domain *domain = conn->iface->domain;
    struct cw_amo_device *device = amo->device;
    const unsigned bit = 1u << op_of(amo);
    const int fetches = amo->reply != NULL || !(limits->posted & bit);
    struct cw_access *access = device->access;
    struct cw_access_target to = {.address = cw_amo_address(amo)};
    enum cw_access_op op = op_of(amo);
    uint64_t operand = le64toh(amo->packet.operand), compare = 0;
    ucs_status_t status;

    if (domain->kind->read_part(domain, device->part, device->part_length, &device->region, &to.key) != UCS_OK) {
        return UCS_ERR_IO_ERROR;
    }
    if (op == CW_ACCESS_CSWAP) {
        compare = operand;
        operand = le64toh(amo->packet.swap);
    }
    device->loops = ((fetches ? limits->fetching : limits->posted) & bit) == 0;
    if (device->loops) {
        op = CW_ACCESS_CSWAP;
        compare = device->expected;
        operand = made_of(amo, device->expected);
    }
    status = cw_lane_atomic(conn, op, operand, compare, fetches ? &access->result : NULL, &to, 0, &access->completion);
    status = cw_access_taken(access, status);
    return (status == UCS_OK) ? cw_access_begun(access) : status;
}

static ucs_status_t access_start(struct cw_request *request)
{
    struct cw_amo *amo = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status = cw_rma_admit(rma, cw_amo_address(amo), amo->packet.size, 1);

    if (status != UCS_OK) {
        return status;
    }
    amo->device->access = cw_access_new(request, access_ended);
    if (amo->device->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    request->send = access_go_on;
    rma->async_puts++;
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, amo->packet.size);
    return access_go_on(request);
}

const struct cw_protocol cw_proto_amo_access = {.query = access_query, .start = access_start};

/*
 * An atomic operation that the target's CPU carries out on receipt of a packet. A posting one completes when the
 * transport has accepted the packet, a fetching one when AMO_REPLY arrives.
 */
static int packet_query(const struct cw_protocol_ask *ask CW_UNUSED, struct cw_protocol_row *row)
{
    row->name = "packet to the target";
    row->why = "the target's CPU executes it";
    return 1;
}

static ucs_status_t send_fetching(struct cw_request *request)
{
    struct cw_amo *amo = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    ucs_status_t status;
    uint64_t id;

    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_BLOCKED;
    }
    status = cw_idmap_add(&request->worker->ids, request, &id);
    if (status != UCS_OK) {
        return status;
    }
    amo->packet.reply_id = htole64(id);
    status = cw_amo_send(request->ep->conn, amo);
    if (status != UCS_OK) {
        cw_idmap_remove(&request->worker->ids, id);
        amo->packet.reply_id = 0;
        return status;
    }
    rma->replies++;
    return UCS_INPROGRESS;
}

static ucs_status_t packet_start(struct cw_request *request)
{
    const struct cw_amo *amo = cw_request_state(request);
    ucs_status_t status = cw_rma_admit_packets(cw_op_ep(request->ep)->rma, cw_amo_address(amo), amo->packet.size);

    if (status != UCS_OK) {
        return status;
    }
    status = (amo->reply == NULL) ? cw_amo_send_posted(request->ep, amo) : send_fetching(request);
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_COPIED, 0, amo->packet.size);
    }
    return status;
}

const struct cw_protocol cw_proto_amo_packet = {.query = packet_query, .start = packet_start};
