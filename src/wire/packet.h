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
    CW_PACKET_INVALID        = 0,
    CW_PACKET_CLOSE          = 1, /* header 8 bytes, zero: the sender closed its endpoint, its worker lives on */
    CW_PACKET_END            = 2, /* header 8 bytes, zero: the sender's worker is being destroyed in good order */
    CW_PACKET_TAG_EAGER      = 3, /* struct cw_wire_tag */
    CW_PACKET_TAG_SYNC       = 4, /* struct cw_wire_tag_sync */
    CW_PACKET_TAG_FIRST      = 5, /* struct cw_wire_tag_first */
    CW_PACKET_TAG_NEXT       = 6, /* struct cw_wire_tag_next */
    CW_PACKET_TAG_ACK        = 7, /* struct cw_wire_tag_ack */
    CW_PACKET_COUNT          = 8
};

/* A whole message. OFFSET 0 SIZE 8: tag. Payload: the message. */
struct cw_wire_tag {
    uint64_t tag;
};

/* A whole message whose sender waits for the match (TAG-21). 0/8: tag; 8/8: id for the acknowledgement. Payload: the
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

/* A further piece. 0/4: message number; 4/4: zero; 8/8: offset, which must be what arrived so far. Payload: at least
 * one byte. */
struct cw_wire_tag_next {
    uint32_t message;
    uint32_t reserved;
    uint64_t offset;
};

/* The message of a synchronous send was matched. 0/8: its sync_id. No payload. */
struct cw_wire_tag_ack {
    uint64_t sync_id;
};

_Static_assert(sizeof(struct cw_wire_tag) == 8 && sizeof(struct cw_wire_tag_sync) == 16 &&
               sizeof(struct cw_wire_tag_first) == 32 && sizeof(struct cw_wire_tag_next) == 16 &&
                   sizeof(struct cw_wire_tag_ack) == 8, "sizes on the wire");

#endif
