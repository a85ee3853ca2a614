/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles, callbacks and structures that both ucp.h and ucp_compat.h use. Include ucp.h, which explains the common
 * rules. Callers: the other public headers.
 */
#ifndef UCP_DEF_H
#define UCP_DEF_H

#include <ucs/config/types.h>
#include <ucs/memory/memory_type.h>
#include <ucs/sys/compiler_def.h>
#include <ucs/type/status.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

BEGIN_C_DECLS

/** Size of the `name` member of attribute structures, the closing NUL included; longer names are cut. */
#define UCP_ENTITY_NAME_MAX 32

/* ---- handles: all opaque; NULL is never a valid one ---- */

/** An instance of the library: configuration, features, transports. Made by ucp_init(). */
typedef struct ucp_context *ucp_context_h;

/** Settings as read from environment and files. Made by ucp_config_read(). */
typedef struct ucp_config ucp_config_t;

/** A place where progress is made and messages arrive. Made by ucp_worker_create(). */
typedef struct ucp_worker *ucp_worker_h;

/** The address of a worker: bytes to be carried to a peer by any means. */
typedef struct ucp_address ucp_address_t;

/** A connection from a worker to a peer. Made by ucp_ep_create(). */
typedef struct ucp_ep *ucp_ep_h;

/** A client that asks for a connection; to be turned into an endpoint or rejected, once. */
typedef struct ucp_conn_request *ucp_conn_request_h;

/** A socket address on which connection requests are awaited. Made by ucp_listener_create(). */
typedef struct ucp_listener *ucp_listener_h;

/** Registered memory. Made by ucp_mem_map(). */
typedef struct ucp_mem *ucp_mem_h;

/** The right to reach a peer's registered memory. Made by ucp_ep_rkey_unpack(). */
typedef struct ucp_rkey *ucp_rkey_h;

/** Memory of this process that a device is to send from. Made by ucp_device_local_mem_list_create(). */
typedef struct ucp_device_local_mem_list *ucp_device_local_mem_list_h;

/** Memory of peers that a device is to reach. Made by ucp_device_remote_mem_list_create(). */
typedef struct ucp_device_remote_mem_list *ucp_device_remote_mem_list_h;

/** The remote address of a call whose remote side is described by ucp_request_param_t::remote. */
#define UCP_REMOTE_ADDR_INVALID UINT64_MAX

/** The key of such a call. */
#define UCP_RKEY_INVALID NULL

/** A message that a probe took out of the queue; to be received exactly once. */
typedef struct ucp_recv_desc *ucp_tag_message_h;

/** The tag of a message; all 64 bits belong to the program. */
typedef uint64_t ucp_tag_t;

/** Layout of a buffer: ucp_dt_make_contig(), ucp_dt_make_iov() or ucp_dt_create_generic(). */
typedef uint64_t ucp_datatype_t;

/* Described in ucp.h. */
typedef struct ucp_tag_recv_info ucp_tag_recv_info_t;
typedef struct ucp_am_recv_param ucp_am_recv_param_t;

/* ---- errors and wake-up ---- */

/** Behaviour of an endpoint when its peer fails. */
typedef enum {
    UCP_ERR_HANDLING_MODE_NONE, /**< Nothing: operations may then never complete. */
    UCP_ERR_HANDLING_MODE_PEER, /**< Every operation completes in bounded time, and the error handler is called. */
    /** As PEER, and the failure of one path is hidden while the endpoint has another one. */
    UCP_ERR_HANDLING_MODE_FAILOVER
} ucp_err_handling_mode_t;

/** Valid fields of ucp_mem_attr_t. */
enum ucp_mem_attr_field {
    UCP_MEM_ATTR_FIELD_ADDRESS  = UCS_BIT(0), /**< ucp_mem_attr_t::address */
    UCP_MEM_ATTR_FIELD_LENGTH   = UCS_BIT(1), /**< ucp_mem_attr_t::length */
    UCP_MEM_ATTR_FIELD_MEM_TYPE = UCS_BIT(2)  /**< ucp_mem_attr_t::mem_type */
};

