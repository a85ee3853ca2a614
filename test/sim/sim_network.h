/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the simulated network, shared by sim.c (the transport's slots), sim_send.c (the slots that send),
 * sim_peer.c (the slots that reach the peer's memory), sim_event.c (events, links) and sim_network.c (chance,
 * interfaces, the test's functions).
 *
 * A link is one connection: two ends, two channels (channel i carries from end i to end 1 - i). An event happens at one
 * end of a link at a time; each interface keeps the events of its ends in a heap, ordered by time and then by age, and
 * the network keeps the interfaces that have events in a heap of their own. Events hold a reference on their link; all
 * events but packets are embedded in the link, so that the end of a connection never needs memory. No structure here
 * grows faster than the number of interfaces and connections, because bench/scale runs 100,000 of them.
 */
#ifndef CW_TEST_SIM_NETWORK_H
#define CW_TEST_SIM_NETWORK_H

#include "base/list.h"
#include "sim.h"
#include "transport/transport.h"

enum cw_sim_event_kind {
    CW_SIM_EVENT_HELLO,         /* a dial arrives */
    CW_SIM_EVENT_OPENED,        /* the answer to a dial arrives */
    CW_SIM_EVENT_PACKET,
    CW_SIM_EVENT_PLACED,        /* a step of a packet of send_placed; one event serves all steps */
    CW_SIM_EVENT_CLOSED,
    CW_SIM_EVENT_PUMP,          /* the sender can hand over a further piece */
    CW_SIM_EVENT_ROOM,
    CW_SIM_EVENT_ACCESS         /* a step of an access of an RDMA device, at its origin */
};

struct cw_sim_link;

struct cw_sim_event {
    struct cw_sim_event *child;     /* pairing heap */
    struct cw_sim_event *sibling;
    uint64_t time_ns;
    uint64_t age;
    struct cw_sim_link *link;
    uint8_t side;                   /* the side of the link at which it happens */
    uint8_t kind;
    uint8_t queued;
    uint8_t id;                     /* PACKET, PLACED */
    ucs_status_t status;            /* OPENED, CLOSED */
    size_t length;
    char *data;                     /* PACKET, PLACED: in this allocation */
    struct cw_sim_target *target;   /* PLACED: in this allocation */
};

/* The place of a packet of send_placed, from its first step on. */
struct cw_sim_target {
    uint64_t end_ns;                    /* time of the last step */
    size_t done;                        /* bytes of the payload that were written */
    uint8_t begun;                      /* `place` was called */
    uint8_t in_order;                   /* no packet overtakes it */
    unsigned count;
    struct iovec iov[CW_PLACE_MAX_IOV];
};

/* A packet or (packet NULL) a flush that was taken and has not left yet. For a packet it lies between event and data,
 * in one allocation. */
struct cw_sim_send {
    struct cw_list link;
    struct cw_sim_event *packet;
    struct cw_completion *completion;   /* NULL: none */
    size_t total;
    size_t gone;                        /* bytes that left */
    size_t copied;                      /* bytes of packet->data that are filled; the rest is still in iov */
    unsigned iov_count;
    struct iovec iov[CW_SIM_MAX_IOV];
};

struct cw_sim_channel {
    struct cw_list queue;               /* struct cw_sim_send, in order */
    uint64_t last_arrival_ns;           /* of packets in order */
    uint64_t last_placed_ns;            /* of packets in no order; the end of the connection comes later */
    size_t taken;                       /* bytes taken and not delivered */
    uint8_t blocked;                    /* a send got CW_AGAIN and waits for the window */
    uint8_t cut;                        /* no packet gets through any more */
    struct cw_sim_event pump;           /* at the sender */
    struct cw_sim_event space;          /* at the sender */
};

struct cw_sim_conn;
struct cw_sim_iface;

struct cw_sim_link {
    struct cw_list by_iface[2];         /* ifaces[side]->links[side] while that is not NULL */
    unsigned references;                /* references of ends and of queued events */
    struct cw_sim_iface *ifaces[2];     /* NULL once closed */
    struct cw_sim_conn *ends[2];        /* 0: the dialler; NULL before accept and after close */
    struct cw_sim_channel channels[2];
    struct cw_sim_event hello;
    struct cw_sim_event opened;
    struct cw_sim_event closed[2];
    struct cw_claim_pair *pairs; /* CW_CLAIM_PAIRS of the dialler, then those of the acceptor; made at first
                                         * use */
    size_t hello_length;
    size_t reply_length;
    struct cw_sim_event *retired;       /* packets that ended since claim pairs exist, linked by `sibling` */
    char *reply_data;                   /* NULL: none */
    char hello_data[];
};

enum cw_sim_conn_state { CW_SIM_DIALING, CW_SIM_ACCEPTING, CW_SIM_OPEN, CW_SIM_BROKEN };

struct cw_sim_conn {
    struct cw_conn conn;
    struct cw_sim_link *link;
    uint8_t side;
    uint8_t state;
    uint8_t no_copies;
    ucs_status_t status;                /* the reason of BROKEN */
    struct cw_list accesses;            /* sim_rdma.c: accesses that are not over, in order */
    struct cw_list flushes;
    unsigned fetches;                   /* gets and fetching atomic operations among the accesses */
    uint8_t waits_for_fetches;
    ucs_status_t posted_status;         /* the first error that no completion reported */
};

struct cw_sim_iface {
    struct cw_iface iface;
    struct cw_sim_network *network;
    struct cw_poller *poller;
    struct cw_sim_event *heap;
    struct cw_list links[2];            /* dialled and accepted ones, struct cw_sim_link */
    unsigned number;
    unsigned device;                    /* the number of the RDMA device, from 0 */
    unsigned place;                     /* place in network->busy, from 1; 0: it is not there */
    unsigned num_conns;
    uint8_t armed;
    uint8_t upcall;                     /* inside progress() */
    uint8_t death;                      /* 0 or enum cw_sim_death */
    unsigned retained;                  /* packets that the core has kept */
    char *handed;                       /* the data of the packet that is being handed up; NULL: it cannot be kept */
};

struct cw_sim_network {
    struct cw_sim_knobs knobs;
    uint64_t seed;
    uint64_t random[4];
    uint64_t peer_draws;
    uint64_t now_ns;
    uint64_t next_age;
    unsigned num_ifaces;                /* ever */
    unsigned max_ifaces;
    unsigned num_open;
    unsigned num_busy;
    size_t num_links;
    struct cw_sim_iface **ifaces;       /* by number; NULL: closed */
    struct cw_sim_iface **busy;         /* a heap of interfaces with events, the earliest first; room for max_ifaces */
    struct cw_sim_stats stats;
};

static inline struct cw_sim_iface *cw_sim_iface(struct cw_iface *iface)
{
    return cw_container_of(iface, struct cw_sim_iface, iface);
}

static inline struct cw_sim_conn *cw_sim_conn(struct cw_conn *conn)
{
    return cw_container_of(conn, struct cw_sim_conn, conn);
}

/* The network of this process, or NULL. */
struct cw_sim_network *cw_sim_network_get(void);

/* An assertion in every build, because the simulated network exists to find such errors. `otherwise` says what is
 * wrong. */
void cw_sim_must(int condition, const char *otherwise);

/* Whether this fault happens now. */
int cw_sim_chance(struct cw_sim_network *network, enum cw_sim_fault fault);
/* A random number 0 .. limit - 1; limit > 0. */
uint64_t cw_sim_below(struct cw_sim_network *network, uint64_t limit);
uint64_t cw_sim_delay_ns(struct cw_sim_network *network);

/* Queues an event at its side of its link; wakes an armed interface. An event for an interface that is closed or dead
 * is dropped (and freed if it is a packet). An embedded event that is queued already stays as it is. */
void cw_sim_schedule(struct cw_sim_event *event, uint64_t time_ns);
/* As cw_sim_schedule, but with a random delay and never before earlier events of its direction. */
void cw_sim_launch(struct cw_sim_event *event);
/* As cw_sim_launch for a PLACED event: in no order, except that the end of the connection comes later. */
void cw_sim_launch_placed(struct cw_sim_event *event);
/* Moves an interface to the place in the network's heap that its first event, or its death, demands. */
void cw_sim_reorder(struct cw_sim_iface *iface);
/* Gives a new interface its number and room in the tables, or answers -1: no memory. */
int cw_sim_network_add(struct cw_sim_network *network, struct cw_sim_iface *iface);
void cw_sim_network_remove(struct cw_sim_iface *iface);
/* The interface of that number, or NULL. */
struct cw_sim_iface *cw_sim_network_find(const struct cw_sim_network *network, unsigned number);
/* The next event of that interface that is due, taken out; NULL: none. The caller gives it back with
 * cw_sim_event_put. */
struct cw_sim_event *cw_sim_pop_due(struct cw_sim_iface *iface);
void cw_sim_event_put(struct cw_sim_event *event);
/* Ends a packet that is in no queue. On a link with claim pairs its bytes stay until the link ends, since a peer may
 * still read them (`send_bcopy`). */
void cw_sim_packet_retire(struct cw_sim_link *link, struct cw_sim_event *packet);
/* Lets time pass for one progress() of that interface. */
void cw_sim_tick(struct cw_sim_iface *iface);

/* Empties the heap of an interface that ends; diallers that wait for its answer get `status` after delay_ns. */
void cw_sim_drop_events(struct cw_sim_iface *iface, ucs_status_t status, uint64_t delay_ns);

/* sim_send.c */
ucs_status_t cw_sim_send_short(struct cw_conn *base, uint8_t id, uint64_t header, const void *payload, size_t length);
ucs_status_t cw_sim_send_bcopy(struct cw_conn *base, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
ucs_status_t cw_sim_send_registered(struct cw_conn *base, uint8_t id, const void *header, size_t header_length,
                                    const struct cw_access_iov *payload, struct cw_completion *completion);
ucs_status_t cw_sim_send_zcopy(struct cw_conn *base, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
ucs_status_t cw_sim_send_placed(struct cw_conn *base, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion);
ucs_status_t cw_sim_send_in_place(struct cw_conn *base, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
ucs_status_t cw_sim_flush(struct cw_conn *base, struct cw_completion *completion);
/* Ends all sends of the queue: they leave at once, or are dropped. */
void cw_sim_queue_end(struct cw_sim_conn *conn, int leaves, ucs_status_t status);
/* Sends a piece of random size; the rest waits for the next time. Returns how many sends are complete. */
unsigned cw_sim_queue_pump(struct cw_sim_iface *iface, struct cw_sim_conn *conn);

/* sim_peer.c */
/* As cw_sim_chance, with random numbers of its own, so that a run without copies does not depend on the chances of
 * these faults. */
int cw_sim_peer_chance(struct cw_sim_network *network, enum cw_sim_fault fault);
int cw_sim_peer_ready(struct cw_conn *conn);
ucs_status_t cw_sim_peer_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity);
ucs_status_t cw_sim_peer_write(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_validity *validity);
struct cw_claim_pair *cw_sim_pair(struct cw_conn *conn, int ours, unsigned index);
/* A step of a packet of send_placed: finds its place, writes a piece, or reports that the payload is complete. Returns
 * the number of upcalls; *over_p: 1 when there are no more steps, -1 when the packet broke the protocol. */
unsigned cw_sim_placed_step(struct cw_sim_iface *iface, struct cw_sim_event *event, int *over_p);

struct cw_sim_link *cw_sim_link_new(struct cw_sim_network *network, const void *hello, size_t hello_length);
/* Joins a link to the interface of that side. */
void cw_sim_link_join(struct cw_sim_link *link, unsigned side, struct cw_sim_iface *iface);
/* Copies the answer to a hello into the link. 0: no memory. */
int cw_sim_link_reply(struct cw_sim_link *link, const void *reply, size_t length);
void cw_sim_link_get(struct cw_sim_link *link);
void cw_sim_link_put(struct cw_sim_link *link);
/* The end at `side` learns that the connection is over, after all packets that are on the way to it. */
void cw_sim_link_end(struct cw_sim_link *link, unsigned side, ucs_status_t status);

#endif
