/* SPDX-License-Identifier: BSD-3-Clause */
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

#define UCP_ENTITY_NAME_MAX 32

struct ucp_context;

struct ucp_config;

struct ucp_ep;

struct ucp_conn_request;

struct ucp_address;

struct ucp_rkey;

struct ucp_mem;

struct ucp_listener;

struct ucp_worker;

struct ucp_recv_desc;

typedef enum {
    UCP_ERR_HANDLING_MODE_NONE = 0,
    UCP_ERR_HANDLING_MODE_PEER = 1
} ucp_err_handling_mode_t;

enum ucp_mem_attr_field {
    UCP_MEM_ATTR_FIELD_ADDRESS = 1,
    UCP_MEM_ATTR_FIELD_LENGTH = 2,
    UCP_MEM_ATTR_FIELD_MEM_TYPE = 4
};

enum ucp_wakeup_event_types {
    UCP_WAKEUP_RMA = 1,
    UCP_WAKEUP_AMO = 2,
    UCP_WAKEUP_TAG_SEND = 4,
    UCP_WAKEUP_TAG_RECV = 8,
    UCP_WAKEUP_TX = 1024,
    UCP_WAKEUP_RX = 2048,
    UCP_WAKEUP_EDGE = 65536
};

typedef struct ucp_tag_recv_info ucp_tag_recv_info_t;

typedef struct ucp_am_recv_param ucp_am_recv_param_t;

typedef struct ucp_context *ucp_context_h;

typedef struct ucp_config ucp_config_t;

typedef struct ucp_ep *ucp_ep_h;

typedef struct ucp_conn_request *ucp_conn_request_h;

typedef struct ucp_address ucp_address_t;

typedef struct ucp_rkey *ucp_rkey_h;

typedef struct ucp_mem *ucp_mem_h;

typedef struct ucp_listener *ucp_listener_h;

typedef struct ucp_mem_attr ucp_mem_attr_t;

typedef struct ucp_worker *ucp_worker_h;

typedef uint64_t ucp_tag_t;

typedef struct ucp_recv_desc *ucp_tag_message_h;

typedef uint64_t ucp_datatype_t;

typedef void (*ucp_request_init_callback_t)(void *);

typedef void (*ucp_request_cleanup_callback_t)(void *);

typedef void (*ucp_send_callback_t)(void *, ucs_status_t);

typedef void (*ucp_send_nbx_callback_t)(void *, ucs_status_t, void *);

typedef void (*ucp_err_handler_cb_t)(void *, ucp_ep_h, ucs_status_t);

typedef struct ucp_err_handler ucp_err_handler_t;

typedef void (*ucp_listener_accept_callback_t)(ucp_ep_h, void *);

typedef void (*ucp_listener_conn_callback_t)(ucp_conn_request_h, void *);

typedef struct ucp_listener_conn_handler ucp_listener_conn_handler_t;

typedef void (*ucp_stream_recv_callback_t)(void *, ucs_status_t, size_t);

typedef void (*ucp_stream_recv_nbx_callback_t)(void *, ucs_status_t, size_t, void *);

typedef void (*ucp_tag_recv_callback_t)(void *, ucs_status_t, ucp_tag_recv_info_t *);

typedef void (*ucp_tag_recv_nbx_callback_t)(void *, ucs_status_t, const ucp_tag_recv_info_t *, void *);

typedef void (*ucp_am_recv_data_nbx_callback_t)(void *, ucs_status_t, size_t, void *);

typedef enum ucp_wakeup_event_types ucp_wakeup_event_t;

typedef ucs_status_t (*ucp_am_callback_t)(void *, void *, size_t, ucp_ep_h, unsigned int);

typedef ucs_status_t (*ucp_am_recv_callback_t)(void *, const void *, size_t, void *, size_t, const ucp_am_recv_param_t *);

typedef struct ucp_ep_params ucp_ep_params_t;

struct ucp_mem_attr {
    uint64_t field_mask;
    void *address;
    size_t length;
    ucs_memory_type_t mem_type;
};

struct ucp_err_handler {
    ucp_err_handler_cb_t cb;
    void *arg;
};

struct ucp_listener_conn_handler {
    ucp_listener_conn_callback_t cb;
    void *arg;
};

struct ucp_ep_params {
    uint64_t field_mask;
    const ucp_address_t *address;
    ucp_err_handling_mode_t err_mode;
    ucp_err_handler_t err_handler;
    void *user_data;
    unsigned int flags;
    ucs_sock_addr_t sockaddr;
    ucp_conn_request_h conn_request;
    const char *name;
    ucs_sock_addr_t local_sockaddr;
};

typedef struct {
    const char *transport_name;
    const char *device_name;
} ucp_transport_entry_t;

typedef struct {
    ucp_transport_entry_t *entries;
    unsigned int num_entries;
    size_t entry_size;
} ucp_transports_t;

END_C_DECLS

#endif
