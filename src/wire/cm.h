/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets by which a client and a server meet at a listener (docs/change/client-server.md). Pure encoding and
 * decoding.
 *
 *   client: OFFSET SIZE MEANING (little endian)     server: OFFSET SIZE MEANING
 *                0    4 magic "CWM1"                             0    4 magic "CWN1"
 *                4    2 version 1                                4    1 enum cw_cm_answer
 *                6    1 error handling mode                      5    3 zero
 *                7    1 zero                                     8    n worker address of the server; none when it is
 *                8    8 number of the connection request, random                   too long, or rejected
 *               16    8 client id, 0: none
 */
#ifndef CW_WIRE_CM_H
#define CW_WIRE_CM_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"
#include "wire/address.h"

#define CW_CM_REQUEST_LENGTH 24u
#define CW_CM_REPLY_HEADER   8u

struct cw_cm_request {
    uint64_t number;
    uint64_t client_id;
    uint8_t err_mode;
};

enum cw_cm_verdict {
    CW_CM_ACCEPTED = 0,
    CW_CM_REJECTED = 1, /* the program rejected */
    CW_CM_IMPOSSIBLE = 2, /* the program accepted, but the endpoint could not be made: another error handling mode, out
                             of memory */
    CW_CM_MEETS = 3, /* accepted, and the client has to dial another connection: the server's settings allow no data on
                        this one */
    CW_CM_VERDICTS = 4
};

void cw_cm_request_encode(const struct cw_cm_request *asked, uint8_t bytes[CW_CM_REQUEST_LENGTH]);
/* UCS_ERR_INVALID_PARAM for any other bytes. */
ucs_status_t cw_cm_request_decode(const void *bytes, size_t length, struct cw_cm_request *asked);

/* Writes at most `max` bytes (>= CW_CM_REPLY_HEADER) and returns their number; an address that does not fit is
 * omitted. */
size_t cw_cm_reply_encode(enum cw_cm_verdict answer, const void *address, size_t address_length, uint8_t *bytes,
                          size_t max);
/* address->length 0: the reply has no address. The address borrows the bytes. */
ucs_status_t cw_cm_reply_decode(const void *bytes, size_t length, enum cw_cm_verdict *answer,
                                struct cw_address *address);

#endif
