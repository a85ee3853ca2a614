/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots `send_in_place` and `batch`. Packets of both kinds carry numbers in the order in which they were taken; the
 * receiver checks that they come, and are asked for, in that order, each once and whole.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rig.h"
#include "stream.h"

enum { POISON = 0xee, SMALL = 200 };

/* One in place that is under way. */
struct loan {
    struct cw_completion completion;
    size_t length;
    char bytes[];
};

static uint64_t next_sent, next_seen;
static unsigned num_loans, num_back, num_seen, num_failed;
static char *place;
static size_t placed_length;

static uint64_t chance(uint64_t number, unsigned what)
{
    return cw_hash_mix(number * 64 + what);
}

static void seen(uint64_t number)
{
    cw_check(number == next_seen, "packet %llu came instead of %llu", (unsigned long long)number,
             (unsigned long long)next_seen);
    next_seen++;
    num_seen++;
}

static void on_packet(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    char expected[SMALL];
    uint64_t number;

    (void)end;
    (void)id;
    if (!cw_check(length >= sizeof(number) && length <= SMALL, "a packet came with %zu bytes", length)) {
        return;
    }
    memcpy(&number, data, sizeof(number));
    seen(number);
    cw_pattern_fill(expected, length, number + 1);
    cw_check(memcmp(expected + sizeof(number), (const char *)data + sizeof(number), length - sizeof(number)) == 0,
             "a packet beside those in place is damaged");
}

static unsigned on_place(struct cw_end *end, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    uint64_t number;

    (void)end;
    (void)id;
    memcpy(&number, header, sizeof(number));
    if (!cw_check(number == next_seen, "packet %llu asks for its place before packet %llu came",
                  (unsigned long long)number, (unsigned long long)next_seen) ||
        !cw_check(place == NULL, "`place` came twice without `placed`")) {
        return 0;
    }
    place = malloc(length);
    placed_length = length;
    memset(place, POISON, length);
    iov[0] = (struct iovec){place, length / 2};
    iov[1] = (struct iovec){place + length / 2, length - length / 2};
    return 2;
}

static void on_placed(struct cw_end *end, uint8_t id, const void *header, size_t length)
{
    char *expected = malloc(length);
    uint64_t number;

    (void)end;
    (void)id;
    memcpy(&number, header, sizeof(number));
    seen(number);
    cw_pattern_fill(expected, length, number + 1);
    cw_check(place != NULL && length == placed_length && memcmp(expected, place, length) == 0,
             "the payload of a packet in place is damaged");
    free(expected);
    free(place);
    place = NULL;
}

static void give_back(struct loan *loan)
{
    memset(loan->bytes, POISON, loan->length);
    free(loan);
    num_back++;
}

static void on_done(struct cw_completion *completion, ucs_status_t status)
{
    cw_check(cw_rig_may_complete(), "the completion of a send in place was called from inside another call");
    num_failed += status != UCS_OK; /* as they do when the connection is closed behind a failed test */
    give_back(cw_container_of(completion, struct loan, completion));
}

static ucs_status_t send_in_place(struct cw_end *end, size_t length)
{
    struct loan *loan = malloc(sizeof(*loan) + length);
    uint8_t header[CW_PLACE_HEADER] = {0};
    struct iovec iov[2];
    ucs_status_t status;
    unsigned count;

    *loan = (struct loan){.completion = {.done = on_done}, .length = length};
    cw_pattern_fill(loan->bytes, length, next_sent + 1);
    memcpy(header, &next_sent, sizeof(next_sent));
    count = (end->side->iface->limits.max_iov > 1 && length > 1) ? 2 : 1;
    iov[0] = (struct iovec){loan->bytes, (count == 1) ? length : length / 3};
    iov[1] = (struct iovec){loan->bytes + iov[0].iov_len, length - iov[0].iov_len};
    status = cw_subject.transport->packets->send_in_place(end->conn, 9, header, iov, count, &loan->completion);
    memset(header, POISON, sizeof(header));
    memset(iov, POISON, sizeof(iov));
    if (status == UCS_OK || status == UCS_INPROGRESS) {
        next_sent++;
        num_loans++;
    }
    if (status == UCS_OK) {
        give_back(loan);
    } else if (status != UCS_INPROGRESS) {
        free(loan);
    }
    return status;
}

