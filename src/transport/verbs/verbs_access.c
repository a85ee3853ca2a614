/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses: RDMA writes, reads and atomic operations, and packets that the device reads from registered memory. An
 * access with a completion is one signaled request. RC keeps accesses in order with packets; only reads and atomic
 * operations may be overtaken by later requests, unless these are fenced.
 */
#include "transport/verbs/verbs_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/probe.h"

static unsigned verbs_peer_domain(const struct cw_conn *super)
{
    return cw_container_of(super, const struct cw_verbs_conn, super)->peer.domain;
}

static struct cw_verbs_op *op_get(struct cw_verbs_iface *iface)
{
    struct cw_verbs_op *op = iface->spare_ops;

    if (op == NULL) {
        return malloc(sizeof(*op));
    }
    iface->spare_ops = op->next;
    return op;
}

static void op_put(struct cw_verbs_iface *iface, struct cw_verbs_op *op)
{
    op->next = iface->spare_ops;
    iface->spare_ops = op;
}

/* Posts a request to the target's memory. `tracked`: it has a completion, or fetched bytes to deliver. */
static ucs_status_t post(struct cw_verbs_conn *conn, struct ibv_send_wr *wr, struct cw_verbs_segment *segment,
                         const struct cw_verbs_op *what, unsigned flags)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    const int tracked = what->completion != NULL || what->unpack != NULL || what->result != NULL;
    struct cw_verbs_op *op = tracked ? op_get(iface) : NULL;

    if (tracked && op == NULL) {
        if (segment != NULL) {
            cw_verbs_segment_put(iface, segment);
        }
        return cw_verbs_again(iface, conn);
    }
    if (tracked) {
        *op = *what;
        op->number = conn->posted;
    }
    wr->send_flags |= (flags & CW_ACCESS_AFTER_FETCHES) ? IBV_SEND_FENCE : 0;
    if (!cw_verbs_conn_post(conn, wr, segment, tracked)) {
        if (tracked) {
            op_put(iface, op);
        }
        return conn->status;
    }
    if (tracked) {
        op->next = NULL;
        *conn->ops_end = op;
        conn->ops_end = &op->next;
    }
    return UCS_INPROGRESS;
}

/* As post, for a request that uses memory of the core. */
static ucs_status_t post_lent(struct cw_verbs_conn *conn, struct ibv_send_wr *wr, struct cw_verbs_segment *segment,
                              const struct cw_verbs_op *what, unsigned flags)
{
    const ucs_status_t status = post(conn, wr, segment, what, flags);

    if (status == UCS_INPROGRESS) {
        conn->lent = conn->posted;
    }
    return status;
}

static void aim(struct ibv_send_wr *wr, const struct cw_access_target *to)
{
    wr->wr.rdma.remote_addr = to->address;
    wr->wr.rdma.rkey = (uint32_t)to->key.word[0];
}

static ucs_status_t verbs_put_short(struct cw_conn *super, const void *data, size_t length,
                                    const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    const struct cw_verbs_op op = {.completion = completion};
    struct ibv_sge sge = {.addr = (uintptr_t)data, .length = (uint32_t)length};
    struct ibv_send_wr wr = {
               .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = length > 0, .send_flags = IBV_SEND_INLINE};
    struct cw_verbs_segment *segment = NULL;
    ucs_status_t status = cw_verbs_can_send(iface, conn);

    if (status == UCS_OK && length > conn->max_inline) {
        status = cw_verbs_segment_for(iface, conn, &segment);
        if (status == UCS_OK) {
            cw_bytes_copy_any(segment->data, data, length);
            sge.addr = (uintptr_t)segment->data;
            sge.lkey = segment->lkey;
            wr.send_flags = 0;
        }
    } else if (status == UCS_OK) {
        sge.addr = (uintptr_t)cw_verbs_next_bytes(conn);
        cw_bytes_copy_short((char *)(uintptr_t)sge.addr, data, length); /* NOLINT */
    }
    if (status != UCS_OK) {
        return status;
    }
    aim(&wr, to);
    return post(conn, &wr, segment, &op, flags);
}

static ucs_status_t verbs_put_bcopy(struct cw_conn *super, size_t max, cw_pack_fn pack, void *arg,
                                    const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    const struct cw_verbs_op op = {.completion = completion};
    struct cw_verbs_segment *segment = NULL;
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .num_sge = 1};
    ucs_status_t status = cw_verbs_can_send(iface, conn);
    struct ibv_sge sge;

    status = (status == UCS_OK) ? cw_verbs_segment_for(iface, conn, &segment) : status;
    if (status != UCS_OK) {
        return status;
    }
    sge = (struct ibv_sge){.addr = (uintptr_t)segment->data, .lkey = segment->lkey};
    sge.length = (uint32_t)pack(segment->data, max, arg);
    wr.sg_list = &sge;
    wr.send_flags = (sge.length <= conn->max_inline) ? IBV_SEND_INLINE : 0;
    aim(&wr, to);
    return post(conn, &wr, segment, &op, flags);
}

