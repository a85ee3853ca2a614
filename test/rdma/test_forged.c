/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair for datagrams takes bytes of every host: garbage, hellos with a few wrong bytes, hellos, replies and
 * cancels in the name of others. None in the name of others ends a connection or begins one, and connections still open
 * and carry packets afterwards. Addresses where nobody is, a peer that posts no receives and a device that is gone end
 * what concerns them, with a reason; receives that run out for a while are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "os/clock.h"
#include "rig.h"
#include "transport/verbs/verbs_conn.h"

static struct cw_verbs_iface *verbs(const struct cw_side *side)
{
    return cw_container_of(side->iface, struct cw_verbs_iface, super);
}

static void pair_of(const struct cw_side *from, const struct cw_side *to, unsigned *gid_from, unsigned *gid_to)
{
    cw_check(cw_verbs_pair(&verbs(from)->local, &verbs(to)->local, gid_from, gid_to) == NULL, "the two have no path");
}

static void send_to(struct cw_side *from, const struct cw_side *to, struct cw_verbs_datagram *datagram)
{
    unsigned gid_from, gid_to;

    pair_of(from, to, &gid_from, &gid_to);
    datagram->mtu = verbs(from)->local.mtu;
    datagram->gid_from = gid_from;
    datagram->gid_to = gid_to;
    cw_verbs_ud_send(verbs(from), &verbs(to)->local, gid_from, gid_to, datagram);
}

/* Any bytes, from the queue pair for datagrams of `from`, which has sent something to the same address before. */
static void send_bytes(struct cw_side *from, const struct cw_side *to, const void *bytes, size_t length)
{
    struct cw_verbs_iface *iface = verbs(from);
    struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = (uint32_t)length};
    struct ibv_send_wr *bad, wr = {.wr_id = CW_VERBS_UD_WR,
                              .sg_list = &sge,
                              .num_sge = length > 0,
                              .opcode = IBV_WR_SEND,
                              .send_flags = IBV_SEND_SIGNALED};
    struct ibv_mr *mr = ibv_reg_mr(iface->pd, (void *)bytes, 4096, IBV_ACCESS_LOCAL_WRITE);

    cw_check(mr != NULL, "memory cannot be registered");
    sge.lkey = mr->lkey;
    wr.wr.ud.ah = iface->handles[0].handle;
    wr.wr.ud.remote_qpn = verbs(to)->local.qp;
    wr.wr.ud.remote_qkey = 0x4357;
    cw_check(ibv_post_send(iface->ud, &wr, &bad) == 0, "a datagram cannot be posted");
    iface->ud_sending++;
    while (iface->ud_sending > 0) {
        (void)cw_side_progress(from);
    }
    (void)ibv_dereg_mr(mr);
}

/* A hello of that side as it would send it. */
static struct cw_verbs_datagram hello_of(const struct cw_side *side, const struct cw_side *to)
{
    return (struct cw_verbs_datagram){.kind = CW_VERBS_HELLO,
                                   .key = verbs(to)->local.key,
                                   .from = 77,
                                   .reads = 1,
                                   .qp = 1000,
                                   .address = verbs(side)->local};
}

static size_t pack_word(void *dest, size_t max, void *arg)
{
    (void)max;
    memcpy(dest, arg, 8);
    return 8;
}

/* A new connection opens, and a packet passes. */
static void still_serves(struct cw_rig *rig)
{
    uint64_t word = 5;
    struct cw_end *ends[2];

    cw_rig_connect(rig, rig->a, rig->b, &ends[0], &ends[1]);
    cw_check(cw_subject.transport->packets->send_bcopy(ends[0]->conn, 7, 8, pack_word, &word) == UCS_OK,
             "a packet is not taken");
    cw_rig_wait(rig, &ends[1]->packets, 1, "a packet after the bad datagrams");
    cw_end_close(ends[0]);
    cw_end_close(ends[1]);
}