static size_t pack(void *dest, size_t max, void *arg)
{
    cw_pattern_fill(dest, max, *(uint64_t *)arg + 1);
    memcpy(dest, arg, sizeof(uint64_t));
    return max;
}

static ucs_status_t send_small(struct cw_end *end, size_t length)
{
    const size_t max = end->side->iface->limits.max_bcopy;
    ucs_status_t status = cw_subject.transport->packets->send_bcopy(end->conn, 7, (length < max) ? length : max, pack,
                                                           &next_sent);

    next_sent += status == UCS_OK;
    return status;
}

/* The packet that is due, of either kind. */
static ucs_status_t send_some(struct cw_end *end, size_t typical)
{
    const uint64_t number = next_sent;
    const size_t max = end->side->iface->limits.max_placed;

    if (cw_subject.transport->packets->send_in_place == NULL || max == 0 || chance(number, 1) % 3 > 0) {
        return send_small(end, sizeof(number) + chance(number, 2) % (SMALL - sizeof(number) + 1));
    }
    typical = (number % 16 == 0 || typical > max) ? max : typical;
    return send_in_place(end, 1 + chance(number, 3) % typical);
}

static void begin(struct cw_rig *rig, struct cw_end **one, struct cw_end **other)
{
    next_sent = next_seen = 0;
    num_loans = num_back = num_seen = num_failed = 0;
    free(place);
    place = NULL;
    cw_rig_connect(rig, rig->a, rig->b, one, other);
    (*other)->on_packet = on_packet;
    (*other)->on_place = on_place;
    (*other)->on_placed = on_placed;
}

static void finish(struct cw_rig *rig)
{
    cw_rig_wait(rig, &num_seen, (unsigned)next_sent, "all packets");
    cw_rig_wait(rig, &num_back, num_loans, "the completions of all sends in place");
    assert_int_equal(num_failed, 0);
}

static void begin_in_place(struct cw_rig *rig, struct cw_end **one, struct cw_end **other)
{
    cw_rig_need_two(rig);
    cw_rig_need(cw_subject.transport->packets->send_in_place != NULL && rig->a->iface->limits.max_placed > 0,
                "send_in_place");
    begin(rig, one, other);
}

static void begin_batch(struct cw_rig *rig, struct cw_end **one, struct cw_end **other)
{
    cw_rig_need_two(rig);
    cw_rig_need(cw_subject.transport->packets->batch != NULL, "batch");
    begin(rig, one, other);
}

static void check_answer(ucs_status_t status)
{
    cw_check(status == UCS_OK || status == UCS_INPROGRESS || status == CW_AGAIN, "a send is answered by %d", status);
}

RIG_TEST(test_in_place_keeps_order)
{
    const uint64_t target = cw_scaled(300);
    uint64_t deadline = cw_deadline();
    struct cw_end *one, *other;
    ucs_status_t status;

    begin_in_place(rig, &one, &other);
    while (next_sent < target) {
        status = send_some(one, 20000);
        check_answer(status);
        if (status == CW_AGAIN || chance(next_sent, 4) % 4 == 0) {
            cw_rig_progress(rig);
        }
        cw_deadline_check(deadline, "packets in place to be taken");
    }
    finish(rig);
}

/* Until CW_AGAIN with a receiver that does nothing. */
RIG_TEST(test_in_place_blocked_sender_gets_room)
{
    ucs_status_t status = UCS_OK;
    struct cw_end *one, *other;

    begin_in_place(rig, &one, &other);
    while (next_sent < 100 && status != CW_AGAIN) {
        status = send_in_place(one, rig->a->iface->limits.max_placed);
        check_answer(status);
    }
    if (status == CW_AGAIN) {
        one->rooms = 0;
        cw_rig_wait(rig, &one->rooms, 1, "`room` after CW_AGAIN");
    }
    finish(rig);
}

