/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCP, API level 1.23: messages, streams, remote memory access and atomics between processes.
 *
 * Objects. A context (ucp_init) holds configuration; a worker (ucp_worker_create) makes progress and has an address; an
 * endpoint (ucp_ep_create) is a connection from a worker to a peer. Destroy in the order endpoints, listeners, worker,
 * memory, context.
 *
 * Structures. Each one that is passed in or filled has a mask of valid members. A member whose bit is clear is neither
 * read nor written, whatever it holds, and bits that the library does not know are ignored.
 *
 * Results. A call that may complete later returns NULL (complete, UCS_OK, no callback), an error pointer (nothing
 * posted, no callback) or a request (the callback, if given, runs exactly once); see ucp_request_param_t. Outputs are
 * written on success only. The specification of behaviour is in docs/spec.
 *
 * Progress. Nothing happens without ucp_worker_progress(). Callbacks run there or in the call that concerns
 * them, never on a thread of the library.
 *
 * Threads. A worker and all that belongs to it (endpoints, listeners, requests) may be used as its thread mode says:
 * in mode SINGLE by the thread that made it, in mode SERIALIZED by one thread at a time, in mode MULTI by any
 * thread, and the library then takes the lock of the worker in the calls that need it. A context, its memory and its
 * remote keys may be used by several threads at once if mt_workers_shared is set, else by one at a time. Unless
 * a description says otherwise a call does not block.
 *
 * Examples. Objects that an example does not make itself exist already; wait_for() stands for the loop that the example
 * of ucp_request_check_status() shows.
 */
#ifndef UCP_H
#define UCP_H

#include <ucp/api/ucp_compat.h>
#include <ucp/api/ucp_def.h>
#include <ucp/api/ucp_version.h>
#include <ucs/config/types.h>
#include <ucs/type/cpu_set.h>
#include <ucs/type/thread_mode.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/* ======================================== library, configuration, context ========================================= */

/** Valid fields of ucp_lib_attr_t. */
enum ucp_lib_attr_field {
    UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL = UCS_BIT(0) /**< ucp_lib_attr_t::max_thread_level */
};

/** Results of ucp_lib_query(). */
typedef struct ucp_lib_attr {
    uint64_t          field_mask;       /**< In: enum ucp_lib_attr_field. */
    ucs_thread_mode_t max_thread_level; /**< The most that any worker can be given: UCS_THREAD_MODE_MULTI. */
} ucp_lib_attr_t;

/** Valid fields of ucp_params_t. */
enum ucp_params_field {
    UCP_PARAM_FIELD_FEATURES          = UCS_BIT(0), /**< ucp_params_t::features */
    UCP_PARAM_FIELD_REQUEST_SIZE      = UCS_BIT(1), /**< ucp_params_t::request_size */
    UCP_PARAM_FIELD_REQUEST_INIT      = UCS_BIT(2), /**< ucp_params_t::request_init */
    UCP_PARAM_FIELD_REQUEST_CLEANUP   = UCS_BIT(3), /**< ucp_params_t::request_cleanup */
    UCP_PARAM_FIELD_TAG_SENDER_MASK   = UCS_BIT(4), /**< ucp_params_t::tag_sender_mask */
    UCP_PARAM_FIELD_MT_WORKERS_SHARED = UCS_BIT(5), /**< ucp_params_t::mt_workers_shared */
    UCP_PARAM_FIELD_ESTIMATED_NUM_EPS = UCS_BIT(6), /**< ucp_params_t::estimated_num_eps */
    UCP_PARAM_FIELD_ESTIMATED_NUM_PPN = UCS_BIT(7), /**< ucp_params_t::estimated_num_ppn */
    UCP_PARAM_FIELD_NAME              = UCS_BIT(8), /**< ucp_params_t::name */
    UCP_PARAM_FIELD_NODE_LOCAL_ID     = UCS_BIT(9)  /**< ucp_params_t::node_local_id */
};

/**
 * Groups of calls that a program is going to use. A call whose feature was not asked for fails with
 * UCS_ERR_INVALID_PARAM and one log line. Worker and endpoint management, flush, fence, memory and
 * keys need no feature.
 */
enum ucp_feature {
    UCP_FEATURE_TAG           = UCS_BIT(0), /**< ucp_tag_*() */
    UCP_FEATURE_RMA           = UCS_BIT(1), /**< ucp_put_*() and ucp_get_*() */
    UCP_FEATURE_AMO32         = UCS_BIT(2), /**< Atomics on 4 bytes. */
    UCP_FEATURE_AMO64         = UCS_BIT(3), /**< Atomics on 8 bytes. */
    UCP_FEATURE_WAKEUP        = UCS_BIT(4), /**< ucp_worker_get_efd(), _arm(), _wait() and _signal(). */
    UCP_FEATURE_STREAM        = UCS_BIT(5), /**< ucp_stream_*() */
    UCP_FEATURE_AM            = UCS_BIT(6), /**< ucp_am_*() and the handlers. */
    UCP_FEATURE_EXPORTED_MEMH = UCS_BIT(7), /**< Memory handles that another process can import. */
    UCP_FEATURE_DEVICE        = UCS_BIT(8)  /**< Operations that a device starts; never refused. */
};

/** How to make a context. */
typedef struct ucp_params {
    uint64_t                       field_mask;        /**< Which members are set: enum ucp_params_field. */
    uint64_t                       features;          /**< OR of enum ucp_feature; 0 warns. */
    size_t                         request_size;      /**< Bytes of the program's own in each request. */
    ucp_request_init_callback_t    request_init;      /**< Runs once for each request object. */
    ucp_request_cleanup_callback_t request_cleanup;   /**< Runs once for each of them at the end. */
    uint64_t                       tag_sender_mask;   /**< Hint: the tag bits that name the sender. */
    int                            mt_workers_shared; /**< Non-zero: several threads use the context at once. */
    size_t                         estimated_num_eps; /**< Hint, not a limit: endpoints to come. */
    size_t                         estimated_num_ppn; /**< Hint: processes of the job on this machine. */
    const char                    *name;              /**< For logs; copied, cut to 31 characters. */
    size_t                         node_local_id;     /**< Hint: rank among the job's processes on this machine. It
                                                       *   chooses among network devices that are equally good
                                                       *   where this process uses only one; default 0. */
} ucp_params_t;

/** Valid fields of ucp_context_attr_t. */
enum ucp_context_attr_field {
    UCP_ATTR_FIELD_REQUEST_SIZE        = UCS_BIT(0), /**< ucp_context_attr_t::request_size */
    UCP_ATTR_FIELD_THREAD_MODE         = UCS_BIT(1), /**< ucp_context_attr_t::thread_mode */
    UCP_ATTR_FIELD_MEMORY_TYPES        = UCS_BIT(2), /**< ucp_context_attr_t::memory_types */
    UCP_ATTR_FIELD_NAME                = UCS_BIT(3), /**< ucp_context_attr_t::name */
    UCP_ATTR_FIELD_DEVICE_COUNTER_SIZE = UCS_BIT(4)  /**< ucp_context_attr_t::device_counter_size */
};

/** Results of ucp_context_query(). */
typedef struct ucp_context_attr {
    uint64_t          field_mask;                /**< In: enum ucp_context_attr_field. */
    size_t            request_size;              /**< Bytes needed BELOW a request in memory of the program. */
    ucs_thread_mode_t thread_mode;               /**< MULTI if mt_workers_shared was set, else SINGLE. */
    uint64_t          memory_types;              /**< Bit (1 << ucs_memory_type_t) for each kind; host always. */
    char              name[UCP_ENTITY_NAME_MAX]; /**< NUL-terminated. */
    size_t            device_counter_size;       /**< Bytes of a counter of a device: 8 on every machine. */
} ucp_context_attr_t;

/**
 * Version of the library in use, which may differ from that of these headers.
 *
 * @param major_version   Receives the first number.
 * @param minor_version   Receives the second number.
 * @param release_number  Receives the third number.
 * @thread Any, at any time.
 */
void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number);

/**
 * Version as a text that begins with "major.minor.release".
 *
 * @return The text; static, owned by the library.
 * @thread Any, at any time.
 */
const char *ucp_get_version_string(void);

/**
 * Ask about the library as built.
 *
 * @param attr  In: field_mask. Out: the members asked for.
 * @return UCS_OK.
 * @thread Any, at any time, before ucp_init() too.
 */
ucs_status_t ucp_lib_query(ucp_lib_attr_t *attr);

/**
 * Read settings: defaults, then configuration files, then the environment.
 *
 * @param env_prefix  NULL or "": variables UCX_NAME. "P": additionally P_UCX_NAME and UCX_P_NAME, which win.
 * @param filename    A file of settings above the usual ucx.conf files and below the environment; one that does not
 *                    exist is ignored. NULL: none.
 * @param config_p    Receives the settings; to be freed by ucp_config_release().
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a malformed value, after a log line that names it;
 *         UCS_ERR_NO_MEMORY.
 * @thread Any, at any time.
 */
ucs_status_t ucp_config_read(const char *env_prefix, const char *filename, ucp_config_t **config_p);

/**
 * Free settings; contexts made from them keep their own copy.
 *
 * @param config  The settings; not used afterwards.
 * @thread Any; one at a time for the same @a config.
 */
void ucp_config_release(ucp_config_t *config);

/**
 * Change one setting.
 *
 * @param config  The settings.
 * @param name    Name without prefix: "TLS", not "UCX_TLS".
 * @param value   Value in the syntax of the environment.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a name that no release knew, and for a malformed value, the old one then
 *         stays. `*` and `?` in a name stand for all names that fit.
 * @thread Any; one at a time for the same @a config.
 */
ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name, const char *value);

/**
 * Print settings.
 *
 * @param config       The settings.
 * @param stream       Where to.
 * @param title        Heading for UCS_CONFIG_PRINT_HEADER; may be NULL otherwise.
 * @param print_flags  OR of ucs_config_print_flags_t. UCS_CONFIG_PRINT_CONFIG alone gives lines UCX_NAME=value only.
 * @thread Any; one at a time for the same @a config.
 */
void ucp_config_print(const ucp_config_t *config, FILE *stream, const char *title,
                      ucs_config_print_flags_t print_flags);

/**
 * Make a context for a program that was compiled for a given API level; ucp_init() calls it with the level
 * of these headers. A level that the library does not serve gives a warning, never an error.
 *
 * @param api_major_version  UCP_API_MAJOR of the caller.
 * @param api_minor_version  UCP_API_MINOR of the caller.
 * @param params             As for ucp_init().
 * @param config             As for ucp_init().
 * @param context_p          As for ucp_init().
 * @return As ucp_init().
 * @thread As ucp_init().
 */
ucs_status_t ucp_init_version(unsigned api_major_version, unsigned api_minor_version, const ucp_params_t *params,
                              const ucp_config_t *config, ucp_context_h *context_p);

