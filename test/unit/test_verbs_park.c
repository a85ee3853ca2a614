/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle connections of the verbs transport that are parked and reopened (docs/why/parked.md), over a device in this
 * process and on a clock of its own. With the argument `cost` it prints what messages to many peers cost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <time.h>

#include "test_verbs_sides.h"

enum { MOST_EPS = 10000 };

static ucp_ep_h eps[MOST_EPS];

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_RC_RX_QUEUE_LEN", "64", 1);
    setenv("UCX_IB_SEG_SIZE", "2048", 1);
    unsetenv("UCX_KEEPALIVE_INTERVAL");
    device_is.max_each = 1 << 20;
    device_is.stands = 0;
    device_is.loses = 0;
    memset(&device_saw, 0, sizeof(device_saw));
    return 0;
}

static void connect_eps(unsigned num)
{
    unsigned i;

    for (i = 0; i < num; i++) {
        eps[i] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_NONE);
    }
}

static void close_eps(unsigned num)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t *requests = calloc(num, sizeof(*requests));
    unsigned i;

    assert_non_null(requests);
    for (i = 0; i < num; i++) {
        requests[i] = ucp_ep_close_nbx(eps[i], &param);
    }
    for (i = 0; i < num; i++) {
        assert_int_equal(end_request(requests[i]), UCS_OK);
    }
    free(requests);
}

/* Sends one message by each endpoint, and receives it. */
static void exchange(unsigned num, uint32_t word)
{
    ucs_status_ptr_t *requests = calloc(num, sizeof(*requests));
    unsigned i;

    assert_non_null(requests);
    for (i = 0; i < num; i++) {
        requests[i] = send_word(eps[i], &word, i);
    }
    for (i = 0; i < num; i++) {
        expect_word(1, i, word);
        assert_int_equal(end_request(requests[i]), UCS_OK);
    }
    free(requests);
}

static unsigned num_conns(unsigned side)
{
    return iface_of(side)->num_conns;
}

/* Queue pairs of type RC, of both ends. */
static unsigned num_rc(void)
{
    return device_saw.qps - num_sides;
}

/* Alarms are paced by real time, too. */
static void await_rc(unsigned most)
{
    unsigned rounds = ROUNDS_HANG;

    while (num_rc() > most) {
        progress();
        assert_true(rounds-- > 0);
    }
}

/* Idle connections beyond the number are parked, and go on at their next use. */
TEST_WITH(test_idle_ones_are_parked, setup, NULL)
{
    uint32_t round;

    open_sides(2, 8);
    connect_eps(40);
    for (round = 0; round < 5; round++) {
        exchange(40, round);
        assert_true(num_rc() > 2 * 8);
        pass(2000);
        await_rc(2 * 8);
    }
    close_eps(40);
    close_sides();
}

TEST_WITH(test_none_without_a_bound, setup, NULL)
{
    open_sides(2, UINT32_MAX);
    connect_eps(300);
    exchange(300, 1);
    pass(1000);
    assert_int_equal(num_rc(), 600);
    close_eps(300);
    close_sides();
}

/* A connection with something under way stays, and so does one that is used. */
TEST_WITH(test_busy_ones_stay, setup, NULL)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t flush;
    uint32_t word = 7, i;
    unsigned before, made;

    open_sides(2, 1);
    connect_eps(4);
    exchange(4, 1);
    device_is.stands = 1;
    for (i = 0; i < 4; i++) {
        assert_int_equal(end_request(send_word(eps[i], &word, i)), UCS_OK); /* taken, and under way */
    }
    before = num_rc();
    pass(1000);
    assert_int_equal(num_rc(), before);
    device_is.stands = 0;
    for (i = 0; i < 4; i++) {
        expect_word(1, i, word);
    }
    pass(1000);
    await_rc(2);
    exchange(1, 1);
    flush = ucp_ep_flush_nbx(eps[0], &param);
    assert_int_equal(end_request(flush), UCS_OK);
    made = device_saw.made_qps;
    for (i = 0; i < 200; i++) { /* each 2 ms, while others come and go */
        exchange(1, i);
        pass(2);
        if (i % 50 == 0) {
            assert_int_equal(end_request(send_word(eps[1], &i, 1)), UCS_OK);
            expect_word(1, 1, i);
        }
    }
    assert_true(device_saw.made_qps - made <= 2 * 4);
    close_eps(4);
    close_sides();
}

