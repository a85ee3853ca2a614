/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of a device, completion channels, datagrams, addresses, and how much of everything there is. The contract of a
 * transport stands on it (docs/why/verbs.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runner.h"
#include "pair.h"

enum { MEMORY = 1 << 20, GRH = 40, SIGNALED = IBV_SEND_SIGNALED };

static int good_wire(void **state)
{
    (void)state;
    pair_wire("up");
    pair_wire("good");
    return 0;
}

static bool readable(int fd, int ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, ms) == 1;
}

/* Between the last poll and arming a completion notifies nobody: after arming one polls again. */
TEST(test_armed_late)
{
    const struct cw_verbs_options options = {.events = true};
    struct ibv_cq *cq;
    struct pair pair;
    struct ibv_wc wc;
    void *context;

    pair_open(&pair, MEMORY, &options);
    cw_verbs_receive(&pair.b, 1, 0, 8);
    cw_verbs_receive(&pair.b, 2, 0, 8);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    usleep(20000);
    assert_int_equal(ibv_req_notify_cq(pair.b.recv_cq, 0), 0);
    const bool notified = readable(pair.b.channel->fd, 200);
    print_message("armed with a completion waiting: %s\n", notified ? "told" : "not logged");
    assert_true(ibv_poll_cq(pair.b.recv_cq, 1, &wc) == 1);
    if (!notified) {
        /* Still armed: the next one notifies, once. */
        assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), 0);
        assert_true(readable(pair.b.channel->fd, PAIR_LONG_MS));
    }
    assert_int_equal(ibv_get_cq_event(pair.b.channel, &cq, &context), 0);
    assert_ptr_equal(cq, pair.b.recv_cq);
    assert_false(readable(pair.b.channel->fd, 100));
    ibv_ack_cq_events(cq, 1);
    pair_close(&pair);
}

static void *destroy_cq(void *cq)
{
    return (void *)(intptr_t)ibv_destroy_cq(cq);
}

/* What was read of a channel and not acknowledged holds up the end of its queue. */
TEST(test_unacknowledged)
{
    const struct cw_verbs_options options = {.events = true};
    struct timespec until;
    struct ibv_cq *cq;
    struct pair pair;
    struct ibv_wc wc;
    pthread_t thread;
    void *context;

    pair_open(&pair, MEMORY, &options);
    assert_int_equal(ibv_req_notify_cq(pair.a.send_cq, 0), 0);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_int_equal(ibv_get_cq_event(pair.a.channel, &cq, &context), 0);
    assert_int_equal(ibv_destroy_qp(pair.a.qp), 0);
    pair.a.qp = NULL;
    assert_int_equal(pthread_create(&thread, NULL, destroy_cq, cq), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    assert_int_equal(pthread_timedjoin_np(thread, &context, &until), ETIMEDOUT);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(pthread_join(thread, &context), 0);
    assert_null(context);
    pair.a.send_cq = ibv_create_cq(pair.a.context, 8, NULL, NULL, 0);
    pair_close(&pair);
}

/* The events of the device so far, without waiting longer than that. */
static int read_events(struct ibv_context *context, int ms, bool *down, bool *up)
{
    struct ibv_async_event event;
    int count = 0;

    while (readable(context->async_fd, ms) && ibv_get_async_event(context, &event) == 0) {
        print_message("  event: %s\n", ibv_event_type_str(event.event_type));
        *down |= event.event_type == IBV_EVENT_PORT_ERR;
        *up |= event.event_type == IBV_EVENT_PORT_ACTIVE;
        ibv_ack_async_event(&event);
        count++;
    }
    return count;
}

TEST_WITH(test_port, NULL, good_wire)
{
    struct ibv_port_attr port;
    bool down = false, up = false;
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, NULL);
    pair_wire("down");
    read_events(pair.a.context, 500, &down, &up);
    assert_true(down);
    assert_int_equal(ibv_query_port(pair.a.context, 1, &port), 0);
    assert_int_not_equal(port.state, IBV_PORT_ACTIVE);
    /* The queue pair does not know of it. */
    assert_int_equal(pair_state(pair.a.qp), IBV_QPS_RTS);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 8, SIGNALED), 0);
    usleep(100000);
    print_message("posted while down, 0.1 s later the queue pair is in state %d\n", pair_state(pair.a.qp));
    pair_wire("up");
    read_events(pair.a.context, 500, &down, &up);
    assert_true(up);
    const bool notified = cw_verbs_wait(pair.a.send_cq, &wc, 3000);
    print_message("after the wire is up again: %s\n", notified ? ibv_wc_status_str(wc.status) : "nothing");
    pair_close(&pair);
}

static void *destroy_srq(void *srq)
{
    return (void *)(intptr_t)ibv_destroy_srq(srq);
}

