/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In place of src/mem/registry.c: its domains and the simulated GPU.
 */
#include "mem/registry.h"

#include <stddef.h>

#include "mem/cuda/cuda_md.h"
#include "mem/rocm/rocm_md.h"
#include "sim_gpu.h"

const struct cw_md *const cw_mds[] = {
    &cw_md_host,
    &cw_md_sim_gpu,
    &cw_md_cuda,
    &cw_md_rocm,
    NULL,
};
