/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public calls of puts and gets of many pieces: the descriptors are read under their masks, and no data moves before
 * every element was checked.
 */
#include "api/call.h"
#include "core/mem.h"
#include "core/rkey.h"
#include "rma/sgl.h"

static ucs_status_t refuse(const char *call, const char *why)
{
    cw_error("%s of a scatter-gather list: %s", call, why);
    return UCS_ERR_INVALID_PARAM;
}

/* Checks the attributes of the remote side. */
static ucs_status_t check_call(const ucp_request_param_t *param, size_t count, uint64_t address,
                               const struct ucp_rkey *rkey, const char *call)
{
    const uint32_t mask = param->op_attr_mask;

    if (address != UCP_REMOTE_ADDR_INVALID || rkey != UCP_RKEY_INVALID) {
        return refuse(call, "address and key are in the remote list; pass UCP_REMOTE_ADDR_INVALID and "
                            "UCP_RKEY_INVALID");
    }
    if (!(mask & UCP_OP_ATTR_FIELD_REMOTE_DATATYPE) ||
        (param->remote_datatype & UCP_DATATYPE_CLASS_MASK) != UCP_DATATYPE_SGL) {
        return refuse(call, "remote_datatype must be ucp_dt_make_sgl()");
    }
    if (!(mask & UCP_OP_ATTR_FIELD_REMOTE) || param->remote == NULL) {
        return refuse(call, "the remote list is missing");
    }
    if ((mask & UCP_OP_ATTR_FIELD_REMOTE_COUNT) && param->remote_count != count) {
        return refuse(call, "both sides must have the same number of elements");
    }
    return UCS_OK;
}

/* The arrays that the masks name; *memhs_p: NULL if there are none. */
static ucs_status_t read_lists(const ucp_dt_local_sgl_t *local, const ucp_dt_remote_sgl_t *remote, const char *call,
                               struct cw_sgl *sgl, const size_t **remote_lengths_p, const ucp_mem_h **memhs_p)
{
    const uint64_t here = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS;
    const uint64_t there =
        UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS | UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS;
    const int has_memhs = (local->field_mask & UCP_DT_LOCAL_SGL_FIELD_MEMHS) != 0;

    if ((local->field_mask & here) != here || local->buffers == NULL || local->lengths == NULL) {
        return refuse(call, "the local list needs buffers and lengths");
    }
    if ((remote->field_mask & there) != there || remote->remote_addrs == NULL || remote->lengths == NULL ||
        remote->rkeys == NULL) {
        return refuse(call, "the remote list needs addresses, lengths and keys");
    }
    sgl->blocks = (local->field_mask & UCP_DT_LOCAL_SGL_FIELD_COUNTS) ? local->counts : NULL;
    sgl->strides = (local->field_mask & UCP_DT_LOCAL_SGL_FIELD_STRIDES) ? local->strides : NULL;
    *memhs_p = has_memhs ? local->memhs : NULL;
    if ((has_memhs && *memhs_p == NULL) ||
        ((local->field_mask & UCP_DT_LOCAL_SGL_FIELD_COUNTS) && sgl->blocks == NULL) ||
        ((local->field_mask & UCP_DT_LOCAL_SGL_FIELD_STRIDES) && sgl->strides == NULL)) {
        return refuse(call, "an array in the mask of the local list is NULL");
    }
    sgl->buffers = local->buffers;
    sgl->lengths = local->lengths;
    sgl->addresses = remote->remote_addrs;
    sgl->rkeys = remote->rkeys;
    *remote_lengths_p = remote->lengths;
    return UCS_OK;
}

static ucs_status_t refuse_element(const char *call, size_t i, const char *why)
{
    cw_error("element %zu of %s: %s", i, call, why);
    return UCS_ERR_INVALID_PARAM;
}

/* *span_p: bytes from the element's first to its last one, on either side; 0: it is empty. */
static ucs_status_t measure(const struct cw_sgl *sgl, size_t i, size_t remote_length, const char *call, size_t *span_p)
{
    const size_t num = (sgl->blocks == NULL) ? 1 : sgl->blocks[i];

    if (sgl->lengths[i] != remote_length) {
        return refuse_element(call, i, "the block lengths of both sides differ");
    }
    if (num > 1 && sgl->strides == NULL) {
        return refuse_element(call, i, "it has several blocks but no strides");
    }
    *span_p = 0;
    if (num == 0 || sgl->lengths[i] == 0) {
        return UCS_OK;
    }
    if (__builtin_mul_overflow(num - 1, (num == 1) ? 0 : sgl->strides[i], span_p) ||
        __builtin_add_overflow(*span_p, sgl->lengths[i], span_p) ||
        *span_p > UINTPTR_MAX - (uintptr_t)sgl->buffers[i]) {
        return refuse_element(call, i, "its blocks wrap around");
    }
    return UCS_OK;
}

/* The local memory of an element: registered, and of the type of the first one. */
static ucs_status_t check_local(ucp_worker_h worker, const ucp_request_param_t *param, struct cw_sgl *sgl, size_t i,
                                ucp_mem_h memh, int is_first, size_t span, const char *call)
{
    ucp_request_param_t piece = {.op_attr_mask = param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE};
    ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
    struct cw_call_device device;
    ucs_status_t status;

    if (memh != NULL) {
        piece.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        piece.memh = memh;
    }
    if (piece.op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) {
        piece.memory_type = param->memory_type;
    }
    status = cw_call_check_param(worker, &piece, sgl->buffers[i], span);
    if (status == CW_CALL_DEVICE) {
        (void)cw_call_with_device(&piece, &device);
        type = device.memory.memory_type;
        status = UCS_OK;
    }
    if (status == UCS_OK && !is_first && type != sgl->memory_type) {
        return refuse_element(call, i, "its memory type differs from that of other elements");
    }
    sgl->memory_type = type;
    return status;
}

