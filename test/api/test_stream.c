/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes through a stream and when receives end: STR-1..12, STR-16, STR-19, STR-21, STR-22, REQ-43, OPA, DT. Poll is
 * test_stream_poll.c, the end of endpoints test_stream_end.c. */
#include "test_stream_common.h"

#include <stdlib.h>
#include <string.h>

static const size_t all_sizes[] = {1, 7, 8, 64, 1000, 4096, 8183, 8184, 8185, 8192, 65536, 65537, 1 << 20,
                                   (1 << 20) + 1, 3000000};
enum { SIZES = sizeof(all_sizes) / sizeof(all_sizes[0]) };

/* The old callbacks carry no user data. */
static struct stream_op *nb_op;

static void nb_recv_done(void *request, ucs_status_t status, size_t length)
{
    stream_done(request, status, length, nb_op);
}

static void nb_send_done(void *request, ucs_status_t status)
{
    (void)request;
    (void)status;
}

static void recv_nb(struct stream_op *op, ucp_ep_h ep, void *data, size_t length, unsigned flags)
{
    memset(op, 0, sizeof(*op));
    nb_op = op;
    op->op.result = ucp_stream_recv_nb(ep, data, length, ucp_dt_make_contig(1), nb_recv_done, &op->length, flags);
}

static void transfer(struct cw_pair *pair, bool old, bool expected, size_t length)
{
    struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
    ucp_request_param_t none = cw_param_none();
    ucs_status_ptr_t sent = NULL;
    struct stream_op recv;

    cw_pattern_fill(out.data, length, length);
    if (!expected) {
        sent = ucp_stream_send_nbx(pair->tx->ep, out.data, length, &none);
        wait_ready(pair, pair->rx->ep);
    }
    if (old) {
        recv_nb(&recv, pair->rx->ep, in.data, length, UCP_STREAM_RECV_FLAG_WAITALL);
    } else {
        stream_recv(&recv, pair->rx->ep, in.data, length, UCP_STREAM_RECV_FLAG_WAITALL);
    }
    if (expected) {
        assert_true(UCS_PTR_IS_PTR(recv.op.result));
        sent = old ? ucp_stream_send_nb(pair->tx->ep, out.data, length, ucp_dt_make_contig(1), nb_send_done, 0) :
               ucp_stream_send_nbx(pair->tx->ep, out.data, length, &none);
    }
    assert_int_equal(stream_wait(pair, &recv), length);
    assert_int_equal(cw_pair_wait(pair, sent, "stream send"), UCS_OK);
    cw_pattern_check(in.data, length, length);
    cw_buffer_check(&in);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
}

API_TEST(test_str1_all_sizes)
{
    cw_pair_open(pair, &stream_config);
    for (int i = 0; i < SIZES; i++) {
        transfer(pair, false, true, all_sizes[i]);
        transfer(pair, false, false, all_sizes[i]);
    }
    cw_pair_close(pair);
}

/* Sends of some sizes, receives of others: only the bytes count. Each send buffer is overwritten when its send is done
 * (STR-2). */
API_TEST(test_str1_boundaries_are_invisible)
{
    enum { SENDS = 400, LARGEST = 20000 };
    static char all[SENDS * LARGEST], got[SENDS * LARGEST], pieces[SENDS][LARGEST];
    ucs_status_ptr_t sends[SENDS];
    size_t sizes[SENDS], total = 0, done = 0;
    uint64_t seed = 11;

    cw_pair_open(pair, &stream_config);
    for (int i = 0; i < SENDS; i++) {
        ucp_request_param_t none = cw_param_none();

        sizes[i] = cw_random_next(&seed) % ((i % 4 == 0) ? LARGEST : 100);
        cw_pattern_fill(pieces[i], sizes[i], (uint64_t)i);
        memcpy(all + total, pieces[i], sizes[i]);
        total += sizes[i];
        sends[i] = ucp_stream_send_nbx(pair->tx->ep, pieces[i], sizes[i], &none);
        if (sends[i] == NULL) {
            memset(pieces[i], 0, sizes[i]);
        }
    }
    while (done < total) {
        size_t room = 1 + cw_random_next(&seed) % (2 * LARGEST);
        struct stream_op recv;

        stream_recv(&recv, pair->rx->ep, got + done, room < total - done ? room : total - done, 0);
        done += stream_wait(pair, &recv);
    }
    assert_memory_equal(got, all, total);
    for (int i = 0; i < SENDS; i++) {
        assert_int_equal(cw_pair_wait(pair, sends[i], "stream send"), UCS_OK);
    }
    cw_pair_close(pair);
}

