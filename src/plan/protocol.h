/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which protocol carries a message, by its length: pure functions of the interface's numbers, the settings and the
 * connection's state. Each protocol of a table (src/proto) says for which lengths it offers itself; of those that do,
 * the first in the table is taken. docs/change/long-messages.md explains the protocols.
 */
#ifndef CW_PLAN_PROTOCOL_H
#define CW_PLAN_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#include <ucs/type/status.h>

#define CW_PLAN_AUTO  (SIZE_MAX - 1) /* as CW_MEMUNITS_AUTO */
#define CW_PLAN_NEVER SIZE_MAX

/* What the protocols add before a message: the longest header of theirs, without a program's own. */
#define CW_PLAN_HEADER 32u

/* The longest header of one packet: ours and the program's own. */
#define CW_PLAN_MAX_HEADER (CW_PLAN_HEADER + 4096u)

struct cw_protocol_input {
    size_t max_short;
    size_t max_bcopy;
    size_t max_zcopy;   /* 0: cannot */
    size_t max_placed;  /* likewise */
    int memory;         /* the peer's memory can be reached, if the system allows it */
    int grows;          /* a connection that moves a good deal has less of rendezvous */
    size_t rndv_thresh; /* settings; CW_PLAN_AUTO, CW_PLAN_NEVER */
    double latency_ns;  /* struct cw_limits */
    double bandwidth_bps;
    double overhead_ns;
    const char *rndv_setting; /* where that comes from, for texts */
    uint8_t rndv_scheme;      /* enum cw_rndv_scheme */
    uint8_t access;           /* the device reads and writes the peer's memory; then also: */
    double register_ns;       /* struct cw_domain_attr */
    double register_byte_ns;
    size_t rndv_fast_thresh;  /* RNDV_SEND_NBR_THRESH */
    size_t zcopy_thresh;
};

/* Lengths in bytes; each `min` is the first length of its way. */
struct cw_protocol_plan {
    size_t short_end; /* below: short */
    size_t zcopy_min; /* eager without a copy from here */
    size_t rndv_min;
    size_t rndv_fast_min; /* of sends with FAST_CMPL */
    size_t rndv_late_min; /* at least, of lists of memory, and of active messages, used where they lie */
    uint8_t rndv_forced;  /* the user set the threshold */
};

void cw_protocol_choose(const struct cw_protocol_input *input, struct cw_protocol_plan *plan);

/* The operations that have a table. */
enum cw_proto_operation {
    CW_PROTO_TAG,
    CW_PROTO_TAG_FAST,
    CW_PROTO_AM,
    CW_PROTO_STREAM,
    CW_PROTO_PUT, /* the first of the one-sided ones */
    CW_PROTO_GET,
    CW_PROTO_AMO_POST,
    CW_PROTO_AMO_FETCH,
    CW_PROTO_RNDV, /* how the bytes of an announced message come, where a device can move them */
    CW_PROTO_OPERATIONS
};

/* The program's data, as transports may name it. */
enum cw_protocol_data {
    CW_DATA_CONTIG,
    CW_DATA_LIST,      /* of memory, with as many entries as one packet names */
    CW_DATA_SCATTERED, /* a list with more */
    CW_DATA_PACKED     /* packed by functions of the program */
};

enum cw_protocol_force { CW_FORCE_NONE, CW_FORCE_EAGER, CW_FORCE_RNDV };

/* What one lane of the endpoint can do, with the tuning of its connection. */
struct cw_protocol_lane {
    struct cw_protocol_input input;
    const struct cw_protocol_plan *plan;
    size_t max_piece; /* what one packet takes; */
    size_t max_whole; /* the same, of what is used in place; */
    size_t eager_end; /* what goes eagerly although the plan has rendezvous for it */
};

