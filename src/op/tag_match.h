/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching: posted receives against arrived (unexpected) messages, one matcher for each worker. It does no I/O, no
 * locking and no logging. The tag operations and the worker's clean-up use it with the worker entered. Receives and
 * messages are embedded in objects of the caller; the matcher owns only its tables.
 *
 * Invariants: a receive and a message that match each other are never queued at the same time (TAG-7). Receives are
 * ordered by one sequence over all masks (TAG-4), messages by one list (TAG-5). No call can fail: without memory for a
 * hash table, an ordered scan finds the element. Reasons: docs/why/tag-matching.md
 */
#ifndef CW_OP_TAG_MATCH_H
#define CW_OP_TAG_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "op/tag_table.h"

/* Masks of posted receives that can have a class at one time; receives with further masks are found by scanning. */
#define CW_TAG_MAX_CLASSES 64

/* Indexes over the unexpected messages at one time; for a further one the least recently used index is dropped. */
#define CW_TAG_MAX_INDEXES 8

struct cw_tag_class;
struct cw_tag_entry;

/* A posted receive, embedded in the request. Must be zeroed or passed to cw_tag_recv_init() before its first use. */
struct cw_tag_recv {
    struct cw_tag_node node;     /* node.key is tag & mask */
    uint64_t           mask;
    uint64_t           sequence; /* 0: not posted, or in the array; then the other members are not set. Bit
                                  * CW_TAG_LISTED: on the leftover list, not in a class. The rest: order of posting */
};

#define CW_TAG_LISTED UINT64_C(1)

/* Entry of the array of few receives: everything that a match reads. */
struct cw_tag_few {
    uint64_t            key;     /* tag & mask */
    uint64_t            mask;
    struct cw_tag_recv *recv;
};

/* An unexpected message, embedded in its descriptor. Needs no initialisation. */
struct cw_tag_message {
    uint64_t             tag;
    struct cw_list       order;   /* in cw_tag_matcher.unexpected, oldest first */
    struct cw_tag_entry *entries; /* one for each index over the unexpected messages */
};

/* A matcher must not move in memory, because its lists are embedded. All members are private; only num_unexpected may
 * be read. */
struct cw_tag_matcher {
    struct cw_tag_few    *first;   /* the oldest receive in the array */
    struct cw_tag_few    *last;    /* behind the newest; `first`, if a receive is in a class or leftover */
    struct cw_tag_few    *stop;    /* where posting must do more than write an entry: the array's end, or `last` while
                                    * a message waits or a receive is outside the array */
    struct cw_tag_few    *few;     /* the array and its end, NULL if there is none */
    struct cw_tag_few    *few_end;
    size_t                num_other; /* receives that are not in the array */
    size_t                num_unexpected;
    uint64_t              busy;    /* bit i: classes[i] has receives */
    uint64_t              indexed; /* bit i: classes[i] has an index over the unexpected messages */
    struct cw_tag_class  *recent;  /* class of the last receive or probe, NULL if none */
    struct cw_tag_class **classes; /* CW_TAG_MAX_CLASSES pointers, NULL until first needed */
    unsigned              num_classes;
    unsigned              passed;     /* entries of the array that messages were compared with in vain */
    struct cw_list        unexpected; /* all unexpected messages, oldest first */
    struct cw_list        leftover;   /* receives that can have no class; oldest first */
    size_t                retry_at;   /* while all are leftover: number at which classes are tried again */
    uint64_t              sequence;   /* last sequence number of a receive, even */
    uint64_t              clock;      /* orders classes by their last use */
    uint64_t              seed;
};

_Static_assert(sizeof(struct cw_tag_recv) <= 48, "part of every tag receive request");
_Static_assert(sizeof(struct cw_tag_message) <= 32, "part of every unexpected message");
_Static_assert(sizeof(struct cw_tag_matcher) <= 208, "part of every worker, also of one that never uses tags");

/* `seed` should be random, so that a peer cannot choose tags that fall into one bucket. Allocates nothing. */
void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed);

