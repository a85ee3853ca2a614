/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test interface of the simulated GPU: a memory domain whose addresses no processor can touch. A touch ends the program
 * with SIGSEGV, so a test that passes has proven that the library used the domain's copy alone. A process has one such
 * GPU, and only while a test has it open: its domain has no memory types before. Its copies complete within the call.
 */
#ifndef CW_TEST_SIM_GPU_H
#define CW_TEST_SIM_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "mem/md.h"

/* In registry_mem.c. */
extern const struct cw_md cw_md_sim_gpu;

/* Opens the GPU with memory of that type, which is not the host's. Called before the contexts that are to use it
 * exist. */
void cw_sim_gpu_open(ucs_memory_type_t type);
/* The caller uses no memory of the GPU any more. */
void cw_sim_gpu_close(void);

/* Stand for the calls of a GPU's own library. cw_sim_gpu_alloc: NULL when there is no memory. */
void *cw_sim_gpu_alloc(size_t length);
void cw_sim_gpu_free(void *ptr);
void cw_sim_gpu_write(void *device, const void *host, size_t length);
void cw_sim_gpu_read(void *host, const void *device, size_t length);

/* After this number of further copies all copies fail. */
void cw_sim_gpu_fail_after(uint64_t copies);
/* Copies made by the library, and their bytes. */
uint64_t cw_sim_gpu_copies(void);
uint64_t cw_sim_gpu_bytes(void);

#endif
