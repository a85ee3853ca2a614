/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic operations on remote memory. The old calls are in compat.c.
 */
#include "api/call.h"
#include "rma/amo_word.h"
#include "rma/rma.h"

/* Returns 4 or 8, 0 for anything else: programs probe shorter words, and can do without them. */
static unsigned operand_size(const ucp_request_param_t *param)
{
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
        if (param->datatype == ucp_dt_make_contig(sizeof(uint64_t))) {
            return sizeof(uint64_t);
        }
        if (param->datatype == ucp_dt_make_contig(sizeof(uint32_t))) {
            return sizeof(uint32_t);
        }
    }
    return 0;
}

/* Logs why check() rejects the form of a call. */
static ucs_status_t explain(ucp_atomic_op_t opcode, const void *buffer, size_t count, uint64_t address, unsigned size,
                            const ucp_request_param_t *param)
{
    if (size == 0) {
        cw_error("an atomic operation needs a datatype of 4 or 8 bytes: ucp_dt_make_contig(4) or (8)");
    } else if ((unsigned)opcode >= UCP_ATOMIC_OP_LAST) {
        cw_error("unknown atomic operation %d", (int)opcode);
    } else if (count != 1) {
        cw_error("an atomic operation has a count of 1, not %zu", count);
    } else if (address % size != 0) {
        cw_error("the remote address 0x%llx of an atomic operation is not aligned to %u bytes",
                 (unsigned long long)address, size);
    } else if (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) {
        cw_error("an atomic operation takes no memory handle (UCP_OP_ATTR_FIELD_MEMH)");
    } else if (buffer == NULL) {
        cw_error("the operand of an atomic operation is NULL");
    } else {
        cw_error("an atomic swap or compare-and-swap needs a reply buffer, and no reply buffer may be NULL");
    }
    return UCS_ERR_INVALID_PARAM;
}

