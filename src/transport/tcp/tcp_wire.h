/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a TCP connection between two workers. Numbers are little endian; reserved bytes are zero and checked.
 *
 * Greeting, once in each direction, the dialler's first:     Frame, any number of times afterwards:
 *   OFFSET SIZE MEANING                                        OFFSET SIZE MEANING
 *        0    4 0x50545743, the bytes "CWTP"                        0    4 bytes of the packet, <= CW_TCP_PACKET_MAX
 *        4    1 version of this layout, 6                           4    1 id of the packet
 *        5    1 enum cw_tcp_greeting_kind                           5    1 enum cw_tcp_frame_kind
 *        6    2 bytes that follow, <= CW_HELLO_MAX                  6    1 bytes of padding that are not counted above
 *        8    4 key out of the acceptor's address, both ways        7    1 reserved
 *       12    4 reserved                                            8    n the packet
 *       16    n hello or reply of the core
 *
 * Other kinds of greetings and frames had a meaning in earlier versions and must not be used again.
 */
#ifndef CW_TRANSPORT_TCP_TCP_WIRE_H
#define CW_TRANSPORT_TCP_TCP_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "transport/transport.h"

/* The dialler sends no frame but empty ones before it has the answer. CW_TCP_PACKET_MAX and CW_TCP_PLACED_MAX are part
 * of the format: every receiver takes frames up to them. A placed packet is CW_PLACE_HEADER bytes for the core and 1 to
 * CW_TCP_PLACED_MAX bytes of payload. Padding stands in front of the packet, of a placed one in front of its payload,
 * and means nothing; releases up to 1.0 send it. */
#define CW_TCP_MAGIC            0x50545743u
#define CW_TCP_VERSION          6u
#define CW_TCP_GREETING_SIZE    16u
#define CW_TCP_FRAME_HEADER     8u
#define CW_TCP_PACKET_MAX       65536u
#define CW_TCP_PLACED_MAX       (4u << 20)
#define CW_TCP_PADDING_MAX      255u
#define CW_TCP_EMPTY_MAX        (8u + 65536u)
#define CW_TCP_PLACED_HEADER    (CW_TCP_FRAME_HEADER + CW_PLACE_HEADER) /* all bytes before the payload */

enum cw_tcp_greeting_kind {
    CW_TCP_HELLO    = 1,
    CW_TCP_ACCEPTED = 2,
    CW_TCP_REFUSED  = 3
};
enum cw_tcp_frame_kind {
    CW_TCP_PACKET = 0,
    CW_TCP_PLACED = 1,
    CW_TCP_EMPTY  = 2 /* at most CW_TCP_EMPTY_MAX bytes without meaning */
};

struct cw_tcp_greeting_header {
    uint32_t magic;
    uint8_t version;
    uint8_t kind;
    uint16_t length;
    uint32_t key;
    uint32_t reserved;
};

struct cw_tcp_frame_header {
    uint32_t length;
    uint8_t id;
    uint8_t kind;
    uint8_t padding;              /* of packets and placed packets */
    uint8_t reserved;
};

_Static_assert(sizeof(struct cw_tcp_greeting_header) == CW_TCP_GREETING_SIZE, "size on the wire");
_Static_assert(sizeof(struct cw_tcp_frame_header) == CW_TCP_FRAME_HEADER, "size on the wire");

static inline void cw_tcp_greeting_encode(void *to, enum cw_tcp_greeting_kind kind, size_t length, uint32_t key)
{
    const struct cw_tcp_greeting_header header = {htole32(CW_TCP_MAGIC),     CW_TCP_VERSION, (uint8_t)kind,
                                                  htole16((uint16_t)length), htole32(key),   0};

    memcpy(to, &header, sizeof(header));
}

/* Whether a greeting can begin with these bytes. */
static inline int cw_tcp_greeting_plausible(const void *from, size_t length)
{
    const uint32_t magic = htole32(CW_TCP_MAGIC);

    return memcmp(from, &magic, (length < sizeof(magic)) ? length : sizeof(magic)) == 0;
}

/* NULL, or the error in it as the end of a sentence about the peer. */
static inline const char *cw_tcp_greeting_decode(const void *from, size_t max_length,
                                                 struct cw_tcp_greeting_header *header)
{
    memcpy(header, from, sizeof(*header));
    header->magic  = le32toh(header->magic);
    header->length = le16toh(header->length);
    header->key    = le32toh(header->key);
    if (header->magic != CW_TCP_MAGIC) {
        return "it does not speak this protocol";
    }
    if (header->version != CW_TCP_VERSION) {
        return "it speaks another version of the protocol";
    }
    if (header->length > max_length || header->reserved != 0) {
        return "its greeting is malformed";
    }
    return NULL;
}

static inline void cw_tcp_frame_encode(void *to, enum cw_tcp_frame_kind kind, uint8_t id, size_t length)
{
    const struct cw_tcp_frame_header header = {htole32((uint32_t)length), id, (uint8_t)kind, 0, 0};

    memcpy(to, &header, sizeof(header));
}

static inline int cw_tcp_placed_length_holds(uint32_t length)
{
    return length > CW_PLACE_HEADER && length <= CW_PLACE_HEADER + CW_TCP_PLACED_MAX;
}

/* 0 when these bytes are not the header of a frame. */
static inline int cw_tcp_frame_decode(const void *from, struct cw_tcp_frame_header *header)
{
    memcpy(header, from, sizeof(*header));
    header->length = le32toh(header->length);
    if (header->reserved != 0) {
        return 0;
    }
    if (header->kind == CW_TCP_PACKET) {
        return header->length <= CW_TCP_PACKET_MAX;
    }
    if (header->padding != 0) {
        return header->kind == CW_TCP_PLACED && cw_tcp_placed_length_holds(header->length);
    }
    if (header->kind == CW_TCP_EMPTY) {
        return header->length <= CW_TCP_EMPTY_MAX;
    }
    return header->kind == CW_TCP_PLACED && cw_tcp_placed_length_holds(header->length);
}

#endif