/** Results of ucp_mem_query(). */
typedef struct ucp_mem_attr {
    uint64_t          field_mask; /**< In: which members are asked for. */
    void             *address;    /**< First byte; NULL for a handle of length 0. */
    size_t            length;     /**< Bytes; may be more than was asked for when the library allocated. */
    ucs_memory_type_t mem_type;   /**< Kind of the memory. */
} ucp_mem_attr_t;

/**
 * Events that make a worker's descriptor readable. The mask is a hint: more wake-ups than asked for are always
 * possible, so a program must accept an early one.
 */
typedef enum ucp_wakeup_event_types {
    UCP_WAKEUP_RMA      = UCS_BIT(0),  /**< Remote memory access. */
    UCP_WAKEUP_AMO      = UCS_BIT(1),  /**< Atomics. */
    UCP_WAKEUP_TAG_SEND = UCS_BIT(2),  /**< Tag sends. */
    UCP_WAKEUP_TAG_RECV = UCS_BIT(3),  /**< Tag receives. */
    UCP_WAKEUP_TX       = UCS_BIT(10), /**< Whatever this side sends. */
    UCP_WAKEUP_RX       = UCS_BIT(11), /**< Whatever arrives. */
    UCP_WAKEUP_EDGE     = UCS_BIT(16)  /**< The program's event_fd signals each event once. */
} ucp_wakeup_event_t;

/* ---- callbacks ----
 *
 * They run in ucp_worker_progress(), or inside the call that starts, cancels or tears down the operation, on the
 * calling thread. They may make any non-blocking call; never ucp_worker_progress(), a blocking call or
 * ucp_worker_destroy(). The callbacks without `user_data` belong to the deprecated calls of ucp_compat.h. */

/** Prepares a request: runs once for each request object when its memory is made, not at each use. */
typedef void (*ucp_request_init_callback_t)(void *request);

/** Runs once for each prepared request object when its memory goes, in ucp_worker_destroy(). */
typedef void (*ucp_request_cleanup_callback_t)(void *request);

/** A send, put, get, atomic, flush or close is complete: final @a status. */
typedef void (*ucp_send_callback_t)(void *request, ucs_status_t status);

/** A send, put, get, atomic, flush or close is complete: final @a status, and ucp_request_param_t::user_data. */
typedef void (*ucp_send_nbx_callback_t)(void *request, ucs_status_t status, void *user_data);

/**
 * An endpoint has failed. Called at most once for each endpoint, from progress only, and not after the program began to
 * close it. The endpoint must still be closed; that may happen here.
 *
 * @param arg     ucp_ep_params_t::user_data if that was given, else ucp_err_handler_t::arg.
 * @param ep      The endpoint.
 * @param status  The reason, which later operations on @a ep return too.
 */
typedef void (*ucp_err_handler_cb_t)(void *arg, ucp_ep_h ep, ucs_status_t status);

/** Handler of an endpoint's failure. */
typedef struct ucp_err_handler {
    ucp_err_handler_cb_t cb;  /**< Called on failure. */
    void                *arg; /**< Its first argument, unless USER_DATA is given. */
} ucp_err_handler_t;

/** A client has been accepted; @a ep is connected to it. Deprecated with ucp_listener_accept_handler_t. */
typedef void (*ucp_listener_accept_callback_t)(ucp_ep_h ep, void *arg);

/**
 * A client asks for a connection. Here or at any later time @a conn_request must go to ucp_ep_create() or
 * ucp_listener_reject(), exactly once.
 */
typedef void (*ucp_listener_conn_callback_t)(ucp_conn_request_h conn_request, void *arg);

/** Handler of clients' requests. */
typedef struct ucp_listener_conn_handler {
    ucp_listener_conn_callback_t cb;  /**< Called from progress of the listener's worker. */
    void                        *arg; /**< Its last argument. */
} ucp_listener_conn_handler_t;

/** A stream receive is complete; @a length is the number of bytes stored. */
typedef void (*ucp_stream_recv_callback_t)(void *request, ucs_status_t status, size_t length);

/** A stream receive is complete; @a length is in bytes, @a user_data is ucp_request_param_t::user_data. */
typedef void (*ucp_stream_recv_nbx_callback_t)(void *request, ucs_status_t status, size_t length, void *user_data);

/** A tag receive is complete; @a info lives until the callback returns. */
typedef void (*ucp_tag_recv_callback_t)(void *request, ucs_status_t status, ucp_tag_recv_info_t *info);

