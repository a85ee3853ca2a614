/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag messages of a worker to itself whose receive is posted: the call that sends copies them, and progress completes
 * the receive. GEN-6, GEN-8, TAG-4, TAG-10, TAG-13, TAG-21, TAG-33, DT-14, REQ-24, R9, WAK-5.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {0, 1, 8, 48, 1024, 1025, 8192, 32768, 65535, 65536, 1000003};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LONGEST = 1000003 };

static const struct cw_pair_config with_am = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM};
static const struct cw_pair_config with_peers = {.peer_mode = true};
static const struct cw_pair_config bare = {.no_endpoints = true};
static const struct cw_pair_config with_locks = {.thread_mode = UCS_THREAD_MODE_MULTI};

static void open_connected(struct cw_pair *pair, const struct cw_pair_config *config)
{
    cw_test_skip_reference("its receives complete within the send");
    cw_pair_open(pair, config);
    cw_pair_ping(pair, 77);
    cw_pair_settle(pair);
}

static void *post(struct cw_pair *pair, void *data, size_t length, ucp_tag_t tag, ucp_tag_t mask)
{
    const ucp_request_param_t param = cw_param_none();
    void *request = ucp_tag_recv_nbx(pair->rx->worker, data, length, tag, mask, &param);

    assert_true(UCS_PTR_IS_PTR(request));
    return request;
}

static void send_at_once(struct cw_pair *pair, const void *data, size_t length, ucp_tag_t tag)
{
    const ucp_request_param_t param = cw_param_none();

    assert_null(ucp_tag_send_nbx(pair->tx->ep, data, length, tag, &param));
}

static void is_in_progress(void *request)
{
    ucp_tag_recv_info_t info;

    assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
    assert_int_equal(ucp_tag_recv_request_test(request, &info), UCS_INPROGRESS);
}

static void has(void *request, size_t length, ucp_tag_t tag)
{
    ucp_tag_recv_info_t info = {0};

    assert_int_equal(ucp_tag_recv_request_test(request, &info), UCS_OK);
    assert_int_equal(info.length, length);
    assert_int_equal(info.sender_tag, tag);
    ucp_request_free(request);
}

static void each_size(struct cw_pair *pair, int sync)
{
    const ucp_request_param_t none = cw_param_none();

    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i] + 1);
        struct cw_op recv = {0};
        ucp_request_param_t param = cw_param_recv(&recv);
        void *plain;

        cw_pattern_fill(out.data, sizes[i], 3);
        plain = post(pair, in.data, sizes[i] + 1, 1, CW_TAG_ALL);
        assert_null(sync ? ucp_tag_send_sync_nbx(pair->tx->ep, out.data, sizes[i], 1, &none)
                         : ucp_tag_send_nbx(pair->tx->ep, out.data, sizes[i], 1, &none));
        cw_pattern_check(in.data, sizes[i], 3);
        is_in_progress(plain);
        assert_true(ucp_worker_progress(pair->rx->worker) > 0);
        has(plain, sizes[i], 1);

        memset(in.data, 0, sizes[i]);
        cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, sizes[i], 2, CW_TAG_ALL, &param));
        recv.inside = true;
        assert_null(sync ? ucp_tag_send_sync_nbx(pair->tx->ep, out.data, sizes[i], 2, &none)
                         : ucp_tag_send_nbx(pair->tx->ep, out.data, sizes[i], 2, &none));
        recv.inside = false;
        cw_pattern_check(in.data, sizes[i], 3);
        assert_int_equal(recv.calls, 0);
        assert_true(ucp_worker_progress(pair->rx->worker) > 0);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(recv.calls_inside, 0);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
}

API_TEST(test_gen6_gen8_only_progress_completes_the_receive)
{
    open_connected(pair, NULL);
    each_size(pair, 0);
    cw_pair_close(pair);
}

API_TEST(test_gen6_gen8_with_locks)
{
    open_connected(pair, &with_locks);
    each_size(pair, 0);
    each_size(pair, 1);
    cw_pair_close(pair);
}

API_TEST(test_tag21_synchronous_send_is_complete_when_matched)
{
    open_connected(pair, NULL);
    each_size(pair, 1);
    cw_pair_close(pair);
}

