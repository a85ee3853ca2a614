/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The argument checks that several public calls share.
 */
#include "api/call.h"
#include "core/mem.h"
#include "os/memory.h"

int cw_call_is_inherited(const struct ucp_context *context, const char *call)
{
    static int told;

    if (cw_likely(context->process == cw_memory_process())) {
        return 0;
    }
    if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED)) {
        cw_info("%s does nothing in a forked child: what it is asked to take down belongs to the parent, process %u",
                call, context->process);
    }
    return 1;
}

CW_COLD int cw_call_is_missing(const char *call, const char *what)
{
    cw_error("%s does nothing: its %s is NULL", call, what);
    return 1;
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
        cw_error("UCP_OP_ATTR_FLAG_FAST_CMPL and UCP_OP_ATTR_FLAG_MULTI_SEND exclude each other");
        return UCS_ERR_INVALID_PARAM;
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) &&
        (unsigned)param->memory_type > UCS_MEMORY_TYPE_UNKNOWN) {
        cw_error("memory type %d does not exist", (int)param->memory_type);
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
            cw_error("datatype 0x%llx is of no supported class", (unsigned long long)param->datatype);
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
        cw_error("a description of the remote side belongs to puts and gets of many pieces alone: leave "
                 "UCP_OP_ATTR_FIELD_REMOTE, REMOTE_DATATYPE and REMOTE_COUNT out");
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

ucs_status_t cw_call_check_attributes(ucp_worker_h worker, const ucp_request_param_t *param)
{
    ucs_status_t status = check_attributes(param);

    return (status == UCS_OK) ? check_remote(worker, param) : status;
}

/* These attributes say of which type the memory is. */
#define MEMORY_TOLD (UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH)

/* OPA-13 */
static int is_registered(const struct ucp_mem *mem, ucp_datatype_t datatype, const void *buffer, size_t count)
{
    const ucp_dt_iov_t *iov = buffer;
    size_t i;

    if (cw_dt_is_contig(datatype)) {
        return cw_mem_covers(mem, buffer, cw_dt_contig_length(datatype, count));
    }
    for (i = 0; i < count && iov != NULL; i++) {
        if (!cw_mem_covers(mem, iov[i].buffer, iov[i].length)) {
            return 0;
        }
    }
    return 1;
}

static bool is_list_of_host(ucp_worker_h worker, const ucp_dt_iov_t *iov, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        if (!cw_worker_is_host(worker, iov[i].buffer)) {
            return false;
        }
    }
    return true;
}

/* Whether the datatype is the only attribute that a check would look at, its class exists, and the library touches no
 * other memory than the host's. */
static inline bool only_datatype(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                 size_t count)
{
    if (((param->op_attr_mask | worker->looks) & CW_CALL_CHECKED) != UCP_OP_ATTR_FIELD_DATATYPE) {
        return false;
    }
    switch (param->datatype & UCP_DATATYPE_CLASS_MASK) {
    case UCP_DATATYPE_CONTIG:
        return cw_worker_is_host(worker, buffer);
    case UCP_DATATYPE_IOV:
        return buffer != NULL && is_list_of_host(worker, buffer, count);
    case UCP_DATATYPE_GENERIC:
        return true;
    default:
        return false;
    }
}

/* As cw_worker_look for all memory of a buffer. */
static void look_at_buffer(ucp_worker_h worker, ucp_datatype_t datatype, const void *buffer, size_t count)
{
    const ucp_dt_iov_t *iov = buffer;
    size_t i;

    cw_worker_look(worker, buffer);
    if (worker->looks != 0 || (datatype & UCP_DATATYPE_CLASS_MASK) != UCP_DATATYPE_IOV || iov == NULL) {
        return;
    }
    for (i = 0; i < count; i++) {
        cw_worker_note_host(worker, iov[i].buffer);
    }
}

ucs_status_t cw_call_check_local(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                 size_t count)
{
    const ucp_datatype_t datatype = cw_dt_of_param(param);
    ucs_status_t status;

    if (cw_likely(only_datatype(worker, param, buffer, count))) {
        return UCS_OK;
    }
    status = check_attributes(param);
    if (status != UCS_OK) {
        return status;
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) &&
        (param->memh == NULL || !is_registered(param->memh, datatype, buffer, count))) {
        cw_error("the memory handle does not cover the buffer");
        return UCS_ERR_INVALID_PARAM;
    }
    look_at_buffer(worker, datatype, buffer, count);
    return cw_likely(!((param->op_attr_mask | worker->looks) & MEMORY_TOLD)) ? UCS_OK :
           cw_call_check_memory(worker, param, buffer, count);
}

ucs_status_t cw_call_check_buffer(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count)
{
    ucs_status_t status;

    if (cw_likely(only_datatype(worker, param, buffer, count))) {
        return UCS_OK;
    }
    status = cw_call_check_local(worker, param, buffer, count);
    return (status == UCS_OK || status == CW_CALL_DEVICE) && check_remote(worker, param) != UCS_OK ?
           UCS_ERR_INVALID_PARAM : status;
}
