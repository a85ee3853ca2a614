/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the functions of the driver. A driver that the program has loaded and not initialized yet counts as present,
 * because its addresses become valid with the initialization; a driver that is initialized and has no device does not.
 */
#include "mem/cuda/cuda_driver.h"

#include <stdbool.h>

#include "base/log.h"
#include "os/library.h"
#include "os/lock.h"

static struct cw_lock lock;
static struct {
    struct cuda_driver table;
    const struct cuda_driver *driver; /* atomic; NULL: not found so far */
    int broken;                       /* the driver lacks a function */
    unsigned long long seen;          /* for cw_library_loaded */
} drivers[CUDA_KINDS];

/* ---- CUDA ---- */

#define NEEDED(name, symbol, parameters) {#symbol, offsetof(struct cuda_driver, name), 0},
#define WANTED(name, symbol, parameters) {#symbol, offsetof(struct cuda_driver, name), 1},
static const struct cw_symbol symbols[] = {CUDA_CALLS(NEEDED) CUDA_CALLS_OPTIONAL(WANTED)};
#undef NEEDED
#undef WANTED

static const char *find_cuda(void *library, struct cuda_driver *driver)
{
    return cw_library_find(library, symbols, sizeof(symbols) / sizeof(symbols[0]), driver);
}

static const char *const files[] = {"libcuda.so.1", NULL};

const struct cuda_kind cw_cuda_kind = {
    .number = CUDA_KIND_CUDA,
    .name = "CUDA",
    .allocators = "cuMemAlloc or cudaMalloc",
    .advice = "install a driver of CUDA 11 or later",
    .dmabuf = "dma-buf needs a driver of CUDA 11.7 or later with the open kernel modules (package nvidia-open), and "
              "memory of cuMemAlloc, cudaMalloc or cuMemMap, not of a pool",
    .device = UCS_MEMORY_TYPE_CUDA,
    .managed = UCS_MEMORY_TYPE_CUDA_MANAGED,
    .files = files,
    .find = find_cuda,
};

/* ---- any kind ---- */

static bool has_device(const struct cuda_driver *driver)
{
    int count = 0, result = driver->device_count(&count);

    return result == CUDA_NOT_INITIALIZED || (result == CUDA_OK && count > 0);
}

/* The lock is held. */
static void load(const struct cuda_kind *kind)
{
    struct cuda_driver *table = &drivers[kind->number].table;
    const char *missing;
    unsigned file = 0;
    void *library = cw_library_loaded(kind->files, &file, &drivers[kind->number].seen);

    if (library == NULL) {
        return;
    }
    missing = kind->find(library, table);
    if (missing != NULL) {
        cw_warn("%s lacks %s, GPU memory cannot be used; %s", kind->files[file], missing, kind->advice);
        drivers[kind->number].broken = 1;
        return;
    }
    table->kind = kind;
    if (has_device(table)) {
        __atomic_store_n(&drivers[kind->number].driver, table, __ATOMIC_RELEASE);
    } else {
        drivers[kind->number].seen = 0; /* a device may appear later */
    }
}

const struct cuda_driver *cw_cuda_driver_find(const struct cuda_kind *kind)
{
    if (cw_cuda_driver_get(kind) == NULL) {
        cw_lock_enter(&lock);
        if (drivers[kind->number].driver == NULL && !drivers[kind->number].broken) {
            load(kind);
        }
        cw_lock_leave(&lock);
    }
    return cw_cuda_driver_get(kind);
}

const struct cuda_driver *cw_cuda_driver_get(const struct cuda_kind *kind)
{
    return __atomic_load_n(&drivers[kind->number].driver, __ATOMIC_ACQUIRE);
}

const char *cw_cuda_driver_error(const struct cuda_driver *cuda, int result)
{
    const char *name = NULL;

    return (cuda->error_name(result, &name) == CUDA_OK && name != NULL) ? name : "unknown error";
}
