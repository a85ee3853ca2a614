/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lazy alarms of os/poll.h go off like others, in their order, but wake nobody.
 */

#include <poll.h>

#include "runner.h"
#include "os/clock.h"
#include "os/poll.h"

#define HOUR_NS UINT64_C(3600000000000)

static struct cw_alarm *last; /* that went off */

static unsigned go_off(struct cw_alarm *alarm)
{
    assert_false(cw_alarm_is_set(alarm));
    last = alarm;
    return 5;
}

static int readable(struct cw_poller *poller)
{
    struct pollfd fd = {.fd = cw_poller_fd(poller), .events = POLLIN};

    return poll(&fd, 1, 20);
}

TEST(lazy_alarms_go_off_and_wake_nobody)
{
    struct cw_alarm early = {.fire = go_off}, late = {.fire = go_off}, far = {.fire = go_off};
    const uint64_t now = cw_clock_ns();
    struct cw_poller *poller;

    assert_int_equal(cw_poller_new(1, &poller), UCS_OK);
    cw_poller_alarm_set_lazy(poller, &late, now - 10);
    cw_poller_alarm_set_lazy(poller, &early, now - 20);
    cw_poller_alarm_set_lazy(poller, &far, now + HOUR_NS);
    assert_false(readable(poller));
    assert_false(cw_poller_check(poller));
    assert_int_equal(cw_poller_dispatch(poller), 10);
    assert_ptr_equal(last, &late);
    assert_true(cw_alarm_is_set(&far));
    cw_poller_alarm_cancel(poller, &far);
    assert_int_equal(cw_poller_dispatch(poller), 0);
    cw_poller_free(poller);
}

TEST(an_alarm_may_become_lazy_and_the_other_way_round)
{
    struct cw_alarm alarm = {.fire = go_off}, beside = {.fire = go_off};
    const uint64_t now = cw_clock_ns();
    struct cw_poller *poller;

    assert_int_equal(cw_poller_new(1, &poller), UCS_OK);
    cw_poller_alarm_set_lazy(poller, &beside, now + HOUR_NS);
    cw_poller_alarm_set_lazy(poller, &alarm, now - 1);
    cw_poller_alarm_set(poller, &alarm, now - 1);
    assert_true(readable(poller));
    cw_poller_alarm_set_lazy(poller, &alarm, now - 1);
    assert_false(cw_poller_check(poller)); /* which puts the timer right */
    assert_false(readable(poller));
    assert_int_equal(cw_poller_dispatch(poller), 5);
    assert_ptr_equal(last, &alarm);
    assert_true(cw_alarm_is_set(&beside));
    cw_poller_alarm_cancel(poller, &beside);
    cw_poller_free(poller);
}
