/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects that an endpoint and its peer have not finished: incomplete messages, announced messages, transfers in
 * progress, outstanding answers. The object of each operation contains a struct cw_reassembly, which is on a list of
 * struct cw_op_reassembly, so that the end of the endpoint ends the operation as well. `receiving` may be long, so it
 * is never searched for a packet. Objects that packets are looked up in are on `partial`: at most CW_MAX_UNFINISHED
 * incomplete messages, and one copy helper per claim pair. A complete message that the program has not received yet is
 * on `stored`; it does not keep a closed endpoint alive.
 */
#ifndef CW_MSG_REASSEMBLY_H
#define CW_MSG_REASSEMBLY_H

#include <stdbool.h>

#include "core/ep_retained.h"
#include "msg/op_ep.h"

/* More unfinished messages than this on one connection break the protocol: a well-behaved sender finishes one before it
 * begins the next. */
#define CW_MAX_UNFINISHED 64

struct cw_reassembly;

struct cw_reassembly_kind {
    /* Consumes the next bytes of a message in several packets; `received` does not count them yet. NULL: the object
     * accepts no bytes. UCS_ERR_NO_MEMORY ends the connection. */
    ucs_status_t (*piece)(struct cw_reassembly *reassembly, const void *data, size_t length);
    /* Returns the destination of the next bytes; once they are there, `piece` is called with that address. NULL: any
     * address. */
    char *(*place)(struct cw_reassembly *reassembly, size_t length);
    /* All bytes of the message have arrived. */
    void (*complete)(struct cw_reassembly *reassembly);
    /* The endpoint `ep` has ended before that. The object is on no list any more, and reassembly->ep is NULL. */
    void (*aborted)(struct cw_reassembly *reassembly, struct ucp_ep *ep, ucs_status_t status);
};

struct cw_reassembly {
    struct cw_list link; /* on one of these lists while ep != NULL */
    struct ucp_ep *ep;
    const struct cw_reassembly_kind *kind;
    uint64_t total;                      /* bytes of the message */
    uint64_t received;
    uint32_t number;                     /* of a message in several packets */
    uint8_t in_pieces;                   /* NEXT packets are expected */
    uint8_t placing;                     /* the transport is writing one in place */
    uint8_t retained;                    /* CW_RETAINED_ONE is charged for the object until it is detached */
};

static inline void cw_reassembly_add(struct cw_reassembly *reassembly, struct ucp_ep *ep)
{
    reassembly->ep = ep;
    cw_list_init(&reassembly->link);
    cw_list_add_tail(&cw_op_ep(ep)->reassembly.receiving, &reassembly->link);
}

/* Adds an object that packets are looked up in, to the short list `partial`. */
static inline void cw_reassembly_add_partial(struct cw_reassembly *reassembly, struct ucp_ep *ep)
{
    reassembly->ep = ep;
    cw_list_add_tail(&cw_op_ep(ep)->reassembly.partial, &reassembly->link);
}

/* Moves an object to `receiving`: no packet is looked up in it any more, but an answer is outstanding. */
static inline void cw_reassembly_await(struct cw_reassembly *reassembly)
{
    cw_list_remove(&reassembly->link);
    cw_list_add_tail(&cw_op_ep(reassembly->ep)->reassembly.receiving, &reassembly->link);
}

/* Adds an object that expects no more packets to the list `stored`. */
static inline void cw_reassembly_add_stored(struct cw_reassembly *reassembly, struct ucp_ep *ep)
{
    reassembly->ep = ep;
    cw_list_add_tail(&cw_op_ep(ep)->reassembly.stored, &reassembly->link);
    cw_ep_unused(ep);
}

/* Removes the object from its endpoint, if it has one. */
static inline void cw_reassembly_detach(struct cw_reassembly *reassembly)
{
    struct ucp_ep *ep = reassembly->ep;

    if (ep != NULL) {
        reassembly->ep = NULL;
        if (reassembly->retained) {
            cw_ep_let_go(ep, CW_RETAINED_ONE);
        }
        cw_list_remove(&reassembly->link);
        cw_ep_unused(ep);
    }
}

/* Moves an object to `stored`: it expects no more packets, but the endpoint must be notified when the program receives
 * the message. */
static inline void cw_reassembly_store(struct cw_reassembly *reassembly)
{
    cw_list_remove(&reassembly->link);
    cw_list_add_tail(&cw_op_ep(reassembly->ep)->reassembly.stored, &reassembly->link);
    cw_ep_unused(reassembly->ep);
}

/* Whether a message with this number may begin. */
bool cw_reassembly_may_begin(const struct ucp_ep *ep, uint32_t number);
/* The handler of NEXT packets. */
ucs_status_t cw_reassembly_on_next(struct ucp_ep *ep, const void *data, size_t length);
/* The upcalls `place` and `placed` for NEXT packets that the transport writes in place. */
unsigned cw_reassembly_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov);
void cw_reassembly_placed(struct ucp_ep *ep, const void *header, size_t length);
void cw_reassembly_ep_ended(struct ucp_ep *ep, ucs_status_t status);

#endif
