/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host side of operations that devices start by themselves: memory lists and counters. There is no device code, so
 * no list is ever created: each call checks its arguments and then returns UCS_ERR_UNSUPPORTED. Before that, a program
 * that repeats the call until its endpoints are connected gets UCS_ERR_NOT_CONNECTED while they are not.
 */
#include "ucp/api/device/ucp_host.h"

#include <stddef.h>

#include "api/call.h"
#include "mem/copy.h"

/* Whether entries of that size have the member that their mask names. */
#define HOLDS(size, member) \
    ((size) >= offsetof(ucp_device_mem_list_elem_t, member) + sizeof(((ucp_device_mem_list_elem_t *)0)->member))

static ucs_status_t refuse(const char *call, size_t entry, const char *what)
{
    cw_error("%s: element %zu %s", call, entry, what);
    return UCS_ERR_INVALID_PARAM;
}

/* `needed`: of enum ucp_device_mem_list_params_field. */
static ucs_status_t check_params(const ucp_device_mem_list_params_t *params, uint64_t needed, const char *call)
{
    CW_CALL_RETURN_IF_NULL(params, "list", UCS_ERR_INVALID_PARAM);
    if ((params->field_mask & needed) != needed || params->elements == NULL || params->num_elements == 0 ||
        ((needed & UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER) && params->worker == NULL)) {
        cw_error("%s needs elements, their count and their size%s", call,
                 (needed & UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER) ? ", and a worker" : "");
        return UCS_ERR_INVALID_PARAM;
    }
    if (params->element_size < sizeof(uint64_t) || params->element_size % _Alignof(ucp_device_mem_list_elem_t) != 0 ||
        params->num_elements > UINT32_MAX || params->num_elements > PTRDIFF_MAX / params->element_size) {
        cw_error("%s: invalid list of %zu elements of %zu bytes: the size must be a multiple of %zu, the count fit 32 "
                 "bits", call,
                 params->num_elements, params->element_size, _Alignof(ucp_device_mem_list_elem_t));
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

static const ucp_device_mem_list_elem_t *entry_of(const ucp_device_mem_list_params_t *params, size_t i)
{
    return (const void *)((const char *)params->elements + i * params->element_size);
}

static ucs_status_t check_local(const ucp_device_mem_list_params_t *params, size_t i, const char *call)
{
    const ucp_device_mem_list_elem_t *entry = entry_of(params, i);

    if (!(entry->field_mask & UCP_DEVICE_MEM_LIST_ELEM_FIELD_MEMH) || !HOLDS(params->element_size, memh) ||
        entry->memh == NULL) {
        return refuse(call, i, "has no memory handle");
    }
    return UCS_OK;
}

static ucs_status_t check_remote(const ucp_device_mem_list_params_t *params, size_t i, const char *call)
{
    const ucp_device_mem_list_elem_t *entry = entry_of(params, i);

    if (!(entry->field_mask & UCP_DEVICE_MEM_LIST_ELEM_FIELD_RKEY) || !HOLDS(params->element_size, rkey) ||
        entry->rkey == NULL) {
        return refuse(call, i, "has no remote key");
    }
    if (!(entry->field_mask & UCP_DEVICE_MEM_LIST_ELEM_FIELD_EP) || !HOLDS(params->element_size, ep) ||
        entry->ep == NULL) {
        return refuse(call, i, "has no endpoint");
    }
    return UCS_OK;
}

/* Connects an unused endpoint, because the program sends nothing on it before it has the list. */
static ucs_status_t connected(ucp_ep_h ep)
{
    ucs_status_t status;

    cw_worker_enter(ep->worker);
    if (ep->state == CW_EP_IDLE) {
        cw_ep_dial(ep);
    }
    if (ep->state == CW_EP_FAILED) {
        status = ep->status;
    } else {
        status = (ep->state == CW_EP_OPEN) ? UCS_OK : UCS_ERR_NOT_CONNECTED;
    }
    cw_worker_leave(ep->worker);
    return status;
}

static ucs_status_t no_device(const char *call)
{
    cw_error("%s: no device of this process supports device-initiated operations; use puts and gets of the host", call);
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t ucp_device_local_mem_list_create(const ucp_device_mem_list_params_t *params,
                                              ucp_device_local_mem_list_h *mem_list_h)
{
    ucs_status_t status = check_params(params, UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENTS |
                                                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENT_SIZE |
                                                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_NUM_ELEMENTS |
                                                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER, __func__);
    size_t i;

    (void)mem_list_h;
    for (i = 0; status == UCS_OK && i < params->num_elements; i++) {
        status = check_local(params, i, __func__);
    }
    return (status == UCS_OK) ? no_device(__func__) : status;
}

ucs_status_t ucp_device_remote_mem_list_create(const ucp_device_mem_list_params_t *params,
                                               ucp_device_remote_mem_list_h *mem_list_h)
{
    ucs_status_t status = check_params(params, UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENTS |
                                                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENT_SIZE |
                                                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_NUM_ELEMENTS, __func__);
    ucs_status_t link = UCS_OK, one;
    size_t i, used = 0;

    (void)mem_list_h;
    for (i = 0; status == UCS_OK && i < params->num_elements; i++) {
        if (entry_of(params, i)->field_mask != 0) {
            status = check_remote(params, i, __func__);
            used++;
        }
    }
    if (status != UCS_OK) {
        return status;
    }
    if (used == 0) {
        cw_error("%s: all %zu elements are empty", __func__, params->num_elements);
        return UCS_ERR_INVALID_PARAM;
    }
    for (i = 0; i < params->num_elements; i++) { /* for all of them, so that all start to connect */
        one = (entry_of(params, i)->field_mask != 0) ? connected(entry_of(params, i)->ep) : UCS_OK;
        link = (one == UCS_OK || (link != UCS_OK && one == UCS_ERR_NOT_CONNECTED)) ? link : one;
    }
    return (link == UCS_OK) ? no_device(__func__) : link;
}

uint32_t ucp_device_get_mem_list_length(const void *mem_list_h)
{
    (void)mem_list_h; /* no list was created here */
    return 0;
}

void ucp_device_mem_list_release(void *mem_list_h)
{
    cw_error("%s: %p is not a memory list of this library", __func__, mem_list_h);
}

/* ---- counters ---- */

/* UCS_OK: *type_p is the memory type of the counter. */
static ucs_status_t counter_type(ucp_worker_h worker, const ucp_device_counter_params_t *params, const void *counter,
                                 ucs_memory_type_t *type_p)
{
    ucp_request_param_t param = {0};
    struct cw_call_device device;
    ucs_status_t status;

    if (params != NULL && (params->field_mask & UCP_DEVICE_COUNTER_PARAMS_FIELD_MEMH)) {
        param = (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH, .memh = params->memh};
    } else if (params != NULL && (params->field_mask & UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE)) {
        param = (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE, .memory_type = params->mem_type};
    }
    status = cw_call_check_param(worker, &param, counter, CW_CALL_COUNTER_SIZE);
    *type_p = UCS_MEMORY_TYPE_HOST;
    if (status == CW_CALL_DEVICE) {
        (void)cw_call_with_device(&param, &device);
        *type_p = device.memory.memory_type;
        status = UCS_OK;
    }
    return status;
}

ucs_status_t ucp_device_counter_init(ucp_worker_h worker, const ucp_device_counter_params_t *params, void *counter_ptr)
{
    static const uint64_t zero;
    ucs_memory_type_t type;
    ucs_status_t status;

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    CW_CALL_RETURN_IF_NULL(counter_ptr, "counter", UCS_ERR_INVALID_PARAM);
    status = counter_type(worker, params, counter_ptr, &type);
    return (status != UCS_OK) ? status :
           cw_mem_copy(counter_ptr, type, &zero, UCS_MEMORY_TYPE_HOST, CW_CALL_COUNTER_SIZE);
}

uint64_t ucp_device_counter_read(ucp_worker_h worker, const ucp_device_counter_params_t *params, void *counter_ptr)
{
    ucs_memory_type_t type;
    uint64_t value = 0;

    CW_CALL_RETURN_IF_NULL(worker, "worker", 0);
    CW_CALL_RETURN_IF_NULL(counter_ptr, "counter", 0);
    if (counter_type(worker, params, counter_ptr, &type) != UCS_OK ||
        cw_mem_copy(&value, UCS_MEMORY_TYPE_HOST, counter_ptr, type, CW_CALL_COUNTER_SIZE) != UCS_OK) {
        return 0;
    }
    return value;
}
