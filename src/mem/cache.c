/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements mem/cache.h. The table is an array sorted by address, and no two registrations in it overlap, so every
 * lookup is one binary search. A registration that overlaps with a new one leaves the table, and the new one covers its
 * range as well: a buffer that is used in parts ends up with one registration.
 */
#include "mem/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/unmapped.h"
#include "os/lock.h"
#include "os/memory.h"
#include "ucs/type/status.h"

#define LEAST_SPACE 16u

struct cw_cache {
    struct cw_lock lock;
    struct cw_domain *domain;
    struct cw_cache_limits limits;
    struct cw_cached **table;
    size_t count;
    size_t space;
    uint64_t regions;      /* registrations that exist, in the table or not */
    uint64_t bytes;        /* bytes of these registrations */
    uint64_t seen;         /* reported ranges that the cache has processed */
    struct cw_list unused;
};

struct cw_cache *cw_cache_new(struct cw_domain *domain, const struct cw_cache_limits *limits)
{
    struct cw_cache *cache = calloc(1, sizeof(*cache));

    if (cache != NULL) {
        cache->domain = domain;
        cache->limits = *limits;
        cache->seen = cw_unmapped_count();
        cw_lock_init(&cache->lock);
        cw_list_init(&cache->unused);
    }
    return cache;
}

static uint64_t end_of(const struct cw_cached *cached)
{
    return cached->range.address + cached->range.length;
}