API_TEST(test_str2_nothing_to_send)
{
    ucp_request_param_t param = cw_param_none();
    struct stream_op recv;
    char byte = 0;

    cw_test_skip_reference("1.13 asserts when an empty send arrives");
    cw_pair_open(pair, &stream_config);
    assert_int_equal(cw_pair_wait(pair, ucp_stream_send_nbx(pair->tx->ep, NULL, 0, &param), "empty send"), UCS_OK);
    stream_recv(&recv, pair->rx->ep, &byte, 1, 0);
    assert_true(UCS_PTR_IS_PTR(recv.op.result));
    cw_pair_settle(pair);
    assert_int_equal(recv.op.calls, 0);
    stream_put(pair, "x", 1);
    assert_int_equal(stream_wait(pair, &recv), 1);
    cw_pair_close(pair);
}

API_TEST(test_str2_flags_are_refused)
{
    ucp_request_param_t param = cw_param_none();

    cw_test_skip_reference("1.13 ignores the flags of the old call");
    cw_pair_open(pair, &stream_config);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = 1;
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_send_nbx(pair->tx->ep, "x", 1, &param)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_send_nb(pair->tx->ep, "x", 1, ucp_dt_make_contig(1), nb_send_done,
                                                           1)), UCS_ERR_INVALID_PARAM);
    cw_pair_close(pair);
}

