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

#include <stdlib.h>

#include "op/datatype.h"
#include "op/op_ep.h"
#include "wire/packet.h"

/* What a packet left unread, or, behind CW_STREAM_SEGMENTS others, several short ones, each with its length in front of
 * it: programs that read by segments get every packet by itself (STR-11). `back` is the distance from the data that the
 * program gets to the beginning of the allocation; it stands directly below the data, also when their beginning was
 * read by somebody else. */
#define CW_STREAM_SEGMENTS 16

struct cw_stream_segment {
    struct cw_stream_segment *next;
    uint32_t length;                /* of data[], or of all packets in it; at most a window */
    uint32_t taken;                 /* of that, read already */
    uint32_t size;                  /* of what several packets share, else 0; */
    uint32_t first_at;              /* where the oldest one begins there, */
    uint32_t end_at;                /* and where the newest one ends */
    uint32_t state;                 /* enum cw_stream_segment_state; atomic, as data are released without a lock */
    size_t back;
    char data[];
};

/* A stream has a segment for short packets that is used again and again; it outlives the stream while its data belong
 * to the program. */
enum cw_stream_segment_state { CW_STREAM_PLAIN, CW_STREAM_SPARE, CW_STREAM_USED, CW_STREAM_ORPHAN };

/* A worker has some for long packets, of all its streams, made at first use: what is allocated for each of them lies at
 * the end of the heap, whose pages libc gives back and takes again all the time. They outlive it likewise. Their data
 * begin a line. */
#define CW_STREAM_LONG  ((16u << 10) + CW_CACHE_LINE)
#define CW_STREAM_SLOTS 16u

struct cw_stream_slots {
    struct cw_stream_segment *segments[CW_STREAM_SLOTS];    /* SPARE or USED; NULL: not made yet */
    unsigned next;
};

/* One per endpoint, made at first use. */
struct cw_stream {
    struct ucp_ep *ep;
    uint64_t sent;                  /* given to the transport */
    uint64_t credited;              /* the peer let go of it */
    uint64_t credit_later;          /* likewise, but held sends have to be tried before it is used; 0: none */
    uint64_t arrived;
    uint64_t consumed;
    uint64_t told;                  /* the last credit that we gave */
    struct cw_stream_segment *first;
    struct cw_stream_segment *last; /* of those that are unread ... */
    size_t segments;                /* ... their number ... */
    size_t unread;                  /* ... and their bytes: arrived - consumed, outside of cw_stream_on_data */
    struct cw_stream_segment *spare; /* for short packets, SPARE or USED; NULL: not made yet */
    struct cw_list receives;        /* posted, in order */
    struct cw_list ready_link;      /* cw_op_state.streams */
    uint64_t left;                  /* counted in cw_op_state.left: its peer is gone, and nobody has the handle */
};

/* Credits are told in steps of this, so that a sender does not wait for the end of a full window. */
#define CW_STREAM_CREDIT_STEP (CW_STREAM_WINDOW / 4)

/* stream.c. The endpoint's stream; NULL: no memory. */
struct cw_stream *cw_stream_get(struct ucp_ep *ep);
/* Gives the peer credit for what was consumed. */
void cw_stream_tell(struct cw_stream *stream);

/* The program has these bytes, or nobody will: gives the peer credit once in a while. */
static inline void cw_stream_consume(struct cw_stream *stream, size_t length)
{
    stream->consumed += length;
    if (cw_unlikely(stream->consumed - stream->told >= CW_STREAM_CREDIT_STEP)) {
        cw_stream_tell(stream);
    }
}

static inline void cw_stream_segment_free(struct cw_stream_segment *segment)
{
    uint32_t state = CW_STREAM_USED;

    if (__atomic_load_n(&segment->state, __ATOMIC_RELAXED) == CW_STREAM_PLAIN ||
        (!__atomic_compare_exchange_n(&segment->state, &state, CW_STREAM_SPARE, 0, __ATOMIC_RELEASE,
                                      __ATOMIC_ACQUIRE) && state == CW_STREAM_ORPHAN)) {
        free(segment);
    }
}

/* Removes the first unread segment, which then belongs to the caller. */
static inline struct cw_stream_segment *cw_stream_pop(struct cw_stream *stream)
{
    struct cw_stream_segment *segment = stream->first;

    stream->unread -= segment->length - segment->taken;
    stream->segments--;
    stream->first = segment->next;
    if (stream->first == NULL) {
        cw_list_remove(&stream->ready_link); /* drained before it was reported (STR-14) */
        stream->ep->unread = 0;
    }
    return segment;
}

/* A segment for so many bytes, at most CW_STREAM_LONG, from `taken` on. NULL: none is spare. */
struct cw_stream_segment *cw_stream_get_long(struct ucp_worker *worker, size_t length);
void cw_stream_worker_end(struct ucp_worker *worker);

ssize_t cw_stream_poll(struct ucp_worker *worker, ucp_stream_poll_ep_t *eps, size_t max);
/* The endpoint is lost: receives end with this status, what is unread is dropped (ERR-8). */
void cw_stream_ep_lost(struct ucp_ep *ep, ucs_status_t status);
/* The endpoint was adopted (STR-18) or closed (CLS-12). */
void cw_stream_ep_user_changed(struct ucp_ep *ep);

/* What one packet takes of `max` bytes with that window: the next piece begins with a line of memory. */
static inline size_t cw_stream_max_piece(size_t max, size_t window)
{
    max = (max < window) ? max : window;
    return (max > CW_CACHE_LINE) ? max & ~(size_t)(CW_CACHE_LINE - 1) : max;
}

/* For protocols: the first attempt, out of the program's contiguous memory or copied. */
ucs_status_t cw_stream_send_begin(struct cw_request *request, int zcopy);

/* stream_send.c. Results as the *_nbx calls define them (REQ-1). */
ucs_status_ptr_t cw_stream_send(struct ucp_ep *ep, const void *buffer, size_t count, const ucp_request_param_t *param);
ucs_status_t cw_stream_on_credit(struct ucp_ep *ep, const void *data, size_t length);

/* Whether a send of that length is one cell, now, and within the window. */
static CW_INLINE int cw_stream_has_cell(const struct ucp_ep *ep, size_t length)
{
    const struct cw_stream *stream = cw_op_ep(ep)->stream;

    return length > 0 && cw_ep_can_put(ep, length) && stream != NULL &&
           length <= CW_STREAM_WINDOW - (stream->sent - stream->credited);
}

/* Then this sends it; plain bytes, and nothing unusual asked for. */
ucs_status_ptr_t cw_stream_send_cell(struct ucp_ep *ep, const void *buffer, size_t length);

/* stream_recv.c */
ucs_status_ptr_t cw_stream_recv(struct ucp_ep *ep, void *buffer, size_t count, size_t *length,
                                const ucp_request_param_t *param);
/* Hands out the first segment itself; cw_stream_data_free takes it back. */
ucs_status_ptr_t cw_stream_recv_data(struct ucp_ep *ep, size_t *length);
void cw_stream_data_free(void *data);
ucs_status_t cw_stream_on_data(struct ucp_ep *ep, const void *data, size_t length);
/* The same for a packet of an open endpoint, whatever becomes of it: a short one that nobody waits for is kept at
 * once. */
void cw_stream_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);

#endif
