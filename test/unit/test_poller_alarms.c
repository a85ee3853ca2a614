/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Alarms of os/poll.h: they go off in the order of their times, once, not before their time, and end a sleep; they may
 * be moved and cancelled at any moment. Each test has bells, which count how often and in which turn their alarm rang.
 */
#include <unistd.h>

#include "test_poller.h"

#include "os/clock.h"
#include "test_random.h"

#define MS 1000000u

struct bell {
    struct cw_alarm alarm;
    unsigned calls;
    unsigned turn;              /* of its last call among all */
    void (*act)(struct bell *bell);
};

static unsigned turns;
static struct bell *bells;      /* of the test that runs */

static unsigned on_bell(struct cw_alarm *alarm)
{
    struct bell *bell = cw_container_of(alarm, struct bell, alarm);

    assert_false(cw_alarm_is_set(alarm));
    bell->calls++;
    bell->turn = ++turns;
    if (bell->act != NULL) {
        bell->act(bell);
    }
    return 5;
}

static struct bell *bells_new(unsigned count)
{
    unsigned i;

    turns = 0;
    bells = calloc(count, sizeof(*bells));
    assert_non_null(bells);
    for (i = 0; i < count; i++) {
        bells[i].alarm.fire = on_bell;
    }
    return bells;
}

TEST_WITH(alarms_go_off_in_order_and_once, poller_set_up, poller_tear_down)
{
    const uint64_t now = cw_clock_ns();
    struct bell *bell = bells_new(5);

    cw_poller_alarm_set(poller, &bell[0].alarm, now - 10);
    cw_poller_alarm_set(poller, &bell[1].alarm, 0);
    cw_poller_alarm_set(poller, &bell[2].alarm, now - 20);
    cw_poller_alarm_set(poller, &bell[3].alarm, now + 3600 * (uint64_t)1000 * MS);
    cw_poller_alarm_set(poller, &bell[4].alarm, UINT64_MAX);
    assert_true(cw_alarm_is_set(&bell[1].alarm));
    assert_true(readable(cw_poller_fd(poller)));
    assert_true(cw_poller_check(poller));
    assert_int_equal(turns, 0);
    assert_int_equal(cw_poller_dispatch(poller), 15);
    assert_int_equal(bell[1].turn, 1);
    assert_int_equal(bell[2].turn, 2);
    assert_int_equal(bell[0].turn, 3);
    assert_false(readable(cw_poller_fd(poller)));
    assert_int_equal(cw_poller_dispatch(poller), 0);
    assert_false(cw_poller_check(poller));
    free(bell);
}

TEST_WITH(an_alarm_ends_a_sleep_and_not_before_its_time, poller_set_up, poller_tear_down)
{
    struct bell *bell = bells_new(2);
    uint64_t at_ns = cw_clock_ns() + 30 * MS;

    cw_poller_alarm_set(poller, &bell[0].alarm, at_ns + 3600 * (uint64_t)1000 * MS);
    cw_poller_alarm_set(poller, &bell[1].alarm, at_ns);
    assert_false(cw_poller_check(poller));
    assert_int_equal(cw_poller_dispatch(poller), 0);
    assert_int_equal(cw_poller_wait(poller, -1), UCS_OK);
    assert_true(cw_clock_ns() >= at_ns);
    assert_int_equal(cw_poller_dispatch(poller), 5);
    assert_int_equal(bell[1].calls, 1);
    assert_false(readable(cw_poller_fd(poller)));
    free(bell);
}

/* Moved forth, back and away: only the last word counts, and nobody is woken for the others after a check. */
TEST_WITH(alarms_move_and_are_cancelled, poller_set_up, poller_tear_down)
{
    struct bell *bell = bells_new(3);
    uint64_t now = cw_clock_ns();

    cw_poller_alarm_cancel(poller, &bell[0].alarm);
    cw_poller_alarm_set(poller, &bell[0].alarm, now - 1);
    cw_poller_alarm_set(poller, &bell[1].alarm, now - 1);
    cw_poller_alarm_set(poller, &bell[2].alarm, now + 20 * MS);
    cw_poller_alarm_set(poller, &bell[0].alarm, now + 3600 * (uint64_t)1000 * MS);
    cw_poller_alarm_cancel(poller, &bell[1].alarm);
    cw_poller_alarm_cancel(poller, &bell[1].alarm);
    cw_poller_alarm_cancel(poller, &bell[2].alarm);
    assert_false(cw_alarm_is_set(&bell[1].alarm));
    assert_false(cw_poller_check(poller));
    assert_int_equal(cw_poller_wait(poller, 50), UCS_OK);
    assert_false(readable(cw_poller_fd(poller)));
    assert_int_equal(cw_poller_dispatch(poller), 0);
    cw_poller_alarm_set(poller, &bell[0].alarm, now);
    assert_int_equal(cw_poller_dispatch(poller), 5);
    assert_int_equal(bell[0].calls, 1);
    assert_int_equal(bell[1].calls + bell[2].calls, 0);
    free(bell);
}