API_TEST(test_str3_streams_are_independent)
{
    enum { EPS = 5 };
    ucp_ep_h tx[EPS], rx[EPS];
    struct stream_op recvs[EPS];
    char in[EPS][4];

    cw_pair_open(pair, &stream_config);
    for (int i = 0; i < EPS; i++) {
        tx[i] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
        rx[i] = cw_test_self_only() ? tx[i] : cw_side_connect(pair->rx, pair->tx->worker, NULL);
    }
    for (int i = EPS - 1; i >= 0; i--) {
        stream_recv(&recvs[i], rx[i], in[i], 4, UCP_STREAM_RECV_FLAG_WAITALL);
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < EPS; i++) {
            char byte = (char)('A' + 4 * i + round);

            stream_put_on(pair, tx[i], &byte, 1);
        }
    }
    for (int i = 0; i < EPS; i++) {
        assert_int_equal(stream_wait(pair, &recvs[i]), 4);
        assert_int_equal(in[i][0], 'A' + 4 * i);
        assert_int_equal(in[i][3], 'A' + 4 * i + 3);
        stream_close(pair, tx[i]);
        if (rx[i] != tx[i]) {
            stream_close(pair, rx[i]);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_str4_zero_sized_receive)
{
    struct stream_op recv, first;
    char byte;

    cw_pair_open(pair, &stream_config);
    for (unsigned flags = 0; flags < 2; flags++) {
        stream_recv(&recv, pair->rx->ep, NULL, 0, flags);
        assert_int_equal(stream_wait(pair, &recv), 0);
    }
    stream_recv(&first, pair->rx->ep, &byte, 1, 0);
    stream_put(pair, "y", 1);
    assert_int_equal(stream_wait(pair, &first), 1);
    assert_int_equal(byte, 'y');
    stream_put(pair, "z", 1);
    wait_ready(pair, pair->rx->ep);
    stream_recv(&recv, pair->rx->ep, NULL, 0, 0);
    assert_int_equal(stream_wait(pair, &recv), 0);
    stream_recv(&first, pair->rx->ep, &byte, 1, 0);
    assert_int_equal(stream_wait(pair, &first), 1);
    assert_int_equal(byte, 'z');
    cw_pair_close(pair);
}

/* STR-5, STR-6: an element that straddles two arrivals, with the receive before, between and behind them. */
API_TEST(test_str5_only_whole_elements)
{
    char in[40], rest[8];

    cw_test_skip_reference("1.13 waits on while what came ends in the middle of an element");
    cw_pair_open(pair, &stream_config);
    for (int when = 0; when < 3; when++) {
        struct stream_op recv;

        memset(in, '.', sizeof(in));
        if (when == 0) {
            stream_recv_elements(&recv, pair->rx->ep, in, 8, 5, 0);
        }
        stream_put(pair, "abc", 3);
        if (when == 1) {
            wait_ready(pair, pair->rx->ep);
            stream_recv_elements(&recv, pair->rx->ep, in, 8, 5, 0);
        }
        cw_pair_settle(pair);
        if (when < 2) {
            assert_int_equal(recv.op.calls, 0);
            assert_int_equal(ucp_request_check_status(recv.op.result), UCS_INPROGRESS);
        }
        stream_put(pair, "defghij", 7);
        if (when == 2) {
            cw_pair_settle(pair);
            wait_ready(pair, pair->rx->ep);
            stream_recv_elements(&recv, pair->rx->ep, in, 8, 5, 0);
        }
        assert_int_equal(stream_wait(pair, &recv), 8);
        assert_memory_equal(in, "abcdefgh........", 16);
        stream_get(pair, rest, 2);
        assert_memory_equal(rest, "ij", 2);
    }
    cw_pair_close(pair);
}

API_TEST(test_str8_waitall_waits_for_all)
{
    struct stream_op recv;
    char in[12];

    cw_pair_open(pair, &stream_config);
    stream_put(pair, "ab", 2);
    wait_ready(pair, pair->rx->ep);
    stream_recv(&recv, pair->rx->ep, in, 10, UCP_STREAM_RECV_FLAG_WAITALL);
    assert_true(UCS_PTR_IS_PTR(recv.op.result));
    stream_put(pair, "cdef", 4);
    cw_pair_settle(pair);
    assert_int_equal(recv.op.calls, 0);
    stream_put(pair, "ghijkl", 6);
    assert_int_equal(stream_wait(pair, &recv), 10);
    stream_get(pair, in + 10, 2);
    assert_memory_equal(in, "abcdefghijkl", 12);
    cw_pair_close(pair);
}

/* STR-9, STR-10: in the order of posting; what one receive does not take goes to the next. */
API_TEST(test_str9_served_in_order)
{
    static const char text[] = "abcdefghijklmnopqrstuvwxyz";
    struct stream_op recvs[5];
    char in[26];

    cw_pair_open(pair, &stream_config);
    stream_recv(&recvs[0], pair->rx->ep, in, 10, UCP_STREAM_RECV_FLAG_WAITALL);
    stream_recv(&recvs[1], pair->rx->ep, in + 10, 1, 0);
    stream_recv_elements(&recvs[2], pair->rx->ep, in + 11, 4, 2, 0);
    stream_recv(&recvs[3], pair->rx->ep, in + 19, 3, 0);
    stream_recv(&recvs[4], pair->rx->ep, in + 22, 4, UCP_STREAM_RECV_FLAG_WAITALL);
    stream_put(pair, text, 5);
    cw_pair_settle(pair);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(recvs[i].op.calls, 0);
    }
    stream_put(pair, text + 5, 19); /* ends all but the last */
    cw_pair_wait_count(pair, &recvs[3].op.calls, 1, "the fourth receive");
    assert_int_equal(recvs[4].op.calls, 0);
    stream_put(pair, text + 24, 2);
    assert_int_equal(stream_wait(pair, &recvs[0]), 10);
    assert_int_equal(stream_wait(pair, &recvs[1]), 1);
    assert_int_equal(stream_wait(pair, &recvs[2]), 8);
    assert_int_equal(stream_wait(pair, &recvs[3]), 3);
    assert_int_equal(stream_wait(pair, &recvs[4]), 4);
    assert_memory_equal(in, text, 26);
    cw_pair_close(pair);
}

/* Library-owned data: in order, also behind a receive that took the beginning; released in any order. */
API_TEST(test_str11_recv_data)
{
    enum { PIECES = 6 };
    static const char text[] = "abcdefghijklmnopqrstuvwxyz";
    void *data[PIECES + 1] = {NULL};
    size_t length = 0, got = 3, count = 0;
    char in[26];

    cw_pair_open(pair, &stream_config);
    assert_null(ucp_stream_recv_data_nb(pair->rx->ep, &length));
    for (int i = 0; i < PIECES; i++) {
        stream_put(pair, text + 4 * i, 4);
    }
    wait_ready(pair, pair->rx->ep);
    stream_get(pair, in, 3);
    for (double end = cw_time_now_s() + CW_WAIT_S; got < 4 * PIECES && cw_time_now_s() < end;) {
        cw_pair_progress(pair);
        data[count] = ucp_stream_recv_data_nb(pair->rx->ep, &length);
        assert_false(UCS_PTR_IS_ERR(data[count]));
        if (data[count] != NULL) {
            assert_true(length > 0);
            memcpy(in + got, data[count], length);
            got += length;
            count++;
        }
    }
    assert_int_equal(got, 4 * PIECES);
    assert_memory_equal(in, text, got);
    assert_null(ucp_stream_recv_data_nb(pair->rx->ep, &length));
    stream_put(pair, "later", 5);
    for (size_t i = 0; i < count; i++) {
        ucp_stream_data_release(pair->rx->ep, data[(i * 5 + 1) % count]);
    }
    stream_get(pair, in, 5);
    assert_memory_equal(in, "later", 5);
    cw_pair_close(pair);
}

