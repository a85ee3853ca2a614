/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of wire/key.h.
 */
#include "wire/key.h"

#include <endian.h>
#include <string.h>

#define VERSION 1

static const uint8_t magic[4] = {'C', 'K', VERSION, CW_KEY_LENGTH};

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

void cw_key_encode(const struct cw_key *key, uint8_t bytes[CW_KEY_LENGTH])
{
    memcpy(bytes, magic, sizeof(magic));
    bytes[4] = key->rights;
    bytes[5] = key->flags;
    bytes[6] = 0;
    bytes[7] = 0;
    put64(bytes + 8, key->token);
    put64(bytes + 16, key->address);
    put64(bytes + 24, key->length);
    put64(bytes + 32, key->beacon);
    put64(bytes + 40, key->system);
    put32(bytes + 48, key->pid);
    put32(bytes + 52, key->fd);
}

ucs_status_t cw_key_decode(const void *buffer, struct cw_key *key)
{
    const uint8_t *bytes = buffer;

    if (memcmp(bytes, magic, sizeof(magic)) != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *key = (struct cw_key){.token   = get64(bytes + 8),
                           .address = get64(bytes + 16),
                           .length  = get64(bytes + 24),
                           .beacon  = get64(bytes + 32),
                           .system  = get64(bytes + 40),
                           .pid     = get32(bytes + 48),
                           .fd      = get32(bytes + 52),
                           .rights  = bytes[4],
                           .flags   = bytes[5]};
    if ((key->rights & ~(CW_KEY_READ | CW_KEY_WRITE)) != 0 || (key->flags & ~CW_KEY_SHARED) != 0 || bytes[6] != 0 ||
        bytes[7] != 0 || (key->token == 0) != (key->length == 0) || key->length > UINT64_MAX - key->address ||
        key->beacon % sizeof(uint64_t) != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}
