/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of the driver of a kind of GPU, if the program has loaded it; the library never loads it. The functions
 * have the form of the CUDA driver's; a kind whose driver has another form adapts them (mem/rocm).
 */
#ifndef CW_MEM_CUDA_DRIVER_H
#define CW_MEM_CUDA_DRIVER_H

#include "mem/cuda/cuda_abi.h"
#include "ucs/memory/memory_type.h"

struct cuda_driver;

enum { CUDA_KIND_CUDA, CUDA_KIND_ROCM, CUDA_KINDS };

struct cuda_kind {
    unsigned number; /* one of the above: what the library keeps for a kind lies in arrays with this index */
    const char *name;
    const char *allocators; /* functions whose memory other processes can open, for a sentence */
    const char *advice;     /* to somebody whose driver lacks a function, */
    const char *dmabuf;     /* and to somebody whose driver makes no dma-buf */
    ucs_memory_type_t device, managed;
    const char *const *files; /* names of the driver's library, NULL behind the last one */
    /* Fills the table. NULL, or the name of a needed function that the library lacks. */
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

/* Looks whether the program has loaded the driver since the last look. NULL: it has not, or the driver lacks a needed
 * function or finds no device. Any thread may call it. A table once returned stays valid. */
const struct cuda_driver *cw_cuda_driver_look(const struct cuda_kind *kind);
/* The table of the last look, without a new one. */
const struct cuda_driver *cw_cuda_driver_get(const struct cuda_kind *kind);
/* The driver's name of an error. */
const char *cw_cuda_driver_error(const struct cuda_driver *cuda, int result);

/* A function of a driver, and where its pointer lies in a table. */
struct cuda_symbol {
    const char *name;
    size_t offset;
    int optional;
};

/* Writes the pointers. NULL, or the name of a function that is not optional and that the library lacks. */
const char *cw_cuda_symbols_find(void *library, const struct cuda_symbol *symbols, size_t count, void *table);

#endif
