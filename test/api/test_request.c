/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and operation attributes: REQ-1..9, 20..30, 40..46, OPA-1..20, CTX-20..28, rules R1..R8 of the clients. */
#include "harness.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>

enum { AREA = 40, BIG = 2000000 };

static int init_calls;
static int cleanup_calls;

static void area_init(void *request)
{
    init_calls++;
    memset(request, 0x11, AREA);
}

static void area_cleanup(void *request)
{
    (void)request;
    cleanup_calls++;
}

static void open_with_area(struct cw_pair *pair)
{
    struct cw_pair_config config = {
        .request_size = AREA, .request_init = area_init, .request_cleanup = area_cleanup};

    init_calls = 0;
    cleanup_calls = 0;
    cw_pair_open(pair, &config);
}

static bool area_is(const void *request, int value)
{
    const unsigned char *bytes = request;

    for (int i = 0; i < AREA; i++) {
        if (bytes[i] != value) {
            return false;
        }
    }
    return true;
}

API_TEST(test_req2_req3_callback_exactly_once_never_inside_a_send)
{
    static const size_t sizes[] = {0, 8, 1000, 9000, 70000, BIG};
    struct cw_buffer out = cw_buffer_new(BIG), in = cw_buffer_new(BIG);

    cw_pair_open(pair, NULL);
    for (int round = 0; round < 60; round++) {
        size_t length = sizes[round % 6];
        struct cw_op send = {0}, recv = {0};
        bool expected = round % 4 < 2;

        if (expected) {
            cw_op_recv(&recv, pair->rx->worker, in.data, length, 1, CW_TAG_ALL);
        }
        cw_op_send(&send, pair->tx->ep, out.data, length, 1);
        assert_int_equal(send.calls, 0); /* R1 */
        if (!expected) {
            cw_op_recv(&recv, pair->rx->worker, in.data, length, 1, CW_TAG_ALL);
        }
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pair_settle(pair);
        assert_true(send.calls <= 1 && recv.calls <= 1);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_req8_small_send_to_ready_endpoint_is_immediate)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t value = 1;
    int immediate = 0;

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    for (int i = 0; i < 10; i++) {
        ucs_status_ptr_t result = ucp_tag_send_nbx(pair->tx->ep, &value, sizeof(value), 2, &param);
        struct cw_op recv = {0};

        immediate += result == NULL;
        assert_int_equal(cw_pair_wait(pair, result, "send"), UCS_OK);
        cw_op_recv(&recv, pair->rx->worker, &value, sizeof(value), 2, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    }
    assert_true(immediate >= 9);
    cw_pair_close(pair);
}

/* R4 / REQ-20, REQ-21: what becomes of the callback and of the data when a request is given up early. */
static void give_up_early(struct cw_pair *pair, size_t length, bool keep_callback)
{
    struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
    struct cw_op send = {0}, recv = {0};
    bool pending;

    cw_pattern_fill(out.data, length, length);
    cw_op_send(&send, pair->tx->ep, out.data, length, 1);
    pending = UCS_PTR_IS_PTR(send.result);
    assert_false(UCS_PTR_IS_ERR(send.result));
    if (pending && keep_callback) {
        ucp_request_release(send.result);
    } else if (pending) {
        ucp_request_free(send.result);
    }
    cw_op_recv(&recv, pair->rx->worker, in.data, length, 1, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    cw_pattern_check(in.data, length, length);
    if (pending && keep_callback) {
        cw_pair_wait_count(pair, &send.calls, 1, "callback of a released send");
        assert_int_equal(send.status, UCS_OK);
    }
    cw_pair_settle(pair);
    assert_int_equal(send.calls, pending && keep_callback ? 1 : 0);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

API_TEST(test_req20_req21_free_drops_release_keeps)
{
    static const size_t sizes[] = {8, 9000, 70000, BIG};

    cw_pair_open(pair, NULL);
    for (int round = 0; round < 40; round++) {
        give_up_early(pair, sizes[round % 4], round % 8 < 4);
    }
    cw_pair_close(pair);
}

API_TEST(test_req22_free_inside_the_callback)
{
    static const size_t sizes[] = {8, 9000, BIG};
    struct cw_buffer out = cw_buffer_new(BIG), in = cw_buffer_new(BIG);

    open_with_area(pair);
    for (int round = 0; round < 24; round++) {
        struct cw_op send = {.free_inside = true}, recv = {.free_inside = true};
        ucp_request_param_t param = cw_param_recv(&recv);
        size_t length = sizes[round % 3];
        bool expected = round % 2 == 0;

        cw_pattern_fill(out.data, length, (uint64_t)round);
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        if (!expected) {
            cw_op_send(&send, pair->tx->ep, out.data, length, 1);
            cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &recv.info);
        }
        /* When the message is there the callback, and so the free, comes before the call returns (R2, R3). */
        cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, length, 1, CW_TAG_ALL, &param));
        assert_true(UCS_PTR_IS_PTR(recv.result));
        if (expected) {
            cw_op_send(&send, pair->tx->ep, out.data, length, 1);
        }
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pattern_check(in.data, length, (uint64_t)round);
        cw_pair_ping(pair, 2); /* the pool is in order */
    }
    cw_pair_settle(pair);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
    assert_int_equal(init_calls, cleanup_calls);
}

