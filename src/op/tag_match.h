/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching: posted receives against arrived (unexpected) messages, one matcher per worker. A pure structure: no
 * I/O, no locks, no logging. Used by the tag operations and by the worker's clean-up; the worker must be entered.
 * Both structures are embedded in objects of the caller; the matcher owns nothing but its hash tables.
 *
 * Invariants: a receive and a message that match each other are never queued at the same time (TAG-7). Receives are
 * ordered by one sequence over all masks (TAG-4), messages by one list (TAG-5). No call can fail: what cannot be put
 * into a hash table for lack of memory is found by an ordered scan. Why it is built so: docs/why/tag-matching.md
 */
#ifndef CW_OP_TAG_MATCH_H
#define CW_OP_TAG_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "op/tag_table.h"

/* With more masks than this in posted receives at one time, receives with the further masks are found by scanning. */
#define CW_TAG_MAX_CLASSES 64

/* More masks than this kept as index over the unexpected messages: the least recently asked one is dropped. */
#define CW_TAG_MAX_INDEXES 8

struct cw_tag_class;
struct cw_tag_entry;

/* A posted receive, embedded in the request. Must be zeroed or passed to cw_tag_recv_init() before its first use. */
struct cw_tag_recv {
    struct cw_tag_node node;     /* node.key is the tag as far as the mask covers it */
    uint64_t           mask;
    uint64_t           sequence; /* 0: not posted, or one of the few: then the rest is not set. CW_TAG_LISTED is set: in
                                  * the leftover list; else in the table of a class. The rest is the order of posting */
};

#define CW_TAG_LISTED UINT64_C(1)

/* One of few posted receives: all that a match looks at. */
struct cw_tag_few {
    uint64_t            key;     /* the tag as far as the mask covers it */
    uint64_t            mask;
    struct cw_tag_recv *recv;
};

/* An unexpected message, embedded in its descriptor. Needs no initialisation. */
struct cw_tag_message {
    uint64_t             tag;
    struct cw_list       order;   /* in cw_tag_matcher.unexpected, oldest first */
    struct cw_tag_entry *entries; /* one for each index over the unexpected messages */
};

/* Lists are embedded: a matcher must not move in memory. Fields are private but for num_unexpected, to be read. */
struct cw_tag_matcher {
    struct cw_tag_few    *first;   /* the few receives, from the oldest ... */
    struct cw_tag_few    *last;    /* ... to before this one, in an array; none while one is in a class or leftover */
    struct cw_tag_few    *stop;    /* where more is to be done than to write there: the array's end, or `last` while a
                                    * message waits or there are other receives */
    struct cw_tag_few    *few;     /* the array, NULL if there is none, and its end */
    struct cw_tag_few    *few_end;
    size_t                num_other; /* receives that are not among the few */
    size_t                num_unexpected;
    uint64_t              busy;    /* bit i: classes[i] has receives */
    uint64_t              indexed; /* bit i: classes[i] has an index over the unexpected messages */
    struct cw_tag_class  *recent;  /* class of the last receive or probe, NULL if none */
    struct cw_tag_class **classes; /* CW_TAG_MAX_CLASSES pointers, NULL until first needed */
    unsigned              num_classes;
    unsigned              passed;     /* few receives that messages passed since these were to be hashed */
    struct cw_list        unexpected; /* all unexpected messages, oldest first */
    struct cw_list        leftover;   /* receives that can have no class; oldest first */
    size_t                retry_at;   /* while all are leftover: with so many, classes are tried again */
    uint64_t              sequence;   /* the last number of a receive, even */
    uint64_t              clock;      /* orders classes by their last use */
    uint64_t              seed;
};

_Static_assert(sizeof(struct cw_tag_recv) <= 48, "part of every tag receive request");
_Static_assert(sizeof(struct cw_tag_message) <= 32, "part of every unexpected message");
_Static_assert(sizeof(struct cw_tag_matcher) <= 208, "part of every worker, also of one that never uses tags");