/* Writes and reads of the peer are its own matter: it does not agree while it has some under way, or uses them. */
TEST_WITH(test_accesses, setup, NULL)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH};
    static uint64_t memory[512], got;
    ucs_status_ptr_t get = NULL;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *packed;
    size_t size;
    unsigned i;

    open_sides(2, 1);
    connect_eps(3);
    exchange(3, 1);
    map.address = memory;
    map.length = sizeof(memory);
    assert_int_equal(ucp_mem_map(sides[1].context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(sides[1].context, memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(eps[0], packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    for (i = 0; i < 300; i++) {
        memory[1] = i;
        if (i % 3 == 0) {
            pass(i); /* it may be parked by now */
        }
        get = ucp_get_nbx(eps[0], &got, sizeof(got), (uintptr_t)&memory[1], rkey, &param);
        device_is.stands = i % 10 == 0;
        pass(100 * (unsigned)device_is.stands);
        device_is.stands = 0;
        assert_int_equal(end_request(get), UCS_OK);
        assert_int_equal(got, i);
    }
    ucp_rkey_destroy(rkey);
    close_eps(3);
    assert_int_equal(ucp_mem_unmap(sides[1].context, memh), UCS_OK);
    close_sides();
}

/* Both sides of parked connections send at once: one of the two hellos counts, and nothing is lost or comes twice. */
TEST_WITH(test_both_reopen, setup, NULL)
{
    ucs_status_ptr_t requests[20];
    ucp_ep_h back[10];
    uint32_t round, word;
    unsigned i;

    open_sides(2, 1);
    for (i = 0; i < 10; i++) {
        eps[i] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_NONE);
        back[i] = connect_ep(1, 0, UCP_ERR_HANDLING_MODE_NONE);
    }
    for (round = 0; round < 100; round++) {
        device_is.loses = (round % 2 == 0) ? 0 : 20;
        word = round;
        for (i = 0; i < 10; i++) {
            requests[i] = send_word(eps[i], &word, i);
            requests[10 + i] = send_word(back[i], &word, i);
        }
        for (i = 0; i < 10; i++) {
            expect_word(1, i, round);
            expect_word(0, i, round);
        }
        for (i = 0; i < 20; i++) {
            assert_int_equal(end_request(requests[i]), UCS_OK);
        }
        pass(300);
    }
    device_is.loses = 0;
    close_eps(10);
    memcpy(eps, back, sizeof(back));
    close_eps(10);
    close_sides();
}

/* The order of what the device may do with a random choice among `num` endpoints, which wait for each other only as the
 * window is bounded. */
static void random_traffic(unsigned num, unsigned messages)
{
    enum { WINDOW = 64 };
    const ucp_request_param_t param = {.op_attr_mask = 0};
    uint32_t *sent = calloc(num, sizeof(*sent));
    uint32_t *expected = calloc(num, sizeof(*expected));
    static struct {
        ucs_status_ptr_t send, receive;
        uint32_t out, in;
        unsigned ep;
    } window[WINDOW];
    unsigned i, at;

    assert_true(sent != NULL && expected != NULL);
    memset(window, 0, sizeof(window));
    for (i = 0; i < messages + WINDOW; i++) {
        at = i % WINDOW;
        if (i >= WINDOW) {
            assert_int_equal(end_request(window[at].send), UCS_OK);
            assert_int_equal(end_request(window[at].receive), UCS_OK);
            assert_int_equal(window[at].in, expected[window[at].ep]++);
        }
        if (i >= messages) {
            continue;
        }
        window[at].ep = (unsigned)rand() % num;
        window[at].out = sent[window[at].ep]++;
        window[at].send = send_word(eps[window[at].ep], &window[at].out, window[at].ep);
        window[at].receive =
            ucp_tag_recv_nbx(sides[1].worker, &window[at].in, sizeof(window[at].in), window[at].ep, UINT64_MAX, &param);
        progress();
    }
    free(sent);
    free(expected);
}

/* A device with as few queue pairs as that serves any number of peers, also when datagrams get lost, come twice and
 * late. */
TEST_WITH(test_random_traffic, setup, NULL)
{
    static const struct {
        unsigned peers, most_live, messages;
        int max_each, loses;
    } cases[] = {{1000, 16, 3000, 1 + 32, 0},  {1000, 64, 5000, 1 + 96, 5},   {1000, 256, 10000, 1 << 20, 5},
                 {10000, 16, 2000, 1 + 64, 5}, {10000, 64, 5000, 1 + 128, 0}, {10000, 256, 10000, 1 + 400, 5}};
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)setup(state);
        device_is.max_each = cases[i].max_each;
        device_is.loses = cases[i].loses;
        open_sides(2, cases[i].most_live);
        connect_eps(cases[i].peers);
        random_traffic(cases[i].peers, cases[i].messages);
        assert_true(device_saw.most_qps <= 2 * (unsigned)cases[i].max_each);
        device_is.loses = 0;
        pass(2000);
        await_rc(2 * cases[i].most_live);
        close_sides();
    }
}