API_TEST(test_req23_reused_handle_gets_no_stale_completion)
{
    uint64_t got[2] = {0}, value = 3;
    ucp_request_param_t param = cw_param_none();

    cw_pair_open(pair, NULL);
    for (int round = 0; round < 200; round++) {
        struct cw_op first = {0}, second = {0};

        cw_op_recv(&first, pair->rx->worker, &got[0], 8, 1, CW_TAG_ALL);
        ucp_request_cancel(pair->rx->worker, first.result);
        ucp_request_free(first.result);
        cw_op_recv(&second, pair->rx->worker, &got[1], 8, 1, CW_TAG_ALL);
        cw_pair_progress(pair);
        assert_int_equal(first.calls, 1);
        assert_int_equal(second.calls, 0);
        assert_int_equal(ucp_request_check_status(second.result), UCS_INPROGRESS);
        assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, &value, 8, 1, &param), "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &second, "receive"), UCS_OK);
        assert_int_equal(first.calls, 1);
    }
    cw_pair_close(pair);
}

API_TEST(test_req24_cancel_has_no_effect_on_others)
{
    struct cw_buffer out = cw_buffer_new(BIG), in = cw_buffer_new(BIG);
    struct cw_op send = {0}, recv = {0}, done = {0};

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 9);
    cw_pattern_fill(out.data, BIG, 1);
    cw_op_send(&send, pair->tx->ep, out.data, BIG, 1); /* sends: test_tag_cancel */
    cw_pair_settle(pair);
    cw_op_recv(&recv, pair->rx->worker, in.data, BIG, 1, CW_TAG_ALL);
    if (UCS_PTR_IS_PTR(recv.result) && recv.calls == 0) {
        ucp_request_cancel(pair->rx->worker, recv.result); /* it has matched: no effect */
        assert_int_equal(recv.calls, 0);
    }
    assert_int_equal(cw_op_wait(pair, &recv, "matched receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pattern_check(in.data, BIG, 1);

    cw_op_recv(&done, pair->rx->worker, in.data, 8, 2, CW_TAG_ALL);
    send = (struct cw_op){0};
    cw_op_send(&send, pair->tx->ep, out.data, 8, 2);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pair_wait_count(pair, &done.calls, 1, "receive");
    ucp_request_cancel(pair->rx->worker, done.result); /* REQ-26 */
    assert_int_equal(cw_op_wait(pair, &done, "receive"), UCS_OK);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_req27_test_calls_agree)
{
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info;
    uint64_t out = 5, in = 0;
    ucs_status_ptr_t recv, send;

    cw_pair_open(pair, NULL);
    recv = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 7, CW_TAG_ALL, &param);
    assert_int_equal(ucp_tag_recv_request_test(recv, &info), UCS_INPROGRESS);
    assert_int_equal(ucp_request_test(recv, &info), UCS_INPROGRESS);
    assert_int_equal(ucp_request_check_status(recv), UCS_INPROGRESS);
    assert_false(ucp_request_is_completed(recv)); /* REQ-6 */
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 7, &param);
    cw_pair_until(pair, ucp_tag_recv_request_test(recv, &info) != UCS_INPROGRESS, "receive");
    for (int i = 0; i < 3; i++) { /* stays so until freed: REQ-5 */
        memset(&info, 0, sizeof(info));
        assert_int_equal(i % 2 == 0 ? ucp_request_test(recv, &info) : ucp_tag_recv_request_test(recv, &info), UCS_OK);
        assert_int_equal(info.length, 8);
        assert_int_equal(info.sender_tag, 7);
    }
    ucp_request_free(recv);
    if (UCS_PTR_IS_PTR(send)) {
        assert_int_not_equal(ucp_request_test(send, NULL), UCS_ERR_LAST);
    }
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_req28_query_returns_what_is_asked_for)
{
    ucp_request_param_t param = cw_param_none();
    ucp_request_attr_t attr;
    char text[200], tiny[4];
    uint64_t in = 0;
    ucs_status_ptr_t recv;

    cw_pair_open(pair, NULL);
    recv = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 7, CW_TAG_ALL, &param);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_REQUEST_ATTR_FIELD_STATUS | UCP_REQUEST_ATTR_FIELD_MEM_TYPE |
                      UCP_REQUEST_ATTR_FIELD_INFO_STRING | UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE;
    attr.debug_string = text;
    attr.debug_string_size = sizeof(text);
    assert_int_equal(ucp_request_query(recv, &attr), UCS_OK);
    assert_int_equal(attr.status, UCS_INPROGRESS);
    assert_int_equal(attr.mem_type, UCS_MEMORY_TYPE_HOST);
    assert_non_null(memchr(text, 0, sizeof(text)));
    assert_non_null(strstr(text, "recv"));
    assert_non_null(strstr(text, "host"));

    memset(tiny, 'x', sizeof(tiny));
    attr.debug_string = tiny;
    attr.debug_string_size = 3;
    assert_int_equal(ucp_request_query(recv, &attr), UCS_OK);
    assert_true(cw_test_reference() || tiny[2] == 0); /* 1.13 does not terminate what it cuts */
    assert_int_equal(tiny[3], 'x');

    attr.field_mask = UCP_REQUEST_ATTR_FIELD_INFO_STRING;
    assert_int_equal(ucp_request_query(recv, &attr), UCS_ERR_INVALID_PARAM);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_REQUEST_ATTR_FIELD_STATUS; /* GEN-4: nothing else is touched */
    assert_int_equal(ucp_request_query(recv, &attr), UCS_OK);
    assert_ptr_equal(attr.debug_string, (char *)~(uintptr_t)0);
    assert_int_equal(attr.field_mask, UCP_REQUEST_ATTR_FIELD_STATUS);
    ucp_request_cancel(pair->rx->worker, recv);
    assert_int_equal(cw_pair_wait(pair, recv, "cancelled receive"), UCS_ERR_CANCELED);
    cw_pair_close(pair);
}

