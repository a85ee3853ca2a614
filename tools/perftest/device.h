/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU for the tests (-m cuda, -m cuda-managed). The tool loads the CUDA driver at run time, only when a
 * test asks for such memory; the library allocates it, and the tool looks into it with the driver's copies.
 *
 * Callers: buffers.c, run.c.
 */
#ifndef CW_PERF_DEVICE_H
#define CW_PERF_DEVICE_H

#include <stddef.h>

/* Loads the driver and makes the first GPU current for the calling thread; before the library makes a context. NULL, or
 * what is wrong. */
const char *cw_device_enter(void);

/* Copies between any kinds of memory. 0, or -1. */
int cw_device_copy(void *to, const void *from, size_t length);

#endif
