/* SPDX-License-Identifier: BSD-3-Clause */
/* What arrives: sizes x expected/unexpected x call generations, truncation, zero length, RECV_INFO: TAG-20, 24,
 * 30..36. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum generation { NBX, NB, NBR, GENERATIONS };

static const size_t all_sizes[] = {
    0, 1, 7, 8, 47, 48, 49, 56, 57, 64, 1000, 4095, 4096, 4097, 8191, 8192, 8193, 65535, 65536, 65537,
    1 << 20, (1 << 20) + 1, 16 << 20,
};
enum { SIZES = sizeof(all_sizes) / sizeof(all_sizes[0]) };

/* The old callbacks carry no user data: one transfer at a time. */
static struct cw_op *nb_send;
static struct cw_op *nb_recv;

static void nb_send_done(void *request, ucs_status_t status)
{
    nb_send->calls++;
    nb_send->calls_inside += nb_send->inside;
    nb_send->status = status;
    nb_send->request = request;
    nb_send->checked = ucp_request_check_status(request);
}

static void nb_recv_done(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    nb_recv->calls++;
    nb_recv->status = status;
    nb_recv->request = request;
    nb_recv->checked = ucp_request_check_status(request);
    nb_recv->info = *info;
}

static void start_send(struct cw_pair *pair, enum generation generation, struct cw_op *op, const void *data,
                       size_t length, ucp_tag_t tag, struct cw_user_request *user)
{
    ucs_status_t status;

    if (generation == NBX) {
        cw_op_send(op, pair->tx->ep, data, length, tag);
    } else if (generation == NB) {
        nb_send = op;
        op->inside = true;
        cw_op_started(op, ucp_tag_send_nb(pair->tx->ep, data, length, ucp_dt_make_contig(1), tag, nb_send_done));
    } else {
        status = ucp_tag_send_nbr(pair->tx->ep, data, length, ucp_dt_make_contig(1), tag, user->handle);
        if (status != UCS_OK && status != UCS_INPROGRESS) {
            fail_msg("ucp_tag_send_nbr: %s", ucs_status_string(status)); /* REQ-44 */
        }
        op->result = status == UCS_INPROGRESS ? user->handle : NULL;
    }
    assert_int_equal(op->calls_inside, 0); /* R1 */
}

static void start_recv(struct cw_pair *pair, enum generation generation, struct cw_op *op, struct cw_buffer *buffer,
                       ucp_tag_t tag, struct cw_user_request *user)
{
    if (generation == NBX) {
        cw_op_recv(op, pair->rx->worker, buffer->data, buffer->length, tag, CW_TAG_ALL);
    } else if (generation == NB) {
        nb_recv = op;
        cw_op_started(op, ucp_tag_recv_nb(pair->rx->worker, buffer->data, buffer->length, ucp_dt_make_contig(1), tag,
                                          CW_TAG_ALL, nb_recv_done));
        assert_true(UCS_PTR_IS_PTR(op->result)); /* REQ-42, R2 */
    } else {
        assert_int_equal(ucp_tag_recv_nbr(pair->rx->worker, buffer->data, buffer->length, ucp_dt_make_contig(1), tag,
                                          CW_TAG_ALL, user->handle), UCS_OK); /* REQ-45 */
    }
}

/* REQ-45, REQ-46: completion of an nbr receive is seen by each of the three test calls. */
static ucs_status_t wait_nbr_recv(struct cw_pair *pair, struct cw_op *op, void *handle)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucp_tag_recv_info_t info = {0};
    ucs_status_t status;

    while ((status = ucp_tag_recv_request_test(handle, &op->info)) == UCS_INPROGRESS) {
        if (cw_pair_progress(pair) == 0 && cw_time_now_s() > deadline) {
            fail_msg("An nbr receive did not complete within %d s", CW_WAIT_S);
        }
    }
    assert_int_equal(ucp_request_check_status(handle), status);
    assert_int_equal(ucp_request_test(handle, &info), status);
    assert_true(ucp_request_is_completed(handle));
    assert_true(info.sender_tag == op->info.sender_tag && info.length == op->info.length);
    return status;
}

static ucs_status_t wait_nbr_send(struct cw_pair *pair, void *handle)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (handle == NULL) {
        return UCS_OK;
    }
    while ((status = ucp_request_check_status(handle)) == UCS_INPROGRESS) {
        if (cw_pair_progress(pair) == 0 && cw_time_now_s() > deadline) {
            fail_msg("An nbr send did not complete within %d s", CW_WAIT_S);
        }
    }
    return status;
}

