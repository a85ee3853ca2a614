/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host's side of operations that a device (a GPU) starts by itself: lists of memory that it may use, and counters.
 * Callers: programs; ucp.h does not include this header.
 *
 * The library has no code for devices. So counters work, in memory of the host; lists are checked as specified and
 * then refused with UCS_ERR_UNSUPPORTED and a log line. ucp_context_attr_t::device_counter_size is the size of a
 * counter.
 */
#ifndef UCP_DEVICE_HOST_H
#define UCP_DEVICE_HOST_H

#include <ucp/api/ucp_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Valid fields of ucp_device_mem_list_elem_t. */
enum ucp_device_mem_list_elem_field {
    UCP_DEVICE_MEM_LIST_ELEM_FIELD_MEMH        = UCS_BIT(0), /**< ucp_device_mem_list_elem_t::memh */
    UCP_DEVICE_MEM_LIST_ELEM_FIELD_RKEY        = UCS_BIT(1), /**< ucp_device_mem_list_elem_t::rkey */
    UCP_DEVICE_MEM_LIST_ELEM_FIELD_LOCAL_ADDR  = UCS_BIT(2), /**< ucp_device_mem_list_elem_t::local_addr */
    UCP_DEVICE_MEM_LIST_ELEM_FIELD_REMOTE_ADDR = UCS_BIT(3), /**< ucp_device_mem_list_elem_t::remote_addr */
    UCP_DEVICE_MEM_LIST_ELEM_FIELD_LENGTH      = UCS_BIT(4), /**< ucp_device_mem_list_elem_t::length */
    UCP_DEVICE_MEM_LIST_ELEM_FIELD_EP          = UCS_BIT(5)  /**< ucp_device_mem_list_elem_t::ep */
};

/** One entry of a list. */
typedef struct ucp_device_mem_list_elem {
    uint64_t   field_mask;  /**< Which members are set. 0 in a list of remote memory: a gap that keeps its number. */
    ucp_mem_h  memh;        /**< Local: the registration; needed. */
    void      *local_addr;  /**< Local: first byte. Default: that of the registration. */
    size_t     length;      /**< Not used. */
    uint64_t   remote_addr; /**< Remote: address at the owner. Default: none, for counters. */
    ucp_rkey_h rkey;        /**< Remote: the key; needed. */
    ucp_ep_h   ep;          /**< Remote: endpoint to the owner; needed, and connected. */
} ucp_device_mem_list_elem_t;

/** Valid fields of ucp_device_mem_list_params_t. */
enum ucp_device_mem_list_params_field {
    UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENTS     = UCS_BIT(0), /**< ucp_device_mem_list_params_t::elements */
    UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENT_SIZE = UCS_BIT(1), /**< ucp_device_mem_list_params_t::element_size */
    UCP_DEVICE_MEM_LIST_PARAMS_FIELD_NUM_ELEMENTS = UCS_BIT(2), /**< ucp_device_mem_list_params_t::num_elements */
    UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER       = UCS_BIT(3)  /**< ucp_device_mem_list_params_t::worker */
};

/** Entries of a list to be made. All members but `worker` of a remote list are needed, and not 0. */
typedef struct ucp_device_mem_list_params {
    uint64_t                          field_mask;   /**< Which: enum ucp_device_mem_list_params_field. */
    size_t                            element_size; /**< Distance of the entries: the caller's size of one. */
    size_t                            num_elements; /**< How many. */
    ucp_worker_h                      worker;       /**< Local lists: the worker whose lanes the device uses. */
    const ucp_device_mem_list_elem_t *elements;     /**< The entries. Borrowed for the call. */
} ucp_device_mem_list_params_t;

/** Valid fields of ucp_device_counter_params_t. */
enum ucp_device_counter_params_field {
    UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE = UCS_BIT(0), /**< ucp_device_counter_params_t::mem_type */
    UCP_DEVICE_COUNTER_PARAMS_FIELD_MEMH     = UCS_BIT(1)  /**< ucp_device_counter_params_t::memh */
};

/** Where a counter lies. */
typedef struct ucp_device_counter_params {
    uint64_t          field_mask; /**< Which members are set: enum ucp_device_counter_params_field. */
    ucs_memory_type_t mem_type;   /**< Kind of the memory. Default: that of memh, else found out. */
    ucp_mem_h         memh;       /**< Registration of it. Default: none. */
} ucp_device_counter_params_t;

/**
 * Make a list of memory of this process.
 *
 * @param params      Its entries. Borrowed for the call.
 * @param mem_list_h  Receives the list, for ucp_device_mem_list_release(); left as it is on failure.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a member or registration that is missing; UCS_ERR_UNSUPPORTED without a
 *         device that could use it.
 * @thread One that may use the workers of the list's endpoints and memory.
 */
ucs_status_t ucp_device_local_mem_list_create(const ucp_device_mem_list_params_t *params,
                                              ucp_device_local_mem_list_h *mem_list_h);

/**
 * Make a list of memory of peers.
 *
 * @param params      Its entries. Borrowed for the call.
 * @param mem_list_h  Receives the list, for ucp_device_mem_list_release(); left as it is on failure.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a missing member, key or endpoint, or if there are only gaps;
 *         UCS_ERR_NOT_CONNECTED, without a log line, while an endpoint has no connection: progress and call again;
 *         UCS_ERR_UNSUPPORTED without a device that could use it; the failure of an endpoint.
 * @thread One that may use the workers of the list's endpoints and memory.
 */
ucs_status_t ucp_device_remote_mem_list_create(const ucp_device_mem_list_params_t *params,
                                               ucp_device_remote_mem_list_h *mem_list_h);

/**
 * Number of entries of a list of either kind, gaps included.
 *
 * @param mem_list_h  The list.
 * @return The number; 0 if @a mem_list_h is no list of this library.
 * @thread One that may use the workers of the list's endpoints and memory.
 */
uint32_t ucp_device_get_mem_list_length(const void *mem_list_h);

/**
 * Free a list of either kind. An object that is no list of this library is left alone, with a log line.
 *
 * @param mem_list_h  The list; not used afterwards.
 * @thread One that may use the workers of the list's endpoints and memory.
 */
void ucp_device_mem_list_release(void *mem_list_h);

/**
 * Set a counter of 64 bits to 0.
 *
 * @param worker       The worker that copies, where the memory is of a device.
 * @param params       Where the counter lies. Borrowed for the call.
 * @param counter_ptr  The counter.
 * @return UCS_OK; UCS_ERR_INVALID_PARAM for a registration that does not hold the counter; UCS_ERR_UNSUPPORTED for
 *         memory that no memory domain copies.
 * @thread One that may use @a worker.
 */
ucs_status_t ucp_device_counter_init(ucp_worker_h worker, const ucp_device_counter_params_t *params,
                                     void *counter_ptr);

/**
 * Read a counter of 64 bits.
 *
 * @param worker       The worker that copies, where the memory is of a device.
 * @param params       Where the counter lies. Borrowed for the call.
 * @param counter_ptr  The counter.
 * @return The value; 0, with a log line, if it cannot be read.
 * @thread One that may use @a worker.
 */
uint64_t ucp_device_counter_read(ucp_worker_h worker, const ucp_device_counter_params_t *params, void *counter_ptr);

#pragma GCC visibility pop
END_C_DECLS

#endif
