/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs of the benchmark need of a worker in this process. Callers: those that use the public interface.
 */
#ifndef CW_BENCH_SIDE_H
#define CW_BENCH_SIDE_H

#include <stdint.h>

#include <ucp/api/ucp.h>

struct cw_side {
    ucp_context_h context;
    ucp_worker_h worker;
};

/* Ends the program with a sentence unless the status is UCS_OK. */
void cw_side_check(const char *what, ucs_status_t status);

/* A context and a worker in SINGLE mode, of whatever version of the library is there. */
void cw_side_open(struct cw_side *side, uint64_t features);

/* Waits for what a call returned, with these workers (the second may be NULL) in progress, and frees it. */
ucs_status_t cw_side_await(ucs_status_ptr_t request, ucp_worker_h one, ucp_worker_h other);

#endif
