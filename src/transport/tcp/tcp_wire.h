/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a TCP connection between two workers. Numbers are little endian; reserved bytes are zero and checked.
 *
 * Handshake, once in each direction, the dialler's first:     Frame, any number of times afterwards:
 *   OFFSET SIZE MEANING                                        OFFSET SIZE MEANING
 *        0    4 0x50545743, the bytes "CWTP"                        0    4 bytes of the packet, <= CW_TCP_PACKET_MAX
 *        4    1 version of this layout, 6                           4    1 id of the packet
 *        5    1 enum cw_tcp_handshake_kind                           5    1 enum cw_tcp_frame_kind
 *        6    2 bytes that follow, <= CW_HELLO_MAX                  6    1 bytes of padding that are not counted above
 *        8    4 key of the acceptor's address, in both              7    1 reserved
 *       12    4 reserved                                            8    n the packet
 *       16    n hello or reply of the core
 *
 * Other kinds of handshakes and frames had a meaning in earlier versions and must not be used again.
 */
#ifndef CW_TRANSPORT_TCP_TCP_WIRE_H
#define CW_TRANSPORT_TCP_TCP_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/crc32c.h"
#include "os/net.h"
#include "transport/transport.h"

/* Before the answer arrives, the dialler sends no frames except empty ones. CW_TCP_PACKET_MAX and CW_TCP_PLACED_MAX are
 * part of the format: every receiver accepts frames up to them. A placed packet is CW_PLACE_HEADER bytes for the core
 * and 1 to CW_TCP_PLACED_MAX bytes of payload. Padding precedes the packet, or the payload of a placed one, and is
 * ignored; releases up to 1.0 send it. */
#define CW_TCP_MAGIC            0x50545743u
#define CW_TCP_VERSION          6u
#define CW_TCP_HANDSHAKE_SIZE    16u
#define CW_TCP_FRAME_HEADER     8u
#define CW_TCP_PACKET_MAX       65536u
#define CW_TCP_PLACED_MAX       (4u << 20)
#define CW_TCP_PADDING_MAX      255u
#define CW_TCP_EMPTY_MAX        (8u + 65536u)
#define CW_TCP_PLACED_HEADER    (CW_TCP_FRAME_HEADER + CW_PLACE_HEADER) /* all bytes before the payload */

enum cw_tcp_handshake_kind {
    CW_TCP_HELLO = 1,
    CW_TCP_ACCEPTED = 2,
    CW_TCP_REFUSED = 3
};
enum cw_tcp_frame_kind {
    CW_TCP_PACKET = 0,
    CW_TCP_PLACED = 1,
    CW_TCP_EMPTY = 2 /* at most CW_TCP_EMPTY_MAX bytes without meaning */
};

