/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots `keep` and `give_back`: packets that stay where they arrived. Every packet has a pattern of its own, which
 * the test checks again after all others have come.
 */
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "stream.h"

enum { LENGTH = 600, MOST = 20000, POISON = 0xee };

static struct {
    void *token;
    const char *data;
    uint64_t number;
} retained[MOST];
static unsigned num_retained, num_seen, wanted;
static uint64_t next_sent, next_seen;
static size_t packet_length;

static int is_whole(const char *data, uint64_t number)
{
    char expected[LENGTH];

    cw_pattern_fill(expected, packet_length, number + 1);
    return memcmp(expected, data, packet_length) == 0;
}

/* Keeps what it may, as long as `wanted` allows it, and writes to the room before it. */
static void on_packet(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    const size_t space = end->side->iface->limits.keep_space;
    void *token;

    (void)id;
    if (!cw_check(length == packet_length, "a packet came with %zu bytes", length)) {
        return;
    }
    cw_check(is_whole(data, next_seen), "packet %llu is damaged", (unsigned long long)next_seen);
    if (num_retained < wanted && num_retained < MOST) {
        token = cw_subject.transport->packets->keep(end->conn, data);
        if (token != NULL) {
            memset((char *)(uintptr_t)data - space, POISON, space);
            cw_check(is_whole(data, next_seen), "the room before a packet reaches into it");
            retained[num_retained].token = token;
            retained[num_retained].data = data;
            retained[num_retained++].number = next_seen;
        }
    }
    next_seen++;
    num_seen++;
}

static size_t pack(void *dest, size_t max, void *arg)
{
    cw_pattern_fill(dest, max, *(uint64_t *)arg + 1);
    return max;
}

static void begin(struct cw_rig *rig, struct cw_end **one, struct cw_end **other)
{
    cw_rig_need_two(rig);
    cw_rig_need(cw_subject.transport->packets->keep != NULL, "keep");
    num_retained = num_seen = 0;
    next_sent = next_seen = 0;
    packet_length = rig->a->iface->limits.max_bcopy;
    packet_length = (packet_length < LENGTH) ? packet_length : LENGTH;
    cw_rig_connect(rig, rig->a, rig->b, one, other);
    (*other)->on_packet = on_packet;
}

static void send_all(struct cw_rig *rig, struct cw_end *end, unsigned count)
{
    const uint64_t target = next_sent + count;
    uint64_t deadline = cw_deadline();
    ucs_status_t status;

    while (next_sent < target) {
        status = cw_subject.transport->packets->send_bcopy(end->conn, 7, packet_length, pack, &next_sent);
        cw_check(status == UCS_OK || status == CW_AGAIN, "send_bcopy answers %d", status);
        next_sent += status == UCS_OK;
        if (status == CW_AGAIN || next_sent % 16 == 0) {
            cw_rig_progress(rig);
        }
        deadline = (num_seen % 64 == 0) ? cw_deadline() : deadline;
        cw_deadline_check(deadline, "packets to be taken");
    }
    cw_rig_wait(rig, &num_seen, (unsigned)next_sent, "all packets");
}

static void give_back_all(struct cw_iface *iface)
{
    while (num_retained > 0) {
        num_retained--;
        cw_check(is_whole(retained[num_retained].data, retained[num_retained].number), "kept packet %llu has changed",
                 (unsigned long long)retained[num_retained].number);
        cw_subject.transport->packets->give_back(iface, retained[num_retained].token);
    }
}

RIG_TEST(test_a_retained_packet_stays)
{
    struct cw_end *one, *other;

    begin(rig, &one, &other);
    wanted = 3;
    send_all(rig, one, 200);
    assert_int_equal(num_retained, 3);
    give_back_all(rig->b->iface);
    send_all(rig, one, 50);
    assert_int_equal(num_retained, 3);
    give_back_all(rig->b->iface);
}

/* A receiver that keeps all it can is refused in the end, and starves neither this connection nor another one. */
RIG_TEST(test_who_keeps_all_starves_nobody)
{
    struct cw_end *one, *other, *third, *fourth;
    unsigned most;

    begin(rig, &one, &other);
    cw_rig_connect(rig, rig->a, rig->b, &third, &fourth);
    fourth->on_packet = on_packet;
    wanted = MOST;
    while (num_retained == num_seen && num_seen < MOST) {
        send_all(rig, one, 16);
    }
    assert_true(num_retained < num_seen);
    most = num_retained;
    wanted = 0;
    send_all(rig, third, 300);
    send_all(rig, one, 300);
    assert_int_equal(num_retained, most);
    give_back_all(rig->b->iface);
    wanted = 1;
    send_all(rig, one, 1);
    assert_int_equal(num_retained, 1);
    give_back_all(rig->b->iface);
}

RIG_TEST(test_retained_beyond_the_connection)
{
    struct cw_end *one, *other;

    begin(rig, &one, &other);
    wanted = 5;
    send_all(rig, one, 10);
    cw_end_close(one);
    cw_end_close(other);
    cw_rig_settle(rig);
    cw_rig_connect(rig, rig->a, rig->b, &one, &other);
    other->on_packet = on_packet;
    send_all(rig, one, 100);
    assert_int_equal(num_retained, 5);
    give_back_all(rig->b->iface);
}
