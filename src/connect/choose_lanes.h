/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of the further lanes of an endpoint: a pure function of the paths between both sides' interfaces, and of
 * the number of lanes that the settings allow.
 */
#ifndef CW_CONNECT_CHOOSE_LANES_H
#define CW_CONNECT_CHOOSE_LANES_H

#include <stdint.h>

/* An interface of ours and one of the peer's that it reaches. */
struct cw_plan_path {
    double bandwidth_bps;
    unsigned iface;       /* which of ours, */
    unsigned entry;       /* and which of the peer's */
    unsigned num_paths;   /* number of connections that are faster together than one of them; 0: further connections
                             gain nothing */
    uint8_t carries_bulk; /* places payloads in order with other packets */
};

struct cw_plan_lane {
    unsigned path;   /* index */
    unsigned route;  /* index among the routes of the path */
    const char *why; /* the reason, for info texts */
};

struct cw_plan_lane_limits {
    unsigned wanted;
    double max_ratio;  /* a lane is chosen only if the best bandwidth is at most this many times its own */
    double path_ratio; /* bandwidth of one more connection on a route that already has a lane, as a fraction of the
                          first one's */
};

/* Fills `lanes`, at most `wanted` of them, and returns their number. The first ones are the best. */
unsigned cw_plan_lanes(const struct cw_plan_path *paths, unsigned count, const struct cw_plan_lane_limits *limits,
                       struct cw_plan_lane *lanes);

#endif