/**
 * Make a context.
 *
 * @param params     What the program needs. Borrowed for the call.
 * @param config     Settings, copied; NULL: as ucp_config_read(NULL, NULL) gives them.
 * @param context_p  Receives the context; to be destroyed by ucp_cleanup().
 * @return UCS_OK; UCS_ERR_NO_DEVICE when the settings leave no transport, UCS_ERR_NO_ELEM for empty lists;
 *         UCS_ERR_INVALID_PARAM for an impossible setting; UCS_ERR_NO_MEMORY. One log line states the reason.
 * @thread Any, at any time.
 *
 * @code
 * const ucp_params_t params = {
 *     .field_mask = UCP_PARAM_FIELD_FEATURES,
 *     .features   = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
 * };
 * ucp_context_h context;
 * ucs_status_t status = ucp_init(&params, NULL, &context);
 *
 * if (status != UCS_OK) {
 *     fprintf(stderr, "ucp_init: %s\n", ucs_status_string(status));
 *     return 1;
 * }
 * @endcode
 */
static inline ucs_status_t ucp_init(const ucp_params_t *params, const ucp_config_t *config, ucp_context_h *context_p)
{
    return ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, params, config, context_p);
}

/**
 * Destroy a context. Its workers are destroyed and its memory is unmapped by then.
 *
 * @param context_p  The context; not used afterwards.
 * @thread One, while no other uses the context.
 *
 * @code
 * ucp_worker_destroy(worker);
 * ucp_mem_unmap(context, memh);
 * ucp_cleanup(context);
 * @endcode
 */
void ucp_cleanup(ucp_context_h context_p);

/**
 * Ask about a context.
 *
 * @param context_p  The context.
 * @param attr       In: field_mask. Out: the members asked for, nothing else.
 * @return UCS_OK.
 * @thread One that may use the context.
 */
ucs_status_t ucp_context_query(ucp_context_h context_p, ucp_context_attr_t *attr);

/**
 * Print a context's memory domains and transports, in a form that Open MPI reads.
 *
 * @param context  The context.
 * @param stream   Receives the text; stays open.
 * @thread One that may use @a context.
 */
void ucp_context_print_info(const ucp_context_h context, FILE *stream);

/* ==================================================== workers ===================================================== */

/** Valid fields of ucp_worker_params_t. */
enum ucp_worker_params_field {
    UCP_WORKER_PARAM_FIELD_THREAD_MODE  = UCS_BIT(0), /**< ucp_worker_params_t::thread_mode */
    UCP_WORKER_PARAM_FIELD_CPU_MASK     = UCS_BIT(1), /**< ucp_worker_params_t::cpu_mask */
    UCP_WORKER_PARAM_FIELD_EVENTS       = UCS_BIT(2), /**< ucp_worker_params_t::events */
    UCP_WORKER_PARAM_FIELD_USER_DATA    = UCS_BIT(3), /**< ucp_worker_params_t::user_data */
    UCP_WORKER_PARAM_FIELD_EVENT_FD     = UCS_BIT(4), /**< ucp_worker_params_t::event_fd */
    UCP_WORKER_PARAM_FIELD_FLAGS        = UCS_BIT(5), /**< ucp_worker_params_t::flags */
    UCP_WORKER_PARAM_FIELD_NAME         = UCS_BIT(6), /**< ucp_worker_params_t::name */
    UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT = UCS_BIT(7), /**< ucp_worker_params_t::am_alignment */
    UCP_WORKER_PARAM_FIELD_CLIENT_ID    = UCS_BIT(8)  /**< ucp_worker_params_t::client_id */
};

/** ucp_worker_params_t::flags; bits that are not known are ignored. */
typedef enum {
    UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK = UCS_BIT(0) /**< No warning about requests never freed. */
} ucp_worker_flags_t;

/** How to make a worker. Defaults: docs/spec/ucp.md. */
typedef struct ucp_worker_params {
    uint64_t          field_mask;   /**< Which members are set: enum ucp_worker_params_field. */
    ucs_thread_mode_t thread_mode;  /**< Default SINGLE. Every mode that is asked for is granted. */
    ucs_cpu_set_t     cpu_mask;     /**< Hint: processors of threads that make progress by themselves. The library has
                                     *   none, so it has no effect, and binds no thread of the program. */
    unsigned          events;       /**< OR of ucp_wakeup_event_t; default all but EDGE. */
    void             *user_data;    /**< Data pointer of the worker's entries in event_fd. */
    int               event_fd;     /**< An epoll descriptor of the program that is to report this worker. */
    uint64_t          flags;        /**< OR of ucp_worker_flags_t. */
    const char       *name;         /**< For logs; copied, cut to UCP_ENTITY_NAME_MAX - 1 characters. */
    size_t            am_alignment; /**< Of the data that handlers of active messages get, lent or not, but for
                                     *   announced ones: a power of two up to a page; default 1. Data
                                     *   that lie otherwise are copied, so do not set it without need. */
    uint64_t          client_id;    /**< Sent to servers with UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID. */
} ucp_worker_params_t;

/** ucp_worker_attr_t::address_flags. */
typedef enum {
    UCP_WORKER_ADDRESS_FLAG_NET_ONLY = UCS_BIT(0) /**< Only what peers on other machines need. */
} ucp_worker_address_flags_t;

/** Valid fields of ucp_worker_attr_t. */
enum ucp_worker_attr_field {
    UCP_WORKER_ATTR_FIELD_THREAD_MODE         = UCS_BIT(0), /**< ucp_worker_attr_t::thread_mode */
    UCP_WORKER_ATTR_FIELD_ADDRESS             = UCS_BIT(1), /**< ucp_worker_attr_t::address and address_length */
    UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS       = UCS_BIT(2), /**< ucp_worker_attr_t::address_flags */
    UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER       = UCS_BIT(3), /**< ucp_worker_attr_t::max_am_header */
    UCP_WORKER_ATTR_FIELD_NAME                = UCS_BIT(4), /**< ucp_worker_attr_t::name */
    UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING     = UCS_BIT(5), /**< ucp_worker_attr_t::max_debug_string */
    UCP_WORKER_ATTR_FIELD_ADDRESS_DEVICE_NAME = UCS_BIT(6)  /**< ucp_worker_attr_t::address_device_name */
};

/** Results of ucp_worker_query(). */
typedef struct ucp_worker_attr {
    uint64_t          field_mask;                /**< In: enum ucp_worker_attr_field. */
    ucs_thread_mode_t thread_mode;               /**< Granted thread mode. */
    uint32_t          address_flags;             /**< In: what address is wanted; 0 if its bit is clear. */
    ucp_address_t    *address;                   /**< A fresh copy, freed by ucp_worker_release_address(). */
    size_t            address_length;            /**< Its bytes; below 1024. */
    size_t            max_am_header;             /**< Largest header of an active message, in bytes; 0 without AM. */
    char              name[UCP_ENTITY_NAME_MAX]; /**< NUL-terminated. */
    size_t            max_debug_string;          /**< Bytes that hold any text of ucp_request_query(). */
    const char       *address_device_name;       /**< In: the address is to hold what this device contributes alone, by
                                                  *   its whole name as `ucx_info -d` prints it, "eth0" or "memory";
                                                  *   NULL: all devices. Endpoints to it use no other device
                                                  *   of this worker, unless its own endpoint to them came first. */
} ucp_worker_attr_t;

/** Valid fields of ucp_worker_address_attr_t. */
enum ucp_worker_address_attr_field {
    UCP_WORKER_ADDRESS_ATTR_FIELD_UID = UCS_BIT(0) /**< ucp_worker_address_attr_t::worker_uid */
};

/** Results of ucp_worker_address_query(). */
typedef struct ucp_worker_address_attr {
    uint64_t field_mask; /**< In: enum ucp_worker_address_attr_field. */
    uint64_t worker_uid; /**< Number of the worker: equal in all its addresses, in no other worker's. */
} ucp_worker_address_attr_t;

/**
 * Make a worker.
 *
 * @param context   The context; outlives the worker.
 * @param params    How. Borrowed for the call.
 * @param worker_p  Receives the worker; to be destroyed by ucp_worker_destroy().
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a thread mode out of range; UCS_ERR_NO_MEMORY; UCS_ERR_IO_ERROR or another
 *         status if a transport cannot be opened.
 * @thread One that may use @a context.
 *
 * @code
 * const ucp_worker_params_t params = {
 *     .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
 *     .thread_mode = UCS_THREAD_MODE_SINGLE,
 * };
 * ucp_worker_h worker;
 * ucs_status_t status = ucp_worker_create(context, &params, &worker);
 *
 * if (status != UCS_OK) {
 *     fprintf(stderr, "ucp_worker_create: %s\n", ucs_status_string(status));
 *     return 1;
 * }
 * @endcode
 */
ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker_p);

/**
 * Destroy a worker. Endpoints that still exist are closed by force without telling the peer; what they had not sent
 * ends with UCS_ERR_CANCELED, callbacks running here. Does not wait for peers. Not from a callback.
 *
 * @param worker  The worker; not used afterwards, nor is anything that belongs to it.
 * @thread One that may use @a worker, while no other uses it.
 */
void ucp_worker_destroy(ucp_worker_h worker);

/**
 * Ask about a worker.
 *
 * @param worker  The worker.
 * @param attr    In: field_mask, and address_flags if its bit is set. Out: the members asked for, nothing else.
 * @return UCS_OK or UCS_ERR_NO_MEMORY.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr);

/**
 * Print a worker, for people.
 *
 * @param worker  The worker.
 * @param stream  Receives the text; stays open.
 * @thread One that may use @a worker.
 */
void ucp_worker_print_info(ucp_worker_h worker, FILE *stream);

/**
 * Free an address that ucp_worker_query() or ucp_worker_get_address() delivered.
 *
 * @param worker   The worker that delivered it.
 * @param address  The address; not used afterwards. NULL does nothing.
 * @thread One that may use @a worker.
 */
void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address);

/**
 * Ask about an address, one's own or a foreign one. Needs no worker.
 *
 * @param address  The address; at any alignment.
 * @param attr     In: field_mask. Out: the members asked for.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM if these bytes are no address; UCS_ERR_UNREACHABLE if they are one of another
 *         kind of library.
 * @thread Any, at any time.
 */
ucs_status_t ucp_worker_address_query(ucp_address_t *address, ucp_worker_address_attr_t *attr);

/**
 * Make progress: handle what arrived, complete operations, make connections, detect failures. Callbacks
 * run here.
 *
 * @param worker  The worker.
 * @return 0 if nothing happened; else a number that says only that something did. Called from a callback: 0.
 * @thread One that may use @a worker. Not from a callback.
 *
 * @code
 * while (running) {
 *     while (ucp_worker_progress(worker) != 0) {
 *         continue;
 *     }
 *     if (ucp_worker_wait(worker) != UCS_OK) {
 *         break;
 *     }
 * }
 * @endcode
 */