API_TEST(test_no_imm_cmpl_gives_a_request)
{
    char out[3000], in[3000];

    open_connected(pair, NULL);
    for (size_t length = 8; length <= sizeof(out); length += sizeof(out) - 8) {
        struct cw_op send = {0};
        ucp_request_param_t param = cw_param_send(&send);
        void *recv = post(pair, in, length, 1, CW_TAG_ALL);

        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out, length, 1, &param));
        assert_true(UCS_PTR_IS_PTR(send.result));
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    }
    cw_pair_close(pair);
}

/* A message that waits in the queue is older than one that is sent after its receive was posted. */
/* Behind an active message, which waits for progress, a tag message waits too. */
API_TEST(test_tag10_no_message_overtakes_a_queued_one)
{
    const ucp_request_param_t none = cw_param_none();
    char *in[2] = {malloc(LONGEST), malloc(LONGEST)};
    char *out = malloc(LONGEST);
    const size_t first = 8;

    open_connected(pair, &with_am);
    memset(out, 1, LONGEST);
    for (int i = 0; i < SIZES; i++) {
        struct cw_op second = {0};
        void *recv[2];

        assert_null(ucp_am_send_nbx(pair->tx->ep, 9, NULL, 0, out, first, &none)); /* which has no handler */
        send_at_once(pair, out, first, 1);
        recv[0] = post(pair, in[0], LONGEST, 0, 0);
        recv[1] = post(pair, in[1], LONGEST, 0, 0);
        cw_op_send(&second, pair->tx->ep, out, sizes[i], 2);
        is_in_progress(recv[0]);
        is_in_progress(recv[1]);
        cw_pair_until(pair, ucp_request_check_status(recv[1]) != UCS_INPROGRESS, "receive");
        has(recv[0], first, 1);
        has(recv[1], sizes[i], 2);
        assert_int_equal(cw_op_wait(pair, &second, "send"), UCS_OK);
    }
    cw_pair_close(pair);
    free(in[0]);
    free(in[1]);
    free(out);
}

/* A short message that no receive matches has arrived when the send returns. The next progress counts it. */
API_TEST(test_r9_unexpected_messages_arrive_within_the_send)
{
    static const size_t lengths[] = {0, 1, 8, 48, 1024, 8192};
    const ucp_request_param_t none = cw_param_none();
    char out[8192], in[8192];
    ucp_tag_recv_info_t info;

    open_connected(pair, NULL);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        cw_pattern_fill(out, lengths[i], 4);
        send_at_once(pair, out, lengths[i], i);
        assert_null(ucp_tag_probe_nb(pair->rx->worker, i + 1, CW_TAG_ALL, 0, &info));
        assert_non_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
        assert_int_equal(info.sender_tag, i);
        assert_int_equal(info.length, lengths[i]);
        send_at_once(pair, out, 1, i);
        memset(in, 0, sizeof(in));
        assert_null(ucp_tag_recv_nbx(pair->rx->worker, in, sizeof(in), i, CW_TAG_ALL, &none));
        cw_pattern_check(in, lengths[i], 4);
        assert_null(ucp_tag_recv_nbx(pair->rx->worker, in, 1, i, CW_TAG_ALL, &none));
        assert_int_equal(ucp_worker_progress(pair->rx->worker), 2);
        assert_int_equal(ucp_worker_progress(pair->rx->worker), 0);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag21_an_unexpected_synchronous_message_waits_for_its_receive)
{
    const ucp_request_param_t none = cw_param_none();
    uint64_t in = 0, out = 4;
    void *send;

    open_connected(pair, NULL);
    send = ucp_tag_send_sync_nbx(pair->tx->ep, &out, sizeof(out), 1, &none);
    assert_true(UCS_PTR_IS_PTR(send));
    cw_pair_settle(pair);
    assert_int_equal(ucp_request_check_status(send), UCS_INPROGRESS);
    assert_null(ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &none));
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    assert_int_equal(in, 4);
    cw_pair_close(pair);
}

