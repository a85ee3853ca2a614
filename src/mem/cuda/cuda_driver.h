/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver functions of a kind of GPU, if the program has loaded the driver; the library never loads it. The
 * signatures are those of the CUDA driver; a kind whose driver differs adapts them (mem/rocm).
 */
#ifndef CW_MEM_CUDA_DRIVER_H
#define CW_MEM_CUDA_DRIVER_H

#include "mem/cuda/cuda_abi.h"
#include "ucs/memory/memory_type.h"

struct cuda_driver;

enum { CUDA_KIND_CUDA, CUDA_KIND_ROCM, CUDA_KINDS };

struct cuda_kind {
    unsigned number; /* one of the above: index into the library's arrays of state by kind */
    const char *name;
    const char *allocators; /* log text: functions whose memory other processes can open */
    const char *advice;     /* log text: remedy for a driver that lacks a function, */
    const char *dmabuf;     /* and for a driver that exports no dma-buf */
    ucs_memory_type_t device, managed;
    const char *const *files; /* names of the driver's library; ends with NULL */
    /* Fills the table. NULL, or the name of a required function that the library lacks. */
    const char *(*find)(void *library, struct cuda_driver *driver);
};

#define CUDA_MEMBER(name, symbol, parameters) int(*name) parameters;
struct cuda_driver {
    const struct cuda_kind *kind;
    CUDA_CALLS(CUDA_MEMBER)
    CUDA_CALLS_OPTIONAL(CUDA_MEMBER) /* NULL: the driver lacks it */
};
#undef CUDA_MEMBER

extern const struct cuda_kind cw_cuda_kind;

/* Checks whether the program has loaded the driver since the last check. NULL: it has not, or the driver lacks a
 * required function or finds no device. Any thread may call it. A returned table stays valid. */
const struct cuda_driver *cw_cuda_driver_find(const struct cuda_kind *kind);
/* The table of the last cw_cuda_driver_find, without a new check. */
const struct cuda_driver *cw_cuda_driver_get(const struct cuda_kind *kind);
/* The driver's name of an error. */
const char *cw_cuda_driver_error(const struct cuda_driver *cuda, int result);

#endif
