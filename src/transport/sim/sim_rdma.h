/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the simulated RDMA device, shared by sim_rdma.c (accesses), sim_mr.c (registered memory) and sim.c.
 */
#ifndef CW_TRANSPORT_SIM_RDMA_H
#define CW_TRANSPORT_SIM_RDMA_H

#include "transport/sim/sim_world.h"

enum cw_sim_what { CW_SIM_PUT, CW_SIM_GET, CW_SIM_POSTED, CW_SIM_FETCHING };

/* From its taking until it is over and its event waits no more. */
struct cw_sim_access {
    struct cw_sim_event event; /* at its origin */
    struct cw_list link;       /* conn->accesses, in order, until it is over */
    uint64_t serial;
    struct cw_completion *completion; /* NULL: none */
    struct cw_access_target target;
    uint8_t what;    /* enum cw_sim_what */
    uint8_t carried; /* nothing is left to be done at the target */
    uint8_t landed;  /* only its completion is still to come */
    uint8_t over;
    uint8_t delivering;
    ucs_status_t status;
    enum cw_access_op op;
    uint64_t operand;
    uint64_t compare;
    uint64_t before; /* what an atomic operation found */
    uint64_t *result;
    cw_unpack_fn unpack;
    void *arg;
    unsigned iov_count; /* of a put: 0 when the memory was read */
    struct cw_access_iov iov[CW_SIM_MAX_IOV];
    size_t length;
    char data[];
};

extern const struct cw_transport_access cw_sim_rdma_access;
extern const struct cw_domain_kind cw_sim_rdma_domain;

void cw_sim_rdma_limits(const struct cw_sim_world *world, struct cw_access_limits *limits);
/* What was written by that end before `age` is there. */
void cw_sim_rdma_catch_up(const struct cw_sim_link *link, unsigned side, uint64_t age);
/* An event of an access is due, that of a revoke is. Return how many upcalls there were. */
unsigned cw_sim_rdma_step(struct cw_sim_iface *iface, struct cw_sim_event *event);
unsigned cw_sim_rdma_revoked(struct cw_sim_conn *conn);
/* An event of an access waits no more. */
void cw_sim_rdma_put(struct cw_sim_event *event);
/* Ends all accesses of a connection that is over. */
void cw_sim_rdma_end_all(struct cw_sim_conn *conn, ucs_status_t status);

/* The memory of a domain that a peer's access names, or NULL: no such key, range or right. */
char *cw_sim_mr_find(const struct cw_domain *domain, const struct cw_access_target *target, size_t length,
                     unsigned right);
/* The device uses memory of its own side: it must be registered, and be what was registered. */
void cw_sim_mr_use(const struct cw_access_iov *iov);

#endif
