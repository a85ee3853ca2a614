/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory type of a call: the one that the program states (OPA-1, OPA-11), that of the memory handle, or the one
 * that a memory domain finds by the address. Memory of a device becomes a datatype of its own (msg/datatype.h), so that
 * no layer below accesses it by the processor.
 */
#include "api/call.h"
#include "config/value.h"
#include "core/mem.h"
#include "mem/registry.h"

static const char *name_of(ucs_memory_type_t type)
{
    return ((unsigned)type < CW_MEMORY_TYPE_COUNT) ? cw_words_memory_type[type] : "unknown";
}

/* The i-th non-empty range of memory of a call; 0: there is none. */
static int next_range(ucp_datatype_t datatype, const void *buffer, size_t count, size_t *i_p, const void **ptr_p,
                      size_t *length_p)
{
    const ucp_dt_iov_t *iov = buffer;

    if (cw_dt_is_contig(datatype)) {
        *ptr_p    = buffer;
        *length_p = cw_dt_contig_length(datatype, count);
        return (*i_p)++ == 0 && *length_p > 0;
    }
    for (; iov != NULL && *i_p < count; (*i_p)++) {
        if (iov[*i_p].length > 0) {
            *ptr_p    = iov[*i_p].buffer;
            *length_p = iov[(*i_p)++].length;
            return 1;
        }
    }
    return 0;
}

static ucs_memory_type_t told_type(const ucp_worker_h worker, const ucp_request_param_t *param)
{
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;

    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) {
        type = cw_api_memory_type(&worker->context->api, (unsigned)param->memory_type, worker->context->memory_types);
    }
    return ((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) && type == UCS_MEMORY_TYPE_UNKNOWN) ?
           cw_mem_type(param->memh) : type;
}

static ucs_status_t refuse_type(ucs_memory_type_t type)
{
    cw_error("memory of type %s cannot be used: no memory domain of this process copies it; give memory of the host, "
             "or leave the type out where the processor can read and write it", name_of(type));
    return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t refuse_range(const void *ptr, size_t length, const char *type)
{
    cw_error("the %zu bytes at %p are not all memory of %s, as their beginning is, or others of the call, or as it "
             "says", length, ptr, type);
    return UCS_ERR_INVALID_PARAM;
}

/* All ranges from the i-th on must be of that type. */
static ucs_status_t check_ranges(ucs_memory_type_t type, int told, ucp_datatype_t datatype, const void *buffer,
                                 size_t count, size_t i)
{
    const struct cw_md *md = cw_md_of_type(type);
    struct cw_md_attr attr;
    const void *ptr;
    size_t length;

    if (md == NULL) {
        return refuse_type(type);
    }
    md->query(&attr);
    if (told && attr.trusts_types) {
        return UCS_OK;
    }
    while (next_range(datatype, buffer, count, &i, &ptr, &length)) {
        if (md->type_of(ptr, length) != type) {
            return refuse_range(ptr, length, name_of(type));
        }
    }
    return UCS_OK;
}

/* UCS_OK: *type_p is the type of all ranges. */
static ucs_status_t find_type(const ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                              size_t count, ucs_memory_type_t *type_p)
{
    const ucp_datatype_t datatype = cw_dt_of_param(param);
    ucs_memory_type_t type        = told_type(worker, param);
    const int told                = type != UCS_MEMORY_TYPE_UNKNOWN;
    const void *ptr;
    size_t i = 0, length;

    *type_p = UCS_MEMORY_TYPE_HOST;
    if (type == UCS_MEMORY_TYPE_HOST || (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC) {
        return UCS_OK; /* functions of a generic type touch the memory; the library touches their output only */
    }
    if (told && !cw_context_knows(worker->context, type)) {
        return refuse_type(type);
    }
    if (!next_range(datatype, buffer, count, &i, &ptr, &length)) {
        return UCS_OK;
    }
    if (!told) {
        type = cw_md_find(ptr, length);
        if (type == CW_MEMORY_MIXED) {
            return refuse_range(ptr, length, "a device");
        }
        if (!cw_context_knows(worker->context, type)) {
            return refuse_type(type);
        }
    }
    *type_p = type;
    if (type == UCS_MEMORY_TYPE_HOST && !told && cw_dt_is_contig(datatype)) {
        return UCS_OK; /* there is no other range */
    }
    return (worker->looks == 0) ? UCS_OK : check_ranges(type, told, datatype, buffer, count, told ? 0 : i);
}

/* The type of the memory for which this thread was last answered CW_CALL_DEVICE: asking a driver is not cheap. */
static _Thread_local ucs_memory_type_t checked_type;

ucs_status_t cw_call_check_memory(const ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count)
{
    ucs_memory_type_t type;
    ucs_status_t status = find_type(worker, param, buffer, count, &type);

    if (status != UCS_OK || type == UCS_MEMORY_TYPE_HOST) {
        return status;
    }
    checked_type = type;
    return CW_CALL_DEVICE;
}

ucs_status_t cw_call_check_operand(const ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                   size_t size)
{
    ucp_request_param_t plain = {.op_attr_mask = param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE};
    ucs_status_t status;

    if (plain.op_attr_mask != 0) {
        plain.memory_type = param->memory_type;
    }
    cw_worker_look(worker, buffer);
    status = cw_call_check_memory(worker, &plain, buffer, size);
    if (status == CW_CALL_DEVICE) {
        cw_error("the operand and the reply buffer of an atomic operation must be memory of the host");
        return UCS_ERR_UNSUPPORTED;
    }
    return status;
}

const ucp_request_param_t *cw_call_with_device(const ucp_request_param_t *param, struct cw_call_device *device)
{
    device->memory = (struct cw_dt_device){.datatype = cw_dt_of_param(param), .memory_type = checked_type};
    cw_call_copy_param(&device->param, param);
    device->param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    device->param.datatype      = cw_dt_make_device(&device->memory);
    return &device->param;
}
