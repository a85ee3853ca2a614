/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slow path of the matcher (match.h): everything but a message that matches the oldest receive of the array. Called
 * with the worker entered.
 */
#include "tag/match.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>


/* Receives are hashed only if they are many, or wait while others match: the match is usually the first entry, and
 * hashing would cost more than the rest of the match. ARRAY_RECEIVES entries are few enough for a linear search. When
 * the array fills up with more receives, or others are hashed already, they are hashed. */
#define ARRAY_RECEIVES 256u

/* Entries of the first array. Each further array doubles, up to twice ARRAY_RECEIVES. */
#define FIRST_SPACE 32u

/* Comparing this many entries of the array is cheaper than a lookup in the table. */
#define CHEAP_COMPARES 4

/* Moving one receive to the table, and removing it there, costs as much as comparing this many. */
#define HASHING 16u

/* Scanning this many messages costs as much as a lookup in the table. */
#define CHEAP_SCAN 8u

#define FIRST_MASKS   4u
#define FIRST_BUCKETS 16u
#define MOST_SKIPPED  255u

/* Allocates zeroed memory. After a failure the next attempts are skipped, twice as many after each further failure, so
 * that a system out of memory is not asked for each message. */
static void *allocate(struct cw_tag_matcher *matcher, size_t count, size_t size)
{
    void *memory;

    if (matcher->skipped > 0) {
        matcher->skipped--;
        return NULL;
    }
    memory = calloc(count, size);
    if (memory != NULL) {
        matcher->refused = 0;
    } else if (matcher->refused < MOST_SKIPPED) {
        matcher->refused = (uint16_t)(2 * matcher->refused + 1);
    }
    matcher->skipped = matcher->refused;
    return memory;
}

/* ---- the table ---- */

static inline struct cw_tag_recv *recv_of(const struct cw_tag_node *node)
{
    return cw_container_of(node, struct cw_tag_recv, node);
}

static inline struct cw_tag_entry *entry_of(const struct cw_tag_node *node)
{
    return cw_container_of(node, struct cw_tag_entry, node);
}

static inline bool is_recv(const struct cw_tag_node *node)
{
    return !(node->position & CW_TAG_MESSAGE);
}

static inline struct cw_tag_node **bucket_of(const struct cw_tag_matcher *matcher, uint64_t key, uint64_t slot)
{
    return &matcher->buckets[cw_tag_hash(matcher->seed, key, slot) & (matcher->num_buckets - 1)];
}

/* Returns the link to the oldest element of that key, or to the end of its chain. Valid until the table changes. */
static inline struct cw_tag_node **find(const struct cw_tag_matcher *matcher, uint64_t key, uint64_t slot)
{
    struct cw_tag_node **link = bucket_of(matcher, key, slot);

    while (*link != NULL && ((*link)->key != key || ((*link)->position & CW_TAG_SLOT) != slot)) {
        link = &(*link)->chain;
    }
    return link;
}

/* Resizes the table to be at most half full with that many keys: in a large table each further key on a chain is a
 * cache miss. False: no memory, the table is unchanged. */
static CW_NOINLINE bool resize(struct cw_tag_matcher *matcher, size_t num_keys)
{
    struct cw_tag_node **const old = matcher->buckets;
    const size_t num_old = matcher->num_buckets;
    struct cw_tag_node *node, *next, **buckets, **link;
    size_t size = FIRST_BUCKETS;
    size_t i;

    while (size < 2 * num_keys) {
        size *= 2;
    }
    buckets = allocate(matcher, size, sizeof(struct cw_tag_node *));
    if (buckets == NULL) {
        return old != NULL;
    }
    matcher->buckets = buckets;
    matcher->num_buckets = size;
    matcher->cursor = 0;
    for (i = 0; i < num_old; i++) {
        for (node = old[i]; node != NULL; node = next) {
            next = node->chain;
            link = bucket_of(matcher, node->key, node->position & CW_TAG_SLOT);
            node->chain = *link;
            *link = node;
        }
    }
    free(old);
    return true;
}

