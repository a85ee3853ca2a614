/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous sends: TAG-10, TAG-21..23, REQ-41. A sender that completes on arrival instead of on match fails here. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {0, 1, 8, 64, 5000, 9000, 70000, 1000000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void sync_send(struct cw_op *op, struct cw_pair *pair, const void *data, size_t length, ucp_tag_t tag,
                      uint32_t flags)
{
    ucp_request_param_t param = cw_param_send(op);

    param.op_attr_mask |= flags;
    cw_op_started(op, ucp_tag_send_sync_nbx(pair->tx->ep, data, length, tag, &param));
    if (UCS_PTR_IS_ERR(op->result)) {
        fail_msg("Synchronous send: %s", ucs_status_string(UCS_PTR_STATUS(op->result)));
    }
}

static void unexpected_round(struct cw_pair *pair, size_t length, uint32_t flags, bool by_probe)
{
    struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
    struct cw_op send = {0}, recv = {0};
    ucp_tag_recv_info_t info;

    cw_pattern_fill(out.data, length, length);
    sync_send(&send, pair, out.data, length, 1, flags);
    assert_true(UCS_PTR_IS_PTR(send.result)); /* nothing can have matched it */
    cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
    assert_int_equal(info.length, length);
    cw_pair_settle(pair);
    assert_int_equal(send.calls, 0); /* TAG-21, TAG-22: arrival is not enough, nor is a probe */
    assert_int_equal(ucp_request_check_status(send.result), UCS_INPROGRESS);
    if (by_probe) {
        ucp_request_param_t param = cw_param_recv(&recv);
        ucp_tag_message_h message = ucp_tag_probe_nb(pair->rx->worker, 1, CW_TAG_ALL, 1, &info);

        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        cw_op_started(&recv, ucp_tag_msg_recv_nbx(pair->rx->worker, in.data, length, message, &param));
    } else {
        cw_op_recv(&recv, pair->rx->worker, in.data, length, 1, CW_TAG_ALL);
    }
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "synchronous send"), UCS_OK);
    cw_pattern_check(in.data, length, length);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

API_TEST(test_tag21_completes_on_match_only)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        unexpected_round(pair, sizes[i], 0, false);
        unexpected_round(pair, sizes[i], 0, true);
        unexpected_round(pair, sizes[i], UCP_OP_ATTR_FLAG_FAST_CMPL, false); /* TAG-23 */
    }
    cw_pair_close(pair);
}

API_TEST(test_tag21_expected)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i]);
        struct cw_op send = {0}, recv = {0};

        cw_pattern_fill(out.data, sizes[i], 1);
        cw_op_recv(&recv, pair->rx->worker, in.data, sizes[i], 1, CW_TAG_ALL);
        sync_send(&send, pair, out.data, sizes[i], 1, 0);
        assert_int_equal(cw_op_wait(pair, &send, "synchronous send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pattern_check(in.data, sizes[i], 1);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag33_truncated_sync_send_completes_ok)
{
    cw_pair_open(pair, NULL);
    for (int i = 1; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i] - 1);
        struct cw_op send = {0}, recv = {0};
        ucp_tag_recv_info_t info;

        sync_send(&send, pair, out.data, sizes[i], 1, 0);
        if (i % 2 == 0) {
            cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
        }
        cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 1, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_ERR_MESSAGE_TRUNCATED);
        assert_int_equal(cw_op_wait(pair, &send, "synchronous send"), UCS_OK);
        cw_buffer_check(&in);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
    cw_pair_close(pair);
}

/* TAG-10: synchronous, fast and plain sends of one tag are matched in the order of sending. */
API_TEST(test_tag10_order_with_other_sends)
{
    enum { COUNT = 60 };
    struct cw_op sends[COUNT], recvs[COUNT];
    struct cw_buffer out[COUNT], in[COUNT];

    memset(sends, 0, sizeof(sends));
    memset(recvs, 0, sizeof(recvs));
    cw_pair_open(pair, NULL);
    for (int i = 0; i < COUNT; i++) {
        size_t length = sizes[(i * 5) % SIZES];

        out[i] = cw_buffer_new(length);
        in[i] = cw_buffer_new(length);
        cw_pattern_fill(out[i].data, length, (uint64_t)i);
        if (i % 3 == 0) {
            sync_send(&sends[i], pair, out[i].data, length, 1, 0);
        } else {
            cw_op_send(&sends[i], pair->tx->ep, out[i].data, length, 1);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, in[i].data, in[i].length, 1, CW_TAG_ALL);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        assert_int_equal(recvs[i].info.length, in[i].length);
        cw_pattern_check(in[i].data, in[i].length, (uint64_t)i);
        cw_buffer_free(&in[i]);
        cw_buffer_free(&out[i]);
    }
    cw_pair_close(pair);
}

static int old_calls;

static void old_done(void *request, ucs_status_t status)
{
    (void)request;
    old_calls += status == UCS_OK;
}

API_TEST(test_req41_sync_nb)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i]);
        struct cw_op recv = {0};
        ucp_tag_recv_info_t info;
        ucs_status_ptr_t send;

        old_calls = 0;
        send = ucp_tag_send_sync_nb(pair->tx->ep, out.data, sizes[i], ucp_dt_make_contig(1), 1, old_done);
        assert_true(UCS_PTR_IS_PTR(send));
        cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
        cw_pair_settle(pair);
        assert_int_equal(old_calls, 0);
        cw_op_recv(&recv, pair->rx->worker, in.data, sizes[i], 1, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, send, "synchronous send"), UCS_OK);
        assert_int_equal(old_calls, 1);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag21_many_unmatched_then_matched_backwards)
{
    enum { COUNT = 500 };
    struct cw_op *sends = calloc(COUNT, sizeof(*sends));
    uint64_t out[COUNT];
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    for (int i = 0; i < COUNT; i++) {
        out[i] = (uint64_t)i;
        sync_send(&sends[i], pair, &out[i], 8, (ucp_tag_t)i, 0);
    }
    cw_pair_wait_probe(pair, COUNT - 1, CW_TAG_ALL, &info);
    cw_pair_settle(pair);
    for (int i = COUNT - 1; i >= 0; i--) {
        struct cw_op recv = {0};
        uint64_t in = 0;

        assert_int_equal(sends[i].calls, 0);
        cw_op_recv(&recv, pair->rx->worker, &in, 8, (ucp_tag_t)i, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(in, i);
        assert_int_equal(cw_op_wait(pair, &sends[i], "synchronous send"), UCS_OK);
    }
    free(sends);
    cw_pair_close(pair);
}
