/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher of tag_match.h. Called by the tag operations with the worker entered.
 *
 * A class is one mask in use: a hash table of the receives posted with it, keyed by tag & mask, and, once scans of the
 * unexpected messages with that mask have cost more than it would, a second table over all unexpected messages (its
 * index).
 *
 * Invariants: a class is busy iff it has receives; an index has exactly one entry for each unexpected message;
 * a receive outside of all classes is on the leftover list and its chain points to itself.
 */
#include "op/tag_match.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* With more classes than this the idle ones are given back or get a new mask. */
#define KEPT_CLASSES 16

/* A scan of up to this many messages is as cheap as an index. */
#define CHEAP_SCAN 8

/* An index smaller than this is not worth giving back. */
#define KEPT_ENTRIES 256

struct entry_chunk {
    struct entry_chunk *next;
    size_t              size;
};

struct tag_index {
    struct cw_tag_table  table;
    struct entry_chunk  *chunks;
    struct cw_tag_entry *free;
    size_t               capacity; /* entries in all chunks */
    size_t               unasked;  /* messages added since the last query */
};

/* An unexpected message in an index. */
struct cw_tag_entry {
    struct cw_tag_node     node;
    struct cw_tag_message *message;
    struct cw_tag_entry   *next; /* of the same message in another index, or in the free list */
    struct tag_index      *index;
};

struct cw_tag_class {
    uint64_t            mask;
    struct tag_index   *index; /* NULL if the unexpected messages are scanned */
    uint64_t            last_use;
    size_t              scanned; /* messages passed by scans since the last attempt to build the index */
    unsigned            slot;    /* in cw_tag_matcher.classes */
    struct cw_tag_table posted;
};

static inline struct cw_tag_recv *node_recv(const struct cw_tag_node *node)
{
    return cw_container_of(node, struct cw_tag_recv, node);
}

static inline struct cw_tag_entry *node_entry(const struct cw_tag_node *node)
{
    return cw_container_of(node, struct cw_tag_entry, node);
}

/* -- Classes --------------------------------------------------------------------------------------------------- */

static inline uint64_t class_bit(const struct cw_tag_class *class)
{
    return (uint64_t)1 << class->slot;
}

static bool class_is_idle(const struct cw_tag_matcher *matcher, const struct cw_tag_class *class)
{
    return ((matcher->busy | matcher->indexed) & class_bit(class)) == 0;
}

/* Gives back a class that just became idle, if there are many. Slots stay dense: the last class moves into the gap. */
static void class_retire(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    struct cw_tag_class *last;

    if ((matcher->num_classes <= KEPT_CLASSES) || !class_is_idle(matcher, class)) {
        return;
    }
    last = matcher->classes[--matcher->num_classes];
    if (last != class) {
        uint64_t gap  = class_bit(class);
        uint64_t bit  = class_bit(last);
        bool     busy = (matcher->busy & bit) != 0;
        bool     held = (matcher->indexed & bit) != 0;

        matcher->busy                 = (matcher->busy & ~bit) | (busy ? gap : 0);
        matcher->indexed              = (matcher->indexed & ~bit) | (held ? gap : 0);
        matcher->classes[class->slot] = last;
        last->slot                    = class->slot;
    }
    if (matcher->recent == class) {
        matcher->recent = NULL;
    }
    free(class);
}

static struct cw_tag_class *class_find(const struct cw_tag_matcher *matcher, uint64_t mask)
{
    unsigned i;

    for (i = 0; i < matcher->num_classes; i++) {
        if (matcher->classes[i]->mask == mask) {
            return matcher->classes[i];
        }
    }
    return NULL;
}

/* The least recently used class without receives and without index, NULL if there is none. */
static struct cw_tag_class *class_find_idle(const struct cw_tag_matcher *matcher)
{
    struct cw_tag_class *oldest = NULL;
    unsigned             i;

    for (i = 0; i < matcher->num_classes; i++) {
        struct cw_tag_class *class = matcher->classes[i];

        if (class_is_idle(matcher, class) && ((oldest == NULL) || (class->last_use < oldest->last_use))) {
            oldest = class;
        }
    }
    return oldest;
}

/* NULL if there is no memory or all classes are in use. */
static struct cw_tag_class *class_new(struct cw_tag_matcher *matcher)
{
    struct cw_tag_class *class;

