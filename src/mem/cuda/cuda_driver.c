/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the functions of the driver. A driver that the program has loaded and not initialized yet counts as present,
 * because its addresses become valid with the initialization; a driver that is initialized and has no device does not.
 */
#include "mem/cuda/cuda_driver.h"

#include <string.h>

#include "base/log.h"
#include "os/loaded.h"
#include "os/lock.h"

#define FILE_NAME "libcuda.so.1"

struct symbol {
    const char *name;
    size_t offset;
    int optional;
};

#define NEEDED(name, symbol, parameters) {#symbol, offsetof(struct cuda_driver, name), 0},
#define WANTED(name, symbol, parameters) {#symbol, offsetof(struct cuda_driver, name), 1},
static const struct symbol symbols[] = {CUDA_CALLS(NEEDED) CUDA_CALLS_OPTIONAL(WANTED)};
#undef NEEDED
#undef WANTED

static struct cw_lock lock;
static struct cuda_driver table;
static const struct cuda_driver *driver; /* atomic; NULL: not found so far */
static int broken;                       /* the driver lacks a function */

static int find_functions(void *library)
{
    void *address;
    size_t i;

    for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        address = cw_loaded_symbol(library, symbols[i].name);
        if (address == NULL && !symbols[i].optional) {
            cw_warn(FILE_NAME " lacks %s, so memory of GPUs cannot be used; install a driver of CUDA 11 or later",
                    symbols[i].name);
            return 0;
        }
        memcpy((char *)&table + symbols[i].offset, &address, sizeof(address));
    }
    return 1;
}

static int has_device(void)
{
    int count = 0, result = table.device_count(&count);

    return result == CUDA_NOT_INITIALIZED || (result == CUDA_OK && count > 0);
}

const struct cuda_driver *cw_cuda_driver_look(void)
{
    void *library;

    if (cw_cuda_driver_get() != NULL) {
        return cw_cuda_driver_get();
    }
    cw_lock_enter(&lock);
    if (driver == NULL && !broken) {
        library = cw_loaded_library(FILE_NAME);
        broken  = library != NULL && !find_functions(library);
        if (library != NULL && !broken && has_device()) {
            __atomic_store_n(&driver, &table, __ATOMIC_RELEASE);
        }
    }
    cw_lock_leave(&lock);
    return cw_cuda_driver_get();
}

const struct cuda_driver *cw_cuda_driver_get(void)
{
    return __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
}

const char *cw_cuda_driver_error(int result)
{
    const struct cuda_driver *known = cw_cuda_driver_get();
    const char *name                = NULL;

    return (known != NULL && known->error_name(result, &name) == CUDA_OK && name != NULL) ? name : "unknown error";
}
