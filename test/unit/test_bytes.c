/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copies of base/bytes.h: every distance of both sides in a page that counts as near, and those beside it, with
 * lengths about the border between methods; nothing beside the destination changes.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/bytes.h"

enum { PAGE = 4096, LONGEST = 3 * PAGE + 77 };

static _Alignas(4096) uint8_t source[5 * PAGE], dest[6 * PAGE];

static void check(void (*copy)(void *, const void *, size_t), size_t to, size_t from, size_t length)
{
    size_t i;

    memset(dest, 0xa5, sizeof(dest));
    copy(dest + to, source + from, length);
    for (i = 0; i < sizeof(dest); i++) {
        if (dest[i] != ((i - to < length) ? source[from + i - to] : 0xa5)) {
            fail_msg("byte %zu of %zu, %zu to %zu", i - to, length, from, to);
        }
    }
}

static void any(void *to, const void *from, size_t length)
{
    cw_bytes_copy_any(to, from, length);
}

static void bytes(void *to, const void *from, size_t length)
{
    cw_bytes_copy(to, from, length);
}

static void shorter(void *to, const void *from, size_t length)
{
    cw_bytes_copy_short(to, from, length);
}

static void move(void *to, const void *from, size_t length)
{
    cw_bytes_move(to, from, length);
}

TEST(moves_between_what_overlaps)
{
    static const size_t lengths[] = {1, 9, 64, 1025, 5000, 20000};
    static char memory[32768], expected[32768];
    size_t i, shift, at;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (shift = 0; shift < 9000; shift = shift * 2 + 1) {
            for (at = 0; at < sizeof(memory); at++) {
                memory[at] = expected[at] = (char)(at * 7 + at / 251);
            }
            memmove(expected + shift, expected, lengths[i]);
            cw_bytes_move(memory + shift, memory, lengths[i]);
            assert_memory_equal(memory, expected, sizeof(memory));
            memmove(expected, expected + shift, lengths[i]);
            cw_bytes_move(memory, memory + shift, lengths[i]);
            assert_memory_equal(memory, expected, sizeof(memory));
        }
    }
}

TEST(copies_are_the_same_wherever_both_lie)
{
    static void (*const copies[])(void *, const void *, size_t) = {cw_bytes_copy_near, cw_bytes_copy_long, any, bytes,
                                                                   shorter, move};
    static const size_t lengths[] = {0, 1, 7, 8, 63, 64, 65, CW_BYTES_LONG, CW_BYTES_LONG + 1, PAGE - 1, LONGEST};
    static const size_t aheads[] = {0, 1, 8, 16, 62, 63, 64, 65, 2048, PAGE - 1};
    size_t c, i, k;

    for (i = 0; i < sizeof(source); i++) {
        source[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (c = 0; c < sizeof(copies) / sizeof(copies[0]); c++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            for (k = 0; k < sizeof(aheads) / sizeof(aheads[0]); k++) {
                check(copies[c], aheads[k], 0, lengths[i]);
                check(copies[c], aheads[k] + 24, 24, lengths[i]);
            }
        }
    }
}

/* A destination less than a line behind the source, as addresses in a page. */
TEST(what_is_near)
{
    uint64_t ahead, page;

    for (page = 0; page < 3; page++) {
        for (ahead = 0; ahead < PAGE; ahead++) {
            assert_int_equal(cw_bytes_are_near(page * PAGE + 8 * PAGE + 100 + ahead, 7 * PAGE + 100),
                             ahead > 0 && ahead < 64);
        }
    }
}
