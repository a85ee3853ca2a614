/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hello and its reply of wire/hello.h.
 */
#include "wire/hello.h"

#include <endian.h>
#include <string.h>

#define VERSION 4u

struct wire_hello {
    char magic[4];
    uint16_t version;
    uint8_t err_mode;
    uint8_t flags;
    uint64_t source_uid;
    uint64_t target_uid;
    uint32_t number;
    uint32_t reserved;
};

struct wire_reply {
    char magic[4];
    uint8_t answer;
    uint8_t reserved[3];
};

_Static_assert(sizeof(struct wire_hello) == CW_HELLO_LENGTH && sizeof(struct wire_reply) == CW_HELLO_REPLY_LENGTH,
               "sizes on the wire");

static const char hello_magic[4] = {'C', 'W', 'Y', '1'};
static const char reply_magic[4] = {'C', 'W', 'R', '1'};

void cw_hello_encode(const struct cw_hello *hello, uint8_t bytes[CW_HELLO_LENGTH])
{
    struct wire_hello wire = {.version = htole16(VERSION),
                           .err_mode = hello->err_mode,
                           .flags = hello->flags,
                           .source_uid = htole64(hello->source_uid),
                           .target_uid = htole64(hello->target_uid),
                           .number = htole32(hello->number)};

    memcpy(wire.magic, hello_magic, sizeof(wire.magic));
    memcpy(bytes, &wire, sizeof(wire));
}

ucs_status_t cw_hello_decode(const void *bytes, size_t length, struct cw_hello *hello)
{
    struct wire_hello wire;

    if (length != sizeof(wire)) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&wire, bytes, sizeof(wire));
    if (memcmp(wire.magic, hello_magic, sizeof(wire.magic)) != 0 || le16toh(wire.version) != VERSION ||
        wire.reserved != 0 || (wire.flags & ~(CW_HELLO_NO_LOOPBACK | CW_HELLO_CM | CW_HELLO_FAILOVER)) != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *hello = (struct cw_hello){.source_uid = le64toh(wire.source_uid),
                               .target_uid = le64toh(wire.target_uid),
                               .number = le32toh(wire.number),
                               .err_mode = wire.err_mode,
                               .flags = wire.flags};
    return UCS_OK;
}

unsigned cw_hello_foreign(const void *bytes, size_t length)
{
    struct wire_hello wire;
    unsigned version;

    /* A later release may have extended the hello. */
    if (length < offsetof(struct wire_hello, err_mode)) {
        return 0;
    }
    memcpy(&wire, bytes, offsetof(struct wire_hello, err_mode));
    version = le16toh(wire.version);
    return (memcmp(wire.magic, hello_magic, sizeof(wire.magic)) == 0 && version != VERSION) ? version : 0;
}

void cw_hello_reply_encode(enum cw_hello_answer answer, uint8_t bytes[CW_HELLO_REPLY_LENGTH])
{
    struct wire_reply wire = {.answer = (uint8_t)answer};

    memcpy(wire.magic, reply_magic, sizeof(wire.magic));
    memcpy(bytes, &wire, sizeof(wire));
}

ucs_status_t cw_hello_reply_decode(const void *bytes, size_t length, enum cw_hello_answer *answer)
{
    static const uint8_t zero[3];
    struct wire_reply wire;

    if (length != sizeof(wire)) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&wire, bytes, sizeof(wire));
    if (memcmp(wire.magic, reply_magic, sizeof(wire.magic)) != 0 || wire.answer >= CW_HELLO_ANSWERS ||
        memcmp(wire.reserved, zero, sizeof(zero)) != 0) {
        return UCS_ERR_INVALID_PARAM;
    }
    *answer = (enum cw_hello_answer)wire.answer;
    return UCS_OK;
}
