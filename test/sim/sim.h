/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test interface of the simulated network: one network per process, one thread, a virtual clock, faults drawn from one
 * seeded generator.
 *
 * While a network exists the transport "sim" has the device "sim0", and all workers of the process that open it are
 * connected by that network. A run depends only on the seed, the knobs and the order of calls, so it replays exactly.
 * Random numbers that the library takes from the system (worker ids) have to be replaced by the test if it depends on
 * them.
 *
 * The clock moves only inside progress() and cw_sim_advance: each progress() costs step_ns, and when no living
 * interface has an event due the clock jumps to the next event of all. `while (!done) progress` therefore ends, and a
 * run takes no real time.
 */
#ifndef CW_TEST_SIM_H
#define CW_TEST_SIM_H

#include <stddef.h>
#include <stdint.h>

struct cw_sim_network;

/* The faults, each with its own chance. */
enum cw_sim_fault {
    CW_SIM_AGAIN,         /* a send answers CW_AGAIN without reason; `room` follows */
    CW_SIM_SHORT,         /* a packet is sent piece by piece: flush and zcopy complete later */
    CW_SIM_NO_MEMORY,     /* open and dial fail, a send answers CW_AGAIN, an acceptor drops the dial */
    CW_SIM_DIAL_REFUSED,  /* no interface is at the address after all */
    CW_SIM_DIAL_LOST,     /* no answer: the dial fails after dial_timeout_ns */
    CW_SIM_RESET,         /* per packet: it is lost and both ends see the connection reset */
    CW_SIM_GARBAGE,       /* per packet: the receiver finds the framing broken */
    CW_SIM_SPURIOUS_ROOM, /* per taken send: `room` comes although no send was refused */
    CW_SIM_NO_COPIES,     /* per end of a connection: it cannot copy to and from the peer's memory */
    CW_SIM_NO_RECEIVES,   /* RDMA, per packet: the receiver has no buffer; packets and accesses behind it wait */
    CW_SIM_ACCESS,        /* RDMA, per access: it ends with an error, carried out or not, and breaks the connection */
    CW_SIM_NO_REGISTER,   /* RDMA: a registration fails */
    CW_SIM_COPY,          /* per copy: it fails, possibly in the middle, and that end never copies again */
    CW_SIM_FAULT_LAST
};

#define CW_SIM_ALWAYS 1000000u
#define CW_SIM_MAX_RDMA 4u

struct cw_sim_knobs {
    size_t max_short;
    size_t max_bcopy;
    size_t max_zcopy;               /* 0: no zcopy */
    size_t max_placed;              /* 0: no send_placed */
    unsigned max_iov;               /* <= CW_SIM_MAX_IOV */
    unsigned num_devices;           /* each has an interface; 0: one */
    size_t window;                  /* bytes of one direction that are taken and not delivered; more are answered by
                                     * CW_AGAIN */
    unsigned budget;                /* a progress() hands up 1 .. budget events */
    uint64_t delay_min_ns;          /* one way; drawn anew per packet, packets of a connection stay in order */
    uint64_t delay_max_ns;
    uint64_t dial_timeout_ns;
    uint64_t step_ns;
    unsigned rdma;                  /* number of RDMA devices, transport "simrdma", instead of "sim", */
    int beside;                     /* or beside it */
    unsigned ratio;                 /* the first of them has this many times the bandwidth of the others; 0: once */
    size_t max_access;              /* each of them: greatest length of one access; */
    int all_atomics;                /* they have all atomic operations, else only those of InfiniBand; */
    unsigned max_mrs;               /* registrations of a device; 0: any number */
    size_t max_mr_bytes;
    size_t alignment;               /* required of addresses and lengths without a copy; 0: nothing */
    int on_demand;                  /* the devices page memory by themselves */
    int dmabuf;                     /* they take memory of GPUs by dma-buf: */
    uint32_t chance[CW_SIM_FAULT_LAST]; /* of CW_SIM_ALWAYS tries */
};

enum { CW_SIM_NO_DMABUF, CW_SIM_TAKES_DMABUF, CW_SIM_REFUSES_DMABUF /* as a driver that is too old */ };

#define CW_SIM_MAX_IOV 8u

/* How an interface dies. */
enum cw_sim_death {
    CW_SIM_SILENT = 1,      /* like a machine without power: it sends nothing any more, and no peer is notified */
    CW_SIM_KILLED           /* like a killed process: the system resets its connections */
};

