/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between memory of any types. All other code of the library accesses only host memory.
 */
#ifndef CW_MEM_COPY_H
#define CW_MEM_COPY_H

#include <stddef.h>

#include "ucs/memory/memory_type.h"
#include "ucs/type/status.h"

/* The copy is complete on return. UCS_ERR_UNSUPPORTED: no domain copies between these types (a copy between two kinds
 * of device has to pass through host memory); other errors come from the device. Logs errors, limited in rate. */
ucs_status_t cw_mem_copy(void *to, ucs_memory_type_t to_type, const void *from, ucs_memory_type_t from_type,
                         size_t length);

#endif
