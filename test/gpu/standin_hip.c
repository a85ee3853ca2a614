/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HIP over the stand-in's devices, memory and streams. A thread has a current device, which stands for the device's
 * primary context; a call that fails leaves its error to hipGetLastError.
 */
#include "standin_hip.h"

#include <stdlib.h>
#include <string.h>

#include "standin_internal.h"

#define FORWARD(symbol, parameters, call)                                                                              \
    int symbol parameters                                                                                              \
    {                                                                                                                  \
        const int ready = enter();                                                                                     \
                                                                                                                       \
        return answer((ready == CUDA_OK) ? (call) : ready);                                                            \
    }

static cuda_context devices[STANDIN_DEVICES];
static __thread int current, last_error;

static int major(void)
{
    const char *number = getenv("CW_STANDIN_HIP");

    return (number != NULL) ? atoi(number) : 6;
}

static int answer(int result)
{
    last_error = (result == CUDA_OK) ? last_error : result;
    return result;
}

/* The first call of a process initializes HIP. The devices stay retained. */
static int enter(void)
{
    int i, result = CUDA_OK;

    if (devices[STANDIN_DEVICES - 1] == NULL) {
        result = cuInit(0);
        for (i = 0; i < STANDIN_DEVICES && result == CUDA_OK; i++) {
            result = cuDevicePrimaryCtxRetain(&devices[i], i);
        }
    }
    return (result == CUDA_OK) ? cuCtxSetCurrent(devices[current]) : result;
}

FORWARD(hipInit, (unsigned flags), (flags == 0) ? CUDA_OK : CUDA_INVALID_VALUE)
FORWARD(hipGetDeviceCount, (int *count), cuDeviceGetCount(count))
FORWARD(hipDeviceGetName, (char *name, int length, int device), cuDeviceGetName(name, length, device))
FORWARD(hipDeviceTotalMem, (size_t * bytes, int device), cuDeviceTotalMem_v2(bytes, device))

int hipRuntimeGetVersion(int *version)
{
    *version = major() * 10000000 + 132830;
    return CUDA_OK;
}

int hipGetDevice(int *device)
{
    *device = current;
    return answer(enter());
}

int hipSetDevice(int device)
{
    if (device < 0 || device >= STANDIN_DEVICES) {
        return answer(CUDA_INVALID_DEVICE);
    }
    current = device;
    return answer(enter());
}

/* Memory, streams and events of the device end, whoever made them. */
FORWARD(hipDeviceReset, (void), cuDevicePrimaryCtxReset_v2(current))

int hipGetLastError(void)
{
    const int result = last_error;

    last_error = CUDA_OK;
    return result;
}

int hipPeekAtLastError(void)
{
    return last_error;
}

const char *hipGetErrorName(int result)
{
    static const char *const names[] = {"hipSuccess", "hipErrorInvalidValue", "hipErrorOutOfMemory"};

    return (result >= 0 && result < 3) ? names[result] : "hipErrorUnknown";
}

/* Before 6.0: 0 host, 1 device; since: 0 not known, 1 host, 2 device, 3 managed. */
static unsigned type_of(const struct range *range)
{
    if (range == NULL) {
        return 0;
    }
    if (major() < 6) {
        return range->kind < PINNED;
    }
    if (range->kind == MANAGED) {
        return 3;
    }
    return (range->kind >= PINNED) ? 1 : 2;
}

/* A success, whatever the address. Contexts and mappings are not supported, and numbers of buffers have 32 bits, flags
 * have 8. */
int hipDrvPointerGetAttributes(unsigned count, int *attributes, void **data, cuda_ptr ptr)
{
    const int ready = enter();
    unsigned long long id;
    unsigned i, flag;

    for (i = 0; i < count && ready == CUDA_OK; i++) {
        switch (attributes[i]) {
        case CUDA_POINTER_CONTEXT:
            standin_die("HIP does not report contexts of addresses");
        case CUDA_POINTER_MEMORY_TYPE:
            pthread_mutex_lock(&standin.mutex);
            *(unsigned *)data[i] = type_of(standin_find(ptr));
            pthread_mutex_unlock(&standin.mutex);
            break;
        case CUDA_POINTER_BUFFER_ID:
            (void)cuPointerGetAttributes(1, &attributes[i], (void *[]){&id}, ptr);
            memcpy(data[i], &id, 4);
            break;
        case CUDA_POINTER_IS_MANAGED:
            (void)cuPointerGetAttributes(1, &attributes[i], (void *[]){&flag}, ptr);
            *(char *)data[i] = (char)flag;
            break;
        case CUDA_POINTER_MAPPING_SIZE:
        case CUDA_POINTER_MAPPING_START:
            return answer(CUDA_INVALID_VALUE);
        default:
            (void)cuPointerGetAttributes(1, &attributes[i], &data[i], ptr);
        }
    }
    return answer(ready);
}

