/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in's streams. Work is carried out by one thread at the time that was set when it was put there, in the
 * order of the stream. A copy from or to memory that is not pinned is over when the call returns, as the driver's
 * manual says, once all that is before it on the stream is over.
 */
#include "standin_internal.h"

#include <stdlib.h>
#include <string.h>

struct work {
    struct work *next;
    uintptr_t to, from;
    size_t length;
    int fill;       /* -1: a copy; -2: a word is written, */
    uint64_t value; /* which is this */
    struct timespec at;
};

#define LEAST_NS 5000

static pthread_t thread;
static int thread_runs;

void standin_delay(unsigned ns, unsigned ns_per_mib)
{
    pthread_mutex_lock(&standin.mutex);
    standin.delay_ns = ns;
    standin.delay_ns_per_mib = ns_per_mib;
    pthread_mutex_unlock(&standin.mutex);
}

static int is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static void add_ns(struct timespec *time, uint64_t ns)
{
    ns += (uint64_t)time->tv_nsec;
    time->tv_sec += (time_t)(ns / 1000000000);
    time->tv_nsec = (long)(ns % 1000000000);
}

unsigned standin_streams(void)
{
    const struct cuda_stream *stream;
    unsigned count = 0;

    pthread_mutex_lock(&standin.mutex);
    for (stream = standin.streams; stream != NULL; stream = stream->next) {
        count += !stream->is_destroyed;
    }
    pthread_mutex_unlock(&standin.mutex);
    return count;
}

/* A processor that waits for the word sees all that was written before it. */
static void write_word(char *to, uint64_t value, size_t length)
{
    if (length == 8) {
        __atomic_store_n((uint64_t *)(void *)to, value, __ATOMIC_RELEASE);
    } else {
        __atomic_store_n((uint32_t *)(void *)to, (uint32_t)value, __ATOMIC_RELEASE);
    }
}

static void carry_out(const struct work *work)
{
    struct range *range;

    if (work->fill == -1) {
        standin_move(work->to, work->from, work->length);
        return;
    }
    range = standin_find(work->to);
    if (work->fill == -2) {
        write_word(range->bytes + (work->to - (uintptr_t)range->addresses), work->value, work->length);
        return;
    }
    memset(range->bytes + (work->to - (uintptr_t)range->addresses), work->fill, work->length);
}

/* The work that comes first of all streams. */
static cuda_stream next_stream(void)
{
    cuda_stream stream, best = NULL;

    for (stream = standin.streams; stream != NULL; stream = stream->next) {
        if (stream->first != NULL && (best == NULL || is_before(&stream->first->at, &best->first->at))) {
            best = stream;
        }
    }
    return best;
}

static void *run(void *arg)
{
    struct timespec now;
    struct work *work;
    cuda_stream stream;

    (void)arg;
    pthread_mutex_lock(&standin.mutex);
    for (;;) {
        stream = next_stream();
        clock_gettime(CLOCK_REALTIME, &now);
        if (stream == NULL) {
            pthread_cond_wait(&standin.changed, &standin.mutex);
        } else if (is_before(&now, &stream->first->at)) {
            const struct timespec at = stream->first->at;

            pthread_cond_timedwait(&standin.changed, &standin.mutex, &at);
        } else {
            work = stream->first;
            stream->first = work->next;
            carry_out(work);
            free(work);
            stream->done++;
            pthread_cond_broadcast(&standin.changed);
        }
    }
    return NULL;
}

static void check_stream(cuda_stream stream)
{
    const struct cuda_stream *other;

    for (other = standin.streams; other != NULL && other != stream; other = other->next) {
    }
    if (other == NULL || other->is_destroyed) {
        standin_die("a stream is used that is gone, or never was");
    }
    if (standin_current() != stream->context) {
        standin_die("a stream is used while its context is not current");
    }
}

