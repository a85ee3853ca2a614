/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading a worker's ring of events while the worker writes it. What the ring says of itself is checked; an event that
 * may have been overwritten meanwhile is left out.
 */
#define _GNU_SOURCE
#include "trace.h"

#include "say.h"

#include <stdlib.h>
#include <unistd.h>

static bool read_all(int fd, void *bytes, size_t size, uint64_t offset)
{
    for (size_t done = 0; done < size;) {
        ssize_t length = pread(fd, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (length <= 0) {
            return false;
        }
        done += (size_t)length;
    }
    return true;
}

static bool is_sound(const struct cw_trace_ring *head, uint64_t length)
{
    return head->magic == CW_TRACE_MAGIC && head->num_events > 0 && head->num_events <= CW_TRACE_MAX_EVENTS &&
           (head->num_events & (head->num_events - 1)) == 0 &&
           sizeof(*head) + head->num_events * sizeof(struct cw_trace_event) <= length;
}

static int compare(const void *a, const void *b)
{
    const struct cw_trace_event *left = a, *right = b;

    return (left->number > right->number) - (left->number < right->number);
}

/* Leaves those that were whole, in order. */
static void keep_whole(struct cw_events *events, uint64_t size, uint64_t next)
{
    size_t kept = 0;

    for (size_t i = 0; i < events->count; i++) {
        const struct cw_trace_event *event = &events->events[i];
        if (event->number != 0 && ((event->number - 1) & (size - 1)) == i && event->number <= next &&
            next - event->number + 1 < size && event->kind < CW_TRACE_KINDS) {
            events->events[kept++] = *event;
        }
    }
    events->count = kept;
    qsort(events->events, kept, sizeof(events->events[0]), compare);
}

bool cw_events_read(const struct cw_watch_worker *worker, struct cw_events *events)
{
    struct cw_trace_ring before, after;
    uint64_t offset = worker->trace_offset;

    *events = (struct cw_events){.events = NULL};
    int fd = cw_watch_open(worker);
    if (fd < 0) {
        cw_say_error("the worker of process %u is gone", worker->pid);
        return false;
    }
    if (offset > UINT32_MAX || !read_all(fd, &before, sizeof(before), offset) ||
        !is_sound(&before, worker->trace_length)) {
        cw_say_error("process %u exports no valid event ring", worker->pid);
        close(fd);
        return false;
    }
    events->count = (size_t)before.num_events;
    events->events = malloc(events->count * sizeof(events->events[0]));
    if (events->events == NULL ||
        !read_all(fd, events->events, events->count * sizeof(events->events[0]), offset + sizeof(before)) ||
        !read_all(fd, &after, sizeof(after), offset)) {
        cw_say_error("the events of process %u cannot be read", worker->pid);
        close(fd);
        cw_events_free(events);
        return false;
    }
    close(fd);
    keep_whole(events, before.num_events, after.next);
    return true;
}

void cw_events_free(struct cw_events *events)
{
    free(events->events);
    *events = (struct cw_events){.events = NULL};
}
