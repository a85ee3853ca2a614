/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag matching: posted receives against arrived (unexpected) messages, one matcher for each worker. It does no I/O, no
 * locking and no logging. The tag operations and the worker's clean-up use it with the worker entered. Receives and
 * messages are embedded in objects of the caller; the matcher owns only its tables.
 *
 * The newest receives are in an array in the order of posting. Once comparing those costs too much, they move to a hash
 * table, keyed by the index of their mask and by tag & mask; all receives outside the array are older than those in it.
 * Messages are in a list in the order of arrival; a long list is indexed by the table as well, for the masks that the
 * program uses.
 *
 * Invariants: a receive and a message that match each other are never queued at the same time. Receives are ordered by
 * one sequence over all masks, messages by one list. No call can fail: without memory for the table, the matcher falls
 * back to an ordered scan. Reasons: docs/why/tag-matching.md
 */
#ifndef CW_TAG_MATCH_H
#define CW_TAG_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/list.h"

/* Masks that can be indexed at one time; receives with further masks are scanned. */
#define CW_TAG_MAX_MASKS 64

/* Masks for which messages are in the table at one time; a further one evicts the least recently used. */
#define CW_TAG_MAX_INDEXED 8

/* An element of the table. Elements of one key form a ring, oldest first, and only the oldest is on the chain of its
 * bucket: the length of a chain depends on the number of distinct keys, not on the number of elements per key. */
struct cw_tag_node {
    uint64_t            key;      /* tag & mask */
    uint64_t            position; /* the bits of CW_TAG_SLOT are part of the key; above them, in receives, the order of
                                     posting */
    struct cw_tag_node *chain;    /* next key of the same bucket; valid in the oldest element of a key only */
    struct cw_list      ring;     /* elements of the same key, without a list head; or the leftover list */
};

#define CW_TAG_MESSAGE UINT64_C(0x40) /* the element is a message, not a receive */
#define CW_TAG_SLOT    UINT64_C(0x7f) /* index of the mask, and CW_TAG_MESSAGE */
#define CW_TAG_LISTED  UINT64_C(0x80) /* the receive is on the leftover list, not in the table */
#define CW_TAG_ORDER   UINT64_C(0x100)

/* A posted receive, embedded in the request. Must be zeroed or passed to cw_tag_recv_init() before its first use. */
struct cw_tag_recv {
    struct cw_tag_node node; /* node.position 0: not posted, or in the array; then the other members are not set */
    uint64_t           mask;
};

/* Entry of the array: everything that a match reads. */
struct cw_tag_posted {
    uint64_t            key;  /* tag & mask */
    uint64_t            mask;
    struct cw_tag_recv *recv;
};

/* An unexpected message, embedded in its descriptor. Needs no initialisation. */
struct cw_tag_message {
    uint64_t             tag;
    struct cw_list       order;   /* in cw_tag_matcher.unexpected, oldest first */
    struct cw_tag_entry *entries; /* its elements in the table, one for each mask that indexes it */
};

/* A message in the table. */
struct cw_tag_entry {
    struct cw_tag_node     node;
    struct cw_tag_message *message;
    struct cw_tag_entry   *next; /* of the same message, or the next spare one */
};

/* A mask in use. The messages up to `newest` are in the table for this mask, those after it are scanned. */
struct cw_tag_mask {
    uint64_t               mask;
    uint64_t               last_use;
    size_t                 posted;  /* receives in the table */
    size_t                 entered; /* messages in the table */
    struct cw_tag_message *newest;  /* the newest message in the table; valid if entered > 0 */
    size_t                 scanned; /* messages visited by scans since the last were entered */
};

/* A matcher must not move in memory, because its lists are embedded. All members are private; only num_unexpected may
 * be read. */
