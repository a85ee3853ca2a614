/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive and release of active message data by the program. Both may happen in the handler or at any later time. A
 * call whose arguments are valid takes ownership of the descriptor, whatever its result; a call with invalid arguments
 * changes nothing.
 */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "am/desc.h"
#include "base/log.h"

struct cw_am_desc *cw_am_desc_new(const struct ucp_worker *worker, uint64_t data_length, uint32_t header_length,
                                  enum cw_am_desc_state state)
{
    const int has_data = state == CW_AM_DESC_PIECES || state == CW_AM_DESC_EAGER;
    const size_t align = (has_data && worker->am_alignment > alignof(struct cw_am_desc)) ? worker->am_alignment :
                         alignof(struct cw_am_desc);
    const size_t front = (sizeof(struct cw_am_desc) + align - 1) & ~(align - 1);
    struct cw_am_desc *desc;
    size_t size;
    char *memory;

    if (data_length > PTRDIFF_MAX / 2 || align > PTRDIFF_MAX / 4) {
        return NULL;
    }
    size = front + (size_t)data_length + header_length;
    memory = (align <= alignof(max_align_t)) ? malloc(size) : aligned_alloc(align, (size + align - 1) & ~(align - 1));
    if (memory == NULL) {
        return NULL;
    }
    desc = cw_am_desc_of(memory + front);
    *desc = (struct cw_am_desc){.memory = memory, .magic = CW_AM_DESC_MAGIC, .state = (uint8_t)state & 0x7};
    cw_list_init(&desc->in.link);
    return desc;
}

struct cw_am_desc *cw_am_desc_lend(const struct ucp_worker *worker, struct cw_conn *lane, const void *packet,
                                   size_t offset)
{
    const size_t align = (worker->am_alignment > alignof(struct cw_am_desc)) ? worker->am_alignment :
                         alignof(struct cw_am_desc);
    struct cw_am_desc *desc;
    void *retained;

    if (lane->iface->limits.keep_space + offset < sizeof(*desc) || ((uintptr_t)packet + offset) % align != 0) {
        return NULL;
    }
    retained = cw_lane_keep(lane, packet);
    if (retained == NULL) {
        return NULL;
    }
    desc = cw_am_desc_of((char *)(uintptr_t)packet + offset);
    *desc = (struct cw_am_desc){.memory = retained,
                               .lender = lane->iface,
                               .magic = CW_AM_DESC_MAGIC,
                               .state = CW_AM_DESC_EAGER,
                               .is_lent = 1};
    cw_list_init(&desc->in.link);
    return desc;
}

void cw_am_desc_free(struct cw_am_desc *desc)
{
    desc->magic = 0;
    if (desc->is_lent) {
        cw_iface_give_back(desc->lender, desc->memory);
        return;
    }
    free(desc->growing); /* or its keys */
    free(desc->memory);
}

void cw_am_desc_use(struct cw_am_desc *desc)
{
    if (desc->in_handler) {
        desc->state = CW_AM_DESC_USED;
    } else {
        cw_am_desc_free(desc);
    }
}

/* Completes a receive that is on state->through. */
static void complete_one(struct cw_list *link)
{
    struct cw_request *request = cw_container_of(link, struct cw_request, link);
    const struct cw_am_recv_state *state = cw_request_state(request);

    cw_list_remove(link);
    cw_request_complete(request, state->status);
}

/* Completes the receives of earlier rounds of progress. Receives of this round wait for a later one. */
static bool complete_all(struct cw_job *job)
{
    struct cw_am_state *am = cw_container_of(job, struct cw_am_state, job);
    const struct cw_am_recv_state *state;
    struct cw_request *request;

    while (!cw_list_empty(&am->through)) {
        request = cw_list_head(&am->through, struct cw_request, link);
        state = cw_request_state(request);
        if (state->round == request->worker->round) {
            if (cw_list_empty(&job->link)) { /* otherwise a callback has added the job */
                cw_worker_add_job(request->worker, job);
            }
            return true;
        }
        complete_one(&request->link);
    }
    return true;
}

