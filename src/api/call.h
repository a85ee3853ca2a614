/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declarations for the files of src/api: a public call checks its arguments, enters the worker, calls one function, and
 * leaves. This layer has no state.
 */
#ifndef CW_API_CALL_H
#define CW_API_CALL_H

#include "base/log.h"
#include "base/probe.h"
#include "core/context.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/datatype.h"

/* How the parts above the core are joined to a worker; wiring.c. */
extern const struct cw_worker_handlers cw_call_handlers;

static inline ucp_worker_h cw_ep_worker(ucp_ep_h ep)
{
    return ep->worker;
}

/* Logs which feature a call lacks. */
ucs_status_t cw_call_feature_missing(const char *call, const char *feature);

/* Logs that `handle` is NULL and returns 1. `what`: name of the object, such as "worker". The short ways of
 * sends, receives, flushes and fences do not look: a NULL handle ends there as any bad pointer does. */
int cw_call_is_missing(const char *call, const char *what);
#define CW_CALL_LACKS(handle, what) (cw_unlikely((handle) == NULL) && ((void)cw_call_is_missing(__func__, what), 1))

/* The public call returns `value` if it lacks that object. */
#define CW_CALL_RETURN_IF_NULL(handle, what, value)                                                                    \
    do {                                                                                                               \
        if (CW_CALL_LACKS(handle, what)) {                                                                             \
            return value;                                                                                              \
        }                                                                                                              \
    } while (0)

/* The value of an expression that is computed inside the worker. */
#define CW_CALL_INSIDE(worker, expression)                                                                             \
    ({                                                                                                                 \
        __typeof__(expression) cw_call_result;                                                                         \
        cw_worker_enter(worker);                                                                                       \
        cw_call_result = (expression);                                                                                 \
        cw_worker_leave(worker);                                                                                       \
        cw_call_result;                                                                                                \
    })

/* As CW_CALL_INSIDE for a worker that is known to have a lock, on a short way. */
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

/* CW_CALL_NEEDS for calls that are not on a short way: the worker may be NULL. */
#define CW_CALL_NEEDS_OF(worker, feature) \
    (CW_CALL_LACKS(worker, "worker") ? UCS_ERR_INVALID_PARAM : CW_CALL_NEEDS(worker, feature))

/* Whether a forked child destroys an object of its parent, as static destructors may: connections and queues of events
 * are shared with the parent, which goes on using them. Logs it once. */
int cw_call_is_inherited(const struct ucp_context *context, const char *call);

/* The checks of attributes that all communication calls share: OPA-11; and for a buffer OPA-13. */
ucs_status_t cw_call_check_flags(const ucp_request_param_t *param); /* the first two of them */
ucs_status_t cw_call_check_attributes(ucp_worker_h worker, const ucp_request_param_t *param);
ucs_status_t cw_call_check_buffer(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count);

/* As cw_call_check_buffer for puts, which ignore attributes of the remote side. */
ucs_status_t cw_call_check_local(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                 size_t count);

/* Bits that describe memory at the other side; only puts and gets of many pieces use them. For programs of
 * an API level without them they are unknown bits. */
#define CW_CALL_REMOTE \
    (UCP_OP_ATTR_FIELD_REMOTE_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT)

/* The bits that cw_call_check_param looks at. */
#define CW_CALL_CHECKED \
    (UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_DATATYPE | \
     UCP_OP_ATTR_FIELD_MEMH | CW_CALL_REMOTE)

/* Copies the members that the mask names; the structure of an older program may have no others. */
void cw_call_copy_param(ucp_request_param_t *to, const ucp_request_param_t *from);

/* Whether `memory` is known to be the host's, so that a call need not check it. The program may load a driver of GPUs
 * at any time; while it has none, each granule is checked once (cw_call_check_loaded), since asking the loader each
 * time would cost as much as a short message. */
static CW_INLINE bool cw_call_is_host(const struct ucp_worker *worker, const void *memory)
{
    const uintptr_t granule = (uintptr_t)memory >> CW_WORKER_GRANULE_SHIFT;

    return cw_likely(__atomic_load_n(&worker->host[granule % CW_WORKER_GRANULES], __ATOMIC_RELAXED) == granule);
}

/* Whether no attribute has to be checked but perhaps the datatype, and that is contiguous. */
static inline bool cw_call_has_little(ucp_worker_h worker, const ucp_request_param_t *param)
{
    const uint32_t checked = (param->op_attr_mask | worker->looks) & CW_CALL_CHECKED;

    return checked == 0 || (checked == UCP_OP_ATTR_FIELD_DATATYPE && cw_dt_is_contig(param->datatype));
}

/* UCS_OK, an error, or CW_CALL_DEVICE: no error, and the memory is a device's; the call then continues with the
 * parameters that cw_call_with_device returns, which cw_call_check does by itself. */
static inline ucs_status_t cw_call_check_param(ucp_worker_h worker, const ucp_request_param_t *param,
                                               const void *buffer, size_t count)
{
    return cw_likely(cw_call_has_little(worker, param) && cw_call_is_host(worker, buffer)) ? UCS_OK :
           cw_call_check_buffer(worker, param, buffer, count);
}

/* Memory types. Unless memory of devices may come, the granule of `memory` is the host's from now on. */
void cw_call_check_loaded(ucp_worker_h worker, const void *memory);

#define CW_CALL_DEVICE UCS_INPROGRESS

struct cw_call_device {
    ucp_request_param_t param;
    struct cw_dt_device memory;
};

/* As cw_call_check_param, once the attributes are known to be well formed. */
ucs_status_t cw_call_check_memory(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                  size_t count);
/* Checks the memory that an atomic operation reads and writes here: memory of a device is refused. */
ucs_status_t cw_call_check_operand(ucp_worker_h worker, const ucp_request_param_t *param, const void *buffer,
                                   size_t size);
/* The parameters with the datatype of the device, for the memory that this thread checked last. They live as long as
 * *device. */
const ucp_request_param_t *cw_call_with_device(const ucp_request_param_t *param, struct cw_call_device *device);
/* As cw_call_check_param; for memory of a device *param_p becomes what cw_call_with_device returns, and the answer is
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

/* Whether the parameters are of that datatype, and the program's level has it. */
static inline int cw_call_is_sgl(const ucp_ep_h ep, const ucp_request_param_t *param)
{
    return (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) &&
           (param->datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_SGL && ep->worker->context->api.has_remote;
}

/* Bytes of a counter that devices change. */
#define CW_CALL_COUNTER_SIZE sizeof(uint64_t)

/* Whether the buffer is plain bytes and no attribute of `unusual` is set, so that no check is needed. */
#define CW_CALL_UNUSUAL (CW_CALL_CHECKED & ~(uint32_t)UCP_OP_ATTR_FIELD_DATATYPE)

static CW_INLINE int cw_call_is_fast(const ucp_request_param_t *param, uint32_t unusual)
{
    const uint32_t mask = param->op_attr_mask;

    return !(mask & (CW_CALL_UNUSUAL | unusual)) &&
           (!(mask & UCP_OP_ATTR_FIELD_DATATYPE) || param->datatype == ucp_dt_make_contig(1));
}

/* The forms of a call. The general form checks the arguments and takes every one of them; its behaviour is what the
 * manual says. The fast form does the same with plain bytes of host memory and has nothing to check. */
enum cw_call_form {
    CW_CALL_GENERAL,
    CW_CALL_FAST,
    CW_CALL_FAST_LOCKED /* the worker has a lock, which the call takes */
};

/* `unusual`: attributes that the fast form of this call does not take. */
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
