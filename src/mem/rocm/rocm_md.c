/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HIP, the runtime of AMD GPUs (libamdhip64), adapted to the driver table that the GPU code calls. Names, parameters
 * and numbers are those of the HIP runtime API reference; the build needs no file of AMD. Most functions differ from
 * those of the CUDA driver only in name, and the numbers of errors, flags and pointer attributes are equal. The others
 * are adapted here:
 *
 * - HIP has no contexts that can be pushed: a thread has a current device, 0 unless it sets another. A context is the
 *   number of its device, plus one. Leaving it restores the thread's previous device.
 * - hipMemoryType has other values before HIP 6.0.
 * - A call that fails leaves its error to hipGetLastError, where the program would take it for one of its own; so the
 *   library clears the errors of its calls. An earlier error that the program has not read is lost then.
 */
#include "mem/rocm/rocm_md.h"

#include "os/library.h"
#include "os/lock.h"

#define MAX_DEPTH      4
#define MAX_ATTRIBUTES 16
#define MAX_MARKS      64 /* devices; as in cuda_channel.c */

enum {
    HIP_VERSION_6 = 60000000, /* hipRuntimeGetVersion: major * 10^7 + minor * 10^5 + patch */
    HIP_MEMCPY_DEFAULT = 4,        /* hipMemcpyKind: direction derived from the addresses */
    HIP5_DEVICE = 1,        /* hipMemoryType before 6.0; 0: host memory, or unknown */
    HIP6_MANAGED = 3         /* since 6.0, where 0, 1 and 2 are as in CUmemorytype */
};

/* Functions that the adapters call. */
#define HIP_CALLS(CALL)                                                                                                \
    CALL(int, get_device, hipGetDevice, (int *device))                                                                 \
    CALL(int, set_device, hipSetDevice, (int device))                                                                  \
    CALL(int, version, hipRuntimeGetVersion, (int *version))                                                           \
    CALL(int, attributes, hipDrvPointerGetAttributes, (unsigned count, int *attributes, void **data, cuda_ptr ptr))    \
    CALL(int, allocate, hipMalloc, (cuda_ptr * ptr, size_t length))                                                    \
    CALL(int, copy, hipMemcpyAsync, (cuda_ptr to, cuda_ptr from, size_t length, int kind, cuda_stream stream))         \
    CALL(int, last_error, hipGetLastError, (void))                                                                     \
    CALL(int, peek_error, hipPeekAtLastError, (void))                                                                  \
    CALL(const char *, name_of, hipGetErrorName, (int result))

/* CALL(function of the driver table, symbol, optional): same signature. */
#define HIP_EQUAL_CALLS(CALL)                                                                                          \
    CALL(device_count, hipGetDeviceCount, 0)                                                                           \
    CALL(stream_create, hipStreamCreateWithFlags, 0)                                                                   \
    CALL(stream_synchronize, hipStreamSynchronize, 0)                                                                  \
    CALL(event_create, hipEventCreateWithFlags, 0)                                                                     \
    CALL(event_record, hipEventRecord, 0)                                                                              \
    CALL(event_query, hipEventQuery, 0)                                                                                \
    CALL(event_synchronize, hipEventSynchronize, 0)                                                                    \
    CALL(event_destroy, hipEventDestroy, 0)                                                                            \
    CALL(host_register, hipHostRegister, 0)                                                                            \
    CALL(host_unregister, hipHostUnregister, 0)                                                                        \
    CALL(set_async, hipMemsetD8Async, 0)                                                                               \
    CALL(alloc, hipMalloc, 0)                                                                                          \
    CALL(alloc_managed, hipMallocManaged, 0)                                                                           \
    CALL(free, hipFree, 0)                                                                                             \
    CALL(ipc_get, hipIpcGetMemHandle, 1)                                                                               \
    CALL(ipc_open, hipIpcOpenMemHandle, 1)                                                                             \
    CALL(ipc_close, hipIpcCloseMemHandle, 1)                                                                           \
    CALL(range_export, hipMemGetHandleForAddressRange, 1)                                                              \
    CALL(piece_retain, hipMemRetainAllocationHandle, 1)                                                                \
    CALL(piece_export, hipMemExportToShareableHandle, 1)                                                               \
    CALL(piece_import, hipMemImportFromShareableHandle, 1)                                                             \
    CALL(piece_release, hipMemRelease, 1)                                                                              \
    CALL(piece_map, hipMemMap, 1)                                                                                      \
    CALL(piece_unmap, hipMemUnmap, 1)                                                                                  \
    CALL(piece_access, hipMemSetAccess, 1)                                                                             \
    CALL(address_reserve, hipMemAddressReserve, 1)                                                                     \
    CALL(address_free, hipMemAddressFree, 1)