void cw_am_cleanup(struct cw_am_state *state)
{
    struct cw_list *link;

    while (!cw_list_empty(&state->through)) {
        complete_one(state->through.next);
    }
    while ((link = cw_list_pop_head(&state->retained)) != NULL) {
        cw_am_desc_free(cw_container_of(link, struct cw_am_desc, in.link));
    }
    cw_am_handlers_free(state);
}

/* Returns the descriptor of data that the program passes. NULL: this data must not be used any more. */
static struct cw_am_desc *desc_of(void *data)
{
    struct cw_am_desc *desc;

    if (cw_unlikely(data == NULL)) {
        cw_error("active message data is NULL");
        return NULL;
    }
    desc = cw_am_desc_of(data);
    assert(desc->magic == CW_AM_DESC_MAGIC);
    if (cw_likely(desc->magic == CW_AM_DESC_MAGIC &&
                  (desc->state == CW_AM_DESC_EAGER || desc->state == CW_AM_DESC_ANNOUNCED ||
                   desc->state == CW_AM_DESC_LOST))) {
        return desc;
    }
    cw_error("active message data %p was received or released already", data);
    return NULL;
}

/* The program does not receive this data. Sends `status` to the sender of an announced message. */
static void drop(struct cw_am_desc *desc, ucs_status_t status)
{
    const struct cw_offer offer = cw_am_desc_offer(desc);

    if (desc->state == CW_AM_DESC_ANNOUNCED) {
        cw_rndv_recv_refuse(desc->in.ep, &offer, status);
        cw_reassembly_detach(&desc->in);
    } else {
        cw_list_remove(&desc->in.link);
    }
    cw_am_desc_use(desc);
}

void cw_am_data_release(struct ucp_worker *worker, void *data)
{
    const struct cw_am_current *current = worker->am->current;
    struct cw_am_desc *desc;

    if (current != NULL && current->data == data) {
        cw_error("active message data %p cannot be released: its handler did not retain it", data);
        return;
    }
    desc = desc_of(data);
    if (desc != NULL) {
        drop(desc, UCS_OK);
    }
}

static void recv_release(struct cw_request *request)
{
    struct cw_am_recv_state *state = cw_request_state(request);

    cw_dt_finish(&state->cursor);
    if (state->desc != NULL) {
        cw_am_desc_use(state->desc);
    }
}

static ucs_status_t new_receive(struct ucp_worker *worker, void *buffer, size_t count, const ucp_request_param_t *param,
                                struct cw_request **request_p)
{
    ucp_datatype_t datatype = cw_dt_of_param(param);
    struct cw_request *request = cw_request_get(worker, param, CW_REQUEST_AM_RECV);
    struct cw_am_recv_state *state;
    ucs_status_t status;

    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    state = cw_request_state(request);
    state->desc = NULL;
    request->release = recv_release;
    request->info = (ucp_tag_recv_info_t){0};
    status = cw_dt_start(&state->cursor, datatype, buffer, count, CW_DT_RECV);
    if (status == UCS_OK) {
        status = cw_dt_keep(&state->cursor);
        if (status != UCS_OK) {
            cw_dt_finish(&state->cursor);
        }
    }
    if (status != UCS_OK) {
        cw_request_put(request);
        return status;
    }
    *request_p = request;
    return UCS_OK;
}

/* Without NO_IMM_CMPL the call itself returns the result. A request in the user's memory is marked complete as well,
 * because some programs poll it and ignore the result of the call. */
static ucs_status_ptr_t complete_now(struct cw_request *request, const ucp_request_param_t *param, ucs_status_t status)
{
    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        cw_request_complete(request, status);
        return cw_request_handle(request);
    }
    if ((param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO) && status == UCS_OK) {
        *param->recv_info.length = request->info.length;
    }
    recv_release(request);
    request->flags |= CW_REQUEST_COMPLETED;
    request->status = status;
    cw_request_put(request);
    return UCS_STATUS_PTR(status);
}

