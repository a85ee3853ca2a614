/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker address of wire/address.h: what was written is read (ADR-1, ADR-4), whatever was damaged is refused
 * (ABU-24, ABU-25), and no bytes make the decoder read outside of the blob.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "test_random.h"
#include "wire/address.h"

/* A blob with three entries: 16 random bytes, none, 40 random bytes. */
static size_t sample(uint8_t *blob)
{
    static const size_t lengths[] = {16, 0, 40};
    struct cw_address_writer writer;
    uint8_t *place;
    size_t max, i;

    cw_address_begin(&writer, blob, 0x1122334455667788u);
    for (i = 0; i < 3; i++) {
        place = cw_address_entry(&writer, &max);
        assert_non_null(place);
        random_bytes(place, lengths[i]);
        cw_address_entry_done(&writer, (uint8_t)(10 + i), lengths[i]);
    }
    return cw_address_end(&writer);
}

/* Walks everything that a decoded address offers; a sanitizer sees each byte. */
static void visit(const struct cw_address *address)
{
    volatile uint8_t sum = 0;
    const uint8_t *entry;
    size_t length, i;
    unsigned id;

    for (id = 0; id < 256; id++) {
        entry = cw_address_find(address, (uint8_t)id, &length);
        if (entry != NULL) {
            assert_true(entry >= address->bytes + CW_ADDRESS_HEADER + 2);
            assert_true(entry + length <= address->bytes + address->length);
            for (i = 0; i < length; i++) {
                sum = (uint8_t)(sum + entry[i]);
            }
        }
    }
}

/* Decodes a copy that ends where readable memory ends. */
static ucs_status_t decode_tight(const uint8_t *blob, size_t readable)
{
    uint8_t *copy = malloc(readable);
    struct cw_address address = {.uid = 1, .bytes = blob, .length = 3};
    ucs_status_t status;

    assert_non_null(copy);
    memcpy(copy, blob, readable);
    status = cw_address_decode(copy, &address);
    if (status == UCS_OK) {
        assert_ptr_equal(address.bytes, copy);
        assert_true(address.length <= readable);
        visit(&address);
    } else {
        assert_true(address.uid == 1 && address.bytes == blob && address.length == 3);
    }
    free(copy);
    return status;
}

TEST_WITH(the_header_is_as_the_table_says, random_set_up, NULL)
{
    static const uint8_t expected[16] = {0x20, 8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0x43, 0x57, 2, 0, 20, 0};
    uint8_t blob[CW_ADDRESS_MAX];
    struct cw_address_writer writer;
    struct cw_address address;

    cw_address_begin(&writer, blob, 0x0102030405060708u);
    assert_int_equal(cw_address_end(&writer), CW_ADDRESS_HEADER);
    assert_memory_equal(blob, expected, sizeof(expected));
    assert_int_equal(cw_address_decode(blob, &address), UCS_OK);
    assert_true(address.uid == 0x0102030405060708u);
    assert_int_equal(address.length, CW_ADDRESS_HEADER);
    visit(&address);
}