/* All peers send to one at once. */
TEST_WITH(test_incast, setup, NULL)
{
    device_is.max_each = 1 + 300;
    device_is.loses = 5;
    open_sides(2, 256);
    connect_eps(MOST_EPS);
    exchange(MOST_EPS, 1);
    exchange(MOST_EPS, 2);
    assert_true(device_saw.refused_qps > 0);
    close_sides();
}

/* Each of many sends to each, and receives from each, round by round. */
TEST_WITH(test_all_to_all, setup, NULL)
{
    ucs_status_ptr_t requests[MOST_SIDES * MOST_SIDES];
    uint32_t round;
    unsigned i, j;

    device_is.max_each = 1 + 20;
    device_is.loses = 5;
    open_sides(MOST_SIDES, 4);
    for (i = 0; i < MOST_SIDES; i++) {
        for (j = 0; j < MOST_SIDES; j++) {
            eps[i * MOST_SIDES + j] = connect_ep(i, j, UCP_ERR_HANDLING_MODE_NONE);
        }
    }
    for (round = 0; round < 3; round++) {
        for (i = 0; i < MOST_SIDES * MOST_SIDES; i++) {
            requests[i] = send_word(eps[i], &round, i);
        }
        for (i = 0; i < MOST_SIDES * MOST_SIDES; i++) {
            expect_word(i % MOST_SIDES, i, round);
            assert_int_equal(end_request(requests[i]), UCS_OK);
        }
    }
    assert_true(device_saw.refused_qps > 0);
    close_sides();
}

/* A peer that makes no progress does not agree, and is sent to all the same. */
TEST_WITH(test_peer_that_computes, setup, NULL)
{
    uint32_t word = 3;
    unsigned i;

    open_sides(2, 1);
    connect_eps(8);
    exchange(8, 1);
    num_sides = 1;
    pass(5000);
    for (i = 0; i < 8; i++) {
        assert_int_equal(end_request(send_word(eps[i], &word, i)), UCS_OK);
    }
    pass(5000);
    num_sides = 2;
    for (i = 0; i < 8; i++) {
        expect_word(1, i, word);
    }
    pass(1000);
    await_rc(2);
    num_sides = 1; /* parked now: what is sent waits for the peer, for longer than any dial */
    for (i = 0; i < 8; i++) {
        (void)send_word(eps[i], &word, i);
    }
    round_ns = 1000000;
    pass(1000000);
    round_ns = 20000;
    num_sides = 2;
    for (i = 0; i < 8; i++) {
        expect_word(1, i, word);
    }
    close_eps(8);
    close_sides();
}

/* Two sides with watched endpoints, most of which are parked. */
static pid_t open_watched(void)
{
    const pid_t child = start_child();
    int i;

    open_sides(2, 1);
    failures = 0;
    for (i = 0; i < 5; i++) {
        eps[i] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
    }
    exchange(5, 1);
    for (i = 0; i < 100; i++) { /* the watch is established in real time */
        progress();
        usleep(1000);
    }
    pass(3000);
    await_rc(2);
    assert_int_equal(failures, 0);
    return child;
}

