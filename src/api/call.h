/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of src/api: a public call checks its arguments, enters the worker, calls one function, and
 * leaves. This layer has no state.
 */
#ifndef CW_API_CALL_H
#define CW_API_CALL_H

#include <stdbool.h>

#include "base/log.h"
#include "base/probe.h"
#include "core/context.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/datatype.h"

/* Joins the parts above the core to a worker; wiring.c. */
extern const struct cw_worker_handlers cw_call_handlers;

static inline ucp_worker_h cw_ep_worker(ucp_ep_h ep)
{
    return ep->worker;
}

/* Logs which feature a call lacks. */
ucs_status_t cw_call_feature_missing(const char *call, const char *feature);

/* Logs that `handle` is NULL and returns true. `what`: name of the object, such as "worker". The fast paths of sends,
 * receives, flushes and fences do not check: a NULL handle crashes there as any bad pointer does. */
bool cw_call_is_missing(const char *call, const char *what);
#define CW_CALL_LACKS(handle, what) (cw_unlikely((handle) == NULL) && ((void)cw_call_is_missing(__func__, what), 1))

/* Returns `value` from the public call if the object is missing. */
#define CW_CALL_RETURN_IF_NULL(handle, what, value)                                                                    \
    do {                                                                                                               \
        if (CW_CALL_LACKS(handle, what)) {                                                                             \
            return value;                                                                                              \
        }                                                                                                              \
    } while (0)

/* Evaluates an expression inside the worker. */
#define CW_CALL_INSIDE(worker, expression)                                                                             \
    ({                                                                                                                 \
        __typeof__(expression) cw_call_result;                                                                         \
        cw_worker_enter(worker);                                                                                       \
        cw_call_result = (expression);                                                                                 \
        cw_worker_leave(worker);                                                                                       \
        cw_call_result;                                                                                                \
    })

/* As CW_CALL_INSIDE for a worker that is known to have a lock, on a fast path. */
#define CW_CALL_LOCKED(worker, expression)                                                                             \
    ({                                                                                                                 \
        __typeof__(expression) cw_call_result;                                                                         \
        cw_lock_enter_inline(&(worker)->lock);                                                                         \
        cw_call_result = (expression);                                                                                 \
        cw_lock_leave_inline(&(worker)->lock);                                                                         \
        cw_call_result;                                                                                                \
    })

