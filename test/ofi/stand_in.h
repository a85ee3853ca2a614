/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of the stand-in provider: stand_in.c has endpoints, queues and memory, stand_in_rma.c remote access.
 */
#ifndef CW_TEST_OFI_STAND_IN_H
#define CW_TEST_OFI_STAND_IN_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_EPS     256
#define MAX_MRS     512
#define MAX_PEERS   256
#define QUEUE       4096
#define MAX_WAITING 64
#define HONEST      300
#define RAW_MASK    0x1122334455667788u

struct message {
    struct message *next;
    size_t length;
    char data[];
};

struct posted {
    char *buffer;
    size_t length;
    void *context;
};

struct completion {
    void *context;
    uint64_t flags;
    size_t length;
    unsigned after; /* polls */
    int error;
};

struct ep;

struct cq {
    struct fid_cq cq;
    struct ep *ep;
    int fd, failed;
    struct completion failure;
    struct completion queue[QUEUE];
    unsigned count;
};

struct ep {
    struct fid_ep ep;
    uint64_t id;
    struct fid_domain *domain;
    struct cq *cq;
    struct av *av;
    int enabled;
    struct message *first;
    unsigned waiting;
    struct posted posted[QUEUE];
    unsigned num_posted;
};

struct av {
    struct fid_av av;
    uint64_t ids[MAX_PEERS];
    int used[MAX_PEERS];
};

struct mr {
    struct fid_mr mr;
    const char *memory;
    size_t length;
    uint64_t key, access;
    struct fid_domain *domain;
    struct ep *ep;
    int bound, enabled, used;
};

/* ---- stand_in.c ---- */
extern struct ep *eps[MAX_EPS];
extern struct mr mrs[MAX_MRS];
void wrong(const char *what) __attribute__((noreturn));
/* Whether CW_STAND_IN has that word. */
int has(const char *word);
unsigned draw(unsigned below);
/* Whether this call is to be answered by -FI_EAGAIN. */
int refuses(void);
void check_memory(const void *buffer, size_t length, const void *desc);
void mark_context(void *context);
void add_completion(struct cq *cq, void *context, uint64_t flags, size_t length, unsigned after);
/* The endpoint of an address; NULL: it is closed. */
struct ep *target(const struct ep *ep, fi_addr_t address);

/* ---- stand_in_rma.c ---- */
extern struct fi_ops_rma rma_ops;
extern struct fi_ops_atomic atomic_ops;
extern int mapped_keys;
int query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op what, struct fi_atomic_attr *attr,
                 uint64_t flags);
int map_key(int command, void *arg);
/* Carries out accesses that are due. */
void carry_out(void);

#endif
