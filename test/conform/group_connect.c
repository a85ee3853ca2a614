/* SPDX-License-Identifier: BSD-3-Clause */
/* Dial, accept, hello, reply, refusal, and dials that lead nowhere. */
#include <string.h>

#include "os/clock.h"
#include "rig.h"
#include "stream.h"

static const size_t lengths[] = {0, 1, 7, 8, 31, 64, 255, CW_HELLO_MAX};
enum { NUM_LENGTHS = sizeof(lengths) / sizeof(lengths[0]), MANY = 200 };

/* The end that dialled and what became of it. */
static struct cw_end *dial_and_wait(struct cw_rig *rig, const struct cw_bytes *hello)
{
    struct cw_end *end = cw_end_dial(rig->a, rig->b, hello);

    cw_rig_wait(rig, &end->opened, 1, "`opened`");
    return end;
}

static void check_reply(const struct cw_end *end, const struct cw_bytes *reply)
{
    cw_check(end->reply.length == reply->length, "a reply of %zu bytes arrives with %zu", reply->length,
             end->reply.length);
    cw_check(memcmp(end->reply.data, reply->data, reply->length) == 0, "a reply of %zu bytes is damaged",
             reply->length);
}

RIG_TEST(test_hello_and_reply)
{
    struct cw_bytes hello;
    struct cw_end *end;
    size_t i, j;

    for (i = 0; i < NUM_LENGTHS; i++) {
        for (j = 0; j < NUM_LENGTHS; j++) {
            hello = cw_bytes_unique(lengths[i]);
            rig->b->reply = cw_bytes_unique(lengths[j]);
            end = dial_and_wait(rig, &hello);
            assert_int_equal(end->opened_status, UCS_OK);
            check_reply(end, &rig->b->reply);
            cw_check(rig->b->last_accepted->hello.length == hello.length &&
                     memcmp(rig->b->last_accepted->hello.data, hello.data, hello.length) == 0,
                     "a hello of %zu bytes is damaged", hello.length);
        }
    }
    assert_int_equal(rig->b->accepted, NUM_LENGTHS * NUM_LENGTHS);
    cw_check(rig->b->reply_max >= CW_HELLO_MAX, "only %zu bytes are offered for a reply", rig->b->reply_max);
}

RIG_TEST(test_refusal)
{
    struct cw_bytes hello;
    struct cw_end *end;
    size_t i;

    for (i = 0; i < NUM_LENGTHS; i++) {
        rig->b->accept_status = (i % 2 == 0) ? UCS_ERR_REJECTED : UCS_ERR_NO_MEMORY;
        rig->b->reply = cw_bytes_unique(lengths[i]);
        hello = cw_bytes_unique(20);
        end = dial_and_wait(rig, &hello);
        cw_check(end->opened_status == UCS_ERR_REJECTED, "a refused dial ends with status %d", end->opened_status);
        check_reply(end, &rig->b->reply);
        cw_end_close(end);
    }
    cw_rig_settle(rig);
    rig->b->accept_status = UCS_OK;
    end = dial_and_wait(rig, &hello);
    assert_int_equal(end->opened_status, UCS_OK);
}

/* A refused connection that nobody closes disturbs nothing. */
RIG_TEST(test_refused_stays_quiet)
{
    struct cw_bytes hello = cw_bytes_unique(20);
    struct cw_end *refused, *one, *other;
    unsigned upcalls;

    rig->b->accept_status = UCS_ERR_REJECTED;
    refused = dial_and_wait(rig, &hello);
    rig->b->accept_status = UCS_OK;
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_rig_settle(rig);
    upcalls = rig->a->upcalls + rig->b->upcalls;
    cw_rig_settle(rig);
    assert_int_equal(rig->a->upcalls + rig->b->upcalls, upcalls);
    assert_int_equal(refused->closed, 0);
}

static void send_in_upcall(struct cw_end *end)
{
    cw_stream_push(end, 64);
}