RIG_TEST(test_garbage)
{
    struct cw_verbs_datagram hello = hello_of(rig->a, rig->b);
    static uint8_t bytes[4096];
    unsigned accepted;

    hello.key ^= 1; /* a wrong key; and a handle for the address */
    send_to(rig->a, rig->b, &hello);
    cw_rig_settle(rig);
    cw_check(rig->b->accepted == 0, "a hello with a wrong key is accepted");
    accepted = rig->b->accepted;
    for (unsigned i = 0; i < 200; i++) {
        const size_t length = (size_t)(cw_hash_mix(i) % CW_VERBS_DATAGRAM_MAX);

        for (size_t k = 0; k < length; k++) {
            bytes[k] = (uint8_t)cw_hash_mix(1000 * (uint64_t)i + k);
        }
        if (i % 2 == 1) { /* as if of this library */
            memcpy(bytes, "CW\2\1", 4);
        }
        send_bytes(rig->a, rig->b, bytes, length);
        cw_rig_progress(rig);
    }
    cw_rig_settle(rig);
    cw_check(rig->b->accepted == accepted, "garbage is accepted");
    still_serves(rig);
}

/* Right in all but a byte or two. What is accepted by chance costs a connection that nobody uses. */
RIG_TEST(test_changed_hellos)
{
    struct cw_verbs_datagram hello = hello_of(rig->a, rig->b);
    unsigned gid_from, gid_to;
    static uint8_t bytes[4096];
    uint8_t good[CW_VERBS_DATAGRAM_MAX];
    size_t length;

    hello.key ^= 1;
    send_to(rig->a, rig->b, &hello);
    cw_rig_settle(rig);
    hello.key ^= 1;
    pair_of(rig->a, rig->b, &gid_from, &gid_to);
    length = cw_verbs_datagram_encode(&hello, good);
    for (unsigned i = 0; i < 60; i++) {
        memcpy(bytes, good, length);
        for (unsigned k = 0; k <= i % 2; k++) {
            bytes[12 + cw_hash_mix(2 * i + k) % (length - 12)] ^= (uint8_t)(1u << i % 8);
        }
        send_bytes(rig->a, rig->b, bytes, length);
        cw_rig_progress(rig);
    }
    cw_rig_settle(rig);
    still_serves(rig);
}

/* A third interface speaks in the name of side a, whose key, ids and address it knows. */
RIG_TEST(test_in_the_name_of_others)
{
    static struct cw_side third;
    struct cw_verbs_datagram hello = hello_of(rig->a, rig->b), cancel = {.kind = CW_VERBS_CANCEL}, reply = {0};
    struct cw_end *ends[2];
    unsigned accepted;

    cw_side_open(&third);
    cw_rig_connect(rig, rig->a, rig->b, &ends[0], &ends[1]);
    cw_rig_settle(rig);
    accepted = rig->b->accepted;
    send_to(&third, rig->b, &hello);
    cancel.key = verbs(rig->b)->local.key;
    cancel.to = cw_verbs_conn_of(ends[1]->conn)->id;
    cancel.from = cw_verbs_conn_of(ends[1]->conn)->peer_id;
    send_to(&third, rig->b, &cancel);
    reply = (struct cw_verbs_datagram){.kind = CW_VERBS_REPLY,
                                       .key = verbs(rig->a)->local.key,
                                       .to = cw_verbs_conn_of(ends[0]->conn)->id,
                                       .from = 3,
                                       .qp = 1000};
    send_to(&third, rig->a, &reply);
    (void)cw_side_progress(&third);
    cw_rig_settle(rig);
    cw_check(rig->b->accepted == accepted, "a hello in the name of another one is accepted");
    cw_check(ends[0]->closed == 0 && ends[1]->closed == 0, "a datagram of an unauthenticated peer ends a connection");
    cancel.from++;
    send_to(rig->a, rig->b, &cancel);
    cancel.from--;
    cancel.to++;
    send_to(rig->a, rig->b, &cancel);
    cancel.to = 0;
    send_to(rig->a, rig->b, &cancel);
    cw_rig_settle(rig);
    cw_check(ends[1]->closed == 0, "a cancel that does not name both ends closes a connection");
    cancel.to = cw_verbs_conn_of(ends[1]->conn)->id;
    send_to(rig->a, rig->b, &cancel);
    cw_rig_wait(rig, &ends[1]->closed, 1, "`closed` after a cancel of the peer");
    cw_end_close(ends[0]);
    cw_end_close(ends[1]);
    still_serves(rig);
    cw_side_close(&third);
}

