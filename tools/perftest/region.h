/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the peer of a one-sided test may reach: allocated by the library, or the tool's own and registered
 * (--user-memory). Each side has one region of the same length and holds the key to the other's; in loopback the region
 * is its own peer.
 *
 * Callers: test_rma.c, origin.c.
 */
#ifndef CW_PERF_REGION_H
#define CW_PERF_REGION_H

#include "tests.h"

struct cw_region {
    struct cw_link *link;
    char *base;
    size_t length;
    char *own; /* the tool's own memory, NULL: the library's */
    ucp_mem_h memh; /* this and the key are also the link's, which releases them after a failure */
    uint64_t remote; /* where the peer's region begins */
    ucp_rkey_h rkey;
};

/* Gets zeroed memory, registers it and exchanges keys with the peer. 0, or -1 after cw_link_fail(). */
int cw_region_open(struct cw_region *region, struct cw_perf_run *run, size_t length);

/* Frees key and memory; nobody may be using them. 0, or -1 after cw_link_fail(). */
int cw_region_close(struct cw_region *region);

/* Adds the memory handle to the parameters of an operation when the user asked for it (-z). */
static inline void cw_region_apply(const struct cw_region *region, const struct cw_perf_params *params,
                                   ucp_request_param_t *param)
{
    if (params->memory_handle) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = region->memh;
    }
}

#endif
