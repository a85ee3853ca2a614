/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU for the tests.
 *
 * Callers: buffers.c, run.c. The driver's functions are found once; the GPU stays retained until the process ends.
 */
#include "device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct driver {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*copy)(uint64_t to, uint64_t from, size_t length);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct driver driver;
static void *primary; /* NULL: not retained yet */

static int find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    return address != NULL;
}

static const char *load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    if (library == NULL) {
        return "there is no CUDA driver (libcuda.so.1) on this machine";
    }
    if (!find(library, "cuInit", &driver.init) || !find(library, "cuDevicePrimaryCtxRetain", &driver.retain) ||
        !find(library, "cuCtxSetCurrent", &driver.set_current) || !find(library, "cuMemcpy", &driver.copy)) {
        return "the CUDA driver lacks a function";
    }
    if (driver.init(0) != 0 || driver.retain(&primary, 0) != 0) {
        primary = NULL;
        return "the CUDA driver finds no GPU that it can use";
    }
    return NULL;
}

const char *cw_device_enter(void)
{
    const char *problem = NULL;

    pthread_mutex_lock(&lock);
    if (primary == NULL) {
        problem = load();
    }
    if (problem == NULL && driver.set_current(primary) != 0) {
        problem = "the GPU cannot be used by this thread";
    }
    pthread_mutex_unlock(&lock);
    return problem;
}

int cw_device_copy(void *to, const void *from, size_t length)
{
    return driver.copy((uintptr_t)to, (uintptr_t)from, length) == 0 ? 0 : -1;
}
