/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of unexpected messages that are kept (tag/spare.h): a burst is served from those of the burst before,
 * they are never more than the bound, and what is not needed is given back by halves.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "tag/desc.h"

enum { MANY = 200, ROOM = 1000, MOST = 1 << 20 };

static struct cw_poller *poller;
static struct cw_tag_spares spares;
static struct ucp_recv_desc *taken[MANY];

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(cw_poller_new(0, &poller), UCS_OK);
    cw_tag_spares_init(&spares, poller, MOST);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cw_tag_spares_cleanup(&spares);
    assert_int_equal(spares.bytes, 0);
    cw_poller_free(poller);
    return 0;
}

static void take(unsigned count, uint64_t space)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        taken[i] = cw_tag_spares_take(&spares, space);
        assert_non_null(taken[i]);
        memset(taken[i]->data, (int)i, space); /* the address sanitizer checks */
    }
}

static void give(unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        cw_tag_spares_give(&spares, taken[i]);
    }
}

static unsigned fade(void)
{
    cw_poller_alarm_cancel(poller, &spares.fade);
    return spares.fade.fire(&spares.fade);
}

TEST_WITH(test_a_class_has_room_for_what_it_takes, set_up, tear_down)
{
    uint64_t space;

    assert_int_equal(cw_tag_class(0), 0);
    assert_int_equal(cw_tag_class(CW_TAG_SMALL), 0);
    for (space = CW_TAG_SMALL + 1; space <= 128; space++) {
        assert_int_equal(cw_tag_class(space), 1);
    }
    for (space = 129; space <= UINT64_C(512) << 10; space++) {
        assert_true(space <= UINT64_C(64) << cw_tag_class(space));
        assert_true(space > UINT64_C(32) << cw_tag_class(space));
        assert_true(cw_tag_class(space) < CW_TAG_NO_CLASS);
    }
    assert_int_equal(cw_tag_class((UINT64_C(512) << 10) + 1), CW_TAG_NO_CLASS);
    assert_int_equal(cw_tag_class(UINT64_MAX), CW_TAG_NO_CLASS);
    assert_null(cw_tag_spares_take(&spares, UINT64_MAX));
}

TEST_WITH(test_a_burst_is_served_from_the_last_one, set_up, tear_down)
{
    struct ucp_recv_desc *first[MANY];
    unsigned i, j, again = 0;

    take(MANY, ROOM);
    memcpy(first, taken, sizeof(first));
    give(MANY);
    take(MANY, ROOM + 20);
    for (i = 0; i < MANY; i++) {
        for (j = 0; j < MANY; j++) {
            again += first[i] == taken[j];
        }
    }
    assert_int_equal(again, MANY);
    assert_int_equal(spares.bytes, 0);
    give(MANY);
}

TEST_WITH(test_no_more_are_kept_than_the_bound, set_up, tear_down)
{
    take(MANY, 16000);
    give(MANY);
    assert_true(spares.bytes <= MOST);
    assert_true(spares.bytes > MOST / 2);
    take(1, (UINT64_C(512) << 10) + 1); /* of no class: freed */
    give(1);
    assert_true(spares.bytes <= MOST);
}

/* Also if the cache is full of descriptors of other sizes. */
TEST_WITH(test_a_burst_is_served_from_the_last_one_in_a_full_cache, set_up, tear_down)
{
    const unsigned class = cw_tag_class(ROOM);

    take(MANY, 16000);
    give(MANY);
    take(MANY, ROOM);
    give(MANY);
    assert_int_equal(spares.count[class], MANY);
    assert_true(spares.count[cw_tag_class(16000)] > 0);
    assert_true(spares.bytes <= MOST);
    take(MANY, 16000);
    give(MANY);
    assert_true(spares.bytes <= MOST);
    assert_int_equal(spares.count[class], MANY);
}

TEST_WITH(test_what_is_not_needed_is_given_back, set_up, tear_down)
{
    const unsigned class = cw_tag_class(ROOM);
    unsigned rounds = 0;

    take(MANY, ROOM);
    give(MANY);
    assert_true(cw_alarm_is_set(&spares.fade));
    fade(); /* all of them were in use since the burst began */
    assert_int_equal(spares.count[class], MANY);
    take(MANY / 4, ROOM);
    give(MANY / 4);
    fade(); /* three quarters were not in use; one half of these goes */
    assert_int_equal(spares.count[class], MANY - MANY * 3 / 4 / 2);
    while (cw_alarm_is_set(&spares.fade)) {
        fade();
        rounds++;
        assert_true(rounds < 20);
    }
    assert_true(spares.bytes <= CW_TAG_SPARE_RETAINED);
}

TEST_WITH(test_few_small_ones_need_no_alarm, set_up, tear_down)
{
    take(20, CW_TAG_SMALL);
    give(20);
    assert_int_equal(spares.count[0], 20);
    assert_false(cw_alarm_is_set(&spares.fade));
}
