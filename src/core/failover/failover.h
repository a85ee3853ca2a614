/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message lane that outlives its connection: error mode FAILOVER (docs/why/failover.md).
 *
 * Such a lane is a connection of an interface that is made here, and not by a transport. It counts the packets that it
 * accepts, copies them, and passes them to a transport's connection, the carrier: at first the one that was dialled,
 * later a further lane. A copy is freed when the peer has confirmed the packet. The rest of the library uses the lane
 * as any other, and endpoints without FAILOVER have none.
 *
 *      CARRIED --end or silence of the carrier--> MOVING --HERE and TAKEN over a further lane--> CARRIED
 *                                                    `--no further lane is open--> the endpoint fails
 *
 * The side that dialled chooses the next carrier. Each side leaves the old carrier before it reports how many packets
 * it has handled, and the other side then sends exactly the packets behind these, so none is lost and none arrives
 * twice.
 *
 * Invariant: packets = taken - acked, with the numbers from `acked` on; `unsent` and those behind it were not passed to
 * the present carrier yet.
 */
#ifndef CW_CORE_FAILOVER_H
#define CW_CORE_FAILOVER_H

#include <stdbool.h>

#include "core/ep.h"
#include "core/lanes.h"
#include "wire/failover.h"

/* A packet that the peer has not confirmed. */
struct cw_failover_packet {
    struct cw_list link;
    uint64_t number;
    size_t length;
    uint8_t id;
    _Alignas(uint64_t) unsigned char bytes[]; /* header and payload */
};

struct cw_failover {
    struct cw_conn conn; /* the message lane of the endpoint; first */
    struct ucp_ep *ep;
    struct cw_conn *first;       /* the connection dialled for the endpoint; NULL: lost */
    struct cw_conn *carrier;     /* NULL: MOVING */
    struct cw_conn *candidate;   /* MOVING, at the dialler: HERE was sent there; also at the acceptor while TAKEN is
                                    pending */
    const struct cw_conn *heard; /* the lane on which the peer last answered; only compared */
    struct cw_list packets;      /* struct cw_failover_packet */
    struct cw_failover_packet *unsent; /* NULL: all are sent */
    struct cw_list flushes;            /* struct failover_flush waiting for a carrier */
    struct cw_list running;            /* struct failover_flush running on the carrier */
    struct cw_alarm watch;
    uint64_t taken;    /* packets from the core, */
    uint64_t sent;     /* of these passed to a carrier at least once, */
    uint64_t acked;    /* and of these confirmed */
    uint64_t handled;  /* packets of the peer that were handled, */
    uint64_t reported; /* and of these confirmed to it */
    uint64_t bytes;    /* of `packets` */
    uint64_t moved_ns; /* when the peer last confirmed something, or a move began */
    uint64_t asked_ns; /* when HERE or LOST was last sent */
    uint32_t generation;
    ucs_status_t status;           /* status with which the last carrier ended */
    uint8_t last;                  /* the further lane tried last */
    uint8_t here_pending;          /* the carrier has no tx space for HERE or TAKEN */
    uint8_t answers;               /* probes answered since something was confirmed */
    uint8_t probed;                /* an answer is missing */
    uint8_t unanswered;            /* probes to the carrier since it last answered, MAX_STRIKES at most */
    uint8_t missing;               /* lanes to redial: bit i stands for lane i + 1 */
    uint8_t doubtful;              /* lanes on which something was sent to the peer, and nothing was received since */
    uint8_t strikes[CW_MAX_LANES]; /* answers by the carrier since a lane became doubtful */
};

/* The transport of the interfaces of such lanes. */
extern const struct cw_transport cw_failover_transport;

/* NULL: the message lane of the endpoint ends with its connection. */
static inline struct cw_failover *cw_failover_of(const struct ucp_ep *ep)
{
    return (ep->conn != NULL && ep->conn->iface->transport == &cw_failover_transport)
               ? cw_container_of(ep->conn, struct cw_failover, conn)
               : NULL;
}

/* Whether the interface is one that such a lane can move to: of a network. */
static inline bool cw_failover_carries(const struct cw_iface *iface)
{
    return iface->transport->device_class == CW_DEVICE_NET;
}

/* Whether messages over a connection of that interface can move to another one. */
int cw_failover_suits(const struct ucp_worker *worker, const struct cw_iface *iface);
/* Makes the message lane, carried by this connection at first. NULL: out of memory. */
struct cw_conn *cw_failover_new(struct ucp_ep *ep, struct cw_conn *conn);
/* Frees the interfaces of such lanes, for a worker that had so many interfaces. */
void cw_failover_cleanup(struct ucp_worker *worker, unsigned num_ifaces);

/* Whether both sides know that all packets were handled, so that the loss of a connection loses none. */
static inline bool cw_failover_is_settled(const struct ucp_ep *ep)
{
    const struct cw_failover *failover = cw_failover_of(ep);

    return failover == NULL || (cw_list_empty(&failover->packets) && failover->reported == failover->handled &&
                                (ep->lanes == NULL || !ep->lanes->unreported));
}

/* A packet arrived on the first connection or a further lane. An error costs the endpoint. */
ucs_status_t cw_failover_on_packet(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *data,
                                   size_t length);
/* The carrier or the candidate may have tx space. Safe in upcalls. */
void cw_failover_space(struct ucp_ep *ep, const struct cw_conn *conn);
/* A connection of the endpoint has ended. 0: it is a further lane, which its table has to end. */
int cw_failover_closed(struct ucp_ep *ep, struct cw_conn *conn, ucs_status_t status);
/* A further lane has left its table, for this reason. */
void cw_failover_dropped(struct ucp_ep *ep, struct cw_conn *conn, unsigned index);
/* A further lane has no tx space. If it is cut and carries nothing but packets of this file, only an answer can show
 * it. */
void cw_failover_full(struct ucp_ep *ep, const struct cw_further_lane *lane);
/* Called by the reap of an endpoint with such a lane: confirms what was handled, and has further lanes opened. */
void cw_failover_reap(struct ucp_ep *ep);

/* move.c, used by lane.c: the alarm that detects silence. */
unsigned cw_failover_poll(struct cw_alarm *alarm);
/* lane.c, used by move.c: sends what the carrier accepts. */
void cw_failover_pump(struct cw_failover *failover);
/* All accepted packets are known to be at the peer: ends all flushes. */
void cw_failover_flushed(struct cw_failover *failover);
/* Frees the packets before that number. */
void cw_failover_confirm(struct cw_failover *failover, uint64_t handled);
/* Restarts the carrier at the first unconfirmed packet. */
void cw_failover_rewind(struct cw_failover *failover);
/* From now on the lane reports the properties of the carrier's interface, for queries and for costs. */
void cw_failover_name(struct cw_failover *failover);
ucs_status_t cw_failover_on_counted(struct cw_failover *failover, const struct cw_conn *conn, uint8_t id,
                                    const void *data, size_t length);
/* 0: the connection has no tx space. */
int cw_failover_notify(struct cw_failover *failover, struct cw_conn *conn, enum cw_wire_move_kind kind);

#define CW_FAILOVER_POLL_NS UINT64_C(100000000)

#endif
