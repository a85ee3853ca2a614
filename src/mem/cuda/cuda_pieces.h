/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sharing of memory that programs map in pieces (cuMemCreate, cuMemMap) between processes: each piece has a descriptor,
 * which the transport passes, and the receiver maps the pieces contiguously.
 */
#ifndef CW_MEM_CUDA_PIECES_H
#define CW_MEM_CUDA_PIECES_H

#include "mem/cuda/cuda.h"
#include "mem/md.h"

enum cuda_pieces {
    CUDA_PIECES_NAMED,
    CUDA_PIECES_NONE,    /* the memory is not mapped */
    CUDA_PIECES_PRIVATE, /* the driver exports no descriptor */
    CUDA_PIECES_UNEVEN   /* the pieces have different lengths, or are too many */
};

/* The mapping at that address. 0: not device memory. */
int cw_cuda_mapping_at(const struct cuda_driver *cuda, uintptr_t at, struct cuda_range *range);
/* Names the pieces in which these bytes lie: name->buffer, start, size and descriptors. *result_p: the driver's error
 * for a PRIVATE piece. */
enum cuda_pieces cw_cuda_pieces_name(const struct cuda_driver *cuda, const void *ptr, size_t length,
                                     struct cw_md_name *name, int *result_p);
/* Maps the pieces of a name for a device; name->size is unchecked. Returns a CUresult. */
int cw_cuda_pieces_open(const struct cuda_driver *cuda, const struct cw_md_name *name, int device, cuda_ptr *base_p);
/* No copy may use the memory any more; no context has to be current. */
void cw_cuda_pieces_close(const struct cuda_driver *cuda, cuda_ptr base, size_t size);

#endif
