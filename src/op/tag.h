/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag messages: the operations behind ucp_tag_* and the handlers of their packets. Called by the door and by the packet
 * dispatch, worker entered. A message of one packet is eager; a longer one is cut into pieces that follow each other on
 * the connection.
 */
#ifndef CW_OP_TAG_H
#define CW_OP_TAG_H

#include "core/ep.h"
#include "op/datatype.h"
#include "op/tag_match.h"

/* More unfinished messages than this on one connection break the protocol: an honest sender finishes one before it
 * begins the next. */
#define CW_TAG_MAX_UNFINISHED 64

struct cw_tag_chunk {
    struct cw_tag_chunk *next;
    size_t length;
    char data[];
};

/* A message that arrived and was not fully given to a receive yet: unexpected, or with pieces missing. One allocation
 * of its own size, and one for each further packet that comes before it is matched; it owns these. */
struct ucp_recv_desc {
    struct cw_tag_message match;     /* queued while `queued` */
    struct cw_list ep_link;          /* ep->receiving while ep != NULL */
    struct ucp_ep *ep;               /* while pieces are missing or an acknowledgement is owed */
    struct cw_request *request;      /* the receive it was matched with while pieces are missing */
    uint64_t total;
    uint64_t received;
    uint64_t sync_id;                /* 0: no acknowledgement owed */
    uint32_t message;
    uint8_t queued;                  /* in the matcher */
    uint8_t lost;                    /* its connection broke before it was complete */
    struct cw_tag_chunk *last;
    struct cw_tag_chunk *chunks;     /* what came after the first packet */
    size_t first_length;
    char first[];                    /* what the first packet brought, unless it went to a receive at once */
};

/* tag_send.c. Results as the *_nbx calls define them (REQ-1). `sync`: completes on the match (TAG-21). */
ucs_status_ptr_t cw_tag_send(struct ucp_ep *ep, const void *buffer, size_t count, ucp_tag_t tag,
                             const ucp_request_param_t *param, int sync);
/* The message length of a tag send, 0 for other requests; for texts. */
size_t cw_tag_send_length(const struct cw_request *request);
ucs_status_t cw_tag_on_ack(struct ucp_ep *ep, const void *data, size_t length);

/* tag_recv.c */
ucs_status_ptr_t cw_tag_recv(struct ucp_worker *worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t mask,
                             const ucp_request_param_t *param);
ucs_status_ptr_t cw_tag_recv_message(struct ucp_worker *worker, void *buffer, size_t count,
                                     struct ucp_recv_desc *message, const ucp_request_param_t *param);
struct ucp_recv_desc *cw_tag_probe(struct ucp_worker *worker, ucp_tag_t tag, ucp_tag_t mask, int remove,
                                   ucp_tag_recv_info_t *info);
/* Only an unmatched receive is cancelled; its callback runs inside (REQ-24). */
void cw_tag_cancel(struct cw_request *request);

/* tag_arrive.c: handlers of packets. A status other than UCS_OK costs the connection. */
ucs_status_t cw_tag_on_eager(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_tag_on_sync(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_tag_on_first(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_tag_on_next(struct ucp_ep *ep, const void *data, size_t length);

/* The endpoint is lost: unfinished messages end, receives matched with them complete with this status (ERR-9). */
void cw_tag_ep_lost(struct ucp_ep *ep, ucs_status_t status);
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

/* The receive got this message: notes length and tag, tells whether it fits (TAG-33). */
void cw_tag_begin(struct cw_request *request, ucp_tag_t tag, uint64_t total);
/* Stores the next bytes, or swallows them when the receive cannot take them. */
void cw_tag_store(struct cw_request *request, const void *data, size_t length);
/* Frees a message that is neither queued nor waiting for anything. */
void cw_tag_desc_free(struct ucp_recv_desc *desc);
/* Sends the acknowledgement that the sender of a matched message waits for, if any. */
void cw_tag_acknowledge(struct ucp_recv_desc *desc);
/* Cuts the tie to the endpoint. */
void cw_tag_desc_detach(struct ucp_recv_desc *desc);

#endif
