/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in several packets, whatever operation they belong to. Their pieces come in order on the connection;
 * anything else breaks the protocol.
 */
#include "op/incoming.h"

#include "wire/packet.h"

/* The newest comes first: an honest sender has no other one open. NULL, and how many there are, if it is not known. */
static struct cw_incoming *find(const struct ucp_ep *ep, uint32_t number, unsigned *count_p)
{
    struct cw_incoming *incoming;
    struct cw_list *link;

    *count_p = 0;
    for (link = ep->receiving.prev; link != &ep->receiving; link = link->prev) {
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

ucs_status_t cw_incoming_on_next(struct ucp_ep *ep, const void *data, size_t length)
{
    const char *payload = (const char *)data + sizeof(struct cw_wire_next);
    struct cw_incoming *incoming;
    struct cw_wire_next header;
    ucs_status_t status;
    unsigned unfinished;

    if (length <= sizeof(header)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&header, data, sizeof(header));
    length  -= sizeof(header);
    incoming = find(ep, le32toh(header.message), &unfinished);
    if (incoming == NULL || le64toh(header.offset) != incoming->received ||
        length > incoming->total - incoming->received) {
        return UCS_ERR_IO_ERROR;
    }
    status = incoming->kind->piece(incoming, payload, length);
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

static void lose(struct ucp_ep *ep, struct cw_list *list, ucs_status_t status)
{
    struct cw_incoming *incoming;
    struct cw_list *link;

    while ((link = cw_list_pop_head(list)) != NULL) {
        incoming     = cw_container_of(link, struct cw_incoming, link);
        incoming->ep = NULL;
        incoming->kind->lost(incoming, ep, status);
    }
}

void cw_incoming_ep_lost(struct ucp_ep *ep, ucs_status_t status)
{
    lose(ep, &ep->stored, status);
    lose(ep, &ep->receiving, status);
}
