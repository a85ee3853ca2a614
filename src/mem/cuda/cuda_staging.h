/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the slots for asynchronous copies (mem/md.h).
 */
#ifndef CW_MEM_CUDA_STAGING_H
#define CW_MEM_CUDA_STAGING_H

#include "mem/cuda/cuda_driver.h"
#include "mem/md.h"

void *cw_cuda_staging(const struct cuda_driver *cuda, const void *device, size_t length);
void cw_cuda_unstage(const struct cuda_driver *cuda, void *memory);
/* As cw_cuda_unstage; the memory is freed, not cached. */
void cw_cuda_drop(const struct cuda_driver *cuda, void *memory);
ucs_status_t cw_cuda_share(const struct cuda_driver *cuda, const void *device, size_t length, struct cw_memory *memory);
ucs_status_t cw_cuda_map_shared(const struct cuda_driver *cuda, const void *device, int fd, size_t length,
                                struct cw_memory *memory);
void cw_cuda_unshare(const struct cuda_driver *cuda, struct cw_memory *memory);
ucs_status_t cw_cuda_start(const struct cuda_driver *cuda, void *to, const void *from, size_t length,
                           struct cw_md_copy *copy);
ucs_status_t cw_cuda_poll(const struct cuda_driver *cuda, struct cw_md_copy *copy);
ucs_status_t cw_cuda_wait(const struct cuda_driver *cuda, struct cw_md_copy *copy);

#endif
