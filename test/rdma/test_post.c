/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device does with work requests: posting, completions, errors, receives that run out, order. The contract of a
 * transport stands on it (docs/why/verbs.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner.h"
#include "pair.h"

enum { MEMORY = 4 << 20, SIGNALED = IBV_SEND_SIGNALED };

static int good_wire(void **state)
{
    (void)state;
    pair_wire("good");
    return 0;
}

/* Receives from INIT on, sends from RTS on, and never in RESET. */
TEST(test_states)
{
    struct pair pair = {0};
    struct ibv_sge sge;
    struct ibv_recv_wr *bad_recv, recv = {.sg_list = &sge, .num_sge = 1};
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

    pair_skip_without_devices();
    cw_verbs_open(&pair.a, "rxe0", MEMORY, NULL);
    sge = (struct ibv_sge){.addr = (uintptr_t)pair.a.memory, .length = 8, .lkey = pair.a.mr->lkey};
    assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad_recv), 0);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), EINVAL);
    assert_int_equal(ibv_modify_qp(pair.a.qp, &reset, IBV_QP_STATE), 0);
    assert_int_equal(ibv_post_recv(pair.a.qp, &recv, &bad_recv), EINVAL);
    cw_verbs_close(&pair.a);
}

/* A full queue refuses, and names the first that it did not take; so does one whose inline data are too long. */
TEST(test_full)
{
    const struct cw_verbs_options options = {.sends = 16, .rnr_retries = 7};
    struct ibv_send_wr wrs[2], *bad = NULL;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct pair pair;
    struct ibv_wc wc;
    int posted = 0;

    pair_open(&pair, MEMORY, &options);
    assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_CAP, &init), 0);
    print_message("asked for 16 sends and 64 bytes inline: %u and %u\n", init.cap.max_send_wr,
                  init.cap.max_inline_data);
    while (posted < 1000 && pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED) == 0) {
        posted++;
    }
    print_message("%d sends fit\n", posted);
    assert_in_range(posted, 16, 999);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), ENOMEM);
    for (int i = 0; i < posted; i++) {
        cw_verbs_receive(&pair.b, 0, 0, 8);
    }
    for (int i = 0; i < posted; i++) {
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    }
    struct ibv_sge sge = {.addr = (uintptr_t)pair.a.memory, .length = 8, .lkey = pair.a.mr->lkey}, large = sge;
    large.length = 100000;
    memset(wrs, 0, sizeof(wrs));
    for (int i = 0; i < 2; i++) {
        wrs[i] = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE,
                                  .sg_list = i == 0 ? &sge : &large,
                                  .num_sge = 1,
                                  .next = i == 0 ? &wrs[1] : NULL,
                                  .send_flags = SIGNALED | IBV_SEND_INLINE};
        wrs[i].wr.rdma.remote_addr = pair.name_b.address;
        wrs[i].wr.rdma.rkey = pair.name_b.key;
    }
    assert_int_not_equal(ibv_post_send(pair.a.qp, wrs, &bad), 0);
    assert_ptr_equal(bad, &wrs[1]);
    /* The one before it is posted all the same. */
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_false(cw_verbs_wait(pair.a.send_cq, &wc, 50));
    pair_close(&pair);
}

/* What the device says it has, and a message that is longer. */
TEST(test_limits)
{
    struct ibv_port_attr port;
    struct pair pair;
    struct ibv_wc wc;
    uint32_t most = 0;

    pair_skip_without_devices();
    for (uint32_t asked = 64; asked <= 65536; asked *= 2) {
        struct cw_verbs_side side;
        cw_verbs_open(&side, "rxe0", 4096, NULL);
        side.options.inlined = asked;
        struct ibv_qp *qp = cw_verbs_new_qp(&side);
        if (qp != NULL) {
            most = asked;
            ibv_destroy_qp(qp);
        }
        cw_verbs_close(&side);
    }
    pair_open(&pair, (size_t)16 << 20, NULL);
    assert_int_equal(ibv_query_port(pair.a.context, 1, &port), 0);
    print_message("inline up to %u bytes (powers of two tried); messages of up to %u bytes\n", most, port.max_msg_sz);
    const int posted = pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, (size_t)port.max_msg_sz + 1, SIGNALED);
    if (posted != 0) {
        print_message("one byte more: %s\n", strerror(posted));
    } else {
        const bool completed = cw_verbs_wait(pair.a.send_cq, &wc, PAIR_LONG_MS);
        print_message("one byte more: %s\n", completed ? ibv_wc_status_str(wc.status) : "nothing");
    }
    assert_in_range(most, 64, 65536);
    pair_close(&pair);
}

/* Without any signalled request: whether places come back (they do here; other devices give them back only with a
 * completion, so the contract must not count on it). */