unsigned ucp_worker_progress(ucp_worker_h worker);

/* Sleeping. The loop: progress until it returns 0; arm; if UCS_ERR_BUSY start again, else sleep on the descriptor;
 * start again. Every event after the last progress makes arm return UCS_ERR_BUSY or the descriptor readable. The four
 * calls below need UCP_FEATURE_WAKEUP, else UCS_ERR_INVALID_PARAM. */

/**
 * The descriptor that becomes readable when the worker has something to do.
 *
 * @param worker  The worker.
 * @param fd      Receives it: equal at each call, until the worker is destroyed. Poll it, also by epoll and from
 *                other threads; never read, write or close it.
 * @return UCS_OK; UCS_ERR_UNSUPPORTED if the worker was made with event_fd.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd);

/**
 * Prepare to sleep.
 *
 * @param worker  The worker.
 * @return UCS_OK: sleep on the descriptor. UCS_ERR_BUSY: something happened meanwhile, call progress first.
 * @thread One that may use @a worker.
 *
 * @code
 * struct pollfd event = {.events = POLLIN};
 *
 * if (ucp_worker_get_efd(worker, &event.fd) != UCS_OK) {
 *     return 1;
 * }
 * while (running) {
 *     if (ucp_worker_progress(worker) == 0 &&
 *         ucp_worker_arm(worker) == UCS_OK) {
 *         poll(&event, 1, -1);
 *     }
 * }
 * @endcode
 */
ucs_status_t ucp_worker_arm(ucp_worker_h worker);

/**
 * Arm and sleep until something happens or ucp_worker_signal() is called; blocks. Does not progress, may return early.
 *
 *
 * @param worker  The worker.
 * @return UCS_OK: call progress; UCS_ERR_IO_ERROR.
 * @thread One that may use @a worker. Not from a callback.
 */
ucs_status_t ucp_worker_wait(ucp_worker_h worker);

/**
 * Wake a worker that sleeps or is about to. Several signals before the next wake-up count as one.
 *
 * @param worker  The worker.
 * @return UCS_OK or UCS_ERR_IO_ERROR.
 * @thread Any, at any time, in every thread mode; signal handlers too.
 */
ucs_status_t ucp_worker_signal(ucp_worker_h worker);

/**
 * Pause in a loop that waits for a change of @a *address; returns soon in any case. Needs no feature.
 *
 * @param worker   The worker.
 * @param address  Memory of the program; not read.
 * @thread One that may use @a worker.
 */
void ucp_worker_wait_mem(ucp_worker_h worker, void *address);

/* ========================================= requests and their attributes ========================================== */

/** Members of ucp_request_param_t that are set (FIELD), and options (FLAG); unknown flags are ignored. */
typedef enum {
    UCP_OP_ATTR_FIELD_REQUEST         = UCS_BIT(0),  /**< ucp_request_param_t::request */
    UCP_OP_ATTR_FIELD_CALLBACK        = UCS_BIT(1),  /**< ucp_request_param_t::cb */
    UCP_OP_ATTR_FIELD_USER_DATA       = UCS_BIT(2),  /**< ucp_request_param_t::user_data */
    UCP_OP_ATTR_FIELD_DATATYPE        = UCS_BIT(3),  /**< ucp_request_param_t::datatype */
    UCP_OP_ATTR_FIELD_FLAGS           = UCS_BIT(4),  /**< ucp_request_param_t::flags */
    UCP_OP_ATTR_FIELD_REPLY_BUFFER    = UCS_BIT(5),  /**< ucp_request_param_t::reply_buffer */
    UCP_OP_ATTR_FIELD_MEMORY_TYPE     = UCS_BIT(6),  /**< ucp_request_param_t::memory_type */
    UCP_OP_ATTR_FIELD_RECV_INFO       = UCS_BIT(7),  /**< ucp_request_param_t::recv_info */
    UCP_OP_ATTR_FIELD_MEMH            = UCS_BIT(8),  /**< ucp_request_param_t::memh */
    UCP_OP_ATTR_FIELD_REMOTE_DATATYPE = UCS_BIT(9),  /**< ucp_request_param_t::remote_datatype */
    UCP_OP_ATTR_FIELD_REMOTE          = UCS_BIT(10), /**< ucp_request_param_t::remote */
    UCP_OP_ATTR_FIELD_REMOTE_COUNT    = UCS_BIT(11), /**< ucp_request_param_t::remote_count */

    /** Never return NULL: what completes at once runs its callback inside the call and returns a request.
     *  Flush, close and empty put and get may still return NULL. */
    UCP_OP_ATTR_FLAG_NO_IMM_CMPL    = UCS_BIT(16),
    /** Prefer early local completion, by buffering if need be. */
    UCP_OP_ATTR_FLAG_FAST_CMPL      = UCS_BIT(17),
    /** Complete now or fail with UCS_ERR_NO_RESOURCE, nothing posted. */
    UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL = UCS_BIT(18),
    /** Prefer bandwidth over latency; not together with FAST_CMPL. */
    UCP_OP_ATTR_FLAG_MULTI_SEND     = UCS_BIT(19)
} ucp_op_attr_t;

/** Description of the message that a tag receive got. */
struct ucp_tag_recv_info {
    ucp_tag_t sender_tag; /**< The whole tag of the message. */
    size_t    length;     /**< Bytes that were sent, even if fewer fitted. */
};

/**
 * How an operation is to be carried out. The call borrows the structure; buffers, the reply buffer and a request in the
 * program's memory stay in use until completion. Members whose bit is clear have the default given here.
 */
typedef struct {
    uint32_t op_attr_mask; /**< OR of ucp_op_attr_t. */
    uint32_t flags;        /**< Flags of the operation: of active message sends, stream receives, close. 0. */

    /** Memory of the program for the request: points just behind at least ucp_context_attr_t::request_size bytes,
     *  aligned to 8; what lies above the pointer is not touched. The call returns NULL, an error or this pointer.
     *  Never free or release it; it may be used again once complete. Default: a request of the
     *  library's. */
    void *request;

    /** Called at completion, if the call returned a request: the member that fits the operation. Default:
     *  none. */
    union {
        ucp_send_nbx_callback_t         send;        /**< Sends, put, get, atomics, flush, close. */
        ucp_tag_recv_nbx_callback_t     recv;        /**< Tag receives. */
        ucp_stream_recv_nbx_callback_t  recv_stream; /**< Stream receives. */
        ucp_am_recv_data_nbx_callback_t recv_am;     /**< ucp_am_recv_data_nbx(). */
    } cb;

    ucp_datatype_t    datatype;     /**< Of buffer and count. Default: ucp_dt_make_contig(1), so that count is bytes. */
    void             *user_data;    /**< Last argument of the callback. Default: NULL. */
    void             *reply_buffer; /**< Atomics: where the old value goes. */
    ucs_memory_type_t memory_type;  /**< Kind of the buffer's memory. Default: found out. */

    /** Where the result goes if the receive is complete at once; written on UCS_OK only, used during the call only.
     *  Default: nowhere. */
    union {
        size_t              *length;   /**< Active message data: bytes received. */
        ucp_tag_recv_info_t *tag_info; /**< Tag receives. */
    } recv_info;

    ucp_mem_h memh; /**< Registration that covers the whole buffer; spares one on the fly. Default: none. */

    /* The remote side of a put or get of many pieces; other calls refuse them, but
     * for puts of another datatype, which ignore them. */
    ucp_datatype_t remote_datatype; /**< ucp_dt_make_sgl(); needed with a local datatype of that class. */
    const void    *remote;          /**< ucp_dt_remote_sgl_t of it; read in the call, its arrays until completion. */
    size_t         remote_count;    /**< Elements of it. Default, and the only legal value: those of the local side. */
} ucp_request_param_t;

/** Valid fields of ucp_request_attr_t. */
typedef enum {
    UCP_REQUEST_ATTR_FIELD_INFO_STRING      = UCS_BIT(0), /**< ucp_request_attr_t::debug_string */
    UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE = UCS_BIT(1), /**< ucp_request_attr_t::debug_string_size */
    UCP_REQUEST_ATTR_FIELD_STATUS           = UCS_BIT(2), /**< ucp_request_attr_t::status */
    UCP_REQUEST_ATTR_FIELD_MEM_TYPE         = UCS_BIT(3)  /**< ucp_request_attr_t::mem_type */
} ucp_req_attr_field;

/** Results of ucp_request_query(). */
typedef struct {
    uint64_t          field_mask;        /**< In: ucp_req_attr_field. */
    char             *debug_string;      /**< In: memory of the program. Out, there: a text, NUL-terminated. */
    size_t            debug_string_size; /**< In: its bytes; see ucp_worker_attr_t::max_debug_string. */
    ucs_status_t      status;            /**< UCS_INPROGRESS or the final status. */
    ucs_memory_type_t mem_type;          /**< Kind of memory of the buffer. */
} ucp_request_attr_t;

/**
 * Status of a request, from any call, until it is freed. Does not progress.
 *
 * @param request  A request that is not freed yet.
 * @return UCS_INPROGRESS, or the final status.
 * @thread One that may use the worker of the request. The worker is not entered.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucs_status_ptr_t request = ucp_tag_send_nbx(ep, buffer, 100, 1, &param);
 * ucs_status_t status      = UCS_PTR_STATUS(request);
 *
 * while (status == UCS_INPROGRESS) {
 *     ucp_worker_progress(worker);
 *     status = ucp_request_check_status(request);
 * }
 * if (UCS_PTR_IS_PTR(request)) {
 *     ucp_request_free(request);
 * }
 * @endcode
 */
ucs_status_t ucp_request_check_status(void *request);

/**
 * Status and result of a tag receive.
 *
 * @param request  The request.
 * @param info     Filled when complete.
 * @return UCS_INPROGRESS, or the final status.
 * @thread One that may use the worker of the request.
 */
ucs_status_t ucp_tag_recv_request_test(void *request, ucp_tag_recv_info_t *info);

/**
 * Status and result of a stream receive.
 *
 * @param request   The request.
 * @param length_p  Receives the bytes stored, when complete.
 * @return UCS_INPROGRESS, or the final status.
 * @thread One that may use the worker of the request.
 */
ucs_status_t ucp_stream_recv_request_test(void *request, size_t *length_p);

/**
 * Ask about a request.
 *
 * @param request  The request, not freed yet.
 * @param attr     In: field_mask, and the memory for the text. Out: the members asked for.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM if a text is asked for without memory, or the request was given back.
 * @thread One that may use the worker of the request.
 */
