/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes (or other contexts of this process) allocated and that is mapped here: one mapping for
 * all keys to a region. A key is untrusted until the memory that it names has confirmed it; memory that does not
 * confirm it counts as unreachable, without a log line, and the target serves the accesses by packets instead.
 */
#include <stdlib.h>

#include "core/mem_table.h"

static int names_the_same(const struct cw_key *first, const struct cw_key *second)
{
    return first->token == second->token && first->address == second->address && first->length == second->length &&
           first->rights == second->rights;
}

/* The table is locked. */
static struct cw_mapping *known(const struct cw_mem_table *table, const struct cw_key *key)
{
    struct cw_hash_link *link;
    struct cw_mapping *mapping;

    for (link = cw_hash_find(&table->mappings, key->token); link != NULL; link = cw_hash_next(link)) {
        mapping = cw_container_of(link, struct cw_mapping, link);
        if (names_the_same(&mapping->key, key) && mapping->key.pid == key->pid && mapping->key.fd == key->fd) {
            mapping->references++;
            return mapping;
        }
    }
    return NULL;
}

static ucs_status_t mapping_new(const struct cw_key *key, struct cw_mapping **mapping_p)
{
    const struct cw_md_label label = cw_mem_label(key);
    const struct cw_md_part part = cw_mem_part(key);
    struct cw_mapping *mapping = calloc(1, sizeof(*mapping));
    ucs_status_t status;

    if (mapping == NULL) {
        return UCS_ERR_UNREACHABLE;
    }
    status = cw_md_host.attach(&cw_md_host, &part, &label, key->length, &mapping->memory, &mapping->validity);
    if (status != UCS_OK) {
        free(mapping);
        return status;
    }
    mapping->key = *key;
    mapping->references = 1;
    *mapping_p = mapping;
    return UCS_OK;
}

static void mapping_free(struct cw_mapping *mapping)
{
    cw_md_host.release(&cw_md_host, &mapping->memory);
    free(mapping);
}

/* The system calls run while the table is unlocked, because threads that serve accesses of peers to their own regions
 * wait for the lock. */
ucs_status_t cw_mapping_get(struct ucp_context *context, const struct cw_key *key, struct cw_mapping **mapping_p)
{
    struct cw_mem_table *table = context->memory;
    struct cw_mapping *made, *mapping;
    ucs_status_t status;

    if (!(key->flags & CW_KEY_SHARED) || key->length == 0 || !cw_context_allows(context, "posix") ||
        !context->config->posix_use_proc_link) {
        return UCS_ERR_UNREACHABLE;
    }
    cw_lock_enter(&table->lock);
    mapping = known(table, key);
    cw_lock_leave(&table->lock);
    if (mapping != NULL) {
        *mapping_p = mapping;
        return UCS_OK;
    }
    status = mapping_new(key, &made);
    if (status != UCS_OK) {
        return status;
    }
    cw_lock_enter(&table->lock);
    mapping = known(table, key); /* another thread may have made the mapping meanwhile */
    if (mapping == NULL) {
        cw_hash_add(&table->mappings, &made->link, key->token);
    }
    cw_lock_leave(&table->lock);
    if (mapping != NULL) {
        mapping_free(made);
        made = mapping;
    }
    *mapping_p = made;
    return UCS_OK;
}

void cw_mapping_put(struct cw_mem_table *table, struct cw_mapping *mapping)
{
    unsigned left;

    cw_lock_enter(&table->lock);
    left = --mapping->references;
    if (left == 0) {
        cw_hash_remove(&table->mappings, &mapping->link);
    }
    cw_lock_leave(&table->lock);
    if (left == 0) {
        mapping_free(mapping);
    }
}

void cw_mapping_free_all(struct cw_mem_table *table)
{
    struct cw_hash_link *link;
    size_t i;

    for (i = 0; i <= table->mappings.mask; i++) {
        while ((link = (table->mappings.buckets == NULL) ? table->mappings.first : table->mappings.buckets[i]) !=
               NULL) {
            cw_hash_remove(&table->mappings, link);
            mapping_free(cw_container_of(link, struct cw_mapping, link));
        }
    }
}

/* Whether the keys are equal in all fields, including the location of the memory. */
static bool is_same_key(const struct cw_key *first, const struct cw_key *second)
{
    return names_the_same(first, second) && first->validity == second->validity && first->flags == second->flags &&
           first->system == second->system && first->pid == second->pid && first->fd == second->fd;
}

/* For a key to a region of this context: UCS_OK, or UCS_ERR_UNREACHABLE if the key contradicts the region.
 * UCS_ERR_NO_ELEM: the key is to none of them. */
static ucs_status_t attach_own(struct cw_mem_table *table, const struct cw_key *key, char **local_p,
                               const uint64_t **validity_p)
{
    ucs_status_t status = UCS_ERR_NO_ELEM;
    struct cw_hash_link *link;
    struct ucp_mem *mem;

    cw_lock_enter(&table->lock);
    link = cw_hash_find(&table->regions, key->token);
    if (link != NULL) {
        mem = cw_container_of(link, struct ucp_mem, link);
        status = UCS_ERR_UNREACHABLE;
        if (is_same_key(&mem->key, key) && mem->memory_type == UCS_MEMORY_TYPE_HOST) {
            *local_p = (char *)(uintptr_t)key->address;
            *validity_p = mem->validity;
            status = UCS_OK;
        }
    }
    cw_lock_leave(&table->lock);
    return status;
}

ucs_status_t cw_mem_attach(struct ucp_context *context, const struct cw_key *key, char **local_p,
                           const uint64_t **validity_p, struct cw_mapping **mapping_p)
{
    struct cw_mapping *mapping;
    ucs_status_t status;

    *mapping_p = NULL;
    if (!cw_context_allows(context, "posix") && !cw_context_allows(context, "self")) {
        return UCS_ERR_UNREACHABLE;
    }
    status = attach_own(context->memory, key, local_p, validity_p);
    if (status != UCS_ERR_NO_ELEM) {
        return status;
    }
    status = cw_mapping_get(context, key, &mapping);
    if (status != UCS_OK) {
        return status;
    }
    *local_p = mapping->memory.ptr;
    *validity_p = mapping->validity;
    *mapping_p = mapping;
    return UCS_OK;
}

void cw_mem_detach(struct ucp_context *context, struct cw_mapping *mapping)
{
    cw_mapping_put(context->memory, mapping);
}
