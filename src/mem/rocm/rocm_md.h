/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory domain of AMD GPUs (docs/why/gpu-memory.md): the code of mem/cuda over HIP. It has no memory types until the
 * program itself has loaded HIP. Tested with a mock driver only. Listed in mem/registry.c.
 */
#ifndef CW_MEM_ROCM_MD_H
#define CW_MEM_ROCM_MD_H

#include "mem/cuda/cuda_driver.h"
#include "mem/md.h"

extern const struct cw_md cw_md_rocm; /* in mem/cuda/cuda_md.c */
extern const struct cuda_kind cw_rocm_kind;

#endif
