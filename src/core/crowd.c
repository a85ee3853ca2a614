/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether somebody else wants this processor cannot be asked, but tried: a yield with nobody there returns at once. One
 * that takes a little while let a thread run that gave way in its turn, as one that fills a ring or empties it does:
 * that is worth more of them. One that takes long met a thread that only computes, and whoever gave way to that each
 * time would hardly run at all.
 */
#include "core/crowd.h"

#include "core/worker.h"
#include "os/thread.h"

#define NOBODY_NS 1500u         /* a yield alone takes less */
#define LONG_NS   1000000u      /* short of a time slice */

#define HABIT 64u

#define REST_LEAST (UINT64_C(128) * CW_CLOCK_TICKS_SHORT)
#define REST_MOST  (128 * REST_LEAST)

void cw_crowd_lost(struct cw_crowd *crowd, uint64_t ticks)
{
    if (crowd->yields == 0 && ticks >= crowd->rest_until) {
        crowd->yields = CW_CROWD_TRIES;
    }
}

int cw_crowd_asks_for_switches(uint64_t took_ns)
{
    return took_ns >= NOBODY_NS && took_ns < LONG_NS;
}

void cw_crowd_yielded(struct cw_crowd *crowd, uint64_t ticks, uint64_t took_ns, uint64_t switches)
{
    if (cw_crowd_asks_for_switches(took_ns) && switches != crowd->switches) {
        crowd->switches = switches;
        crowd->yields   = HABIT;
        crowd->rest     = 0;
        return;
    }
    if (crowd->yields > 0 && --crowd->yields == 0) {
        crowd->rest       = (crowd->rest == 0) ? REST_LEAST : (crowd->rest < REST_MOST) ? 2 * crowd->rest : REST_MOST;
        crowd->rest_until = ticks + crowd->rest;
    }
}

void cw_worker_yield(struct ucp_worker *worker)
{
    const uint64_t before_ns = cw_clock_ns();
    uint64_t took_ns, switches;

    cw_thread_yield();
    took_ns  = cw_clock_ns() - before_ns;
    switches = cw_crowd_asks_for_switches(took_ns) ? cw_thread_switches() : 0;
    cw_worker_enter(worker);
    cw_crowd_yielded(&worker->crowd, cw_clock_ticks(), took_ns, switches);
    cw_worker_leave(worker);
}

/* Unless told, only where threads share a worker: processes that outnumber processors have their own way of waiting
 * (docs/why/threads.md). */
static int gives_way(const struct ucp_worker *worker)
{
    const int setting = worker->context->config->progress_yield;

    return (setting == CW_ON_OFF_AUTO) ? worker->mt : setting == CW_ON;
}

void cw_worker_crowded(struct ucp_worker *worker, uint64_t ticks)
{
    struct cw_crowd *crowd  = &worker->crowd;
    const uint64_t patience = cw_crowd_is_habit(crowd) ? CW_CLOCK_TICKS_SHORT / 4 : CW_CLOCK_TICKS_SHORT;

    if (!gives_way(worker)) {
        crowd->rest_until = UINT64_MAX;
        return;
    }
    if (crowd->yields == 0) {
        crowd->switches = cw_thread_switches();
        cw_crowd_lost(crowd, ticks);
    }
    if (crowd->yields == 0 || ticks - crowd->idle_since < patience) {
        return;
    }
    if (worker->mt) {
        crowd->due = 1;
    } else {
        cw_worker_yield(worker);
    }
}