/* Memory that is used again: data stay as they are until they are released, however many the program has. */
API_TEST(test_str11_long_data_retained)
{
    enum { LENGTH = 600000, RETAINED = 20, ROUNDS = 3 };
    struct cw_buffer out = cw_buffer_new(LENGTH);
    size_t got, length = 0, count = 0, at[RETAINED], lengths[RETAINED];
    void *retained[RETAINED] = {NULL}, *data;

    cw_pair_open(pair, &stream_config);
    cw_pattern_fill(out.data, LENGTH, 1);
    for (int round = 0; round < ROUNDS; round++) {
        ucp_request_param_t none = cw_param_none();
        ucs_status_ptr_t sent = ucp_stream_send_nbx(pair->tx->ep, out.data, LENGTH, &none);

        got = 0;
        for (double end = cw_time_now_s() + CW_WAIT_S; got < LENGTH && cw_time_now_s() < end;) {
            cw_pair_progress(pair);
            data = ucp_stream_recv_data_nb(pair->rx->ep, &length);
            assert_false(UCS_PTR_IS_ERR(data));
            if (data == NULL) {
                continue;
            }
            size_t slot = count++ * 7 % RETAINED;
            if (retained[slot] != NULL) {
                assert_memory_equal(retained[slot], (char *)out.data + at[slot], lengths[slot]);
                ucp_stream_data_release(pair->rx->ep, retained[slot]);
            }
            retained[slot] = data;
            at[slot] = got;
            lengths[slot] = length;
            got += length;
        }
        assert_int_equal(got, LENGTH);
        assert_int_equal(cw_pair_wait(pair, sent, "stream send"), UCS_OK);
    }
    for (size_t slot = 0; slot < RETAINED; slot++) {
        if (retained[slot] != NULL) {
            assert_memory_equal(retained[slot], (char *)out.data + at[slot], lengths[slot]);
            ucp_stream_data_release(pair->rx->ep, retained[slot]);
        }
    }
    cw_buffer_free(&out);
    cw_pair_close(pair);
}

API_TEST(test_str19_cancel_has_no_effect)
{
    struct stream_op recv;
    char byte = 0;

    cw_pair_open(pair, &stream_config);
    stream_recv(&recv, pair->rx->ep, &byte, 1, 0);
    ucp_request_cancel(pair->rx->worker, recv.op.result);
    cw_pair_settle(pair);
    assert_int_equal(recv.op.calls, 0);
    stream_put(pair, "c", 1);
    assert_int_equal(stream_wait(pair, &recv), 1);
    assert_int_equal(byte, 'c');
    cw_pair_close(pair);
}

API_TEST(test_str21_no_immediate_completion)
{
    ucp_request_param_t param;
    struct stream_op recv = {0};
    struct cw_op send = {0};
    char in[4];

    cw_test_skip_reference("1.13 leaves the request that it returns incomplete");
    cw_pair_open(pair, &stream_config);
    param = cw_param_send(&send);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    cw_op_started(&send, ucp_stream_send_nbx(pair->tx->ep, "abcd", 4, &param));
    assert_true(UCS_PTR_IS_PTR(send.result));
    assert_int_equal(cw_op_wait(pair, &send, "stream send"), UCS_OK);
    wait_ready(pair, pair->rx->ep);
    param = stream_param(&recv, 0);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    recv.length = 99;
    cw_op_started(&recv.op, ucp_stream_recv_nbx(pair->rx->ep, in, 4, &recv.length, &param));
    assert_true(UCS_PTR_IS_PTR(recv.op.result));
    assert_int_equal(recv.op.calls_inside, 1);
    assert_int_equal(ucp_stream_recv_request_test(recv.op.result, &recv.length), UCS_OK);
    assert_int_equal(stream_wait(pair, &recv), 4);
    cw_pair_close(pair);
}

