/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More threads than processors: decides when a thread that polls and finds nothing yields its processor, so that the
 * thread it waits for can run (docs/why/threads.md). Pure: ticks and times come from the caller.
 */
#ifndef CW_CORE_YIELD_POLICY_H
#define CW_CORE_YIELD_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Yields of a trial; one of them may let a thread run that does not yield yet. */
#define CW_YIELD_TRIES 2u

struct cw_yield_policy {
    unsigned yields;      /* yields that are left */
    unsigned due;         /* the caller of progress is to yield after it released the lock */
    uint64_t rest_until;  /* ticks: no trial begins before this ... */
    uint64_t rest;        /* ... and the next pause is twice this one */
    uint64_t busy_rounds; /* of progress, when the clock was read last */
    uint64_t idle_since;  /* ticks: no packet has come since */
    uint64_t switches;    /* of the thread, when they were last read */
};

/* Two rounds of progress found nothing, and in between it was not called for a while, or its thread did not run. */
void cw_yield_starved(struct cw_yield_policy *policy, uint64_t ticks);

/* The thread yielded and ran again after took_ns; `switches`: of the thread, 0 if unknown and not needed. */
void cw_yield_ended(struct cw_yield_policy *policy, uint64_t ticks, uint64_t took_ns, uint64_t switches);

/* Whether `switches` matter after a yield that took this long. */
int cw_yield_asks_for_switches(uint64_t took_ns);

/* Whether yields paid recently, so that the next one needs little evidence. */
static inline bool cw_yield_is_habit(const struct cw_yield_policy *policy)
{
    return policy->yields > CW_YIELD_TRIES;
}

#endif
