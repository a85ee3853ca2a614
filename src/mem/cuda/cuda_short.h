/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short copies between a GPU and host memory, through a pinned bounce buffer.
 */
#ifndef CW_MEM_CUDA_SHORT_H
#define CW_MEM_CUDA_SHORT_H

#include "mem/cuda/cuda.h"

/* The longest copy. The copy engine always carries out copies of pinned memory from 32 KiB on, but copies of other host
 * memory only above 64 KiB. */
#define CUDA_SHORT_MOST ((size_t)64 << 10)

/* The context of the stream is current. `to` or `from` is host memory, and the copy is complete on return. Return a
 * CUresult. */
int cw_cuda_short_in(const struct cuda_driver *cuda, cuda_stream stream, const struct cuda_range *range, void *to,
                     const void *from, size_t length);
int cw_cuda_short_out(const struct cuda_driver *cuda, cuda_stream stream, void *to, const void *from, size_t length);

#endif
