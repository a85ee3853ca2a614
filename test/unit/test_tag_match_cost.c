/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tag/match.h promises on memory and cost: little for few, bounded for hostile masks, given back, and nothing is
 * lost where there is none. Allocations are counted and refused.
 */
#include "test_tag_match.h"
#include "test_tag_memory.h"

static bool always(void)
{
    return true;
}

/* A worker that never uses tags costs only the structure; a few receives or messages cost a few hundred bytes. */
TEST_WITH(test_few_receives_and_messages_need_little_memory, set_up, tear_down)
{
    unsigned i;

    assert_null(cw_tag_matcher_arrive(&matcher, 1));
    assert_null(cw_tag_matcher_probe(&matcher, 1, EXACT, true));
    for (i = 0; i < MANY; i++) {
        arrive(i, i);
    }
    assert_int_equal(memory.calls, 0);
    assert_int_equal(cw_tag_matcher_memory(&matcher), 0);
    while (matcher.num_unexpected > 0) {
        cw_tag_matcher_remove_message(&matcher, cw_tag_matcher_first_message(&matcher));
    }
    for (i = 0; i < 8; i++) {
        post(i, i, EXACT);
    }
    assert_in_range(cw_tag_matcher_memory(&matcher), 0, 800);
    memory.calls = 0;
    for (i = 0; i < 1000; i++) {
        assert_arrive_takes(i % 8, i % 8);
        post(i % 8, i % 8, EXACT);
    }
    assert_int_equal(memory.calls, 0);
}

/* Memory follows use: it is given back when queues get short, even if they never become empty. */
TEST_WITH(test_memory_is_given_back, set_up, tear_down)
{
    size_t   small;
    unsigned i;

    for (i = 0; i < 64; i++) {
        post(i, i, EXACT);
    }
    for (i = 63; matcher.busy == 0; i--) { /* until they are hashed */
        assert_arrive_takes(i, i);
    }
    while (i > 0) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i--]));
    }
    post(1, 1, EXACT);
    assert_true(cw_tag_matcher_cancel(&matcher, &recvs[1]));
    small = cw_tag_matcher_memory(&matcher);
    assert_in_range(small, 0, 1100); /* the first array, the smallest table */
    for (i = 1; i < MANY; i++) {
        post(i, i, EXACT);
    }
    assert_true(cw_tag_matcher_memory(&matcher) > MANY * sizeof(void *));
    for (i = MANY - 1; i > 0; i--) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i]));
    }
    assert_int_equal(cw_tag_matcher_memory(&matcher), small);
    assert_arrive_takes(0, 0);

    for (i = 0; i < MANY; i++) {
        arrive(i, i);
    }
    for (i = 0; i < 3; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_true(cw_tag_matcher_memory(&matcher) > MANY * sizeof(void *));
    for (i = MANY - 1; i > 0; i--) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, i, EXACT, true), &messages[i]);
    }
    check();
    assert_in_range(cw_tag_matcher_memory(&matcher), small, small + 16384);
    cw_tag_matcher_remove_message(&matcher, &messages[0]);
    assert_int_equal(cw_tag_matcher_memory(&matcher), small);
}

/* Any number of masks: memory stays bounded, order holds over the table and the leftover receives. */
TEST_WITH(test_any_number_of_masks_needs_bounded_memory, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        post(i, 0, ((uint64_t)i << 8) | 1);
    }
    assert_in_range(cw_tag_matcher_memory(&matcher), 1, 65536);
    check();
    for (i = 0; i < MANY / 2; i++) {
        assert_arrive_takes(0, i);
    }
    for (; i < MANY; i += 2) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i]));
    }
    check();
    for (i = MANY / 2 + 1; i < MANY; i += 2) {
        assert_arrive_takes(0, i);
    }
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
    for (i = 0; i < 200; i++) {
        arrive(i, 0);
    }
    for (i = 0; i < MANY; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 1, ((uint64_t)(i % 20) << 8) | 1, false));
        assert_true(__builtin_popcountll(matcher.indexed) <= CW_TAG_MAX_INDEXED);
    }
    assert_in_range(cw_tag_matcher_memory(&matcher), 1, 300000);
    check();
    for (i = 0; i < 200; i++) {
        assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], 0, ((uint64_t)i << 8) | 1), &messages[i]);
    }
}

