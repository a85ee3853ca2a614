/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of a worker, and the layout of the memory in which other processes of its user read them
 * (docs/reference/observing.md). Only the worker writes them. Tools in tools/ read them, and check every byte, because
 * another process may have written it. Requires only 64-bit words, in host byte order.
 *
 * New counters go to the end of the list, and a reader shows those that it knows. Any other change of the layout is a
 * new version.
 */
#ifndef CW_CORE_COUNTERS_H
#define CW_CORE_COUNTERS_H

#include <stdint.h>

#define CW_COUNTERS_NAME       "causeway-worker"            /* of the memory, in /proc/PID/fd */
#define CW_COUNTERS_MAGIC      UINT64_C(0x53544e4357554143) /* "CAUWCNTS" */
#define CW_COUNTERS_VERSION    1u
#define CW_COUNTERS_TRANSPORTS 8u
#define CW_COUNTERS_MAX        256u                         /* upper bound accepted by a reader */

/*
 * CW_COUNTER(NAME, name for texts, G for a gauge or C for a monotonic counter, description). Each kind of operation has
 * four in this order: messages sent, messages received, bytes sent, bytes received. Bytes are payload bytes. The two
 * counters that one message increments are not adjacent, because compilers generate slower code for additions to
 * neighbours.
 */
#define CW_COUNTERS(CW_COUNTER)                                                                                       \
    CW_COUNTER(TAG_SENT, "tag_sent", C, "tag messages sent")                                                          \
    CW_COUNTER(TAG_RECEIVED, "tag_received", C, "tag messages matched with a receive")                                \
    CW_COUNTER(TAG_SENT_BYTES, "tag_sent_bytes", C, "bytes of tag messages sent")                                     \
    CW_COUNTER(TAG_RECEIVED_BYTES, "tag_received_bytes", C, "bytes of tag messages matched with a receive")           \
    CW_COUNTER(AM_SENT, "am_sent", C, "active messages sent")                                                         \
    CW_COUNTER(AM_RECEIVED, "am_received", C, "active messages passed to a handler")                                  \
    CW_COUNTER(AM_SENT_BYTES, "am_sent_bytes", C, "bytes of active messages sent")                                    \
    CW_COUNTER(AM_RECEIVED_BYTES, "am_received_bytes", C, "bytes of active messages passed to a handler")             \
    CW_COUNTER(STREAM_SENT, "stream_sent", C, "stream sends")                                                         \
    CW_COUNTER(STREAM_RECEIVED, "stream_received", C, "stream fragments received")                                    \
    CW_COUNTER(STREAM_SENT_BYTES, "stream_sent_bytes", C, "stream bytes sent")                                        \
    CW_COUNTER(STREAM_RECEIVED_BYTES, "stream_received_bytes", C, "stream bytes received")                            \
    CW_COUNTER(PUT_SENT, "put_sent", C, "puts issued")                                                                \
    CW_COUNTER(PUT_RECEIVED, "put_received", C, "puts of peers executed here")                                        \
    CW_COUNTER(PUT_SENT_BYTES, "put_sent_bytes", C, "bytes of puts issued")                                           \
    CW_COUNTER(PUT_RECEIVED_BYTES, "put_received_bytes", C, "bytes of puts of peers executed here")                   \
    CW_COUNTER(GET_SENT, "get_sent", C, "gets served to peers")                                                       \
    CW_COUNTER(GET_RECEIVED, "get_received", C, "gets issued")                                                        \
    CW_COUNTER(GET_SENT_BYTES, "get_sent_bytes", C, "bytes of gets served to peers")                                  \
    CW_COUNTER(GET_RECEIVED_BYTES, "get_received_bytes", C, "bytes of gets issued")                                   \
    CW_COUNTER(AMO_SENT, "amo_sent", C, "atomics issued")                                                             \
    CW_COUNTER(AMO_RECEIVED, "amo_received", C, "atomics of peers executed here")                                     \
    CW_COUNTER(AMO_SENT_BYTES, "amo_sent_bytes", C, "bytes of atomics issued")                                        \
    CW_COUNTER(AMO_RECEIVED_BYTES, "amo_received_bytes", C, "bytes of atomics of peers executed here")                \
    CW_COUNTER(EPS, "endpoints", G, "endpoints, including those created by a peer only")                              \
    CW_COUNTER(EPS_FAILED, "endpoints_failed", C, "endpoints that failed")                                            \
    CW_COUNTER(DIALS, "dials", C, "connection attempts")                                                              \
    CW_COUNTER(REDIALS, "redials", C, "connection attempts repeated after a failure or timeout")                      \
    CW_COUNTER(CONN_REQUESTS, "connection_requests", C, "clients that connected to a listener")                       \
    CW_COUNTER(POSTED, "posted", G, "tag receives waiting for a message")                                             \
    CW_COUNTER(UNEXPECTED, "unexpected", G, "tag messages waiting for a receive")                                     \
    CW_COUNTER(UNEXPECTED_BYTES, "unexpected_bytes", G, "bytes of those, announced ones included")                    \
    CW_COUNTER(WAITING, "waiting", G, "operations blocked on connection, buffer space, credits or batching")          \
    CW_COUNTER(WAITED, "waited", C, "operations that were blocked")                                                   \
    CW_COUNTER(RETRIES, "retries", C, "retries of blocked operations that found no space")                            \
    CW_COUNTER(REQUESTS, "requests", G, "requests of the library's own memory not yet freed by the program")          \
    CW_COUNTER(RNDV_SENT, "rendezvous_sent", C, "messages announced to a peer")                                       \
    CW_COUNTER(RNDV_RECEIVED, "rendezvous_received", C, "announced messages that were fetched")                       \
    CW_COUNTER(BUSY, "busy_rounds", C, "progress calls that found work")                                              \
    CW_COUNTER(POLLS, "polls", C, "polls of descriptors, once in many progress calls")                                \
    CW_COUNTER(ARMS, "arms", C, "times the worker was armed for sleep")                                               \
    CW_COUNTER(ARMS_BUSY, "arms_busy", C, "times arming failed because an event was pending")                         \
    CW_COUNTER(BAD_PACKETS, "bad_packets", C, "packets that broke the protocol or found no memory")                   \
    CW_COUNTER(RECEIVES_DRY, "receives_dry", C, "times a device had no receive posted for a packet of a peer")

