/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of connect/choose_lanes.h. The next lane goes where the fewest lanes use our interface, then where the
 * fewest use the peer's; an interface with several routes counts as several. A path that is slower than the best by
 * more than UCX_MULTI_LANE_MAX_RATIO gets no lane: its share of a message would not be worth the connection.
 */
#include "connect/choose_lanes.h"

#include <stdbool.h>

static bool is_eligible(const struct cw_plan_path *path, double least_bps)
{
    return path->carries_bulk && path->num_paths > 0 && path->bandwidth_bps >= least_bps;
}

static double best_bandwidth(const struct cw_plan_path *paths, unsigned count)
{
    double best_bps = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        if (is_eligible(&paths[i], 0) && paths[i].bandwidth_bps > best_bps) {
            best_bps = paths[i].bandwidth_bps;
        }
    }
    return best_bps;
}

/* How many of the chosen lanes use an interface of ours (`ours`) or an entry of the peer's, per route of the path. */
static double load_of(const struct cw_plan_path *paths, const struct cw_plan_path *path,
                      const struct cw_plan_lane *lanes, unsigned count, int ours)
{
    const struct cw_plan_path *other;
    unsigned users = 0, i;

    for (i = 0; i < count; i++) {
        other = &paths[lanes[i].path];
        users += ours ? other->iface == path->iface : other->entry == path->entry;
    }
    return (double)users / path->num_paths;
}

/* The number of chosen lanes on this very path. */
static unsigned lanes_of(const struct cw_plan_lane *lanes, unsigned count, unsigned path)
{
    unsigned users = 0, i;

    for (i = 0; i < count; i++) {
        users += lanes[i].path == path;
    }
    return users;
}

/* Whether path `a` should have the next lane rather than `b`. */
static bool is_better(const struct cw_plan_path *paths, unsigned a, unsigned b, const struct cw_plan_lane *lanes,
                      unsigned count)
{
    double load_a, load_b;
    int ours;

    for (ours = 1; ours >= 0; ours--) {
        load_a = load_of(paths, &paths[a], lanes, count, ours);
        load_b = load_of(paths, &paths[b], lanes, count, ours);
        if (load_a < load_b || load_a > load_b) {
            return load_a < load_b;
        }
    }
    return paths[a].bandwidth_bps > paths[b].bandwidth_bps;
}

static const char *reason(const struct cw_plan_path *path, unsigned users, unsigned count)
{
    if (users >= path->num_paths) {
        return "one more connection, as all paths are in use";
    }
    if (users > 0) {
        return "another pair of addresses";
    }
    return (count == 0) ? "the best path" : "the interface with fewer lanes";
}

unsigned cw_plan_lanes(const struct cw_plan_path *paths, unsigned count, const struct cw_plan_lane_limits *limits,
                       struct cw_plan_lane *lanes)
{
    const double least_bps = best_bandwidth(paths, count) / ((limits->max_ratio > 1) ? limits->max_ratio : 1);
    unsigned chosen, users, best, i;
    double share;

    for (chosen = 0; chosen < limits->wanted; chosen++) {
        best = count;
        for (i = 0; i < count; i++) {
            share = (lanes_of(lanes, chosen, i) < paths[i].num_paths) ? 1 : limits->path_ratio;
            if (is_eligible(&paths[i], least_bps) && paths[i].bandwidth_bps * share >= least_bps &&
                (best == count || is_better(paths, i, best, lanes, chosen))) {
                best = i;
            }
        }
        if (best == count) {
            break;
        }
        users = lanes_of(lanes, chosen, best);
        lanes[chosen] = (struct cw_plan_lane){
            .path = best, .route = users % paths[best].num_paths, .why = reason(&paths[best], users, chosen)};
    }
    return chosen;
}