/* Without any memory everything still works, and the tables come back with it. */
TEST_WITH(test_everything_works_without_memory, set_up, tear_down)
{
    unsigned i;

    memory.refuses = always;
    for (i = 0; i < 100; i++) {
        post(i, i / 2, (i & 1) ? EXACT : 0xff);
    }
    check();
    assert_int_equal(cw_tag_matcher_memory(&matcher), 0);
    for (i = 0; i < 100; i++) {
        assert_arrive_takes(i / 2, i);
    }
    for (i = 0; i < 100; i++) {
        arrive(i, i);
    }
    for (i = 100; i-- > 0;) {
        assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], i, EXACT), &messages[i]);
    }
    for (i = 0; i < 100; i++) {
        post(i, i, EXACT);
    }
    memory.refuses = NULL;
    for (; i < 200; i++) {
        post(i, i % 100, EXACT);
    }
    check();
    for (i = 0; i < 200; i++) {
        assert_arrive_takes(i % 100, i);
    }
}

/* An attempt to allocate that fails is not repeated with every operation. */
TEST_WITH(test_a_refused_allocation_is_not_repeated_at_once, set_up, tear_down)
{
    unsigned i;

    post(0, 0, EXACT);
    memory.refuses = always;
    memory.calls = 0;
    for (i = 1; i < MANY; i++) {
        post(i, i, EXACT);
    }
    assert_in_range(memory.calls, 1, 20);
    check();
    memory.refuses = NULL;
    while (cw_tag_matcher_num_posted(&matcher) > 0) {
        assert_non_null(cw_tag_matcher_take_recv(&matcher));
    }
    arrive(0, 0);
    assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false)); /* the mask is known, its index is not there */
    for (i = 1; i < MANY; i++) {
        arrive(i, i);
    }
    memory.refuses = always;
    memory.calls = 0;
    for (i = 0; i < 1000; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_in_range(memory.calls, 1, 50);
    check();
}

/* Messages for which there is no memory in the table are found by scanning, and enter it later. */
TEST_WITH(test_messages_that_find_no_memory_are_scanned, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < 100; i++) {
        arrive(i, i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
        assert_null(cw_tag_matcher_probe(&matcher, MANY, 0xffffff, false));
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 2);
    memory.refuses = always;
    for (i = 100; i < 400; i++) {
        arrive(i, i);
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, i, EXACT, false), &messages[i]);
        check();
    }
    assert_int_equal(matcher.masks[matcher.recent].entered, 100);
    memory.refuses = NULL;
    for (i = 0; i < 1000; i++) { /* the next attempts are left out */
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_int_equal(matcher.masks[matcher.recent].entered, 400);
    for (i = 5; i < 400; i++) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, i, EXACT, true), &messages[i]);
    }
    check();
}

/* Messages stay in the table for their mask while receives with other masks come and go. */
TEST_WITH(test_an_index_survives_the_end_of_other_masks, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < 40; i++) {
        post(i, 1, ((uint64_t)i << 8) | 1);
    }
    for (i = 0; i < 50; i++) {
        arrive(i, 2 * i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 98 * 2, EXACT, false));
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 1);
    for (i = 0; i < 40; i++) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i]));
        check();
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 1);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 98, EXACT, true), &messages[49]);
}

