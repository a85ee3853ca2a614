/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of the CUDA driver, if the program has loaded it; the library never loads and never initializes it.
 */
#ifndef CW_MEM_CUDA_DRIVER_H
#define CW_MEM_CUDA_DRIVER_H

#include "mem/cuda/cuda_abi.h"

#define CUDA_MEMBER(name, symbol, parameters) int(*name) parameters;
struct cuda_driver {
    CUDA_CALLS(CUDA_MEMBER)
    CUDA_CALLS_OPTIONAL(CUDA_MEMBER) /* NULL: the driver lacks it */
};
#undef CUDA_MEMBER

/* Looks whether the program has loaded the driver since the last look. NULL: it has not, or the driver lacks a needed
 * function or finds no device. Any thread may call it. A table once returned stays valid. */
const struct cuda_driver *cw_cuda_driver_look(void);
/* The table of the last look, without a new one. */
const struct cuda_driver *cw_cuda_driver_get(void);
/* The driver's name of an error. */
const char *cw_cuda_driver_error(int result);

#endif
