/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's own streams, two for each context. A program may destroy a context at any time, and its streams with
 * it, so each use first verifies that the context still exists; the library never uses the streams of a destroyed one.
 * Primary contexts are retained, once, to keep them alive.
 */
#include <stdbool.h>
#include <string.h>

#include "base/log.h"
#include "mem/cuda/cuda.h"
#include "os/lock.h"

#define MAX_CHANNELS 64 /* contexts in use at a time; a further one replaces the oldest */
#define MAX_DEVICES  64

static struct known {
    struct cw_lock lock;
    struct cuda_channel channels[MAX_CHANNELS];
    unsigned next;
    struct cuda_channel primary[MAX_DEVICES]; /* without streams */
} known_of[CUDA_KINDS];

/* A number that identifies the context. 0: the context is destroyed. Drivers before CUDA 12 only know whether a handle
 * is valid. */
static unsigned long long id_of(const struct cuda_driver *cuda, cuda_context context)
{
    unsigned long long id = 0;
    unsigned version;

    if (cuda->context_id != NULL) {
        return (cuda->context_id(context, &id) == CUDA_OK) ? id + 1 : 0;
    }
    return (cuda->context_version(context, &version) == CUDA_OK) ? 1 : 0;
}

static bool is_current_of(const struct cuda_driver *cuda, int device, cuda_context *context_p)
{
    int current = -1;

    return cuda->context_current(context_p) == CUDA_OK && *context_p != NULL &&
           cuda->context_device(&current) == CUDA_OK && current == device;
}

/* The lock is held. */
static int primary_of(const struct cuda_driver *cuda, int device, cuda_context *context_p)
{
    struct known *known = &known_of[cuda->kind->number];
    struct cuda_channel *primary;
    int result;

    if (device < 0 || device >= MAX_DEVICES) {
        return CUDA_INVALID_DEVICE;
    }
    primary = &known->primary[device];
    if (primary->context == NULL || id_of(cuda, primary->context) != primary->id) {
        result = cuda->primary_retain(&primary->context, device);
        if (result != CUDA_OK) {
            primary->context = NULL;
            return result;
        }
        primary->id = id_of(cuda, primary->context);
    }
    *context_p = primary->context;
    return CUDA_OK;
}

/* Destroying a context frees its allocations, and buffer ids are never reused; so a context with a known live buffer is
 * still the same one. */
static bool is_proved(const struct cuda_channel *channel, const struct cuda_range *range)
{
    return range->context != NULL && range->buffer_id != 0 &&
           channel->buffers[range->buffer_id % CUDA_BUFFERS] == range->buffer_id;
}

static void note(struct cuda_channel *channel, const struct cuda_range *range)
{
    if (range->context != NULL) {
        channel->buffers[range->buffer_id % CUDA_BUFFERS] = range->buffer_id;
    }
}

/* The lock is held. NULL: there is none. */
static struct cuda_channel *channel_of(const struct cuda_driver *cuda, cuda_context context,
                                       const struct cuda_range *range)
{
    struct known *known = &known_of[cuda->kind->number];
    struct cuda_channel *channel;

    for (channel = known->channels; channel < known->channels + MAX_CHANNELS; channel++) {
        if (channel->context == context) {
            if (is_proved(channel, range)) {
                return channel;
            }
            if (id_of(cuda, context) == channel->id) {
                note(channel, range);
                return channel;
            }
            channel->context = NULL;
        }
    }
    return NULL;
}

/* The lock is held, and the context is current. */
static int channel_new(const struct cuda_driver *cuda, cuda_context context, const struct cuda_range *range,
                       struct cuda_channel *channel)
{
    struct known *known = &known_of[cuda->kind->number];
    int result;

    *channel = (struct cuda_channel){.context = context};
    result = cuda->stream_create(&channel->streams[0], CUDA_STREAM_NON_BLOCKING);
    if (result == CUDA_OK) {
        result = cuda->stream_create(&channel->streams[1], CUDA_STREAM_NON_BLOCKING);
    }
    if (result == CUDA_OK) {
        channel->id = id_of(cuda, context);
        note(channel, range);
        known->channels[known->next++ % MAX_CHANNELS] = *channel;
    }
    return result;
}

int cw_cuda_enter(const struct cuda_driver *cuda, const struct cuda_range *range, struct cuda_channel *channel)
{
    struct known *known = &known_of[cuda->kind->number];
    cuda_context context = range->context;
    const struct cuda_channel *found;
    int result = CUDA_OK;

    cw_lock_enter(&known->lock);
    if (context == NULL && !is_current_of(cuda, range->device, &context)) {
        result = primary_of(cuda, range->device, &context);
    }
    if (result == CUDA_OK) {
        found = channel_of(cuda, context, range);
        result = cuda->context_push(context);
        if (result == CUDA_OK && found != NULL) {
            *channel = *found;
        } else if (result == CUDA_OK) {
            result = channel_new(cuda, context, range, channel);
            if (result != CUDA_OK) {
                cw_cuda_leave(cuda);
            }
        }
    }
    cw_lock_leave(&known->lock);
    return result;
}

int cw_cuda_enter_again(const struct cuda_driver *cuda, cuda_context context, unsigned long long id)
{
    return (id_of(cuda, context) == id) ? cuda->context_push(context) : CUDA_CONTEXT_DESTROYED;
}

void cw_cuda_leave(const struct cuda_driver *cuda)
{
    cuda_context context;

    (void)cuda->context_pop(&context);
}
