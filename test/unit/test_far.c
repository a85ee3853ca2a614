/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of base/far.h: past the caches every byte arrives, wherever both sides lie, and nothing else changes; and the
 * choice, with times that a test makes up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/far.h"

enum { PAGE = 4096, LONGEST = 2 * PAGE + 77, CALM = 31, LAP = 2 << 20, PAST = 512 << 20, NEVER = 5000,
       ROW = 9, PIECE = 16432 };

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

static void past_the_caches_every_byte_arrives(void **state)
{
    static const size_t lengths[] = {0, 1, 15, 63, 64, 65, 127, 128, 200, PAGE - 1, PAGE, LONGEST};
    size_t i, to, from;

    (void)state;
    fill();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (to = 0; to < 2 * CW_CACHE_LINE; to += 3) {
            for (from = 0; from < CW_CACHE_LINE; from += 21) {
                memset(dest, 0xa5, sizeof(dest));
                cw_far_copy_past(dest + to, source + from, lengths[i]);
                check(to, from, lengths[i]);
            }
        }
    }
}

static void each_way_copies_all(void **state)
{
    static const size_t lengths[] = {0, 8, CW_FAR_LEAST - 1, CW_FAR_LEAST, CW_FAR_LEAST + 13};
    struct cw_far far;
    size_t i;
    unsigned past, skipped;

    (void)state;
    fill();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (past = 0; past < 2; past++) {
            for (skipped = 0; skipped < 2; skipped++) {
                far = (struct cw_far){.past = (uint8_t)past, .left = past * PAST, .skip = (uint8_t)skipped};
                memset(dest, 0xa5, sizeof(dest));
                cw_far_copy(&far, dest + 8, source + 24, lengths[i]);
                check(8, 24, lengths[i]);
            }
        }
        memset(dest, 0xa5, sizeof(dest));
        cw_far_copy(NULL, dest + 8, source + 24, lengths[i]);
        check(8, 24, lengths[i]);
    }
}

static void only_a_few_copies_are_timed(void **state)
{
    struct cw_far far = {.skip = CALM};
    unsigned i;

    (void)state;
    if (!CW_FAR_HELPS) {
        skip();
    }
    for (i = 0; i < CALM; i++) {
        cw_far_copy(&far, dest, source, CW_FAR_LEAST);
        assert_int_equal(far.skip, CALM - 1 - i);
    }
    cw_far_copy(&far, dest, source, CW_FAR_LEAST - 1); /* short ones do not count */
    assert_int_equal(far.skip, 0);
    assert_int_equal(far.past, 0);
}

/* A copy of `length` bytes, with so many bytes per nanosecond. */
static void note(struct cw_far *far, size_t length, unsigned speed)
{
    cw_far_note(far, length, length / speed);
}

static void note_all(struct cw_far *far, const unsigned *speeds)
{
    unsigned i;

    for (i = 0; i < ROW; i++) {
        assert_int_equal(far->past, 0);
        note(far, PIECE, speeds[i]);
    }
}

static const unsigned very_slow[ROW]   = {3, 3, 2, 3, 3, 2, 5, 6, 3};
static const unsigned slower[ROW]      = {3, 5, 5, 5, 5, 5, 5, 5, 5};
static const unsigned slow[ROW]        = {7, 7, 20, 12, 5, 19, 9, 30, 11};
static const unsigned fast_enough[ROW] = {12, 12, 20, 19, 22, 25, 16, 20, 19};
static const unsigned interrupted[ROW] = {1, 36, 33, 38, 35, 36, 40, 37, 33};

static void one_fast_copy_says_enough(void **state)
{
    struct cw_far far = {0};

    (void)state;
    note(&far, PIECE, 20);
    assert_int_equal(far.skip, CALM);
    assert_int_equal(far.timed, 0);
    note(&far, PIECE, 12);
    assert_int_equal(far.timed, 1);
    note(&far, PIECE, 20); /* of a row that has begun */
    assert_int_equal(far.timed, 2);
}