/* An event of a queue that nobody read goes with the queue; one that was read must be acknowledged first. A queue pair
 * in error says nothing here, not even with a shared receive queue (IBV_EVENT_QP_LAST_WQE_REACHED). */
TEST(test_unread)
{
    const struct cw_verbs_options options = {.srq = 16};
    struct ibv_srq_attr mark = {.srq_limit = 2};
    struct ibv_async_event event;
    bool down = false, up = false;
    struct timespec until;
    struct pair pair;
    struct ibv_wc wc;
    pthread_t thread;
    void *result;

    for (int read = 0; read < 2; read++) {
        pair_open(&pair, MEMORY, &options);
        cw_verbs_receive(&pair.b, 1, 0, 8);
        cw_verbs_receive(&pair.b, 2, 0, 8);
        assert_int_equal(ibv_modify_srq(pair.b.srq, &mark, IBV_SRQ_LIMIT), 0);
        assert_int_equal(pair_post(&pair, 1, IBV_WR_SEND, 0, 8, SIGNALED), 0);
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
        assert_true(readable(pair.b.context->async_fd, PAIR_LONG_MS));
        assert_int_equal(cw_verbs_to_error(pair.b.qp), 0);
        assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
        pair.b.qp = NULL;
        if (read) {
            assert_int_equal(ibv_get_async_event(pair.b.context, &event), 0);
            assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
        }
        assert_int_equal(pthread_create(&thread, NULL, destroy_srq, pair.b.srq), 0);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += read ? 1 : 20;
        const int ended = pthread_timedjoin_np(thread, &result, &until);
        assert_int_equal(ended, read ? ETIMEDOUT : 0);
        if (read) {
            ibv_ack_async_event(&event);
            assert_int_equal(pthread_join(thread, &result), 0);
        }
        assert_null(result);
        pair.b.srq = NULL;
        assert_int_equal(read_events(pair.b.context, 100, &down, &up), 0);
        pair_close(&pair);
    }
}

static struct ibv_ah *route_to_b(struct pair *pair)
{
    struct ibv_ah_attr route = {.is_global = 1,
                              .port_num = 1,
                              .grh = {.dgid = pair->b.gid, .sgid_index = (uint8_t)pair->a.gid_index, .hop_limit = 64}};

    return ibv_create_ah(pair->a.pd, &route);
}

/* Sends a datagram; false: refused when posted, or completed with an error. */
static bool send_datagram(struct pair *pair, struct ibv_ah *ah, uint32_t qkey, size_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)pair->a.memory, .length = (uint32_t)length, .lkey = pair->a.mr->lkey};
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .send_flags = SIGNALED,
                               .wr.ud = {.ah = ah, .remote_qpn = pair->name_b.qp, .remote_qkey = qkey}};
    struct ibv_wc wc;

    return ibv_post_send(pair->a.qp, &wr, &bad) == 0 && pair_await(pair->a.send_cq, &wc) == IBV_WC_SUCCESS;
}

TEST(test_datagrams)
{
    const struct cw_verbs_options options = {.type = IBV_QPT_UD};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, &options);
    struct ibv_ah *ah = route_to_b(&pair);
    const size_t most = (size_t)128 << pair.a.mtu;
    pair.a.memory[0] = 42;
    assert_non_null(ah);
    /* No receive, a wrong key, a receive without room for the header: all silent. */
    assert_true(send_datagram(&pair, ah, CW_VERBS_QKEY, 8));
    cw_verbs_receive(&pair.b, 1, 0, GRH + most);
    assert_true(send_datagram(&pair, ah, 0x22222222, 8));
    assert_false(cw_verbs_wait(pair.b.recv_cq, &wc, 200));
    assert_true(send_datagram(&pair, ah, CW_VERBS_QKEY, most));
    assert_int_equal(pair_await(pair.b.recv_cq, &wc), IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, GRH + most);
    assert_true(wc.wc_flags & IBV_WC_GRH);
    assert_int_equal(wc.src_qp, pair.name_a.qp);
    assert_int_equal(pair.b.memory[GRH], 42);
    print_message("first bytes of the header of 40: %02x %02x .. %02x; of IPv4 it begins at byte 20\n",
                  (unsigned char)pair.b.memory[0], (unsigned char)pair.b.memory[1], (unsigned char)pair.b.memory[20]);
    /* It can be answered from what came with it. */
    struct ibv_ah *back = ibv_create_ah_from_wc(pair.b.pd, &wc, (struct ibv_grh *)(void *)pair.b.memory, 1);
    print_message("address handle out of what arrived: %s\n", back != NULL ? "yes" : strerror(errno));
    if (back != NULL) {
        ibv_destroy_ah(back);
    }
    ibv_destroy_ah(ah);
    pair_close(&pair);
}

