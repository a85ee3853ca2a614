/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The older generations of the interface. New programs use the calls of ucp.h; these are kept, complete, for those
 * written against them, and each is defined by the current call that it names. Include ucp.h, which includes this.
 *
 * A comment that names a current call and no parameters means: parameters and statuses are those of that call, and the
 * differences are the rules below.
 *
 * Rules of the generations:
 *   _nb   datatype and callback are arguments; the callback has no user data. Returns NULL, a request or an error
 *         pointer as the current call does, but a tag receive never returns NULL: its callback may have run before the
 *         return.
 *   _nbr  the request is memory of the caller, `req` pointing behind ucp_context_attr_t::request_size bytes; no
 *         callback; completion by ucp_request_check_status() or ucp_request_test(). Never free or release it.
 *   _nbi  no request; completion by a later flush.
 *   none  blocks: progresses the worker until complete, so callbacks run inside; not allowed in callbacks.
 */
#ifndef UCP_COMPAT_H
#define UCP_COMPAT_H

#include <ucp/api/ucp_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/* ---- listeners, requests, endpoints ---- */

/** Handler that gets endpoints, already made, from a listener. Use ucp_listener_conn_handler_t instead. */
typedef struct ucp_listener_accept_handler {
    ucp_listener_accept_callback_t cb;  /**< Called from progress of the listener's worker. */
    void                          *arg; /**< Its last argument. */
} ucp_listener_accept_handler_t;

/** Operations of ucp_atomic_post(). */
typedef enum {
    UCP_ATOMIC_POST_OP_ADD, /**< *p += value */
    UCP_ATOMIC_POST_OP_AND, /**< *p &= value */
    UCP_ATOMIC_POST_OP_OR,  /**< *p |= value */
    UCP_ATOMIC_POST_OP_XOR, /**< *p ^= value */
    UCP_ATOMIC_POST_OP_LAST /**< Number of operations. */
} ucp_atomic_post_op_t;

/** Operations of ucp_atomic_fetch_nb(); all deliver the old value. */
typedef enum {
    UCP_ATOMIC_FETCH_OP_FADD,  /**< *p += value */
    UCP_ATOMIC_FETCH_OP_SWAP,  /**< *p = value */
    UCP_ATOMIC_FETCH_OP_CSWAP, /**< if (*p == value) *p = *result */
    UCP_ATOMIC_FETCH_OP_FAND,  /**< *p &= value */
    UCP_ATOMIC_FETCH_OP_FOR,   /**< *p |= value */
    UCP_ATOMIC_FETCH_OP_FXOR,  /**< *p ^= value */
    UCP_ATOMIC_FETCH_OP_LAST   /**< Number of operations. */
} ucp_atomic_fetch_op_t;

/** How ucp_ep_close_nb() closes. */
enum ucp_ep_close_mode {
    UCP_EP_CLOSE_MODE_FORCE = 0, /**< Drop what is not sent; PEER mode only. */
    UCP_EP_CLOSE_MODE_FLUSH = 1  /**< Deliver first. */
};

/**
 * Not in use: returns NULL.
 *
 * @param worker  The worker.
 * @return NULL.
 * @thread Any, at any time.
 */
void *ucp_request_alloc(ucp_worker_h worker);

/**
 * Ask whether a request is complete.
 *
 * @param request  A request that is not freed yet.
 * @return 0 while ucp_request_check_status() says UCS_INPROGRESS, else 1.
 * @thread One that may use the worker of the request.
 */
int ucp_request_is_completed(void *request);

/**
 * Give a request back as ucp_request_free() does, except that the callback of one that is not complete is still called.
 *
 *
 * @param request  The request; not used afterwards.
 * @thread One that may use the worker of the request.
 */
void ucp_request_release(void *request);

/**
 * Status of a request.
 *
 * @param request  From any call.
 * @param info     Filled when a tag receive is complete; not used for other requests, may then be NULL.
 * @return UCS_INPROGRESS, or the final status.
 * @thread One that may use the worker of the request.
 */
ucs_status_t ucp_request_test(void *request, ucp_tag_recv_info_t *info);

/**
 * Close @a ep in flush mode and wait for it. Errors are only logged.
 *
 * @param ep  The endpoint; not used afterwards.
 * @thread One that may use the worker of @a ep.
 */
void ucp_ep_destroy(ucp_ep_h ep);