/* Offset from a counter of messages to that of their bytes. */
#define CW_COUNT_BYTES 2u

enum cw_counter {
#define CW_COUNTER(id, name, kind, text) CW_COUNT_##id,
    CW_COUNTERS(CW_COUNTER)
#undef CW_COUNTER
    CW_COUNT_LAST
};

/* The connections of one transport. */
struct cw_counters_transport {
    char name[16];
    uint64_t open;                      /* now */
    uint64_t opened;                    /* in all */
};

struct cw_counters_page {
    uint64_t magic;
    uint64_t version;
    uint64_t sequence;                  /* odd while the worker writes */
    uint64_t pid;                       /* the process id when the page was made: a child that inherited the page has
                                           another one */
    uint64_t uid;                       /* of the worker, as in its address */
    uint64_t started_ns;                /* monotonic clock */
    uint64_t num_transports;
    uint64_t num_values;
    uint64_t trace_offset;              /* of struct cw_trace_ring from here; 0: none */
    uint64_t trace_length;              /* bytes */
    uint64_t reserved[6];
    char name[32];                      /* of the worker, ends with NUL */
    struct cw_counters_transport transports[CW_COUNTERS_TRANSPORTS];
    uint64_t values[CW_COUNT_LAST];     /* num_values of them */
};

_Static_assert(CW_COUNT_LAST <= CW_COUNTERS_MAX, "readers know all of them");
_Static_assert(sizeof(struct cw_counters_page) <= 4096, "one page");

/* A worker's own copy, which it increments; the counters of tag and active messages share one cache line. */
struct cw_counters {
    _Alignas(64) uint64_t values[CW_COUNT_LAST];
    struct cw_counters_transport transports[CW_COUNTERS_TRANSPORTS];
};

#endif
