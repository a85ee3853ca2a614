/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver has two engines for a copy to a device. Bytes that fit a command (less than 32 KiB) go with the command to
 * the engine that also runs kernels. If several processes use a GPU, that engine is time-sliced between them, and each
 * such copy waits for its slice, which dominates its latency. The copy engine serves several processes at once; the
 * driver uses it for 2D copies. So a short range is copied as two rows, which are separate in the pinned buffer and
 * adjacent on the device. A word is not copied but written by the stream itself.
 *
 * The stream writes a flag to the pinned buffer after each copy. The CPU polls the flag, which arrives sooner than the
 * driver's completion.
 */
#include "mem/cuda/cuda_short.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "mem/cuda/cuda_staging.h"
#include "os/clock.h"

#define FLAG_SPACE   ((size_t)64) /* the flag precedes the bytes, in a cache line of its own */
#define ROW_SPACE    ((size_t)64) /* gap between the two rows, so that the driver does not merge them */
#define BUFFER       (FLAG_SPACE + CUDA_SHORT_MOST + 2 * ROW_SPACE)
#define POLL_NS      UINT64_C(30000) /* wait for a flag before querying the driver */
#define MOST_DROPS   16u
#define POLLS        64                 /* polls between two reads of the clock */
#define ENGINE_LEAST ((size_t)32 << 10) /* the copy engine copies pinned memory from this length on */

struct buffer {
    char *memory;   /* the flag, then bytes */
    int is_refused; /* the driver does not write the flag */
};

static int buffer_get(const struct cuda_driver *cuda, const void *device, struct buffer *buffer)
{
    *buffer = (struct buffer){.memory = cw_cuda_staging(cuda, device, BUFFER)};
    return buffer->memory != NULL;
}

/* A driver that refuses a flag may have lost the registration of the buffer, because the program destroyed its context.
 * Drops the buffer then, so that the next copy gets a new one; bounded, because any other cause would persist. */
static void buffer_give_back(const struct cuda_driver *cuda, const struct buffer *buffer)
{
    static unsigned drops;

    if (buffer->is_refused && __atomic_add_fetch(&drops, 1, __ATOMIC_RELAXED) <= MOST_DROPS) {
        cw_cuda_drop(cuda, buffer->memory);
    } else {
        cw_cuda_unstage(cuda, buffer->memory);
    }
}

static int comes(const uint32_t *flag)
{
    const uint64_t give_up_ns = cw_clock_ns() + POLL_NS;
    unsigned i;

    do {
        for (i = 0; i < POLLS; i++) {
            if (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0) {
                return 1;
            }
            cw_cpu_relax();
        }
    } while (cw_clock_ns() < give_up_ns);
    return 0;
}

/* Enqueues `first` (NULL: nothing) and the flag on the stream, and waits for all work on it. 0: the driver refuses, and
 * nothing is enqueued. Otherwise *result_p is the result of all work on the stream. */
static int wait_for_flag(const struct cuda_driver *cuda, cuda_stream stream, struct buffer *buffer,
                         const struct cuda_operation *first, int *result_p)
{
    struct cuda_operation operations[2];
    uint32_t *flag = (uint32_t *)(void *)buffer->memory;
    unsigned count = 0;

    if (cuda->operate == NULL) {
        return 0;
    }
    if (first != NULL) {
        operations[count++] = *first;
    }
    operations[count++] = (struct cuda_operation){.kind = CUDA_WRITE_32, .address = (uintptr_t)flag, .value = 1};
    __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
    if (cuda->operate(stream, count, operations, 0) != CUDA_OK) {
        buffer->is_refused = 1;
        return 0;
    }
    *result_p = comes(flag) ? CUDA_OK : cuda->stream_synchronize(stream);
    return 1;
}

static int await(const struct cuda_driver *cuda, cuda_stream stream, struct buffer *buffer)
{
    int result;

    return wait_for_flag(cuda, stream, buffer, NULL, &result) ? result : cuda->stream_synchronize(stream);
}

