/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets written down one behind the other, for comparing what was sent with what arrived. After cmocka.h.
 */
#ifndef CW_TEST_UNIT_TEST_TCP_BYTES_H
#define CW_TEST_UNIT_TEST_TCP_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAX_BYTES (32u << 20)

/* The memory of so many bytes written down. It grows with them: cmocka touches all that it is asked for. */
static inline size_t memory_of(size_t length)
{
    size_t size = 4096;

    while (size < length) {
        size *= 2;
    }
    return size;
}

/* How a packet is written down, for comparing. */
static inline void put_packet(uint8_t **bytes, size_t *length, uint8_t id, const void *data, size_t data_length)
{
    const uint32_t size = (uint32_t)data_length;

    const size_t after = *length + 1 + sizeof(size) + data_length;

    assert_true(after <= MAX_BYTES);
    if (*bytes == NULL || memory_of(after) != memory_of(*length)) {
        *bytes = test_realloc(*bytes, memory_of(after));
    }
    (*bytes)[(*length)++] = id;
    memcpy(*bytes + *length, &size, sizeof(size));
    memcpy(*bytes + *length + sizeof(size), data, data_length);
    *length += sizeof(size) + data_length;
}

#endif
