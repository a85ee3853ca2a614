/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of HIP that the second library of the stand-in has, libamdhip64.so.6, as the reference of HIP has them.
 * The variable CW_STANDIN_HIP=5 makes it HIP 5, whose numbers of types of memory are others.
 */
#ifndef CW_TEST_GPU_STANDIN_HIP_H
#define CW_TEST_GPU_STANDIN_HIP_H

#include "standin.h"

enum { HIP_DEFAULT = 4 }; /* hipMemcpyKind */

int hipInit(unsigned flags);
int hipRuntimeGetVersion(int *version);
int hipGetDeviceCount(int *count);
int hipDeviceGetName(char *name, int length, int device);
int hipDeviceTotalMem(size_t *bytes, int device);
int hipGetDevice(int *device);
int hipSetDevice(int device);
int hipDeviceReset(void);
int hipGetLastError(void);
int hipPeekAtLastError(void);
const char *hipGetErrorName(int result);
int hipDrvPointerGetAttributes(unsigned count, int *attributes, void **data, cuda_ptr ptr);
int hipStreamCreateWithFlags(cuda_stream *stream, unsigned flags);
int hipDeviceSynchronize(void);
int hipStreamSynchronize(cuda_stream stream);
int hipEventCreateWithFlags(cuda_event *event, unsigned flags);
int hipEventRecord(cuda_event event, cuda_stream stream);
int hipEventQuery(cuda_event event);
int hipEventSynchronize(cuda_event event);
int hipEventDestroy(cuda_event event);
int hipHostRegister(void *ptr, size_t length, unsigned flags);
int hipHostUnregister(void *ptr);
int hipMemcpy(cuda_ptr to, cuda_ptr from, size_t length, int kind);
int hipMemcpyAsync(cuda_ptr to, cuda_ptr from, size_t length, int kind, cuda_stream stream);
int hipMemsetD8Async(cuda_ptr to, unsigned char byte, size_t length, cuda_stream stream);
int hipMalloc(cuda_ptr *ptr, size_t length);
int hipMallocManaged(cuda_ptr *ptr, size_t length, unsigned flags);
int hipMallocAsync(cuda_ptr *ptr, size_t length, cuda_stream stream);
int hipFree(cuda_ptr ptr);
int hipIpcGetMemHandle(struct cuda_ipc_handle *handle, cuda_ptr ptr);
int hipIpcOpenMemHandle(cuda_ptr *ptr, struct cuda_ipc_handle handle, unsigned flags);
int hipIpcCloseMemHandle(cuda_ptr ptr);
int hipMemRetainAllocationHandle(cuda_piece *piece, void *ptr);
int hipMemExportToShareableHandle(void *out, cuda_piece piece, int type, unsigned long long flags);
int hipMemImportFromShareableHandle(cuda_piece *piece, void *handle, int type);
int hipMemRelease(cuda_piece piece);
int hipMemMap(cuda_ptr ptr, size_t length, size_t offset, cuda_piece piece, unsigned long long flags);
int hipMemUnmap(cuda_ptr ptr, size_t length);
int hipMemSetAccess(cuda_ptr ptr, size_t length, const struct cuda_access *access, size_t count);
int hipMemAddressReserve(cuda_ptr *ptr, size_t length, size_t alignment, cuda_ptr hint, unsigned long long flags);
int hipMemAddressFree(cuda_ptr ptr, size_t length);
int hipMemGetHandleForAddressRange(void *out, cuda_ptr ptr, size_t length, int type, unsigned long long flags);

#endif