/* A datagram that is longer than the receive: what it does to the one that receives. */
static void long_datagram(size_t length, size_t space)
{
    const struct cw_verbs_options options = {.type = IBV_QPT_UD};
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, &options);
    struct ibv_ah *ah = route_to_b(&pair);
    assert_non_null(ah);
    cw_verbs_receive(&pair.b, 1, 0, GRH + space);
    const bool sent = send_datagram(&pair, ah, CW_VERBS_QKEY, length);
    const bool came = cw_verbs_wait(pair.b.recv_cq, &wc, 500);
    print_message("datagram of %zu bytes, MTU %d, receive of 40 + %zu: %s, receiver: %s, its queue pair in state %d\n",
                  length, 128 << pair.a.mtu, space, sent ? "sent" : "refused",
                  came ? ibv_wc_status_str(wc.status) : "nothing", pair_state(pair.b.qp));
    if (space >= 4096) {
        assert_int_equal(pair_state(pair.b.qp), IBV_QPS_RTS);
    }
    ibv_destroy_ah(ah);
    pair_close(&pair);
}

TEST(test_long_datagrams)
{
    long_datagram(8, 4);
    long_datagram(1025, 1024);
    long_datagram(1025, 4096);
    long_datagram(1440, 1024);
    long_datagram(1440, 4096);
}

/* A queue pair whose addresses do not fit each other, and one to nobody. */
TEST(test_addresses)
{
    const struct cw_verbs_options options = {.timeout = 10, .retries = 1};
    struct cw_verbs_name nobody;
    struct pair pair;
    struct ibv_wc wc;

    pair_skip_without_devices();
    cw_verbs_open(&pair.a, "rxe0", 4096, &options);
    cw_verbs_open(&pair.b, "rxe1", 4096, &options);
    cw_verbs_get_name(&pair.b, &pair.name_b);
    nobody = pair.name_b;
    assert_int_equal(ibv_query_gid(pair.b.context, 1, 0, &nobody.gid), 0);
    double begin = pair_seconds();
    int connected = cw_verbs_to_rtr(&pair.a, &nobody);
    print_message("from an IPv4 address to a link-local one: %s after %.3f s\n",
                  connected == 0 ? "ready" : strerror(connected), pair_seconds() - begin);
    cw_verbs_close(&pair.a);
    cw_verbs_open(&pair.a, "rxe0", 4096, &options);
    nobody = pair.name_b;
    nobody.gid.raw[15] = 77;
    begin = pair_seconds();
    connected = cw_verbs_to_rtr(&pair.a, &nobody);
    print_message("to an address that nobody has: %s after %.3f s\n", connected == 0 ? "ready" : strerror(connected),
                  pair_seconds() - begin);
    cw_verbs_close(&pair.a);
    cw_verbs_open(&pair.a, "rxe0", 4096, &options);
    nobody = pair.name_b;
    nobody.qp = 0x123456;
    cw_verbs_connect(&pair.a, &nobody);
    pair.name_b = nobody;
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_RETRY_EXC_ERR);
    pair_close(&pair);
}

static long free_kib(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    long kib = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL && sscanf(line, "MemFree: %ld", &kib) != 1) {
    }
    fclose(file);
    return kib;
}

/* Many queue pairs: what one costs, of memory and of time. */
TEST(test_many)
{
    enum { MANY = 300 };
    const struct cw_verbs_options options = {.srq = 256, .sends = 64};
    struct ibv_qp *qps[MANY];
    struct pair pair;
    double made = 0, ready = 0;

    pair_open(&pair, MEMORY, &options);
    struct ibv_qp *first = pair.a.qp;
    const long before = free_kib();
    for (int i = 0; i < MANY; i++) {
        double begin = pair_seconds();
        qps[i] = cw_verbs_new_qp(&pair.a);
        assert_non_null(qps[i]);
        made += pair_seconds() - begin;
        begin = pair_seconds();
        pair.a.qp = qps[i];
        assert_int_equal(cw_verbs_to_init(&pair.a), 0);
        cw_verbs_connect(&pair.a, &pair.name_b);
        ready += pair_seconds() - begin;
    }
    print_message("%d queue pairs of 64 sends: made in %.0f us each, INIT to RTS in %.0f us, %.1f KiB each\n", MANY,
                  made / MANY * 1e6, ready / MANY * 1e6, (double)(before - free_kib()) / MANY);
    double begin = pair_seconds();
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    }
    print_message("destroyed in %.0f us each\n", (pair_seconds() - begin) / MANY * 1e6);
    pair.a.qp = first;
    pair_close(&pair);
}

/* No program that is started inherits the descriptors of a device. */
TEST(test_descriptors)
{
    const struct cw_verbs_options options = {.events = true};
    struct pair pair;

    pair_open(&pair, MEMORY, &options);
    const int fds[] = {pair.a.context->cmd_fd, pair.a.context->async_fd, pair.a.channel->fd};
    for (int i = 0; i < 3; i++) {
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
    }
    pair_close(&pair);
}
