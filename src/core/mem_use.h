/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the program that a device uses for one request: by the region that the program mapped, by a cached
 * registration (mem/cache.h), or by one for that request. A peer's right to write ends with the request; so does its
 * right to read, unless the registration is cached.
 */
#ifndef CW_CORE_MEM_USE_H
#define CW_CORE_MEM_USE_H

#include <stdbool.h>

#include "core/context.h"
#include "mem/cache.h"
#include "mem/device.h"
#include "mem/domain.h"
#include "wire/key.h"

/* All zero: no memory. */
struct cw_mem_use {
    const struct cw_memh *memh;   /* NULL: none */
    struct ucp_mem *mapped;       /* the region of the program that `memh` belongs to, with a hold; NULL: none */
    struct cw_memh *own;          /* made for this use; NULL: none */
    struct cw_cached *cached;     /* of the cache; NULL: not cached */
    struct cw_device_reg *retained; /* of GPU memory, cached (mem/device.h); NULL: not cached */
    struct cw_domain_range range; /* the registered range, which contains the memory */
};

/* Contiguous memory of the program. */
struct cw_mem_part {
    const void *memory;
    size_t length;
    ucs_memory_type_t type;
};

/* `rights` are of enum cw_domain_rights; the registration has all of them. With CW_RIGHT_REMOTE_WRITE it is for this
 * use alone, so that the right ends with the use. UCS_ERR_NO_MEMORY, UCS_ERR_INVALID_ADDR or UCS_ERR_UNSUPPORTED as
 * `reg` of the domain; the use is then zero. */
ucs_status_t cw_mem_use_begin(struct ucp_context *context, struct cw_domain *domain, const struct cw_mem_part *part,
                              unsigned rights, struct cw_mem_use *use);
/* Whether a registration is probably free of cost: it exists, or will be cached for the next message. */
bool cw_mem_use_is_cheap(struct ucp_context *context, struct cw_domain *domain, const struct cw_mem_part *part);
/* By the region that the program mapped; 0: the memory lies in none. */
int cw_mem_use_begin_mapped(struct ucp_context *context, struct cw_domain *domain, const void *memory, size_t length,
                            unsigned rights, struct cw_mem_use *use);
/* Appends what a peer's device needs for memory of this handle to the parts of a key or an announcement, which have
 * `length` bytes so far. Returns their new length. */
size_t cw_mem_add_part(const struct cw_memh *memh, uint8_t parts[CW_KEY_PARTS_MAX], size_t length);
/* The device does not use the memory any more, and accesses with a peer's key fail. A no-op for a zeroed use. */
void cw_mem_use_end(struct cw_mem_use *use);

#endif
