/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots of the domain for copies that go on after the call (mem/md.h).
 */
#ifndef CW_MEM_CUDA_STAGE_H
#define CW_MEM_CUDA_STAGE_H

#include "mem/md.h"

void *cw_cuda_stage(const void *device, size_t length);
void cw_cuda_unstage(void *memory);
ucs_status_t cw_cuda_start(void *to, const void *from, size_t length, struct cw_md_copy *copy);
ucs_status_t cw_cuda_poll(struct cw_md_copy *copy);
ucs_status_t cw_cuda_wait(struct cw_md_copy *copy);

#endif
