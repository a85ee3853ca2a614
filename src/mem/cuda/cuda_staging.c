/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous copies, and host buffers for them. The driver copies pinned memory asynchronously, and other memory
 * within the call. The library allocates the pinned memory and only registers it with the driver, so that the memory
 * survives when a program destroys the context of the registration. Buffers are cached, up to a bound.
 */
#include "base/list.h"
#include "base/log.h"
#include "mem/cuda/cuda_staging.h"
#include "mem/cuda/cuda.h"
#include "os/lock.h"

#include <stdlib.h>

#define MOST_RETAINED ((size_t)64 << 20)

struct buffer {
    struct cw_list link;
    struct cw_memory memory;
    size_t length;
    int in_use;
};

static struct pool {
    struct cw_lock lock;
    struct cw_list all;
    size_t retained; /* bytes of the buffers that are not in use */
} pools[CUDA_KINDS];

/* ---- memory ---- */

/* Returns a CUresult. Logs a failure once. */
static int pin(const struct cuda_driver *cuda, const void *device, const struct cw_memory *memory)
{
    static int logged;
    struct cuda_channel channel;
    struct cuda_range range;
    int result;

    cw_cuda_range_of(cuda, device, &range);
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result == CUDA_OK) {
        result = cuda->host_register(memory->ptr, memory->length, CUDA_HOST_PORTABLE);
        cw_cuda_leave(cuda);
    }
    if (result != CUDA_OK && !__atomic_exchange_n(&logged, 1, __ATOMIC_RELAXED)) {
        cw_warn(
            "cannot pin bounce buffers for GPU transfers (%s): they wait for each copy, and are slower; raise the "
            "limit of locked memory (ulimit -l)",
            cw_cuda_driver_error(cuda, result));
    }
    return result;
}

static struct buffer *buffer_new(const struct cuda_driver *cuda, struct pool *pool, const void *device, size_t length)
{
    const struct cw_memory_spec spec = {.length = length, .huge = CW_MEMORY_SMALL};
    struct buffer *buffer = calloc(1, sizeof(*buffer));

    if (buffer == NULL || cw_memory_allocate(&spec, &buffer->memory) != UCS_OK) {
        free(buffer);
        return NULL;
    }
    buffer->length = length;
    (void)pin(cuda, device, &buffer->memory); /* an unpinned buffer still works */
    cw_list_add_tail(&pool->all, &buffer->link);
    return buffer;
}

/* Ignores failure: the registration may have ended with its context. */
static void buffer_free(const struct cuda_driver *cuda, struct buffer *buffer)
{
    (void)cuda->host_unregister(buffer->memory.ptr);
    cw_list_remove(&buffer->link);
    cw_memory_release(&buffer->memory);
    free(buffer);
}

void *cw_cuda_staging(const struct cuda_driver *cuda, const void *device, size_t length)
{
    struct pool *pool = &pools[cuda->kind->number];
    struct buffer *buffer, *found = NULL;

    cw_lock_enter(&pool->lock);
    if (pool->all.next == NULL) {
        cw_list_init(&pool->all);
    }
    cw_list_for_each(buffer, &pool->all, struct buffer, link)
    {
        if (!buffer->in_use && buffer->length == length) {
            found = buffer;
            pool->retained -= length;
            break;
        }
    }
    if (found == NULL) {
        found = buffer_new(cuda, pool, device, length);
    }
    if (found != NULL) {
        found->in_use = 1;
    }
    cw_lock_leave(&pool->lock);
    return (found == NULL) ? NULL : found->memory.ptr;
}

static void give_back(const struct cuda_driver *cuda, void *memory, size_t most_retained)
{
    struct pool *pool = &pools[cuda->kind->number];
    struct buffer *buffer;

    cw_lock_enter(&pool->lock);
    cw_list_for_each(buffer, &pool->all, struct buffer, link)
    {
        if (buffer->memory.ptr == memory) {
            buffer->in_use = 0;
            pool->retained += buffer->length;
            if (pool->retained > most_retained) {
                pool->retained -= buffer->length;
                buffer_free(cuda, buffer);
            }
            break;
        }
    }
    cw_lock_leave(&pool->lock);
}

