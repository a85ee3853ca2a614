/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies that are complete when the call returns. They run on a stream of the library that does not wait for the
 * program's work on the default stream; the program ensures that its data is ready before it sends, as always in UCP.
 */
#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_short.h"

/* The driver would treat freed memory as host memory, so one side must be GPU memory. */
static int find_side(const struct cuda_driver *cuda, const void *to, const void *from, struct cuda_range *range)
{
    cw_cuda_range_of(cuda, to, range);
    if (!cw_cuda_is_of_gpu(cuda, range)) {
        cw_cuda_range_of(cuda, from, range);
    }
    return cw_cuda_is_of_gpu(cuda, range);
}

static ucs_status_t finish(const struct cuda_driver *cuda, cuda_stream stream, const char *what, int result)
{
    if (result == CUDA_OK) {
        result = cuda->stream_synchronize(stream);
    }
    cw_cuda_leave(cuda);
    return (result == CUDA_OK) ? UCS_OK : cw_cuda_failed(cuda, what, result);
}

int cw_cuda_begin(const struct cuda_driver *cuda, const void *to, const void *from, struct cuda_channel *channel,
                  int *inwards_p)
{
    struct cuda_range range;

    if (!find_side(cuda, to, from, &range)) {
        return CUDA_INVALID_VALUE;
    }
    *inwards_p = (uintptr_t)to - range.start < range.size;
    return cw_cuda_enter(cuda, &range, channel);
}

ucs_status_t cw_cuda_copy(const struct cuda_driver *cuda, void *to, const void *from, size_t length)
{
    struct cuda_channel channel;
    cuda_stream stream;
    int result, inwards;

    result = cw_cuda_begin(cuda, to, from, &channel, &inwards);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "cannot start a copy", result);
    }
    stream = channel.streams[inwards];
    result = cuda->copy_async((uintptr_t)to, (uintptr_t)from, length, stream);
    return finish(cuda, stream, "copy failed", result);
}

/* Without 2D copies in the driver, short ranges are copied like long ones. */
static ucs_status_t copy_one_way(const struct cuda_driver *cuda, void *to, const void *from, size_t length, int inwards)
{
    const void *device = inwards ? to : from;
    struct cuda_channel channel;
    struct cuda_range range;
    cuda_stream stream;
    int result;

    cw_cuda_range_of(cuda, device, &range);
    result = cw_cuda_is_of_gpu(cuda, &range) ? cw_cuda_enter(cuda, &range, &channel) : CUDA_INVALID_VALUE;
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "cannot start a copy", result);
    }
    stream = channel.streams[inwards];
    if (length > CUDA_SHORT_MOST || cuda->copy_rows == NULL) {
        result = cuda->copy_async((uintptr_t)to, (uintptr_t)from, length, stream);
        return finish(cuda, stream, "copy failed", result);
    }
    result = inwards ? cw_cuda_short_in(cuda, stream, &range, to, from, length)
                     : cw_cuda_short_out(cuda, stream, to, from, length);
    cw_cuda_leave(cuda);
    return (result == CUDA_OK) ? UCS_OK : cw_cuda_failed(cuda, "copy failed", result);
}

ucs_status_t cw_cuda_copy_in(const struct cuda_driver *cuda, void *to, const void *from, size_t length)
{
    return copy_one_way(cuda, to, from, length, 1);
}

ucs_status_t cw_cuda_copy_out(const struct cuda_driver *cuda, void *to, const void *from, size_t length)
{
    return copy_one_way(cuda, to, from, length, 0);
}

ucs_status_t cw_cuda_clear(const struct cuda_driver *cuda, void *ptr, size_t length)
{
    struct cuda_channel channel;
    struct cuda_range range;
    int result;

    cw_cuda_range_of(cuda, ptr, &range);
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "cannot clear memory", result);
    }
    result = cuda->set_async((uintptr_t)ptr, 0, length, channel.streams[1]);
    return finish(cuda, channel.streams[1], "cannot clear memory", result);
}
