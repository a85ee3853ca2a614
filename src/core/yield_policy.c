/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No call reports whether another thread needs this processor, so a yield finds it out: it returns at once if there is
 * none. A yield that takes a little while let a thread run that yielded in its turn, as a thread does that fills or
 * empties a ring: then more yields pay. A yield that takes long let a thread run that only computes; a thread that
 * yielded to it each time would hardly run at all.
 */
#include "core/yield_policy.h"

#include "core/worker.h"
#include "os/thread.h"

#define NOBODY_NS 1500u    /* a yield without another thread takes less */
#define LONG_NS   1000000u /* less than a time slice */

#define HABIT 64u

#define REST_LEAST (UINT64_C(128) * CW_CLOCK_TICKS_SHORT)
#define REST_MOST  (128 * REST_LEAST)

void cw_yield_starved(struct cw_yield_policy *policy, uint64_t ticks)
{
    if (policy->yields == 0 && ticks >= policy->rest_until) {
        policy->yields = CW_YIELD_TRIES;
    }
}

int cw_yield_asks_for_switches(uint64_t took_ns)
{
    return took_ns >= NOBODY_NS && took_ns < LONG_NS;
}

void cw_yield_ended(struct cw_yield_policy *policy, uint64_t ticks, uint64_t took_ns, uint64_t switches)
{
    if (cw_yield_asks_for_switches(took_ns) && switches != policy->switches) {
        policy->switches = switches;
        policy->yields = HABIT;
        policy->rest = 0;
        return;
    }
    if (policy->yields > 0 && --policy->yields == 0) {
        if (policy->rest == 0) {
            policy->rest = REST_LEAST;
        } else {
            policy->rest = (policy->rest < REST_MOST) ? 2 * policy->rest : REST_MOST;
        }
        policy->rest_until = ticks + policy->rest;
    }
}

void cw_worker_yield(struct ucp_worker *worker)
{
    const uint64_t before_ns = cw_clock_ns();
    uint64_t took_ns, switches;

    cw_thread_yield();
    took_ns = cw_clock_ns() - before_ns;
    switches = cw_yield_asks_for_switches(took_ns) ? cw_thread_switches() : 0;
    cw_worker_enter(worker);
    cw_yield_ended(&worker->yield_policy, cw_clock_ticks(), took_ns, switches);
    cw_worker_leave(worker);
}

/* Whether this worker yields. Without a setting only a worker shared by threads does: processes that outnumber
 * processors wait differently (docs/why/threads.md). */
static int gives_way(const struct ucp_worker *worker)
{
    const int setting = worker->context->config->progress_yield;

    return (setting == CW_ON_OFF_AUTO) ? worker->mt : setting == CW_ON;
}

void cw_worker_try_yield(struct ucp_worker *worker, uint64_t ticks)
{
    struct cw_yield_policy *policy = &worker->yield_policy;
    const uint64_t longest = cw_yield_is_habit(policy) ? CW_CLOCK_TICKS_SHORT / 4 : CW_CLOCK_TICKS_SHORT;

    if (!gives_way(worker)) {
        policy->rest_until = UINT64_MAX;
        return;
    }
    if (policy->yields == 0) {
        policy->switches = cw_thread_switches();
        cw_yield_starved(policy, ticks);
    }
    if (policy->yields == 0 || ticks - policy->idle_since < longest) {
        return;
    }
    if (worker->mt) {
        policy->due = 1;
    } else {
        cw_worker_yield(worker);
    }
}
