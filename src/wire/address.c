/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker address of wire/address.h.
 */
#include "wire/address.h"

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define MAGIC   0x5743u
#define VERSION 2u
#define FIRST   0x20u
#define TENTH   0xffu

struct header {
    uint8_t first;
    uint64_t uid;
    uint8_t tenth;
    uint16_t magic;
    uint8_t version;
    uint8_t entries;
    uint16_t length;
} __attribute__((packed));

_Static_assert(sizeof(struct header) == CW_ADDRESS_AT_CHECKSUM, "the checksum follows");
_Static_assert(offsetof(struct header, entries) == CW_ADDRESS_AT_ENTRIES &&
               offsetof(struct header, length) == CW_ADDRESS_AT_LENGTH, "they are where they are written");

/* Detects accidents (a truncated, mixed up or foreign blob); it does not protect from an attacker. */
static uint32_t checksum(const uint8_t *bytes, size_t length)
{
    uint32_t hash = 2166136261u;
    size_t i;

    for (i = 0; i < length; i++) {
        hash = (hash ^ ((i >= CW_ADDRESS_AT_CHECKSUM && i < CW_ADDRESS_HEADER) ? 0 : bytes[i])) * 16777619u;
    }
    return hash;
}

void cw_address_begin(struct cw_address_writer *writer, uint8_t *buffer, uint64_t uid)
{
    const struct header header = {
        .first = FIRST, .uid = htole64(uid), .tenth = TENTH, .magic = htole16(MAGIC), .version = VERSION};

    memcpy(buffer, &header, sizeof(header));
    writer->buffer = buffer;
    writer->length = CW_ADDRESS_HEADER;
}

uint8_t *cw_address_entry(struct cw_address_writer *writer, size_t *max_p)
{
    size_t left = CW_ADDRESS_MAX - writer->length;

    if (left <= 2 || writer->buffer[CW_ADDRESS_AT_ENTRIES] == CW_ADDRESS_MAX_ENTRIES) {
        return NULL;
    }
    left -= 2;
    *max_p = (left < CW_ADDRESS_ENTRY_MAX) ? left : CW_ADDRESS_ENTRY_MAX;
    return writer->buffer + writer->length + 2;
}

void cw_address_entry_done(struct cw_address_writer *writer, uint8_t wire_id, size_t length)
{
    writer->buffer[writer->length] = wire_id;
    writer->buffer[writer->length + 1] = (uint8_t)length;
    writer->length += 2 + length;
    writer->buffer[CW_ADDRESS_AT_ENTRIES]++;
}

size_t cw_address_end(struct cw_address_writer *writer)
{
    uint16_t length = htole16((uint16_t)writer->length);
    uint32_t sum;

    memcpy(writer->buffer + CW_ADDRESS_AT_LENGTH, &length, sizeof(length));
    sum = htole32(checksum(writer->buffer, writer->length));
    memcpy(writer->buffer + CW_ADDRESS_AT_CHECKSUM, &sum, sizeof(sum));
    return writer->length;
}

ucs_status_t cw_address_decode(const void *blob, struct cw_address *address)
{
    const uint8_t *bytes = blob;
    size_t at = CW_ADDRESS_HEADER, length;
    struct header header;
    unsigned i;
    uint32_t sum;

    memcpy(&header, bytes, sizeof(header));
    length = le16toh(header.length);
    if (header.first != FIRST || header.tenth != TENTH || le16toh(header.magic) != MAGIC ||
        header.version != VERSION) {
        return UCS_ERR_UNREACHABLE;
    }
    if (length < CW_ADDRESS_HEADER || length > CW_ADDRESS_MAX) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&sum, bytes + CW_ADDRESS_AT_CHECKSUM, sizeof(sum));
    if (le32toh(sum) != checksum(bytes, length)) {
        return UCS_ERR_INVALID_PARAM;
    }
    for (i = 0; i < header.entries; i++) {
        if (length - at < 2 || length - at - 2 < bytes[at + 1]) {
            return UCS_ERR_INVALID_PARAM;
        }
        at += 2u + bytes[at + 1];
    }
    if (at != length) {
        return UCS_ERR_INVALID_PARAM;
    }
    *address = (struct cw_address){.uid = le64toh(header.uid), .bytes = bytes, .length = length};
    return UCS_OK;
}

/* An address of UCX begins with the number of its format in the low half of a byte, 0 for v1; v2 has its flags in the
 * next byte. One flag means that the worker's uid follows, which every address of a worker has; another one that a name
 * is present. */
#define UCX_V1_UID  0x20u
#define UCX_V1_NAME 0x10u
#define UCX_V2      0x01u
#define UCX_V2_NAME 0x01u
#define UCX_V2_UID  0x02u

static bool is_marker(const uint8_t *bytes)
{
    return bytes[0] == (MAGIC & 0xff) && bytes[1] == MAGIC >> 8;
}

const char *cw_address_maker(const void *blob)
{
    const uint8_t *bytes = blob;

    if (is_marker(bytes) || /* offset of the marker in version 1 */
        (bytes[0] == FIRST && bytes[CW_ADDRESS_AT_MAGIC - 1] == TENTH && is_marker(bytes + CW_ADDRESS_AT_MAGIC))) {
        return "another version of this library";
    }
    if ((bytes[0] & ~UCX_V1_NAME) == UCX_V1_UID) {
        return "UCX, in its address format v1";
    }
    if (bytes[0] == UCX_V2 && (bytes[1] & ~UCX_V2_NAME) == UCX_V2_UID) {
        return "UCX, in its address format v2";
    }
    return NULL;
}

int cw_address_get(const struct cw_address *address, unsigned index, struct cw_address_entry *entry)
{
    size_t at;

    for (at = CW_ADDRESS_HEADER; at < address->length; at += 2u + address->bytes[at + 1]) {
        if (index-- == 0) {
            *entry = (struct cw_address_entry){
                .wire_id = address->bytes[at], .bytes = address->bytes + at + 2, .length = address->bytes[at + 1]};
            return 1;
        }
    }
    return 0;
}

const void *cw_address_find(const struct cw_address *address, uint8_t wire_id, size_t *length_p)
{
    struct cw_address_entry entry;
    unsigned i;

    for (i = 0; cw_address_get(address, i, &entry); i++) {
        if (entry.wire_id == wire_id) {
            *length_p = entry.length;
            return entry.bytes;
        }
    }
    return NULL;
}
