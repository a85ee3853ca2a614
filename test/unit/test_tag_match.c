/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the specification says on matching (TAG-1..7, TPR-3, TPR-8, TPR-9, REQ-24, REQ-26), statement by statement, on
 * the matcher alone: receives are posted, messages arrive, and the test says which takes which. Memory and cost are in
 * test_tag_match_cost.c, random operations in test_tag_match_model.c.
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

/* TAG-4: a wildcard posted before a specific receive wins and vice versa; equal ones in post order. */
TEST_WITH(test_tag4_the_earliest_posted_receive_wins, set_up, tear_down)
{
    post(0, 7, EXACT);
    post(1, 0, 0);
    post(2, 7, EXACT);
    post(3, 7, 0xf);
    post(4, 0x17, 0xf);
    post(5, 7, EXACT);
    post(6, 0, 0);
    check();
    assert_arrive_takes(0x107, 1);
    assert_arrive_takes(7, 0);
    assert_arrive_takes(7, 2);
    assert_arrive_takes(0x27, 3);
    assert_arrive_takes(7, 4);
    assert_arrive_takes(7, 5);
    check();
    assert_arrive_takes(7, 6);
    assert_null(cw_tag_matcher_arrive(&matcher, 7));
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
}

/* Order inside of one key survives growing, indexing and shrinking of the tables. */
TEST_WITH(test_tag4_tag5_order_stays_in_large_queues, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < MANY; i++) {
        post(i, i % 1000, EXACT);
    }
    check();
    for (i = 0; i < MANY; i++) {
        assert_arrive_takes(i % 1000, i);
    }
    for (i = 0; i < MANY; i++) {
        arrive(i, i % 1000);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 1000, EXACT, false));
    }
    assert_int_not_equal(matcher.indexed, 0);
    check();
    for (i = 0; i < MANY; i++) {
        unsigned n = (i * 7) % 1000 + (i / 1000) * 1000;

        assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], n % 1000, EXACT), &messages[n]);
    }
    assert_int_equal(matcher.num_unexpected, 0);
    check();
}

/* A list of few that messages pass again and again is hashed, and the order over all masks stays. */
TEST_WITH(test_tag4_order_stays_when_a_list_is_hashed, set_up, tear_down)
{
    static const uint64_t masks[] = {EXACT, 0xff, EXACT, 0xffff};
    unsigned hashed = 0;
    unsigned i;

    for (i = 0; i < 200; i++) {
        post(i, i % 100, masks[i % 4]);
    }
    assert_int_equal(matcher.busy, 0);
    for (i = 100; i-- > 0;) {
        assert_arrive_takes(i, i);
        hashed += (matcher.busy != 0);
        check();
        post(200 + i, i, 0xffffff);
    }
    assert_in_range(hashed, 50, 99);
    for (i = 0; i < 100; i++) {
        assert_arrive_takes(i, 100 + i);
        assert_arrive_takes(i, 200 + i);
    }
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
    check();
    post(0, 0, EXACT);
    assert_int_equal(matcher.busy, 0);
}

/* TAG-5, TAG-6, TPR-3, TPR-8: the earliest arrived of those that match; without remove it stays. */
TEST_WITH(test_tag5_tag6_tpr3_tpr8_the_earliest_arrived_message_wins, set_up, tear_down)
{
    arrive(0, 0x17);
    arrive(1, 0x27);
    arrive(2, 0x18);
    arrive(3, 0x17);
    check();
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0x27, EXACT, false), &messages[1]);
    assert_int_equal(matcher.num_unexpected, 4);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 7, 0xf, true), &messages[0]);
    assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], 7, 0xf), &messages[1]);
    assert_false(cw_tag_matcher_is_posted(&matcher, &recvs[0]));
    assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], 0x10, 0xf0), &messages[2]);
    assert_null(cw_tag_matcher_probe(&matcher, 0x27, EXACT, false));
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, true), &messages[3]);
    assert_null(cw_tag_matcher_probe(&matcher, 0, 0, true));
    assert_int_equal(matcher.num_unexpected, 0);
    check();
}

/* TAG-7, TPR-9: what a posted receive takes is never seen by a probe. */
TEST_WITH(test_tag7_tpr9_a_posted_receive_goes_before_the_probe, set_up, tear_down)
{
    post(0, 5, EXACT);
    assert_arrive_takes(5, 0);
    assert_null(cw_tag_matcher_probe(&matcher, 0, 0, false));
    arrive(0, 5);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    check();
}

/* REQ-24, REQ-26: cancel takes out any posted receive, first, middle or last of its key; twice is harmless. */
TEST_WITH(test_req24_req26_a_posted_receive_can_be_cancelled, set_up, tear_down)
{
    static const unsigned order[] = {2, 0, 4, 1, 3};
    unsigned              i;

    for (i = 0; i < 5; i++) {
        post(i, 9, EXACT);
    }
    post(5, 9, 0xff);
    for (i = 0; i < 5; i++) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[order[i]]));
        assert_false(cw_tag_matcher_cancel(&matcher, &recvs[order[i]]));
        assert_int_equal(cw_tag_matcher_num_posted(&matcher), 5 - i);
        check();
    }
    assert_arrive_takes(9, 5);
    assert_false(cw_tag_matcher_cancel(&matcher, &recvs[5]));
    assert_null(cw_tag_matcher_arrive(&matcher, 9));
    assert_false(cw_tag_matcher_cancel(&matcher, &recvs[6]));
    check();
}

/* A message may be taken out of any place, in particular out of all indexes. */
TEST_WITH(test_a_message_is_removed_from_any_place, set_up, tear_down)
{
    unsigned i;

    for (i = 0; i < 300; i++) {
        arrive(i, i % 10);
    }
    for (i = 0; i < 20; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 77, EXACT, false));
        assert_null(cw_tag_matcher_probe(&matcher, 15, 0xf, false));
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 2);
    for (i = 0; i < 300; i += 3) {
        cw_tag_matcher_remove_message(&matcher, &messages[i]);
    }
    check();
    for (i = 0; i < 300; i++) {
        if ((i % 3) != 0) {
            assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[i]);
            assert_ptr_equal(cw_tag_matcher_first_message(&matcher), &messages[i]);
            cw_tag_matcher_remove_message(&matcher, &messages[i]);
        }
    }
    assert_null(cw_tag_matcher_first_message(&matcher));
    check();
}

/* Clean-up of a worker: everything that is queued can be found and taken out. */
TEST_WITH(test_all_that_is_queued_can_be_taken_out, set_up, tear_down)
{
    static struct cw_tag_few list[MANY];
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
    struct cw_tag_few list[20];
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
