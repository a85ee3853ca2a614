/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting tag receives, probing, receiving probed messages, cancelling.
 */
#include "tag/tag.h"

#include "base/bytes.h"
#include "tag/desc.h"

static void tag_recv_release(struct cw_request *request)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    cw_dt_finish(&state->cursor);
}

static CW_NOINLINE ucs_status_t start_other(struct cw_request *request, ucp_datatype_t datatype, void *buffer,
                                            size_t count)
{
    struct cw_dt_cursor *cursor = cw_tag_cursor(request);
    ucs_status_t status = cw_dt_start(cursor, datatype, buffer, count, CW_DT_RECV);

    request->release = tag_recv_release;
    if (status == UCS_OK) {
        status = cw_dt_keep(cursor);
        if (status != UCS_OK) {
            cw_dt_finish(cursor);
        }
    }
    if (status != UCS_OK) {
        cw_request_put(request);
    }
    return status;
}

static inline uint16_t fast_flags(const struct ucp_worker *worker)
{
    return cw_likely(!worker->mt) ? CW_REQUEST_FAST : CW_REQUEST_FAST | CW_REQUEST_SHARED;
}

/* Allocates the request of a receive. NULL: the reason is in *status_p. */
static CW_INLINE struct cw_request *new_receive(struct ucp_worker *worker, void *buffer, size_t count,
                                                const ucp_request_param_t *param, ucs_status_t *status_p)
{
    const ucp_datatype_t datatype = cw_dt_of_param(param);
    struct cw_request *request = cw_request_get_inline(worker, param, CW_REQUEST_TAG_RECV);
    struct cw_tag_recv_state *state;

    if (cw_unlikely(request == NULL)) {
        *status_p = UCS_ERR_NO_MEMORY;
        return NULL;
    }
    state = cw_request_state(request);
    state->status = UCS_OK;
    state->since = worker->moment;
    request->flags |= (cw_dt_is_contig(datatype) && worker->trace == NULL) ? fast_flags(worker) : 0;
    request->info.sender_tag = 0;
    request->info.length = 0;
    cw_tag_recv_init(&state->match);
    if (cw_likely(cw_dt_is_contig(datatype))) { /* nothing to release */
        cw_dt_start_contig(&state->cursor, buffer, cw_dt_contig_length(datatype, count));
        return request;
    }
    *status_p = start_other(request, datatype, buffer, count);
    return (*status_p == UCS_OK) ? request : NULL;
}

/* The whole message arrived. Without NO_IMM_CMPL the call itself returns the result. A request in the user's memory is
 * marked complete as well, because programs poll it and ignore the result of the call. */
static ucs_status_ptr_t complete_now(struct cw_request *request, const ucp_request_param_t *param)
{
    struct cw_tag_recv_state *state = cw_request_state(request);
    ucs_status_t status = state->status;

    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        cw_request_complete(request, status);
        return cw_request_handle(request);
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO) && status == UCS_OK) {
        *param->recv_info.tag_info = request->info;
    }
    request->flags |= CW_REQUEST_COMPLETED;
    request->status = status;
    cw_trace_note(request, CW_TRACE_END, 0, 0, request->info.length);
    return cw_request_give_up(request, status);
}

static ucs_status_ptr_t take_announced(struct cw_request *request, struct ucp_recv_desc *desc,
                                       const ucp_request_param_t *param)
{
    struct cw_tag_recv_state *state = cw_request_state(request);
    ucs_status_t status = cw_tag_fetch(desc, request);

    if (status == UCS_INPROGRESS) {
        return cw_request_handle(request);
    }
    state->status = status;
    return complete_now(request, param);
}

/* Delivers a message that is in no queue any more to a receive. */
static ucs_status_ptr_t take_message(struct cw_request *request, struct ucp_recv_desc *desc,
                                     const ucp_request_param_t *param)
{
    cw_tag_begin(request, desc->match.tag, desc->in.total);
    if (desc->aborted) {
        cw_tag_desc_free(request->worker, desc);
        ((struct cw_tag_recv_state *)cw_request_state(request))->status = UCS_ERR_CONNECTION_RESET;
        return complete_now(request, param);
    }
    if (desc->announced) {
        return take_announced(request, desc, param);
    }
    if (desc->in.received < desc->in.total) {
        cw_dt_gather(cw_tag_cursor(request), desc->in.total);
    }
    cw_tag_store(request, desc->data, desc->in.received);
    cw_tag_matched(request->worker, desc);
    if (desc->in.received == desc->in.total) {
        cw_reassembly_detach(&desc->in);
        cw_tag_desc_free(request->worker, desc);
        return complete_now(request, param);
    }
    desc->request = request;
    return cw_request_handle(request);
}

