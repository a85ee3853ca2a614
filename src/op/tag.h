/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag messages: the operations behind ucp_tag_* and the handlers of their packets. Called by the door and by the packet
 * dispatch, worker entered. The ways that messages take are in docs/change/long-messages.md.
 */
#ifndef CW_OP_TAG_H
#define CW_OP_TAG_H

#include "core/ep.h"
#include "op/datatype.h"
#include "op/incoming.h"
#include "op/tag_match.h"

/* A message that arrived and was not fully given to a receive yet: unexpected, announced, or with pieces missing. One
 * allocation of its own size; it owns it. */
struct ucp_recv_desc {
    struct cw_tag_message match;     /* queued while `queued` */
    struct cw_incoming in;           /* while pieces are missing, an answer or credit is owed, or it is only announced
 * */
    union {
        struct cw_request *request;       /* the receive it was matched with while pieces are missing */
        struct ucp_recv_desc *next_spare; /* op/tag_desc.h */
    };
    uint64_t id;                     /* by which the sender waits for an answer; 0: none owed */
    uint64_t address;                /* announced: where it lies at the sender */
    uint8_t announced : 1;           /* by rendezvous: nothing of it is here; the data is room for a struct
                                      * cw_remote_key, */
    uint8_t has_key : 1;             /* which is there */
    uint8_t queued;                  /* in the matcher */
    uint8_t lost : 1;                /* its connection broke before it was complete */
    uint8_t left : 1;                /* it is complete, and its sender is gone; counted in op_state->left */
    uint8_t revocable : 1;           /* in op_state->revocable; op/tag_desc.h */
    uint8_t is_small;                /* has the room of a small one, which may be kept for the next; op/tag_desc.h */
    char data[];                     /* total bytes, unless announced, or matched by its first packet; op/tag_desc.h */
};

/* tag_send.c. Results as the *_nbx calls define them (REQ-1). `sync`: completes on the match (TAG-21). */
ucs_status_ptr_t cw_tag_send(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                             const ucp_request_param_t *param, int sync);
/* The same of `length` plain bytes, where nothing is noted and the result may come at once. */
ucs_status_ptr_t cw_tag_send_plain(struct ucp_ep *ep, const void *buffer, size_t length, ucp_tag_t tag,
                                   const ucp_request_param_t *param);
ucs_status_t cw_tag_on_ack(struct ucp_ep *ep, const void *data, size_t length);

/* tag_recv.c */
ucs_status_ptr_t cw_tag_recv(struct ucp_worker *worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t mask,
                             const ucp_request_param_t *param);
/* The same of `length` plain bytes, where only the message has to be waited for, with a request of the pool, and where
 * nothing is noted; and of a worker with a lock. */
ucs_status_ptr_t cw_tag_recv_plain(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                   ucp_tag_t mask, const ucp_request_param_t *param);
ucs_status_ptr_t cw_tag_recv_plain_shared(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                          ucp_tag_t mask, const ucp_request_param_t *param);
ucs_status_ptr_t cw_tag_recv_message(struct ucp_worker *worker, void *buffer, size_t count,
                                     struct ucp_recv_desc *message, const ucp_request_param_t *param);
struct ucp_recv_desc *cw_tag_probe(struct ucp_worker *worker, ucp_tag_t tag, ucp_tag_t mask, int remove,
                                   ucp_tag_recv_info_t *info);
/* Only an unmatched receive is cancelled; its callback runs inside (REQ-24). */
void cw_tag_cancel(struct cw_request *request);

