/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further lanes of an endpoint (docs/why/lanes.md). The message lane, ep->conn, carries everything whose order
 * matters. Further lanes carry placed packets: pieces of rendezvous and answers to gets, which name their target and
 * may come in any order. They are opened when the first long message needs them, by the side that dialled the message
 * lane; a lane that cannot be had, or that ends, is done without.
 *
 *      NONE --dialled--> DIALING --accepted--> OPEN --its end, silence--> ENDED --the peer has closed it, too--> NONE
 *        `--accepted here------------------------^                          (and is of the next generation then)
 *
 * A packet that was sent on a further lane is kept until the receiver has told, on the message lane, that it came. When
 * a lane has ended on both sides both know what came whole, and so which packets: the others are sent again on the
 * lanes that are left. Invariant: sent = confirmed + bytes of `kept`.
 */
#ifndef CW_CORE_LANES_H
#define CW_CORE_LANES_H

#include "core/ep.h"
#include "wire/lane.h"

enum cw_further_state { CW_FURTHER_NONE, CW_FURTHER_DIALING, CW_FURTHER_OPEN, CW_FURTHER_ENDED };

struct cw_further_lane {
    struct cw_conn *conn;  /* DIALING, OPEN */
    struct cw_list kept;   /* struct cw_kept, the oldest first */
    struct cw_list places; /* struct cw_lane_place: packets that the transport is placing */
    uint64_t sent;         /* bytes of placed packets: all, */
    uint64_t confirmed;    /* those that the peer has told of; */
    uint64_t taken;        /* and those that came whole here, */
    uint64_t told;         /* of which the peer was told */
    uint64_t peer_sent;    /* what END said */
    uint64_t peer_taken;
    uint64_t moved_ns;     /* when something was confirmed the last time */
    uint64_t window_ns;    /* how long ... */
    uint64_t window_bytes; /* ... so much was under way: its bandwidth */
    uint64_t retry_ns;     /* NONE: not dialled again before */
    uint16_t generation;
    uint8_t state;
    uint8_t full; /* the transport had no room, or the lane is about to end */
    uint8_t told_end;
    uint8_t heard_end;
    uint8_t probes; /* in vain, since something moved */
};

struct cw_lanes {
    struct ucp_ep *ep;
    struct cw_list lost;    /* struct cw_kept: to be sent again */
    struct cw_list flushes; /* struct cw_lanes_flush */
    struct cw_alarm watch;  /* while anything is kept */
    uint64_t num_kept;
    uint64_t next_number;  /* of the next packet that is kept */
    uint64_t next_dial_ns; /* the dialler looks after missing lanes then */
    uint8_t token[CW_LANE_TOKEN];
    uint8_t max;                                  /* lanes that both sides want */
    uint8_t untold;                               /* something could not be told for want of room */
    struct cw_further_lane further[CW_MAX_LANES]; /* lane 1 is the first */
};

/* A packet that was sent on a further lane. */
struct cw_kept {
    struct cw_completion own; /* of the transport */
    struct cw_list link;
    struct cw_lanes *lanes;
    struct cw_completion *completion; /* of the operation */
    uint64_t number;
    uint64_t since_ns;
    size_t length;
    unsigned count;
    uint8_t id;
    uint8_t busy; /* the transport will call `own` */
    uint8_t over; /* nothing but that is left to wait for; in no list */
    uint8_t came; /* and the peer has it */
    uint8_t header[CW_PLACE_HEADER];
    struct iovec iov[];
};

/* Payload of rendezvous that is worth further lanes. */
#define CW_LANES_WORTH (256u << 10)
/* Pieces of it, so that each lane gets some. */
#define CW_LANES_PIECE (512u << 10)

/* How many lanes a message may be spread over, and the peers may open. */
unsigned cw_lanes_wanted(const struct ucp_worker *worker);
static inline unsigned cw_lanes_for_rma(const struct ucp_worker *worker)
{
    return worker->context->config->max_rma_rails;
}
static inline unsigned cw_lanes_for_rndv(const struct ucp_worker *worker)
{
    return worker->context->config->max_rndv_rails;
}

/* lanes_choose.c. The lane for the next piece of a payload of which `left` bytes are to be sent, over at most `rails`
 * lanes; *piece_p is how much it should get. NULL: none has room; CW_HOLD is the answer of the attempt. */
struct cw_conn *cw_lanes_choose(struct ucp_ep *ep, size_t left, unsigned rails, size_t *piece_p);
/* Sends a placed packet there. CW_HOLD: a further lane has no room. */
ucs_status_t cw_lanes_send(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *header,
                           const struct iovec *iov, unsigned count, struct cw_completion *completion);
/* What is lost goes out again, as far as there is room. */
void cw_lanes_resend(struct cw_lanes *lanes);
/* So many bytes were confirmed. */
void cw_lanes_measure(struct cw_further_lane *lane, uint64_t bytes);

/* lanes.c. Makes the table of an endpoint, for up to `max` further lanes. NULL: no memory. */
struct cw_lanes *cw_lanes_new(struct ucp_ep *ep, unsigned max);
/* The lane of that connection; NULL: it is none of the further ones. */
struct cw_further_lane *cw_lanes_find(const struct ucp_ep *ep, const struct cw_conn *conn);
/* Its number. */
static inline unsigned cw_lane_index(const struct cw_lanes *lanes, const struct cw_further_lane *lane)
{
    return (unsigned)(lane - lanes->further) + 1;
}
/* A long message is to be sent: sees that there are further lanes soon, if there can be any. */
void cw_lanes_want(struct ucp_ep *ep);
void cw_lanes_opened(struct ucp_ep *ep, struct cw_further_lane *lane, struct cw_conn *conn);
void cw_lanes_dial_failed(struct ucp_ep *ep, struct cw_further_lane *lane);
/* The packet LANE. */
ucs_status_t cw_lanes_on_packet(struct ucp_ep *ep, const void *data, size_t length);
/* Some lane has room, or there is one more or less. */
void cw_lanes_room(struct ucp_ep *ep);
/* As cw_lane_flush of the message lane, and all that was sent on further lanes has come. */
ucs_status_t cw_lanes_flush(struct ucp_ep *ep, struct cw_completion *completion);
/* The endpoint is closed, or failed: no connection is left, and what is kept ends with this status. Not in upcalls. */
void cw_lanes_end(struct ucp_ep *ep, ucs_status_t status);
/* A kept packet came, or is given up: the operation gets its memory back. */
void cw_lanes_kept_end(struct cw_kept *kept, ucs_status_t status);

/* lanes_end.c. The transport asks for the place of a packet on a further lane. 0: no memory. */
int cw_lanes_placing(struct ucp_ep *ep, const struct cw_conn *conn, uint8_t id, const void *header, size_t length);
/* It is there. */
void cw_lanes_placed(struct ucp_ep *ep, const struct cw_conn *conn, const void *header, size_t length);
/* Tells the peer what came on which lane. */
void cw_lanes_tell(struct cw_lanes *lanes);
/* Whether there can be so many bytes of TAKEN, ALIVE; takes note. */
int cw_lanes_confirmed(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t taken);
/* END came. 0: its numbers cannot be. */
int cw_lanes_heard_end(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t sent, uint64_t taken);
/* An open lane ended here. Safe in upcalls. */
void cw_lanes_lost(struct cw_lanes *lanes, struct cw_further_lane *lane, const char *why);

#endif
