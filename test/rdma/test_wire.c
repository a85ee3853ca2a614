/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The virtual machine is what it says: two devices, which reach each other over the wire and not past it, and a wire
 * that does as ordered.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "pair.h"

enum { MEMORY = 1 << 20, TRIPS = 200 };

static int good_wire(void **state)
{
    (void)state;
    pair_wire("good");
    return 0;
}

static uint64_t counter(const char *end, const char *what)
{
    unsigned long long value = 0;
    char path[128];

    snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/%s", end, what);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &value), 1);
    fclose(file);
    return value;
}

/* Messages of several sizes go there, come back and are what was sent. */
static void echo(struct pair *pair, unsigned seed)
{
    static const size_t sizes[] = {1, 8, 1024, 1025, 8192, 65536, MEMORY / 4};
    struct ibv_wc wc;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i];
        for (size_t at = 0; at < size; at++) {
            pair->a.memory[at] = (char)(at * 7 + seed + i);
        }
        memset(pair->b.memory, 0, size);
        cw_verbs_receive(&pair->b, i, 0, size);
        assert_int_equal(pair_post(pair, i, IBV_WR_SEND, 0, size, IBV_SEND_SIGNALED), 0);
        assert_int_equal(pair_await(pair->b.recv_cq, &wc), IBV_WC_SUCCESS);
        assert_int_equal(wc.byte_len, size);
        assert_int_equal(pair_await(pair->a.send_cq, &wc), IBV_WC_SUCCESS);
        assert_memory_equal(pair->a.memory, pair->b.memory, size);
        memset(pair->a.memory + MEMORY / 2, 0, size);
        assert_int_equal(pair_post(pair, i, IBV_WR_RDMA_WRITE, MEMORY / 2, size, 0), 0);
        assert_int_equal(pair_post(pair, i, IBV_WR_RDMA_READ, 0, size, IBV_SEND_SIGNALED), 0);
        assert_int_equal(pair_await(pair->a.send_cq, &wc), IBV_WC_SUCCESS);
        assert_memory_equal(pair->a.memory, pair->b.memory, size);
        for (size_t at = 0; at < size; at++) {
            assert_int_equal(pair->b.memory[MEMORY / 2 + at], 0);
        }
    }
}

TEST_WITH(test_both_ways, NULL, good_wire)
{
    struct pair pair;

    pair_open(&pair, MEMORY, NULL);
    const uint64_t before = counter("wire0", "tx_bytes");
    for (unsigned seed = 0; seed < 3; seed++) {
        echo(&pair, seed);
    }
    /* All of it passed the wire. */
    assert_true(counter("wire0", "tx_bytes") - before > 3 * 2 * (MEMORY / 4 + 65536));
    pair_close(&pair);
}

TEST_WITH(test_link_local, NULL, good_wire)
{
    struct pair pair;
    struct ibv_wc wc;

    pair_skip_without_devices();
    cw_verbs_open(&pair.a, "rxe0", 4096, NULL);
    cw_verbs_open(&pair.b, "rxe1", 4096, NULL);
    assert_int_not_equal(pair.a.gid_index, 0);
    pair.a.gid_index = pair.b.gid_index = 0;
    assert_int_equal(ibv_query_gid(pair.a.context, 1, 0, &pair.a.gid), 0);
    assert_int_equal(ibv_query_gid(pair.b.context, 1, 0, &pair.b.gid), 0);
    assert_int_equal(pair.a.gid.raw[0], 0xfe);
    cw_verbs_get_name(&pair.a, &pair.name_a);
    cw_verbs_get_name(&pair.b, &pair.name_b);
    cw_verbs_connect(&pair.a, &pair.name_b);
    cw_verbs_connect(&pair.b, &pair.name_a);
    pair.a.memory[0] = 42;
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 1, IBV_SEND_SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_int_equal(pair.b.memory[0], 42);
    pair_close(&pair);
}

/* What is lost, late, doubled or out of order is mended by the connection: data are right, and packets more. */
static void bad_wire(const char *words)
{
    const struct cw_verbs_options options = {.timeout = 12};
    struct pair pair;

    pair_open(&pair, MEMORY, &options);
    pair_wire("good");
    uint64_t clean = counter("wire0", "tx_packets");
    for (int i = 0; i < 4; i++) {
        echo(&pair, 1);
    }
    clean = counter("wire0", "tx_packets") - clean;
    pair_wire(words);
    uint64_t more = counter("wire0", "tx_packets");
    const double begin = pair_seconds();
    for (int i = 0; i < 4; i++) {
        echo(&pair, 2);
    }
    more = counter("wire0", "tx_packets") - more;
    print_message("%s: %llu packets instead of %llu, %.1f s\n", words, (unsigned long long)more,
                  (unsigned long long)clean, pair_seconds() - begin);
    pair_wire("good");
    pair_close(&pair);
}

