/* SPDX-License-Identifier: BSD-3-Clause */
/* Many sends without progress between them: whatever the library makes of that, each completes, in order, and nothing
 * that looks complete is kept back: REQ-1, TAG-20, CLS-4, WAK-4. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { BURST = 400, TAG = 7 };

static const size_t lengths[] = {8, 100 << 10, 8, 0, 300, 64 << 10, 70000, 1, 3000, 200 << 10, 5 << 20, 8, 8};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* The endpoint is connected, and nothing is under way. */
static void warm_up(struct cw_pair *pair)
{
    struct cw_op send = {0}, receive = {0};
    uint64_t value = 1;

    cw_op_recv(&receive, pair->rx->worker, &value, sizeof(value), 1, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, &value, sizeof(value), 1);
    assert_int_equal(cw_op_wait(pair, &send, "first send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &receive, "first receive"), UCS_OK);
    cw_pair_settle(pair);
}

static void receive_numbers(struct cw_pair *pair, unsigned count)
{
    struct cw_op receive;
    uint64_t value;

    for (unsigned i = 0; i < count; i++) {
        receive = (struct cw_op){0};
        cw_op_recv(&receive, pair->rx->worker, &value, sizeof(value), TAG, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &receive, "receive"), UCS_OK);
        assert_int_equal(value, i);
    }
}

API_TEST(test_burst)
{
    static struct cw_op sends[BURST];
    static uint64_t values[BURST];

    cw_pair_open(pair, NULL);
    warm_up(pair);
    for (unsigned i = 0; i < BURST; i++) {
        sends[i] = (struct cw_op){0};
        values[i] = i;
        cw_op_send(&sends[i], pair->tx->ep, &values[i], sizeof(values[i]), TAG);
    }
    for (unsigned i = 0; i < BURST; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
    }
    receive_numbers(pair, BURST);
    cw_pair_close(pair);
}

/* Each a way of its own, one behind the other; `posted`: the receives are there before. */
static void mixed_burst(struct cw_pair *pair, bool posted)
{
    struct cw_op sends[LENGTHS] = {0}, receives[LENGTHS] = {0};
    struct cw_buffer from[LENGTHS], to[LENGTHS];

    for (unsigned i = 0; i < LENGTHS; i++) {
        from[i] = cw_buffer_new(lengths[i]);
        to[i] = cw_buffer_new(lengths[i]);
        cw_pattern_fill(from[i].data, lengths[i], i);
        if (posted) {
            cw_op_recv(&receives[i], pair->rx->worker, to[i].data, lengths[i], TAG, CW_TAG_ALL);
        }
    }
    for (unsigned i = 0; i < LENGTHS; i++) {
        cw_op_send(&sends[i], pair->tx->ep, from[i].data, lengths[i], TAG);
    }
    for (unsigned i = 0; i < LENGTHS; i++) {
        if (!posted) {
            cw_pair_settle(pair); /* part of a long one may be there */
            cw_op_recv(&receives[i], pair->rx->worker, to[i].data, lengths[i], TAG, CW_TAG_ALL);
        }
        assert_int_equal(cw_op_wait(pair, &receives[i], "receive"), UCS_OK);
        assert_int_equal(receives[i].info.length, lengths[i]);
        cw_pattern_check(to[i].data, lengths[i], i);
        cw_buffer_check(&to[i]);
    }
    for (unsigned i = 0; i < LENGTHS; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        cw_buffer_free(&from[i]);
        cw_buffer_free(&to[i]);
    }
}

API_TEST(test_mixed_lengths)
{
    cw_pair_open(pair, NULL);
    warm_up(pair);
    mixed_burst(pair, true);
    mixed_burst(pair, false);
    cw_pair_close(pair);
}

/* More than a receiver keeps (16 MiB): what is beyond waits or is announced, and nothing depends on the receives. */
static void long_burst(struct cw_pair *pair, bool posted)
{
    enum { COUNT = 40, LENGTH = 1 << 20 };
    static struct cw_op sends[COUNT], receives[COUNT];
    struct cw_buffer from = cw_buffer_new(LENGTH + COUNT), to = cw_buffer_new((size_t)COUNT * LENGTH);

    cw_pattern_fill(from.data, LENGTH + COUNT, 0);
    memset(sends, 0, sizeof(sends));
    memset(receives, 0, sizeof(receives));
    for (size_t i = 0; posted && i < COUNT; i++) {
        cw_op_recv(&receives[i], pair->rx->worker, to.data + i * LENGTH, LENGTH, i, CW_TAG_ALL);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        cw_op_send(&sends[i], pair->tx->ep, from.data + i, LENGTH, i);
    }
    cw_pair_settle(pair);
    for (size_t i = COUNT; !posted && i-- > 0; ) { /* the last one first: all of them must be there */
        cw_op_recv(&receives[i], pair->rx->worker, to.data + i * LENGTH, LENGTH, i, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &receives[i], "receive"), UCS_OK);
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (posted) {
            assert_int_equal(cw_op_wait(pair, &receives[i], "receive"), UCS_OK);
        }
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        assert_memory_equal(to.data + i * LENGTH, from.data + i, LENGTH);
    }
    cw_buffer_check(&to);
    cw_buffer_free(&from);
    cw_buffer_free(&to);
}

API_TEST(test_long_burst)
{
    cw_pair_open(pair, NULL);
    warm_up(pair);
    long_burst(pair, true);
    long_burst(pair, false);
    long_burst(pair, true);
    cw_pair_close(pair);
}

API_TEST(test_burst_then_close)
{
    static uint64_t values[BURST];
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t results[BURST], closing;

    cw_pair_open(pair, NULL);
    warm_up(pair);
    for (unsigned i = 0; i < BURST; i++) {
        values[i] = i;
        results[i] = ucp_tag_send_nbx(pair->tx->ep, &values[i], sizeof(values[i]), TAG, &param);
    }
    closing = ucp_ep_close_nbx(pair->tx->ep, &param);
    pair->tx->ep = NULL;
    for (unsigned i = 0; i < BURST; i++) {
        assert_int_equal(cw_pair_wait(pair, results[i], "send"), UCS_OK);
    }
    assert_int_equal(cw_pair_wait(pair, closing, "close"), UCS_OK);
    receive_numbers(pair, BURST);
}

/* What is kept back must not be slept on. */
API_TEST(test_burst_keeps_awake)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t values[2] = {0, 1};
    ucs_status_ptr_t results[2];

    cw_pair_open_wakeup(pair);
    warm_up(pair);
    cw_worker_drain_and_arm(pair->tx->worker);
    for (unsigned i = 0; i < 2; i++) {
        results[i] = ucp_tag_send_nbx(pair->tx->ep, &values[i], sizeof(values[i]), TAG, &param);
    }
    if (results[1] != NULL && ucp_request_check_status(results[1]) == UCS_INPROGRESS) {
        assert_int_equal(ucp_worker_arm(pair->tx->worker), UCS_ERR_BUSY);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(cw_pair_wait(pair, results[i], "send"), UCS_OK);
    }
    receive_numbers(pair, 2);
    cw_pair_close(pair);
}
