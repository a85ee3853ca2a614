/* SPDX-License-Identifier: BSD-3-Clause */
/* Probe and reception of probed messages: TPR-1..9, TAG-6, TAG-35. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {0, 1, 8, 64, 5000, 9000, 70000, 1000000, 5000000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static ucp_tag_message_h wait_take(struct cw_pair *pair, ucp_tag_t tag, ucp_tag_t mask, ucp_tag_recv_info_t *info)
{
    cw_pair_wait_probe(pair, tag, mask, info);
    return ucp_tag_probe_nb(pair->rx->worker, tag, mask, 1, info);
}

static ucs_status_t recv_message(struct cw_pair *pair, ucp_tag_message_h message, void *data, size_t length,
                                 struct cw_op *op)
{
    ucp_request_param_t param = cw_param_recv(op);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.tag_info = &op->info;
    if (cw_test_reference()) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL; /* 1.13 does not write RECV_INFO */
    }
    cw_op_started(op, ucp_tag_msg_recv_nbx(pair->rx->worker, data, length, message, &param));
    return cw_op_wait(pair, op, "receive of a probed message");
}

API_TEST(test_tpr1_nothing_matches)
{
    ucp_tag_recv_info_t info, before;

    cw_pair_open(pair, NULL);
    memset(&info, 0x5c, sizeof(info));
    before = info;
    for (int remove = 0; remove < 2; remove++) {
        assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, remove, &info));
        assert_null(ucp_tag_probe_nb(pair->rx->worker, 1, CW_TAG_ALL, remove, &info));
        assert_memory_equal(&info, &before, sizeof(info));
    }
    cw_pair_close(pair);
}

API_TEST(test_tpr3_probe_without_remove_leaves_the_message)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i]);
        struct cw_op send = {0}, recv = {0};
        ucp_tag_recv_info_t info;

        cw_pattern_fill(out.data, sizes[i], 3);
        cw_op_send(&send, pair->tx->ep, out.data, sizes[i], 0x10 + (ucp_tag_t)i);
        for (int round = 0; round < 3; round++) {
            memset(&info, 0, sizeof(info));
            cw_pair_wait_probe(pair, 0x10 + (ucp_tag_t)i, CW_TAG_ALL, &info);
            assert_int_equal(info.length, sizes[i]); /* TPR-5 */
            assert_int_equal(info.sender_tag, 0x10 + i);
        }
        cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 0x10 + (ucp_tag_t)i, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pattern_check(in.data, sizes[i], 3);
        assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
    cw_pair_close(pair);
}

