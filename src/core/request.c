/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The request pool, and the only function by which operations complete.
 */
#include "core/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/ep.h"
#include "core/worker.h"

#define FIRST_SLAB_OBJECTS 8u
#define MAX_SLAB_OBJECTS   256u
#define MAX_USER_SIZE       (SIZE_MAX / 2) /* no more is ever granted: the first request fails */

_Static_assert(CW_REQUEST_SIZE <= 256, "programs reserve 256 bytes for a request (R7)");
_Static_assert(CW_REQUEST_SIZE % 8 == 0, "a user's request is aligned to 8 bytes only");
_Static_assert(sizeof(struct cw_request) % 8 == 0, "the state of an operation follows the head");

struct cw_request_slab {
    struct cw_request_slab *next;
    size_t count;
    _Alignas(16) char objects[];
};

void cw_request_pool_init(struct cw_request_pool *pool, size_t user_size)
{
    *pool = (struct cw_request_pool){0};
    user_size = (user_size > MAX_USER_SIZE) ? MAX_USER_SIZE : user_size;
    /* 8 spare bytes: some bindings store a status through the handle without having requested user space */
    pool->object_size = (CW_REQUEST_SIZE + ((user_size < 8) ? 8 : user_size) + 15) & ~(size_t)15;
    pool->slab_objects = FIRST_SLAB_OBJECTS;
}

void cw_request_pool_cleanup(struct cw_request_pool *pool, const struct ucp_context *context)
{
    struct cw_request_slab *slab;
    size_t i;

    while (pool->slabs != NULL) {
        slab = pool->slabs;
        pool->slabs = slab->next;
        for (i = 0; context->request_cleanup != NULL && i < slab->count; i++) {
            context->request_cleanup(slab->objects + i * pool->object_size + CW_REQUEST_SIZE);
        }
        free(slab);
    }
    free(pool->bottom);
    pool->top = NULL;
    pool->bottom = NULL;
    pool->num_objects = 0;
}

/* Grows the array to this many objects, none of which is free. */
static int make_space(struct cw_request_pool *pool, size_t num_objects)
{
    struct cw_request **bottom = (num_objects > SIZE_MAX / sizeof(*bottom)) ? NULL :
                                 realloc(pool->bottom, num_objects * sizeof(*bottom));

    if (bottom != NULL) {
        pool->bottom = bottom;
        pool->top = bottom;
    }
    return bottom != NULL;
}

static CW_COLD int pool_grow(struct ucp_worker *worker)
{
    struct cw_request_pool *pool = &worker->requests;
    struct cw_request_slab *slab;
    struct cw_request *request;
    size_t size, i;

    if (__builtin_mul_overflow(pool->object_size, pool->slab_objects, &size)) {
        return 0;
    }
    slab = (size > SIZE_MAX / 2) ? NULL : aligned_alloc(16, sizeof(*slab) + size);
    if (slab == NULL || !make_space(pool, pool->num_objects + pool->slab_objects)) {
        free(slab);
        return 0;
    }
    slab->next = pool->slabs;
    slab->count = pool->slab_objects;
    pool->slabs = slab;
    pool->num_objects += slab->count;
    for (i = slab->count; i-- > 0;) {
        request = (struct cw_request *)(void *)(slab->objects + i * pool->object_size);
        *request = (struct cw_request){.worker = worker, .flags = CW_REQUEST_IN_POOL};
        cw_list_init(&request->link);
        *pool->top++ = request;
        /* Open MPI's request_init leaves the error of a status as it is, and so does the end of a cancelled send. */
        memset(cw_request_handle(request), 0, pool->object_size - CW_REQUEST_SIZE);
        if (worker->context->request_init != NULL) {
            worker->context->request_init(cw_request_handle(request));
        }
    }
    if (pool->slab_objects < MAX_SLAB_OBJECTS) {
        pool->slab_objects *= 2;
    }
    return 1;
}

/* Brings a request into the state that the pool requires. */
static inline void make_clean(struct cw_request *request)
{
    cw_list_init(&request->link);
    request->ep = NULL;
    request->send = NULL;
    request->release = NULL;
    request->outstanding = 0;
}

CW_NOINLINE struct cw_request *cw_request_get_other(struct ucp_worker *worker, const ucp_request_param_t *param)
{
    struct cw_request *request;

    if (param != NULL && (param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST)) {
        request = cw_request_of(param->request);
        request->worker = worker;
        request->flags = CW_REQUEST_USER_MEMORY;
        make_clean(request);
        return request;
    }
    return pool_grow(worker) ? cw_request_pool_take(worker) : NULL;
}