TEST(test_unsignalled)
{
    const struct cw_verbs_options options = {.sends = 16};
    struct pair pair;
    struct ibv_wc wc;
    int posted = 0;

    pair_open(&pair, MEMORY, &options);
    for (int round = 0; round < 50; round++) {
        while (posted < 2000 && pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 8, 0) == 0) {
            posted++;
        }
        usleep(5000);
    }
    print_message("%d unsignalled writes through a queue of 16 without a poll\n", posted);
    /* One signalled request completes after all before it; nothing else was reported. */
    pair.a.memory[100] = 1;
    while (pair_post(&pair, 7, IBV_WR_RDMA_WRITE, 100, 1, SIGNALED) != 0) {
        usleep(1000);
    }
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(pair.b.memory[100], 1);
    assert_false(cw_verbs_wait(pair.a.send_cq, &wc, 50));
    pair_close(&pair);
}

/* A wrong key: that request fails, those behind it are flushed, unsignalled ones too, receives as well; the target's
 * queue pair. */
TEST_WITH(test_error, NULL, good_wire)
{
    enum { BEHIND = 5, RECEIVES = 3 };
    struct pair pair;
    struct ibv_wc wc;
    int flushed = 0, received = 0;

    pair_open(&pair, MEMORY, NULL);
    for (int i = 0; i < RECEIVES; i++) {
        cw_verbs_receive(&pair.a, 100, 0, 8);
        cw_verbs_receive(&pair.b, 200, 0, 8);
    }
    pair_wire("delay 20"); /* so that all are posted before the first fails */
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    pair.name_b.key ^= 0x55;
    assert_int_equal(pair_post(&pair, 2, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    pair.name_b.key ^= 0x55;
    for (int i = 0; i < BEHIND; i++) {
        assert_int_equal(pair_post(&pair, (uint64_t)(10 + i), IBV_WR_RDMA_WRITE, 4096, 8, 0), 0);
    }
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(wc.wr_id, 2);
    while (cw_verbs_wait(pair.a.send_cq, &wc, 200)) {
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.wr_id, 10 + flushed);
        flushed++;
    }
    while (cw_verbs_wait(pair.a.recv_cq, &wc, 200)) {
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        received++;
    }
    print_message("a wrong key: %d of %d unsignalled behind it are flushed, %d of %d receives\n", flushed, BEHIND,
                  received, RECEIVES);
    print_message("the target's queue pair is in state %d, its receives: %d\n", pair_state(pair.b.qp),
                  cw_verbs_wait(pair.b.recv_cq, &wc, 200) ? (int)wc.status : -1);
    assert_int_equal(pair_state(pair.a.qp), IBV_QPS_ERR);
    assert_int_equal(flushed, BEHIND);
    assert_int_equal(received, RECEIVES);
    /* Posting goes on: each is flushed. */
    assert_int_equal(pair_post(&pair, 77, IBV_WR_RDMA_WRITE, 0, 8, 0), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.wr_id, 77);
    pair_close(&pair);
}

/* An error completion of what was carried out: the acknowledgement is lost, the bytes are there. */
TEST_WITH(test_error_of_what_was_done, NULL, good_wire)
{
    const struct cw_verbs_options options = {.timeout = 10, .retries = 1};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, &options);
    assert_int_equal(system("tc qdisc replace dev wire1 root netem loss 100%"), 0);
    pair.a.memory[0] = 42;
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 1, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(pair.b.memory[0], 42);
    pair_wire("good");
    pair_close(&pair);
}

/* Without a receive: counted tries end with an error, 7 waits until there is one. */
TEST(test_receiver_not_ready)
{
    struct cw_verbs_options options = {.rnr_retries = 2, .min_rnr = 14 /* 1.28 ms */};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, &options);
    double begin = pair_seconds();
    assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_RNR_RETRY_EXC_ERR);
    print_message("no receive: reported after %.4f s (2 retries, 1.28 ms each)\n", pair_seconds() - begin);
    pair_close(&pair);

    options.rnr_retries = 7;
    pair_open(&pair, MEMORY, &options);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), 0);
    assert_false(cw_verbs_wait(pair.a.send_cq, &wc, 300));
    /* All behind it waits as well, one-sided or not. */
    assert_int_equal(pair_post(&pair, 2, IBV_WR_RDMA_WRITE, 0, 8, SIGNALED), 0);
    assert_false(cw_verbs_wait(pair.a.send_cq, &wc, 100));
    begin = pair_seconds();
    cw_verbs_receive(&pair.b, 5, 0, 8);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    print_message("a receive at last: sent %.4f s later\n", pair_seconds() - begin);
    pair_close(&pair);
}

/* A receive that is too short is the sender's error and the receiver's. */
TEST(test_too_short)
{
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, NULL);
    cw_verbs_receive(&pair.b, 5, 0, 8);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 9, SIGNALED), 0);
    const enum ibv_wc_status sender = pair_await(pair.a.send_cq, &wc);
    const bool completed = cw_verbs_wait(pair.b.recv_cq, &wc, 500);
    print_message("9 bytes for a receive of 8: sender %d (%s), receiver %d\n", sender, ibv_wc_status_str(sender),
                  completed ? (int)wc.status : -1);
    /* Which error differs from device to device. */
    assert_int_not_equal(sender, IBV_WC_SUCCESS);
    assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
    assert_true(completed);
    pair_close(&pair);
}