static void close_watched(void)
{
    child_port = 0; /* no watch begins any more */
    close_sides();
    forget_child();
}

/* The end of a peer's process is reported for parked connections, too. */
TEST_WITH(test_death_while_parked, setup, NULL)
{
    const pid_t child = open_watched();
    unsigned rounds = 100000;

    exchange(5, 2);
    pass(3000);
    kill_child(child);
    while (failures < 5 && rounds-- > 0) {
        progress();
        usleep(100);
    }
    assert_int_equal(failures, 5);
    assert_int_equal(failure, UCS_ERR_CONNECTION_RESET);
    close_watched();
}

/* A connection that is closed by force while it is parked ends at the peer as well. */
TEST_WITH(test_closed_while_parked, setup, NULL)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const pid_t child = open_watched();
    const unsigned before = device_saw.made_qps;
    int i;

    device_is.loses = 50;
    for (i = 0; i < 5; i++) {
        assert_int_equal(end_request(ucp_ep_close_nbx(eps[i], &force)), UCS_OK);
    }
    pass(2000);
    device_is.loses = 0;
    assert_int_equal(device_saw.made_qps, before);
    await_rc(0);
    assert_int_equal(num_conns(1), 0);
    kill_child(child);
    close_watched();
}

/* Without a watch beside them, watched connections stay. */
TEST_WITH(test_watched_ones_stay, setup, NULL)
{
    unsigned i;

    open_sides(2, 1);
    for (i = 0; i < 5; i++) {
        eps[i] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
    }
    exchange(5, 1);
    pass(3000);
    assert_int_equal(num_rc(), 10);
    close_eps(5);
    close_sides();
}

/* ---- what a peer may say at the wrong time ---- */

static void say(uint32_t word)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(word), .wr_id = UINT64_MAX >> 1};
    struct ibv_send_wr *bad;

    assert_int_equal(ibv_post_send(stand_in_connected(), &wr, &bad), 0);
}

TEST_WITH(test_words_at_the_wrong_time, setup, NULL)
{
    static const struct {
        uint32_t words[3];
        int breaks;
    } cases[] = {
        {{CW_VERBS_PARTED}, 1},
        {{CW_VERBS_PARK | 7 << 16, CW_VERBS_PARK | 8 << 16}, 1},
        {{CW_VERBS_PARK | 7 << 16, CW_VERBS_PARTED}, 1},
        {{0x600}, 1},
        {{0x10300}, 0}, /* a peer that asks, and never goes on: only it has to wait */
        {{CW_VERBS_PARK_OK, CW_VERBS_PARK_OK | 1 << 16}, 0},
        {{CW_VERBS_READY, CW_VERBS_READY}, 0},
        {{CW_VERBS_PARK, CW_VERBS_READY, CW_VERBS_READY}, 0},
    };
    uint32_t word = 1;
    size_t i, j;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_sides(2, 256);
        failures = 0;
        connect_eps(1);
        eps[1] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
        exchange(2, 1);
        pass(100);
        for (j = 0; j < 3 && cases[i].words[j] != 0; j++) {
            say(cases[i].words[j]);
        }
        pass(200);
        assert_int_equal(failures > 0, cases[i].breaks);
        assert_int_equal(end_request(send_word(eps[0], &word, 0)), UCS_OK);
        expect_word(1, 0, word);
        close_sides();
    }
}

/* A datagram of side 0 about a connection, or of an unauthenticated peer who says so, arrives at side 1. */
static void forge(struct cw_verbs_datagram datagram, uint32_t src_qp)
{
    static char bytes[CW_VERBS_DATAGRAM_MAX];
    size_t length;

    datagram.mtu = 3;
    datagram.address = iface_of(0)->local;
    length = cw_verbs_datagram_encode(&datagram, (uint8_t *)bytes);
    assert_int_equal(stand_in_datagram(src_qp, iface_of(1)->ud, bytes, (uint32_t)length), 1);
    pass(20);
}

static struct cw_verbs_conn *find_conn(unsigned side, enum cw_verbs_state state)
{
    struct cw_verbs_conn *conn;

