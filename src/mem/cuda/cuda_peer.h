/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the slots for memory of peers on this host (mem/md.h).
 */
#ifndef CW_MEM_CUDA_PEER_H
#define CW_MEM_CUDA_PEER_H

#include "mem/cuda/cuda_driver.h"
#include "mem/md.h"

int cw_cuda_give_name(const struct cuda_driver *cuda, const void *ptr, size_t length, uint32_t peer,
                      struct cw_md_name *name);
ucs_status_t cw_cuda_open(const struct cuda_driver *cuda, const struct cw_md_name *name, uint32_t peer, const void *to,
                          size_t length, struct cw_md_window *window);
void cw_cuda_shut(const struct cuda_driver *cuda, struct cw_md_window *window);
void cw_cuda_forget(const struct cuda_driver *cuda, uint32_t peer);

#endif
