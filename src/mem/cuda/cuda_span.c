/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports GPU memory as dma-bufs. The driver exports whole host pages, so a descriptor may cover slightly more than the
 * allocation; the fabric device registers only the requested bytes. An address range into which the program mapped
 * several pieces has one descriptor, too.
 */
#include "mem/cuda/cuda_span.h"

#include "base/hash.h"
#include "base/log.h"
#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_pieces.h"
#include "os/memory.h"
#include "os/unix_socket.h"

/* The pieces that contain these bytes; their numbers combined are that of the span. */
static int span_of_pieces(const struct cuda_driver *cuda, uintptr_t ptr, size_t length, struct cw_md_span *span)
{
    struct cuda_range range;
    uintptr_t next = ptr;

    *span = (struct cw_md_span){.number = 0};
    while (next - ptr < length) {
        if (!cw_cuda_mapping_at(cuda, next, &range) || range.buffer_id == 0 || (next != ptr && range.start != next)) {
            return 0;
        }
        span->start = (next == ptr) ? range.start : span->start;
        span->number = cw_hash_mix(span->number ^ range.buffer_id);
        next = range.start + range.size;
    }
    span->length = next - span->start;
    return length > 0;
}

int cw_cuda_find_span(const struct cuda_driver *cuda, const void *ptr, size_t length, struct cw_md_span *span)
{
    struct cuda_range range;

    cw_cuda_range_of(cuda, ptr, &range);
    if (range.type != cuda->kind->device || range.buffer_id == 0) {
        return 0; /* managed memory migrates between host and device */
    }
    if ((uintptr_t)ptr - range.start < range.size && length <= range.size - ((uintptr_t)ptr - range.start)) {
        *span = (struct cw_md_span){.number = range.buffer_id, .start = range.start, .length = range.size};
        return 1;
    }
    return span_of_pieces(cuda, (uintptr_t)ptr, length, span);
}

/* "Synchronous" copies within a device may still be running on return; the attribute makes the driver wait, for memory
 * that another device reads. Without the function the program has to synchronize itself. */
static void settle(const struct cuda_driver *cuda, uintptr_t ptr)
{
    const unsigned on = 1;

    if (cuda->pointer_set != NULL) {
        (void)cuda->pointer_set(&on, CUDA_POINTER_SYNC_MEMOPS, ptr);
    }
}

ucs_status_t cw_cuda_export_span(const struct cuda_driver *cuda, const struct cw_md_span *span,
                                 struct cw_md_dmabuf *dmabuf, const char **why_p)
{
    const uint64_t page = cw_memory_page();
    const uint64_t begin = span->start / page * page;
    const uint64_t end = (span->start + span->length + page - 1) / page * page;
    struct cuda_channel channel;
    struct cuda_range range;
    int result;

    *why_p = cuda->kind->dmabuf;
    if (cuda->range_export == NULL) {
        return UCS_ERR_UNSUPPORTED;
    }
    cw_cuda_range_of(cuda, (const void *)(uintptr_t)span->start, &range);
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result == CUDA_OK) {
        result = cuda->range_export(&dmabuf->fd, begin, end - begin, CUDA_RANGE_DMABUF, 0);
        if (result == CUDA_OK) {
            settle(cuda, span->start);
        }
        cw_cuda_leave(cuda);
    }
    if (result != CUDA_OK) {
        cw_debug("cannot export %llu bytes at 0x%llx as dma-buf: the %s driver reports %s "
                 "(%d)", (unsigned long long)span->length,
                 (unsigned long long)span->start, cuda->kind->name, cw_cuda_driver_error(cuda, result), result);
        return UCS_ERR_UNSUPPORTED;
    }
    cw_fd_hide(dmabuf->fd);
    dmabuf->offset = span->start - begin;
    return UCS_OK;
}