/* Appends an element to those of its key. Its members `key` and `position` are set. */
static void add(struct cw_tag_matcher *matcher, struct cw_tag_node *node)
{
    struct cw_tag_node **link = find(matcher, node->key, node->position & CW_TAG_SLOT);

    node->chain = NULL;
    matcher->cursor = 0;
    if (*link != NULL) {
        cw_list_add_tail(&(*link)->ring, &node->ring);
        return;
    }
    cw_list_init(&node->ring);
    *link = node;
    if (cw_unlikely(++matcher->num_keys > matcher->num_buckets / 2)) {
        resize(matcher, matcher->num_keys);
    }
}

/* Removes the oldest element of a key, to which `link` points. */
static void remove_oldest(struct cw_tag_matcher *matcher, struct cw_tag_node **link)
{
    struct cw_tag_node *node = *link;
    struct cw_tag_node *next = cw_list_head(&node->ring, struct cw_tag_node, ring);

    if (next != node) {
        next->chain = node->chain;
        *link = next;
        cw_list_remove(&node->ring);
        return;
    }
    *link = node->chain;
    if (cw_unlikely(--matcher->num_keys < matcher->num_buckets / 16 && matcher->num_buckets > FIRST_BUCKETS)) {
        resize(matcher, 2 * matcher->num_keys);
    }
}

static void remove_node(struct cw_tag_matcher *matcher, struct cw_tag_node *node)
{
    struct cw_tag_node **link = find(matcher, node->key, node->position & CW_TAG_SLOT);

    if (*link == node) {
        remove_oldest(matcher, link);
    } else {
        cw_list_remove(&node->ring);
    }
}

/* ---- masks ---- */

static inline uint64_t bit_of(const struct cw_tag_matcher *matcher, const struct cw_tag_mask *mask)
{
    return UINT64_C(1) << (mask - matcher->masks);
}

/* The least recently used of the masks whose bit is set; NULL if none is. */
static struct cw_tag_mask *least_recent(const struct cw_tag_matcher *matcher, uint64_t bits)
{
    struct cw_tag_mask *oldest = NULL;

    for (; bits != 0; bits &= bits - 1) {
        struct cw_tag_mask *mask = &matcher->masks[__builtin_ctzll(bits)];

        if (oldest == NULL || mask->last_use < oldest->last_use) {
            oldest = mask;
        }
    }
    return oldest;
}

static bool grow_masks(struct cw_tag_matcher *matcher)
{
    const unsigned space = (matcher->space_masks == 0) ? FIRST_MASKS : 2u * matcher->space_masks;
    struct cw_tag_mask *masks;

    if (space > CW_TAG_MAX_MASKS) {
        return false;
    }
    masks = allocate(matcher, space, sizeof(*masks));
    if (masks == NULL) {
        return false;
    }
    if (matcher->masks != NULL) {
        memcpy(masks, matcher->masks, matcher->num_masks * sizeof(*masks));
        free(matcher->masks);
    }
    matcher->masks = masks;
    matcher->space_masks = (uint8_t)space;
    return true;
}

/* Allocates a slot for a mask: an unused one, or the least recently used of those without elements in the table. */
static struct cw_tag_mask *new_mask(struct cw_tag_matcher *matcher)
{
    if (matcher->num_masks < matcher->space_masks || grow_masks(matcher)) {
        return &matcher->masks[matcher->num_masks++];
    }
    return (matcher->num_masks == 0) ? NULL :
           least_recent(matcher, ~(matcher->busy | matcher->indexed) & (UINT64_MAX >> (64 - matcher->num_masks)));
}