/* So many receives that the matcher hashes them. */
API_TEST(test_tag4_a_receive_among_many)
{
    enum { MANY = 300 };
    uint64_t in[MANY], out;
    void *recv[MANY];

    open_connected(pair, NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            recv[i] = post(pair, &in[i], 8, (ucp_tag_t)(i / 2), (i % 3 == 0) ? CW_TAG_ALL : 0xffff);
        }
        for (int i = 0; i < MANY; i++) {
            const int to = (i * 7 % (MANY / 2)) * 2 + (i >= MANY / 2);

            out = (uint64_t)to;
            send_at_once(pair, &out, 8, (ucp_tag_t)(to / 2));
            is_in_progress(recv[to]);
        }
        cw_pair_settle(pair);
        for (int i = 0; i < MANY; i++) {
            has(recv[i], 8, (ucp_tag_t)(i / 2));
            assert_int_equal(in[i], i);
        }
    }
    cw_pair_close(pair);
}

/* Whether the first receive in the order of posting matches, another one, or none. */
API_TEST(test_tag4_earliest_posted_receive)
{
    uint64_t in[4] = {0};
    const uint64_t out[] = {10, 11, 12, 13};
    void *recv[4];

    open_connected(pair, NULL);
    recv[0] = post(pair, &in[0], 8, 5, CW_TAG_ALL);
    recv[1] = post(pair, &in[1], 8, 0, 0);
    recv[2] = post(pair, &in[2], 8, 5, CW_TAG_ALL);
    recv[3] = post(pair, &in[3], 8, 6, CW_TAG_ALL);
    send_at_once(pair, &out[0], 8, 5); /* the first one's */
    send_at_once(pair, &out[1], 8, 5); /* the wildcard's, which is older than the other one of this tag */
    send_at_once(pair, &out[2], 8, 6);
    send_at_once(pair, &out[3], 8, 5);
    for (int i = 0; i < 4; i++) {
        is_in_progress(recv[i]);
    }
    cw_pair_settle(pair);
    has(recv[0], 8, 5);
    has(recv[1], 8, 5);
    has(recv[2], 8, 5);
    has(recv[3], 8, 6);
    assert_int_equal(in[0], 10);
    assert_int_equal(in[1], 11);
    assert_int_equal(in[2], 13);
    assert_int_equal(in[3], 12);
    cw_pair_close(pair);
}

API_TEST(test_tag13_probe_sees_no_matched_message)
{
    uint64_t in = 0, out = 4;
    ucp_tag_recv_info_t info;
    void *recv;

    open_connected(pair, NULL);
    recv = post(pair, &in, 8, 1, CW_TAG_ALL);
    send_at_once(pair, &out, 8, 1);
    assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 1, &info));
    cw_pair_settle(pair);
    assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 1, &info));
    has(recv, 8, 1);
    cw_pair_close(pair);
}

API_TEST(test_req24_cancel_after_the_match)
{
    open_connected(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i]);
        struct cw_op recv = {0};
        ucp_request_param_t param = cw_param_recv(&recv);

        cw_pattern_fill(out.data, sizes[i], 1);
        cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, sizes[i], 1, CW_TAG_ALL, &param));
        send_at_once(pair, out.data, sizes[i], 1);
        ucp_request_cancel(pair->rx->worker, recv.result);
        assert_int_equal(recv.calls, 0);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pattern_check(in.data, sizes[i], 1);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag33_truncated)
{
    open_connected(pair, NULL);
    for (int i = 1; i < SIZES; i++) {
        struct cw_buffer out = cw_buffer_new(sizes[i]), in = cw_buffer_new(sizes[i] - 1);
        struct cw_op send = {0};
        void *recv = post(pair, in.data, sizes[i] - 1, 1, CW_TAG_ALL);

        cw_op_send(&send, pair->tx->ep, out.data, sizes[i], 1);
        is_in_progress(recv);
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_ERR_MESSAGE_TRUNCATED);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
        cw_pair_ping(pair, 9);
    }
    cw_pair_close(pair);
}