/* `message`: the matching message, still queued; NULL: there is none. */
static CW_INLINE ucs_status_ptr_t receive(struct ucp_worker *worker, void *buffer, size_t count, ucp_tag_t tag,
                                          ucp_tag_t mask, struct cw_tag_message *message,
                                          const ucp_request_param_t *param)
{
    struct cw_tag_matcher *matcher = &worker->tag->matcher;
    struct cw_tag_recv_state *state;
    struct ucp_recv_desc *desc;
    struct cw_request *request;
    ucs_status_t status;

    request = new_receive(worker, buffer, count, param, &status);
    if (cw_unlikely(request == NULL)) {
        return UCS_STATUS_PTR(status);
    }
    state = cw_request_state(request);
    cw_trace_note(request, CW_TRACE_BEGIN, CW_COUNT_TAG_RECEIVED, tag, state->cursor.length);
    if (message != NULL) {
        desc = cw_container_of(message, struct ucp_recv_desc, match);
        cw_tag_matcher_remove_message(matcher, message);
        cw_tag_dequeued(worker, desc);
        return take_message(request, desc, param);
    }
    if (cw_unlikely(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)) {
        return cw_request_give_up(request, UCS_ERR_NO_RESOURCE);
    }
    cw_tag_matcher_queue(matcher, &state->match, tag, mask);
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_tag_recv(struct ucp_worker *worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t mask,
                             const ucp_request_param_t *param)
{
    return receive(worker, buffer, count, tag, mask,
                   cw_tag_matcher_probe(&worker->tag->matcher, tag, mask, false), param);
}

/* Whether the call itself can copy the message to contiguous memory of that length: it is complete, and it fits. */
static inline bool is_here(const struct ucp_recv_desc *desc, size_t length, const ucp_request_param_t *param)
{
    return !(param->op_attr_mask & (UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_REQUEST)) && !desc->announced &&
           desc->in.received == desc->in.total && desc->in.total <= length;
}

/* Copies such a message without a request. The message is in no queue any more. */
static CW_INLINE ucs_status_ptr_t take_here(struct ucp_worker *worker, void *buffer, struct ucp_recv_desc *desc,
                                            const ucp_request_param_t *param)
{
    const uint64_t total = desc->in.total;

    cw_count_message(worker, CW_COUNT_TAG_RECEIVED, total);
    cw_bytes_copy_short(buffer, desc->data, total);
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO) {
        *param->recv_info.tag_info = (ucp_tag_recv_info_t){.sender_tag = desc->match.tag, .length = total};
    }
    cw_tag_matched(worker, desc);
    cw_reassembly_detach(&desc->in);
    cw_tag_desc_free(worker, desc);
    return UCS_STATUS_PTR(UCS_OK);
}

/* The request of a receive into contiguous host memory, from the pool, which must not be empty. It sets only those
 * members that are read before they are written again. */
static CW_INLINE struct cw_request *take_fast(struct ucp_worker *worker, void *buffer, size_t length,
                                              const ucp_request_param_t *param, unsigned flags)
{
    struct cw_request *request = cw_request_pool_take(worker);
    struct cw_tag_recv_state *state = cw_request_state(request);

    state->cursor.length = length; /* cw_tag_request_full sets the other members */
    state->cursor.contig = buffer;
    state->since = worker->moment;
    cw_request_start(request, param, param->op_attr_mask, CW_REQUEST_TAG_RECV, flags);
    return request;
}

static CW_INLINE struct cw_tag_recv *match_of(struct cw_request *request)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    return &state->match;
}

static CW_NOINLINE ucs_status_ptr_t post_beside(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                                ucp_tag_t mask, const ucp_request_param_t *param)
{
    struct cw_request *request;

    if (cw_request_pool_is_empty(&worker->requests)) {
        return receive(worker, buffer, length, tag, mask, NULL, param);
    }
    request = take_fast(worker, buffer, length, param, fast_flags(worker));
    cw_tag_matcher_queue(&worker->tag->matcher, match_of(request), tag, mask);
    return cw_request_handle(request);
}