/* Work that takes no time, on a stream that has nothing to do, is over at once. */
static void put(cuda_stream stream, const struct work *order)
{
    const uint64_t ns =
        (order->fill == -2) ? 0 : standin.delay_ns + ((uint64_t)order->length * standin.delay_ns_per_mib >> 20);
    struct work *work = malloc(sizeof(*work));
    struct timespec now;

    if (work == NULL || (!thread_runs && pthread_create(&thread, NULL, run, NULL) != 0)) {
        standin_die("there is no memory");
    }
    thread_runs = 1;
    if (stream->first == NULL && ns < LEAST_NS) {
        carry_out(order);
        stream->put++;
        stream->done++;
        free(work);
        return;
    }
    *work = *order;
    clock_gettime(CLOCK_REALTIME, &now);
    work->at = (stream->first != NULL && is_before(&now, &stream->last->at)) ? stream->last->at : now;
    add_ns(&work->at, ns);
    work->next = NULL;
    if (stream->first == NULL) {
        stream->first = work;
    } else {
        stream->last->next = work;
    }
    stream->last = work;
    stream->put++;
    pthread_cond_broadcast(&standin.changed);
}

void standin_drain(cuda_stream stream)
{
    cuda_stream other;

    for (other = standin.streams; other != NULL; other = other->next) {
        while ((stream == NULL || stream == other) && other->first != NULL) {
            pthread_cond_wait(&standin.changed, &standin.mutex);
        }
    }
}

static void drop(cuda_stream stream)
{
    struct work *work;

    while ((work = stream->first) != NULL) {
        stream->first = work->next;
        free(work);
    }
    stream->is_destroyed = 1;
}

void standin_drop_streams(cuda_context context)
{
    cuda_stream stream;

    for (stream = standin.streams; stream != NULL; stream = stream->next) {
        if (stream->context == context) {
            drop(stream);
        }
    }
    pthread_cond_broadcast(&standin.changed);
}

int cuStreamCreate(cuda_stream *stream, unsigned flags)
{
    (void)flags;
    ENTER();
    if (standin_current() == NULL) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    *stream = calloc(1, sizeof(**stream));
    if (*stream == NULL) {
        standin_die("there is no memory");
    }
    (*stream)->next = standin.streams;
    (*stream)->context = standin_current();
    standin.streams = *stream;
    return standin_leave(CUDA_OK);
}

/* What was put there is still carried out. */
int cuStreamDestroy_v2(cuda_stream stream)
{
    ENTER();
    check_stream(stream);
    standin_drain(stream);
    stream->is_destroyed = 1;
    return standin_leave(CUDA_OK);
}

int cuStreamSynchronize(cuda_stream stream)
{
    ENTER();
    check_stream(stream);
    standin_drain(stream);
    return standin_leave(CUDA_OK);
}

int cuCtxSynchronize(void)
{
    ENTER();
    standin_drain(NULL);
    return standin_leave((standin_current() == NULL) ? CUDA_INVALID_CONTEXT : CUDA_OK);
}

static int is_pageable(uintptr_t address)
{
    return standin_find(address) == NULL;
}

/* All of it is memory of the driver, or none. */
static int is_whole(uintptr_t address, size_t length)
{
    const struct range *range = standin_find(address);
    const uintptr_t end = address + length;

    while (range != NULL && (uintptr_t)range->addresses + range->length < end) {
        range = standin_find((uintptr_t)range->addresses + range->length);
        if (range == NULL) {
            return 0;
        }
    }
    return 1;
}

int cuMemcpyAsync(cuda_ptr to, cuda_ptr from, size_t length, cuda_stream stream)
{
    const struct work work = {.to = to, .from = from, .length = length, .fill = -1};

    ENTER();
    check_stream(stream);
    if (!is_whole(to, length) || !is_whole(from, length)) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    if (is_pageable(to) || is_pageable(from)) {
        standin_drain(stream);
        carry_out(&work);
    } else {
        put(stream, &work);
    }
    return standin_leave(CUDA_OK);
}

/* Rows of memory of the host that lie apart, to a device where they follow each other; the library asks for nothing
 * else. */
int cuMemcpy2DAsync_v2(const struct cuda_rows *rows, cuda_stream stream)
{
    struct work work = {.length = rows->width, .fill = -1};
    size_t row;

    ENTER();
    check_stream(stream);
    if (rows->from.type != CUDA_MEMORY_HOST || rows->to.type != CUDA_MEMORY_DEVICE || rows->from.pitch < rows->width ||
        rows->to.pitch < rows->width || !is_whole(rows->to.device, rows->to.pitch * (rows->height - 1) + rows->width)) {
        return standin_leave(CUDA_INVALID_VALUE);
    }
    for (row = 0; row < rows->height; row++) {
        work.from = (uintptr_t)rows->from.host + row * rows->from.pitch;
        work.to = rows->to.device + row * rows->to.pitch;
        if (is_pageable(work.from)) {
            standin_drain(stream);
            carry_out(&work);
        } else {
            put(stream, &work);
        }
    }
    return standin_leave(CUDA_OK);
}

