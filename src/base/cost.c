/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock behind base/cost.h, for files that make no system calls.
 */
#include "base/cost.h"

#include "os/clock.h"

uint64_t cw_cost_start(void)
{
    return cw_clock_ns();
}

void cw_cost_note(struct cw_cost *cost, uint64_t start, size_t length)
{
    const uint64_t now = (cw_clock_ns() - start) / (length / 1024) + 1;

    if (now < cw_cost_of(cost)) {
        __atomic_store_n(&cost->ns, (uint32_t)now, __ATOMIC_RELAXED);
    }
}
