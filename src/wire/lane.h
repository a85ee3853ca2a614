/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further lanes of an endpoint (docs/why/lanes.md): the hello that opens one, and the packet by which both sides
 * agree about them, which travels on the message lane. Numbers are little endian.
 */
#ifndef CW_WIRE_LANE_H
#define CW_WIRE_LANE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"
#include "wire/packet.h"

#define CW_LANE_TOKEN        16u
#define CW_LANE_HELLO_LENGTH 48u
#define CW_MAX_LANES         8u /* further lanes of an endpoint; they count from 1, and the message lane is 0 */

/*
 *   OFFSET SIZE MEANING
 *        0    4 magic "CWL1"
 *        4    1 lane, 1 to 8
 *        5    1 zero
 *        6    2 generation: how often a lane of this number was closed by both sides
 *        8    8 uid of the dialling worker
 *       16    8 uid of the dialled worker
 *       24    4 number of the dialler's endpoint
 *       28    4 zero
 *       32   16 token of the offer
 */
struct cw_lane_hello {
    uint64_t source_uid;
    uint64_t target_uid;
    uint32_t number;
    uint16_t generation;
    uint8_t lane;
    uint8_t token[CW_LANE_TOKEN];
};

void cw_lane_hello_encode(const struct cw_lane_hello *hello, uint8_t bytes[CW_LANE_HELLO_LENGTH]);
/* Whether these first bytes of a connection request a further lane; only the magic is checked. */
bool cw_is_lane_hello(const void *bytes, size_t length);
/* UCS_ERR_INVALID_PARAM for anything that is not such a hello. */
ucs_status_t cw_lane_hello_decode(const void *bytes, size_t length, struct cw_lane_hello *hello);
/* Constant time. */
int cw_lane_token_equal(const uint8_t *left, const uint8_t *right);

enum cw_wire_lane_kind {
    CW_WIRE_LANE_ASK = 1, /* from the dialler of the message lane: it wants `lane` further ones, and a token */
    CW_WIRE_LANE_OFFER = 2, /* from the acceptor: it accepts up to `lane` further ones; 8/16: token */
    CW_WIRE_LANE_TAKEN = 3, /* 16/8: bytes of placed packets that arrived complete on that lane so far; more than
                               before */
    CW_WIRE_LANE_END = 4, /* the sender of this has closed the lane. 8/8: bytes that it sent there, also in part; 16/8:
                             those that arrived complete. Once for each generation, by both */
    CW_WIRE_LANE_PROBE = 5, /* the sender got no confirmation on that lane for a while */
    CW_WIRE_LANE_ALIVE = 6, /* answers PROBE; 16/8: as in TAKEN, or the number of the last TAKEN */
    CW_WIRE_LANE_KINDS = 7
};

/* 0/1: enum cw_wire_lane_kind; 1/1: lane, or a number of lanes; 2/2: generation; 4/4: zero; 8/8 and 16/8: see the
 * kinds. */
struct cw_wire_lane {
    uint8_t kind;
    uint8_t lane;
    uint16_t generation;
    uint32_t reserved;
    uint64_t sent;
    uint64_t taken;
};

_Static_assert(sizeof(struct cw_wire_lane) == 24, "size on the wire");

#endif
