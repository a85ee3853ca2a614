/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: the operations behind ucp_stream_* and the handlers of their packets. Called by the door and by the packet
 * dispatch, worker entered.
 *
 * Every position is a count of bytes since the beginning of the stream. The receiver stores what nobody waits for, at
 * most CW_STREAM_WINDOW bytes: the sender stays within the window behind the last credit, and sends that may not go on
 * wait on ep->held, where they are in nobody's way (STR-22). Bytes count as consumed when the program has them, or when
 * nobody will ever read them. While a receive is posted nothing is stored.
 */
#ifndef CW_OP_STREAM_H
#define CW_OP_STREAM_H

#include "core/ep.h"
#include "op/datatype.h"
#include "wire/packet.h"

/* What a packet left unread, or, behind CW_STREAM_SEGMENTS others, several short ones. `back` is the distance from the
 * data handed to the program to the beginning of the allocation; it stands directly below the data, also when their
 * beginning was read by somebody else. */
#define CW_STREAM_SEGMENTS 16

struct cw_stream_segment {
    struct cw_stream_segment *next;
    uint32_t length;                /* of data[], at most a window */
    uint32_t taken;                 /* of that, read already */
    uint32_t room;                  /* behind it, for packets to come */
    size_t back;
    char data[];
};

/* One per endpoint, made at first use. */
struct cw_stream {
    struct ucp_ep *ep;
    uint64_t sent;                  /* given to the transport */
    uint64_t credited;              /* the peer let go of it */
    uint64_t arrived;
    uint64_t consumed;
    uint64_t told;                  /* the last credit that we gave */
    struct cw_stream_segment *first;
    struct cw_stream_segment *last; /* of those that are unread ... */
    size_t segments;                /* ... their number ... */
    size_t unread;                  /* ... and their bytes: arrived - consumed, outside of cw_stream_on_data */
    struct cw_list receives;        /* posted, in order */
    struct cw_list ready_link;      /* cw_op_state.streams */
};

/* stream.c. The endpoint's stream; NULL: no memory. */
struct cw_stream *cw_stream_get(struct ucp_ep *ep);
/* Removes the first unread segment, which then belongs to the caller. */
struct cw_stream_segment *cw_stream_pop(struct cw_stream *stream);
/* The program has these bytes, or nobody will: gives the peer credit once in a while. */
void cw_stream_consume(struct cw_stream *stream, size_t length);
ssize_t cw_stream_poll(struct ucp_worker *worker, ucp_stream_poll_ep_t *eps, size_t max);
/* The endpoint is lost: receives end with this status, what is unread is dropped (ERR-8). */
void cw_stream_ep_lost(struct ucp_ep *ep, ucs_status_t status);
/* The endpoint was adopted (STR-18) or closed (CLS-12). */
void cw_stream_ep_user_changed(struct ucp_ep *ep);

/* stream_send.c. Results as the *_nbx calls define them (REQ-1). */
ucs_status_ptr_t cw_stream_send(struct ucp_ep *ep, const void *buffer, size_t count, const ucp_request_param_t *param);
ucs_status_t cw_stream_on_credit(struct ucp_ep *ep, const void *data, size_t length);

/* stream_recv.c */
ucs_status_ptr_t cw_stream_recv(struct ucp_ep *ep, void *buffer, size_t count, size_t *length,
                                const ucp_request_param_t *param);
/* Hands out the first segment itself; cw_stream_data_free takes it back. */
ucs_status_ptr_t cw_stream_recv_data(struct ucp_ep *ep, size_t *length);
void cw_stream_data_free(void *data);
ucs_status_t cw_stream_on_data(struct ucp_ep *ep, const void *data, size_t length);

#endif
