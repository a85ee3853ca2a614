/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef UCP_H
#define UCP_H

#include <ucp/api/ucp_def.h>
#include <ucp/api/ucp_version.h>
#include <ucp/api/ucp_compat.h>
#include <ucs/type/thread_mode.h>
#include <ucs/type/cpu_set.h>
#include <ucs/config/types.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

enum ucp_params_field {
    UCP_PARAM_FIELD_FEATURES = 1,
    UCP_PARAM_FIELD_REQUEST_SIZE = 2,
    UCP_PARAM_FIELD_REQUEST_INIT = 4,
    UCP_PARAM_FIELD_REQUEST_CLEANUP = 8,
    UCP_PARAM_FIELD_TAG_SENDER_MASK = 16,
    UCP_PARAM_FIELD_MT_WORKERS_SHARED = 32,
    UCP_PARAM_FIELD_ESTIMATED_NUM_EPS = 64,
    UCP_PARAM_FIELD_ESTIMATED_NUM_PPN = 128,
    UCP_PARAM_FIELD_NAME = 256
};

enum ucp_feature {
    UCP_FEATURE_TAG = 1,
    UCP_FEATURE_RMA = 2,
    UCP_FEATURE_AMO32 = 4,
    UCP_FEATURE_AMO64 = 8,
    UCP_FEATURE_WAKEUP = 16,
    UCP_FEATURE_STREAM = 32,
    UCP_FEATURE_AM = 64,
    UCP_FEATURE_EXPORTED_MEMH = 128
};

enum ucp_worker_params_field {
    UCP_WORKER_PARAM_FIELD_THREAD_MODE = 1,
    UCP_WORKER_PARAM_FIELD_CPU_MASK = 2,
    UCP_WORKER_PARAM_FIELD_EVENTS = 4,
    UCP_WORKER_PARAM_FIELD_USER_DATA = 8,
    UCP_WORKER_PARAM_FIELD_EVENT_FD = 16,
    UCP_WORKER_PARAM_FIELD_FLAGS = 32,
    UCP_WORKER_PARAM_FIELD_NAME = 64,
    UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT = 128,
    UCP_WORKER_PARAM_FIELD_CLIENT_ID = 256
};

typedef enum {
    UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK = 1
} ucp_worker_flags_t;

enum ucp_listener_params_field {
    UCP_LISTENER_PARAM_FIELD_SOCK_ADDR = 1,
    UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER = 2,
    UCP_LISTENER_PARAM_FIELD_CONN_HANDLER = 4
};

typedef enum {
    UCP_WORKER_ADDRESS_FLAG_NET_ONLY = 1
} ucp_worker_address_flags_t;

enum ucp_ep_params_field {
    UCP_EP_PARAM_FIELD_REMOTE_ADDRESS = 1,
    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = 2,
    UCP_EP_PARAM_FIELD_ERR_HANDLER = 4,
    UCP_EP_PARAM_FIELD_USER_DATA = 8,
    UCP_EP_PARAM_FIELD_SOCK_ADDR = 16,
    UCP_EP_PARAM_FIELD_FLAGS = 32,
    UCP_EP_PARAM_FIELD_CONN_REQUEST = 64,
    UCP_EP_PARAM_FIELD_NAME = 128,
    UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR = 256
};

enum ucp_ep_params_flags_field {
    UCP_EP_PARAMS_FLAGS_CLIENT_SERVER = 1,
    UCP_EP_PARAMS_FLAGS_NO_LOOPBACK = 2,
    UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID = 4
};

typedef enum {
    UCP_EP_CLOSE_FLAG_FORCE = 1
} ucp_ep_close_flags_t;

enum ucp_ep_perf_param_field {
    UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE = 1
};

enum ucp_ep_perf_attr_field {
    UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME = 1
};

enum ucp_mem_map_params_field {
    UCP_MEM_MAP_PARAM_FIELD_ADDRESS = 1,
    UCP_MEM_MAP_PARAM_FIELD_LENGTH = 2,
    UCP_MEM_MAP_PARAM_FIELD_FLAGS = 4,
    UCP_MEM_MAP_PARAM_FIELD_PROT = 8,
    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE = 16,
    UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER = 32
};

enum ucp_mem_advise_params_field {
    UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS = 1,
    UCP_MEM_ADVISE_PARAM_FIELD_LENGTH = 2,
    UCP_MEM_ADVISE_PARAM_FIELD_ADVICE = 4
};

