/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who measures with whom.
 *
 * Callers: group.c.
 *   pairs  the processes of the first half with those of the second, all at the same time
 *   all    each with each other: a tournament, in whose rounds everybody plays one other at the same time
 *   many   all but the first with the first, all at the same time
 */
#include "plan.h"

unsigned cw_plan_rounds(enum cw_perf_pattern pattern, uint32_t size)
{
    if (pattern != CW_PATTERN_ALL) {
        return 1;
    }
    return size % 2 == 0 ? size - 1 : size;
}

/*
 * The circle of a tournament: places 0 to n - 2 move on by one each round, place n - 1 stands still; facing places
 * play. With an odd number of players the last place is empty.
 */
static uint32_t opponent(uint32_t size, unsigned round, uint32_t rank)
{
    uint32_t moving = size % 2 == 0 ? size - 1 : size;
    uint32_t other;

    if (rank == moving) {
        /* The one that stands still faces the one who would face itself: 2 x = round. */
        other = round % 2 == 0 ? round / 2 : (round + moving) / 2;
        return other;
    }
    other = (round + moving - rank) % moving;
    if (other == rank) {
        other = size % 2 == 0 ? moving : CW_NOBODY;
    }
    return other;
}

uint32_t cw_plan_server(enum cw_perf_pattern pattern, uint32_t size, unsigned round, uint32_t rank)
{
    uint32_t other;

    switch (pattern) {
    case CW_PATTERN_MANY:
        return rank == 0 ? CW_NOBODY : 0;
    case CW_PATTERN_ALL:
        other = opponent(size, round, rank);
        return other != CW_NOBODY && rank < other ? other : CW_NOBODY;
    default:
        return rank < size / 2 ? rank + size / 2 : CW_NOBODY;
    }
}

unsigned cw_plan_clients(enum cw_perf_pattern pattern, uint32_t size, unsigned round, uint32_t rank)
{
    unsigned clients = 0;

    for (uint32_t client = 0; client < size; client++) {
        clients += client != rank && cw_plan_server(pattern, size, round, client) == rank;
    }
    return clients;
}
