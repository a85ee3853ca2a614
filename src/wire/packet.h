/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every packet that travels on an open connection. A packet is an id (carried by the transport) and a header followed
 * by the payload. Numbers are little endian. docs/WIRE.md is the long form of these tables. Ids are never reused; a
 * peer that sends an unknown one breaks the protocol and loses the connection.
 */
#ifndef CW_WIRE_PACKET_H
#define CW_WIRE_PACKET_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum cw_packet_id {
    CW_PACKET_INVALID = 0,
    CW_PACKET_CLOSE = 1, /* header 8 bytes, zero: the sender closed its endpoint, its worker lives on */
    CW_PACKET_END = 2, /* header 8 bytes, zero: the program destroys the sender's worker */
    CW_PACKET_TAG_EAGER = 3, /* struct cw_wire_tag */
    CW_PACKET_TAG_SYNC = 4, /* struct cw_wire_tag_sync */
    CW_PACKET_TAG_FIRST = 5, /* struct cw_wire_tag_first */
    CW_PACKET_NEXT = 6, /* struct cw_wire_next */
    CW_PACKET_TAG_ACK = 7, /* struct cw_wire_tag_ack */
    CW_PACKET_TAG_RTS = 8, /* struct cw_wire_tag_rts */
    CW_PACKET_RNDV_READY = 9, /* struct cw_wire_rndv_ready */
    CW_PACKET_RNDV_DATA = 10, /* struct cw_wire_rndv_data */
    CW_PACKET_RNDV_DONE = 11, /* struct cw_wire_rndv_done */
    CW_PACKET_RNDV_COPIED = 12, /* struct cw_wire_rndv_copied */
    CW_PACKET_TAG_CANCEL = 13, /* struct cw_wire_tag_cancel */
    CW_PACKET_CREDIT = 14, /* struct cw_wire_credit */
    CW_PACKET_AM_EAGER = 15, /* struct cw_wire_am */
    CW_PACKET_AM_FIRST = 16, /* struct cw_wire_am_first */
    CW_PACKET_AM_RTS = 17, /* struct cw_wire_am_rts */
    CW_PACKET_STREAM_DATA = 18, /* struct cw_wire_stream_data */
    CW_PACKET_STREAM_CREDIT = 19, /* struct cw_wire_stream_credit */
    CW_PACKET_PUT = 20, /* this one and the following: wire/rma.h; struct cw_wire_put */
    CW_PACKET_PUT_RTS = 21, /* struct cw_wire_put_rts */
    CW_PACKET_GET = 22, /* struct cw_wire_get */
    CW_PACKET_GET_REFUSED = 23, /* struct cw_wire_get_refused */
    CW_PACKET_AMO = 24, /* struct cw_wire_amo */
    CW_PACKET_AMO_REPLY = 25, /* struct cw_wire_amo_reply */
    CW_PACKET_FLUSH = 26, /* struct cw_wire_flush */
    CW_PACKET_FLUSHED = 27, /* struct cw_wire_flushed */
    CW_PACKET_STAY = 30, /* header 8 bytes, zero: the client uses the connection on which it met the server */
    CW_PACKET_GET_DATA = 33, /* wire/rma.h, struct cw_wire_get_data */
    CW_PACKET_LANE = 34, /* wire/lane.h, struct cw_wire_lane: about the further lanes of the endpoint */
    CW_PACKET_PUT_LIST = 35, /* wire/rma.h, struct cw_wire_put_list; placed: struct cw_wire_put_list_data */
    CW_PACKET_RNDV_NAME = 36, /* struct cw_wire_rndv_name */
    CW_PACKET_MOVE = 37, /* wire/failover.h, struct cw_wire_move: about the carrier of the message lane */
    CW_PACKET_RNDV_CHUNK = 38, /* struct cw_wire_rndv_chunk */
    CW_PACKET_RNDV_TAKEN = 39, /* struct cw_wire_rndv_taken */
    CW_PACKET_COUNT = 40
};

/* A whole message. OFFSET 0 SIZE 8: tag. Payload: the message. */
struct cw_wire_tag {
    uint64_t tag;
};

/* A whole message whose sender waits for the match. 0/8: tag; 8/8: id for the acknowledgement. Payload: the
 * message. */
struct cw_wire_tag_sync {
    uint64_t tag;
    uint64_t sync_id;
};

/* The beginning of a message cut into pieces. 0/8: tag; 8/8: bytes in all; 16/8: id for the acknowledgement or 0; 24/4:
 * message number on this connection; 28/4: zero. Payload: the first bytes, at least one, fewer than all. */
