/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag messages: the operations behind ucp_tag_* and the handlers of their packets. The functions of the API and the
 * packet dispatch call them with the worker entered. docs/change/long-messages.md describes the protocols.
 */
#ifndef CW_TAG_TAG_H
#define CW_TAG_TAG_H

#include <stdalign.h>
#include <stdbool.h>

#include "core/ep.h"
#include "msg/datatype.h"
#include "msg/reassembly.h"
#include "tag/match.h"
#include "tag/spare.h"

/* State of a worker. */
struct cw_tag_state {
    struct cw_tag_matcher matcher;
    struct cw_list consumed;  /* matched receives that complete in the next progress; cw_tag_consume */
    unsigned num_stored;      /* unexpected messages stored by cw_tag_consume that progress has not counted */
    struct cw_hash revocable; /* unexpected messages that their senders may cancel; tag/desc.h */
    struct cw_list dropped;   /* loopback messages that were cancelled before they arrived; tag/cancel.c */
    struct cw_tag_spares spares;
};

void cw_tag_init(struct ucp_worker *worker);
/* At destruction of the worker: removes posted receives, and unexpected messages with a warning. */
void cw_tag_cleanup(struct ucp_worker *worker);

/* A message that arrived, but that no receive has completely yet: it is unexpected or announced, or pieces are missing.
 * One allocation per message, with its data. */
struct ucp_recv_desc {
    struct cw_tag_message match;     /* queued while `queued` */
    struct cw_reassembly in;         /* while pieces, an answer or credit are outstanding, or it is only announced */
    union {
        struct cw_request *request;       /* the matched receive, while pieces are missing */
        struct ucp_recv_desc *next_spare; /* tag/spare.h */
    };
    uint64_t id;                     /* id of the send that waits for an answer; 0: none */
    union {
        uint64_t address;            /* announced: the sender's address of the message */
        struct cw_iface *lender;     /* is_lent: the packet is returned to this interface */
    };
    union {
        void *packet;                /* is_lent: the interface's identifier of the packet */
        uint8_t num_keys;            /* announced: 0, or data[] holds a struct cw_offer_keys */
    };
    bool announced;                  /* by rendezvous: no bytes arrived */
    bool queued;                     /* in the matcher */
    uint8_t aborted : 1;             /* the connection broke before the message was complete */
    uint8_t left : 1;                /* message complete, sender gone; counted in msg->left */
    uint8_t revocable : 1;           /* in tag->revocable; tag/desc.h */
    uint8_t is_lent : 1;             /* the message is in its packet; tag/desc.h */
    uint8_t size_class;              /* tag/spare.h */
    uint32_t since;                  /* worker->moment at its arrival */
    alignas(16) char data[];         /* message (and more, tag/desc.h); empty if its first packet was matched */
};

/* send.c. Results as the *_nbx calls define them. `sync`: completes when the message is matched. */
ucs_status_ptr_t cw_tag_send(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                             const ucp_request_param_t *param, int sync);
ucs_status_t cw_tag_on_ack(struct ucp_ep *ep, const void *data, size_t length);

/* recv.c */
ucs_status_ptr_t cw_tag_recv(struct ucp_worker *worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t mask,
                             const ucp_request_param_t *param);
/* Fast path of cw_tag_recv: `length` bytes of contiguous host memory, with a request of the pool, no trace.
 * cw_tag_recv_fast_locked: of a worker with a lock. */
ucs_status_ptr_t cw_tag_recv_fast(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                  ucp_tag_t mask, const ucp_request_param_t *param);
ucs_status_ptr_t cw_tag_recv_fast_locked(struct ucp_worker *worker, void *buffer, size_t length, ucp_tag_t tag,
                                         ucp_tag_t mask, const ucp_request_param_t *param);
ucs_status_ptr_t cw_tag_recv_message(struct ucp_worker *worker, void *buffer, size_t count,
                                     struct ucp_recv_desc *message, const ucp_request_param_t *param);
struct ucp_recv_desc *cw_tag_probe(struct ucp_worker *worker, ucp_tag_t tag, ucp_tag_t mask, int remove,
                                   ucp_tag_recv_info_t *info);
/* Cancels a receive that is not matched; the callback runs inside the call. */
void cw_tag_cancel(struct cw_request *request);

/* arrive.c: handlers of packets. A status other than UCS_OK ends the connection. */
ucs_status_t cw_tag_on_eager(struct ucp_ep *ep, const void *data, size_t length);
/* As cw_tag_on_eager, for an open endpoint; fast path for a short message that matches the oldest receive of the
 * array. */
