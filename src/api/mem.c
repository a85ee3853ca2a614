/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration and remote keys. The table of regions has a lock of its own, so no worker is entered, except to
 * record that an endpoint's peer has memory that is reached without a connection.
 */
#include <stdlib.h>

#include "api/call.h"
#include "core/mem.h"
#include "core/rkey.h"

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh_p)
{
    CW_CALL_RETURN_IF_NULL(context, "context", UCS_ERR_INVALID_PARAM);
    return cw_mem_map(context, params, memh_p);
}

/* Open MPI 4.1 passes NULL for a region of a dynamic window to which several regions were attached. */
ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    if (memh == NULL) {
        cw_error("cannot unmap memory: memh is NULL");
        return UCS_ERR_INVALID_PARAM;
    }
    return cw_mem_unmap(context, memh);
}

ucs_status_t ucp_mem_query(const ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    CW_CALL_RETURN_IF_NULL(memh, "memory handle", UCS_ERR_INVALID_PARAM);
    return cw_mem_query(memh, attr);
}

void ucp_mem_print_info(const char *mem_spec, ucp_context_h context, FILE *stream)
{
    CW_CALL_RETURN_IF_NULL(context, "context", );
    cw_mem_print(context, mem_spec, stream);
}

ucs_status_t ucp_mem_advise(ucp_context_h context CW_UNUSED, ucp_mem_h memh, ucp_mem_advise_params_t *params)
{
    CW_CALL_RETURN_IF_NULL(memh, "memory handle", UCS_ERR_INVALID_PARAM);
    return cw_mem_advise(memh, params);
}

static ucs_status_t pack_memh(ucp_mem_h memh, int exports, uint8_t *bytes, size_t *length_p)
{
    if (exports) {
        return cw_mem_export(memh, bytes, length_p);
    }
    *length_p = cw_mem_pack(memh, bytes);
    return UCS_OK;
}

ucs_status_t ucp_memh_pack(ucp_mem_h memh, const ucp_memh_pack_params_t *params, void **buffer_p, size_t *buffer_size_p)
{
    const uint64_t flags = (params->field_mask & UCP_MEMH_PACK_PARAM_FIELD_FLAGS) ? params->flags : 0;
    ucs_status_t status;
    uint8_t *bytes;
    size_t length;

    CW_CALL_RETURN_IF_NULL(memh, "memory handle", UCS_ERR_INVALID_PARAM);
    bytes = malloc(CW_MEM_EXPORT_MAX);
    if (bytes == NULL) {
        cw_error("out of memory for a packed memory handle of %u bytes", CW_MEM_EXPORT_MAX);
        return UCS_ERR_NO_MEMORY;
    }
    status = pack_memh(memh, (flags & UCP_MEMH_PACK_FLAG_EXPORT) != 0, bytes, &length);
    if (status != UCS_OK) {
        free(bytes);
        return status;
    }
    *buffer_p = bytes;
    *buffer_size_p = length;
    return UCS_OK;
}

void ucp_memh_buffer_release(void *buffer, const ucp_memh_buffer_release_params_t *params CW_UNUSED)
{
    free(buffer);
}

/* Records that the program may access memory of this peer directly: flushes then cover that as well
 * (core/ep_close.c). */
static void note_direct(ucp_ep_h ep)
{
    cw_worker_enter(ep->worker);
    ep->peer->direct = 1;
    cw_worker_leave(ep->worker);
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p)
{
    ucs_status_t status;

    CW_CALL_RETURN_IF_NULL(ep, "endpoint", UCS_ERR_INVALID_PARAM);
    CW_CALL_RETURN_IF_NULL(rkey_buffer, "packed key", UCS_ERR_INVALID_PARAM);
    status = cw_rkey_unpack(ep->worker->context, rkey_buffer,
                            ep->worker->mt || ep->worker->context->mt_workers_shared, rkey_p);
    if (status == UCS_ERR_INVALID_PARAM) {
        cw_error("cannot unpack a remote key: not a key of this library");
    } else if (status != UCS_OK) {
        cw_error("cannot unpack a remote key: %s", ucs_status_string(status));
    } else if ((*rkey_p)->local != NULL) {
        note_direct(ep);
    }
    if (status == UCS_OK) {
        (*rkey_p)->ep = ep;
    }
    return status;
}

ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t raddr, void **addr_p)
{
    CW_CALL_RETURN_IF_NULL(rkey, "remote key", UCS_ERR_INVALID_PARAM);
    return cw_rkey_ptr(rkey, raddr, addr_p);
}

ucs_status_t ucp_rkey_compare(ucp_worker_h worker CW_UNUSED, ucp_rkey_h rkey1, ucp_rkey_h rkey2,
                              const ucp_rkey_compare_params_t *params, int *result)
{
    CW_CALL_RETURN_IF_NULL(rkey1, "remote key", UCS_ERR_INVALID_PARAM);
    CW_CALL_RETURN_IF_NULL(rkey2, "remote key", UCS_ERR_INVALID_PARAM);
    if (params->field_mask != 0 || result == NULL) {
        cw_error("ucp_rkey_compare takes no optional fields and needs a result");
        return UCS_ERR_INVALID_PARAM;
    }
    *result = cw_rkey_compare(rkey1, rkey2);
    return UCS_OK;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
    CW_CALL_RETURN_IF_NULL(rkey, "remote key", );
    cw_rkey_release(rkey);
}
