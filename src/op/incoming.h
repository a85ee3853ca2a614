/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an endpoint still expects from its peer: messages of which parts are missing, announced ones, transfers under
 * way, answers that are owed. Embedded in the objects of the single operations and kept on the lists of struct
 * cw_op_incoming, so that the end of the endpoint ends them too. `receiving` may be long, so no packet looks through
 * it: those among which packets have to find theirs are on `partial`, CW_MAX_UNFINISHED messages that miss parts and
 * one share of copies per board at most. A message that is complete but was not received by the program waits on
 * `stored`, for which a closed endpoint need not stay.
 */
#ifndef CW_OP_INCOMING_H
#define CW_OP_INCOMING_H

#include "core/ep_kept.h"
#include "op/op_ep.h"

/* More unfinished messages than this on one connection break the protocol: an honest sender finishes one before it
 * begins the next. */
#define CW_MAX_UNFINISHED 64

struct cw_incoming;

struct cw_incoming_kind {
    /* The next bytes of a message that came in several packets; `received` does not count them yet. NULL: does not take
     * any. UCS_ERR_NO_MEMORY costs the connection. */
    ucs_status_t (*piece)(struct cw_incoming *incoming, const void *data, size_t length);
    /* Where the next bytes would go to; `piece` follows when they are there, with that address. NULL: anywhere. */
    char *(*place)(struct cw_incoming *incoming, size_t length);
    /* All of it came. */
    void (*complete)(struct cw_incoming *incoming);
    /* Its endpoint `ep` is lost; it was taken off the list, incoming->ep is NULL. */
    void (*lost)(struct cw_incoming *incoming, struct ucp_ep *ep, ucs_status_t status);
};

struct cw_incoming {
    struct cw_list link; /* on one of those lists while ep != NULL */
    struct ucp_ep *ep;
    const struct cw_incoming_kind *kind;
    uint64_t total;                      /* bytes of the message */
    uint64_t received;
    uint32_t number;                     /* of a message in several packets */
    uint8_t in_pieces;                   /* NEXT packets are expected */
    uint8_t placing;                     /* one is being received in place */
    uint8_t kept;                        /* CW_KEPT_ONE is counted for it, until it is detached */
};

static inline void cw_incoming_add(struct cw_incoming *incoming, struct ucp_ep *ep)
{
    incoming->ep = ep;
    cw_list_init(&incoming->link);
    cw_list_add_tail(&cw_op_ep(ep)->incoming.receiving, &incoming->link);
}

/* The same of one that packets are to find, of few. */
static inline void cw_incoming_add_partial(struct cw_incoming *incoming, struct ucp_ep *ep)
{
    incoming->ep = ep;
    cw_list_add_tail(&cw_op_ep(ep)->incoming.partial, &incoming->link);
}

/* No packet looks for it any more, but something is still owed. */
static inline void cw_incoming_await(struct cw_incoming *incoming)
{
    cw_list_remove(&incoming->link);
    cw_list_add_tail(&cw_op_ep(incoming->ep)->incoming.receiving, &incoming->link);
}

/* The same of one of which nothing is expected any more: as if it had been stored since. */
static inline void cw_incoming_add_stored(struct cw_incoming *incoming, struct ucp_ep *ep)
{
    incoming->ep = ep;
    cw_list_add_tail(&cw_op_ep(ep)->incoming.stored, &incoming->link);
    cw_ep_unused(ep);
}

/* Cuts the tie to the endpoint, if there is one. */
static inline void cw_incoming_detach(struct cw_incoming *incoming)
{
    struct ucp_ep *ep = incoming->ep;

    if (ep != NULL) {
        incoming->ep = NULL;
        if (incoming->kept) {
            cw_ep_let_go(ep, CW_KEPT_ONE);
        }
        cw_list_remove(&incoming->link);
        cw_ep_unused(ep);
    }
}

/* Nothing is expected from the peer any more, but the endpoint is to be told when the program took it. */
static inline void cw_incoming_store(struct cw_incoming *incoming)
{
    cw_list_remove(&incoming->link);
    cw_list_add_tail(&cw_op_ep(incoming->ep)->incoming.stored, &incoming->link);
    cw_ep_unused(incoming->ep);
}

/* Whether a message with this number may begin. */
int cw_incoming_may_begin(const struct ucp_ep *ep, uint32_t number);
/* The packet NEXT. */
ucs_status_t cw_incoming_on_next(struct ucp_ep *ep, const void *data, size_t length);
/* The same when it comes in place: the upcalls `place` and `placed` for it. */
unsigned cw_incoming_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov);
void cw_incoming_placed(struct ucp_ep *ep, const void *header, size_t length);
void cw_incoming_ep_lost(struct ucp_ep *ep, ucs_status_t status);

#endif