/* `seed` should be random (os): it keeps a peer from choosing tags that fall into one bucket. Allocates nothing. */
void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed);

/*
 * Frees the tables. Receives and messages still queued are forgotten, not touched: take them out first with
 * cw_tag_matcher_take_recv() and cw_tag_matcher_first_message() + cw_tag_matcher_remove_message().
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

/* TAG-1. M = 0 matches anything; bits of `tag` outside `mask` do not matter. */
static inline bool cw_tag_matches(uint64_t message_tag, uint64_t tag, uint64_t mask)
{
    return ((message_tag ^ tag) & mask) == 0;
}

/* After a change of what it depends on. */
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

/* Takes a queued unexpected message out. The message is the caller's again. Cost does not depend on queue lengths. */
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
 * Finds the earliest arrived unexpected message that matches (TAG-6, TPR-8), NULL if none. With `remove` it is taken
 * out and becomes the caller's; without it stays queued (TPR-3) and must not be freed by the caller.
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

/* Whether a new receive is queued at once and quickly: no message waits, few receives do, and there is room. */
static inline bool cw_tag_matcher_is_idle(const struct cw_tag_matcher *matcher)
{
    return matcher->last != matcher->stop;
}

/* Whether it is so after the few were moved to make room. */
static inline bool cw_tag_matcher_becomes_idle(struct cw_tag_matcher *matcher)
{
    return (matcher->num_unexpected | matcher->num_other) == 0 && cw_tag_matcher_make_room(matcher);
}

/* Queues a new receive behind few others, where there is room: its place tells its order. */
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

/* Queues a new receive that no unexpected message matches. Borrowed until it is matched, cancelled or taken. `recv`
 * must not be posted already. */
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
 * A new receive. Returns the earliest arrived matching unexpected message, taken out and now the caller's (TAG-5); the
 * receive is then not queued. Returns NULL if there is none: the receive is queued.
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

/* The oldest of few receives if a message with this tag is its own: the earliest that matches. NULL: not known. */
static inline const struct cw_tag_few *cw_tag_matcher_first(const struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_few *few = matcher->first;

    return cw_likely(few != matcher->last && cw_tag_matches(tag, few->key, few->mask)) ? few : NULL;
}

/* Takes it out: it is the caller's again. */
static inline void cw_tag_matcher_take_first(struct cw_tag_matcher *matcher)
{
    matcher->first++;
}

/*
 * A message arrived. Returns the earliest posted matching receive over all masks, taken out and now the caller's
 * (TAG-4). Returns NULL if there is none: the caller then stores the message with cw_tag_matcher_add_unexpected()
 * before any other call on this matcher.
 */
static inline struct cw_tag_recv *cw_tag_matcher_arrive(struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_few *few = cw_tag_matcher_first(matcher, tag);

    if (cw_likely(few != NULL)) { /* mostly it is the first one's message */
        cw_tag_matcher_take_first(matcher);
        return few->recv;
    }
    return (cw_tag_matcher_num_posted(matcher) == 0) ? NULL : cw_tag_matcher_match_recv(matcher, tag);
}

/* Queues a message for which cw_tag_matcher_arrive(tag) found no receive. Borrowed until it is removed. */
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
 * Takes a posted receive out (REQ-24). Returns false, without effect, if it is not posted (already matched, REQ-26).
 * Cost does not depend on queue lengths.
 */
bool cw_tag_matcher_cancel(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv);

/* Takes out some posted receive, in no particular order; NULL if none is left. For clean-up of a worker. */
struct cw_tag_recv *cw_tag_matcher_take_recv(struct cw_tag_matcher *matcher);

/* Calls `visit` for each posted receive, in no particular order. `visit` must not change the matcher. */
void cw_tag_matcher_visit_recvs(const struct cw_tag_matcher *matcher,
                                void (*visit)(const struct cw_tag_recv *recv, void *arg), void *arg);

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
