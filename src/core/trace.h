/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker's last events (docs/reference/observing.md): the layout of the ring, which lies behind the worker's
 * counters, and the functions that write it. When it is off, it costs one predictable branch where an event could be
 * written, and nothing for packets: tables of functions that record packets wrap those of the transports only while the
 * ring is on.
 */
#ifndef CW_CORE_TRACE_H
#define CW_CORE_TRACE_H

#include <stdint.h>

#define CW_TRACE_MAGIC      UINT64_C(0x31435254574143)  /* "CAWTRC1" */
#define CW_TRACE_MAX_EVENTS (UINT64_C(1) << 20)

enum cw_trace_kind {
    CW_TRACE_BEGIN = 1,     /* an operation that has a request: id enum cw_counter of its messages */
    CW_TRACE_END,           /* the request is complete, or the call returned without one: status */
    CW_TRACE_PATH,          /* the protocol of an operation: id enum cw_trace_path; only the last one of an operation
                               counts */
    CW_TRACE_OUT,           /* a packet was given to the transport: id of the packet; the status if the transport did
                               not accept it */
    CW_TRACE_IN,            /* a packet arrived */
    CW_TRACE_ANSWER,        /* the peer's packet about a request arrived: id of the packet */
    CW_TRACE_STATE,         /* an endpoint changed its state: id enum cw_ep_state */
    CW_TRACE_FAILED,        /* an endpoint failed: status */
    CW_TRACE_SLEEP,         /* the program is about to sleep, or must not: status */
    CW_TRACE_WAKE,          /* the first progress after that */
    CW_TRACE_KINDS
};

enum cw_trace_path {
    CW_TRACE_COPIED,        /* one packet, copied */
    CW_TRACE_WITHOUT_COPY,  /* one packet, zero-copy from the program's memory */
    CW_TRACE_PIECES,        /* several packets */
    CW_TRACE_ANNOUNCED,     /* by rendezvous */
    CW_TRACE_MAPPED,        /* one-sided, as those below: by loads and stores, because the memory is mapped here */
    CW_TRACE_SYSTEM,        /* copied between the processes */
    CW_TRACE_ASKED = 8,    /* a get requested from the target; tools of older releases know this number and those
                              below */
    CW_TRACE_PARTS = 10,   /* a put or get of many pieces */
    CW_TRACE_DEVICE = 11,   /* by the device of the lane */
    CW_TRACE_PATHS
};

struct cw_trace_event {
    uint64_t number;        /* from 1 on; written last, 0 while the rest is written */
    uint64_t time_ns;       /* monotonic clock */
    uint64_t request;       /* the number of the request while it lives; 0: none */
    uint64_t peer;          /* uid of the worker at the other end; 0: none */
    uint64_t tag;
    uint64_t length;
    uint32_t endpoint;      /* number of the endpoint among those to this peer */
    int32_t status;
    uint16_t kind;
    uint16_t id;
    uint32_t reserved;
};

_Static_assert(sizeof(struct cw_trace_event) == 64, "layout shared with tools");

struct cw_trace_ring {
    uint64_t magic;
    uint64_t num_events;    /* a power of two */
    uint64_t next;          /* number of the next event, less one; its index is the remainder of this by num_events */
    uint64_t reserved[5];
    struct cw_trace_event events[];
};

#endif
