/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A real GPU: the driver of the machine, opened at run time. Its memory comes from the functions that programs use, in
 * turn, and the thread that calls the library has no context. Copies of the library are counted, and made to fail, by
 * functions that take the places of the driver's in the library's table.
 */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem/cuda/cuda_driver.h"

const int device_trusts = 1;
const int device_is_apart = 1;
const uint64_t device_other_types = UINT64_C(1) << UCS_MEMORY_TYPE_CUDA_MANAGED;

/* CUmemAllocationProp */
struct properties {
    int type;
    int handle_types;
    int location_type;
    int location;
    void *security;
    unsigned char rest[8];
};

enum { PLAIN, POOL, MAPPED, KINDS };

/* Memory that is mapped has to be unmapped with its length. */
struct mapped {
    struct mapped *next;
    cuda_ptr ptr;
    size_t length;
};

static struct {
    int (*init)(unsigned flags);
    int (*retain)(cuda_context *context, int device);
    int (*set_current)(cuda_context context);
    int (*synchronize)(void);
    int (*alloc)(cuda_ptr *ptr, size_t length);
    int (*alloc_managed)(cuda_ptr *ptr, size_t length, unsigned flags);
    int (*alloc_async)(cuda_ptr *ptr, size_t length, cuda_stream stream);
    int (*free_async)(cuda_ptr ptr, cuda_stream stream);
    int (*free)(cuda_ptr ptr);
    int (*copy)(cuda_ptr to, cuda_ptr from, size_t length);
    int (*granularity)(size_t *bytes, const struct properties *properties, int flags);
    int (*create)(cuda_piece *piece, size_t length, const struct properties *properties, unsigned long long flags);
    int (*reserve)(cuda_ptr *ptr, size_t length, size_t alignment, cuda_ptr hint, unsigned long long flags);
    int (*map)(cuda_ptr ptr, size_t length, size_t offset, cuda_piece piece, unsigned long long flags);
    int (*access)(cuda_ptr ptr, size_t length, const struct cuda_access *access, size_t count);
    int (*unmap)(cuda_ptr ptr, size_t length);
    int (*release)(cuda_piece piece);
    int (*address_free)(cuda_ptr ptr, size_t length);
} call;

static const struct {
    const char *symbol;
    void *function;
} symbols[] = {
    {"cuInit", &call.init},
    {"cuDevicePrimaryCtxRetain", &call.retain},
    {"cuCtxSetCurrent", &call.set_current},
    {"cuCtxSynchronize", &call.synchronize},
    {"cuMemAlloc_v2", &call.alloc},
    {"cuMemAllocManaged", &call.alloc_managed},
    {"cuMemAllocAsync", &call.alloc_async},
    {"cuMemFreeAsync", &call.free_async},
    {"cuMemFree_v2", &call.free},
    {"cuMemcpy", &call.copy},
    {"cuMemGetAllocationGranularity", &call.granularity},
    {"cuMemCreate", &call.create},
    {"cuMemAddressReserve", &call.reserve},
    {"cuMemMap", &call.map},
    {"cuMemSetAccess", &call.access},
    {"cuMemUnmap", &call.unmap},
    {"cuMemRelease", &call.release},
    {"cuMemAddressFree", &call.address_free},
};

static const struct properties of_device = {.type = 1, .location_type = CUDA_LOCATION_DEVICE};
static cuda_context context;
static struct mapped *all_mapped;
static unsigned turn;

static void succeed(const char *what, int result)
{
    if (result != CUDA_OK) {
        fprintf(stderr, "%s: the CUDA driver answers %d\n", what, result);
        abort();
    }
}

int device_present(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *address;
    int count = 0;
    int (*device_count)(int *count);

    if (library == NULL) {
        return 0;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        address = dlsym(library, symbols[i].symbol);
        if (address == NULL) {
            return 0;
        }
        memcpy(symbols[i].function, &address, sizeof(address));
    }
    address = dlsym(library, "cuDeviceGetCount");
    memcpy(&device_count, &address, sizeof(address));
    return call.init(0) == CUDA_OK && device_count(&count) == CUDA_OK && count > 0;
}

void device_open(void)
{
    if (context == NULL) {
        succeed("cuDevicePrimaryCtxRetain", call.retain(&context, 0));
    }
}

void device_close(void)
{
    device_fail_after(UINT64_MAX);
}

/* ---- memory ---- */

