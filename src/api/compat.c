/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The deprecated generations, each call expressed in the current one by public functions, as a program would;
 * cw_ep_worker is the only internal function used. Not here, because they need more than that: ucp_request_test,
 * ucp_request_release, ucp_ep_modify_nb and ucp_worker_set_am_handler.
 *
 * Invariants: an old callback is passed as the user data of a current one, whose trampoline drops the argument that the
 * old form lacks; `_nb` receives set NO_IMM_CMPL and so never return NULL; `_nbr` calls pass the user's request memory
 * and have no callback. A blocking call progresses the worker until its own request is complete: callbacks run inside
 * it, and no callback may call it. Results are written on success only. ucp_atomic_op_nbx captures its operand before
 * it returns, so operands may be on the stack here.
 */
#include <ucp/api/ucp.h>

#include "api/call.h"
#include "base/log.h"

static void send_trampoline(void *request, ucs_status_t status, void *user_data)
{
    ucp_send_callback_t cb = (ucp_send_callback_t)(uintptr_t)user_data;

    cb(request, status);
}

static void tag_recv_trampoline(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    ucp_tag_recv_callback_t cb = (ucp_tag_recv_callback_t)(uintptr_t)user_data;
    ucp_tag_recv_info_t copy = *info; /* the old callback may write to it */

    cb(request, status, &copy);
}

static void stream_recv_trampoline(void *request, ucs_status_t status, size_t length, void *user_data)
{
    ucp_stream_recv_callback_t cb = (ucp_stream_recv_callback_t)(uintptr_t)user_data;

    cb(request, status, length);
}

/* Without an old callback the constructors below set no callback, so that NULL is never called. */

static ucp_request_param_t send_param(ucp_datatype_t datatype, ucp_send_callback_t cb)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = datatype};

    if (cb != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.send = send_trampoline;
        param.user_data = (void *)(uintptr_t)cb;
    }
    return param;
}

static ucp_request_param_t tag_recv_param(ucp_datatype_t datatype, ucp_tag_recv_callback_t cb)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .datatype = datatype,
    };

    if (cb != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.recv = tag_recv_trampoline;
        param.user_data = (void *)(uintptr_t)cb;
    }
    return param;
}

/* Blocks until the operation completes; frees the request. */
static ucs_status_t wait_for(ucp_worker_h worker, ucs_status_ptr_t request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_RAW_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
    return status;
}

/* The operation continues without a request; a later flush covers it. */
static ucs_status_t let_go(ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (status == UCS_INPROGRESS) {
        ucp_request_free(request);
    }
    return status;
}

/* ---- tags ---- */

ucs_status_ptr_t ucp_tag_send_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
                                 ucp_send_callback_t cb)
{
    ucp_request_param_t param = send_param(datatype, cb);

    return ucp_tag_send_nbx(ep, buffer, count, tag, &param);
}

ucs_status_ptr_t ucp_tag_send_sync_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype,
                                      ucp_tag_t tag, ucp_send_callback_t cb)
{
    ucp_request_param_t param = send_param(datatype, cb);

    return ucp_tag_send_sync_nbx(ep, buffer, count, tag, &param);
}

ucs_status_t ucp_tag_send_nbr(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
                              void *req)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_FAST_CMPL,
        .request = req,
        .datatype = datatype,
    };
    ucs_status_ptr_t sent = ucp_tag_send_nbx(ep, buffer, count, tag, &param);

    return UCS_PTR_STATUS(sent);
}

ucs_status_ptr_t ucp_tag_recv_nb(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype,
                                 ucp_tag_t tag, ucp_tag_t tag_mask, ucp_tag_recv_callback_t cb)
{
    ucp_request_param_t param = tag_recv_param(datatype, cb);

    return ucp_tag_recv_nbx(worker, buffer, count, tag, tag_mask, &param);
}

ucs_status_t ucp_tag_recv_nbr(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
                              ucp_tag_t tag_mask, void *req)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .request = req,
        .datatype = datatype,
    };
    ucs_status_ptr_t posted = ucp_tag_recv_nbx(worker, buffer, count, tag, tag_mask, &param);

    /* complete or not, the result is read from the request */
    return UCS_PTR_IS_ERR(posted) ? UCS_PTR_RAW_STATUS(posted) : UCS_OK;
}

