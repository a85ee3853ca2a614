/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages by which both sides agree about the protection of a TCP connection, before the greeting, and the records
 * of connections with checksums. Numbers are little endian; reserved bytes are zero and checked.
 *
 * A message has the head of a greeting (tcp_wire.h) with one of these kinds and exactly the body named here. Record,
 * any number of times once both agreed about checksums:
 *   OFFSET SIZE MEANING
 *        0    4 bytes that follow the head, 1 to CW_TCP_RECORD_MAX
 *        4    4 CRC32C of those bytes
 *        8    4 CRC32C of the number of the record (8 bytes; from 0 in each direction, the highest bit set in those of
 *               the acceptor) and of the 8 bytes above
 *       12    n bytes of the connection
 */
#ifndef CW_TRANSPORT_TCP_TCP_FILTER_WIRE_H
#define CW_TRANSPORT_TCP_TCP_FILTER_WIRE_H

#include "base/crc32c.h"
#include "transport/tcp/tcp_wire.h"

enum cw_tcp_agreement_kind {                       /* beside enum cw_tcp_greeting_kind */
                             CW_TCP_OFFER    = 8,  /* dialler: struct cw_tcp_offer */
                             CW_TCP_AGREED   = 9,  /* acceptor: equal protection, its own nonce */
                             CW_TCP_PROOF    = 10, /* dialler, then acceptor: CW_TCP_PROOF_SIZE bytes */
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
    uint8_t nonce[CW_TCP_NONCE_SIZE]; /* random if the protection is by a secret, otherwise zero */
};

struct cw_tcp_unsuited {
    uint8_t protection; /* the protection that the sender demands */
    uint8_t reason;     /* enum cw_tcp_unsuited_reason */
    uint8_t reserved[2];
};

/* The claim that a proof is a hash of. Never sent. */
struct cw_tcp_claim {
    uint8_t label[8]; /* "CWproof2" */
    uint8_t role;     /* the side that proves: 1 dialler, 2 acceptor */
    uint8_t protection;
    uint8_t version; /* CW_TCP_VERSION */
    uint8_t reserved;
    uint32_t key;                         /* of the greeting's head: the key of the dialled worker */
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

/* 0 when these bytes are not the head of that record. */
static inline int cw_tcp_record_decode(const void *from, uint64_t number, uint32_t *length_p, uint32_t *sum_p)
{
    uint32_t head[3];

    memcpy(head, from, sizeof(head));
    *length_p = le32toh(head[0]);
    *sum_p    = le32toh(head[1]);
    return le32toh(head[2]) == cw_tcp_record_check(head, number) && *length_p > 0 && *length_p <= CW_TCP_RECORD_MAX;
}

#endif
