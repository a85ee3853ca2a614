/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active message calls (AMS-*, AMR-*, AMD-1). The deprecated send is in compat.c.
 */
#include "abi/call.h"
#include "core/mem.h"
#include "op/am.h"
#include "op/op_ep.h"

#define KNOWN_FLAGS ((uint32_t)(UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA))

static ucs_status_t set_handler(ucp_worker_h worker, unsigned id, struct cw_am_handler handler, uint32_t flags,
                                const char *call)
{
    if (!cw_worker_has(worker, UCP_FEATURE_AM)) {
        return cw_call_feature_missing(call, "UCP_FEATURE_AM");
    }
    if (flags & ~KNOWN_FLAGS) {
        cw_error("%s knows no flags 0x%x", call, (unsigned)(flags & ~KNOWN_FLAGS));
        return UCS_ERR_INVALID_PARAM;
    }
    if (id > UINT16_MAX) {
        cw_error("%s: there is no active message %u; the greatest id is %u", call, id, (unsigned)UINT16_MAX);
        return UCS_ERR_INVALID_PARAM;
    }
    handler.persistent = (flags & UCP_AM_FLAG_PERSISTENT_DATA) != 0;
    return CW_CALL_INSIDE(worker, cw_am_set_handler(worker, (uint16_t)id, &handler));
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
    const uint64_t needed        = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    uint64_t mask                = param->field_mask;
    struct cw_am_handler handler = {0};

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    if ((mask & needed) != needed) {
        cw_error("ucp_worker_set_am_recv_handler needs both id and cb");
        return UCS_ERR_INVALID_PARAM;
    }
    handler.recv   = param->cb;
    handler.arg    = (mask & UCP_AM_HANDLER_PARAM_FIELD_ARG) ? param->arg : NULL;
    handler.is_set = param->cb != NULL;
    return set_handler(worker, param->id, handler, (mask & UCP_AM_HANDLER_PARAM_FIELD_FLAGS) ? param->flags : 0,
                       __func__);
}

ucs_status_t ucp_worker_set_am_handler(ucp_worker_h worker, uint16_t id, ucp_am_callback_t cb, void *arg,
                                       uint32_t flags)
{
    struct cw_am_handler handler = {.old = cb, .arg = arg, .is_old = 1, .is_set = cb != NULL};

    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    return set_handler(worker, id, handler, flags, __func__);
}

