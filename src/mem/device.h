/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of devices (GPUs) that the device of a fabric reaches by itself: registrations with one domain
 * (mem/domain.h). The memory's own domain (mem/md.h) makes a dma-buf of it, or the fabric's domain takes the address.
 *
 * A registration that was made for one message is kept for the next one, with the number of the allocation. The program
 * may have freed that allocation and may have another one at its address, so the number is asked for before each use; a
 * registration of another number is never used again. An unused registration keeps freed memory from the system, so
 * whenever something new is registered, all unused ones of freed memory end. Thread safe.
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
    struct cw_list link; /* in the list of the kept ones: the last used at its end */
    uint64_t number;     /* of the allocation */
    unsigned uses;
    uint8_t is_retained; /* it is in the list; else it ends with its last use */
};

/* NULL: no memory. `limits` bound what is kept. */
struct cw_device_regs *cw_device_regs_new(struct cw_domain *domain, const struct cw_cache_limits *limits);
/* No registration is in use any more. NULL: nothing happens. */
void cw_device_regs_free(struct cw_device_regs *regs);

/* Whether the domain may reach memory of that type: it takes the type, and the type's own domain can name the memory to
 * it. */
int cw_device_regs_suit(const struct cw_domain *domain, ucs_memory_type_t type);
/* As well; if not, the log says once what that costs. */
int cw_device_regs_take(const struct cw_domain *domain, ucs_memory_type_t type);
/* A registration of the allocation around these bytes with all of these rights. UCS_ERR_UNSUPPORTED: the device does
 * not reach it, and the log has said once what that costs; UCS_ERR_NO_MEMORY: what is in use fills the limits. */
ucs_status_t cw_device_regs_get(struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory, size_t length,
                                unsigned rights, struct cw_device_reg **reg_p);
void cw_device_regs_put(struct cw_device_reg *reg);
/* Registers these bytes alone, for the caller, who deregisters them. Fails as cw_device_regs_get. */
ucs_status_t cw_device_regs_apart(struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory,
                                  size_t length, unsigned rights, struct cw_memh **memh_p);

#endif
