/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions for the group `access` of transports (core/lane.h).
 */
#ifndef CW_CORE_LANE_ACCESS_H
#define CW_CORE_LANE_ACCESS_H

#include "core/lane.h"

/* The domain of the peer whose key parts give the device of this open lane access to its memory; 0: there is none. */
static inline unsigned cw_lane_peer_domain(const struct cw_conn *lane)
{
    const struct cw_transport_access *access = lane->iface->transport->access;

    return (access != NULL && lane->iface->domain != NULL) ? access->peer_domain(lane) : 0;
}

/* The following functions require such a domain, and lengths within limits.access. */
static inline ucs_status_t cw_lane_put_short(struct cw_conn *lane, const void *data, size_t length,
                                             const struct cw_access_target *to, unsigned flags,
                                             struct cw_completion *completion)
{
    return lane->iface->transport->access->put_short(lane, data, length, to, flags, completion);
}

static inline ucs_status_t cw_lane_put_bcopy(struct cw_conn *lane, size_t max, cw_pack_fn pack, void *arg,
                                             const struct cw_access_target *to, unsigned flags,
                                             struct cw_completion *completion)
{
    return lane->iface->transport->access->put_bcopy(lane, max, pack, arg, to, flags, completion);
}

static inline ucs_status_t cw_lane_put_zcopy(struct cw_conn *lane, const struct cw_access_iov *iov, unsigned iov_count,
                                             const struct cw_access_target *to, unsigned flags,
                                             struct cw_completion *completion)
{
    return lane->iface->transport->access->put_zcopy(lane, iov, iov_count, to, flags, completion);
}

static inline ucs_status_t cw_lane_get_bcopy(struct cw_conn *lane, size_t length, cw_unpack_fn unpack, void *arg,
                                             const struct cw_access_target *from, unsigned flags,
                                             struct cw_completion *completion)
{
    return lane->iface->transport->access->get_bcopy(lane, length, unpack, arg, from, flags, completion);
}

static inline ucs_status_t cw_lane_get_zcopy(struct cw_conn *lane, const struct cw_access_iov *iov, unsigned iov_count,
                                             const struct cw_access_target *from, unsigned flags,
                                             struct cw_completion *completion)
{
    return lane->iface->transport->access->get_zcopy(lane, iov, iov_count, from, flags, completion);
}

static inline ucs_status_t cw_lane_atomic(struct cw_conn *lane, enum cw_access_op op, uint64_t operand,
                                          uint64_t compare, uint64_t *result, const struct cw_access_target *to,
                                          unsigned flags, struct cw_completion *completion)
{
    return lane->iface->transport->access->atomic(lane, op, operand, compare, result, to, flags, completion);
}

/* Only where limits.max_registered is not 0. */
static inline ucs_status_t cw_lane_send_registered(struct cw_conn *lane, uint8_t id, const void *header,
                                                   size_t header_length, const struct cw_access_iov *payload,
                                                   struct cw_completion *completion)
{
    return lane->iface->packets->send_registered(lane, id, header, header_length, payload, completion);
}

static inline ucs_status_t cw_lane_access_flush(struct cw_conn *lane, struct cw_completion *completion)
{
    return lane->iface->transport->access->flush(lane, completion);
}

#endif
