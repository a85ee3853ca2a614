/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a two-sided test: plain memory, or with -B or -z memory that the library has allocated and registered;
 * with -z its handle goes along with each operation.
 *
 * Callers: test_tag.c, drive.c with the families that use it.
 */
#ifndef CW_PERF_BUFFERS_H
#define CW_PERF_BUFFERS_H

#include "tests.h"

struct cw_buffers {
    struct cw_link *link;
    char *base;
    ucp_mem_h memh; /* NULL: plain memory. Also the link's, which releases it after a failure */
    bool tell;      /* the handle to each operation */
};

/* Gets `count` zeroed buffers of `room` bytes each. 0, or -1 after cw_link_fail(). */
int cw_buffers_open(struct cw_buffers *buffers, struct cw_perf_run *run, size_t count, size_t room);

/* Frees them; nobody may be using them. */
void cw_buffers_close(struct cw_buffers *buffers);

/* Adds the memory handle to the parameters of an operation on one of the buffers. */
static inline void cw_buffers_apply(const struct cw_buffers *buffers, ucp_request_param_t *param)
{
    if (buffers->tell) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = buffers->memh;
    }
}

#endif
