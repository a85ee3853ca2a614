/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue pair for datagrams takes bytes of every host: garbage, hellos with a few wrong bytes, hellos, replies and
 * cancels in the name of others. None in the name of others ends a connection or begins one, and connections still open
 * and carry packets afterwards.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rig.h"
#include "transport/verbs/verbs_conn.h"

static struct cw_verbs_iface *verbs(const struct cw_side *side)
{
    return cw_container_of(side->iface, struct cw_verbs_iface, super);
}

static void pair_of(const struct cw_side *from, const struct cw_side *to, unsigned *gid_from, unsigned *gid_to)
{
    cw_check(cw_verbs_pair(&verbs(from)->local, &verbs(to)->local, gid_from, gid_to) == NULL, "the two have no way");
}

static void send_to(struct cw_side *from, const struct cw_side *to, struct cw_verbs_datagram *datagram)
{
    unsigned gid_from, gid_to;

    pair_of(from, to, &gid_from, &gid_to);
    datagram->mtu      = verbs(from)->local.mtu;
    datagram->gid_from = gid_from;
    datagram->gid_to   = gid_to;
    cw_verbs_ud_send(verbs(from), &verbs(to)->local, gid_from, gid_to, datagram);
}

/* Any bytes, from the queue pair for datagrams of `from`, which has sent something to the same address before. */
static void send_bytes(struct cw_side *from, const struct cw_side *to, const void *bytes, size_t length)
{
    struct cw_verbs_iface *iface = verbs(from);
    struct ibv_sge sge           = {.addr = (uintptr_t)bytes, .length = (uint32_t)length};
    struct ibv_send_wr *bad, wr  = {.wr_id      = CW_VERBS_UD_WR,
                                    .sg_list    = &sge,
                                    .num_sge    = length > 0,
                                    .opcode     = IBV_WR_SEND,
                                    .send_flags = IBV_SEND_SIGNALED};
    struct ibv_mr *mr            = ibv_reg_mr(iface->pd, (void *)bytes, 4096, IBV_ACCESS_LOCAL_WRITE);

    cw_check(mr != NULL, "memory cannot be registered");
    sge.lkey             = mr->lkey;
    wr.wr.ud.ah          = iface->handles[0].handle;
    wr.wr.ud.remote_qpn  = verbs(to)->local.qp;
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
    return (struct cw_verbs_datagram){.kind    = CW_VERBS_HELLO,
                                      .key     = verbs(to)->local.key,
                                      .from    = 77,
                                      .reads   = 1,
                                      .qp      = 1000,
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

static void test_garbage(void **state)
{
    struct cw_rig *rig             = *state;
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
            memcpy(bytes, "CW\1\1", 4);
        }
        send_bytes(rig->a, rig->b, bytes, length);
        cw_rig_progress(rig);
    }
    cw_rig_settle(rig);
    cw_check(rig->b->accepted == accepted, "garbage is accepted");
    still_serves(rig);
}

/* Right in all but a byte or two. What is accepted by chance costs a connection that nobody uses. */
static void test_changed_hellos(void **state)
{
    struct cw_rig *rig             = *state;
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
static void test_in_the_name_of_others(void **state)
{
    struct cw_rig *rig = *state;
    static struct cw_side third;
    struct cw_verbs_datagram hello = hello_of(rig->a, rig->b), cancel = {.kind = CW_VERBS_CANCEL}, reply = {0};
    struct cw_end *ends[2];
    unsigned accepted;

    cw_side_open(&third);
    cw_rig_connect(rig, rig->a, rig->b, &ends[0], &ends[1]);
    cw_rig_settle(rig);
    accepted = rig->b->accepted;
    send_to(&third, rig->b, &hello);
    cancel.key  = verbs(rig->b)->local.key;
    cancel.to   = cw_verbs_conn_of(ends[1]->conn)->id;
    cancel.from = cw_verbs_conn_of(ends[1]->conn)->peer_id;
    send_to(&third, rig->b, &cancel);
    reply = (struct cw_verbs_datagram){.kind = CW_VERBS_REPLY,
                                       .key  = verbs(rig->a)->local.key,
                                       .to   = cw_verbs_conn_of(ends[0]->conn)->id,
                                       .from = 3,
                                       .qp   = 1000};
    send_to(&third, rig->a, &reply);
    (void)cw_side_progress(&third);
    cw_rig_settle(rig);
    cw_check(rig->b->accepted == accepted, "a hello in the name of another one is accepted");
    cw_check(ends[0]->closed == 0 && ends[1]->closed == 0, "a datagram of a stranger ends a connection");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_changed_hellos),
        cmocka_unit_test(test_in_the_name_of_others),
    };

    return cw_rig_run("forged", tests, sizeof(tests) / sizeof(tests[0]));
}
