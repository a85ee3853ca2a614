/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets: every slot at its limits, contents, order, CW_AGAIN and room, sends from inside upcalls. */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "stream.h"

static const size_t small_sizes[] = {
    0,  1,  2,   3,   4,   7,   8,   9,   15,  16,  17,  31,   32,   33,   63,   64,   65,   127,
    128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 8192, 8193, 65535,
};

/* What the receiver is to see next. */
struct expectation {
    struct cw_packet_plan plan;
    unsigned came;
};

static void compare(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    struct expectation *expectation = end->arg;

    expectation->came++;
    cw_packet_check(&expectation->plan, id, data, length);
}

/* Sends one packet, waits for it, and for its completion. */
static void exchange(struct cw_rig *rig, struct cw_end *from, struct cw_end *to, const struct cw_packet_plan *plan)
{
    static struct cw_stream stream; /* only counts completions */
    struct expectation expectation = {.plan = *plan};
    uint64_t deadline = cw_deadline();
    ucs_status_t status;

    memset(&stream, 0, sizeof(stream));
    to->arg = &expectation;
    to->on_packet = compare;
    while ((status = cw_packet_send(from, &stream, plan)) == CW_AGAIN) {
        cw_rig_progress(rig);
        cw_deadline_check(deadline, "a packet to be taken");
    }
    cw_check(status == UCS_OK || status == UCS_INPROGRESS, "a packet of %zu bytes is answered by %d", plan->length,
             status);
    while (expectation.came == 0 || stream.outstanding > 0) {
        cw_rig_progress(rig);
        cw_deadline_check(deadline, "a packet or its completion");
    }
    cw_check(expectation.came == 1, "a packet came %u times", expectation.came);
    to->on_packet = NULL;
}

/* All interesting sizes from low to high, both directions. */
static void exchange_sizes(struct cw_rig *rig, struct cw_packet_plan plan, size_t low, size_t high)
{
    struct cw_end *one, *other;
    size_t last[] = {high / 2, high - 1, high};
    size_t i, size;
    uint64_t seed = 1;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    for (i = 0; i < sizeof(small_sizes) / sizeof(small_sizes[0]) + 3; i++) {
        size = (i < 3) ? last[i] : small_sizes[i - 3];
        if (size < low || size > high) {
            continue;
        }
        plan.length = size;
        plan.id = (uint8_t)(1 + seed * 37 % 255);
        plan.seed = seed++;
        exchange(rig, one, other, &plan);
        plan.seed = seed++;
        exchange(rig, other, one, &plan);
    }
}

RIG_TEST(test_short_sizes)
{
    cw_rig_need(cw_subject.transport->packets->send_short != NULL, "send_short");
    exchange_sizes(rig, (struct cw_packet_plan){.slot = CW_SLOT_SHORT}, 8, 8 + rig->a->iface->limits.max_short);
}

RIG_TEST(test_bcopy_sizes)
{
    exchange_sizes(rig, (struct cw_packet_plan){.slot = CW_SLOT_BCOPY}, 0, rig->a->iface->limits.max_bcopy);
}

RIG_TEST(test_zcopy_sizes)
{
    static const size_t headers[] = {0, 1, 8, 17, 40, 64};
    struct cw_packet_plan plan = {.slot = CW_SLOT_ZCOPY};
    unsigned max_iov;
    size_t i;

    cw_rig_need(cw_subject.transport->packets->send_zcopy != NULL && rig->a->iface->limits.max_zcopy > 0, "send_zcopy");
    max_iov = (rig->a->iface->limits.max_iov < 8) ? rig->a->iface->limits.max_iov : 8;
    for (i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        plan.header_length = headers[i];
        for (plan.iov_count = 1; plan.iov_count <= max_iov; plan.iov_count++) {
            exchange_sizes(rig, plan, headers[i], rig->a->iface->limits.max_zcopy);
        }
    }
}

RIG_TEST(test_all_ids)
{
    struct cw_packet_plan plan = {.slot = CW_SLOT_BCOPY, .length = 5};
    struct cw_end *one, *other;
    unsigned id;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    for (id = 1; id < 256; id++) { /* 0 is no id */
        plan.id = (uint8_t)id;
        plan.seed = id + 1;
        exchange(rig, one, other, &plan);
    }
}