FORWARD(hipStreamCreateWithFlags, (cuda_stream * stream, unsigned flags), cuStreamCreate(stream, flags))
FORWARD(hipDeviceSynchronize, (void), cuCtxSynchronize())
FORWARD(hipStreamSynchronize, (cuda_stream stream), cuStreamSynchronize(stream))
FORWARD(hipEventCreateWithFlags, (cuda_event * event, unsigned flags), cuEventCreate(event, flags))
FORWARD(hipEventRecord, (cuda_event event, cuda_stream stream), cuEventRecord(event, stream))
FORWARD(hipEventQuery, (cuda_event event), cuEventQuery(event))
FORWARD(hipEventSynchronize, (cuda_event event), cuEventSynchronize(event))
FORWARD(hipEventDestroy, (cuda_event event), cuEventDestroy_v2(event))
FORWARD(hipHostRegister, (void *ptr, size_t length, unsigned flags), cuMemHostRegister_v2(ptr, length, flags))
FORWARD(hipHostUnregister, (void *ptr), cuMemHostUnregister(ptr))
FORWARD(hipMemcpy, (cuda_ptr to, cuda_ptr from, size_t length, int kind),
        (kind == HIP_DEFAULT) ? cuMemcpy(to, from, length) : CUDA_INVALID_VALUE)
FORWARD(hipMemcpyAsync, (cuda_ptr to, cuda_ptr from, size_t length, int kind, cuda_stream stream),
        (kind == HIP_DEFAULT) ? cuMemcpyAsync(to, from, length, stream) : CUDA_INVALID_VALUE)
FORWARD(hipMemsetD8Async, (cuda_ptr to, unsigned char byte, size_t length, cuda_stream stream),
        cuMemsetD8Async(to, byte, length, stream))
FORWARD(hipMalloc, (cuda_ptr * ptr, size_t length), cuMemAlloc_v2(ptr, length))
FORWARD(hipMallocManaged, (cuda_ptr * ptr, size_t length, unsigned flags), cuMemAllocManaged(ptr, length, flags))
FORWARD(hipMallocAsync, (cuda_ptr * ptr, size_t length, cuda_stream stream), cuMemAllocAsync(ptr, length, stream))
FORWARD(hipFree, (cuda_ptr ptr), cuMemFree_v2(ptr))
FORWARD(hipIpcGetMemHandle, (struct cuda_ipc_handle * handle, cuda_ptr ptr), cuIpcGetMemHandle(handle, ptr))
FORWARD(hipIpcOpenMemHandle, (cuda_ptr * ptr, struct cuda_ipc_handle handle, unsigned flags),
        cuIpcOpenMemHandle_v2(ptr, handle, flags))
FORWARD(hipIpcCloseMemHandle, (cuda_ptr ptr), cuIpcCloseMemHandle(ptr))
FORWARD(hipMemGetHandleForAddressRange, (void *out, cuda_ptr ptr, size_t length, int type, unsigned long long flags),
        cuMemGetHandleForAddressRange(out, ptr, length, type, flags))
FORWARD(hipMemRetainAllocationHandle, (cuda_piece * piece, void *ptr), cuMemRetainAllocationHandle(piece, ptr))
FORWARD(hipMemExportToShareableHandle, (void *out, cuda_piece piece, int type, unsigned long long flags),
        cuMemExportToShareableHandle(out, piece, type, flags))
FORWARD(hipMemImportFromShareableHandle, (cuda_piece * piece, void *handle, int type),
        cuMemImportFromShareableHandle(piece, handle, type))
FORWARD(hipMemRelease, (cuda_piece piece), cuMemRelease(piece))
FORWARD(hipMemMap, (cuda_ptr ptr, size_t length, size_t offset, cuda_piece piece, unsigned long long flags),
        cuMemMap(ptr, length, offset, piece, flags))
FORWARD(hipMemUnmap, (cuda_ptr ptr, size_t length), cuMemUnmap(ptr, length))
FORWARD(hipMemSetAccess, (cuda_ptr ptr, size_t length, const struct cuda_access *access, size_t count),
        cuMemSetAccess(ptr, length, access, count))
FORWARD(hipMemAddressReserve,
        (cuda_ptr * ptr, size_t length, size_t alignment, cuda_ptr hint, unsigned long long flags),
        cuMemAddressReserve(ptr, length, alignment, hint, flags))
FORWARD(hipMemAddressFree, (cuda_ptr ptr, size_t length), cuMemAddressFree(ptr, length))