static CW_NOINLINE struct cw_tag_mask *switch_mask(struct cw_tag_matcher *matcher, uint64_t value)
{
    struct cw_tag_mask *mask = NULL;
    unsigned i;

    for (i = 0; i < matcher->num_masks && matcher->masks[i].mask != value; i++) {
    }
    if (i < matcher->num_masks) {
        mask = &matcher->masks[i];
    } else if (matcher->buckets != NULL || resize(matcher, 0)) {
        mask = new_mask(matcher);
        if (mask != NULL) {
            *mask = (struct cw_tag_mask){.mask = value};
        }
    }
    if (mask != NULL) {
        mask->last_use = ++matcher->clock;
        matcher->recent = (uint8_t)(mask - matcher->masks);
    }
    return mask;
}

/* Returns the entry of a mask, created if needed; the table then exists. NULL: too many masks are in use, or no
 * memory. */
static inline struct cw_tag_mask *use_mask(struct cw_tag_matcher *matcher, uint64_t value)
{
    if (cw_likely(matcher->num_masks > 0 && matcher->masks[matcher->recent].mask == value)) {
        return &matcher->masks[matcher->recent];
    }
    return switch_mask(matcher, value);
}

/* ---- the array ---- */

/* Moves the entries to the beginning of the array, or of a new one. Usually there is at most one entry. */
static inline void array_move(struct cw_tag_matcher *matcher, struct cw_tag_posted *to)
{
    const struct cw_tag_posted *posted = matcher->first;

    matcher->first = to;
    for (; posted != matcher->last; posted++) {
        *to++ = *posted;
    }
    matcher->last = to;
}

static CW_NOINLINE bool array_grow(struct cw_tag_matcher *matcher, size_t size)
{
    struct cw_tag_posted *posted = allocate(matcher, size, sizeof(*posted));

    if (posted == NULL) {
        return false;
    }
    array_move(matcher, posted);
    free(matcher->array);
    matcher->array = posted;
    matcher->array_end = posted + size;
    return true;
}

/* Makes space for one more entry at the end of the array. False: there are many receives, or no memory. It moves at
 * most as many entries as were removed since the last move, so the amortized cost per receive is constant. */
static bool make_space(struct cw_tag_matcher *matcher)
{
    const size_t size = (size_t)(matcher->array_end - matcher->array);
    const size_t taken = (size_t)(matcher->last - matcher->first);

    if (matcher->last != matcher->array_end) { /* there is space, but a message is queued */
        return true;
    }
    if (taken <= size / 2 && size > 0) {
        array_move(matcher, matcher->array);
    } else if (taken >= ARRAY_RECEIVES || (size > 0 && matcher->num_other > 0) ||
               !array_grow(matcher, (size == 0) ? FIRST_SPACE : 2 * size)) {
        return false;
    }
    cw_tag_matcher_set_stop(matcher);
    return true;
}

/* Removes an entry; the entries on its shorter side move. */
static void array_remove(struct cw_tag_matcher *matcher, struct cw_tag_posted *posted)
{
    const size_t before = (size_t)(posted - matcher->first);
    const size_t behind = (size_t)(matcher->last - posted) - 1;

    if (before <= behind) {
        memmove(matcher->first + 1, matcher->first, before * sizeof(*posted));
        matcher->first++;
    } else {
        if (behind > 0) { /* often the newest one is removed */
            memmove(posted, posted + 1, behind * sizeof(*posted));
        }
        matcher->last--;
        cw_tag_matcher_set_stop(matcher);
    }
}

/* ---- posted receives ---- */

/* Queues a receive, whose key and mask are set, outside the array. */
static void link_recv(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    struct cw_tag_mask *mask = use_mask(matcher, recv->mask);

    recv->node.position = matcher->sequence += CW_TAG_ORDER;
    matcher->num_other++;
    if (mask == NULL) {
        recv->node.position |= CW_TAG_LISTED;
        cw_list_add_tail(&matcher->leftover, &recv->node.ring);
        return;
    }
    recv->node.position |= matcher->recent;
    mask->posted++;
    matcher->busy |= bit_of(matcher, mask);
    add(matcher, &recv->node);
}