    if (matcher->classes == NULL) {
        assert(matcher->num_classes == 0);
        matcher->classes = calloc(CW_TAG_MAX_CLASSES, sizeof(*matcher->classes));
        if (matcher->classes == NULL) {
            return NULL;
        }
    }
    if (matcher->num_classes == CW_TAG_MAX_CLASSES) {
        return NULL;
    }
    class = malloc(sizeof(*class));
    if (class == NULL) {
        return NULL;
    }
    cw_tag_table_init(&class->posted);
    class->index                             = NULL;
    class->slot                              = matcher->num_classes;
    matcher->classes[matcher->num_classes++] = class;
    return class;
}

static struct cw_tag_class *class_add(struct cw_tag_matcher *matcher, uint64_t mask)
{
    struct cw_tag_class *class = NULL;

    if (matcher->num_classes < KEPT_CLASSES) {
        class = class_new(matcher);
    }
    if (class == NULL) {
        class = class_find_idle(matcher);
    }
    if ((class == NULL) && (matcher->num_classes >= KEPT_CLASSES)) {
        class = class_new(matcher);
    }
    if (class != NULL) {
        class->mask    = mask;
        class->scanned = 0;
    }
    return class;
}

static struct cw_tag_class *class_switch(struct cw_tag_matcher *matcher, uint64_t mask)
{
    struct cw_tag_class *class;

    if (matcher->recent != NULL) {
        matcher->recent->last_use = ++matcher->clock;
    }
    class = class_find(matcher, mask);
    if (class == NULL) {
        class = class_add(matcher, mask);
    }
    if (class != NULL) {
        class->last_use = ++matcher->clock;
        matcher->recent = class;
    }
    return class;
}

/* The class of that mask, made if needed; NULL if there are too many or there is no memory. */
static inline struct cw_tag_class *class_get(struct cw_tag_matcher *matcher, uint64_t mask)
{
    if (cw_likely((matcher->recent != NULL) && (matcher->recent->mask == mask))) {
        return matcher->recent;
    }
    return class_switch(matcher, mask);
}

/* -- Index over the unexpected messages ------------------------------------------------------------------------- */

static bool index_grow(struct tag_index *index, size_t size)
{
    struct entry_chunk  *chunk = malloc(sizeof(*chunk) + size * sizeof(struct cw_tag_entry));
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

static void index_free(struct tag_index *index)
{
    while (index->chunks != NULL) {
        struct entry_chunk *chunk = index->chunks;

        index->chunks = chunk->next;
        free(chunk);
    }
    cw_tag_table_cleanup(&index->table);
    free(index);
}

/* False if there is no memory for the entry. */
static bool index_add(const struct cw_tag_matcher *matcher, struct cw_tag_class *class, struct cw_tag_message *message)
{
    struct tag_index    *index = class->index;
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

/* Back to scanning for this mask. */
static void index_drop(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    struct tag_index      *index = class->index;
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
    index_free(index);
    class->index      = NULL;
    class->scanned    = 0;
    matcher->indexed &= ~class_bit(class);
    class_retire(matcher, class);
}

/* Keeps the number of indexes bounded: the one of the least recently used class goes. */
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

/* Without memory nothing changes but for `scanned`, so that the next attempt is as far away as this one was. */
static void index_build(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    struct tag_index      *index = malloc(sizeof(*index));
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
    matcher->indexed |= class_bit(class);
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
    struct cw_tag_class *class = class_get(matcher, mask);
    struct cw_tag_node  *first;

    if ((class == NULL) || (class->index == NULL)) {
        return scan_unexpected(matcher, class, tag, mask);
    }
    class->index->unasked = 0;
    first                 = *cw_tag_table_find(&class->index->table, matcher->seed, tag & mask);
    return (first == NULL) ? NULL : node_entry(first)->message;
}

void cw_tag_matcher_index_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message)
{
    struct cw_tag_class *dropped[CW_TAG_MAX_INDEXES];
    unsigned             num_dropped = 0;
    uint64_t             left;

    for (left = matcher->indexed; left != 0; left &= left - 1) {
        struct cw_tag_class *class = matcher->classes[__builtin_ctzll(left)];

        /* Upkeep that nobody asked for must not cost more than building it again would. */
        class->index->unasked++;
        if ((2 * class->index->unasked > matcher->num_unexpected + KEPT_ENTRIES) ||
            !index_add(matcher, class, message)) {
            dropped[num_dropped++] = class;
        }
    }
    /* Only now: dropping may move classes to other slots. */
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

/* -- Posted receives ------------------------------------------------------------------------------------------- */

/* As long as there are few receives, all of them stand in the list: the one that is matched is mostly its first, and
 * then hashing costs more than the rest of the match. */
#define FEW_RECEIVES 32u

/* Not in the list of few, or not any more. */
void cw_tag_matcher_enqueue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag)
{
    struct cw_tag_class *class = class_get(matcher, recv->mask);

    if (class != NULL) {
        matcher->few_limit  = FEW_RECEIVES;
        matcher->busy      |= class_bit(class);
        cw_tag_table_add(&class->posted, matcher->seed, &recv->node, tag & recv->mask);
    } else {
        matcher->few_limit = 2 * matcher->num_posted; /* without memory, not again at once */
        recv->node.key     = tag & recv->mask;
        recv->node.chain   = &recv->node;
        cw_list_add_tail(&matcher->leftover, &recv->node.ring);
    }
}

/* The oldest matching receive of the leftover list, if it is older than `best`; else `best`, which may be NULL. */
static struct cw_tag_recv *leftover_match(const struct cw_tag_matcher *matcher, uint64_t tag, struct cw_tag_recv *best)
{
    struct cw_tag_node *node;

    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        struct cw_tag_recv *recv = node_recv(node);

        if ((best != NULL) && (recv->sequence > best->sequence)) {
            break;
        }
        if (cw_tag_matches(tag, node->key, recv->mask)) {
            return recv;
        }
    }
    return best;
}

