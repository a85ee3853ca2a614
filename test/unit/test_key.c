/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of remote keys (wire/key.h, KEY-1) and the order of unpacked ones (KEY-8).
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/rkey.h"
#include "test_random.h"
#include "wire/key.h"

static const struct cw_key sample = {.token = 0x1122334455667788,
                                  .address = 0x7fabcdef0123,
                                  .length = 0x10203040,
                                  .validity = 0x7f1234567890,
                                  .system = 0x99aabbccddeeff00,
                                  .pid = 0x01020304,
                                  .fd = 0x05060708,
                                  .rights = CW_KEY_WRITE,
                                  .flags = CW_KEY_SHARED,
                                  .executor = 9};

/* Of devices 2 and 9. */
static const uint8_t two_parts[] = {0x23, 1, 2, 3, 4, 0x90, 0x77};
static const struct cw_key_parts sample_parts = {.bytes = two_parts, .length = sizeof(two_parts)};

TEST(the_format_is_fixed)
{
    static const uint8_t expected[] = {
        'C',  'K',  2,    60,   0x92,                   /* head, executor and rights */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* token */
        0x23, 0x01, 0xef, 0xcd, 0xab, 0x7f, 0,    0,    /* address */
        0x40, 0x30, 0x20, 0x10, 0,    0,    0,    0,    /* length */
        0x12, 0xcf, 0x8a, 0x46, 0xe2, 0x0f, 0,          /* an eighth of the validity word */
        0x0f,                                           /* the host's part: */
        0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, /* system */
        0x04, 0x03, 0x02, 0x01, 0x08, 0x07, 0x06, 0x05, /* process, descriptor */
        0x23, 1,    2,    3,    4,    0x90, 0x77        /* parts of devices */
    };
    uint8_t bytes[CW_KEY_MAX + 1];
    struct cw_key_parts parts;
    const uint8_t *part;
    struct cw_key key;
    size_t length;

    assert_int_equal(cw_key_encode(&sample, &sample_parts, bytes), sizeof(expected));
    assert_memory_equal(bytes, expected, sizeof(expected));
    for (int shift = 0; shift < 2; shift++) { /* any alignment */
        memcpy(bytes + shift, expected, sizeof(expected));
        assert_int_equal(cw_key_length(bytes + shift), sizeof(expected));
        assert_int_equal(cw_key_decode(bytes + shift, &key, &parts), UCS_OK);
        assert_true(key.token == sample.token && key.address == sample.address && key.length == sample.length);
        assert_true(key.validity == sample.validity && key.system == sample.system && key.pid == sample.pid);
        assert_true(key.fd == sample.fd && key.rights == sample.rights && key.flags == sample.flags);
        assert_int_equal(key.executor, 9);
        part = cw_key_find_part(&parts, 2, &length);
        assert_true(part != NULL && length == 4 && memcmp(part, two_parts + 1, 4) == 0);
        part = cw_key_find_part(&parts, 9, &length);
        assert_true(part != NULL && length == 1 && part[0] == 0x77);
        assert_null(cw_key_find_part(&parts, 3, &length));
    }
}

/* R15: at most 64 bytes with one device, 128 with eight, whose parts have up to 8 bytes. */
TEST(keys_are_short)
{
    static const uint8_t part[16] = {1};
    uint8_t parts[CW_KEY_PARTS_MAX], bytes[CW_KEY_MAX];
    struct cw_key_parts all = {.bytes = parts};
    struct cw_key key = sample;

    key.executor = 0;
    assert_int_equal(cw_key_encode(&key, NULL, bytes), CW_KEY_SHARED_LENGTH);
    for (unsigned number = 1; number <= 8; number++) {
        all.length = cw_key_add_part(parts, all.length, number, part, 8);
        assert_true(cw_key_encode(&key, &all, bytes) <= ((number == 1) ? 64 : 128));
        assert_int_equal(cw_key_decode(bytes, &key, NULL), UCS_OK);
    }
    for (unsigned number = 9; number <= 15; number++) { /* what does not fit is left out */
        all.length = cw_key_add_part(parts, all.length, number, part, 16);
    }
    assert_true(cw_key_encode(&key, &all, bytes) <= CW_KEY_MAX);
    assert_int_equal(cw_key_decode(bytes, &key, NULL), UCS_OK);
    assert_int_equal(cw_key_add_part(parts, all.length, 15, part, 16), all.length);
}

