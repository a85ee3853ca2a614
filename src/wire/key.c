/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of wire/key.h.
 */
#include "wire/key.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#define VERSION    2
#define HOST_BYTES 16u
#define PART_MAX   16u

static const uint8_t magic[3] = {'C', 'K', VERSION};

static void put64(uint8_t *bytes, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes, &value, sizeof(value));
}

static void put32(uint8_t *bytes, uint32_t value)
{
    value = htole32(value);
    memcpy(bytes, &value, sizeof(value));
}

static uint64_t get64(const uint8_t *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return le64toh(value);
}

static uint32_t get32(const uint8_t *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return le32toh(value);
}

static unsigned part_domain(const uint8_t *part)
{
    return part[0] >> 4;
}

static size_t part_length(const uint8_t *part)
{
    return (part[0] & 15u) + 1u;
}

/* The validity word is aligned to a word, and no address of a process has more than 59 bits. For any other validity
 * word the key is made without one. */
static void put_validity(uint8_t *bytes, uint64_t validity)
{
    uint8_t word[8];

    put64(word, (validity >> 59 == 0) ? validity / 8 : 0);
    memcpy(bytes, word, 7);
}

static uint64_t get_validity(const uint8_t *bytes)
{
    uint8_t word[8] = {0};

    memcpy(word, bytes, 7);
    return get64(word) * 8;
}

size_t cw_key_encode(const struct cw_key *key, const struct cw_key_parts *parts, uint8_t bytes[CW_KEY_MAX])
{
    size_t length = CW_KEY_LEAST;

    memcpy(bytes, magic, sizeof(magic));
    bytes[4] = (uint8_t)(key->rights | key->executor << 4);
    put64(bytes + 5, key->token);
    put64(bytes + 13, key->address);
    put64(bytes + 21, key->length);
    put_validity(bytes + 29, key->validity);
    if (key->flags & CW_KEY_SHARED) {
        bytes[length] = HOST_BYTES - 1;
        put64(bytes + length + 1, key->system);
        put32(bytes + length + 9, key->pid);
        put32(bytes + length + 13, key->fd);
        length += 1 + HOST_BYTES;
    }
    if (parts != NULL && parts->length > 0 && parts->length <= CW_KEY_MAX - length) {
        memcpy(bytes + length, parts->bytes, parts->length);
        length += parts->length;
    }
    bytes[3] = (uint8_t)length;
    return length;
}

size_t cw_key_length(const void *buffer)
{
    const uint8_t *bytes = buffer;

    return (memcmp(bytes, magic, sizeof(magic)) == 0 && bytes[3] >= CW_KEY_LEAST) ? bytes[3] : 0;
}

int cw_key_parts_hold(const struct cw_key_parts *parts)
{
    unsigned last = 0;
    size_t at;

    for (at = 0; at < parts->length; at += 1 + part_length(parts->bytes + at)) {
        if (part_domain(parts->bytes + at) <= last || part_length(parts->bytes + at) >= parts->length - at) {
            return 0;
        }
        last = part_domain(parts->bytes + at);
    }
    return 1;
}

const uint8_t *cw_key_find_part(const struct cw_key_parts *parts, unsigned domain, size_t *length_p)
{
    size_t at;

    for (at = 0; at < parts->length; at += 1 + part_length(parts->bytes + at)) {
        if (part_domain(parts->bytes + at) == domain) {
            *length_p = part_length(parts->bytes + at);
            return parts->bytes + at + 1;
        }
    }
    return NULL;
}

size_t cw_key_add_part(uint8_t bytes[CW_KEY_PARTS_MAX], size_t length, unsigned domain, const void *part,
                       unsigned bytes_of_part)
{
    /* A byte before each part, and the host's part before all, if the key has it. */
    if (bytes_of_part == 0 || bytes_of_part > PART_MAX ||
        2 + HOST_BYTES + length + bytes_of_part > CW_KEY_PARTS_MAX) {
        return length;
    }
    bytes[length] = (uint8_t)(domain << 4 | (bytes_of_part - 1));
    memcpy(bytes + length + 1, part, bytes_of_part);
    return length + 1 + bytes_of_part;
}

/* Takes the host's part from the front of the parts. 0: the front is no valid part of a host. */
static int take_host(struct cw_key *key, struct cw_key_parts *parts)
{
    const uint8_t *bytes = parts->bytes;

    if (parts->length == 0 || part_domain(bytes) != 0) {
        return 1;
    }
    if (parts->length < 1 + HOST_BYTES || part_length(bytes) != HOST_BYTES) {
        return 0;
    }
    key->flags = CW_KEY_SHARED;
    key->system = get64(bytes + 1);
    key->pid = get32(bytes + 9);
    key->fd = get32(bytes + 13);
    parts->bytes += 1 + HOST_BYTES;
    parts->length -= 1 + HOST_BYTES;
    return 1;
}

static bool holds(const struct cw_key *key, const struct cw_key_parts *parts)
{
    size_t length;

    return (key->rights & ~(CW_KEY_READ | CW_KEY_WRITE)) == 0 && (key->token == 0) == (key->length == 0) &&
           key->length <= UINT64_MAX - key->address && cw_key_parts_hold(parts) &&
           (key->executor == 0 || cw_key_find_part(parts, key->executor, &length) != NULL);
}

ucs_status_t cw_key_decode(const void *buffer, struct cw_key *key, struct cw_key_parts *parts_p)
{
    const uint8_t *bytes = buffer;
    const size_t length = cw_key_length(buffer);
    struct cw_key_parts parts;

    if (length == 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *key = (struct cw_key){.token = get64(bytes + 5),
                        .address = get64(bytes + 13),
                        .length = get64(bytes + 21),
                        .validity = get_validity(bytes + 29),
                        .rights = bytes[4] & 15u,
                        .executor = bytes[4] >> 4};
    parts = (struct cw_key_parts){.bytes = bytes + CW_KEY_LEAST, .length = length - CW_KEY_LEAST};
    if (!take_host(key, &parts) || !holds(key, &parts)) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (parts_p != NULL) {
        *parts_p = parts;
    }
    return UCS_OK;
}

size_t cw_key_memory_encode(const struct cw_key_memory *memory, uint8_t bytes[CW_KEY_MEMORY_MAX])
{
    if (memory->parts.length == 0 || memory->parts.length > CW_KEY_MEMORY_MAX - CW_KEY_MEMORY_HEAD) {
        return 0;
    }
    put64(bytes, memory->address);
    put64(bytes + 8, memory->length);
    memcpy(bytes + CW_KEY_MEMORY_HEAD, memory->parts.bytes, memory->parts.length);
    return CW_KEY_MEMORY_HEAD + memory->parts.length;
}

ucs_status_t cw_key_memory_decode(const void *buffer, size_t length, struct cw_key_memory *memory)
{
    const uint8_t *bytes = buffer;

    if (length <= CW_KEY_MEMORY_HEAD) {
        return UCS_ERR_INVALID_PARAM;
    }
    *memory = (struct cw_key_memory){
        .address = get64(bytes),
        .length = get64(bytes + 8),
        .parts = {.bytes = bytes + CW_KEY_MEMORY_HEAD, .length = length - CW_KEY_MEMORY_HEAD}};
    return (memory->length > 0 && memory->length <= UINT64_MAX - memory->address && cw_key_parts_hold(&memory->parts))
               ? UCS_OK
               : UCS_ERR_INVALID_PARAM;
}
