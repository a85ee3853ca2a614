/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory domain of NVIDIA GPUs (docs/why/gpu-memory.md). It has no memory types until the program itself has loaded the
 * driver. Listed in mem/registry.c.
 */
#ifndef CW_MEM_CUDA_MD_H
#define CW_MEM_CUDA_MD_H

#include "mem/md.h"

extern const struct cw_md cw_md_cuda;

#endif
