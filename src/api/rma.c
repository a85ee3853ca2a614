/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory access: put and get. The deprecated forms are in compat.c.
 */
#include "api/call.h"
#include "base/bytes.h"
#include "rma/rma.h"

enum direction { PUT, GET };

/* UCS_OK: *length_p is the total length of the entries, or more than any region has; 0 if the class is unknown. */
static ucs_status_t measure(const void *buffer, size_t count, ucp_datatype_t datatype, const char *call,
                            size_t *length_p)
{
    const ucp_dt_iov_t *iov = buffer;
    size_t i;

    if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_CONTIG) {
        if (__builtin_mul_overflow((size_t)(datatype >> UCP_DATATYPE_SHIFT), count, length_p)) {
            *length_p = SIZE_MAX;
        }
        return UCS_OK;
    }
    if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC) {
        cw_error("%s supports contiguous and IOV datatypes only", call);
        return UCS_ERR_UNSUPPORTED;
    }
    *length_p = 0;
    for (i = 0; (datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_IOV && iov != NULL && i < count; i++) {
        if (iov[i].length > 0 && iov[i].buffer == NULL) {
            cw_error("entry %zu of %s is a NULL buffer of %zu bytes", i, call, iov[i].length);
            return UCS_ERR_INVALID_PARAM;
        }
        if (__builtin_add_overflow(*length_p, iov[i].length, length_p)) {
            *length_p = SIZE_MAX;
            return UCS_OK;
        }
    }
    return UCS_OK;
}

static ucs_status_t out_of_range(const struct ucp_rkey *rkey, uint64_t address, size_t length, const char *call)
{
    cw_error("%s of %zu bytes at 0x%llx is outside the memory of the key: %llu bytes at 0x%llx", call, length,
             (unsigned long long)address, (unsigned long long)rkey->key.length, (unsigned long long)rkey->key.address);
    return UCS_ERR_INVALID_ADDR;
}

static ucs_status_t no_right(enum direction direction, const char *call)
{
    cw_error("%s: the memory was not mapped for remote %s", call, (direction == PUT) ? "write" : "read");
    return UCS_ERR_INVALID_PARAM;
}

/* UCS_OK with *length_p 0: nothing to do. CW_CALL_DEVICE: as with cw_call_check_param; *length_p is not 0. */
static CW_INLINE ucs_status_t check(ucp_worker_h worker, const void *buffer, size_t count, uint64_t address,
                                    const struct ucp_rkey *rkey, const ucp_request_param_t *param,
                                    enum direction direction, const char *call, size_t *length_p)
{
    ucs_status_t checked = UCS_OK, status = UCS_OK;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_RMA))) {
        return cw_call_feature_missing(call, "UCP_FEATURE_RMA");
    }
    *length_p = count;
    if (cw_unlikely(param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE)) {
        status = measure(buffer, count, param->datatype, call, length_p);
    }
    if (cw_unlikely(!cw_call_has_little(worker, param) || !cw_call_is_host(worker, buffer)) && status == UCS_OK) {
        checked = cw_call_check_buffer(worker, param, buffer, count, (direction == PUT) ? CW_CALL_REMOTE : 0);
        status = (checked == CW_CALL_DEVICE) ? UCS_OK : checked;
    }
    if (cw_unlikely(status != UCS_OK || count == 0)) {
        return status;
    }
    if (cw_unlikely(buffer == NULL && *length_p > 0)) {
        cw_error("%s: NULL buffer of %zu bytes", call, *length_p);
        return UCS_ERR_INVALID_PARAM;
    }
    if (cw_unlikely(buffer == NULL || *length_p == 0)) {
        *length_p = 0;
        return UCS_OK;
    }
    if (cw_unlikely(!cw_rkey_holds(rkey, address, *length_p))) {
        return out_of_range(rkey, address, *length_p, call);
    }
    if (cw_unlikely(!(rkey->key.rights & ((direction == PUT) ? CW_KEY_WRITE : CW_KEY_READ)))) {
        return no_right(direction, call);
    }
    return checked;
}

/* Slow path; the worker is entered. noinline, with the arguments in their registers: keeps spills out of the fast
 * path. */
static CW_NOINLINE ucs_status_ptr_t put(ucp_ep_h ep, const void *buffer, size_t count, uint64_t address,
                                        ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    struct cw_call_device device;
    ucs_status_t status;
    size_t length;

    if (cw_likely(!cw_call_is_sgl(ep, param))) {
        status = check(ep->worker, buffer, count, address, rkey, param, PUT, "ucp_put_nbx", &length);
        if (cw_unlikely(status == CW_CALL_DEVICE)) {
            param = cw_call_with_device(param, &device);
            status = UCS_OK;
        }
        return cw_unlikely(status != UCS_OK || length == 0) ? UCS_STATUS_PTR(status) :
               cw_put(ep, buffer, count, length, address, rkey, param);
    }
    return cw_call_sgl(ep, buffer, count, address, rkey, param, 0);
}

