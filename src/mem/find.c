/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the memory domain for a type, and the type of an address.
 */
#include <stddef.h>

#include "mem/registry.h"

const struct cw_md *cw_md_of_type(ucs_memory_type_t type)
{
    struct cw_md_attr attr;
    unsigned i;

    for (i = 0; cw_mds[i] != NULL; i++) {
        if ((unsigned)type >= UCS_MEMORY_TYPE_UNKNOWN ||
            (cw_mds[i]->only != 0 && !(cw_mds[i]->only & CW_MEMORY_BIT(type)))) {
            continue; /* a query may search for a driver */
        }
        cw_mds[i]->query(cw_mds[i], &attr);
        if (attr.copies & CW_MEMORY_BIT(type)) {
            return cw_mds[i];
        }
    }
    return NULL;
}

ucs_memory_type_t cw_md_find(const void *ptr, size_t length)
{
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
    unsigned i;

    for (i = 1; cw_mds[i] != NULL && type == UCS_MEMORY_TYPE_UNKNOWN; i++) { /* the first domain is the host's */
        type = cw_mds[i]->type_of(cw_mds[i], ptr, length);
    }
    return (type == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_MEMORY_TYPE_HOST : type;
}
