/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for the CUDA driver, a library named libcuda.so.1, with devices that a processor cannot touch: device
 * memory has addresses that are mapped without access, and its bytes lie elsewhere. It implements the functions that
 * the library and its tests use, as the manual of the driver describes them, and is strict: a handle that is used
 * after its context is gone ends the program with a sentence, where a real driver may do anything. What is put on a
 * stream is carried out by a thread of its own, when its time has come, so bytes are read and written late.
 */
#ifndef CW_TEST_GPU_STANDIN_H
#define CW_TEST_GPU_STANDIN_H

#include "mem/cuda/cuda_abi.h"

/* Functions of the driver that only programs call. Names and parameters as in the table of the library. */
#define CUDA_CALLS_OF_PROGRAMS(CALL)                                                                                   \
    CALL(init, cuInit, (unsigned flags))                                                                               \
    CALL(device_name, cuDeviceGetName, (char *name, int length, int device))                                           \
    CALL(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, int device))                                             \
    CALL(context_create, cuCtxCreate_v2, (cuda_context * context, unsigned flags, int device))                         \
    CALL(context_destroy, cuCtxDestroy_v2, (cuda_context context))                                                     \
    CALL(context_set, cuCtxSetCurrent, (cuda_context context))                                                         \
    CALL(context_synchronize, cuCtxSynchronize, (void))                                                                \
    CALL(primary_release, cuDevicePrimaryCtxRelease_v2, (int device))                                                  \
    CALL(primary_reset, cuDevicePrimaryCtxReset_v2, (int device))                                                      \
    CALL(stream_destroy, cuStreamDestroy_v2, (cuda_stream stream))                                                     \
    CALL(copy, cuMemcpy, (cuda_ptr to, cuda_ptr from, size_t length))                                                  \
    CALL(alloc_async, cuMemAllocAsync, (cuda_ptr * ptr, size_t length, cuda_stream stream))                            \
    CALL(free_async, cuMemFreeAsync, (cuda_ptr ptr, cuda_stream stream))                                               \
    CALL(host_alloc, cuMemHostAlloc, (void **ptr, size_t length, unsigned flags))                                      \
    CALL(host_free, cuMemFreeHost, (void *ptr))                                                                        \
    CALL(vmm_create, cuMemCreate,                                                                                      \
         (unsigned long long *handle, size_t length, const void *properties, unsigned long long flags))

#define CUDA_DECLARE(name, symbol, parameters) int symbol parameters;
CUDA_CALLS(CUDA_DECLARE)
CUDA_CALLS_OPTIONAL(CUDA_DECLARE)
CUDA_CALLS_OF_PROGRAMS(CUDA_DECLARE)
#undef CUDA_DECLARE

#define STANDIN_DEVICES 3
#define STANDIN_GRAIN   ((size_t)64 << 10) /* of mapped allocations */

/* ---- for tests ---- */

/* What is put on a stream from now on is carried out that much later, and so much later for each MiB. */
void standin_delay(unsigned ns, unsigned ns_per_mib);
#define STANDIN_COPIES "copies" /* in place of a symbol: all functions by which the library moves bytes */
/* The function of that symbol answers with `result` once it was called `after` times more; NULL: none fails. */
void standin_fail(const char *symbol, unsigned after, int result);
/* How often the function was called. */
unsigned standin_calls(const char *symbol);
/* How often functions of STANDIN_COPIES were called. */
static inline unsigned standin_copies(void)
{
    return standin_calls("cuMemcpyAsync") + standin_calls("cuMemcpy2DAsync_v2") +
           standin_calls("cuStreamBatchMemOp_v2");
}
/* How often any of its functions was called. */
unsigned standin_all_calls(void);
/* Allocations that were not freed, but not registered memory; streams and events that were not destroyed, nor their
 * contexts. */
unsigned standin_allocations(void);
unsigned standin_streams(void);
unsigned standin_events(void);
/* Allocations of other processes that are open. */
unsigned standin_opened(void);
/* Mapped memory, of this process or of another one, that has not been unmapped. */
unsigned standin_mapped(void);
/* From now on the driver reports of allocations of cuMemAlloc that so many bytes less at either end belong to them, as
 * if they were parts of larger ones: they begin within a page. */
void standin_narrow(size_t bytes);
/* The next allocation gets the addresses of the one that was freed last, if it fits. */
void standin_reuse_addresses(void);
/* Copies between memory of any kind, at once, past all functions of the driver: how tests read device memory. */
void standin_peek(void *to, const void *from, size_t length);

#endif
