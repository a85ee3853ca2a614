/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things to be done at a time, in order: a heap of alarms that are embedded in their owners. It is a pairing heap:
 * setting an alarm takes constant time, removing one the logarithm of their number. It keeps no clock: os/poll.h asks
 * it for what is due, and is what others use.
 */
#ifndef CW_OS_ALARM_H
#define CW_OS_ALARM_H

#include <stdint.h>

/* Must stay at its place while it is set. Zeroed but for `fire` it is not set. */
struct cw_alarm {
    uint64_t at_ns;             /* cw_clock_ns; 0: not set */
    /* Returns the number of things done, for the worker's count. The alarm is not set any more; it may be set again. */
    unsigned (*fire)(struct cw_alarm *alarm);
    struct cw_alarm *child;     /* the heap's: the first of those that come later */
    struct cw_alarm *next;      /* siblings */
    struct cw_alarm *prev;      /* the sibling before, or the parent of the first */
    int lazy;                   /* the poller's: it wakes nobody */
};

struct cw_alarm_heap {
    struct cw_alarm *first;     /* NULL: none is set */
};

static inline int cw_alarm_is_set(const struct cw_alarm *alarm)
{
    return alarm->at_ns != 0;
}

/* The alarm is not set; at_ns is not 0. */
void cw_alarm_insert(struct cw_alarm_heap *heap, struct cw_alarm *alarm, uint64_t at_ns);
/* The alarm is set. */
void cw_alarm_remove(struct cw_alarm_heap *heap, struct cw_alarm *alarm);

#endif
