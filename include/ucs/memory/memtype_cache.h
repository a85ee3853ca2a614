/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache of memory kinds by address, for programs that look addresses up in it. libucs has no such
 * cache, so every look-up finds nothing; libucp finds the kind of a buffer by itself unless the program states it in
 * ucp_request_param_t::memory_type. Any thread may call these at any time.
 */
#ifndef UCS_MEMTYPE_CACHE_H
#define UCS_MEMTYPE_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <ucs/memory/memory_type.h>
#include <ucs/type/status.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Number of a device in the system. */
typedef uint8_t ucs_sys_device_t;

/** No known device. */
#define UCS_SYS_DEVICE_ID_UNKNOWN UINT8_MAX

/** Result of a look-up. */
typedef struct ucs_memory_info {
    ucs_memory_type_t type;         /**< Kind of the memory. */
    ucs_sys_device_t  sys_dev;      /**< Device it lies on. */
    void             *base_address; /**< Start of the allocation. */
    size_t            alloc_length; /**< Its bytes. */
} ucs_memory_info_t;

/**
 * Looks up what kind of memory a range is.
 *
 * @param address   Start of the range.
 * @param size      Its bytes.
 * @param mem_info  Where the answer would go; may be NULL. Never written.
 *
 * @return UCS_ERR_NO_ELEM: nothing is known about it, which means host memory.
 */
ucs_status_t ucs_memtype_cache_lookup(const void *address, size_t size, ucs_memory_info_t *mem_info);

/**
 * Reports what kind of memory a range is. Does nothing.
 *
 * @param address   Start of the range.
 * @param size      Its bytes.
 * @param mem_type  Kind of the memory.
 * @param sys_dev   Device it lies on.
 */
void ucs_memtype_cache_update(const void *address, size_t size, ucs_memory_type_t mem_type, ucs_sys_device_t sys_dev);

#pragma GCC visibility pop
END_C_DECLS

#endif
