/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker address of wire/address.h.
 */
#include "wire/address.h"

#include <endian.h>
#include <string.h>

#define MAGIC   0x5743u
#define VERSION 1u

struct header {
    uint16_t magic;
    uint8_t version;
    uint8_t entries;
    uint16_t length;
    uint16_t reserved;
    uint64_t uid;
};

_Static_assert(sizeof(struct header) == 16, "the checksum follows");

/* FNV-1a: finds accidents (truncated, mixed up, foreign blobs), protects from nobody. */
static uint32_t checksum(const uint8_t *bytes, size_t length)
{
    uint32_t hash = 2166136261u;
    size_t i;

    for (i = 0; i < length; i++) {
        hash = (hash ^ ((i >= 16 && i < CW_ADDRESS_HEADER) ? 0 : bytes[i])) * 16777619u;
    }
    return hash;
}

void cw_address_begin(struct cw_address_writer *writer, uint8_t *buffer, uint64_t uid)
{
    struct header header = {.magic = htole16(MAGIC), .version = VERSION, .uid = htole64(uid)};

    memcpy(buffer, &header, sizeof(header));
    writer->buffer = buffer;
    writer->length = CW_ADDRESS_HEADER;
}

uint8_t *cw_address_entry(struct cw_address_writer *writer, size_t *max_p)
{
    size_t left = CW_ADDRESS_MAX - writer->length;

    if (left <= 2 || writer->buffer[3] == UINT8_MAX) {
        return NULL;
    }
    left  -= 2;
    *max_p = (left < CW_ADDRESS_ENTRY_MAX) ? left : CW_ADDRESS_ENTRY_MAX;
    return writer->buffer + writer->length + 2;
}

void cw_address_entry_done(struct cw_address_writer *writer, uint8_t wire_id, size_t length)
{
    writer->buffer[writer->length]     = wire_id;
    writer->buffer[writer->length + 1] = (uint8_t)length;
    writer->length                    += 2 + length;
    writer->buffer[3]++;
}

size_t cw_address_end(struct cw_address_writer *writer)
{
    uint16_t length = htole16((uint16_t)writer->length);
    uint32_t sum;

    memcpy(writer->buffer + 4, &length, sizeof(length));
    sum = htole32(checksum(writer->buffer, writer->length));
    memcpy(writer->buffer + 16, &sum, sizeof(sum));
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
    if (le16toh(header.magic) != MAGIC || header.version != VERSION) {
        return UCS_ERR_UNREACHABLE;
    }
    if (length < CW_ADDRESS_HEADER || length > CW_ADDRESS_MAX || header.reserved != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&sum, bytes + 16, sizeof(sum));
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

const void *cw_address_find(const struct cw_address *address, uint8_t wire_id, size_t *length_p)
{
    size_t at;

    for (at = CW_ADDRESS_HEADER; at < address->length; at += 2u + address->bytes[at + 1]) {
        if (address->bytes[at] == wire_id) {
            *length_p = address->bytes[at + 1];
            return address->bytes + at + 2;
        }
    }
    return NULL;
}
