/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds unexpected messages of the matcher (tag_class.h): by a scan in order of arrival, or by the index of a mask that
 * is often asked for. An index that costs more than it saves is dropped.
 */
#include "op/tag_class.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A scan of up to this many messages is as cheap as an index. */
#define CHEAP_SCAN 8

/* An index smaller than this is not dropped to save memory. */
#define KEPT_ENTRIES 256

static bool index_grow(struct cw_tag_index *index, size_t size)
{
    struct cw_tag_chunk *chunk = malloc(sizeof(*chunk) + size * sizeof(struct cw_tag_entry));
    struct cw_tag_entry *entry;
    size_t               i;

    if (chunk == NULL) {
        return false;
    }
    chunk->next      = index->chunks;
    chunk->size      = size;
    index->chunks    = chunk;
    index->capacity += size;
    entry            = (struct cw_tag_entry *)(chunk + 1);
    for (i = 0; i < size; i++) {
        entry[i].next = index->free;
        index->free   = &entry[i];
    }
    return true;
}

void cw_tag_index_free(struct cw_tag_index *index)
{
    while (index->chunks != NULL) {
        struct cw_tag_chunk *chunk = index->chunks;

        index->chunks = chunk->next;
        free(chunk);
    }
    cw_tag_table_cleanup(&index->table);
    free(index);
}

/* False if there is no memory for the entry. */
static bool index_add(const struct cw_tag_matcher *matcher, struct cw_tag_class *class, struct cw_tag_message *message)
{
    struct cw_tag_index *index = class->index;
    struct cw_tag_entry *entry;

    if ((index->free == NULL) && !index_grow(index, index->capacity / 2)) {
        return false;
    }
    entry = index->free;
    assert(entry != NULL);
    index->free      = entry->next;
    entry->message   = message;
    entry->index     = index;
    entry->next      = message->entries;
    message->entries = entry;
    cw_tag_table_add(&index->table, matcher->seed, &entry->node, message->tag & class->mask);
    return true;
}

/* Frees the index; searches with this mask scan the messages again. */
static void index_drop(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    struct cw_tag_index   *index = class->index;
    struct cw_tag_message *message;

    cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
        struct cw_tag_entry **place = &message->entries;

        while ((*place != NULL) && ((*place)->index != index)) {
            place = &(*place)->next;
        }
        if (*place != NULL) {
            *place = (*place)->next;
        }
    }
    cw_tag_index_free(index);
    class->index      = NULL;
    class->scanned    = 0;
    matcher->indexed &= ~cw_tag_class_bit(class);
    cw_tag_class_retire(matcher, class);
}

/* Keeps the number of indexes bounded: drops the index of the least recently used class. */
static void index_make_room(struct cw_tag_matcher *matcher)
{
    struct cw_tag_class *oldest = NULL;
    uint64_t             left;

    if (__builtin_popcountll(matcher->indexed) < CW_TAG_MAX_INDEXES) {
        return;
    }
    for (left = matcher->indexed; left != 0; left &= left - 1) {
        struct cw_tag_class *class = matcher->classes[__builtin_ctzll(left)];

        if ((oldest == NULL) || (class->last_use < oldest->last_use)) {
            oldest = class;
        }
    }
    index_drop(matcher, oldest);
}

/* Builds the index of a class. Without memory only `scanned` changes, so that the next attempt is as far away as this
 * one was. */
static void index_build(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    struct cw_tag_index   *index = malloc(sizeof(*index));
    struct cw_tag_message *message;

    class->scanned = 0;
    if (index == NULL) {
        return;
    }
    memset(index, 0, sizeof(*index));
    cw_tag_table_init(&index->table);
    if (!index_grow(index, matcher->num_unexpected + matcher->num_unexpected / 4 + 2 * CHEAP_SCAN)) {
        free(index);
        return;
    }
    index_make_room(matcher);
    class->index      = index;
    matcher->indexed |= cw_tag_class_bit(class);
    cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
        index_add(matcher, class, message);
    }
}

static struct cw_tag_message *scan_unexpected(struct cw_tag_matcher *matcher, struct cw_tag_class *class, uint64_t tag,
                                              uint64_t mask)
{
    struct cw_tag_message *found  = NULL;
    size_t                 passed = 0;
    struct cw_tag_message *message;

    cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
        if (cw_tag_matches(message->tag, tag, mask)) {
            found = message;
            break;
        }
        passed++;
    }
    if ((passed > CHEAP_SCAN) && (class != NULL)) {
        class->scanned += passed;
        if (class->scanned >= 2 * matcher->num_unexpected) {
            index_build(matcher, class);
        }
    }
    return found;
}

struct cw_tag_message *cw_tag_matcher_find_message(struct cw_tag_matcher *matcher, uint64_t tag, uint64_t mask)
{
    struct cw_tag_class *class = cw_tag_class_get(matcher, mask);
    struct cw_tag_node  *first;

    if ((class == NULL) || (class->index == NULL)) {
        return scan_unexpected(matcher, class, tag, mask);
    }
    class->index->unasked = 0;
    first                 = *cw_tag_table_find(&class->index->table, matcher->seed, tag & mask);
    return (first == NULL) ? NULL : cw_tag_node_entry(first)->message;
}

void cw_tag_matcher_index_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message)
{
    struct cw_tag_class *dropped[CW_TAG_MAX_INDEXES];
    unsigned             num_dropped = 0;
    uint64_t             left;

    for (left = matcher->indexed; left != 0; left &= left - 1) {
        struct cw_tag_class *class = matcher->classes[__builtin_ctzll(left)];

        /* Keeping an index that no search uses must not cost more than building it again. */
        class->index->unasked++;
        if ((2 * class->index->unasked > matcher->num_unexpected + KEPT_ENTRIES) ||
            !index_add(matcher, class, message)) {
            dropped[num_dropped++] = class;
        }
    }
    /* After the loop, because index_drop may move classes to other slots. */
    while (num_dropped > 0) {
        index_drop(matcher, dropped[--num_dropped]);
    }
}

void cw_tag_matcher_unindex_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message)
{
    struct cw_tag_class *dropped[CW_TAG_MAX_INDEXES];
    unsigned             num_dropped = 0;
    struct cw_tag_entry *entry;
    uint64_t             left;

    while ((entry = message->entries) != NULL) {
        message->entries = entry->next;
        cw_tag_table_remove(&entry->index->table, matcher->seed, &entry->node);
        entry->next        = entry->index->free;
        entry->index->free = entry;
    }
    for (left = matcher->indexed; left != 0; left &= left - 1) {
        struct cw_tag_class *class = matcher->classes[__builtin_ctzll(left)];

        if ((matcher->num_unexpected == 0) || ((class->index->capacity > KEPT_ENTRIES) &&
                                               (class->index->capacity / 8 > matcher->num_unexpected))) {
            dropped[num_dropped++] = class;
        }
    }
    while (num_dropped > 0) {
        index_drop(matcher, dropped[--num_dropped]);
    }
}
