/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of the library to its transports. A lane is one channel of an endpoint to its peer: a connection of an
 * interface (struct cw_conn). Only functions of this file call the slots of a transport; they also supply the answer
 * for groups and slots that a transport lacks. test/checks/layers.py checks that the rest of the library calls no slot.
 *
 * Accesses of devices are in core/lane_access.h, copies between processes in core/lane_copies.h.
 *
 * The contracts of the slots, and the meaning of their results, are in transport/transport.h.
 */
#ifndef CW_CORE_LANE_H
#define CW_CORE_LANE_H

#include <stdbool.h>

#include "base/compiler.h"
#include "transport/transport.h"

/* Whether the peer is this process, or one of the same user on this machine: a shared memory transport connects to no
 * other. */
static inline bool cw_lane_peer_is_own(const struct cw_conn *lane)
{
    return lane->iface->transport->device_class != CW_DEVICE_NET;
}

/* ---- packets ---- */

static CW_INLINE ucs_status_t cw_lane_send_short(struct cw_conn *lane, uint8_t id, uint64_t header, const void *payload,
                                                 size_t length)
{
    return lane->iface->packets->send_short(lane, id, header, payload, length);
}

/* Whether the lane sends a payload in two parts without a copy that joins them. */
static inline bool cw_lane_joins(const struct cw_conn *lane)
{
    return lane->iface->packets->send_joined != NULL;
}

/* Only where cw_lane_joins. */
static CW_INLINE ucs_status_t cw_lane_send_joined(struct cw_conn *lane, uint8_t id, uint64_t header, const void *front,
                                                  size_t front_length, const void *payload, size_t length)
{
    return lane->iface->packets->send_joined(lane, id, header, front, front_length, payload, length);
}

static CW_INLINE bool cw_lane_hand_over(struct cw_conn *lane, uint64_t header, const void *payload, size_t length,
                                        bool may_store)
{
    return lane->iface->packets->hand_over != NULL &&
           lane->iface->packets->hand_over(lane, header, payload, length, may_store);
}

static CW_INLINE ucs_status_t cw_lane_send_bcopy(struct cw_conn *lane, uint8_t id, size_t max, cw_pack_fn pack,
                                                 void *arg)
{
    return lane->iface->packets->send_bcopy(lane, id, max, pack, arg);
}

/* A contiguous packet of 8 bytes or more: by send_short if it fits, otherwise by send_bcopy. */
ucs_status_t cw_lane_send_packet(struct cw_conn *lane, uint8_t id, const void *packet, size_t length);

/* A packet of 8 bytes of header and no payload, which every transport accepts. */
static inline ucs_status_t cw_lane_send_header(struct cw_conn *lane, uint8_t id, uint64_t header)
{
    return cw_lane_send_packet(lane, id, &header, sizeof(header));
}

/* Only where limits.max_zcopy is not 0. */
static inline ucs_status_t cw_lane_send_zcopy(struct cw_conn *lane, uint8_t id, const void *header,
                                              size_t header_length, const struct iovec *iov, unsigned iov_count,
                                              struct cw_completion *completion)
{
    return lane->iface->packets->send_zcopy(lane, id, header, header_length, iov, iov_count, completion);
}

/* Only where limits.max_placed is not 0. */
static inline ucs_status_t cw_lane_send_placed(struct cw_conn *lane, uint8_t id, const void *header,
                                               const struct iovec *iov, unsigned iov_count,
                                               struct cw_completion *completion)
{
    return lane->iface->packets->send_placed(lane, id, header, iov, iov_count, completion);
}

/* Whether further lanes of this interface can carry placed packets, in order with other packets. */
static inline bool cw_iface_carries_bulk(const struct cw_iface *iface)
{
    return iface->packets->send_in_place != NULL && iface->limits.max_placed > 0;
}

/* Whether the lane can place a payload in the peer's memory, in order with other packets. */
static inline bool cw_lane_sends_in_place(const struct cw_conn *lane)
{
    return lane->iface->packets->send_in_place != NULL && cw_conn_places(lane);
}

static inline ucs_status_t cw_lane_send_in_place(struct cw_conn *lane, uint8_t id, const void *header,
                                                 const struct iovec *iov, unsigned iov_count,
                                                 struct cw_completion *completion)
{
    return lane->iface->packets->send_in_place(lane, id, header, iov, iov_count, completion);
}

/* Whether the lane can send several packets together. */
static CW_INLINE bool cw_lane_batches(const struct cw_conn *lane)
{
    return lane->iface->packets->batch != NULL;
}

/* Only where cw_lane_batches. */
static inline void cw_lane_batch(struct cw_conn *lane, enum cw_batch what)
{
    lane->iface->packets->batch(lane, what);
}

static inline ucs_status_t cw_lane_flush(struct cw_conn *lane, struct cw_completion *completion)
{
    return (lane->iface->packets->flush == NULL) ? UCS_OK : lane->iface->packets->flush(lane, completion);
}

/* Whether a lane of the interface may still have unsent bytes or incomplete operations. */
static inline bool cw_iface_has_unsent(const struct cw_iface *iface)
{
    return iface->packets->flush != NULL && (iface->packets->has_unsent == NULL || iface->packets->has_unsent(iface));
}

