/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Per-endpoint state of all operations. It follows the endpoint in the same allocation: the core gets the size of the
 * state from struct cw_worker_handlers and does not access it.
 */
#ifndef CW_MSG_OP_EP_H
#define CW_MSG_OP_EP_H

#include "core/ep.h"

struct cw_bounce_table;
struct cw_rma;
struct cw_stream;

/* Credits of eager messages (msg/credit.h). */
struct cw_op_credit {
    uint64_t flying;            /* sent, but not released by the peer */
    uint64_t acked;             /* released by the peer, total */
    uint64_t unread;            /* arrived and stored */
    uint64_t reported;          /* released here and sent to the peer as credit; ... */
    uint64_t unreported;        /* ... and released, but not sent yet */
};

/* Objects that the endpoint and its peer have not finished (msg/reassembly.h). */
struct cw_op_reassembly {
    struct cw_list receiving;   /* transfers and answers, unbounded */
    struct cw_list partial;     /* objects that packets are looked up in */
    struct cw_list stored;      /* complete, but not received by the program */
    char *destination;          /* where the transport writes the next bytes of a message; NULL: no buffer */
    uint8_t destination_is_ours; /* `destination` is allocated by the library, which frees it */
};

struct cw_op_ep {
    struct cw_op_credit credit;
    struct cw_op_reassembly reassembly;
    uint64_t announced_round;   /* msg/send: worker->round of the last announcement */
    uint32_t next_message_id;   /* msg/send: number of the next message in several packets */
    uint32_t fences;            /* rma/rma: fences that active messages wait for */
    uint32_t pair_generation;   /* rndv/shares: of the last transfer with a claim pair */
    uint16_t pairs_used;        /* rndv/shares: bit per claim pair */
    uint16_t pairs_shared;      /* rndv/send: bit per claim pair of the peer of which this side takes shares */
    uint32_t ipc_process;       /* rndv/ipc: the peer whose device memory was opened; 0: none */
    struct cw_bounce_table *bounce_table; /* rndv/bounce_table: NULL until first use */
    struct cw_stream *stream;   /* NULL until first use */
    struct cw_rma *rma;         /* NULL until first use */
};

static CW_INLINE struct cw_op_ep *cw_op_ep(const struct ucp_ep *ep)
{
    return (struct cw_op_ep *)(uintptr_t)(ep + 1);
}

#endif
