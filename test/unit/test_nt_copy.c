/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of base/nt_copy.h: past the caches every byte arrives, wherever both sides lie, and nothing else changes; and
 * the choice, with times that a test makes up.
 */
#include <stdbool.h>
#include <string.h>

#include "runner.h"
#include "base/nt_copy.h"

enum {
    PAGE = 4096,
    LONGEST = 2 * PAGE + 77,
    CALM = 31,
    LAP = 2 << 20,
    PAST = 512 << 20,
    NEVER = 5000,
    ROW = 9,
    PIECE = 16432
};

static uint8_t source[4 * PAGE], dest[4 * PAGE];

static void check(size_t to, size_t from, size_t length)
{
    size_t i;

    for (i = 0; i < sizeof(dest); i++) {
        if (dest[i] != ((i - to < length) ? source[from + i - to] : 0xa5)) {
            fail_msg("byte %zu of %zu, %zu to %zu", i - to, length, from, to);
        }
    }
}

static void fill(void)
{
    size_t i;

    for (i = 0; i < sizeof(source); i++) {
        source[i] = (uint8_t)(i * 7 + i / 251);
    }
}

TEST(past_the_caches_every_byte_arrives)
{
    static const size_t lengths[] = {0, 1, 15, 63, 64, 65, 127, 128, 200, PAGE - 1, PAGE, LONGEST};
    size_t i, to, from;

    fill();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (to = 0; to < 2 * CW_CACHE_LINE; to += 3) {
            for (from = 0; from < CW_CACHE_LINE; from += 21) {
                memset(dest, 0xa5, sizeof(dest));
                cw_nt_store(dest + to, source + from, lengths[i]);
                check(to, from, lengths[i]);
            }
        }
    }
}

TEST(each_way_copies_all)
{
    static const size_t lengths[] = {0, 8, CW_NT_LEAST - 1, CW_NT_LEAST, CW_NT_LEAST + 13};
    struct cw_nt_choice nt;
    size_t i;
    unsigned past, skipped;

    fill();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (past = 0; past < 2; past++) {
            for (skipped = 0; skipped < 2; skipped++) {
                nt = (struct cw_nt_choice){.past = (uint8_t)past, .left = past * PAST, .skip = (uint8_t)skipped};
                memset(dest, 0xa5, sizeof(dest));
                cw_nt_copy(&nt, dest + 8, source + 24, lengths[i]);
                check(8, 24, lengths[i]);
            }
        }
        memset(dest, 0xa5, sizeof(dest));
        cw_nt_copy(NULL, dest + 8, source + 24, lengths[i]);
        check(8, 24, lengths[i]);
    }
}

TEST(only_a_few_copies_are_timed)
{
    struct cw_nt_choice nt = {.skip = CALM};
    unsigned i;

    if (!CW_NT_HELPS) {
        skip();
    }
    for (i = 0; i < CALM; i++) {
        cw_nt_copy(&nt, dest, source, CW_NT_LEAST);
        assert_int_equal(nt.skip, CALM - 1 - i);
    }
    cw_nt_copy(&nt, dest, source, CW_NT_LEAST - 1); /* short ones do not count */
    assert_int_equal(nt.skip, 0);
    assert_int_equal(nt.past, 0);
}

/* A copy of `length` bytes, with so many bytes per nanosecond. */
static void note(struct cw_nt_choice *nt, size_t length, unsigned speed)
{
    cw_nt_note(nt, length, length / speed);
}

static void note_all(struct cw_nt_choice *nt, const unsigned *speeds)
{
    unsigned i;

    for (i = 0; i < ROW; i++) {
        assert_int_equal(nt->past, 0);
        note(nt, PIECE, speeds[i]);
    }
}

static const unsigned very_slow[ROW] = {3, 3, 2, 3, 3, 2, 5, 6, 3};
static const unsigned slower[ROW] = {3, 5, 5, 5, 5, 5, 5, 5, 5};
static const unsigned slow[ROW] = {7, 7, 20, 12, 5, 19, 9, 30, 11};
static const unsigned fast_enough[ROW] = {12, 12, 20, 19, 22, 25, 16, 20, 19};
static const unsigned interrupted[ROW] = {1, 36, 33, 38, 35, 36, 40, 37, 33};

TEST(one_fast_copy_says_enough)
{
    struct cw_nt_choice nt = {0};

    note(&nt, PIECE, 20);
    assert_int_equal(nt.skip, CALM);
    assert_int_equal(nt.timed, 0);
    note(&nt, PIECE, 12);
    assert_int_equal(nt.timed, 1);
    note(&nt, PIECE, 20); /* of a row that has begun */
    assert_int_equal(nt.timed, 2);
}

