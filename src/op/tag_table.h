/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash table of the matcher: its elements have a 64-bit key. Several elements may have one key; they stay in the
 * order in which they were added. Links are embedded, and there are no locks. Only the matcher uses it, for receives
 * and for unexpected messages.
 *
 * Elements of one key form a ring, oldest first, and only the oldest is on a bucket chain: the length of a chain
 * depends on the number of different keys, never on how many elements share one. The table grows and shrinks with its
 * keys. Without memory it keeps its size, so that no operation fails. All calls on one table pass one `seed`.
 */
#ifndef CW_OP_TAG_TABLE_H
#define CW_OP_TAG_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"

/* Buckets inside of the table itself: enough for a few keys without further memory. */
#define CW_TAG_FEW_BUCKETS 8

struct cw_tag_node {
    uint64_t            key;
    struct cw_tag_node *chain; /* next key of the same bucket; valid in the oldest element of a key only */
    struct cw_list      ring;  /* elements of the same key, oldest first; without a head of its own */
};

/* A table must not move in memory, because `buckets` may point to `few`. */
struct cw_tag_table {
    struct cw_tag_node **buckets;
    size_t               num_buckets; /* a power of two */
    size_t               num_keys;
    size_t               grow_above;
    size_t               shrink_below;
    size_t               cursor; /* the buckets before this one are empty; moved by cw_tag_table_any() only */
    struct cw_tag_node  *few[CW_TAG_FEW_BUCKETS];
};

/* Allocates nothing. */
void cw_tag_table_init(struct cw_tag_table *table);

/* Frees the buckets, not the elements. */
void cw_tag_table_cleanup(struct cw_tag_table *table);

/* Makes the table fit `num_keys`. Without memory the table stays as it is, and the next attempt is made later. */
void cw_tag_table_resize(struct cw_tag_table *table, uint64_t seed, size_t num_keys);

/* Returns any element, NULL if there is none. Emptying a table with this function takes linear time. */
struct cw_tag_node *cw_tag_table_any(struct cw_tag_table *table);

static inline struct cw_tag_node *cw_tag_node_next(const struct cw_tag_node *node)
{
    return cw_list_head(&node->ring, struct cw_tag_node, ring);
}

static inline size_t cw_tag_table_bucket(uint64_t seed, uint64_t key, size_t num_buckets)
{
    return (size_t)cw_hash_mix(key ^ seed) & (num_buckets - 1);
}

/* Returns the link to the oldest element of that key; the link is NULL if there is none. Valid until the table
 * changes. */
static inline struct cw_tag_node **cw_tag_table_find(const struct cw_tag_table *table, uint64_t seed, uint64_t key)
{
    struct cw_tag_node **place = &table->buckets[cw_tag_table_bucket(seed, key, table->num_buckets)];

    while ((*place != NULL) && ((*place)->key != key)) {
        place = &(*place)->chain;
    }
    return place;
}

/* Adds `node` behind the elements of the same key. */
static inline void cw_tag_table_add(struct cw_tag_table *table, uint64_t seed, struct cw_tag_node *node, uint64_t key)
{
    struct cw_tag_node **head = &table->buckets[cw_tag_table_bucket(seed, key, table->num_buckets)];
    struct cw_tag_node  *first;

    node->key = key;
    for (first = *head; first != NULL; first = first->chain) {
        if (first->key == key) {
            node->chain = NULL;
            cw_list_add_tail(&first->ring, &node->ring);
            return;
        }
    }
    cw_list_init(&node->ring);
    node->chain   = *head;
    *head         = node;
    table->cursor = 0;
    table->num_keys++;
    if (cw_unlikely(table->num_keys > table->grow_above)) {
        cw_tag_table_resize(table, seed, table->num_keys);
    }
}

/* Removes the oldest element of the key found at `place`. */
static inline void cw_tag_table_remove_oldest(struct cw_tag_table *table, uint64_t seed,
                                              struct cw_tag_node **place)
{
    struct cw_tag_node *node = *place;

    if (!cw_list_empty(&node->ring)) {
        struct cw_tag_node *next = cw_tag_node_next(node);

        next->chain = node->chain;
        *place      = next;
        cw_list_remove(&node->ring);
        return;
    }
    *place = node->chain;
    table->num_keys--;
    if (cw_unlikely(table->num_keys < table->shrink_below)) {
        cw_tag_table_resize(table, seed, 2 * table->num_keys);
    }
}

static inline void cw_tag_table_remove(struct cw_tag_table *table, uint64_t seed, struct cw_tag_node *node)
{
    struct cw_tag_node **place = cw_tag_table_find(table, seed, node->key);

    if (*place == node) {
        cw_tag_table_remove_oldest(table, seed, place);
    } else {
        cw_list_remove(&node->ring);
    }
}

#endif