/* The call already has the result of announced data. If it may not return the result, a later round of progress
 * completes the request: programs store the values that the callback of such a receive needs after the call, as the
 * reference allows. By that round a sender on this worker has its answer. */
static ucs_status_ptr_t complete_announced(struct cw_request *request, const ucp_request_param_t *param,
                                           ucs_status_t status)
{
    struct cw_am_recv_state *state = cw_request_state(request);
    struct cw_am_state *am = request->worker->am;

    if (!(param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
        return complete_now(request, param, status);
    }
    state->round = request->worker->round;
    state->status = status;
    cw_list_add_tail(&am->through, &request->link);
    if (cw_list_empty(&am->job.link)) {
        am->job.run = complete_all;
        cw_worker_add_job(request->worker, &am->job);
    }
    return cw_request_handle(request);
}

static ucs_status_ptr_t take_bytes(struct cw_request *request, const void *data, size_t length,
                                   const ucp_request_param_t *param)
{
    struct cw_am_recv_state *state = cw_request_state(request);
    ucs_status_t status = UCS_ERR_MESSAGE_TRUNCATED;

    request->info.length = length;
    if (length <= state->cursor.length) {
        status = cw_dt_unpack(&state->cursor, data, length);
    }
    return complete_now(request, param, status);
}

static ucs_status_ptr_t take_announced(struct cw_request *request, struct cw_am_desc *desc, size_t count,
                                       const ucp_request_param_t *param)
{
    const struct cw_offer offer = cw_am_desc_offer(desc);
    struct cw_am_recv_state *state = cw_request_state(request);
    struct ucp_ep *ep = desc->in.ep;
    ucs_status_t status;

    if (count == 0) {
        drop(desc, UCS_OK);
        return complete_announced(request, param, UCS_OK);
    }
    request->info.length = offer.length;
    desc->state = CW_AM_DESC_FETCHING;
    state->desc = desc;
    status = cw_rndv_recv_start(ep, &offer, request, &state->cursor);
    cw_reassembly_detach(&desc->in);
    if (status == UCS_INPROGRESS) {
        return cw_request_handle(request);
    }
    return complete_announced(request, param, status);
}

ucs_status_ptr_t cw_am_recv_data(struct ucp_worker *worker, void *data, void *buffer, size_t count,
                                 const ucp_request_param_t *param)
{
    struct cw_am_current *current = worker->am->current;
    struct cw_am_desc *desc = NULL;
    struct cw_request *request = NULL;
    struct cw_am_recv_state *state;
    ucs_status_t status;

    if (current != NULL && current->data == data) {
        if (current->taken) { /* as for data with a descriptor */
            cw_error("active message data %p was received already", data);
            return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
        }
        current->taken = 1;
    } else {
        desc = desc_of(data);
        if (desc == NULL) {
            return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
        }
    }
    status = new_receive(worker, buffer, count, param, &request);
    if (status == UCS_OK && desc != NULL && desc->state == CW_AM_DESC_LOST) {
        status = desc->status;
        state = cw_request_state(request);
        cw_dt_finish(&state->cursor);
        cw_request_put(request);
    }
    if (status != UCS_OK) {
        if (desc != NULL) {
            drop(desc, status);
        }
        return UCS_STATUS_PTR(status);
    }
    if (desc == NULL) {
        return take_bytes(request, data, current->length, param);
    }
    if (desc->state == CW_AM_DESC_ANNOUNCED) {
        return take_announced(request, desc, count, param);
    }
    state = cw_request_state(request);
    state->desc = desc;
    cw_list_remove(&desc->in.link);
    return take_bytes(request, data, desc->in.total, param);
}