struct cw_tag_matcher {
    struct cw_tag_posted *first;    /* the oldest receive in the array */
    struct cw_tag_posted *last;     /* one past the newest */
    struct cw_tag_posted *stop;     /* posting by a plain write ends here: the array's end, or `last` while a message is
                                       queued */
    struct cw_tag_posted *array;    /* NULL if there is none */
    struct cw_tag_posted *array_end;
    size_t               num_other; /* receives outside the array; they are older than those in it */
    size_t               num_unexpected;
    uint64_t             busy;      /* bit i: masks[i] has receives in the table */
    uint64_t             indexed;   /* bit i: masks[i] has messages in the table */
    struct cw_tag_mask  *masks;     /* NULL until first needed */
    struct cw_tag_node **buckets;   /* the table, NULL until first needed */
    size_t               num_buckets; /* a power of two */
    size_t               num_keys;
    size_t               cursor;    /* the buckets before this one hold no receives */
    struct cw_list       unexpected; /* all unexpected messages, oldest first */
    struct cw_tag_entry *spare;     /* entries for reuse */
    size_t               num_spare;
    size_t               num_entries; /* in the table */
    struct cw_list       leftover;  /* receives outside the array and the table; oldest first */
    uint64_t             sequence;  /* position of the last receive outside the array */
    uint64_t             clock;     /* orders masks by their last use */
    uint64_t             seed;
    const struct cw_tag_recv *oldest; /* of the array, when `passed` was counted; only compared */
    size_t               passed;    /* array entries compared without a match while it was the oldest */
    uint16_t             refused;   /* allocations to skip after the last failure ... */
    uint16_t             skipped;   /* ... and those still to be skipped */
    uint8_t              num_masks;
    uint8_t              space_masks; /* capacity of `masks` */
    uint8_t              recent;    /* index of the mask used last */
};

_Static_assert(sizeof(struct cw_tag_recv) <= 48, "part of every tag receive request");
_Static_assert(sizeof(struct cw_tag_message) <= 32, "part of every unexpected message");
_Static_assert(sizeof(struct cw_tag_matcher) <= 224, "part of every worker, also of one that never uses tags");

/* `seed` should be random, so that a peer cannot choose tags that collide in one bucket. Allocates nothing. */
void cw_tag_matcher_init(struct cw_tag_matcher *matcher, uint64_t seed);

/* Frees the tables. Queued elements are dropped and not freed; remove them first with cw_tag_matcher_take_recv(), and
 * with cw_tag_matcher_first_message() and cw_tag_matcher_remove_message(). */
void cw_tag_matcher_cleanup(struct cw_tag_matcher *matcher);

static inline void cw_tag_recv_init(struct cw_tag_recv *recv)
{
    recv->node.position = 0;
}

static inline bool cw_tag_matcher_has_posted(const struct cw_tag_matcher *matcher)
{
    return matcher->last != matcher->first || matcher->num_other > 0;
}

static inline size_t cw_tag_matcher_num_posted(const struct cw_tag_matcher *matcher)
{
    return (size_t)(matcher->last - matcher->first) + matcher->num_other;
}

/* A mask of 0 matches any tag; bits of `tag` outside `mask` are ignored. */
static inline bool cw_tag_matches(uint64_t message_tag, uint64_t tag, uint64_t mask)
{
    return ((message_tag ^ tag) & mask) == 0;
}

/* Recomputes `stop` after num_unexpected or the array has changed. */
static inline void cw_tag_matcher_set_stop(struct cw_tag_matcher *matcher)
{
    matcher->stop = (matcher->num_unexpected == 0) ? matcher->array_end : matcher->last;
}

/* The number of buckets is a power of two; the lower bits of the hash are the index of one. `slot` as CW_TAG_SLOT. */
static inline size_t cw_tag_hash(uint64_t seed, uint64_t key, uint64_t slot)
{
    return (size_t)cw_hash_mix((key ^ seed) + slot);
}

/* Slow paths of the inline functions below. */
struct cw_tag_message *cw_tag_matcher_find_message(struct cw_tag_matcher *matcher, uint64_t tag, uint64_t mask);
struct cw_tag_recv    *cw_tag_matcher_match_recv(struct cw_tag_matcher *matcher, uint64_t tag);
void                   cw_tag_matcher_enqueue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                              uint64_t mask);
void                   cw_tag_matcher_leave(struct cw_tag_matcher *matcher, struct cw_tag_message *message);

/* Removes a queued unexpected message, which then belongs to the caller. O(1). */
static inline void cw_tag_matcher_remove_message(struct cw_tag_matcher *matcher, struct cw_tag_message *message)
{
    if (cw_unlikely(message->entries != NULL)) {
        cw_tag_matcher_leave(matcher, message);
    }
    cw_list_remove(&message->order);
    matcher->num_unexpected--;
    cw_tag_matcher_set_stop(matcher);
}

/*
 * Finds the earliest arrived unexpected message that matches, NULL if none. With `remove` the message is
 * removed and belongs to the caller; without it the message stays queued, and the caller must not free it.
 */
static inline struct cw_tag_message *cw_tag_matcher_probe(struct cw_tag_matcher *matcher, uint64_t tag, uint64_t mask,
                                                          bool remove)
{
    struct cw_tag_message *message;

    if (matcher->num_unexpected == 0) {
        return NULL;
    }
    message = cw_container_of(matcher->unexpected.next, struct cw_tag_message, order);
    if (!cw_tag_matches(message->tag, tag, mask)) { /* usually the oldest one matches */
        message = cw_tag_matcher_find_message(matcher, tag, mask);
    }
    if (remove && (message != NULL)) {
        cw_tag_matcher_remove_message(matcher, message);
    }
    return message;
}

