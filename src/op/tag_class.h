/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal declarations that the parts of the matcher (tag_match.h) share. A class is one mask in use: a hash table of
 * the receives posted with it, keyed by tag & mask. Once scans of the unexpected messages with that mask have cost more
 * than an index would, the class also has an index: a second table of all unexpected messages.
 *
 * Invariants, which test/unit/test_tag_check.h checks: a class is busy iff it has receives; an index has exactly one
 * entry for each unexpected message; either all receives are in the array of few receives, or each of them is in a
 * class or on the leftover list, as its sequence number says.
 */
#ifndef CW_OP_TAG_CLASS_H
#define CW_OP_TAG_CLASS_H

#include "op/tag_match.h"

/* If there are more classes than this, idle ones are freed or get a new mask. */
#define CW_TAG_KEPT_CLASSES 16

struct cw_tag_chunk {
    struct cw_tag_chunk *next;
    size_t              size;
};

struct cw_tag_index {
    struct cw_tag_table  table;
    struct cw_tag_chunk  *chunks;
    struct cw_tag_entry *free;
    size_t               capacity; /* entries in all chunks */
    size_t               unasked;  /* messages added since the last query */
};

/* An unexpected message in an index. */
struct cw_tag_entry {
    struct cw_tag_node     node;
    struct cw_tag_message *message;
    struct cw_tag_entry   *next; /* of the same message in another index, or in the free list */
    struct cw_tag_index   *index;
};

struct cw_tag_class {
    uint64_t            mask;
    struct cw_tag_index *index; /* NULL if the unexpected messages are scanned */
    uint64_t            last_use;
    size_t              scanned; /* messages passed by scans since the last attempt to build the index */
    unsigned            slot;    /* in cw_tag_matcher.classes */
    struct cw_tag_table posted;
};

static inline struct cw_tag_recv *cw_tag_node_recv(const struct cw_tag_node *node)
{
    return cw_container_of(node, struct cw_tag_recv, node);
}

static inline struct cw_tag_entry *cw_tag_node_entry(const struct cw_tag_node *node)
{
    return cw_container_of(node, struct cw_tag_entry, node);
}

static inline uint64_t cw_tag_class_bit(const struct cw_tag_class *class)
{
    return (uint64_t)1 << class->slot;
}

/* tag_few.c */
/* Removes an entry. */
void cw_tag_few_remove(struct cw_tag_matcher *matcher, struct cw_tag_few *few);
/* Returns the entry of the receive; NULL: the receive is not in the array. */
struct cw_tag_few *cw_tag_few_find(const struct cw_tag_matcher *matcher, const struct cw_tag_recv *recv);

/* tag_class.c */
/* Returns the class of that mask, or NULL. */
struct cw_tag_class *cw_tag_class_find(const struct cw_tag_matcher *matcher, uint64_t mask);
/* Makes the class of that mask the recent one; the class may be new. NULL: too many classes, or no memory. */
struct cw_tag_class *cw_tag_class_switch(struct cw_tag_matcher *matcher, uint64_t mask);
/* Frees a class that has just become idle, if there are many. */
void cw_tag_class_retire(struct cw_tag_matcher *matcher, struct cw_tag_class *class);

/* Returns the class of that mask, made if needed; NULL if there are too many or there is no memory. */
static inline struct cw_tag_class *cw_tag_class_get(struct cw_tag_matcher *matcher, uint64_t mask)
{
    if (cw_likely((matcher->recent != NULL) && (matcher->recent->mask == mask))) {
        return matcher->recent;
    }
    return cw_tag_class_switch(matcher, mask);
}

/* tag_index.c */
void cw_tag_index_free(struct cw_tag_index *index);

#endif