/* Random entries, at any alignment: the reader finds the first of each id as it was written. */
TEST_WITH(what_is_written_is_read, random_set_up, NULL)
{
    uint8_t buffer[CW_ADDRESS_MAX + 8], again[CW_ADDRESS_MAX], expected[256][CW_ADDRESS_ENTRY_MAX];
    struct cw_address_writer writer;
    struct cw_address address;
    const void *found;
    uint8_t *blob, *place, id;
    size_t lengths[256], length, max;
    unsigned round, i, count;
    uint64_t uid;

    for (round = 0; round < 2000; round++) {
        blob = buffer + round % 8;
        uid = next_random();
        count = (unsigned)(next_random() % 20);
        memset(lengths, 0xff, sizeof(lengths));
        cw_address_begin(&writer, blob, uid);
        for (i = 0; i < count && (place = cw_address_entry(&writer, &max)) != NULL; i++) {
            assert_true(max >= 1 && max <= CW_ADDRESS_ENTRY_MAX);
            id = (uint8_t)(next_random() % 64);
            length = next_random() % (max + 1);
            random_bytes(place, length);
            if (lengths[id] == SIZE_MAX) {
                lengths[id] = length;
                memcpy(expected[id], place, length);
            }
            cw_address_entry_done(&writer, id, length);
        }
        length = cw_address_end(&writer);
        assert_true(length <= CW_ADDRESS_MAX);
        assert_int_equal(decode_tight(blob, length), UCS_OK);
        assert_int_equal(cw_address_decode(blob, &address), UCS_OK);
        assert_true(address.uid == uid);
        assert_int_equal(address.length, length);
        for (i = 0; i < 256; i++) {
            found = cw_address_find(&address, (uint8_t)i, &max);
            assert_int_equal(found != NULL, lengths[i] != SIZE_MAX);
            if (found != NULL) {
                assert_int_equal(max, lengths[i]);
                assert_memory_equal(found, expected[i], max);
            }
        }
        memcpy(again, blob, length);
        assert_int_equal(cw_address_end(&writer), length);
        assert_memory_equal(again, blob, length);
    }
}

/* However small or large the entries are: the writer stops before the blob is longer, or has more entries, than the
 * header can say. */
TEST_WITH(the_writer_stops_when_the_blob_is_full, random_set_up, NULL)
{
    uint8_t buffer[CW_ADDRESS_MAX + 16], *place;
    struct cw_address_writer writer;
    struct cw_address address;
    size_t size, length, max, found_length;
    unsigned count;

    for (size = 0; size <= CW_ADDRESS_ENTRY_MAX; size++) {
        memset(buffer, 0xee, sizeof(buffer));
        cw_address_begin(&writer, buffer, size);
        for (count = 0; (place = cw_address_entry(&writer, &max)) != NULL; count++) {
            assert_true(place + max <= buffer + CW_ADDRESS_MAX);
            length = (size < max) ? size : max;
            memset(place, (int)count, length);
            cw_address_entry_done(&writer, (uint8_t)count, length);
        }
        length = cw_address_end(&writer);
        assert_true(length <= CW_ADDRESS_MAX);
        assert_true(count == 255 || length + 2 >= CW_ADDRESS_MAX);
        for (max = CW_ADDRESS_MAX; max < sizeof(buffer); max++) {
            assert_int_equal(buffer[max], 0xee);
        }
        assert_int_equal(cw_address_decode(buffer, &address), UCS_OK);
        assert_int_equal(address.length, length);
        assert_non_null(cw_address_find(&address, (uint8_t)(count - 1), &found_length));
    }
}

/* What was cut off is seen as zeros, as noise, or as the blob's own beginning. */
TEST_WITH(every_truncation_is_refused, random_set_up, NULL)
{
    uint8_t blob[CW_ADDRESS_MAX], cut[CW_ADDRESS_MAX];
    struct cw_address address;
    size_t length, at, i;

    memset(blob, 0, sizeof(blob));
    length = sample(blob);
    for (at = 0; at < length; at++) {
        memset(cut, 0, sizeof(cut));
        memcpy(cut, blob, at);
        assert_true(cw_address_decode(cut, &address) != UCS_OK || memcmp(cut, blob, length) == 0);
        random_bytes(cut + at, sizeof(cut) - at);
        assert_true(cw_address_decode(cut, &address) != UCS_OK || memcmp(cut, blob, length) == 0);
        for (i = at; i < length; i++) {
            cut[i] = blob[i - at];
        }
        assert_true(cw_address_decode(cut, &address) != UCS_OK || memcmp(cut, blob, length) == 0);
    }
    /* a shorter length in the header, with all else in its place */
    for (at = 0; at < length; at++) {
        memcpy(cut, blob, length);
        cut[CW_ADDRESS_AT_LENGTH] = (uint8_t)at;
        cut[CW_ADDRESS_AT_LENGTH + 1] = (uint8_t)(at >> 8);
        assert_int_equal(cw_address_decode(cut, &address), UCS_ERR_INVALID_PARAM);
    }
}

