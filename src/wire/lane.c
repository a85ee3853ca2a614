/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hello of a further lane.
 */
#include "wire/lane.h"

#include <string.h>

struct wire_lane_hello {
    char magic[4];
    uint8_t lane;
    uint8_t zero;
    uint16_t generation;
    uint64_t source_uid;
    uint64_t target_uid;
    uint32_t number;
    uint32_t reserved;
    uint8_t token[CW_LANE_TOKEN];
};

_Static_assert(sizeof(struct wire_lane_hello) == CW_LANE_HELLO_LENGTH, "size on the wire");

static const char lane_magic[4] = {'C', 'W', 'L', '1'};

void cw_lane_hello_encode(const struct cw_lane_hello *hello, uint8_t bytes[CW_LANE_HELLO_LENGTH])
{
    struct wire_lane_hello wire = {.lane = hello->lane,
                             .generation = htole16(hello->generation),
                             .source_uid = htole64(hello->source_uid),
                             .target_uid = htole64(hello->target_uid),
                             .number = htole32(hello->number)};

    memcpy(wire.magic, lane_magic, sizeof(wire.magic));
    memcpy(wire.token, hello->token, sizeof(wire.token));
    memcpy(bytes, &wire, sizeof(wire));
}

bool cw_is_lane_hello(const void *bytes, size_t length)
{
    return length >= sizeof(lane_magic) && memcmp(bytes, lane_magic, sizeof(lane_magic)) == 0;
}

ucs_status_t cw_lane_hello_decode(const void *bytes, size_t length, struct cw_lane_hello *hello)
{
    struct wire_lane_hello wire;

    if (length != sizeof(wire) || !cw_is_lane_hello(bytes, length)) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&wire, bytes, sizeof(wire));
    if (wire.zero != 0 || wire.reserved != 0 || wire.lane == 0 || wire.lane > CW_MAX_LANES) {
        return UCS_ERR_INVALID_PARAM;
    }
    *hello = (struct cw_lane_hello){.source_uid = le64toh(wire.source_uid),
                                    .target_uid = le64toh(wire.target_uid),
                                    .number = le32toh(wire.number),
                                    .generation = le16toh(wire.generation),
                                    .lane = wire.lane};
    memcpy(hello->token, wire.token, sizeof(hello->token));
    return UCS_OK;
}

int cw_lane_token_equal(const uint8_t *left, const uint8_t *right)
{
    uint8_t differ = 0;
    unsigned i;

    for (i = 0; i < CW_LANE_TOKEN; i++) {
        differ |= left[i] ^ right[i];
    }
    return differ == 0;
}
