/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker address: a blob that contains its own length, with equal bytes at each call. Pure encoding and
 * decoding.
 *
 *   OFFSET SIZE MEANING (little endian)
 *        0    1 0x20
 *        1    8 worker uid
 *        9    1 0xff
 *       10    2 magic 0x5743
 *       12    1 version 2
 *       13    1 number of entries
 *       14    2 length of the whole blob
 *       16    4 checksum of all bytes, taken with this field zero
 *       20      entries, each: 1 transport's wire id, 1 length, then the transport's own address
 *
 * Several entries may name one transport: one for each of its interfaces. The first ten bytes are an address without
 * transports to UCX, whose library answers "unreachable" and goes on.
 */
#ifndef CW_WIRE_ADDRESS_H
#define CW_WIRE_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

#define CW_ADDRESS_HEADER 20u
#define CW_ADDRESS_MAX    1024u
#define CW_ADDRESS_ENTRY_MAX 255u
#define CW_ADDRESS_MAX_ENTRIES 255u
#define CW_ADDRESS_MAGIC   "\x43\x57\x02" /* with the version */

/* Offsets in the header. */
#define CW_ADDRESS_AT_UID      1
#define CW_ADDRESS_AT_MAGIC    10
#define CW_ADDRESS_AT_ENTRIES  13
#define CW_ADDRESS_AT_LENGTH   14
#define CW_ADDRESS_AT_CHECKSUM 16

struct cw_address_writer {
    uint8_t *buffer;        /* CW_ADDRESS_MAX bytes */
    size_t length;
};

void cw_address_begin(struct cw_address_writer *writer, uint8_t *buffer, uint64_t uid);
/* Space for the next entry; NULL when the blob is full or has 255 entries. */
uint8_t *cw_address_entry(struct cw_address_writer *writer, size_t *max_p);
void cw_address_entry_done(struct cw_address_writer *writer, uint8_t wire_id, size_t length);
/* Returns the length of the blob. */
size_t cw_address_end(struct cw_address_writer *writer);

/* A decoded blob; borrows it. */
struct cw_address {
    uint64_t uid;
    const uint8_t *bytes;
    size_t length;
};

/* Checks everything, so that the entries can be walked. The caller does not know the length: the blob must be at least
 * CW_ADDRESS_HEADER bytes, and as long as it states. UCS_ERR_INVALID_PARAM, or UCS_ERR_UNREACHABLE for another
 * library's or version's blob. */
ucs_status_t cw_address_decode(const void *blob, struct cw_address *address);

/* The origin of a blob for which decode returns UCS_ERR_UNREACHABLE, judged by its first ten bytes and our marker: a
 * phrase, or NULL. Random bytes may be taken for another library's. */
const char *cw_address_maker(const void *blob);

struct cw_address_entry {
    uint8_t wire_id;
    const uint8_t *bytes;
    size_t length;
};

/* The entry at that index; 0: there are no more. */
int cw_address_get(const struct cw_address *address, unsigned index, struct cw_address_entry *entry);

/* The first entry of a transport, or NULL. */
const void *cw_address_find(const struct cw_address *address, uint8_t wire_id, size_t *length_p);

#endif