ucs_status_t ucp_request_query(void *request, ucp_request_attr_t *attr);

/**
 * Cancel a tag receive that no message has matched: it completes with UCS_ERR_CANCELED, its callback running inside
 * this call. Everything else, and what is complete, is left alone. Does not free the request.
 *
 * @param worker   The worker that receives.
 * @param request  The request.
 * @thread One that may use @a worker.
 */
void ucp_request_cancel(ucp_worker_h worker, void *request);

/**
 * Give a request back, at any time after the call that returned it, its callback included. If it is not complete the
 * operation goes on, using the buffers, and its callback is not called any more. Not for requests in
 * the program's own memory.
 *
 * @param request  The request; not used afterwards.
 * @thread One that may use the worker of the request.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucs_status_ptr_t request = ucp_put_nbx(ep, buffer, 8, remote_addr, rkey,
 *                                        &param);
 *
 * if (UCS_PTR_IS_PTR(request)) {
 *     ucp_request_free(request);
 * }
 * wait_for(ucp_ep_flush_nbx(ep, &param));
 * @endcode
 */
void ucp_request_free(void *request);

/* =================================================== datatypes ==================================================== */

/** Classes of datatypes, in the low bits of a ucp_datatype_t. */
enum ucp_dt_type {
    UCP_DATATYPE_CONTIG     = 0, /**< One block of elements of equal size; the size is in the upper bits. */
    UCP_DATATYPE_STRIDED    = 1, /**< Reserved; refused. */
    UCP_DATATYPE_IOV        = 2, /**< A list of blocks. */
    UCP_DATATYPE_SGL        = 4, /**< Many pieces of memory here, and as many there; put and get only. */
    UCP_DATATYPE_GENERIC    = 7, /**< Packed and unpacked by the program. */
    UCP_DATATYPE_SHIFT      = 3, /**< Number of bits of the class. */
    UCP_DATATYPE_CLASS_MASK = 7  /**< Those bits. */
};

/** Contiguous: buffer points at count elements of @a elem_size bytes, which may be 0. */
#define ucp_dt_make_contig(elem_size) \
    ((ucp_datatype_t)(((ucp_datatype_t)(elem_size) << UCP_DATATYPE_SHIFT) | UCP_DATATYPE_CONTIG))

/** A list: buffer points at count ucp_dt_iov_t, and the message is what they hold one after the other. */
#define ucp_dt_make_iov() ((ucp_datatype_t)UCP_DATATYPE_IOV)

/** One block of a list. Empty blocks may have any address. */
typedef struct ucp_dt_iov {
    void  *buffer; /**< First byte. */
    size_t length; /**< Bytes. */
} ucp_dt_iov_t;

/**
 * Many pieces: buffer points at a ucp_dt_local_sgl_t, and ucp_request_param_t::remote at a ucp_dt_remote_sgl_t; count
 * is the length of their arrays. Element i has lengths[i] bytes, which lie at buffers[i] here and at remote_addrs[i]
 * under rkeys[i] there. For ucp_put_nbx() and ucp_get_nbx(), with UCP_REMOTE_ADDR_INVALID and UCP_RKEY_INVALID in place
 * of address and key. The structures are read during the call, their arrays stay until completion.
 */
#define ucp_dt_make_sgl() ((ucp_datatype_t)UCP_DATATYPE_SGL)

/** Valid fields of ucp_dt_local_sgl_t. BUFFERS and LENGTHS are needed. */
enum ucp_dt_local_sgl_field {
    UCP_DT_LOCAL_SGL_FIELD_BUFFERS = UCS_BIT(0), /**< ucp_dt_local_sgl_t::buffers */
    UCP_DT_LOCAL_SGL_FIELD_LENGTHS = UCS_BIT(1), /**< ucp_dt_local_sgl_t::lengths */
    UCP_DT_LOCAL_SGL_FIELD_MEMHS   = UCS_BIT(2), /**< ucp_dt_local_sgl_t::memhs */
    UCP_DT_LOCAL_SGL_FIELD_COUNTS  = UCS_BIT(3), /**< ucp_dt_local_sgl_t::counts */
    UCP_DT_LOCAL_SGL_FIELD_STRIDES = UCS_BIT(4)  /**< ucp_dt_local_sgl_t::strides */
};

/** The pieces of this side. */
typedef struct {
    uint64_t         field_mask; /**< Which members are set: enum ucp_dt_local_sgl_field. */
    void *const     *buffers;    /**< First byte of each element. */
    const size_t    *lengths;    /**< Bytes of each element, or of each of its blocks. */
    const ucp_mem_h *memhs;      /**< Registration that covers each element. Default: none. */
    const size_t    *counts;     /**< Blocks of each. Default: 1. */
    const size_t    *strides;    /**< Block j is at buffers[i] + j * strides[i] here, and at remote_addrs[i] +
                                      j * strides[i] there. Needed where counts[i] > 1. */
} ucp_dt_local_sgl_t;

/** Valid fields of ucp_dt_remote_sgl_t. All are needed. */
enum ucp_dt_remote_sgl_field {
    UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS = UCS_BIT(0), /**< ucp_dt_remote_sgl_t::remote_addrs */
    UCP_DT_REMOTE_SGL_FIELD_LENGTHS      = UCS_BIT(1), /**< ucp_dt_remote_sgl_t::lengths */
    UCP_DT_REMOTE_SGL_FIELD_RKEYS        = UCS_BIT(2)  /**< ucp_dt_remote_sgl_t::rkeys */
};

/** The pieces of the other side. */
typedef struct {
    uint64_t          field_mask;   /**< Which members are set: enum ucp_dt_remote_sgl_field. */
    const uint64_t   *remote_addrs; /**< Address of each element at the owner. */
    const size_t     *lengths;      /**< As ucp_dt_local_sgl_t::lengths. */
    const ucp_rkey_h *rkeys;        /**< Key of each element, all of one endpoint. */
} ucp_dt_remote_sgl_t;

/**
 * How the program packs and unpacks a buffer itself. The functions run on the thread of the UCP call that
 * needs them and must not call UCP. Each start is paired with exactly one finish, whatever becomes of the operation.
 */
typedef struct ucp_generic_dt_ops {
    /**
     * Begin to send.
     *
     * @param context  As given to ucp_dt_create_generic().
     * @param buffer   As given to the send.
     * @param count    As given to the send.
     * @return State for the functions below.
     */
    void *(*start_pack)(void *context, const void *buffer, size_t count);

    /**
     * Begin to receive.
     *
     * @param context  As given to ucp_dt_create_generic().
     * @param buffer   As given to the receive.
     * @param count    As given to the receive.
     * @return State for the functions below.
     */
    void *(*start_unpack)(void *context, void *buffer, size_t count);

    /**
     * Size: of the message when sending, the room for one when receiving.
     *
     * @param state  From a start function.
     * @return Bytes; equal at each call.
     */
    size_t (*packed_size)(void *state);

    /**
     * Produce bytes of the message; called with ascending offsets without gaps.
     *
     * @param state       From start_pack.
     * @param offset      Position in the message, in bytes.
     * @param dest        Where to put them.
     * @param max_length  Room there, in bytes.
     * @return Bytes produced: 1 to @a max_length; fewer than there is room for is no end.
     */
    size_t (*pack)(void *state, size_t offset, void *dest, size_t max_length);

    /**
     * Take bytes of the message; each byte comes once, in ascending order.
     *
     * @param state   From start_unpack.
     * @param offset  Position in the message, in bytes.
     * @param src     The bytes, valid in this call only.
     * @param length  How many.
     * @return UCS_OK; an error becomes the status of the receive, the rest is dropped.
     */
    ucs_status_t (*unpack)(void *state, size_t offset, const void *src, size_t length);

    /**
     * End of the operation, before its completion is reported.
     *
     * @param state  From a start function; not used afterwards.
     */
    void (*finish)(void *state);
} ucp_generic_dt_ops_t;

/** Valid fields of ucp_datatype_attr_t. */
enum ucp_datatype_attr_field {
    UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE = UCS_BIT(0), /**< ucp_datatype_attr_t::packed_size */
    UCP_DATATYPE_ATTR_FIELD_BUFFER      = UCS_BIT(1), /**< ucp_datatype_attr_t::buffer */
    UCP_DATATYPE_ATTR_FIELD_COUNT       = UCS_BIT(2)  /**< ucp_datatype_attr_t::count */
};

/** Results of ucp_dt_query(). */
typedef struct ucp_datatype_attr {
    uint64_t    field_mask;  /**< In: enum ucp_datatype_attr_field. */
    size_t      packed_size; /**< Out: bytes of a message from this buffer. */
    const void *buffer;      /**< In: needed for lists and generic types. Default: NULL. */
    size_t      count;       /**< In: elements or list entries. Default: 1. */
} ucp_datatype_attr_t;

/**
 * Make a generic datatype.
 *
 * @param ops         The functions; copied.
 * @param context     First argument of the start functions.
 * @param datatype_p  Receives the datatype; to be destroyed by ucp_dt_destroy() when no request uses it.
 * @return UCS_OK or UCS_ERR_NO_MEMORY.
 * @thread Any, at any time.
 */
ucs_status_t ucp_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p);

/**
 * Destroy a generic datatype; does nothing to others.
 *
 * @param datatype  The datatype; not used afterwards.
 * @thread Any, while no other uses @a datatype.
 */
void ucp_dt_destroy(ucp_datatype_t datatype);

/**
 * Size of a message from a buffer.
 *
 * @param datatype  The datatype.
 * @param attr      In: field_mask, buffer, count. Out: packed_size if asked for.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM without a buffer where one is needed, and for strided types.
 * @thread Any, at any time.
 */
ucs_status_t ucp_dt_query(ucp_datatype_t datatype, ucp_datatype_attr_t *attr);

/* =================================================== endpoints ==================================================== */

/** Valid fields of ucp_ep_params_t. */
enum ucp_ep_params_field {
    UCP_EP_PARAM_FIELD_REMOTE_ADDRESS    = UCS_BIT(0), /**< ucp_ep_params_t::address */
    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE = UCS_BIT(1), /**< ucp_ep_params_t::err_mode */
    UCP_EP_PARAM_FIELD_ERR_HANDLER       = UCS_BIT(2), /**< ucp_ep_params_t::err_handler */
    UCP_EP_PARAM_FIELD_USER_DATA         = UCS_BIT(3), /**< ucp_ep_params_t::user_data */
    UCP_EP_PARAM_FIELD_SOCK_ADDR         = UCS_BIT(4), /**< ucp_ep_params_t::sockaddr */
    UCP_EP_PARAM_FIELD_FLAGS             = UCS_BIT(5), /**< ucp_ep_params_t::flags */
    UCP_EP_PARAM_FIELD_CONN_REQUEST      = UCS_BIT(6), /**< ucp_ep_params_t::conn_request */
    UCP_EP_PARAM_FIELD_NAME              = UCS_BIT(7), /**< ucp_ep_params_t::name */
    UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR   = UCS_BIT(8)  /**< ucp_ep_params_t::local_sockaddr */
};

