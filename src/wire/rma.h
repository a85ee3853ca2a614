/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets of one-sided operations. Their ids are in wire/packet.h; docs/change/one-sided.md explains their use.
 */
#ifndef CW_WIRE_RMA_H
#define CW_WIRE_RMA_H

#include "wire/packet.h"

/* Limit of operations of one endpoint that wait for the other side's answer: GET, PUT_RTS, AMO with an id, FLUSH. */
#define CW_RMA_WINDOW 256u

/* Bytes for registered memory (docs/change/one-sided.md). 0/8: token of the region; 8/8: address of the first byte.
 * Payload: at least one byte. */
struct cw_wire_put {
    uint64_t token;
    uint64_t address;
};

/* The destinations of the pieces of a put. 0/8: token of the region; 8/4: number of pieces, at most
 * CW_WIRE_PUT_LIST_MAX; 12/4: zero. Payload: that many struct cw_wire_put_list_element. The bytes of the pieces follow
 * on the connection in one placed packet, the next one with this id. */
struct cw_wire_put_list {
    uint64_t token;
    uint32_t count;
    uint32_t reserved;
};

/* 0/8: address of the first byte; 8/8: bytes, at least 1, and of all elements at most CW_WIRE_PUT_LIST_TOTAL. */
struct cw_wire_put_list_element {
    uint64_t address;
    uint64_t length;
};

/* The header of the placed packet. 0/8: token; 8/8: zero. Payload: the bytes of all elements in their order. */
struct cw_wire_put_list_data {
    uint64_t token;
    uint64_t reserved;
};

#define CW_WIRE_PUT_LIST_MAX   16u
#define CW_WIRE_PUT_LIST_TOTAL (1024u << 10)
#define CW_WIRE_PUT_LIST_BYTES(count) \
    (sizeof(struct cw_wire_put_list) + (count) * sizeof(struct cw_wire_put_list_element))

/* Announces a put. 0/8: token; 8/8: address; 16/24: struct cw_wire_rts, its address 0. RNDV_READY or RNDV_DONE answers;
 * after RNDV_READY, RNDV_DONE follows when all bytes have arrived. */
struct cw_wire_put_rts {
    uint64_t token;
    uint64_t address;
    struct cw_wire_rts rts;
};

/* Requests bytes of registered memory. 0/8: token; 8/8: address; 16/8: bytes, at least 1; 24/8: id of the receive;
 * 32/4: bytes that one RNDV_DATA may carry, at least 1; 36/4: CW_WIRE_GET_NAME, CW_WIRE_GET_CHUNKS. RNDV_DATA,
 * GET_DATA, GET_REFUSED, RNDV_NAME or RNDV_CHUNK answers. */
struct cw_wire_get {
    uint64_t token;
    uint64_t address;
    uint64_t length;
    uint64_t receive_id;
    uint32_t piece;
    uint32_t flags;
};

#define CW_WIRE_GET_NAME   1u /* the target may answer RNDV_NAME, */
#define CW_WIRE_GET_CHUNKS 2u /* or RNDV_CHUNK */

/* The whole answer in one packet, as RNDV_DATA from offset 0. 0/8: id of the receive. Payload: at least one byte. */
struct cw_wire_get_data {
    uint64_t receive_id;
};

/* The target rejects a GET. 0/8: id of the receive; 8/4: ucs_status_t, an error; 12/4: zero. */
struct cw_wire_get_refused {
    uint64_t receive_id;
    int32_t status;
    uint32_t reserved;
};

/* An atomic operation. 0/8: token; 8/8: address, aligned to its size; 16/8: operand, of CSWAP the value to compare
 * with; 24/8: CSWAP: the new value, else 0; 32/8: id for AMO_REPLY, 0: no reply; 40/1: enum cw_wire_amo_op; 41/1:
 * bytes, 4 or 8; 42/6: zero. */
struct cw_wire_amo {
    uint64_t token;
    uint64_t address;
    uint64_t operand;
    uint64_t swap;
    uint64_t reply_id;
    uint8_t op;
    uint8_t size;
    uint8_t reserved[6];
};

enum cw_wire_amo_op {
    CW_WIRE_AMO_ADD = 0,
    CW_WIRE_AMO_SWAP = 1,
    CW_WIRE_AMO_CSWAP = 2,
    CW_WIRE_AMO_AND = 3,
    CW_WIRE_AMO_OR = 4,
    CW_WIRE_AMO_XOR = 5,
    CW_WIRE_AMO_OPS = 6
};

/* Answers an AMO that has an id. 0/8: id; 8/8: the value before; 16/4: ucs_status_t; 20/4: zero. */
struct cw_wire_amo_reply {
    uint64_t reply_id;
    uint64_t value;
    int32_t status;
    uint32_t reserved;
};

/* Asks whether all PUT and AMO packets before it are carried out. 0/8: id. */
struct cw_wire_flush {
    uint64_t flush_id;
};

/* Answers FLUSH: all PUT and AMO packets before it are carried out. 0/8: id; 8/4: ucs_status_t: the error of the first
 * one that was rejected since the last FLUSH, or UCS_OK; 12/4: zero. */
struct cw_wire_flushed {
    uint64_t flush_id;
    int32_t status;
    uint32_t reserved;
};

_Static_assert(sizeof(struct cw_wire_put) == 16 && sizeof(struct cw_wire_put_rts) == 40 &&
               sizeof(struct cw_wire_put_list) == 16 && sizeof(struct cw_wire_put_list_element) == 16 &&
                   sizeof(struct cw_wire_put_list_data) == 16 && sizeof(struct cw_wire_get) == 40 &&
                   sizeof(struct cw_wire_get_data) == 8 &&
                   sizeof(struct cw_wire_get_refused) == 16 &&
                   sizeof(struct cw_wire_amo) == 48 && sizeof(struct cw_wire_amo_reply) == 24 &&
                   sizeof(struct cw_wire_flush) == 8 && sizeof(struct cw_wire_flushed) == 16, "sizes on the wire");

#endif