API_TEST(test_send_from_where_it_is_received)
{
    enum { LENGTH = 5000, SHIFT = 100 };
    char memory[LENGTH + SHIFT];
    void *recv;

    open_connected(pair, NULL);
    for (size_t length = 8; length <= LENGTH; length += (LENGTH - 8) / 4) {
        for (int shift = 0; shift <= SHIFT; shift += SHIFT / 20) {
            cw_pattern_fill(memory, length, 2);
            recv = post(pair, memory + shift, length, 1, CW_TAG_ALL);
            send_at_once(pair, memory, length, 1);
            assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
            cw_pattern_check(memory + shift, length, 2);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_request_in_memory_of_the_program)
{
    struct cw_user_request user;
    ucp_request_param_t param;
    uint64_t in = 0, out = 4;

    open_connected(pair, NULL);
    user = cw_user_request_new(pair->rx->context);
    param = cw_param_none();
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
    param.request = user.handle;
    assert_ptr_equal(ucp_tag_recv_nbx(pair->rx->worker, &in, 8, 1, CW_TAG_ALL, &param), user.handle);
    send_at_once(pair, &out, 8, 1);
    is_in_progress(user.handle);
    assert_int_equal(in, 4);
    assert_int_equal(ucp_worker_progress(pair->rx->worker), 1);
    assert_int_equal(ucp_request_check_status(user.handle), UCS_OK);
    cw_user_request_check(&user);
    cw_user_request_free(&user);
    cw_pair_close(pair);
}

/* More than the sender's credit, in messages of several lengths. */
API_TEST(test_more_than_the_credit)
{
    char *out = malloc(LONGEST), *in = malloc(LONGEST);
    size_t sent = 0;

    open_connected(pair, NULL);
    cw_pattern_fill(out, LONGEST, 1);
    for (int i = 0; sent < ((size_t)48 << 20); i++) {
        const size_t length = sizes[SIZES - 1 - i % 4];
        void *recv = post(pair, in, length, 1, CW_TAG_ALL);

        send_at_once(pair, out, length, 1);
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
        sent += length;
    }
    cw_pattern_check(in, sizes[SIZES - 4], 1);
    cw_pair_close(pair);
    free(out);
    free(in);
}

/* ---- receives and messages that wait for progress ---- */

struct bytes {
    char *data;
    size_t length;
    int unpacked;
};

static void *bytes_start(void *context, void *buffer, size_t count)
{
    struct bytes *bytes = context;

    bytes->data = buffer;
    bytes->length = count;
    return bytes;
}

static size_t bytes_length(void *state)
{
    return ((struct bytes *)state)->length;
}

static ucs_status_t bytes_unpack(void *state, size_t offset, const void *data, size_t length)
{
    struct bytes *bytes = state;

    memcpy(bytes->data + offset, data, length);
    bytes->unpacked++;
    return UCS_OK;
}

static void bytes_finish(void *state)
{
    (void)state;
}

API_TEST(test_dt14_generic_receive_is_unpacked_in_progress)
{
    const ucp_generic_dt_ops_t ops = {
        .start_unpack = bytes_start, .packed_size = bytes_length, .unpack = bytes_unpack, .finish = bytes_finish};
    char *out = malloc(LONGEST), *in = malloc(LONGEST);
    struct bytes bytes = {0};
    ucp_datatype_t datatype;

    open_connected(pair, NULL);
    assert_int_equal(ucp_dt_create_generic(&ops, &bytes, &datatype), UCS_OK);
    cw_pattern_fill(out, LONGEST, 1);
    for (int i = 1; i < SIZES; i++) {
        ucp_request_param_t param = cw_param_none();
        struct cw_op send = {0};
        void *recv;

        bytes.unpacked = 0;
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = datatype;
        recv = ucp_tag_recv_nbx(pair->rx->worker, in, LONGEST, 1, CW_TAG_ALL, &param);
        assert_true(UCS_PTR_IS_PTR(recv));
        cw_op_send(&send, pair->tx->ep, out, sizes[i], 1);
        assert_int_equal(bytes.unpacked, 0);
        is_in_progress(recv);
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pattern_check(in, sizes[i], 1);
    }
    ucp_dt_destroy(datatype);
    cw_pair_close(pair);
    free(out);
    free(in);
}

API_TEST(test_list_of_buffers)
{
    char out[6000], in[6000];
    const ucp_dt_iov_t from[] = {{out, 1000}, {out + 1000, 5000}}, to[] = {{in, 4000}, {in + 4000, 2000}};

    open_connected(pair, NULL);
    cw_pattern_fill(out, sizeof(out), 1);
    for (int lists = 1; lists < 4; lists++) {
        ucp_request_param_t of_list = cw_param_none(), plain = cw_param_none();
        struct cw_op send = {0};
        void *recv;

        memset(in, 0, sizeof(in));
        of_list.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        of_list.datatype = ucp_dt_make_iov();
        recv = (lists & 1) ? ucp_tag_recv_nbx(pair->rx->worker, (void *)(uintptr_t)to, 2, 1, CW_TAG_ALL, &of_list)
                           : ucp_tag_recv_nbx(pair->rx->worker, in, sizeof(in), 1, CW_TAG_ALL, &plain);
        cw_op_started(&send, (lists & 2) ? ucp_tag_send_nbx(pair->tx->ep, from, 2, 1, &of_list)
                                         : ucp_tag_send_nbx(pair->tx->ep, out, sizeof(out), 1, &plain));
        is_in_progress(recv);
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, send.result, "send"), UCS_OK);
        cw_pattern_check(in, sizeof(in), 1);
    }
    cw_pair_close(pair);
}

