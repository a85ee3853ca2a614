/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays of names that programs read by index.
 *
 * Invariants: programs compiled with copy relocations have these sizes built in, so the number of entries, the closing
 * NULL included, is part of the ABI (rows "var" of the interface facts, checked by the assertions below).
 */
#include <ucs/config/types.h>
#include <ucs/memory/memory_type.h>
#include <ucs/type/thread_mode.h>

const char *ucs_memory_type_names[] = {
    [UCS_MEMORY_TYPE_HOST] = "host",
    [UCS_MEMORY_TYPE_CUDA] = "cuda",
    [UCS_MEMORY_TYPE_CUDA_MANAGED] = "cuda-managed",
    [UCS_MEMORY_TYPE_ROCM] = "rocm",
    [UCS_MEMORY_TYPE_ROCM_MANAGED] = "rocm-managed",
    [UCS_MEMORY_TYPE_RDMA] = "rdma",
    [UCS_MEMORY_TYPE_ZE_HOST] = "ze-host",
    [UCS_MEMORY_TYPE_ZE_DEVICE] = "ze-device",
    [UCS_MEMORY_TYPE_ZE_MANAGED] = "ze-managed",
    [UCS_MEMORY_TYPE_GAUDI] = "gaudi",
    [UCS_MEMORY_TYPE_UNKNOWN] = "unknown",
    [UCS_MEMORY_TYPE_UNKNOWN + 1] = NULL,
};

const char *ucs_memory_type_descs[] = {
    [UCS_MEMORY_TYPE_HOST] = "System memory",
    [UCS_MEMORY_TYPE_CUDA] = "NVIDIA GPU memory",
    [UCS_MEMORY_TYPE_CUDA_MANAGED] = "NVIDIA GPU managed/unified memory",
    [UCS_MEMORY_TYPE_ROCM] = "AMD/ROCm GPU memory",
    [UCS_MEMORY_TYPE_ROCM_MANAGED] = "AMD/ROCm GPU managed memory",
    [UCS_MEMORY_TYPE_RDMA] = "RDMA device memory",
    [UCS_MEMORY_TYPE_ZE_HOST] = "Level Zero host memory",
    [UCS_MEMORY_TYPE_ZE_DEVICE] = "Level Zero device memory",
    [UCS_MEMORY_TYPE_ZE_MANAGED] = "Level Zero managed memory",
    [UCS_MEMORY_TYPE_GAUDI] = "Gaudi device memory",
    [UCS_MEMORY_TYPE_UNKNOWN] = "unknown",
};

const char *ucs_async_mode_names[] = {
    [UCS_ASYNC_MODE_SIGNAL] = "signal",
    [UCS_ASYNC_MODE_THREAD_SPINLOCK] = "thread_spinlock",
    [UCS_ASYNC_MODE_THREAD_MUTEX] = "thread_mutex",
    [UCS_ASYNC_MODE_POLL] = "poll",
    [UCS_ASYNC_MODE_LAST] = NULL,
};

const char *ucs_thread_mode_names[] = {
    [UCS_THREAD_MODE_SINGLE] = "single",
    [UCS_THREAD_MODE_SERIALIZED] = "serialized",
    [UCS_THREAD_MODE_MULTI] = "multi",
};

const char *ucs_log_level_names[] = {
    [UCS_LOG_LEVEL_FATAL] = "FATAL",    [UCS_LOG_LEVEL_ERROR] = "ERROR",      [UCS_LOG_LEVEL_WARN] = "WARN",
    [UCS_LOG_LEVEL_DIAG] = "DIAG",      [UCS_LOG_LEVEL_INFO] = "INFO",        [UCS_LOG_LEVEL_DEBUG] = "DEBUG",
    [UCS_LOG_LEVEL_TRACE] = "TRACE",    [UCS_LOG_LEVEL_TRACE_REQ] = "REQ",    [UCS_LOG_LEVEL_TRACE_DATA] = "DATA",
    [UCS_LOG_LEVEL_TRACE_ASYNC] = "ASYNC", [UCS_LOG_LEVEL_TRACE_FUNC] = "FUNC", [UCS_LOG_LEVEL_TRACE_POLL] = "POLL",
    [UCS_LOG_LEVEL_LAST] = NULL,        [UCS_LOG_LEVEL_PRINT] = "PRINT",
};

_Static_assert(sizeof(ucs_memory_type_names) == 12 * sizeof(char *), "size is ABI");
_Static_assert(sizeof(ucs_memory_type_descs) == 11 * sizeof(char *), "size is ABI");
_Static_assert(sizeof(ucs_async_mode_names) == 5 * sizeof(char *), "size is ABI");
_Static_assert(sizeof(ucs_thread_mode_names) == 3 * sizeof(char *), "size is ABI");
_Static_assert(sizeof(ucs_log_level_names) == 14 * sizeof(char *), "size is ABI");