/* Sends sent bytes into a buffer of room bytes and checks everything that can be seen of it. */
static void transfer(struct cw_pair *pair, enum generation generation, bool expected, size_t sent, size_t room)
{
    struct cw_buffer out = cw_buffer_new(sent), in = cw_buffer_new(room);
    struct cw_user_request send_user = cw_user_request_new(pair->tx->context);
    struct cw_user_request recv_user = cw_user_request_new(pair->rx->context);
    struct cw_op send = {0}, recv = {0};
    ucs_status_t want = sent > room ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK;
    ucp_tag_t tag = 0xfeed000000000000ull | sent;
    ucp_tag_recv_info_t info;
    ucs_status_t got;
    bool immediate;

    cw_pattern_fill(out.data, sent, sent + 1);
    if (expected) {
        start_recv(pair, generation, &recv, &in, tag, &recv_user);
    }
    start_send(pair, generation, &send, out.data, sent, tag, &send_user);
    if (!expected) {
        cw_pair_wait_probe(pair, tag, CW_TAG_ALL, &info);
        assert_int_equal(info.length, sent); /* TPR-1, TPR-5 */
        assert_true(info.sender_tag == tag);
        start_recv(pair, generation, &recv, &in, tag, &recv_user);
    }
    immediate = generation != NBR && !UCS_PTR_IS_PTR(recv.result);
    got = generation == NBR ? wait_nbr_recv(pair, &recv, recv_user.handle) : cw_op_wait(pair, &recv, "receive");
    assert_int_equal(got, want); /* TAG-32, TAG-33 */
    if (want == UCS_OK || !immediate) {
        assert_int_equal(recv.info.length, sent); /* TAG-31, TAG-34: the sender's length */
        assert_true(recv.info.sender_tag == tag);
    }
    got = generation == NBR ? wait_nbr_send(pair, send.result) : cw_op_wait(pair, &send, "send");
    assert_int_equal(got, UCS_OK);
    assert_int_equal(send.calls_inside, 0);
    if (want == UCS_OK) {
        cw_pattern_check(in.data, sent, sent + 1);
        for (size_t i = sent; i < room; i++) {
            assert_int_equal((unsigned char)in.data[i], CW_GUARD_VALUE); /* TAG-32: bytes behind are untouched */
        }
    }
    cw_pattern_check(out.data, sent, sent + 1);
    cw_buffer_check(&in);
    cw_buffer_check(&out);
    cw_user_request_check(&send_user); /* OPA-7 */
    cw_user_request_check(&recv_user);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
    cw_user_request_free(&send_user);
    cw_user_request_free(&recv_user);
}

static void run_sizes(void **state, enum generation generation, bool expected)
{
    struct cw_pair *pair = *state;

    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        transfer(pair, generation, expected, all_sizes[i], all_sizes[i]);
    }
    cw_pair_close(pair);
}

TEST_WITH(test_tag20_sizes_nbx_expected, cw_test_setup, cw_test_teardown)
{
    run_sizes(state, NBX, true);
}

TEST_WITH(test_tag30_sizes_nbx_unexpected, cw_test_setup, cw_test_teardown)
{
    run_sizes(state, NBX, false);
}

TEST_WITH(test_req40_sizes_nb_expected, cw_test_setup, cw_test_teardown)
{
    run_sizes(state, NB, true);
}

TEST_WITH(test_req42_sizes_nb_unexpected, cw_test_setup, cw_test_teardown)
{
    run_sizes(state, NB, false);
}

TEST_WITH(test_req44_sizes_nbr_expected, cw_test_setup, cw_test_teardown)
{
    run_sizes(state, NBR, true);
}

TEST_WITH(test_req45_sizes_nbr_unexpected, cw_test_setup, cw_test_teardown)
{
    run_sizes(state, NBR, false);
}

API_TEST(test_tag32_shorter_message)
{
    static const size_t sizes[] = {0, 1, 8, 100, 5000, 10000, 70000, 300000};

    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int variant = 0; variant < 2 * GENERATIONS; variant++) {
            transfer(pair, (enum generation)(variant / 2), variant % 2, sizes[i], sizes[i] + 1);
            transfer(pair, (enum generation)(variant / 2), variant % 2, sizes[i], 2 * sizes[i] + 77);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_tag33_35_truncation)
{
    static const size_t sizes[] = {1, 8, 64, 100, 5000, 8193, 10000, 70000, 300000, 3000000};

    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int variant = 0; variant < 2 * GENERATIONS; variant++) {
            transfer(pair, (enum generation)(variant / 2), variant % 2, sizes[i], sizes[i] - 1);
            transfer(pair, (enum generation)(variant / 2), variant % 2, sizes[i], sizes[i] / 2);
            transfer(pair, (enum generation)(variant / 2), variant % 2, sizes[i], 0);
        }
    }
    transfer(pair, NBX, true, 100, 100); /* the message was consumed: the next one is met in full */
    cw_pair_close(pair);
}