static inline void recv_unposted(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    recv->sequence = 0;
    matcher->num_posted--;
}

static inline void class_recv_removed(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    if (class->posted.num_keys == 0) {
        matcher->busy &= ~class_bit(class);
        if (cw_unlikely(matcher->num_classes > KEPT_CLASSES)) {
            class_retire(matcher, class);
        }
    }
}

struct cw_tag_recv *cw_tag_matcher_match_recv(struct cw_tag_matcher *matcher, uint64_t tag)
{
    struct cw_tag_recv  *best       = NULL;
    struct cw_tag_class *best_class = NULL;
    struct cw_tag_node **best_place = NULL;
    uint64_t             left;

    for (left = matcher->busy; left != 0; left &= left - 1) {
        struct cw_tag_class *class = matcher->classes[__builtin_ctzll(left)];
        struct cw_tag_node **place = cw_tag_table_find(&class->posted, matcher->seed, tag & class->mask);

        if ((*place != NULL) && ((best == NULL) || (node_recv(*place)->sequence < best->sequence))) {
            best       = node_recv(*place);
            best_class = class;
            best_place = place;
        }
    }
    if (!cw_list_empty(&matcher->leftover)) {
        struct cw_tag_recv *recv = leftover_match(matcher, tag, best);

        if (recv != best) {
            cw_list_remove(&recv->node.ring);
            recv_unposted(matcher, recv);
            return recv;
        }
    }
    if (best != NULL) {
        cw_tag_table_remove_oldest(&best_class->posted, matcher->seed, best_place);
        class_recv_removed(matcher, best_class);
        recv_unposted(matcher, best);
    }
    return best;
}

bool cw_tag_matcher_cancel(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    if (!cw_tag_recv_is_posted(recv)) {
        return false;
    }
    if (recv->node.chain == &recv->node) {
        cw_list_remove(&recv->node.ring);
    } else {
        struct cw_tag_class *class = class_find(matcher, recv->mask);

        cw_tag_table_remove(&class->posted, matcher->seed, &recv->node);
        class_recv_removed(matcher, class);
    }
    recv_unposted(matcher, recv);
    return true;
}

struct cw_tag_recv *cw_tag_matcher_take_recv(struct cw_tag_matcher *matcher)
{
    struct cw_tag_recv *recv;

    if (!cw_list_empty(&matcher->leftover)) {
        recv = node_recv(cw_list_head(&matcher->leftover, struct cw_tag_node, ring));
    } else if (matcher->busy != 0) {
        recv = node_recv(cw_tag_table_any(&matcher->classes[__builtin_ctzll(matcher->busy)]->posted));
    } else {
        return NULL;
    }
    cw_tag_matcher_cancel(matcher, recv);
    return recv;
}

void cw_tag_matcher_visit_recvs(const struct cw_tag_matcher *matcher,
                                void (*visit)(const struct cw_tag_recv *recv, void *arg), void *arg)
{
    struct cw_tag_node *node;
    size_t              i;
    uint64_t            left;

    for (left = matcher->busy; left != 0; left &= left - 1) {
        const struct cw_tag_table *table = &matcher->classes[__builtin_ctzll(left)]->posted;

        for (i = 0; i < table->num_buckets; i++) {
            const struct cw_tag_node *first;

            for (first = table->buckets[i]; first != NULL; first = first->chain) {
                visit(node_recv(first), arg);
                cw_list_for_each(node, &first->ring, struct cw_tag_node, ring) {
                    visit(node_recv(node), arg);
                }
            }
        }
    }
    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        visit(node_recv(node), arg);
    }
}

