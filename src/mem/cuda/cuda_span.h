/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the slots for fabric devices (mem/md.h).
 */
#ifndef CW_MEM_CUDA_SPAN_H
#define CW_MEM_CUDA_SPAN_H

#include "mem/cuda/cuda_driver.h"
#include "mem/md.h"

int cw_cuda_find_span(const struct cuda_driver *cuda, const void *ptr, size_t length, struct cw_md_span *span);
ucs_status_t cw_cuda_export_span(const struct cuda_driver *cuda, const struct cw_md_span *span,
                                 struct cw_md_dmabuf *dmabuf, const char **why_p);

#endif
