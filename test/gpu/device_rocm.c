/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A GPU behind HIP, or rather its stand-in. Memory comes from several devices and by two functions in turn, and the
 * thread that calls the library has another device than the memory most of the time.
 */
#include "device.h"

#include <stdlib.h>

#include "standin_hip.h"

const int device_trusts = 1;
const int device_is_apart = 1;
const uint64_t device_other_types = UINT64_C(1) << UCS_MEMORY_TYPE_ROCM_MANAGED;

static unsigned turn;

static void succeed(int result)
{
    if (result != CUDA_OK) {
        abort();
    }
}

void device_open(void)
{
    succeed(hipInit(0));
    succeed(hipSetDevice(1));
    standin_delay(20000, 200000);
}

/* The library has left the thread's device as it was. */
void device_close(void)
{
    int device;

    succeed(hipGetDevice(&device));
    if (device != 1 || hipPeekAtLastError() != CUDA_OK) {
        abort();
    }
}

void *device_alloc(size_t length)
{
    cuda_ptr ptr = 0;

    succeed(hipSetDevice((int)(turn % STANDIN_DEVICES)));
    succeed((turn % 4 == 3) ? hipMallocAsync(&ptr, length, NULL) : hipMalloc(&ptr, length));
    succeed(hipSetDevice(1));
    turn++;
    return (void *)(uintptr_t)ptr;
}

void device_free(void *ptr)
{
    succeed(hipFree((uintptr_t)ptr));
}

void *device_alloc_managed(size_t length)
{
    cuda_ptr ptr = 0;

    succeed(hipMallocManaged(&ptr, length, CUDA_MANAGED_GLOBAL));
    return (void *)(uintptr_t)ptr;
}

void device_free_managed(void *ptr)
{
    device_free(ptr);
}

void device_write(void *to, const void *from, size_t length)
{
    standin_peek(to, from, length);
}

void device_fail_after(uint64_t copies)
{
    standin_fail((copies == UINT64_MAX) ? NULL : "cuMemcpyAsync", (unsigned)copies, CUDA_ILLEGAL_ADDRESS);
}

uint64_t device_copies(void)
{
    return standin_calls("cuMemcpyAsync");
}