void cw_cuda_unstage(const struct cuda_driver *cuda, void *memory)
{
    give_back(cuda, memory, MOST_RETAINED);
}

void cw_cuda_drop(const struct cuda_driver *cuda, void *memory)
{
    give_back(cuda, memory, 0);
}

/* ---- memory for two processes ---- */

/* The registration may have ended with its context. */
void cw_cuda_unshare(const struct cuda_driver *cuda, struct cw_memory *memory)
{
    (void)cuda->host_unregister(memory->ptr);
    cw_memory_release(memory);
}

static ucs_status_t pin_shared(const struct cuda_driver *cuda, const void *device, struct cw_memory *memory)
{
    if (pin(cuda, device, memory) != CUDA_OK) {
        cw_memory_release(memory);
        return UCS_ERR_UNREACHABLE;
    }
    return UCS_OK;
}

ucs_status_t cw_cuda_share(const struct cuda_driver *cuda, const void *device, size_t length, struct cw_memory *memory)
{
    const struct cw_memory_spec spec = {.length = length, .shareable = 1, .huge = CW_MEMORY_SMALL};

    return (cw_memory_allocate(&spec, memory) != UCS_OK) ? UCS_ERR_NO_MEMORY : pin_shared(cuda, device, memory);
}

/* The mapping is writable, because most devices cannot pin a read-only one; nothing here writes to it. */
ucs_status_t cw_cuda_map_shared(const struct cuda_driver *cuda, const void *device, int fd, size_t length,
                                struct cw_memory *memory)
{
    return (cw_memory_open_fd(fd, length, memory) != UCS_OK) ? UCS_ERR_UNREACHABLE : pin_shared(cuda, device, memory);
}

/* ---- copies ---- */

ucs_status_t cw_cuda_start(const struct cuda_driver *cuda, void *to, const void *from, size_t length,
                           struct cw_md_copy *copy)
{
    struct cuda_channel channel;
    cuda_event event = NULL;
    cuda_stream stream;
    int result, inwards;

    result = cw_cuda_begin(cuda, to, from, &channel, &inwards);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "cannot start a copy", result);
    }
    stream = channel.streams[inwards];
    result = cuda->copy_async((uintptr_t)to, (uintptr_t)from, length, stream);
    if (result == CUDA_OK && (cuda->event_create(&event, CUDA_EVENT_DISABLE_TIMING) != CUDA_OK ||
                              cuda->event_record(event, stream) != CUDA_OK)) {
        result = cuda->stream_synchronize(stream); /* the copy is complete now */
        if (event != NULL) {
            (void)cuda->event_destroy(event);
            event = NULL;
        }
    }
    cw_cuda_leave(cuda);
    *copy = (struct cw_md_copy){.handle = event, .context = channel.context, .id = channel.id};
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "copy failed", result);
    }
    return (event == NULL) ? UCS_OK : UCS_INPROGRESS;
}

/* Destroying a context destroys all its objects, this event included. */
static ucs_status_t poll_copy(const struct cuda_driver *cuda, struct cw_md_copy *copy, int waits)
{
    cuda_event event = copy->handle;
    int result = cw_cuda_enter_again(cuda, copy->context, copy->id);

    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "the context of a copy was destroyed", result);
    }
    result = waits ? cuda->event_synchronize(event) : cuda->event_query(event);
    if (result != CUDA_NOT_READY) {
        (void)cuda->event_destroy(event);
    }
    cw_cuda_leave(cuda);
    if (result == CUDA_OK) {
        return UCS_OK;
    }
    return (result == CUDA_NOT_READY) ? UCS_INPROGRESS : cw_cuda_failed(cuda, "copy failed", result);
}

ucs_status_t cw_cuda_poll(const struct cuda_driver *cuda, struct cw_md_copy *copy)
{
    return poll_copy(cuda, copy, 0);
}

ucs_status_t cw_cuda_wait(const struct cuda_driver *cuda, struct cw_md_copy *copy)
{
    return poll_copy(cuda, copy, 1);
}
