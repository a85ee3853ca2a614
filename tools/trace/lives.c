/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which events belong to one request. The library names requests by something that is used again later, so a life goes
 * from one beginning to the next end of that name.
 */
#include "trace.h"

#include "say.h"

#include <stdlib.h>

struct open_life {
    uint64_t request;           /* 0: free */
    struct cw_life *life;
};

/* The place of a name, or of its absence: open addressing, at most half full. */
static struct open_life *find(struct open_life *table, size_t mask, uint64_t request)
{
    size_t at = (size_t)((request * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask;

    while (table[at].request != 0 && table[at].request != request) {
        at = (at + 1) & mask;
    }
    return &table[at];
}

struct cw_life *cw_lives_find(const struct cw_events *events, size_t *count_p)
{
    size_t size = 16;

    while (size < events->count * 2) {
        size *= 2;
    }
    struct open_life *table = calloc(size, sizeof(*table));
    struct cw_life *lives = malloc((events->count + 1) * sizeof(*lives));
    *count_p = 0;
    if (table == NULL || lives == NULL) {
        cw_say_error("out of memory for %zu events", events->count);
        free(table);
        free(lives);
        return NULL;
    }
    for (size_t i = 0; i < events->count; i++) {
        const struct cw_trace_event *event = &events->events[i];
        if (event->request == 0) {
            continue;
        }
        struct open_life *place = find(table, size - 1, event->request);
        if (event->kind == CW_TRACE_BEGIN) {
            lives[*count_p] = (struct cw_life){.begin = i, .end = events->count};
            *place = (struct open_life){.request = event->request, .life = &lives[*count_p]};
            *count_p += 1;
        } else if (event->kind == CW_TRACE_END && place->life != NULL && place->life->end == events->count) {
            place->life->end = i;
        }
    }
    free(table);
    return lives;
}
