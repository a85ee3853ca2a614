/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: the operations behind ucp_stream_* and the handlers of their packets. Called with the worker entered.
 *
 * Every position is a count of bytes since the beginning of the stream. The receiver stores bytes that no receive
 * takes, at most CW_STREAM_WINDOW: the sender stays within this window after the last credit. Sends without credit wait
 * on ep->blocked, where they delay no other sends. Bytes count as consumed when the program has them, or when it will
 * never read them. While a receive is posted nothing is stored.
 */
#ifndef CW_STREAM_STREAM_H
#define CW_STREAM_STREAM_H

#include <stdlib.h>

#include "msg/datatype.h"
#include "msg/op_ep.h"
#include "wire/packet.h"

/* The unread bytes of one packet. Beyond CW_STREAM_SEGMENTS of them, a segment holds several short packets, each
 * preceded by its length: programs that read by segments get each packet separately. `back` is the distance from the
 * data that the program gets to the beginning of the allocation. It directly precedes that data, even if a receive has
 * read the packet's first bytes. */
#define CW_STREAM_SEGMENTS 16

struct cw_stream_segment {
    struct cw_stream_segment *next;
    uint32_t length;                /* of data[], or of all packets in it; at most a window */
    uint32_t taken;                 /* bytes of it that were read */
    uint32_t size;                  /* size of data[] if several packets share it, otherwise 0 */
    uint32_t first_at;              /* shared: offset of the oldest packet */
    uint32_t end_at;                /* shared: end of the newest packet */
    uint32_t state;                 /* enum cw_stream_segment_state; atomic, because data are released without a lock */
    size_t back;
    char data[];
};

/* A stream has a segment for short packets that it reuses. The segment outlives the stream while the program holds its
 * data. */
enum cw_stream_segment_state { CW_STREAM_PLAIN, CW_STREAM_SPARE, CW_STREAM_USED, CW_STREAM_ORPHAN };

/* A worker has segments for long packets of all its streams, each allocated at its first use. An allocation for each
 * packet would be at the end of the heap, whose pages libc returns to the system and requests again each time. These
 * segments outlive the worker while the program holds their data. Their data begins at a cache line. */
#define CW_STREAM_LONG  ((16u << 10) + CW_CACHE_LINE)
#define CW_STREAM_SLOTS 16u

struct cw_stream_slots {
    struct cw_stream_segment *segments[CW_STREAM_SLOTS];    /* SPARE or USED; NULL: not allocated yet */
    unsigned next;
};

/* State of a worker. */
struct cw_stream_state {
    struct cw_list ready; /* endpoints with unread data that ucp_stream_worker_poll did not report yet */
    struct cw_stream_slots slots;
};

/* An endpoint has one, created at first use. */
struct cw_stream {
    struct ucp_ep *ep;
    uint64_t sent;                  /* bytes handed to the transport */
    uint64_t credited;              /* bytes that the peer has consumed */
    uint64_t credit_later;          /* newer value of `credited`, effective after blocked sends were retried; 0: none */
    uint64_t arrived;
    uint64_t consumed;
    uint64_t reported;              /* `consumed` in the last credit sent to the peer */
    struct cw_stream_segment *first;
    struct cw_stream_segment *last; /* the newest unread segment */
    size_t segments;                /* number of unread segments */
    size_t unread;                  /* their bytes: arrived - consumed, except within cw_stream_on_data */
    struct cw_stream_segment *spare; /* for short packets, SPARE or USED; NULL: not allocated yet */
    struct cw_list receives;        /* posted, in order */
    struct cw_list ready_link;      /* worker->stream->ready */
    uint64_t left;                  /* bytes in worker->msg->left: the peer is gone, and the program has no handle */
};

/* The receiver sends credit after this many bytes, so that the sender does not wait for the end of a full window. */
#define CW_STREAM_CREDIT_STEP (CW_STREAM_WINDOW / 4)

/* stream.c. Returns the endpoint's stream, created if needed; NULL: no memory. */
struct cw_stream *cw_stream_get(struct ucp_ep *ep);
/* Sends the peer credit for all consumed bytes. */
void cw_stream_send_credit(struct cw_stream *stream);

/* Counts bytes that the program has, or that it will never read; sends the peer credit after each step. */
static inline void cw_stream_consume(struct cw_stream *stream, size_t length)
{
    stream->consumed += length;
    if (cw_unlikely(stream->consumed - stream->reported >= CW_STREAM_CREDIT_STEP)) {
        cw_stream_send_credit(stream);
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
        cw_list_remove(&stream->ready_link); /* drained before it was reported */
        stream->ep->unread = 0;
    }
    return segment;
}

/* Returns a spare segment for `length` bytes, at most CW_STREAM_LONG, with `taken` set to their offset. NULL: none is
 * spare. */
struct cw_stream_segment *cw_stream_get_long(struct ucp_worker *worker, size_t length);
void cw_stream_worker_end(struct ucp_worker *worker);

ssize_t cw_stream_poll(struct ucp_worker *worker, ucp_stream_poll_ep_t *eps, size_t max);
/* The endpoint has ended: receives end with this status, and unread bytes are dropped. */
void cw_stream_ep_ended(struct ucp_ep *ep, ucs_status_t status);
/* The endpoint was adopted or closed. */
void cw_stream_ep_user_changed(struct ucp_ep *ep);

/* The bytes of one packet of at most `max` bytes within that window: the next piece begins at a cache line. */
static inline size_t cw_stream_max_piece(size_t max, size_t window)
{
    max = (max < window) ? max : window;
    return (max > CW_CACHE_LINE) ? max & ~(size_t)(CW_CACHE_LINE - 1) : max;
}

/* For protocols: the first attempt; `zcopy`: directly from the program's contiguous memory. */
ucs_status_t cw_stream_send_begin(struct cw_request *request, int zcopy);

/* send.c. Results as the *_nbx calls define them. */
ucs_status_ptr_t cw_stream_send(struct ucp_ep *ep, const void *buffer, size_t count, const ucp_request_param_t *param);
ucs_status_t cw_stream_on_credit(struct ucp_ep *ep, const void *data, size_t length);

/* The bytes that may be sent now. */
static CW_INLINE size_t cw_stream_window(const struct cw_stream *stream)
{
    return CW_STREAM_WINDOW - (size_t)(stream->sent - stream->credited);
}

/* recv.c */
ucs_status_ptr_t cw_stream_recv(struct ucp_ep *ep, void *buffer, size_t count, size_t *length,
                                const ucp_request_param_t *param);
/* Lends the data of the first segment to the program without a copy; cw_stream_data_free returns it. */
ucs_status_ptr_t cw_stream_recv_data(struct ucp_ep *ep, size_t *length);
void cw_stream_data_free(void *data);
ucs_status_t cw_stream_on_data(struct ucp_ep *ep, const void *data, size_t length);
/* As cw_stream_on_data, for an open endpoint; handles errors itself. Fast path for a short packet that no receive waits
 * for. */
void cw_stream_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);

#endif