/* Accounts for a receive that has left the table or the leftover list. */
static void unlink_recv(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    if (!(recv->node.position & CW_TAG_LISTED)) {
        struct cw_tag_mask *mask = &matcher->masks[recv->node.position & CW_TAG_SLOT];

        if (--mask->posted == 0) {
            matcher->busy &= ~bit_of(matcher, mask);
        }
    }
    recv->node.position = 0;
    matcher->num_other--;
}

/* Moves the receives of the array to the table. A long array is freed. */
static CW_NOINLINE void array_to_table(struct cw_tag_matcher *matcher)
{
    struct cw_tag_posted *posted;

    for (posted = matcher->first; posted != matcher->last; posted++) {
        posted->recv->node.key = posted->key;
        posted->recv->mask = posted->mask;
        link_recv(matcher, posted->recv);
    }
    if (matcher->array_end - matcher->array > FIRST_SPACE) {
        free(matcher->array);
        matcher->array = matcher->array_end = NULL;
    }
    matcher->first = matcher->last = matcher->array;
    matcher->oldest = NULL;
    cw_tag_matcher_set_stop(matcher);
}

/* Queues a receive if the array is full, or messages are queued. */
CW_NOINLINE void cw_tag_matcher_enqueue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                        uint64_t mask)
{
    if (!make_space(matcher)) {
        array_to_table(matcher);
    }
    if (matcher->last != matcher->array_end) {
        cw_tag_matcher_post_array(matcher, recv, tag, mask);
        cw_tag_matcher_set_stop(matcher);
        return;
    }
    recv->node.key = tag & mask;
    recv->mask = mask;
    link_recv(matcher, recv);
}

/* Counts comparisons without a match while the oldest receive of the array stays the same, and returns whether they
 * have cost more than hashing the receives. */
static bool is_hashing_due(struct cw_tag_matcher *matcher, size_t passed)
{
    if (matcher->first->recv != matcher->oldest) {
        matcher->oldest = matcher->first->recv;
        matcher->passed = 0;
    }
    matcher->passed += passed;
    return matcher->passed >= HASHING * (size_t)(matcher->last - matcher->first);
}

/* Returns the oldest matching receive of the leftover list if it is older than `best`; otherwise `best`, which may be
 * NULL. */
static struct cw_tag_recv *leftover_match(const struct cw_tag_matcher *matcher, uint64_t tag, struct cw_tag_recv *best)
{
    struct cw_tag_recv *recv;

    cw_list_for_each(recv, &matcher->leftover, struct cw_tag_recv, node.ring) {
        if (best != NULL && recv->node.position > best->node.position) {
            break;
        }
        if (cw_tag_matches(tag, recv->node.key, recv->mask)) {
            return recv;
        }
    }
    return best;
}

/* find_other for any number of masks. */
static CW_NOINLINE struct cw_tag_found find_over_masks(const struct cw_tag_matcher *matcher, uint64_t tag)
{
    struct cw_tag_found found = {.recv = NULL, .link = NULL};
    struct cw_tag_node **link;
    uint64_t left;

    for (left = matcher->busy; left != 0; left &= left - 1) {
        const unsigned slot = (unsigned)__builtin_ctzll(left);

        link = find(matcher, tag & matcher->masks[slot].mask, slot);
        if (*link != NULL && (found.recv == NULL || (*link)->position < found.recv->node.position)) {
            found.recv = recv_of(*link);
            found.link = link;
        }
    }
    found.recv = leftover_match(matcher, tag, found.recv);
    return found;
}

/* Finds the oldest matching receive outside the array. Usually all have one mask. */
static inline struct cw_tag_found find_other(const struct cw_tag_matcher *matcher, uint64_t tag)
{
    const unsigned recent = matcher->recent;
    struct cw_tag_found found;

    if (cw_unlikely(matcher->busy != UINT64_C(1) << recent || !cw_list_empty(&matcher->leftover))) {
        return find_over_masks(matcher, tag);
    }
    found.link = find(matcher, tag & matcher->masks[recent].mask, recent);
    found.recv = (*found.link != NULL) ? recv_of(*found.link) : NULL;
    return found;
}