static int is_operation(const struct cuda_operation *operation)
{
    const size_t length = (operation->kind == CUDA_WRITE_64) ? 8 : 4;

    return (operation->kind == CUDA_WRITE_64 || operation->kind == CUDA_WRITE_32) && operation->address % length == 0 &&
           standin_find(operation->address) != NULL && is_whole(operation->address, length);
}

int cuStreamBatchMemOp_v2(cuda_stream stream, unsigned count, struct cuda_operation *operations, unsigned flags)
{
    struct work work = {.fill = -2};
    unsigned i;

    (void)flags;
    ENTER();
    check_stream(stream);
    for (i = 0; i < count; i++) {
        if (!is_operation(&operations[i])) {
            return standin_leave(CUDA_INVALID_VALUE);
        }
    }
    for (i = 0; i < count; i++) {
        work.to = operations[i].address;
        work.length = (operations[i].kind == CUDA_WRITE_64) ? 8 : 4;
        work.value = operations[i].value;
        put(stream, &work);
    }
    return standin_leave(CUDA_OK);
}

int cuMemcpy(cuda_ptr to, cuda_ptr from, size_t length)
{
    ENTER();
    if (standin_current() == NULL) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    standin_drain(NULL);
    standin_move(to, from, length);
    return standin_leave(CUDA_OK);
}

int cuMemsetD8Async(cuda_ptr to, unsigned char byte, size_t length, cuda_stream stream)
{
    const struct work work = {.to = to, .length = length, .fill = byte};

    ENTER();
    check_stream(stream);
    put(stream, &work);
    return standin_leave(CUDA_OK);
}

/* ---- events ---- */

struct cuda_event {
    struct cuda_event *next;
    cuda_context context;
    cuda_stream stream;    /* NULL: never recorded */
    unsigned long long at; /* over once the stream did that much */
    int is_destroyed;
};

static cuda_event events;

/* Handles are never given out again, so that a stale one is known. */
static void check_event(cuda_event event)
{
    const struct cuda_event *other;

    for (other = events; other != NULL && other != event; other = other->next) {
    }
    if (other == NULL || other->is_destroyed) {
        standin_die("an event is used that is gone, or never was");
    }
    if (other->context->is_destroyed || (other->stream != NULL && other->stream->is_destroyed)) {
        standin_die("an event is used whose context is gone");
    }
}

unsigned standin_events(void)
{
    const struct cuda_event *event;
    unsigned count = 0;

    pthread_mutex_lock(&standin.mutex);
    for (event = events; event != NULL; event = event->next) {
        count += !event->is_destroyed && (event->stream == NULL || !event->stream->is_destroyed);
    }
    pthread_mutex_unlock(&standin.mutex);
    return count;
}

int cuEventCreate(cuda_event *event, unsigned flags)
{
    (void)flags;
    ENTER();
    if (standin_current() == NULL) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    *event = calloc(1, sizeof(**event));
    if (*event == NULL) {
        standin_die("there is no memory");
    }
    (*event)->next = events;
    (*event)->context = standin_current();
    events = *event;
    return standin_leave(CUDA_OK);
}

int cuEventRecord(cuda_event event, cuda_stream stream)
{
    ENTER();
    check_event(event);
    check_stream(stream);
    event->stream = stream;
    event->at = stream->put;
    return standin_leave(CUDA_OK);
}

static int is_over(const struct cuda_event *event)
{
    return event->stream == NULL || event->stream->done >= event->at;
}

int cuEventQuery(cuda_event event)
{
    ENTER();
    check_event(event);
    return standin_leave(is_over(event) ? CUDA_OK : CUDA_NOT_READY);
}

int cuEventSynchronize(cuda_event event)
{
    ENTER();
    check_event(event);
    while (!is_over(event)) {
        pthread_cond_wait(&standin.changed, &standin.mutex);
    }
    return standin_leave(CUDA_OK);
}

int cuEventDestroy_v2(cuda_event event)
{
    ENTER();
    check_event(event);
    event->is_destroyed = 1;
    return standin_leave(CUDA_OK);
}
