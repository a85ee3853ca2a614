/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that stay where they arrived (core/lane.h).
 */
#ifndef CW_CORE_LANE_KEEP_H
#define CW_CORE_LANE_KEEP_H

#include "core/lane.h"

/* Inside the upcall for this packet: the bytes stay where they are until cw_iface_give_back, with limits.keep_room
 * bytes before them. NULL: they do not. */
static inline void *cw_lane_keep(struct cw_conn *lane, const void *data)
{
    return (lane->iface->packets->keep == NULL) ? NULL : lane->iface->packets->keep(lane, data);
}

static inline void cw_iface_give_back(struct cw_iface *iface, void *kept)
{
    iface->packets->give_back(iface, kept);
}

#endif
