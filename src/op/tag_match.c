/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher of tag_match.h: posted receives, and the matcher as a whole. The tag operations call it with the worker
 * entered.
 */
#include "op/tag_match.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "op/tag_class.h"

/* Comparing so many entries of the array is cheaper than hashing. */
#define CHEAP_SCAN 4u

/* Hashing one receive costs as much as comparing so many entries of the array. */
#define HASHING 8u

static bool recv_hash(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    struct cw_tag_class *class = cw_tag_class_get(matcher, recv->mask);

    if (cw_unlikely(class == NULL)) {
        return false;
    }
    matcher->busy |= cw_tag_class_bit(class);
    cw_tag_table_add(&class->posted, matcher->seed, &recv->node, recv->node.key);
    return true;
}

/* Gives a receive that leaves or bypasses the array its sequence number, and with `hashes` its class. False: it has no
 * class. */
static bool recv_place(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, bool hashes)
{
    recv->sequence = matcher->sequence += 2 * CW_TAG_LISTED;
    if (hashes && recv_hash(matcher, recv)) {
        return true;
    }
    recv->sequence |= CW_TAG_LISTED;
    cw_list_add_tail(&matcher->leftover, &recv->node.ring);
    return false;
}

/* Moves the receives of the leftover list into classes. False: one receive cannot have a class; it and all later ones
 * stay on the list. */
static bool hash_leftover(struct cw_tag_matcher *matcher)
{
    bool           done = true;
    struct cw_list all, *link;

    cw_list_init(&all);
    cw_list_splice_tail(&all, &matcher->leftover);
    while ((link = cw_list_pop_head(&all)) != NULL) {
        done = recv_place(matcher, cw_container_of(link, struct cw_tag_recv, node.ring), done);
    }
    return done;
}

/* Moves the receives of the array into classes, and frees the array. False: as above. */
static bool hash_few(struct cw_tag_matcher *matcher)
{
    bool               done = true;
    struct cw_tag_few *few;

    for (few = matcher->first; few != matcher->last; few++) {
        few->recv->node.key = few->key;
        few->recv->mask     = few->mask;
        done                = recv_place(matcher, few->recv, done);
        matcher->num_other++;
    }
    free(matcher->few);
    matcher->few = matcher->few_end = matcher->first = matcher->last = matcher->stop = NULL;
    matcher->passed = 0;
    return done;
}

/* Queues a receive if the array has no room, or must not be used. */
CW_APART void cw_tag_matcher_enqueue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                     uint64_t mask)
{
    bool hashes = true;

    if (matcher->num_other == 0) {
        if (cw_tag_matcher_make_room(matcher)) {
            cw_tag_matcher_post_few(matcher, recv, tag, mask);
            cw_tag_matcher_set_stop(matcher);
            return;
        }
        hashes = hash_few(matcher);
    } else if (matcher->busy == 0) { /* classes lacked memory: tried again later only */
        hashes = matcher->num_other >= matcher->retry_at && hash_leftover(matcher);
    }
    recv->node.key = tag & mask;
    recv->mask     = mask;
    if (!recv_place(matcher, recv, hashes) && matcher->num_other >= matcher->retry_at) {
        matcher->retry_at = 2 * (matcher->num_other + 1);
    }
    matcher->num_other++;
    cw_tag_matcher_set_stop(matcher);
}

/* The oldest matching receive of the leftover list, if it is older than `best`; otherwise `best`, which may be NULL. */
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

/* Notes that a receive has left its class or the leftover list. */
static inline void recv_unposted(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv)
{
    recv->sequence = 0;
    if (--matcher->num_other == 0) {
        matcher->retry_at = 0;
        cw_tag_matcher_set_stop(matcher);
    }
}

static inline void class_recv_removed(struct cw_tag_matcher *matcher, struct cw_tag_class *class)
{
    if (class->posted.num_keys == 0) {
        matcher->busy &= ~cw_tag_class_bit(class);
        if (cw_unlikely(matcher->num_classes > CW_TAG_KEPT_CLASSES)) {
            cw_tag_class_retire(matcher, class);
        }
    }
}

/* Takes the oldest matching receive out of the array. Once many entries were compared in vain, all receives are
 * hashed. */
static struct cw_tag_recv *few_take(struct cw_tag_matcher *matcher, uint64_t tag)
{
    struct cw_tag_recv *found = NULL;
    struct cw_tag_few  *few;
    size_t              passed;

    for (few = matcher->first; few != matcher->last && !cw_tag_matches(tag, few->key, few->mask); few++) {
    }
    passed = (size_t)(few - matcher->first);
    if (few != matcher->last) {
        found = few->recv;
        cw_tag_few_remove(matcher, few);
    }
    if (passed > CHEAP_SCAN) {
        matcher->passed += passed;
        if (matcher->passed >= HASHING * (size_t)(matcher->last - matcher->first)) {
            hash_few(matcher);
            cw_tag_matcher_set_stop(matcher);
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

    if (matcher->num_other == 0) {
        return few_take(matcher, tag);
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
    if (recv->sequence == 0) {
        struct cw_tag_few *few = cw_tag_few_find(matcher, recv);

        if (few != NULL) {
            cw_tag_few_remove(matcher, few);
        }
        return few != NULL;
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

    if (matcher->first != matcher->last) {
        recv = matcher->first->recv;
        cw_tag_matcher_take_first(matcher);
        return recv;
    }
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

void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed)
{
    memset(matcher, 0, sizeof(*matcher));
    cw_list_init(&matcher->unexpected);
    cw_list_init(&matcher->leftover);
    matcher->seed = cw_hash_mix(seed);
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
    free(matcher->few);
    memset(matcher, 0, sizeof(*matcher));
    cw_list_init(&matcher->unexpected);
    cw_list_init(&matcher->leftover);
}