enum ucp_lib_attr_field {
    UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL = 1
};

enum ucp_context_attr_field {
    UCP_ATTR_FIELD_REQUEST_SIZE = 1,
    UCP_ATTR_FIELD_THREAD_MODE = 2,
    UCP_ATTR_FIELD_MEMORY_TYPES = 4,
    UCP_ATTR_FIELD_NAME = 8
};

enum ucp_worker_attr_field {
    UCP_WORKER_ATTR_FIELD_THREAD_MODE = 1,
    UCP_WORKER_ATTR_FIELD_ADDRESS = 2,
    UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS = 4,
    UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER = 8,
    UCP_WORKER_ATTR_FIELD_NAME = 16,
    UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING = 32
};

enum ucp_worker_address_attr_field {
    UCP_WORKER_ADDRESS_ATTR_FIELD_UID = 1
};

enum ucp_listener_attr_field {
    UCP_LISTENER_ATTR_FIELD_SOCKADDR = 1
};

enum ucp_conn_request_attr_field {
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = 1,
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID = 2
};

enum ucp_dt_type {
    UCP_DATATYPE_CONTIG = 0,
    UCP_DATATYPE_STRIDED = 1,
    UCP_DATATYPE_IOV = 2,
    UCP_DATATYPE_GENERIC = 7,
    UCP_DATATYPE_SHIFT = 3,
    UCP_DATATYPE_CLASS_MASK = 7
};

enum ucp_datatype_attr_field {
    UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE = 1,
    UCP_DATATYPE_ATTR_FIELD_BUFFER = 2,
    UCP_DATATYPE_ATTR_FIELD_COUNT = 4
};

enum ucp_am_cb_flags {
    UCP_AM_FLAG_WHOLE_MSG = 1,
    UCP_AM_FLAG_PERSISTENT_DATA = 2
};

enum ucp_send_am_flags {
    UCP_AM_SEND_FLAG_REPLY = 1,
    UCP_AM_SEND_FLAG_EAGER = 2,
    UCP_AM_SEND_FLAG_RNDV = 4,
    UCP_AM_SEND_FLAG_COPY_HEADER = 8,
    UCP_AM_SEND_REPLY = 1
};

enum ucp_cb_param_flags {
    UCP_CB_PARAM_FLAG_DATA = 1
};

typedef enum {
    UCP_ATOMIC_OP_ADD = 0,
    UCP_ATOMIC_OP_SWAP = 1,
    UCP_ATOMIC_OP_CSWAP = 2,
    UCP_ATOMIC_OP_AND = 3,
    UCP_ATOMIC_OP_OR = 4,
    UCP_ATOMIC_OP_XOR = 5,
    UCP_ATOMIC_OP_LAST = 6
} ucp_atomic_op_t;

typedef enum {
    UCP_STREAM_RECV_FLAG_WAITALL = 1
} ucp_stream_recv_flags_t;

typedef enum {
    UCP_OP_ATTR_FIELD_REQUEST = 1,
    UCP_OP_ATTR_FIELD_CALLBACK = 2,
    UCP_OP_ATTR_FIELD_USER_DATA = 4,
    UCP_OP_ATTR_FIELD_DATATYPE = 8,
    UCP_OP_ATTR_FIELD_FLAGS = 16,
    UCP_OP_ATTR_FIELD_REPLY_BUFFER = 32,
    UCP_OP_ATTR_FIELD_MEMORY_TYPE = 64,
    UCP_OP_ATTR_FIELD_RECV_INFO = 128,
    UCP_OP_ATTR_FIELD_MEMH = 256,
    UCP_OP_ATTR_FLAG_NO_IMM_CMPL = 65536,
    UCP_OP_ATTR_FLAG_FAST_CMPL = 131072,
    UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL = 262144,
    UCP_OP_ATTR_FLAG_MULTI_SEND = 524288
} ucp_op_attr_t;

typedef enum {
    UCP_REQUEST_ATTR_FIELD_INFO_STRING = 1,
    UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE = 2,
    UCP_REQUEST_ATTR_FIELD_STATUS = 4,
    UCP_REQUEST_ATTR_FIELD_MEM_TYPE = 8
} ucp_req_attr_field;

typedef enum {
    UCP_AM_RECV_ATTR_FIELD_REPLY_EP = 1,
    UCP_AM_RECV_ATTR_FLAG_DATA = 65536,
    UCP_AM_RECV_ATTR_FLAG_RNDV = 131072
} ucp_am_recv_attr_t;