/* -- The matcher as a whole ------------------------------------------------------------------------------------- */

void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed)
{
    memset(matcher, 0, sizeof(*matcher));
    cw_list_init(&matcher->unexpected);
    cw_list_init(&matcher->leftover);
    matcher->seed      = cw_hash_mix(seed);
    matcher->few_limit = FEW_RECEIVES;
}

void cw_tag_matcher_cleanup(struct cw_tag_matcher *matcher)
{
    unsigned i;

    for (i = 0; i < matcher->num_classes; i++) {
        struct cw_tag_class *class = matcher->classes[i];

        if (class->index != NULL) {
            index_free(class->index);
        }
        cw_tag_table_cleanup(&class->posted);
        free(class);
    }
    free(matcher->classes);
    memset(matcher, 0, sizeof(*matcher));
    cw_list_init(&matcher->unexpected);
    cw_list_init(&matcher->leftover);
}

size_t cw_tag_matcher_memory(const struct cw_tag_matcher *matcher)
{
    size_t   total = (matcher->classes == NULL) ? 0 : CW_TAG_MAX_CLASSES * sizeof(*matcher->classes);
    unsigned i;

    assert((matcher->classes != NULL) || (matcher->num_classes == 0));
    for (i = 0; i < matcher->num_classes; i++) {
        const struct cw_tag_class *class = matcher->classes[i];
        const struct entry_chunk  *chunk;

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

/* -- Checks for tests ------------------------------------------------------------------------------------------- */

static bool ring_is_ordered(const struct cw_tag_matcher *matcher, const struct cw_tag_class *class,
                            const struct cw_tag_node *first, bool posted, size_t *count)
{
    const struct cw_tag_message *message = posted ? NULL : node_entry(first)->message;
    const struct cw_tag_node    *node    = first;
    const struct cw_tag_node    *next;

    for (;;) {
        (*count)++;
        if (posted && (node_recv(node)->mask != class->mask)) {
            return false;
        }
        if (!posted && ((node_entry(node)->message->tag & class->mask) != node->key)) {
            return false;
        }
        next = cw_tag_node_next(node);
        if ((next->ring.prev != &node->ring) || (next->key != first->key)) {
            return false;
        }
        if (next == first) {
            return true;
        }
        if (posted && (node_recv(next)->sequence <= node_recv(node)->sequence)) {
            return false;
        }
        while (!posted && (message != node_entry(next)->message)) {
            message = cw_tag_matcher_next_message(matcher, message);
            if (message == NULL) {
                return false;
            }
        }
        node = next;
    }
}

static const char *check_table(const struct cw_tag_matcher *matcher, const struct cw_tag_class *class,
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

static const char *check_class(const struct cw_tag_matcher *matcher, unsigned slot, size_t *num_posted)
{
    const struct cw_tag_class *class    = matcher->classes[slot];
    size_t                     entries  = 0;
    size_t                     receives = 0;
    const char                *wrong;

    if ((class->slot != slot) || (class_find(matcher, class->mask) != class)) {
        return "a class has a wrong slot or a mask has two classes";
    }
    wrong = check_table(matcher, class, &class->posted, true, &receives);
    if (wrong != NULL) {
        return wrong;
    }
    if (((matcher->busy & class_bit(class)) != 0) != (receives != 0)) {
        return "a class is marked busy without receives or has some without the mark";
    }
    if (((matcher->indexed & class_bit(class)) != 0) != (class->index != NULL)) {
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

static void check_unmatched(const struct cw_tag_recv *recv, void *arg)
{
    struct unmatched      *state = arg;
    struct cw_tag_message *message;

    if ((recv->sequence == 0) || (recv->sequence > state->matcher->sequence)) {
        state->wrong = true;
    }
    cw_list_for_each(message, &state->matcher->unexpected, struct cw_tag_message, order) {
        if (cw_tag_matches(message->tag, recv->node.key, recv->mask)) {
            state->wrong = true;
        }
    }
}

static const char *check_messages(const struct cw_tag_matcher *matcher)
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

const char *cw_tag_matcher_check(const struct cw_tag_matcher *matcher)
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
        if ((node->chain != node) || (node_recv(node)->sequence <= sequence)) {
            return "the leftover receives are not in order or not marked";
        }
        sequence = node_recv(node)->sequence;
        num_posted++;
    }
    if (num_posted != matcher->num_posted) {
        return "the number of posted receives is wrong";
    }
    cw_tag_matcher_visit_recvs(matcher, check_unmatched, &unmatched);
    return unmatched.wrong ? "a posted receive matches an unexpected message or has no valid sequence" : NULL;
}
