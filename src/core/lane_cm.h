/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of core/lane.h for connections by socket addresses: the slots of struct cw_transport_cm.
 */
#ifndef CW_CORE_LANE_CM_H
#define CW_CORE_LANE_CM_H

#include "core/lane.h"

/* The group of an interface, constant, which outlives the interface; NULL: the interface has none. */
static inline const struct cw_transport_cm *cw_iface_cm(const struct cw_iface *iface)
{
    return iface->transport->cm;
}

static inline ucs_status_t cw_cm_listen(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                                        struct cw_listening **listening_p)
{
    return iface->transport->cm->listen(iface, address, backlog, user, listening_p);
}

static inline void cw_cm_listen_end(const struct cw_iface *iface, struct cw_listening *listening)
{
    iface->transport->cm->listen_end(listening);
}

static inline ucs_status_t cw_cm_dial(struct cw_iface *iface, const struct cw_net_address *address,
                                      const struct cw_net_address *source, const void *hello, size_t hello_length,
                                      void *user, struct cw_conn **lane_p)
{
    return iface->transport->cm->dial_to(iface, address, source, hello, hello_length, user, lane_p);
}

static inline ucs_status_t cw_cm_answer(const struct cw_transport_cm *cm, struct cw_conn *lane, struct cw_iface *iface,
                                        int accepted, const void *reply, size_t reply_length)
{
    return cm->answer(lane, iface, accepted, reply, reply_length);
}

static inline bool cw_cm_carries(const struct cw_transport_cm *cm, struct cw_conn *lane, struct cw_iface *iface)
{
    return cm->carries(lane, iface);
}

static inline void cw_cm_ends(const struct cw_transport_cm *cm, struct cw_conn *lane, struct cw_net_address *local,
                              struct cw_net_address *peer)
{
    cm->ends(lane, local, peer);
}

#endif
