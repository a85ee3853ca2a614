/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in's devices, contexts and memory. Streams: standin_stream.c. Mapped allocations: standin_map.c.
 */
#include "standin_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_DEPTH 16  /* contexts on the stack of a thread */
#define MAX_CALLS 128 /* functions that are counted */

struct standin standin = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct {
    const char *symbol;
    unsigned calls;
} counts[MAX_CALLS];
static struct {
    const char *symbol;
    unsigned after;
    int result;
} failing;
static struct {
    cuda_context context;
    unsigned references;
} primary[STANDIN_DEVICES];
static struct {
    char *addresses;
    size_t length;
    int wanted;
} freed;
static pid_t owner; /* 0: not initialized */
static __thread cuda_context stack[MAX_DEPTH];
static __thread unsigned depth;

void standin_die(const char *sentence)
{
    fprintf(stderr, "stand-in of the CUDA driver: %s\n", sentence);
    abort();
}

/* ---- calls ---- */

static unsigned *count_of(const char *symbol)
{
    unsigned i;

    for (i = 0; i < MAX_CALLS; i++) {
        if (counts[i].symbol == NULL || strcmp(counts[i].symbol, symbol) == 0) {
            counts[i].symbol = symbol;
            return &counts[i].calls;
        }
    }
    standin_die("it counts too few functions");
}

/* Functions that put something on a stream which moves bytes to or from a device. */
static int is_copy(const char *symbol)
{
    return strcmp(symbol, "cuMemcpyAsync") == 0 || strcmp(symbol, "cuMemcpy2DAsync_v2") == 0 ||
           strcmp(symbol, "cuStreamBatchMemOp_v2") == 0;
}

int standin_enter(const char *symbol)
{
    int result = CUDA_OK;

    if (owner != 0 && owner != getpid()) {
        return CUDA_NOT_INITIALIZED; /* a forked child, where somebody may seem to have the mutex */
    }
    pthread_mutex_lock(&standin.mutex);
    ++*count_of(symbol);
    if (owner == 0 && strcmp(symbol, "cuInit") != 0) {
        result = CUDA_NOT_INITIALIZED;
    } else if (failing.symbol != NULL && (strcmp(failing.symbol, symbol) == 0 ||
                                          (strcmp(failing.symbol, STANDIN_COPIES) == 0 && is_copy(symbol)))) {
        result = (failing.after > 0) ? CUDA_OK : failing.result;
        failing.after -= (failing.after > 0);
    }
    if (result != CUDA_OK) {
        pthread_mutex_unlock(&standin.mutex);
    }
    return result;
}

int standin_leave(int result)
{
    pthread_mutex_unlock(&standin.mutex);
    return result;
}

void standin_fail(const char *symbol, unsigned after, int result)
{
    pthread_mutex_lock(&standin.mutex);
    failing.symbol = symbol;
    failing.after = after;
    failing.result = result;
    pthread_mutex_unlock(&standin.mutex);
}

unsigned standin_calls(const char *symbol)
{
    unsigned calls;

    pthread_mutex_lock(&standin.mutex);
    calls = *count_of(symbol);
    pthread_mutex_unlock(&standin.mutex);
    return calls;
}

unsigned standin_all_calls(void)
{
    unsigned calls = 0, i;

    pthread_mutex_lock(&standin.mutex);
    for (i = 0; i < MAX_CALLS; i++) {
        calls += counts[i].calls;
    }
    pthread_mutex_unlock(&standin.mutex);
    return calls;
}

unsigned standin_allocations(void)
{
    const struct range *range;
    unsigned count = 0;

    for (range = standin.ranges; range != NULL; range = range->next) {
        count += range->kind != REGISTERED && range->kind != OPENED;
    }
    return count;
}

void standin_narrow(size_t bytes)
{
    standin.narrow = bytes;
}

void standin_reuse_addresses(void)
{
    freed.wanted = 1;
}

/* ---- devices and contexts ---- */

int cuInit(unsigned flags)
{
    ENTER();
    owner = getpid();
    return standin_leave((flags == 0) ? CUDA_OK : CUDA_INVALID_VALUE);
}

