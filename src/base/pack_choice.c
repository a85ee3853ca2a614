/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of base/pack_choice.h.
 */
#include "base/pack_choice.h"

#include "os/clock.h"

#define WEIGHT 4u /* of the recent time against that of one more piece, and the limit of the latter: interrupts */

/* The longest time of a piece, in ticks: the other way's bounds the first one of a way. */
static uint64_t longest(const struct cw_pack_choice *choice, bool straight)
{
    const uint32_t recent = choice->ticks[straight], other = choice->ticks[!straight];

    if (recent == 0 && other == 0) {
        return UINT32_MAX;
    }
    return (uint64_t)WEIGHT * ((recent > 0) ? recent : other);
}

uint64_t cw_pack_ticks(uint64_t start)
{
    return (cw_clock_ticks() - start) | 1;
}

void cw_pack_note(struct cw_pack_choice *choice, bool straight, size_t length, uint64_t ticks)
{
    const uint64_t recent = choice->ticks[straight], limit = longest(choice, straight);
    const bool faster = choice->is_faster;
    uint64_t now;

    if (length < CW_PACK_LEAST) {
        return;
    }
    choice->pieces++;
    if (ticks == 0) {
        return;
    }
    now = ((ticks < UINT32_MAX) ? ticks : UINT32_MAX) * 64 / (length / 1024 + 1) + 1;
    now = (now < limit) ? now : limit;
    now = (recent > 0) ? ((WEIGHT - 1) * recent + now) / WEIGHT : now;
    choice->ticks[straight] = (now < UINT32_MAX) ? (uint32_t)now : UINT32_MAX;
    if (choice->ticks[!faster] != 0 && UINT64_C(8) * choice->ticks[!faster] < UINT64_C(7) * choice->ticks[faster]) {
        choice->is_faster = !faster;
    }
}
