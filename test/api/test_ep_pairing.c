/* SPDX-License-Identifier: BSD-3-Clause */
/* Which endpoint is joined to which: EP-6, EP-7, EP-8, EP-12. Tags cannot show it, so streams do. EP-10 is
 * test_ep_reply.c. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 5 };

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM, .no_endpoints = true};

static ucs_status_ptr_t stream_send(ucp_ep_h ep, const uint64_t *value)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_stream_send_nbx(ep, value, sizeof(*value), &param);
}

static uint64_t stream_take(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t value = 0;
    size_t length = 0;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
    assert_int_equal(cw_pair_wait(pair, ucp_stream_recv_nbx(ep, &value, sizeof(value), &length, &param),
                                  "stream receive"), UCS_OK);
    return value;
}

static void close_all(struct cw_pair *pair, ucp_ep_h *eps, int count)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t closing[2 * COUNT];

    for (int i = 0; i < count; i++) {
        closing[i] = ucp_ep_close_nbx(eps[i], &param);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(cw_pair_wait(pair, closing[i], "close"), UCS_OK);
    }
}

/* order: who creates when; send_between: what is sent before the other side has created all of its endpoints. */
static void pair_by_number(struct cw_pair *pair, unsigned order, bool send_between)
{
    ucp_ep_h eps[2][COUNT];
    int made[2] = {0, 0};
    uint64_t out[2][COUNT];
    ucs_status_ptr_t sends[2][COUNT];

    cw_pair_open(pair, &config);
    while (made[0] + made[1] < 2 * COUNT) {
        int side = (int)(order & 1u);

        order = order >> 1 | order << 31;
        side = made[side] == COUNT ? 1 - side : side;
        eps[side][made[side]] = cw_side_connect(&pair->sides[side], pair->sides[1 - side].worker, NULL);
        out[side][made[side]] = (uint64_t)(100 * side + made[side]);
        if (send_between) {
            sends[side][made[side]] = stream_send(eps[side][made[side]], &out[side][made[side]]);
            cw_pair_progress(pair);
        }
        made[side]++;
    }
    for (int i = 0; i < COUNT && !send_between; i++) {
        int last = COUNT - 1 - i; /* the first use is in another order than the creation */

        sends[0][last] = stream_send(eps[0][last], &out[0][last]);
        sends[1][i] = stream_send(eps[1][i], &out[1][i]);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(stream_take(pair, eps[0][i]), 100 + i);
        assert_int_equal(stream_take(pair, eps[1][i]), i);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(cw_pair_wait(pair, sends[0][i], "stream send"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, sends[1][i], "stream send"), UCS_OK);
    }
    close_all(pair, eps[0], COUNT);
    close_all(pair, eps[1], COUNT);
    cw_pair_close(pair);
}

API_TEST(test_ep7_nth_meets_nth)
{
    static const unsigned orders[] = {0, 0xffffffffu, 0x55555555u, 0x0f0f0f0fu, 0x6b3a91c5u};

    cw_test_need_two_workers();
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        pair_by_number(pair, orders[i], false);
        pair_by_number(pair, orders[i], true); /* EP-8: adoption keeps what arrived before */
    }
}

API_TEST(test_ep12_self_streams_to_itself)
{
    ucp_ep_h eps[COUNT];
    uint64_t out[COUNT];
    ucs_status_ptr_t sends[COUNT];

    cw_pair_open(pair, &config);
    for (int i = 0; i < COUNT; i++) {
        eps[i] = cw_side_connect(pair->tx, pair->tx->worker, NULL);
        out[i] = (uint64_t)i + 7;
        sends[i] = stream_send(eps[i], &out[i]);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        assert_int_equal(stream_take(pair, eps[i]), i + 7);
        assert_int_equal(cw_pair_wait(pair, sends[i], "stream send"), UCS_OK);
    }
    close_all(pair, eps, COUNT);
    cw_pair_close(pair);
}

API_TEST(test_ep12_no_loopback_pairs_two_by_two)
{
    ucp_ep_h eps[4];
    uint64_t out[4];
    ucs_status_ptr_t sends[4];
    ucp_ep_params_t params;
    size_t length;
    void *blob;

    cw_pair_open(pair, &config);
    blob = cw_test_worker_address(pair->tx->worker, &length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_FLAGS;
    params.address = blob;
    params.flags = UCP_EP_PARAMS_FLAGS_NO_LOOPBACK;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &eps[i]), UCS_OK);
    }
    free(blob);
    for (int i = 0; i < 4; i++) {
        out[i] = (uint64_t)i;
        sends[i] = stream_send(eps[i], &out[i]);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(stream_take(pair, eps[i]), i ^ 1);
        assert_int_equal(cw_pair_wait(pair, sends[i], "stream send"), UCS_OK);
    }
    close_all(pair, eps, 4);
    cw_pair_close(pair);
}

API_TEST(test_ep8_unadopted_connection_shows_in_poll)
{
    ucp_stream_poll_ep_t polled[4];
    ucp_ep_h eps[2];
    uint64_t out = 55;
    ucs_status_ptr_t send;
    ssize_t count = 0;
    ucp_ep_params_t params;
    size_t length;
    void *blob;

    cw_test_need_two_workers();
    cw_pair_open(pair, &config);
    eps[0] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    send = stream_send(eps[0], &out);
    cw_pair_settle(pair);
    blob = cw_test_worker_address(pair->tx->worker, &length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_USER_DATA;
    params.address = blob;
    params.user_data = &out; /* EP-6 */
    assert_int_equal(ucp_ep_create(pair->rx->worker, &params, &eps[1]), UCS_OK);
    free(blob);
    cw_pair_until(pair, (count = ucp_stream_worker_poll(pair->rx->worker, polled, 4, 0)) != 0, "a ready endpoint");
    assert_int_equal(count, 1);
    assert_ptr_equal(polled[0].ep, eps[1]);
    assert_ptr_equal(polled[0].user_data, &out);
    assert_int_equal(stream_take(pair, eps[1]), 55);
    assert_int_equal(cw_pair_wait(pair, send, "stream send"), UCS_OK);
    close_all(pair, eps, 2);
    cw_pair_close(pair);
}
