/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further lanes of an endpoint (docs/why/lanes.md). The message lane, ep->conn, carries all packets whose order
 * matters. Further lanes carry placed packets: pieces of rendezvous and answers to gets, which name their destination
 * and may arrive in any order. Where the device of the message lane accesses the peer's memory, they carry such
 * accesses, by several devices (access/stripes.h), and no packets. The side that dialled the message lane opens them
 * when the first long message needs them. If a lane cannot be opened, or ends, the endpoint works without it.
 *
 *      NONE --dialled--> DIALING --accepted--> OPEN --its end, silence--> ENDED --the peer has closed it, too--> NONE
 *        `--accepted here------------------------^                          (and is of the next generation then)
 *
 * A packet sent on a further lane is retained until the receiver confirms it on the message lane. When a lane has ended
 * on both sides, each knows how many bytes arrived in complete packets, and so which packets: the others are sent again
 * on the remaining lanes. Invariant: sent = confirmed + bytes of `retained`.
 */
#ifndef CW_CORE_LANES_H
#define CW_CORE_LANES_H

#include "core/ep.h"
#include "core/lane_access.h"
#include "wire/lane.h"

enum cw_further_state { CW_FURTHER_NONE, CW_FURTHER_DIALING, CW_FURTHER_OPEN, CW_FURTHER_ENDED };

struct cw_further_lane {
    struct cw_conn *conn;  /* DIALING, OPEN */
    struct cw_list retained; /* struct cw_retained, the oldest first */
    struct cw_list places; /* struct cw_lane_place: packets that the transport is placing */
    uint64_t sent;         /* bytes of placed packets that were sent */
    uint64_t confirmed;    /* of these the bytes that the peer has confirmed */
    uint64_t taken;        /* bytes of placed packets that arrived complete */
    uint64_t reported;     /* of these the bytes confirmed to the peer */
    uint64_t peer_sent;    /* the numbers of the peer's END */
    uint64_t peer_taken;
    uint64_t moved_ns;     /* when the peer last confirmed something */
    uint64_t window_ns;    /* the time in which ... */
    uint64_t window_bytes; /* ... this many bytes were confirmed: the bandwidth */
    uint64_t retry_ns;     /* NONE: the lane is not redialled before this time */
    uint16_t generation;
    uint8_t state;
    uint8_t full; /* the transport has no tx space, or the lane is about to end */
    uint8_t reported_end;
    uint8_t heard_end;
    uint8_t probes; /* probes and answers since the peer last confirmed something; odd: an answer is missing */
};

struct cw_lanes {
    struct ucp_ep *ep;
    struct cw_list resend;  /* struct cw_retained: to be sent again */
    struct cw_list flushes; /* struct cw_lanes_flush */
    struct cw_alarm watch;  /* armed while any packet is retained */
    uint64_t num_retained;
    uint64_t next_number;  /* of the next retained packet */
    uint64_t next_dial_ns; /* when the dialler next opens missing lanes; 0: never */
    uint64_t rounds;       /* of redials since the last lane was lost, UCX_RECOVERY_RETRIES at most */
    uint8_t token[CW_LANE_TOKEN];
    uint8_t max;                                  /* lanes that both sides allow */
    uint8_t unreported;                           /* a confirmation could not be sent for lack of tx space */
    struct cw_further_lane further[CW_MAX_LANES]; /* lane 1 is the first */
};

/* A packet sent on a further lane. */
struct cw_retained {
    struct cw_completion own; /* called by the transport */
    struct cw_list link;
    struct cw_lanes *lanes;
    struct cw_completion *completion; /* of the operation */
    uint64_t number;
    uint64_t since_ns;
    size_t length;
    unsigned count;
    uint8_t id;
    uint8_t busy; /* the transport has not called `own` yet */
    uint8_t over; /* the packet is confirmed or given up, and only `own` is missing; on no list */
    uint8_t came; /* the packet is confirmed */
    uint8_t header[CW_PLACE_HEADER];
    struct iovec iov[];
};

/* A payload of rendezvous of this length is worth further lanes. */
#define CW_LANES_WORTH (256u << 10)
/* The length of its pieces, so that each lane gets some. */
#define CW_LANES_PIECE (512u << 10)

/* The number of lanes that a message may use, and that peers may open. */
unsigned cw_lanes_wanted(const struct ucp_worker *worker);
/* That of an endpoint. In mode FAILOVER there are spare lanes that messages can move to, however many are used at
 * once. */
unsigned cw_lanes_wanted_by(const struct ucp_ep *ep);
#define CW_LANES_FAILOVER 2u
static inline unsigned cw_lanes_for_rma(const struct ucp_worker *worker)
{
    return worker->context->config->max_rma_rails;
}
static inline unsigned cw_lanes_for_rndv(const struct ucp_worker *worker)
{
    return worker->context->config->max_rndv_rails;
}

/* lanes_choose.c. Chooses the lane for the next piece of a payload with `left` bytes to send, over at most `rails`
 * lanes; *piece_p is the length of the piece. NULL: the lane has no tx space, and the attempt must return
 * CW_BLOCKED. */
struct cw_conn *cw_lanes_choose(struct ucp_ep *ep, size_t left, unsigned rails, size_t *piece_p);
/* Sends a placed packet on the lane `conn`. CW_BLOCKED: a further lane has no tx space. */
ucs_status_t cw_lanes_send(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *header,
                           const struct iovec *iov, unsigned count, struct cw_completion *completion);
/* A payload of this length will be moved by accesses of at most `max` bytes: begins to open further lanes if it is
 * worth them, or the missing ones. */
void cw_lanes_expect(struct ucp_ep *ep, size_t length, size_t max);
/* Redials lanes that could not be opened, or that ended, when their time has come. */
void cw_lanes_search(struct cw_lanes *lanes);
/* Resends lost packets, as far as tx space allows. */
void cw_lanes_resend(struct cw_lanes *lanes);
/* The peer confirmed this many more bytes: updates the bandwidth of the lane. */
void cw_lanes_measure(struct cw_further_lane *lane, uint64_t bytes);

/* lanes.c. Makes the table of an endpoint, for up to `max` further lanes. NULL: out of memory. */
struct cw_lanes *cw_lanes_new(struct ucp_ep *ep, unsigned max);
/* The further lane of that connection; NULL: the connection is no further lane. */
struct cw_further_lane *cw_lanes_find(const struct ucp_ep *ep, const struct cw_conn *conn);
/* The number of the lane. */
static inline unsigned cw_lane_index(const struct cw_lanes *lanes, const struct cw_further_lane *lane)
{
    return (unsigned)(lane - lanes->further) + 1;
}
/* Whether devices move the long messages of an open endpoint by accesses to the peer's memory. */
static inline bool cw_lanes_access(const struct ucp_ep *ep)
{
    return cw_lane_peer_domain(ep->conn) != 0;
}
/* Whether a lane over this interface carries a share of long messages. */
static inline bool cw_lanes_suit(const struct cw_iface *iface, int by_access)
{
    return by_access ? iface->domain != NULL : cw_iface_carries_bulk(iface);
}
/* A long message will be sent: begins to open further lanes, if the endpoint may have any. */
void cw_lanes_want(struct ucp_ep *ep);
void cw_lanes_opened(struct ucp_ep *ep, struct cw_further_lane *lane, struct cw_conn *conn);
void cw_lanes_dial_failed(struct ucp_ep *ep, struct cw_further_lane *lane);
/* Handles the packet LANE. */
ucs_status_t cw_lanes_on_packet(struct ucp_ep *ep, const void *data, size_t length);
/* Whether both sides know that every packet of further lanes arrived. The endpoint must be open. */
static inline bool cw_lanes_are_settled(const struct ucp_ep *ep)
{
    return ep->lanes == NULL || (ep->lanes->num_retained == 0 && !ep->lanes->unreported);
}
/* A lane has tx space again, or was added or removed. */
void cw_lanes_space(struct ucp_ep *ep);
/* As cw_lane_flush of the message lane; complete when all packets of further lanes are confirmed as well. */
ucs_status_t cw_lanes_flush(struct ucp_ep *ep, struct cw_completion *completion);
/* Whether a further lane's device still uses memory, as cw_lane_stopping. */
bool cw_lanes_stopping(const struct ucp_ep *ep);
/* The endpoint is closed or has failed: it has no connections any more, and retained packets end with this status. Not
 * in upcalls. */
void cw_lanes_end(struct ucp_ep *ep, ucs_status_t status);
/* A retained packet is confirmed or given up: completes its part of the operation. */
void cw_lanes_retained_end(struct cw_retained *retained, ucs_status_t status);

/* lanes_end.c. The transport requests the place of a packet on a further lane. 0: out of memory. */
int cw_lanes_placing(struct ucp_ep *ep, const struct cw_conn *conn, uint8_t id, const void *header, size_t length);
/* The packet is in its place. */
void cw_lanes_placed(struct ucp_ep *ep, const struct cw_conn *conn, const void *header, size_t length);
/* Sends the peer the number of bytes received on each lane. */
void cw_lanes_announce(struct cw_lanes *lanes);
/* Handles the number of bytes in TAKEN or ALIVE. 0: the number is invalid. */
int cw_lanes_confirmed(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t taken);
/* Handles END. 0: its numbers are invalid. */
int cw_lanes_heard_end(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t sent, uint64_t taken);
/* An open lane has ended on this side. Safe in upcalls. */
void cw_lanes_lane_failed(struct cw_lanes *lanes, struct cw_further_lane *lane, const char *why);

#endif
