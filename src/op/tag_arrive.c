/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag packets arriving. Headers are copied out before they are checked, since the peer may still be able to write where
 * they lie. Pieces of one message come in order on its connection; anything else breaks the protocol.
 */
#include "op/tag.h"

#include <stdlib.h>

#include "base/log.h"
#include "op/op.h"
#include "wire/packet.h"

#define MAX_UNMATCHED_WARNINGS 16

void cw_tag_begin(struct cw_request *request, ucp_tag_t tag, uint64_t total)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    request->info = (ucp_tag_recv_info_t){.sender_tag = tag, .length = total};
    if (cw_unlikely(total > state->cursor.length)) {
        state->status = UCS_ERR_MESSAGE_TRUNCATED;
    }
}

void cw_tag_store(struct cw_request *request, const void *data, size_t length)
{
    struct cw_tag_recv_state *state = cw_request_state(request);

    if (cw_likely(state->status == UCS_OK)) {
        state->status = cw_dt_unpack(&state->cursor, data, length);
    }
}

static void finish(struct cw_request *request)
{
    const struct cw_tag_recv_state *state = cw_request_state(request);

    cw_request_complete(request, state->status);
}

void cw_tag_desc_detach(struct ucp_recv_desc *desc)
{
    struct ucp_ep *ep = desc->ep;

    if (ep != NULL) {
        desc->ep = NULL;
        cw_list_remove(&desc->ep_link);
        cw_ep_unused(ep);
    }
}

void cw_tag_desc_free(struct ucp_recv_desc *desc)
{
    struct cw_tag_chunk *chunk;

    while (desc->chunks != NULL) {
        chunk        = desc->chunks;
        desc->chunks = chunk->next;
        free(chunk);
    }
    free(desc);
}

void cw_tag_acknowledge(struct ucp_recv_desc *desc)
{
    if (desc->sync_id != 0 && desc->ep != NULL) {
        cw_ep_send_control(desc->ep, CW_PACKET_TAG_ACK, htole64(desc->sync_id));
    }
    desc->sync_id = 0;
}

