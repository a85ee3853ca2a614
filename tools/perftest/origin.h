/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The course of a one-sided test in which the client acts on the server's memory: put bandwidth, get, atomics. Up to
 * `window` operations are unfinished; a flush ends the measurement. The server keeps its worker in progress (not with
 * -o) until the client has finished, and answers what the client asks about its memory.
 *
 * Callers: test_rma.c, test_amo.c. Invariant: a slot is in the free list, is the next one to be used, or belongs to an
 * operation in flight. What a call takes is written once, when the slot is cut: a direct operation costs less than
 * writing it again. With --verify every message has a place of its own in the peer's memory until it has been checked:
 * after each round of messages the client waits, flushes and asks.
 */
#ifndef CW_PERF_ORIGIN_H
#define CW_PERF_ORIGIN_H

#include "buffers.h"
#include "layout.h"
#include "region.h"
#include "tests.h"

/* What the client asks the server. */
enum cw_origin_question {
    CW_ORIGIN_PREPARE = 1, /* fill in what messages `first` to `first` + `count` - 1 are to fetch */
    CW_ORIGIN_CHECK,       /* are they all there, byte by byte? */
    CW_ORIGIN_WORD         /* the word at the beginning of the memory */
};

struct cw_origin;

struct cw_origin_slot {
    struct cw_origin *origin;
    struct cw_origin_slot *next_free;
    char *buffer;
    const void *data; /* what is given to the call: the buffer, or its list of `count` parts */
    size_t count;
    uint64_t message;
    uint64_t target; /* address at the peer */
    ucp_request_param_t param;
};

/* What a family does; functions may be NULL where they are not needed. */
struct cw_origin_ops {
    /* Adds what all operations of the slot have in common. */
    void (*prepare)(struct cw_origin *origin, struct cw_origin_slot *slot);
    /* Starts the operation of a slot. NULL: done. */
    ucs_status_ptr_t (*start)(struct cw_origin *origin, struct cw_origin_slot *slot);
    /* --verify: before an operation starts, and when it has ended. */
    void (*fill)(struct cw_origin *origin, struct cw_origin_slot *slot);
    void (*finish)(struct cw_origin *origin, struct cw_origin_slot *slot);
    /* --verify: before and after a round of messages, at the client. 0 or -1. */
    int (*before)(struct cw_origin *origin, uint64_t first, uint64_t count);
    int (*after)(struct cw_origin *origin, uint64_t first, uint64_t count);
    /* Answers the client about this side's memory. 0, or -1 after cw_link_fail(). */
    int (*answer)(struct cw_origin *origin, enum cw_origin_question what, uint64_t first, uint64_t count,
                  uint64_t *reply);
    bool one_word;    /* all operations meet in one word, and each slot has memory of its own */
    bool posts;       /* operations end at once and pile up: flush now and then */
};

struct cw_origin {
    struct cw_perf_run *run;
    struct cw_link *link;
    const struct cw_origin_ops *ops;
    struct cw_region region;
    struct cw_buffers content; /* to fill and check the region, of any type */
    size_t size;
    size_t room;    /* from one buffer to the next */
    char *targets;  /* the part of this side's memory that the peer's operations reach; it comes first */
    unsigned window;
    unsigned round; /* messages of a round, where they are verified */
    unsigned pending;
    unsigned flushes;
    unsigned posted; /* since the last flush began */
    unsigned stride; /* messages for each reading of the clock */
    uint64_t alive_due;
    struct cw_origin_slot *next; /* NULL: the first free one */
    struct cw_origin_slot *free;
    struct cw_origin_slot *slots;
    ucp_dt_iov_t *iovs;
};

/* Runs a test from memory to memory. 0, or -1 after cw_link_fail(): operations may then be in flight. */
int cw_origin_run(struct cw_origin *origin, const struct cw_origin_ops *ops, struct cw_perf_run *run);

/* Has the server answer, or this side in loopback. 0 or -1. */
int cw_origin_ask(struct cw_origin *origin, enum cw_origin_question what, uint64_t first, uint64_t count,
                  uint64_t *reply);

/* Where message `message` lies among the targets of the side whose memory begins at `targets`. */
static inline size_t cw_origin_offset(const struct cw_origin *origin, uint64_t message)
{
    return origin->run->params.verify && !origin->ops->one_word ? message % origin->round * origin->room : 0;
}

#endif