#define MEMBER(type, name, symbol, parameters) type(*name) parameters;
static struct {
    HIP_CALLS(MEMBER)
    int version_number;
} hip;
#undef MEMBER

static __thread struct {
    struct {
        int device, error; /* of the thread before it entered */
    } before[MAX_DEPTH];
    unsigned depth;
} entered;

/* For calls that are made without a context; context_pop does it for the others. */
static int quiet(int result)
{
    if (result != CUDA_OK) {
        (void)hip.last_error();
    }
    return result;
}

/* ---- contexts ---- */

static cuda_context context_of(int device)
{
    return (cuda_context)((uintptr_t)(unsigned)device + 1); /* never dereferenced */
}

static int context_current(cuda_context *context)
{
    int device = 0, result = hip.get_device(&device);

    *context = context_of(device);
    return quiet(result);
}

static int context_push(cuda_context context)
{
    const int device = (int)((uintptr_t)context - 1);
    int before = 0, result, error;

    if (entered.depth == MAX_DEPTH) {
        return CUDA_INVALID_VALUE;
    }
    error = hip.peek_error();
    result = hip.get_device(&before);
    if (result == CUDA_OK && before != device) {
        result = hip.set_device(device);
    }
    if (result == CUDA_OK) {
        entered.before[entered.depth].device = before;
        entered.before[entered.depth++].error = error;
    }
    return quiet(result);
}

