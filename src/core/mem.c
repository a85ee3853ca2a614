/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: their life from ucp_mem_map to ucp_mem_unmap, and accesses that peers request (core/mem.h). How memory is
 * allocated and registered is in mem_map.c; memory of other processes is in mem_attach.c.
 *
 * Invariants: a region is in table->regions, and its validity words contain its token, exactly while it is registered;
 * a pin is on the list of its region exactly while pin->mem is set; an unmapped region lives while it has pins or
 * holds.
 */
#include "core/mem.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/ep.h"
#include "core/lane_copies.h"
#include "core/mem_table.h"
#include "os/random.h"
#include "transport/registry.h"

ucs_status_t cw_mem_table_new(struct cw_mem_table **table_p)
{
    struct cw_mem_table *table = calloc(1, sizeof(*table));

    if (table == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_lock_init(&table->lock);
    cw_hash_init(&table->regions, cw_random_u64());
    cw_hash_init(&table->mappings, cw_random_u64());
    cw_list_init(&table->all);
    cw_list_init(&table->validitys);
    *table_p = table;
    return UCS_OK;
}

/* ---- validity words ---- */

static struct cw_validity_page *validity_page_new(void)
{
    const size_t length = cw_memory_page();
    const unsigned count = (unsigned)(length / sizeof(uint64_t));
    const struct cw_memory_spec spec = {.length = length, .huge = CW_MEMORY_SMALL};
    struct cw_validity_page *page = malloc(sizeof(*page) + count * sizeof(page->free[0]));

    if (page == NULL || cw_memory_allocate(&spec, &page->memory) != UCS_OK) {
        free(page);
        return NULL;
    }
    for (page->num_free = 0; page->num_free < count; page->num_free++) {
        page->free[page->num_free] = (uint16_t)page->num_free;
    }
    return page;
}

static uint64_t *validity_take(struct cw_mem_table *table)
{
    struct cw_validity_page *page = cw_list_head(&table->validitys, struct cw_validity_page, link);
    uint64_t *validity;

    if (cw_list_empty(&table->validitys) || page->num_free == 0) {
        page = validity_page_new();
        if (page == NULL) {
            return NULL;
        }
        cw_list_add_head(&table->validitys, &page->link);
    }
    validity = (uint64_t *)(void *)page->memory.ptr + page->free[--page->num_free];
    if (page->num_free == 0) {
        cw_list_remove(&page->link);
        cw_list_add_tail(&table->validitys, &page->link);
    }
    return validity;
}

static void validity_give_back(struct cw_mem_table *table, uint64_t *validity)
{
    struct cw_validity_page *page;

    cw_list_for_each(page, &table->validitys, struct cw_validity_page, link)
    {
        const uintptr_t offset = (uintptr_t)validity - (uintptr_t)page->memory.ptr;

        if (offset < page->memory.length) {
            page->free[page->num_free++] = (uint16_t)(offset / sizeof(uint64_t));
            cw_list_remove(&page->link);
            cw_list_add_head(&table->validitys, &page->link);
            return;
        }
    }
}

/* ---- regions ---- */

static uint64_t new_token(const struct cw_mem_table *table)
{
    uint64_t token;

    do {
        token = cw_random_u64();
    } while (token == 0 || cw_hash_find(&table->regions, token) != NULL);
    return token;
}

/* Completes the key, which lacks only the part of the memory domain. */
static void publish(struct ucp_mem *mem)
{
    const struct cw_md_label label = cw_mem_label(&mem->key);
    struct cw_md_part part;

    if (mem->memory.ptr != NULL && mem->md->publish != NULL &&
        mem->md->publish(mem->md, &mem->memory, &label, &part)) {
        mem->key.flags |= CW_KEY_SHARED;
        mem->key.system = part.system;
        mem->key.pid = part.pid;
        mem->key.fd = part.fd;
    }
}

ucs_status_t cw_mem_register(struct cw_mem_table *table, struct ucp_mem *mem)
{
    cw_list_init(&mem->pins);
    cw_lock_enter(&table->lock);
    if (mem->key.length > 0) {
        mem->validity = validity_take(table);
        if (mem->validity == NULL) {
            cw_lock_leave(&table->lock);
            return UCS_ERR_NO_MEMORY;
        }
        mem->key.token = new_token(table);
        mem->key.validity =
            (mem->memory_type == UCS_MEMORY_TYPE_HOST) ? (uintptr_t)mem->validity : 0; /* 0: no copies */
        cw_hash_add(&table->regions, &mem->link, mem->key.token);
        publish(mem);
        __atomic_store_n(mem->validity, mem->key.token, __ATOMIC_RELEASE);
    }
    cw_list_add_tail(&table->all, &mem->all_link);
    cw_lock_leave(&table->lock);
    return UCS_OK;
}

/* Tells the transports that a validity word was cleared. */
static void report_revoked(void)
{
    unsigned i;

    for (i = 0; i < cw_num_transports; i++) {
        cw_copies_revoked(cw_transports[i]);
    }
}

/* After this no access with a key can reach the region. The table is locked. */
static void revoke(struct cw_mem_table *table, struct ucp_mem *mem)
{
    const struct cw_md_part part = cw_mem_part(&mem->key);

    mem->dead = 1;
    if (mem->key.length == 0) {
        return;
    }
    cw_hash_remove(&table->regions, &mem->link);
    table->revoked[table->num_revoked++ % CW_MEM_REVOKED] = mem->key.token;
    __atomic_store_n(mem->validity, 0, __ATOMIC_RELEASE);
    report_revoked();
    if (mem->memory.ptr != NULL && mem->md->withdraw != NULL) {
        mem->md->withdraw(mem->md, &mem->memory, &part);
    }
    validity_give_back(table, mem->validity);
}

void cw_mem_dispose(struct cw_mem_table *table, struct ucp_mem *mem)
{
    cw_mem_device_deregister(mem);
    if (mem->memory.ptr != NULL) {
        mem->md->release(mem->md, &mem->memory);
    } else if (mem->mapping != NULL) {
        cw_mapping_put(table, mem->mapping);
    } else if (mem->key.length > 0 && mem->md->dereg != NULL) {
        mem->md->dereg(mem->md, (void *)(uintptr_t)mem->key.address, mem->key.length);
    }
    free(mem);
}

void cw_mem_table_free(struct cw_mem_table *table)
{
    struct cw_validity_page *page;
    struct cw_list *link;
    struct ucp_mem *mem;

    while ((link = cw_list_pop_head(&table->all)) != NULL) {
        mem = cw_container_of(link, struct ucp_mem, all_link);
        if (!mem->dead) {
            revoke(table, mem);
        }
        cw_mem_dispose(table, mem);
    }
    cw_mapping_free_all(table);
    while ((link = cw_list_pop_head(&table->validitys)) != NULL) {
        page = cw_container_of(link, struct cw_validity_page, link);
        cw_memory_release(&page->memory);
        free(page);
    }
    cw_hash_cleanup(&table->regions);
    cw_hash_cleanup(&table->mappings);
    free(table);
}

void cw_mem_key(const struct ucp_mem *mem, struct cw_key *key)
{
    *key = mem->key;
}

size_t cw_mem_pack(const struct ucp_mem *mem, uint8_t bytes[CW_KEY_MAX])
{
    const struct cw_key_parts parts = cw_mem_parts(mem);

    return cw_key_encode(&mem->key, &parts, bytes);
}

ucs_status_t cw_mem_query(const struct ucp_mem *mem, ucp_mem_attr_t *attr)
{
    if (attr->field_mask & UCP_MEM_ATTR_FIELD_ADDRESS) {
        attr->address = (void *)(uintptr_t)mem->key.address;
    }
    if (attr->field_mask & UCP_MEM_ATTR_FIELD_LENGTH) {
        attr->length = mem->key.length;
    }
    if (attr->field_mask & UCP_MEM_ATTR_FIELD_MEM_TYPE) {
        attr->mem_type = (ucs_memory_type_t)mem->memory_type;
    }
    return UCS_OK;
}

/* ---- accesses ---- */

static bool holds(const struct ucp_mem *mem, uint64_t address, uint64_t length)
{
    return address >= mem->key.address && length <= mem->key.length &&
           address - mem->key.address <= mem->key.length - length;
}

int cw_mem_covers(const struct ucp_mem *mem, const void *buffer, size_t length)
{
    return length == 0 || holds(mem, (uintptr_t)buffer, length);
}

ucs_memory_type_t cw_mem_type(const struct ucp_mem *mem)
{
    return (ucs_memory_type_t)mem->memory_type;
}

static struct ucp_mem *find_by_address(const struct cw_mem_table *table, uint64_t address, uint64_t length,
                                       unsigned rights)
{
    struct ucp_mem *mem;

    cw_list_for_each(mem, &table->all, struct ucp_mem, all_link)
    {
        if (!mem->dead && mem->mapping == NULL && mem->key.length > 0 && holds(mem, address, length) &&
            (mem->key.rights & rights) == rights) {
            return mem;
        }
    }
    return NULL;
}

static struct ucp_mem *find_region(const struct cw_mem_table *table, uint64_t token, uint64_t address, uint64_t length,
                                   unsigned rights)
{
    struct cw_hash_link *link;
    struct ucp_mem *mem;

    if (cw_unlikely(token == 0)) {
        return (rights & CW_MEM_KEYLESS)
                   ? find_by_address(table, address, length, rights & (CW_KEY_READ | CW_KEY_WRITE))
                   : NULL;
    }
    link = cw_hash_find(&table->regions, token);
    mem = (link == NULL) ? NULL : cw_container_of(link, struct ucp_mem, link);
    return (mem != NULL && holds(mem, address, length)) ? mem : NULL;
}

static CW_COLD ucs_status_t missing(const struct cw_mem_table *table, uint64_t token)
{
    unsigned i;

    for (i = 0; token != 0 && i < CW_MEM_REVOKED; i++) {
        if (table->revoked[i] == token) {
            return UCS_ERR_CONNECTION_RESET;
        }
    }
    return UCS_ERR_INVALID_ADDR;
}

/* *mem_p is also set for UCS_ERR_UNSUPPORTED. */
static ucs_status_t find(const struct cw_mem_table *table, uint64_t token, uint64_t address, uint64_t length,
                         unsigned rights, struct ucp_mem **mem_p)
{
    struct ucp_mem *mem = find_region(table, token, address, length, rights);

    if (mem == NULL) {
        return missing(table, token);
    }
    *mem_p = mem;
    rights &= ~CW_MEM_KEYLESS;
    if (cw_unlikely((mem->direct & rights) != rights)) {
        rights &= CW_KEY_READ | CW_KEY_WRITE;
        return ((mem->key.rights & rights) == rights) ? UCS_ERR_UNSUPPORTED : UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

ucs_status_t cw_mem_enter(struct ucp_context *context, uint64_t token, uint64_t address, uint64_t length,
                          unsigned rights, void **ptr_p)
{
    struct cw_mem_table *table = context->memory;
    struct ucp_mem *mem;
    ucs_status_t status;

    cw_lock_enter(&table->lock);
    status = find(table, token, address, length, rights, &mem);
    if (cw_unlikely(status != UCS_OK)) {
        cw_lock_leave(&table->lock);
        return status;
    }
    *ptr_p = (void *)(uintptr_t)address;
    return UCS_OK;
}

void cw_mem_leave(struct ucp_context *context)
{
    cw_lock_leave(&context->memory->lock);
}

ucs_status_t cw_mem_pin(struct ucp_context *context, uint64_t token, uint64_t address, uint64_t length, unsigned rights,
                        struct ucp_ep *ep, struct cw_mem_pin *pin, void **ptr_p)
{
    struct cw_mem_table *table = context->memory;
    struct ucp_mem *mem;
    ucs_status_t status;

    pin->mem = NULL;
    pin->ep = ep;
    cw_lock_enter(&table->lock);
    status = find(table, token, address, length, rights, &mem);
    status = (status == UCS_ERR_UNSUPPORTED) ? UCS_OK : status;
    if (status == UCS_OK) {
        pin->mem = mem;
        pin->memory_type = (ucs_memory_type_t)mem->memory_type;
        cw_list_add_tail(&mem->pins, &pin->link);
        *ptr_p = (void *)(uintptr_t)address;
    }
    cw_lock_leave(&table->lock);
    return status;
}

/* Leaves the table, and frees the region if it is dead and unused. */
static void leave_or_end(struct cw_mem_table *table, struct ucp_mem *mem)
{
    const int over = mem != NULL && mem->dead && mem->holds == 0 && cw_list_empty(&mem->pins);

    if (over) {
        cw_list_remove(&mem->all_link);
    }
    cw_lock_leave(&table->lock);
    if (over) {
        cw_mem_dispose(table, mem);
    }
}

void cw_mem_unpin(struct ucp_context *context, struct cw_mem_pin *pin)
{
    struct cw_mem_table *table = context->memory;
    struct ucp_mem *mem;

    cw_lock_enter(&table->lock);
    mem = pin->mem;
    if (mem != NULL) {
        cw_list_remove(&pin->link);
        pin->mem = NULL;
    }
    leave_or_end(table, mem);
}

void cw_mem_hold(struct ucp_mem *mem)
{
    struct cw_mem_table *table = mem->context->memory;

    cw_lock_enter(&table->lock);
    mem->holds++;
    cw_lock_leave(&table->lock);
}

void cw_mem_release(struct ucp_mem *mem)
{
    struct cw_mem_table *table = mem->context->memory;

    cw_lock_enter(&table->lock);
    mem->holds--;
    leave_or_end(table, mem);
}

/* There are few device-registered regions, so a walk over the list is enough. */
const struct cw_memh *cw_mem_find_handle(struct ucp_context *context, const struct cw_domain *domain, const void *ptr,
                                         size_t length, struct cw_domain_range *region, struct ucp_mem **blocked_p)
{
    struct cw_mem_table *table = context->memory;
    const struct cw_memh *memh = NULL;
    struct ucp_mem *mem;

    cw_lock_enter(&table->lock);
    cw_list_for_each(mem, &table->all, struct ucp_mem, all_link)
    {
        if (!mem->dead && mem->device != NULL && cw_mem_covers(mem, ptr, length)) {
            memh = cw_mem_handle(mem, domain);
            *region = (struct cw_domain_range){.address = mem->key.address, .length = mem->key.length};
            if (memh != NULL && blocked_p != NULL) {
                mem->holds++;
                *blocked_p = mem;
            }
            break;
        }
    }
    cw_lock_leave(&table->lock);
    return memh;
}

/* ---- unmapping ---- */

/* The next pin whose worker this thread may enter, or NULL. The table is locked. */
static struct cw_mem_pin *breakable_pin(const struct ucp_context *context, struct ucp_mem *mem)
{
    struct cw_mem_pin *pin;

    cw_list_for_each(pin, &mem->pins, struct cw_mem_pin, link) {
        if (pin->ep->worker->mt || !context->mt_workers_shared) {
            return pin;
        }
    }
    return NULL;
}

static void abandon_conn(struct cw_conn *conn)
{
    if (conn != NULL) {
        cw_lane_abandon(conn);
    }
}

/* The program unmaps memory that a peer is using. The memory may soon contain other data, so the transfer ends now. */
static void abandon(struct ucp_ep *ep, const struct ucp_mem *mem)
{
    if (ep->state != CW_EP_FAILED) {
        cw_error("memory of %llu bytes at 0x%llx is unmapped while a peer is using it; the endpoint to this peer fails",
                 (unsigned long long)mem->key.length, (unsigned long long)mem->key.address);
    }
    abandon_conn(ep->conn);
    abandon_conn(ep->loop_conn);
    cw_ep_fail(ep, UCS_ERR_IO_ERROR);
    if (cw_worker_has(ep->worker, UCP_FEATURE_WAKEUP)) {
        (void)cw_poller_signal(ep->worker->poller); /* the worker's thread may be asleep */
    }
}

/*
 * Removes all pins whose worker can be entered. In the lock order a worker comes before the table, so while the table
 * is locked this only tries to enter the worker; a pin keeps its worker from being destroyed, so the try is safe.
 */
static void break_pins(struct ucp_context *context, struct ucp_mem *mem)
{
    struct cw_mem_table *table = context->memory;
    struct cw_mem_pin *pin;
    struct ucp_ep *ep;

    while ((pin = breakable_pin(context, mem)) != NULL) {
        ep = pin->ep;
        if (ep->worker->mt && !cw_lock_try_enter(&ep->worker->lock)) {
            cw_lock_leave(&table->lock);
            cw_lock_yield();
            cw_lock_enter(&table->lock);
            continue;
        }
        cw_list_remove(&pin->link);
        pin->mem = NULL;
        cw_lock_leave(&table->lock);
        abandon(ep, mem);
        cw_worker_leave(ep->worker);
        cw_lock_enter(&table->lock);
    }
}

ucs_status_t cw_mem_unmap(struct ucp_context *context, struct ucp_mem *mem)
{
    struct cw_mem_table *table = context->memory;

    cw_lock_enter(&table->lock);
    revoke(table, mem);
    mem->holds++; /* what ends meanwhile leaves the rest of the work to this call */
    break_pins(context, mem);
    mem->holds--;
    leave_or_end(table, mem);
    return UCS_OK;
}