/**
 * A tag receive is complete.
 *
 * @param request    The request.
 * @param status     UCS_OK, UCS_ERR_MESSAGE_TRUNCATED, UCS_ERR_CANCELED or the failure of the sender's connection.
 * @param tag_info   Tag and full length of the message, also when truncated; never NULL, of no meaning when
 *                   cancelled. Lives until the callback returns.
 * @param user_data  ucp_request_param_t::user_data, or NULL.
 */
typedef void (*ucp_tag_recv_nbx_callback_t)(void *request, ucs_status_t status, const ucp_tag_recv_info_t *tag_info,
                                            void *user_data);

/** The data of an active message has been fetched; @a length is that of the payload. */
typedef void (*ucp_am_recv_data_nbx_callback_t)(void *request, ucs_status_t status, size_t length, void *user_data);

/**
 * An active message for an old handler.
 *
 * @param arg       As given with the handler.
 * @param data      The payload; the library's.
 * @param length    Its bytes.
 * @param reply_ep  An endpoint to the sender if it asked for one, else NULL.
 * @param flags     UCP_CB_PARAM_FLAG_DATA if @a data may be kept.
 * @return UCS_OK, or UCS_INPROGRESS to keep @a data until ucp_am_data_release().
 */
typedef ucs_status_t (*ucp_am_callback_t)(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags);

/**
 * An active message has arrived.
 *
 * @param arg            ucp_am_handler_param_t::arg.
 * @param header         The sender's header; valid in this call only, of any alignment, may be NULL if its length is 0.
 * @param header_length  Its bytes.
 * @param data           The payload, or a descriptor of it when @a param says RNDV.
 * @param length         Bytes of the payload in both cases.
 * @param param          Kind of @a data, and the endpoint to reply to.
 * @return UCS_OK: the library takes @a data back (a descriptor not fetched is dropped). UCS_INPROGRESS, allowed with
 *         the DATA or RNDV flag: @a data stays valid until ucp_am_data_release() or ucp_am_recv_data_nbx(). An error:
 *         the sender of a rendezvous message completes with it.
 */
typedef ucs_status_t (*ucp_am_recv_callback_t)(void *arg, const void *header, size_t header_length, void *data,
                                               size_t length, const ucp_am_recv_param_t *param);

/* ---- endpoint parameters ---- */

/**
 * How to make an endpoint. Fields whose bit in @a field_mask is clear are not read. Exactly one of three means to name
 * the peer is used, looked for in this order: a socket address with flag CLIENT_SERVER, a connection request, a worker
 * address. Everything pointed at may be freed after the call.
 */
typedef struct ucp_ep_params {
    uint64_t                field_mask;     /**< Which of the members are set: enum ucp_ep_params_field. */
    const ucp_address_t    *address;        /**< Address of the peer's worker. */
    ucp_err_handling_mode_t err_mode;       /**< Default: NONE; for a connection request: the client's. */
    ucp_err_handler_t       err_handler;    /**< Default: none is called. */
    void                   *user_data;      /**< Given to the error handler, reported by stream polling. */
    unsigned                flags;          /**< enum ucp_ep_params_flags_field; default 0. */
    ucs_sock_addr_t         sockaddr;       /**< Where the server listens. */
    ucp_conn_request_h      conn_request;   /**< Used up by the call, whether it succeeds or not. */
    const char             *name;           /**< For logs; copied, cut to UCP_ENTITY_NAME_MAX - 1 characters. */
    ucs_sock_addr_t         local_sockaddr; /**< Source address of a client. */
} ucp_ep_params_t;

/* ---- transports of an endpoint ---- */

/** One lane of an endpoint. The strings live until the endpoint is closed. */
typedef struct {
    const char *transport_name; /**< For instance "tcp". */
    const char *device_name;    /**< For instance "eth0"; "" for the lane of the connection manager. */
} ucp_transport_entry_t;

/** The lanes of an endpoint, in memory of the caller. */
typedef struct {
    ucp_transport_entry_t *entries;     /**< In: where to store them. */
    unsigned               num_entries; /**< In: room, in entries. Out: entries stored. */
    size_t                 entry_size;  /**< In: distance of entries: the caller's sizeof(ucp_transport_entry_t). */
} ucp_transports_t;

END_C_DECLS

#endif