static void begin_kind(const struct cw_end *end, unsigned number)
{
    cw_subject.transport->packets->batch(end->conn, (chance(number, 7) % 2 == 0) ? CW_BATCH_LONG : CW_BATCH_BEGIN);
}

/* Everything of a batch has left when it ends: the sender needs no progress. */
RIG_TEST(test_batch_leaves_at_its_end)
{
    uint64_t deadline = cw_deadline();
    struct cw_end *one, *other;
    unsigned round, i;

    begin_batch(rig, &one, &other);
    for (round = 0; round < cw_scaled(50); round++) {
        begin_kind(one, round);
        for (i = 0; i <= round % 9; i++) {
            if (i == round % 9 && chance(round, 8) % 2 == 0) {
                cw_subject.transport->packets->batch(one->conn, CW_BATCH_LAST);
            }
            if (i % 3 == 1 && cw_subject.transport->packets->send_in_place != NULL &&
                rig->a->iface->limits.max_placed > 0) {
                assert_int_equal(send_in_place(one, 600), UCS_OK);
            } else {
                assert_int_equal(send_small(one, SMALL - i), UCS_OK);
            }
        }
        cw_subject.transport->packets->batch(one->conn, CW_BATCH_END);
        while (num_seen < next_sent) {
            cw_side_progress(rig->b);
            cw_deadline_check(deadline, "a batch that has ended");
        }
    }
}

/* Nested ones, of all kinds of packets, more than the transport takes at a time. */
RIG_TEST(test_batches_keep_order)
{
    const uint64_t target = cw_scaled(3000);
    uint64_t deadline = cw_deadline();
    ucs_status_t status;
    struct cw_end *one, *other;
    unsigned depth, i;

    begin_batch(rig, &one, &other);
    while (next_sent < target) {
        depth = 1 + chance(next_sent, 5) % 3;
        status = UCS_OK;
        for (i = 0; i < depth; i++) {
            begin_kind(one, (unsigned)next_sent + i);
            status = send_some(one, 3000);
            check_answer(status);
        }
        for (i = 0; i < 40 && status != CW_AGAIN; i++) {
            status = send_some(one, 3000);
            check_answer(status);
        }
        for (i = 0; i < depth; i++) {
            cw_subject.transport->packets->batch(one->conn, CW_BATCH_END);
        }
        if (status == CW_AGAIN || chance(next_sent, 6) % 4 == 0) {
            cw_rig_progress(rig);
        }
        cw_deadline_check(deadline, "batches to be taken");
    }
    finish(rig);
}

static void flush_done(struct cw_completion *completion, ucs_status_t status)
{
    (void)completion;
    cw_check(status == UCS_OK, "a flush ends with status %d", status);
    num_back++;
}

/* A flush does not wait for the end of the batch. */
RIG_TEST(test_flush_inside_a_batch)
{
    struct cw_completion completion = {.done = flush_done};
    struct cw_end *one, *other;
    ucs_status_t status;

    begin_batch(rig, &one, &other);
    cw_rig_need(cw_subject.transport->packets->flush != NULL, "flush");
    cw_subject.transport->packets->batch(one->conn, CW_BATCH_LONG);
    assert_int_equal(send_small(one, SMALL), UCS_OK);
    status = cw_subject.transport->packets->flush(one->conn, &completion);
    cw_check(status == UCS_OK || status == UCS_INPROGRESS, "flush answers %d", status);
    num_loans += status == UCS_INPROGRESS;
    finish(rig);
    assert_int_equal(send_small(one, SMALL), UCS_OK);
    cw_subject.transport->packets->batch(one->conn, CW_BATCH_END);
    finish(rig);
}
