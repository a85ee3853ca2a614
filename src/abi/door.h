/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the door share. The door checks arguments, enters the worker, calls one function, and leaves; it
 * has no state.
 */
#ifndef CW_ABI_DOOR_H
#define CW_ABI_DOOR_H

#include "base/log.h"
#include "base/probe.h"
#include "core/context.h"
#include "core/ep.h"
#include "core/worker.h"

/* How the parts above the core are joined to a worker; wiring.c. */
extern const struct cw_worker_handlers cw_door_handlers;

static inline ucp_worker_h cw_ep_worker(ucp_ep_h ep)
{
    return ep->worker;
}

/* Logs which feature a call lacks (CTX-11, ABU-2). */
ucs_status_t cw_door_feature_missing(const char *call, const char *feature);

#define CW_DOOR_NEEDS(worker, feature) \
    (cw_likely(cw_worker_has(worker, feature)) ? UCS_OK : cw_door_feature_missing(__func__, #feature))

/* Whether a forked child tries to take down what it inherited, as its static destructors may: connections and queues of
 * events are shared with the parent, which goes on using them. Says so once. */
int cw_door_is_inherited(const struct ucp_context *context, const char *call);

/* The checks of attributes that all communication calls share: OPA-11, OPA-15, DT-5, DT-15; and for a buffer OPA-13. */
ucs_status_t cw_door_check_attributes(const ucp_request_param_t *param);
ucs_status_t cw_door_check_buffer(const ucp_request_param_t *param, const void *buffer, size_t count);

/* What cw_door_check_param looks at. */
#define CW_DOOR_CHECKED \
    (UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMH)

static inline ucs_status_t cw_door_check_param(const ucp_request_param_t *param, const void *buffer, size_t count)
{
    return cw_likely(!(param->op_attr_mask & CW_DOOR_CHECKED)) ? UCS_OK : cw_door_check_buffer(param, buffer, count);
}

/* Plain bytes, and nothing to check: none of `unusual` is asked for. */
#define CW_DOOR_UNUSUAL (CW_DOOR_CHECKED & ~(uint32_t)UCP_OP_ATTR_FIELD_DATATYPE)

static CW_INLINE int cw_door_is_plain(const ucp_request_param_t *param, uint32_t unusual)
{
    const uint32_t mask = param->op_attr_mask;

    return !(mask & (CW_DOOR_UNUSUAL | unusual)) &&
           (!(mask & UCP_OP_ATTR_FIELD_DATATYPE) || param->datatype == ucp_dt_make_contig(1));
}

#endif