/**
 * ucp_ep_close_nbx() in flush mode, without callback.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_disconnect_nb(ucp_ep_h ep);

/**
 * ucp_ep_close_nbx() in @a mode (enum ucp_ep_close_mode), without callback.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_ep_close_nb(ucp_ep_h ep, unsigned mode);

/**
 * Change the error handler or the user data of an endpoint. The error handler of a reply_ep is called when the
 * peer ends the connection, in any error handling mode: the handle must not be used afterwards.
 *
 * @param ep      The endpoint.
 * @param params  Fields ERR_HANDLER and USER_DATA. Any of REMOTE_ADDRESS, SOCK_ADDR, ERR_HANDLING_MODE is refused.
 * @return NULL, or the error pointer UCS_ERR_INVALID_PARAM.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_ep_modify_nb(ucp_ep_h ep, const ucp_ep_params_t *params);

/**
 * Address of a worker, as by ucp_worker_query().
 *
 * @param worker            The worker.
 * @param address_p         Receives a fresh copy, to be given to ucp_worker_release_address().
 * @param address_length_p  Receives its bytes.
 * @return UCS_OK or UCS_ERR_NO_MEMORY; outputs are written on success only.
 * @thread One that may use @a worker.
 *
 * @code
 * ucp_address_t *address;
 * size_t length;
 *
 * if (ucp_worker_get_address(worker, &address, &length) != UCS_OK) {
 *     return 1;
 * }
 * fwrite(address, 1, length, stdout);
 * ucp_worker_release_address(worker, address);
 * @endcode
 */
ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **address_p, size_t *address_length_p);

/* ---- flush; `flags` are reserved and ignored ---- */

/**
 * ucp_ep_flush_nbx() and wait.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_ep_flush(ucp_ep_h ep);

/**
 * ucp_worker_flush_nbx() and wait.
 *
 * @thread One that may use @a worker, outside callbacks.
 */
ucs_status_t ucp_worker_flush(ucp_worker_h worker);

/**
 * ucp_ep_flush_nbx().
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_ep_flush_nb(ucp_ep_h ep, unsigned flags, ucp_send_callback_t cb);

/**
 * ucp_worker_flush_nbx().
 *
 * @thread One that may use @a worker.
 */
ucs_status_ptr_t ucp_worker_flush_nb(ucp_worker_h worker, unsigned flags, ucp_send_callback_t cb);

/* ---- tags ---- */

/**
 * ucp_tag_send_nbx().
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_tag_send_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
                                 ucp_send_callback_t cb);

/**
 * ucp_tag_send_sync_nbx().
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_tag_send_sync_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype,
                                      ucp_tag_t tag, ucp_send_callback_t cb);

/**
 * ucp_tag_send_nbx() in memory of the caller; early local completion is preferred.
 *
 * @return UCS_OK: done, @a req was not used. UCS_INPROGRESS: ask @a req. Else the error.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_t ucp_tag_send_nbr(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
                              void *req);

/**
 * ucp_tag_recv_nbx(), but never returns NULL.
 *
 * @thread One that may use @a worker.
 */
ucs_status_ptr_t ucp_tag_recv_nb(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype,
                                 ucp_tag_t tag, ucp_tag_t tag_mask, ucp_tag_recv_callback_t cb);

/**
 * ucp_tag_recv_nbx() in memory of the caller.
 *
 * @return UCS_OK: posted, perhaps complete already; ask @a req in every case. Else the error.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_tag_recv_nbr(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
                              ucp_tag_t tag_mask, void *req);

/**
 * ucp_tag_msg_recv_nbx(), but never returns NULL.
 *
 * @thread One that may use @a worker.
 */
ucs_status_ptr_t ucp_tag_msg_recv_nb(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype,
                                     ucp_tag_message_h message, ucp_tag_recv_callback_t cb);

/* ---- active messages ---- */

/**
 * ucp_worker_set_am_recv_handler() with a callback of the old form. Both forms share the identifiers; the last call
 * wins.
 *
 * @param worker  The worker.
 * @param id      Identifier of the messages.
 * @param cb      Called for each; NULL removes the handler.
 * @param arg     First argument of @a cb.
 * @param flags   enum ucp_am_cb_flags; other bits are refused.
 * @return UCS_OK, UCS_ERR_INVALID_PARAM or UCS_ERR_NO_MEMORY.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_worker_set_am_handler(ucp_worker_h worker, uint16_t id, ucp_am_callback_t cb, void *arg,
                                       uint32_t flags);

/**
 * ucp_am_send_nbx() without a header, always eager; of @a flags only UCP_AM_SEND_FLAG_REPLY counts.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_am_send_nb(ucp_ep_h ep, uint16_t id, const void *buffer, size_t count, ucp_datatype_t datatype,
                                ucp_send_callback_t cb, unsigned flags);

/* ---- streams ---- */

/**
 * ucp_stream_send_nbx().
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_stream_send_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype,
                                    ucp_send_callback_t cb, unsigned flags);

/**
 * ucp_stream_recv_nbx(); may return NULL, with *length set. @a flags: ucp_stream_recv_flags_t.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_stream_recv_nb(ucp_ep_h ep, void *buffer, size_t count, ucp_datatype_t datatype,
                                    ucp_stream_recv_callback_t cb, size_t *length, unsigned flags);

/* ---- remote keys ---- */