/* Sends from inside accept and from inside opened; what the acceptor sends arrives after `opened`. */
RIG_TEST(test_send_in_accept_and_opened)
{
    struct cw_stream from_a, to_b, from_b, to_a;
    struct cw_bytes hello = cw_bytes_unique(9);
    struct cw_end *end, *other;

    cw_stream_init(&from_a, 11, rig->a, 40);
    cw_stream_init(&to_b, 11, rig->a, 40);
    cw_stream_init(&from_b, 12, rig->b, 40);
    cw_stream_init(&to_a, 12, rig->b, 40);
    rig->b->on_accept = send_in_upcall;
    rig->b->accept_sending = &from_b;
    rig->b->accept_receiving = &to_b;
    end = cw_end_dial(rig->a, rig->b, &hello);
    end->sending = &from_a;
    end->receiving = &to_a;
    end->on_opened = send_in_upcall;
    cw_rig_wait(rig, &end->opened, 1, "`opened`");
    other = cw_end_find(rig->b, &hello);
    assert_non_null(other);
    cw_stream_run(rig, end, other);
}

RIG_TEST(test_dial_never_waits)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_end *ends[20];
    uint64_t start;
    unsigned i;

    start = cw_clock_ns();
    for (i = 0; i < 20; i++) {
        ends[i] = cw_end_dial(rig->a, rig->b, &hello);
    }
    cw_check(cw_clock_ns() - start < 1000000000u, "20 dials to a side that does nothing took more than a second");
    for (i = 0; i < 20; i++) {
        assert_int_equal(ends[i]->opened, 0);
    }
    for (i = 0; i < 20; i++) {
        cw_rig_wait(rig, &ends[i]->opened, 1, "`opened`");
        assert_int_equal(ends[i]->opened_status, UCS_OK);
    }
}

static void wait_for_failure(struct cw_rig *rig, struct cw_end *end)
{
    cw_rig_wait(rig, &end->opened, 1, "`opened` with an error");
    cw_check(end->opened_status != UCS_OK && end->opened_status != UCS_ERR_REJECTED,
             "a dial to nobody ends with status %d", end->opened_status);
    cw_end_close(end);
}

RIG_TEST(test_dial_to_closed_interface)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    const char *why = NULL;
    struct cw_side gone;
    struct cw_end *end;
    ucs_status_t status;
    int i;

    cw_side_open(&gone);
    cw_side_close(&gone);
    if (!cw_iface_reachable(rig->a->iface, gone.address, gone.address_length, &why)) {
        return; /* seen without dialling: as good */
    }
    for (i = 0; i < 3; i++) {
        end = cw_end_dial_raw(rig->a, gone.address, gone.address_length, &hello, &status);
        if (end != NULL) {
            wait_for_failure(rig, end);
        }
    }
}

/* The listener goes away with the dial in its queue. */
RIG_TEST(test_listener_closes_unanswered)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_end *end;

    cw_rig_need_two(rig);
    end = cw_end_dial(rig->a, rig->b, &hello);
    cw_side_progress(rig->a);
    cw_side_close(rig->b);
    wait_for_failure(rig, end);
}

RIG_TEST(test_dialler_gives_up)
{
    struct cw_bytes hello;
    struct cw_end *end, *one, *other;
    unsigned i, j;

    for (i = 0; i < 30; i++) {
        hello = cw_bytes_unique(16);
        end = cw_end_dial(rig->a, rig->b, &hello);
        for (j = 0; j < i % 5; j++) {
            cw_side_progress((j % 2 == 0) ? rig->a : rig->b);
        }
        cw_end_close(end);
    }
    cw_rig_settle(rig);
    cw_list_for_each(end, &rig->b->ends, struct cw_end, link) {
        cw_check(!end->is_acceptor || end->conn == NULL || end->closed,
                 "an acceptor does not learn that the dialler left");
    }
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
}

RIG_TEST(test_both_dial)
{
    struct cw_bytes hellos[2] = {cw_bytes_unique(16), cw_bytes_unique(16)};
    struct cw_end *one = cw_end_dial(rig->a, rig->b, &hellos[0]);
    struct cw_end *other = cw_end_dial(rig->b, rig->a, &hellos[1]);

    cw_rig_wait(rig, &one->opened, 1, "`opened` of the first");
    cw_rig_wait(rig, &other->opened, 1, "`opened` of the second");
    assert_int_equal(one->opened_status, UCS_OK);
    assert_int_equal(other->opened_status, UCS_OK);
    assert_non_null(cw_end_find(rig->b, &hellos[0]));
    assert_non_null(cw_end_find(rig->a, &hellos[1]));
}

