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
#include "plan/protocol.h"

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
            candidates[i] = (struct cw_plan_candidate){
                .latency_ns = 1 + (rest & 1), .bandwidth_bps = 1 + (rest >> 1 & 1), .usable = (int)(rest >> 2 & 1)};
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
        {{80, 1e8, 1}, {5000, 1e12, 1}, 1, CW_PLAN_LATENCY}, {{5000, 1e12, 1}, {80, 1e8, 1}, 0, CW_PLAN_LATENCY},
        {{80, 2e9, 1}, {80, 1e9, 1}, 1, CW_PLAN_BANDWIDTH},  {{80, 1e9, 1}, {80, 2e9, 1}, 0, CW_PLAN_BANDWIDTH},
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

/* ---- rows of protocols ---- */

static struct cw_protocol_row offers[3];

static int offer(unsigned i, struct cw_protocol_row *row)
{
    *row = offers[i];
    return row->way != NULL;
}

static int first(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    (void)ask;
    return offer(0, row);
}

static int second(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    (void)ask;
    return offer(1, row);
}

static int third(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    (void)ask;
    return offer(2, row);
}

static const struct cw_protocol protocols[]    = {{.query = first}, {.query = second}, {.query = third}};
static const struct cw_protocol *const offered[] = {&protocols[0], &protocols[1], &protocols[2], NULL};

static struct cw_protocol_row row_of(size_t from, size_t to, double fixed_ns, double byte_ns)
{
    return (struct cw_protocol_row){
        .first = from, .last = to, .cost = {.fixed_ns = fixed_ns, .byte_ns = byte_ns}, .way = "way"};
}

static void expect_rows(const size_t *ends, const int *who, unsigned count)
{
    const struct cw_protocol_ask ask = {.num_lanes = 0};
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    size_t at = 0;

    assert_int_equal(cw_protocol_rows(offered, &ask, rows), count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(rows[i].first, at);
        assert_int_equal(rows[i].last, ends[i]);
        assert_ptr_equal(rows[i].protocol, &protocols[who[i]]);
        at = rows[i].last + 1;
    }
}

#define EXPECT_ROWS(ends, who) expect_rows(ends, who, sizeof(who) / sizeof((who)[0]))

/* Costs decide where several offer themselves; equal ones leave it to the order; what is fixed stays. */
static void the_cheapest_protocol_is_taken(void **state)
{
    static const size_t crossing[] = {1000, CW_PLAN_NEVER}, measured[] = {99, CW_PLAN_NEVER}, all[] = {CW_PLAN_NEVER};
    static const size_t cut[] = {499, 599, 1000, CW_PLAN_NEVER};

    (void)state;
    offers[0] = row_of(0, CW_PLAN_NEVER, 1000, 1); /* costs the same for 1000 bytes */
    offers[1] = row_of(0, CW_PLAN_NEVER, 0, 2);
    offers[2] = row_of(0, CW_PLAN_NEVER, 5000, 5);
    EXPECT_ROWS(crossing, ((const int[]){1, 0}));
    offers[0] = row_of(0, CW_PLAN_NEVER, 0, 2);
    offers[1] = row_of(0, CW_PLAN_NEVER, 1000, 1);
    EXPECT_ROWS(crossing, ((const int[]){0, 1}));
    offers[1] = row_of(0, CW_PLAN_NEVER, 0, 2);
    EXPECT_ROWS(all, ((const int[]){0}));
    offers[0]       = row_of(100, CW_PLAN_NEVER, 9000, 9);
    offers[0].fixed = 1;
    EXPECT_ROWS(measured, ((const int[]){1, 0}));
    offers[0] = row_of(500, 599, 0, 1);
    offers[2] = row_of(0, CW_PLAN_NEVER, 1000, 1);
    EXPECT_ROWS(cut, ((const int[]){1, 0, 1, 2}));
}

/* EP-36 */
static void the_estimate_is_positive_and_grows(void **state)
{
    const struct cw_protocol_row rows[] = {row_of(0, 999, 100, 1), row_of(1000, 1999, 50, 0.1),
                                           row_of(2000, CW_PLAN_NEVER, 1000, 0.1)};
    double before                       = 0, now;

    (void)state;
    for (size_t length = 0; length < SIZE_MAX / 4; length = 2 * length + 1) {
        now = cw_protocol_estimate(rows, 3, length);
        assert_true(now > 0 && now >= before && now < 1e12);
        before = now;
    }
    assert_true(cw_protocol_estimate(rows, 3, 0) < 101e-9);
    now = cw_protocol_estimate(rows, 3, 1000000000);
    assert_true(now > 0.1 && now < 0.1001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_holds),
        cmocka_unit_test(the_choice_is_the_best_of_all_small_sets),
        cmocka_unit_test(what_decides_is_told),
        cmocka_unit_test(the_cheapest_protocol_is_taken),
        cmocka_unit_test(the_estimate_is_positive_and_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
