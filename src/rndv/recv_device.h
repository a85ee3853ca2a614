/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announced messages that a device moves (docs/change/long-messages.md): shared by rndv/recv.c and the protocols
 * (src/proto/rndv.c). Each transfer has a request of its own beside that of the receive. It waits in the endpoint's
 * queue for tx space of the lane, counts the accesses, and owns the registration. It ends before the receive ends, and
 * the peer's rights to the memory end with it.
 */
#ifndef CW_RNDV_RECV_DEVICE_H
#define CW_RNDV_RECV_DEVICE_H

#include "access/access.h"
#include "rndv/recv.h"

/* State of the transfer's request. */
struct cw_rndv_recv_device {
    struct cw_access *access;
    char *memory; /* of the receive */
    uint64_t length;
    uint64_t offset;                  /* bytes covered by accesses so far */
    uint64_t address;                 /* of the sender's memory */
    const struct cw_offer_keys *keys; /* keys of that memory; owned by the receive */
    uint8_t num_keys;
    uint8_t type; /* ucs_memory_type_t of the receive's memory */
    uint64_t send_id;
    uint64_t receive_id;
    uint8_t is_written; /* the sender's device writes, with the key of the receive's memory */
    void (*ended)(struct cw_rndv_recv *receive, ucs_status_t status);
    struct cw_rndv_recv *receive;
};

_Static_assert(sizeof(struct cw_rndv_recv_device) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static inline struct cw_mem_part cw_rndv_recv_device_part(const struct cw_rndv_recv_device *receive)
{
    return (struct cw_mem_part){receive->memory, receive->length, (ucs_memory_type_t)receive->type};
}

/* Decodes the part of an announcement, behind the headers, that names memory for devices. UCS_ERR_IO_ERROR: protocol
 * violation. */
ucs_status_t cw_offer_take_memory(const struct ucp_ep *ep, struct cw_offer *offer, const void *bytes, size_t length);

/* Decodes the parts for devices of open lanes and ignores the others. *count_p: the number of keys; 0: none for the
 * device of the message lane. UCS_ERR_IO_ERROR: protocol violation. */
ucs_status_t cw_offer_take_keys(const struct ucp_ep *ep, const struct cw_key_memory *memory, struct cw_offer_keys *keys,
                                uint8_t *count_p);
/* The key for that domain of the sender, or NULL. */
const struct cw_remote_key *cw_offer_key(const struct cw_offer_keys *keys, unsigned count, unsigned domain);

/* Registers local memory with the devices of all lanes that have keys, so that the lanes share the accesses. */
void cw_offer_share(struct cw_access *access, const struct cw_mem_part *part, unsigned rights,
                    const struct cw_offer_keys *keys, unsigned count);

/* The protocol by which a device moves the message; NULL: packets carry it. */
const struct cw_protocol *cw_rndv_recv_device_choose(struct ucp_ep *ep, const struct cw_offer *offer,
                                                     const struct cw_dt_cursor *cursor);
/* Begins the transfer. `ended` is called later, never inside this call. UCS_OK: all bytes have arrived. Any other
 * status: the memory's content is undefined, and nothing writes to it any more. `ended` is not called when the endpoint
 * is lost. NULL: out of memory. */
struct cw_request *cw_rndv_recv_device_begin(struct ucp_ep *ep, const struct cw_protocol *protocol,
                                             const struct cw_rndv_recv_device *what);
/* The sender reports that its device has finished writing. UCS_ERR_IO_ERROR: no write was requested. */
ucs_status_t cw_rndv_recv_device_written(struct cw_request *request, ucs_status_t status);

/* For protocols: cw_rndv_recv_device_register registers the memory of the receive with these rights (enum
 * cw_domain_rights) for the message lane; cw_rndv_recv_device_offer asks the sender to write there, over several lanes
 * where possible. */
ucs_status_t cw_rndv_recv_device_register(struct cw_request *request, unsigned rights);
ucs_status_t cw_rndv_recv_device_offer(struct cw_request *request);

#endif