static void take_other(struct cw_tag_matcher *matcher, const struct cw_tag_found *found)
{
    if (found->recv->node.position & CW_TAG_LISTED) {
        cw_list_remove(&found->recv->node.ring);
    } else {
        remove_oldest(matcher, found->link);
    }
    unlink_recv(matcher, found->recv);
}

struct cw_tag_found cw_tag_matcher_find_recv(struct cw_tag_matcher *matcher, uint64_t tag)
{
    struct cw_tag_found found = {.recv = NULL, .posted = NULL};
    struct cw_tag_posted *posted;

    if (matcher->num_other > 0) {
        found = find_other(matcher, tag);
        if (found.recv != NULL) {
            return found;
        }
    }
    for (posted = matcher->first; posted != matcher->last; posted++) {
        if (cw_tag_matches(tag, posted->key, posted->mask)) {
            found.recv = posted->recv;
            found.posted = posted;
            break;
        }
    }
    if (posted - matcher->first > CHEAP_COMPARES && is_hashing_due(matcher, (size_t)(posted - matcher->first))) {
        array_to_table(matcher);
        return find_other(matcher, tag);
    }
    return found;
}

void cw_tag_matcher_take_found(struct cw_tag_matcher *matcher, const struct cw_tag_found *found)
{
    if (found->recv->node.position != 0) {
        take_other(matcher, found);
    } else if (found->posted == matcher->first) { /* often the oldest one of the array */
        cw_tag_matcher_take_first(matcher);
    } else {
        array_remove(matcher, found->posted);
    }
}

struct cw_tag_recv *cw_tag_matcher_match_recv(struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_found found = cw_tag_matcher_find_recv(matcher, tag);

    if (found.recv != NULL) {
        cw_tag_matcher_take_found(matcher, &found);
    }
    return found.recv;
}

bool cw_tag_matcher_cancel(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    struct cw_tag_posted *posted;

    if (recv->node.position == 0) {
        for (posted = matcher->first; posted != matcher->last; posted++) {
            if (posted->recv == recv) {
                array_remove(matcher, posted);
                return true;
            }
        }
        return false;
    }
    if (recv->node.position & CW_TAG_LISTED) {
        cw_list_remove(&recv->node.ring);
    } else {
        remove_node(matcher, &recv->node);
    }
    unlink_recv(matcher, recv);
    return true;
}

/* Any receive of the table, which must contain one. */
static struct cw_tag_recv *any_recv(struct cw_tag_matcher *matcher)
{
    const struct cw_tag_node *node;

    for (;; matcher->cursor++) {
        assert(matcher->cursor < matcher->num_buckets);
        for (node = matcher->buckets[matcher->cursor]; node != NULL; node = node->chain) {
            if (is_recv(node)) {
                return recv_of(node);
            }
        }
    }
}

struct cw_tag_recv *cw_tag_matcher_take_recv(struct cw_tag_matcher *matcher)
{
    struct cw_tag_recv *recv;

    if (matcher->first != matcher->last) {
        recv = matcher->first->recv;
        cw_tag_matcher_take_first(matcher);
        return recv;
    }
    if (matcher->num_other == 0) {
        return NULL;
    }
    recv = cw_list_empty(&matcher->leftover) ? any_recv(matcher) :
           cw_list_head(&matcher->leftover, struct cw_tag_recv, node.ring);
    cw_tag_matcher_cancel(matcher, recv);
    return recv;
}

/* Inserts a receive into a list in the order of posting, if the list has space or ends with a later one. Returns the
 * new number of elements. */
