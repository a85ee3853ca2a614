/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash table of base/hash.h.
 */
#include "base/hash.h"

#include <stdlib.h>

#define FIRST_BUCKETS 8

static struct cw_hash_link **bucket_of(const struct cw_hash *hash, uint64_t key)
{
    if (hash->buckets == NULL) {
        return (struct cw_hash_link **)&hash->first;
    }
    return &hash->buckets[cw_hash_mix(key ^ hash->seed) & hash->mask];
}

void cw_hash_init(struct cw_hash *hash, uint64_t seed)
{
    *hash = (struct cw_hash){.seed = seed};
}

void cw_hash_cleanup(struct cw_hash *hash)
{
    free(hash->buckets);
    hash->buckets = NULL;
}

static void move_chain(struct cw_hash *hash, struct cw_hash_link *chain)
{
    struct cw_hash_link **bucket, *link;

    while (chain != NULL) {
        link = chain;
        chain = link->next;
        bucket = bucket_of(hash, link->key);
        link->next = *bucket;
        *bucket = link;
    }
}

static void grow(struct cw_hash *hash)
{
    struct cw_hash_link **old = hash->buckets, **buckets, *first = hash->first;
    size_t old_size = (old == NULL) ? 0 : hash->mask + 1, i;
    size_t size = (old == NULL) ? FIRST_BUCKETS : old_size * 2;

    buckets = calloc(size, sizeof(struct cw_hash_link *));
    if (buckets == NULL) {
        return;
    }
    hash->buckets = buckets;
    hash->mask = size - 1;
    hash->first = NULL;
    move_chain(hash, first);
    for (i = 0; i < old_size; i++) {
        move_chain(hash, old[i]);
    }
    free(old);
}

void cw_hash_add(struct cw_hash *hash, struct cw_hash_link *link, uint64_t key)
{
    struct cw_hash_link **bucket;

    if (hash->count >= ((hash->buckets == NULL) ? 2 : hash->mask + 1)) {
        grow(hash);
    }
    link->key = key;
    bucket = bucket_of(hash, key);
    link->next = *bucket;
    *bucket = link;
    hash->count++;
}

void cw_hash_remove(struct cw_hash *hash, struct cw_hash_link *link)
{
    struct cw_hash_link **at;

    for (at = bucket_of(hash, link->key); *at != NULL; at = &(*at)->next) {
        if (*at == link) {
            *at = link->next;
            hash->count--;
            return;
        }
    }
}

struct cw_hash_link *cw_hash_find(const struct cw_hash *hash, uint64_t key)
{
    struct cw_hash_link *link;

    for (link = *bucket_of(hash, key); link != NULL && link->key != key; link = link->next) {
    }
    return link;
}

struct cw_hash_link *cw_hash_next(const struct cw_hash_link *link)
{
    uint64_t key = link->key;

    for (link = link->next; link != NULL && link->key != key; link = link->next) {
    }
    return (struct cw_hash_link *)link;
}