void cw_tag_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);
ucs_status_t cw_tag_on_sync(struct ucp_ep *ep, const void *data, size_t length);
/* The upcalls `consume` and `finish`. A loopback message is copied from the sender's memory if its receive is found at
 * once and is of contiguous memory that is long enough, or stored if no receive matches. */
bool cw_tag_consume(struct cw_conn *conn, uint64_t header, const void *payload, size_t length, bool may_store);
unsigned cw_tag_finish_consumed(void *owner);
ucs_status_t cw_tag_on_first(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_tag_on_rts(struct ucp_ep *ep, const void *data, size_t length);

/* cancel.c: handler of a packet, as above. */
ucs_status_t cw_tag_on_cancel(struct ucp_ep *ep, const void *data, size_t length);
/* Whether the endpoint connects the worker to itself. cw_tag_lands and cw_tag_swallow are for such endpoints. */
static inline bool cw_tag_is_own(const struct ucp_ep *ep)
{
    return ep->loop_conn != NULL && cw_ep_peer_uid(ep) == ep->worker->uid;
}

/* The function take_back of struct cw_send_kind, of any message. */
int cw_tag_take_back(struct cw_request *request);
/* The message arrives: records this in its send. 0: the message was cancelled and is to be dropped. */
int cw_tag_lands(struct ucp_ep *ep, uint64_t send_id);
/* Consumes the first piece, of `received` bytes, of a message that is to be dropped; later pieces are discarded. May
 * return UCS_ERR_NO_MEMORY. */
ucs_status_t cw_tag_swallow(struct ucp_ep *ep, uint64_t total, uint64_t received, uint32_t number);
void cw_tag_ep_ended(struct ucp_ep *ep);

/* show.c: the handlers worker_gauges and worker_queues. */
void cw_tag_gauges(struct ucp_worker *worker);
void cw_tag_show(const struct ucp_worker *worker, struct cw_queues *queues);

/* Shared by recv.c and arrive.c: a receive's part of a request. */
struct cw_tag_recv_state {
    struct cw_tag_recv match;
    struct cw_dt_cursor cursor;
    ucs_status_t status;             /* of the transfer so far */
    uint32_t since;                  /* worker->moment when it was posted */
};

_Static_assert(sizeof(struct cw_tag_recv_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static inline struct cw_request *cw_tag_request_of(struct cw_tag_recv *match)
{
    return (struct cw_request *)(void *)cw_container_of(match, struct cw_tag_recv_state, match) - 1;
}

/* As cw_tag_request_of, for all but the fast path: posting on the fast path leaves the members unset that only other
 * paths read, so they are set here. */
static inline struct cw_request *cw_tag_request_full(struct cw_tag_recv *match)
{
    struct cw_tag_recv_state *state = cw_container_of(match, struct cw_tag_recv_state, match);
    struct cw_request *request = cw_tag_request_of(match);

    if (request->flags & CW_REQUEST_FAST) {
        state->status = UCS_OK;
        cw_dt_start_contig(&state->cursor, state->cursor.contig, state->cursor.length);
    }
    return request;
}

/* desc.c: from now on the sender cannot cancel the message. */
void cw_tag_desc_keep(struct ucp_worker *worker, struct ucp_recv_desc *desc);

static inline struct cw_dt_cursor *cw_tag_cursor(struct cw_request *request)
{
    return &((struct cw_tag_recv_state *)cw_request_state(request))->cursor;
}

/* The message has left the queue of unexpected messages. */
static inline void cw_tag_dequeued(struct ucp_worker *worker, struct ucp_recv_desc *desc)
{
    if (cw_unlikely(desc->revocable)) {
        cw_tag_desc_keep(worker, desc);
    }
    desc->queued = false;
    cw_count(worker, CW_COUNT_UNEXPECTED_BYTES, -desc->in.total);
}

/* Assigns the message to the receive: records length and tag, and whether it fits. */
void cw_tag_begin(struct cw_request *request, ucp_tag_t tag, uint64_t total);
/* Stores the next bytes, or discards them if the receive has failed. */
void cw_tag_store(struct cw_request *request, const void *data, size_t length);
/* Starts to receive an announced message that is in no queue any more, and frees the descriptor. Result as that of
 * cw_rndv_recv_start. */
ucs_status_t cw_tag_fetch(struct ucp_recv_desc *desc, struct cw_request *request);

#endif