static int context_pop(cuda_context *context)
{
    int result;

    if (entered.depth == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    entered.depth--;
    if (hip.peek_error() != entered.before[entered.depth].error) {
        (void)hip.last_error();
    }
    result = context_current(context);
    if (result == CUDA_OK && *context != context_of(entered.before[entered.depth].device)) {
        result = quiet(hip.set_device(entered.before[entered.depth].device));
    }
    return result;
}

static int context_device(int *device)
{
    return quiet(hip.get_device(device));
}

/* Identifies a device until that is reset. */
static struct mark {
    cuda_ptr ptr;              /* a byte on the device; 0: there is none */
    unsigned long long number; /* of that allocation */
    unsigned long long resets; /* of the device, as far as the library has detected them */
} marks[MAX_MARKS];
static struct cw_lock marks_lock;

static unsigned long long number_of(cuda_ptr ptr)
{
    int attribute = CUDA_POINTER_BUFFER_ID;
    unsigned long long number = 0; /* HIP writes 32 bits */
    void *place = &number;

    return (quiet(hip.attributes(1, &attribute, &place, ptr)) == CUDA_OK) ? number : 0;
}

/* The device is new to the library, or was reset. Without memory the next use tries again. */
static void mark_device(struct mark *mark, cuda_context context)
{
    mark->ptr = 0;
    mark->resets++;
    if (context_push(context) == CUDA_OK) {
        if (hip.allocate(&mark->ptr, 1) != CUDA_OK) {
            mark->ptr = 0;
        }
        (void)context_pop(&context);
    }
    mark->number = (mark->ptr == 0) ? 0 : number_of(mark->ptr);
}

/* A device number never refers to another device. But hipDeviceReset destroys its streams, events and memory without a
 * notification; the library detects it by a byte that it has allocated on the device, whose allocation is then unknown
 * or has another number. */
static int context_id(cuda_context context, unsigned long long *id)
{
    const uintptr_t device = (uintptr_t)context - 1;
    struct mark *mark = &marks[device % MAX_MARKS];

    cw_lock_enter(&marks_lock);
    if (mark->ptr == 0 || number_of(mark->ptr) != mark->number) {
        mark_device(mark, context);
    }
    *id = mark->resets * MAX_MARKS + device;
    cw_lock_leave(&marks_lock);
    return CUDA_OK;
}

static int context_version(cuda_context context, unsigned *version)
{
    (void)context;
    *version = (unsigned)hip.version_number;
    return CUDA_OK;
}

static int primary_state(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 1;
    return CUDA_OK;
}

static int primary_retain(cuda_context *context, int device)
{
    *context = context_of(device);
    return CUDA_OK;
}

/* ---- memory ---- */

static void translate_type(unsigned *type, unsigned *managed)
{
    if (hip.version_number < HIP_VERSION_6) {
        *type = (*type == HIP5_DEVICE) ? CUDA_MEMORY_DEVICE : 0;
    } else if (*type == HIP6_MANAGED) {
        *managed = 1;
    }
}

/* HIP returns success for any address, and writes 0 or nothing if it does not know the memory; some attributes are
 * written as narrower integers. The caller has zeroed the values. A context has no attribute: memory belongs to a
 * device. */
static int pointer_attributes(unsigned count, int *attributes, void **data, cuda_ptr ptr)
{
    int wanted[MAX_ATTRIBUTES];
    void *places[MAX_ATTRIBUTES];
    unsigned i, n = 0, none = 0, *type = &none, *managed = &none;
    int result;

    for (i = 0; i < count && n < MAX_ATTRIBUTES; i++) {
        if (attributes[i] == CUDA_POINTER_CONTEXT) {
            *(cuda_context *)data[i] = NULL;
            continue;
        }
        type = (attributes[i] == CUDA_POINTER_MEMORY_TYPE) ? data[i] : type;
        managed = (attributes[i] == CUDA_POINTER_IS_MANAGED) ? data[i] : managed;
        wanted[n] = attributes[i];
        places[n] = data[i];
        n++;
    }
    result = hip.attributes(n, wanted, places, ptr);
    if (result == CUDA_OK) {
        translate_type(type, managed);
    }
    return quiet(result);
}

static int copy_async(cuda_ptr to, cuda_ptr from, size_t length, cuda_stream stream)
{
    return hip.copy(to, from, length, HIP_MEMCPY_DEFAULT, stream);
}

static int error_name(int result, const char **name)
{
    *name = hip.name_of(result);
    return CUDA_OK;
}

/* ---- the kind ---- */

#define ADAPTED(type, name, symbol, parameters) {#symbol, offsetof(__typeof__(hip), name), 0},
#define EQUAL(name, symbol, optional)           {#symbol, offsetof(struct cuda_driver, name), optional},
static const struct cw_symbol adapted[] = {HIP_CALLS(ADAPTED)};
static const struct cw_symbol equal[] = {HIP_EQUAL_CALLS(EQUAL)};
#undef ADAPTED
#undef EQUAL

static const char *find_hip(void *library, struct cuda_driver *driver)
{
    const char *missing = cw_library_find(library, adapted, sizeof(adapted) / sizeof(adapted[0]), &hip);

    *driver = (struct cuda_driver){
        .pointer_attributes = pointer_attributes,
        .context_current = context_current,
        .context_push = context_push,
        .context_pop = context_pop,
        .context_device = context_device,
        .context_version = context_version,
        .context_id = context_id,
        .primary_state = primary_state,
        .primary_retain = primary_retain,
        .copy_async = copy_async,
        .error_name = error_name,
    };
    if (missing == NULL) {
        missing = cw_library_find(library, equal, sizeof(equal) / sizeof(equal[0]), driver);
    }
    if (missing == NULL) {
        (void)hip.version(&hip.version_number);
    }
    return missing;
}

static const char *const files[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL};

const struct cuda_kind cw_rocm_kind = {
    .number = CUDA_KIND_ROCM,
    .name = "HIP",
    .allocators = "hipMalloc",
    .advice = "install ROCm 5 or later",
    .dmabuf = "dma-buf needs ROCm 6.4 or later and memory of hipMalloc",
    .device = UCS_MEMORY_TYPE_ROCM,
    .managed = UCS_MEMORY_TYPE_ROCM_MANAGED,
    .files = files,
    .find = find_hip,
};
