/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: what a non-blocking call returns when it is not done yet. One object is
 *
 *      | head (struct cw_request) | state of the operation | user area ...
 *      ^ CW_REQUEST_SIZE bytes below the handle            ^ handle = what the user holds (CTX-20, OPA-6)
 *
 * The state is a struct of the operation's own file, reached by cw_request_state. Objects come from the worker's pool,
 * which runs request_init once per object (CTX-23) and never gives memory back before the worker ends, so that a freed
 * handle still reads as completed (R5); or from the user (FIELD_REQUEST). All functions want the worker entered.
 */
#ifndef CW_CORE_REQUEST_H
#define CW_CORE_REQUEST_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/list.h"
#include "ucp/api/ucp.h"

/* Private bytes below a handle; reported by ucp_context_query (CTX-21, R7: at most 256). */
#define CW_REQUEST_SIZE 240

enum cw_request_flags {
    CW_REQUEST_COMPLETED   = 1 << 0,
    CW_REQUEST_CALLBACK    = 1 << 1, /* to be called at completion; the bit of FIELD_CALLBACK */
    CW_REQUEST_RELEASED    = 1 << 2, /* the user gave it back */
    CW_REQUEST_IN_CALLBACK = 1 << 3,
    CW_REQUEST_USER_MEMORY = 1 << 4,
    CW_REQUEST_IN_POOL     = 1 << 5,
    CW_REQUEST_WAITING     = 1 << 6, /* on its endpoint's pending or held list; core/ep.h */
    CW_REQUEST_PLAIN       = 1 << 7, /* a tag receive of contiguous memory, of which nothing is noted */
    CW_REQUEST_SHARED      = 1 << 8, /* with PLAIN: of a worker with a lock */
    CW_REQUEST_HANDED_OVER = 1 << 9  /* waits for nothing but the next progress; core/ep.h */
};

/* What a plain receive goes through whose callback frees it. */
#define CW_REQUEST_PLAIN_CALLED \
    (CW_REQUEST_PLAIN | CW_REQUEST_CALLBACK | CW_REQUEST_COMPLETED | CW_REQUEST_IN_CALLBACK)
#define CW_REQUEST_PLAIN_RELEASED (CW_REQUEST_PLAIN_CALLED | CW_REQUEST_RELEASED)

enum cw_request_kind {
    CW_REQUEST_NONE,
    CW_REQUEST_SEND,     /* callback of the send type: sends, flush, close */
    CW_REQUEST_TAG_RECV, /* callback with struct ucp_tag_recv_info */
    CW_REQUEST_STREAM_RECV, /* callback with the length, info.length */
    CW_REQUEST_AM_RECV   /* likewise */
};

struct cw_request {
    struct cw_list link;           /* on its endpoint's pending or inflight list, on a list of the operation, or
                                    * initialised */
    struct ucp_worker *worker;
    struct ucp_ep *ep;             /* NULL for receives */
    union {
        ucp_send_nbx_callback_t send;
        ucp_tag_recv_nbx_callback_t tag_recv;
        ucp_stream_recv_nbx_callback_t stream_recv;
        ucp_am_recv_data_nbx_callback_t am_recv;
    } cb;
    void *user_data;
    /* One attempt of a queued operation: UCS_OK done, UCS_INPROGRESS taken and completing by itself,
     * UCS_ERR_NO_RESOURCE later again, CW_LATER at the end of the queue, other errors end the request. Never completes
     * the request itself. */
    ucs_status_t (*send)(struct cw_request *request);
    /* Lets go of what the operation holds outside of the request; called once, before completion, when not NULL. */
    void (*release)(struct cw_request *request);
    uint16_t flags;
    ucs_status_t status;
    uint8_t kind;
    uint32_t outstanding;          /* zcopy sends that the transport has not given back: not to be completed yet */
    ucp_tag_recv_info_t info;      /* of receives; valid once completed */
};

#define CW_REQUEST_STATE_SIZE (CW_REQUEST_SIZE - sizeof(struct cw_request))

struct cw_request_chunk;

/* The free ones stand in an array, for who takes them from a list waits for each to tell the next. */
struct cw_request_pool {
    struct cw_request **top;             /* behind the one that is next; of each free one link is initialised, ep, send
                                          * and release are NULL, outstanding 0 */
    struct cw_request **bottom;          /* room for all objects */
    struct cw_request_chunk *chunks;
    size_t object_size;
    size_t num_objects;
    unsigned chunk_objects;              /* size of the next chunk */
};

static inline int cw_request_pool_is_empty(const struct cw_request_pool *pool)
{
    return pool->top == pool->bottom;
}

/* Handed out and not returned. */
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
/* Runs request_cleanup for every object and frees the memory (CTX-24). */
void cw_request_pool_cleanup(struct cw_request_pool *pool, const struct ucp_context *context);

/* A request for `param` (NULL: all defaults): the user's memory or one of the pool, head filled from the attributes.
 * NULL: no memory. */
struct cw_request *cw_request_get(struct ucp_worker *worker, const ucp_request_param_t *param,
                                  enum cw_request_kind kind);
/* For cw_request_get_inline of core/worker.h: memory of the user, or a pool that is empty. */
struct cw_request *cw_request_get_other(struct ucp_worker *worker, const ucp_request_param_t *param);

/* Takes back a request of which the user was never told. */
void cw_request_put(struct cw_request *request);

/* Ends an operation: status first, then the callback, then what the user released meanwhile (R3). */
void cw_request_complete(struct cw_request *request, ucs_status_t status);

/* Back into the pool, with these flags: one that is as the pool wants it. */
static inline void cw_request_pool_put(struct cw_request_pool *pool, struct cw_request *request, unsigned flags)
{
    assert(!(request->flags & (CW_REQUEST_IN_POOL | CW_REQUEST_USER_MEMORY)));
    assert(request->ep == NULL && request->send == NULL && request->release == NULL && request->outstanding == 0);
    assert(cw_list_empty(&request->link));
    assert(cw_request_pool_in_use(pool) > 0);
    request->flags = (uint16_t)(flags | CW_REQUEST_IN_POOL);
    *pool->top++   = request;
}

/* Another thread may poll the status without the lock (ucp_request_check_status): results first. */
static inline void cw_request_set_status(struct cw_request *request, ucs_status_t status)
{
    __atomic_store_n(&request->status, status, __ATOMIC_RELEASE);
}

/* The callback has returned; not of one in the user's memory. */
void cw_request_called(struct cw_request *request);

/* The user gives up a handle. keep_callback tells ucp_request_release from ucp_request_free (R4). Harmless when
 * repeated (R5). */
void cw_request_release(struct cw_request *request, int keep_callback);

#endif
