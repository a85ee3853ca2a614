/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests ask the matcher beside its interface: posting in one call, its invariants, how much memory it holds. */
#ifndef CW_TEST_UNIT_TEST_TAG_CHECK_H
#define CW_TEST_UNIT_TEST_TAG_CHECK_H

#include "tag/match.h"

/* Posts a receive: the earliest message that matches is removed and returned, or the receive is queued: NULL. */
static inline struct cw_tag_message *cw_tag_matcher_post(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv,
                                                         uint64_t tag, uint64_t mask)
{
    struct cw_tag_message *message = cw_tag_matcher_probe(matcher, tag, mask, true);

    if (message == NULL) {
        cw_tag_matcher_queue(matcher, recv, tag, mask);
    }
    return message;
}

static inline const struct cw_tag_posted *array_find(const struct cw_tag_matcher *matcher,
                                                     const struct cw_tag_recv *recv)
{
    const struct cw_tag_posted *posted;

    for (posted = matcher->first; posted != matcher->last; posted++) {
        if (posted->recv == recv) {
            return posted;
        }
    }
    return NULL;
}

/* True from the post that queued it until it is matched, cancelled or taken. */
static inline bool cw_tag_matcher_is_posted(const struct cw_tag_matcher *matcher, const struct cw_tag_recv *recv)
{
    return recv->node.position != 0 || array_find(matcher, recv) != NULL;
}

/* Memory held by the tables, in bytes, without the matcher itself. */
static inline size_t cw_tag_matcher_memory(const struct cw_tag_matcher *matcher)
{
    size_t total = (size_t)(matcher->array_end - matcher->array) * sizeof(*matcher->array);
    unsigned i;

    total += matcher->space_masks * sizeof(*matcher->masks) + matcher->num_buckets * sizeof(*matcher->buckets);
    for (i = 0; i < matcher->num_masks; i++) {
        total += matcher->masks[i].entered * sizeof(struct cw_tag_entry);
    }
    return total + matcher->num_spare * sizeof(struct cw_tag_entry);
}

struct found {
    size_t posted[CW_TAG_MAX_MASKS];  /* in the table */
    size_t entered[CW_TAG_MAX_MASKS];
    size_t keys;
};

/* One element of the table, behind `before` in its ring; NULL: the oldest. */
static inline const char *check_node(const struct cw_tag_matcher *matcher, const struct cw_tag_node *node,
                                     const struct cw_tag_node *before, struct found *found)
{
    const unsigned slot = node->position & (CW_TAG_MAX_MASKS - 1);
    const struct cw_tag_recv *recv = cw_container_of(node, struct cw_tag_recv, node);
    const struct cw_tag_entry *entry = cw_container_of(node, struct cw_tag_entry, node);
    const struct cw_tag_message *message;

    if (slot >= matcher->num_masks || (node->position & CW_TAG_LISTED)) {
        return "an element of the table belongs to no mask";
    }
    if (before != NULL && (before->key != node->key || node->ring.prev != &before->ring ||
                           ((before->position ^ node->position) & CW_TAG_SLOT))) {
        return "the elements of one key are not linked";
    }
    if (node->position & CW_TAG_MESSAGE) {
        found->entered[slot]++;
        if ((entry->message->tag & matcher->masks[slot].mask) != node->key) {
            return "a message has a wrong key";
        }
        if (before == NULL) {
            return NULL;
        }
        for (message = cw_container_of(before, struct cw_tag_entry, node)->message; message != entry->message;) {
            message = cw_tag_matcher_next_message(matcher, message);
            if (message == NULL) {
                return "the messages of one key are not in order";
            }
        }
        return NULL;
    }
    found->posted[slot]++;
    if (recv->mask != matcher->masks[slot].mask) {
        return "a receive is under a wrong mask";
    }
    return (before != NULL && before->position >= node->position) ? "the receives of one key are not in order" : NULL;
}

static inline const char *check_table(const struct cw_tag_matcher *matcher, struct found *found)
{
    const struct cw_tag_node *first, *other, *node, *before;
    const char *wrong;
    size_t i;

    for (i = 0; i < matcher->num_buckets; i++) {
        for (first = matcher->buckets[i]; first != NULL; first = first->chain) {
            found->keys++;
            if (cw_tag_hash(matcher->seed, first->key, first->position & CW_TAG_SLOT) % matcher->num_buckets != i) {
                return "a key is in a wrong bucket";
            }
            if (!(first->position & CW_TAG_MESSAGE) && i < matcher->cursor) {
                return "receives are before the cursor";
            }
            for (other = first->chain; other != NULL; other = other->chain) {
                if (other->key == first->key && !((other->position ^ first->position) & CW_TAG_SLOT)) {
                    return "a key is twice in the table";
                }
            }
            before = NULL;
            node = first;
            do {
                wrong = check_node(matcher, node, before, found);
                if (wrong != NULL) {
                    return wrong;
                }
                before = node;
                node = cw_list_head(&node->ring, struct cw_tag_node, ring);
            } while (node != first);
        }
    }
    return (found->keys == matcher->num_keys) ? NULL : "the number of keys is wrong";
}

