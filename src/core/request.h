/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: what a non-blocking call returns when it is not done yet. An object is
 *
 *      | head (struct cw_request) | state of the operation | user area ...
 *      ^ CW_REQUEST_SIZE bytes below the handle            ^ handle = what the user holds
 *
 * The state is a struct of the operation's own file, reached by cw_request_state. Objects come from the worker's pool,
 * which runs request_init once per object, on zeroed memory, and never gives memory back before the worker ends, so
 * that a freed handle still reads as completed; or from the user (FIELD_REQUEST). All functions require the worker
 * entered.
 */
#ifndef CW_CORE_REQUEST_H
#define CW_CORE_REQUEST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "ucp/api/ucp.h"

/* Private bytes below a handle; reported by ucp_context_query (at most 256). */
#define CW_REQUEST_SIZE 240

enum cw_request_flags {
    CW_REQUEST_COMPLETED = 1 << 0,
    CW_REQUEST_CALLBACK = 1 << 1, /* the callback is called at completion; the bit of FIELD_CALLBACK */
    CW_REQUEST_RELEASED = 1 << 2, /* the user released it */
    CW_REQUEST_IN_CALLBACK = 1 << 3,
    CW_REQUEST_USER_MEMORY = 1 << 4,
    CW_REQUEST_IN_POOL = 1 << 5,
    CW_REQUEST_WAITING = 1 << 6, /* on its endpoint's pending or blocked list; core/ep.h */
    CW_REQUEST_FAST = 1 << 7, /* a tag receive of contiguous memory that is not traced */
    CW_REQUEST_SHARED = 1 << 8, /* with PLAIN: of a worker with a lock */
    CW_REQUEST_HANDED_OVER = 1 << 9, /* waits only for the next progress; core/ep.h */
    CW_REQUEST_TYPED = 1 << 11 /* a put or get: the bits behind encode the memory type of its buffer */
};

#define CW_REQUEST_TYPE_SHIFT 12

/* The flags of a plain receive whose callback frees it. */
#define CW_REQUEST_FAST_CALLED \
    (CW_REQUEST_FAST | CW_REQUEST_CALLBACK | CW_REQUEST_COMPLETED | CW_REQUEST_IN_CALLBACK)
#define CW_REQUEST_FAST_RELEASED (CW_REQUEST_FAST_CALLED | CW_REQUEST_RELEASED)

enum cw_request_kind {
    CW_REQUEST_NONE,
    CW_REQUEST_SEND,     /* callback of the send type: sends, flush, close */
    CW_REQUEST_TAG_RECV, /* callback with struct ucp_tag_recv_info */
    CW_REQUEST_STREAM_RECV, /* callback with the length, info.length */
    CW_REQUEST_AM_RECV   /* callback with the length, info.length */
};

struct cw_request {
    struct cw_list link;           /* on its endpoint's pending or inflight list, on a list of the operation, or
                                      initialised */
    struct ucp_worker *worker;
    struct ucp_ep *ep;             /* NULL for receives */
    union {
        ucp_send_nbx_callback_t send;
        ucp_tag_recv_nbx_callback_t tag_recv;
        ucp_stream_recv_nbx_callback_t stream_recv;
        ucp_am_recv_data_nbx_callback_t am_recv;
    } cb;
    void *user_data;
    /* Attempts a queued operation once. UCS_OK: done; UCS_INPROGRESS: the transport has accepted it and will complete
     * it; UCS_ERR_NO_RESOURCE: retry; CW_LATER: requeue at the end; other errors end the request. The attempt never
     * completes the request itself. */
    ucs_status_t (*send)(struct cw_request *request);
    /* Releases the resources that the operation has outside of the request; called once, before completion, if not
     * NULL. */
    void (*release)(struct cw_request *request);
    uint16_t flags;
    ucs_status_t status;
    uint8_t kind;
    uint32_t outstanding;          /* zcopy sends that the transport has not completed; while there are any, the request
                                      is not completed */
    ucp_tag_recv_info_t info;      /* of receives; valid once completed */
};