/* Whether the stream can write the range as one word. */
static bool is_word(const struct cuda_driver *cuda, const struct cuda_range *range, const void *to, size_t length)
{
    return (length == 4 || length == 8) && (uintptr_t)to % length == 0 && range->type == cuda->kind->device;
}

/* 0: the driver refuses. */
static int write_word(const struct cuda_driver *cuda, cuda_stream stream, struct buffer *buffer, void *to,
                      const void *from, size_t length, int *result_p)
{
    struct cuda_operation word = {.kind = (length == 8) ? CUDA_WRITE_64 : CUDA_WRITE_32, .address = (uintptr_t)to};
    uint32_t half;

    if (length == 8) {
        memcpy(&word.value, from, 8);
    } else {
        memcpy(&half, from, 4);
        word.value = half;
    }
    return wait_for_flag(cuda, stream, buffer, &word, result_p);
}

/* Enqueues a copy of an even number of bytes on the stream. `rows` must stay valid until it ends. */
static int put_rows(const struct cuda_driver *cuda, cuda_stream stream, char *rows, void *to, const char *from,
                    size_t length)
{
    const size_t width = length / 2, pitch = width + ROW_SPACE;
    const struct cuda_rows copy = {
        .from = {.type = CUDA_MEMORY_HOST, .host = rows, .pitch = pitch},
        .to = {.type = CUDA_MEMORY_DEVICE, .device = (uintptr_t)to, .pitch = width},
        .width = width,
        .height = 2,
    };

    cw_bytes_copy_any(rows, from, width);
    cw_bytes_copy_any(rows + pitch, from + width, width);
    return cuda->copy_rows(&copy, stream);
}

/* An odd number of bytes needs a second copy for the last two, of which one is copied twice. A single byte cannot form
 * two rows. */
static int put(const struct cuda_driver *cuda, cuda_stream stream, char *rows, void *to, const char *from,
               size_t length)
{
    int result;

    if (length >= ENGINE_LEAST || length == 1) {
        cw_bytes_copy_any(rows, from, length);
        return cuda->copy_async((uintptr_t)to, (uintptr_t)rows, length, stream);
    }
    result = put_rows(cuda, stream, rows, to, from, length & ~(size_t)1);
    if (result == CUDA_OK && length % 2 != 0) {
        result = put_rows(cuda, stream, rows + ENGINE_LEAST + ROW_SPACE, (char *)to + length - 2, from + length - 2, 2);
    }
    return result;
}

int cw_cuda_short_in(const struct cuda_driver *cuda, cuda_stream stream, const struct cuda_range *range, void *to,
                     const void *from, size_t length)
{
    struct buffer buffer;
    int result;

    if (!buffer_get(cuda, to, &buffer)) {
        return CUDA_NO_MEMORY;
    }
    if (!is_word(cuda, range, to, length) || !write_word(cuda, stream, &buffer, to, from, length, &result)) {
        result = put(cuda, stream, buffer.memory + FLAG_SPACE, to, from, length);
        if (result == CUDA_OK) {
            result = await(cuda, stream, &buffer);
        } else {
            (void)cuda->stream_synchronize(stream); /* the first of two copies may be in flight */
        }
    }
    buffer_give_back(cuda, &buffer);
    return result;
}

int cw_cuda_short_out(const struct cuda_driver *cuda, cuda_stream stream, void *to, const void *from, size_t length)
{
    struct buffer buffer;
    int result;

    if (!buffer_get(cuda, from, &buffer)) {
        return CUDA_NO_MEMORY;
    }
    result = cuda->copy_async((uintptr_t)buffer.memory + FLAG_SPACE, (uintptr_t)from, length, stream);
    if (result == CUDA_OK) {
        result = await(cuda, stream, &buffer);
    }
    if (result == CUDA_OK) {
        cw_bytes_copy_any(to, buffer.memory + FLAG_SPACE, length);
    }
    buffer_give_back(cuda, &buffer);
    return result;
}