static void dial_back(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    struct cw_bytes hello = cw_bytes_unique(24);

    (void)id;
    (void)data;
    (void)length;
    if (end->arg == NULL) {
        end->arg = cw_end_dial(end->side, end->peer_side, &hello);
    }
}

RIG_TEST(test_dial_in_upcall)
{
    struct cw_stream sent, seen;
    struct cw_end *one, *other, *back;

    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    cw_stream_init(&sent, 5, rig->a, 3);
    cw_stream_init(&seen, 5, rig->a, 3);
    one->sending = &sent;
    other->receiving = &seen;
    other->on_packet = dial_back;
    other->peer_side = rig->a;
    cw_stream_run(rig, one, other);
    back = other->arg;
    assert_non_null(back);
    cw_rig_wait(rig, &back->opened, 1, "`opened` of a dial made inside an upcall");
    assert_int_equal(back->opened_status, UCS_OK);
}

static void watch(struct cw_end *end)
{
    if (end->conn != NULL && cw_subject.transport->connect->watch != NULL) {
        cw_subject.transport->connect->watch(end->conn);
    }
}

/* Watching, whenever it begins and however often it is asked for, changes nothing as long as both live. */
RIG_TEST(test_watch)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_end *one = cw_end_dial(rig->a, rig->b, &hello), *other;
    struct cw_stream sent, seen;

    watch(one);
    cw_rig_wait(rig, &one->opened, 1, "`opened` of a watched dial");
    assert_int_equal(one->opened_status, UCS_OK);
    other = cw_end_find(rig->b, &hello);
    assert_non_null(other);
    watch(one);
    watch(other);
    cw_stream_init(&sent, 6, rig->a, 200);
    cw_stream_init(&seen, 6, rig->a, 200);
    one->sending = &sent;
    other->receiving = &seen;
    cw_stream_run(rig, one, other);
    watch(other);
    cw_end_close(one);
    cw_rig_wait(rig, &other->closed, 1, "`closed` of a watched connection");
    assert_int_equal(other->closed_status, UCS_ERR_CONNECTION_RESET);
}

/* Many connections between two interfaces: no packet strays, each connection keeps its order. */
RIG_TEST(test_many_connections)
{
    static struct cw_stream streams[MANY][4];
    struct cw_end *ends[MANY][2];
    unsigned i;

    for (i = 0; i < MANY; i++) {
        cw_rig_connect(rig, (i % 2 == 0) ? rig->a : rig->b, (i % 2 == 0) ? rig->b : rig->a, &ends[i][0], &ends[i][1]);
        cw_stream_init(&streams[i][0], 100 + i, ends[i][0]->side, 50);
        cw_stream_init(&streams[i][1], 100 + i, ends[i][0]->side, 50);
        cw_stream_init(&streams[i][2], 500 + i, ends[i][1]->side, 50);
        cw_stream_init(&streams[i][3], 500 + i, ends[i][1]->side, 50);
        ends[i][0]->sending = &streams[i][0];
        ends[i][1]->receiving = &streams[i][1];
        ends[i][1]->sending = &streams[i][2];
        ends[i][0]->receiving = &streams[i][3];
    }
    for (i = 0; i < 10 * MANY; i++) {
        cw_stream_push(ends[i * 7 % MANY][i % 2], 3);
        cw_stream_push(ends[i * 11 % MANY][(i + 1) % 2], 2);
        if (i % 8 == 0) {
            cw_rig_progress(rig);
        }
    }
    for (i = 0; i < MANY; i++) {
        cw_stream_run(rig, ends[i][0], ends[i][1]);
    }
    for (i = 0; i < MANY; i++) {
        cw_end_close(ends[i][i / 2 % 2]);
    }
    for (i = 0; i < MANY; i++) {
        cw_rig_wait(rig, &ends[i][1 - i / 2 % 2]->closed, 1, "`closed` of one of many connections");
    }
}