API_TEST(test_tag33_immediate_truncation_writes_no_info)
{
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info, seen;
    char out[40] = {1}, in[10];
    ucs_status_ptr_t send, recv;

    cw_pair_open(pair, NULL);
    send = ucp_tag_send_nbx(pair->tx->ep, out, sizeof(out), 1, &param);
    cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &seen);
    memset(&info, 0x5c, sizeof(info));
    seen = info;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.tag_info = &info;
    recv = ucp_tag_recv_nbx(pair->rx->worker, in, sizeof(in), 1, CW_TAG_ALL, &param);
    /* OPA-12: written neither on error nor when a handle is returned. */
    assert_memory_equal(&info, &seen, sizeof(info));
    assert_int_equal(cw_pair_wait(pair, recv, "truncated receive"), UCS_ERR_MESSAGE_TRUNCATED);
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_opa12_recv_info_only_with_immediate_success)
{
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info, untouched;
    uint64_t out = 3, in = 0;
    ucs_status_ptr_t send, recv;

    cw_test_skip_reference("1.13 does not write RECV_INFO");
    cw_pair_open(pair, NULL);
    memset(&info, 0x5c, sizeof(info));
    untouched = info;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.tag_info = &info;
    /* Posted first: a handle, so the info must stay untouched for ever (OPA-12, OPA-20). */
    recv = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param);
    assert_true(UCS_PTR_IS_PTR(recv));
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
    assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    assert_memory_equal(&info, &untouched, sizeof(info));

    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 2, &param);
    cw_pair_wait_probe(pair, 2, CW_TAG_ALL, &untouched);
    memset(&untouched, 0x5c, sizeof(untouched));
    recv = ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 2, CW_TAG_ALL, &param);
    if (recv == NULL) {
        assert_int_equal(info.length, sizeof(out));
        assert_int_equal(info.sender_tag, 2);
    } else {
        assert_memory_equal(&info, &untouched, sizeof(info));
    }
    assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    assert_int_equal(in, out);
    cw_pair_close(pair);
}

API_TEST(test_tag24_zero_length_with_garbage_pointers)
{
    static void *const pointers[] = {NULL, (void *)1, (void *)~(uintptr_t)0, (void *)0xdead000000000000ull};
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        for (int expected = 0; expected < 2; expected++) {
            struct cw_op send = {0}, recv = {0};

            if (expected) {
                cw_op_recv(&recv, pair->rx->worker, pointers[i], 0, i, CW_TAG_ALL);
            }
            cw_op_send(&send, pair->tx->ep, pointers[i], 0, i);
            if (!expected) {
                cw_pair_wait_probe(pair, i, CW_TAG_ALL, &info);
                assert_int_equal(info.length, 0);
                cw_op_recv(&recv, pair->rx->worker, pointers[i], 0, i, CW_TAG_ALL);
            }
            assert_int_equal(cw_op_wait(pair, &recv, "empty receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &send, "empty send"), UCS_OK);
            assert_int_equal(recv.info.length, 0);
            assert_int_equal(recv.info.sender_tag, i);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_opa4_count_counts_elements)
{
    struct cw_buffer out = cw_buffer_new(24 * 100), in = cw_buffer_new(24 * 100);
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param;

    cw_pair_open(pair, NULL);
    cw_pattern_fill(out.data, out.length, 1);
    param = cw_param_recv(&recv);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.datatype = ucp_dt_make_contig(8);
    cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, 300, 1, CW_TAG_ALL, &param));
    param = cw_param_send(&send);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(24);
    cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, 100, 1, &param));
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(recv.info.length, 2400);
    cw_pattern_check(in.data, 2400, 1);
    cw_buffer_check(&in);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
    cw_pair_close(pair);
}

API_TEST(test_opa11_memory_type_host_and_unknown)
{
    static const ucs_memory_type_t types[] = {UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_UNKNOWN};

    cw_pair_open(pair, NULL);
    for (int i = 0; i < 2; i++) {
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t param = cw_param_send(&send);
        uint64_t out = 42, in = 0;

        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param.memory_type = types[i];
        cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param));
        param = cw_param_recv(&recv);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param.memory_type = types[i];
        cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param));
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(in, out);
    }
    cw_pair_close(pair);
}

