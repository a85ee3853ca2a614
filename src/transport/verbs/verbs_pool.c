/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of one interface.
 */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"

#define CHUNK 64u /* segments registered together */
#define LINE  64u /* cache line: alignment of segments */

struct cw_verbs_chunk {
    struct cw_verbs_chunk *next;
    struct ibv_mr *mr;
    char *memory;
    struct cw_verbs_segment segments[CHUNK];
};

char *cw_verbs_memory(struct cw_verbs_iface *iface, size_t length, struct ibv_mr **mr_p)
{
    const size_t page = cw_memory_page();
    const size_t limit = cw_memory_lock_limit();
    char *memory = aligned_alloc(page, (length + page - 1) / page * page);
    char advice[160] = "";

    *mr_p = (memory != NULL) ? iface->lib->reg_mr(iface->pd, memory, length, IBV_ACCESS_LOCAL_WRITE) : NULL;
    if (*mr_p != NULL) {
        return memory;
    }
    if (limit != SIZE_MAX && (errno == ENOMEM || errno == EAGAIN)) {
        snprintf(advice, sizeof(advice), "; this process may lock %zu KiB of memory: raise that (ulimit -l, memlock in "
                 "limits.conf), or set UCX_RC_RX_QUEUE_LEN to less", limit / 1024);
    }
    snprintf(iface->port.why, sizeof(iface->port.why), "it cannot register %zu bytes: %s%s", length, strerror(errno),
             advice);
    free(memory);
    return NULL;
}

static int grow(struct cw_verbs_iface *iface)
{
    struct cw_verbs_pool *pool = &iface->pool;
    const size_t size = (CW_VERBS_KEEP_SPACE + iface->settings.segment + LINE - 1) / LINE * LINE;
    struct cw_verbs_chunk *chunk;
    unsigned i;

    if (pool->count + CHUNK > iface->settings.most_segments) {
        return 0;
    }
    chunk = malloc(sizeof(*chunk));
    if (chunk == NULL) {
        return 0;
    }
    chunk->memory = cw_verbs_memory(iface, CHUNK * size, &chunk->mr);
    if (chunk->memory == NULL) {
        if (!pool->logged) {
            pool->logged = 1;
            cw_warn("%s: %s", iface->port.name, iface->port.why);
        }
        free(chunk);
        return 0;
    }
    for (i = 0; i < CHUNK; i++) {
        chunk->segments[i] = (struct cw_verbs_segment){
            .next = pool->free, .data = chunk->memory + i * size + CW_VERBS_KEEP_SPACE, .lkey = chunk->mr->lkey};
        pool->free = &chunk->segments[i];
    }
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->count += CHUNK;
    return 1;
}

struct cw_verbs_segment *cw_verbs_segment_get(struct cw_verbs_iface *iface)
{
    struct cw_verbs_segment *segment;

    if (iface->pool.free == NULL && !grow(iface)) {
        return NULL;
    }
    segment = iface->pool.free;
    iface->pool.free = segment->next;
    return segment;
}

void cw_verbs_segment_put(struct cw_verbs_iface *iface, struct cw_verbs_segment *segment)
{
    segment->next = iface->pool.free;
    iface->pool.free = segment;
}

void cw_verbs_pool_free(struct cw_verbs_iface *iface)
{
    struct cw_verbs_chunk *chunk;

    while ((chunk = iface->pool.chunks) != NULL) {
        iface->pool.chunks = chunk->next;
        (void)iface->lib->dereg_mr(chunk->mr);
        free(chunk->memory);
        free(chunk);
    }
    iface->pool.free = NULL;
    iface->pool.count = 0;
}
