/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Alarms ordered by time: a heap of alarms that are embedded in their owners. It is a pairing heap: setting an alarm
 * takes O(1), removing one O(log n). The heap has no clock: os/poll.h queries it for the alarms that are due, and is
 * the interface for all other files.
 */
#ifndef CW_BASE_ALARM_H
#define CW_BASE_ALARM_H

#include <stdbool.h>
#include <stdint.h>

/* Must not move in memory while it is set. An alarm that is all zeros except `fire` is not set. */
struct cw_alarm {
    uint64_t at_ns;             /* cw_clock_ns; 0: not set */
    /* Returns the number of events that the program may wait for (os/poll.h). The alarm is not set any more; it may be
     * set again. */
    unsigned (*fire)(struct cw_alarm *alarm);
    struct cw_alarm *child;     /* of the heap: the first of those that come later */
    struct cw_alarm *next;      /* siblings */
    struct cw_alarm *prev;      /* the sibling before, or the parent of the first */
    int lazy;                   /* of the poller: this alarm does not wake a sleeper */
};

struct cw_alarm_heap {
    struct cw_alarm *first;     /* NULL: none is set */
};

static inline bool cw_alarm_is_set(const struct cw_alarm *alarm)
{
    return alarm->at_ns != 0;
}

/* Must not be called for an alarm that is set; at_ns is not 0. */
void cw_alarm_insert(struct cw_alarm_heap *heap, struct cw_alarm *alarm, uint64_t at_ns);
/* The alarm must be set. */
void cw_alarm_remove(struct cw_alarm_heap *heap, struct cw_alarm *alarm);

#endif
