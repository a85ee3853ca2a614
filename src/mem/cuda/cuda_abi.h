/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the CUDA driver ABI (libcuda.so.1) that the library uses: names, numbers, parameters. The build needs no
 * file of NVIDIA. CUDA_CALLS lists the functions; the table of pointers and the declarations of the tests' mock driver
 * are generated from it.
 */
#ifndef CW_MEM_CUDA_ABI_H
#define CW_MEM_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t cuda_ptr;                 /* CUdeviceptr */
typedef struct cuda_context *cuda_context; /* handles */
typedef struct cuda_stream *cuda_stream;
typedef struct cuda_event *cuda_event;
typedef void (*cuda_host_function)(void *arg);
/* CUipcMemHandle */
struct cuda_ipc_handle {
    unsigned char bytes[64];
};

/* CUmemGenericAllocationHandle */
typedef unsigned long long cuda_piece;
/* CUmemAccessDesc */
struct cuda_access {
    int location_type;
    int location;
    int flags;
};

/* CUDA_MEMCPY2D */
struct cuda_side {
    size_t x, y;
    int type; /* CUmemorytype */
    void *host;
    cuda_ptr device;
    void *array;
    size_t pitch;
};
struct cuda_rows {
    struct cuda_side from, to;
    size_t width, height;
};
/* CUstreamBatchMemOpParams */
struct cuda_operation {
    int kind;
    cuda_ptr address;
    uint64_t value;
    unsigned flags;
    uint64_t reserved[2];
};

/* CUresult */
enum {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_NO_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_ALREADY_MAPPED = 208,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_CONTEXT_DESTROYED = 709,
    CUDA_NOT_SUPPORTED = 801
};

/* CUpointer_attribute */
enum {
    CUDA_POINTER_CONTEXT = 1,  /* cuda_context; NULL for pools and mapped allocations */
    CUDA_POINTER_MEMORY_TYPE = 2,  /* unsigned; 0: the driver does not know the address */
    CUDA_POINTER_BUFFER_ID = 7,  /* unsigned long long; unique in the process, never reused */
    CUDA_POINTER_IS_MANAGED = 8,  /* unsigned */
    CUDA_POINTER_ORDINAL = 9,  /* int; number of the device */
    CUDA_POINTER_RANGE_START = 11, /* void * */
    CUDA_POINTER_RANGE_SIZE = 12, /* size_t */
    /* Older drivers do not know the next two. */
    CUDA_POINTER_MAPPING_SIZE = 18, /* size_t; of the mapping of one piece */
    CUDA_POINTER_MAPPING_START = 19  /* void * */
};

/* CUmemorytype */
enum { CUDA_MEMORY_HOST = 1, CUDA_MEMORY_DEVICE = 2 };

enum {
    CUDA_STREAM_NON_BLOCKING = 1, /* does not wait for the program's work on the default stream */
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_HOST_PORTABLE = 1, /* pinned for all contexts */
    CUDA_MANAGED_GLOBAL = 1,
    CUDA_IPC_LAZY_PEERS = 1, /* also opens memory of another device */
    CUDA_HANDLE_DESCRIPTOR = 1, /* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
    CUDA_LOCATION_DEVICE = 1,
    CUDA_WRITE_32 = 2, /* CUstreamBatchMemOpType: the stream writes a word */
    CUDA_WRITE_64 = 5,
    CUDA_ACCESS_READ_WRITE = 3,
    CUDA_RANGE_DMABUF = 1, /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
    CUDA_POINTER_SYNC_MEMOPS = 6  /* an attribute to set, unsigned: makes all synchronous memory functions truly
                                     synchronous */
};