/* Counts of the network so far. */
struct cw_sim_stats {
    uint64_t events;
    uint64_t packets;               /* packets handed up */
    uint64_t bytes;                 /* bytes in these packets */
    uint64_t hellos;                /* hellos that arrived, and answers */
    uint64_t hello_bytes;
    uint64_t again;                 /* sends answered by CW_AGAIN */
    uint64_t pieces;                /* steps of packets that left piece by piece */
    uint64_t placed;                /* packets of send_placed that arrived whole */
    uint64_t accesses;              /* accesses that RDMA devices took */
    uint64_t gets;                  /* of these, accesses that read, */
    uint64_t puts;                  /* and accesses that write */
    uint64_t bytes_of[CW_SIM_MAX_RDMA]; /* bytes that each device of the origins accessed */
    uint64_t registered;            /* registrations that were made, */
    uint64_t deregistered;          /* registrations that were ended, */
    uint64_t no_register;           /* and registrations that were refused */
    uint64_t from_registered;       /* packets out of registered memory */
    uint64_t copies;                /* copies to and from the peer's memory */
    uint64_t faults[CW_SIM_FAULT_LAST];
    uint64_t digest;                /* checksum of time, kind, place and length of all events: equal for equal runs */
};

/* Moderate delays, no faults, sizes that make fragmentation common (max_bcopy 256). */
void cw_sim_knobs_default(struct cw_sim_knobs *knobs);
/* Knobs drawn from `seed`: sizes, delays, window and the faults that end no dial and no connection (AGAIN, SHORT,
 * SPURIOUS_ROOM, NO_COPIES, COPY). */
void cw_sim_knobs_random(struct cw_sim_knobs *knobs, uint64_t seed);

/* Makes the network of this process; there must be none. knobs NULL: the default. NULL: no memory. */
struct cw_sim_network *cw_sim_network_new(uint64_t seed, const struct cw_sim_knobs *knobs);
/* The caller has closed all interfaces before. */
void cw_sim_network_free(struct cw_sim_network *network);

uint64_t cw_sim_seed(const struct cw_sim_network *network);
uint64_t cw_sim_now_ns(const struct cw_sim_network *network);
void cw_sim_advance(struct cw_sim_network *network, uint64_t ns);
void cw_sim_set_fault(struct cw_sim_network *network, enum cw_sim_fault fault, uint32_t chance);
void cw_sim_get_stats(const struct cw_sim_network *network, struct cw_sim_stats *stats);

/* Interfaces are numbered in the order in which they were opened, from 0. The number of interfaces so far: */
unsigned cw_sim_num_ifaces(const struct cw_sim_network *network);
/* The number of the interface with the next event, or -1 when no event is queued. With many interfaces, a test that
 * drives the workers need not ask each in turn. */
int64_t cw_sim_next(const struct cw_sim_network *network);
/* Bytes that the network itself holds, without queued packets. */
size_t cw_sim_memory(const struct cw_sim_network *network);
/* From now on progress() of that interface does nothing; its owner can still close everything. Not from inside an
 * upcall. */
void cw_sim_kill(struct cw_sim_network *network, unsigned number, enum cw_sim_death death);
/* Breaks all connections of a living interface, like a router that restarts: both ends see CONNECTION_RESET. Not from
 * inside an upcall. */
void cw_sim_reset_all(struct cw_sim_network *network, unsigned number);

/* Notifies that the program unmapped this memory: the use of a registration of it ends the program. */
void cw_sim_rdma_unmapped(const void *address, size_t length);

/* Cuts one connection whose hello begins with these bytes, if there is any: both ends see CONNECTION_RESET, or with
 * `silently` no packet arrives any more in either direction, and neither end is notified. Not from inside an upcall.
 * Answers whether there was one. `spare`, if not NULL, are the first bytes of the hello of another connection: then
 * only a connection is cut whose owners have one of these that is open and not cut. */
int cw_sim_cut(struct cw_sim_network *network, const void *hello, size_t length, const void *spare, int silently);
/* Cuts all connections that the devices of that name dialled so, but those of an owner to itself. Later ones work.
 * Answers how many there were. */
unsigned cw_sim_cut_device(struct cw_sim_network *network, const char *name, int silently);
/* Whether a connection is cut of which neither end has learnt. */
int cw_sim_has_cut(const struct cw_sim_network *network);

/* A number from the network's own generator, for the choices of the test. */
uint64_t cw_sim_random(struct cw_sim_network *network);

#endif
