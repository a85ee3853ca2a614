/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the GPU memory domains of every kind (struct cuda_kind): the driver's attributes of an address, and the
 * library's own copy streams.
 */
#ifndef CW_MEM_CUDA_H
#define CW_MEM_CUDA_H

#include <stdbool.h>

#include "mem/cuda/cuda_driver.h"
#include "ucs/memory/memory_type.h"
#include "ucs/type/status.h"

/* One allocation, or one piece of an address range into which the program mapped several. */
struct cuda_range {
    ucs_memory_type_t type; /* HOST: pinned; UNKNOWN: the driver does not know the address */
    cuda_context context;   /* the context that it was allocated in; NULL: none */
    int device;
    uintptr_t start;
    size_t size;
    unsigned long long buffer_id;
};

static inline bool cw_cuda_is_of_gpu(const struct cuda_driver *cuda, const struct cuda_range *range)
{
    return range->type == cuda->kind->device || range->type == cuda->kind->managed;
}

/* Whether the driver knows the address. Cheaper than cw_cuda_range_of, and most addresses are unknown. */
int cw_cuda_knows(const struct cuda_driver *cuda, const void *ptr);
/* Queries the driver once, independent of the thread's context. */
void cw_cuda_range_of(const struct cuda_driver *cuda, const void *ptr, struct cuda_range *range);

#define CUDA_BUFFERS 8u

/* The library's own streams in the context for copies of some memory: the memory's own context; if it has none, the
 * thread's context if that is one of the same device, else the primary context of the device. */
struct cuda_channel {
    cuda_context context;
    unsigned long long id;                    /* the context's number, never reused */
    cuda_stream streams[2];                   /* [0] for copies from a device, [1] for copies to one */
    unsigned long long buffers[CUDA_BUFFERS]; /* ids of some buffers that were allocated in the context; 0: none */
};

/* Returns a CUresult. After CUDA_OK the context is current until cw_cuda_leave. */
int cw_cuda_enter(const struct cuda_driver *cuda, const struct cuda_range *range, struct cuda_channel *channel);
/* Enters a context that was entered before: CUDA_CONTEXT_DESTROYED if the handle now refers to another context. */
int cw_cuda_enter_again(const struct cuda_driver *cuda, cuda_context context, unsigned long long id);
void cw_cuda_leave(const struct cuda_driver *cuda);

/* Logs the failure, limited in rate, and returns the status for it. */
ucs_status_t cw_cuda_failed(const struct cuda_driver *cuda, const char *what, int result);

/* Enters the context for a copy; *inwards_p: its direction. Queries the driver about `to` first. Returns a CUresult. */
int cw_cuda_begin(const struct cuda_driver *cuda, const void *to, const void *from, struct cuda_channel *channel,
                  int *inwards_p);
/* Copies between any memory of the driver and memory of the host; the copy is complete on return. The other two are for
 * memory of the host at one end: copy_in from it, copy_out to it. */
ucs_status_t cw_cuda_copy(const struct cuda_driver *cuda, void *to, const void *from, size_t length);
ucs_status_t cw_cuda_copy_in(const struct cuda_driver *cuda, void *to, const void *from, size_t length);
ucs_status_t cw_cuda_copy_out(const struct cuda_driver *cuda, void *to, const void *from, size_t length);
/* Fills with zeros. */
ucs_status_t cw_cuda_clear(const struct cuda_driver *cuda, void *ptr, size_t length);

#endif
