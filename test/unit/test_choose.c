/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which interface serves a peer, and how long a message takes (plan/choose.h), as tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "plan/choose.h"

#define MAX_CANDIDATES 5u

static const struct {
    const char *what;
    int expected;
    unsigned count;
    struct cw_plan_candidate candidates[MAX_CANDIDATES];
} table[] = {
    {"none", -1, 0, {{0, 0, 0}}},
    {"one that cannot be used", -1, 1, {{80, 1e10, 0}}},
    {"the only one", 0, 1, {{5000, 1e9, 1}}},
    {"lower latency, though behind", 1, 2, {{5000, 1e9, 1}, {80, 1e10, 1}}},
    {"lower latency beats bandwidth", 0, 2, {{80, 1e8, 1}, {5000, 1e12, 1}}},
    {"equal latency: bandwidth", 1, 3, {{100, 1e9, 1}, {100, 3e9, 1}, {100, 2e9, 1}}},
    {"all equal: the first", 0, 3, {{100, 1e9, 1}, {100, 1e9, 1}, {100, 1e9, 1}}},
    {"all equal but the first cannot be used", 1, 3, {{100, 1e9, 0}, {100, 1e9, 1}, {100, 1e9, 1}}},
    {"the best cannot be used", 2, 3, {{1, 1e12, 0}, {5000, 1e9, 1}, {80, 1e10, 1}}},
    {"only the last can be used", 4, 5, {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1e9, 1, 1}}},
    {"none can be used", -1, 5, {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}}},
};

static void the_table_holds(void **state)
{
    size_t i;
    int best;

    (void)state;
    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        best = cw_plan_choose(table[i].candidates, table[i].count);
        if (best != table[i].expected) {
            fail_msg("%s: %d instead of %d", table[i].what, best, table[i].expected);
        }
    }
}

static int beats(const struct cw_plan_candidate *a, const struct cw_plan_candidate *b)
{
    if (!a->usable || !b->usable) {
        return a->usable;
    }
    return a->latency_ns < b->latency_ns || (a->latency_ns == b->latency_ns && a->bandwidth_bps > b->bandwidth_bps);
}

/* Nobody usable beats the choice, and nobody before it is as good. All sets of a few values. */
static void the_choice_is_the_best_of_all_small_sets(void **state)
{
    struct cw_plan_candidate candidates[4];
    unsigned code, rest, i;
    int best;

    (void)state;
    for (code = 0; code < 8u * 8 * 8 * 8; code++) {
        for (i = 0, rest = code; i < 4; i++, rest /= 8) {
            candidates[i] = (struct cw_plan_candidate){.latency_ns    = 1 + (rest & 1),
                                                       .bandwidth_bps = 1 + (rest >> 1 & 1),
                                                       .usable        = (int)(rest >> 2 & 1)};
        }
        best = cw_plan_choose(candidates, 4);
        assert_in_range(best + 1, 0, 4);
        for (i = 0; i < 4; i++) {
            if (best < 0) {
                assert_false(candidates[i].usable);
                continue;
            }
            assert_true(candidates[best].usable);
            assert_false(beats(&candidates[i], &candidates[best]));
            assert_true((int)i >= best || beats(&candidates[best], &candidates[i]));
        }
    }
}

static void what_decides_is_told(void **state)
{
    static const struct {
        struct cw_plan_candidate a, b;
        int better;
        enum cw_plan_number by;
    } pairs[] = {
        {{80, 1e8, 1}, {5000, 1e12, 1}, 1, CW_PLAN_LATENCY},   {{5000, 1e12, 1}, {80, 1e8, 1}, 0, CW_PLAN_LATENCY},
        {{80, 2e9, 1}, {80, 1e9, 1}, 1, CW_PLAN_BANDWIDTH},    {{80, 1e9, 1}, {80, 2e9, 1}, 0, CW_PLAN_BANDWIDTH},
        {{80, 1e9, 1}, {80, 1e9, 1}, 1, CW_PLAN_PLACE},
    };
    enum cw_plan_number by;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(cw_plan_is_better(&pairs[i].a, &pairs[i].b, &by), pairs[i].better);
        assert_int_equal(by, pairs[i].by);
        assert_int_equal(cw_plan_is_better(&pairs[i].a, &pairs[i].b, NULL), pairs[i].better);
    }
}

/* EP-36 */
static void the_estimate_is_positive_and_grows(void **state)
{
    static const struct {
        double latency_ns, overhead_ns, bandwidth_bps;
    } lines[] = {{80, 10, 16106127360.0}, {5000, 1000, 1e8}, {0.1, 0, 1e12}, {1e9, 1e6, 9600}};
    double bytes, now, before;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        before = cw_plan_estimate(lines[i].latency_ns, lines[i].overhead_ns, lines[i].bandwidth_bps, 0);
        assert_true(before > 0);
        assert_true(before >= lines[i].latency_ns * 1e-9);
        for (bytes = 64; bytes < 1e15; bytes *= 4) {
            now = cw_plan_estimate(lines[i].latency_ns, lines[i].overhead_ns, lines[i].bandwidth_bps, bytes);
            assert_true(now > before);
            assert_true(now < 1e12);
            before = now;
        }
    }
}

static void the_estimate_is_latency_overhead_and_bytes(void **state)
{
    double estimate;

    (void)state;
    estimate = cw_plan_estimate(1000, 500, 1e9, 0);
    assert_true(estimate > 1.499e-6 && estimate < 1.501e-6);
    estimate = cw_plan_estimate(1000, 500, 1e9, 1e9);
    assert_true(estimate > 1.0000014 && estimate < 1.0000016);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_holds),
        cmocka_unit_test(the_choice_is_the_best_of_all_small_sets),
        cmocka_unit_test(what_decides_is_told),
        cmocka_unit_test(the_estimate_is_positive_and_grows),
        cmocka_unit_test(the_estimate_is_latency_overhead_and_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
