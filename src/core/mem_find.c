/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the region that covers some memory of the program and that devices have registered. There are few such regions,
 * so a walk over the list is enough.
 */
#include "core/mem_table.h"

const struct cw_memh *cw_mem_find_handle(struct ucp_context *context, const struct cw_domain *domain, const void *ptr,
                                         size_t length, struct cw_domain_range *region)
{
    struct cw_mem_table *table = context->memory;
    const struct cw_memh *memh = NULL;
    struct ucp_mem *mem;

    cw_lock_enter(&table->lock);
    cw_list_for_each(mem, &table->all, struct ucp_mem, all_link) {
        if (!mem->dead && mem->device != NULL && cw_mem_covers(mem, ptr, length)) {
            memh    = cw_mem_handle(mem, domain);
            *region = (struct cw_domain_range){.address = mem->key.address, .length = mem->key.length};
            break;
        }
    }
    cw_lock_leave(&table->lock);
    return memh;
}
