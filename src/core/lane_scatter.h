/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A further slot of lanes that copy (core/lane.h): copies many pieces of our memory to equally many pieces of the
 * peer's memory.
 */
#ifndef CW_CORE_LANE_SCATTER_H
#define CW_CORE_LANE_SCATTER_H

#include "core/lane.h"

/* Only where the lane has copies. UCS_ERR_UNSUPPORTED: the transport has no such slot. */
static inline ucs_status_t cw_lane_scatter(struct cw_conn *lane, const struct iovec *from, const struct iovec *to,
                                           unsigned count, const struct cw_validity *validity)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return (copies->scatter == NULL) ? UCS_ERR_UNSUPPORTED : copies->scatter(lane, from, to, count, validity);
}

#endif