/* Receives a queued message by a request. */
static CW_NOINLINE ucs_status_ptr_t take_beside(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                                struct cw_tag_message *message, const ucp_request_param_t *param)
{
    return receive(worker, buffer, length, tag, UINT64_MAX, message, param);
}

/* Posts such a receive if messages are queued, or if the array or the request pool has no space. A complete message
 * needs no request. */
static CW_NOINLINE ucs_status_ptr_t recv_fast_beside(struct ucp_worker *worker, void *buffer, size_t length,
                                                     ucp_tag_t tag, ucp_tag_t mask, const ucp_request_param_t *param)
{
    struct cw_tag_matcher *matcher = &worker->tag->matcher;
    struct cw_tag_message *message = cw_tag_matcher_probe(matcher, tag, mask, false);
    struct ucp_recv_desc *desc;

    if (message == NULL) {
        return post_beside(worker, buffer, length, tag, mask, param);
    }
    desc = cw_container_of(message, struct ucp_recv_desc, match);
    if (!is_here(desc, length, param)) {
        return take_beside(worker, buffer, length, tag, message, param);
    }
    cw_tag_matcher_remove_message(matcher, message);
    cw_tag_dequeued(worker, desc);
    return take_here(worker, buffer, desc, param);
}

static CW_INLINE ucs_status_ptr_t recv_fast(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                            ucp_tag_t mask, const ucp_request_param_t *param, unsigned flags)
{
    struct cw_request *request;

    if (cw_unlikely(cw_request_pool_is_empty(&worker->requests) ||
                    !cw_tag_matcher_is_idle(&worker->tag->matcher))) {
        return recv_fast_beside(worker, buffer, length, tag, mask, param);
    }
    request = take_fast(worker, buffer, length, param, flags);
    cw_tag_matcher_post_array(&worker->tag->matcher, match_of(request), tag, mask);
    return cw_request_handle(request);
}

ucs_status_ptr_t cw_tag_recv_fast(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                  ucp_tag_t mask, const ucp_request_param_t *param)
{
    return recv_fast(worker, buffer, length, tag, mask, param, CW_REQUEST_FAST);
}

ucs_status_ptr_t cw_tag_recv_fast_locked(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                         ucp_tag_t mask, const ucp_request_param_t *param)
{
    return recv_fast(worker, buffer, length, tag, mask, param, CW_REQUEST_FAST | CW_REQUEST_SHARED);
}

ucs_status_ptr_t cw_tag_recv_message(struct ucp_worker *worker, void *buffer, size_t count,
                                     struct ucp_recv_desc *message, const ucp_request_param_t *param)
{
    const ucp_datatype_t datatype = cw_dt_of_param(param);
    struct cw_request *request;
    ucs_status_t status;

    if (cw_likely(cw_dt_is_contig(datatype) && is_here(message, cw_dt_contig_length(datatype, count), param) &&
                  worker->trace == NULL)) {
        return take_here(worker, buffer, message, param);
    }
    request = new_receive(worker, buffer, count, param, &status);
    if (cw_unlikely(request == NULL)) {
        return UCS_STATUS_PTR(status);
    }
    return take_message(request, message, param);
}

struct ucp_recv_desc *cw_tag_probe(struct ucp_worker *worker, ucp_tag_t tag, ucp_tag_t mask, int remove,
                                   ucp_tag_recv_info_t *info)
{
    struct cw_tag_message *message = cw_tag_matcher_probe(&worker->tag->matcher, tag, mask, remove != 0);
    struct ucp_recv_desc *desc;

    if (message == NULL) {
        return NULL;
    }
    desc = cw_container_of(message, struct ucp_recv_desc, match);
    info->sender_tag = desc->match.tag;
    info->length = desc->in.total;
    if (remove) {
        cw_tag_dequeued(worker, desc);
    }
    return desc;
}

void cw_tag_cancel(struct cw_request *request)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    if (request->kind == CW_REQUEST_TAG_RECV && !(request->flags & (CW_REQUEST_COMPLETED | CW_REQUEST_IN_POOL)) &&
        cw_tag_matcher_cancel(&request->worker->tag->matcher, &state->match)) {
        cw_request_complete(request, UCS_ERR_CANCELED);
    }
}
