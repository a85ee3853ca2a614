/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a pair of queue pairs over plain verbs: device, memory, queues and the path to the other side. A function
 * that fails says what failed and ends the program.
 *
 * Callers: bench/verbs/bare_verbs.c, and the tests of test/rdma.
 */
#ifndef CW_BENCH_VERBS_SIDE_H
#define CW_BENCH_VERBS_SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CW_VERBS_QKEY = 0x11111111 }; /* of datagram queue pairs */

/* All that the other side must know. */
struct cw_verbs_name {
    union ibv_gid gid;
    uint64_t address;
    uint32_t qp;
    uint32_t key;
    uint16_t lid;
};

struct cw_verbs_options {
    enum ibv_qp_type type; /* 0: IBV_QPT_RC */
    uint32_t sends;        /* depths; 0: 128 */
    uint32_t receives;
    uint32_t srq;        /* depth of a shared receive queue instead; 0: none */
    uint32_t inlined;    /* bytes; 0: 64 */
    bool events;         /* with a completion channel */
    uint8_t timeout;     /* of an acknowledgement, 4.096 us * 2^timeout; 0: 14 */
    uint8_t retries;     /* 0: 7 */
    uint8_t rnr_retries; /* when the target has no receive posted; 7: for ever */
    uint8_t min_rnr;     /* code of the time to wait then; 0: 12 (0.64 ms) */
    int access;          /* of the memory; 0: all remote rights */
    int qp_access;       /* of the queue pair; 0: all remote rights */
};

struct cw_verbs_side {
    struct cw_verbs_options options;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
    size_t length;
    union ibv_gid gid;
    int gid_index;
    enum ibv_mtu mtu;
    uint16_t lid;
};

void cw_verbs_die(const char *what) __attribute__((noreturn));

/* The device of that name, NULL: the first; a domain, `length` zeroed registered bytes, and the queues, those of the
 * queue pair in state INIT. */
void cw_verbs_open(struct cw_verbs_side *side, const char *device, size_t length,
                   const struct cw_verbs_options *options);
/* Another queue pair with the queues of a side: for callers that keep side->qp themselves. */
struct ibv_qp *cw_verbs_new_qp(struct cw_verbs_side *side);
void cw_verbs_close(struct cw_verbs_side *side);

void cw_verbs_get_name(const struct cw_verbs_side *side, struct cw_verbs_name *name);
/* Takes side->qp from INIT to RTS; of a datagram queue pair `other` is not used. */
void cw_verbs_connect(struct cw_verbs_side *side, const struct cw_verbs_name *other);
/* The steps of it, 0 or an error number. A queue pair takes receives from INIT on; the other two are the halves of
 * cw_verbs_connect(): what arrives is answered after the first, and what is posted is sent after the
 * second. */
int cw_verbs_to_init(struct cw_verbs_side *side);
int cw_verbs_to_rtr(struct cw_verbs_side *side, const struct cw_verbs_name *other);
int cw_verbs_to_rts(struct cw_verbs_side *side);
int cw_verbs_to_error(struct ibv_qp *qp);

/* Posts a receive of `length` bytes at memory + offset. */
void cw_verbs_receive(struct cw_verbs_side *side, uint64_t id, size_t offset, size_t length);
/* Waits for one completion, whatever its status; false after `ms` milliseconds without one. */
bool cw_verbs_wait(struct ibv_cq *cq, struct ibv_wc *wc, int ms);

#endif