/* REQ-29, VER-23: NULL from 1.22 on. */
API_TEST(test_req29_request_alloc)
{
    void *request;

    cw_pair_open(pair, NULL);
    request = ucp_request_alloc(pair->tx->worker);
    assert_true(cw_test_reference() || request == NULL);
    if (request != NULL) {
        ucp_request_free(request);
    }
    cw_pair_ping(pair, 1);
    cw_pair_close(pair);
}

static void *seen_user_data;

static void note_user_data(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)request;
    (void)status;
    (void)info;
    seen_user_data = user_data;
}

API_TEST(test_opa3_absent_user_data_is_null)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 1, in = 0;
    ucs_status_ptr_t recv, send;

    cw_pair_open(pair, NULL);
    for (int expected = 1; expected >= 0; expected--) {
        if (!expected) {
            cw_test_skip_reference("it forgets the mask in an immediate path");
        }
        seen_user_data = &out;
        param.op_attr_mask = 0;
        send = expected ? NULL : ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
        cw_pair_settle(pair);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv = note_user_data;
        recv = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param);
        param.op_attr_mask = 0;
        send = expected ? ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param) : send;
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
        assert_null(seen_user_data);
    }
    cw_pair_close(pair);
}

/* CTX-26. */
API_TEST(test_opa6_opa7_user_requests_are_used_again)
{
    static const size_t sizes[] = {0, 8, 9000, BIG};
    struct cw_user_request send_user, recv_user;
    struct cw_buffer out = cw_buffer_new(BIG), in = cw_buffer_new(BIG);
    int inits;

    open_with_area(pair);
    cw_pair_ping(pair, 3);
    inits = init_calls;
    send_user = cw_user_request_new(pair->tx->context);
    recv_user = cw_user_request_new(pair->rx->context);
    for (int round = 0; round < 16; round++) { /* the same two are used again and again: OPA-7 */
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t send_param = cw_param_send(&send), recv_param = cw_param_recv(&recv);
        size_t length = sizes[round % 4];
        bool expected = round < 8;

        cw_pattern_fill(out.data, length, (uint64_t)round);
        send_param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        send_param.request = send_user.handle;
        recv_param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        recv_param.request = recv_user.handle;
        if (!expected) {
            cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, length, 1, &send_param));
            cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &recv.info);
        }
        cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, length, 1, CW_TAG_ALL, &recv_param));
        assert_true(recv.result == NULL || recv.result == recv_user.handle);
        if (expected) {
            cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, length, 1, &send_param));
        }
        assert_true(send.result == NULL || send.result == send_user.handle);
        cw_pair_wait_count(pair, &recv.calls, recv.result != NULL, "receive in user memory");
        cw_pair_wait_count(pair, &send.calls, send.result != NULL, "send in user memory");
        assert_int_equal(send.status | recv.status, UCS_OK);
        cw_pattern_check(in.data, length, (uint64_t)round);
        cw_user_request_check(&send_user);
        cw_user_request_check(&recv_user);
    }
    assert_true(init_calls - inits <= 2 * 128); /* OPA-6: not for user memory; rendezvous may fill a pool chunk */
    cw_user_request_free(&send_user);
    cw_user_request_free(&recv_user);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_opa14_no_imm_cmpl_returns_a_request)
{
    static const size_t sizes[] = {0, 8, 9000, BIG};
    struct cw_buffer out = cw_buffer_new(BIG), in = cw_buffer_new(BIG);

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 9);
    for (int round = 0; round < 16; round++) {
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t send_param = cw_param_send(&send), recv_param = cw_param_recv(&recv);
        size_t length = sizes[round % 4];
        bool expected = round % 2 == 0;

        send_param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        recv_param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        if (expected) {
            cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, length, 1, 0, &recv_param));
        }
        cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, length, 1, &send_param));
        assert_true(UCS_PTR_IS_PTR(send.result));
        if (!expected) {
            ucp_tag_recv_info_t info;

            cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
            cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, length, 1, 0, &recv_param));
        }
        assert_true(UCS_PTR_IS_PTR(recv.result)); /* R2 */
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(recv.info.length, length);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_opa14_no_imm_cmpl_without_callback)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 6, in = 0;
    ucs_status_ptr_t send, recv;

    cw_pair_open(pair, NULL);
    param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
    recv = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param);
    assert_true(UCS_PTR_IS_PTR(send) && UCS_PTR_IS_PTR(recv));
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
    cw_pair_close(pair);
}

