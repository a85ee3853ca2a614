/* SPDX-License-Identifier: BSD-3-Clause */
/* Flush, and the end of connections: nothing that was taken is lost, everybody is notified once. */
#include <string.h>

#include "rig.h"
#include "stream.h"

static struct cw_stream sent, seen, back_sent, back_seen;

/* A connection with a stream from a to b. */
static void connect_stream(struct cw_rig *rig, uint64_t seed, uint64_t count, struct cw_end **one,
                           struct cw_end **other)
{
    cw_rig_connect(rig, rig->a, rig->b, one, other);
    cw_stream_init(&sent, seed, rig->a, count);
    cw_stream_init(&seen, seed, rig->a, count);
    (*one)->sending = &sent;
    (*other)->receiving = &seen;
}

static void connect_back(struct cw_rig *rig, uint64_t seed, uint64_t count, struct cw_end *one, struct cw_end *other)
{
    cw_stream_init(&back_sent, seed, rig->b, count);
    cw_stream_init(&back_seen, seed, rig->b, count);
    other->sending = &back_sent;
    one->receiving = &back_seen;
}

static void check_closed(struct cw_rig *rig, struct cw_end *end, ucs_status_t status)
{
    cw_rig_wait(rig, &end->closed, 1, "`closed`");
    cw_check(end->closed_status == status, "`closed` with status %d instead of %d", end->closed_status, status);
    cw_rig_settle(rig);
    assert_int_equal(end->closed, 1);
}

RIG_TEST(test_close_idle)
{
    struct cw_end *one, *other;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_end_close(one);
    check_closed(rig, other, UCS_ERR_CONNECTION_RESET);
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_end_close(other);
    check_closed(rig, one, UCS_ERR_CONNECTION_RESET);
}

/* Counts packets only: a canceled zcopy send may or may not have left, so contents are checked by number of arrival. */
static void close_behind(struct cw_rig *rig, uint64_t count, int with_zcopy)
{
    struct cw_end *one, *other;
    unsigned taken;

    connect_stream(rig, 300 + count, count, &one, &other);
    if (!with_zcopy) {
        sent.limits.max_zcopy = 0;
        seen.limits.max_zcopy = 0;
    }
    taken = cw_stream_push(one, (unsigned)count);
    cw_end_close(one);
    cw_check(sent.outstanding == 0, "%u completions did not come with close_conn", sent.outstanding);
    check_closed(rig, other, UCS_ERR_CONNECTION_RESET);
    if (sent.canceled == 0) {
        cw_check(seen.next == taken, "of %u packets taken before close_conn %llu came", taken,
                 (unsigned long long)seen.next);
    } else {
        cw_check(seen.next <= taken && seen.next + sent.canceled >= taken,
                 "of %u packets taken before close_conn (%u canceled) %llu came", taken, sent.canceled,
                 (unsigned long long)seen.next);
    }
}

RIG_TEST(test_close_after_few)
{
    uint64_t count;

    for (count = 1; count <= 40; count++) {
        close_behind(rig, count, 0);
    }
}

RIG_TEST(test_close_after_few_with_zcopy)
{
    uint64_t count;

    for (count = 1; count <= 40; count++) {
        close_behind(rig, count, 1);
    }
}

/* As much as is taken without the peer doing anything. */
RIG_TEST(test_close_when_full)
{
    close_behind(rig, 200000, 0);
}

RIG_TEST(test_close_when_full_with_zcopy)
{
    close_behind(rig, 200000, 1);
}

/* The closing side has unread packets of the peer: they are lost, what it sent is not. */
RIG_TEST(test_close_with_unread_packets)
{
    struct cw_end *one, *other;
    unsigned round, taken;

    for (round = 0; round < 20; round++) {
        connect_stream(rig, 40 + round, 30, &one, &other);
        sent.limits.max_zcopy = 0;
        seen.limits.max_zcopy = 0;
        connect_back(rig, 80 + round, 100, one, other);
        back_sent.limits.max_zcopy = 0;
        back_seen.limits.max_zcopy = 0;
        cw_stream_push(other, 100);
        cw_side_progress(rig->b);
        taken = cw_stream_push(one, 30);
        cw_end_close(one);
        check_closed(rig, other, UCS_ERR_CONNECTION_RESET);
        cw_check(seen.next == taken, "of %u packets %llu came: the receiver's own unread packets cost them", taken,
                 (unsigned long long)seen.next);
        cw_end_close(other);
    }
}

