/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration and remote keys.
 * Callers: programs. Specification: MEM and KEY.
 * Nothing of this group works yet: every call answers UCS_ERR_NOT_IMPLEMENTED in the form natural for it, leaves its
 * outputs alone and has no effect. docs/STATUS.md lists the calls; remove each from there when it works.
 */
#include <ucp/api/ucp.h>

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params, ucp_mem_h *memh_p)
{
    (void)context;
    (void)params;
    (void)memh_p;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    (void)context;
    (void)memh;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_mem_query(const ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    (void)memh;
    (void)attr;
    return UCS_ERR_NOT_IMPLEMENTED;
}

void ucp_mem_print_info(const char *mem_spec, ucp_context_h context, FILE *stream)
{
    (void)mem_spec;
    (void)context;
    (void)stream;
}

ucs_status_t ucp_mem_advise(ucp_context_h context, ucp_mem_h memh, ucp_mem_advise_params_t *params)
{
    (void)context;
    (void)memh;
    (void)params;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_memh_pack(ucp_mem_h memh, const ucp_memh_pack_params_t *params, void **buffer_p, size_t *buffer_size_p)
{
    (void)memh;
    (void)params;
    (void)buffer_p;
    (void)buffer_size_p;
    return UCS_ERR_NOT_IMPLEMENTED;
}

void ucp_memh_buffer_release(void *buffer, const ucp_memh_buffer_release_params_t *params)
{
    (void)buffer;
    (void)params;
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *rkey_buffer, ucp_rkey_h *rkey_p)
{
    (void)ep;
    (void)rkey_buffer;
    (void)rkey_p;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_rkey_ptr(ucp_rkey_h rkey, uint64_t raddr, void **addr_p)
{
    (void)rkey;
    (void)raddr;
    (void)addr_p;
    return UCS_ERR_NOT_IMPLEMENTED;
}

ucs_status_t ucp_rkey_compare(ucp_worker_h worker, ucp_rkey_h rkey1, ucp_rkey_h rkey2,
                              const ucp_rkey_compare_params_t *params, int *result)
{
    (void)worker;
    (void)rkey1;
    (void)rkey2;
    (void)params;
    (void)result;
    return UCS_ERR_NOT_IMPLEMENTED;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
    (void)rkey;
}