/** ucp_ep_params_t::flags. */
enum ucp_ep_params_flags_field {
    UCP_EP_PARAMS_FLAGS_CLIENT_SERVER  = UCS_BIT(0), /**< Connect to a listener at ucp_ep_params_t::sockaddr. */
    UCP_EP_PARAMS_FLAGS_NO_LOOPBACK    = UCS_BIT(1), /**< Endpoints to oneself pair up, first with second. */
    UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID = UCS_BIT(2)  /**< Send the server ucp_worker_params_t::client_id. */
};

/** Flags of ucp_ep_close_nbx(), in ucp_request_param_t::flags. */
typedef enum {
    UCP_EP_CLOSE_FLAG_FORCE = UCS_BIT(0) /**< Do not deliver what is not sent yet; PEER mode only. */
} ucp_ep_close_flags_t;

/** Valid fields of ucp_ep_attr_t. */
enum ucp_ep_attr_field {
    UCP_EP_ATTR_FIELD_NAME            = UCS_BIT(0), /**< ucp_ep_attr_t::name */
    UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR  = UCS_BIT(1), /**< ucp_ep_attr_t::local_sockaddr */
    UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR = UCS_BIT(2), /**< ucp_ep_attr_t::remote_sockaddr */
    UCP_EP_ATTR_FIELD_TRANSPORTS      = UCS_BIT(3), /**< ucp_ep_attr_t::transports */
    UCP_EP_ATTR_FIELD_USER_DATA       = UCS_BIT(4)  /**< ucp_ep_attr_t::user_data */
};

/** Results of ucp_ep_query(). */
typedef struct ucp_ep_attr {
    uint64_t                field_mask;                /**< In: enum ucp_ep_attr_field. */
    char                    name[UCP_ENTITY_NAME_MAX]; /**< NUL-terminated. */
    struct sockaddr_storage local_sockaddr;            /**< Of a client/server endpoint: this side. */
    struct sockaddr_storage remote_sockaddr;           /**< Of a client/server endpoint: the other side. */
    ucp_transports_t        transports;                /**< In and out: the lanes. */
    void                   *user_data;                 /**< ucp_ep_params_t::user_data; NULL if none was given, also
                                                        *   where ucp_err_handler_t::arg was. */
} ucp_ep_attr_t;

/** Valid fields of ucp_ep_evaluate_perf_param_t. */
typedef enum ucp_ep_perf_param_field {
    UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE = UCS_BIT(0) /**< ucp_ep_evaluate_perf_param_t::message_size */
} ucp_ep_perf_param_field_t;

/** Input of an estimate. */
typedef struct {
    uint64_t field_mask;   /**< ucp_ep_perf_param_field_t. */
    size_t   message_size; /**< Bytes of the message. */
} ucp_ep_evaluate_perf_param_t;

/** Valid fields of ucp_ep_evaluate_perf_attr_t. */
typedef enum ucp_ep_perf_attr_field {
    UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME = UCS_BIT(0) /**< ucp_ep_evaluate_perf_attr_t::estimated_time */
} ucp_ep_perf_attr_field_t;

/** Result of an estimate. */
typedef struct {
    uint64_t field_mask;     /**< In: ucp_ep_perf_attr_field_t. */
    double   estimated_time; /**< Seconds until a message of that size has arrived. */
} ucp_ep_evaluate_perf_attr_t;

/**
 * Make an endpoint. Never waits for the peer: UCS_OK means that operations may be posted; they are queued until the
 * connection stands. May be called from callbacks. A connection is made for the first operation; with
 * UCP_ERR_HANDLING_MODE_PEER the next progress begins to make it, so that the error handler learns of a peer that is
 * dead, or dies, although nothing is sent to it.
 *
 * @param worker  The worker that will drive the endpoint.
 * @param params  The peer and the attributes; see ucp_ep_params_t. Borrowed for the call.
 * @param ep_p    Receives the endpoint; to be closed by ucp_ep_close_nbx().
 * @return UCS_OK; UCS_ERR_INVALID_PARAM if no peer is named or the address is damaged; UCS_ERR_UNREACHABLE if no
 *         transport leads there, with a log line that says why; UCS_ERR_UNSUPPORTED if the error mode is not the
 *         peer's; UCS_ERR_NO_MEMORY.
 * @thread One that may use @a worker.
 *
 * @code
 * const ucp_ep_params_t params = {
 *     .field_mask     = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
 *                       UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
 *                       UCP_EP_PARAM_FIELD_ERR_HANDLER,
 *     .address        = peer_address,
 *     .err_mode       = UCP_ERR_HANDLING_MODE_PEER,
 *     .err_handler.cb = failed,
 * };
 * ucp_ep_h ep;
 *
 * if (ucp_ep_create(worker, &params, &ep) != UCS_OK) {
 *     return 1;
 * }
 * @endcode
 */
ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p);

/**
 * Close an endpoint. The handle is dead when the call returns, whatever it returns. By default everything
 * posted before is delivered first; with UCP_EP_CLOSE_FLAG_FORCE what is queued ends with UCS_ERR_CANCELED, callbacks
 * running inside the call. The peer of an endpoint made by worker address need not take part. Allowed in
 * callbacks, also in the error handler.
 *
 * @param ep     The endpoint.
 * @param param  flags: ucp_ep_close_flags_t; callback: cb.send.
 * @return NULL: closed. A request: complete when closed; freeing it early leaves the close to progress. An
 *         error: closed nevertheless, except UCS_ERR_INVALID_PARAM for FORCE outside of PEER mode, when it stays open.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);
 *
 * if (UCS_PTR_IS_PTR(request)) {
 *     while (ucp_request_check_status(request) == UCS_INPROGRESS) {
 *         ucp_worker_progress(worker);
 *     }
 *     ucp_request_free(request);
 * }
 * @endcode
 */
ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param);

/**
 * Ask about an endpoint.
 *
 * @param ep    The endpoint.
 * @param attr  In: field_mask and room for the lanes. Out: the members asked for.
 * @return UCS_OK; UCS_ERR_NOT_CONNECTED if a socket address is asked for and there is none.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr);

/**
 * Print an endpoint, its lanes and its protocols, for people; of one that has failed, the reason, too.
 *
 * @param ep      The endpoint.
 * @param stream  Receives the text; stays open.
 * @thread One that may use the worker of @a ep.
 */
void ucp_ep_print_info(ucp_ep_h ep, FILE *stream);

/**
 * Estimate how long a message takes. No communication.
 *
 * @param ep     The endpoint.
 * @param param  The size; its bit must be set.
 * @param attr   In: field_mask. Out: the time in seconds.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM if a bit is missing.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_t ucp_ep_evaluate_perf(ucp_ep_h ep, const ucp_ep_evaluate_perf_param_t *param,
                                  ucp_ep_evaluate_perf_attr_t *attr);

/* =============================================== client and server ================================================ */

/** Valid fields of ucp_listener_params_t. */
enum ucp_listener_params_field {
    UCP_LISTENER_PARAM_FIELD_SOCK_ADDR      = UCS_BIT(0), /**< ucp_listener_params_t::sockaddr */
    UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER = UCS_BIT(1), /**< ucp_listener_params_t::accept_handler */
    UCP_LISTENER_PARAM_FIELD_CONN_HANDLER   = UCS_BIT(2)  /**< ucp_listener_params_t::conn_handler */
};

/** How to listen: an address and exactly one handler. */
typedef struct ucp_listener_params {
    uint64_t                      field_mask;     /**< Which members are set: enum ucp_listener_params_field. */
    ucs_sock_addr_t               sockaddr;       /**< IPv4 or IPv6; port 0: any; wildcard allowed. */
    ucp_listener_accept_handler_t accept_handler; /**< Gets endpoints, ready to use (deprecated). */
    ucp_listener_conn_handler_t   conn_handler;   /**< Gets connection requests, to accept or reject. */
} ucp_listener_params_t;

/** Valid fields of ucp_listener_attr_t. */
enum ucp_listener_attr_field {
    UCP_LISTENER_ATTR_FIELD_SOCKADDR = UCS_BIT(0) /**< ucp_listener_attr_t::sockaddr */
};

/** Results of ucp_listener_query(). */
typedef struct ucp_listener_attr {
    uint64_t                field_mask; /**< In: enum ucp_listener_attr_field. */
    struct sockaddr_storage sockaddr;   /**< The address as given, with the real port. */
} ucp_listener_attr_t;

/** Valid fields of ucp_conn_request_attr_t. */
enum ucp_conn_request_attr_field {
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR = UCS_BIT(0), /**< ucp_conn_request_attr_t::client_address */
    UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID   = UCS_BIT(1)  /**< ucp_conn_request_attr_t::client_id */
};

/** Results of ucp_conn_request_query(). */
typedef struct ucp_conn_request_attr {
    uint64_t                field_mask;     /**< In: enum ucp_conn_request_attr_field. */
    struct sockaddr_storage client_address; /**< IP address and port of the client. */
    uint64_t                client_id;      /**< ucp_worker_params_t::client_id of the client if it is sent, else 0. */
} ucp_conn_request_attr_t;

/**
 * Listen for clients. Progress of the worker reports their requests; a request wakes the worker.
 *
 * @param worker      The worker; outlives the listener.
 * @param params      The address and the handler. Borrowed for the call.
 * @param listener_p  Receives the listener; to be destroyed by ucp_listener_destroy().
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a wrong combination or address family; UCS_ERR_BUSY if the address is in
 *         use; UCS_ERR_UNSUPPORTED if no connection manager is enabled; UCS_ERR_IO_ERROR.
 * @thread One that may use @a worker.
 *
 * @code
 * struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(4711)};
 * const ucp_listener_params_t params = {
 *     .field_mask       = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
 *                         UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
 *     .sockaddr.addr    = (const struct sockaddr *)&any,
 *     .sockaddr.addrlen = sizeof(any),
 *     .conn_handler.cb  = client_asks,
 * };
 * ucp_listener_h listener;
 *
 * if (ucp_listener_create(worker, &params, &listener) != UCS_OK) {
 *     return 1;
 * }
 * @endcode
 */
ucs_status_t ucp_listener_create(ucp_worker_h worker, const ucp_listener_params_t *params, ucp_listener_h *listener_p);

/**
 * Stop listening; clients not yet reported are rejected, endpoints stay, no callback runs any more.
 *
 * @param listener  The listener; not used afterwards.
 * @thread One that may use the worker of @a listener.
 */
void ucp_listener_destroy(ucp_listener_h listener);

