/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap of base/alarm.h. A node's children come no earlier than itself.
 */
#include "base/alarm.h"

#include <stddef.h>

/* Melds two roots without siblings: the later one becomes the first child of the other. */
static struct cw_alarm *meld(struct cw_alarm *one, struct cw_alarm *other)
{
    struct cw_alarm *early = (other->at_ns < one->at_ns) ? other : one;
    struct cw_alarm *late = (early == one) ? other : one;

    late->prev = early;
    late->next = early->child;
    if (late->next != NULL) {
        late->next->prev = late;
    }
    early->child = late;
    return early;
}

/* Makes one heap of a list of siblings: the first pass melds pairs, the pass back melds the results into one. This
 * order keeps later removals cheap. */
static struct cw_alarm *meld_siblings(struct cw_alarm *alarm)
{
    struct cw_alarm *pairs = NULL, *root = NULL, *other, *next;

    for (; alarm != NULL; alarm = next) {
        other = alarm->next;
        next = (other == NULL) ? NULL : other->next;
        alarm->next = alarm->prev = NULL;
        if (other != NULL) {
            other->next = other->prev = NULL;
            alarm = meld(alarm, other);
        }
        alarm->next = pairs;
        pairs = alarm;
    }
    for (; pairs != NULL; pairs = next) {
        next = pairs->next;
        pairs->next = NULL;
        root = (root == NULL) ? pairs : meld(root, pairs);
    }
    return root;
}

void cw_alarm_insert(struct cw_alarm_heap *heap, struct cw_alarm *alarm, uint64_t at_ns)
{
    alarm->at_ns = at_ns;
    alarm->child = alarm->next = alarm->prev = NULL;
    heap->first = (heap->first == NULL) ? alarm : meld(heap->first, alarm);
}

void cw_alarm_remove(struct cw_alarm_heap *heap, struct cw_alarm *alarm)
{
    struct cw_alarm *below = meld_siblings(alarm->child);

    if (alarm->prev == NULL) {
        heap->first = below;
    } else {
        *((alarm->prev->child == alarm) ? &alarm->prev->child : &alarm->prev->next) = alarm->next;
        if (alarm->next != NULL) {
            alarm->next->prev = alarm->prev;
        }
        heap->first = (below == NULL) ? heap->first : meld(heap->first, below);
    }
    alarm->child = alarm->next = alarm->prev = NULL;
    alarm->at_ns = 0;
}
