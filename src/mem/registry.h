/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of all kinds of memory domains that are built in. A domain whose device is absent has no memory types.
 */
#ifndef CW_MEM_REGISTRY_H
#define CW_MEM_REGISTRY_H

#include "mem/md.h"

/* Ends with NULL. */
extern const struct cw_md *const cw_mds[];

/* The domain that copies memory of that type, or NULL; for memory of the host it is cw_md_host. */
const struct cw_md *cw_md_of_type(ucs_memory_type_t type);
/* The type of this memory, or UCS_MEMORY_TYPE_HOST if no domain recognizes its addresses. */
ucs_memory_type_t cw_md_find(const void *ptr, size_t length);

#endif
