/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of base/pack_choice.h.
 */
#include "base/pack_choice.h"

#include "os/clock.h"

#define WEIGHT 4u /* of the recent time against that of one more piece, and the limit of the latter: interrupts */

uint64_t cw_pack_ticks(uint64_t start)
{
    return (cw_clock_ticks() - start) | 1;
}

void cw_pack_note(struct cw_pack_choice *choice, bool straight, size_t length, uint64_t ticks)
{
    const uint64_t recent = choice->ticks[straight], limit = (recent > 0) ? WEIGHT * recent : UINT32_MAX;
    const bool faster = choice->is_faster;
    uint64_t now;

    if (length < CW_PACK_LEAST) {
        return;
    }
    choice->pieces++;
    if (ticks == 0) {
        return;
    }
    now = ticks / (length / 1024 + 1) + 1;
    now = (now < limit) ? now : limit;
    now = (recent > 0) ? ((WEIGHT - 1) * recent + now) / WEIGHT : now;
    choice->ticks[straight] = (now < UINT32_MAX) ? (uint32_t)now : UINT32_MAX;
    if (choice->ticks[!faster] != 0 && choice->ticks[!faster] < choice->ticks[faster] / 8 * 7) {
        choice->is_faster = !faster;
    }
}
