/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the simulated RDMA device, shared by sim_rdma.c (accesses), sim_mr.c (registered memory) and sim.c.
 */
#ifndef CW_TEST_SIM_RDMA_H
#define CW_TEST_SIM_RDMA_H

#include "sim_network.h"

enum cw_sim_what { CW_SIM_PUT, CW_SIM_GET, CW_SIM_POSTED, CW_SIM_FETCHING };

/* An access, from the call that takes it until it is over and its event is not queued. */
struct cw_sim_access {
    struct cw_sim_event event; /* at the origin of the access */
    struct cw_list link;       /* conn->accesses, in order, until it is over */
    uint64_t serial;
    struct cw_completion *completion; /* NULL: none */
    struct cw_access_target target;
    uint8_t what;    /* enum cw_sim_what */
    uint8_t carried; /* the target's part is done, or must not be done */
    uint8_t landed;  /* only its completion is missing */
    uint8_t over;
    uint8_t delivering;
    ucs_status_t status;
    enum cw_access_op op;
    uint64_t operand;
    uint64_t compare;
    uint64_t before; /* the value that an atomic operation found */
    uint64_t *result;
    cw_unpack_fn unpack;
    void *arg;
    unsigned iov_count; /* 0 for a put whose memory was read already */
    struct cw_access_iov iov[CW_SIM_MAX_IOV];
    size_t length;
    char data[];
};

extern const struct cw_transport_access cw_sim_rdma_access;
extern const struct cw_domain_kind cw_sim_rdma_domain;

void cw_sim_rdma_limits(const struct cw_sim_network *network, struct cw_access_limits *limits);
/* Carries out the writes that this end took before `age`. */
void cw_sim_rdma_catch_up(const struct cw_sim_link *link, unsigned side, uint64_t age);
/* Handles an event of an access that is due. Returns the number of upcalls. */
unsigned cw_sim_rdma_step(struct cw_sim_iface *iface, struct cw_sim_event *event);
/* The event of an access is not queued any more. */
void cw_sim_rdma_put(struct cw_sim_event *event);
/* From now on no access of the connection reads or writes memory of its origin. */
void cw_sim_rdma_abandon(struct cw_sim_conn *conn);
/* Ends all accesses of a connection that is over. */
void cw_sim_rdma_end_all(struct cw_sim_conn *conn, ucs_status_t status);

/* The memory in a domain that the peer's access names, or NULL: there is no such key, range or right. */
char *cw_sim_mr_find(const struct cw_domain *domain, const struct cw_access_target *target, size_t length,
                     unsigned right);
/* The device uses memory of its own side, which must be registered, and still be the memory that was registered. Where
 * the bytes are for the device. */
char *cw_sim_mr_use(const struct cw_access_iov *iov);

#endif
