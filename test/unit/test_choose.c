/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which interface serves a peer, and how long a message takes (connect/choose.h), as tables.
 */
#include <stdlib.h>

#include "runner.h"
#include "connect/choose.h"
#include "proto/proto.h"
#include "proto/protocol.h"

TEST(what_decides_is_printed)
{
    static const struct {
        struct cw_plan_candidate a, b;
        int better;
        enum cw_plan_number by;
    } pairs[] = {
        {{80, 1e8}, {5000, 1e12}, 1, CW_PLAN_LATENCY}, {{5000, 1e12}, {80, 1e8}, 0, CW_PLAN_LATENCY},
        {{80, 2e9}, {80, 1e9}, 1, CW_PLAN_BANDWIDTH},  {{80, 1e9}, {80, 2e9}, 0, CW_PLAN_BANDWIDTH},
        {{80, 1e9}, {80, 1e9}, 1, CW_PLAN_PLACE},
    };
    enum cw_plan_number by;
    size_t i;

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
    return row->name != NULL;
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

static const struct cw_protocol protocols[] = {{.query = first}, {.query = second}, {.query = third}};
static const struct cw_protocol *const offered[] = {&protocols[0], &protocols[1], &protocols[2], NULL};

static struct cw_protocol_row row_of(size_t from, size_t to, double fixed_ns, double byte_ns)
{
    return (struct cw_protocol_row){
        .first = from, .last = to, .cost = {.fixed_ns = fixed_ns, .byte_ns = byte_ns}, .name = "name"};
}

static void expect_rows(const size_t *ends, const int *who, unsigned count)
{
    static const struct cw_protocol_lane lane;
    const struct cw_protocol_ask ask = {.lanes = &lane, .num_lanes = 1};
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
TEST(the_cheapest_protocol_is_taken)
{
    static const size_t crossing[] = {1000, CW_PLAN_NEVER}, measured[] = {99, CW_PLAN_NEVER}, all[] = {CW_PLAN_NEVER};
    static const size_t cut[] = {499, 599, 1000, CW_PLAN_NEVER};

    offers[0] = row_of(0, CW_PLAN_NEVER, 1000, 1); /* costs the same for 1000 bytes */
    offers[1] = row_of(0, CW_PLAN_NEVER, 0, 2);
    offers[2] = row_of(0, CW_PLAN_NEVER, 5000, 5);
    EXPECT_ROWS(crossing, ((const int[]){1, 0}));
    offers[0] = row_of(0, CW_PLAN_NEVER, 0, 2);
    offers[1] = row_of(0, CW_PLAN_NEVER, 1000, 1);
    EXPECT_ROWS(crossing, ((const int[]){0, 1}));
    offers[1] = row_of(0, CW_PLAN_NEVER, 0, 2);
    EXPECT_ROWS(all, ((const int[]){0}));
    offers[0] = row_of(100, CW_PLAN_NEVER, 9000, 9);
    offers[0].fixed = 1;
    EXPECT_ROWS(measured, ((const int[]){1, 0}));
    offers[0] = row_of(500, 599, 0, 1);
    offers[2] = row_of(0, CW_PLAN_NEVER, 1000, 1);
    EXPECT_ROWS(cut, ((const int[]){1, 0, 1, 2}));
}

/* EP-36 */
TEST(the_estimate_is_positive_and_grows)
{
    const struct cw_protocol_row rows[] = {row_of(0, 999, 100, 1), row_of(1000, 1999, 50, 0.1),
                                           row_of(2000, CW_PLAN_NEVER, 1000, 0.1)};
    double before = 0, now;

    for (size_t length = 0; length < SIZE_MAX / 4; length = 2 * length + 1) {
        now = cw_protocol_estimate(rows, 3, length);
        assert_true(now > 0 && now >= before && now < 1e12);
        before = now;
    }
    assert_true(cw_protocol_estimate(rows, 3, 0) < 101e-9);
    now = cw_protocol_estimate(rows, 3, 1000000000);
    assert_true(now > 0.1 && now < 0.1001);
}

/* ---- memory whose handle the program gives ---- */

static const char *name_of(const struct cw_protocol_ask *ask, size_t length)
{
    struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS];
    const unsigned count = cw_protocol_rows(cw_proto_tables[CW_PROTO_TAG], ask, rows);

    for (unsigned i = 0; i < count; i++) {
        if (length >= rows[i].first && length <= rows[i].last) {
            return rows[i].name;
        }
    }
    return "none";
}

TEST(the_device_reads_memory_with_a_handle)
{
    struct cw_protocol_plan plan;
    struct cw_protocol_lane lane = {.input = {.max_short = 56,
                                         .max_bcopy = 8256,
                                         .max_registered = 8256,
                                         .rndv_thresh = 100000,
                                         .zcopy_thresh = CW_PLAN_AUTO,
                                         .latency_ns = 1000,
                                         .bandwidth_bps = 1e10,
                                         .overhead_ns = 200},
                           .plan = &plan,
                           .max_piece = 8256};
    struct cw_protocol_ask ask = {.lanes = &lane, .num_lanes = 1, .header = 8, .registered = 1};
    const char *const by_device = "eager zero copy by the device";

    cw_protocol_choose(&lane.input, &plan);
    assert_string_equal(name_of(&ask, 2047), "eager copy");
    assert_string_equal(name_of(&ask, 2048), by_device);
    assert_string_equal(name_of(&ask, 8248), by_device);
    assert_string_equal(name_of(&ask, 8249), "eager fragments");
    ask.registered = 0;
    assert_string_equal(name_of(&ask, 4000), "eager copy");
    ask.registered = 1;
    ask.data = CW_DATA_LIST;
    assert_string_equal(name_of(&ask, 4000), "eager copy");
    ask.data = CW_DATA_CONTIG;
    lane.input.max_registered = 0;
    assert_string_equal(name_of(&ask, 4000), "eager copy");
    lane.input.max_registered = 8256;
    lane.input.zcopy_thresh = 500;
    assert_string_equal(name_of(&ask, 500), by_device);
    assert_string_equal(name_of(&ask, 499), "eager copy");
    lane.input.zcopy_thresh = CW_PLAN_NEVER;
    assert_string_equal(name_of(&ask, 4000), "eager copy");
}

TEST(the_transport_says_what_the_kernel_copies)
{
    struct cw_protocol_input input = {.max_bcopy = 65536,
                                   .memory = 1,
                                   .copies_break_even = 5000,
                                   .rndv_thresh = CW_PLAN_AUTO,
                                   .rndv_fast_thresh = CW_PLAN_AUTO,
                                   .zcopy_thresh = CW_PLAN_AUTO};
    struct cw_protocol_plan plan;

    cw_protocol_choose(&input, &plan);
    assert_int_equal(plan.rndv_min, 5000);
    assert_int_equal(plan.rndv_fast_min, 5000);
    input.rndv_thresh = 700; /* the setting is obeyed */
    cw_protocol_choose(&input, &plan);
    assert_int_equal(plan.rndv_min, 700);
    input.rndv_thresh = CW_PLAN_AUTO;
    input.memory = 0;
    cw_protocol_choose(&input, &plan);
    assert_true(plan.rndv_min > 65536);
}

TEST(the_transport_says_what_is_worth_no_copy)
{
    struct cw_protocol_input input = {.max_bcopy = 65536,
                                   .max_zcopy = 1u << 20,
                                   .zcopy_break_even = 5000,
                                   .rndv_thresh = CW_PLAN_NEVER,
                                   .zcopy_thresh = CW_PLAN_AUTO};
    struct cw_protocol_plan plan;

    cw_protocol_choose(&input, &plan);
    assert_int_equal(plan.zcopy_min, 5000);
    input.max_bcopy = 2048; /* two packets cost more than one without a copy */
    cw_protocol_choose(&input, &plan);
    assert_int_equal(plan.zcopy_min, 2048 - CW_PLAN_HEADER + 1);
    input.zcopy_thresh = 700; /* the setting is obeyed */
    cw_protocol_choose(&input, &plan);
    assert_int_equal(plan.zcopy_min, 700);
    input.max_zcopy = 0;
    cw_protocol_choose(&input, &plan);
    assert_true(plan.zcopy_min == CW_PLAN_NEVER);
}
