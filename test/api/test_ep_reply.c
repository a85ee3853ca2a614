/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint for replies that a handler of active messages gets is the own one of that connection: EP-10, R21. */
#include "harness.h"

#include <string.h>

enum { COUNT = 5, AM_ID = 3 };

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM, .no_endpoints = true};

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

struct replies {
    ucp_ep_h eps[COUNT];
    volatile int calls;
};

static ucs_status_t note_reply_ep(void *arg, const void *header, size_t header_length, void *data, size_t length,
                                  const ucp_am_recv_param_t *param)
{
    struct replies *replies = arg;
    uint64_t index = 0;

    (void)data;
    (void)length;
    if (header_length == sizeof(index) && (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP)) {
        memcpy(&index, header, sizeof(index));
        replies->eps[index % COUNT] = param->reply_ep;
    }
    replies->calls++;
    return UCS_OK;
}

static void am_send_all(struct cw_pair *pair, ucp_ep_h *eps, struct replies *replies)
{
    int before = replies->calls;

    for (uint64_t i = 0; i < COUNT; i++) {
        ucp_request_param_t param = cw_param_none();

        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_REPLY;
        assert_int_equal(cw_pair_wait(pair, ucp_am_send_nbx(eps[i], AM_ID, &i, sizeof(i), NULL, 0, &param), "AM send"),
                         UCS_OK);
    }
    cw_pair_wait_count(pair, &replies->calls, before + COUNT, "active messages");
}

static void test_ep10_reply_ep_is_the_own_handle(void **state)
{
    struct cw_pair *pair = *state;
    struct replies replies = {.calls = 0};
    ucp_ep_h eps[2][COUNT];
    ucp_am_handler_param_t handler;

    cw_test_need_two_workers();
    cw_pair_open(pair, &config);
    memset(&handler, 0xff, sizeof(handler));
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = AM_ID;
    handler.cb = note_reply_ep;
    handler.arg = &replies;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    for (int i = 0; i < COUNT; i++) {
        eps[0][i] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
        eps[1][i] = cw_side_connect(pair->rx, pair->tx->worker, NULL);
    }
    for (int round = 0; round < 3; round++) { /* R21: the identity is stable */
        memset(replies.eps, 0, sizeof(replies.eps));
        am_send_all(pair, eps[0], &replies);
        for (int i = 0; i < COUNT; i++) {
            assert_ptr_equal(replies.eps[i], eps[1][i]);
        }
    }
    close_all(pair, eps[0], COUNT);
    close_all(pair, eps[1], COUNT);
    cw_pair_close(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ep10_reply_ep_is_the_own_handle, cw_test_setup, cw_test_teardown),
    };

    return cmocka_run_group_tests_name("api.ep_reply", tests, NULL, NULL);
}