/* ---- peers and devices that are not there ---- */

/* No step of progress waits, not even for the neighbour of an address. */
static void wait_in_small_steps(struct cw_rig *rig, const struct cw_end *end)
{
    const uint64_t deadline = cw_deadline();
    uint64_t before, longest = 0;

    while (end->opened == 0) {
        before = cw_clock_ns();
        (void)cw_side_progress(rig->a);
        before = cw_clock_ns() - before;
        longest = (before > longest) ? before : longest;
        cw_deadline_check(deadline, "the end of a dial to nobody");
    }
    cw_check(longest < UINT64_C(500000000), "a step of progress takes %u ms", (unsigned)(longest / 1000000));
}

static void expect_dial_fails(struct cw_rig *rig, const struct cw_verbs_address *address, const char *what)
{
    uint8_t bytes[CW_VERBS_ADDRESS_MAX];
    const size_t length = cw_verbs_address_encode(address, bytes);
    const struct cw_bytes hello = cw_bytes_unique(20);
    ucs_status_t status;
    struct cw_end *end;

    end = cw_end_dial_raw(rig->a, bytes, length, &hello, &status);
    if (end == NULL) {
        cw_check(status == UCS_ERR_UNREACHABLE, "a dial to %s answers %d", what, status);
        return;
    }
    wait_in_small_steps(rig, end);
    cw_check(end->opened_status == UCS_ERR_UNREACHABLE, "a dial to %s ends with %d", what, end->opened_status);
    cw_check(end->conn->end != NULL && strstr(end->conn->end, "RDMA connection") != NULL, "a dial to %s has no reason",
             what);
    cw_end_close(end);
}

RIG_TEST(test_wrong_addresses)
{
    struct cw_verbs_address wrong = verbs(rig->b)->local;
    unsigned i;

    for (i = 0; i < wrong.num_gids; i++) {
        wrong.gids[i][15] ^= 0x40; /* a host that is not there, on the wire that is */
    }
    expect_dial_fails(rig, &wrong, "a GID of nobody");
    wrong = verbs(rig->b)->local;
    for (i = 0; i < wrong.num_gids; i++) {
        memset(wrong.gids[i], 0, 16);
        memset(wrong.gids[i] + 10, 0xff, 2);
        memcpy(wrong.gids[i] + 12, (const uint8_t[4]){192, 0, 2, 1}, 4);
    }
    expect_dial_fails(rig, &wrong, "a GID without a route");
    wrong = verbs(rig->b)->local;
    wrong.qp ^= 0x1000;
    expect_dial_fails(rig, &wrong, "a queue pair that does not exist");
    wrong = verbs(rig->b)->local;
    wrong.lid = 77; /* says nothing on Ethernet */
    wrong.key ^= 1;
    expect_dial_fails(rig, &wrong, "the key of nobody");
    cw_rig_settle(rig);
    cw_check(rig->b->accepted == 0, "a dial to nobody is accepted");
    still_serves(rig);
}

/* The peer takes no completions and posts no receives any more: its device answers that it is not ready, and this side
 * sends again, until the peer has taken nothing for ten intervals. */
RIG_TEST(test_no_receives)
{
    uint64_t word = 5, deadline;
    struct cw_end *ends[2];
    ucs_status_t status = UCS_OK;
    unsigned sent = 0;

    cw_rig_connect(rig, rig->a, rig->b, &ends[0], &ends[1]);
    cw_rig_settle(rig);
    cw_subject.transport->connect->watch(ends[0]->conn);
    deadline = cw_deadline();
    while (ends[0]->closed == 0) {
        for (status = UCS_OK; status == UCS_OK && ends[0]->closed == 0; sent += status == UCS_OK) {
            status = cw_subject.transport->packets->send_bcopy(ends[0]->conn, 7, 8, pack_word, &word);
        }
        (void)cw_side_progress(rig->a);
        cw_deadline_check(deadline, "the end of a peer that posts no receives");
    }
    cw_check(sent >= verbs(rig->b)->settings.receives, "the peer has receives left after %u packets", sent);
    cw_check(ends[0]->closed_status == UCS_ERR_ENDPOINT_TIMEOUT, "a stuck peer ends with %d", ends[0]->closed_status);
    cw_check(ends[0]->conn->end != NULL && strstr(ends[0]->conn->end, "the peer processed nothing") != NULL,
             "a stuck peer has no reason");
    cw_end_close(ends[0]);
    cw_rig_settle(rig); /* the peer goes on, and learns of it */
    cw_end_close(ends[1]);
    still_serves(rig);
}

