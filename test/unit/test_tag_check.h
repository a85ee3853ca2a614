/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests ask the matcher beside its interface: its invariants (op/tag_class.h) and how much memory it holds. */
#ifndef CW_TEST_UNIT_TEST_TAG_CHECK_H
#define CW_TEST_UNIT_TEST_TAG_CHECK_H

#include "op/tag_class.h"

/* True from the post that queued it until it is matched, cancelled or taken. */
static inline bool cw_tag_matcher_is_posted(const struct cw_tag_matcher *matcher, const struct cw_tag_recv *recv)
{
    return recv->sequence != 0 || cw_tag_few_find(matcher, recv) != NULL;
}

/* Calls `visit` for each posted receive, in no particular order. `visit` must not change the matcher. */
static inline void cw_tag_matcher_visit_recvs(const struct cw_tag_matcher *matcher,
                                              void (*visit)(const struct cw_tag_recv *recv, void *arg), void *arg)
{
    const struct cw_tag_few *few;
    struct cw_tag_node      *node;
    size_t                   i;
    uint64_t                 left;

    for (few = matcher->first; few != matcher->last; few++) {
        visit(few->recv, arg);
    }
    for (left = matcher->busy; left != 0; left &= left - 1) {
        const struct cw_tag_table *table = &matcher->classes[__builtin_ctzll(left)]->posted;

        for (i = 0; i < table->num_buckets; i++) {
            const struct cw_tag_node *first;

            for (first = table->buckets[i]; first != NULL; first = first->chain) {
                visit(cw_tag_node_recv(first), arg);
                cw_list_for_each(node, &first->ring, struct cw_tag_node, ring) {
                    visit(cw_tag_node_recv(node), arg);
                }
            }
        }
    }
    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        visit(cw_tag_node_recv(node), arg);
    }
}

/* Bytes of the buckets that were allocated. */
static inline size_t cw_tag_table_memory(const struct cw_tag_table *table)
{
    return (table->buckets == table->few) ? 0 : table->num_buckets * sizeof(*table->buckets);
}

/* Memory held by the tables, in bytes, without the matcher itself. */
static inline size_t cw_tag_matcher_memory(const struct cw_tag_matcher *matcher)
{
    size_t   total = (matcher->classes == NULL) ? 0 : CW_TAG_MAX_CLASSES * sizeof(*matcher->classes);
    unsigned i;

    total += (size_t)(matcher->few_end - matcher->few) * sizeof(*matcher->few);
    for (i = 0; i < matcher->num_classes; i++) {
        const struct cw_tag_class *class = matcher->classes[i];
        const struct cw_tag_chunk *chunk;

        total += sizeof(*class) + cw_tag_table_memory(&class->posted);
        if (class->index != NULL) {
            total += sizeof(*class->index) + cw_tag_table_memory(&class->index->table);
            for (chunk = class->index->chunks; chunk != NULL; chunk = chunk->next) {
                total += sizeof(*chunk) + chunk->size * sizeof(struct cw_tag_entry);
            }
        }
    }
    return total;
}

static inline bool ring_is_ordered(const struct cw_tag_matcher *matcher, const struct cw_tag_class *class,
                            const struct cw_tag_node *first, bool posted, size_t *count)
{
    const struct cw_tag_message *message = posted ? NULL : cw_tag_node_entry(first)->message;
    const struct cw_tag_node    *node    = first;
    const struct cw_tag_node    *next;

    for (;;) {
        (*count)++;
        if (posted && (cw_tag_node_recv(node)->mask != class->mask)) {
            return false;
        }
        if (!posted && ((cw_tag_node_entry(node)->message->tag & class->mask) != node->key)) {
            return false;
        }
        next = cw_tag_node_next(node);
        if ((next->ring.prev != &node->ring) || (next->key != first->key)) {
            return false;
        }
        if (next == first) {
            return true;
        }
        if (posted && (cw_tag_node_recv(next)->sequence <= cw_tag_node_recv(node)->sequence)) {
            return false;
        }
        while (!posted && (message != cw_tag_node_entry(next)->message)) {
            message = cw_tag_matcher_next_message(matcher, message);
            if (message == NULL) {
                return false;
            }
        }
        node = next;
    }
}

static inline const char *check_table(const struct cw_tag_matcher *matcher, const struct cw_tag_class *class,
                               const struct cw_tag_table *table, bool posted, size_t *count)
{
    size_t num_keys = 0;
    size_t i;

    for (i = 0; i < table->num_buckets; i++) {
        const struct cw_tag_node *node;

        for (node = table->buckets[i]; node != NULL; node = node->chain) {
            num_keys++;
            if (cw_tag_table_bucket(matcher->seed, node->key, table->num_buckets) != i) {
                return "a key is in a wrong bucket";
            }
            if (*cw_tag_table_find(table, matcher->seed, node->key) != node) {
                return "a key is twice in a table";
            }
            if (!ring_is_ordered(matcher, class, node, posted, count)) {
                return "the elements of one key are not linked in order";
            }
        }
    }
    if (num_keys != table->num_keys) {
        return "the number of keys of a table is wrong";
    }
    return ((num_keys == 0) && (table->buckets != table->few)) ? "an empty table holds memory" : NULL;
}

