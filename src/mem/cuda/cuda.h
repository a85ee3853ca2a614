/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the domain share: what the driver says of an address, and streams of our own to copy on.
 */
#ifndef CW_MEM_CUDA_H
#define CW_MEM_CUDA_H

#include "mem/cuda/cuda_driver.h"
#include "ucs/memory/memory_type.h"
#include "ucs/type/status.h"

/* One allocation, or one piece of what the program mapped behind each other. */
struct cuda_range {
    ucs_memory_type_t type; /* HOST: pinned; UNKNOWN: the driver does not know the address */
    cuda_context context;   /* that it was allocated in; NULL: of no context */
    int device;
    uintptr_t start;
    size_t size;
    unsigned long long buffer_id;
};

/* One call of the driver, whatever the thread's context is. */
void cw_cuda_range_of(const struct cuda_driver *cuda, const void *ptr, struct cuda_range *range);

/* Streams of our own in the context that such memory is worked with: its own; or, where it has none, the thread's if
 * it is one of this device, else the device's primary one. */
struct cuda_channel {
    cuda_context context;
    unsigned long long id;  /* no context after it has this one */
    cuda_stream streams[2]; /* 0: from a device; 1: to a device */
};

/* A CUresult. With CUDA_OK the context is current, until cw_cuda_leave. */
int cw_cuda_enter(const struct cuda_driver *cuda, const struct cuda_range *range, struct cuda_channel *channel);
/* The same of a context that was entered before: CUDA_CONTEXT_DESTROYED if it is another one now. */
int cw_cuda_enter_again(const struct cuda_driver *cuda, cuda_context context, unsigned long long id);
void cw_cuda_leave(const struct cuda_driver *cuda);

/* Logs what failed, limited in rate, and tells the status. */
ucs_status_t cw_cuda_failed(const char *what, int result);

/* Enters for a copy, whose direction is *inwards_p. A CUresult. */
int cw_cuda_begin(const void *to, const void *from, struct cuda_channel *channel, int *inwards_p);
/* Copies between any of the driver's memory and the host's; done when it returns. */
ucs_status_t cw_cuda_copy(void *to, const void *from, size_t length);
/* Fills with zeros. */
ucs_status_t cw_cuda_clear(void *ptr, size_t length);

#endif
