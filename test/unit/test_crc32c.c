/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C against the vectors of RFC 3720 (B.4), and the processor's instruction against the table.
 */
#include <string.h>

#include "runner.h"
#include "base/crc32c.h"
#include "base/hash.h"

static void check(const void *data, size_t length, uint32_t expected)
{
    assert_int_equal(cw_crc32c(0, data, length), expected);
    assert_int_equal(cw_crc32c_portable(0, data, length), expected);
}

TEST(test_known_vectors)
{
    uint8_t bytes[32];
    int i;

    memset(bytes, 0, sizeof(bytes));
    check(bytes, sizeof(bytes), 0x8a9136aau);
    memset(bytes, 0xff, sizeof(bytes));
    check(bytes, sizeof(bytes), 0x62a8ab43u);
    for (i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)i;
    }
    check(bytes, sizeof(bytes), 0x46dd794eu);
    for (i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    check(bytes, sizeof(bytes), 0x113fdb5cu);
    check("123456789", 9, 0xe3069283u);
    check("", 0, 0);
}

/* Any length, any alignment, in two parts. */
TEST(test_ways_agree)
{
    uint8_t bytes[600];
    unsigned at, length;
    uint32_t expected;
    size_t i;

    for (i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)cw_hash_mix(i + 1);
    }
    for (at = 0; at < 9; at++) {
        for (length = 0; length < 300; length++) {
            expected = cw_crc32c_portable(7, bytes + at, length);
            assert_int_equal(cw_crc32c(7, bytes + at, length), expected);
            assert_int_equal(cw_crc32c(cw_crc32c(7, bytes + at, length / 3), bytes + at + length / 3,
                                       length - length / 3), expected);
        }
    }
}

/* Lengths around those of blocks that are cut in three. */
TEST(test_long_ones_agree)
{
    static const unsigned lengths[] = {383, 384, 385, 768, 1151, 3071, 3072, 3073, 3456, 6143, 6144, 9999};
    static uint8_t bytes[10000];
    unsigned at, i;

    for (i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)cw_hash_mix(i + 1);
    }
    for (at = 0; at < 2; at++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            assert_int_equal(cw_crc32c(i, bytes + at, lengths[i]), cw_crc32c_portable(i, bytes + at, lengths[i]));
        }
    }
}
