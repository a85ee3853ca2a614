/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls on requests.
 */
#include <stdio.h>

#include "api/call.h"
#include "config/value.h"
#include "msg/send.h"
#include "tag/tag.h"

/* Lock-free, from any thread: the status is the last store of completion. */
static ucs_status_t status_of(const struct cw_request *request)
{
    return __atomic_load_n(&request->status, __ATOMIC_ACQUIRE);
}

/* Also lock-free: other threads change none of the bits that are returned. */
static CW_READS_UNLOCKED unsigned flags_of(const struct cw_request *req)
{
    return req->flags;
}

ucs_status_t ucp_request_check_status(void *request)
{
    return status_of(cw_request_of(request));
}

ucs_status_t ucp_tag_recv_request_test(void *request, ucp_tag_recv_info_t *info)
{
    const struct cw_request *req = cw_request_of(request);
    ucs_status_t status = status_of(req);

    if (status != UCS_INPROGRESS) {
        *info = req->info;
    }
    return status;
}

ucs_status_t ucp_request_test(void *request, ucp_tag_recv_info_t *info)
{
    const struct cw_request *req = cw_request_of(request);
    ucs_status_t status = status_of(req);

    if (status != UCS_INPROGRESS && req->kind == CW_REQUEST_TAG_RECV && info != NULL) {
        *info = req->info;
    }
    return status;
}

static CW_NOINLINE void release_locked(struct cw_request *req, int keep_callback)
{
    ucp_worker_h worker = req->worker;

    cw_lock_enter_inline(&worker->lock);
    if (cw_likely(req->flags == (CW_REQUEST_FAST_CALLED | CW_REQUEST_SHARED))) {
        req->flags |= CW_REQUEST_RELEASED;
    } else {
        cw_request_release(req, keep_callback);
    }
    cw_lock_leave_inline(&worker->lock);
}

static CW_NOINLINE void release_other(struct cw_request *req, int keep_callback)
{
    if (flags_of(req) & CW_REQUEST_USER_MEMORY) {
        return; /* memory of the program, which may already be freed */
    }
    if (cw_likely(!req->worker->mt)) {
        cw_request_release(req, keep_callback);
    } else {
        release_locked(req, keep_callback);
    }
}

static CW_COLD void release_nothing(int keep_callback)
{
    (void)cw_call_is_missing(keep_callback ? "ucp_request_release" : "ucp_request_free", "request");
}

/* Usually called by the callback: the request is then released when the callback has returned. */
static CW_INLINE void release(void *request, int keep_callback)
{
    struct cw_request *req;

    if (cw_unlikely(request == NULL)) {
        release_nothing(keep_callback);
        return;
    }
    req = cw_request_of(request);
    if (cw_likely(flags_of(req) == CW_REQUEST_FAST_CALLED)) {
        req->flags = CW_REQUEST_FAST_RELEASED;
    } else {
        release_other(req, keep_callback);
    }
}

void ucp_request_free(void *request)
{
    release(request, 0);
}

void ucp_request_release(void *request)
{
    release(request, 1);
}

static CW_INLINE void cancel(struct cw_request *req)
{
    cw_tag_cancel(req);
    cw_send_cancel(req);
}

static CW_NOINLINE void cancel_locked(ucp_worker_h worker, struct cw_request *req)
{
    cw_lock_enter_inline(&worker->lock);
    cancel(req);
    cw_lock_leave_inline(&worker->lock);
}

void ucp_request_cancel(ucp_worker_h worker, void *request)
{
    CW_CALL_RETURN_IF_NULL(request, "request", );
    if (cw_likely(!worker->mt)) {
        cancel(cw_request_of(request));
    } else {
        cancel_locked(worker, cw_request_of(request));
    }
}

void *ucp_request_alloc(ucp_worker_h worker CW_UNUSED)
{
    return NULL;
}

/* The memory type of the request's buffer. */
static ucs_memory_type_t memory_type_of(const struct cw_request *request)
{
    const struct cw_dt_cursor *cursor = (const void *)(request + 1); /* the state of receives begins with it */

    if (flags_of(request) & CW_REQUEST_TYPED) {
        return (ucs_memory_type_t)(flags_of(request) >> CW_REQUEST_TYPE_SHIFT);
    }
    switch (request->kind) {
    case CW_REQUEST_TAG_RECV:
        return (flags_of(request) & CW_REQUEST_FAST) ? UCS_MEMORY_TYPE_HOST :
               cw_dt_memory_type(&((const struct cw_tag_recv_state *)(const void *)(request + 1))->cursor);
    case CW_REQUEST_AM_RECV:
    case CW_REQUEST_STREAM_RECV:
        return cw_dt_memory_type(cursor);
    default:
        return cw_send_memory_type(request);
    }
}

ucs_status_t ucp_request_query(void *request, ucp_request_attr_t *attr)
{
    const uint64_t text_fields = UCP_REQUEST_ATTR_FIELD_INFO_STRING | UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE;
    const struct cw_request *req;
    ucs_status_t status;

    CW_CALL_RETURN_IF_NULL(request, "request", UCS_ERR_INVALID_PARAM);
    req = cw_request_of(request);
    status = status_of(req);
    if (flags_of(req) & CW_REQUEST_IN_POOL) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_INFO_STRING) {
        const char *memory = cw_words_memory_type[memory_type_of(req)];

        if ((attr->field_mask & text_fields) != text_fields) {
            return UCS_ERR_INVALID_PARAM;
        }
        if (req->kind == CW_REQUEST_TAG_RECV || req->kind == CW_REQUEST_STREAM_RECV) {
            snprintf(attr->debug_string, attr->debug_string_size, "recv length %zu %s memory: %s", req->info.length,
                     memory, ucs_status_string(status));
        } else {
            snprintf(attr->debug_string, attr->debug_string_size, "send length %zu %s memory: %s",
                     cw_send_length(req), memory, ucs_status_string(status));
        }
    }
    if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_STATUS) {
        attr->status = status;
    }
    if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_MEM_TYPE) {
        attr->mem_type = memory_type_of(req);
    }
    return UCS_OK;
}
