/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated GPU as a memory domain. It has no memory types until a test opens it (mem/sim/sim_gpu.h), so that an
 * ordinary process never sees it. Listed in mem/registry.c.
 */
#ifndef CW_MEM_SIM_MD_H
#define CW_MEM_SIM_MD_H

#include "mem/md.h"

extern const struct cw_md cw_md_sim_gpu;

#endif