/* A shared receive queue notifies once when it falls below its mark; the mark must be set again. */
TEST(test_low_water)
{
    const struct cw_verbs_options options = {.srq = 64, .rnr_retries = 7};
    struct ibv_srq_attr mark = {.srq_limit = 10}, now;
    struct ibv_async_event event;
    struct pair pair;
    struct ibv_wc wc;
    int early = 0;

    pair_open(&pair, MEMORY, &options);
    for (uint64_t i = 0; i < 32; i++) {
        cw_verbs_receive(&pair.b, i, 0, 8);
    }
    assert_int_equal(ibv_modify_srq(pair.b.srq, &mark, IBV_SRQ_LIMIT), 0);
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(pair_post(&pair, i, IBV_WR_SEND, 0, 8, SIGNALED), 0);
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
        assert_int_equal(pair_await(pair.b.recv_cq, &wc), IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(ibv_query_srq(pair.b.srq, &now), 0);
        early += now.srq_limit == 10;
    }
    assert_int_equal(ibv_get_async_event(pair.b.context, &event), 0);
    print_message("event %d (%s) once the mark was 0, after %d of 30 receives from 32, mark 10\n", event.event_type,
                  ibv_event_type_str(event.event_type), early);
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    ibv_ack_async_event(&event);
    /* It was reported once: the mark is gone. */
    assert_int_equal(ibv_query_srq(pair.b.srq, &now), 0);
    assert_int_equal(now.srq_limit, 0);
    pair_close(&pair);
}

/* Two queue pairs, one completion queue: the later request of one is done before the earlier of the other. */
TEST(test_order_between)
{
    struct pair pair, second;
    struct ibv_wc wc;
    bool early = false;

    pair_open(&pair, MEMORY, NULL);
    second = pair;
    second.a.qp = cw_verbs_new_qp(&second.a);
    second.b.qp = cw_verbs_new_qp(&second.b);
    assert_int_equal(cw_verbs_to_init(&second.a), 0);
    assert_int_equal(cw_verbs_to_init(&second.b), 0);
    cw_verbs_get_name(&second.a, &second.name_a);
    cw_verbs_get_name(&second.b, &second.name_b);
    cw_verbs_connect(&second.a, &second.name_b);
    cw_verbs_connect(&second.b, &second.name_a);
    for (int i = 0; i < 20 && !early; i++) {
        assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, MEMORY, SIGNALED), 0);
        assert_int_equal(pair_post(&second, 2, IBV_WR_RDMA_WRITE, 0, 8, SIGNALED), 0);
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
        early = wc.wr_id == 2;
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    }
    assert_true(early);
    ibv_destroy_qp(second.a.qp);
    ibv_destroy_qp(second.b.qp);
    pair_close(&pair);
}

/* How often a read of a large area has the bytes of a write that was posted behind it, fenced or not. */
static int read_then_write(struct pair *pair, unsigned flags, int rounds)
{
    const size_t length = 64 << 10, half = MEMORY / 2;
    struct ibv_wc wc;
    int passed = 0;

    for (int i = 0; i < rounds; i++) {
        memset(pair->b.memory, 1, length);
        memset(pair->a.memory, 0, length);
        memset(pair->a.memory + half, 2, length);
        struct ibv_sge sge = {
            .addr = (uintptr_t)pair->a.memory + half, .length = (uint32_t)length, .lkey = pair->a.mr->lkey};
        struct ibv_send_wr *bad;
        struct ibv_send_wr wr = {.wr_id = 2,
                            .opcode = IBV_WR_RDMA_WRITE,
                            .sg_list = &sge,
                            .num_sge = 1,
                            .send_flags = SIGNALED | flags,
                            .wr.rdma = {.remote_addr = pair->name_b.address, .rkey = pair->name_b.key}};
        assert_int_equal(pair_post(pair, 1, IBV_WR_RDMA_READ, 0, length, SIGNALED), 0);
        assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
        assert_int_equal(pair_await(pair->a.send_cq, &wc), IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 1);
        assert_int_equal(pair_await(pair->a.send_cq, &wc), IBV_WC_SUCCESS);
        passed += memchr(pair->a.memory, 2, length) != NULL;
    }
    return passed;
}

TEST_WITH(test_write_passes_read, NULL, good_wire)
{
    const struct cw_verbs_options options = {.timeout = 12};
    struct pair pair;

    pair_open(&pair, MEMORY, &options);
    print_message("good wire: %d of 100 reads have bytes of the write behind them\n", read_then_write(&pair, 0, 100));
    pair_wire("loss 2");
    const int passed = read_then_write(&pair, 0, 100);
    print_message("2 %% lost: %d of 100\n", passed);
    assert_int_not_equal(passed, 0);
    const int fenced = read_then_write(&pair, IBV_SEND_FENCE, 100);
    print_message("2 %% lost, write fenced: %d of 100\n", fenced);
    assert_int_equal(fenced, 0);
    pair_wire("good");
    pair_close(&pair);
}
