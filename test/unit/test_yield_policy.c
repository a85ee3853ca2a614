/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When progress that finds nothing gives its processor away (core/yield_policy.h): not while nobody wants it, always to
 * those who give it back soon, seldom to those who do not.
 */
#include "runner.h"
#include "config/config.h"
#include "core/context.h"
#include "core/yield_policy.h"
#include "core/worker.h"
#include "os/clock.h"

#define USEC UINT64_C(1000)
#define MSEC (1000 * USEC)

/* As if the counter had its shortest step of ten microseconds. */
static uint64_t ticks(uint64_t ns)
{
    return ns / (10 * USEC) * CW_CLOCK_TICKS_SHORT;
}

/* Another thread ran, if it took that long. */
static void yield(struct cw_yield_policy *policy, uint64_t *now, uint64_t yield_ns)
{
    *now += yield_ns;
    cw_yield_ended(policy, ticks(*now), yield_ns, policy->switches + (yield_ns > 2 * USEC));
}

/* Idle for ten milliseconds and more, a yield whenever one is left: how many there were. */
static unsigned spin(struct cw_yield_policy *policy, uint64_t *now, uint64_t yield_ns)
{
    const uint64_t end = *now + 10 * MSEC;
    unsigned yields = 0;

    while (*now < end) {
        if (policy->yields > 0) {
            yield(policy, now, yield_ns);
            yields++;
        }
        *now += 10 * USEC;
    }
    return yields;
}

TEST(nobody_yields_who_lost_nothing)
{
    struct cw_yield_policy policy = {0};
    uint64_t now = MSEC;

    assert_int_equal(spin(&policy, &now, USEC / 2), 0);
}

TEST(who_is_alone_tries_seldom)
{
    struct cw_yield_policy policy = {0};
    uint64_t now = MSEC, tried = 0;

    for (int i = 0; i < 10000; i++) { /* 100 seconds, with a gap in each hundredth */
        cw_yield_starved(&policy, ticks(now));
        tried += spin(&policy, &now, USEC / 2);
    }
    assert_in_range(tried, 2, 2000);
}

TEST(who_meets_one_that_gives_way_goes_on)
{
    struct cw_yield_policy policy = {0};
    uint64_t now = MSEC;

    cw_yield_starved(&policy, ticks(now));
    assert_false(cw_yield_is_habit(&policy));
    for (int i = 0; i < 100; i++) {
        assert_in_range(spin(&policy, &now, 20 * USEC), 300, 400); /* no other one since: all of the time */
        assert_true(cw_yield_is_habit(&policy));
    }
    assert_in_range(spin(&policy, &now, USEC / 2), 10, 100); /* the other one has left */
    assert_int_equal(spin(&policy, &now, USEC / 2), 0);
    cw_yield_starved(&policy, ticks(now));
    assert_in_range(spin(&policy, &now, 20 * USEC), 300, 400);
}

TEST(a_yield_that_took_long_by_itself_met_nobody)
{
    struct cw_yield_policy policy = {0};

    cw_yield_starved(&policy, 1);
    for (unsigned i = 0; i < CW_YIELD_TRIES; i++) {
        assert_int_not_equal(policy.yields, 0);
        assert_true(cw_yield_asks_for_switches(20 * USEC));
        cw_yield_ended(&policy, 1, 20 * USEC, policy.switches);
    }
    assert_int_equal(policy.yields, 0);
}

/* Uses up what it has, in vain: how long it rests then, in ticks. */
static uint64_t try_in_vain(struct cw_yield_policy *policy, uint64_t at)
{
    cw_yield_starved(policy, at);
    assert_int_not_equal(policy->yields, 0);
    while (policy->yields > 0) {
        cw_yield_ended(policy, at, USEC / 2, policy->switches);
    }
    return policy->rest_until - at;
}

/* Twice as long each time, but not for ever; and as short as at first when somebody was met meanwhile. */
TEST(rests_are_bounded_and_forgotten)
{
    struct cw_yield_policy policy = {0};
    uint64_t at = 1, first, rest, next;
    unsigned doublings = 0;

    first = rest = try_in_vain(&policy, at);
    for (int i = 0; i < 40; i++, rest = next) {
        at += rest;
        next = try_in_vain(&policy, at);
        assert_true(next == rest || next == 2 * rest);
        doublings += next != rest;
    }
    assert_in_range(doublings, 5, 10);
    at += rest;
    cw_yield_starved(&policy, at);
    cw_yield_ended(&policy, at, 20 * USEC, policy.switches + 1);
    assert_true(cw_yield_is_habit(&policy));
    while (policy.yields > 0) {
        cw_yield_ended(&policy, at, USEC / 2, policy.switches);
    }
    assert_true(policy.rest_until - at == first);
}

TEST(who_meets_one_that_only_computes_keeps_its_turns)
{
    struct cw_yield_policy policy = {0};
    uint64_t now = MSEC, given = 0;
    const uint64_t turn = 4 * MSEC;

    for (int i = 0; i < 1000; i++) { /* its own turn, then that of the other one */
        cw_yield_starved(&policy, ticks(now));
        while (policy.yields > 0) {
            yield(&policy, &now, turn);
            given++;
        }
        now += 2 * turn;
    }
    assert_in_range(given, 2, 250);
}

/* Processes that outnumber processors have their own way of waiting; threads that share a worker have not. */
TEST(unless_set_only_shared_workers_yield)
{
    static const struct {
        int setting;
        uint8_t mt, gives_way;
    } cases[] = {{CW_OFF, 0, 0}, {CW_OFF, 1, 0},         {CW_ON, 0, 1},
                 {CW_ON, 1, 1},  {CW_ON_OFF_AUTO, 0, 0}, {CW_ON_OFF_AUTO, 1, 1}};
    static struct cw_config config;
    static struct ucp_context context = {.config = &config};
    static struct ucp_worker worker;
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        config.progress_yield = cases[i].setting;
        worker.context = &context;
        worker.mt = cases[i].mt;
        worker.yield_policy = (struct cw_yield_policy){.idle_since = ticks(MSEC)};
        cw_worker_try_yield(&worker, ticks(MSEC));
        assert_int_equal(worker.yield_policy.yields > 0, cases[i].gives_way);
        assert_int_equal(worker.yield_policy.rest_until == UINT64_MAX, !cases[i].gives_way);
    }
}