static inline const char *check_masks(const struct cw_tag_matcher *matcher, const struct found *found)
{
    uint64_t known = 0;
    unsigned i, j;

    for (i = 0; i < matcher->num_masks; i++) {
        const struct cw_tag_mask *mask = &matcher->masks[i];
        const uint64_t bit = UINT64_C(1) << i;

        known |= bit;
        for (j = 0; j < i; j++) {
            if (matcher->masks[j].mask == mask->mask) {
                return "a mask is there twice";
            }
        }
        if (mask->posted != found->posted[i] || mask->entered != found->entered[i]) {
            return "the elements of a mask are counted wrong";
        }
        if (((matcher->busy & bit) != 0) != (mask->posted != 0) ||
            ((matcher->indexed & bit) != 0) != (mask->entered != 0)) {
            return "a mask is marked wrong";
        }
    }
    if ((matcher->busy | matcher->indexed) & ~known) {
        return "a mask that does not exist is marked";
    }
    return (__builtin_popcountll(matcher->indexed) > CW_TAG_MAX_INDEXED) ? "too many masks have messages" : NULL;
}

static inline const char *check_entries(const struct cw_tag_matcher *matcher, const struct found *found)
{
    const struct cw_tag_entry *entry;
    size_t entered = 0, spare = 0, i;

    for (i = 0; i < CW_TAG_MAX_MASKS; i++) {
        entered += found->entered[i];
    }
    for (entry = matcher->spare; entry != NULL && spare <= matcher->num_spare; entry = entry->next) {
        spare++;
    }
    if (entered != matcher->num_entries || spare != matcher->num_spare) {
        return "the entries are counted wrong";
    }
    return (spare > entered) ? "more entries are spare than in use" : NULL;
}

/* For each mask the oldest messages are in the table, up to the newest that is. */
static inline const char *check_messages(const struct cw_tag_matcher *matcher)
{
    const struct cw_tag_message *message;
    const struct cw_tag_entry *entry;
    uint64_t entered = matcher->indexed, has;
    size_t count = 0;
    unsigned i;

    cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
        has = 0;
        for (entry = message->entries; entry != NULL; entry = entry->next) {
            if (entry->message != message) {
                return "an entry belongs to another message";
            }
            has |= UINT64_C(1) << (entry->node.position & (CW_TAG_MAX_MASKS - 1));
        }
        if (has != entered) {
            return "a message is not in the table, or is there behind the newest of its mask";
        }
        for (i = 0; i < matcher->num_masks; i++) {
            if (((entered >> i) & 1) && matcher->masks[i].newest == message) {
                entered &= ~(UINT64_C(1) << i);
            }
        }
        count++;
    }
    if (entered != 0) {
        return "the newest message of a mask is not queued";
    }
    return (count != matcher->num_unexpected) ? "the number of unexpected messages is wrong" : NULL;
}

/* What is posted is in order, first what is outside the array, and no message that waits matches it. */
static inline const char *check_posted(const struct cw_tag_matcher *matcher, size_t in_table)
{
    static struct cw_tag_posted all[8192];
    const size_t count = cw_tag_matcher_oldest(matcher, all, 8192);
    const struct cw_tag_message *message;
    const struct cw_tag_recv *recv;
    size_t listed = 0, i;
    uint64_t place = 0;

    cw_list_for_each(recv, &matcher->leftover, struct cw_tag_recv, node.ring) {
        if (!(recv->node.position & CW_TAG_LISTED)) {
            return "a leftover receive is not marked";
        }
        listed++;
    }
    if (listed + in_table != matcher->num_other || count != cw_tag_matcher_num_posted(matcher)) {
        return "the number of posted receives is wrong";
    }
    if (matcher->first < matcher->array || matcher->last < matcher->first || matcher->array_end < matcher->last ||
        matcher->stop != ((matcher->num_unexpected != 0) ? matcher->last : matcher->array_end)) {
        return "the receives are not in their array, or its end is wrong";
    }
    for (i = 0; i < count; i++) {
        if ((i < matcher->num_other) ? all[i].recv->node.position <= place : all[i].recv->node.position != 0) {
            return "the posted receives are not in order";
        }
        place = all[i].recv->node.position;
        cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
            if (cw_tag_matches(message->tag, all[i].key, all[i].mask)) {
                return "a posted receive matches an unexpected message";
            }
        }
    }
    return NULL;
}

/* NULL if all invariants hold, else what is wrong. The cost is quadratic in what is queued. */
static inline const char *cw_tag_matcher_check(const struct cw_tag_matcher *matcher)
{
    struct found found = {.keys = 0};
    size_t in_table = 0, i;
    const char *wrong = check_table(matcher, &found);

    for (i = 0; i < CW_TAG_MAX_MASKS; i++) {
        in_table += found.posted[i];
    }
    wrong = (wrong != NULL) ? wrong : check_masks(matcher, &found);
    wrong = (wrong != NULL) ? wrong : check_entries(matcher, &found);
    wrong = (wrong != NULL) ? wrong : check_messages(matcher);
    return (wrong != NULL) ? wrong : check_posted(matcher, in_table);
}

#endif
