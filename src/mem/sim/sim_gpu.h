/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test interface of the simulated GPU: a memory domain whose addresses no processor can touch. A touch ends the program
 * with SIGSEGV, so a test that passes has proven that the library used the domain's copy alone. There is one per
 * process, and only while a test has opened it. It copies within the call.
 */
#ifndef CW_MEM_SIM_GPU_H
#define CW_MEM_SIM_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/memory/memory_type.h"

/* Its memory is of that type, not the host's. Before the contexts that are to use it are made. */
void cw_sim_gpu_open(ucs_memory_type_t type);
/* Nothing of it is in use any more. */
void cw_sim_gpu_close(void);

/* As the calls of a GPU's own library: NULL: no memory. */
void *cw_sim_gpu_alloc(size_t length);
void cw_sim_gpu_free(void *ptr);
void cw_sim_gpu_write(void *device, const void *host, size_t length);
void cw_sim_gpu_read(void *host, const void *device, size_t length);

/* From now on, once so many copies were made, all further ones fail. */
void cw_sim_gpu_fail_after(uint64_t copies);
/* Copies made by the library, and their bytes. */
uint64_t cw_sim_gpu_copies(void);
uint64_t cw_sim_gpu_bytes(void);

#endif