API_TEST(test_opa14_a_flush_calls_back_outside_the_call)
{
    struct cw_op flush = {0};
    ucp_request_param_t param;

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    param = cw_param_send(&flush);
    cw_op_started(&flush, ucp_ep_flush_nbx(pair->tx->ep, &param));
    assert_int_equal(flush.calls, 0);
    assert_int_equal(cw_op_wait(pair, &flush, "endpoint flush"), UCS_OK);
    flush = (struct cw_op){0};
    param = cw_param_send(&flush);
    cw_op_started(&flush, ucp_worker_flush_nbx(pair->tx->worker, &param));
    assert_int_equal(flush.calls, 0);
    assert_int_equal(cw_op_wait(pair, &flush, "worker flush"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nb(pair->tx->ep, 0, NULL), "flush_nb"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nb(pair->tx->worker, 0, NULL), "flush_nb"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_opa15_hints_change_no_result)
{
    static const uint32_t flags[] = {UCP_OP_ATTR_FLAG_FAST_CMPL, UCP_OP_ATTR_FLAG_MULTI_SEND};
    static const size_t sizes[] = {0, 8, 9000, BIG};
    struct cw_buffer out = cw_buffer_new(BIG), in = cw_buffer_new(BIG);
    ucp_request_param_t both = cw_param_none();

    cw_pair_open(pair, NULL);
    for (int round = 0; round < 8; round++) {
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t param = cw_param_send(&send);
        size_t length = sizes[round % 4];

        cw_pattern_fill(out.data, length, (uint64_t)round);
        param.op_attr_mask |= flags[round / 4];
        cw_op_recv(&recv, pair->rx->worker, in.data, length, 1, CW_TAG_ALL);
        cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, length, 1, &param));
        assert_int_equal(send.calls_inside, 0);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pattern_check(in.data, length, (uint64_t)round);
    }
    if (!cw_test_reference()) { /* 1.13 lets it pass */
        both.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;
        assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_send_nbx(pair->tx->ep, out.data, 8, 1, &both)),
                         UCS_ERR_INVALID_PARAM);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_opa16_force_imm_cmpl_completes_now_or_not_at_all)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_buffer out = cw_buffer_new(10 << 20);
    uint64_t small = 5, in = 0;
    ucp_tag_recv_info_t info;
    ucs_status_ptr_t result;

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 9);
    param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    result = ucp_tag_send_nbx(pair->tx->ep, out.data, out.length, 1, &param);
    assert_int_equal(UCS_PTR_RAW_STATUS(result), UCS_ERR_NO_RESOURCE); /* R22 */
    cw_pair_settle(pair);
    assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info)); /* nothing was posted */

    result = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 2, CW_TAG_ALL, &param);
    assert_int_equal(UCS_PTR_RAW_STATUS(result), UCS_ERR_NO_RESOURCE); /* no message, no receive */
    result = ucp_tag_send_nbx(pair->tx->ep, &small, sizeof(small), 2, &param);
    assert_true(result == NULL || UCS_PTR_RAW_STATUS(result) == UCS_ERR_NO_RESOURCE);
    if (result == NULL) {
        cw_pair_wait_probe(pair, 2, CW_TAG_ALL, &info);
        result = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 2, CW_TAG_ALL, &param);
        assert_null(result);
        assert_int_equal(in, small);
    }
    if (cw_test_self_only()) {
        assert_int_equal(in, small); /* with self it always finishes at once */
    }
    cw_buffer_free(&out);
    cw_pair_close(pair);
}