RIG_TEST(test_both_close_at_once)
{
    struct cw_end *one, *other;
    unsigned round;

    for (round = 0; round < 30; round++) {
        connect_stream(rig, round, 100, &one, &other);
        connect_back(rig, round, 100, one, other);
        cw_stream_push(one, round * 3);
        cw_stream_push(other, round * 2);
        if (round % 2 == 0) {
            cw_rig_progress(rig);
        }
        cw_end_close(one);
        cw_end_close(other);
        assert_int_equal(sent.outstanding + back_sent.outstanding, 0);
        cw_rig_settle(rig);
    }
}

static void ignore_completion(struct cw_completion *self, ucs_status_t status)
{
    (void)self;
    (void)status;
}

RIG_TEST(test_sends_after_closed)
{
    struct cw_completion completion = {.done = ignore_completion};
    struct cw_packet_plan plan = {.length = 16, .seed = 1, .iov_count = 1, .id = 1};
    struct cw_stream unused = {0};
    struct cw_end *one, *other;
    ucs_status_t status;
    int i;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_end_close(other);
    check_closed(rig, one, UCS_ERR_CONNECTION_RESET);
    for (i = 0; i < 3; i++) {
        plan.slot = CW_SLOT_BCOPY;
        status = cw_packet_send(one, &unused, &plan);
        cw_check(status == one->closed_status, "send_bcopy after `closed` answers %d", status);
        if (cw_subject.transport->packets->send_short != NULL && one->side->iface->limits.max_short >= 8) {
            plan.slot = CW_SLOT_SHORT;
            status = cw_packet_send(one, &unused, &plan);
            cw_check(status == one->closed_status, "send_short after `closed` answers %d", status);
        }
        if (cw_subject.transport->packets->send_zcopy != NULL && one->side->iface->limits.max_zcopy >= 16) {
            plan.slot = CW_SLOT_ZCOPY;
            status = cw_packet_send(one, &unused, &plan);
            cw_check(status == one->closed_status, "send_zcopy after `closed` answers %d", status);
        }
        if (cw_subject.transport->packets->flush != NULL) {
            status = cw_subject.transport->packets->flush(one->conn, &completion);
            cw_check(status != UCS_INPROGRESS, "a flush after `closed` answers UCS_INPROGRESS");
        }
        cw_rig_settle(rig);
    }
    assert_int_equal(one->closed, 1);
}

/* The peer goes while we send as fast as we can: an end comes, not a hang. */
RIG_TEST(test_peer_closes_while_we_send)
{
    struct cw_end *one, *other;
    uint64_t deadline;
    unsigned round;

    for (round = 0; round < 20; round++) {
        connect_stream(rig, round, 1000000, &one, &other);
        for (deadline = cw_deadline(); other->packets < 20 * round;) {
            cw_stream_push(one, 100);
            cw_rig_progress(rig);
            cw_deadline_check(deadline, "packets");
        }
        cw_stream_push(one, 100000);
        cw_end_close(other);
        for (deadline = cw_deadline(); !one->closed;) {
            cw_stream_push(one, 10);
            cw_rig_progress(rig);
            cw_deadline_check(deadline, "`closed` while sending");
        }
        cw_end_close(one);
        assert_int_equal(sent.outstanding, 0);
    }
}

struct flush {
    struct cw_completion completion;
    unsigned done;
    unsigned calls;
    unsigned outstanding_then;
    ucs_status_t status;
};

static void flush_done(struct cw_completion *completion, ucs_status_t status)
{
    struct flush *flush = cw_container_of(completion, struct flush, completion);

    cw_check(cw_rig_may_complete(), "the completion of a flush was called from inside another call");
    flush->calls++;
    flush->done = 1;
    flush->status = status;
    flush->outstanding_then = sent.outstanding;
}

/* A question changes nothing, and knows what a flush knows; and the interface knows whether it is worth asking. */
static void ask_flush(const struct cw_end *end, const struct flush *flush)
{
    const struct cw_transport_packets *subject = cw_subject.transport->packets;

    if (subject->flush != NULL) {
        cw_check(subject->has_unsent == NULL || subject->has_unsent(end->conn->iface) ||
                 subject->flush(end->conn, NULL) != UCS_INPROGRESS,
                 "a flush would wait, and the interface is flushed");
        cw_check((flush->status == UCS_OK && !flush->calls) ||
                 subject->flush(end->conn, NULL) == UCS_INPROGRESS || flush->done,
                 "a flush waits, and the question whether it would says no");
    }
}