/* Number of leading elements that are valid and simple: one block in host memory, without a handle. check_elements
 * reports the error of the element after them. */
static size_t count_fast(const struct ucp_ep *ep, const struct cw_sgl *sgl, const size_t *remote_lengths,
                         uint8_t right)
{
    const struct ucp_rkey *rkey;
    size_t i;

    for (i = 0; i < sgl->count; i++) {
        rkey = sgl->rkeys[i];
        if (rkey == NULL || rkey->ep != ep || sgl->lengths[i] != remote_lengths[i] || sgl->buffers[i] == NULL ||
            !cw_call_is_host(ep->worker, sgl->buffers[i]) ||
            sgl->lengths[i] > UINTPTR_MAX - (uintptr_t)sgl->buffers[i] ||
            !cw_rkey_holds(rkey, sgl->addresses[i], sgl->lengths[i]) || !(rkey->key.rights & right)) {
            break;
        }
    }
    return i;
}

static ucs_status_t check_elements(const struct ucp_ep *ep, const ucp_request_param_t *param, struct cw_sgl *sgl,
                                   const size_t *remote_lengths, const ucp_mem_h *memhs, int is_get, const char *call)
{
    const uint8_t right = is_get ? CW_KEY_READ : CW_KEY_WRITE;
    ucp_worker_h worker = ep->worker;
    const int is_fast = memhs == NULL && !((param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) |
                                           (worker->checked_attr & CW_CALL_CHECKED)); /* local memory needs no check */
    ucs_status_t status = UCS_OK;
    bool is_first;
    size_t i, span = 0;

    sgl->memory_type = UCS_MEMORY_TYPE_HOST;
    i = (is_fast && sgl->blocks == NULL) ? count_fast(ep, sgl, remote_lengths, right) : 0;
    is_first = i == 0;
    for (; i < sgl->count && status == UCS_OK; i++) {
        if (sgl->rkeys[i] == NULL) {
            return refuse_element(call, i, "its key is NULL");
        }
        if (sgl->rkeys[i]->ep != ep) {
            return refuse_element(call, i, "its key was unpacked for another endpoint");
        }
        if (memhs != NULL && memhs[i] == NULL) {
            return refuse_element(call, i, "its memory handle is NULL");
        }
        status = measure(sgl, i, remote_lengths[i], call, &span);
        if (status != UCS_OK || span == 0) {
            continue;
        }
        if (sgl->buffers[i] == NULL) {
            return refuse_element(call, i, "its buffer is NULL");
        }
        if (!cw_rkey_holds(sgl->rkeys[i], sgl->addresses[i], span)) {
            cw_error("element %zu of %s is outside the memory of its key", i, call);
            return UCS_ERR_INVALID_ADDR;
        }
        if (!(sgl->rkeys[i]->key.rights & right)) {
            return refuse_element(call, i, "the memory was not mapped for this access");
        }
        if (!is_fast || !cw_call_is_host(worker, sgl->buffers[i])) {
            status = check_local(worker, param, sgl, i, (memhs == NULL) ? NULL : memhs[i], is_first, span, call);
        }
        is_first = false;
    }
    return status;
}

static ucs_status_t check(const struct ucp_ep *ep, const void *buffer, size_t count, uint64_t address,
                          const struct ucp_rkey *rkey, const ucp_request_param_t *param, int is_get, const char *call,
                          struct cw_sgl *sgl)
{
    const size_t *remote_lengths = NULL;
    const ucp_mem_h *memhs = NULL;
    ucs_status_t status;

    if (buffer == NULL) {
        return refuse(call, "the local list is missing");
    }
    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
        return UCS_ERR_NO_RESOURCE; /* always */
    }
    status = check_call(param, count, address, rkey, call);
    status = (status == UCS_OK) ? read_lists(buffer, param->remote, call, sgl, &remote_lengths, &memhs) : status;
    if (status != UCS_OK) {
        return status;
    }
    sgl->count = count;
    return check_elements(ep, param, sgl, remote_lengths, memhs, is_get, call);
}

ucs_status_ptr_t cw_call_sgl(ucp_ep_h ep, const void *buffer, size_t count, uint64_t address, ucp_rkey_h rkey,
                             const ucp_request_param_t *param, int is_get)
{
    const char *call = is_get ? "ucp_get_nbx" : "ucp_put_nbx";
    ucs_status_t status = cw_call_check_flags(param);
    struct cw_sgl sgl;

    if (status == UCS_OK && !cw_worker_has(ep->worker, UCP_FEATURE_RMA)) {
        status = cw_call_feature_missing(call, "UCP_FEATURE_RMA");
    }
    if (status != UCS_OK || count == 0) {
        return UCS_STATUS_PTR(status);
    }
    status = check(ep, buffer, count, address, rkey, param, is_get, call, &sgl);
    if (status != UCS_OK) {
        return UCS_STATUS_PTR(status);
    }
    return is_get ? cw_sgl_get(ep, &sgl, param) : cw_sgl_put(ep, &sgl, param);
}