/* Clean-up with everything still queued and indexed leaves no memory (checked by the tear-down). */
TEST_WITH(test_clean_up_of_full_queues_leaves_no_memory, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < 100; i++) {
        post(i, 2 * i + 1, (i & 1) ? EXACT : 0xffff);
        arrive(i, 2 * i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_int_not_equal(matcher.indexed, 0);
    check();
}

/* Messages that come and go in any order while others stay hardly ever need an allocation. */
TEST_WITH(test_entries_of_the_table_are_reused, set_up, tear_down)
{
    uint64_t random = 1;
    unsigned i, j;

    for (i = 0; i < 100; i++) {
        arrive(i, i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_int_not_equal(matcher.indexed, 0);
    memory.calls = 0;
    for (i = 0; i < 1000; i++) {
        random = random * 6364136223846793005u + 1;
        j = (unsigned)(random >> 33) % 100;
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, j, EXACT, true), &messages[j]);
        arrive(j, j);
    }
    check();
    assert_in_range(memory.calls, 0, 20);
}

#define HUGE 100000

/* The queues that a program may build up: each operation on them takes as long as on a short one, so this ends at once
 * where the matcher hashes, and takes minutes where it scans. */
TEST_WITH(test_a_hundred_thousand_of_each_stay_fast, set_up, tear_down)
{
    static const uint64_t masks[] = {EXACT, 0xffffffffff, 0xffffff00ffffffff};
    static struct cw_tag_message many_messages[HUGE];
    static struct cw_tag_recv many_recvs[HUGE];
    size_t most = 0;
    unsigned i;

    for (i = 0; i < HUGE; i++) {
        assert_null(cw_tag_matcher_post(&matcher, &many_recvs[i], i, masks[i % 3]));
    }
    for (i = HUGE; i-- > 0;) {
        assert_ptr_equal(cw_tag_matcher_arrive(&matcher, i), &many_recvs[i]);
    }
    for (i = 0; i < HUGE; i++) {
        assert_null(cw_tag_matcher_arrive(&matcher, i));
        cw_tag_matcher_add_unexpected(&matcher, &many_messages[i], i);
    }
    memory.calls = 0;
    for (i = HUGE; i-- > 0;) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, i, masks[i % 3], false), &many_messages[i]);
        most = (cw_tag_matcher_memory(&matcher) > most) ? cw_tag_matcher_memory(&matcher) : most;
        assert_null(cw_tag_matcher_probe(&matcher, HUGE + i, masks[i % 3], false));
        cw_tag_matcher_remove_message(&matcher, &many_messages[i]);
    }
    assert_in_range(memory.calls, HUGE, 4 * HUGE); /* one entry for each message and mask, and tables */
    assert_in_range(most, HUGE, HUGE * 256ul);
}

/* Without a search a long queue of messages costs nothing but its list, and a search for the first of them does not
 * enter the others. */
TEST_WITH(test_messages_that_nobody_asks_for_need_no_table, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        arrive(i, i);
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    }
    assert_int_equal(matcher.indexed, 0);
    assert_in_range(cw_tag_matcher_memory(&matcher), 0, 800);
    check();
}

/* Number of keys that share a bucket with an earlier one, of 4096 keys in 4096 buckets; about 1507 if all is random. */
static unsigned count_collisions(uint64_t seed, uint64_t (*key)(unsigned i))
{
    static uint8_t used[4096];
    unsigned       collisions = 0;
    unsigned       i;

    memset(used, 0, sizeof(used));
    for (i = 0; i < 4096; i++) {
        size_t bucket = cw_tag_hash(seed, key(i), 0) % 4096;

        collisions += used[bucket];
        used[bucket] = 1;
    }
    return collisions;
}

static uint64_t key_small(unsigned i)
{
    return i;
}

static uint64_t key_high(unsigned i)
{
    return (uint64_t)i << 52;
}

static uint64_t key_page(unsigned i)
{
    return 0x7f0000000000 + (uint64_t)i * 4096;
}

static uint64_t key_mpi(unsigned i)
{
    return ((uint64_t)(i % 64) << 40) | ((uint64_t)(i / 64) << 20) | 3;
}

static uint64_t key_rank(unsigned i)
{
    return ((uint64_t)i << 32) | 0x80000001;
}

/* Tags as programs make them spread as random ones would, for any seed. */
TEST_WITH(test_tags_of_programs_spread_like_random_ones, set_up, tear_down)
{
    static uint64_t (*const keys[])(unsigned i) = {key_small, key_high, key_page, key_mpi, key_rank};
    uint64_t seed;
    size_t   i;

    for (seed = 0; seed < 500; seed++) {
        cw_tag_matcher_init(&matcher, seed);
        for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            unsigned collisions = count_collisions(matcher.seed, keys[i]);

            if (collisions > 1700) {
                fail_msg("pattern %zu with seed %u: %u collisions", i, (unsigned)seed, collisions);
            }
        }
    }
}
