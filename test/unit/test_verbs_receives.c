/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When the verbs transport posts receives again: many at once while packets arrive, and all of them when none does.
 */
#include "test_verbs_sides.h"

enum { BURST = 40, PER_CALL = 16 };

static const ucp_request_param_t none = {.op_attr_mask = 0};

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_KEEPALIVE_INTERVAL", "1000s", 1);
    setenv("UCX_RC_RX_QUEUE_LEN", "64", 1);
    device_is.num_devices = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unsetenv("UCX_RC_RX_QUEUE_LEN");
    return 0;
}

static void expect_all_posted(void)
{
    assert_int_equal(iface_of(1)->missing, 0);
    assert_int_equal(iface_of(1)->receiving, 64);
}

static ucp_ep_h open_pair(void)
{
    const uint32_t word = 5;
    ucs_status_ptr_t sent;
    ucp_ep_h ep;

    open_sides(2, 256);
    failures = 0;
    ep = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_NONE);
    sent = send_word(ep, &word, 1);
    expect_word(1, 1, word);
    assert_int_equal(end_request(sent), UCS_OK);
    pass(1);
    expect_all_posted();
    return ep;
}

/* The program may answer a packet before its receive is posted again. */
TEST_WITH(test_packets_come_first, setup, teardown)
{
    const uint32_t word = 7;
    const ucp_ep_h ep = open_pair();
    uint32_t got = 0;
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(sides[1].worker, &got, sizeof(got), 1, UINT64_MAX, &none);
    unsigned calls = device_saw.receive_calls;

    assert_int_equal(end_request(send_word(ep, &word, 1)), UCS_OK);
    while (ucp_request_check_status(receive) == UCS_INPROGRESS) {
        calls = device_saw.receive_calls;
        ucp_worker_progress(sides[1].worker);
    }
    ucp_request_free(receive);
    assert_int_equal(got, word);
    assert_int_equal(device_saw.receive_calls, calls);
    assert_int_equal(iface_of(1)->missing, 1);
    ucp_worker_progress(sides[1].worker);
    assert_int_equal(device_saw.receive_calls, calls + 1);
    expect_all_posted();
    close_sides();
}

/* A call for each 16 packets, and one for each round without a packet. */
TEST_WITH(test_many_in_one_call, setup, teardown)
{
    const ucp_ep_h ep = open_pair();
    uint32_t words[BURST], got[BURST];
    ucs_status_ptr_t receives[BURST];
    unsigned calls, idle = 0, i;

    for (i = 0; i < BURST; i++) {
        receives[i] = ucp_tag_recv_nbx(sides[1].worker, &got[i], sizeof(got[i]), 1, UINT64_MAX, &none);
    }
    calls = device_saw.receive_calls;
    for (i = 0; i < BURST; i++) {
        words[i] = i;
        assert_int_equal(end_request(send_word(ep, &words[i], 1)), UCS_OK);
    }
    while (ucp_request_check_status(receives[BURST - 1]) == UCS_INPROGRESS) {
        idle += ucp_worker_progress(sides[1].worker) == 0;
    }
    assert_true(device_saw.receive_calls - calls <= BURST / PER_CALL + idle);
    assert_in_range(idle, 0, BURST / 2);
    while (ucp_worker_progress(sides[1].worker) > 0) {
    }
    expect_all_posted();
    for (i = 0; i < BURST; i++) {
        assert_int_equal(end_request(receives[i]), UCS_OK);
        assert_int_equal(got[i], i);
    }
    close_sides();
}
