/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a one-sided test: allocated by the library, or the tool's own and registered (--user-memory). It has a part
 * that the peer may reach, and behind it a part for the operations of this side, which with -m is memory of its own.
 * Each side has parts of the same lengths and holds the key to the other's; in loopback the region is its own peer.
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
    char *local; /* the part of this side's operations */
    ucp_mem_h local_memh; /* of a local part of its own; also the link's; else NULL */
    char *own; /* the tool's own memory, NULL: the library's */
    ucp_mem_h memh; /* this and the key are also the link's, which releases them after a failure */
    uint64_t remote; /* where the peer's region begins */
    ucp_rkey_h rkey;
};

/* Gets zeroed memory, `length` bytes for the peer and `local_length` for this side, registers it and exchanges keys
 * with the peer. 0, or -1 after cw_link_fail(). */
int cw_region_open(struct cw_region *region, struct cw_perf_run *run, size_t length, size_t local_length);

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
