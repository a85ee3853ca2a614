/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of remote keys (wire/key.h, KEY-1) and the order of unpacked ones (KEY-8).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/rkey.h"
#include "wire/key.h"

static const struct cw_key sample = {.token   = 0x1122334455667788,
                                     .address = 0x7fabcdef0123,
                                     .length  = 0x10203040,
                                     .beacon  = 0x7f1234567890,
                                     .system  = 0x99aabbccddeeff00,
                                     .pid     = 0x01020304,
                                     .fd      = 0x05060708,
                                     .rights  = CW_KEY_WRITE,
                                     .flags   = CW_KEY_SHARED};

static void the_format_is_fixed(void **state)
{
    static const uint8_t expected[CW_KEY_LENGTH] = {
        'C',  'K',  1,    56,   2,    1,    0,    0,    /* head, rights, flags */
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* token */
        0x23, 0x01, 0xef, 0xcd, 0xab, 0x7f, 0,    0,    /* address */
        0x40, 0x30, 0x20, 0x10, 0,    0,    0,    0,    /* length */
        0x90, 0x78, 0x56, 0x34, 0x12, 0x7f, 0,    0,    /* beacon */
        0x00, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, /* system */
        0x04, 0x03, 0x02, 0x01, 0x08, 0x07, 0x06, 0x05  /* process, descriptor */
    };
    uint8_t bytes[CW_KEY_LENGTH + 1];
    struct cw_key key;

    (void)state;
    assert_true(CW_KEY_LENGTH <= 64); /* R15 */
    cw_key_encode(&sample, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    for (int shift = 0; shift < 2; shift++) { /* any alignment */
        memcpy(bytes + shift, expected, sizeof(expected));
        assert_int_equal(cw_key_decode(bytes + shift, &key), UCS_OK);
        assert_true(key.token == sample.token && key.address == sample.address && key.length == sample.length);
        assert_true(key.beacon == sample.beacon && key.system == sample.system && key.pid == sample.pid);
        assert_true(key.fd == sample.fd && key.rights == sample.rights && key.flags == sample.flags);
    }
}

/* A flipped bit is refused, or it is another key: none is lost on the way. */
static void every_bit_counts(void **state)
{
    uint8_t bytes[CW_KEY_LENGTH], again[CW_KEY_LENGTH];
    struct cw_key key;

    (void)state;
    cw_key_encode(&sample, bytes);
    for (unsigned bit = 0; bit < CW_KEY_LENGTH * 8; bit++) {
        const unsigned at   = bit / 8, in = bit % 8;
        const int is_head   = at < 4 || (at == 4 && in > 1) || (at == 5 && in > 0) || at == 6 || at == 7;
        const int is_skewed = at == 32 && in < 3; /* the beacon is a whole word */
        ucs_status_t status;

        bytes[at] ^= (uint8_t)(1u << in);
        status     = cw_key_decode(bytes, &key);
        assert_int_equal(status, (is_head || is_skewed) ? UCS_ERR_INVALID_PARAM : UCS_OK);
        if (status == UCS_OK) {
            cw_key_encode(&key, again);
            assert_memory_equal(again, bytes, sizeof(again));
        }
        bytes[at] ^= (uint8_t)(1u << in);
    }
}

static ucs_status_t decode(struct cw_key key)
{
    uint8_t bytes[CW_KEY_LENGTH];
    struct cw_key again;

    cw_key_encode(&key, bytes);
    return cw_key_decode(bytes, &again);
}

static void contradictions_are_refused(void **state)
{
    struct cw_key key = sample;

    (void)state;
    key.length = UINT64_MAX - key.address;
    assert_int_equal(decode(key), UCS_OK);
    key.length++;
    assert_int_equal(decode(key), UCS_ERR_INVALID_PARAM);
    key        = sample;
    key.length = 0;
    assert_int_equal(decode(key), UCS_ERR_INVALID_PARAM);
    key.token = 0;
    assert_int_equal(decode(key), UCS_OK);
    key.length = 1;
    assert_int_equal(decode(key), UCS_ERR_INVALID_PARAM);
}

/* Foreign bytes may be shorter than a key: no more than four are read before they are known. */
static void foreign_bytes_are_refused(void **state)
{
    static const uint8_t foreign[][4] = {{0, 0, 0, 0}, {'C', 'K', 2, 56}, {'C', 'K', 1, 57}, {'C', 'X', 1, 56}};
    struct cw_key key;

    (void)state;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        assert_int_equal(cw_key_decode(foreign[i], &key), UCS_ERR_INVALID_PARAM);
    }
}

static void keys_have_a_total_order(void **state)
{
    struct ucp_rkey keys[7];
    unsigned i, j;

    (void)state;
    memset(keys, 0, sizeof(keys));
    for (i = 0; i < 7; i++) {
        keys[i].key = sample;
    }
    keys[0].key.token   = 1;
    keys[1].key.address = 5;
    keys[2].key.length  = 5;
    keys[4].key.length  = UINT64_MAX;
    keys[5].key.address = UINT64_MAX;
    keys[6].key.token   = UINT64_MAX;
    for (i = 0; i < 7; i++) {
        for (j = 0; j < 7; j++) {
            const int result = cw_rkey_compare(&keys[i], &keys[j]);

            assert_true((i < j) ? result < 0 : (i > j) ? result > 0 : result == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_format_is_fixed),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(foreign_bytes_are_refused),
        cmocka_unit_test(keys_have_a_total_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
