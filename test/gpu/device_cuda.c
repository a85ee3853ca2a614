/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A GPU behind the CUDA driver, or rather its stand-in. Memory comes from several of its devices and by several of its
 * functions in turn, and the thread that calls the library has no context.
 */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#include "standin.h"

const int device_trusts = 1;
const int device_is_apart = 1;
const uint64_t device_other_types = UINT64_C(1) << UCS_MEMORY_TYPE_CUDA_MANAGED;

enum { NUM_CONTEXTS = STANDIN_DEVICES + 1 };

static cuda_context contexts[NUM_CONTEXTS]; /* the primary ones, and another one of the last device */
static unsigned turn;

static void succeed(int result)
{
    if (result != CUDA_OK) {
        abort();
    }
}

void device_open(void)
{
    cuda_context context;
    int i;

    succeed(cuInit(0));
    for (i = 0; i < STANDIN_DEVICES; i++) {
        succeed(cuDevicePrimaryCtxRetain(&contexts[i], i));
    }
    succeed(cuCtxCreate_v2(&contexts[STANDIN_DEVICES], 0, STANDIN_DEVICES - 1));
    succeed(cuCtxPopCurrent_v2(&context));
    /* Simulated transports have so short packets that a delay of each copy would take all the time. */
    standin_delay((strstr(getenv("UCX_TLS"), "sim") == NULL) ? 20000 : 0, 200000);
}

void device_close(void)
{
    int i;

    succeed(cuCtxDestroy_v2(contexts[STANDIN_DEVICES]));
    for (i = 0; i < STANDIN_DEVICES; i++) {
        succeed(cuDevicePrimaryCtxRelease_v2(i));
    }
}

void *device_alloc(size_t length)
{
    cuda_context context = contexts[turn % NUM_CONTEXTS];
    cuda_ptr ptr = 0;

    succeed(cuCtxPushCurrent_v2(context));
    succeed((turn % 3 == 2) ? cuMemAllocAsync(&ptr, length, NULL) : cuMemAlloc_v2(&ptr, length));
    succeed(cuCtxPopCurrent_v2(&context));
    turn++;
    return (void *)(uintptr_t)ptr;
}

void device_free(void *ptr)
{
    succeed(cuMemFreeAsync((uintptr_t)ptr, NULL));
}

void *device_alloc_managed(size_t length)
{
    cuda_context context = contexts[turn++ % NUM_CONTEXTS];
    cuda_ptr ptr = 0;

    succeed(cuCtxPushCurrent_v2(context));
    succeed(cuMemAllocManaged(&ptr, length, CUDA_MANAGED_GLOBAL));
    succeed(cuCtxPopCurrent_v2(&context));
    return (void *)(uintptr_t)ptr;
}

void device_free_managed(void *ptr)
{
    cuda_context context = contexts[0];

    succeed(cuCtxPushCurrent_v2(context));
    succeed(cuMemFree_v2((uintptr_t)ptr));
    succeed(cuCtxPopCurrent_v2(&context));
}

void device_write(void *to, const void *from, size_t length)
{
    standin_peek(to, from, length);
}

void device_fail_after(uint64_t copies)
{
    standin_fail((copies == UINT64_MAX) ? NULL : STANDIN_COPIES, (unsigned)copies, CUDA_ILLEGAL_ADDRESS);
}

uint64_t device_copies(void)
{
    return standin_copies();
}