ucs_status_ptr_t ucp_tag_msg_recv_nb(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype,
                                     ucp_tag_message_h message, ucp_tag_recv_callback_t cb)
{
    ucp_request_param_t param = tag_recv_param(datatype, cb);

    return ucp_tag_msg_recv_nbx(worker, buffer, count, message, &param);
}

/* ---- active messages and streams ---- */

ucs_status_ptr_t ucp_am_send_nb(ucp_ep_h ep, uint16_t id, const void *buffer, size_t count, ucp_datatype_t datatype,
                                ucp_send_callback_t cb, unsigned int flags)
{
    ucp_request_param_t param = send_param(datatype, cb);

    /* no header, and never by rendezvous, which an old handler could not receive */
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = (flags & UCP_AM_SEND_FLAG_REPLY) | UCP_AM_SEND_FLAG_EAGER;
    return ucp_am_send_nbx(ep, id, NULL, 0, buffer, count, &param);
}

ucs_status_ptr_t ucp_stream_send_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype,
                                    ucp_send_callback_t cb, unsigned int flags)
{
    ucp_request_param_t param = send_param(datatype, cb);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    return ucp_stream_send_nbx(ep, buffer, count, &param);
}

ucs_status_ptr_t ucp_stream_recv_nb(ucp_ep_h ep, void *buffer, size_t count, ucp_datatype_t datatype,
                                    ucp_stream_recv_callback_t cb, size_t *length, unsigned int flags)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS,
        .datatype = datatype,
        .flags = flags,
    };

    if (cb != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.recv_stream = stream_recv_trampoline;
        param.user_data = (void *)(uintptr_t)cb;
    }
    return ucp_stream_recv_nbx(ep, buffer, count, length, &param);
}

/* ---- flush and close; the flags of both flushes are reserved and ignored ---- */

ucs_status_ptr_t ucp_ep_flush_nb(ucp_ep_h ep, unsigned int flags CW_UNUSED, ucp_send_callback_t cb)
{
    ucp_request_param_t param = send_param(ucp_dt_make_contig(1), cb);

    return ucp_ep_flush_nbx(ep, &param);
}

ucs_status_ptr_t ucp_worker_flush_nb(ucp_worker_h worker, unsigned int flags CW_UNUSED, ucp_send_callback_t cb)
{
    ucp_request_param_t param = send_param(ucp_dt_make_contig(1), cb);

    return ucp_worker_flush_nbx(worker, &param);
}

ucs_status_ptr_t ucp_ep_close_nb(ucp_ep_h ep, unsigned int mode)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = (mode == UCP_EP_CLOSE_MODE_FORCE) ? UCP_EP_CLOSE_FLAG_FORCE : 0,
    };

    return ucp_ep_close_nbx(ep, &param);
}

ucs_status_ptr_t ucp_disconnect_nb(ucp_ep_h ep)
{
    return ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);
}

ucs_status_t ucp_worker_flush(ucp_worker_h worker)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    return wait_for(worker, ucp_worker_flush_nbx(worker, &param));
}

ucs_status_t ucp_ep_flush(ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", UCS_ERR_INVALID_PARAM);
    return wait_for(cw_ep_worker(ep), ucp_ep_flush_nbx(ep, &param));
}

void ucp_ep_destroy(ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t closing;
    ucp_worker_h worker;
    ucs_status_t status;

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", );
    worker = cw_ep_worker(ep); /* the handle is invalid once close returns */
    closing = ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(closing) && worker->progress_depth > 0) {
        ucp_request_free(closing); /* a callback cannot wait: the close completes later */
        return;
    }
    status = wait_for(worker, closing);
    if (status != UCS_OK) {
        cw_diag("endpoint %p was destroyed before all its data was delivered: %s", (void *)ep,
                ucs_status_string(status));
    }
}

/* ---- requests and addresses ---- */

int ucp_request_is_completed(void *request)
{
    return ucp_request_check_status(request) != UCS_INPROGRESS;
}

ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **address_p, size_t *address_length_p)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucs_status_t status = ucp_worker_query(worker, &attr);

    if (status == UCS_OK) {
        *address_p = attr.address;
        *address_length_p = attr.address_length;
    }
    return status;
}

/* ---- keys ---- */

ucs_status_t ucp_rkey_pack(ucp_context_h context CW_UNUSED, ucp_mem_h memh, void **rkey_buffer_p, size_t *size_p)
{
    const ucp_memh_pack_params_t params = {.field_mask = 0};

    return ucp_memh_pack(memh, &params, rkey_buffer_p, size_p);
}