static size_t insert_recv(struct cw_tag_posted *list, size_t count, size_t size, struct cw_tag_recv *recv)
{
    size_t low = 0, high = count, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (list[middle].recv->node.position < recv->node.position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == size) {
        return count;
    }
    count -= (count == size);
    memmove(&list[low + 1], &list[low], (count - low) * sizeof(*list));
    list[low] = (struct cw_tag_posted){.key = recv->node.key, .mask = recv->mask, .recv = recv};
    return count + 1;
}

size_t cw_tag_matcher_oldest(const struct cw_tag_matcher *matcher, struct cw_tag_posted *list, size_t size)
{
    const struct cw_tag_posted *posted;
    struct cw_tag_node *node, *first;
    size_t count = 0;
    size_t i;

    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        count = insert_recv(list, count, size, recv_of(node));
    }
    for (i = 0; i < matcher->num_buckets; i++) {
        for (first = matcher->buckets[i]; first != NULL; first = first->chain) {
            if (is_recv(first)) {
                count = insert_recv(list, count, size, recv_of(first));
                cw_list_for_each(node, &first->ring, struct cw_tag_node, ring) {
                    count = insert_recv(list, count, size, recv_of(node));
                }
            }
        }
    }
    for (posted = matcher->first; posted != matcher->last && count < size; posted++) {
        list[count++] = *posted;
    }
    return count;
}

/* ---- unexpected messages ---- */

static struct cw_tag_entry *pop_spare(struct cw_tag_matcher *matcher)
{
    struct cw_tag_entry *entry = matcher->spare;

    matcher->spare = entry->next;
    matcher->num_spare--;
    return entry;
}

static struct cw_tag_entry *get_entry(struct cw_tag_matcher *matcher)
{
    struct cw_tag_entry *entry =
        (matcher->spare != NULL) ? pop_spare(matcher) : allocate(matcher, 1, sizeof(*entry));

    matcher->num_entries += (entry != NULL);
    return entry;
}

/* Keeps at most as many spare entries as are in use. */
static void put_entry(struct cw_tag_matcher *matcher, struct cw_tag_entry *entry)
{
    entry->next = matcher->spare;
    matcher->spare = entry;
    matcher->num_spare++;
    matcher->num_entries--;
    while (matcher->num_spare > matcher->num_entries) {
        free(pop_spare(matcher));
    }
}

/* Removes from the table, for one mask, the message of the entry to which `link` points. */
static void leave(struct cw_tag_matcher *matcher, struct cw_tag_entry **link)
{
    struct cw_tag_entry *entry = *link;
    struct cw_tag_mask *mask = &matcher->masks[entry->node.position & (CW_TAG_SLOT & ~CW_TAG_MESSAGE)];

    if (mask->newest == entry->message) { /* its predecessor, if any, is in the table as well */
        mask->newest = cw_container_of(entry->message->order.prev, struct cw_tag_message, order);
    }
    if (--mask->entered == 0) {
        matcher->indexed &= ~bit_of(matcher, mask);
    }
    *link = entry->next;
    remove_node(matcher, &entry->node);
    put_entry(matcher, entry);
}

void cw_tag_matcher_leave(struct cw_tag_matcher *matcher, struct cw_tag_message *message)
{
    while (message->entries != NULL) {
        leave(matcher, &message->entries);
    }
}

/* Removes all messages from the table, for one mask. Searches with this mask scan the messages again. */
static void leave_all(struct cw_tag_matcher *matcher, const struct cw_tag_mask *mask)
{
    const uint64_t slot = (uint64_t)(mask - matcher->masks) | CW_TAG_MESSAGE;
    struct cw_tag_message *message;
    struct cw_tag_entry **link;

    cw_list_for_each(message, &matcher->unexpected, struct cw_tag_message, order) {
        if (mask->entered == 0) {
            break;
        }
        for (link = &message->entries; ((*link)->node.position & CW_TAG_SLOT) != slot; link = &(*link)->next) {
        }
        leave(matcher, link);
    }
}

