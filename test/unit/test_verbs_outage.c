/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outages of the network, under a device that would retry for ever. Ports lose their link while the peer's process is
 * seen over another network: an endpoint with error handling fails when the port has been down for
 * UCX_KEEPALIVE_INTERVAL, and goes on when the link comes back sooner (ERR-2). And connections that are opened after an
 * outage outlive those that did not survive it.
 */
#include "test_verbs_sides.h"

enum { INTERVAL_MS = 1000, SOON_MS = 850 /* it is not reported earlier */ };

static const ucp_request_param_t none = {.op_attr_mask = 0};
static pid_t child;

/* ---- the watch's TCP connections ---- */

static uint64_t silent_ms; /* those that exist have not been answered for so long, and never will be */
static unsigned connects;

int __real_cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected);
int __wrap_cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected);
size_t __real_cw_net_unacknowledged(int fd);
size_t __wrap_cw_net_unacknowledged(int fd);
bool __real_cw_net_is_unanswered(int fd, uint64_t within_ms);
bool __wrap_cw_net_is_unanswered(int fd, uint64_t within_ms);

int __wrap_cw_net_connect(const struct cw_net_address *address, const struct cw_net_options *options, int *connected)
{
    connects++;
    silent_ms = 0;
    return __real_cw_net_connect(address, options, connected);
}

size_t __wrap_cw_net_unacknowledged(int fd)
{
    return (silent_ms > 0) ? 1 : __real_cw_net_unacknowledged(fd);
}

bool __wrap_cw_net_is_unanswered(int fd, uint64_t within_ms)
{
    return (silent_ms > 0 && within_ms <= silent_ms) || __real_cw_net_is_unanswered(fd, within_ms);
}

/* ---- ports without a link ---- */

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_KEEPALIVE_INTERVAL", "1s", 1);
    setenv("UCX_LOG_LEVEL", "error", 1);
    device_is.num_devices = 1;
    device_is.repeats = 1;
    child = start_child();
    failures = 0;
    connects = 0;
    silent_ms = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stand_in_link(0, 0);
    close_sides();
    kill_child(child);
    forget_child();
    return 0;
}

static void reach(ucp_ep_h ep, unsigned side, uint32_t word)
{
    ucs_status_ptr_t sent = send_word(ep, &word, 1);

    expect_word(side, 1, word);
    assert_int_equal(end_request(sent), UCS_OK);
    assert_int_equal(end_request(ucp_ep_flush_nbx(ep, &none)), UCS_OK);
}

static ucp_ep_h open_two(void)
{
    ucp_ep_h ep;

    open_sides(2, 256);
    ep = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
    reach(ep, 1, 5);
    return ep;
}

/* The endpoints fail, from now on in an interval and not before. */
static void await_failures(int num)
{
    pass(SOON_MS);
    assert_int_equal(failures, 0);
    pass(INTERVAL_MS - SOON_MS);
    assert_int_equal(failures, num);
    assert_int_equal(failure, UCS_ERR_ENDPOINT_TIMEOUT);
}

TEST_WITH(test_err2_down_for_long, setup, teardown)
{
    const uint32_t word = 6;
    ucs_status_ptr_t sent, flush, late;
    ucp_ep_h watched, other;

    open_sides(3, 256);
    watched = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
    other = connect_ep(0, 2, UCP_ERR_HANDLING_MODE_NONE);
    reach(watched, 1, 5);
    reach(other, 2, 5);
    stand_in_link(1, 1);
    sent = send_word(watched, &word, 1);
    flush = ucp_ep_flush_nbx(watched, &none);
    late = send_word(other, &word, 1);
    await_failures(1);
    (void)end_request(sent);
    assert_int_equal(end_request(flush), UCS_ERR_ENDPOINT_TIMEOUT);
    pass(3 * INTERVAL_MS);
    assert_int_equal(failures, 1);
    stand_in_link(0, 1);
    expect_word(2, 1, word); /* without error handling it outlasts the outage */
    assert_int_equal(end_request(late), UCS_OK);
    reach(connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER), 1, 7);
    pass(3 * INTERVAL_MS);
    assert_int_equal(failures, 1);
}

TEST_WITH(test_err2_down_for_short, setup, teardown)
{
    ucp_ep_h ep = open_two();
    ucs_status_ptr_t sent;

    for (uint32_t i = 0; i < 4; i++) {
        stand_in_link(1, 1);
        pass(10);
        sent = send_word(ep, &i, 1);
        pass(SOON_MS - 10);
        stand_in_link(0, 1);
        expect_word(1, 1, i);
        assert_int_equal(end_request(sent), UCS_OK);
    }
    pass(3 * INTERVAL_MS);
    assert_int_equal(failures, 0);
}

