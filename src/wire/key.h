/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packed key of registered memory (at most 64 bytes with one device, 128 with eight). Pure encoding and decoding; a
 * key may come from any process. Announcements of messages contain parts of keys as well (rndv/send.c).
 */
#ifndef CW_WIRE_KEY_H
#define CW_WIRE_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

/*
 *   OFFSET SIZE MEANING (little endian)
 *        0    2 magic "CK"
 *        2    1 version 2
 *        3    1 length of the key
 *        4    1 bits 0-3: rights, CW_KEY_READ, CW_KEY_WRITE; bits 4-7: executor of atomic operations of 8 bytes: 0 the
 *               target's processor, else the device of the domain of that number, which has a part
 *        5    8 token of the region, 0 for a region of no bytes
 *       13    8 address of the region
 *       21    8 length of the region
 *       29    7 an eighth of the address of the validity word in the target's process, 0: none
 *       36      parts, by growing number
 *
 * A part is one byte, of which bits 4-7 are the number of a domain of the target, bits 0-3 the length of what follows
 * less 1, and what follows. Number 0 is the host's: 8 bytes the machine and pid namespace in which the rest is
 * valid, 4 process id, 4 descriptor there, of the region's pages followed by the trailer. The others are read
 * by the domain of the initiator's device (mem/domain.h).
 */
#define CW_KEY_LEAST 36u
#define CW_KEY_MAX   255u
#define CW_KEY_SHARED_LENGTH (CW_KEY_LEAST + 17u)   /* with the host's part and no other */

#define CW_KEY_READ  1u
#define CW_KEY_WRITE 2u

#define CW_KEY_SHARED 1u    /* has the host's part */

struct cw_key {
    uint64_t token;
    uint64_t address;
    uint64_t length;
    uint64_t validity;
    uint64_t system;
    uint32_t pid;
    uint32_t fd;
    uint8_t rights;
    uint8_t flags;
    uint8_t executor;
};

/* The parts of devices, as in a key. */
struct cw_key_parts {
    const uint8_t *bytes;
    size_t length;
};

#define CW_KEY_PARTS_MAX (CW_KEY_MAX - CW_KEY_LEAST)

/* Returns the length. `parts` may be NULL: none. */
size_t cw_key_encode(const struct cw_key *key, const struct cw_key_parts *parts, uint8_t bytes[CW_KEY_MAX]);
/* Reads the first 4 bytes, and the rest only once these show that it is present. UCS_ERR_INVALID_PARAM: the bytes are
 * no key of this version, or inconsistent (a range that wraps around, unknown bits, parts that overlap or occur twice).
 * *parts_p (may be NULL) points into the bytes. */
ucs_status_t cw_key_decode(const void *bytes, struct cw_key *key, struct cw_key_parts *parts_p);
/* The length that a key states, for at least 4 bytes; 0: not a key of this version. */
size_t cw_key_length(const void *bytes);

/* Appends a part of 1 to 16 bytes to those present, which have `length` bytes. Returns the new length; the old one if
 * the part does not fit. */
size_t cw_key_add_part(uint8_t bytes[CW_KEY_PARTS_MAX], size_t length, unsigned domain, const void *part,
                       unsigned part_length);
/* Whether the bytes are only parts of devices with ascending numbers; for bytes that come from a peer. */
int cw_key_parts_hold(const struct cw_key_parts *parts);
/* The part of that domain, or NULL. `parts` must have passed cw_key_parts_hold. */
const uint8_t *cw_key_find_part(const struct cw_key_parts *parts, unsigned domain, size_t *length_p);

/*
 * Memory of a message, as an announcement names it to the devices of its receiver:
 *
 *   OFFSET SIZE MEANING (little endian)
 *        0    8 address of what was registered, which the message lies in
 *        8    8 its length
 *       16      parts of devices as in a key, at least one
 */
struct cw_key_memory {
    uint64_t address;
    uint64_t length;
    struct cw_key_parts parts;
};

#define CW_KEY_MEMORY_HEAD  16u
#define CW_KEY_MEMORY_PARTS 4u /* limit of devices that share a message */
#define CW_KEY_MEMORY_LEAST (CW_KEY_MEMORY_HEAD + 17u) /* space for one part of any length */
#define CW_KEY_MEMORY_MAX   (CW_KEY_MEMORY_HEAD + CW_KEY_MEMORY_PARTS * 17u)

/* Returns the length; 0: the parts do not fit. */
size_t cw_key_memory_encode(const struct cw_key_memory *memory, uint8_t bytes[CW_KEY_MEMORY_MAX]);
/* UCS_ERR_INVALID_PARAM: the bytes do not name memory, or the range is empty or wraps around. memory->parts points into
 * the bytes and has passed cw_key_parts_hold. */
ucs_status_t cw_key_memory_decode(const void *bytes, size_t length, struct cw_key_memory *memory);

#endif