/* Many big messages of one tag in flight at once, received last first: fragments must not be confused (Traps TAG). */
static void interleaved(struct cw_pair *pair, bool expected, size_t length)
{
    enum { COUNT = 8 };
    struct cw_op sends[COUNT], recvs[COUNT];
    struct cw_buffer out[COUNT], in[COUNT];

    memset(sends, 0, sizeof(sends));
    memset(recvs, 0, sizeof(recvs));
    for (int i = 0; i < COUNT; i++) {
        out[i] = cw_buffer_new(length + (size_t)i * 1111);
        in[i] = cw_buffer_new(length + (size_t)i * 1111);
        cw_pattern_fill(out[i].data, out[i].length, (uint64_t)i + 7);
        if (expected) {
            cw_op_recv(&recvs[i], pair->rx->worker, in[i].data, in[i].length, 4, CW_TAG_ALL);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        cw_op_send(&sends[i], pair->tx->ep, out[i].data, out[i].length, 4);
    }
    for (int i = 0; i < COUNT && !expected; i++) {
        ucp_tag_recv_info_t info;

        cw_pair_wait_probe(pair, 4, CW_TAG_ALL, &info); /* often only the first fragment is there */
        cw_op_recv(&recvs[i], pair->rx->worker, in[i].data, in[i].length, 4, CW_TAG_ALL);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        assert_int_equal(cw_op_wait(pair, &recvs[i], "one of several big receives"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &sends[i], "one of several big sends"), UCS_OK);
        cw_pattern_check(in[i].data, in[i].length, (uint64_t)i + 7);
        cw_buffer_check(&in[i]);
        cw_buffer_free(&in[i]);
        cw_buffer_free(&out[i]);
    }
}

API_TEST(test_tag_interleaved_fragments_of_one_tag)
{
    static const size_t lengths[] = {9000, 20000, 66000, 500000};

    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        interleaved(pair, true, lengths[i]);
        interleaved(pair, false, lengths[i]);
    }
    cw_pair_close(pair);
}

API_TEST(test_ep44_both_directions_at_once)
{
    enum { COUNT = 64 };
    struct cw_op sends[2][COUNT], recvs[2][COUNT];
    struct cw_buffer out[2][COUNT], in[2][COUNT];

    memset(sends, 0, sizeof(sends));
    memset(recvs, 0, sizeof(recvs));
    cw_test_need_two_workers();
    cw_pair_open(pair, NULL);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < COUNT; i++) {
            size_t length = (size_t)(i * i * 97);

            out[side][i] = cw_buffer_new(length);
            in[side][i] = cw_buffer_new(length);
            cw_pattern_fill(out[side][i].data, length, (uint64_t)(side * 100 + i));
            cw_op_send(&sends[side][i], pair->sides[side].ep, out[side][i].data, length, 9);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        for (int side = 0; side < 2; side++) {
            cw_op_recv(&recvs[side][i], pair->sides[1 - side].worker, in[side][i].data, in[side][i].length, 9, 0);
        }
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        int side = i % 2, k = i / 2;

        assert_int_equal(cw_op_wait(pair, &recvs[side][k], "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &sends[side][k], "send"), UCS_OK);
        cw_pattern_check(in[side][k].data, in[side][k].length, (uint64_t)(side * 100 + k));
        cw_buffer_check(&in[side][k]);
        cw_buffer_free(&in[side][k]);
        cw_buffer_free(&out[side][k]);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag20_buffer_reusable_after_completion)
{
    enum { COUNT = 200 };
    struct cw_buffer out = cw_buffer_new(30000), in = cw_buffer_new(30000);
    struct cw_op recv;
    ucp_request_param_t param = cw_param_none();

    cw_pair_open(pair, NULL);
    for (int i = 0; i < COUNT; i++) {
        size_t length = (size_t)(i % 2 == 0 ? 64 : 30000 - i);
        ucs_status_ptr_t result;

        cw_pattern_fill(out.data, length, (uint64_t)i);
        memset(&recv, 0, sizeof(recv));
        cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 1, CW_TAG_ALL);
        result = ucp_tag_send_nbx(pair->tx->ep, out.data, length, 1, &param);
        assert_int_equal(cw_pair_wait(pair, result, "send"), UCS_OK);
        memset(out.data, 0xee, out.length);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pattern_check(in.data, length, (uint64_t)i);
    }
    cw_buffer_free(&in);
    cw_buffer_free(&out);
    cw_pair_close(pair);
}