/* tag_arrive.c: handlers of packets. A status other than UCS_OK costs the connection. */
ucs_status_t cw_tag_on_eager(struct ucp_ep *ep, const void *data, size_t length);
/* The same for an open endpoint, quicker for a short message that the oldest of few receives waits for. */
void cw_tag_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);
ucs_status_t cw_tag_on_sync(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_tag_on_first(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_tag_on_rts(struct ucp_ep *ep, const void *data, size_t length);

/* tag_cancel.c: a packet, as above. */
ucs_status_t cw_tag_on_cancel(struct ucp_ep *ep, const void *data, size_t length);
/* Whether an endpoint leads from the worker to itself: both ends are this one. The rest is for such endpoints. */
static inline int cw_tag_is_own(const struct ucp_ep *ep)
{
    return ep->loop_conn != NULL && cw_ep_peer_uid(ep) == ep->worker->uid;
}

/* The message of that id goes, if it is unexpected; its sender is not told. 0: it stays. */
int cw_tag_take_back(struct ucp_ep *ep, uint64_t send_id);
/* It has not arrived, and is to be dropped when it does. 0: no memory. */
int cw_tag_drop(struct ucp_ep *ep, uint64_t send_id);
/* It arrives, and its send is told so. 0: it is to be dropped. */
int cw_tag_lands(struct ucp_ep *ep, uint64_t send_id);
/* The first piece, of `received` bytes, of one that is to be dropped. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_tag_swallow(struct ucp_ep *ep, uint64_t total, uint64_t received, uint32_t number);
void cw_tag_ep_lost(struct ucp_ep *ep);

/* At worker destroy: forgets posted receives (WRK-27) and unexpected messages, with a warning for these (WRK-26). */
void cw_tag_drop_all(struct ucp_worker *worker);

/* Shared by tag_recv.c and tag_arrive.c: a receive's part of a request. */
struct cw_tag_recv_state {
    struct cw_tag_recv match;
    struct cw_dt_cursor cursor;
    ucs_status_t status;             /* of the transfer so far */
};

_Static_assert(sizeof(struct cw_tag_recv_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static inline struct cw_request *cw_tag_request_of(struct cw_tag_recv *match)
{
    return (struct cw_request *)(void *)cw_container_of(match, struct cw_tag_recv_state, match) - 1;
}

/* The same of one that goes another way than the quickest: a plain receive leaves alone what that does not read. */
static inline struct cw_request *cw_tag_request_full(struct cw_tag_recv *match)
{
    struct cw_tag_recv_state *state = cw_container_of(match, struct cw_tag_recv_state, match);
    struct cw_request *request      = cw_tag_request_of(match);

    if (request->flags & CW_REQUEST_PLAIN) {
        state->status = UCS_OK;
        cw_dt_start_contig(&state->cursor, state->cursor.contig, state->cursor.length);
    }
    return request;
}

/* tag_desc.c: its sender cannot take it back any more. */
void cw_tag_desc_keep(struct ucp_worker *worker, struct ucp_recv_desc *desc);

static inline struct cw_dt_cursor *cw_tag_cursor(struct cw_request *request)
{
    return &((struct cw_tag_recv_state *)cw_request_state(request))->cursor;
}

/* A message left the queue of unexpected ones. */
static inline void cw_tag_dequeued(struct ucp_worker *worker, struct ucp_recv_desc *desc)
{
    if (cw_unlikely(desc->revocable)) {
        cw_tag_desc_keep(worker, desc);
    }
    desc->queued = 0;
    cw_count(worker, CW_COUNT_UNEXPECTED_BYTES, -desc->in.total);
}

/* The receive got this message: notes length and tag, tells whether it fits (TAG-33). */
void cw_tag_begin(struct cw_request *request, ucp_tag_t tag, uint64_t total);
/* Stores the next bytes, or swallows them when the receive cannot take them. */
void cw_tag_store(struct cw_request *request, const void *data, size_t length);
/* A message got its receive: sends the acknowledgement that its sender may wait for, and gives credit back. */
void cw_tag_matched(struct ucp_worker *worker, struct ucp_recv_desc *desc);
/* Begins to fetch an announced message that is in no queue any more, and frees it. As cw_rndv_recv_start. */
ucs_status_t cw_tag_fetch(struct ucp_recv_desc *desc, struct cw_request *request);

#endif
