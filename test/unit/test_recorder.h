/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send slots of a connection that only records what is sent.
 */
#ifndef CW_TEST_UNIT_TEST_RECORDER_H
#define CW_TEST_UNIT_TEST_RECORDER_H

#include <string.h>

#include "runner.h"
#include "transport/transport.h"
#include "wire/packet.h"

enum { MAX_RECORDS = 1500, MAX_BYTES = 70000, MAX_SENT = 70000 };

struct record {
    uint8_t id;
    size_t length;
    uint8_t bytes[64];
};

static struct record records[MAX_RECORDS];
static unsigned num_records;
static uint8_t sent[MAX_SENT];     /* the bytes of RNDV_DATA, by their offset, and of GET_DATA */
static int blocked;                /* no room */
static int keeps;                  /* placed packets are not given back ... */
static struct cw_completion *retained; /* ... but by this */

static inline ucs_status_t record(uint8_t id, const uint8_t *bytes, size_t length)
{
    struct record *entry = &records[num_records % MAX_RECORDS];
    uint64_t offset;

    num_records++;
    entry->id = id;
    entry->length = length;
    memcpy(entry->bytes, bytes, (length < sizeof(entry->bytes)) ? length : sizeof(entry->bytes));
    if (id == CW_PACKET_RNDV_DATA) {
        memcpy(&offset, bytes + 8, sizeof(offset));
        assert_true(le64toh(offset) + length - 16 <= sizeof(sent));
        memcpy(sent + le64toh(offset), bytes + 16, length - 16);
    } else if (id == CW_PACKET_GET_DATA) {
        assert_in_range(length, 9, 8 + sizeof(sent));
        memcpy(sent, bytes + 8, length - 8);
    }
    return UCS_OK;
}

static inline ucs_status_t fake_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload,
                                      size_t length)
{
    uint8_t bytes[400];

    (void)conn;
    if (blocked) {
        return CW_AGAIN;
    }
    assert_true(length <= sizeof(bytes) - sizeof(header));
    memcpy(bytes, &header, sizeof(header));
    if (length > 0) {
        memcpy(bytes + sizeof(header), payload, length);
    }
    return record(id, bytes, sizeof(header) + length);
}

static inline ucs_status_t fake_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    static uint8_t bytes[MAX_BYTES];

    (void)conn;
    if (blocked) {
        return CW_AGAIN;
    }
    assert_true(max <= sizeof(bytes));
    return record(id, bytes, pack(bytes, max, arg));
}

static inline ucs_status_t fake_placed(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                       unsigned iov_count, struct cw_completion *completion)
{
    static uint8_t bytes[MAX_BYTES];
    size_t length = CW_PLACE_HEADER;

    (void)conn;
    if (blocked) {
        return CW_AGAIN;
    }
    memcpy(bytes, header, CW_PLACE_HEADER);
    for (unsigned i = 0; i < iov_count; i++) {
        memcpy(bytes + length, iov[i].iov_base, iov[i].iov_len);
        length += iov[i].iov_len;
    }
    record(id, bytes, length);
    retained = keeps ? completion : NULL;
    return keeps ? UCS_INPROGRESS : UCS_OK;
}

static inline unsigned count_packets(uint8_t id)
{
    unsigned count = 0;

    for (unsigned i = 0; i < num_records; i++) {
        count += records[i % MAX_RECORDS].id == id;
    }
    return count;
}

/* The last packet with this id; ends the test if none was sent. */
static inline const uint8_t *sent_packet(uint8_t id)
{
    for (unsigned i = num_records; i-- > 0;) {
        if (records[i % MAX_RECORDS].id == id) {
            return records[i % MAX_RECORDS].bytes;
        }
    }
    fail_msg("no packet %u was sent", id);
    return NULL;
}

static inline uint64_t word_of(const uint8_t *bytes, size_t offset)
{
    uint64_t word;

    memcpy(&word, bytes + offset, sizeof(word));
    return le64toh(word);
}

static inline int32_t status_of(uint8_t id)
{
    return (int32_t)(uint32_t)word_of(sent_packet(id), 8);
}

#endif