TEST_WITH(test_loss, NULL, good_wire)
{
    bad_wire("loss 1");
}

TEST_WITH(test_reorder, NULL, good_wire)
{
    bad_wire("reorder 1");
}

TEST_WITH(test_double, NULL, good_wire)
{
    bad_wire("double 5");
}

TEST_WITH(test_delay, NULL, good_wire)
{
    const struct cw_verbs_options options = {.timeout = 18};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, 4096, &options);
    pair_wire("delay 50");
    const double begin = pair_seconds();
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_READ, 0, 8, IBV_SEND_SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_true(pair_seconds() - begin >= 0.1);
    pair_wire("good");
    pair_close(&pair);
}

/* The share of packets that are lost is what was asked for: writes of one packet each are not answered one by one, so
 * datagrams are counted, which nobody sends again. */
TEST_WITH(test_share_of_loss, NULL, good_wire)
{
    enum { DATAGRAMS = 1000, ROOM = 64 };
    const struct cw_verbs_options options = {.type = IBV_QPT_UD, .receives = DATAGRAMS, .sends = DATAGRAMS};
    struct pair pair;
    struct ibv_wc wc;
    int arrived = 0;

    pair_open(&pair, ROOM, &options);
    struct ibv_ah_attr route = {.is_global = 1,
                              .port_num = 1,
                              .grh = {.dgid = pair.b.gid, .sgid_index = (uint8_t)pair.a.gid_index, .hop_limit = 64}};
    struct ibv_ah *ah = ibv_create_ah(pair.a.pd, &route);
    assert_non_null(ah);
    struct ibv_sge sge = {.addr = (uintptr_t)pair.a.memory, .length = 8, .lkey = pair.a.mr->lkey};
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .send_flags = IBV_SEND_SIGNALED,
                               .wr.ud = {.ah = ah, .remote_qpn = pair.name_b.qp, .remote_qkey = CW_VERBS_QKEY}};
    pair_wire("loss 25");
    for (int i = 0; i < DATAGRAMS; i++) {
        cw_verbs_receive(&pair.b, 0, 0, ROOM);
    }
    for (int i = 0; i < DATAGRAMS; i++) {
        assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    }
    while (cw_verbs_wait(pair.b.recv_cq, &wc, 200)) {
        arrived++;
    }
    print_message("loss 25: %d of %d datagrams arrived\n", arrived, DATAGRAMS);
    assert_in_range(arrived, DATAGRAMS * 65 / 100, DATAGRAMS * 85 / 100);
    pair_wire("good");
    ibv_destroy_ah(ah);
    pair_close(&pair);
}

/* A wire that is cut: nothing arrives, the sender's device gives up after its retries, and a new pair works later. */
TEST_WITH(test_cut, NULL, good_wire)
{
    const struct cw_verbs_options options = {.timeout = 10, .retries = 2};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, 4096, &options);
    pair_wire("cut");
    pair.a.memory[0] = 42;
    const double begin = pair_seconds();
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 1, IBV_SEND_SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_RETRY_EXC_ERR);
    print_message("cut: reported after %.3f s (3 tries, 4.2 ms each)\n", pair_seconds() - begin);
    assert_int_equal(pair.b.memory[0], 0);
    pair_wire("good");
    pair_close(&pair);
    pair_open(&pair, MEMORY, NULL);
    echo(&pair, 3);
    pair_close(&pair);
}

/* Seven retries are without end on this device, where others give up behind the seventh: the transport asks for six. */
TEST_WITH(test_seven_retries, NULL, good_wire)
{
    struct cw_verbs_options options = {.timeout = 10, .retries = 7};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, &options);
    pair_wire("cut");
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 1, IBV_SEND_SIGNALED), 0);
    assert_false(cw_verbs_wait(pair.a.send_cq, &wc, 2000)); /* eight tries take 34 ms */
    pair_wire("good");
    pair_close(&pair);
    options.retries = 6;
    pair_open(&pair, MEMORY, &options);
    pair_wire("cut");
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 1, IBV_SEND_SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_RETRY_EXC_ERR);
    pair_wire("good");
    pair_close(&pair);
}
