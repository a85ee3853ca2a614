/* SPDX-License-Identifier: BSD-3-Clause */
/* Which endpoints ucp_stream_worker_poll reports, when and in which order: STR-13..18, EP-6, EP-8. */
#include "test_stream_common.h"

#include <stdlib.h>
#include <string.h>

enum { EPS = 5 };

static ssize_t poll_now(struct cw_pair *pair, ucp_stream_poll_ep_t *polled, size_t max)
{
    return ucp_stream_worker_poll(pair->rx->worker, polled, max, 0xffffffffu);
}

static int poll_one(struct cw_pair *pair)
{
    ucp_stream_poll_ep_t polled[2];

    return (int)poll_now(pair, polled, 2);
}

static ucp_ep_h connect_with_data(struct cw_side *side, ucp_worker_h target, void *user_data)
{
    ucp_ep_params_t params;
    size_t length;
    ucp_ep_h ep;
    void *blob = cw_test_worker_address(target, &length);

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_USER_DATA;
    params.address = blob;
    params.user_data = user_data;
    assert_int_equal(ucp_ep_create(side->worker, &params, &ep), UCS_OK);
    free(blob);
    return ep;
}

static const struct cw_pair_config no_eps = {.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM, .no_endpoints = true};

struct fan {
    ucp_ep_h tx[EPS];
    ucp_ep_h rx[EPS];
    int marks[EPS];
};

static void fan_open(struct cw_pair *pair, struct fan *fan)
{
    cw_pair_open(pair, &no_eps);
    for (int i = 0; i < EPS; i++) {
        fan->tx[i] = connect_with_data(pair->tx, pair->rx->worker, &fan->marks[i]);
        fan->rx[i] = cw_test_self_only() ? fan->tx[i] : connect_with_data(pair->rx, pair->tx->worker, &fan->marks[i]);
    }
}

static void fan_close(struct cw_pair *pair, struct fan *fan)
{
    for (int i = 0; i < EPS; i++) {
        stream_close(pair, fan->tx[i]);
        if (fan->rx[i] != fan->tx[i]) {
            stream_close(pair, fan->rx[i]);
        }
    }
    cw_pair_close(pair);
}

/* Data have arrived, although poll was not asked: a tag message behind them shows it. */
static void arrive(struct cw_pair *pair, ucp_ep_h tx, const void *data, size_t length)
{
    struct cw_op send = {0}, recv = {0};
    char byte = 0;

    stream_put_on(pair, tx, data, length);
    cw_op_recv(&recv, pair->rx->worker, &byte, 1, 1, CW_TAG_ALL);
    cw_op_send(&send, tx, "t", 1, 1);
    assert_int_equal(cw_op_wait(pair, &recv, "the tag message behind the stream"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "the tag send"), UCS_OK);
    cw_pair_settle(pair);
}

static void take_byte(struct cw_pair *pair, ucp_ep_h ep, char expected)
{
    struct stream_op recv;
    char byte = 0;

    stream_recv(&recv, ep, &byte, 1, 0);
    assert_int_equal(stream_wait(pair, &recv), 1);
    assert_int_equal(byte, expected);
}

API_TEST(test_str13_nothing_is_ready)
{
    ucp_stream_poll_ep_t polled;

    cw_pair_open(pair, &stream_config);
    assert_int_equal(poll_now(pair, &polled, 1), 0);
    arrive(pair, pair->tx->ep, "a", 1);
    assert_int_equal(poll_now(pair, NULL, 0), 0); /* max 0 */
    assert_int_equal(poll_now(pair, &polled, 1), 1);
    assert_ptr_equal(polled.ep, pair->rx->ep);
    take_byte(pair, pair->rx->ep, 'a');
    cw_pair_close(pair);
}

