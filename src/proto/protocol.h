/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol selection by message length: pure functions of the interface's limits, the settings and the connection's
 * state. Each protocol of a table (src/proto) offers a range of lengths and a cost. The cheapest wins, and of equally
 * cheap ones the first in the table. docs/change/long-messages.md explains the protocols.
 */
#ifndef CW_PROTO_PROTOCOL_H
#define CW_PROTO_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucs/type/status.h>

#define CW_PLAN_AUTO  (SIZE_MAX - 1) /* as CW_MEMUNITS_AUTO */
#define CW_PLAN_NEVER SIZE_MAX

/* The longest header that a protocol puts before a message, without the program's own. */
#define CW_PLAN_HEADER 32u

/* The longest header of one packet: ours and the program's own. */
#define CW_PLAN_MAX_HEADER (CW_PLAN_HEADER + 4096u)

struct cw_protocol_input {
    size_t max_short;       /* payload */
    uint8_t lacks_short;    /* not even a header fits the short send */
    size_t max_bcopy;
    size_t max_zcopy;      /* 0: the transport cannot send without a copy */
    size_t zcopy_break_even; /* of the transport: a shorter message costs less with a copy */
    size_t max_registered; /* 0: the transport cannot send from registered memory */
    size_t max_placed;     /* 0: the transport cannot place payloads */
    bool places_in_order;  /* it can, in order with other packets */
    unsigned rma_rails;    /* setting: lanes that may share an announced put */
    int memory;            /* the peer's memory can be reached, if the kernel permits it; then the next member counts */
    size_t copies_break_even; /* of the transport: a shorter message costs less in packets */
    bool in_process;       /* the peer is the same process */
    size_t rndv_thresh;    /* settings; CW_PLAN_AUTO, CW_PLAN_NEVER */
    double latency_ns;     /* struct cw_limits */
    double bandwidth_bps;
    double overhead_ns;
    const char *rndv_setting; /* name of the setting behind the threshold, for info output */
    uint8_t rndv_scheme;      /* enum cw_rndv_scheme */
    uint8_t access;           /* the device reads and writes the peer's memory; then the next members are valid */
    double register_ns;       /* struct cw_domain_attr */
    double register_byte_ns;
    size_t rndv_fast_thresh;  /* RNDV_SEND_NBR_THRESH */
    size_t zcopy_thresh;
};

/* Lengths in bytes; each `min` is the first length of its protocol. */
struct cw_protocol_plan {
    size_t short_end; /* below: short */
    size_t zcopy_min; /* eager without a copy from here */
    size_t rndv_min;
    size_t rndv_fast_min; /* of sends with FAST_CMPL */
    size_t rndv_late_min; /* lower bound for lists of memory */
    size_t rndv_copy_min; /* the receiver requests shorter announced messages in packets, others it may copy itself */
    uint8_t rndv_forced;  /* the user set the threshold */
};

void cw_protocol_choose(const struct cw_protocol_input *input, struct cw_protocol_plan *plan);

/* The operations that have a table. */
enum cw_proto_operation {
    CW_PROTO_TAG,
    CW_PROTO_AM,
    CW_PROTO_STREAM,
    CW_PROTO_PUT, /* the first of the one-sided ones */
    CW_PROTO_GET,
    CW_PROTO_AMO_POST,
    CW_PROTO_AMO_FETCH,
    CW_PROTO_RNDV, /* how an announced message is moved, if a device can move it */
    CW_PROTO_OPERATIONS
};

/* Layout of the program's data, as transports see it. */
enum cw_protocol_data {
    CW_DATA_CONTIG,
    CW_DATA_LIST,      /* of memory, with at most as many entries as one packet can hold */
    CW_DATA_SCATTERED, /* a list with more */
    CW_DATA_PACKED     /* packed by functions of the program */
};

enum cw_protocol_force { CW_FORCE_NONE, CW_FORCE_EAGER, CW_FORCE_RNDV };

/* Capabilities of one lane of the endpoint, with the tuning of its connection. */
struct cw_protocol_lane {
    struct cw_protocol_input input;
    const struct cw_protocol_plan *plan;
    size_t max_piece; /* payload of one packet */
    size_t max_whole; /* as max_piece, if the receiver uses them in place */
};

/* How the initiator of a one-sided operation reaches the memory. */
enum cw_protocol_remote {
    CW_REMOTE_MAPPED = 1, /* by loads and stores */
    CW_REMOTE_COPIES = 2, /* by copies between the processes */
    CW_REMOTE_ACCESS = 4, /* by the device of the lane; for an announced message: the announcement names the memory for
                           * devices */
    CW_REMOTE_ALL = 8
};

