/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping: after arm answered UCS_OK any event makes the descriptor readable (WAK-5, WAK-6), and no event none. */
#include <string.h>

#include "rig.h"
#include "stream.h"

static struct cw_stream sent, seen;

/* `sleeper` is armed, or has seen the event already. Whatever is under way must wake it; progresses it until the
 * counter has moved on. */
static void wake_until(struct cw_side *sleeper, struct cw_side *other, const unsigned *counter, unsigned target,
                       const char *what)
{
    uint64_t deadline = cw_deadline();

    while (*counter < target) {
        while (!cw_side_wakes(sleeper, 0)) {
            /* the peer may have to do its part first; it runs while we sleep, as another process would */
            if (cw_side_progress(other) == 0 && !cw_side_wakes(sleeper, 1)) {
                cw_deadline_check(deadline, what);
            }
        }
        cw_side_fall_asleep(sleeper, other);
        cw_deadline_check(deadline, what);
    }
}

RIG_TEST(test_idle)
{
    struct cw_end *one, *other;
    unsigned upcalls, i;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_rig_settle(rig);
    upcalls = rig->a->upcalls + rig->b->upcalls;
    cw_side_fall_asleep(rig->a, rig->b);
    cw_side_fall_asleep(rig->b, rig->a);
    assert_int_equal(cw_side_arm(rig->a), UCS_OK);
    assert_false(cw_side_wakes(rig->a, 100));
    assert_false(cw_side_wakes(rig->b, 100));
    for (i = 0; i < 1000; i++) {
        cw_check(cw_rig_progress(rig) == 0, "progress reports work on an idle connection");
        assert_int_equal(cw_side_arm(rig->a), UCS_OK);
    }
    assert_int_equal(rig->a->upcalls + rig->b->upcalls, upcalls);
}

/* A listener that sleeps notices the dial, the dialler notices the answer, both the end. */
RIG_TEST(test_connection_events)
{
    struct cw_bytes hello;
    struct cw_end *end, *other;
    unsigned round;

    cw_rig_need_two(rig);
    for (round = 0; round < 20; round++) {
        hello = cw_bytes_unique(16);
        cw_side_fall_asleep(rig->b, rig->a);
        end = cw_end_dial(rig->a, rig->b, &hello);
        wake_until(rig->b, rig->a, &rig->b->accepted, round + 1, "a sleeping listener to notice a dial");
        other = cw_end_find(rig->b, &hello);
        cw_side_fall_asleep(rig->a, rig->b);
        wake_until(rig->a, rig->b, &end->opened, 1, "a sleeping dialler to notice the answer");
        cw_side_fall_asleep(rig->b, rig->a);
        cw_end_close(end);
        wake_until(rig->b, rig->a, &other->closed, 1, "a sleeping side to notice the end");
    }
}

static void send_plan(struct cw_rig *rig, struct cw_end *end, const struct cw_packet_plan *plan)
{
    uint64_t deadline = cw_deadline();
    ucs_status_t status;

    while ((status = cw_packet_send(end, &sent, plan)) == CW_AGAIN) {
        cw_side_progress(end->side);
        cw_deadline_check(deadline, "a packet to be taken");
    }
    cw_check(status == UCS_OK || status == UCS_INPROGRESS, "a send answers %d", status);
    (void)rig;
}

/* Every slot, at small and large sizes, wakes the receiver. WAK-16: every transport rings an armed receiver. */
RIG_TEST(test_packets_wake)
{
    struct cw_packet_plan plan;
    struct cw_end *one, *other;
    uint64_t number;

    cw_rig_need_two(rig);
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_stream_init(&sent, 3, rig->a, 2000);
    cw_stream_init(&seen, 3, rig->a, 2000);
    other->receiving = &seen;
    for (number = 0; number < 2000; number++) {
        cw_side_fall_asleep(rig->b, rig->a);
        cw_stream_plan(&sent, number, &plan);
        send_plan(rig, one, &plan);
        wake_until(rig->b, rig->a, &other->packets, (unsigned)number + 1, "a sleeping receiver to notice a packet");
    }
    cw_rig_settle(rig);
    assert_int_equal(sent.outstanding, 0);
}