/* STR-13, STR-15: in the order of becoming ready, each once, with the user's data; at most as many as asked for. */
API_TEST(test_str15_order_and_user_data)
{
    static const int order[EPS] = {3, 0, 4, 1, 2};
    ucp_stream_poll_ep_t polled[EPS + 1];
    struct fan fan;

    fan_open(pair, &fan);
    for (int i = 0; i < EPS; i++) {
        arrive(pair, fan.tx[order[i]], "x", 1);
    }
    arrive(pair, fan.tx[3], "y", 1); /* is on the list already */
    assert_int_equal(poll_now(pair, polled, 2), 2);
    assert_int_equal(poll_now(pair, polled + 2, EPS - 1), 3);
    assert_int_equal(poll_one(pair), 0);
    for (int i = 0; i < EPS; i++) {
        assert_ptr_equal(polled[i].ep, fan.rx[order[i]]);
        assert_ptr_equal(polled[i].user_data, &fan.marks[order[i]]);
        take_byte(pair, fan.rx[i], 'x');
    }
    take_byte(pair, fan.rx[3], 'y');
    fan_close(pair, &fan);
}

/* Reported once; again only when new data come, also after a part was read. */
API_TEST(test_str14_again_only_for_new_data)
{
    cw_pair_open(pair, &stream_config);
    arrive(pair, pair->tx->ep, "abc", 3);
    assert_int_equal(poll_one(pair), 1);
    assert_int_equal(poll_one(pair), 0);
    take_byte(pair, pair->rx->ep, 'a');
    cw_pair_settle(pair);
    assert_int_equal(poll_one(pair), 0);
    arrive(pair, pair->tx->ep, "d", 1);
    assert_int_equal(poll_one(pair), 1);
    take_byte(pair, pair->rx->ep, 'b');
    take_byte(pair, pair->rx->ep, 'c');
    take_byte(pair, pair->rx->ep, 'd');
    arrive(pair, pair->tx->ep, "e", 1);
    assert_int_equal(poll_one(pair), 1);
    take_byte(pair, pair->rx->ep, 'e');
    cw_pair_close(pair);
}

API_TEST(test_str14_drained_before_poll)
{
    size_t length = 0;
    void *data;

    cw_pair_open(pair, &stream_config);
    arrive(pair, pair->tx->ep, "a", 1);
    take_byte(pair, pair->rx->ep, 'a');
    assert_int_equal(poll_one(pair), 0);
    arrive(pair, pair->tx->ep, "b", 1);
    data = ucp_stream_recv_data_nb(pair->rx->ep, &length);
    assert_non_null(data);
    assert_int_equal(length, 1);
    ucp_stream_data_release(pair->rx->ep, data);
    assert_int_equal(poll_one(pair), 0);
    arrive(pair, pair->tx->ep, "cd", 2);
    take_byte(pair, pair->rx->ep, 'c'); /* drained in part only: still to be reported */
    assert_int_equal(poll_one(pair), 1);
    take_byte(pair, pair->rx->ep, 'd');
    cw_pair_close(pair);
}

