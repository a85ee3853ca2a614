/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The message lane of an endpoint in mode FAILOVER (docs/why/failover.md). Both sides count its packets, and packets
 * MOVE, which are not counted, agree about the connection that carries it. Numbers are little endian.
 */
#ifndef CW_WIRE_FAILOVER_H
#define CW_WIRE_FAILOVER_H

#include <endian.h>
#include <stdint.h>

#include "wire/packet.h"

enum cw_wire_move_kind {
    CW_WIRE_MOVE_HANDLED = 1, /* on the message lane: confirms packets */
    CW_WIRE_MOVE_LOST = 2, /* from the acceptor, on any further lane: it has left the message lane */
    CW_WIRE_MOVE_HERE = 3, /* from the dialler: it has left the message lane, and this further lane replaces it */
    CW_WIRE_MOVE_TAKEN = 4, /* from the acceptor, answers HERE: it has left the former message lane, too */
    CW_WIRE_MOVE_PROBE = 5, /* on another lane: nothing was confirmed on the message lane for a while */
    CW_WIRE_MOVE_ALIVE = 6, /* answers PROBE, on the lane where it arrived */
    CW_WIRE_MOVE_KINDS = 7
};

/* 0/1: enum cw_wire_move_kind; 1/3: zero; 4/4: generation, the number of HERE so far; 8/8: packets of the peer that the
 * sender of this has handled. */
struct cw_wire_move {
    uint8_t kind;
    uint8_t reserved[3];
    uint32_t generation;
    uint64_t handled;
};

_Static_assert(sizeof(struct cw_wire_move) == 16, "size on the wire");

#endif
