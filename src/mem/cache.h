/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration cache of one domain (mem/domain.h), for the program's memory.
 *
 * A registration is stale once the program has unmapped its memory and mapped other memory there; the library
 * intercepts no function of the program to detect that. So registrations are cached only if a stale one cannot be used:
 * the device pages memory on demand (`on_demand`), or the program reports the memory that it unmaps (base/unmapped.h),
 * and the cache checks these reports before it reuses a registration. Otherwise nothing is cached, and cw_cache_get
 * returns NULL.
 *
 * Thread safe. The registrations are bounded in number and in bytes. The cache evicts unused registrations, least
 * recently used first.
 */
#ifndef CW_MEM_CACHE_H
#define CW_MEM_CACHE_H

#include <stdbool.h>

#include "base/list.h"
#include "mem/domain.h"

struct cw_cache;

/* A registration that is in use until cw_cache_put. */
struct cw_cached {
    const struct cw_memh *memh;
    struct cw_domain_range range;
    struct cw_cache *cache;
    struct cw_list link;      /* in the list of unused ones, most recently used last */
    unsigned uses;
    uint8_t is_found;         /* in the table; else deregistered after its last use */
};

struct cw_cache_limits {
    uint64_t regions;
    uint64_t bytes;
};

/* NULL: out of memory. */
struct cw_cache *cw_cache_new(struct cw_domain *domain, const struct cw_cache_limits *limits);
/* No registration of the cache may be in use. NULL is allowed and does nothing. */
void cw_cache_free(struct cw_cache *cache);

/* Whether registrations are cached at present. */
bool cw_cache_is_active(const struct cw_cache *cache);
/* A registration that covers these bytes, with all of these rights. The caller ensures that the memory stays mapped
 * until cw_cache_put. NULL: none is available, for any reason. */
struct cw_cached *cw_cache_get(struct cw_cache *cache, const void *memory, size_t length, unsigned rights);
void cw_cache_put(struct cw_cached *cached);
/* Registers memory outside of the cache, as domain->kind->reg does. While the domain is out of memory, evicts unused
 * registrations. `cache` may be NULL. */
ucs_status_t cw_cache_reg_apart(struct cw_cache *cache, struct cw_domain *domain, const void *memory, size_t length,
                                unsigned rights, struct cw_memh **memh_p);
/* Evicts one unused registration, because the domain is at its limit. 0: there is none. */
int cw_cache_shrink(struct cw_cache *cache);

#endif