TEST(very_slow_copies_in_a_row_change_the_way)
{
    static const size_t lengths[] = {4096, 8192, 16432, 393216, SIZE_MAX / 1024};
    struct cw_nt_choice nt;
    unsigned i, k;

    for (k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
        nt = (struct cw_nt_choice){0};
        for (i = 0; i < ROW; i++) {
            assert_int_equal(nt.past, 0);
            assert_int_equal(nt.skip, 0); /* the next one is timed, too */
            note(&nt, lengths[k], 3);
        }
        assert_int_equal(nt.past, 1);
        assert_int_equal(nt.left, PAST);
    }
}

/* Far from each other some copies are fast; near each other some are not. */
TEST(a_row_is_judged_as_a_whole)
{
    static const unsigned *const fast_rows[] = {fast_enough, interrupted, slow, slower};
    struct cw_nt_choice nt = {0};
    unsigned i;

    for (i = 0; i < sizeof(fast_rows) / sizeof(fast_rows[0]); i++) {
        note_all(&nt, fast_rows[i]);
        assert_int_equal(nt.past, 0);
        assert_int_equal(nt.left, 0);
        assert_int_equal(nt.skip, CALM);
    }
    note_all(&nt, very_slow);
    assert_int_equal(nt.past, 1);
}

TEST(one_interruption_changes_nothing)
{
    struct cw_nt_choice nt = {0};
    unsigned i;

    for (i = 0; i < NEVER; i++) {
        cw_nt_note(&nt, 4096, (i % ROW == 0) ? 3000000 : 4096 / 40);
        assert_int_equal(nt.past, 0);
    }
    nt = (struct cw_nt_choice){0};
    cw_nt_note(&nt, 4096, UINT64_MAX);
    cw_nt_note(&nt, SIZE_MAX, UINT64_MAX);
    assert_int_equal(nt.timed, 2);
}

TEST(memory_that_is_new_has_no_effect)
{
    struct cw_nt_choice nt = {.timed = 3, .spent = 300, .skip = 2}, before;

    cw_nt_new_memory(&nt);
    assert_int_equal(nt.left, LAP);
    assert_int_equal(nt.timed, 0);
    nt = before = (struct cw_nt_choice){.past = 1, .left = 5000};
    cw_nt_new_memory(&nt);
    assert_memory_equal(&nt, &before, sizeof(nt));
}

/* After a while, and a lap without a result, copies are timed again. */
TEST(who_goes_past_measures_again)
{
    struct cw_nt_choice nt = {.past = 1, .left = PAST};
    unsigned i;

    if (!CW_NT_HELPS) {
        skip();
    }
    cw_nt_copy(&nt, dest, source, CW_NT_LEAST);
    assert_int_equal(nt.past, 1);
    assert_int_equal(nt.left, PAST - CW_NT_LEAST);
    nt.left = CW_NT_LEAST + 1;
    cw_nt_copy(&nt, dest, source, CW_NT_LEAST);
    assert_int_equal(nt.past, 1);
    cw_nt_copy(&nt, dest, source, CW_NT_LEAST);
    assert_int_equal(nt.past, 0);
    assert_int_equal(nt.left, LAP);
    for (i = 0; i < LAP / CW_NT_LEAST; i++) {
        assert_int_equal(nt.skip, 0);
        assert_int_equal(nt.timed, 0);
        cw_nt_copy(&nt, dest, source, CW_NT_LEAST);
    }
    assert_int_equal(nt.left, 0);
    assert_int_equal(nt.past, 0);
    cw_nt_copy(&nt, dest, source, CW_NT_LEAST);
    assert_true(nt.skip == CALM || nt.timed == 1); /* timed */
}

/* The next long copy goes through the caches and is not timed. */
static bool is_fast(const struct cw_nt_choice *nt)
{
    return !CW_NT_HELPS || nt->off || (!nt->past && (nt->left > 0 || nt->skip > 0));
}

/* UCX_TUNING: neither timed nor past the caches. */
TEST(switched_off_nothing_is_timed)
{
    struct cw_nt_choice nt = {.off = 1}, before = nt;
    unsigned i;

    assert_true(is_fast(&nt));
    fill();
    for (i = 0; i < 2 * CALM; i++) {
        memset(dest, 0xa5, sizeof(dest));
        cw_nt_copy(&nt, dest + 8, source + 24, CW_NT_LEAST);
        check(8, 24, CW_NT_LEAST);
        assert_memory_equal(&nt, &before, sizeof(nt));
    }
}
