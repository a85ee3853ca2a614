/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which further lanes an endpoint gets (connect/choose_lanes.h), as a table.
 */
#include "runner.h"
#include "connect/choose_lanes.h"

/* Paths as {bandwidth, ours, the peer's, routes, carries bulk}, and which path and route each lane gets. */
static const struct {
    const char *what;
    unsigned count, wanted, expected;
    struct cw_plan_path paths[6];
    unsigned lanes[5][2];
} plans[] = {
    {"none", 0, 4, 0, {{1e9, 0, 0, 1, 1}}, {{0}}},
    {"nothing carries bulk", 1, 4, 0, {{1e9, 0, 0, 1, 0}}, {{0}}},
    {"further connections gain nothing", 1, 4, 0, {{1e9, 0, 0, 0, 1}}, {{0}}},
    {"none wanted", 1, 0, 0, {{1e9, 0, 0, 1, 1}}, {{0}}},
    {"one path, again and again", 1, 3, 3, {{1e9, 0, 0, 1, 1}}, {{0, 0}, {0, 0}, {0, 0}}},
    {"one path with two routes", 1, 3, 3, {{1e9, 0, 0, 2, 1}}, {{0, 0}, {0, 1}, {0, 0}}},
    {"two by two: each card once",
     4,
     2,
     2,
     {{1e9, 0, 0, 1, 1}, {1e9, 0, 1, 1, 1}, {1e9, 1, 0, 1, 1}, {1e9, 1, 1, 1, 1}},
     {{0, 0}, {3, 0}}},
    {"v0 and v1 here, v1 alone there", 2, 3, 3, {{1e9, 0, 1, 1, 1}, {1e9, 1, 1, 1, 1}}, {{0, 0}, {1, 0}, {0, 0}}},
    {"what is far slower is left out", 2, 2, 2, {{1e10, 0, 0, 1, 1}, {1e8, 1, 1, 1, 1}}, {{0, 0}, {0, 0}}},
    {"the faster first", 2, 2, 2, {{1e9, 0, 0, 1, 1}, {3e9, 1, 1, 1, 1}}, {{1, 0}, {0, 0}}},
    {"one with two routes counts for two", 2, 3, 3, {{1e9, 0, 0, 2, 1}, {1e9, 1, 1, 1, 1}}, {{0, 0}, {1, 0}, {0, 1}}},
};

TEST(lanes_use_each_card)
{
    struct cw_plan_lane lanes[5];
    unsigned count, j;
    size_t i;

    for (i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        const struct cw_plan_lane_limits limits = {.wanted = plans[i].wanted, .max_ratio = 4, .path_ratio = 1};

        count = cw_plan_lanes(plans[i].paths, plans[i].count, &limits, lanes);
        if (count != plans[i].expected) {
            print_error("%s: %u lanes\n", plans[i].what, count);
            fail();
        }
        for (j = 0; j < count; j++) {
            if (lanes[j].path != plans[i].lanes[j][0] || lanes[j].route != plans[i].lanes[j][1] ||
                lanes[j].why == NULL) {
                print_error("%s: lane %u has path %u, route %u\n", plans[i].what, j, lanes[j].path, lanes[j].route);
                fail();
            }
        }
    }
}

/* UCX_MULTI_LANE_MAX_RATIO, UCX_MULTI_PATH_RATIO. */
TEST(ratios_leave_lanes_out)
{
    static const struct cw_plan_path paths[] = {{4e9, 0, 0, 1, 1}, {1e9, 1, 1, 1, 1}};
    static const struct {
        double max_ratio, path_ratio;
        unsigned expected;
        unsigned of_slow; /* lanes on the second path */
    } rows[] = {
        {4, 1, 4, 2}, {3.9, 1, 4, 0}, {4, 0.2, 2, 1}, {4, 0.25, 4, 1}, {3, 0, 1, 0}, {0, 1, 4, 0},
    };
    struct cw_plan_lane lanes[4];
    unsigned count, slow, j;
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct cw_plan_lane_limits limits = {
            .wanted = 4, .max_ratio = rows[i].max_ratio, .path_ratio = rows[i].path_ratio};

        count = cw_plan_lanes(paths, 2, &limits, lanes);
        for (slow = 0, j = 0; j < count; j++) {
            slow += lanes[j].path == 1;
        }
        if (count != rows[i].expected || slow != rows[i].of_slow) {
            print_error("row %zu: %u lanes, %u of them slow\n", i, count, slow);
            fail();
        }
    }
}