static ucs_status_t add_chunk(struct ucp_recv_desc *desc, const void *data, size_t length)
{
    struct cw_tag_chunk *chunk = malloc(sizeof(*chunk) + length);

    if (chunk == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    chunk->next   = NULL;
    chunk->length = length;
    memcpy(chunk->data, data, length);
    if (desc->chunks == NULL) {
        desc->chunks = chunk;
    } else {
        desc->last->next = chunk;
    }
    desc->last = chunk;
    return UCS_OK;
}

/* A message that cannot be finished at once: keeps a copy of what came unless it is matched. */
static ucs_status_t new_desc(struct ucp_ep *ep, uint64_t total, const void *data, size_t length, int keep_data,
                             struct ucp_recv_desc **desc_p)
{
    size_t kept                = keep_data ? length : 0;
    struct ucp_recv_desc *desc = malloc(sizeof(*desc) + kept);

    if (desc == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *desc = (struct ucp_recv_desc){.total = total, .received = length, .ep = ep, .first_length = kept};
    memcpy(desc->first, data, kept);
    cw_list_init(&desc->ep_link);
    cw_list_add_tail(&ep->receiving, &desc->ep_link);
    *desc_p = desc;
    return UCS_OK;
}

static void enqueue(struct ucp_worker *worker, struct ucp_recv_desc *desc, uint64_t tag)
{
    desc->queued = 1;
    cw_tag_matcher_add_unexpected(&cw_op_state(worker)->tags, &desc->match, tag);
}

/* A message of one packet. */
static ucs_status_t arrive_whole(struct ucp_ep *ep, uint64_t tag, uint64_t sync_id, const char *data, size_t length)
{
    struct cw_tag_recv *match = cw_tag_matcher_arrive(&cw_op_state(ep->worker)->tags, tag);
    struct ucp_recv_desc *desc;
    struct cw_request *request;
    ucs_status_t status;

    if (cw_likely(match != NULL)) {
        request = cw_tag_request_of(match);
        cw_tag_begin(request, tag, length);
        cw_tag_store(request, data, length);
        if (sync_id != 0) {
            cw_ep_send_control(ep, CW_PACKET_TAG_ACK, htole64(sync_id));
        }
        finish(request);
        return UCS_OK;
    }
    status = new_desc(ep, length, data, length, 1, &desc);
    if (status != UCS_OK) {
        return status;
    }
    desc->sync_id = sync_id;
    if (sync_id == 0) {
        cw_tag_desc_detach(desc);
    }
    enqueue(ep->worker, desc, tag);
    return UCS_OK;
}

ucs_status_t cw_tag_on_eager(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_tag header;

    if (length < sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    return arrive_whole(ep, le64toh(header.tag), 0, (const char *)data + sizeof(header), length - sizeof(header));
}

ucs_status_t cw_tag_on_sync(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_wire_tag_sync header;

    if (length < sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    if (header.sync_id == 0) {
        return UCS_ERR_IO_ERROR;
    }
    return arrive_whole(ep, le64toh(header.tag), le64toh(header.sync_id), (const char *)data + sizeof(header),
                        length - sizeof(header));
}

/* The newest comes first: an honest sender has no other one open. NULL, and how many there are, if it is not known. */
static struct ucp_recv_desc *find_unfinished(struct ucp_ep *ep, uint32_t message, unsigned *count_p)
{
    struct ucp_recv_desc *desc;
    struct cw_list *link;

    *count_p = 0;
    for (link = ep->receiving.prev; link != &ep->receiving; link = link->prev) {
        desc = cw_container_of(link, struct ucp_recv_desc, ep_link);
        if (desc->received < desc->total) {
            if (desc->message == message) {
                return desc;
            }
            (*count_p)++;
        }
    }
    return NULL;
}

ucs_status_t cw_tag_on_first(struct ucp_ep *ep, const void *data, size_t length)
{
    const char *payload = (const char *)data + sizeof(struct cw_wire_tag_first);
    struct cw_wire_tag_first header;
    struct ucp_recv_desc *desc;
    struct cw_tag_recv *match;
    ucs_status_t status;
    unsigned unfinished;
    uint64_t tag;

    if (length <= sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    length -= sizeof(header);
    tag     = le64toh(header.tag);
    if (le64toh(header.total) <= length || find_unfinished(ep, le32toh(header.message), &unfinished) != NULL ||
        unfinished >= CW_TAG_MAX_UNFINISHED) {
        return UCS_ERR_IO_ERROR;
    }
    match  = cw_tag_matcher_arrive(&cw_op_state(ep->worker)->tags, tag);
    status = new_desc(ep, le64toh(header.total), payload, length, match == NULL, &desc);
    if (status != UCS_OK) {
        if (match != NULL) {
            cw_request_complete(cw_tag_request_of(match), status);
        }
        return status;
    }
    desc->message = le32toh(header.message);
    desc->sync_id = le64toh(header.sync_id);
    if (match == NULL) {
        enqueue(ep->worker, desc, tag);
        return UCS_OK;
    }
    desc->request = cw_tag_request_of(match);
    cw_tag_begin(desc->request, tag, desc->total);
    cw_tag_store(desc->request, payload, length);
    cw_tag_acknowledge(desc);
    return UCS_OK;
}

ucs_status_t cw_tag_on_next(struct ucp_ep *ep, const void *data, size_t length)
{
    const char *payload = (const char *)data + sizeof(struct cw_wire_next);
    struct cw_wire_next header;
    struct ucp_recv_desc *desc;
    struct cw_request *request;
    unsigned unfinished;

    if (length <= sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    length -= sizeof(header);
    desc    = find_unfinished(ep, le32toh(header.message), &unfinished);
    if (desc == NULL || le64toh(header.offset) != desc->received || length > desc->total - desc->received) {
        return UCS_ERR_IO_ERROR;
    }
    request = desc->request;
    if (request == NULL && add_chunk(desc, payload, length) != UCS_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    desc->received += length;
    if (request != NULL) {
        cw_tag_store(request, payload, length);
    }
    if (desc->received == desc->total) {
        if (desc->sync_id == 0) {
            cw_tag_desc_detach(desc);
        }
        if (request != NULL) {
            cw_tag_desc_detach(desc);
            cw_tag_desc_free(desc);
            finish(request);
        }
    }
    return UCS_OK;
}

void cw_tag_ep_lost(struct ucp_ep *ep, ucs_status_t status)
{
    struct ucp_recv_desc *desc;
    struct cw_request *request;

    while (!cw_list_empty(&ep->receiving)) {
        desc    = cw_list_head(&ep->receiving, struct ucp_recv_desc, ep_link);
        request = desc->request;
        cw_list_remove(&desc->ep_link);
        desc->ep      = NULL;
        desc->sync_id = 0;
        if (desc->received == desc->total) {
            continue; /* complete: it can still be received */
        }
        if (desc->queued) {
            cw_tag_matcher_remove_message(&cw_op_state(ep->worker)->tags, &desc->match);
        } else if (request == NULL) {
            desc->lost = 1; /* the program holds it since a probe */
            continue;
        }
        cw_tag_desc_free(desc);
        if (request != NULL) {
            cw_request_complete(request, status);
        }
    }
}

void cw_tag_drop_all(struct ucp_worker *worker)
{
    struct cw_tag_matcher *matcher = &cw_op_state(worker)->tags;
    struct cw_tag_message *message;
    struct ucp_recv_desc *desc;
    struct cw_tag_recv *match;
    struct cw_request *request;
    unsigned warnings = 0;

    while ((match = cw_tag_matcher_take_recv(matcher)) != NULL) {
        request         = cw_tag_request_of(match);
        request->flags &= (uint16_t)~CW_REQUEST_CALLBACK;
        cw_request_complete(request, UCS_ERR_CANCELED);
    }
    while ((message = cw_tag_matcher_first_message(matcher)) != NULL) {
        desc = cw_container_of(message, struct ucp_recv_desc, match);
        cw_tag_matcher_remove_message(matcher, message);
        if (warnings++ < MAX_UNMATCHED_WARNINGS) {
            cw_warn("worker %s: unexpected tag message %016llx of %llu bytes was not matched", worker->name,
                    (unsigned long long)desc->match.tag, (unsigned long long)desc->total);
        }
        cw_tag_desc_free(desc);
    }
    if (warnings > MAX_UNMATCHED_WARNINGS) {
        cw_warn("worker %s: %u tag messages in all were not matched", worker->name, warnings);
    }
}