/* Input of a protocol's query. */
struct cw_protocol_ask {
    const struct cw_protocol_lane *lanes; /* the first is the message lane, which keeps the order */
    unsigned num_lanes;                   /* at least 1 */
    size_t header;                        /* of a single packet, with the program's own */
    size_t extra;                         /* the program's own, counted for the threshold of rendezvous */
    uint8_t data;                         /* enum cw_protocol_data */
    uint8_t force;         /* enum cw_protocol_force; EAGER for a one-sided operation: within the call or not at all */
    uint8_t fast;          /* FAST_CMPL */
    uint8_t used_in_place; /* the receiver reads a single packet in place: active messages */
    uint8_t in_call;       /* the call itself sends, on an open endpoint with nothing queued */
    uint8_t remote;        /* enum cw_protocol_remote */
    uint8_t registered;    /* local memory is registered with the device; for a message: by a handle of the program */
    uint8_t on_device;     /* contiguous memory of a GPU that only its domain copies: at this end, for a put at the
                              target; a long message is announced, so that copies at both ends overlap with transfer */
};

/* A lane that places a payload at the peer without a copy; NULL: none. */
static inline const struct cw_protocol_lane *cw_protocol_placing(const struct cw_protocol_ask *ask)
{
    unsigned i;

    for (i = 0; i < ask->num_lanes; i++) {
        if (ask->lanes[i].input.max_placed > 0) {
            return &ask->lanes[i];
        }
    }
    return NULL;
}

struct cw_protocol;
struct cw_request;

/* The time of an operation, until its bytes have arrived. */
struct cw_protocol_cost {
    double fixed_ns;
    double byte_ns;
};

/* Cost of bytes that this CPU moves in mapped memory, or that the kernel moves between processes. */
#define CW_COST_MEMORY ((struct cw_protocol_cost){.fixed_ns = 20, .byte_ns = 0.1})
#define CW_COST_SYSTEM ((struct cw_protocol_cost){.fixed_ns = 500, .byte_ns = 0.2})
/* Extra copy of each byte through a bounce buffer of the transport, on that side. */
#define CW_COST_COPY_BYTE_NS 0.1

/* A row of a table: a range of lengths and its protocol. */
struct cw_protocol_row {
    size_t first;
    size_t last; /* CW_PLAN_NEVER: no end */
    struct cw_protocol_cost cost;
    int fixed; /* its first length is set or constant: a later protocol of the table does not replace it */
    const char *name;
    const char *why;
    const struct cw_protocol *protocol;
};

struct cw_protocol {
    /* Pure. Sets the lengths that the protocol offers, and `name` and `why` for info output. The row is initialized to
     * all lengths at the cost of one packet. 0: offers none. */
    int (*query)(const struct cw_protocol_ask *ask, struct cw_protocol_row *row);
    /* The first attempt to send (`send` of struct cw_request); sets request->send if another function continues. NULL:
     * the call itself sends, without a request; for CW_PROTO_RNDV: the receiver asks the sender for packets. */
    ucs_status_t (*start)(struct cw_request *request);
    uint8_t announces; /* the receiver decides when the bytes arrive, so they need no credit */
    uint8_t at_once;   /* complete once the transport has accepted the bytes */
    uint8_t reads;     /* for an announced message: the receiver's device reads the sender's memory, which the sender
                        * has registered */
};

#define CW_PROTOCOL_MAX_ROWS 8u

/* The cost over that lane, with this many one-way trips; the bandwidth may be unknown (0). */
static inline struct cw_protocol_cost cw_protocol_cost(const struct cw_protocol_lane *lane, double trips)
{
    return (struct cw_protocol_cost){.fixed_ns = trips * (lane->input.latency_ns + 2 * lane->input.overhead_ns),
                                     .byte_ns = (lane->input.bandwidth_bps > 0) ? 1e9 / lane->input.bandwidth_bps : 1};
}

/* Fills the rows for all lengths from 0 to CW_PLAN_NEVER: each length gets the cheapest protocol that offers it, and of
 * equally cheap ones the first in the table. Returns how many rows. The table ends with NULL, and its last protocol
 * offers every length. */
unsigned cw_protocol_rows(const struct cw_protocol *const *table, const struct cw_protocol_ask *ask,
                          struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS]);

/* Estimated seconds of an operation of that length by these rows: finite, and growing with the length. */
double cw_protocol_estimate(const struct cw_protocol_row *rows, unsigned count, size_t length);

#endif
