/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which allocated region some memory of the program lies in: for messages that a peer may then read and write by loads
 * and stores (op/peer_regions.h). There are few such regions, so a walk finds it.
 */
#include "core/mem_table.h"

int cw_mem_find_shared(struct ucp_context *context, const void *ptr, size_t length, struct cw_key *key)
{
    struct cw_mem_table *table = context->memory;
    const uint64_t address     = (uintptr_t)ptr;
    struct ucp_mem *mem;
    int found = 0;

    cw_lock_enter(&table->lock);
    cw_list_for_each(mem, &table->all, struct ucp_mem, all_link) {
        if (!mem->dead && (mem->key.flags & CW_KEY_SHARED) && address >= mem->key.address &&
            length <= mem->key.length && address - mem->key.address <= mem->key.length - length) {
            *key  = mem->key;
            found = 1;
            break;
        }
    }
    cw_lock_leave(&table->lock);
    return found;
}
