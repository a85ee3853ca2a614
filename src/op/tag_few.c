/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The few receives of the matcher (tag_class.h): an array in the order of posting, whose first used element can be
 * anywhere. tag_match.h holds the functions that post a receive and match the oldest.
 */
#include "op/tag_class.h"

#include <stdlib.h>
#include <string.h>

/* While there are few receives, all are in the array: the matched receive is mostly the first, and then hashing would
 * cost more than the rest of the match. FEW_RECEIVES entries are few enough to be searched. When the end of the array
 * is reached with more receives, they are hashed. */
#define FEW_RECEIVES 256u

/* Entries of the first array. Each further array has twice as many, up to twice FEW_RECEIVES. */
#define FIRST_ROOM 32u

/* Moves the entries to the beginning of the array, or of a new one. Mostly there is no entry, or one. */
static inline void few_move(struct cw_tag_matcher *matcher, struct cw_tag_few *to)
{
    const struct cw_tag_few *few = matcher->first;

    matcher->first = to;
    for (; few != matcher->last; few++) {
        *to++ = *few;
    }
    matcher->last = to;
}

static CW_APART bool few_grow(struct cw_tag_matcher *matcher, size_t size)
{
    struct cw_tag_few *few = malloc(size * sizeof(*few));

    if (few == NULL) {
        return false;
    }
    few_move(matcher, few);
    free(matcher->few);
    matcher->few     = few;
    matcher->few_end = few + size;
    return true;
}

/* Makes room for one more entry at the end of the array. False: there are many receives, or there is no memory. It
 * moves at most as many entries as were removed since the last move, so the cost for each receive is small. */
CW_APART bool cw_tag_matcher_make_room(struct cw_tag_matcher *matcher)
{
    const size_t size  = (size_t)(matcher->few_end - matcher->few);
    const size_t taken = (size_t)(matcher->last - matcher->first);

    if (matcher->last != matcher->few_end) { /* there is room, but a message waits */
        return true;
    }
    if (taken <= size / 2 && size > 0) {
        few_move(matcher, matcher->few);
    } else if (taken >= FEW_RECEIVES || !few_grow(matcher, (size == 0) ? FIRST_ROOM : 2 * size)) {
        return false;
    }
    cw_tag_matcher_set_stop(matcher);
    return true;
}

/* Removes an entry; the entries on its shorter side move. */
void cw_tag_few_remove(struct cw_tag_matcher *matcher, struct cw_tag_few *few)
{
    const size_t before = (size_t)(few - matcher->first);
    const size_t behind = (size_t)(matcher->last - few) - 1;

    if (before <= behind) {
        memmove(matcher->first + 1, matcher->first, before * sizeof(*few));
        matcher->first++;
    } else {
        memmove(few, few + 1, behind * sizeof(*few));
        matcher->last--;
        cw_tag_matcher_set_stop(matcher);
    }
}

struct cw_tag_few *cw_tag_few_find(const struct cw_tag_matcher *matcher, const struct cw_tag_recv *recv)
{
    struct cw_tag_few *few;

    for (few = matcher->first; few != matcher->last; few++) {
        if (few->recv == recv) {
            return few;
        }
    }
    return NULL;
}