/* The event that the link is back is lost; the next outage counts from its own begin. */
TEST_WITH(test_lost_event, setup, teardown)
{
    ucp_ep_h ep = open_two();

    stand_in_link(1, 1);
    pass(INTERVAL_MS / 2);
    stand_in_link(0, 0);
    pass(3 * INTERVAL_MS);
    reach(ep, 1, 6);
    assert_int_equal(failures, 0);
    stand_in_link(1, 1);
    await_failures(1);
}

/* A program that made no progress does not count the time in which it did not. */
TEST_WITH(test_late_event, setup, teardown)
{
    ucp_ep_h ep = open_two();

    stand_in_link(1, 1);
    now_ns += UINT64_C(10000000) * INTERVAL_MS;
    stand_in_link(0, 1);
    pass(2 * INTERVAL_MS);
    reach(ep, 1, 6);
    assert_int_equal(failures, 0);
    stand_in_link(1, 1);
    now_ns += UINT64_C(10000000) * INTERVAL_MS;
    await_failures(1);
}

/* Workers of one context share the device, whose event one of them reads. */
TEST_WITH(test_workers, setup, teardown)
{
    const ucp_worker_params_t params = {.field_mask = 0};
    ucp_ep_params_t ep_params = {.err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {.cb = failed}};
    ucs_status_ptr_t sent;
    ucp_worker_h second;
    const uint32_t word = 9;
    uint64_t end;
    ucp_ep_h ep;

    (void)open_two();
    assert_int_equal(ucp_worker_create(sides[0].context, &params, &second), UCS_OK);
    ep_params.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    ep_params.address = sides[1].address;
    assert_int_equal(ucp_ep_create(second, &ep_params, &ep), UCS_OK);
    sent = send_word(ep, &word, 1);
    while (iface_of(1)->num_conns < 2) {
        ucp_worker_progress(second);
        progress();
    }
    pass(10);
    ucp_worker_progress(second);
    expect_word(1, 1, word);
    assert_int_equal(end_request(sent), UCS_OK);
    stand_in_link(1, 1);
    for (end = now_ns + UINT64_C(1000000) * SOON_MS; now_ns < end; progress()) {
        ucp_worker_progress(second);
    }
    assert_int_equal(failures, 0);
    for (end = now_ns + UINT64_C(1000000) * (INTERVAL_MS - SOON_MS); now_ns < end; progress()) {
        ucp_worker_progress(second);
    }
    assert_int_equal(failures, 2);
    call_ns = 1000000;
    ucp_worker_destroy(second);
    call_ns = 0;
}

/* A connection that has no queue pair at the time, as it was parked. */
TEST_WITH(test_parked, setup, teardown)
{
    unsigned rounds = 1000;
    ucp_ep_h eps[2];

    open_sides(3, 1);
    for (unsigned i = 0; i < 2; i++) {
        eps[i] = connect_ep(0, i + 1, UCP_ERR_HANDLING_MODE_PEER);
        reach(eps[i], i + 1, 5);
    }
    while (iface_of(0)->num_live > 1 && rounds-- > 0) {
        pass(10);
    }
    assert_int_equal(iface_of(0)->num_live, 1);
    stand_in_link(1, 1);
    await_failures(2);
}

/* ---- connections behind an outage ---- */

/* The peer opens a connection while those that were opened before seem silent. */
TEST_WITH(test_opened_after_outage, setup, teardown)
{
    ucp_ep_h ep = open_two();
    unsigned before;

    pass(INTERVAL_MS / 2);
    before = connects;
    silent_ms = INTERVAL_MS / 2;
    reach(connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER), 1, 6);
    assert_int_equal(silent_ms, 0);
    assert_int_not_equal(connects, before);
    pass(3 * INTERVAL_MS);
    reach(ep, 1, 7);
    assert_int_equal(failures, 0);
}

/* No progress is made in the outage. */
TEST_WITH(test_late_check, setup, teardown)
{
    ucp_ep_h ep = open_two();

    pass(INTERVAL_MS / 2);
    silent_ms = 10 * INTERVAL_MS;
    now_ns += UINT64_C(10000000) * INTERVAL_MS;
    pass(3 * INTERVAL_MS);
    reach(ep, 1, 7);
    assert_int_equal(silent_ms, 0);
    assert_int_equal(failures, 0);
}
