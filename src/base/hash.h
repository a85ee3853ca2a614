/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chained hash table with embedded links, keyed by 64 bits; several elements may have one key. It grows by doubling
 * and starts with no memory. Growing may fail: the chains then only become longer, an insertion itself cannot fail once
 * the first table exists.
 */
#ifndef CW_BASE_HASH_H
#define CW_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct cw_hash_link {
    struct cw_hash_link *next;
    uint64_t key;
};

struct cw_hash {
    struct cw_hash_link **buckets;
    size_t mask;                  /* number of buckets - 1 */
    size_t count;
    uint64_t seed;                /* keys may come from peers, which must not be able to fill one chain */
    struct cw_hash_link *first;   /* the single bucket of a table without memory */
};

void cw_hash_init(struct cw_hash *hash, uint64_t seed);
/* Frees the table, not the elements. */
void cw_hash_cleanup(struct cw_hash *hash);
void cw_hash_add(struct cw_hash *hash, struct cw_hash_link *link, uint64_t key);
void cw_hash_remove(struct cw_hash *hash, struct cw_hash_link *link);
/* Any element of that key, or NULL; further ones follow with cw_hash_next. */
struct cw_hash_link *cw_hash_find(const struct cw_hash *hash, uint64_t key);
struct cw_hash_link *cw_hash_next(const struct cw_hash_link *link);

/* A good mix of 64 bits into 64 bits. */
static inline uint64_t cw_hash_mix(uint64_t value)
{
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93u;
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93u;
    return value ^ (value >> 32);
}

#endif