static void start_flush(struct cw_rig *rig, struct cw_end *end, struct flush *flush)
{
    uint64_t deadline = cw_deadline();

    *flush = (struct flush){.completion = {.done = flush_done}};
    if (cw_subject.transport->packets->flush != NULL) {
        while ((flush->status = cw_subject.transport->packets->flush(end->conn, &flush->completion)) == CW_AGAIN) {
            cw_rig_progress(rig);
            cw_deadline_check(deadline, "a flush to be taken");
        }
    }
    cw_check(flush->status == UCS_OK || flush->status == UCS_INPROGRESS, "flush answers %d", flush->status);
    ask_flush(end, flush);
    cw_check(flush->calls == 0, "the completion of a flush came from inside flush");
    if (flush->status == UCS_OK) {
        flush->done = 1;
        flush->outstanding_then = sent.outstanding;
    }
}

RIG_TEST(test_flush)
{
    struct flush flush, second;
    struct cw_end *one, *other;
    unsigned round;

    connect_stream(rig, 9, 100000, &one, &other);
    start_flush(rig, one, &flush);
    cw_rig_wait(rig, &flush.done, 1, "a flush of nothing");
    for (round = 0; round < 100; round++) {
        cw_stream_push(one, 1 + round * 7 % 50);
        start_flush(rig, one, &flush);
        start_flush(rig, one, &second);
        cw_rig_wait(rig, &flush.done, 1, "a flush");
        cw_rig_wait(rig, &second.done, 1, "the second of two flushes");
        cw_check(flush.outstanding_then == 0, "a flush was done before %u zcopy sends were", flush.outstanding_then);
        cw_check(flush.status == UCS_OK && second.status == UCS_OK, "a flush ends with %d", flush.status);
    }
    cw_rig_settle(rig);
    cw_check(flush.calls <= 1 && second.calls <= 1, "the completion of a flush came twice");
    cw_check(cw_subject.transport->packets->has_unsent == NULL ||
                 !cw_subject.transport->packets->has_unsent(one->conn->iface),
             "everything came, and the interface is not flushed");
    cw_check(seen.next == sent.next, "%llu packets were flushed, %llu came", (unsigned long long)sent.next,
             (unsigned long long)seen.next);
}

/* After a flush the whole sending side may vanish. */
RIG_TEST(test_flush_then_close_all)
{
    struct flush flush;
    struct cw_end *one, *other;

    cw_rig_need_two(rig);
    connect_stream(rig, 19, 200, &one, &other);
    cw_stream_push(one, 200);
    start_flush(rig, one, &flush);
    cw_rig_wait(rig, &flush.done, 1, "a flush");
    cw_side_close(rig->a);
    check_closed(rig, other, UCS_ERR_CONNECTION_RESET);
    cw_check(seen.next == sent.next, "%llu packets were flushed, %llu came", (unsigned long long)sent.next,
             (unsigned long long)seen.next);
}

/* A few small packets are delivered even if connection and interface are closed behind them at once. */
RIG_TEST(test_send_then_close_all)
{
    struct cw_end *one, *other;
    unsigned taken;

    cw_rig_need_two(rig);
    connect_stream(rig, 23, 20, &one, &other);
    sent.limits.max_zcopy = 0;
    seen.limits.max_zcopy = 0;
    sent.limits.max_bcopy = 64;
    seen.limits.max_bcopy = 64;
    taken = cw_stream_push(one, 20);
    cw_side_close(rig->a);
    check_closed(rig, other, UCS_ERR_CONNECTION_RESET);
    cw_check(seen.next == taken, "of %u packets taken before the end %llu came", taken, (unsigned long long)seen.next);
}

/* An outstanding flush and outstanding zcopy sends end inside close_conn. */
RIG_TEST(test_close_cancels)
{
    struct flush flush;
    struct cw_end *one, *other;
    unsigned pushes;

    connect_stream(rig, 29, 200000, &one, &other);
    for (pushes = 0; pushes < 2000 && !sent.blocked; pushes++) {
        cw_stream_push(one, 100);
    }
    start_flush(rig, one, &flush);
    cw_end_close(one);
    assert_int_equal(sent.outstanding, 0);
    cw_check(flush.done, "the completion of a flush did not come with close_conn");
    cw_check(flush.calls == 0 || flush.status == UCS_ERR_CANCELED, "a flush ends with %d by close_conn", flush.status);
    check_closed(rig, other, UCS_ERR_CONNECTION_RESET);
}
