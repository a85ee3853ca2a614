/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core/mem_use.h.
 */
#include "core/mem_use.h"

#include "core/mem.h"

int cw_mem_use_begin_mapped(struct ucp_context *context, struct cw_domain *domain, const void *memory, size_t length,
                            unsigned rights, struct cw_mem_use *use)
{
    *use      = (struct cw_mem_use){.memh = NULL};
    use->memh = cw_mem_find_handle(context, domain, memory, length, &use->range);
    if (use->memh != NULL && (use->memh->rights & rights) != rights) {
        use->memh = NULL;
    }
    return use->memh != NULL;
}

ucs_status_t cw_mem_use_begin_own(struct cw_domain *domain, const void *memory, size_t length, unsigned rights,
                                  struct cw_mem_use *use)
{
    void *address       = (void *)(uintptr_t)memory;
    ucs_status_t status = UCS_ERR_UNSUPPORTED;

    *use   = (struct cw_mem_use){.range = {.address = (uintptr_t)memory, .length = length}};
    status = domain->kind->reg(domain, address, length, rights, &use->own);
    if (status != UCS_OK) {
        use->own = NULL;
        return status;
    }
    if ((use->own->rights & rights) != rights) {
        cw_mem_use_end(use);
        return UCS_ERR_INVALID_ADDR;
    }
    use->memh = use->own;
    return UCS_OK;
}

ucs_status_t cw_mem_use_begin(struct ucp_context *context, struct cw_domain *domain, const void *memory, size_t length,
                              unsigned rights, struct cw_mem_use *use)
{
    return cw_mem_use_begin_mapped(context, domain, memory, length, rights, use)
               ? UCS_OK
               : cw_mem_use_begin_own(domain, memory, length, rights, use);
}

void cw_mem_use_end(struct cw_mem_use *use)
{
    if (use->own != NULL) {
        use->own->domain->kind->dereg(use->own);
    }
    *use = (struct cw_mem_use){.memh = NULL};
}