    cw_list_for_each(conn, &iface_of(side)->conns, struct cw_verbs_conn, link)
    {
        if (conn->state == state) {
            return conn;
        }
    }
    fail();
    return NULL;
}

/* Hellos and ends of parked connections count only with all numbers right, and from the queue pair of the peer. */
TEST_WITH(test_forged_datagrams, setup, NULL)
{
    struct cw_verbs_datagram good;
    struct cw_verbs_conn *conn;
    uint32_t peer_qp;
    unsigned i, conns;

    open_sides(2, 1);
    connect_eps(8);
    exchange(8, 1);
    pass(1000);
    conn = find_conn(1, CW_VERBS_PARKED);
    peer_qp = conn->peer.qp;
    conns = num_conns(1);
    good = (struct cw_verbs_datagram){.key = iface_of(1)->key,
                                    .to = conn->id,
                                    .from = conn->peer_id,
                                    .epoch = conn->epoch,
                                    .reads = 16,
                                    .qp = 5,
                                    .psn = 6};
    for (i = 0; i < 12; i++) {
        struct cw_verbs_datagram bad = good;

        bad.kind = (i % 2 == 0) ? CW_VERBS_HELLO : CW_VERBS_CLOSE;
        bad.key += i / 2 == 0;
        bad.from += i / 2 == 1;
        bad.to += (i / 2 == 2) ? UINT64_C(1) << 32 : 0;
        bad.epoch += (i / 2 == 3 && bad.kind == CW_VERBS_HELLO) ? 1 : 0;
        bad.epoch -= (i / 2 == 4 && bad.kind == CW_VERBS_HELLO) ? 1 : 0;
        if (bad.kind == CW_VERBS_CLOSE && (i / 2 == 3 || i / 2 == 4)) {
            continue; /* the epoch of a close counts only in its answer */
        }
        if (bad.kind == CW_VERBS_HELLO && bad.epoch == 0) {
            continue;
        }
        forge(bad, peer_qp + (i / 2 == 5));
        assert_int_equal(conn->state, CW_VERBS_PARKED);
        assert_int_equal(num_conns(1), conns);
    }
    exchange(8, 2);
    pass(1000);
    conn = find_conn(1, CW_VERBS_PARKED);
    good.to = conn->id;
    good.from = conn->peer_id;
    good.epoch = conn->epoch;
    good.kind = CW_VERBS_HELLO;
    forge(good, peer_qp); /* the peer itself may waste its own connection */
    assert_int_equal(conn->state, CW_VERBS_ACCEPTING);
    good.kind = CW_VERBS_CLOSE;
    forge(good, peer_qp);
    assert_true(num_conns(1) < conns || conn->state >= CW_VERBS_CLOSED);
    close_sides();
}

/* ---- what messages cost ---- */

static double cpu_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void print_costs(void)
{
    static const unsigned peers[] = {16, 256, 1000, 4000, 10000}, bounds[] = {16, 64, 256, UINT32_MAX};
    const unsigned messages = 5000;
    uint64_t began;
    double cpu;
    size_t i, j;

    printf("peers  bound  live   queue pairs made  datagrams  us of time  ns of CPU   (each message)\n");
    for (i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
        for (j = 0; j < sizeof(bounds) / sizeof(bounds[0]); j++) {
            (void)setup(NULL);
            device_is.max_each = (bounds[j] < 1000) ? (int)(1 + bounds[j] + bounds[j] / 2) : 1 << 20;
            open_sides(2, bounds[j]);
            connect_eps(peers[i]);
            exchange(peers[i], 1);
            device_saw.made_qps = device_saw.datagrams = 0;
            began = now_ns;
            cpu = cpu_ns();
            random_traffic(peers[i], messages);
            printf("%5u  %5d  %5u  %16.3f  %9.3f  %10.1f  %9.0f\n", peers[i], (int)bounds[j], num_rc() / 2,
                   (double)device_saw.made_qps / messages, (double)device_saw.datagrams / messages,
                   (double)(now_ns - began) / 1e3 / messages, (cpu_ns() - cpu) / messages);
            close_sides();
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "cost") == 0) {
        print_costs();
        return 0;
    }
    return cw_tests_main(argc, argv);
}