/*
 * Frees the tables. Queued receives and messages are not touched: remove them first with cw_tag_matcher_take_recv(),
 * and with cw_tag_matcher_first_message() and cw_tag_matcher_remove_message().
 */
void cw_tag_matcher_cleanup(struct cw_tag_matcher *matcher);

static inline void cw_tag_recv_init(struct cw_tag_recv *recv)
{
    recv->sequence = 0;
}

static inline size_t cw_tag_matcher_num_posted(const struct cw_tag_matcher *matcher)
{
    return (size_t)(matcher->last - matcher->first) + matcher->num_other;
}

/* TAG-1. A mask of 0 matches any tag; bits of `tag` outside `mask` are ignored. */
static inline bool cw_tag_matches(uint64_t message_tag, uint64_t tag, uint64_t mask)
{
    return ((message_tag ^ tag) & mask) == 0;
}

/* Computes `stop` again, after num_unexpected, num_other or the array has changed. */
static inline void cw_tag_matcher_set_stop(struct cw_tag_matcher *matcher)
{
    matcher->stop = ((matcher->num_unexpected | matcher->num_other) == 0) ? matcher->few_end : matcher->last;
}

/* Slow parts of the inline functions below. */
bool                   cw_tag_matcher_make_room(struct cw_tag_matcher *matcher);
struct cw_tag_message *cw_tag_matcher_find_message(struct cw_tag_matcher *matcher, uint64_t tag, uint64_t mask);
struct cw_tag_recv    *cw_tag_matcher_match_recv(struct cw_tag_matcher *matcher, uint64_t tag);
void                   cw_tag_matcher_enqueue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                              uint64_t mask);
void                   cw_tag_matcher_index_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message);
void                   cw_tag_matcher_unindex_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message);

/* Removes a queued unexpected message, which then belongs to the caller. The cost does not depend on queue lengths. */
static inline void cw_tag_matcher_remove_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message)
{
    cw_list_remove(&message->order);
    matcher->num_unexpected--;
    cw_tag_matcher_set_stop(matcher);
    if (cw_unlikely(matcher->indexed != 0)) {
        cw_tag_matcher_unindex_message(matcher, message);
    }
}

/*
 * Finds the earliest arrived unexpected message that matches (TAG-6, TPR-8), NULL if none. With `remove` the message is
 * removed and belongs to the caller; without it the message stays queued (TPR-3), and the caller must not free it.
 */
static inline struct cw_tag_message *cw_tag_matcher_probe(struct cw_tag_matcher *matcher, uint64_t tag, uint64_t mask,
                                                          bool remove)
{
    struct cw_tag_message *message;

    if (matcher->num_unexpected == 0) {
        return NULL;
    }
    message = cw_tag_matcher_find_message(matcher, tag, mask);
    if (remove && (message != NULL)) {
        cw_tag_matcher_remove_message(matcher, message);
    }
    return message;
}

/* Whether a new receive can be queued fast: no message waits, all receives are in the array, and it has room. */
static inline bool cw_tag_matcher_is_idle(const struct cw_tag_matcher *matcher)
{
    return matcher->last != matcher->stop;
}

/* As cw_tag_matcher_is_idle, after making room in the array. */
static inline bool cw_tag_matcher_becomes_idle(struct cw_tag_matcher *matcher)
{
    return (matcher->num_unexpected | matcher->num_other) == 0 && cw_tag_matcher_make_room(matcher);
}

/* Adds a new receive to the array, which has room; the place in the array is the order of posting. */
static inline void cw_tag_matcher_post_few(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                           uint64_t mask)
{
    struct cw_tag_few *few = matcher->last;

    recv->sequence = 0;
    few->key       = tag & mask;
    few->mask      = mask;
    few->recv      = recv;
    matcher->last  = few + 1;
}

/* Queues a new receive that no unexpected message matches. The matcher uses `recv` until it is matched, cancelled or
 * taken. `recv` must not be posted already. */