/**
 * Ask about a listener.
 *
 * @param listener  The listener.
 * @param attr      In: field_mask. Out: the members asked for.
 * @return UCS_OK.
 * @thread One that may use the worker of @a listener.
 */
ucs_status_t ucp_listener_query(ucp_listener_h listener, ucp_listener_attr_t *attr);

/**
 * Decline a client, whose pending operations and error handler then get UCS_ERR_REJECTED.
 *
 * @param listener      The listener that reported it.
 * @param conn_request  Used up.
 * @return UCS_OK.
 * @thread One that may use the worker of @a listener.
 */
ucs_status_t ucp_listener_reject(ucp_listener_h listener, ucp_conn_request_h conn_request);

/**
 * Ask about a client; before it is accepted or rejected.
 *
 * @param conn_request  The request.
 * @param attr          In: field_mask. Out: the members asked for.
 * @return UCS_OK; UCS_ERR_UNSUPPORTED if the connection manager does not know the address.
 * @thread One that may use the worker of the listener. The worker is not entered.
 */
ucs_status_t ucp_conn_request_query(ucp_conn_request_h conn_request, ucp_conn_request_attr_t *attr);

/* ================================================ tagged messages =================================================
 *
 * A message with tag S fits a receive with tag R and mask M if (S ^ R) & M is 0. Matching is per worker,
 * independent of the sender; messages of one endpoint match in the order sent, whatever their size; an
 * arriving message goes to the earliest posted receive that fits, a new receive takes the earliest arrived message
 * that fits. An empty message is a message; its buffer is not read. */

/**
 * Send a message. Complete when the buffer may be reused, which says nothing about the receiver.
 *
 * @param ep      Endpoint to the receiver.
 * @param buffer  The data; in use until completion.
 * @param count   Elements of the datatype; bytes by default.
 * @param tag     Its tag.
 * @param param   Attributes; callback: cb.send.
 * @return NULL, a request or an error: the failure of the endpoint, UCS_ERR_NO_MEMORY, UCS_ERR_INVALID_PARAM,
 *         UCS_ERR_NO_RESOURCE with FORCE_IMM_CMPL only. A request's callback never runs inside the call, except
 *         with NO_IMM_CMPL.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const ucp_request_param_t param = {
 *     .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK,
 *     .cb.send      = sent,
 * };
 * ucs_status_ptr_t request = ucp_tag_send_nbx(ep, buffer, sizeof(buffer), 7,
 *                                             &param);
 *
 * if (UCS_PTR_IS_ERR(request)) {
 *     fprintf(stderr, "send: %s\n",
 *             ucs_status_string(UCS_PTR_STATUS(request)));
 * }
 * @endcode
 */
ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                  const ucp_request_param_t *param);

/**
 * As ucp_tag_send_nbx(), but complete only when the receiver has matched the message.
 *
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
                                       const ucp_request_param_t *param);

/**
 * Receive a message.
 *
 * @param worker    Where.
 * @param buffer    Room; not touched before a message matches nor after completion.
 * @param count     Elements of the datatype; bytes by default.
 * @param tag       Wanted tag.
 * @param tag_mask  The bits of it that count; 0 takes any message.
 * @param param     Attributes; callback: cb.recv; recv_info.tag_info for a receive that is complete at once.
 * @return NULL: complete, recv_info filled, callback not called. A request: its callback may have run inside the
 *         call. An error; UCS_ERR_MESSAGE_TRUNCATED if a message longer than the buffer was waiting, which is used
 *         up; UCS_ERR_NO_RESOURCE if none was waiting and FORCE_IMM_CMPL is set.
 * @thread One that may use @a worker.
 *
 * @code
 * ucp_tag_recv_info_t info = {.length = 0};
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucs_status_ptr_t request = ucp_tag_recv_nbx(worker, buffer, sizeof(buffer),
 *                                             7, UINT64_MAX, &param);
 *
 * if (UCS_PTR_IS_PTR(request)) {
 *     while (ucp_tag_recv_request_test(request, &info) == UCS_INPROGRESS) {
 *         ucp_worker_progress(worker);
 *     }
 *     ucp_request_free(request);
 * }
 * @endcode
 */
ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t tag_mask,
                                  const ucp_request_param_t *param);

/**
 * Look for a message that has arrived and no receive has taken. Does not progress.
 *
 * @param worker    Where.
 * @param tag       Wanted tag.
 * @param tag_mask  The bits of it that count.
 * @param remove    0: leave the message; the result is only a truth value. 1: take it out of the queue; the result
 *                  must be received by ucp_tag_msg_recv_nbx() exactly once.
 * @param info      Filled if there is one: tag and full length.
 * @return The message, or NULL if there is none.
 * @thread One that may use @a worker.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucp_tag_recv_info_t info;
 * ucp_tag_message_h message = ucp_tag_probe_nb(worker, 0, 0, 1, &info);
 *
 * if (message != NULL && info.length <= sizeof(buffer)) {
 *     wait_for(ucp_tag_msg_recv_nbx(worker, buffer, info.length, message,
 *                                   &param));
 * }
 * @endcode
 */
ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask, int remove,
                                   ucp_tag_recv_info_t *info);

/**
 * Receive a message that ucp_tag_probe_nb() took out of the queue.
 *
 * @param worker   Where it was found.
 * @param buffer   Room.
 * @param count    Elements of the datatype; bytes by default.
 * @param message  The message; used up.
 * @param param    As for ucp_tag_recv_nbx().
 * @return As ucp_tag_recv_nbx().
 * @thread One that may use @a worker.
 */
ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_message_h message,
                                      const ucp_request_param_t *param);

/* ================================================ active messages =================================================
 *
 * A message with a 16-bit identifier, a header and a payload calls a handler at the receiver, from its progress. A
 * payload comes whole (eager) or as a descriptor from which the handler, or anyone later, fetches it (rendezvous). */

/** Of handlers: ucp_am_handler_param_t::flags. */
enum ucp_am_cb_flags {
    UCP_AM_FLAG_WHOLE_MSG       = UCS_BIT(0), /**< Called for whole messages only; always so. */
    UCP_AM_FLAG_PERSISTENT_DATA = UCS_BIT(1)  /**< Data may be kept in every call. */
};

/** Of sends: ucp_request_param_t::flags. */
enum ucp_send_am_flags {
    UCP_AM_SEND_FLAG_REPLY       = UCS_BIT(0), /**< The handler gets an endpoint to the sender. */
    UCP_AM_SEND_FLAG_EAGER       = UCS_BIT(1), /**< The payload comes whole, whatever its size. */
    UCP_AM_SEND_FLAG_RNDV        = UCS_BIT(2), /**< The payload comes as a descriptor, whatever its size. */
    UCP_AM_SEND_FLAG_COPY_HEADER = UCS_BIT(3), /**< The header may be reused when the call returns. */
    UCP_AM_SEND_REPLY            = UCP_AM_SEND_FLAG_REPLY /**< Older name. */
};

/** Of callbacks of the old form. */
enum ucp_cb_param_flags {
    UCP_CB_PARAM_FLAG_DATA = UCS_BIT(0) /**< Data may be kept by returning UCS_INPROGRESS. */
};

/** ucp_am_recv_param_t::recv_attr. */
typedef enum {
    UCP_AM_RECV_ATTR_FIELD_REPLY_EP = UCS_BIT(0),  /**< ucp_am_recv_param_t::reply_ep is valid. */
    UCP_AM_RECV_ATTR_FLAG_DATA      = UCS_BIT(16), /**< The data may be kept by returning UCS_INPROGRESS. */
    UCP_AM_RECV_ATTR_FLAG_RNDV      = UCS_BIT(17)  /**< The data is a descriptor for ucp_am_recv_data_nbx(). */
} ucp_am_recv_attr_t;

/** Description of the message that a handler gets. */
struct ucp_am_recv_param {
    uint64_t recv_attr; /**< OR of ucp_am_recv_attr_t. */
    ucp_ep_h reply_ep;  /**< To the sender, or NULL if it wants no reply; need not be closed. */
};

/** Valid fields of ucp_am_handler_param_t. */
enum ucp_am_handler_param_field {
    UCP_AM_HANDLER_PARAM_FIELD_ID    = UCS_BIT(0), /**< ucp_am_handler_param_t::id */
    UCP_AM_HANDLER_PARAM_FIELD_FLAGS = UCS_BIT(1), /**< ucp_am_handler_param_t::flags */
    UCP_AM_HANDLER_PARAM_FIELD_CB    = UCS_BIT(2), /**< ucp_am_handler_param_t::cb */
    UCP_AM_HANDLER_PARAM_FIELD_ARG   = UCS_BIT(3)  /**< ucp_am_handler_param_t::arg */
};

/** A handler. */
typedef struct ucp_am_handler_param {
    uint64_t               field_mask; /**< Which members are set; ID and CB are needed. */
    unsigned               id;         /**< Identifier, 0 to 65535; others are refused. */
    uint32_t               flags;      /**< OR of enum ucp_am_cb_flags; other bits are refused. Default: 0. */
    ucp_am_recv_callback_t cb;         /**< Called for each message; NULL removes the handler. */
    void                  *arg;        /**< Its first argument. Default: NULL. */
} ucp_am_handler_param_t;

/**
 * Install, replace or remove a handler. Allowed in callbacks.
 *
 * @param worker  The worker that receives.
 * @param param   The handler. Borrowed for the call.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM; UCS_ERR_NO_MEMORY.
 * @thread One that may use @a worker.
 *
 * @code
 * const ucp_am_handler_param_t param = {
 *     .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
 *                   UCP_AM_HANDLER_PARAM_FIELD_CB,
 *     .id         = 1,
 *     .cb         = arrived,
 * };
 *
 * if (ucp_worker_set_am_recv_handler(worker, &param) != UCS_OK) {
 *     return 1;
 * }
 * @endcode
 */
ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param);

/**
 * Send an active message. An eager one is complete when its buffers may be reused, a rendezvous when the receiver has
 * fetched or dropped the payload, with the status of its handler.
 *
 * @param ep             Endpoint to the receiver.
 * @param id             Which handler, 0 to 65535.
 * @param header         Bytes handed to it; in use until completion unless COPY_HEADER is given.
 * @param header_length  How many: 0 to ucp_worker_attr_t::max_am_header.
 * @param buffer         Payload; in use until completion.
 * @param count          Elements of the datatype; bytes by default.
 * @param param          Attributes; flags: enum ucp_send_am_flags; callback: cb.send.
 * @return As ucp_tag_send_nbx().
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const uint32_t header           = 42;
 * const ucp_request_param_t param = {
 *     .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK,
 *     .flags        = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_COPY_HEADER,
 *     .cb.send      = sent,
 * };
 * ucs_status_ptr_t request = ucp_am_send_nbx(ep, 1, &header, sizeof(header),
 *                                            buffer, sizeof(buffer), &param);
 *
 * if (UCS_PTR_IS_ERR(request)) {
 *     return 1;
 * }
 * @endcode
 */
ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param);