/* A flipped bit is refused, or it is another key: none is lost on the way. */
TEST(every_bit_counts)
{
    uint8_t bytes[CW_KEY_MAX], again[CW_KEY_MAX];
    struct cw_key_parts parts;
    size_t length, other;
    struct cw_key key;

    length = cw_key_encode(&sample, &sample_parts, bytes);
    for (unsigned bit = 0; bit < length * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (bit / 8 < 3 || (bit / 8 == 3 && bytes[3] < length)) {
            assert_int_equal(cw_key_decode(bytes, &key, &parts), UCS_ERR_INVALID_PARAM);
        } else if (bit / 8 > 3 && cw_key_decode(bytes, &key, &parts) == UCS_OK) {
            other = cw_key_encode(&key, &parts, again);
            assert_int_equal(other, length);
            assert_memory_equal(again, bytes, length);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void refuse_parts(const uint8_t *bytes, size_t length)
{
    const struct cw_key_parts parts = {.bytes = bytes, .length = length};
    uint8_t packed[CW_KEY_MAX];
    struct cw_key key = sample;

    key.executor = 0;
    (void)cw_key_encode(&key, &parts, packed);
    assert_int_equal(cw_key_decode(packed, &key, NULL), UCS_ERR_INVALID_PARAM);
}

/* Memory of an announcement: what was encoded comes back, and of any bytes only those that are such memory. */
TEST(memory_of_announcements)
{
    static const uint8_t one[] = {0x23, 1, 2, 3, 4};
    const struct cw_key_memory memory = {.address = 0x1234567890, .length = 77, .parts = {one, sizeof(one)}};
    const struct cw_key_memory nothing = {.address = 1, .length = 77, .parts = {one, 0}};
    uint8_t bytes[CW_KEY_MEMORY_MAX], *copy;
    struct cw_key_memory again;
    size_t length, part_length;

    assert_int_equal(cw_key_memory_encode(&nothing, bytes), 0);
    length = cw_key_memory_encode(&memory, bytes);
    assert_int_equal(length, CW_KEY_MEMORY_HEAD + sizeof(one));
    for (size_t cut = 0; cut <= length; cut++) {
        copy = malloc(cut + (cut == 0)); /* exactly as long as it is */
        assert_non_null(copy);
        memcpy(copy, bytes, cut);
        assert_int_equal(cw_key_memory_decode(copy, cut, &again) == UCS_OK, cut == length);
        if (cut == length) {
            assert_true(again.address == memory.address && again.length == memory.length);
            assert_memory_equal(cw_key_find_part(&again.parts, 2, &part_length), one + 1, 4);
            assert_int_equal(part_length, 4);
        }
        free(copy);
    }
    for (int i = 0; i < 200000; i++) {
        random_bytes(bytes, sizeof(bytes));
        if (cw_key_memory_decode(bytes, sizeof(bytes), &again) == UCS_OK) {
            assert_true(again.length > 0 && again.address + again.length > again.address);
            assert_true(cw_key_parts_hold(&again.parts));
        }
    }
}

TEST(lying_parts_are_refused)
{
    static const uint8_t cut[] = {0x11, 0}, no_body[] = {0x10}, twice[] = {0x10, 1, 0x10, 2};
    static const uint8_t falling[] = {0x20, 1, 0x10, 2}, second_host[] = {0x00, 1};
    struct cw_key key = sample;
    uint8_t bytes[CW_KEY_MAX];

    refuse_parts(cut, sizeof(cut));
    refuse_parts(no_body, sizeof(no_body));
    refuse_parts(twice, sizeof(twice));
    refuse_parts(falling, sizeof(falling));
    refuse_parts(second_host, sizeof(second_host));
    key.executor = 3; /* has no part */
    (void)cw_key_encode(&key, &sample_parts, bytes);
    assert_int_equal(cw_key_decode(bytes, &key, NULL), UCS_ERR_INVALID_PARAM);
    key.executor = 9;
    (void)cw_key_encode(&key, &sample_parts, bytes);
    bytes[CW_KEY_LEAST] ^= 1; /* a host's part of another length */
    assert_int_equal(cw_key_decode(bytes, &key, NULL), UCS_ERR_INVALID_PARAM);
}

static ucs_status_t decode(struct cw_key key)
{
    uint8_t bytes[CW_KEY_MAX];
    struct cw_key again;

    (void)cw_key_encode(&key, &sample_parts, bytes);
    return cw_key_decode(bytes, &again, NULL);
}

TEST(contradictions_are_refused)
{
    struct cw_key key = sample;

    key.length = UINT64_MAX - key.address;
    assert_int_equal(decode(key), UCS_OK);
    key.length++;
    assert_int_equal(decode(key), UCS_ERR_INVALID_PARAM);
    key = sample;
    key.length = 0;
    assert_int_equal(decode(key), UCS_ERR_INVALID_PARAM);
    key.token = 0;
    assert_int_equal(decode(key), UCS_OK);
    key.length = 1;
    assert_int_equal(decode(key), UCS_ERR_INVALID_PARAM);
}

/* Foreign bytes may be shorter than a key: no more than four are read before they are known. */
TEST(foreign_bytes_are_refused)
{
    static const uint8_t foreign[][4] = {{0, 0, 0, 0}, {'C', 'K', 1, 56}, {'C', 'K', 2, 35}, {'C', 'X', 2, 56}};
    struct cw_key key;

    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        assert_int_equal(cw_key_decode(foreign[i], &key, NULL), UCS_ERR_INVALID_PARAM);
    }
}

TEST(keys_have_a_total_order)
{
    struct ucp_rkey keys[7];
    unsigned i, j;

    memset(keys, 0, sizeof(keys));
    for (i = 0; i < 7; i++) {
        keys[i].key = sample;
    }
    keys[0].key.token = 1;
    keys[1].key.address = 5;
    keys[2].key.length = 5;
    keys[4].key.length = UINT64_MAX;
    keys[5].key.address = UINT64_MAX;
    keys[6].key.token = UINT64_MAX;
    for (i = 0; i < 7; i++) {
        for (j = 0; j < 7; j++) {
            const int result = cw_rkey_compare(&keys[i], &keys[j]);

            if (i < j) {
                assert_true(result < 0);
            } else {
                assert_true((i > j) ? result > 0 : result == 0);
            }
        }
    }
}