int cuGetErrorName(int result, const char **name)
{
    static const struct {
        int result;
        const char *name;
    } names[] = {{CUDA_OK, "CUDA_SUCCESS"},
                 {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
                 {CUDA_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
                 {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
                 {CUDA_CONTEXT_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"}};
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].result == result) {
            *name = names[i].name;
            return CUDA_OK;
        }
    }
    *name = NULL;
    return CUDA_INVALID_VALUE;
}

int cuDeviceGetCount(int *count)
{
    const char *devices = getenv("CW_STANDIN_DEVICES");

    ENTER();
    *count = (devices != NULL) ? atoi(devices) : STANDIN_DEVICES;
    return standin_leave(CUDA_OK);
}

int cuDeviceGetName(char *name, int length, int device)
{
    ENTER();
    snprintf(name, (size_t)length, "stand-in %d", device);
    return standin_leave((device >= 0 && device < STANDIN_DEVICES) ? CUDA_OK : CUDA_INVALID_DEVICE);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    ENTER();
    *bytes = (size_t)1 << 30;
    return standin_leave((device >= 0 && device < STANDIN_DEVICES) ? CUDA_OK : CUDA_INVALID_DEVICE);
}

static cuda_context context_new(int device, int is_primary)
{
    cuda_context context = calloc(1, sizeof(*context));

    if (context == NULL) {
        standin_die("there is no memory");
    }
    *context = (struct cuda_context){.next = standin.contexts, .device = device, .is_primary = is_primary};
    context->id = ++standin.last_id;
    standin.contexts = context;
    return context;
}

/* Handles of contexts are never given out again, so that a stale one is known. */
static int context_check(cuda_context context)
{
    const struct cuda_context *other;

    for (other = standin.contexts; other != NULL && other != context; other = other->next) {
    }
    if (other == NULL) {
        return CUDA_INVALID_CONTEXT;
    }
    return other->is_destroyed ? CUDA_CONTEXT_DESTROYED : CUDA_OK;
}

static void context_end(cuda_context context)
{
    struct range *range, *next;

    standin_drop_streams(context);
    for (range = standin.ranges; range != NULL; range = next) {
        next = range->next;
        if (range->context == context) {
            standin_remove(range);
        }
    }
}

cuda_context standin_current(void)
{
    return (depth > 0) ? stack[depth - 1] : NULL;
}

int cuCtxCreate_v2(cuda_context *context, unsigned flags, int device)
{
    (void)flags;
    ENTER();
    if (device < 0 || device >= STANDIN_DEVICES || depth == MAX_DEPTH) {
        return standin_leave(CUDA_INVALID_DEVICE);
    }
    *context = context_new(device, 0);
    stack[depth++] = *context;
    return standin_leave(CUDA_OK);
}

int cuCtxDestroy_v2(cuda_context context)
{
    int result;

    ENTER();
    result = context_check(context);
    if (result == CUDA_OK && context->is_primary) {
        result = CUDA_INVALID_CONTEXT;
    }
    if (result == CUDA_OK) {
        context_end(context);
        context->is_destroyed = 1;
        depth -= (standin_current() == context);
    }
    return standin_leave(result);
}

int cuCtxGetCurrent(cuda_context *context)
{
    ENTER();
    *context = standin_current();
    return standin_leave(CUDA_OK);
}

int cuCtxSetCurrent(cuda_context context)
{
    ENTER();
    depth -= (depth > 0);
    if (context != NULL) {
        stack[depth++] = context;
    }
    return standin_leave(CUDA_OK);
}

int cuCtxPushCurrent_v2(cuda_context context)
{
    int result;

    ENTER();
    result = (depth == MAX_DEPTH) ? CUDA_INVALID_VALUE : context_check(context);
    if (result == CUDA_OK) {
        stack[depth++] = context;
    }
    return standin_leave(result);
}

int cuCtxPopCurrent_v2(cuda_context *context)
{
    ENTER();
    if (depth == 0) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    *context = stack[--depth];
    return standin_leave(CUDA_OK);
}

int cuCtxGetDevice(int *device)
{
    cuda_context context;
    int result;

    ENTER();
    context = standin_current();
    result = context_check(context);
    if (result == CUDA_OK) {
        *device = context->device;
    }
    return standin_leave(result);
}

int cuCtxGetApiVersion(cuda_context context, unsigned *version)
{
    int result;

    ENTER();
    result = context_check(context);
    *version = 3020;
    return standin_leave(result);
}

int cuCtxGetId(cuda_context context, unsigned long long *id)
{
    int result;

    ENTER();
    result = context_check(context);
    if (result == CUDA_OK) {
        *id = context->id;
    }
    return standin_leave(result);
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    ENTER();
    if (device < 0 || device >= STANDIN_DEVICES) {
        return standin_leave(CUDA_INVALID_DEVICE);
    }
    *flags = 0;
    *active = primary[device].references > 0;
    return standin_leave(CUDA_OK);
}

int cuDevicePrimaryCtxRetain(cuda_context *context, int device)
{
    ENTER();
    if (device < 0 || device >= STANDIN_DEVICES) {
        return standin_leave(CUDA_INVALID_DEVICE);
    }
    if (primary[device].context == NULL) {
        primary[device].context = context_new(device, 1);
    }
    primary[device].references++;
    *context = primary[device].context;
    return standin_leave(CUDA_OK);
}

/* The handle stays the same for the life of the process; what is in the context does not. */
static void primary_end(int device)
{
    if (primary[device].context != NULL) {
        context_end(primary[device].context);
        primary[device].context->id = ++standin.last_id;
    }
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER();
    if (device < 0 || device >= STANDIN_DEVICES || primary[device].references == 0) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    if (--primary[device].references == 0) {
        primary_end(device);
    }
    return standin_leave(CUDA_OK);
}

int cuDevicePrimaryCtxReset_v2(int device)
{
    ENTER();
    if (device < 0 || device >= STANDIN_DEVICES) {
        return standin_leave(CUDA_INVALID_DEVICE);
    }
    primary_end(device);
    return standin_leave(CUDA_OK);
}

/* ---- memory ---- */

char *standin_bytes(size_t length)
{
    char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return (bytes == MAP_FAILED) ? NULL : bytes;
}

/* As a driver, it takes whole granules: what is mapped beside them is far enough away. */
char *standin_addresses(size_t length)
{
    const size_t granule = 1 << 21, whole = (length + granule - 1) / granule * granule;
    char *start = mmap(NULL, whole + granule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *addresses;

    if (start == MAP_FAILED) {
        return NULL;
    }
    addresses = (char *)(((uintptr_t)start + granule - 1) / granule * granule);
    if (addresses > start) {
        munmap(start, (size_t)(addresses - start));
    }
    munmap(addresses + whole, (size_t)(start + granule - addresses));
    return addresses;
}

struct range *standin_find(uintptr_t address)
{
    struct range *range;

    for (range = standin.ranges; range != NULL; range = range->next) {
        if (address - (uintptr_t)range->addresses < range->length) {
            return range;
        }
    }
    return NULL;
}

struct range *standin_add(enum kind kind, char *addresses, char *bytes, size_t length, int device, cuda_context context)
{
    struct range *range = calloc(1, sizeof(*range));

    if (range == NULL) {
        standin_die("there is no memory");
    }
    *range = (struct range){.next = standin.ranges,
                       .kind = kind,
                       .addresses = addresses,
                       .bytes = bytes,
                       .length = length,
                       .device = device,
                       .context = context,
                       .id = ++standin.last_id,
                       .fd = -1};
    standin.ranges = range;
    return range;
}

void standin_remove(struct range *range)
{
    struct range **place = &standin.ranges;

    while (*place != range) {
        place = &(*place)->next;
    }
    *place = range->next;
    standin_unshare(range);
    if (range->kind != MAPPED && range->kind != REGISTERED) {
        if (range->bytes != range->addresses) {
            munmap(range->bytes, range->length);
        }
        if (freed.addresses != NULL) {
            munmap(freed.addresses, freed.length);
        }
        /* Nobody else gets the addresses by chance: a late touch of them is to be seen. */
        mprotect(range->addresses, range->length, PROT_NONE);
        freed.addresses = range->addresses;
        freed.length = range->length;
    }
    free(range);
}

static size_t left_of(const struct range *range, uintptr_t address)
{
    return (uintptr_t)range->addresses + range->length - address;
}

void standin_move(uintptr_t to, uintptr_t from, size_t length)
{
    const struct range *target, *source;
    size_t part;

    for (; length > 0; to += part, from += part, length -= part) {
        target = standin_find(to);
        source = standin_find(from);
        standin_check_shared(target);
        standin_check_shared(source);
        standin_check_mapped(target);
        standin_check_mapped(source);
        part = length;
        part = (target != NULL && left_of(target, to) < part) ? left_of(target, to) : part;
        part = (source != NULL && left_of(source, from) < part) ? left_of(source, from) : part;
        memmove((target == NULL) ? (char *)to : target->bytes + (to - (uintptr_t)target->addresses),
                (source == NULL) ? (const char *)from : source->bytes + (from - (uintptr_t)source->addresses), part);
    }
}

void standin_peek(void *to, const void *from, size_t length)
{
    pthread_mutex_lock(&standin.mutex);
    standin_move((uintptr_t)to, (uintptr_t)from, length);
    pthread_mutex_unlock(&standin.mutex);
}

static size_t whole_pages(size_t length)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (length + page - 1) / page * page;
}

static char *take_addresses(size_t length)
{
    char *addresses = freed.addresses;

    if (freed.wanted && addresses != NULL && freed.length == length) {
        freed.addresses = NULL;
        freed.wanted = 0;
        return addresses;
    }
    return standin_addresses(length);
}

static int allocate(enum kind kind, size_t length, int device, cuda_context context, uintptr_t *ptr)
{
    const size_t whole = whole_pages(length);
    struct shared *shared = NULL;
    int fd = -1;
    struct range *range;
    char *bytes, *addresses;

    if (length == 0) {
        return CUDA_INVALID_VALUE;
    }
    bytes = (kind == DEVICE) ? standin_shared_bytes(whole, &fd, &shared) : standin_bytes(whole);
    addresses = (kind == MANAGED || kind == PINNED || bytes == NULL) ? bytes : take_addresses(whole);
    if (addresses == NULL) {
        return CUDA_NO_MEMORY;
    }
    memset(bytes, 0x5a, whole); /* nobody may count on zeros */
    range = standin_add(kind, addresses, bytes, whole, device, context);
    range->fd = fd;
    range->shared = shared;
    if (shared != NULL) {
        shared->id = range->id;
    }
    *ptr = (uintptr_t)addresses;
    return CUDA_OK;
}

static int allocate_here(enum kind kind, cuda_ptr *ptr, size_t length)
{
    cuda_context context = standin_current();
    uintptr_t place = 0;
    int result = context_check(context);

    if (result == CUDA_OK) {
        result = allocate(kind, length, context->device, (kind == POOL) ? NULL : context, &place);
        *ptr = place;
    }
    return result;
}

int cuMemAlloc_v2(cuda_ptr *ptr, size_t length)
{
    ENTER();
    return standin_leave(allocate_here(DEVICE, ptr, length));
}

int cuMemAllocManaged(cuda_ptr *ptr, size_t length, unsigned flags)
{
    ENTER();
    return standin_leave((flags == CUDA_MANAGED_GLOBAL) ? allocate_here(MANAGED, ptr, length) : CUDA_INVALID_VALUE);
}

/* The program waits for the stream before others use it. */
int cuMemAllocAsync(cuda_ptr *ptr, size_t length, cuda_stream stream)
{
    (void)stream;
    ENTER();
    return standin_leave(allocate_here(POOL, ptr, length));
}

int cuMemHostAlloc(void **ptr, size_t length, unsigned flags)
{
    cuda_ptr place = 0;
    int result;

    (void)flags;
    ENTER();
    result = allocate_here(PINNED, &place, length);
    *ptr = (void *)(uintptr_t)place;
    return standin_leave(result);
}

static int give_back(uintptr_t ptr, enum kind first, enum kind last)
{
    struct range *range;

    range = standin_find(ptr);
    if (range == NULL || (uintptr_t)range->addresses != ptr || range->kind < first || range->kind > last) {
        return CUDA_INVALID_VALUE;
    }
    standin_drain(NULL);
    standin_remove(range);
    return CUDA_OK;
}

int cuMemFree_v2(cuda_ptr ptr)
{
    struct range *range;

    ENTER();
    if (context_check(standin_current()) != CUDA_OK) {
        return standin_leave(CUDA_INVALID_CONTEXT);
    }
    range = standin_find(ptr);
    return standin_leave((range != NULL && (range->kind == MAPPED || range->kind == OPENED))
                             ? CUDA_INVALID_VALUE
                             : give_back(ptr, DEVICE, MANAGED));
}

int cuMemFreeAsync(cuda_ptr ptr, cuda_stream stream)
{
    (void)stream;
    ENTER();
    return standin_leave(give_back(ptr, DEVICE, POOL));
}

int cuMemFreeHost(void *ptr)
{
    ENTER();
    return standin_leave(give_back((uintptr_t)ptr, PINNED, PINNED));
}

int cuMemHostRegister_v2(void *ptr, size_t length, unsigned flags)
{
    cuda_context context;
    int result;

    (void)flags;
    ENTER();
    context = standin_current();
    result = context_check(context);
    if (result == CUDA_OK && standin_find((uintptr_t)ptr) != NULL) {
        result = CUDA_INVALID_VALUE;
    }
    if (result == CUDA_OK) {
        standin_add(REGISTERED, ptr, ptr, length, context->device, context);
    }
    return standin_leave(result);
}

int cuMemHostUnregister(void *ptr)
{
    ENTER();
    return standin_leave(give_back((uintptr_t)ptr, REGISTERED, REGISTERED));
}

/* ---- what is known of addresses ---- */

static size_t narrow_of(const struct range *range)
{
    return (range->kind == DEVICE) ? standin.narrow : 0;
}

static void get_attribute(const struct range *range, int attribute, void *data)
{
    switch (attribute) {
    case CUDA_POINTER_CONTEXT:
        *(cuda_context *)data = (range == NULL) ? NULL : range->context;
        break;
    case CUDA_POINTER_MEMORY_TYPE:
        if (range == NULL) {
            *(unsigned *)data = 0;
        } else {
            *(unsigned *)data = (range->kind >= PINNED) ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
        }
        break;
    case CUDA_POINTER_BUFFER_ID:
        *(unsigned long long *)data = (range == NULL) ? 0 : range->id;
        break;
    case CUDA_POINTER_IS_MANAGED:
        *(unsigned *)data = range != NULL && range->kind == MANAGED;
        break;
    case CUDA_POINTER_ORDINAL:
        *(int *)data = (range == NULL) ? -2 : range->device;
        break;
    case CUDA_POINTER_RANGE_START:
    case CUDA_POINTER_MAPPING_START:
        *(void **)data = (range == NULL) ? NULL : range->addresses + narrow_of(range);
        break;
    case CUDA_POINTER_RANGE_SIZE:
    case CUDA_POINTER_MAPPING_SIZE:
        *(size_t *)data = (range == NULL) ? 0 : range->length - 2 * narrow_of(range);
        break;
    default:
        standin_die("an attribute of addresses is asked for that it does not know");
    }
}

int cuPointerSetAttribute(const void *value, int attribute, cuda_ptr ptr)
{
    const struct range *range;

    ENTER();
    range = standin_find(ptr);
    return standin_leave((attribute == CUDA_POINTER_SYNC_MEMOPS && *(const unsigned *)value == 1 && range != NULL &&
                          range->kind < PINNED)
                             ? CUDA_OK
                             : CUDA_INVALID_VALUE);
}

int cuPointerGetAttributes(unsigned count, int *attributes, void **data, cuda_ptr ptr)
{
    const struct range *range;
    unsigned i;

    ENTER();
    range = standin_find(ptr);
    for (i = 0; i < count; i++) {
        get_attribute(range, attributes[i], data[i]);
    }
    return standin_leave(CUDA_OK);
}