/**
 * Fetch the payload of a message: in the handler, or later if that returned UCS_INPROGRESS. Takes @a
 * data_desc over in every case. A count of 0 drops a rendezvous message.
 *
 * @param worker     The worker that received it.
 * @param data_desc  What the handler got as data.
 * @param buffer     Room; in use until completion.
 * @param count      Elements of the datatype; bytes by default.
 * @param param      Attributes; callback: cb.recv_am; recv_info.length for a fetch that is complete at once.
 * @return NULL, a request or an error: UCS_ERR_INVALID_PARAM for a descriptor already used, UCS_ERR_MESSAGE_TRUNCATED
 *         if the buffer is too small.
 * @thread One that may use @a worker.
 *
 * @code
 * size_t length                   = 0;
 * const ucp_request_param_t param = {
 *     .op_attr_mask     = UCP_OP_ATTR_FIELD_CALLBACK |
 *                         UCP_OP_ATTR_FIELD_RECV_INFO,
 *     .cb.recv_am       = fetched,
 *     .recv_info.length = &length,
 * };
 * ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker, data_desc, buffer,
 *                                                 sizeof(buffer), &param);
 * @endcode
 */
ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer, size_t count,
                                      const ucp_request_param_t *param);

/**
 * Give back what a handler kept; a payload not fetched is dropped, its sender completes with UCS_OK.
 *
 * @param worker  The worker that received it.
 * @param data    The payload or the descriptor; not used afterwards.
 * @thread One that may use @a worker.
 */
void ucp_am_data_release(ucp_worker_h worker, void *data);

/* ==================================================== streams =====================================================
 *
 * Each endpoint carries one ordered stream of bytes in each direction; the boundaries of sends are not seen. */

/** Of receives: ucp_request_param_t::flags. */
typedef enum {
    UCP_STREAM_RECV_FLAG_WAITALL = UCS_BIT(0) /**< Complete only when the whole buffer is filled. */
} ucp_stream_recv_flags_t;

/** An endpoint that ucp_stream_worker_poll() reports. */
typedef struct ucp_stream_poll_ep {
    ucp_ep_h ep;           /**< Has data. */
    void    *user_data;    /**< ucp_ep_params_t::user_data of it. */
    unsigned flags;        /**< Reserved. */
    uint8_t  reserved[16]; /**< Reserved. */
} ucp_stream_poll_ep_t;

/**
 * Append to the stream. Complete when the buffer may be reused.
 *
 * @param ep      Endpoint to the receiver.
 * @param buffer  The data; in use until completion.
 * @param count   Elements of the datatype; bytes by default.
 * @param param   Attributes; flags: none exist; callback: cb.send.
 * @return As ucp_tag_send_nbx().
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 *
 * wait_for(ucp_stream_send_nbx(ep, "hello\n", 6, &param));
 * @endcode
 */
ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, const ucp_request_param_t *param);

/**
 * Take from the stream: as much as is there, at least one whole element and whole elements only, or with WAITALL all of
 * @a count. Receives of an endpoint are served in the order posted.
 *
 * @param ep      Endpoint to the sender.
 * @param buffer  Room; in use until completion.
 * @param count   Elements of the datatype; bytes by default.
 * @param length  Receives the bytes stored if NULL is returned.
 * @param param   Attributes; flags: ucp_stream_recv_flags_t; callback: cb.recv_stream.
 * @return NULL, a request (the length comes by the callback or ucp_stream_recv_request_test()) or an error.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * size_t length                   = 0;
 * const ucp_request_param_t param = {
 *     .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
 *     .flags        = UCP_STREAM_RECV_FLAG_WAITALL,
 * };
 * ucs_status_ptr_t request = ucp_stream_recv_nbx(ep, buffer, 100, &length,
 *                                                &param);
 *
 * if (UCS_PTR_IS_PTR(request)) {
 *     while (ucp_stream_recv_request_test(request, &length) ==
 *            UCS_INPROGRESS) {
 *         ucp_worker_progress(worker);
 *     }
 *     ucp_request_free(request);
 * }
 * @endcode
 */
ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                     const ucp_request_param_t *param);

/**
 * Take from the stream without copying. Not while receives are posted on @a ep.
 *
 * @param ep      Endpoint to the sender.
 * @param length  Receives the number of bytes.
 * @return NULL: nothing there. Data of the library's, for ucp_stream_data_release(). An error.
 * @thread One that may use the worker of @a ep.
 */
ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length);

/**
 * Give back what ucp_stream_recv_data_nb() returned; in any order.
 *
 * @param ep    The endpoint that delivered it.
 * @param data  The data; not used afterwards.
 * @thread One that may use the worker of @a ep. The worker is not entered.
 */
void ucp_stream_data_release(ucp_ep_h ep, void *data);

/**
 * List the endpoints that have got new data. Each is listed once, until more arrives; so a program reads
 * all that an endpoint has. Does not progress.
 *
 * @param worker    The worker.
 * @param poll_eps  Receives them.
 * @param max_eps   Room, in entries.
 * @param flags     Reserved and ignored.
 * @return Number of entries filled; a negative ucs_status_t on error.
 * @thread One that may use @a worker.
 */
ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned flags);

/* ================================================ memory and keys ================================================= */

/** ucp_mem_map_params_t::flags. */
enum {
    UCP_MEM_MAP_NONBLOCK       = UCS_BIT(0), /**< Hint: pages may be populated later. */
    UCP_MEM_MAP_ALLOCATE       = UCS_BIT(1), /**< The library allocates. */
    UCP_MEM_MAP_FIXED          = UCS_BIT(2), /**< Allocate exactly at the address, replacing what is there. */
    UCP_MEM_MAP_SYMMETRIC_RKEY = UCS_BIT(3), /**< Hint: peers map memory of the same shape. */
    UCP_MEM_MAP_LOCK           = UCS_BIT(4)  /**< Pages are there when the call returns; not with NONBLOCK. */
};

/** ucp_mem_map_params_t::prot. */
enum {
    UCP_MEM_MAP_PROT_LOCAL_READ   = UCS_BIT(0), /**< This process reads. */
    UCP_MEM_MAP_PROT_LOCAL_WRITE  = UCS_BIT(1), /**< This process writes. */
    UCP_MEM_MAP_PROT_REMOTE_READ  = UCS_BIT(8), /**< Peers read. */
    UCP_MEM_MAP_PROT_REMOTE_WRITE = UCS_BIT(9)  /**< Peers write. */
};

/** Valid fields of ucp_mem_map_params_t. */
enum ucp_mem_map_params_field {
    UCP_MEM_MAP_PARAM_FIELD_ADDRESS              = UCS_BIT(0), /**< ucp_mem_map_params_t::address */
    UCP_MEM_MAP_PARAM_FIELD_LENGTH               = UCS_BIT(1), /**< ucp_mem_map_params_t::length */
    UCP_MEM_MAP_PARAM_FIELD_FLAGS                = UCS_BIT(2), /**< ucp_mem_map_params_t::flags */
    UCP_MEM_MAP_PARAM_FIELD_PROT                 = UCS_BIT(3), /**< ucp_mem_map_params_t::prot */
    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE          = UCS_BIT(4), /**< ucp_mem_map_params_t::memory_type */
    UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER = UCS_BIT(5)  /**< ucp_mem_map_params_t::exported_memh_buffer */
};

/** Which memory. LENGTH is needed, or EXPORTED_MEMH_BUFFER. */
typedef struct ucp_mem_map_params {
    uint64_t          field_mask;           /**< Which members are set: enum ucp_mem_map_params_field. */
    void             *address;              /**< First byte; with ALLOCATE a hint, or with FIXED too a requirement. */
    size_t            length;               /**< Bytes; 0 gives a handle to nothing. */
    unsigned          flags;                /**< OR of UCP_MEM_MAP_NONBLOCK and following. Default: 0. */
    unsigned          prot;                 /**< OR of UCP_MEM_MAP_PROT_*. Default: all four. */
    ucs_memory_type_t memory_type;          /**< Default: found out; host if allocated. */
    const void       *exported_memh_buffer; /**< Another process's handle, packed with EXPORT. */
} ucp_mem_map_params_t;

/** Valid fields of ucp_mem_advise_params_t. */
enum ucp_mem_advise_params_field {
    UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS = UCS_BIT(0), /**< ucp_mem_advise_params_t::address */
    UCP_MEM_ADVISE_PARAM_FIELD_LENGTH  = UCS_BIT(1), /**< ucp_mem_advise_params_t::length */
    UCP_MEM_ADVISE_PARAM_FIELD_ADVICE  = UCS_BIT(2)  /**< ucp_mem_advise_params_t::advice */
};

/** Advice about the use of memory. */
typedef enum ucp_mem_advice {
    UCP_MADV_NORMAL = 0, /**< Nothing special. */
    UCP_MADV_WILLNEED    /**< Will be used soon. */
} ucp_mem_advice_t;

/** Advice for a part of registered memory; all members are needed. */
typedef struct ucp_mem_advise_params {
    uint64_t         field_mask; /**< Which members are set: enum ucp_mem_advise_params_field. */
    void            *address;    /**< First byte, inside the registration. */
    size_t           length;     /**< Bytes, ending inside the registration. */
    ucp_mem_advice_t advice;     /**< What will be done with them. */
} ucp_mem_advise_params_t;

/** Valid fields of ucp_memh_pack_params_t. */
enum ucp_memh_pack_params_field {
    UCP_MEMH_PACK_PARAM_FIELD_FLAGS = UCS_BIT(0) /**< ucp_memh_pack_params_t::flags */
};

/** ucp_memh_pack_params_t::flags. */
enum ucp_memh_pack_flags {
    UCP_MEMH_PACK_FLAG_EXPORT = UCS_BIT(0) /**< For import by ucp_mem_map() instead of as a remote key. */
};

/** How to pack a handle. */
typedef struct ucp_memh_pack_params {
    uint64_t field_mask; /**< Which members are set: enum ucp_memh_pack_params_field. */
    uint64_t flags;      /**< OR of enum ucp_memh_pack_flags. Default: 0, a remote key. */
} ucp_memh_pack_params_t;

/** Reserved for ucp_memh_buffer_release(). */
typedef struct ucp_memh_buffer_release_params {
    uint64_t field_mask; /**< 0: there are no members yet. */
} ucp_memh_buffer_release_params_t;

/** Reserved for ucp_rkey_compare(). */
typedef struct ucp_rkey_compare_params {
    uint64_t field_mask; /**< 0: there are no members yet. */
} ucp_rkey_compare_params_t;