static char order[8];
static unsigned num_order;

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)length, (void)param;
    order[num_order++] = 'a';
    return UCS_OK;
}

static void on_tag(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)info, (void)user_data;
    assert_int_equal(status, UCS_OK);
    order[num_order++] = 't';
    ucp_request_free(request);
}

static void post_noting(struct cw_pair *pair, uint64_t *data)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK;
    param.cb.recv = on_tag;
    assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(pair->rx->worker, data, sizeof(*data), 1, CW_TAG_ALL, &param)));
}

/* Completions come in the order of the sends, whether a message was copied at once or waited. */
API_TEST(test_gen6_active_messages_wait_for_progress)
{
    const ucp_request_param_t none = cw_param_none();
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = 3, .cb = on_am};
    uint64_t in[2], out = 1;

    num_order = 0;
    open_connected(pair, &with_am);
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    post_noting(pair, &in[0]);
    post_noting(pair, &in[1]);
    send_at_once(pair, &out, sizeof(out), 1);
    assert_null(ucp_am_send_nbx(pair->tx->ep, 3, NULL, 0, &out, sizeof(out), &none));
    send_at_once(pair, &out, sizeof(out), 1);
    assert_int_equal(num_order, 0);
    assert_int_equal(ucp_worker_progress(pair->rx->worker), 3);
    assert_int_equal(num_order, 3);
    assert_memory_equal(order, "tat", 3);
    cw_pair_close(pair);
}

/* ---- progress, sleep and the end ---- */

struct echo {
    struct cw_pair *pair;
    uint64_t in, out;
    int calls;
};

static void post_echo(struct echo *echo);

static void on_echo(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct echo *echo = user_data;

    (void)info;
    assert_int_equal(status, UCS_OK);
    ucp_request_free(request);
    echo->calls++;
    post_echo(echo);
    send_at_once(echo->pair, &echo->out, sizeof(echo->out), 1);
}

static void post_echo(struct echo *echo)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv = on_echo;
    param.user_data = echo;
    assert_true(UCS_PTR_IS_PTR(
        ucp_tag_recv_nbx(echo->pair->rx->worker, &echo->in, sizeof(echo->in), 1, CW_TAG_ALL, &param)));
}

/* What a callback sends is the next progress' work, so progress returns. */
TEST_WITH(test_r9_callbacks_that_send, cw_test_setup, cw_test_teardown)
{
    struct echo echo = {.pair = *state};

    open_connected(echo.pair, NULL);
    post_echo(&echo);
    send_at_once(echo.pair, &echo.out, sizeof(echo.out), 1);
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(ucp_worker_progress(echo.pair->rx->worker), 1);
        assert_int_equal(echo.calls, i);
    }
    cw_side_destroy(&echo.pair->sides[0]); /* with the last receive matched and not complete */
    assert_int_equal(echo.calls, 100);
    memset(echo.pair, 0, sizeof(*echo.pair));
}

