/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few workers that live in one simulated network and talk through the public interface. Everything that happens
 * follows from the seed; a failure prints it. Numbers that the library would take from the system come from the seed,
 * too (cw_random_u64 is replaced), and so does time, so a run replays exactly. With CW_SIM_TLS the same workers talk
 * over those transports of the system: a seed then chooses what is done, not when it arrives.
 */
#ifndef CW_TEST_SIM_CLUSTER_H
#define CW_TEST_SIM_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include "sim.h"

enum { CW_MAX_WORKERS = 4, CW_MAX_OPS = 4000, CW_MAX_ROUNDS = 1000000 };

/* One operation: what the library was given and what became of it. */
struct cw_op {
    void *request;             /* NULL: none, or freed already */
    unsigned calls;            /* of its callback */
    int done;
    ucs_status_t status;
    int is_recv;
    unsigned from;
    unsigned to;
    uint64_t number;           /* of the message between these two; of a receive as well: they match in order */
    uint8_t *buffer;
    ucp_mem_h memh;            /* of the buffer; NULL: it was not mapped */
    size_t length;             /* of the buffer */
    ucp_tag_recv_info_t info;  /* of receives */
};

struct cw_cluster_node {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_length;
    ucp_ep_h eps[CW_MAX_WORKERS];
    unsigned failures[CW_MAX_WORKERS];         /* calls of the error handler, by endpoint */
    int dead;
    int asleep;                                /* armed: only an event wakes it */
    int fd;                                    /* of sleepers */
};

struct cw_cluster {
    uint64_t seed;
    struct cw_sim_network *network;
    unsigned num_workers;
    struct cw_cluster_node nodes[CW_MAX_WORKERS];
    ucp_err_handling_mode_t mode;
    int sleepers;                              /* workers arm and sleep whenever progress returns 0 (WAK-4) */
    struct cw_op ops[CW_MAX_OPS];
    unsigned num_ops;
    unsigned num_done;
    int waiting;                               /* nothing more will be posted until all is done */
    uint64_t sent[CW_MAX_WORKERS][CW_MAX_WORKERS];
    uint64_t received[CW_MAX_WORKERS][CW_MAX_WORKERS];     /* receives that were posted */
    uint64_t random;
    uint64_t num_steps;
    unsigned num_cuts;                         /* CW_SIM_LANES */
    int cut_by_test;                           /* by it alone, and not by chance */
    int gaps;                                  /* messages may be lost; cw_op_check */
    uint64_t taken[CW_MAX_WORKERS][CW_MAX_WORKERS];        /* one more than the last that was received then */
};

/* The one cluster of the process; its memory is reused. */
struct cw_cluster *cw_cluster_new(uint64_t seed, const struct cw_sim_knobs *knobs, ucp_err_handling_mode_t mode,
                                  int sleepers);
/* Destroys workers, contexts and the network; fails when anything is left in it. Returns the digest of the run: of what
 * happened in the network, and of how often the library read the clock. */
uint64_t cw_cluster_free(struct cw_cluster *cluster);
/* What all clusters so far went through. */
void cw_cluster_get_totals(struct cw_sim_stats *totals);

/* A fault that breaks connections. */
enum cw_sim_fault cw_cluster_breaking(uint64_t seed);
/* Where there are devices, they carried a good deal out for so many seeds, and were refused registrations. */
void cw_cluster_check_devices(uint64_t count);

/* Where there are devices, they moved announced messages both ways, and were refused registrations. */
void cw_cluster_check_rendezvous(uint64_t count);

uint64_t cw_cluster_random(struct cw_cluster *cluster, uint64_t limit);
/* Progress of one worker, chosen by chance. Fails when all sleep although operations are under way. */
void cw_cluster_step(struct cw_cluster *cluster);
/* Progress of that worker. */
void cw_cluster_step_one(struct cw_cluster *cluster, unsigned worker);
int cw_cluster_is_simulated(void);
/* Whether endpoints are in mode FAILOVER (CW_SIM_FAILOVER). */
int cw_cluster_fails_over(void);
/* The name of the first or second device. */
const char *cw_cluster_device(unsigned number);
/* Steps until messages have a lane on each device again. */
void cw_cluster_await_lanes(struct cw_cluster *cluster);
/* After so many steps without an end something hangs. */
unsigned cw_cluster_rounds(void);
/* The number of steps in which what is under way arrives. */
unsigned cw_cluster_rest(void);
/* Steps until all operations are done. */
void cw_cluster_finish(struct cw_cluster *cluster);

/* One message from a worker to another, of random size and flavour. NULL: the endpoint failed. */
struct cw_op *cw_cluster_send(struct cw_cluster *cluster, unsigned from, unsigned to);
/* A receive for the next message in that direction. */
struct cw_op *cw_cluster_recv(struct cw_cluster *cluster, unsigned from, unsigned to);
/* Checks and frees an operation that is done. */
void cw_op_check(struct cw_cluster *cluster, struct cw_op *op);
/* Closes an endpoint and returns the operation. */
struct cw_op *cw_cluster_close_ep(struct cw_cluster *cluster, unsigned from, unsigned to, uint32_t flags);

/* Prints the sentence and the seed, then fails the test. */
void cw_cluster_fail(const struct cw_cluster *cluster, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

size_t cw_message_length(const struct cw_cluster *cluster, unsigned from, unsigned to, uint64_t number);

#endif