/**
 * Pack the right to reach registered memory.
 *
 * @param context        The context of @a memh.
 * @param memh           The memory.
 * @param rkey_buffer_p  Receives the bytes to carry to a peer; free them by ucp_rkey_buffer_release().
 * @param size_p         Receives their number.
 * @return UCS_OK or UCS_ERR_NO_MEMORY; outputs are written on success only.
 * @thread One that may use @a context.
 *
 * @code
 * void *bytes;
 * size_t size;
 *
 * if (ucp_rkey_pack(context, memh, &bytes, &size) != UCS_OK) {
 *     return 1;
 * }
 * wait_for(ucp_tag_send_nbx(ep, bytes, size, 1,
 *                           &(ucp_request_param_t){.op_attr_mask = 0}));
 * ucp_rkey_buffer_release(bytes);
 * @endcode
 */
ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh, void **rkey_buffer_p, size_t *size_p);

/**
 * Free the bytes that ucp_rkey_pack() delivered.
 *
 * @param rkey_buffer  The bytes; not used afterwards.
 * @thread Any, at any time.
 */
void ucp_rkey_buffer_release(void *rkey_buffer);

/* ---- put and get ---- */

/**
 * ucp_put_nbx() of @a length bytes, and wait until @a buffer may be reused.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_put(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * ucp_get_nbx() of @a length bytes, and wait for the data.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_get(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * ucp_put_nbx() without a request. UCS_OK: @a buffer may be reused; UCS_INPROGRESS: after a flush.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_t ucp_put_nbi(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * ucp_put_nbx().
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_put_nb(ucp_ep_h ep, const void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey,
                            ucp_send_callback_t cb);

/**
 * ucp_get_nbx() without a request. UCS_OK: the data is there; UCS_INPROGRESS: after a flush.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_t ucp_get_nbi(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * ucp_get_nbx().
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_get_nb(ucp_ep_h ep, void *buffer, size_t length, uint64_t remote_addr, ucp_rkey_h rkey,
                            ucp_send_callback_t cb);

/* ---- atomics; all are forms of ucp_atomic_op_nbx() ---- */

/**
 * Change a remote word; nothing comes back.
 *
 * @param ep           Endpoint to the owner of the memory.
 * @param opcode       What to do.
 * @param value        Operand.
 * @param op_size      Width of the word in bytes: 4 or 8.
 * @param remote_addr  The word, naturally aligned.
 * @param rkey         Key of the memory.
 * @return UCS_OK, never UCS_INPROGRESS: complete at the owner after a flush. UCS_ERR_INVALID_PARAM.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_t ucp_atomic_post(ucp_ep_h ep, ucp_atomic_post_op_t opcode, uint64_t value, size_t op_size,
                             uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * Change a remote word and get its old value.
 *
 * @param ep           Endpoint to the owner of the memory.
 * @param opcode       What to do.
 * @param value        Operand; for CSWAP the value to compare with.
 * @param result       Receives the old value; for CSWAP holds on entry the value to store. In use until completion.
 * @param op_size      Width of the word in bytes: 4 or 8.
 * @param remote_addr  The word, naturally aligned.
 * @param rkey         Key of the memory.
 * @param cb           Called at completion if a request is returned.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_atomic_fetch_nb(ucp_ep_h ep, ucp_atomic_fetch_op_t opcode, uint64_t value, void *result,
                                     size_t op_size, uint64_t remote_addr, ucp_rkey_h rkey, ucp_send_callback_t cb);

/* The calls below wait. The add calls return when the operand is on its way (as ucp_atomic_post()), the others when the
 * old value is in *result, which is written on success only. */

/**
 * 32 bits: *p += add.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_add32(ucp_ep_h ep, uint32_t add, uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * 64 bits: *p += add.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_add64(ucp_ep_h ep, uint64_t add, uint64_t remote_addr, ucp_rkey_h rkey);

/**
 * 32 bits: *p += add, old value to *result.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_fadd32(ucp_ep_h ep, uint32_t add, uint64_t remote_addr, ucp_rkey_h rkey, uint32_t *result);

/**
 * 64 bits: *p += add, old value to *result.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_fadd64(ucp_ep_h ep, uint64_t add, uint64_t remote_addr, ucp_rkey_h rkey, uint64_t *result);

/**
 * 32 bits: *p = swap, old value to *result.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_swap32(ucp_ep_h ep, uint32_t swap, uint64_t remote_addr, ucp_rkey_h rkey, uint32_t *result);

/**
 * 64 bits: *p = swap, old value to *result.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_swap64(ucp_ep_h ep, uint64_t swap, uint64_t remote_addr, ucp_rkey_h rkey, uint64_t *result);

/**
 * 32 bits: if (*p == compare) *p = swap, old value to *result.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_cswap32(ucp_ep_h ep, uint32_t compare, uint32_t swap, uint64_t remote_addr, ucp_rkey_h rkey,
                                uint32_t *result);

/**
 * 64 bits: if (*p == compare) *p = swap, old value to *result.
 *
 * @thread One that may use the worker of @a ep, outside callbacks.
 */
ucs_status_t ucp_atomic_cswap64(ucp_ep_h ep, uint64_t compare, uint64_t swap, uint64_t remote_addr, ucp_rkey_h rkey,
                                uint64_t *result);

#pragma GCC visibility pop
END_C_DECLS

#endif