struct short_pack {
    size_t max;
    size_t length;
    uint64_t seed;
};

static size_t pack_less(void *dest, size_t max, void *arg)
{
    struct short_pack *state = arg;

    cw_check(max <= state->max && max >= state->length, "pack is offered %zu bytes instead of %zu", max, state->max);
    cw_pattern_fill(dest, state->length, state->seed);
    return state->length;
}

/* pack writes less than it announced. */
RIG_TEST(test_pack_writes_less)
{
    size_t max = rig->a->iface->limits.max_bcopy;
    size_t lengths[] = {0, 1, 8, 9, max / 2, max - 1};
    struct expectation expectation;
    struct short_pack pack = {.max = max};
    struct cw_end *one, *other;
    uint64_t deadline = cw_deadline();
    size_t i;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    other->arg = &expectation;
    other->on_packet = compare;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        pack.length = lengths[i];
        pack.seed = i + 1;
        expectation = (struct expectation){
            .plan = {.slot = CW_SLOT_BCOPY, .length = lengths[i], .seed = i + 1, .id = 9}};
        while (cw_subject.transport->packets->send_bcopy(one->conn, 9, max, pack_less, &pack) == CW_AGAIN) {
            cw_rig_progress(rig);
            cw_deadline_check(deadline, "a packet to be taken");
        }
        cw_rig_wait(rig, &expectation.came, 1, "a packet that is shorter than announced");
    }
}

static void run_mixed(struct cw_rig *rig, uint64_t count, size_t typical, int both)
{
    static struct cw_stream streams[4];
    struct cw_end *one, *other;
    int i;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    for (i = 0; i < 4; i++) {
        cw_stream_init(&streams[i], 21 + (uint64_t)(i / 2), (i < 2) ? rig->a : rig->b, count);
        streams[i].typical = typical;
    }
    one->sending = &streams[0];
    other->receiving = &streams[1];
    if (both) {
        other->sending = &streams[2];
        one->receiving = &streams[3];
    }
    cw_stream_run(rig, one, other);
    cw_rig_settle(rig);
    assert_int_equal(other->packets, count);
    assert_int_equal(one->packets, both ? count : 0);
    cw_end_close(one);
    cw_rig_wait(rig, &other->closed, 1, "`closed` after a stream");
}

RIG_TEST(test_mixed_both_ways)
{
    run_mixed(rig, cw_scaled(50000), 256, 1);
}

RIG_TEST(test_mixed_large_one_way)
{
    run_mixed(rig, cw_scaled(3000), 1u << 20, 0);
}

/* Sends until CW_AGAIN with a receiver that does nothing; then nothing is lost and room comes. */
RIG_TEST(test_blocked_sender_gets_room)
{
    static struct cw_stream sent, seen;
    struct cw_end *one, *other;
    uint64_t deadline;
    unsigned round, idle;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_stream_init(&sent, 77, rig->a, 400000);
    cw_stream_init(&seen, 77, rig->a, 400000);
    one->sending = &sent;
    other->receiving = &seen;
    for (round = 0; round < 5; round++) {
        for (idle = 0; idle < 50 && !sent.done; idle++) {
            idle = (cw_stream_push(one, 100000) > 0) ? 0 : idle;
            if (rig->a != rig->b) {
                cw_side_progress(rig->a);
            }
        }
        if (!sent.blocked) {
            break; /* never says no within 400000 packets */
        }
        one->rooms = 0;
        cw_rig_wait(rig, &one->rooms, 1, "`room` after CW_AGAIN");
        cw_check(cw_stream_push(one, 1) == 1 || sent.blocked, "a send after `room` fails with %d", sent.status);
    }
    sent.count = sent.next;
    seen.count = sent.next;
    sent.done = 1;
    for (deadline = cw_deadline(); seen.next < seen.count || sent.outstanding > 0;) {
        cw_rig_progress(rig);
        cw_deadline_check(deadline, "packets that were taken before CW_AGAIN");
    }
}

struct echo {
    unsigned target;
    unsigned got;
    unsigned failed;
    int waiting;
};

static void send_one(struct cw_end *end, struct echo *echo)
{
    const struct cw_packet_plan plan = {.slot = CW_SLOT_BCOPY, .length = 24, .seed = echo->got + 1, .id = 3};
    static struct cw_stream unused;
    ucs_status_t status = cw_packet_send(end, &unused, &plan);

    echo->waiting = status == CW_AGAIN;
    echo->failed += status != UCS_OK && status != CW_AGAIN;
}

