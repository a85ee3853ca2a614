/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of memory domains, one line for each; the host's is the first.
 */
#include "mem/registry.h"

#include <stddef.h>

#include "mem/cuda/cuda_md.h"
#include "mem/rocm/rocm_md.h"

const struct cw_md *const cw_mds[] = {
    &cw_md_host,
    &cw_md_cuda,
    &cw_md_rocm,
    NULL,
};
