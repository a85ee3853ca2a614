/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of the program's memory that are kept from one message to the next, for one domain (mem/domain.h).
 *
 * A registration is wrong when the program has unmapped its memory and other memory lies there, and no function of the
 * program is replaced to learn of that. So registrations are kept only where a wrong one cannot be used: the device
 * pages memory by itself (`on_demand`), or the program reports what it unmaps (base/unmapped.h), and then what was
 * reported is looked at before a registration is used again. Otherwise there is no cache, and cw_cache_get answers
 * NULL.
 *
 * Thread safe. The registrations have a bound in number and in bytes; those that nobody uses are given back first, the
 * one that was not used for longest before the others.
 */
#ifndef CW_MEM_CACHE_H
#define CW_MEM_CACHE_H

#include "base/list.h"
#include "mem/domain.h"

struct cw_cache;

/* One that is used, until it is put back. */
struct cw_cached {
    const struct cw_memh *memh;
    struct cw_domain_range range;
    struct cw_cache *cache;
    struct cw_list link;      /* unused ones: the newest at the end */
    unsigned uses;
    uint8_t is_found;         /* in the table; else it ends with its last use */
};

struct cw_cache_limits {
    uint64_t regions;
    uint64_t bytes;
};

/* NULL: no memory. */
struct cw_cache *cw_cache_new(struct cw_domain *domain, const struct cw_cache_limits *limits);
/* Nothing of it is used any more. NULL: nothing happens. */
void cw_cache_free(struct cw_cache *cache);

/* Whether registrations are kept at present. */
int cw_cache_is_active(const struct cw_cache *cache);
/* A registration of memory that these bytes lie in, with all of these rights; the memory is mapped, and stays so until
 * cw_cache_put. NULL: not from here, whatever the reason. */
struct cw_cached *cw_cache_get(struct cw_cache *cache, const void *memory, size_t length, unsigned rights);
void cw_cache_put(struct cw_cached *cached);
/* Gives back one that nobody uses, because the domain is at its limit. 0: there is none. */
int cw_cache_shrink(struct cw_cache *cache);

#endif
