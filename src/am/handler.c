/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handlers of active messages by id: an array for the small ids that programs use, a hash table for the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"

#define MAX_DENSE 256u

struct sparse_handler {
    struct cw_hash_link link;
    struct cw_am_handler handler;
};

void cw_am_init(struct cw_am_state *state, uint64_t seed)
{
    cw_hash_init(&state->sparse, seed);
    cw_list_init(&state->retained);
    cw_list_init(&state->through);
    cw_list_init(&state->job.link);
}

static struct sparse_handler *find_sparse(const struct cw_am_state *state, uint16_t id)
{
    struct cw_hash_link *link = cw_hash_find(&state->sparse, id);

    return (link == NULL) ? NULL : cw_container_of(link, struct sparse_handler, link);
}

const struct cw_am_handler *cw_am_find_sparse(const struct cw_am_state *state, uint16_t id)
{
    const struct sparse_handler *sparse = find_sparse(state, id);

    return (sparse == NULL) ? NULL : &sparse->handler;
}

/* Enlarges the array for this id; the new entries are empty. */
static ucs_status_t grow_dense(struct cw_am_state *state, uint16_t id)
{
    uint32_t size = (state->num_dense == 0) ? 8 : state->num_dense;
    struct cw_am_handler *dense;

    while (size <= id) {
        size *= 2;
    }
    dense = realloc(state->dense, size * sizeof(*dense));
    if (dense == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memset(dense + state->num_dense, 0, (size - state->num_dense) * sizeof(*dense));
    state->dense = dense;
    state->num_dense = size;
    return UCS_OK;
}

static ucs_status_t set_dense(struct cw_am_state *state, uint16_t id, const struct cw_am_handler *handler)
{
    if (id >= state->num_dense) {
        if (!handler->is_set) {
            return UCS_OK;
        }
        if (grow_dense(state, id) != UCS_OK) {
            return UCS_ERR_NO_MEMORY;
        }
    }
    state->dense[id] = *handler;
    return UCS_OK;
}

static ucs_status_t set_sparse(struct cw_am_state *state, uint16_t id, const struct cw_am_handler *handler)
{
    struct sparse_handler *sparse = find_sparse(state, id);

    if (!handler->is_set) {
        if (sparse != NULL) {
            cw_hash_remove(&state->sparse, &sparse->link);
            free(sparse);
        }
        return UCS_OK;
    }
    if (sparse == NULL) {
        sparse = malloc(sizeof(*sparse));
        if (sparse == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        cw_hash_add(&state->sparse, &sparse->link, id);
    }
    sparse->handler = *handler;
    return UCS_OK;
}

ucs_status_t cw_am_set_handler(struct ucp_worker *worker, uint16_t id, const struct cw_am_handler *handler)
{
    struct cw_am_state *state = worker->am;
    struct cw_am_handler made = *handler;

    made.has_demands = handler->persistent || worker->am_alignment > 1;
    made.is_fast = handler->is_set && !handler->is_old && !made.has_demands;
    return (id < MAX_DENSE) ? set_dense(state, id, &made) : set_sparse(state, id, &made);
}

void cw_am_handlers_free(struct cw_am_state *state)
{
    struct sparse_handler *sparse;
    unsigned id;

    for (id = MAX_DENSE; id <= UINT16_MAX && state->sparse.count > 0; id++) {
        sparse = find_sparse(state, (uint16_t)id);
        if (sparse != NULL) {
            cw_hash_remove(&state->sparse, &sparse->link);
            free(sparse);
        }
    }
    cw_hash_cleanup(&state->sparse);
    free(state->dense);
}
