/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of ucx_trace. main.c reads the command line, ring.c the events of a worker, lives.c puts together what belongs
 * to one request, print.c writes it all.
 */
#ifndef CW_TRACE_TOOL_H
#define CW_TRACE_TOOL_H

#include "core/trace.h"
#include "watch.h"

#include <stdbool.h>
#include <stdio.h>

/* The events of one worker that could be read as a whole, the oldest first. */
struct cw_events {
    struct cw_trace_event *events;
    size_t count;
};

/* false: a sentence was said. */
bool cw_events_read(const struct cw_watch_worker *worker, struct cw_events *events);
void cw_events_free(struct cw_events *events);

/* One request from call to completion, as far as the ring goes back. Its name is the number of its first event. */
struct cw_life {
    size_t begin;               /* index of its events */
    size_t end;                 /* likewise; count: still open */
};

/* The lives that begin in these events, the oldest first; NULL and a sentence without memory. To be freed. */
struct cw_life *cw_lives_find(const struct cw_events *events, size_t *count_p);

void cw_print_event(const struct cw_events *events, size_t index);
void cw_print_lives(const struct cw_events *events, const struct cw_life *lives, size_t count);
/* Its own events, and the packets of its endpoint meanwhile. */
void cw_print_life(const struct cw_events *events, const struct cw_life *life);
/* What Perfetto and chrome://tracing read; `first`: the first worker of the file. */
void cw_print_chrome(FILE *file, const struct cw_watch_worker *worker, const struct cw_events *events,
                     const struct cw_life *lives, size_t count, bool first);

#endif