static void echo_packet(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    struct echo *echo = end->arg;

    (void)id;
    (void)data;
    cw_check(length == 24, "a packet of %zu bytes came", length);
    if (++echo->got < echo->target) {
        send_one(end, echo);
    }
}

static void echo_room(struct cw_end *end)
{
    struct echo *echo = end->arg;

    if (echo->waiting) {
        send_one(end, echo);
    }
}

/* Ping-pong that lives in upcalls alone. */
RIG_TEST(test_sends_from_upcalls)
{
    const unsigned target = cw_scaled(3000);
    struct echo echoes[2] = {{.target = target}, {.target = target}};
    struct cw_end *one, *other;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    one->arg = &echoes[0];
    other->arg = &echoes[1];
    one->on_packet = echo_packet;
    other->on_packet = echo_packet;
    one->on_room = echo_room;
    other->on_room = echo_room;
    send_one(one, &echoes[0]);
    cw_rig_wait(rig, &echoes[1].got, target, "a ping-pong made of upcalls");
    cw_rig_wait(rig, &echoes[0].got, target - 1, "the last echo");
    assert_int_equal(echoes[0].failed + echoes[1].failed, 0);
}

/* Slow is no failure, standing still is: the deadline of a stream moves with it. */
static void deadline_follow(uint64_t *deadline, uint64_t *last, uint64_t now)
{
    if (now != *last) {
        *last = now;
        *deadline = cw_deadline();
    }
}

/* A connection that is stuck does not stop another one between the same interfaces. */
RIG_TEST(test_no_mixing_after_block)
{
    static struct cw_stream streams[4];
    struct cw_end *ends[2][2];
    uint64_t deadline = cw_deadline(), last = 0;
    int i;

    for (i = 0; i < 2; i++) {
        cw_rig_connect(rig, rig->a, rig->b, &ends[i][0], &ends[i][1]);
        cw_stream_init(&streams[2 * i], 31 + (uint64_t)i, rig->a, 5000);
        cw_stream_init(&streams[2 * i + 1], 31 + (uint64_t)i, rig->a, 5000);
        ends[i][0]->sending = &streams[2 * i];
        ends[i][1]->receiving = &streams[2 * i + 1];
    }
    while (!streams[1].done || !streams[3].done || streams[0].outstanding + streams[2].outstanding > 0) {
        cw_stream_push(ends[0][0], 1000);
        cw_stream_push(ends[1][0], 1000);
        cw_rig_progress(rig);
        deadline_follow(&deadline, &last, streams[1].next + streams[3].next);
        cw_deadline_check(deadline, "two connections that compete");
    }
}

/* Longer packets than max_bcopy: one after the other while there is room, then singly, as long as they may be then. */
RIG_TEST(test_whole_sizes)
{
    static struct cw_stream sent, seen;
    struct cw_packet_plan plan = {.slot = CW_SLOT_BCOPY, .id = 3};
    uint64_t deadline = cw_deadline(), last = 0;
    struct cw_end *one, *other;
    size_t whole;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    whole = one->conn->max_whole;
    cw_rig_need(whole > rig->a->iface->limits.max_bcopy, "packets longer than max_bcopy");
    cw_stream_init(&sent, 51, rig->a, 400);
    cw_stream_init(&seen, 51, rig->a, 400);
    sent.limits.max_bcopy = whole;
    seen.limits.max_bcopy = whole;
    sent.typical = whole;
    seen.typical = whole;
    one->sending = &sent;
    other->receiving = &seen;
    while (!seen.done || sent.outstanding > 0) {
        cw_stream_push(one, 1000);
        cw_rig_progress(rig);
        deadline_follow(&deadline, &last, seen.next);
        cw_deadline_check(deadline, "long packets");
    }
    one->sending = NULL;
    other->receiving = NULL;
    for (plan.seed = 1; plan.seed < 40; plan.seed++) {
        whole = one->conn->max_whole; /* of shm it shrinks after a rest, never below what it was at first */
        plan.length = whole - (plan.seed % 4) * (whole / 5);
        exchange(rig, one, other, &plan);
    }
}