static ucs_status_t send_zcopy(struct cw_conn *super, enum ibv_wr_opcode opcode, const struct cw_access_iov *iov,
                               unsigned count, const struct cw_access_target *to, unsigned flags,
                               struct cw_completion *completion)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    const struct cw_verbs_op op = {.completion = completion};
    struct ibv_sge sges[CW_VERBS_MAX_IOV];
    struct ibv_send_wr wr = {.opcode = opcode, .sg_list = sges};
    ucs_status_t status = cw_verbs_can_send(cw_verbs_iface_of(super), conn);
    unsigned i;

    assert(count <= CW_VERBS_MAX_IOV);
    for (i = 0; i < count && status == UCS_OK; i++) {
        if (iov[i].length > 0) {
            sges[wr.num_sge++] = (struct ibv_sge){.addr = (uintptr_t)iov[i].address,
                                                .length = (uint32_t)iov[i].length,
                                                .lkey = cw_verbs_local_key(iov[i].memh)};
        }
    }
    aim(&wr, to);
    return (status == UCS_OK) ? post_lent(conn, &wr, NULL, &op, flags) : status;
}

/* The header needs memory of the transport, because a request is either inline or not. */
ucs_status_t cw_verbs_send_registered(struct cw_conn *super, uint8_t id, const void *header, size_t header_length,
                                      const struct cw_access_iov *payload, struct cw_completion *completion)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    const struct cw_verbs_op op = {.completion = completion, .is_packet = 1};
    struct cw_verbs_segment *segment = NULL;
    struct ibv_sge sges[2];
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(id), .sg_list = sges, .num_sge = 2};
    ucs_status_t status = cw_verbs_can_send(iface, conn);

    assert(header_length > 0 && header_length + payload->length <= iface->settings.segment);
    status = (status == UCS_OK) ? cw_verbs_segment_for(iface, conn, &segment) : status;
    if (status == UCS_OK) {
        cw_bytes_copy_any(segment->data, header, header_length);
        sges[0] = (struct ibv_sge){
            .addr = (uintptr_t)segment->data, .length = (uint32_t)header_length, .lkey = segment->lkey};
        sges[1] = (struct ibv_sge){.addr = (uintptr_t)payload->address,
                                 .length = (uint32_t)payload->length,
                                 .lkey = cw_verbs_local_key(payload->memh)};
        status = post_lent(conn, &wr, segment, &op, 0);
        status = (status == UCS_INPROGRESS && completion == NULL) ? UCS_OK : status;
    }
    CW_PROBE(send_zcopy, CW_VERBS_WIRE_ID, header_length + payload->length, (int)status);
    return status;
}

static ucs_status_t verbs_put_zcopy(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                                    const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    return send_zcopy(conn, IBV_WR_RDMA_WRITE, iov, iov_count, to, flags, completion);
}

static ucs_status_t verbs_get_zcopy(struct cw_conn *conn, const struct cw_access_iov *iov, unsigned iov_count,
                                    const struct cw_access_target *from, unsigned flags,
                                    struct cw_completion *completion)
{
    return send_zcopy(conn, IBV_WR_RDMA_READ, iov, iov_count, from, flags, completion);
}

static ucs_status_t verbs_get_bcopy(struct cw_conn *super, size_t length, cw_unpack_fn unpack, void *arg,
                                    const struct cw_access_target *from, unsigned flags,
                                    struct cw_completion *completion)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    struct cw_verbs_op op = {.completion = completion, .unpack = unpack, .arg = arg, .length = length};
    struct cw_verbs_segment *segment = NULL;
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .num_sge = 1};
    ucs_status_t status = cw_verbs_can_send(iface, conn);
    struct ibv_sge sge;

    status = (status == UCS_OK) ? cw_verbs_segment_for(iface, conn, &segment) : status;
    if (status != UCS_OK) {
        return status;
    }
    sge = (struct ibv_sge){.addr = (uintptr_t)segment->data, .length = (uint32_t)length, .lkey = segment->lkey};
    wr.sg_list = &sge;
    op.segment = segment;
    aim(&wr, from);
    return post(conn, &wr, segment, &op, flags);
}

