/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first bytes on a new connection of any transport: both workers and the endpoint that it is for. Pure encoding
 * and decoding.
 *
 *   hello: OFFSET SIZE MEANING (little endian)      reply: OFFSET SIZE MEANING
 *               0    4 magic "CWY1"                             0    4 magic "CWR1"
 *               4    2 version 4                                4    1 enum cw_hello_answer
 *               6    1 error handling mode                      5    3 zero
 *               7    1 flags: 1 = endpoints to self pair up, 2 = continues a connection request,
 *                      4 = requests counted packets
 *               8    8 uid of the dialling worker
 *              16    8 uid of the dialled worker
 *              24    4 number of the dialler's endpoint
 *              28    4 zero
 */
#ifndef CW_WIRE_HELLO_H
#define CW_WIRE_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

#define CW_HELLO_LENGTH       32u
#define CW_HELLO_REPLY_LENGTH 8u

#define CW_HELLO_NO_LOOPBACK 1u
#define CW_HELLO_FAILOVER    4u /* packets must be counted, so that another lane can take over */
#define CW_HELLO_CM          2u /* source_uid is the number of the connection request (docs/change/client-server.md) */

struct cw_hello {
    uint64_t source_uid;
    uint64_t target_uid;
    uint32_t number;
    uint8_t err_mode;
    uint8_t flags;
};

enum cw_hello_answer {
    CW_HELLO_ACCEPTED = 0,
    CW_HELLO_LOST = 1, /* the acceptor dials for this endpoint, too, and its connection is used */
    CW_HELLO_WRONG_WORKER = 2, /* the dialled worker does not exist here any more */
    CW_HELLO_REFUSED = 3, /* the endpoint cannot be used: it failed, or the acceptor is out of memory */
    CW_HELLO_COUNTED = 4, /* as ACCEPTED, and packets are counted, as the dialler requested (wire/failover.h) */
    CW_HELLO_ANSWERS = 5
};

void cw_hello_encode(const struct cw_hello *hello, uint8_t bytes[CW_HELLO_LENGTH]);
/* UCS_ERR_INVALID_PARAM for anything that is not a hello of this version. */
ucs_status_t cw_hello_decode(const void *bytes, size_t length, struct cw_hello *hello);
/* The version of a hello of another release; 0 for one of this version, and for bytes that are no hello. */
unsigned cw_hello_foreign(const void *bytes, size_t length);

void cw_hello_reply_encode(enum cw_hello_answer answer, uint8_t bytes[CW_HELLO_REPLY_LENGTH]);
ucs_status_t cw_hello_reply_decode(const void *bytes, size_t length, enum cw_hello_answer *answer);

#endif
