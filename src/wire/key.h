/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packed key of registered memory (KEY-1, R15: at most 64 bytes). Pure encoding and decoding; a key may come from
 * anybody. Callers: ucp_memh_pack and core/rkey.c, core/mem_map.c.
 */
#ifndef CW_WIRE_KEY_H
#define CW_WIRE_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

/*
 *   OFFSET SIZE MEANING (little endian)
 *        0    2 magic "CK"
 *        2    1 version 1
 *        3    1 length of the key, CW_KEY_LENGTH
 *        4    1 rights: CW_KEY_READ, CW_KEY_WRITE
 *        5    1 flags: CW_KEY_SHARED
 *        6    2 zero
 *        8    8 token of the region, 0 for a region of no bytes
 *       16    8 address of the region
 *       24    8 length of the region
 *       32    8 address of the beacon in the owner's process, 0: none
 *       40    8 SHARED: the machine and name space of process ids in which the next two mean something
 *       48    4 SHARED: process id
 *       52    4 SHARED: descriptor there, of the region's pages followed by the trailer
 */
#define CW_KEY_LENGTH 56u

#define CW_KEY_READ  1u
#define CW_KEY_WRITE 2u

#define CW_KEY_SHARED 1u

struct cw_key {
    uint64_t token;
    uint64_t address;
    uint64_t length;
    uint64_t beacon;
    uint64_t system;
    uint32_t pid;
    uint32_t fd;
    uint8_t rights;
    uint8_t flags;
};

void cw_key_encode(const struct cw_key *key, uint8_t bytes[CW_KEY_LENGTH]);
/* Reads no more than the first 4 bytes before it knows that the rest is there. UCS_ERR_INVALID_PARAM: not a key of this
 * version, or one that contradicts itself (a range that wraps around, unknown bits). */
ucs_status_t cw_key_decode(const void *bytes, struct cw_key *key);

#endif
