/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The posted receives and unexpected messages of a worker, for another process of its user that requests them: the
 * layout of the answer, in words of host byte order, and the functions that write it.
 *
 * To request an answer, a process takes a read lock on the memory of the worker's counters (core/counters.h). The
 * worker detects the lock when it publishes its counters, makes the answer, refreshes it periodically, and frees it
 * once the lock is gone. Nothing else is shared: no process writes into memory of the other, and a worker that makes no
 * progress does not answer. The reader checks every byte, because another process may have written it.
 */
#ifndef CW_CORE_QUEUES_H
#define CW_CORE_QUEUES_H

#include <stdint.h>

#define CW_QUEUES_NAME    "causeway-queues"            /* of the memory, in /proc/PID/fd */
#define CW_QUEUES_MAGIC   UINT64_C(0x5345555551574143) /* "CAWQUUES" */
#define CW_QUEUES_VERSION 1u
#define CW_QUEUES_MOST    1000u                        /* receives, and as many messages, in an answer */

enum {
    CW_QUEUES_ANNOUNCED = 1 << 0, /* announced by rendezvous: the bytes are at the sender */
    CW_QUEUES_PARTIAL = 1 << 1, /* some pieces are missing */
    CW_QUEUES_SYNC = 1 << 2  /* its sender waits for the match */
};

struct cw_queues_item {
    uint64_t tag;                 /* of a receive: tag & mask */
    uint64_t mask;                /* of a message: all bits */
    uint64_t length;              /* of a receive: size of its buffer */
    uint64_t age_ns;              /* from the worker's last clock reading before the post or the arrival */
    uint64_t peer;                /* of a message: uid of the worker that sent it, 0 if that is gone */
    uint32_t endpoint;            /* of a message: number of the endpoint among those to this peer */
    uint32_t flags;
};

_Static_assert(sizeof(struct cw_queues_item) == 48, "layout shared with tools");

struct cw_queues {
    uint64_t magic;               /* written last */
    uint64_t version;
    uint64_t pid;                 /* of the worker's process, in its own pid namespace */
    uint64_t uid;                 /* of the worker */
    uint64_t written_ns;          /* monotonic clock */
    uint64_t num_posted;          /* in all ... */
    uint64_t num_unexpected;
    uint64_t listed_posted;       /* ... and the oldest of them, which follow: receives, then messages */
    uint64_t listed_unexpected;
    uint64_t reserved[3];
    struct cw_queues_item items[];
};

/* Internal to the library. */
struct ucp_worker;
/* Reads the clock for worker->moment, and answers a process that requests it. The worker has a page of counters. */
void cw_queues_poll(struct ucp_worker *worker);
void cw_queues_close(struct ucp_worker *worker);

#endif