/**
 * Register memory of the program, allocate and register, or import.
 *
 * @param context  The context.
 * @param params   Which. Borrowed for the call; memory of the program's stays its own.
 * @param memh_p   Receives the handle; to be given to ucp_mem_unmap().
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a contradiction; UCS_ERR_NO_MEMORY; UCS_ERR_UNSUPPORTED for a kind of
 *         memory that cannot be served; UCS_ERR_UNREACHABLE if it cannot be imported here.
 * @thread One that may use @a context.
 *
 * @code
 * const ucp_mem_map_params_t params = {
 *     .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
 *                   UCP_MEM_MAP_PARAM_FIELD_LENGTH,
 *     .address    = buffer,
 *     .length     = sizeof(buffer),
 * };
 * ucp_mem_h memh;
 *
 * if (ucp_mem_map(context, &params, &memh) != UCS_OK) {
 *     return 1;
 * }
 * @endcode
 */
ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh_p);

/**
 * End a registration that no operation uses; frees what the library allocated.
 *
 * @param context  The context of @a memh.
 * @param memh     The handle; not used afterwards.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM without a handle.
 * @thread One that may use @a context.
 */
ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh);

/**
 * Ask about registered memory.
 *
 * @param memh  The handle.
 * @param attr  In: field_mask. Out: the members asked for.
 * @return UCS_OK.
 * @thread One that may use the context of @a memh.
 */
ucs_status_t ucp_mem_query(const ucp_mem_h memh, ucp_mem_attr_t *attr);

/**
 * Map some memory, print how that was done, for people, and unmap it.
 *
 * @param mem_spec  "size" or "size,kind": "1m", "4096,host".
 * @param context   The context.
 * @param stream    Where to.
 * @thread One that may use @a context.
 */
void ucp_mem_print_info(const char *mem_spec, ucp_context_h context, FILE *stream);

/**
 * Advise.
 *
 * @param context  The context of @a memh.
 * @param memh     The registration.
 * @param params   Which part, what. Borrowed for the call.
 * @return UCS_OK, also if nothing is done; UCS_ERR_INVALID_PARAM for a range outside or a missing member.
 * @thread One that may use @a context.
 */
ucs_status_t ucp_mem_advise(ucp_context_h context, ucp_mem_h memh, ucp_mem_advise_params_t *params);

/**
 * Pack a handle into bytes that can be carried to a peer by any means: a remote key for ucp_ep_rkey_unpack(), or with
 * EXPORT something for ucp_mem_map().
 *
 * @param memh           The handle.
 * @param params         How. Borrowed for the call.
 * @param buffer_p       Receives the bytes; to be freed by ucp_memh_buffer_release().
 * @param buffer_size_p  Receives their number: at most 64 for a remote key.
 * @return UCS_OK; UCS_ERR_UNSUPPORTED if it cannot be exported; UCS_ERR_NO_MEMORY.
 * @thread One that may use the context of @a memh.
 */
ucs_status_t ucp_memh_pack(ucp_mem_h memh, const ucp_memh_pack_params_t *params, void **buffer_p,
                           size_t *buffer_size_p);

/**
 * Free the bytes that ucp_memh_pack() delivered.
 *
 * @param buffer  The bytes; not used afterwards.
 * @param params  field_mask 0.
 * @thread Any, at any time.
 */
void ucp_memh_buffer_release(void *buffer, const ucp_memh_buffer_release_params_t *params);

/**
 * Make a key from packed bytes. Needs no connection.
 *
 * @param ep           Endpoint to the owner of the memory.
 * @param rkey_buffer  The bytes, at any alignment; may be freed after the call.
 * @param rkey_p       Receives the key, for operations on @a ep; to be destroyed by ucp_rkey_destroy().
 * @return UCS_OK; UCS_ERR_UNREACHABLE if there is no path to the memory; UCS_ERR_INVALID_PARAM if the bytes are no key.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * ucp_rkey_h rkey;
 * ucs_status_t status = ucp_ep_rkey_unpack(ep, rkey_buffer, &rkey);
 *
 * if (status != UCS_OK) {
 *     fprintf(stderr, "ucp_ep_rkey_unpack: %s\n",
 *             ucs_status_string(status));
 *     return 1;
 * }
 * @endcode
 */
ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p);

/**
 * A pointer by which this process reaches remote memory with plain loads and stores.
 *
 * @param rkey    The key.
 * @param raddr   Address at the owner.
 * @param addr_p  Receives the local address, valid until ucp_rkey_destroy().
 * @return UCS_OK; UCS_ERR_UNREACHABLE if it cannot be mapped here; UCS_ERR_INVALID_ADDR if outside of the memory.
 * @thread One that may use the key's context.
 */
ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t raddr, void **addr_p);

/**
 * Bring keys into an order.
 *
 * @param worker  The worker of both.
 * @param rkey1   One.
 * @param rkey2   The other.
 * @param params  field_mask 0.
 * @param result  Receives a number below, equal to or above 0; 0: they are interchangeable.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM without @a result or with a mask.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_rkey_compare(ucp_worker_h worker, ucp_rkey_h rkey1, ucp_rkey_h rkey2,
                              const ucp_rkey_compare_params_t *params, int *result);

/**
 * Destroy a key that no operation uses; before or after its endpoint is closed.
 *
 * @param rkey  The key; not used afterwards.
 * @thread One that may use the key's context.
 */
void ucp_rkey_destroy(ucp_rkey_h rkey);

/* ========================================= remote memory access, atomics ==========================================
 *
 * Operations on a peer's registered memory. The peer makes progress and does nothing else. Completion is
 * local: flush below adds completion at the owner, fence adds order. Without them there is no order. */

/**
 * Write. Complete when the buffer may be reused, not when the data is visible at the owner.
 *
 * @param ep           Endpoint to the owner.
 * @param buffer       The data; in use until completion.
 * @param count        Elements of the datatype (contiguous, list or SGL); bytes by default. 0: NULL at once.
 * @param remote_addr  Where, at the owner; any alignment. SGL: UCP_REMOTE_ADDR_INVALID.
 * @param rkey         Key of that memory. SGL: UCP_RKEY_INVALID.
 * @param param        Attributes; callback: cb.send.
 * @return NULL, a request or an error: UCS_ERR_UNREACHABLE, UCS_ERR_INVALID_PARAM, UCS_ERR_NO_MEMORY, or the failure of
 *         the endpoint. The request may be freed at once; a later flush still covers the operation.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucs_status_ptr_t request = ucp_put_nbx(ep, buffer, sizeof(buffer),
 *                                        remote_addr, rkey, &param);
 *
 * wait_for(request);
 * wait_for(ucp_ep_flush_nbx(ep, &param));
 * @endcode
 */
ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param);

/**
 * Read; complete when the data is in @a buffer. Parameters and results as ucp_put_nbx().
 *
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 *
 * wait_for(ucp_get_nbx(ep, buffer, sizeof(buffer), remote_addr, rkey,
 *                      &param));
 * @endcode
 */
ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param);

/** Operations of ucp_atomic_op_nbx(), on a remote word *p. */
typedef enum {
    UCP_ATOMIC_OP_ADD,   /**< *p += operand, wrapping */
    UCP_ATOMIC_OP_SWAP,  /**< *p = operand; needs a reply buffer */
    UCP_ATOMIC_OP_CSWAP, /**< if (*p == operand) *p = value in the reply buffer; needs one */
    UCP_ATOMIC_OP_AND,   /**< *p &= operand */
    UCP_ATOMIC_OP_OR,    /**< *p |= operand */
    UCP_ATOMIC_OP_XOR,   /**< *p ^= operand */
    UCP_ATOMIC_OP_LAST   /**< Number of operations. */
} ucp_atomic_op_t;

/**
 * Change a remote word of 4 or 8 bytes, atomically among all UCP atomics of that width. With a reply buffer
 * (FIELD_REPLY_BUFFER) the old value comes back and completion means that it is there; without one, for ADD, AND, OR
 * and XOR only, the call returns NULL at once and a later flush completes it.
 *
 * @param ep           Endpoint to the owner.
 * @param opcode       What to do.
 * @param buffer       The operand in host byte order, captured before the call returns; for CSWAP the value to compare.
 * @param count        1.
 * @param remote_addr  The word, naturally aligned.
 * @param rkey         Key of that memory.
 * @param param        Attributes: FIELD_DATATYPE is needed, ucp_dt_make_contig(4) or (8); callback: cb.send.
 * @return NULL, a request or an error: UCS_ERR_INVALID_PARAM for another width, alignment or combination.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const uint64_t one              = 1;
 * uint64_t before                 = 0;
 * const ucp_request_param_t param = {
 *     .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
 *                     UCP_OP_ATTR_FIELD_REPLY_BUFFER,
 *     .datatype     = ucp_dt_make_contig(8),
 *     .reply_buffer = &before,
 * };
 *
 * wait_for(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, remote_addr,
 *                            rkey, &param));
 * @endcode
 */
ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                   uint64_t remote_addr, ucp_rkey_h rkey, const ucp_request_param_t *param);

/* ================================================ flush and fence ================================================= */

/**
 * Complete when every put, get and atomic posted on @a ep before, freed requests included, is complete here and at the
 * owner, and every message sent before is with the system or the peer; a rendezvous that no receive has matched is not
 * waited for. Waits for a connection that is being made. An endpoint that was never used makes its
 * connection for the flush, so that the status says whether the peer is there; with error handling the flush waits for
 * progress of the peer. Exception: if the program has a key of memory of that peer which it reaches by loads and
 * stores, their effects are complete without a connection.
 *
 * @param ep     The endpoint.
 * @param param  Attributes; callback: cb.send.
 * @return NULL: nothing outstanding. A request. The failure of the endpoint.
 * @thread One that may use the worker of @a ep.
 *
 * @code
 * const ucp_request_param_t param = {.op_attr_mask = 0};
 * ucs_status_ptr_t request = ucp_ep_flush_nbx(ep, &param);
 *
 * if (UCS_PTR_IS_PTR(request)) {
 *     while (ucp_request_check_status(request) == UCS_INPROGRESS) {
 *         ucp_worker_progress(worker);
 *     }
 *     ucp_request_free(request);
 * }
 * @endcode
 */
ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param);

/**
 * As ucp_ep_flush_nbx() for all endpoints of a worker; one that fails does not make it fail. Endpoints
 * on which nothing was posted are left out.
 *
 * @thread One that may use @a worker.
 */
ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t *param);

/**
 * Order one-sided operations: for each target, puts, gets and atomics posted before take effect before those posted
 * after. The call completes nothing. Tag messages, active messages and streams are not ordered by it.
 *
 * @param worker  The worker.
 * @return UCS_OK or the reason why order cannot be promised.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_worker_fence(ucp_worker_h worker);

#pragma GCC visibility pop
END_C_DECLS

#endif
