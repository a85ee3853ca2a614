/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unit tests of what the tools share: histogram, SHA-256, processor lists.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hist.h"
#include "say.h"
#include "sha256.h"
#include "ticks.h"

/* Every cell begins where the one before ends, and its bounds fall into it. */
static void cells_are_contiguous(void **state)
{
    (void)state;
    for (unsigned cell = 0; cell + 1 < CW_HIST_CELLS; cell++) {
        uint64_t start = cw_hist_cell_start(cell);
        uint64_t next = cw_hist_cell_start(cell + 1);
        assert_true(next > start);
        assert_int_equal(cw_hist_cell(start), cell);
        assert_int_equal(cw_hist_cell(next - 1), cell);
        assert_true(next - start == 1 || (next - start) * 1000 <= start);
    }
    assert_int_equal(cw_hist_cell(UINT64_MAX), CW_HIST_CELLS - 1);
}

static void small_values_are_exact(void **state)
{
    struct cw_hist hist;

    (void)state;
    assert_true(cw_hist_init(&hist));
    assert_int_equal(cw_hist_percentile(&hist, 50), 0);
    for (uint64_t value = 1; value <= 1000; value++) {
        cw_hist_add(&hist, value);
    }
    assert_int_equal(hist.count, 1000);
    assert_int_equal(cw_hist_percentile(&hist, 0), 1);
    assert_int_equal(cw_hist_percentile(&hist, 0.1), 1);
    assert_int_equal(cw_hist_percentile(&hist, 50), 500);
    assert_int_equal(cw_hist_percentile(&hist, 99), 990);
    assert_int_equal(cw_hist_percentile(&hist, 99.91), 1000);
    assert_int_equal(cw_hist_percentile(&hist, 100), 1000);
    cw_hist_add_many(&hist, 5000, 1001);
    assert_int_equal(hist.count, 2001);
    assert_int_equal(hist.max, 5000);
    assert_int_equal(cw_hist_percentile(&hist, 49), 981);
    assert_int_equal(cw_hist_percentile(&hist, 51), 5000);
    cw_hist_fini(&hist);
}

static int compare_values(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Against a sorted array: no percentile is off by more than one part in a thousand. */
static void percentiles_match_sorted_array(void **state)
{
    enum { COUNT = 20000 };
    static const double percents[] = {0.01, 1, 10, 50, 90, 99, 99.9, 99.99};
    uint64_t *values = malloc(COUNT * sizeof(*values));
    uint64_t random = 88172645463325252u;
    struct cw_hist hist;

    (void)state;
    assert_non_null(values);
    assert_true(cw_hist_init(&hist));
    for (int i = 0; i < COUNT; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        values[i] = random >> (random % 60);
        cw_hist_add(&hist, values[i]);
    }
    qsort(values, COUNT, sizeof(*values), compare_values);
    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        double exact_rank = percents[i] / 100 * COUNT;
        size_t rank = (size_t)exact_rank + ((double)(size_t)exact_rank < exact_rank);
        double expected = (double)values[rank - 1];
        double got = (double)cw_hist_percentile(&hist, percents[i]);
        assert_true(got >= expected * 0.999 && got <= expected * 1.001);
    }
    free(values);
    cw_hist_fini(&hist);
}

static void merge_and_reset(void **state)
{
    struct cw_hist one, two;

    (void)state;
    assert_true(cw_hist_init(&one));
    assert_true(cw_hist_init(&two));
    for (uint64_t value = 1; value <= 10; value++) {
        cw_hist_add(value % 2 ? &one : &two, value);
    }
    cw_hist_merge(&one, &two);
    assert_int_equal(one.count, 10);
    assert_int_equal(one.min, 1);
    assert_int_equal(one.max, 10);
    assert_int_equal(cw_hist_percentile(&one, 50), 5);
    cw_hist_reset(&one);
    assert_int_equal(one.count, 0);
    assert_int_equal(cw_hist_percentile(&one, 50), 0);
    cw_hist_merge(&one, &two);
    assert_int_equal(one.min, 2);
    cw_hist_fini(&one);
    cw_hist_fini(&two);
}

static void sha256_matches(const char *text, size_t repeat, size_t chunk, const char *expected)
{
    struct cw_sha256 sha;
    char hex[65];
    size_t length = strlen(text);

    cw_sha256_start(&sha);
    for (size_t i = 0; i < repeat; i++) {
        for (size_t at = 0; at < length; at += chunk) {
            cw_sha256_add(&sha, text + at, length - at < chunk ? length - at : chunk);
        }
    }
    cw_sha256_finish(&sha, hex);
    assert_string_equal(hex, expected);
}

/* The examples of FIPS 180-4's companion document, in different pieces. */
static void sha256_examples(void **state)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    (void)state;
    sha256_matches("", 1, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sha256_matches("abc", 1, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t chunk = 1; chunk < 60; chunk += 7) {
        sha256_matches(two_blocks, 1, chunk, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    }
    sha256_matches("aaaaaaaaaa", 100000, 7, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void cpu_lists_are_checked(void **state)
{
    static const char *const bad[] = {"", "x", "0,", ",0", "0-", "3-1", "-1", "0 1", "0,99999999", "+1"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_non_null(cw_cpu_bind(bad[i]));
    }
    assert_true(cw_cpu_count() >= 1);
}

/* The fast clock and CLOCK_MONOTONIC agree over 50 ms; loose, because the machine may be busy. */
static void ticks_are_time(void **state)
{
    (void)state;
    cw_ticks_start();
    uint64_t start_ns = cw_clock_ns(), start = cw_ticks_now();
    while (cw_clock_ns() - start_ns < 50000000) {
    }
    double ns = (double)(cw_ticks_now() - start) * cw_ticks_ns();
    double expected = (double)(cw_clock_ns() - start_ns);
    assert_true(ns > expected * 0.9 && ns < expected * 1.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_contiguous), cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(percentiles_match_sorted_array), cmocka_unit_test(merge_and_reset),
        cmocka_unit_test(sha256_examples), cmocka_unit_test(cpu_lists_are_checked),
        cmocka_unit_test(ticks_are_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
