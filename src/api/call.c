/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument checks that several public calls share.
 */
#include "api/call.h"
#include "config/value.h"
#include "core/mem.h"
#include "mem/registry.h"
#include "os/memory.h"

bool cw_call_is_inherited(const struct ucp_context *context, const char *call)
{
    static int logged;

    if (cw_likely(context->process == cw_memory_process())) {
        return false;
    }
    if (!__atomic_exchange_n(&logged, 1, __ATOMIC_RELAXED)) {
        cw_info("%s ignored in a forked child: the object belongs to the parent, process %u",
                call, context->process);
    }
    return true;
}

CW_COLD bool cw_call_is_missing(const char *call, const char *what)
{
    cw_error("%s ignored: its %s is NULL", call, what);
    return true;
}

ucs_status_t cw_call_feature_missing(const char *call, const char *feature)
{
    cw_error("%s needs %s, which was not among the features given to ucp_init", call, feature);
    return UCS_ERR_INVALID_PARAM;
}

void cw_call_copy_param(ucp_request_param_t *to, const ucp_request_param_t *from)
{
    const uint32_t mask = from->op_attr_mask;

    memset(to, 0, sizeof(*to));
    to->op_attr_mask = mask;
    if (mask & UCP_OP_ATTR_FIELD_FLAGS) {
        to->flags = from->flags;
    }
    if (mask & UCP_OP_ATTR_FIELD_REQUEST) {
        to->request = from->request;
    }
    if (mask & UCP_OP_ATTR_FIELD_CALLBACK) {
        to->cb = from->cb;
    }
    if (mask & UCP_OP_ATTR_FIELD_DATATYPE) {
        to->datatype = from->datatype;
    }
    if (mask & UCP_OP_ATTR_FIELD_USER_DATA) {
        to->user_data = from->user_data;
    }
    if (mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER) {
        to->reply_buffer = from->reply_buffer;
    }
    if (mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) {
        to->memory_type = from->memory_type;
    }
    if (mask & UCP_OP_ATTR_FIELD_RECV_INFO) {
        to->recv_info = from->recv_info;
    }
    if (mask & UCP_OP_ATTR_FIELD_MEMH) {
        to->memh = from->memh;
    }
}