static inline const char *check_class(const struct cw_tag_matcher *matcher, unsigned slot, size_t *num_posted)
{
    const struct cw_tag_class *class    = matcher->classes[slot];
    size_t                     entries  = 0;
    size_t                     receives = 0;
    const char                *wrong;

    if ((class->slot != slot) || (cw_tag_class_find(matcher, class->mask) != class)) {
        return "a class has a wrong slot or a mask has two classes";
    }
    wrong = check_table(matcher, class, &class->posted, true, &receives);
    if (wrong != NULL) {
        return wrong;
    }
    if (((matcher->busy & cw_tag_class_bit(class)) != 0) != (receives != 0)) {
        return "a class is marked busy without receives or has some without the mark";
    }
    if (((matcher->indexed & cw_tag_class_bit(class)) != 0) != (class->index != NULL)) {
        return "a class is marked as indexed without index or has one without the mark";
    }
    if (class->index != NULL) {
        wrong = check_table(matcher, class, &class->index->table, false, &entries);
        if (wrong != NULL) {
            return wrong;
        }
        if (entries != matcher->num_unexpected) {
            return "an index has not one entry for each unexpected message";
        }
    }
    *num_posted += receives;
    return NULL;
}

struct unmatched {
    struct cw_tag_matcher *matcher;
    bool                   wrong;
};

static inline void check_unmatched(const struct cw_tag_recv *recv, void *arg)
{
    struct unmatched        *state = arg;
    const struct cw_tag_few *few   = cw_tag_few_find(state->matcher, recv);
    const uint64_t           key   = (few == NULL) ? recv->node.key : few->key;
    const uint64_t           mask  = (few == NULL) ? recv->mask : few->mask;
    struct cw_tag_message   *message;

    if (((recv->sequence == 0) != (few != NULL)) || ((recv->sequence & ~CW_TAG_LISTED) > state->matcher->sequence)) {
        state->wrong = true;
    }
    cw_list_for_each(message, &state->matcher->unexpected, struct cw_tag_message, order) {
        if (cw_tag_matches(message->tag, key, mask)) {
            state->wrong = true;
        }
    }
}

static inline const char *check_messages(const struct cw_tag_matcher *matcher)
{
    unsigned                     num_indexes = (unsigned)__builtin_popcountll(matcher->indexed);
    size_t                       count       = 0;
    const struct cw_tag_message *message;

    cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
        const struct cw_tag_entry *entry;
        unsigned                   num_entries = 0;

        for (entry = message->entries; entry != NULL; entry = entry->next) {
            num_entries++;
            if (entry->message != message) {
                return "an entry belongs to another message";
            }
        }
        if (num_entries != num_indexes) {
            return "a message has not one entry for each index";
        }
        count++;
    }
    if (num_indexes > CW_TAG_MAX_INDEXES) {
        return "there are too many indexes";
    }
    return (count != matcher->num_unexpected) ? "the number of unexpected messages is wrong" : NULL;
}

/* NULL if all invariants hold, else what is wrong. The cost is quadratic in what is queued. */
static inline const char *cw_tag_matcher_check(const struct cw_tag_matcher *matcher)
{
    struct unmatched          unmatched  = {(struct cw_tag_matcher *)matcher, false};
    size_t                    num_posted = 0;
    uint64_t                  sequence   = 0;
    const char               *wrong      = check_messages(matcher);
    const struct cw_tag_node *node;
    unsigned                  i;

    for (i = 0; (wrong == NULL) && (i < matcher->num_classes); i++) {
        wrong = check_class(matcher, i, &num_posted);
    }
    if (wrong != NULL) {
        return wrong;
    }
    if ((matcher->num_classes < 64) && (((matcher->busy | matcher->indexed) >> matcher->num_classes) != 0)) {
        return "a class that does not exist is marked";
    }
    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        if (!(cw_tag_node_recv(node)->sequence & CW_TAG_LISTED) ||
            (cw_tag_node_recv(node)->sequence <= sequence)) {
            return "the leftover receives are not in order or not marked";
        }
        sequence = cw_tag_node_recv(node)->sequence;
        num_posted++;
    }
    if (num_posted != matcher->num_other) {
        return "the number of posted receives is wrong";
    }
    if ((matcher->first < matcher->few) || (matcher->last < matcher->first) || (matcher->few_end < matcher->last) ||
        (matcher->stop != (((num_posted | matcher->num_unexpected) == 0) ? matcher->few_end : matcher->last))) {
        return "the few receives are not in their array, or its end is wrong";
    }
    if ((num_posted != 0) && (matcher->first != matcher->last)) {
        return "some receives are among the few and others are not";
    }
    cw_tag_matcher_visit_recvs(matcher, check_unmatched, &unmatched);
    return unmatched.wrong ? "a posted receive matches an unexpected message or has no valid sequence" : NULL;
}

#endif
