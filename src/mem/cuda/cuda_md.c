/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of the domain (mem/md.h). A key does not tell where memory of the domain lies; peers on this host ask its
 * owner for the name (cuda_peer.c), and others get the bytes from it.
 */
#include "mem/cuda/cuda_md.h"

#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_peer.h"
#include "mem/cuda/cuda_stage.h"
#include "os/loaded.h"

static void cuda_query(struct cw_md_attr *attr)
{
    const uint64_t types = (cw_cuda_driver_look() == NULL)
                               ? 0
                               : CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA) | CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA_MANAGED);

    *attr = (struct cw_md_attr){.allocates = types, .registers = types, .copies = types, .trusts_types = 1};
}

/* ---- types ---- */

/* Asks about each range, as the driver reports pieces that the program mapped one behind the other as separate
 * ranges. */
static ucs_memory_type_t cuda_type_of(const void *ptr, size_t length)
{
    const struct cuda_driver *cuda = cw_cuda_driver_get();
    const uintptr_t end            = (uintptr_t)ptr + length;
    uintptr_t next                 = (uintptr_t)ptr;
    ucs_memory_type_t type         = UCS_MEMORY_TYPE_UNKNOWN;
    struct cuda_range range;

    if (cuda == NULL || cw_memory_is_plain(ptr)) {
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

static ucs_status_t cuda_register(void *address, size_t length)
{
    return (cuda_type_of(address, length) == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_ERR_INVALID_ADDR : UCS_OK;
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

static ucs_status_t cuda_allocate(const struct cw_memory_wish *wish, struct cw_memory *memory)
{
    const struct cuda_driver *cuda = cw_cuda_driver_get();
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
        return cw_cuda_failed("memory cannot be allocated", result);
    }
    result = (wish->type == UCS_MEMORY_TYPE_CUDA_MANAGED) ? cuda->alloc_managed(&ptr, wish->length, CUDA_MANAGED_GLOBAL)
                                                          : cuda->alloc(&ptr, wish->length);
    cw_cuda_leave(cuda);
    if (result != CUDA_OK) {
        return cw_cuda_failed("memory cannot be allocated", result);
    }
    memory->ptr    = (char *)(uintptr_t)ptr;
    memory->length = wish->length;
    memory->page   = 1;
    status         = cw_cuda_clear(memory->ptr, memory->length);
    if (status != UCS_OK) {
        cw_md_cuda.release(memory);
        memory->ptr = NULL;
    }
    return status;
}

/* The program may have destroyed the context, and the memory with it. */
static void cuda_release(struct cw_memory *memory)
{
    const struct cuda_driver *cuda = cw_cuda_driver_get();
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
        (void)cw_cuda_failed("memory cannot be freed", result);
    }
}

const struct cw_md cw_md_cuda = {
    .name     = "cuda",
    .tls      = "cuda_copy",
    .query    = cuda_query,
    .allocate = cuda_allocate,
    .release  = cuda_release,
    .reg      = cuda_register,
    .type_of  = cuda_type_of,
    .copy     = cw_cuda_copy,
    .stage    = cw_cuda_stage,
    .unstage  = cw_cuda_unstage,
    .start    = cw_cuda_start,
    .poll     = cw_cuda_poll,
    .wait     = cw_cuda_wait,

    .peer_tls  = "cuda_ipc",
    .give_name = cw_cuda_give_name,
    .open      = cw_cuda_open,
    .shut      = cw_cuda_shut,
    .forget    = cw_cuda_forget,
};