enum ucp_am_handler_param_field {
    UCP_AM_HANDLER_PARAM_FIELD_ID = 1,
    UCP_AM_HANDLER_PARAM_FIELD_FLAGS = 2,
    UCP_AM_HANDLER_PARAM_FIELD_CB = 4,
    UCP_AM_HANDLER_PARAM_FIELD_ARG = 8
};

enum ucp_mem_advice {
    UCP_MADV_NORMAL = 0,
    UCP_MADV_WILLNEED = 1
};

enum ucp_memh_pack_params_field {
    UCP_MEMH_PACK_PARAM_FIELD_FLAGS = 1
};

enum ucp_memh_pack_flags {
    UCP_MEMH_PACK_FLAG_EXPORT = 1
};

enum ucp_ep_attr_field {
    UCP_EP_ATTR_FIELD_NAME = 1,
    UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR = 2,
    UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR = 4,
    UCP_EP_ATTR_FIELD_TRANSPORTS = 8
};

enum {
    UCP_MEM_MAP_NONBLOCK = 1,
    UCP_MEM_MAP_ALLOCATE = 2,
    UCP_MEM_MAP_FIXED = 4,
    UCP_MEM_MAP_SYMMETRIC_RKEY = 8,
    UCP_MEM_MAP_PROT_LOCAL_READ = 1,
    UCP_MEM_MAP_PROT_LOCAL_WRITE = 2,
    UCP_MEM_MAP_PROT_REMOTE_READ = 256,
    UCP_MEM_MAP_PROT_REMOTE_WRITE = 512
};

#define ucp_dt_make_contig(elem_size) ((ucp_datatype_t)(((ucp_datatype_t)(elem_size) << UCP_DATATYPE_SHIFT) | UCP_DATATYPE_CONTIG))
#define ucp_dt_make_iov() ((ucp_datatype_t)UCP_DATATYPE_IOV)

typedef enum ucp_ep_perf_param_field ucp_ep_perf_param_field_t;

typedef enum ucp_ep_perf_attr_field ucp_ep_perf_attr_field_t;

typedef struct ucp_dt_iov ucp_dt_iov_t;

typedef struct ucp_generic_dt_ops ucp_generic_dt_ops_t;

typedef struct ucp_datatype_attr ucp_datatype_attr_t;

typedef struct ucp_params ucp_params_t;

typedef struct ucp_lib_attr ucp_lib_attr_t;

typedef struct ucp_context_attr ucp_context_attr_t;

typedef struct ucp_worker_attr ucp_worker_attr_t;

typedef struct ucp_rkey_compare_params ucp_rkey_compare_params_t;

typedef struct ucp_worker_params ucp_worker_params_t;

typedef struct ucp_worker_address_attr ucp_worker_address_attr_t;

typedef struct ucp_listener_attr ucp_listener_attr_t;

typedef struct ucp_conn_request_attr ucp_conn_request_attr_t;

typedef struct ucp_listener_params ucp_listener_params_t;

typedef struct ucp_stream_poll_ep ucp_stream_poll_ep_t;

typedef struct ucp_mem_map_params ucp_mem_map_params_t;

typedef struct ucp_am_handler_param ucp_am_handler_param_t;

typedef enum ucp_mem_advice ucp_mem_advice_t;

typedef struct ucp_mem_advise_params ucp_mem_advise_params_t;

typedef struct ucp_memh_pack_params ucp_memh_pack_params_t;

typedef struct ucp_memh_buffer_release_params ucp_memh_buffer_release_params_t;

typedef struct ucp_ep_attr ucp_ep_attr_t;

struct ucp_dt_iov {
    void *buffer;
    size_t length;
};

struct ucp_generic_dt_ops {
    void *(*start_pack)(void *, const void *, size_t);
    void *(*start_unpack)(void *, void *, size_t);
    size_t (*packed_size)(void *);
    size_t (*pack)(void *, size_t, void *, size_t);
    ucs_status_t (*unpack)(void *, size_t, const void *, size_t);
    void (*finish)(void *);
};

struct ucp_datatype_attr {
    uint64_t field_mask;
    size_t packed_size;
    const void *buffer;
    size_t count;
};

struct ucp_params {
    uint64_t field_mask;
    uint64_t features;
    size_t request_size;
    ucp_request_init_callback_t request_init;
    ucp_request_cleanup_callback_t request_cleanup;
    uint64_t tag_sender_mask;
    int mt_workers_shared;
    size_t estimated_num_eps;
    size_t estimated_num_ppn;
    const char *name;
};