void ucp_rkey_buffer_release(void *rkey_buffer)
{
    const ucp_memh_buffer_release_params_t params = {.field_mask = 0};

    ucp_memh_buffer_release(rkey_buffer, &params);
}

/* ---- put and get ---- */

ucs_status_t ucp_put(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return wait_for(cw_ep_worker(ep), ucp_put_nb(ep, buffer, length, remote_addr, rkey, NULL));
}

ucs_status_t ucp_get(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return wait_for(cw_ep_worker(ep), ucp_get_nb(ep, buffer, length, remote_addr, rkey, NULL));
}

ucs_status_t ucp_put_nbi(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return let_go(ucp_put_nb(ep, buffer, length, remote_addr, rkey, NULL));
}

ucs_status_t ucp_get_nbi(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return let_go(ucp_get_nb(ep, buffer, length, remote_addr, rkey, NULL));
}

ucs_status_ptr_t ucp_put_nb(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey,
                            ucp_send_callback_t cb)
{
    ucp_request_param_t param = send_param(ucp_dt_make_contig(1), cb);

    return ucp_put_nbx(ep, buffer, length, remote_addr, rkey, &param);
}

ucs_status_ptr_t ucp_get_nb(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey,
                            ucp_send_callback_t cb)
{
    ucp_request_param_t param = send_param(ucp_dt_make_contig(1), cb);

    return ucp_get_nbx(ep, buffer, length, remote_addr, rkey, &param);
}

/* ---- atomics ---- */

/* An operand in host byte order; the operation itself rejects sizes other than 4 and 8. */
union operand {
    uint32_t u32;
    uint64_t u64;
};

static union operand operand_of(uint64_t value, size_t size)
{
    union operand operand = {.u64 = value};

    if (size == sizeof(uint32_t)) {
        operand.u32 = (uint32_t)value;
    }
    return operand;
}

ucs_status_t ucp_atomic_post(ucp_ep_h ep, ucp_atomic_post_op_t opcode, uint64_t value, size_t op_size,
                             uint64_t remote_addr, ucp_rkey_h rkey)
{
    static const ucp_atomic_op_t ops[UCP_ATOMIC_POST_OP_LAST] = {
        [UCP_ATOMIC_POST_OP_ADD] = UCP_ATOMIC_OP_ADD,
        [UCP_ATOMIC_POST_OP_AND] = UCP_ATOMIC_OP_AND,
        [UCP_ATOMIC_POST_OP_OR] = UCP_ATOMIC_OP_OR,
        [UCP_ATOMIC_POST_OP_XOR] = UCP_ATOMIC_OP_XOR,
    };
    union operand operand = operand_of(value, op_size);
    ucp_request_param_t param; /* as in fetch() */
    ucs_status_t status;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(op_size);
    if ((unsigned)opcode >= UCP_ATOMIC_POST_OP_LAST) {
        return UCS_ERR_INVALID_PARAM;
    }
    status = let_go(ucp_atomic_op_nbx(ep, ops[opcode], &operand, 1, remote_addr, rkey, &param));
    /* the operand is captured: that is local completion, and programs treat anything but OK as an error */
    return (status == UCS_INPROGRESS) ? UCS_OK : status;
}

ucs_status_ptr_t ucp_atomic_fetch_nb(ucp_ep_h ep, ucp_atomic_fetch_op_t opcode, uint64_t value, void *result,
                                     size_t op_size, uint64_t remote_addr, ucp_rkey_h rkey, ucp_send_callback_t cb)
{
    static const ucp_atomic_op_t ops[UCP_ATOMIC_FETCH_OP_LAST] = {
        [UCP_ATOMIC_FETCH_OP_FADD] = UCP_ATOMIC_OP_ADD,
        [UCP_ATOMIC_FETCH_OP_SWAP] = UCP_ATOMIC_OP_SWAP,
        [UCP_ATOMIC_FETCH_OP_CSWAP] = UCP_ATOMIC_OP_CSWAP,
        [UCP_ATOMIC_FETCH_OP_FAND] = UCP_ATOMIC_OP_AND,
        [UCP_ATOMIC_FETCH_OP_FOR] = UCP_ATOMIC_OP_OR,
        [UCP_ATOMIC_FETCH_OP_FXOR] = UCP_ATOMIC_OP_XOR,
    };
    ucp_request_param_t param = send_param(ucp_dt_make_contig(op_size), cb);
    union operand operand = operand_of(value, op_size);

    if ((unsigned)opcode >= UCP_ATOMIC_FETCH_OP_LAST) {
        return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
    }
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.reply_buffer = result;
    return ucp_atomic_op_nbx(ep, ops[opcode], &operand, 1, remote_addr, rkey, &param);
}

