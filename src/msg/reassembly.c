/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reassembly of messages in several packets, of any operation. Pieces arrive in order on the connection; a piece out of
 * order breaks the protocol.
 */
#include "msg/reassembly.h"

#include <stdlib.h>

#include "wire/packet.h"

/* Searches from the newest message, because a well-behaved sender has only that one unfinished. If no message has this
 * number, returns NULL and the number of unfinished messages. */
static struct cw_reassembly *find(const struct ucp_ep *ep, uint32_t number, unsigned *count_p)
{
    struct cw_reassembly *reassembly;
    struct cw_list *link;

    *count_p = 0;
    for (link = cw_op_ep(ep)->reassembly.partial.prev; link != &cw_op_ep(ep)->reassembly.partial; link = link->prev) {
        reassembly = cw_container_of(link, struct cw_reassembly, link);
        if (reassembly->in_pieces) {
            if (reassembly->number == number) {
                return reassembly;
            }
            (*count_p)++;
        }
    }
    return NULL;
}

bool cw_reassembly_may_begin(const struct ucp_ep *ep, uint32_t number)
{
    unsigned unfinished;

    return find(ep, number, &unfinished) == NULL && unfinished < CW_MAX_UNFINISHED;
}

/* Returns the message that the next bytes belong to. NULL: protocol error. */
static struct cw_reassembly *expecting(const struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_reassembly *reassembly;
    struct cw_wire_next header;
    unsigned unfinished;

    memcpy(&header, data, sizeof(header));
    reassembly = find(ep, le32toh(header.message), &unfinished);
    return (reassembly != NULL && le64toh(header.offset) == reassembly->received &&
            length <= reassembly->total - reassembly->received) ? reassembly : NULL;
}

static ucs_status_t arrived(struct cw_reassembly *reassembly, const void *data, size_t length)
{
    ucs_status_t status = reassembly->kind->piece(reassembly, data, length);

    if (status != UCS_OK) {
        return status;
    }
    reassembly->received += length;
    if (reassembly->received == reassembly->total) {
        reassembly->in_pieces = 0;
        reassembly->kind->complete(reassembly);
    }
    return UCS_OK;
}

ucs_status_t cw_reassembly_on_next(struct ucp_ep *ep, const void *data, size_t length)
{
    const size_t header = sizeof(struct cw_wire_next);
    struct cw_reassembly *reassembly;

    reassembly = expecting(ep, data, length - header);
    return (reassembly == NULL || reassembly->placing) ? UCS_ERR_IO_ERROR :
           arrived(reassembly, (const char *)data + header, length - header);
}

unsigned cw_reassembly_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov)
{
    struct cw_reassembly *reassembly = expecting(ep, header, length);

    _Static_assert(sizeof(struct cw_wire_next) == CW_PLACE_HEADER, "the header of packets that are placed");
    if (reassembly == NULL || cw_op_ep(ep)->reassembly.destination != NULL) {
        return 0;
    }
    cw_op_ep(ep)->reassembly.destination = reassembly->kind->place(reassembly, length);
    cw_op_ep(ep)->reassembly.destination_is_ours = cw_op_ep(ep)->reassembly.destination == NULL;
    if (cw_op_ep(ep)->reassembly.destination_is_ours) {
        cw_op_ep(ep)->reassembly.destination = malloc(length);
    }
    if (cw_op_ep(ep)->reassembly.destination == NULL) {
        return 0;
    }
    reassembly->placing = 1;
    *iov = (struct iovec){.iov_base = cw_op_ep(ep)->reassembly.destination, .iov_len = length};
    return 1;
}

void cw_reassembly_placed(struct ucp_ep *ep, const void *header, size_t length)
{
    struct cw_reassembly *reassembly = expecting(ep, header, length);
    char *data = cw_op_ep(ep)->reassembly.destination;
    const int ours = cw_op_ep(ep)->reassembly.destination_is_ours;
    ucs_status_t status;

    if (reassembly == NULL || !reassembly->placing) {
        return; /* the endpoint failed meanwhile */
    }
    cw_op_ep(ep)->reassembly.destination = NULL;
    cw_op_ep(ep)->reassembly.destination_is_ours = 0;
    reassembly->placing = 0;
    status = arrived(reassembly, data, length);
    if (status != UCS_OK) {
        cw_ep_fail(ep, status);
    }
    if (ours) {
        free(data);
    }
}

static void lose(struct ucp_ep *ep, struct cw_list *list, ucs_status_t status)
{
    struct cw_reassembly *reassembly;
    struct cw_list *link;

    while ((link = cw_list_pop_head(list)) != NULL) {
        reassembly = cw_container_of(link, struct cw_reassembly, link);
        reassembly->ep = NULL;
        reassembly->kind->aborted(reassembly, ep, status);
    }
}

void cw_reassembly_ep_ended(struct ucp_ep *ep, ucs_status_t status)
{
    lose(ep, &cw_op_ep(ep)->reassembly.stored, status);
    lose(ep, &cw_op_ep(ep)->reassembly.receiving, status);
    lose(ep, &cw_op_ep(ep)->reassembly.partial, status);
    cw_ep_let_go(ep, ep->retained); /* the endpoint stores nothing any more; its requests were completed before */
    if (cw_op_ep(ep)->reassembly.destination_is_ours) {
        free(cw_op_ep(ep)->reassembly.destination);
    }
    cw_op_ep(ep)->reassembly.destination = NULL;
    cw_op_ep(ep)->reassembly.destination_is_ours = 0;
}