struct cw_tcp_handshake_header {
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

_Static_assert(sizeof(struct cw_tcp_handshake_header) == CW_TCP_HANDSHAKE_SIZE, "size on the wire");
_Static_assert(sizeof(struct cw_tcp_frame_header) == CW_TCP_FRAME_HEADER, "size on the wire");

static inline void cw_tcp_handshake_encode(void *to, enum cw_tcp_handshake_kind kind, size_t length, uint32_t key)
{
    const struct cw_tcp_handshake_header header = {htole32(CW_TCP_MAGIC),     CW_TCP_VERSION, (uint8_t)kind,
                                                   htole16((uint16_t)length), htole32(key),   0};

    memcpy(to, &header, sizeof(header));
}

/* Whether these bytes can be the start of a handshake. */
static inline int cw_tcp_handshake_plausible(const void *from, size_t length)
{
    const uint32_t magic = htole32(CW_TCP_MAGIC);

    return memcmp(from, &magic, (length < sizeof(magic)) ? length : sizeof(magic)) == 0;
}

/* NULL, or the error in it as the end of a sentence about the peer. */
static inline const char *cw_tcp_handshake_decode(const void *from, size_t max_length,
                                                  struct cw_tcp_handshake_header *header)
{
    memcpy(header, from, sizeof(*header));
    header->magic = le32toh(header->magic);
    header->length = le16toh(header->length);
    header->key = le32toh(header->key);
    if (header->magic != CW_TCP_MAGIC) {
        return "it does not speak this protocol";
    }
    if (header->version != CW_TCP_VERSION) {
        return "it speaks another version of the protocol";
    }
    if (header->length > max_length || header->reserved != 0) {
        return "its handshake is malformed";
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

/* 0: these bytes are not the header of a frame. */
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

/*
 * The messages of the agreement on the protection of a connection, before the handshake, and the records of connections
 * with checksums. A message has the header of a handshake with one of these kinds and exactly the body given here.
 * Record, any number of times once both agreed on checksums:
 *   OFFSET SIZE MEANING
 *        0    4 bytes that follow the head, 1 to CW_TCP_RECORD_MAX
 *        4    4 CRC32C of those bytes
 *        8    4 CRC32C of the number of the record (8 bytes; from 0 in each direction, the highest bit set in those of
 *               the acceptor) and of the 8 bytes above
 *       12    n bytes of the connection
 */
enum cw_tcp_agreement_kind {                       /* beside enum cw_tcp_handshake_kind */
                             CW_TCP_OFFER = 8,  /* dialler: struct cw_tcp_offer */
                          CW_TCP_AGREED = 9,  /* acceptor: equal protection, its own nonce */
                          CW_TCP_PROOF = 10, /* dialler, then acceptor: CW_TCP_PROOF_SIZE bytes */
                          CW_TCP_UNSUITED = 11  /* either: struct cw_tcp_unsuited; it ends the connection */
};

enum cw_tcp_unsuited_reason { CW_TCP_OTHER_PROTECTION = 1, CW_TCP_OTHER_KEY = 2 };

#define CW_TCP_NONCE_SIZE      32u
#define CW_TCP_PROOF_SIZE      32u
#define CW_TCP_RECORD_HEAD     12u
#define CW_TCP_RECORD_MAX      32768u
#define CW_TCP_RECORD_ACCEPTED (UINT64_C(1) << 63)

struct cw_tcp_offer {
    uint8_t protection; /* enum cw_tcp_protection */
    uint8_t reserved[3];
    uint8_t nonce[CW_TCP_NONCE_SIZE]; /* random if the protection uses a secret, otherwise zero */
};

struct cw_tcp_unsuited {
    uint8_t protection; /* the protection that the sender demands */
    uint8_t reason;     /* enum cw_tcp_unsuited_reason */
    uint8_t reserved[2];
};

/* The input of the hash that is the proof. Never sent. */
struct cw_tcp_claim {
    uint8_t label[8]; /* "CWproof2" */
    uint8_t role;     /* the side that proves: 1 dialler, 2 acceptor */
    uint8_t protection;
    uint8_t version; /* CW_TCP_VERSION */
    uint8_t reserved;
    uint32_t key;                         /* of the handshake's head: the key of the dialled worker */
    uint8_t nonces[2][CW_TCP_NONCE_SIZE]; /* the dialler's, the acceptor's */
};

_Static_assert(sizeof(struct cw_tcp_claim) == 80, "hashed as it is");
_Static_assert(sizeof(struct cw_tcp_offer) == 36, "size on the wire");
_Static_assert(sizeof(struct cw_tcp_unsuited) == 4, "size on the wire");

static inline uint32_t cw_tcp_record_check(const void *head, uint64_t number)
{
    uint8_t bytes[16];

    number = htole64(number);
    memcpy(bytes, &number, sizeof(number));
    memcpy(bytes + sizeof(number), head, 8);
    return cw_crc32c(0, bytes, sizeof(bytes));
}

static inline void cw_tcp_record_encode(void *to, size_t length, uint32_t sum, uint64_t number)
{
    uint32_t head[3] = {htole32((uint32_t)length), htole32(sum), 0};

    head[2] = htole32(cw_tcp_record_check(head, number));
    memcpy(to, head, sizeof(head));
}

/* 0: these bytes are not the header of that record. */
static inline int cw_tcp_record_decode(const void *from, uint64_t number, uint32_t *length_p, uint32_t *sum_p)
{
    uint32_t head[3];

    memcpy(head, from, sizeof(head));
    *length_p = le32toh(head[0]);
    *sum_p = le32toh(head[1]);
    return le32toh(head[2]) == cw_tcp_record_check(head, number) && *length_p > 0 && *length_p <= CW_TCP_RECORD_MAX;
}

/* How a connection is protected: bits. */
enum cw_tcp_protection {
    CW_TCP_PLAIN = 0,
    CW_TCP_CHECKSUM = 1,
    CW_TCP_SECRET = 2,  /* both prove knowledge of the key, by hashes */
    CW_TCP_TLS_PSK = 4, /* both prove knowledge of the key, by TLS */
    CW_TCP_TLS_CERT = 8,
    CW_TCP_SIZED = 16   /* with SECRET, TLS_PSK: the proof covers the key's length. Peers of release 1.0 never set it,
                         * and are refused */
};

/*
 * Addresses, in network byte order.
 *
 *   OFFSET SIZE MEANING
 *        0    2 port
 *        2    8 network namespace (os/host.h): a worker in it is reached by loopback; or all bits of that inverted: it
 *               is reached by the addresses alone
 *       10    4 key, which the dialler has to name: the port may belong to another process by then
 *       14    1 1: listens on IPv4; 2: listens on IPv6
 *       15    1 number of addresses: IPv4 in the lower half, IPv6 in the upper; 8 in all at most
 *       16  4*n IPv4 addresses, then 16 * n IPv6 addresses, each kind in order of preference
 *
 * Loopback addresses are not listed. Each worker of a process has its own port.
 */
#define CW_TCP_ADDRESS_MAX_HOSTS 8u
#define CW_TCP_ADDRESS_HEAD      16u
#define CW_TCP_ADDRESS_MAX       (CW_TCP_ADDRESS_HEAD + CW_TCP_ADDRESS_MAX_HOSTS * 16u)

enum { CW_TCP_LISTENS_IPV4 = 1, CW_TCP_LISTENS_IPV6 = 2 };

struct cw_tcp_address {
    uint16_t port;
    uint64_t netns;
    uint32_t key;
    unsigned listens;
    unsigned num_hosts;
    struct cw_net_address hosts[CW_TCP_ADDRESS_MAX_HOSTS]; /* with the port */
};

/* Returns the length, at most CW_TCP_ADDRESS_MAX. Preserves the order of the hosts within a family. */
size_t cw_tcp_address_encode(const struct cw_tcp_address *address, uint8_t *to);
/* NULL, or the error in these bytes, which are untrusted. */
const char *cw_tcp_address_decode(const void *from, size_t length, struct cw_tcp_address *address);

#endif