/* An event between the last progress and arm: BUSY, or readable afterwards; and several events wake once at least. */
RIG_TEST(test_event_before_arm)
{
    struct cw_packet_plan plan = {.slot = CW_SLOT_BCOPY, .length = 12, .seed = 4, .id = 1};
    struct cw_end *one, *other;
    unsigned round;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    memset(&sent, 0, sizeof(sent));
    for (round = 1; round <= 500; round++) {
        while (cw_side_progress(rig->b)) {
        }
        send_plan(rig, one, &plan);
        if (round % 3 == 0) {
            cw_side_progress(rig->a);
        }
        if (cw_side_arm(rig->b) == UCS_OK) {
            wake_until(rig->b, rig->a, &other->packets, round, "a packet sent before arm");
        }
        cw_rig_wait(rig, &other->packets, round, "a packet sent before arm");
    }
}

/* A sender that waits for room may sleep: the receiver's progress wakes it. */
RIG_TEST(test_room_wakes)
{
    struct cw_end *one, *other;
    unsigned round, rooms;

    cw_rig_need_two(rig);
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_stream_init(&sent, 8, rig->a, 300000);
    cw_stream_init(&seen, 8, rig->a, 300000);
    one->sending = &sent;
    other->receiving = &seen;
    for (round = 0; round < 10; round++) {
        while (cw_stream_push(one, 1000) > 0) {
        }
        if (!sent.blocked) {
            break;
        }
        rooms = one->rooms;
        if (cw_side_arm(rig->a) != UCS_OK) {
            cw_side_fall_asleep(rig->a, rig->b);
        }
        wake_until(rig->a, rig->b, &one->rooms, rooms + 1, "a sleeping sender to get room");
    }
    sent.count = sent.next;
    seen.count = sent.next;
    sent.done = 1;
    seen.done = seen.next == seen.count;
    cw_stream_run(rig, one, other);
}

/* Completions wake their owner, too (WAK-6, WAK-7): a side that has sent sleeps until all are there. */
RIG_TEST(test_completions_wake)
{
    struct cw_packet_plan plan = {.slot = CW_SLOT_ZCOPY, .iov_count = 1, .id = 1};
    struct cw_end *one, *other;
    uint64_t deadline;
    unsigned i;

    cw_rig_need_two(rig);
    cw_rig_need(cw_subject.transport->packets->send_zcopy != NULL && rig->a->iface->limits.max_zcopy > 0, "send_zcopy");
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_stream_init(&sent, 8, rig->a, 100);
    for (i = 0; i < 100; i++) {
        plan.length = rig->a->iface->limits.max_zcopy;
        plan.seed = i;
        if (cw_packet_send(one, &sent, &plan) == CW_AGAIN) {
            break;
        }
    }
    for (deadline = cw_deadline(); sent.outstanding > 0;) {
        cw_side_fall_asleep(rig->a, rig->b);
        while (sent.outstanding > 0 && !cw_side_wakes(rig->a, 0)) {
            cw_side_progress(rig->b);
            cw_deadline_check(deadline, "completions that wake their owner");
        }
        cw_side_progress(rig->a);
    }
}

RIG_TEST(test_ping_pong_asleep)
{
    struct cw_packet_plan plan = {.slot = CW_SLOT_BCOPY, .length = 8, .seed = 4, .id = 1};
    unsigned rounds = cw_scaled(5000);
    struct cw_end *one, *other;
    unsigned round;

    cw_rig_need_two(rig);
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    memset(&sent, 0, sizeof(sent));
    for (round = 1; round <= rounds; round++) {
        cw_side_fall_asleep(rig->b, rig->a);
        send_plan(rig, one, &plan);
        wake_until(rig->b, rig->a, &other->packets, round, "the ping of a sleeping ping-pong");
        cw_side_fall_asleep(rig->a, NULL);
        send_plan(rig, other, &plan);
        wake_until(rig->a, rig->b, &one->packets, round, "the pong of a sleeping ping-pong");
    }
}