API_TEST(test_tpr4_removed_messages_in_any_order)
{
    struct cw_buffer out[SIZES];
    struct cw_op sends[SIZES];
    ucp_tag_message_h messages[SIZES];
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    memset(sends, 0, sizeof(sends));
    for (int i = 0; i < SIZES; i++) {
        out[i] = cw_buffer_new(sizes[i]);
        cw_pattern_fill(out[i].data, sizes[i], (uint64_t)i);
        cw_op_send(&sends[i], pair->tx->ep, out[i].data, sizes[i], 7);
    }
    for (int i = 0; i < SIZES; i++) {
        messages[i] = wait_take(pair, 0, 0, &info);
        assert_non_null(messages[i]);
        assert_int_equal(info.length, sizes[i]); /* TAG-6: the earliest arrived */
    }
    cw_pair_settle(pair);
    assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
    for (int i = SIZES - 1; i >= 0; i--) {
        struct cw_buffer in = cw_buffer_new(sizes[i] + 10);
        struct cw_op recv = {0};

        assert_int_equal(recv_message(pair, messages[i], in.data, in.length, &recv), UCS_OK);
        assert_int_equal(recv.info.length, sizes[i]);
        assert_int_equal(recv.info.sender_tag, 7);
        cw_pattern_check(in.data, sizes[i], (uint64_t)i);
        cw_buffer_check(&in);
        cw_buffer_free(&in);
    }
    for (int i = 0; i < SIZES; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        cw_buffer_free(&out[i]);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag6_removed_message_is_invisible_to_receives)
{
    struct cw_op sends[2] = {0}, posted = {0}, taken = {0};
    uint64_t out[2] = {1, 2}, in_posted = 0, in_taken = 0;
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    cw_op_send(&sends[0], pair->tx->ep, &out[0], 8, 5);
    message = wait_take(pair, 5, CW_TAG_ALL, &info);
    cw_op_recv(&posted, pair->rx->worker, &in_posted, 8, 5, CW_TAG_ALL);
    cw_pair_settle(pair);
    assert_int_equal(posted.calls, 0);
    cw_op_send(&sends[1], pair->tx->ep, &out[1], 8, 5);
    assert_int_equal(cw_op_wait(pair, &posted, "receive"), UCS_OK);
    assert_int_equal(in_posted, 2);
    assert_int_equal(recv_message(pair, message, &in_taken, 8, &taken), UCS_OK);
    assert_int_equal(in_taken, 1);
    assert_int_equal(cw_op_wait(pair, &sends[0], "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &sends[1], "send"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_tag35_truncation_of_a_probed_message)
{
    cw_pair_open(pair, NULL);
    for (int i = 1; i < SIZES; i++) {
        for (int part = 0; part < 2; part++) {
            struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(part == 0 ? 0 : sizes[i] - 1);
            struct cw_op send = {0}, recv = {0};
            ucp_tag_message_h message;
            ucp_tag_recv_info_t info;

            cw_op_send(&send, pair->tx->ep, out.data, sizes[i], 2);
            message = wait_take(pair, 2, CW_TAG_ALL, &info);
            assert_int_equal(recv_message(pair, message, in.data, in.length, &recv), UCS_ERR_MESSAGE_TRUNCATED);
            assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK); /* TPR-7: consumed */
            assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
            cw_buffer_check(&in);
            cw_buffer_free(&in);
            cw_buffer_free(&out);
        }
    }
    cw_pair_close(pair);
}

static int old_calls;
static ucs_status_t old_status;
static ucp_tag_recv_info_t old_info;

static void old_done(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    (void)request;
    old_calls++;
    old_status = status;
    old_info = *info;
}

API_TEST(test_req42_msg_recv_nb_is_never_null)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i]);
        struct cw_op send = {0};
        ucp_tag_message_h message;
        ucp_tag_recv_info_t info;
        ucs_status_ptr_t request;

        cw_pattern_fill(out.data, sizes[i], 9);
        cw_op_send(&send, pair->tx->ep, out.data, sizes[i], 2);
        message = wait_take(pair, 2, CW_TAG_ALL, &info);
        old_calls = 0;
        request = ucp_tag_msg_recv_nb(pair->rx->worker, in.data, sizes[i], ucp_dt_make_contig(1), message, old_done);
        assert_true(UCS_PTR_IS_PTR(request));
        assert_int_equal(cw_pair_wait(pair, request, "msg_recv_nb"), UCS_OK);
        assert_int_equal(old_calls, 1);
        assert_int_equal(old_status, UCS_OK);
        assert_int_equal(old_info.length, sizes[i]);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pattern_check(in.data, sizes[i], 9);
        cw_buffer_free(&in);
        cw_buffer_free(&out);
    }
    cw_pair_close(pair);
}

struct nested {
    struct cw_pair *pair;
    struct cw_op inner;
    uint64_t in;
    int outer_calls;
    bool found;
};

static void outer_done(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct nested *nested = user_data;
    ucp_tag_recv_info_t seen;
    ucp_tag_message_h message = ucp_tag_probe_nb(nested->pair->rx->worker, 2, CW_TAG_ALL, 1, &seen);
    ucp_request_param_t param = cw_param_recv(&nested->inner);

    (void)status;
    (void)info;
    nested->outer_calls++;
    if (message != NULL) {
        nested->found = true;
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        cw_op_started(&nested->inner, ucp_tag_msg_recv_nbx(nested->pair->rx->worker, &nested->in, 8, message, &param));
    }
    ucp_request_free(request);
}

