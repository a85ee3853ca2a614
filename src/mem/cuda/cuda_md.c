/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots of the domains of GPUs (mem/md.h) that are in no other file, and the table of CUDA. A key does not tell where
 * memory of the domain lies; peers on this host ask its owner for the name (cuda_peer.c), and others get the bytes from
 * it.
 */
#include "mem/cuda/cuda_md.h"

#include "mem/cuda/cuda_slots.h"
#include "os/loaded.h"

/* ---- types ---- */

/* Asks about each range, as the driver reports pieces that the program mapped one behind the other as separate
 * ranges. */
ucs_memory_type_t cw_cuda_type_of(const struct cuda_driver *cuda, const void *ptr, size_t length)
{
    const uintptr_t end    = (uintptr_t)ptr + length;
    uintptr_t next         = (uintptr_t)ptr;
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
    struct cuda_range range;

    if (cuda == NULL || cw_memory_is_plain(ptr) || !cw_cuda_knows(cuda, ptr)) {
        return UCS_MEMORY_TYPE_UNKNOWN;
    }
    do {
        cw_cuda_range_of(cuda, (const void *)next, &range);
        if (range.type == UCS_MEMORY_TYPE_HOST || range.type == UCS_MEMORY_TYPE_UNKNOWN ||
            next - range.start >= range.size || (type != UCS_MEMORY_TYPE_UNKNOWN && range.type != type)) {
            return (type == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_MEMORY_TYPE_UNKNOWN : CW_MEMORY_MIXED;
        }
        type = range.type;
        next = range.start + range.size;
    } while (next < end);
    return type;
}

/* ---- allocations ---- */

/* The device of the thread's context; otherwise the first device with an active primary context. */
static int find_device(const struct cuda_driver *cuda, struct cuda_range *range)
{
    int count = 0, active = 0;
    unsigned flags;

    *range = (struct cuda_range){.context = NULL};
    if (cuda->context_current(&range->context) == CUDA_OK && range->context != NULL) {
        return 1;
    }
    (void)cuda->device_count(&count);
    for (range->device = 0; range->device < count; range->device++) {
        if (cuda->primary_state(range->device, &flags, &active) == CUDA_OK && active) {
            return 1;
        }
    }
    return 0;
}

ucs_status_t cw_cuda_allocate(const struct cuda_driver *cuda, const struct cw_memory_wish *wish,
                              struct cw_memory *memory)
{
    struct cuda_channel channel;
    struct cuda_range range;
    cuda_ptr ptr = 0;
    ucs_status_t status;
    int result;

    *memory = (struct cw_memory){.fd = -1};
    if (cuda == NULL || !find_device(cuda, &range)) {
        return UCS_ERR_NO_DEVICE;
    }
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "memory cannot be allocated", result);
    }
    result = (wish->type == cuda->kind->managed) ? cuda->alloc_managed(&ptr, wish->length, CUDA_MANAGED_GLOBAL)
                                                 : cuda->alloc(&ptr, wish->length);
    cw_cuda_leave(cuda);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "memory cannot be allocated", result);
    }
    memory->ptr    = (char *)(uintptr_t)ptr;
    memory->length = wish->length;
    memory->page   = 1;
    status         = cw_cuda_clear(cuda, memory->ptr, memory->length);
    if (status != UCS_OK) {
        cw_cuda_release(cuda, memory);
        memory->ptr = NULL;
    }
    return status;
}

/* The program may have destroyed the context, and the memory with it. */
void cw_cuda_release(const struct cuda_driver *cuda, struct cw_memory *memory)
{
    struct cuda_channel channel;
    struct cuda_range range;
    int result;

    cw_cuda_range_of(cuda, memory->ptr, &range);
    if (range.start != (uintptr_t)memory->ptr || range.type == UCS_MEMORY_TYPE_UNKNOWN) {
        return;
    }
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result == CUDA_OK) {
        result = cuda->free((uintptr_t)memory->ptr);
        cw_cuda_leave(cuda);
    }
    if (result != CUDA_OK) {
        (void)cw_cuda_failed(cuda, "memory cannot be freed", result);
    }
}

CUDA_SLOTS(cw_md_cuda, cw_cuda_kind, UCS_MEMORY_TYPE_CUDA, "cuda", "cuda_copy", "cuda_ipc");
