/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU for the tests (-m cuda, rocm, and either managed). The tool loads the driver of CUDA, or HIP, at run
 * time, only when a test asks for such memory; the library allocates it, and the tool reads it with the driver's
 * copies.
 *
 * Callers: buffers.c, run.c.
 */
#ifndef CW_PERF_DEVICE_H
#define CW_PERF_DEVICE_H

#include <stddef.h>

#include "ucs/memory/memory_type.h"

/* Loads the driver for that type of memory and makes the first GPU current for the calling thread; before the library
 * makes a context. NULL, or what is wrong. */
const char *cw_device_enter(ucs_memory_type_t type);

/* Copies between memory of that type and of the host. 0, or -1. */
int cw_device_copy(ucs_memory_type_t type, void *to, const void *from, size_t length);

#endif
