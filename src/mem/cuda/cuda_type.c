/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries the driver about addresses. Results are not cached: validating a cached one requires the buffer id from the
 * driver, which costs as much as the query itself.
 */
#include "base/log.h"
#include "mem/cuda/cuda.h"

void cw_cuda_range_of(const struct cuda_driver *cuda, const void *ptr, struct cuda_range *range)
{
    int attributes[] = {CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED, CUDA_POINTER_CONTEXT,  CUDA_POINTER_ORDINAL,
                        CUDA_POINTER_RANGE_START, CUDA_POINTER_RANGE_SIZE, CUDA_POINTER_BUFFER_ID};
    unsigned type = 0, managed = 0;
    void *start = NULL;
    void *data[] = {&type, &managed, &range->context, &range->device, &start, &range->size, &range->buffer_id};

    *range = (struct cuda_range){.type = UCS_MEMORY_TYPE_UNKNOWN};
    if (cuda->pointer_attributes(sizeof(attributes) / sizeof(attributes[0]), attributes, data, (uintptr_t)ptr) !=
        CUDA_OK) {
        return;
    }
    range->start = (uintptr_t)start;
    if (managed) {
        range->type = cuda->kind->managed;
    } else if (type == CUDA_MEMORY_DEVICE) {
        range->type = cuda->kind->device;
    } else if (type == CUDA_MEMORY_HOST) {
        range->type = UCS_MEMORY_TYPE_HOST;
    }
}

int cw_cuda_knows(const struct cuda_driver *cuda, const void *ptr)
{
    int attribute = CUDA_POINTER_MEMORY_TYPE;
    unsigned type = 0;
    void *data = &type;

    return cuda->pointer_attributes(1, &attribute, &data, (uintptr_t)ptr) == CUDA_OK && type != 0;
}

ucs_status_t cw_cuda_failed(const struct cuda_driver *cuda, const char *what, int result)
{
    static struct cw_log_limit limit;

    cw_log_ratelimited(&limit, CW_LOG_DEBUG, "%s: the %s driver reports %s (%d)", what, cuda->kind->name,
                       cw_cuda_driver_error(cuda, result), result);
    if (result == CUDA_NO_MEMORY) {
        return UCS_ERR_NO_MEMORY;
    }
    return (result == CUDA_NO_DEVICE || result == CUDA_NOT_INITIALIZED) ? UCS_ERR_NO_DEVICE : UCS_ERR_IO_ERROR;
}