/* Inside the upcall for this packet: retains the bytes in place until cw_iface_give_back, with limits.keep_space bytes
 * before them. NULL: not retained. */
static inline void *cw_lane_keep(struct cw_conn *lane, const void *data)
{
    return (lane->iface->packets->keep == NULL) ? NULL : lane->iface->packets->keep(lane, data);
}

static inline void cw_iface_give_back(struct cw_iface *iface, void *retained)
{
    iface->packets->give_back(iface, retained);
}

/* ---- connections ---- */

static inline ucs_status_t cw_lane_dial(struct cw_iface *iface, const void *address, size_t address_length,
                                        const void *hello, size_t hello_length, void *user, struct cw_conn **lane_p)
{
    return iface->transport->connect->dial(iface, address, address_length, hello, hello_length, user, lane_p);
}

static inline unsigned cw_iface_paths(struct cw_iface *iface, const void *address, size_t address_length)
{
    const struct cw_transport_connect *connect = iface->transport->connect;

    return (connect->num_paths == NULL) ? 1 : connect->num_paths(iface, address, address_length);
}

static inline ucs_status_t cw_lane_dial_path(struct cw_iface *iface, const void *address, size_t address_length,
                                             unsigned path, const void *hello, size_t hello_length, void *user,
                                             struct cw_conn **lane_p)
{
    const struct cw_transport_connect *connect = iface->transport->connect;

    return (connect->dial_path == NULL)
               ? connect->dial(iface, address, address_length, hello, hello_length, user, lane_p)
               : connect->dial_path(iface, address, address_length, path, hello, hello_length, user, lane_p);
}

/* Whether the peer cannot have received the hello of a dialled lane yet. */
static inline bool cw_lane_is_unseen(const struct cw_conn *lane)
{
    const struct cw_transport_connect *connect = lane->iface->transport->connect;

    return connect->is_unseen != NULL && connect->is_unseen(lane);
}

/* Whether a peer is known to be at the other end of a lane that is dialled and not accepted yet. */
static inline bool cw_lane_is_there(const struct cw_conn *lane)
{
    const struct cw_transport_connect *connect = lane->iface->transport->connect;

    return connect->is_there != NULL && connect->is_there(lane);
}

static inline void cw_lane_close(struct cw_conn *lane)
{
    lane->iface->transport->connect->close_conn(lane);
}

static inline bool cw_lane_stopping(struct cw_conn *lane)
{
    return lane->iface->transport->connect->stopping != NULL && lane->iface->transport->connect->stopping(lane);
}

static inline void cw_lane_watch(struct cw_conn *lane)
{
    if (lane->iface->transport->connect->watch != NULL) {
        lane->iface->transport->connect->watch(lane);
    }
}

static inline void cw_lane_abandon(struct cw_conn *lane)
{
    if (lane->iface->transport->connect->abandon != NULL) {
        lane->iface->transport->connect->abandon(lane);
    }
}

/* ---- short packets without a slot (transport/fastpath.h) ---- */

static inline bool cw_iface_has_fastpath(const struct cw_iface *iface)
{
    return iface->transport->fastpath != NULL;
}

/* Only where the interface has a fast path. */
static inline struct cw_tx *cw_lane_tx(struct cw_conn *lane)
{
    return lane->iface->transport->fastpath->tx(lane);
}

/* ---- interfaces ---- */

static inline const char *cw_iface_name(const struct cw_iface *iface)
{
    return iface->name;
}

/* The name of the first device of an interface, for texts. */
static inline const char *cw_iface_device(const struct cw_iface *iface)
{
    return iface->device->name;
}

static inline const char *cw_lane_name(const struct cw_conn *lane)
{
    return cw_iface_name(lane->iface);
}

static inline uint8_t cw_iface_wire_id(const struct cw_iface *iface)
{
    return iface->transport->wire_id;
}

static inline size_t cw_iface_address(struct cw_iface *iface, void *buffer, size_t max)
{
    return (iface->transport->address == NULL) ? cw_iface_own_address(iface, buffer, max)
                                               : iface->transport->address(iface, buffer, max);
}

/* What the device with that name contributes to it; 0: nothing. */
static inline size_t cw_iface_device_address(struct cw_iface *iface, const char *device, void *buffer, size_t max)
{
    if (iface->transport->device_address != NULL) {
        return iface->transport->device_address(iface, device, buffer, max);
    }
    return (strcmp(cw_iface_device(iface), device) == 0) ? cw_iface_address(iface, buffer, max) : 0;
}

static inline bool cw_iface_reachable(struct cw_iface *iface, const void *address, size_t length, const char **why)
{
    if (iface->transport->reachable != NULL) {
        return iface->transport->reachable(iface, address, length, why);
    }
    *why = "it is another worker";
    return cw_iface_is_own(iface, address, length);
}

static CW_INLINE unsigned cw_iface_progress(struct cw_iface *iface)
{
    return iface->transport->progress(iface);
}

static inline ucs_status_t cw_iface_arm(struct cw_iface *iface)
{
    if (iface->transport->arm != NULL) {
        return iface->transport->arm(iface);
    }
    return iface->woken ? UCS_ERR_BUSY : UCS_OK;
}

#endif
