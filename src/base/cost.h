/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The least time that work on many bytes has taken, per KiB: longer times are of interrupts, page faults or caches.
 */
#ifndef CW_BASE_COST_H
#define CW_BASE_COST_H

#include <stddef.h>
#include <stdint.h>

/* Threads may share it. */
struct cw_cost {
    uint32_t ns; /* of a KiB; CW_COST_UNKNOWN at first */
};

#define CW_COST_UNKNOWN UINT32_MAX

static inline uint64_t cw_cost_of(const struct cw_cost *cost)
{
    return __atomic_load_n(&cost->ns, __ATOMIC_RELAXED);
}

/* Returns what cw_cost_note needs after the work. */
uint64_t cw_cost_start(void);
/* Records the work on `length` bytes, 1 KiB or more. */
void cw_cost_note(struct cw_cost *cost, uint64_t start, size_t length);

#endif