/* How the origin of a one-sided operation reaches the memory: what the key allows, and what is known of its owner. */
enum cw_protocol_remote {
    CW_REMOTE_MAPPED = 1, /* by loads and stores */
    CW_REMOTE_COPIES = 2, /* by copies between the processes */
    CW_REMOTE_OWNER  = 4, /* and its owner answers in time, as far as that is known */
    CW_REMOTE_ACCESS = 8, /* by the device of the lane; of an announced message: it is announced for it */
    CW_REMOTE_ALL    = 16
};

/* What protocols are asked with. */
struct cw_protocol_ask {
    const struct cw_protocol_lane *lanes; /* the first one is that of messages, which keeps their order */
    unsigned num_lanes;                   /* at least 1 */
    size_t header;                        /* of a single packet, with the program's own */
    size_t extra;                         /* the program's own, which counts for the threshold of rendezvous */
    uint8_t data;                         /* enum cw_protocol_data */
    uint8_t force;         /* enum cw_protocol_force; EAGER of a one-sided operation: now, or not at all */
    uint8_t fast;          /* FAST_CMPL */
    uint8_t used_in_place; /* the receiver reads a single packet where it lies: active messages */
    uint8_t in_call;       /* the call itself sends, on an open endpoint with nothing queued */
    uint8_t remote;        /* enum cw_protocol_remote */
    uint8_t registered;    /* the device knows our memory already */
};

/* A lane that places a payload at the peer without a copy; NULL: none does. */
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

/* What an operation takes, until its bytes are there. */
struct cw_protocol_cost {
    double fixed_ns;
    double byte_ns;
};

/* Moved by this processor where the memory is mapped, and by the system between processes. */
#define CW_COST_MEMORY ((struct cw_protocol_cost){.fixed_ns = 20, .byte_ns = 0.1})
#define CW_COST_SYSTEM ((struct cw_protocol_cost){.fixed_ns = 500, .byte_ns = 0.2})
/* A byte that goes through memory of the transport is copied once more at that side. */
#define CW_COST_COPY_BYTE_NS 0.1

/* One line of a table: lengths, and who carries them. */
struct cw_protocol_row {
    size_t first;
    size_t last; /* CW_PLAN_NEVER: no end */
    struct cw_protocol_cost cost;
    int fixed; /* begins where that was measured, or set: what stands behind it in the table does not displace it */
    const char *way;
    const char *why;
    const struct cw_protocol *protocol;
};

struct cw_protocol {
    /* Pure. The lengths for which the protocol offers itself, with `way` and `why` for people. 0: none. */
    int (*query)(const struct cw_protocol_ask *ask, struct cw_protocol_row *row);
    /* The first attempt to send (`send` of struct cw_request), which sets request->send if another one has to go on.
     * NULL: the call itself sends, before there is a request; of CW_PROTO_RNDV: the sender is asked for packets. */
    ucs_status_t (*start)(struct cw_request *request);
    uint8_t announces; /* the receiver decides when the bytes come, so they need no credit */
    uint8_t at_once;   /* complete when the transport has taken it */
    uint8_t reads;     /* of an announced message: out of the sender's memory, which the sender has registered */
};

#define CW_PROTOCOL_MAX_ROWS 8u

/* Over that lane, with so many trips from one side to the other; the bandwidth may be unknown (0). */
static inline struct cw_protocol_cost cw_protocol_cost(const struct cw_protocol_lane *lane, double trips)
{
    return (struct cw_protocol_cost){.fixed_ns = trips * (lane->input.latency_ns + 2 * lane->input.overhead_ns),
                                     .byte_ns  = (lane->input.bandwidth_bps > 0) ? 1e9 / lane->input.bandwidth_bps : 1};
}

/* The lengths from 0 to CW_PLAN_NEVER, each with the cheapest protocol of the table that offers itself, of equal ones
 * the first; returns how many rows. The table ends with NULL, and its last protocol offers itself for everything. */
unsigned cw_protocol_rows(const struct cw_protocol *const *table, const struct cw_protocol_ask *ask,
                          struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS]);

/* Seconds that an operation of that length takes by these rows (EP-36): finite, and growing with the length. */
double cw_protocol_estimate(const struct cw_protocol_row *rows, unsigned count, size_t length);

#endif
