/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a two-sided test, those that are sent from and those that are received into: plain memory, or with -B
 * or -z memory that the library has allocated and registered; with -z its handle goes along with each operation. With
 * -m either may be memory of a GPU, which only cw_buffers_fill and its neighbours touch.
 *
 * Callers: test_tag.c, drive.c with the families that use it; origin.c and test_rma.c for the content of regions.
 */
#ifndef CW_PERF_BUFFERS_H
#define CW_PERF_BUFFERS_H

#include <string.h>

#include "layout.h"
#include "tests.h"

/* Memory of one type. */
struct cw_buffers_area {
    char *base;
    size_t length;
    ucs_memory_type_t type;
    ucp_mem_h memh; /* NULL: plain memory */
};

struct cw_buffers {
    struct cw_link *link;
    struct cw_buffers_area areas[2]; /* without -m the first one holds all */
    char *base;                      /* sends one behind the other, */
    char *receives;                  /* and receives */
    char *scratch;                   /* room for one message; NULL: no buffer is memory of a GPU */
    bool pass_handle;                       /* the handle to each operation */
};

/* Gets zeroed buffers of `room` bytes each. 0, or -1 after cw_link_fail(). */
int cw_buffers_open(struct cw_buffers *buffers, struct cw_perf_run *run, size_t sends, size_t receives, size_t room);

/* Frees them; nobody may be using them. */
void cw_buffers_close(struct cw_buffers *buffers);

/* The functions below are to work on memory that somebody else has mapped, in messages of at most `room` bytes:
 * `targets` and `local`, of the types of -m. 0, or -1 after cw_link_fail(). */
int cw_buffers_over(struct cw_buffers *buffers, struct cw_perf_run *run, char *targets, size_t targets_length,
                    char *local, size_t local_length, size_t room);
void cw_buffers_leave(struct cw_buffers *buffers);

/* As cw_pattern_fill(), cw_pattern_search() and a memset() to zero, of memory of any type. */
void cw_buffers_fill(struct cw_buffers *buffers, char *buffer, size_t size, uint64_t key);
size_t cw_buffers_search(struct cw_buffers *buffers, const char *buffer, size_t size, uint64_t key);
void cw_buffers_clear(struct cw_buffers *buffers, char *buffer, size_t size);

/* Adds the memory handle to the parameters of an operation on one of the buffers. */
static inline void cw_buffers_apply(const struct cw_buffers *buffers, ucp_request_param_t *param)
{
    if (buffers->pass_handle) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = buffers->areas[0].memh;
    }
}

#endif
