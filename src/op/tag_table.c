/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of tag_table.h that are not on the path of every message: set-up, growing and shrinking.
 */
#include "op/tag_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void set_buckets(struct cw_tag_table *table, struct cw_tag_node **buckets, size_t num_buckets)
{
    bool few = (buckets == table->few);

    /* At most half full, because in a large table each further key on a chain is a cache miss. */
    table->buckets      = buckets;
    table->num_buckets  = num_buckets;
    table->grow_above   = few ? num_buckets : num_buckets / 2;
    table->shrink_below = few ? 0 : num_buckets / 8;
    table->cursor       = 0;
}

void cw_tag_table_init(struct cw_tag_table *table)
{
    memset(table, 0, sizeof(*table));
    set_buckets(table, table->few, CW_TAG_FEW_BUCKETS);
}

void cw_tag_table_cleanup(struct cw_tag_table *table)
{
    if (table->buckets != table->few) {
        free(table->buckets);
    }
}

void cw_tag_table_resize(struct cw_tag_table *table, uint64_t seed, size_t num_keys)
{
    struct cw_tag_node **old     = table->buckets;
    size_t               num_old = table->num_buckets;
    size_t               size    = CW_TAG_FEW_BUCKETS;
    struct cw_tag_node **buckets = table->few;
    size_t               i;

    while (size < 2 * num_keys) {
        size *= 2;
    }
    if (size == CW_TAG_FEW_BUCKETS) {
        memset(table->few, 0, sizeof(table->few));
    } else {
        buckets = calloc(size, sizeof(*buckets));
        if (buckets == NULL) {
            if (size > num_old) {
                table->grow_above = 2 * table->num_keys;
            } else {
                table->shrink_below = (table->shrink_below + 1) / 2;
            }
            return;
        }
    }
    set_buckets(table, buckets, size);
    for (i = 0; i < num_old; i++) {
        struct cw_tag_node *node = old[i];

        while (node != NULL) {
            struct cw_tag_node  *next = node->chain;
            struct cw_tag_node **head = &buckets[cw_tag_table_bucket(seed, node->key, size)];

            node->chain = *head;
            *head       = node;
            node        = next;
        }
    }
    if (old != table->few) {
        free(old);
    }
}

struct cw_tag_node *cw_tag_table_any(struct cw_tag_table *table)
{
    if (table->num_keys == 0) {
        return NULL;
    }
    while (table->buckets[table->cursor] == NULL) {
        table->cursor++;
    }
    return table->buckets[table->cursor];
}
