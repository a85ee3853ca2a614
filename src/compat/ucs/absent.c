/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of libucs without an implementation: a cache of memory types and asynchronous contexts. Their results let
 * callers continue without them.
 *
 * Invariants: no state; callable from any thread at any time.
 */
#include <stddef.h>
#include <ucs/async/async_fwd.h>
#include <ucs/memory/memtype_cache.h>

ucs_status_t ucs_memtype_cache_lookup(const void *address, size_t size, ucs_memory_info_t *mem_info)
{
    (void)address;
    (void)size;
    (void)mem_info;
    return UCS_ERR_NO_ELEM;
}

void ucs_memtype_cache_update(const void *address, size_t size, ucs_memory_type_t mem_type, ucs_sys_device_t sys_dev)
{
    (void)address;
    (void)size;
    (void)mem_type;
    (void)sys_dev;
}

ucs_status_t ucs_async_context_create(ucs_async_mode_t mode, ucs_async_context_t **async_p)
{
    (void)mode;
    if (async_p != NULL) {
        *async_p = NULL;
    }
    return UCS_ERR_UNSUPPORTED;
}

void ucs_async_context_destroy(ucs_async_context_t *async)
{
    (void)async;
}
