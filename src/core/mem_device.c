/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles and key parts of a region for devices: one of each for every domain of the context, made with the region. A
 * domain that does not accept the memory has neither; its peers access the memory by packets.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/domain.h"
#include "core/mem_table.h"
#include "core/mem_use.h"
#include "mem/cache.h"
#include "mem/device.h"

/* The devices' share of a region; NULL: no domain registered it. Constant until the region ends. */
struct cw_mem_device {
    struct cw_memh *handles[CW_DOMAIN_MAX]; /* by number of the domain, less 1 */
    size_t parts_length;
    uint8_t parts[CW_KEY_PARTS_MAX];
};

static unsigned wanted_rights(const struct ucp_mem *mem)
{
    unsigned rights = CW_RIGHT_LOCAL_WRITE | CW_RIGHT_PINNED;

    rights |= (mem->key.rights & CW_KEY_READ) ? CW_RIGHT_REMOTE_READ : 0u;
    rights |= (mem->key.rights & CW_KEY_WRITE) ? CW_RIGHT_REMOTE_WRITE : 0u;
    /* Atomic operations on GPU memory are rejected, whoever would carry them out. */
    return (mem->key.rights == (CW_KEY_READ | CW_KEY_WRITE) && mem->memory_type == UCS_MEMORY_TYPE_HOST)
               ? rights | CW_RIGHT_REMOTE_ATOMIC
               : rights;
}

static void register_with(struct ucp_mem *mem, struct cw_domain *domain)
{
    const ucs_memory_type_t type = (ucs_memory_type_t)mem->memory_type;
    void *address = (void *)(uintptr_t)mem->key.address;
    const unsigned at = domain->number - 1u;
    ucs_status_t status = UCS_ERR_UNSUPPORTED;
    struct cw_memh *memh;

    if (type != UCS_MEMORY_TYPE_HOST) {
        status = cw_device_regs_apart(mem->context->device_regs[at], type, address, mem->key.length, wanted_rights(mem),
                                      &memh);
    } else if (domain->attr.memory_types & CW_MEMORY_BIT(type)) {
        status =
            cw_cache_reg_apart(mem->context->caches[at], domain, address, mem->key.length, wanted_rights(mem), &memh);
    }
    if (status != UCS_OK) {
        cw_debug("domain %u (%s) cannot register %llu bytes at %p: %s", domain->number, domain->kind->name,
                 (unsigned long long)mem->key.length, address, ucs_status_string(status));
        return;
    }
    mem->device->handles[domain->number - 1] = memh;
    mem->device->parts_length = cw_mem_add_part(memh, mem->device->parts, mem->device->parts_length);
}

/* The first device that may carry out atomic operations; 0: the processor. */
static uint8_t executor_of(const struct ucp_mem *mem)
{
    const struct cw_key_parts parts = {.bytes = mem->device->parts, .length = mem->device->parts_length};
    size_t length;
    uint8_t i;

    for (i = 1; cw_domains_do_atomics(mem->context) && i <= mem->context->num_domains; i++) {
        if (mem->device->handles[i - 1] != NULL && (mem->device->handles[i - 1]->rights & CW_RIGHT_REMOTE_ATOMIC) &&
            cw_key_find_part(&parts, i, &length) != NULL) {
            return i;
        }
    }
    return 0;
}

ucs_status_t cw_mem_device_register(struct ucp_mem *mem)
{
    unsigned i;

    if (mem->context->num_domains == 0 || mem->key.length == 0 || mem->mapping != NULL) {
        return UCS_OK;
    }
    mem->device = calloc(1, sizeof(*mem->device));
    if (mem->device == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 0; i < mem->context->num_domains; i++) {
        register_with(mem, mem->context->domains[i]);
    }
    mem->key.executor = executor_of(mem);
    if (mem->key.executor != 0) {
        mem->direct &= CW_KEY_READ | CW_KEY_WRITE;
    }
    return UCS_OK;
}

void cw_mem_device_deregister(struct ucp_mem *mem)
{
    unsigned i;

    for (i = 0; mem->device != NULL && i < CW_DOMAIN_MAX; i++) {
        if (mem->device->handles[i] != NULL) {
            mem->device->handles[i]->domain->kind->dereg(mem->device->handles[i]);
        }
    }
    free(mem->device);
    mem->device = NULL;
}

const struct cw_memh *cw_mem_handle(const struct ucp_mem *mem, const struct cw_domain *domain)
{
    return (mem->device == NULL) ? NULL : mem->device->handles[domain->number - 1];
}

bool cw_mem_has_handle(const struct ucp_mem *mem)
{
    return mem->device != NULL;
}

struct cw_key_parts cw_mem_parts(const struct ucp_mem *mem)
{
    struct cw_key_parts parts = {.length = 0};

    if (mem->device != NULL) {
        parts.bytes = mem->device->parts;
        parts.length = mem->device->parts_length;
    }
    return parts;
}
