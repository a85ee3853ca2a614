/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of one message and its content.
 *
 * Callers: the test families.
 */
#include "layout.h"

size_t cw_layout_extent(const struct cw_perf_params *params)
{
    size_t extent = params->size;

    for (unsigned i = 0; i < params->part_count && params->stride != 0; i++) {
        size_t end = i * params->stride + params->parts[i];
        extent = end > extent ? end : extent;
    }
    return extent;
}

void cw_layout_list(const struct cw_perf_params *params, char *base, ucp_dt_iov_t *iov)
{
    size_t offset = 0;

    for (unsigned i = 0; i < params->part_count; i++) {
        iov[i].buffer = base + (params->stride != 0 ? i * params->stride : offset);
        iov[i].length = params->parts[i];
        offset += params->parts[i];
    }
}

static uint64_t word_at(uint64_t key, size_t index)
{
    return key + index * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t cw_pattern_key(uint64_t message, uint64_t kind)
{
    uint64_t key = (message + 1) * UINT64_C(0xbf58476d1ce4e5b9) ^ kind;

    return (key ^ key >> 29) * UINT64_C(0x94d049bb133111eb);
}

void cw_pattern_fill(char *buffer, size_t size, uint64_t key)
{
    size_t at = 0;

    for (; at + 8 <= size; at += 8) {
        uint64_t word = word_at(key, at / 8);
        memcpy(buffer + at, &word, 8);
    }
    uint64_t word = word_at(key, at / 8);
    memcpy(buffer + at, &word, size - at);
}

size_t cw_pattern_search(const char *buffer, size_t size, uint64_t key)
{
    for (size_t at = 0; at < size; at += 8) {
        size_t part = size - at < 8 ? size - at : 8;
        uint64_t word = word_at(key, at / 8);
        if (memcmp(buffer + at, &word, part) != 0) {
            while (buffer[at] == ((const char *)&word)[at % 8]) {
                at++;
            }
            return at;
        }
    }
    return size;
}
