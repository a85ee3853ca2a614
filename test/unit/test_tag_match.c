/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The matcher alone: which bits of a tag decide, and what it lists of its queues. Memory and cost are in
 * test_tag_match_cost.c, random operations in test_tag_match_model.c, order in test/api.
 */
#include "test_tag_match.h"
#include "test_tag_memory.h"

/* TAG-1 */
TEST_WITH(test_tag1_the_bits_under_the_mask_decide, set_up, tear_down)
{
    static const struct {
        uint64_t message;
        uint64_t tag;
        uint64_t mask;
        bool     matches;
    } rows[] = {
        {0, 0, EXACT, true},
        {0, 0, 0, true},
        {1, 0, EXACT, false},
        {0x1234, 0xffffffffffffffff, 0, true},
        {0x1234, 0x5634, 0xff, true},
        {0x1234, 0x5634, 0xfff, false},
        {0x8000000000000000, 0, EXACT, false},
        {0x8000000000000000, 0, EXACT >> 1, true},
        {0x8000000000000001, 0x8000000000000000, (uint64_t)1 << 63, true},
        {0xffffffffffffffff, 0xffffffffffffffff, EXACT, true},
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cw_tag_recv *recv = &recvs[i];

        assert_int_equal(cw_tag_matches(rows[i].message, rows[i].tag, rows[i].mask), rows[i].matches);

        assert_null(cw_tag_matcher_post(&matcher, recv, rows[i].tag, rows[i].mask));
        assert_ptr_equal(cw_tag_matcher_arrive(&matcher, rows[i].message), rows[i].matches ? recv : NULL);
        assert_int_equal(cw_tag_matcher_cancel(&matcher, recv), !rows[i].matches);

        cw_tag_matcher_add_unexpected(&matcher, &messages[i], rows[i].message);
        assert_ptr_equal(cw_tag_matcher_post(&matcher, recv, rows[i].tag, rows[i].mask),
                         rows[i].matches ? &messages[i] : NULL);
        assert_int_equal(cw_tag_matcher_cancel(&matcher, recv), !rows[i].matches);
        if (!rows[i].matches) {
            cw_tag_matcher_remove_message(&matcher, &messages[i]);
        }
        check();
        assert_int_equal(cw_tag_matcher_num_posted(&matcher) + matcher.num_unexpected, 0);
    }
}

/* TAG-2: each of the 64 bits decides. */
TEST_WITH(test_tag2_each_of_the_64_bits_decides, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < 64; i++) {
        post(i, (uint64_t)1 << i, EXACT);
    }
    check();
    assert_null(cw_tag_matcher_arrive(&matcher, 0));
    for (i = 64; i-- > 0;) {
        assert_arrive_takes((uint64_t)1 << i, i);
    }
    for (i = 0; i < 64; i++) {
        arrive(i, (uint64_t)1 << i);
    }
    assert_null(cw_tag_matcher_probe(&matcher, 0, EXACT, true));
    for (i = 64; i-- > 0;) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, (uint64_t)1 << i, (uint64_t)1 << i, true), &messages[i]);
    }
}

/* Clean-up of a worker: everything that is queued can be found and taken out. */
TEST_WITH(test_all_that_is_queued_can_be_taken_out, set_up, tear_down)
{
    static struct cw_tag_posted list[MANY];
    static unsigned        seen[MANY];
    struct cw_tag_message *message;
    struct cw_tag_recv    *recv;
    unsigned               i;

    for (i = 0; i < MANY; i++) {
        post(i, i / 3, (i & 1) ? EXACT : ((uint64_t)(i % 200) << 12) | 0xfff);
    }
    memset(seen, 0, sizeof(seen));
    assert_int_equal(cw_tag_matcher_oldest(&matcher, list, MANY), MANY);
    for (i = 0; i < MANY; i++) {
        seen[list[i].recv - recvs]++;
        assert_int_equal(seen[i], 1);
    }
    while ((recv = cw_tag_matcher_take_recv(&matcher)) != NULL) {
        assert_false(cw_tag_matcher_is_posted(&matcher, recv));
        seen[recv - recvs]++;
    }
    for (i = 0; i < MANY; i++) {
        assert_int_equal(seen[i], 2);
    }
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
    check();
    for (i = 0; i < 10; i++) {
        arrive(i, 100 - i);
    }
    message = cw_tag_matcher_first_message(&matcher);
    for (i = 0; i < 10; i++) {
        assert_ptr_equal(message, &messages[i]);
        message = cw_tag_matcher_next_message(&matcher, message);
    }
    assert_null(message);
}

/* A report of what is posted: the oldest, in order, from the array, the table and the leftover list. */
TEST_WITH(test_the_oldest_receives_are_listed_in_order, set_up, tear_down)
{
    struct cw_tag_posted list[20];
    unsigned i, j;

    assert_int_equal(cw_tag_matcher_oldest(&matcher, list, 20), 0);
    for (i = 0; i < MANY; i++) {
        post(i, i * 7, (i % 5 == 0) ? EXACT : ((uint64_t)(i % 200) << 12) | 0xfff);
        if (i == 3 || i == 30 || i == MANY - 1) { /* few, the array is full, the table and the list */
            assert_int_equal(cw_tag_matcher_oldest(&matcher, list, 20), (i < 20) ? i + 1 : 20);
            for (j = 0; j < 20 && j <= i; j++) {
                assert_ptr_equal(list[j].recv, &recvs[j]);
                assert_int_equal(list[j].mask, (j % 5 == 0) ? EXACT : ((uint64_t)(j % 200) << 12) | 0xfff);
                assert_int_equal(list[j].key, (j * 7) & list[j].mask);
            }
        }
    }
    assert_false(cw_list_empty(&matcher.leftover));
    assert_int_not_equal(matcher.busy, 0);
    while (cw_tag_matcher_take_recv(&matcher) != NULL) {
    }
}

/* Taking out may be interrupted by new receives. */
TEST_WITH(test_receives_may_be_posted_while_others_are_taken_out, set_up, tear_down)
{
    unsigned taken = 0;
    unsigned i;

    for (i = 0; i < 1000; i++) {
        post(i, i, EXACT);
        if ((i % 2) == 1) {
            assert_non_null(cw_tag_matcher_take_recv(&matcher));
            taken++;
        }
    }
    while (cw_tag_matcher_take_recv(&matcher) != NULL) {
        taken++;
        check();
    }
    assert_int_equal(taken, 1000);
}