static cuda_ptr map_new(size_t length)
{
    const struct cuda_access access = {CUDA_LOCATION_DEVICE, 0, CUDA_ACCESS_READ_WRITE};
    struct mapped *mapped = calloc(1, sizeof(*mapped));
    cuda_piece piece;
    size_t grain;

    if (mapped == NULL) {
        abort();
    }
    succeed("cuMemGetAllocationGranularity", call.granularity(&grain, &of_device, 0));
    mapped->length = (length + grain - 1) / grain * grain;
    succeed("cuMemCreate", call.create(&piece, mapped->length, &of_device, 0));
    succeed("cuMemAddressReserve", call.reserve(&mapped->ptr, mapped->length, 0, 0, 0));
    succeed("cuMemMap", call.map(mapped->ptr, mapped->length, 0, piece, 0));
    succeed("cuMemSetAccess", call.access(mapped->ptr, mapped->length, &access, 1));
    succeed("cuMemRelease", call.release(piece));
    mapped->next = all_mapped;
    all_mapped = mapped;
    return mapped->ptr;
}

/* 1: it was mapped memory. */
static int map_free(cuda_ptr ptr)
{
    struct mapped **link, *mapped;

    for (link = &all_mapped; *link != NULL; link = &(*link)->next) {
        mapped = *link;
        if (mapped->ptr == ptr) {
            succeed("cuMemUnmap", call.unmap(ptr, mapped->length));
            succeed("cuMemAddressFree", call.address_free(ptr, mapped->length));
            *link = mapped->next;
            free(mapped);
            return 1;
        }
    }
    return 0;
}

void *device_alloc(size_t length)
{
    cuda_ptr ptr = 0;

    succeed("cuCtxSetCurrent", call.set_current(context));
    switch (turn++ % KINDS) {
    case PLAIN:
        succeed("cuMemAlloc", call.alloc(&ptr, length));
        break;
    case POOL:
        succeed("cuMemAllocAsync", call.alloc_async(&ptr, length, NULL));
        succeed("cuCtxSynchronize", call.synchronize());
        break;
    default:
        ptr = map_new(length);
        break;
    }
    succeed("cuCtxSetCurrent", call.set_current(NULL));
    return (void *)(uintptr_t)ptr;
}

void device_free(void *ptr)
{
    succeed("cuCtxSetCurrent", call.set_current(context));
    succeed("cuCtxSynchronize", call.synchronize());
    if (!map_free((uintptr_t)ptr)) {
        succeed("cuMemFree", call.free((uintptr_t)ptr));
    }
    succeed("cuCtxSetCurrent", call.set_current(NULL));
}

void *device_alloc_managed(size_t length)
{
    cuda_ptr ptr = 0;

    succeed("cuCtxSetCurrent", call.set_current(context));
    succeed("cuMemAllocManaged", call.alloc_managed(&ptr, length, CUDA_MANAGED_GLOBAL));
    succeed("cuCtxSetCurrent", call.set_current(NULL));
    return (void *)(uintptr_t)ptr;
}

void device_free_managed(void *ptr)
{
    device_free(ptr);
}

void device_write(void *to, const void *from, size_t length)
{
    succeed("cuCtxSetCurrent", call.set_current(context));
    succeed("cuMemcpy", call.copy((uintptr_t)to, (uintptr_t)from, length));
    succeed("cuCtxSynchronize", call.synchronize()); /* a copy within the device may go on after the call */
    succeed("cuCtxSetCurrent", call.set_current(NULL));
}

/* ---- copies of the library ---- */

static int (*copy_async)(cuda_ptr to, cuda_ptr from, size_t length, cuda_stream stream);
static int (*copy_rows)(const struct cuda_rows *rows, cuda_stream stream);
static int (*operate)(cuda_stream stream, unsigned count, struct cuda_operation *operations, unsigned flags);
static uint64_t copies, until = UINT64_MAX;

/* 0: this one fails. */
static int count_copy(void)
{
    if (until == 0) {
        return 0;
    }
    until -= (until != UINT64_MAX);
    copies++;
    return 1;
}

static int counted_copy(cuda_ptr to, cuda_ptr from, size_t length, cuda_stream stream)
{
    return count_copy() ? copy_async(to, from, length, stream) : CUDA_ILLEGAL_ADDRESS;
}

static int counted_rows(const struct cuda_rows *rows, cuda_stream stream)
{
    return count_copy() ? copy_rows(rows, stream) : CUDA_ILLEGAL_ADDRESS;
}

static int counted_operate(cuda_stream stream, unsigned count, struct cuda_operation *operations, unsigned flags)
{
    return count_copy() ? operate(stream, count, operations, flags) : CUDA_ILLEGAL_ADDRESS;
}

/* The library has one table for the process, and finds the driver when a worker is made. */
static void take_place(void)
{
    struct cuda_driver *table = (struct cuda_driver *)cw_cuda_driver_find(&cw_cuda_kind);

    if (table != NULL && table->copy_async != counted_copy) {
        copy_async = table->copy_async;
        table->copy_async = counted_copy;
        copy_rows = table->copy_rows;
        table->copy_rows = counted_rows;
        operate = table->operate;
        table->operate = counted_operate;
    }
}

void device_fail_after(uint64_t count)
{
    take_place();
    until = count;
}

uint64_t device_copies(void)
{
    take_place();
    return copies;
}