/* Bytes that say whose address it is: those of the reference's empty address but the uid (NB-98), magic, version. */
static int is_shape(size_t at)
{
    return at == 0 || (at > CW_ADDRESS_AT_UID + 7 && at < CW_ADDRESS_AT_ENTRIES);
}

TEST_WITH(every_flipped_bit_is_refused, random_set_up, NULL)
{
    uint8_t blob[CW_ADDRESS_MAX];
    struct cw_address address;
    ucs_status_t status;
    size_t length, bit;

    memset(blob, 0, sizeof(blob));
    length = sample(blob);
    for (bit = 0; bit < length * 8; bit++) {
        blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
        status = cw_address_decode(blob, &address);
        assert_int_equal(status, is_shape(bit / 8) ? UCS_ERR_UNREACHABLE : UCS_ERR_INVALID_PARAM);
        blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(cw_address_decode(blob, &address), UCS_OK);
}

/* What says that it is an address of this library, and its length. */
static void begin_header(uint8_t *blob, size_t length)
{
    blob[0] = 0x20;
    blob[CW_ADDRESS_AT_UID + 8] = 0xff;
    memcpy(blob + CW_ADDRESS_AT_MAGIC, CW_ADDRESS_MAGIC, 3);
    blob[CW_ADDRESS_AT_LENGTH] = (uint8_t)length;
    blob[CW_ADDRESS_AT_LENGTH + 1] = (uint8_t)(length >> 8);
}

static void set_checksum(uint8_t *blob, size_t length)
{
    uint32_t hash = 2166136261u;
    size_t i;

    memset(blob + 16, 0, 4);
    for (i = 0; i < length; i++) {
        hash = (hash ^ blob[i]) * 16777619u;
    }
    for (i = 0; i < 4; i++) {
        blob[16 + i] = (uint8_t)(hash >> 8 * i);
    }
}

/* Noise behind a header that is in order, with the right checksum: an attacker can do that. The walk stays inside. */
TEST_WITH(forged_entries_stay_inside_the_blob, random_set_up, NULL)
{
    uint8_t blob[CW_ADDRESS_MAX];
    unsigned round, accepted = 0;
    size_t length, i;

    for (round = 0; round < 40000; round++) {
        length = CW_ADDRESS_HEADER + next_random() % ((round & 1) ? 12 : CW_ADDRESS_MAX - CW_ADDRESS_HEADER + 1);
        random_bytes(blob, length);
        begin_header(blob, length);
        blob[CW_ADDRESS_AT_ENTRIES] = (uint8_t)(next_random() % ((round & 2) ? 4 : 256));
        if (round & 4) { /* lengths that have a chance */
            for (i = CW_ADDRESS_HEADER; i < length; i++) {
                blob[i] &= 3;
            }
        }
        set_checksum(blob, length);
        accepted += decode_tight(blob, length) == UCS_OK;
    }
    assert_true(accepted > 100 && accepted < 20000);
}

/* Lengths beyond the limit are refused before the checksum reads so far; random bytes behind any header are harmless
 * as long as what the header promises is readable. */
TEST_WITH(random_bytes_are_harmless, random_set_up, NULL)
{
    uint8_t blob[CW_ADDRESS_MAX];
    unsigned round;

    for (round = 0; round < 20000; round++) {
        random_bytes(blob, sizeof(blob));
        if (round & 1) {
            begin_header(blob, next_random() % (CW_ADDRESS_MAX + 2));
        }
        assert_true(decode_tight(blob, sizeof(blob)) != UCS_OK);
    }
}

TEST_WITH(impossible_lengths_are_refused_unread, random_set_up, NULL)
{
    uint8_t blob[CW_ADDRESS_HEADER];
    unsigned length;

    for (length = 0; length <= UINT16_MAX; length++) {
        if (length == CW_ADDRESS_HEADER) {
            length = CW_ADDRESS_MAX + 1;
        }
        memset(blob, 0, sizeof(blob));
        begin_header(blob, length);
        assert_int_equal(decode_tight(blob, sizeof(blob)), UCS_ERR_INVALID_PARAM);
    }
}
