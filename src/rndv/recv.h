/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiver side of a rendezvous: moves an announced message into the memory of a receive
 * (docs/change/long-messages.md).
 *
 *      COPYING --no share left, some still with the sender--> WAITING --COPIED--> done
 *         |                                                      |  `--not all copied--> RECEIVING
 *         `--own copy fails, sender does not copy---> RECEIVING  |
 *      only the sender copies: begins here ----------------------'
 *      nobody copies: begins here --> RECEIVING --last byte--> done
 *      the devices share a host: begins here --> NAMING --first piece--> RECEIVING
 *                                                    |--NAME--> IPC --all is copied--> done
 *                                                    |           |--it cannot be opened--> NAMING
 *                                                    |           `--it fails--> RECEIVING
 *                                                    `--first CHUNK--> BOUNCING --all is copied--> done
 *                                                                      `--it fails--> RECEIVING
 *      a device moves it: begins here --> MOVING --all is there--> done
 *                                           `--the device fails--> RECEIVING
 */
#ifndef CW_RNDV_RECV_H
#define CW_RNDV_RECV_H

#include "core/ep.h"
#include "mem/domain.h"
#include "msg/datatype.h"
#include "wire/key.h"
#include "wire/packet.h"

/* Keys of the sender's memory, one for each domain of the sender that a lane reaches. The first is for the device of
 * the message lane. */
struct cw_offer_keys {
    struct cw_remote_key key[CW_KEY_MEMORY_PARTS];
    uint8_t domain[CW_KEY_MEMORY_PARTS];
};

struct cw_rndv_recv;

/* An announcement, in host order. */
struct cw_offer {
    uint64_t length;
    uint64_t send_id;
    uint64_t address;
    uint8_t num_keys; /* 0: the device of the message lane cannot read the message */
    struct cw_offer_keys keys;
};

static inline struct cw_offer cw_offer_decode(const struct cw_wire_rts *rts)
{
    return (struct cw_offer){
        .length = le64toh(rts->length), .send_id = le64toh(rts->send_id), .address = le64toh(rts->address)};
}

/*
 * Starts receiving a message that was announced on this endpoint. `cursor` belongs to the request and was started for
 * receiving. UCS_INPROGRESS: the request completes later through `cw_request_complete`. Otherwise the receive is over,
 * and the result is the status of the request: UCS_OK, UCS_ERR_MESSAGE_TRUNCATED (nothing was moved), or an error. The
 * sender is answered in all cases.
 */
ucs_status_t cw_rndv_recv_start(struct ucp_ep *ep, const struct cw_offer *offer, struct cw_request *request,
                                struct cw_dt_cursor *cursor);

/* Rejects the message: the sender's request completes with this status. */
void cw_rndv_recv_refuse(struct ucp_ep *ep, const struct cw_offer *offer, ucs_status_t status);

/*
 * Receive in packets only, never by copies between processes. cw_rndv_recv_receive: an announced message, as above,
 * into memory that the program may read meanwhile. cw_rndv_recv_expect: data that the caller requests from the peer
 * under `*id_p`, in pieces of at most `*piece_p`, or by the protocols in `*accepts_p` (CW_WIRE_GET_NAME,
 * CW_WIRE_GET_CHUNKS). The request completes later. UCS_ERR_NO_MEMORY: nothing happened. If the caller does not send
 * its request after all, cw_rndv_recv_forget ends the expectation without completing the request.
 */
ucs_status_t cw_rndv_recv_receive(struct ucp_ep *ep, const struct cw_offer *offer, struct cw_request *request,
                                  struct cw_dt_cursor *cursor);
ucs_status_t cw_rndv_recv_expect(struct ucp_ep *ep, struct cw_request *request, struct cw_dt_cursor *cursor,
                                 uint64_t *id_p, uint32_t *piece_p, uint8_t *accepts_p);
void cw_rndv_recv_forget(struct ucp_ep *ep, uint64_t id);
/* The peer refuses to send the requested data: the request completes with this status. UCS_ERR_IO_ERROR: no data was
 * requested under this id, or some of it has arrived. */
ucs_status_t cw_rndv_recv_refused(struct ucp_ep *ep, uint64_t id, ucs_status_t status);

/* Called before the endpoint loses its connection: after the return no peer writes into memory of its receives. Waits,
 * for a limited time, while the peer writes a share. */
void cw_rndv_recv_quiesce(struct ucp_ep *ep);

/* Packet handlers and transport upcalls. */
ucs_status_t cw_rndv_recv_on_data(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rndv_recv_on_whole(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rndv_recv_on_name(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rndv_recv_on_chunk(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_rndv_recv_on_copied(struct ucp_ep *ep, const void *data, size_t length);
unsigned cw_rndv_recv_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov);
void cw_rndv_recv_placed(struct ucp_ep *ep, const void *header, size_t length);
void cw_rndv_recv_unplaced(struct ucp_ep *ep, const void *header, size_t length);

#endif
