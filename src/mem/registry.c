/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One line per kind of memory domain.
 */
#include "mem/registry.h"

#include "mem/cuda/cuda_md.h"
#include "mem/sim/sim_md.h"

static const struct cw_md *const mds[] = {
    &cw_md_host,
    &cw_md_sim_gpu,
    &cw_md_cuda,
};

#define NUM_MDS (sizeof(mds) / sizeof(mds[0]))

const struct cw_md *cw_md_of_type(ucs_memory_type_t type)
{
    struct cw_md_attr attr;
    unsigned i;

    for (i = 0; i < NUM_MDS; i++) {
        mds[i]->query(&attr);
        if ((unsigned)type < UCS_MEMORY_TYPE_UNKNOWN && (attr.copies & CW_MEMORY_BIT(type))) {
            return mds[i];
        }
    }
    return NULL;
}

ucs_memory_type_t cw_md_find(const void *ptr, size_t length)
{
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
    unsigned i;

    for (i = NUM_MDS; i-- > 1 && type == UCS_MEMORY_TYPE_UNKNOWN;) { /* the first one is the host's */
        type = mds[i]->type_of(ptr, length);
    }
    return (type == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_MEMORY_TYPE_HOST : type;
}

const struct cw_md *cw_md_at(unsigned i)
{
    return (i < NUM_MDS) ? mds[i] : NULL;
}
