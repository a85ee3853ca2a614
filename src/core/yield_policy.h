/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More threads than processors: when one that looks for work in vain gives its processor away, so that the one it waits
 * for can run (docs/why/threads.md). Pure: ticks and times come from the caller.
 */
#ifndef CW_CORE_YIELD_POLICY_H
#define CW_CORE_YIELD_POLICY_H

#include <stdint.h>

/* Yields to find out; one may meet a thread that has yet to learn of us. */
#define CW_YIELD_TRIES 2u

struct cw_yield_policy {
    unsigned yields;      /* so many are left */
    unsigned due;         /* the door gives the processor away when it has left the lock */
    uint64_t rest_until;  /* ticks: none is begun before ... */
    uint64_t rest;        /* ... and the next rest is twice that */
    uint64_t busy_rounds; /* of progress, when the clock was read last */
    uint64_t idle_since;  /* ticks: nothing came since */
    uint64_t switches;    /* of the thread, when they were looked up last */
};

/* Progress came to nothing before and after a while in which it was not called, or its thread did not run. */
void cw_yield_lost(struct cw_yield_policy *policy, uint64_t ticks);

/* The processor was given away and came back so much later; `switches`: of the thread, 0 if they need not be known. */
void cw_yield_ended(struct cw_yield_policy *policy, uint64_t ticks, uint64_t took_ns, uint64_t switches);

/* Whether `switches` matter after that long. */
int cw_yield_asks_for_switches(uint64_t took_ns);

/* It was worth it lately, so that it need not be thought over for long. */
static inline int cw_yield_is_habit(const struct cw_yield_policy *policy)
{
    return policy->yields > CW_YIELD_TRIES;
}

#endif