/* The link of the oldest message that is not in the table for this mask; the list's head if there is none. */
static const struct cw_list *behind_newest(const struct cw_tag_matcher *matcher, const struct cw_tag_mask *mask)
{
    return (mask != NULL && mask->entered > 0) ? mask->newest->order.next : matcher->unexpected.next;
}

/* Adds all messages to the table, for one mask. Without memory only the oldest of them. */
static void enter(struct cw_tag_matcher *matcher, struct cw_tag_mask *mask)
{
    const uint64_t slot = (uint64_t)(mask - matcher->masks) | CW_TAG_MESSAGE;
    const struct cw_list *link = behind_newest(matcher, mask);
    struct cw_tag_message *message;
    struct cw_tag_entry *entry;

    mask->scanned = 0;
    if (mask->entered == 0 && __builtin_popcountll(matcher->indexed) == CW_TAG_MAX_INDEXED) {
        leave_all(matcher, least_recent(matcher, matcher->indexed));
    }
    for (; link != &matcher->unexpected; link = link->next) {
        entry = get_entry(matcher);
        if (entry == NULL) {
            return;
        }
        message = cw_container_of(link, struct cw_tag_message, order);
        entry->message = message;
        entry->next = message->entries;
        entry->node.key = message->tag & mask->mask;
        entry->node.position = slot;
        message->entries = entry;
        mask->newest = message;
        mask->entered++;
        matcher->indexed |= bit_of(matcher, mask);
        add(matcher, &entry->node);
    }
}

/* Finds the oldest matching message from `link` on, and counts those before it. */
static inline struct cw_tag_message *scan(const struct cw_tag_matcher *matcher, const struct cw_list *link,
                                          uint64_t tag, uint64_t mask, size_t *passed_p)
{
    for (; link != &matcher->unexpected; link = link->next) {
        struct cw_tag_message *message = cw_container_of(link, struct cw_tag_message, order);

        if (cw_tag_matches(message->tag, tag, mask)) {
            return message;
        }
        ++*passed_p;
    }
    return NULL;
}

/* Once scans with a mask have cost more than the table would, messages are added to it. */
static CW_NOINLINE void count_scanned(struct cw_tag_matcher *matcher, struct cw_tag_mask *mask, size_t passed)
{
    mask->scanned += passed;
    if (mask->scanned >= 2 * (matcher->num_unexpected - mask->entered)) {
        enter(matcher, mask);
    }
}

/* Few messages are scanned. */
struct cw_tag_message *cw_tag_matcher_find_message(struct cw_tag_matcher *matcher, uint64_t tag, uint64_t mask)
{
    struct cw_tag_mask *used = (matcher->num_unexpected > CHEAP_SCAN) ? use_mask(matcher, mask) : NULL;
    size_t passed = 0;
    struct cw_tag_message *found;
    const struct cw_tag_node *node;

    if (used == NULL) {
        return scan(matcher, matcher->unexpected.next, tag, mask, &passed);
    }
    if (used->entered > 0) {
        node = *find(matcher, tag & mask, matcher->recent | CW_TAG_MESSAGE);
        if (node != NULL) {
            return entry_of(node)->message;
        }
    }
    found = scan(matcher, behind_newest(matcher, used), tag, mask, &passed);
    if (passed > CHEAP_SCAN) {
        count_scanned(matcher, used, passed);
    }
    return found;
}

/* ---- the matcher as a whole ---- */

void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed)
{
    memset(matcher, 0, sizeof(*matcher));
    cw_list_init(&matcher->unexpected);
    cw_list_init(&matcher->leftover);
    matcher->seed = cw_hash_mix(seed);
}

void cw_tag_matcher_cleanup(struct cw_tag_matcher *matcher)
{
    while (matcher->indexed != 0) {
        leave_all(matcher, &matcher->masks[__builtin_ctzll(matcher->indexed)]);
    }
    free(matcher->buckets);
    free(matcher->masks);
    free(matcher->array);
    cw_tag_matcher_init(matcher, matcher->seed);
}
