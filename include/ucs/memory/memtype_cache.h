/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory kinds for programs that include this header by habit.
 * It gives ucs_memory_type_t. Not here: ucs_memtype_cache_lookup() and ucs_memtype_cache_update(). The library keeps no
 * such cache: it knows host memory only, and a program states another kind in ucp_request_param_t::memory_type.
 */
#ifndef UCS_MEMTYPE_CACHE_H
#define UCS_MEMTYPE_CACHE_H

#include <ucs/memory/memory_type.h>
#include <ucs/type/status.h>

#endif