/* Whether a new receive can be queued by the fast path: no message is queued, and the array has space. */
static inline bool cw_tag_matcher_is_idle(const struct cw_tag_matcher *matcher)
{
    return matcher->last != matcher->stop;
}

/* Adds a new receive to the array, which must have space; the index in the array is the order of posting. */
static inline void cw_tag_matcher_post_array(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                             uint64_t mask)
{
    struct cw_tag_posted *posted = matcher->last;

    recv->node.position = 0;
    posted->key = tag & mask;
    posted->mask = mask;
    posted->recv = recv;
    matcher->last = posted + 1;
}

/* Queues a new receive that no unexpected message matches. The matcher uses `recv` until it is matched, cancelled or
 * taken. `recv` must not be posted already. */
static inline void cw_tag_matcher_queue(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv, uint64_t tag,
                                        uint64_t mask)
{
    if (cw_likely(cw_tag_matcher_is_idle(matcher))) {
        cw_tag_matcher_post_array(matcher, recv, tag, mask);
    } else {
        cw_tag_matcher_enqueue(matcher, recv, tag, mask);
    }
}

/* The oldest receive, if it is in the array and a message with this tag matches it: it is the earliest match. NULL: no
 * such fast match; search with cw_tag_matcher_arrive. */
static inline const struct cw_tag_posted *cw_tag_matcher_first(const struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_posted *posted = matcher->first;

    return cw_likely(posted != matcher->last && cw_tag_matches(tag, posted->key, posted->mask) &&
                     matcher->num_other == 0) ? posted : NULL;
}

/* Removes the receive that cw_tag_matcher_first returned; it belongs to the caller. */
static inline void cw_tag_matcher_take_first(struct cw_tag_matcher *matcher)
{
    matcher->first++;
}

/*
 * A message arrived. Removes and returns the earliest posted receive that matches, over all masks; it belongs
 * to the caller. If there is none, returns NULL: the caller must then store the message with
 * cw_tag_matcher_add_unexpected() before any other call on this matcher.
 */
static inline struct cw_tag_recv *cw_tag_matcher_arrive(struct cw_tag_matcher *matcher, uint64_t tag)
{
    const struct cw_tag_posted *posted = cw_tag_matcher_first(matcher, tag);

    if (cw_likely(posted != NULL)) { /* usually the message matches the first receive */
        cw_tag_matcher_take_first(matcher);
        return posted->recv;
    }
    return cw_tag_matcher_has_posted(matcher) ? cw_tag_matcher_match_recv(matcher, tag) : NULL;
}

/* Queues a message for which cw_tag_matcher_arrive(tag) found no receive. The matcher uses it until it is removed. */
static inline void cw_tag_matcher_add_unexpected(struct cw_tag_matcher *matcher, struct cw_tag_message *message,
                                                 uint64_t tag)
{
    message->tag = tag;
    message->entries = NULL;
    cw_list_add_tail(&matcher->unexpected, &message->order);
    matcher->num_unexpected++;
    matcher->stop = matcher->last;
}

/* A posted receive that was found, and where. */
struct cw_tag_found {
    struct cw_tag_recv *recv;         /* NULL: none */
    union {
        struct cw_tag_posted *posted; /* its entry, if it is in the array */
        struct cw_tag_node  **link;   /* to it, if it is in the table */
    };
};

/* Finds the earliest posted receive that matches a tag; it stays posted. */
struct cw_tag_found cw_tag_matcher_find_recv(struct cw_tag_matcher *matcher, uint64_t tag);

/* Removes the receive, before any other call on this matcher; it belongs to the caller. */
void cw_tag_matcher_take_found(struct cw_tag_matcher *matcher, const struct cw_tag_found *found);

/*
 * Removes a posted receive. Returns false, without effect, if it is not posted (already matched). The cost does not
 * depend on the number of receives outside the array.
 */
bool cw_tag_matcher_cancel(struct cw_tag_matcher *matcher, struct cw_tag_recv *recv);

/* Removes and returns any posted receive; NULL if none is left. For the cleanup of a worker. */
struct cw_tag_recv *cw_tag_matcher_take_recv(struct cw_tag_matcher *matcher);

/* Fills `list` with the oldest posted receives, oldest first, at most `size` of them. Returns their number. O(number of
 * posted receives). */
size_t cw_tag_matcher_oldest(const struct cw_tag_matcher *matcher, struct cw_tag_posted *list, size_t size);

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