API_TEST(test_tpr4_gen7_probe_and_receive_inside_a_callback)
{
    struct nested nested = {.pair = pair};
    struct cw_op sends[2] = {0};
    ucp_request_param_t param = cw_param_none();
    uint64_t out[2] = {11, 22}, in = 0;
    ucp_tag_recv_info_t info;
    ucs_status_ptr_t outer;

    cw_pair_open(pair, NULL);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv = outer_done;
    param.user_data = &nested;
    cw_op_send(&sends[1], pair->tx->ep, &out[1], 8, 2);
    cw_pair_wait_probe(pair, 2, CW_TAG_ALL, &info);
    outer = ucp_tag_recv_nbx(pair->rx->worker, &in, 8, 1, CW_TAG_ALL, &param);
    assert_true(UCS_PTR_IS_PTR(outer));
    cw_op_send(&sends[0], pair->tx->ep, &out[0], 8, 1);
    cw_pair_wait_count(pair, &nested.outer_calls, 1, "outer receive");
    assert_true(nested.found);
    assert_int_equal(cw_op_wait(pair, &nested.inner, "inner receive"), UCS_OK);
    assert_int_equal(in, 11);
    assert_int_equal(nested.in, 22);
    assert_int_equal(cw_op_wait(pair, &sends[0], "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &sends[1], "send"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_tpr8_drain_before_destroy)
{
    enum { COUNT = 100 };
    struct cw_op sends[COUNT];
    struct cw_buffer out = cw_buffer_new(100000), in = cw_buffer_new(100000);
    int drained = 0;

    memset(sends, 0, sizeof(sends));
    cw_pair_open(pair, NULL);
    for (int i = 0; i < COUNT; i++) {
        cw_op_send(&sends[i], pair->tx->ep, out.data, (size_t)(i % 10) * 10000, (ucp_tag_t)i * 0x9e3779b97f4a7c15ull);
    }
    while (drained < COUNT) {
        ucp_tag_recv_info_t info;
        struct cw_op recv = {0};
        ucp_tag_message_h message = wait_take(pair, 0, 0, &info);

        assert_int_equal(info.length, (drained % 10) * 10000); /* the oldest */
        assert_int_equal(recv_message(pair, message, in.data, in.length, &recv), UCS_OK);
        drained++;
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
    }
    cw_buffer_free(&in);
    cw_buffer_free(&out);
    cw_pair_close(pair);
}

API_TEST(test_tpr9_matched_message_is_invisible_to_probe)
{
    struct cw_buffer out = cw_buffer_new(3000000), in = cw_buffer_new(3000000);
    struct cw_op send = {0}, recv = {0};
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 5, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, out.data, out.length, 5);
    while (recv.calls == 0 && cw_time_now_s() < deadline) {
        cw_pair_progress(pair);
        assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
    }
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
    cw_pair_close(pair);
}

API_TEST(test_r9_unexpected_arrival_counts_as_progress)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t value = 1;

    cw_test_need_two_workers();
    cw_pair_open(pair, NULL);
    for (int round = 0; round < 50; round++) { /* ps-lite probes only after a progress that was not 0 */
        double deadline = cw_time_now_s() + CW_WAIT_S;
        ucs_status_ptr_t send = ucp_tag_send_nbx(pair->tx->ep, &value, 8, 1, &param);
        ucp_tag_message_h message = NULL;
        struct cw_op recv = {0};

        while (message == NULL) {
            ucp_tag_recv_info_t info;

            ucp_worker_progress(pair->tx->worker);
            if (ucp_worker_progress(pair->rx->worker) > 0) {
                message = ucp_tag_probe_nb(pair->rx->worker, 1, CW_TAG_ALL, 1, &info);
            }
            if (cw_time_now_s() > deadline) {
                fail_msg("Round %d: a message arrived while progress returned 0", round);
            }
        }
        assert_int_equal(recv_message(pair, message, &value, 8, &recv), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    }
    cw_pair_close(pair);
}
