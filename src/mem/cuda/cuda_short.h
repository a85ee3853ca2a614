/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of few bytes between a GPU and memory of the host, by way of a pinned buffer.
 */
#ifndef CW_MEM_CUDA_SHORT_H
#define CW_MEM_CUDA_SHORT_H

#include "mem/cuda/cuda.h"

/* The longest copy. Copies of pinned memory from 32 KiB on are made by the copy engine in any case, but other memory of
 * the host up to 64 KiB still is not. */
#define CUDA_SHORT_MOST ((size_t)64 << 10)

/* The context of the stream is current. `to` or `from` is memory of the host, and the copy is complete on return. They
 * answer a CUresult. */
int cw_cuda_short_in(const struct cuda_driver *cuda, cuda_stream stream, const struct cuda_range *range, void *to,
                     const void *from, size_t length);
int cw_cuda_short_out(const struct cuda_driver *cuda, cuda_stream stream, void *to, const void *from, size_t length);

#endif
