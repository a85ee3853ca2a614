/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in several packets, of any operation. Their pieces come in order on the connection; a piece out of order
 * breaks the protocol.
 */
#include "msg/incoming.h"

#include <stdlib.h>

#include "wire/packet.h"

/* Searches from the newest message, because an honest sender has only that one unfinished. If no message has this
 * number, returns NULL and how many messages are unfinished. */
static struct cw_incoming *find(const struct ucp_ep *ep, uint32_t number, unsigned *count_p)
{
    struct cw_incoming *incoming;
    struct cw_list *link;

    *count_p = 0;
    for (link = cw_op_ep(ep)->incoming.partial.prev; link != &cw_op_ep(ep)->incoming.partial; link = link->prev) {
        incoming = cw_container_of(link, struct cw_incoming, link);
        if (incoming->in_pieces) {
            if (incoming->number == number) {
                return incoming;
            }
            (*count_p)++;
        }
    }
    return NULL;
}

int cw_incoming_may_begin(const struct ucp_ep *ep, uint32_t number)
{
    unsigned unfinished;

    return find(ep, number, &unfinished) == NULL && unfinished < CW_MAX_UNFINISHED;
}

/* Returns the message whose next bytes these are. NULL: the bytes break the protocol. */
static struct cw_incoming *expecting(const struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_incoming *incoming;
    struct cw_wire_next header;
    unsigned unfinished;

    memcpy(&header, data, sizeof(header));
    incoming = find(ep, le32toh(header.message), &unfinished);
    return (incoming != NULL && le64toh(header.offset) == incoming->received &&
            length <= incoming->total - incoming->received) ? incoming : NULL;
}

static ucs_status_t arrived(struct cw_incoming *incoming, const void *data, size_t length)
{
    ucs_status_t status = incoming->kind->piece(incoming, data, length);

    if (status != UCS_OK) {
        return status;
    }
    incoming->received += length;
    if (incoming->received == incoming->total) {
        incoming->in_pieces = 0;
        incoming->kind->complete(incoming);
    }
    return UCS_OK;
}

ucs_status_t cw_incoming_on_next(struct ucp_ep *ep, const void *data, size_t length)
{
    const size_t header = sizeof(struct cw_wire_next);
    struct cw_incoming *incoming;

    incoming = expecting(ep, data, length - header);
    return (incoming == NULL || incoming->placing) ? UCS_ERR_IO_ERROR :
           arrived(incoming, (const char *)data + header, length - header);
}

unsigned cw_incoming_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov)
{
    struct cw_incoming *incoming = expecting(ep, header, length);

    _Static_assert(sizeof(struct cw_wire_next) == CW_PLACE_HEADER, "the header of packets that are placed");
    if (incoming == NULL || cw_op_ep(ep)->incoming.place != NULL) {
        return 0;
    }
    cw_op_ep(ep)->incoming.place = incoming->kind->place(incoming, length);
    cw_op_ep(ep)->incoming.place_is_ours = cw_op_ep(ep)->incoming.place == NULL;
    if (cw_op_ep(ep)->incoming.place_is_ours) {
        cw_op_ep(ep)->incoming.place = malloc(length);
    }
    if (cw_op_ep(ep)->incoming.place == NULL) {
        return 0;
    }
    incoming->placing = 1;
    *iov = (struct iovec){.iov_base = cw_op_ep(ep)->incoming.place, .iov_len = length};
    return 1;
}

void cw_incoming_placed(struct ucp_ep *ep, const void *header, size_t length)
{
    struct cw_incoming *incoming = expecting(ep, header, length);
    char *data = cw_op_ep(ep)->incoming.place;
    const int ours = cw_op_ep(ep)->incoming.place_is_ours;
    ucs_status_t status;

    if (incoming == NULL || !incoming->placing) {
        return; /* the endpoint failed meanwhile */
    }
    cw_op_ep(ep)->incoming.place = NULL;
    cw_op_ep(ep)->incoming.place_is_ours = 0;
    incoming->placing = 0;
    status = arrived(incoming, data, length);
    if (status != UCS_OK) {
        cw_ep_fail(ep, status);
    }
    if (ours) {
        free(data);
    }
}

static void lose(struct ucp_ep *ep, struct cw_list *list, ucs_status_t status)
{
    struct cw_incoming *incoming;
    struct cw_list *link;

    while ((link = cw_list_pop_head(list)) != NULL) {
        incoming = cw_container_of(link, struct cw_incoming, link);
        incoming->ep = NULL;
        incoming->kind->lost(incoming, ep, status);
    }
}

void cw_incoming_ep_lost(struct ucp_ep *ep, ucs_status_t status)
{
    lose(ep, &cw_op_ep(ep)->incoming.stored, status);
    lose(ep, &cw_op_ep(ep)->incoming.receiving, status);
    lose(ep, &cw_op_ep(ep)->incoming.partial, status);
    cw_ep_let_go(ep, ep->kept); /* the endpoint keeps nothing any more; its requests ended before */
    if (cw_op_ep(ep)->incoming.place_is_ours) {
        free(cw_op_ep(ep)->incoming.place);
    }
    cw_op_ep(ep)->incoming.place = NULL;
    cw_op_ep(ep)->incoming.place_is_ours = 0;
}