/* A stream that nobody reads holds up nothing else on the endpoint, and nothing of it gets lost. */
API_TEST(test_str22_unread_stream_blocks_nothing)
{
    enum { MESSAGES = 200, SIZE = 65536 };
    static char out[SIZE], in[SIZE];
    ucs_status_ptr_t sends[MESSAGES];
    ucp_request_param_t none = cw_param_none();

    cw_pair_open(pair, &stream_config);
    cw_pattern_fill(out, SIZE, 5);
    for (int i = 0; i < MESSAGES; i++) {
        sends[i] = ucp_stream_send_nbx(pair->tx->ep, out, SIZE, &none);
    }
    for (uint64_t i = 0; i < 20; i++) {
        struct cw_op send = {0}, recv = {0};
        uint64_t value = i, got = 0;

        cw_op_recv(&recv, pair->rx->worker, &got, sizeof(got), i, CW_TAG_ALL);
        cw_op_send(&send, pair->tx->ep, &value, sizeof(value), i);
        assert_int_equal(cw_op_wait(pair, &recv, "tag receive beside a full stream"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "tag send beside a full stream"), UCS_OK);
        assert_int_equal(got, i);
    }
    for (int i = 0; i < MESSAGES; i++) {
        stream_get(pair, in, SIZE);
        cw_pattern_check(in, SIZE, 5);
    }
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(cw_pair_wait(pair, sends[i], "stream send"), UCS_OK);
    }
    cw_pair_close(pair);
}

API_TEST(test_ctx11_feature_is_needed)
{
    ucp_request_param_t param = cw_param_none();
    ucp_stream_poll_ep_t polled;
    size_t length = 77;
    char byte;

    cw_pair_open(pair, NULL);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_send_nbx(pair->tx->ep, "x", 1, &param)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_recv_nbx(pair->rx->ep, &byte, 1, &length, &param)),
                     UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_recv_data_nb(pair->rx->ep, &length)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_stream_worker_poll(pair->rx->worker, &polled, 1, 0), UCS_ERR_INVALID_PARAM);
    assert_int_equal(length, 77);
    cw_pair_close(pair);
}

/* A callback posts the next receive while the packet that ended its own one has more. */
struct chain {
    struct cw_pair *pair;
    char in[16];
    int got;
    volatile int calls;
    volatile int all;
};

static void chain_next(struct chain *chain);

static void chain_done(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct chain *chain = user_data;

    assert_int_equal(status, UCS_OK);
    ucp_request_free(request);
    chain->got += (int)length;
    chain->calls++;
    chain_next(chain);
}

static void chain_next(struct chain *chain)
{
    ucp_request_param_t param = cw_param_none();
    size_t length;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv_stream = chain_done;
    param.user_data = chain;
    while (chain->got < 16) {
        void *request = ucp_stream_recv_nbx(chain->pair->rx->ep, chain->in + chain->got, 1, &length, &param);

        assert_false(UCS_PTR_IS_ERR(request));
        if (request != NULL) {
            return;
        }
        assert_int_equal(length, 1);
        chain->got++;
    }
    chain->all = 1;
}

API_TEST(test_gen7_callbacks_post_receives)
{
    struct chain chain = {.pair = pair};

    cw_pair_open(pair, &stream_config);
    chain_next(&chain);
    stream_put(pair, "0123456789abcdef", 16);
    cw_pair_wait_count(pair, &chain.all, 1, "the chain of receives");
    assert_true(chain.calls >= 1);
    assert_memory_equal(chain.in, "0123456789abcdef", 16);
    cw_pair_close(pair);
}

/* OPA-6, OPA-8: requests in the program's memory, waiting and at once. */
API_TEST(test_opa8_user_requests)
{
    struct cw_user_request user, send_user;
    ucp_request_param_t param;
    struct stream_op recv;
    char in[8];

    cw_pair_open(pair, &stream_config);
    user = cw_user_request_new(pair->rx->context);
    send_user = cw_user_request_new(pair->tx->context);
    for (int i = 0; i < 3; i++) {
        ucs_status_ptr_t sent;

        memset(&recv, 0, sizeof(recv));
        param = stream_param(&recv, 0);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
        recv.op.result = ucp_stream_recv_nbx(pair->rx->ep, in, 8, &recv.length, &param);
        assert_ptr_equal(recv.op.result, user.handle);
        param = cw_param_none();
        param.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST;
        param.request = send_user.handle;
        sent = ucp_stream_send_nbx(pair->tx->ep, "abc", 3, &param);
        assert_true(sent == NULL || sent == send_user.handle);
        cw_pair_wait_count(pair, &recv.op.calls, 1, "receive");
        while (sent != NULL && ucp_request_check_status(sent) == UCS_INPROGRESS) {
            cw_pair_progress(pair);
        }
        assert_int_equal(recv.length, 3);
        cw_user_request_check(&user);
        cw_user_request_check(&send_user);
    }
    cw_user_request_free(&user);
    cw_user_request_free(&send_user);
    cw_pair_close(pair);
}