static void very_slow_copies_in_a_row_change_the_way(void **state)
{
    static const size_t lengths[] = {4096, 8192, 16432, 393216, SIZE_MAX / 1024};
    struct cw_far far;
    unsigned i, k;

    (void)state;
    for (k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
        far = (struct cw_far){0};
        for (i = 0; i < ROW; i++) {
            assert_int_equal(far.past, 0);
            assert_int_equal(far.skip, 0); /* the next one is timed, too */
            note(&far, lengths[k], 3);
        }
        assert_int_equal(far.past, 1);
        assert_int_equal(far.left, PAST);
    }
}

/* Far from each other some copies are fast; near each other some are not. */
static void a_row_is_judged_as_a_whole(void **state)
{
    static const unsigned *const fast_rows[] = {fast_enough, interrupted, slow, slower};
    struct cw_far far = {0};
    unsigned i;

    (void)state;
    for (i = 0; i < sizeof(fast_rows) / sizeof(fast_rows[0]); i++) {
        note_all(&far, fast_rows[i]);
        assert_int_equal(far.past, 0);
        assert_int_equal(far.left, 0);
        assert_int_equal(far.skip, CALM);
    }
    note_all(&far, very_slow);
    assert_int_equal(far.past, 1);
}

static void one_interruption_changes_nothing(void **state)
{
    struct cw_far far = {0};
    unsigned i;

    (void)state;
    for (i = 0; i < NEVER; i++) {
        cw_far_note(&far, 4096, (i % ROW == 0) ? 3000000 : 4096 / 40);
        assert_int_equal(far.past, 0);
    }
    far = (struct cw_far){0};
    cw_far_note(&far, 4096, UINT64_MAX);
    cw_far_note(&far, SIZE_MAX, UINT64_MAX);
    assert_int_equal(far.timed, 2);
}

static void memory_that_is_new_tells_nothing(void **state)
{
    struct cw_far far = {.timed = 3, .spent = 300, .skip = 2}, before;

    (void)state;
    cw_far_new_memory(&far);
    assert_int_equal(far.left, LAP);
    assert_int_equal(far.timed, 0);
    far = before = (struct cw_far){.past = 1, .left = 5000};
    cw_far_new_memory(&far);
    assert_memory_equal(&far, &before, sizeof(far));
}

/* After a while, and a lap that tells nothing, copies are timed again. */
static void who_goes_past_looks_again(void **state)
{
    struct cw_far far = {.past = 1, .left = PAST};
    unsigned i;

    (void)state;
    if (!CW_FAR_HELPS) {
        skip();
    }
    cw_far_copy(&far, dest, source, CW_FAR_LEAST);
    assert_int_equal(far.past, 1);
    assert_int_equal(far.left, PAST - CW_FAR_LEAST);
    far.left = CW_FAR_LEAST + 1;
    cw_far_copy(&far, dest, source, CW_FAR_LEAST);
    assert_int_equal(far.past, 1);
    cw_far_copy(&far, dest, source, CW_FAR_LEAST);
    assert_int_equal(far.past, 0);
    assert_int_equal(far.left, LAP);
    for (i = 0; i < LAP / CW_FAR_LEAST; i++) {
        assert_int_equal(far.skip, 0);
        assert_int_equal(far.timed, 0);
        cw_far_copy(&far, dest, source, CW_FAR_LEAST);
    }
    assert_int_equal(far.left, 0);
    assert_int_equal(far.past, 0);
    cw_far_copy(&far, dest, source, CW_FAR_LEAST);
    assert_true(far.skip == CALM || far.timed == 1); /* timed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(past_the_caches_every_byte_arrives),
        cmocka_unit_test(each_way_copies_all),
        cmocka_unit_test(only_a_few_copies_are_timed),
        cmocka_unit_test(one_fast_copy_says_enough),
        cmocka_unit_test(very_slow_copies_in_a_row_change_the_way),
        cmocka_unit_test(a_row_is_judged_as_a_whole),
        cmocka_unit_test(one_interruption_changes_nothing),
        cmocka_unit_test(memory_that_is_new_tells_nothing),
        cmocka_unit_test(who_goes_past_looks_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
