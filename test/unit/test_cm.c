/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What client and server say when they meet, wire/cm.h: exactly one text for each meaning. Whatever is accepted is
 * written again with the same bytes; everything else is refused, and nothing beyond the length is ever read.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "test_random.h"
#include "wire/cm.h"

enum { REPLY_MAX = 600 };

/* From memory that ends with the bytes. Returns whether they were accepted. */
static int accepts(const uint8_t *bytes, size_t length)
{
    uint8_t *tight = malloc(length + (length == 0)), again[CW_CM_REQUEST_LENGTH];
    struct cw_cm_request asked = {.number = 1, .client_id = 2, .err_mode = 3};
    ucs_status_t status;

    assert_non_null(tight);
    memcpy(tight, bytes, length);
    status = cw_cm_request_decode(tight, length, &asked);
    free(tight);
    if (status != UCS_OK) {
        assert_int_equal(status, UCS_ERR_INVALID_PARAM);
        assert_true(asked.number == 1 && asked.client_id == 2 && asked.err_mode == 3);
        return 0;
    }
    assert_int_equal(length, CW_CM_REQUEST_LENGTH);
    cw_cm_request_encode(&asked, again);
    assert_memory_equal(again, bytes, CW_CM_REQUEST_LENGTH);
    return 1;
}

static int reply_accepts(const uint8_t *bytes, size_t length)
{
    uint8_t *tight = malloc(length + (length == 0)), again[REPLY_MAX];
    enum cw_cm_verdict answer = CW_CM_VERDICTS;
    struct cw_address address;
    ucs_status_t status;
    size_t written;

    assert_non_null(tight);
    memcpy(tight, bytes, length);
    status = cw_cm_reply_decode(tight, length, &answer, &address);
    if (status == UCS_OK) {
        assert_in_range(answer, 0, CW_CM_VERDICTS - 1);
        assert_int_equal(address.length, length - CW_CM_REPLY_HEADER);
        written = cw_cm_reply_encode(answer, address.bytes, address.length, again, sizeof(again));
        assert_int_equal(written, length);
        assert_memory_equal(again, bytes, length);
    }
    free(tight);
    return status == UCS_OK;
}

/* A worker address that cw_address_decode takes: a header and one entry. */
static size_t make_address(uint8_t bytes[CW_ADDRESS_MAX])
{
    struct cw_address_writer writer;
    uint8_t *entry;
    size_t max;

    cw_address_begin(&writer, bytes, 0x1122334455667788u);
    entry = cw_address_entry(&writer, &max);
    memset(entry, 7, 20);
    cw_address_entry_done(&writer, 3, 20);
    return cw_address_end(&writer);
}

TEST_WITH(the_bytes_are_as_the_table_says, random_set_up, NULL)
{
    static const uint8_t expected[CW_CM_REQUEST_LENGTH] = {'C', 'W', 'M', '1', 1,  0,  1,  0,  8,  7,  6,  5,
                                                           4,   3,   2,   1,   18, 17, 16, 15, 14, 13, 12, 11};
    static const uint8_t refusal[CW_CM_REPLY_HEADER] = {'C', 'W', 'N', '1', 2, 0, 0, 0};
    const struct cw_cm_request asked = {.number = 0x0102030405060708u, .client_id = 0x0b0c0d0e0f101112u, .err_mode = 1};
    uint8_t bytes[CW_CM_REQUEST_LENGTH];

    cw_cm_request_encode(&asked, bytes);
    assert_memory_equal(bytes, expected, sizeof(expected));
    assert_int_equal(cw_cm_reply_encode(CW_CM_IMPOSSIBLE, NULL, 0, bytes, sizeof(bytes)), sizeof(refusal));
    assert_memory_equal(bytes, refusal, sizeof(refusal));
}

