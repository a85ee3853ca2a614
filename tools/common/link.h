/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of a UCP connection under test: context, worker, endpoint, and the waiting loop with its time-outs.
 *
 * Callers: the performance tool (run.c, the test families) and the demonstration.
 * A link belongs to one thread; several of them may share a context. One that has failed stays failed:
 * cw_link_progress() returns -1 from then on.
 */
#ifndef CW_TOOLS_LINK_H
#define CW_TOOLS_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include "oob.h"

struct cw_link_config {
    uint64_t features;
    ucs_thread_mode_t thread_mode;
    bool sleep;
    ucp_err_handling_mode_t error_mode;
    bool share_cpu; /* both sides run on one processor: give it away whenever there is nothing to do */
    unsigned timeout_s;
    ucp_context_h context; /* NULL: a context of its own; otherwise one that lasts longer than the link */
    const atomic_bool *stop; /* NULL, or set when the link is to fail: another thread has */
};

struct cw_link {
    struct cw_link_config config;
    struct cw_oob *oob; /* NULL in loopback */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_rkey_h rkey; /* NULL, or what a failed one-sided test still holds: released by the close */
    ucp_mem_h memhs[2];
    int event_fd;
    bool rests;          /* sleeps or yields when nothing is done */
    bool oob_waits;      /* a message of the peer waits out of band: it has finished its part */
    uint64_t moved;      /* grows whenever a test gets ahead; what the time-out checks */
    uint64_t moved_seen;
    uint64_t moved_ns;
    uint64_t checked_ns;
    unsigned calls;
    bool failed;
    char error[512];
};

/* A context for `config.features`, for several threads with a worker each or for one. NULL after cw_link_fail(). */
ucp_context_h cw_link_new_context(struct cw_link *link, const struct cw_link_config *config, bool threads);

/* Creates context (unless given) and worker, exchanges addresses, creates the endpoint. 0, or -1 with `link->error`. */
int cw_link_open(struct cw_link *link, const struct cw_link_config *config, struct cw_oob *oob);

/*
 * Closes the endpoint (flushed when the link has not failed, else by force) and frees everything. Out of band it
 * meets the peer before the worker goes. 0, or -1 with `link->error`; everything is freed in either case.
 */
int cw_link_close(struct cw_link *link);

/* Meets the peer out of band while the worker is kept in progress. */
int cw_link_barrier(struct cw_link *link);

/* Marks the link as failed, keeps the first sentence; always returns -1. */
int cw_link_fail(struct cw_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The part of cw_link_progress() that sleeps and checks peer and clock. */
int cw_link_idle(struct cw_link *link, bool nothing_done);

/* Waits a little for progress, spinning or asleep. 0, or -1 when the link has failed or timed out. */
static inline int cw_link_progress(struct cw_link *link)
{
    bool nothing_done = ucp_worker_progress(link->worker) == 0;

    if (__builtin_expect(link->failed, 0)) {
        return -1;
    }
    if ((nothing_done && link->rests) || __builtin_expect((++link->calls & 1023) == 0, 0)) {
        return cw_link_idle(link, nothing_done);
    }
    return 0;
}

/* Lets the worker get on without waiting: for loops whose operations all finish at once. */
static inline int cw_link_touch(struct cw_link *link)
{
    ucp_worker_progress(link->worker);
    if (__builtin_expect((++link->calls & 1023) == 0, 0) && cw_link_idle(link, false) != 0) {
        return -1;
    }
    return link->failed ? -1 : 0;
}

#endif