struct cw_wire_tag_first {
    uint64_t tag;
    uint64_t total;
    uint64_t sync_id;
    uint32_t message;
    uint32_t reserved;
};

/* A further piece of a message that began with TAG_FIRST or AM_FIRST. 0/4: message number; 4/4: zero; 8/8: offset in
 * the message, which must be the number of bytes that have arrived. Payload: at least one byte. */
struct cw_wire_next {
    uint32_t message;
    uint32_t reserved;
    uint64_t offset;
};

/* The message of a synchronous send was matched. 0/8: its sync_id. No payload. */
struct cw_wire_tag_ack {
    uint64_t sync_id;
};

/* The end of every announcement of a message by rendezvous. 0/8: bytes in all; 8/8: id of the send; 16/8: address of
 * the message in the sender's process, 0 when it does not lie in one piece. */
struct cw_wire_rts {
    uint64_t length;
    uint64_t send_id;
    uint64_t address;
};

/* A tag message is announced. 0/8: tag; 8/24: struct cw_wire_rts. No payload. */
struct cw_wire_tag_rts {
    uint64_t tag;
    struct cw_wire_rts rts;
};

enum cw_wire_rndv_mode {
    CW_WIRE_RNDV_SEND = 1, /* the receiver waits for RNDV_DATA */
    CW_WIRE_RNDV_COPY = 2, /* the sender may copy shares into the receiver's memory (docs/change/long-messages.md) */
    CW_WIRE_RNDV_WRITE = 3, /* the sender's device writes into the receiver's memory */
    CW_WIRE_RNDV_NAME = 4, /* as SEND, but the sender may answer RNDV_NAME instead, */
    CW_WIRE_RNDV_CHUNKS = 5, /* or RNDV_CHUNK, */
    CW_WIRE_RNDV_EITHER = 6 /* or one of them */
};

/* The smallest piece that a receiver may request: every transport accepts this many bytes in one packet. A smaller
 * limit would let a peer that sends few bytes make this side send a packet for each few bytes of its message. */
#define CW_WIRE_LEAST_PIECE 128u

/* The receiver of an announced message is ready. 0/8: id of the send; 8/8: id of the receive; 16/8: COPY: address
 * of the receiver's memory; 24/4: enum cw_wire_rndv_mode; 28/4: SEND: bytes that one RNDV_DATA may carry, at least
 * CW_WIRE_LEAST_PIECE; COPY: bytes of a share, 4096 to 1 MiB; 32/4: COPY: index of the claim pair; 36/4: COPY: its
 * generation. The rest is zero. */
struct cw_wire_rndv_ready {
    uint64_t send_id;
    uint64_t receive_id;
    uint64_t address;
    uint32_t mode;
    uint32_t piece;
    uint32_t pair;
    uint32_t generation;
};

/* Bytes of the message. 0/8: id of the receive; 8/8: offset. Payload: at least one byte. */
struct cw_wire_rndv_data {
    uint64_t receive_id;
    uint64_t offset;
};

/* How the receiver's device finds the message in memory of the sender's device, on the same host. 0/8: id of the
 * receive; 8/8: id of the send; 16/1: enum cw_md_form of mem/md.h; 17/1: ucs_memory_type_t; 18/6: zero; 24/8: number of
 * the sender's process; 32/8: number of the allocation, 40/8: its address, 48/8: its bytes; 56/8: address of the
 * message; 64/64: handle of the driver, or 64/8: number of the descriptors that were passed, 72/4: how many. No
 * payload. */
struct cw_wire_rndv_name {
    uint64_t receive_id;
    uint64_t send_id;
    uint8_t form;
    uint8_t type;
    uint8_t reserved[6];
    uint64_t process;
    uint64_t buffer;
    uint64_t start;
    uint64_t size;
    uint64_t address;
    uint8_t handle[64];
};

/* Bounce buffers in host memory through which two ends copy between memory of their devices: of a connection, in one
 * direction. */
#define CW_WIRE_CHUNKS 16u
/* Bounce buffers of a message that the receiver has not consumed. */
#define CW_WIRE_CHUNKS_OUT 4u
#define CW_WIRE_CHUNK_MOST (UINT32_C(16) << 20)

/* The next bytes of the message lie at the beginning of a bounce buffer. 0/8: id of the receive; 8/8: id of the send;
 * 16/8: offset of the bytes in the message, which is the sum of all buffers before; 24/8: in another process the index
 * of the buffer, below CW_WIRE_CHUNKS, in this one its number; 32/8: number of its descriptor, which was passed, or 0:
 * the receiver has the buffer, or is in this process; 40/4: bytes; 44/4: bytes of the buffer. No payload. */