API_TEST(test_opa12_recv_info)
{
    ucp_request_param_t param = cw_param_none();
    size_t length = 0, info = 0;
    char in[8];

    cw_test_skip_reference("1.13 ignores RECV_INFO");
    cw_pair_open(pair, &stream_config);
    stream_put(pair, "abc", 3);
    wait_ready(pair, pair->rx->ep);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.length = &info;
    assert_null(ucp_stream_recv_nbx(pair->rx->ep, in, 8, &length, &param));
    assert_int_equal(length, 3);
    assert_int_equal(info, 3);
    cw_pair_close(pair);
}

API_TEST(test_opa16_force_immediate_completion)
{
    ucp_request_param_t param = cw_param_none();
    size_t length = 0;
    char in[8];

    cw_test_skip_reference("1.13 knows the flag for some operations only");
    cw_pair_open(pair, &stream_config);
    param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(8);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_recv_nbx(pair->rx->ep, in, 1, &length, &param)),
                     UCS_ERR_NO_RESOURCE);
    stream_put(pair, "abc", 3);
    wait_ready(pair, pair->rx->ep);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_recv_nbx(pair->rx->ep, in, 1, &length, &param)),
                     UCS_ERR_NO_RESOURCE);
    param.datatype = ucp_dt_make_contig(1);
    assert_null(ucp_stream_recv_nbx(pair->rx->ep, in, 8, &length, &param));
    assert_int_equal(length, 3);
    assert_memory_equal(in, "abc", 3);
    cw_pair_close(pair);
}

/* Behind another one, where a send may wait for progress to complete: this one goes now, or nothing of it does. */
API_TEST(test_opa16_force_immediate_send)
{
    ucp_request_param_t param = cw_param_none(), forced = cw_param_none();
    static char out[4000], in[sizeof(out) + 2];
    ucs_status_ptr_t first, second;
    size_t went;

    cw_test_skip_reference("1.13 knows the flag for some operations only");
    cw_pair_open(pair, &stream_config);
    stream_put(pair, "c", 1);
    stream_get(pair, in, 1);
    memset(out, 'b', sizeof(out));
    forced.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    first = ucp_stream_send_nbx(pair->tx->ep, "a", 1, &param);
    second = ucp_stream_send_nbx(pair->tx->ep, out, sizeof(out), &forced);
    if (second != NULL) {
        assert_int_equal(UCS_PTR_RAW_STATUS(second), UCS_ERR_NO_RESOURCE);
    }
    went = (second == NULL) ? sizeof(out) : 0;
    assert_int_equal(cw_pair_wait(pair, first, "stream send"), UCS_OK);
    stream_put(pair, "z", 1);
    stream_get(pair, in, went + 2);
    assert_int_equal(in[0], 'a');
    assert_memory_equal(in + 1, out, went);
    assert_int_equal(in[went + 1], 'z');
    cw_pair_close(pair);
}

API_TEST(test_req20_freed_before_completion)
{
    struct stream_op recv;
    char in[4] = {0};

    cw_pair_open(pair, &stream_config);
    stream_recv(&recv, pair->rx->ep, in, 2, UCP_STREAM_RECV_FLAG_WAITALL);
    ucp_request_free(recv.op.result);
    stream_put(pair, "abcd", 4);
    stream_get(pair, in + 2, 2);
    assert_memory_equal(in, "abcd", 4);
    assert_int_equal(recv.op.calls, 0);
    cw_pair_close(pair);
}

API_TEST(test_req43_old_calls)
{
    cw_pair_open(pair, &stream_config);
    for (int i = 0; i < SIZES; i++) {
        transfer(pair, true, true, all_sizes[i]);
        transfer(pair, true, false, all_sizes[i]);
    }
    cw_pair_close(pair);
}