/* Blocking fetches; `*reply` holds the value that a compare-and-swap stores and receives the old value. */
static CW_INLINE ucs_status_t fetch(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *operand, void *reply, size_t size,
                                    uint64_t remote_addr, ucp_rkey_h rkey)
{
    ucs_status_ptr_t request;
    ucp_request_param_t param; /* only the members that the mask names are read; clearing the rest would be slow */

    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype = ucp_dt_make_contig(size);
    param.reply_buffer = reply;
    request = ucp_atomic_op_nbx(ep, opcode, operand, 1, remote_addr, rkey, &param);
    return cw_likely(request == NULL) ? UCS_OK : wait_for(cw_ep_worker(ep), request);
}

static ucs_status_t fetch32(ucp_ep_h ep, ucp_atomic_op_t opcode, uint32_t value, uint32_t swap, uint64_t remote_addr,
                            ucp_rkey_h rkey, uint32_t *result)
{
    uint32_t reply = swap;
    ucs_status_t status = fetch(ep, opcode, &value, &reply, sizeof(reply), remote_addr, rkey);

    if (status == UCS_OK) {
        *result = reply;
    }
    return status;
}

static ucs_status_t fetch64(ucp_ep_h ep, ucp_atomic_op_t opcode, uint64_t value, uint64_t swap, uint64_t remote_addr,
                            ucp_rkey_h rkey, uint64_t *result)
{
    uint64_t reply = swap;
    ucs_status_t status = fetch(ep, opcode, &value, &reply, sizeof(reply), remote_addr, rkey);

    if (status == UCS_OK) {
        *result = reply;
    }
    return status;
}

ucs_status_t ucp_atomic_add32(ucp_ep_h ep, uint32_t add, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return ucp_atomic_post(ep, UCP_ATOMIC_POST_OP_ADD, add, sizeof(add), remote_addr, rkey);
}

ucs_status_t ucp_atomic_add64(ucp_ep_h ep, uint64_t add, uint64_t remote_addr, ucp_rkey_h rkey)
{
    return ucp_atomic_post(ep, UCP_ATOMIC_POST_OP_ADD, add, sizeof(add), remote_addr, rkey);
}

ucs_status_t ucp_atomic_fadd32(ucp_ep_h ep, uint32_t add, uint64_t remote_addr, ucp_rkey_h rkey, uint32_t *result)
{
    return fetch32(ep, UCP_ATOMIC_OP_ADD, add, 0, remote_addr, rkey, result);
}

ucs_status_t ucp_atomic_fadd64(ucp_ep_h ep, uint64_t add, uint64_t remote_addr, ucp_rkey_h rkey, uint64_t *result)
{
    return fetch64(ep, UCP_ATOMIC_OP_ADD, add, 0, remote_addr, rkey, result);
}

ucs_status_t ucp_atomic_swap32(ucp_ep_h ep, uint32_t swap, uint64_t remote_addr, ucp_rkey_h rkey, uint32_t *result)
{
    return fetch32(ep, UCP_ATOMIC_OP_SWAP, swap, 0, remote_addr, rkey, result);
}

ucs_status_t ucp_atomic_swap64(ucp_ep_h ep, uint64_t swap, uint64_t remote_addr, ucp_rkey_h rkey, uint64_t *result)
{
    return fetch64(ep, UCP_ATOMIC_OP_SWAP, swap, 0, remote_addr, rkey, result);
}

ucs_status_t ucp_atomic_cswap32(ucp_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr, ucp_rkey_h rkey,
                                uint32_t *result)
{
    return fetch32(ep, UCP_ATOMIC_OP_CSWAP, compare, swap, remote_addr, rkey, result);
}

ucs_status_t ucp_atomic_cswap64(ucp_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr, ucp_rkey_h rkey,
                                uint64_t *result)
{
    return fetch64(ep, UCP_ATOMIC_OP_CSWAP, compare, swap, remote_addr, rkey, result);
}