struct cw_wire_rndv_chunk {
    uint64_t receive_id;
    uint64_t send_id;
    uint64_t offset;
    uint64_t chunk;
    uint64_t passed;
    uint32_t length;
    uint32_t size;
};

/* To the sender: these bytes were copied, and it may reuse the bounce buffer. 0/8: id of the send; 8/8: offset of the
 * bytes in the message; 16/4: 1: the receiver retains the buffer, 0: its descriptor must be passed again; 20/4:
 * zero. */
struct cw_wire_rndv_taken {
    uint64_t send_id;
    uint64_t offset;
    uint32_t keeps;
    uint32_t reserved;
};

/* To the sender: the transfer is complete. 0/8: id of the send; 8/4: ucs_status_t; 12/4: zero. */
struct cw_wire_rndv_done {
    uint64_t send_id;
    int32_t status;
    uint32_t reserved;
};

/* To the receiver: the sender has ended its copying. 0/8: id of the receive; 8/4: ucs_status_t; 12/4: zero. */
struct cw_wire_rndv_copied {
    uint64_t receive_id;
    int32_t status;
    uint32_t reserved;
};

/* The sender cancels an announced or synchronous message. 0/8: its send id or sync id. RNDV_DONE with UCS_ERR_CANCELED
 * answers, unless the message was matched meanwhile. */
struct cw_wire_tag_cancel {
    uint64_t send_id;
};

/* Returns credit: the charge of eager tag messages that the receiver has freed on this connection since its beginning.
 * 0/8: that charge in all (docs/change/long-messages.md). */
struct cw_wire_credit {
    uint64_t consumed;
};

#define CW_WIRE_AM_REPLY 1u

/* An active message of one packet. 0/2: handler; 2/1: flags; 3/1: zero; 4/4: length of the user's header. Payload: the
 * user's header, then the data. */
struct cw_wire_am {
    uint16_t handler;
    uint8_t flags;
    uint8_t reserved;
    uint32_t header_length;
};

/* The beginning of an active message cut into pieces. 0/8: struct cw_wire_am; 8/8: bytes of data in all; 16/4: message
 * number on this connection; 20/4: zero. Payload: the user's header, then the first data, fewer than all. */
struct cw_wire_am_first {
    struct cw_wire_am am;
    uint64_t total;
    uint32_t message;
    uint32_t reserved;
};

/* An active message is announced. 0/8: struct cw_wire_am; 8/24: struct cw_wire_rts. Payload: the user's header. */
struct cw_wire_am_rts {
    struct cw_wire_am am;
    struct cw_wire_rts rts;
};

/* Limit of stream bytes that a sender may have sent beyond the receiver's last STREAM_CREDIT. */
#define CW_STREAM_WINDOW (1u << 20)

/* Bytes of the endpoint's stream. 0/8: the number of stream bytes before these. Payload: at least one byte. */
struct cw_wire_stream_data {
    uint64_t offset;
};

/* The number of stream bytes that the receiver has consumed since the beginning. 0/8: bytes. */
struct cw_wire_stream_credit {
    uint64_t consumed;
};

_Static_assert(sizeof(struct cw_wire_tag) == 8 && sizeof(struct cw_wire_tag_sync) == 16 &&
               sizeof(struct cw_wire_tag_first) == 32 && sizeof(struct cw_wire_next) == 16 &&
                   sizeof(struct cw_wire_tag_ack) == 8, "sizes on the wire");
_Static_assert(sizeof(struct cw_wire_rts) == 24 && sizeof(struct cw_wire_tag_rts) == 32 &&
               sizeof(struct cw_wire_rndv_ready) == 40 && sizeof(struct cw_wire_rndv_data) == 16 &&
                   sizeof(struct cw_wire_rndv_done) == 16 && sizeof(struct cw_wire_rndv_copied) == 16 &&
                   sizeof(struct cw_wire_rndv_name) == 128 && sizeof(struct cw_wire_rndv_chunk) == 48 &&
                   sizeof(struct cw_wire_rndv_taken) == 24,
               "sizes on the wire");
_Static_assert(sizeof(struct cw_wire_am) == 8 && sizeof(struct cw_wire_am_first) == 24 &&
               sizeof(struct cw_wire_am_rts) == 32 && sizeof(struct cw_wire_stream_data) == 8, "sizes on the wire");

#endif
