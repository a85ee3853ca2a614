/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated GPU of the library.
 */
#include "device.h"

#include "sim_gpu.h"

const int device_trusts = 0;
const int device_is_apart = 1;
const uint64_t device_other_types = 0;

void device_open(void)
{
    cw_sim_gpu_open(UCS_MEMORY_TYPE_CUDA);
}

void device_close(void)
{
    cw_sim_gpu_close();
}

void *device_alloc(size_t length)
{
    return cw_sim_gpu_alloc(length);
}

void device_free(void *ptr)
{
    cw_sim_gpu_free(ptr);
}

void *device_alloc_managed(size_t length)
{
    (void)length;
    return NULL;
}

void device_free_managed(void *ptr)
{
    (void)ptr;
}

void device_write(void *to, const void *from, size_t length)
{
    cw_sim_gpu_write(to, from, length);
}

void device_fail_after(uint64_t copies)
{
    cw_sim_gpu_fail_after(copies);
}

uint64_t device_copies(void)
{
    return cw_sim_gpu_copies();
}
