/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the stand-in for a test with transfers of LENGTH bytes, which the test defines: patterns in it, and a
 * device whose copies are late.
 */
#ifndef CW_TEST_GPU_STANDIN_MEMORY_H
#define CW_TEST_GPU_STANDIN_MEMORY_H

#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "standin.h"

#ifdef STANDIN_HIP /* the program is linked with libamdhip64, where devices have no contexts that could be destroyed */
#define HAS_CONTEXTS 0
#define DEVICE_TYPE  UCS_MEMORY_TYPE_ROCM
#define COPIES       "rocm_copy"
#else
#define HAS_CONTEXTS 1
#define DEVICE_TYPE  UCS_MEMORY_TYPE_CUDA
#define COPIES       "cuda_copy"
#endif

static cuda_context primary;
static char *scratch;

static inline void ok(int result)
{
    assert_int_equal(result, CUDA_OK);
}

static inline void begin(void)
{
    scratch = malloc(LENGTH);
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&primary, 0));
    ok(cuCtxSetCurrent(primary));
    standin_delay(20000, 100000);
}

static inline void end(void)
{
    standin_fail(NULL, 0, 0);
    standin_delay(0, 0);
    assert_int_equal(standin_events(), 0);
    assert_int_equal(standin_opened(), 0);
    ok(cuCtxSetCurrent(primary));
    for (int i = 0; i < STANDIN_DEVICES; i++) {
        ok(cuDevicePrimaryCtxReset_v2(i)); /* which the library notices with either kind */
    }
    ok(cuCtxSetCurrent(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_int_equal(standin_allocations(), 0);
    free(scratch);
}

static inline char *device_new(size_t length)
{
    cuda_ptr ptr = 0;

    ok(cuMemAlloc_v2(&ptr, length));
    return (char *)(uintptr_t)ptr;
}

static inline void device_free(char *ptr)
{
    ok(cuMemFree_v2((uintptr_t)ptr));
}

static inline void fill(char *ptr, uint64_t seed)
{
    cw_pattern_fill(scratch, LENGTH, seed);
    standin_peek(ptr, scratch, LENGTH);
}

static inline void check(const char *ptr, uint64_t seed)
{
    memset(scratch, 0, LENGTH);
    standin_peek(scratch, ptr, LENGTH);
    cw_pattern_check(scratch, LENGTH, seed);
}

#endif