/* Endpoints that are closed in between are not reported, whether they were before or not, and the others still are. */
API_TEST(test_str15_closed_in_between)
{
    ucp_stream_poll_ep_t polled[EPS + 1];
    struct fan fan;

    cw_test_need_two_workers();
    fan_open(pair, &fan);
    for (int i = 0; i < EPS; i++) {
        arrive(pair, fan.tx[i], "x", 1);
    }
    assert_int_equal(poll_now(pair, polled, 2), 2); /* 0 and 1, which are not read */
    stream_close(pair, fan.rx[1]);
    stream_close(pair, fan.rx[3]);
    arrive(pair, fan.tx[0], "y", 1);
    stream_put_on(pair, fan.tx[1], "z", 1); /* for nobody */
    stream_put_on(pair, fan.tx[3], "z", 1);
    cw_pair_settle(pair);
    assert_int_equal(poll_now(pair, polled, EPS + 1), 3);
    assert_ptr_equal(polled[0].ep, fan.rx[2]);
    assert_ptr_equal(polled[1].ep, fan.rx[4]);
    assert_ptr_equal(polled[2].ep, fan.rx[0]);
    assert_int_equal(poll_one(pair), 0);
    take_byte(pair, fan.rx[0], 'x');
    take_byte(pair, fan.rx[0], 'y');
    for (int i = 0; i < EPS; i++) {
        stream_close(pair, fan.tx[i]);
        if (i % 2 == 0) {
            stream_close(pair, fan.rx[i]);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_str16_data_for_a_receive)
{
    struct stream_op recv;
    char in[4];

    cw_pair_open(pair, &stream_config);
    stream_recv(&recv, pair->rx->ep, in, 4, UCP_STREAM_RECV_FLAG_WAITALL);
    arrive(pair, pair->tx->ep, "ab", 2);
    assert_int_equal(poll_one(pair), 0);
    arrive(pair, pair->tx->ep, "cd", 2);
    assert_int_equal(poll_one(pair), 0);
    assert_int_equal(stream_wait(pair, &recv), 4);
    stream_recv(&recv, pair->rx->ep, in, 2, 0);
    arrive(pair, pair->tx->ep, "efg", 3); /* more than it takes */
    assert_int_equal(poll_one(pair), 1);
    assert_int_equal(stream_wait(pair, &recv), 2);
    take_byte(pair, pair->rx->ep, 'g');
    cw_pair_close(pair);
}

API_TEST(test_str17_poll_does_not_progress)
{
    cw_test_need_two_workers();
    cw_pair_open(pair, &stream_config);
    arrive(pair, pair->tx->ep, "a", 1); /* connects */
    take_byte(pair, pair->rx->ep, 'a');
    stream_put(pair, "b", 1);
    for (int i = 0; i < 1000; i++) {
        ucp_worker_progress(pair->tx->worker);
        assert_int_equal(poll_one(pair), 0);
    }
    cw_pair_settle(pair);
    assert_int_equal(poll_one(pair), 1);
    take_byte(pair, pair->rx->ep, 'b');
    cw_pair_close(pair);
}

/* STR-15, STR-18, EP-8: what came before the endpoint was made is not reported, and kept until it is. */
static void before_creation(struct cw_pair *pair, bool closed)
{
    ucp_stream_poll_ep_t polled[2];
    ucp_request_param_t none = cw_param_none();
    ucs_status_ptr_t sent[2], closing = NULL;
    ucp_ep_h tx[2], rx[2];
    char mark;

    cw_pair_open(pair, &no_eps);
    for (int i = 0; i < 2; i++) {
        tx[i] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
        sent[i] = ucp_stream_send_nbx(tx[i], i == 0 ? "o" : "p", 1, &none);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cw_pair_wait(pair, sent[i], "stream send"), UCS_OK);
    }
    if (closed) {
        closing = ucp_ep_close_nbx(tx[0], &none);
    }
    cw_pair_settle(pair);
    assert_int_equal(poll_one(pair), 0);
    rx[0] = connect_with_data(pair->rx, pair->tx->worker, &mark);
    assert_int_equal(poll_now(pair, polled, 2), 1);
    assert_ptr_equal(polled[0].ep, rx[0]);
    assert_ptr_equal(polled[0].user_data, &mark);
    assert_int_equal(poll_one(pair), 0);
    rx[1] = connect_with_data(pair->rx, pair->tx->worker, NULL);
    assert_int_equal(poll_now(pair, polled, 2), 1);
    assert_ptr_equal(polled[0].ep, rx[1]);
    take_byte(pair, rx[0], 'o');
    take_byte(pair, rx[1], 'p');
    if (closed) {
        assert_int_equal(cw_pair_wait(pair, closing, "close before the peer created its endpoint"), UCS_OK);
    }
    for (int i = closed; i < 2; i++) {
        stream_close(pair, tx[i]);
    }
    stream_close(pair, rx[0]);
    stream_close(pair, rx[1]);
    cw_pair_close(pair);
}

API_TEST(test_str18_data_before_creation)
{
    cw_test_need_two_workers();
    before_creation(pair, false);
}

API_TEST(test_str18_data_before_creation_and_close)
{
    cw_test_need_two_workers();
    cw_test_skip_reference("1.13 was not tried with a peer that closed already");
    before_creation(pair, true);
}
