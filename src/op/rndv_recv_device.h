/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An announced message whose bytes a device moves (docs/change/long-messages.md): what op/rndv_recv.c shares with the
 * protocols that do it (src/proto/rndv_*.c). Each transfer has a request of its own beside that of the receive,
 * which waits for room of the lane in the endpoint's queue, counts the accesses, and holds the registration; it ends
 * before the receive does, and so do the rights that a peer has.
 */
#ifndef CW_OP_RNDV_RECV_DEVICE_H
#define CW_OP_RNDV_RECV_DEVICE_H

#include "op/access.h"
#include "op/rndv_recv.h"

/* The state of that request. */
struct cw_rndv_recv_device {
    struct cw_access *access;
    char *memory; /* of the receive; */
    uint64_t length;
    uint64_t offset;          /* bytes that accesses were begun for */
    uint64_t address;         /* of the sender's */
    struct cw_remote_key key; /* where that is announced for the device */
    uint64_t send_id;
    uint64_t receive_id;
    uint8_t is_written; /* by the sender, who has the key to our memory */
    void (*ended)(struct cw_rndv_recv *fetch, ucs_status_t status);
    struct cw_rndv_recv *fetch;
};

_Static_assert(sizeof(struct cw_rndv_recv_device) <= CW_REQUEST_STATE_SIZE, "state fits the request");

/* Reads what an announcement says of memory for devices, behind its headers. UCS_ERR_IO_ERROR: it breaks the
 * protocol. */
ucs_status_t cw_offer_take_memory(const struct ucp_ep *ep, struct cw_offer *offer, const void *bytes, size_t length);

/* How a device moves it; NULL: packets do. */
const struct cw_protocol *cw_rndv_recv_device_choose(struct ucp_ep *ep, const struct cw_offer *offer,
                                                     const struct cw_dt_cursor *cursor);
/* Begins. `ended` follows, never inside this call: UCS_OK: all bytes are there; any other status: none may be relied
 * on, and nothing writes to the memory any more. It does not follow when the endpoint is lost. NULL: no memory. */
struct cw_request *cw_rndv_recv_device_begin(struct ucp_ep *ep, const struct cw_protocol *protocol,
                                             const struct cw_rndv_recv_device *what);
/* The sender of `receive_id` says that its writing is over. UCS_ERR_IO_ERROR: it was not asked to. */
ucs_status_t cw_rndv_recv_device_written(struct cw_request *request, ucs_status_t status);

/* For protocols: the memory of the receive with these rights (enum cw_domain_rights); and telling the sender to write
 * there. */
ucs_status_t cw_rndv_recv_device_register(struct cw_request *request, unsigned rights);
ucs_status_t cw_rndv_recv_device_offer(struct cw_request *request);

#endif