TEST_WITH(what_is_written_is_read, random_set_up, NULL)
{
    uint8_t bytes[CW_CM_REQUEST_LENGTH + 8];
    struct cw_cm_request asked, read;
    unsigned i;

    for (i = 0; i < 20000; i++) {
        asked = (struct cw_cm_request){next_random(), next_random(), (uint8_t)next_random()};
        cw_cm_request_encode(&asked, bytes + i % 8);
        assert_int_equal(cw_cm_request_decode(bytes + i % 8, CW_CM_REQUEST_LENGTH, &read), UCS_OK);
        assert_true(asked.number == read.number && asked.client_id == read.client_id &&
                    asked.err_mode == read.err_mode);
    }
}

TEST_WITH(flipped_bits_and_other_lengths, random_set_up, NULL)
{
    const struct cw_cm_request asked = {.number = 5, .client_id = 6, .err_mode = 1};
    uint8_t bytes[CW_CM_REQUEST_LENGTH + 1] = {0};
    size_t i;

    cw_cm_request_encode(&asked, bytes);
    for (i = 0; i <= sizeof(bytes); i++) {
        assert_int_equal(accepts(bytes, i < sizeof(bytes) ? i : 1), i == CW_CM_REQUEST_LENGTH);
    }
    for (i = 0; i < CW_CM_REQUEST_LENGTH * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(accepts(bytes, CW_CM_REQUEST_LENGTH),
                         i / 8 == 6 || i / 8 >= 8); /* mode, number, id may be any */
        bytes[i / 8] ^= (uint8_t)(1u << i % 8);
    }
}

TEST_WITH(replies, random_set_up, NULL)
{
    uint8_t address[CW_ADDRESS_MAX], reply[REPLY_MAX];
    const size_t length = make_address(address);
    enum cw_cm_verdict answer;
    struct cw_address read;
    size_t i, total;

    for (i = 0; i < CW_CM_VERDICTS; i++) {
        total = cw_cm_reply_encode((enum cw_cm_verdict)i, address, length, reply, sizeof(reply));
        assert_int_equal(total, CW_CM_REPLY_HEADER + length);
        assert_int_equal(cw_cm_reply_decode(reply, total, &answer, &read), UCS_OK);
        assert_int_equal(answer, i);
        assert_true(read.uid == 0x1122334455667788u);
        assert_memory_equal(read.bytes, address, length);
    }
    assert_int_equal(cw_cm_reply_encode(CW_CM_ACCEPTED, address, length, reply, CW_CM_REPLY_HEADER + length - 1),
                     CW_CM_REPLY_HEADER);
    assert_int_equal(cw_cm_reply_decode(reply, CW_CM_REPLY_HEADER, &answer, &read), UCS_OK);
    assert_int_equal(read.length, 0);
}

TEST_WITH(broken_replies, random_set_up, NULL)
{
    uint8_t address[CW_ADDRESS_MAX], reply[REPLY_MAX] = {0};
    const size_t length = make_address(address);
    const size_t total = cw_cm_reply_encode(CW_CM_ACCEPTED, address, length, reply, sizeof(reply));
    size_t i;

    for (i = 0; i <= total + 8; i++) { /* truncated and longer */
        assert_int_equal(reply_accepts(reply, i), i == total || i == CW_CM_REPLY_HEADER);
    }
    for (i = 0; i < (CW_CM_REPLY_HEADER + CW_ADDRESS_HEADER) * 8; i++) {
        reply[i / 8] ^= (uint8_t)(1u << i % 8);
        if (i / 8 < CW_CM_REPLY_HEADER) {
            assert_int_equal(reply_accepts(reply, total), i / 8 == 4 && i % 8 < 2);
        } else {
            (void)reply_accepts(reply, total); /* whatever is accepted means just these bytes */
        }
        reply[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    for (i = 0; i < 200000; i++) {
        reply[next_random() % total] ^= (uint8_t)(1u << next_random() % 8);
        (void)reply_accepts(reply, (i % 4 == 0) ? next_random() % (total + 9) : total);
        if (i % 4 == 3) {
            (void)cw_cm_reply_encode(CW_CM_ACCEPTED, address, length, reply, sizeof(reply));
        }
    }
}