static ucs_status_t check_key(uint64_t address, unsigned size, const struct ucp_rkey *rkey)
{
    const unsigned both = CW_KEY_READ | CW_KEY_WRITE;

    if (cw_unlikely(!cw_rkey_holds(rkey, address, size))) {
        cw_error("atomic operation at 0x%llx is outside the memory of its key", (unsigned long long)address);
        return UCS_ERR_INVALID_ADDR;
    }
    if (cw_unlikely((rkey->key.rights & both) != both)) {
        cw_error("atomic operations need memory that was mapped with remote read and write access");
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

static ucs_status_t check(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count, uint64_t address,
                          unsigned size, const struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    const int has_reply = (param->op_attr_mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER) != 0;
    const int swaps = opcode == UCP_ATOMIC_OP_SWAP || opcode == UCP_ATOMIC_OP_CSWAP;
    ucs_status_t status;

    if (cw_unlikely(size == 0 || (unsigned)opcode >= UCP_ATOMIC_OP_LAST || count != 1 || (address & (size - 1)) != 0 ||
                    (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) || buffer == NULL || (swaps && !has_reply) ||
                    (has_reply && param->reply_buffer == NULL))) {
        return explain(opcode, buffer, count, address, size, param);
    }
    if (cw_unlikely(!cw_worker_has(ep->worker, (size == sizeof(uint32_t)) ? UCP_FEATURE_AMO32 : UCP_FEATURE_AMO64))) {
        return cw_call_feature_missing("ucp_atomic_op_nbx",
                                       (size == sizeof(uint32_t)) ? "UCP_FEATURE_AMO32" : "UCP_FEATURE_AMO64");
    }
    if (cw_unlikely(((param->op_attr_mask | ep->worker->checked_attr) &
                     (UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FIELD_MEMORY_TYPE | CW_CALL_REMOTE)) ||
                    !cw_call_is_host(ep->worker, buffer) ||
                    (has_reply && !cw_call_is_host(ep->worker, param->reply_buffer)))) {
        status = cw_call_check_attributes(ep->worker, param);
        status = (status == UCS_OK) ? cw_call_check_operand(ep->worker, param, buffer, size) : status;
        status = (status == UCS_OK && has_reply) ? cw_call_check_operand(ep->worker, param, param->reply_buffer, size) :
                 status;
        if (status != UCS_OK) {
            return status;
        }
    }
    return check_key(address, size, rkey);
}

/* The worker is entered. noinline: keeps spills out of the fast path. */
static CW_NOINLINE ucs_status_ptr_t start(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                          uint64_t address, ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    const unsigned size = operand_size(param);
    ucs_status_t status;
    void *reply;

    status = check(ep, opcode, buffer, count, address, size, rkey, param);
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    reply = (param->op_attr_mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER) ? param->reply_buffer : NULL;
    return cw_unlikely(ep->state == CW_EP_FAILED) ? UCS_STATUS_PTR(ep->status) :
           cw_amo(ep, (enum cw_wire_amo_op)opcode, buffer, reply, size, address, rkey, param);
}

/* Whether an operation on `size` bytes can be executed inside the call by the CPU, entering the worker only if it has a
 * lock. `fast_features`: features eligible for the fast path; `needed`: attributes that must be set. In a region
 * shorter than 8 bytes an operation on 4 takes the slow path. */
static CW_INLINE bool is_fast(ucp_ep_h ep, uint64_t fast_features, const void *buffer, size_t count, uint64_t address,
                              const struct ucp_rkey *rkey, const ucp_request_param_t *param, uint32_t needed,
                              unsigned size)
{
    const uint32_t closer = CW_CALL_CHECKED | UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    const uint64_t feature = (size == sizeof(uint64_t)) ? UCP_FEATURE_AMO64 : UCP_FEATURE_AMO32;

    return cw_likely((param->op_attr_mask & (needed | closer)) == needed &&
                     param->datatype == ucp_dt_make_contig(size) && count == 1 && buffer != NULL &&
                     (fast_features & feature) && cw_call_is_host(ep->worker, buffer) &&
                     (!(needed & UCP_OP_ATTR_FIELD_REPLY_BUFFER) ||
                      cw_call_is_host(ep->worker, param->reply_buffer)) && (address & (size - 1)) == 0 &&
                     address - rkey->key.address < rkey->words &&
                     cw_rma_is_direct(ep, rkey, address, size, 1));
}

static CW_INLINE uint64_t *word_at(const struct ucp_rkey *rkey, uint64_t address)
{
    return (uint64_t *)(void *)cw_rkey_pointer(rkey, address);
}

/* Whether the parameters have the other attributes that the fast path requires. */
static CW_INLINE bool is_complete(ucp_atomic_op_t opcode, const ucp_request_param_t *param)
{
    const int swaps = opcode == UCP_ATOMIC_OP_SWAP || opcode == UCP_ATOMIC_OP_CSWAP;

    return (unsigned)opcode < UCP_ATOMIC_OP_LAST &&
           ((param->op_attr_mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER) ? param->reply_buffer != NULL : !swaps);
}

/* Fast path: executes an operation on `size` bytes, 4 or 8; 0: not eligible. Numbers are little endian. */
static CW_INLINE int apply(ucp_ep_h ep, uint64_t fast_features, ucp_atomic_op_t opcode, const void *buffer,
                           size_t count, uint64_t address, ucp_rkey_h rkey, const ucp_request_param_t *param,
                           unsigned size)
{
    const uint32_t has_reply = param->op_attr_mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    const enum cw_wire_amo_op op = (enum cw_wire_amo_op)opcode;
    uint64_t operand = 0, swap = 0;

    if (!is_fast(ep, fast_features, buffer, count, address, rkey, param, UCP_OP_ATTR_FIELD_DATATYPE | has_reply,
                 size) ||
        !is_complete(opcode, param)) {
        return 0;
    }
    memcpy(&operand, buffer, size);
    if (opcode == UCP_ATOMIC_OP_CSWAP) {
        memcpy(&swap, param->reply_buffer, size);
    }
    operand = (size == sizeof(uint64_t)) ? cw_amo_apply64(word_at(rkey, address), op, operand, swap) :
              cw_amo_apply32((uint32_t *)(void *)cw_rkey_pointer(rkey, address), op, (uint32_t)operand, (uint32_t)swap);
    if (has_reply) {
        memcpy(param->reply_buffer, &operand, size);
    }
    cw_count_message(ep->worker, CW_COUNT_AMO_SENT, size);
    return 1;
}

/* For workers with a lock: takes the lock, and executes an eligible operation here; any other as without a lock. */
static CW_NOINLINE ucs_status_ptr_t start_shared(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                                 uint64_t address, ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    const uint64_t fast_features = worker->fast_features_locked;
    ucs_status_ptr_t result = NULL;

    cw_lock_enter_inline(&worker->lock);
    if (!apply(ep, fast_features, opcode, buffer, count, address, rkey, param, sizeof(uint64_t)) &&
        !apply(ep, fast_features, opcode, buffer, count, address, rkey, param, sizeof(uint32_t))) {
        result = start(ep, opcode, buffer, count, address, rkey, param);
    }
    cw_lock_leave_inline(&worker->lock);
    return result;
}

/* An operation that is not eligible with 8 bytes; it may be with 4. */
static CW_NOINLINE ucs_status_ptr_t narrow(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                           uint64_t address, ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    if (apply(ep, ep->worker->fast_features, opcode, buffer, count, address, rkey, param, sizeof(uint32_t))) {
        return NULL;
    }
    return cw_unlikely(ep->worker->mt) ? start_shared(ep, opcode, buffer, count, address, rkey, param) :
                                         start(ep, opcode, buffer, count, address, rkey, param);
}

/* The posting form. */
static CW_NOINLINE ucs_status_ptr_t post(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                         uint64_t address, ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    uint64_t operand;

    if (is_fast(ep, ep->worker->fast_features, buffer, count, address, rkey, param, UCP_OP_ATTR_FIELD_DATATYPE,
                sizeof(operand)) &&
        opcode == UCP_ATOMIC_OP_ADD) {
        memcpy(&operand, buffer, sizeof(operand));
        (void)cw_amo_apply64(word_at(rkey, address), CW_WIRE_AMO_ADD, operand, 0);
        cw_count_message(ep->worker, CW_COUNT_AMO_SENT, sizeof(operand));
        return NULL;
    }
    return narrow(ep, opcode, buffer, count, address, rkey, param);
}

ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                   uint64_t remote_addr, ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    const uint32_t needed = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    uint64_t operand, swap;

    CW_PROBE(atomic, ep, opcode, remote_addr);
    if (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER)) {
        return post(ep, opcode, buffer, count, remote_addr, rkey, param);
    }
    if (is_fast(ep, ep->worker->fast_features, buffer, count, remote_addr, rkey, param, needed, sizeof(operand)) &&
        (unsigned)opcode < UCP_ATOMIC_OP_LAST && param->reply_buffer != NULL) {
        memcpy(&operand, buffer, sizeof(operand));
        memcpy(&swap, param->reply_buffer, sizeof(swap)); /* of a compare-and-swap */
        operand = (opcode == UCP_ATOMIC_OP_ADD) ? /* the most frequent one, without a jump table */
                  cw_amo_apply64(word_at(rkey, remote_addr), CW_WIRE_AMO_ADD, operand, swap) :
                  cw_amo_apply64(word_at(rkey, remote_addr), (enum cw_wire_amo_op)opcode, operand, swap);
        memcpy(param->reply_buffer, &operand, sizeof(operand));
        cw_count_message(ep->worker, CW_COUNT_AMO_SENT, sizeof(operand));
        return NULL;
    }
    return narrow(ep, opcode, buffer, count, remote_addr, rkey, param);
}