#define CW_CALL_NEEDS(worker, feature) \
    (cw_likely(cw_worker_has(worker, feature)) ? UCS_OK : cw_call_feature_missing(__func__, #feature))

/* CW_CALL_NEEDS for slow paths: the worker may be NULL. */
#define CW_CALL_NEEDS_OF(worker, feature) \
    (CW_CALL_LACKS(worker, "worker") ? UCS_ERR_INVALID_PARAM : CW_CALL_NEEDS(worker, feature))

/* Whether a forked child destroys an object of its parent, as static destructors may: connections and event queues are
 * shared with the parent, which continues to use them. Logs it once. */
bool cw_call_is_inherited(const struct ucp_context *context, const char *call);

/* The checks of attributes that all communication calls share; and those of a buffer. */
ucs_status_t cw_call_check_flags(const ucp_request_param_t *param); /* flags and memory type only */
ucs_status_t cw_call_check_attributes(ucp_worker_h worker, const ucp_request_param_t *param);
ucs_status_t cw_call_check_buffer(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count, uint32_t ignored); /* 0, or CW_CALL_REMOTE for puts */

/* Bits that describe remote memory; only puts and gets of many pieces use them. At an API level without them they are
 * unknown bits. */
#define CW_CALL_REMOTE \
    (UCP_OP_ATTR_FIELD_REMOTE_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT)

/* The bits that cw_call_check_param checks. */
#define CW_CALL_CHECKED \
    (UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_DATATYPE | \
     UCP_OP_ATTR_FIELD_MEMH | CW_CALL_REMOTE)

/* Copies the members that the mask names; the structure of an older program may lack the others. */
void cw_call_copy_param(ucp_request_param_t *to, const ucp_request_param_t *from);

/* Whether `memory` is known to be host memory, so that a call need not check it. The program may load a GPU driver at
 * any time; until then each granule is checked once (note_host), because asking the loader each time would
 * cost as much as a short message. */
static CW_INLINE bool cw_call_is_host(const struct ucp_worker *worker, const void *memory)
{
    const uintptr_t granule = (uintptr_t)memory >> CW_WORKER_GRANULE_SHIFT;

    return cw_likely(__atomic_load_n(&worker->host[granule % CW_WORKER_GRANULES], __ATOMIC_RELAXED) == granule);
}

/* Whether no attribute needs a check, except a contiguous datatype. */
static inline bool cw_call_has_little(ucp_worker_h worker, const ucp_request_param_t *param)
{
    const uint32_t checked = (param->op_attr_mask | worker->checked_attr) & CW_CALL_CHECKED;

    return checked == 0 || (checked == UCP_OP_ATTR_FIELD_DATATYPE && cw_dt_is_contig(param->datatype));
}

/* UCS_OK, an error, or CW_CALL_DEVICE: no error, and it is device memory; the call then continues with the parameters
 * that cw_call_with_device returns. cw_call_check does both. */
static inline ucs_status_t cw_call_check_param(ucp_worker_h worker, const ucp_request_param_t *param,
                                               const void *buffer, size_t count)
{
    return cw_likely(cw_call_has_little(worker, param) && cw_call_is_host(worker, buffer)) ? UCS_OK :
           cw_call_check_buffer(worker, param, buffer, count, 0);
}

#define CW_CALL_DEVICE UCS_INPROGRESS

struct cw_call_device {
    ucp_request_param_t param;
    struct cw_dt_device memory;
};

/* As cw_call_check_param, after the attributes were validated. */
ucs_status_t cw_call_check_memory(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count);
/* Checks the local memory that an atomic operation reads and writes: device memory is rejected. */
ucs_status_t cw_call_check_operand(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                   size_t size);
/* The parameters with the datatype of the device, for the memory that this thread checked last. They live as long as
 * *device. */
const ucp_request_param_t *cw_call_with_device(const ucp_request_param_t *param, struct cw_call_device *device);
/* As cw_call_check_param; for device memory *param_p becomes what cw_call_with_device returns, and the result is
 * UCS_OK. */
static inline ucs_status_t cw_call_check(ucp_worker_h worker, const ucp_request_param_t **param_p, const void *buffer,
                                         size_t count, struct cw_call_device *device)
{
    ucs_status_t status = cw_call_check_param(worker, *param_p, buffer, count);

    if (cw_unlikely(status == CW_CALL_DEVICE)) {
        *param_p = cw_call_with_device(*param_p, device);
        return UCS_OK;
    }
    return status;
}

/* sgl.c: puts and gets of many pieces; the worker is entered. */
ucs_status_ptr_t cw_call_sgl(ucp_ep_h ep, const void *buffer, size_t count, uint64_t address, ucp_rkey_h rkey,
                             const ucp_request_param_t *param, int is_get);

/* Whether the parameters have the SGL datatype, and the program's API level supports it. */
static inline bool cw_call_is_sgl(const ucp_ep_h ep, const ucp_request_param_t *param)
{
    return (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) &&
           (param->datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_SGL && ep->worker->context->api.has_remote;
}

/* Size of a counter that devices change. */
#define CW_CALL_COUNTER_SIZE sizeof(uint64_t)

/* Whether the buffer is contiguous bytes and no attribute of `unusual` is set, so that no check is needed. */
#define CW_CALL_UNUSUAL (CW_CALL_CHECKED & ~(uint32_t)UCP_OP_ATTR_FIELD_DATATYPE)

static CW_INLINE bool cw_call_is_fast(const ucp_request_param_t *param, uint32_t unusual)
{
    const uint32_t mask = param->op_attr_mask;

    return !(mask & (CW_CALL_UNUSUAL | unusual)) &&
           (!(mask & UCP_OP_ATTR_FIELD_DATATYPE) || param->datatype == ucp_dt_make_contig(1));
}

/* The forms of a call. The general form checks the arguments and accepts all of them; it defines the behaviour. The
 * fast form does the same for contiguous bytes of host memory, with nothing to check. */
enum cw_call_form {
    CW_CALL_GENERAL,
    CW_CALL_FAST,
    CW_CALL_FAST_LOCKED /* the worker has a lock, which the call takes */
};

/* `unusual`: attributes that the fast form of this call does not support. */
static CW_INLINE enum cw_call_form cw_call_form(ucp_worker_h worker, uint64_t feature, const void *buffer,
                                                const ucp_request_param_t *param, uint32_t unusual)
{
    if (cw_unlikely(!cw_call_is_fast(param, unusual) || !cw_call_is_host(worker, buffer))) {
        return CW_CALL_GENERAL;
    }
    if (cw_likely(worker->fast_features & feature)) {
        return CW_CALL_FAST;
    }
    return (worker->fast_features_locked & feature) ? CW_CALL_FAST_LOCKED : CW_CALL_GENERAL;
}

#endif
