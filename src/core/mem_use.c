/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements core/mem_use.h.
 */
#include "core/mem_use.h"

#include "core/mem.h"

/* The rights for which registrations are cached; a request with any other right gets a registration of its own. */
#define RETAINED (unsigned)(CW_RIGHT_LOCAL_WRITE | CW_RIGHT_REMOTE_READ)

int cw_mem_use_begin_mapped(struct ucp_context *context, struct cw_domain *domain, const void *memory, size_t length,
                            unsigned rights, struct cw_mem_use *use)
{
    *use = (struct cw_mem_use){.memh = NULL};
    use->memh = cw_mem_find_handle(context, domain, memory, length, &use->range, &use->mapped);
    if (use->memh != NULL && (use->memh->rights & rights) != rights) {
        cw_mem_use_end(use);
    }
    return use->memh != NULL;
}

/* NULL: no registrations are cached for this domain. */
static struct cw_cache *cache_of(const struct ucp_context *context, const struct cw_domain *domain)
{
    return context->caches[domain->number - 1];
}

bool cw_mem_use_is_cheap(struct ucp_context *context, struct cw_domain *domain, const struct cw_mem_part *part)
{
    struct cw_domain_range region;

    return part->type != UCS_MEMORY_TYPE_HOST || cw_cache_is_active(cache_of(context, domain)) ||
           cw_mem_find_handle(context, domain, part->memory, part->length, &region, NULL) != NULL;
}

/* By a registration for this use alone. */
static ucs_status_t begin_own(struct ucp_context *context, struct cw_domain *domain, const struct cw_mem_part *part,
                              unsigned rights, struct cw_mem_use *use)
{
    ucs_status_t status;

    *use = (struct cw_mem_use){.range = {.address = (uintptr_t)part->memory, .length = part->length}};
    if (part->type == UCS_MEMORY_TYPE_HOST) {
        status = cw_cache_reg_apart(cache_of(context, domain), domain, part->memory, part->length, rights, &use->own);
    } else {
        status = cw_device_regs_apart(context->device_regs[domain->number - 1], part->type, part->memory, part->length,
                                      rights, &use->own);
    }
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

/* NO_MEMORY: nothing can be cached now; a registration for this request alone may succeed. */
static ucs_status_t begin_of_device(struct ucp_context *context, struct cw_domain *domain,
                                    const struct cw_mem_part *part, unsigned rights, struct cw_mem_use *use)
{
    ucs_status_t status = cw_device_regs_get(context->device_regs[domain->number - 1], part->type, part->memory,
                                             part->length, rights, &use->retained);

    if (status != UCS_OK) {
        use->retained = NULL;
        return status;
    }
    use->memh = use->retained->memh;
    use->range = use->retained->range;
    return UCS_OK;
}

ucs_status_t cw_mem_use_begin(struct ucp_context *context, struct cw_domain *domain, const struct cw_mem_part *part,
                              unsigned rights, struct cw_mem_use *use)
{
    ucs_status_t status;

    if (rights & CW_RIGHT_REMOTE_WRITE) {
        return begin_own(context, domain, part, rights, use);
    }
    if (cw_mem_use_begin_mapped(context, domain, part->memory, part->length, rights, use)) {
        return UCS_OK;
    }
    if (part->type != UCS_MEMORY_TYPE_HOST) {
        status = (rights & ~RETAINED) ? UCS_ERR_NO_MEMORY : begin_of_device(context, domain, part, rights, use);
        return (status == UCS_ERR_NO_MEMORY) ? begin_own(context, domain, part, rights, use) : status;
    }
    use->cached =
        (rights & ~RETAINED) ? NULL : cw_cache_get(cache_of(context, domain), part->memory, part->length, rights);
    if (use->cached != NULL) {
        use->memh = use->cached->memh;
        use->range = use->cached->range;
        return UCS_OK;
    }
    return begin_own(context, domain, part, rights, use);
}

size_t cw_mem_add_part(const struct cw_memh *memh, uint8_t parts[CW_KEY_PARTS_MAX], size_t length)
{
    const struct cw_domain *domain = memh->domain;
    uint8_t part[CW_DOMAIN_PART_MAX];

    domain->kind->write_part(memh, part);
    return cw_key_add_part(parts, length, domain->number, part, domain->attr.part_length);
}

void cw_mem_use_end(struct cw_mem_use *use)
{
    if (use->own != NULL) {
        use->own->domain->kind->dereg(use->own);
    }
    if (use->cached != NULL) {
        cw_cache_put(use->cached);
    }
    if (use->retained != NULL) {
        cw_device_regs_put(use->retained);
    }
    if (use->mapped != NULL) {
        cw_mem_release(use->mapped);
    }
    *use = (struct cw_mem_use){.memh = NULL};
}