API_TEST(test_opa18_unknown_flags_ignored)
{
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param = cw_param_send(&send);
    uint64_t out = 77, in = 0;

    cw_pair_open(pair, NULL);
    param.op_attr_mask |= 0xfe000000u | 0x8000u;
    cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param));
    param = cw_param_recv(&recv);
    param.op_attr_mask |= 0xfe000000u | 0x8000u | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param));
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
    cw_pair_close(pair);
}

API_TEST(test_r5_double_release_and_status_after_free)
{
    struct cw_op recv = {0};
    uint64_t in;

    cw_pair_open(pair, NULL);
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL);
    ucp_request_cancel(pair->rx->worker, recv.result);
    assert_int_equal(recv.calls, 1);
    ucp_request_free(recv.result);
    assert_int_not_equal(ucp_request_check_status(recv.result), UCS_INPROGRESS); /* NVSHMEM polls on */
    assert_true(ucp_request_is_completed(recv.result));
    cw_test_skip_reference("its pool is corrupted by a second release");
    ucp_request_release(recv.result);
    for (ucp_tag_t tag = 0; tag < 300; tag++) {
        struct cw_op a = {0}, b = {0};
        uint64_t in_a = 0, in_b = 0;

        cw_op_recv(&a, pair->rx->worker, &in_a, 8, 1000, CW_TAG_ALL);
        cw_op_recv(&b, pair->rx->worker, &in_b, 8, 1001, CW_TAG_ALL);
        assert_ptr_not_equal(a.result, b.result); /* one object must not be handed out twice */
        cw_pair_ping(pair, tag);
        ucp_request_cancel(pair->rx->worker, a.result);
        ucp_request_cancel(pair->rx->worker, b.result);
        assert_int_equal(cw_op_wait(pair, &a, "cancelled"), UCS_ERR_CANCELED);
        assert_int_equal(cw_op_wait(pair, &b, "cancelled"), UCS_ERR_CANCELED);
    }
    cw_pair_close(pair);
}

API_TEST(test_r7_user_request_is_filled_on_immediate_completion)
{
    struct cw_user_request user;
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info = {0};
    uint64_t out = 5, in = 0;
    ucs_status_ptr_t send;

    cw_pair_open(pair, NULL);
    user = cw_user_request_new(pair->rx->context);
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 0xabc, &param);
    cw_pair_wait_probe(pair, 0xabc, CW_TAG_ALL, &info);
    memset(&info, 0, sizeof(info));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST;
    param.request = user.handle;
    /* Open MPI discards what the call returns and polls its own memory. */
    (void)ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 0, 0, &param);
    cw_pair_until(pair, ucp_request_test(user.handle, &info) != UCS_INPROGRESS, "receive");
    assert_int_equal(ucp_request_test(user.handle, &info), UCS_OK);
    assert_int_equal(info.length, sizeof(out));
    assert_int_equal(info.sender_tag, 0xabc);
    assert_int_equal(in, out);
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    cw_user_request_check(&user);
    cw_user_request_free(&user);
    cw_pair_close(pair);
}

