/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors over a lane (transport/copies.h).
 */
#ifndef CW_CORE_LANE_PASS_H
#define CW_CORE_LANE_PASS_H

#include "core/lane.h"

/* Passes a descriptor to the peer's process. 0: it was not passed. */
static inline int cw_lane_pass(struct cw_conn *lane, uint64_t number, int fd)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return copies != NULL && copies->pass != NULL && copies->pass(lane, number, fd);
}

/* Whether the peer takes descriptors. */
static inline int cw_lane_passes(struct cw_conn *lane)
{
    return cw_lane_pass(lane, 0, -1);
}

static inline int cw_lane_take(struct cw_conn *lane, uint64_t number)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return (copies == NULL || copies->take == NULL) ? -1 : copies->take(lane, number);
}

#endif
