/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hello and its reply of wire/hello.h: exactly one text for each meaning. Whatever the decoder accepts, the encoder
 * writes again with the same bytes; everything else is refused and leaves the result alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "test_random.h"
#include "wire/hello.h"

static struct cw_hello random_hello(void)
{
    return (struct cw_hello){.source_uid = next_random(),
                             .target_uid = next_random(),
                             .number = (uint32_t)next_random(),
                             .err_mode = (uint8_t)(next_random() & 1),
                             .flags =
                                 (uint8_t)(next_random() & (CW_HELLO_NO_LOOPBACK | CW_HELLO_CM | CW_HELLO_FAILOVER))};
}

static int hello_equal(const struct cw_hello *a, const struct cw_hello *b)
{
    return a->source_uid == b->source_uid && a->target_uid == b->target_uid && a->number == b->number &&
           a->err_mode == b->err_mode && a->flags == b->flags;
}

/* Decodes from memory that ends with the bytes. Returns whether they were accepted. */
static int accepts(const uint8_t *bytes, size_t length)
{
    const struct cw_hello before = {.source_uid = 1, .target_uid = 2, .number = 3, .err_mode = 4, .flags = 5};
    struct cw_hello hello = before;
    uint8_t *tight = malloc(length + (length == 0)), again[CW_HELLO_LENGTH];
    ucs_status_t status;

    assert_non_null(tight);
    memcpy(tight, bytes, length);
    status = cw_hello_decode(tight, length, &hello);
    free(tight);
    if (status != UCS_OK) {
        assert_int_equal(status, UCS_ERR_INVALID_PARAM);
        assert_true(hello_equal(&hello, &before));
        return 0;
    }
    assert_int_equal(length, CW_HELLO_LENGTH);
    cw_hello_encode(&hello, again);
    assert_memory_equal(again, bytes, CW_HELLO_LENGTH);
    return 1;
}

static int reply_accepts(const uint8_t *bytes, size_t length)
{
    enum cw_hello_answer answer = CW_HELLO_ANSWERS;
    uint8_t *tight = malloc(length + (length == 0)), again[CW_HELLO_REPLY_LENGTH];
    ucs_status_t status;

    assert_non_null(tight);
    memcpy(tight, bytes, length);
    status = cw_hello_reply_decode(tight, length, &answer);
    free(tight);
    if (status != UCS_OK) {
        assert_int_equal(status, UCS_ERR_INVALID_PARAM);
        assert_int_equal(answer, CW_HELLO_ANSWERS);
        return 0;
    }
    assert_int_equal(length, CW_HELLO_REPLY_LENGTH);
    assert_in_range(answer, 0, CW_HELLO_ANSWERS - 1);
    cw_hello_reply_encode(answer, again);
    assert_memory_equal(again, bytes, CW_HELLO_REPLY_LENGTH);
    return 1;
}

