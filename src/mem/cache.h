/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of the program's memory that one domain (mem/domain.h) keeps from one message to the next.
 *
 * A registration is wrong once the program has unmapped its memory and has mapped other memory there; the library
 * replaces no function of the program to learn of that. So registrations are kept only where a wrong one cannot be
 * used: the device pages memory by itself (`on_demand`), or the program reports the memory that it unmaps
 * (base/unmapped.h), and the cache looks at these reports before it uses a registration again. Otherwise nothing is
 * kept, and cw_cache_get answers NULL.
 *
 * Thread safe. The registrations have a bound in number and in bytes. The cache gives back registrations that are not
 * in use, the one first whose last use is longest ago.
 */
#ifndef CW_MEM_CACHE_H
#define CW_MEM_CACHE_H

#include "base/list.h"
#include "mem/domain.h"

struct cw_cache;

/* A registration that is in use until cw_cache_put. */
struct cw_cached {
    const struct cw_memh *memh;
    struct cw_domain_range range;
    struct cw_cache *cache;
    struct cw_list link;      /* in the list of the unused ones: the last used at its end */
    unsigned uses;
    uint8_t is_found;         /* it is in the table; else it ends with its last use */
};

struct cw_cache_limits {
    uint64_t regions;
    uint64_t bytes;
};

/* NULL: no memory. */
struct cw_cache *cw_cache_new(struct cw_domain *domain, const struct cw_cache_limits *limits);
/* No registration of the cache is in use any more. NULL: nothing happens. */
void cw_cache_free(struct cw_cache *cache);

/* Whether registrations are kept at present. */
int cw_cache_is_active(const struct cw_cache *cache);
/* A registration that covers these bytes, with all of these rights. The caller sees to it that the memory is mapped
 * until cw_cache_put. NULL: the cache has none to give, whatever the reason. */
struct cw_cached *cw_cache_get(struct cw_cache *cache, const void *memory, size_t length, unsigned rights);
void cw_cache_put(struct cw_cached *cached);
/* Registers memory outside of the cache, as domain->kind->reg does. As long as the domain has no memory for it, unused
 * registrations of the cache end. `cache` may be NULL. */
ucs_status_t cw_cache_reg_apart(struct cw_cache *cache, struct cw_domain *domain, const void *memory, size_t length,
                                unsigned rights, struct cw_memh **memh_p);
/* Gives one unused registration back, because the domain is at its limit. 0: there is none. */
int cw_cache_shrink(struct cw_cache *cache);

#endif
