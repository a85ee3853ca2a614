/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which further lanes an endpoint gets: a pure function of both sides' interfaces, as paths between them, and of how
 * many lanes the settings want.
 */
#ifndef CW_PLAN_LANES_H
#define CW_PLAN_LANES_H

#include <stdint.h>

/* One interface of ours and one of the peer's that it reaches. */
struct cw_plan_path {
    double bandwidth_bps;
    unsigned iface;       /* which of ours, */
    unsigned entry;       /* and which of the peer's */
    unsigned ways;        /* different connections that gain something over one; 0: further ones gain nothing */
    uint8_t carries_bulk; /* places payloads in order with other packets */
};

struct cw_plan_lane {
    unsigned path;   /* index */
    unsigned way;    /* of those of the path */
    const char *why; /* for people */
};

struct cw_plan_lane_limits {
    unsigned wanted;
    double max_ratio;  /* between the best bandwidth and that of a lane that is worth having */
    double path_ratio; /* bandwidth of one more connection by a way that a lane has, relative to the first */
};

/* Fills `lanes`, at most `wanted` of them, and returns how many there are. The first ones are the best. */
unsigned cw_plan_lanes(const struct cw_plan_path *paths, unsigned count, const struct cw_plan_lane_limits *limits,
                       struct cw_plan_lane *lanes);

#endif
