/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of device (GPU) memory with one domain (mem/domain.h), for direct access by a fabric device. The
 * memory's own domain (mem/md.h) exports it as a dma-buf, or the fabric's domain accepts the address.
 *
 * Registrations are cached, each with the number of its allocation. The program may free that allocation and get
 * another one at the same address, so the number is checked before each use; a registration of another number is never
 * reused. An unused registration pins freed memory, so each new registration evicts all unused ones of freed memory.
 * Thread safe.
 */
#ifndef CW_MEM_DEVICE_H
#define CW_MEM_DEVICE_H

#include "base/list.h"
#include "mem/cache.h"
#include "mem/md.h"

struct cw_device_regs;

/* A registration that is in use until cw_device_regs_put. */
struct cw_device_reg {
    const struct cw_memh *memh;
    struct cw_domain_range range;
    struct cw_device_regs *regs;
    const struct cw_md *md;
    struct cw_list link; /* in the list of cached ones, most recently used last */
    uint64_t number;     /* of the allocation */
    unsigned uses;
    uint8_t is_retained; /* in the list; else deregistered after its last use */
};

/* NULL: out of memory. `limits` bound the cache. */
struct cw_device_regs *cw_device_regs_new(struct cw_domain *domain, const struct cw_cache_limits *limits);
/* No registration may be in use. NULL is allowed and does nothing. */
void cw_device_regs_free(struct cw_device_regs *regs);

/* Whether the domain may reach memory of that type: it accepts the type, and the type's own domain can export the
 * memory to it. */
int cw_device_regs_suit(const struct cw_domain *domain, ucs_memory_type_t type);
/* As cw_device_regs_suit; if not, logs the cost once. */
int cw_device_regs_accept(const struct cw_domain *domain, ucs_memory_type_t type);
/* A registration of the allocation around these bytes with all of these rights. UCS_ERR_UNSUPPORTED: the device does
 * not reach it (the cost is logged once); UCS_ERR_NO_MEMORY: registrations in use exhaust the limits. */
ucs_status_t cw_device_regs_get(struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory, size_t length,
                                unsigned rights, struct cw_device_reg **reg_p);
void cw_device_regs_put(struct cw_device_reg *reg);
/* Registers these bytes alone; the caller deregisters them. Errors: as cw_device_regs_get. */
ucs_status_t cw_device_regs_apart(struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory,
                                  size_t length, unsigned rights, struct cw_memh **memh_p);

#endif