ucs_status_t cw_call_check_flags(const ucp_request_param_t *param)
{
    const uint32_t both = UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;

    if ((param->op_attr_mask & both) == both) {
        cw_error("UCP_OP_ATTR_FLAG_FAST_CMPL and UCP_OP_ATTR_FLAG_MULTI_SEND are mutually exclusive");
        return UCS_ERR_INVALID_PARAM;
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) &&
        (unsigned)param->memory_type > UCS_MEMORY_TYPE_UNKNOWN) {
        cw_error("unknown memory type %d", (int)param->memory_type);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

static ucs_status_t check_attributes(const ucp_request_param_t *param)
{
    ucs_status_t status = cw_call_check_flags(param);
    unsigned class_id;

    if (status != UCS_OK) {
        return status;
    }
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
        class_id = (unsigned)(param->datatype & UCP_DATATYPE_CLASS_MASK);
        if (class_id != UCP_DATATYPE_CONTIG && class_id != UCP_DATATYPE_IOV && class_id != UCP_DATATYPE_GENERIC) {
            cw_error("datatype 0x%llx has an unsupported class", (unsigned long long)param->datatype);
            return UCS_ERR_INVALID_PARAM;
        }
        if (class_id == UCP_DATATYPE_GENERIC && (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH)) {
            cw_error("a generic datatype cannot be used with a memory handle");
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return UCS_OK;
}

static ucs_status_t check_remote(const ucp_worker_h worker, const ucp_request_param_t *param)
{
    if ((param->op_attr_mask & CW_CALL_REMOTE) && worker->context->api.has_remote) {
        cw_error("UCP_OP_ATTR_FIELD_REMOTE, REMOTE_DATATYPE and REMOTE_COUNT are valid only for puts and gets of "
                 "ucp_dt_make_sgl()");
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

ucs_status_t cw_call_check_attributes(ucp_worker_h worker, const ucp_request_param_t *param)
{
    ucs_status_t status = check_attributes(param);

    return (status == UCS_OK) ? check_remote(worker, param) : status;
}

/* ---- memory types ---- */

/* The memory type of a call is the one that the program states, that of the memory handle, or the one that a memory
 * domain detects by the address. Device memory becomes a datatype of its own (msg/datatype.h), so that no layer below
 * accesses it by the CPU. */

static const char *name_of(ucs_memory_type_t type)
{
    return ((unsigned)type < CW_MEMORY_TYPE_COUNT) ? cw_words_memory_type[type] : "unknown";
}

/* The i-th non-empty memory range of a call; 0: there is none. */
static int next_range(ucp_datatype_t datatype, const void *buffer, size_t count, size_t *i_p, const void **ptr_p,
                      size_t *length_p)
{
    const ucp_dt_iov_t *iov = buffer;

    if (cw_dt_is_contig(datatype)) {
        *ptr_p = buffer;
        *length_p = cw_dt_contig_length(datatype, count);
        return (*i_p)++ == 0 && *length_p > 0;
    }
    for (; iov != NULL && *i_p < count; (*i_p)++) {
        if (iov[*i_p].length > 0) {
            *ptr_p = iov[*i_p].buffer;
            *length_p = iov[(*i_p)++].length;
            return 1;
        }
    }
    return 0;
}

static ucs_memory_type_t given_type(const ucp_worker_h worker, const ucp_request_param_t *param)
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
    cw_error("cannot use memory of type %s: no memory domain of this process copies it; pass host memory, or omit the "
             "memory type if the CPU can access the buffer", name_of(type));
    return UCS_ERR_UNSUPPORTED;
}

static ucs_status_t refuse_range(const void *ptr, size_t length, const char *type)
{
    cw_error("the %zu bytes at %p are not all memory of %s, which their first byte, another buffer of the call or the "
             "given memory type requires", length, ptr, type);
    return UCS_ERR_INVALID_PARAM;
}

/* All ranges from the i-th on must be of that type. */
static ucs_status_t check_ranges(ucs_memory_type_t type, int is_given, ucp_datatype_t datatype, const void *buffer,
                                 size_t count, size_t i)
{
    const struct cw_md *md = cw_md_of_type(type);
    struct cw_md_attr attr;
    const void *ptr;
    size_t length;

    if (md == NULL) {
        return refuse_type(type);
    }
    md->query(md, &attr);
    if (is_given && attr.trusts_types) {
        return UCS_OK;
    }
    while (next_range(datatype, buffer, count, &i, &ptr, &length)) {
        if (md->type_of(md, ptr, length) != type) {
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
    ucs_memory_type_t type = given_type(worker, param);
    const int is_given = type != UCS_MEMORY_TYPE_UNKNOWN;
    const void *ptr;
    size_t i = 0, length;

    *type_p = UCS_MEMORY_TYPE_HOST;
    if (type == UCS_MEMORY_TYPE_HOST || (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC) {
        return UCS_OK; /* functions of a generic type access the memory; the library accesses their output only */
    }
    if (is_given && !cw_context_knows(worker->context, type)) {
        return refuse_type(type);
    }
    if (!next_range(datatype, buffer, count, &i, &ptr, &length)) {
        return UCS_OK;
    }
    if (!is_given) {
        type = cw_md_find(ptr, length);
        if (type == CW_MEMORY_MIXED) {
            return refuse_range(ptr, length, "a device");
        }
        if (!cw_context_knows(worker->context, type)) {
            return refuse_type(type);
        }
    }
    *type_p = type;
    if (type == UCS_MEMORY_TYPE_HOST && !is_given && cw_dt_is_contig(datatype)) {
        return UCS_OK; /* no other range */
    }
    if (worker->checked_attr == 0) {
        return UCS_OK;
    }
    return check_ranges(type, is_given, datatype, buffer, count, is_given ? 0 : i);
}

static CW_NOINLINE bool note_new(ucp_worker_h worker, uintptr_t *noted, uintptr_t granule)
{
    const bool is_host = cw_worker_check_loaded(worker);

    if (is_host) {
        __atomic_store_n(noted, granule, __ATOMIC_RELAXED);
    }
    return is_host;
}

/* Notes the granule of `memory` as host memory. False: device memory is possible. */
static inline bool note_host(ucp_worker_h worker, const void *memory)
{
    const uintptr_t granule = (uintptr_t)memory >> CW_WORKER_GRANULE_SHIFT;
    uintptr_t *noted = &worker->host[granule % CW_WORKER_GRANULES];

    return cw_likely(__atomic_load_n(noted, __ATOMIC_RELAXED) == granule) || note_new(worker, noted, granule);
}

/* The type of the memory for which this thread last returned CW_CALL_DEVICE: querying the driver again would be
 * slow. */
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
    (void)note_host(worker, buffer);
    status = cw_call_check_memory(worker, &plain, buffer, size);
    if (status == CW_CALL_DEVICE) {
        cw_error("the operand and the reply buffer of an atomic operation must be host memory");
        return UCS_ERR_UNSUPPORTED;
    }
    return status;
}

const ucp_request_param_t *cw_call_with_device(const ucp_request_param_t *param, struct cw_call_device *device)
{
    device->memory = (struct cw_dt_device){.datatype = cw_dt_of_param(param), .memory_type = checked_type};
    cw_call_copy_param(&device->param, param);
    device->param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    device->param.datatype = cw_dt_make_device(&device->memory);
    return &device->param;
}

/* ---- buffers ---- */

/* These attributes state the memory type. */
#define MEMORY_GIVEN (UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH)

static bool is_registered(const struct ucp_mem *mem, ucp_datatype_t datatype, const void *buffer, size_t count)
{
    ucp_mem_attr_t region = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
    size_t i = 0, length;
    const void *ptr;

    (void)cw_mem_query(mem, &region);
    while (next_range(datatype, buffer, count, &i, &ptr, &length)) {
        if (ptr < region.address || length > region.length ||
            (uintptr_t)ptr - (uintptr_t)region.address > region.length - length) {
            return false;
        }
    }
    return true;
}

static void note_buffer(ucp_worker_h worker, ucp_datatype_t datatype, const void *buffer, size_t count)
{
    const ucp_dt_iov_t *iov = buffer;
    size_t i;

    if (cw_dt_is_contig(datatype)) {
        (void)note_host(worker, buffer);
    } else if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV && iov != NULL) {
        for (i = 0; i < count; i++) {
            (void)note_host(worker, iov[i].buffer);
        }
    }
}

/* Whether the only attribute to check is a datatype that is not contiguous, and whose memory is host memory or accessed
 * by the type's own functions. */
static inline bool is_only_datatype(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                    size_t count)
{
    const ucp_dt_iov_t *iov = buffer;
    size_t i;

    if (((param->op_attr_mask | worker->checked_attr) & CW_CALL_CHECKED) != UCP_OP_ATTR_FIELD_DATATYPE) {
        return false;
    }
    if ((param->datatype & UCP_DATATYPE_CLASS_MASK) != UCP_DATATYPE_IOV) {
        return (param->datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC;
    }
    for (i = 0; i < count; i++) {
        if (iov == NULL || !note_host(worker, iov[i].buffer)) {
            return false;
        }
    }
    return true;
}

static CW_NOINLINE ucs_status_t check_all(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                          size_t count, uint32_t ignored)
{
    const ucp_datatype_t datatype = cw_dt_of_param(param);
    ucs_status_t status = check_attributes(param);

    if (status != UCS_OK) {
        return status;
    }
    note_buffer(worker, datatype, buffer, count);
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) &&
        (param->memh == NULL || !is_registered(param->memh, datatype, buffer, count))) {
        cw_error("the memory handle does not cover the buffer");
        return UCS_ERR_INVALID_PARAM;
    }
    if ((param->op_attr_mask | worker->checked_attr) & MEMORY_GIVEN) {
        status = cw_call_check_memory(worker, param, buffer, count);
    }
    return (status == UCS_OK || status == CW_CALL_DEVICE) && !(ignored & CW_CALL_REMOTE) &&
           check_remote(worker, param) != UCS_OK ? UCS_ERR_INVALID_PARAM : status;
}

ucs_status_t cw_call_check_buffer(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count, uint32_t ignored)
{
    return cw_likely(is_only_datatype(worker, param, buffer, count)) ?
               UCS_OK : check_all(worker, param, buffer, count, ignored);
}