#define CW_REQUEST_STATE_SIZE (CW_REQUEST_SIZE - sizeof(struct cw_request))

struct cw_request_slab;

/* Free requests stand in an array and not in a list, because a list adds a dependent load: each request links the next
 * one. */
struct cw_request_pool {
    struct cw_request **top;             /* behind the next free one. For each free one link is initialised, ep, send
                                            and release are NULL, outstanding is 0 */
    struct cw_request **bottom;          /* capacity for all objects */
    struct cw_request_slab *slabs;
    size_t object_size;
    size_t num_objects;
    unsigned slab_objects;              /* size of the next slab */
};

static inline bool cw_request_pool_is_empty(const struct cw_request_pool *pool)
{
    return pool->top == pool->bottom;
}

/* The number of requests that were taken and not returned. */
static inline size_t cw_request_pool_in_use(const struct cw_request_pool *pool)
{
    return pool->num_objects - (size_t)(pool->top - pool->bottom);
}

static inline void *cw_request_handle(struct cw_request *request)
{
    return (char *)request + CW_REQUEST_SIZE;
}

static inline struct cw_request *cw_request_of(void *handle)
{
    return (struct cw_request *)(void *)((char *)handle - CW_REQUEST_SIZE);
}

static inline void *cw_request_state(struct cw_request *request)
{
    return request + 1;
}

void cw_request_pool_init(struct cw_request_pool *pool, size_t user_size);
/* Runs request_cleanup for every object and frees the memory. */
void cw_request_pool_cleanup(struct cw_request_pool *pool, const struct ucp_context *context);

/* A request for `param` (NULL: all defaults): the user's memory, or a request of the pool; its head is filled from the
 * attributes. NULL: out of memory. */
struct cw_request *cw_request_get(struct ucp_worker *worker, const ucp_request_param_t *param,
                                  enum cw_request_kind kind);
/* The slow cases of cw_request_get_inline of core/worker.h: the user's memory, or an empty pool. */
struct cw_request *cw_request_get_other(struct ucp_worker *worker, const ucp_request_param_t *param);

/* Returns a request whose handle the user did not receive. */
void cw_request_put(struct cw_request *request);

/* As cw_request_put, for a request that owns resources. Returns what the call returns. */
ucs_status_ptr_t cw_request_give_up(struct cw_request *request, ucs_status_t status);

/* Ends an operation: sets the status, runs the callback, then returns the request to the pool if the user released it.
 * */
void cw_request_complete(struct cw_request *request, ucs_status_t status);

/* Returns a request in the state that the pool requires, with these flags. */
static inline void cw_request_pool_put(struct cw_request_pool *pool, struct cw_request *request, unsigned flags)
{
    assert(!(request->flags & (CW_REQUEST_IN_POOL | CW_REQUEST_USER_MEMORY)));
    assert(request->ep == NULL && request->send == NULL && request->release == NULL && request->outstanding == 0);
    assert(cw_list_empty(&request->link));
    assert(cw_request_pool_in_use(pool) > 0);
    request->flags = (uint16_t)(flags | CW_REQUEST_IN_POOL);
    *pool->top++ = request;
}

/* Stores the results before the status, because another thread may poll the status without the lock
 * (ucp_request_check_status). */
static inline void cw_request_set_status(struct cw_request *request, ucs_status_t status)
{
    __atomic_store_n(&request->status, status, __ATOMIC_RELEASE);
}

/* Call after the callback; not for a request in the user's memory. */
void cw_request_called(struct cw_request *request);

/* The user releases a handle. keep_callback distinguishes ucp_request_release from ucp_request_free. A repeated call is
 * a no-op. */
void cw_request_release(struct cw_request *request, int keep_callback);

#endif