static inline void cw_tag_matcher_queue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                        uint64_t mask)
{
    if (cw_likely(cw_tag_matcher_is_idle(matcher))) {
        cw_tag_matcher_post_few(matcher, recv, tag, mask);
    } else {
        cw_tag_matcher_enqueue(matcher, recv, tag, mask);
    }
}

/*
 * Posts a new receive. If an unexpected message matches, the earliest arrived one is removed and returned; it belongs
 * to the caller (TAG-5), and the receive is not queued. Otherwise the receive is queued, and NULL is returned.
 */
static inline struct cw_tag_message *cw_tag_matcher_post(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv,
                                                         uint64_t tag, uint64_t mask)
{
    struct cw_tag_message *message = cw_tag_matcher_probe(matcher, tag, mask, true);

    if (message != NULL) {
        return message;
    }
    cw_tag_matcher_queue(matcher, recv, tag, mask);
    return NULL;
}

/* The oldest receive in the array, if a message with this tag matches it: it is the earliest match. NULL: not known. */
static inline const struct cw_tag_few *cw_tag_matcher_first(const struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_few *few = matcher->first;

    return cw_likely(few != matcher->last && cw_tag_matches(tag, few->key, few->mask)) ? few : NULL;
}

/* Removes the receive that cw_tag_matcher_first returned; it belongs to the caller. */
static inline void cw_tag_matcher_take_first(struct cw_tag_matcher *matcher)
{
    matcher->first++;
}

/*
 * A message arrived. Removes and returns the earliest posted receive that matches, over all masks (TAG-4); it belongs
 * to the caller. If there is none, returns NULL: the caller must then store the message with
 * cw_tag_matcher_add_unexpected() before any other call on this matcher.
 */
static inline struct cw_tag_recv *cw_tag_matcher_arrive(struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_few *few = cw_tag_matcher_first(matcher, tag);

    if (cw_likely(few != NULL)) { /* mostly the message matches the first receive */
        cw_tag_matcher_take_first(matcher);
        return few->recv;
    }
    return (cw_tag_matcher_num_posted(matcher) == 0) ? NULL : cw_tag_matcher_match_recv(matcher, tag);
}

/* Queues a message for which cw_tag_matcher_arrive(tag) found no receive. The matcher uses it until it is removed. */
static inline void cw_tag_matcher_add_unexpected(struct cw_tag_matcher *matcher, struct cw_tag_message *message,
                                                 uint64_t tag)
{
    message->tag     = tag;
    message->entries = NULL;
    cw_list_add_tail(&matcher->unexpected, &message->order);
    matcher->num_unexpected++;
    matcher->stop = matcher->last;
    if (cw_unlikely(matcher->indexed != 0)) {
        cw_tag_matcher_index_message(matcher, message);
    }
}

/*
 * Removes a posted receive (REQ-24). Returns false, without effect, if it is not posted (already matched, REQ-26). The
 * cost does not depend on the number of receives outside the array.
 */
bool cw_tag_matcher_cancel(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv);

/* Removes and returns any posted receive; NULL if none is left. For the clean-up of a worker. */
struct cw_tag_recv *cw_tag_matcher_take_recv(struct cw_tag_matcher *matcher);

/* The oldest unexpected message, NULL if none. It stays queued. */
static inline struct cw_tag_message *cw_tag_matcher_first_message(const struct cw_tag_matcher *matcher)
{
    return cw_list_empty(&matcher->unexpected) ? NULL :
           cw_list_head(&matcher->unexpected, struct cw_tag_message, order);
}

/* The message that arrived after `message` among those queued, NULL if it is the last. */
static inline struct cw_tag_message *cw_tag_matcher_next_message(const struct cw_tag_matcher *matcher,
                                                                 const struct cw_tag_message *message)
{
    return (message->order.next == &matcher->unexpected) ? NULL :
           cw_list_head(&message->order, struct cw_tag_message, order);
}

#endif
