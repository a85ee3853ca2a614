/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test interface of the simulated network: one world per process, one thread, a virtual clock, faults drawn from one
 * seeded generator.
 *
 * While a world exists the transport "sim" has the device "sim0", and all workers of the process that open it meet in
 * that world. A run depends on nothing but the seed, the knobs and the order of calls; so it replays exactly. Random
 * numbers that the library takes from the system (worker ids) have to be replaced by the test if they matter to it.
 *
 * The clock moves only inside progress() and cw_sim_advance: each progress() costs step_ns, and when no living
 * interface has anything due the clock jumps to the next event of anybody. `while (!done) progress` therefore ends, and
 * a run takes no real time.
 */
#ifndef CW_TRANSPORT_SIM_H
#define CW_TRANSPORT_SIM_H

#include <stddef.h>
#include <stdint.h>

struct cw_sim_world;

/* What may go wrong, each with its own chance. */
enum cw_sim_fault {
    CW_SIM_AGAIN,           /* a send answers CW_AGAIN without need; `room` follows */
    CW_SIM_SHORT,           /* a packet leaves piece by piece: flush and zcopy complete later */
    CW_SIM_NO_MEMORY,       /* open and dial fail, a send answers CW_AGAIN, an acceptor drops the dial */
    CW_SIM_DIAL_REFUSED,    /* nobody is at the address after all */
    CW_SIM_DIAL_LOST,       /* no answer: the dial fails after dial_timeout_ns */
    CW_SIM_RESET,           /* per packet: it is lost and both ends see the connection reset */
    CW_SIM_GARBAGE,         /* per packet: the receiver finds the framing broken */
    CW_SIM_SPURIOUS_ROOM,   /* per taken send: `room` comes although nobody was blocked */
    CW_SIM_NO_COPIES,       /* per end of a connection: it cannot copy to and from the peer's memory */
    CW_SIM_DRY,             /* RDMA, per packet: the receiver has no buffer; all behind it waits, accesses too */
    CW_SIM_ACCESS,          /* RDMA, per access: it ends with an error, carried out or not, and breaks the connection */
    CW_SIM_NO_REGISTER,     /* RDMA: memory is not registered */
    CW_SIM_COPY,            /* per copy: it fails, possibly in the middle, and that end never copies again */
    CW_SIM_FAULT_LAST
};

#define CW_SIM_ALWAYS 1000000u

struct cw_sim_knobs {
    size_t max_short;
    size_t max_bcopy;
    size_t max_zcopy;               /* 0: no zcopy */
    size_t max_placed;              /* 0: no send_placed */
    unsigned max_iov;               /* <= CW_SIM_MAX_IOV */
    unsigned num_devices;           /* an interface each; 0: one */
    size_t window;                  /* bytes of one direction that are taken and not delivered; beyond them CW_AGAIN */
    unsigned budget;                /* a progress() hands up 1 .. budget events */
    uint64_t delay_min_ns;          /* one way; drawn anew per packet, order within a connection is kept */
    uint64_t delay_max_ns;
    uint64_t dial_timeout_ns;
    uint64_t step_ns;
    unsigned rdma;                  /* so many RDMA devices, transport "simrdma", in place of "sim" */
    size_t max_access;              /* of them: bytes of one access; */
    int all_atomics;                /* all atomic operations, else those that InfiniBand has; */
    unsigned max_mrs;               /* and what a device registers; 0: any number */
    size_t max_mr_bytes;
    size_t alignment;               /* what they want of addresses and lengths without a copy; 0: nothing */
    int on_demand;                  /* they page memory by themselves */
    uint32_t chance[CW_SIM_FAULT_LAST]; /* out of CW_SIM_ALWAYS */
};

#define CW_SIM_MAX_IOV 8u

/* How an interface dies. */
enum cw_sim_death {
    CW_SIM_SILENT = 1,      /* as a machine without power: nothing comes from it any more, nobody is told */
    CW_SIM_KILLED           /* as a killed process: the system resets its connections */
};

/* What a world did so far. */
struct cw_sim_stats {
    uint64_t events;
    uint64_t packets;               /* handed up */
    uint64_t bytes;                 /* in them */
    uint64_t hellos;                /* that arrived, and their answers */
    uint64_t hello_bytes;
    uint64_t again;                 /* answers CW_AGAIN */
    uint64_t pieces;                /* steps of packets that left piece by piece */
    uint64_t placed;                /* packets of send_placed that arrived whole */
    uint64_t accesses;              /* of RDMA devices, taken */
    uint64_t gets;                  /* those that read, */
    uint64_t puts;                  /* and those that write */
    uint64_t registered;            /* registrations that were made, */
    uint64_t deregistered;          /* those that were ended, */
    uint64_t no_register;           /* and those refused */
    uint64_t copies;                /* to and from the peer's memory that were done */
    uint64_t faults[CW_SIM_FAULT_LAST];
    uint64_t digest;                /* of time, kind, place and length of all events: equal for equal runs */
};

/* Moderate delays, no faults, sizes that make fragmentation common (max_bcopy 256). */
void cw_sim_knobs_default(struct cw_sim_knobs *knobs);
/* Knobs drawn from `seed`: sizes, delays, window and the harmless faults, by which no dial and no connection is lost
 * (AGAIN, SHORT, SPURIOUS_ROOM, NO_COPIES, COPY). */
void cw_sim_knobs_random(struct cw_sim_knobs *knobs, uint64_t seed);

/* Makes the world of this process; there must be none. knobs NULL: the default. NULL: no memory. */
struct cw_sim_world *cw_sim_world_new(uint64_t seed, const struct cw_sim_knobs *knobs);
/* All interfaces were closed before. */
void cw_sim_world_free(struct cw_sim_world *world);

uint64_t cw_sim_seed(const struct cw_sim_world *world);
uint64_t cw_sim_now_ns(const struct cw_sim_world *world);
void cw_sim_advance(struct cw_sim_world *world, uint64_t ns);
void cw_sim_set_fault(struct cw_sim_world *world, enum cw_sim_fault fault, uint32_t chance);
void cw_sim_get_stats(const struct cw_sim_world *world, struct cw_sim_stats *stats);

/* Interfaces are numbered in the order in which they were opened, from 0. How many there were: */
unsigned cw_sim_num_ifaces(const struct cw_sim_world *world);
/* The number of the interface whose event is the next one, or -1 when nothing is under way: with many of them, whoever
 * drives the workers need not ask each in turn. */
int64_t cw_sim_next(const struct cw_sim_world *world);
/* Bytes that the network itself holds, beside packets under way. */
size_t cw_sim_memory(const struct cw_sim_world *world);
/* From now on progress() of that interface does nothing; its owner can still close everything. Not from inside an
 * upcall. */
void cw_sim_kill(struct cw_sim_world *world, unsigned number, enum cw_sim_death death);
/* Breaks all connections of a living interface, as a restarted router does: both ends see CONNECTION_RESET. Not from
 * inside an upcall. */
void cw_sim_reset_all(struct cw_sim_world *world, unsigned number);

/* The program unmapped this memory: from now on a registration of it must not be used. */
void cw_sim_rdma_unmapped(const void *address, size_t length);

/* Cuts one connection, if there is any, whose hello begins with these bytes: both ends see CONNECTION_RESET, or with
 * `silently` nothing comes through any more in either direction, and nobody is told. Not from inside an upcall. Answers
 * whether there was one. */
int cw_sim_cut(struct cw_sim_world *world, const void *hello, size_t length, int silently);

/* A number from the world's own generator, for the choices of the test. */
uint64_t cw_sim_random(struct cw_sim_world *world);

#endif