/* Index of the first registration that ends behind this address. */
static size_t search(const struct cw_cache *cache, uint64_t address)
{
    size_t low = 0, high = cache->count, middle;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (end_of(cache->table[middle]) > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static void end(struct cw_cached *cached)
{
    struct cw_cache *cache = cached->cache;

    cache->regions--;
    cache->bytes -= cached->range.length;
    cw_list_remove(&cached->link);
    cache->domain->kind->dereg((struct cw_memh *)(uintptr_t)cached->memh);
    free(cached);
}

/* Removes the registration from the table; it is deregistered now, or when its last user releases it. */
static void take_out(struct cw_cache *cache, size_t at)
{
    struct cw_cached *cached = cache->table[at];

    cache->count--;
    memmove(&cache->table[at], &cache->table[at + 1], (cache->count - at) * sizeof(*cache->table));
    cached->is_found = 0;
    if (cached->uses == 0) {
        end(cached);
    }
}

/* Removes all registrations that overlap with the range from the table. */
static void drop(struct cw_cache *cache, uint64_t begin, uint64_t end)
{
    const size_t at = search(cache, begin);

    while (at < cache->count && cache->table[at]->range.address < end) {
        take_out(cache, at);
    }
}

/* Drops the registrations of memory that the program has unmapped since the last check. If a report has been lost, any
 * memory may be affected, so the cache drops all registrations. */
static void read_reports(struct cw_cache *cache)
{
    const uint64_t count = cw_unmapped_count();
    uintptr_t begin, end;

    if (cache->domain->attr.on_demand) {
        cache->seen = count;
        return;
    }
    if (!cw_unmapped_is_reported()) {
        drop(cache, 0, UINT64_MAX);
    }
    while (cache->seen < count && cache->count > 0) {
        if (!cw_unmapped_range(cache->seen, &begin, &end)) {
            drop(cache, 0, UINT64_MAX);
        } else if (begin < end) {
            drop(cache, begin, end);
        }
        cache->seen++;
    }
    cache->seen = count;
}

bool cw_cache_is_active(const struct cw_cache *cache)
{
    return cache != NULL && (cache->domain->attr.on_demand || cw_unmapped_is_reported());
}

static int shrink(struct cw_cache *cache)
{
    struct cw_cached *oldest = cw_list_head(&cache->unused, struct cw_cached, link);

    if (cw_list_empty(&cache->unused)) {
        return 0;
    }
    take_out(cache, search(cache, oldest->range.address));
    return 1;
}

/* 0: registrations in use exhaust the bounds. */
static int make_space(struct cw_cache *cache, uint64_t length)
{
    struct cw_cached **table;
    size_t space;

    while (cache->regions >= cache->limits.regions || length > cache->limits.bytes ||
           cache->bytes > cache->limits.bytes - length) {
        if (!shrink(cache)) {
            return 0;
        }
    }
    if (cache->count < cache->space) {
        return 1;
    }
    space = (cache->space == 0) ? LEAST_SPACE : 2 * cache->space;
    table = realloc(cache->table, space * sizeof(*table));
    if (table != NULL) {
        cache->table = table;
        cache->space = space;
    }
    return table != NULL;
}

/* Registers with at least these rights. NULL: the domain cannot register this memory, or not now. */
static const struct cw_memh *reg(struct cw_cache *cache, const struct cw_domain_range *range, unsigned rights)
{
    void *address = (void *)(uintptr_t)range->address;
    struct cw_memh *memh;
    ucs_status_t status;

    do {
        status = cache->domain->kind->reg(cache->domain, address, range->length, rights, &memh);
    } while (status == UCS_ERR_NO_MEMORY && shrink(cache));
    if (status == UCS_OK && (memh->rights & rights) != rights) {
        cache->domain->kind->dereg(memh);
        status = UCS_ERR_INVALID_ADDR;
    }
    return (status == UCS_OK) ? memh : NULL;
}

/* The range, extended by the registrations in the table that overlap with it; adds their rights to *rights_p. */
static struct cw_domain_range joined(const struct cw_cache *cache, uint64_t begin, uint64_t end, unsigned *rights_p)
{
    size_t at;

    for (at = search(cache, begin); at < cache->count && cache->table[at]->range.address < end; at++) {
        begin = (cache->table[at]->range.address < begin) ? cache->table[at]->range.address : begin;
        end = (end_of(cache->table[at]) > end) ? end_of(cache->table[at]) : end;
        *rights_p |= cache->table[at]->memh->rights;
    }
    return (struct cw_domain_range){.address = begin, .length = end - begin};
}

/* NULL: it cannot be registered now. */
static struct cw_cached *add(struct cw_cache *cache, const struct cw_domain_range *range, unsigned rights)
{
    struct cw_cached *cached;
    size_t at;

    drop(cache, range->address, range->address + range->length);
    if (!make_space(cache, range->length)) {
        return NULL;
    }
    cached = malloc(sizeof(*cached));
    if (cached == NULL) {
        return NULL;
    }
    *cached = (struct cw_cached){.memh = reg(cache, range, rights), .range = *range, .cache = cache, .is_found = 1};
    if (cached->memh == NULL) {
        free(cached);
        return NULL;
    }
    cw_list_init(&cached->link);
    at = search(cache, range->address);
    memmove(&cache->table[at + 1], &cache->table[at], (cache->count - at) * sizeof(*cache->table));
    cache->table[at] = cached;
    cache->count++;
    cache->regions++;
    cache->bytes += range->length;
    return cached;
}

static struct cw_cached *find(const struct cw_cache *cache, const struct cw_domain_range *range, unsigned rights)
{
    const size_t at = search(cache, range->address);
    struct cw_cached *cached = (at < cache->count) ? cache->table[at] : NULL;

    return (cached != NULL && cached->range.address <= range->address &&
            range->length <= end_of(cached) - range->address && (cached->memh->rights & rights) == rights)
               ? cached
               : NULL;
}

/* The memory of `wanted` is mapped; that of a registration which `joined` adds was mapped when it was registered, so if
 * the joined range cannot be registered, `wanted` is registered alone. */
static struct cw_cached *get(struct cw_cache *cache, const struct cw_domain_range *wanted, unsigned rights)
{
    struct cw_cached *cached = find(cache, wanted, rights);
    unsigned all = rights;
    struct cw_domain_range range;

    if (cached == NULL) {
        range = joined(cache, wanted->address, wanted->address + wanted->length, &all);
        cached = add(cache, &range, all);
    }
    return (cached == NULL) ? add(cache, wanted, rights) : cached;
}

struct cw_cached *cw_cache_get(struct cw_cache *cache, const void *memory, size_t length, unsigned rights)
{
    const struct cw_domain_range wanted = {.address = (uintptr_t)memory, .length = length};
    struct cw_cached *cached = NULL;

    if (cache == NULL || length == 0) {
        return NULL;
    }
    cw_lock_enter(&cache->lock);
    read_reports(cache);
    if (cw_cache_is_active(cache)) {
        cached = get(cache, &wanted, rights);
    }
    if (cached != NULL) {
        cached->uses++;
        cw_list_remove(&cached->link);
    }
    cw_lock_leave(&cache->lock);
    return cached;
}

void cw_cache_put(struct cw_cached *cached)
{
    struct cw_cache *cache = cached->cache;

    cw_lock_enter(&cache->lock);
    if (--cached->uses == 0) {
        if (cached->is_found) {
            cw_list_add_tail(&cache->unused, &cached->link);
        } else {
            end(cached);
        }
    }
    cw_lock_leave(&cache->lock);
}

int cw_cache_shrink(struct cw_cache *cache)
{
    int shrank;

    if (cache == NULL) {
        return 0;
    }
    cw_lock_enter(&cache->lock);
    shrank = shrink(cache);
    cw_lock_leave(&cache->lock);
    return shrank;
}

/* Logs the first refusal of a context's device: the program works, but its messages are copied. */
static void log_refused(struct cw_domain *domain, size_t length, ucs_status_t status)
{
    const size_t limit = domain->attr.pins ? cw_memory_lock_limit() : SIZE_MAX;
    const char *why = atomic_load_explicit(&domain->why, memory_order_relaxed);

    if (atomic_exchange_explicit(&domain->logged, 1, memory_order_relaxed)) {
        return;
    }
    if (status == UCS_ERR_INVALID_ADDR) {
        why = (why != NULL) ? why
                            : "the kernel refuses device access to it (read-only, a file or device mapping, or not "
                              "mapped)";
        cw_warn("%s cannot register %zu bytes of the program: %s; messages in it are copied", domain->device,
                length, why);
        return;
    }
    why = (why != NULL) ? why : "the device or the kernel is out of resources";
    if (limit == SIZE_MAX) {
        cw_warn("%s cannot register %zu bytes of the program: %s; such messages are copied; UCX_RCACHE_MAX_SIZE and "
                "UCX_RCACHE_MAX_REGIONS limit the cache",
                domain->device, length, why);
    } else {
        cw_warn("%s cannot register %zu bytes of the program: %s; such messages are copied; raise the limit of locked "
                "memory, now %zu KiB (ulimit -l, memlock in limits.conf)",
                domain->device, length, why, limit / 1024);
    }
}

ucs_status_t cw_cache_reg_apart(struct cw_cache *cache, struct cw_domain *domain, const void *memory, size_t length,
                                unsigned rights, struct cw_memh **memh_p)
{
    ucs_status_t status;

    do {
        status = domain->kind->reg(domain, (void *)(uintptr_t)memory, length, rights, memh_p);
    } while (status == UCS_ERR_NO_MEMORY && cw_cache_shrink(cache));
    if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_INVALID_ADDR) {
        log_refused(domain, length, status);
    }
    return status;
}

void cw_cache_free(struct cw_cache *cache)
{
    if (cache != NULL) {
        drop(cache, 0, UINT64_MAX);
        free(cache->table);
        free(cache);
    }
}