struct cw_request *cw_request_get(struct ucp_worker *worker, const ucp_request_param_t *param,
                                  enum cw_request_kind kind)
{
    return cw_request_get_inline(worker, param, kind);
}

/* Returns a request to the pool; `flags`: those that stay. */
static inline void put_back(struct cw_request *request, unsigned flags)
{
    make_clean(request);
    cw_request_pool_put(&request->worker->requests, request, flags);
}

void cw_request_put(struct cw_request *request)
{
    if (cw_unlikely(request->worker->trace != NULL) && !(request->flags & CW_REQUEST_COMPLETED)) {
        cw_trace_request(request, CW_TRACE_END, 0, 0, 0, UCS_OK); /* its operation ended in the call */
    }
    if (!(request->flags & CW_REQUEST_USER_MEMORY)) {
        put_back(request, request->flags);
    }
}

ucs_status_ptr_t cw_request_give_up(struct cw_request *request, ucs_status_t status)
{
    if (request->release != NULL) {
        request->release(request);
    }
    cw_request_put(request);
    return UCS_STATUS_PTR(status);
}

static inline void run_callback(struct cw_request *request, ucs_status_t status)
{
    void *handle = cw_request_handle(request);

    if (cw_likely(request->kind == CW_REQUEST_TAG_RECV)) {
        request->cb.tag_recv(handle, status, &request->info, request->user_data);
    } else if (cw_likely(request->kind == CW_REQUEST_SEND)) {
        request->cb.send(handle, status, request->user_data);
    } else if (request->kind == CW_REQUEST_STREAM_RECV) {
        request->cb.stream_recv(handle, status, request->info.length, request->user_data);
    } else {
        assert(request->kind == CW_REQUEST_AM_RECV);
        request->cb.am_recv(handle, status, request->info.length, request->user_data);
    }
}

CW_NOINLINE void cw_request_called(struct cw_request *request)
{
    const unsigned flags = request->flags & ~(unsigned)CW_REQUEST_IN_CALLBACK;

    request->flags = (uint16_t)flags;
    if (flags & CW_REQUEST_RELEASED) {
        put_back(request, flags);
    }
}

void cw_request_complete(struct cw_request *request, ucs_status_t status)
{
    unsigned flags;

    assert(!(request->flags & (CW_REQUEST_COMPLETED | CW_REQUEST_IN_POOL)));
    assert(request->outstanding == 0);
    if (cw_unlikely(request->worker->trace != NULL)) {
        cw_trace_request(request, CW_TRACE_END, 0, 0, 0, status);
    }
    if (request->release != NULL) {
        request->release(request);
    }
    if (request->ep != NULL) {
        cw_ep_unused(request->ep); /* a closed endpoint may have waited for this request only */
    }
    flags = request->flags | CW_REQUEST_COMPLETED;
    if (cw_likely((flags & (CW_REQUEST_CALLBACK | CW_REQUEST_USER_MEMORY)) == CW_REQUEST_CALLBACK)) {
        request->flags = (uint16_t)(flags | CW_REQUEST_IN_CALLBACK);
        cw_request_set_status(request, status);
        run_callback(request, status);
        cw_request_called(request);
        return;
    }
    request->flags = (uint16_t)flags;
    cw_request_set_status(request, status);
    if (flags & CW_REQUEST_CALLBACK) {
        run_callback(request, status); /* the callback may reuse or free the memory, which is not touched afterwards */
    } else if (flags & CW_REQUEST_RELEASED) {
        put_back(request, flags);
    }
}

void cw_request_release(struct cw_request *request, int keep_callback)
{
    if (request->flags & (CW_REQUEST_USER_MEMORY | CW_REQUEST_RELEASED | CW_REQUEST_IN_POOL)) {
        return; /* the memory is the user's, or the request was released before */
    }
    request->flags |= CW_REQUEST_RELEASED;
    if (!(request->flags & CW_REQUEST_COMPLETED)) {
        request->flags &= (uint16_t)(keep_callback ? ~0 : ~CW_REQUEST_CALLBACK);
    } else if (!(request->flags & CW_REQUEST_IN_CALLBACK)) {
        put_back(request, request->flags);
    }
}