static CW_NOINLINE ucs_status_ptr_t get(ucp_ep_h ep, void *buffer, size_t count, uint64_t address, ucp_rkey_h rkey,
                                        const ucp_request_param_t *param)
{
    struct cw_call_device device;
    ucs_status_t status;
    size_t length;

    if (cw_likely(!cw_call_is_sgl(ep, param))) {
        status = check(ep->worker, buffer, count, address, rkey, param, GET, "ucp_get_nbx", &length);
        if (cw_unlikely(status == CW_CALL_DEVICE)) {
            param = cw_call_with_device(param, &device);
            status = UCS_OK;
        }
        return cw_unlikely(status != UCS_OK || length == 0) ? UCS_STATUS_PTR(status) :
               cw_get(ep, buffer, count, length, address, rkey, param);
    }
    return cw_call_sgl(ep, buffer, count, address, rkey, param, 1);
}

/* Whether the key permits it, and the memory is accessible by loads and stores. */
static CW_INLINE bool is_reached(const struct ucp_rkey *rkey, uint64_t address, uint64_t length,
                                 enum direction direction)
{
    const uint64_t reach = (direction == PUT) ? rkey->writable : rkey->readable;

    return length <= reach && address - rkey->key.address <= reach - length;
}

/* Whether contiguous bytes can be copied inside the call: no request is returned, and the worker is entered only if it
 * has a lock. */
static CW_INLINE bool is_fast(ucp_ep_h ep, uint64_t fast_features, const void *buffer, size_t count, uint64_t address,
                              const struct ucp_rkey *rkey, const ucp_request_param_t *param, enum direction direction)
{
    const uint32_t closer = CW_CALL_CHECKED | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;

    return cw_likely((fast_features & UCP_FEATURE_RMA) && !(param->op_attr_mask & closer) && count != 0 &&
                     buffer != NULL && cw_call_is_host(ep->worker, buffer) &&
                     is_reached(rkey, address, count, direction) &&
                     cw_rma_is_direct(ep, rkey, address, count, direction == PUT));
}

/* For workers with a lock: takes the lock, then the same fast path; other calls continue as without a lock. */
static CW_NOINLINE ucs_status_ptr_t put_shared(ucp_ep_h ep, const void *buffer, size_t count, uint64_t address,
                                               ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_ptr_t result = NULL;

    cw_lock_enter_inline(&worker->lock);
    if (is_fast(ep, worker->fast_features_locked, buffer, count, address, rkey, param, PUT)) {
        cw_count_message(worker, CW_COUNT_PUT_SENT, count);
        cw_bytes_copy(cw_rkey_pointer(rkey, address), buffer, count);
    } else {
        result = put(ep, buffer, count, address, rkey, param);
    }
    cw_lock_leave_inline(&worker->lock);
    return result;
}

static CW_NOINLINE ucs_status_ptr_t get_shared(ucp_ep_h ep, void *buffer, size_t count, uint64_t address,
                                               ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_ptr_t result = NULL;

    cw_lock_enter_inline(&worker->lock);
    if (is_fast(ep, worker->fast_features_locked, buffer, count, address, rkey, param, GET)) {
        cw_count_message(worker, CW_COUNT_GET_RECEIVED, count);
        cw_bytes_copy(buffer, cw_rkey_pointer(rkey, address), count);
    } else {
        result = get(ep, buffer, count, address, rkey, param);
    }
    cw_lock_leave_inline(&worker->lock);
    return result;
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    CW_PROBE(put, ep, count, remote_addr); /* the arguments are still in their registers */
    if (is_fast(ep, ep->worker->fast_features, buffer, count, remote_addr, rkey, param, PUT)) {
        cw_count_message(ep->worker, CW_COUNT_PUT_SENT, count);
        cw_bytes_copy(cw_rkey_pointer(rkey, remote_addr), buffer, count);
        return NULL;
    }
    return cw_unlikely(ep->worker->mt) ? put_shared(ep, buffer, count, remote_addr, rkey, param) :
           put(ep, buffer, count, remote_addr, rkey, param);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    CW_PROBE(get, ep, count, remote_addr);
    if (is_fast(ep, ep->worker->fast_features, buffer, count, remote_addr, rkey, param, GET)) {
        cw_count_message(ep->worker, CW_COUNT_GET_RECEIVED, count);
        cw_bytes_copy(buffer, cw_rkey_pointer(rkey, remote_addr), count);
        return NULL;
    }
    return cw_unlikely(ep->worker->mt) ? get_shared(ep, buffer, count, remote_addr, rkey, param) :
           get(ep, buffer, count, remote_addr, rkey, param);
}
