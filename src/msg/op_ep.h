/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of all operations for each endpoint. It lies directly behind the endpoint, in the same allocation: the core
 * asks for the size of the state and knows nothing else of it (struct cw_worker_handlers).
 */
#ifndef CW_MSG_OP_EP_H
#define CW_MSG_OP_EP_H

#include "core/ep.h"

struct cw_chunk_table;
struct cw_rma;
struct cw_stream;

/* Credits of eager messages (msg/credit.h). */
struct cw_op_credit {
    uint64_t flying;            /* sent, but not released by the peer */
    uint64_t acked;             /* released by the peer, in all */
    uint64_t short_round;       /* worker->round + 1 when credit ran out; 0: credit came since */
    uint64_t unread;            /* arrived and kept */
    uint64_t told;              /* released here, and the peer was told; ... */
    uint64_t untold;            /* ... and the peer was not told yet */
};

/* Objects that the endpoint and its peer have not finished (msg/reassembly.h). */
struct cw_op_reassembly {
    struct cw_list receiving;   /* transfers and answers, of any number */
    struct cw_list partial;     /* the objects that packets have to find */
    struct cw_list stored;      /* complete, but not received by the program */
    char *place;                /* where the transport writes the next bytes of a message; NULL: nowhere */
    uint8_t place_is_ours;      /* the library has allocated `place` and has to free it */
};

struct cw_op_ep {
    struct cw_op_credit credit;
    struct cw_op_reassembly reassembly;
    uint64_t announced_round;   /* msg/send: worker->round of the last announcement */
    uint32_t next_message_id;   /* msg/send: of the next message in several packets */
    uint32_t fences;            /* rma/rma: fences that active messages have to wait for */
    uint32_t pair_generation;   /* rndv/shares: of the last transfer with a claim pair */
    uint16_t pairs_used;        /* rndv/shares: bit per claim pair */
    uint16_t num_copying;       /* rndv/recv: transfers of which this side still copies shares */
    uint16_t pairs_shared;      /* rndv/send: a bit per claim pair of the peer of which this side takes shares */
    uint32_t ipc_process;       /* rndv/near: the peer whose memory of a device was opened; 0: none */
    struct cw_chunk_table *chunks; /* rndv/chunk_table: NULL until first use */
    struct cw_stream *stream;   /* NULL until first use */
    struct cw_rma *rma;         /* NULL until first use */
};

static CW_INLINE struct cw_op_ep *cw_op_ep(const struct ucp_ep *ep)
{
    return (struct cw_op_ep *)(uintptr_t)(ep + 1);
}

#endif
