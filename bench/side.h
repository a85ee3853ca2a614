/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs of the benchmark need of a worker in this process. Callers: those that use the public interface.
 */
#ifndef CW_BENCH_SIDE_H
#define CW_BENCH_SIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <ucp/api/ucp.h>

struct cw_side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucs_thread_mode_t mode; /* of workers that are opened; 0 is SINGLE */
};

/* Of this process; malloc_bytes is -1 where it cannot be known. */
struct cw_side_memory {
    long resident_kib;
    long share_kib; /* a page of several processes counts as its part */
    long dirty_kib;
    long malloc_bytes;
};

struct cw_side_memory cw_side_memory_now(void);

/* Ends the program with a sentence unless the status is UCS_OK. */
void cw_side_check(const char *what, ucs_status_t status);

/* A context and a worker, of whatever version of the library is there; and a further worker. */
void cw_side_open(struct cw_side *side, uint64_t features);
void cw_side_open_worker(struct cw_side *side);

/* Binds this process to a processor; -1: to none. */
void cw_side_bind(int cpu);

/* A second process, and in each the two ends of pipes for cw_side_meet. Each is bound to its processor; the second one
 * ends with the first. Both end after that many seconds. */
struct cw_side_pair {
    pid_t other; /* 0 in the second process */
    int from, to;
};

struct cw_side_pair cw_side_fork(const int cpus[2], unsigned seconds);

/* An endpoint to the worker of another process, which calls this as well: addresses cross through pipes. */
ucp_ep_h cw_side_meet(const struct cw_side *side, int from, int to);

/* Waits for what a call returned, with these workers (the second may be NULL) in progress, and frees it. */
ucs_status_t cw_side_await(ucs_status_ptr_t request, ucp_worker_h one, ucp_worker_h other);
/* Whether what a call returned is over; then it is freed and NULL. Ends the program on an error. */
bool cw_side_is_over(const char *what, ucs_status_ptr_t *request);

#endif
