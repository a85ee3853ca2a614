/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kinds of memory that a buffer can lie in.
 * Callers: users of ucp_request_param_t::memory_type, ucp_mem_map_params_t and the query calls.
 */
#ifndef UCS_MEMORY_TYPE_H
#define UCS_MEMORY_TYPE_H

#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Kind of memory. A bit mask over these numbers has bit (1 << type). */
typedef enum ucs_memory_type {
    UCS_MEMORY_TYPE_HOST,         /**< Ordinary memory of the process. */
    UCS_MEMORY_TYPE_CUDA,         /**< NVIDIA device memory. */
    UCS_MEMORY_TYPE_CUDA_MANAGED, /**< NVIDIA memory that migrates between host and device. */
    UCS_MEMORY_TYPE_ROCM,         /**< AMD device memory. */
    UCS_MEMORY_TYPE_ROCM_MANAGED, /**< AMD memory that migrates between host and device. */
    UCS_MEMORY_TYPE_RDMA,         /**< Memory on the network adapter. */
    UCS_MEMORY_TYPE_ZE_HOST,      /**< Level Zero: host memory that its devices reach. */
    UCS_MEMORY_TYPE_ZE_DEVICE,    /**< Level Zero: memory of a device. */
    UCS_MEMORY_TYPE_ZE_MANAGED,   /**< Level Zero: memory that migrates between host and device. */
    UCS_MEMORY_TYPE_GAUDI,        /**< Memory of a Gaudi device. */
    UCS_MEMORY_TYPE_LAST,         /**< Number of kinds: differs between API levels. */
    /** To be found out from the address. The library reads the number as the header of the caller meant it. */
    UCS_MEMORY_TYPE_UNKNOWN = UCS_MEMORY_TYPE_LAST
} ucs_memory_type_t;

/** Flags of a piece of memory. */
typedef enum ucs_mem_flags {
    UCS_MEM_FLAG_REGISTRABLE = UCS_BIT(0) /**< A device can register it. */
} ucs_mem_flags_t;

/** Bit mask of the kinds that the processor can always read and write directly. */
#define UCS_MEMORY_TYPES_CPU_ACCESSIBLE \
    (UCS_BIT(UCS_MEMORY_TYPE_HOST) | UCS_BIT(UCS_MEMORY_TYPE_ROCM_MANAGED) | UCS_BIT(UCS_MEMORY_TYPE_ZE_HOST) | \
     UCS_BIT(UCS_MEMORY_TYPE_ZE_MANAGED))

/** Loop head: @a mem_type (a ucs_memory_type_t variable) takes each kind in turn. */
#define ucs_memory_type_for_each(mem_type) \
    for ((mem_type) = UCS_MEMORY_TYPE_HOST; (mem_type) < UCS_MEMORY_TYPE_LAST; \
         (mem_type) = (ucs_memory_type_t)((mem_type) + 1))

/** Short names by kind ("host", "cuda", ...), one for UCS_MEMORY_TYPE_UNKNOWN, then NULL. */
extern const char *ucs_memory_type_names[];

/** Descriptions for people by kind, one for UCS_MEMORY_TYPE_UNKNOWN; no NULL at the end. */
extern const char *ucs_memory_type_descs[];

#pragma GCC visibility pop
END_C_DECLS

#endif