/* CALL(function of the table, symbol, parameters). Every function returns a CUresult. */
#define CUDA_CALLS(CALL)                                                                                               \
    CALL(device_count, cuDeviceGetCount, (int *count))                                                                 \
    CALL(pointer_attributes, cuPointerGetAttributes, (unsigned count, int *attributes, void **data, cuda_ptr ptr))     \
    CALL(context_current, cuCtxGetCurrent, (cuda_context * context))                                                   \
    CALL(context_push, cuCtxPushCurrent_v2, (cuda_context context))                                                    \
    CALL(context_pop, cuCtxPopCurrent_v2, (cuda_context * context))                                                    \
    CALL(context_device, cuCtxGetDevice, (int *device))                                                                \
    CALL(context_version, cuCtxGetApiVersion, (cuda_context context, unsigned *version))                               \
    CALL(primary_state, cuDevicePrimaryCtxGetState, (int device, unsigned *flags, int *active))                        \
    CALL(primary_retain, cuDevicePrimaryCtxRetain, (cuda_context * context, int device))                               \
    CALL(stream_create, cuStreamCreate, (cuda_stream * stream, unsigned flags))                                        \
    CALL(stream_synchronize, cuStreamSynchronize, (cuda_stream stream))                                                \
    CALL(event_create, cuEventCreate, (cuda_event * event, unsigned flags))                                            \
    CALL(event_record, cuEventRecord, (cuda_event event, cuda_stream stream))                                          \
    CALL(event_query, cuEventQuery, (cuda_event event))                                                                \
    CALL(event_synchronize, cuEventSynchronize, (cuda_event event))                                                    \
    CALL(event_destroy, cuEventDestroy_v2, (cuda_event event))                                                         \
    CALL(host_register, cuMemHostRegister_v2, (void *ptr, size_t length, unsigned flags))                              \
    CALL(host_unregister, cuMemHostUnregister, (void *ptr))                                                            \
    CALL(copy_async, cuMemcpyAsync, (cuda_ptr to, cuda_ptr from, size_t length, cuda_stream stream))                   \
    CALL(set_async, cuMemsetD8Async, (cuda_ptr to, unsigned char byte, size_t length, cuda_stream stream))             \
    CALL(alloc, cuMemAlloc_v2, (cuda_ptr * ptr, size_t length))                                                        \
    CALL(alloc_managed, cuMemAllocManaged, (cuda_ptr * ptr, size_t length, unsigned flags))                            \
    CALL(free, cuMemFree_v2, (cuda_ptr ptr))                                                                           \
    CALL(error_name, cuGetErrorName, (int result, const char **name))

/* Functions that older drivers, or drivers of some systems, lack. */
#define CUDA_CALLS_OPTIONAL(CALL)                                                                                      \
    CALL(copy_rows, cuMemcpy2DAsync_v2, (const struct cuda_rows *rows, cuda_stream stream))                            \
    CALL(operate, cuStreamBatchMemOp_v2,                                                                               \
         (cuda_stream stream, unsigned count, struct cuda_operation *operations, unsigned flags))                      \
    CALL(context_id, cuCtxGetId, (cuda_context context, unsigned long long *id))                                       \
    CALL(ipc_get, cuIpcGetMemHandle, (struct cuda_ipc_handle * handle, cuda_ptr ptr))                                  \
    CALL(ipc_open, cuIpcOpenMemHandle_v2, (cuda_ptr * ptr, struct cuda_ipc_handle handle, unsigned flags))             \
    CALL(ipc_close, cuIpcCloseMemHandle, (cuda_ptr ptr))                                                               \
    CALL(piece_retain, cuMemRetainAllocationHandle, (cuda_piece * piece, void *ptr))                                   \
    CALL(piece_export, cuMemExportToShareableHandle,                                                                   \
         (void *out, cuda_piece piece, int type, unsigned long long flags))                                            \
    CALL(piece_import, cuMemImportFromShareableHandle, (cuda_piece * piece, void *handle, int type))                   \
    CALL(piece_release, cuMemRelease, (cuda_piece piece))                                                              \
    CALL(piece_map, cuMemMap,                                                                                          \
         (cuda_ptr ptr, size_t length, size_t offset, cuda_piece piece, unsigned long long flags))                     \
    CALL(piece_unmap, cuMemUnmap, (cuda_ptr ptr, size_t length))                                                       \
    CALL(piece_access, cuMemSetAccess, (cuda_ptr ptr, size_t length, const struct cuda_access *access, size_t count))  \
    CALL(address_reserve, cuMemAddressReserve,                                                                         \
         (cuda_ptr * ptr, size_t length, size_t alignment, cuda_ptr hint, unsigned long long flags))                   \
    CALL(address_free, cuMemAddressFree, (cuda_ptr ptr, size_t length))                                                \
    CALL(range_export, cuMemGetHandleForAddressRange,                                                                  \
         (void *out, cuda_ptr ptr, size_t length, int type, unsigned long long flags))                                 \
    CALL(pointer_set, cuPointerSetAttribute, (const void *value, int attribute, cuda_ptr ptr))

#endif