API_TEST(test_ctx20_27_init_once_cleanup_once_area_kept)
{
    enum { MANY = 300 };
    struct cw_op recvs[MANY];
    uint64_t in;
    int inits;

    open_with_area(pair);
    memset(recvs, 0, sizeof(recvs));
    for (int i = 0; i < MANY; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, &in, 8, 5, CW_TAG_ALL);
        assert_true(area_is(recvs[i].result, 0x11)); /* CTX-23: initialised before first use */
        memset(recvs[i].result, 0x22, AREA);
    }
    assert_true(init_calls >= MANY);
    inits = init_calls;
    for (int i = 0; i < MANY; i++) {
        ucp_request_cancel(pair->rx->worker, recvs[i].result);
        assert_true(area_is(recvs[i].result, 0x22));
        assert_int_equal(cw_op_wait(pair, &recvs[i], "cancelled"), UCS_ERR_CANCELED);
    }
    memset(recvs, 0, sizeof(recvs));
    for (int i = 0; i < MANY; i++) { /* CTX-25, R6: what was left in the area is there, or it is a new object */
        cw_op_recv(&recvs[i], pair->rx->worker, &in, 8, 5, CW_TAG_ALL);
        assert_true(area_is(recvs[i].result, 0x22) || area_is(recvs[i].result, 0x11));
    }
    assert_int_equal(init_calls, inits); /* recycled, not made anew */
    for (int i = 0; i < MANY; i++) {
        ucp_request_cancel(pair->rx->worker, recvs[i].result);
        assert_int_equal(cw_op_wait(pair, &recvs[i], "cancelled"), UCS_ERR_CANCELED);
    }
    for (ucp_tag_t tag = 10; tag < 50; tag++) {
        cw_pair_ping(pair, tag);
    }
    assert_int_equal(cleanup_calls, 0);
    cw_pair_close(pair);
    assert_int_equal(cleanup_calls, init_calls); /* CTX-24 */
}

static int init_dirty;

static void area_init_looks(void *request)
{
    static const unsigned char zeros[AREA];

    init_calls++;
    init_dirty += memcmp(request, zeros, AREA) != 0;
}

/* What request_init leaves out reads as zero, whatever the memory was used for before: Open MPI needs that where the
 * first use of a request is a send that is cancelled. */
API_TEST(test_ctx23_area_is_zero_at_request_init)
{
    struct cw_pair_config config = {.request_size = AREA, .request_init = area_init_looks};
    struct cw_op recvs[64] = {0};
    uint64_t in;

#ifdef __GLIBC__
    mallopt(M_PERTURB, 0xa5);
#endif
    init_calls = init_dirty = 0;
    cw_pair_open(pair, &config);
    for (int i = 0; i < 64; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, &in, 8, 5, CW_TAG_ALL);
    }
    for (int i = 0; i < 64; i++) {
        ucp_request_cancel(pair->rx->worker, recvs[i].result);
        assert_int_equal(cw_op_wait(pair, &recvs[i], "cancelled"), UCS_ERR_CANCELED);
    }
    cw_pair_close(pair);
#ifdef __GLIBC__
    mallopt(M_PERTURB, 0);
#endif
    assert_true(init_calls >= 64);
    assert_int_equal(init_dirty, 0);
}

API_TEST(test_ctx28_spare_bytes_behind_the_handle)
{
    struct cw_op recvs[64] = {0};
    uint64_t in;

    cw_pair_open(pair, NULL); /* request_size 0 */
    for (int i = 0; i < 64; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, &in, 8, 5, CW_TAG_ALL);
        memset(recvs[i].result, 0xff, 8);
    }
    for (int i = 0; i < 64; i++) {
        assert_int_equal(ucp_request_check_status(recvs[i].result), UCS_INPROGRESS);
        ucp_request_cancel(pair->rx->worker, recvs[i].result);
        assert_int_equal(cw_op_wait(pair, &recvs[i], "cancelled"), UCS_ERR_CANCELED);
    }
    cw_pair_ping(pair, 1);
    cw_pair_close(pair);
}