TEST_WITH(the_bytes_are_as_the_tables_say, random_set_up, NULL)
{
    static const uint8_t expected[CW_HELLO_LENGTH] = {
        'C', 'W', 'Y', '1', 4, 0, 1, 1, 8, 7, 6, 5, 4, 3, 2, 1, /* the uids */ 18, 17, 16, 15, 14, 13, 12, 11,
        24, 23, 22, 21, 0, 0, 0, 0
    };
    static const uint8_t expected_reply[CW_HELLO_REPLY_LENGTH] = {'C', 'W', 'R', '1', 2, 0, 0, 0};
    const struct cw_hello hello = {.source_uid = 0x0102030405060708u,
                                   .target_uid = 0x0b0c0d0e0f101112u,
                                   .number = 0x15161718u,
                                   .err_mode = 1,
                                   .flags = CW_HELLO_NO_LOOPBACK};
    uint8_t bytes[CW_HELLO_LENGTH];

    cw_hello_encode(&hello, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    cw_hello_reply_encode(CW_HELLO_WRONG_WORKER, bytes);
    assert_memory_equal(bytes, expected_reply, sizeof(expected_reply));
}

/* Only a hello of another release is foreign, however long that release made it. */
TEST_WITH(a_foreign_version_is_named, random_set_up, NULL)
{
    const struct cw_hello hello = {.source_uid = 1};
    uint8_t bytes[CW_HELLO_LENGTH + 8] = {0};

    cw_hello_encode(&hello, bytes);
    assert_int_equal(cw_hello_foreign(bytes, CW_HELLO_LENGTH), 0);
    bytes[4] = 5;
    bytes[5] = 1;
    assert_false(accepts(bytes, CW_HELLO_LENGTH));
    assert_int_equal(cw_hello_foreign(bytes, CW_HELLO_LENGTH), 0x105);
    assert_int_equal(cw_hello_foreign(bytes, sizeof(bytes)), 0x105);
    assert_int_equal(cw_hello_foreign(bytes, 6), 0x105);
    assert_int_equal(cw_hello_foreign(bytes, 5), 0);
    bytes[0] = 'X';
    assert_int_equal(cw_hello_foreign(bytes, CW_HELLO_LENGTH), 0);
}

TEST_WITH(what_is_written_is_read, random_set_up, NULL)
{
    uint8_t buffer[CW_HELLO_LENGTH + 8];
    struct cw_hello hello, decoded;
    enum cw_hello_answer answer;
    unsigned i;

    for (i = 0; i < 20000; i++) {
        hello = random_hello();
        cw_hello_encode(&hello, buffer + i % 8);
        assert_int_equal(cw_hello_decode(buffer + i % 8, CW_HELLO_LENGTH, &decoded), UCS_OK);
        assert_true(hello_equal(&hello, &decoded));
    }
    for (i = 0; i < CW_HELLO_ANSWERS; i++) {
        cw_hello_reply_encode((enum cw_hello_answer)i, buffer + 1);
        assert_int_equal(cw_hello_reply_decode(buffer + 1, CW_HELLO_REPLY_LENGTH, &answer), UCS_OK);
        assert_int_equal(answer, i);
    }
}

TEST_WITH(every_other_length_is_refused, random_set_up, NULL)
{
    struct cw_hello hello = random_hello();
    uint8_t bytes[64] = {0};
    size_t length;

    cw_hello_encode(&hello, bytes);
    for (length = 0; length <= sizeof(bytes); length++) {
        assert_int_equal(accepts(bytes, length), length == CW_HELLO_LENGTH);
    }
    cw_hello_reply_encode(CW_HELLO_LOST, bytes);
    for (length = 0; length <= sizeof(bytes); length++) {
        assert_int_equal(reply_accepts(bytes, length), length == CW_HELLO_REPLY_LENGTH);
    }
}

/* A flipped bit is refused, or means exactly itself: the numbers and the mode carry no redundancy. */
TEST_WITH(every_flipped_bit_is_refused_or_seen, random_set_up, NULL)
{
    struct cw_hello hello = random_hello();
    uint8_t bytes[CW_HELLO_LENGTH];
    unsigned bit, byte;

    cw_hello_encode(&hello, bytes);
    for (bit = 0; bit < CW_HELLO_LENGTH * 8; bit++) {
        byte = bit / 8;
        bytes[byte] ^= (uint8_t)(1u << bit % 8);
        if (byte < 6 || byte >= 28 || (byte == 7 && bit % 8 > 2)) {
            assert_false(accepts(bytes, CW_HELLO_LENGTH));
        } else if (byte != 6) {
            assert_true(accepts(bytes, CW_HELLO_LENGTH));
        } else {
            (void)accepts(bytes, CW_HELLO_LENGTH);
        }
        bytes[byte] ^= (uint8_t)(1u << bit % 8);
    }
    cw_hello_reply_encode(CW_HELLO_ACCEPTED, bytes);
    for (bit = 0; bit < CW_HELLO_REPLY_LENGTH * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(reply_accepts(bytes, CW_HELLO_REPLY_LENGTH), bit / 8 == 4 && bit % 8 < 3);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST_WITH(random_bytes_are_refused_or_seen, random_set_up, NULL)
{
    struct cw_hello hello = {0};
    uint8_t bytes[CW_HELLO_LENGTH + 8];
    unsigned i, accepted = 0;

    for (i = 0; i < 50000; i++) {
        random_bytes(bytes, sizeof(bytes));
        assert_false(accepts(bytes, next_random() % (sizeof(bytes) + 1)));
        assert_false(reply_accepts(bytes, next_random() % (sizeof(bytes) + 1)));
        cw_hello_encode(&hello, bytes);
        random_bytes(bytes + 6, 22);
        accepted += (unsigned)accepts(bytes, CW_HELLO_LENGTH);
        cw_hello_reply_encode(CW_HELLO_ACCEPTED, bytes);
        random_bytes(bytes + 4, 1 + i % 4);
        accepted += (unsigned)reply_accepts(bytes, CW_HELLO_REPLY_LENGTH);
    }
    assert_true(accepted > 0);
}

TEST_WITH(a_reply_is_no_hello, random_set_up, NULL)
{
    struct cw_hello hello = random_hello();
    uint8_t bytes[CW_HELLO_LENGTH];

    cw_hello_encode(&hello, bytes);
    assert_false(reply_accepts(bytes, CW_HELLO_REPLY_LENGTH));
    assert_false(reply_accepts(bytes, CW_HELLO_LENGTH));
    cw_hello_reply_encode(CW_HELLO_ACCEPTED, bytes);
    assert_false(accepts(bytes, CW_HELLO_LENGTH));
}

/* A seed of another version would be refused before any packet is read. */
TEST_WITH(the_seed_of_the_fuzzer_is_a_hello, random_set_up, NULL)
{
    FILE *seeds = fopen(CW_SOURCE_DIR "/test/fuzz/corpus/hello.txt", "r");
    unsigned found = 0;
    char name[64], digits[256];

    assert_non_null(seeds);
    while (fscanf(seeds, "%63s %255s", name, digits) == 2) {
        if (strcmp(name, "hello") == 0) {
            uint8_t bytes[sizeof(digits) / 2];
            size_t length = strlen(digits) / 2;

            for (size_t i = 0; i < length; i++) {
                assert_int_equal(sscanf(digits + 2 * i, "%2hhx", &bytes[i]), 1);
            }
            assert_true(accepts(bytes, length));
            found++;
        }
    }
    fclose(seeds);
    assert_int_equal(found, 1);
}