static ucs_status_t verbs_atomic(struct cw_conn *super, enum cw_access_op what, uint64_t operand, uint64_t compare,
                                 uint64_t *result, const struct cw_access_target *to, unsigned flags,
                                 struct cw_completion *completion)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    struct cw_verbs_op op = {.completion = completion, .result = result};
    struct cw_verbs_segment *segment = NULL;
    struct ibv_send_wr wr = {.num_sge = 1};
    ucs_status_t status = cw_verbs_can_send(iface, conn);
    struct ibv_sge sge;

    status = (status == UCS_OK) ? cw_verbs_segment_for(iface, conn, &segment) : status;
    if (status != UCS_OK) {
        return status;
    }
    sge = (struct ibv_sge){.addr = (uintptr_t)segment->data, .length = sizeof(uint64_t), .lkey = segment->lkey};
    wr.sg_list = &sge;
    op.segment = segment;
    wr.opcode = (what == CW_ACCESS_ADD) ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.remote_addr = to->address;
    wr.wr.atomic.rkey = (uint32_t)to->key.word[0];
    wr.wr.atomic.compare_add = (what == CW_ACCESS_ADD) ? operand : compare;
    wr.wr.atomic.swap = operand;
    return post(conn, &wr, segment, &op, flags);
}

void cw_verbs_ops_fetched(struct cw_verbs_conn *conn, uint32_t until, ucs_status_t status)
{
    struct cw_verbs_op *op;

    for (op = conn->ops; op != NULL && (op->is_over || (int32_t)(until - op->number) > 0); op = op->next) {
        if (op->is_over) { /* its number may be in use again */
            continue;
        }
        op->is_over = 1;
        op->status = status;
        if (status == UCS_OK && op->result != NULL) {
            memcpy(op->result, op->segment->data, sizeof(*op->result));
        }
        if (status == UCS_OK && op->unpack != NULL) { /* the segment is retained until unpack has run */
            conn->slots[op->number % cw_verbs_iface_of(&conn->super)->settings.sends] = NULL;
        } else {
            op->segment = NULL;
        }
    }
}

/* A failure not caused by the access itself is that of the connection, if it has failed. */
static ucs_status_t status_of(const struct cw_verbs_conn *conn, const struct cw_verbs_op *op)
{
    const int is_own = op->status == UCS_OK || conn->status == UCS_OK ||
                       (op->status == UCS_ERR_INVALID_ADDR && !op->is_packet);

    return is_own ? op->status : conn->status;
}

unsigned cw_verbs_ops_settle(struct cw_verbs_conn *conn, int all)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    struct cw_verbs_op *op, done;
    unsigned count = 0;

    while ((op = conn->ops) != NULL && (op->is_over || all)) {
        conn->ops = op->next;
        if (conn->ops == NULL) {
            conn->ops_end = &conn->ops;
        }
        done = *op;
        op_put(iface, op);
        if (done.is_over && done.segment != NULL && done.unpack != NULL) {
            if (!all) {
                done.unpack(done.segment->data, done.length, done.arg);
            }
            cw_verbs_segment_put(iface, done.segment);
        }
        if (done.completion != NULL) {
            done.completion->done(done.completion, all ? UCS_ERR_CANCELED : status_of(conn, &done));
        }
        count++;
    }
    return count;
}

void cw_verbs_access_limits(struct cw_verbs_iface *iface)
{
    struct cw_access_limits *limits = &iface->super.limits.access;
    const unsigned atomics = iface->port.has_atomics ? (1u << CW_ACCESS_ADD) | (1u << CW_ACCESS_CSWAP) : 0;

    *limits = (struct cw_access_limits){.max_put_short = iface->settings.inlined,
                                        .max_put_bcopy = iface->settings.segment,
                                        .max_put_zcopy = iface->port.max_put,
                                        .max_get_bcopy = iface->settings.segment,
                                        .max_get_zcopy = iface->port.max_message,
                                        .max_iov = iface->port.max_iov,
                                        .posted = atomics & (1u << CW_ACCESS_ADD),
                                        .fetching = atomics,
                                        .in_order = 1};
    iface->super.limits.max_registered = iface->settings.segment;
}

const struct cw_transport_access cw_verbs_access = {
    .domain = &cw_verbs_domain_kind,
    .peer_domain = verbs_peer_domain,
    .put_short = verbs_put_short,
    .put_bcopy = verbs_put_bcopy,
    .put_zcopy = verbs_put_zcopy,
    .get_bcopy = verbs_get_bcopy,
    .get_zcopy = verbs_get_zcopy,
    .atomic = verbs_atomic,
    .flush = cw_verbs_flush_accesses,
};