struct ucp_lib_attr {
    uint64_t field_mask;
    ucs_thread_mode_t max_thread_level;
};

struct ucp_context_attr {
    uint64_t field_mask;
    size_t request_size;
    ucs_thread_mode_t thread_mode;
    uint64_t memory_types;
    char name[32];
};

struct ucp_worker_attr {
    uint64_t field_mask;
    ucs_thread_mode_t thread_mode;
    uint32_t address_flags;
    ucp_address_t *address;
    size_t address_length;
    size_t max_am_header;
    char name[32];
    size_t max_debug_string;
};

struct ucp_rkey_compare_params {
    uint64_t field_mask;
};

struct ucp_worker_params {
    uint64_t field_mask;
    ucs_thread_mode_t thread_mode;
    ucs_cpu_set_t cpu_mask;
    unsigned int events;
    void *user_data;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t am_alignment;
    uint64_t client_id;
};

struct ucp_worker_address_attr {
    uint64_t field_mask;
    uint64_t worker_uid;
};

typedef struct {
    uint64_t field_mask;
    size_t message_size;
} ucp_ep_evaluate_perf_param_t;

typedef struct {
    uint64_t field_mask;
    double estimated_time;
} ucp_ep_evaluate_perf_attr_t;

struct ucp_listener_attr {
    uint64_t field_mask;
    struct sockaddr_storage sockaddr;
};

struct ucp_conn_request_attr {
    uint64_t field_mask;
    struct sockaddr_storage client_address;
    uint64_t client_id;
};

struct ucp_listener_params {
    uint64_t field_mask;
    ucs_sock_addr_t sockaddr;
    ucp_listener_accept_handler_t accept_handler;
    ucp_listener_conn_handler_t conn_handler;
};

struct ucp_stream_poll_ep {
    ucp_ep_h ep;
    void *user_data;
    unsigned int flags;
    uint8_t reserved[16];
};

struct ucp_mem_map_params {
    uint64_t field_mask;
    void *address;
    size_t length;
    unsigned int flags;
    unsigned int prot;
    ucs_memory_type_t memory_type;
    const void *exported_memh_buffer;
};

struct ucp_tag_recv_info {
    ucp_tag_t sender_tag;
    size_t length;
};

typedef struct {
    uint32_t op_attr_mask;
    uint32_t flags;
    void *request;
    union {
        ucp_send_nbx_callback_t send;
        ucp_tag_recv_nbx_callback_t recv;
        ucp_stream_recv_nbx_callback_t recv_stream;
        ucp_am_recv_data_nbx_callback_t recv_am;
    } cb;
    ucp_datatype_t datatype;
    void *user_data;
    void *reply_buffer;
    ucs_memory_type_t memory_type;
    union {
        size_t *length;
        ucp_tag_recv_info_t *tag_info;
    } recv_info;
    ucp_mem_h memh;
} ucp_request_param_t;

typedef struct {
    uint64_t field_mask;
    char *debug_string;
    size_t debug_string_size;
    ucs_status_t status;
    ucs_memory_type_t mem_type;
} ucp_request_attr_t;

struct ucp_am_handler_param {
    uint64_t field_mask;
    unsigned int id;
    uint32_t flags;
    ucp_am_recv_callback_t cb;
    void *arg;
};

struct ucp_am_recv_param {
    uint64_t recv_attr;
    ucp_ep_h reply_ep;
};

struct ucp_mem_advise_params {
    uint64_t field_mask;
    void *address;
    size_t length;
    ucp_mem_advice_t advice;
};

struct ucp_memh_pack_params {
    uint64_t field_mask;
    uint64_t flags;
};

struct ucp_memh_buffer_release_params {
    uint64_t field_mask;
};

struct ucp_ep_attr {
    uint64_t field_mask;
    char name[32];
    struct sockaddr_storage local_sockaddr;
    struct sockaddr_storage remote_sockaddr;
    ucp_transports_t transports;
};

ucs_status_t ucp_lib_query(ucp_lib_attr_t *attr);

ucs_status_t ucp_config_read(const char *env_prefix, const char *filename, ucp_config_t **config_p);

void ucp_config_release(ucp_config_t *config);

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value);

void ucp_config_print(const ucp_config_t *config, FILE *stream, const char *title, ucs_config_print_flags_t print_flags);

void ucp_get_version(unsigned int *major_version, unsigned int *minor_version, unsigned int *release_number);

