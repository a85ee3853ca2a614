/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unexpected messages that their senders cancel (docs/change/long-messages.md, "Cancelling a send"). If a worker
 * cancels a message to itself before it arrives, the message is remembered, usually in order of arrival, and dropped at
 * its arrival. Pieces of a dropped message that arrive later are discarded.
 */
#include <stdlib.h>

#include "msg/credit.h"
#include "msg/send.h"
#include "rndv/recv.h"
#include "tag/desc.h"
#include "tag/tag.h"
#include "wire/packet.h"

struct dropped {
    struct cw_list link;        /* worker->tag->dropped */
    const struct ucp_ep *ep;
    uint64_t id;
};

static void forget(struct dropped *dropped)
{
    cw_list_remove(&dropped->link);
    free(dropped);
}

/* Marks a message that has not arrived yet, so that its arrival drops it. 0: no memory. */
static int drop(struct ucp_ep *ep, uint64_t send_id)
{
    struct dropped *dropped = malloc(sizeof(*dropped));

    if (dropped == NULL) {
        return 0;
    }
    dropped->ep = ep;
    dropped->id = send_id;
    cw_list_add_tail(&ep->worker->tag->dropped, &dropped->link);
    return 1;
}

int cw_tag_lands(struct ucp_ep *ep, uint64_t send_id)
{
    struct cw_request *request = cw_send_find(ep, send_id);
    struct dropped *dropped;

    if (request != NULL) {
        ((struct cw_send *)cw_request_state(request))->landed = 1;
        return 1;
    }
    cw_list_for_each(dropped, &ep->worker->tag->dropped, struct dropped, link) {
        if (dropped->ep == ep && dropped->id == send_id) {
            forget(dropped);
            return 0;
        }
    }
    return 1;
}

void cw_tag_ep_ended(struct ucp_ep *ep)
{
    struct dropped *dropped, *next;

    cw_list_for_each_safe(dropped, next, &ep->worker->tag->dropped, struct dropped, link) {
        if (dropped->ep == ep) {
            forget(dropped);
        }
    }
}

static ucs_status_t swallow_piece(struct cw_reassembly *reassembly CW_UNUSED, const void *data CW_UNUSED,
                                  size_t length CW_UNUSED)
{
    return UCS_OK;
}

static char *no_place(struct cw_reassembly *reassembly CW_UNUSED, size_t length CW_UNUSED)
{
    return NULL;
}

static void swallowed(struct cw_reassembly *reassembly)
{
    cw_reassembly_detach(reassembly);
    free(reassembly);
}

static void aborted(struct cw_reassembly *reassembly, struct ucp_ep *ep CW_UNUSED, ucs_status_t status CW_UNUSED)
{
    free(reassembly);
}

static const struct cw_reassembly_kind swallow_kind = {
    .piece = swallow_piece, .place = no_place, .complete = swallowed, .aborted = aborted};

/* Allocates an entry that discards pieces; it is on no list yet. NULL: no memory. */
static struct cw_reassembly *swallow_new(uint64_t total, uint64_t received, uint32_t number)
{
    struct cw_reassembly *reassembly = malloc(sizeof(*reassembly));

    if (reassembly != NULL) {
        *reassembly = (struct cw_reassembly){
            .kind = &swallow_kind, .total = total, .received = received, .number = number, .in_pieces = 1};
    }
    return reassembly;
}

ucs_status_t cw_tag_swallow(struct ucp_ep *ep, uint64_t total, uint64_t received, uint32_t number)
{
    struct cw_reassembly *reassembly = swallow_new(total, received, number);

    if (reassembly == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_reassembly_add_partial(reassembly, ep);
    cw_credit_consumed(ep, total);
    return UCS_OK;
}

static void remove_message(struct ucp_ep *ep, struct ucp_recv_desc *desc)
{
    cw_tag_matcher_remove_message(&ep->worker->tag->matcher, &desc->match);
    cw_tag_dequeued(ep->worker, desc);
    if (!desc->announced) {
        cw_credit_consumed(ep, desc->in.total);
    }
    cw_reassembly_detach(&desc->in);
    cw_tag_desc_free(ep->worker, desc);
}

/* Frees the message with that id if it is unexpected; the sender gets no packet. 0: the message stays. */
static int take_back(struct ucp_ep *ep, uint64_t send_id)
{
    struct ucp_recv_desc *desc = cw_tag_desc_find(ep, send_id);
    struct cw_reassembly *rest;

    if (desc == NULL || desc->in.placing) {
        return 0; /* matched meanwhile, or the transport is writing its next piece */
    }
    if (desc->in.in_pieces) {
        rest = swallow_new(desc->in.total, desc->in.received, desc->in.number);
        if (rest == NULL) {
            return 0;
        }
        cw_reassembly_add_partial(rest, ep);
    }
    remove_message(ep, desc);
    return 1;
}

/* Cancels a message to the worker itself. The result is known inside the call, because the worker has the message:
 * programs read the status at once, and receive the message if it was not cancelled. 0: the message was not sent
 * completely, or was matched. */
int cw_tag_take_back(struct cw_request *request)
{
    const struct cw_send *send = cw_request_state(request);
    const int is_whole = send->phase == CW_SEND_ANNOUNCED ||
                         (send->phase == CW_SEND_SENT && send->kind->acknowledged && !send->acknowledged);

    if (!cw_tag_is_own(request->ep) || !is_whole || request->outstanding > 0 ||
        !(send->landed ? take_back(request->ep, send->id) : drop(request->ep, send->id))) {
        return 0;
    }
    cw_send_finish(request, UCS_ERR_CANCELED);
    return 1;
}

ucs_status_t cw_tag_on_cancel(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_tag_cancel packet;
    struct ucp_recv_desc *desc;
    struct cw_offer offer = {0};

    memcpy(&packet, data, sizeof(packet));
    offer.send_id = le64toh(packet.send_id);
    desc = cw_tag_desc_find(ep, offer.send_id);
    if (desc == NULL || desc->in.in_pieces) {
        return UCS_OK; /* matched meanwhile, or pieces are missing */
    }
    remove_message(ep, desc);
    cw_rndv_recv_refuse(ep, &offer, UCS_ERR_CANCELED);
    return UCS_OK;
}