/* One for which nobody checked in between wakes once for nothing at most. */
TEST_WITH(a_cancelled_alarm_wakes_once_at_most, poller_set_up, poller_tear_down)
{
    struct bell *bell = bells_new(1);

    cw_poller_alarm_set(poller, &bell->alarm, cw_clock_ns() - 1);
    cw_poller_alarm_cancel(poller, &bell->alarm);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    assert_false(readable(cw_poller_fd(poller)));
    assert_int_equal(bell->calls, 0);
    free(bell);
}

static void cancel_the_next_and_come_back(struct bell *bell)
{
    cw_poller_alarm_cancel(poller, &bells[1].alarm);
    cw_poller_alarm_set(poller, &bell->alarm, 1);
}

/* Also one that is always due leaves the others, and the caller, their turn. */
TEST_WITH(alarms_may_be_changed_while_they_go_off, poller_set_up, poller_tear_down)
{
    struct bell *bell = bells_new(3);

    bell[0].act = cancel_the_next_and_come_back;
    cw_poller_alarm_set(poller, &bell[0].alarm, 1);
    cw_poller_alarm_set(poller, &bell[1].alarm, 2);
    cw_poller_alarm_set(poller, &bell[2].alarm, 3);
    assert_true(cw_poller_dispatch(poller) > 0);
    assert_int_equal(bell[1].calls, 0);
    assert_true(bell[0].calls > 0 && bell[0].calls < 1000);
    assert_true(readable(cw_poller_fd(poller)));
    bell[0].act = NULL;
    assert_true(cw_poller_dispatch(poller) >= 10);
    assert_int_equal(bell[2].calls, 1);
    assert_false(readable(cw_poller_fd(poller)));
    free(bell);
}

TEST_WITH(alarms_go_off_without_a_timer, poller_set_up, poller_tear_down)
{
    struct bell *bell = bells_new(1);
    struct cw_poller *plain;
    int probe = dup(0);

    close(probe);
    assert_int_equal(cw_poller_new(0, &plain), UCS_OK);
    cw_poller_alarm_set(plain, &bell->alarm, cw_clock_ns() + MS);
    assert_int_equal(dup(0), probe); /* not even one descriptor */
    close(probe);
    while (cw_poller_dispatch(plain) == 0) {
    }
    assert_int_equal(bell->calls, 1);
    assert_true(cw_clock_ns() > MS);
    cw_poller_free(plain);
    free(bell);
}

#define MANY_BELLS 20000u

/* Set at random, every third cancelled, every third moved: each of the rest goes off once, in order, and in a time that
 * a list would not do. */
TEST_WITH(thousands_of_alarms_keep_their_order, poller_set_up, poller_tear_down)
{
    struct bell *bell = bells_new(MANY_BELLS);
    const uint64_t now = cw_clock_ns();
    uint64_t *times = calloc(MANY_BELLS, sizeof(*times)), last = 0;
    struct bell **by_turn = calloc(MANY_BELLS + 1, sizeof(*by_turn));
    unsigned i;

    assert_true(times != NULL && by_turn != NULL);
    random_state = 1;
    for (i = 0; i < MANY_BELLS; i++) {
        times[i] = now - 1 - next_random() % 1000000u;
        cw_poller_alarm_set(poller, &bell[i].alarm, times[i]);
    }
    for (i = 0; i < MANY_BELLS; i++) {
        if (i % 3 == 0) {
            cw_poller_alarm_cancel(poller, &bell[i].alarm);
        } else if (i % 3 == 1) {
            times[i] = now - 1 - next_random() % 1000000u;
            cw_poller_alarm_set(poller, &bell[i].alarm, times[i]);
        }
    }
    while (cw_poller_dispatch(poller) > 0) {
    }
    for (i = 0; i < MANY_BELLS; i++) {
        assert_int_equal(bell[i].calls, i % 3 != 0);
        by_turn[bell[i].turn] = &bell[i];
    }
    for (i = 1; i <= turns; i++) {
        assert_true(times[by_turn[i] - bell] >= last);
        last = times[by_turn[i] - bell];
    }
    free(times);
    free(by_turn);
    free(bell);
}