const char *ucp_get_version_string(void);

ucs_status_t ucp_init_version(unsigned int api_major_version, unsigned int api_minor_version, const ucp_params_t *params, const ucp_config_t *config, ucp_context_h *context_p);

void ucp_cleanup(ucp_context_h context_p);

ucs_status_t ucp_context_query(ucp_context_h context_p, ucp_context_attr_t *attr);

ucs_status_t ucp_rkey_compare(ucp_worker_h worker, ucp_rkey_h rkey1, ucp_rkey_h rkey2, const ucp_rkey_compare_params_t *params, int *result);

void ucp_context_print_info(const ucp_context_h context, FILE *stream);

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker_p);

void ucp_worker_destroy(ucp_worker_h worker);

ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr);

void ucp_worker_print_info(ucp_worker_h worker, FILE *stream);

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address);

ucs_status_t ucp_worker_address_query(ucp_address_t *address, ucp_worker_address_attr_t *attr);

unsigned int ucp_worker_progress(ucp_worker_h worker);

ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned int flags);

ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd);

ucs_status_t ucp_worker_wait(ucp_worker_h worker);

void ucp_worker_wait_mem(ucp_worker_h worker, void *address);

ucs_status_t ucp_worker_arm(ucp_worker_h worker);

ucs_status_t ucp_worker_signal(ucp_worker_h worker);

ucs_status_t ucp_listener_create(ucp_worker_h worker, const ucp_listener_params_t *params, ucp_listener_h *listener_p);

void ucp_listener_destroy(ucp_listener_h listener);

ucs_status_t ucp_listener_query(ucp_listener_h listener, ucp_listener_attr_t *attr);

ucs_status_t ucp_conn_request_query(ucp_conn_request_h conn_request, ucp_conn_request_attr_t *attr);

ucs_status_t ucp_request_query(void *request, ucp_request_attr_t *attr);

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p);

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param);

ucs_status_t ucp_listener_reject(ucp_listener_h listener, ucp_conn_request_h conn_request);

void ucp_ep_print_info(ucp_ep_h ep, FILE *stream);

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param);

ucs_status_t ucp_ep_evaluate_perf(ucp_ep_h ep, const ucp_ep_evaluate_perf_param_t *param, ucp_ep_evaluate_perf_attr_t *attr);

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh_p);

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh);

ucs_status_t ucp_mem_query(const ucp_mem_h memh, ucp_mem_attr_t *attr);

void ucp_mem_print_info(const char *mem_spec, ucp_context_h context, FILE *stream);

ucs_status_t ucp_mem_advise(ucp_context_h context, ucp_mem_h memh, ucp_mem_advise_params_t *params);

ucs_status_t ucp_memh_pack(ucp_mem_h memh, const ucp_memh_pack_params_t *params, void **buffer_p, size_t *buffer_size_p);

void ucp_memh_buffer_release(void *buffer, const ucp_memh_buffer_release_params_t *params);

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p);

ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t raddr, void **addr_p);

void ucp_rkey_destroy(ucp_rkey_h rkey);

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param);

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned int id, const void *header, size_t header_length, const void *buffer, size_t count, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer, size_t count, const ucp_request_param_t *param);

void ucp_am_data_release(ucp_worker_h worker, void *data);

ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length);

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t tag_mask, const ucp_request_param_t *param);

ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask, int remove, ucp_tag_recv_info_t *info);

ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_message_h message, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey, const ucp_request_param_t *param);

ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey, const ucp_request_param_t *param);

ucs_status_t ucp_request_check_status(void *request);

ucs_status_t ucp_tag_recv_request_test(void *request, ucp_tag_recv_info_t *info);

ucs_status_t ucp_stream_recv_request_test(void *request, size_t *length_p);

void ucp_request_cancel(ucp_worker_h worker, void *request);

void ucp_stream_data_release(ucp_ep_h ep, void *data);

void ucp_request_free(void *request);

void *ucp_request_alloc(ucp_worker_h worker);

ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p);

void ucp_dt_destroy(ucp_datatype_t datatype);

ucs_status_t ucp_dt_query(ucp_datatype_t datatype, ucp_datatype_attr_t *attr);

ucs_status_t ucp_worker_fence(ucp_worker_h worker);

ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t *param);

ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr);

static inline ucs_status_t ucp_init(const ucp_params_t *params, const ucp_config_t *config, ucp_context_h *context_p)
{
    return ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, context_p);
}

#pragma GCC visibility pop
END_C_DECLS

#endif
