/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU for the tests.
 *
 * Callers: buffers.c, run.c. The functions of a driver are found once; the GPU stays retained until the process
 * ends.
 */
#include "device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { CUDA, HIP, MAKERS };

#define COPY_DEFAULT 4 /* hipMemcpyKind: the addresses give the direction */

struct driver {
    int is_ready;
    int (*init)(unsigned flags);
    /* CUDA */
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*copy)(uint64_t to, uint64_t from, size_t length);
    int (*synchronize)(void); /* of HIP, too */
    void *primary;
    /* HIP, which has no contexts */
    int (*set_device)(int device);
    int (*copy_of)(uint64_t to, uint64_t from, size_t length, int kind);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct driver drivers[MAKERS];

static unsigned maker_of(ucs_memory_type_t type)
{
    return (type == UCS_MEMORY_TYPE_ROCM || type == UCS_MEMORY_TYPE_ROCM_MANAGED) ? HIP : CUDA;
}

static int find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    return address != NULL;
}

static const char *load_cuda(struct driver *cuda)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

    if (library == NULL) {
        return "no CUDA driver (libcuda.so.1) on this machine";
    }
    if (!find(library, "cuInit", &cuda->init) || !find(library, "cuDevicePrimaryCtxRetain", &cuda->retain) ||
        !find(library, "cuCtxSetCurrent", &cuda->set_current) || !find(library, "cuMemcpy", &cuda->copy) ||
        !find(library, "cuCtxSynchronize", &cuda->synchronize)) {
        return "the CUDA driver lacks a function";
    }
    if (cuda->init(0) != 0 || cuda->retain(&cuda->primary, 0) != 0) {
        return "the CUDA driver finds no GPU that it can use";
    }
    cuda->is_ready = 1;
    return NULL;
}

static const char *load_hip(struct driver *hip)
{
    static const char *const files[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
    void *library = NULL;

    for (unsigned i = 0; library == NULL && i < sizeof(files) / sizeof(files[0]); i++) {
        library = dlopen(files[i], RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        return "no HIP (libamdhip64.so) on this machine";
    }
    if (!find(library, "hipInit", &hip->init) || !find(library, "hipSetDevice", &hip->set_device) ||
        !find(library, "hipMemcpy", &hip->copy_of) || !find(library, "hipDeviceSynchronize", &hip->synchronize)) {
        return "HIP lacks a function";
    }
    if (hip->init(0) != 0 || hip->set_device(0) != 0) {
        return "HIP finds no GPU that it can use";
    }
    hip->is_ready = 1;
    return NULL;
}

const char *cw_device_enter(ucs_memory_type_t type)
{
    const unsigned maker = maker_of(type);
    struct driver *driver = &drivers[maker];
    const char *problem = NULL;
    int result;

    if (type == UCS_MEMORY_TYPE_HOST) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (!driver->is_ready) {
        problem = (maker == HIP) ? load_hip(driver) : load_cuda(driver);
    }
    if (problem == NULL) {
        result = (maker == HIP) ? driver->set_device(0) : driver->set_current(driver->primary);
        problem = (result == 0) ? NULL : "the GPU cannot be used by this thread";
    }
    pthread_mutex_unlock(&lock);
    return problem;
}

/* A driver may return from a copy of few bytes before the GPU has them, so the test waits for the GPU. */
int cw_device_copy(ucs_memory_type_t type, void *to, const void *from, size_t length)
{
    const struct driver *driver = &drivers[maker_of(type)];
    int result;

    if (type == UCS_MEMORY_TYPE_HOST) {
        memcpy(to, from, length);
        return 0;
    }
    result = (maker_of(type) == HIP) ? driver->copy_of((uintptr_t)to, (uintptr_t)from, length, COPY_DEFAULT)
                                     : driver->copy((uintptr_t)to, (uintptr_t)from, length);
    return (result == 0 && driver->synchronize() == 0) ? 0 : -1;
}
