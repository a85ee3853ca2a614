/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher of tag_match.h: posted receives, and the matcher as a whole. Called by the tag operations with the worker
 * entered.
 */
#include "op/tag_match.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "op/tag_class.h"

/* As long as there are few receives, all of them stand in the list: the one that is matched is mostly its first, and
 * then hashing costs more than the rest of the match. The list of so many is looked through in a microsecond. */
#define FEW_RECEIVES 256u

/* Looking at so many of the list is cheaper than hashing. */
#define CHEAP_SCAN 4u

/* Hashing a receive of the list costs as much as looking at so many. */
#define HASHING 8u

static bool recv_hash(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    struct cw_tag_class *class = cw_tag_class_get(matcher, recv->mask);

    if (cw_unlikely(class == NULL)) {
        return false;
    }
    matcher->busy    |= cw_tag_class_bit(class);
    matcher->few_now  = 0;
    cw_tag_table_add(&class->posted, matcher->seed, &recv->node, recv->node.key);
    return true;
}

static uint64_t next_number(struct cw_tag_matcher *matcher)
{
    return matcher->sequence += 2 * CW_TAG_LISTED;
}

/* All receives stand in the list: no table has a younger one of the same key. False: from one on they stay there, for
 * it cannot have a class. */
static bool hash_list(struct cw_tag_matcher *matcher)
{
    bool                done = true;
    struct cw_tag_node *node;
    struct cw_tag_node *next;

    matcher->passed = 0;
    cw_list_for_each_safe(node, next, &matcher->leftover, struct cw_tag_node, ring) {
        struct cw_tag_recv *recv = cw_tag_node_recv(node);

        recv->sequence = next_number(matcher);
        if (done) {
            cw_list_remove(&node->ring);
            done = recv_hash(matcher, recv);
            if (!done) {
                cw_list_insert_before(&next->ring, &node->ring);
            }
        }
        recv->sequence |= done ? 0 : CW_TAG_LISTED;
    }
    return done;
}

/* Not in the list of few, or not any more. */
void cw_tag_matcher_enqueue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag)
{
    const bool hashes = matcher->busy != 0 || hash_list(matcher);

    recv->node.key = tag & recv->mask;
    recv->sequence = next_number(matcher);
    if (cw_likely(hashes && recv_hash(matcher, recv))) {
        matcher->few_limit = FEW_RECEIVES;
    } else {
        matcher->few_limit  = 2 * matcher->num_posted; /* without memory, not again at once */
        recv->sequence     |= CW_TAG_LISTED;
        cw_list_add_tail(&matcher->leftover, &recv->node.ring);
    }
    cw_tag_matcher_set_few(matcher);
}

/* The oldest matching receive of the leftover list, if it is older than `best`; else `best`, which may be NULL. */
static struct cw_tag_recv *leftover_match(const struct cw_tag_matcher *matcher, uint64_t tag, struct cw_tag_recv *best)
{
    struct cw_tag_node *node;

    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        struct cw_tag_recv *recv = cw_tag_node_recv(node);

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
        matcher->busy &= ~cw_tag_class_bit(class);
        cw_tag_matcher_set_few(matcher);
        if (cw_unlikely(matcher->num_classes > CW_TAG_KEPT_CLASSES)) {
            cw_tag_class_retire(matcher, class);
        }
    }
}

/* Of a list that is not looked through for long: then its receives are hashed. */
static struct cw_tag_recv *list_take(struct cw_tag_matcher *matcher, uint64_t tag)
{
    struct cw_tag_recv *found  = NULL;
    size_t              passed = 0;
    struct cw_tag_node *node;

    cw_list_for_each(node, &matcher->leftover, struct cw_tag_node, ring) {
        if (cw_tag_matches(tag, node->key, cw_tag_node_recv(node)->mask)) {
            found = cw_tag_node_recv(node);
            cw_list_remove(&node->ring);
            recv_unposted(matcher, found);
            break;
        }
        passed++;
    }
    if (passed > CHEAP_SCAN) {
        matcher->passed += passed;
        if (matcher->passed >= HASHING * matcher->num_posted) {
            hash_list(matcher);
        }
    }
    return found;
}

struct cw_tag_recv *cw_tag_matcher_match_recv(struct cw_tag_matcher *matcher, uint64_t tag)
{
    struct cw_tag_recv  *best       = NULL;
    struct cw_tag_class *best_class = NULL;
    struct cw_tag_node **best_place = NULL;
    uint64_t             left;

    if (matcher->busy == 0) {
        return list_take(matcher, tag);
    }
    for (left = matcher->busy; left != 0; left &= left - 1) {
        struct cw_tag_class *class = matcher->classes[__builtin_ctzll(left)];
        struct cw_tag_node **place = cw_tag_table_find(&class->posted, matcher->seed, tag & class->mask);

        if ((*place != NULL) && ((best == NULL) || (cw_tag_node_recv(*place)->sequence < best->sequence))) {
            best       = cw_tag_node_recv(*place);
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
    if (recv->sequence & CW_TAG_LISTED) {
        cw_list_remove(&recv->node.ring);
    } else {
        struct cw_tag_class *class = cw_tag_class_find(matcher, recv->mask);

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
        recv = cw_tag_node_recv(cw_list_head(&matcher->leftover, struct cw_tag_node, ring));
    } else if (matcher->busy != 0) {
        recv = cw_tag_node_recv(cw_tag_table_any(&matcher->classes[__builtin_ctzll(matcher->busy)]->posted));
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

void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed)
{
    memset(matcher, 0, sizeof(*matcher));
    cw_list_init(&matcher->unexpected);
    cw_list_init(&matcher->leftover);
    matcher->seed      = cw_hash_mix(seed);
    matcher->few_limit = FEW_RECEIVES;
    matcher->few_now   = FEW_RECEIVES;
}

void cw_tag_matcher_cleanup(struct cw_tag_matcher *matcher)
{
    unsigned i;

    for (i = 0; i < matcher->num_classes; i++) {
        struct cw_tag_class *class = matcher->classes[i];

        if (class->index != NULL) {
            cw_tag_index_free(class->index);
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
