/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending one message of any operation: by one packet, by several, or by rendezvous (docs/change/long-messages.md). The
 * operations differ in the headers of their packets only, which a struct cw_send_kind writes.
 *
 *      QUEUED --one packet--------------------------------------> SENT --completed, acknowledged--> done
 *        | `--first of several--> PIECES --last-----------------> SENT
 *        `--announced--> ANNOUNCED --READY SEND--> DATA --last--> SENT
 *                          |   |--READY COPY--> COPYING --no share left--> COPIED --DONE--> done
 *                          |   |--READY WRITE--> WRITING --the device--> COPIED    `--READY SEND--> DATA
 *                          |   |--READY NAME--> NAMING --name of the memory--> ANNOUNCED
 *                          |   |                  `--no name--> CHUNKS or DATA
 *                          |   `--READY CHUNKS--> CHUNKS --all announced, DONE--> done
 *                          |                        `--READY SEND--> DATA
 *                          `--DONE--> done
 *
 * A protocol (src/proto) is chosen at each attempt in QUEUED, and is request->send once it has begun. In QUEUED,
 * PIECES, NAMING and DATA the request is on ep->pending, afterwards on ep->inflight, in CHUNKS on either. Kinds that
 * are `confirmed` wait in SENT for DONE.
 */
#ifndef CW_MSG_SEND_H
#define CW_MSG_SEND_H

#include "base/nt_copy.h"
#include "core/ep.h"
#include "core/mem.h"
#include "msg/datatype.h"
#include "proto/protocol.h"
#include "wire/key.h"
#include "wire/packet.h"

enum cw_send_part { CW_SEND_WHOLE, CW_SEND_FIRST, CW_SEND_RTS, CW_SEND_PARTS };

enum cw_send_phase {
    CW_SEND_QUEUED,
    CW_SEND_PIECES,
    CW_SEND_ANNOUNCED,
    CW_SEND_COPYING,
    CW_SEND_WRITING,    /* the device writes */
    CW_SEND_COPIED,
    CW_SEND_NAMING,     /* the receiver requests a remotely accessible name of the memory */
    CW_SEND_BOUNCE,     /* through bounce buffers for the receiver's device (rndv/bounce.h) */
    CW_SEND_DATA,
    CW_SEND_SENT
};

struct cw_mem_pin;
struct cw_send;
struct ucp_rkey;

struct cw_send_kind {
    uint8_t ids[CW_SEND_PARTS];
    uint8_t counter;            /* enum cw_counter that counts the messages */
    uint8_t operation;          /* enum cw_proto_operation: selects the table of protocols */
    uint8_t credited;           /* messages consume credit of the receiver */
    uint8_t acknowledged;       /* completes when the receiver confirms; has an id from the start */
    uint8_t after_fence;        /* waits until the puts before a fence are complete */
    uint8_t used_in_place;      /* the receiver uses a single packet in place, so it may be long */
    uint8_t names_memory;       /* the announcement includes keys of the memory for the receiver's device */
    uint8_t confirmed;          /* with `acknowledged`: the receiver confirms an announced message, too */
    /* Writes the header of this part and returns its length. If dest is NULL, only returns the length. */
    size_t (*header)(const struct cw_send *send, enum cw_send_part part, void *dest);
    /* Called when the request outlives the call and nothing was sent: copies data that the program may reuse. NULL:
     * nothing. */
    ucs_status_t (*keep)(struct cw_send *send);
    /* Releases resources of the operation itself. NULL: nothing. */
    void (*release)(struct cw_send *send);
    /* Cancels a message whose receiver is this worker. 0: must ask the receiver. NULL: always asks. */
    int (*take_back)(struct cw_request *request);
};

/* The state of the request. */
struct cw_send {
    struct cw_completion completion; /* of all pieces without copy; request->outstanding counts them */
    struct cw_dt_cursor cursor;
    const struct cw_send_kind *kind;
    uint64_t id;                     /* in worker->ids, if the peer is to answer; 0: none */
    union {
        uint64_t tag;
        struct {
            const void *header;
            uint32_t header_length;
            uint16_t handler;
            uint8_t flags;
            uint8_t owns_header : 1;
            uint8_t copy_header : 1;
        } am;
        struct {
            struct ucp_rkey *rkey; /* the request holds a reference */
            uint64_t address;
        } put;
        struct cw_mem_pin *pin;      /* of the memory that a get reads */
    };
    uint32_t message;                /* number of a message in several packets; generation of a put (rma/rma.h) */
    uint32_t extra;                  /* length of the program's header; counts for the rendezvous threshold */
    uint8_t phase;
    uint8_t force;                   /* enum cw_protocol_force */
    uint8_t fast;                    /* FAST_CMPL */
    uint8_t acknowledged;            /* the receiver has matched the message */
    uint8_t no_copies;               /* put: no copy between processes is possible */
    uint8_t on_device : 1;           /* memory is registered: a device reads or writes the bytes */
    uint8_t named     : 1;           /* the location of the message was, or will be, sent to the receiver */
    uint8_t has_mem   : 1;           /* the program passed a memory handle, and the message is not announced */
    uint8_t holds_mem : 1;           /* with has_mem: the request holds a reference to the region */
    uint8_t accepts_bounce : 1;      /* the receiver accepts bounce buffers */
    uint8_t cancelling : 1;          /* the receiver is, or will be, asked to return it */
    uint8_t cancelled : 1;           /* the receiver returned it */
    uint8_t landed    : 1;           /* loopback message: its first packet arrived */
    uint8_t one_lane  : 1;           /* only the message lane carries the data: it releases the memory before the peer
                                      * can know that it has all of them */
    union {
        uint64_t receive_id;         /* rendezvous: id from READY */
        struct cw_access *access;    /* put by the device; message with on_device */
        struct ucp_mem *mem;         /* message with has_mem */
    };
    struct {
        struct cw_job job;           /* COPYING */
        uint64_t address;            /* of the receive's memory */
        uint32_t piece;              /* most bytes of a packet, or the bytes of a share */
        uint32_t generation : 24;    /* of the claim pair ... */
        uint32_t pair : 8;           /* ... and its number */
    } rndv;
};

_Static_assert(sizeof(struct cw_send) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static inline struct cw_request *cw_send_request(struct cw_send *send)
{
    return (struct cw_request *)(void *)send - 1;
}

/* How bytes are copied into the packets of this send. */
static inline struct cw_nt_choice *cw_send_nt(const struct cw_send *send)
{
    return ((const struct cw_request *)(const void *)send - 1)->ep->conn->nt;
}

/* Prepares a request from cw_request_get and starts its datatype. The caller sets the fields of the kind itself. On
 * failure the request was released. */
ucs_status_t cw_send_init(struct cw_request *request, struct ucp_ep *ep, const struct cw_send_kind *kind,
                          const void *buffer, size_t count, const ucp_request_param_t *param);
/* Makes the first attempt, or queues the request. The result is as *_nbx calls define it. */
ucs_status_ptr_t cw_send_start(struct cw_request *request, uint32_t attr_mask);
/* The attempt of these requests (request->send) until a protocol has begun: it chooses a protocol (proto/select.h) and
 * begins it. */
ucs_status_t cw_send_attempt(struct cw_request *request);
/* For protocols. cw_send_left_whole: the whole message was sent in one packet. cw_send_left: all of it was handed to
 * the transport. Both return the status of the attempt. */
ucs_status_t cw_send_left_whole(struct cw_request *request, enum cw_trace_path path);
ucs_status_t cw_send_left(struct cw_request *request);
/* Sends the next bytes, at most `max`, directly from the user's memory by that slot of the transport. The completion is
 * counted, and the cursor advances. UCS_OK: accepted. */
enum cw_send_slot { CW_SEND_ZCOPY, CW_SEND_PLACED, CW_SEND_IN_PLACE };
ucs_status_t cw_send_memory(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                            size_t max, enum cw_send_slot slot);
/* As cw_send_memory, on the given lane. */
ucs_status_t cw_send_memory_on(struct cw_request *request, struct cw_conn *conn, uint8_t id, const void *header,
                               size_t header_length, size_t max, enum cw_send_slot slot);
/* As cw_send_memory, for a generic type and CW_SEND_ZCOPY or CW_SEND_IN_PLACE: bytes that were packed into memory of
 * the library. UCS_ERR_NO_MEMORY: no memory; no effect. */
ucs_status_t cw_send_packed(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                            size_t max, enum cw_send_slot slot);
/* As cw_send_memory, as many bytes as fit one packet. */
ucs_status_t cw_send_zcopy(struct cw_request *request, uint8_t id, const void *header, size_t header_length);
/* The handle of the message's memory for the device of the lane, which can send from it; NULL: none. A handle of
 * another context belongs to other domains. */
static inline const struct cw_memh *cw_send_memh(const struct cw_send *send, const struct cw_iface *iface)
{
    const struct cw_memh *memh = NULL;

    if (send->has_mem && iface->limits.max_registered > 0 && send->cursor.class_id == UCP_DATATYPE_CONTIG) {
        memh = cw_mem_handle(send->mem, iface->domain);
    }
    return (memh != NULL && memh->domain == iface->domain) ? memh : NULL;
}

/* Drops the program's memory handle from the send. */
static inline void cw_send_drop_mem(struct cw_send *send)
{
    if (cw_unlikely(send->holds_mem)) {
        cw_mem_release(send->mem);
    }
    send->has_mem = 0;
    send->holds_mem = 0;
}

/* The length, with header, of the next packet of a message that is copied in several packets. Packets end where a piece
 * of a generic type ends; while packing straight takes less time, the rest of the piece is one packet. */
static inline size_t cw_send_piece(const struct cw_send *send, const struct cw_conn *conn, size_t header)
{
    size_t left = send->cursor.length - send->cursor.offset + header;

    if (send->cursor.class_id == UCP_DATATYPE_GENERIC) {
        left = cw_dt_to_piece_end(&send->cursor) + header;
        if (conn->nt != NULL && left <= conn->max_whole && cw_pack_goes_straight(&conn->nt->pack)) {
            return left;
        }
    }
    return (left < cw_conn_max_piece(conn)) ? left : cw_conn_max_piece(conn);
}

/* Sends the next `length` bytes from registered memory (must exist). The completion of the last packet covers those
 * before. UCS_OK: accepted. */
ucs_status_t cw_send_registered(struct cw_request *request, uint8_t id, const void *header, size_t header_length,
                                size_t length, int is_last);
/* Completes the request, which is on a list: the sender's part is done. */
void cw_send_finish(struct cw_request *request, ucs_status_t status);
/* The length of the message, and the type of its memory. For requests of other operations 0 and host memory. */
size_t cw_send_length(const struct cw_request *request);
ucs_memory_type_t cw_send_memory_type(const struct cw_request *request);
/* Returns the send of this endpoint with the id from a packet of the peer, or NULL. */
struct cw_request *cw_send_find(const struct ucp_ep *ep, uint64_t id);
/* Cancels a send as far as this is possible (docs/change/long-messages.md). The request may be of any operation. */
void cw_send_cancel(struct cw_request *request);

/* Tries to send a short list of buffers as one packet, behind the 8 bytes of `header`, without a request. */
bool cw_send_list(struct ucp_ep *ep, const struct cw_send_kind *kind, uint64_t header, const ucp_dt_iov_t *iov,
                  size_t count);

#endif
