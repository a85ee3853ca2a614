/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions for the group `copies` of transports (core/lane.h): copies between processes of a host, claim pairs,
 * and descriptors that are passed.
 */
#ifndef CW_CORE_LANE_COPIES_H
#define CW_CORE_LANE_COPIES_H

#include "core/lane.h"

static inline bool cw_iface_copies(const struct cw_iface *iface)
{
    return iface->transport->copies != NULL;
}

static inline bool cw_lane_has_copies(const struct cw_conn *lane)
{
    return cw_iface_copies(lane->iface);
}

/* Validity words of this process were cleared. */
static inline void cw_copies_revoked(const struct cw_transport *transport)
{
    if (transport->copies != NULL && transport->copies->revoked != NULL) {
        transport->copies->revoked();
    }
}

/* Whether the peer's memory can be read and written now. */
static inline bool cw_lane_can_copy(struct cw_conn *lane)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return copies != NULL && copies->ready(lane);
}

/* The following functions require a lane with copies. */
static inline ucs_status_t cw_lane_copy_from(struct cw_conn *lane, const struct iovec *to, unsigned count,
                                             uint64_t from, const struct cw_validity *validity)
{
    return lane->iface->transport->copies->read(lane, to, count, from, validity);
}

static inline ucs_status_t cw_lane_copy_to(struct cw_conn *lane, const struct iovec *from, unsigned count, uint64_t to,
                                           const struct cw_validity *validity)
{
    return lane->iface->transport->copies->write(lane, from, count, to, validity);
}

static inline struct cw_claim_pair *cw_lane_claim_pair(struct cw_conn *lane, int ours, unsigned index)
{
    return lane->iface->transport->copies->pair(lane, ours, index);
}

/* The id of the peer's process on this host, as the kernel reports it. 0: unknown, or on another host. */
static inline uint32_t cw_lane_process(struct cw_conn *lane)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return (copies == NULL || copies->process == NULL) ? 0 : copies->process(lane);
}

/* Passes a descriptor to the peer's process. 0: it was not passed. */
static inline bool cw_lane_pass(struct cw_conn *lane, uint64_t number, int fd)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return copies != NULL && copies->pass != NULL && copies->pass(lane, number, fd);
}

/* Whether the peer accepts descriptors. */
static inline bool cw_lane_passes(struct cw_conn *lane)
{
    return cw_lane_pass(lane, 0, -1);
}

static inline int cw_lane_take_fd(struct cw_conn *lane, uint64_t number)
{
    const struct cw_transport_copies *copies = lane->iface->transport->copies;

    return (copies == NULL || copies->take_fd == NULL) ? -1 : copies->take_fd(lane, number);
}

#endif