static ucs_status_t check_send(ucp_worker_h worker, size_t header_length, const ucp_request_param_t *param)
{
    const uint32_t both = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_RNDV;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_AM))) {
        return cw_call_feature_missing("ucp_am_send_nbx", "UCP_FEATURE_AM");
    }
    if (cw_unlikely(header_length > 0 && header_length > cw_am_max_header(worker))) {
        cw_error("a header of %zu bytes is too long; ucp_worker_query tells max_am_header, which is %zu",
                 header_length, cw_am_max_header(worker));
        return UCS_ERR_INVALID_PARAM;
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && cw_unlikely((param->flags & both) == both)) {
        cw_error("UCP_AM_SEND_FLAG_EAGER and UCP_AM_SEND_FLAG_RNDV exclude each other");
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

/* AMS-8: a payload in imported memory goes by rendezvous unless EAGER is set. `*with`: room for the changed copy. */
static const ucp_request_param_t *choose_way(const ucp_request_param_t *param, ucp_request_param_t *with)
{
    const uint32_t flags = (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) ? param->flags : 0;

    if (cw_likely(!(param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH)) || (flags & UCP_AM_SEND_FLAG_EAGER) ||
        !cw_mem_is_imported(param->memh)) {
        return param;
    }
    cw_call_copy_param(with, param);
    with->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    with->flags         = flags | UCP_AM_SEND_FLAG_RNDV;
    return with;
}

/* Out of line, so that the most frequent call saves no registers across its inner call. */
static CW_APART ucs_status_ptr_t send_checked(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                              const void *buffer, size_t count, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    ucs_status_t status = check_send(worker, header_length, param);
    struct cw_call_device device;
    ucp_request_param_t with;

    if (cw_likely(status == UCS_OK)) {
        status = cw_call_check(worker, &param, buffer, count, &device);
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return CW_CALL_INSIDE(worker, cw_am_send(ep, id, header, header_length, buffer, count, choose_way(param, &with)));
}

#define SEND_UNUSUAL (UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS)

/* Whether a call is plain: no header, no unusual attribute. `quick`: features whose plain calls go a short way. */
static CW_INLINE int is_plain(uint64_t quick, size_t header_length, const ucp_request_param_t *param)
{
    return (quick & UCP_FEATURE_AM) && header_length == 0 && cw_call_is_plain(param, SEND_UNUSUAL);
}

/* Whether the message can be written to a cell without a further call. */
static CW_INLINE int fits_now(const struct ucp_ep *ep, size_t count)
{
    return count <= CW_CELL_SHORT && cw_cell_can_put_now(ep->cells, count) && cw_list_empty(&ep->pending) &&
           cw_op_ep(ep)->fences == 0;
}

/* There may be room in the ring. `header_length` is 0; the parameter keeps all arguments in their registers. */
static CW_APART ucs_status_ptr_t send_plain(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                            const void *buffer, size_t count, const ucp_request_param_t *param)
{
    return (cw_ep_can_put(ep, count) && cw_op_ep(ep)->fences == 0) ?
           cw_am_send_cell(ep, id, header, header_length, buffer, count) :
           cw_ep_has_area(ep, count) ? cw_am_send_longer(ep, id, buffer, count, param) :
           cw_am_send(ep, id, header, 0, buffer, count, param);
}

/* A plain call on a worker with a lock takes the lock and then the same short way. */
static CW_APART ucs_status_ptr_t send_shared(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                             const void *buffer, size_t count, const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;

    if (!is_plain(worker->quick_locked, header_length, param) || !cw_worker_is_host(worker, buffer)) {
        return send_checked(ep, id, header, header_length, buffer, count, param);
    }
    return CW_CALL_LOCKED(worker, cw_likely(fits_now(ep, count)) ? cw_am_send_cell(ep, id, header, 0, buffer, count)
                                                                 : send_plain(ep, id, header, 0, buffer, count, param));
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t count, const ucp_request_param_t *param)
{
    CW_PROBE(am_send, ep, id, count);
    if (cw_likely(is_plain(ep->worker->quick, header_length, param) && cw_worker_is_host(ep->worker, buffer))) {
        return cw_likely(fits_now(ep, count)) ?
               cw_am_send_cell(ep, id, header, header_length, buffer, count) :
               cw_likely(ep->cells->cell != ep->cells->stop) ?
               send_plain(ep, id, header, header_length, buffer, count, param) :
               cw_am_send(ep, id, header, 0, buffer, count, param);
    }
    return (ep->worker->quick_locked & UCP_FEATURE_AM) ?
           send_shared(ep, id, header, header_length, buffer, count, param) :
           send_checked(ep, id, header, header_length, buffer, count, param);
}

static CW_APART ucs_status_ptr_t recv_data_locked(ucp_worker_h worker, void *data_desc, void *buffer, size_t count,
                                                  const ucp_request_param_t *param)
{
    return CW_CALL_LOCKED(worker, cw_am_recv_data(worker, data_desc, buffer, count, param));
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer, size_t count,
                                      const ucp_request_param_t *param)
{
    ucs_status_t status = CW_CALL_NEEDS(worker, UCP_FEATURE_AM);
    struct cw_call_device device;

    if (cw_likely(status == UCS_OK)) {
        status = cw_call_check(worker, &param, buffer, count, &device);
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return cw_likely(!worker->mt) ? cw_am_recv_data(worker, data_desc, buffer, count, param) :
           recv_data_locked(worker, data_desc, buffer, count, param);
}

static CW_APART void data_release_locked(ucp_worker_h worker, void *data)
{
    cw_lock_enter_inline(&worker->lock);
    cw_am_data_release(worker, data);
    cw_lock_leave_inline(&worker->lock);
}

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
    if (CW_CALL_NEEDS(worker, UCP_FEATURE_AM) != UCS_OK) {
        return;
    }
    if (cw_likely(!worker->mt)) {
        cw_am_data_release(worker, data);
    } else {
        data_release_locked(worker, data);
    }
}