API_TEST(test_wak5_a_matched_receive_keeps_the_worker_awake)
{
    char *out = malloc(LONGEST), *in = malloc(LONGEST);
    int fd;

    cw_test_skip_reference("its receives complete within the send");
    cw_pair_open_wakeup(pair);
    cw_pair_ping(pair, 77);
    fd = cw_worker_efd(pair->rx->worker);
    memset(out, 1, LONGEST);
    for (int i = 0; i < SIZES; i++) {
        void *recv = post(pair, in, LONGEST, 1, CW_TAG_ALL);

        cw_worker_drain_and_arm(pair->rx->worker);
        assert_int_equal(cw_fd_poll(fd, 0), 0);
        send_at_once(pair, out, sizes[i], 1);
        assert_int_equal(cw_fd_poll(fd, 0), 1);
        assert_int_equal(ucp_worker_arm(pair->rx->worker), UCS_ERR_BUSY);
        assert_int_equal(ucp_worker_arm(pair->rx->worker), UCS_ERR_BUSY);
        assert_true(ucp_worker_progress(pair->rx->worker) > 0);
        has(recv, sizes[i], 1);
    }
    cw_worker_drain_and_arm(pair->rx->worker);
    cw_pair_close(pair);
    free(out);
    free(in);
}

API_TEST(test_wak5_an_unexpected_message_wakes_the_worker)
{
    const ucp_request_param_t none = cw_param_none();
    uint64_t in = 0, out = 4;
    int fd;

    cw_test_skip_reference("it does not wake");
    cw_pair_open_wakeup(pair);
    cw_pair_ping(pair, 77);
    fd = cw_worker_efd(pair->rx->worker);
    cw_worker_drain_and_arm(pair->rx->worker);
    assert_int_equal(cw_fd_poll(fd, 0), 0);
    send_at_once(pair, &out, sizeof(out), 1);
    assert_int_equal(cw_fd_poll(fd, 0), 1);
    assert_int_equal(ucp_worker_arm(pair->rx->worker), UCS_ERR_BUSY);
    cw_worker_drain_and_arm(pair->rx->worker);
    assert_null(ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &none));
    assert_int_equal(in, 4);
    cw_pair_close(pair);
}

/* The receive is the worker's, not the endpoint's. */
API_TEST(test_endpoint_ends_before_progress)
{
    ucp_request_param_t none = cw_param_none();
    uint64_t in = 0, out = 4;
    void *recv, *closing;

    open_connected(pair, &with_peers);
    recv = post(pair, &in, 8, 1, CW_TAG_ALL);
    send_at_once(pair, &out, 8, 1);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &none), "flush"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    recv = post(pair, &in, 8, 1, CW_TAG_ALL);
    send_at_once(pair, &out, 8, 1);
    none.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    none.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing = ucp_ep_close_nbx(pair->tx->ep, &none);
    pair->tx->ep = NULL;
    is_in_progress(recv);
    assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, closing, "close"), UCS_OK);
    assert_int_equal(in, 4);
    cw_pair_close(pair);
}

API_TEST(test_request_is_freed_before_progress)
{
    uint64_t in = 0, out = 4;

    open_connected(pair, NULL);
    for (int i = 0; i < 100; i++) {
        void *recv = post(pair, &in, 8, 1, CW_TAG_ALL);

        send_at_once(pair, &out, 8, 1);
        ucp_request_free(recv);
        assert_int_equal(ucp_worker_progress(pair->rx->worker), 1);
    }
    cw_pair_close(pair);
}

/* Two endpoints of one worker that lead to each other. */
API_TEST(test_ep12_no_loopback)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_FLAGS,
                              .flags = UCP_EP_PARAMS_FLAGS_NO_LOOPBACK};
    uint64_t in = 0, out = 4;
    ucp_ep_h ends[2];
    void *address, *recv;
    size_t length;

    cw_test_skip_reference("its receives complete within the send");
    cw_pair_open(pair, &bare);
    address = cw_test_worker_address(pair->rx->worker, &length);
    params.address = address;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ucp_ep_create(pair->rx->worker, &params, &ends[i]), UCS_OK);
    }
    for (int i = 0; i < 4; i++) {
        const ucp_request_param_t none = cw_param_none();

        if (i < 2) {
            cw_pair_ping_on(pair, ends[i], 5); /* connects */
        }
        recv = post(pair, &in, 8, 1, CW_TAG_ALL);
        assert_null(ucp_tag_send_nbx(ends[i % 2], &out, 8, 1, &none));
        is_in_progress(recv);
        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    }
    for (int i = 0; i < 2; i++) {
        const ucp_request_param_t none = cw_param_none();

        (void)cw_pair_wait(pair, ucp_ep_close_nbx(ends[i], &none), "close");
    }
    free(address);
    cw_pair_close(pair);
}