/* A peer whose program makes no progress for a while loses nothing, and counts that its receives ran out. */
RIG_TEST(test_receives_run_out)
{
    uint64_t word = 5, deadline;
    struct cw_end *ends[2];
    unsigned sent = 0, round;

    cw_rig_connect(rig, rig->a, rig->b, &ends[0], &ends[1]);
    cw_rig_settle(rig);
    cw_check(rig->b->receives_ran_out == 0, "receives ran out before there was a packet");
    for (round = 1; round <= 2; round++) {
        deadline = cw_deadline();
        while (sent < round * (verbs(rig->b)->settings.receives + 16)) { /* more wait in the queue of the sender */
            sent += cw_subject.transport->packets->send_bcopy(ends[0]->conn, 7, 8, pack_word, &word) == UCS_OK;
            (void)cw_side_progress(rig->a);
            cw_deadline_check(deadline, "packets for more receives than the peer has");
        }
        cw_rig_wait(rig, &ends[1]->packets, sent, "packets to a program that was away");
        cw_rig_wait(rig, &rig->b->receives_ran_out, round, "the count of receives that ran out");
        cw_rig_settle(rig);
    }
    cw_check(rig->a->receives_ran_out == 0, "receives ran out where no packet came");
    cw_end_close(ends[0]);
    cw_rig_settle(rig);
    cw_end_close(ends[1]);
}

/* Devices in software cannot be taken away while they are in use, so the event comes from the test. */
static struct cw_verbs_library broken;
static int num_events;

static int gone_event(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context;
    if (num_events == 0) {
        return -1;
    }
    num_events--;
    *event = (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL};
    return 0;
}

static void acknowledged(struct ibv_async_event *event)
{
    cw_check(event->event_type == IBV_EVENT_DEVICE_FATAL, "another event is acknowledged");
}

RIG_TEST(test_device_gone)
{
    struct cw_verbs_iface *iface = verbs(rig->a);
    const struct cw_bytes hello = cw_bytes_unique(20);
    uint64_t word = 5;
    struct cw_end *ends[2], *dialled;
    ucs_status_t status;
    const char *why = "";

    cw_rig_connect(rig, rig->a, rig->b, &ends[0], &ends[1]);
    dialled = cw_end_dial_raw(rig->a, rig->b->address, rig->b->address_length, &hello, &status);
    broken = *iface->lib;
    broken.get_async_event = gone_event;
    broken.ack_async_event = acknowledged;
    num_events = 1;
    iface->lib = &broken;
    (void)iface->async.ready(&iface->async, CW_POLL_READ);
    cw_check(num_events == 0, "the event of the device is not taken");
    cw_rig_wait(rig, &ends[0]->closed, 1, "`closed` of a device that is gone");
    cw_check(ends[0]->closed_status == UCS_ERR_IO_ERROR, "a device that is gone ends with %d", ends[0]->closed_status);
    cw_rig_wait(rig, &dialled->opened, 1, "the end of a dial by a device that is gone");
    cw_check(dialled->opened_status != UCS_OK, "a device that is gone opens a connection");
    status = cw_subject.transport->packets->send_bcopy(ends[0]->conn, 7, 8, pack_word, &word);
    cw_check(status == UCS_ERR_IO_ERROR, "a send by a device that is gone answers %d", status);
    cw_check(!cw_subject.transport->reachable(rig->a->iface, rig->b->address, rig->b->address_length, &why) &&
                 strstr(why, "gone") != NULL,
             "a device that is gone reaches a peer");
    cw_check(cw_end_dial_raw(rig->a, rig->b->address, rig->b->address_length, &hello, &status) == NULL,
             "a device that is gone dials");
    cw_end_close(ends[0]);
    cw_end_close(dialled);
    cw_end_close(ends[1]);
}
