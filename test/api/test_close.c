/* SPDX-License-Identifier: BSD-3-Clause */
/* Closing healthy endpoints: CLS-1..18, WRK-26, WRK-30, WRK-31, R23. Many processes that close at once are in
 * test_finalize.c. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FLIGHT = 40 };

static const size_t flight_sizes[] = {8, 0, 500, 4000, 9000, 70000, 300000, 64};

static ucs_status_ptr_t start_close(struct cw_side *side, struct cw_op *op, bool mark_flags)
{
    ucp_request_param_t param = cw_param_send(op);
    ucs_status_ptr_t result;

    if (mark_flags) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = 0;
    } /* else flags holds garbage with the FORCE bit set: CLS-1 */
    result = ucp_ep_close_nbx(side->ep, &param);
    side->ep = NULL;
    if (op != NULL) {
        cw_op_started(op, result);
    }
    return result;
}

static void close_with_flight(struct cw_pair *pair, bool cold, bool free_close)
{
    struct cw_op sends[FLIGHT], closing = {0};
    struct cw_buffer out[FLIGHT];

    if (cw_test_self_only()) {
        cw_test_skip_reference("it asserts when rendezvous to itself is in flight at close");
    }
    memset(sends, 0, sizeof(sends));
    cw_pair_open(pair, NULL);
    if (!cold) {
        cw_pair_ping(pair, 99);
    }
    for (int i = 0; i < FLIGHT; i++) {
        out[i] = cw_buffer_new(flight_sizes[i % 8]);
        cw_pattern_fill(out[i].data, out[i].length, (uint64_t)i);
        cw_op_send(&sends[i], pair->tx->ep, out[i].data, out[i].length, 1);
    }
    start_close(pair->tx, &closing, false);
    assert_false(UCS_PTR_IS_ERR(closing.result));
    if (free_close && UCS_PTR_IS_PTR(closing.result)) {
        ucp_request_free(closing.result); /* CLS-6 */
        closing.result = NULL;
    }
    for (int i = 0; i < FLIGHT; i++) {
        struct cw_buffer in = cw_buffer_new(300000);
        struct cw_op recv = {0};

        cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 1, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive of what was in flight at close"), UCS_OK);
        assert_int_equal(recv.info.length, out[i].length);
        cw_pattern_check(in.data, out[i].length, (uint64_t)i);
        cw_buffer_free(&in);
    }
    for (int i = 0; i < FLIGHT; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send before close"), UCS_OK);
        cw_buffer_free(&out[i]);
    }
    assert_int_equal(cw_op_wait(pair, &closing, "close"), UCS_OK);
    cw_pair_close(pair);
    assert_true(closing.calls == (free_close || closing.request == NULL ? 0 : 1));
}

API_TEST(test_cls4_flush_close_loses_nothing)
{
    close_with_flight(pair, false, false);
}

API_TEST(test_cls4_flush_close_before_the_connection_stands)
{
    close_with_flight(pair, true, false);
}

API_TEST(test_cls6_close_request_freed_at_once)
{
    close_with_flight(pair, false, true);
    close_with_flight(pair, true, true);
}

/* The peer said a lot and ended in good order; how much of that was read when we close is a matter of luck. */
API_TEST(test_r23_close_after_the_orderly_end_of_the_peer)
{
    ucp_request_param_t param = cw_param_none();
    static char data[100];

    cw_test_need_two_workers();
    cw_test_skip_over_providers("udp:,sockets:", "it does not hold what was sent to a peer that does not read");
    for (int rounds = 0; rounds < 40; rounds++) {
        cw_pair_open(pair, NULL);
        cw_pair_ping(pair, 1);
        for (int i = 0; i < 200; i++) {
            ucs_status_ptr_t send = ucp_tag_send_nbx(pair->rx->ep, data, sizeof(data), 5, &param);

            if (UCS_PTR_IS_PTR(send)) {
                ucp_request_free(send);
            }
        }
        cw_side_destroy(pair->rx);
        for (int i = 0; i < rounds / 2; i++) {
            ucp_worker_progress(pair->tx->worker);
        }
        assert_int_equal(cw_worker_wait_request(pair->tx->worker, start_close(pair->tx, NULL, true), "close"), UCS_OK);
        cw_side_destroy(pair->tx);
    }
}

/* Nothing is printed: programs that close any endpoint so, and then with a flush, get a status. */
API_TEST(test_cls2_force_is_refused_in_none_mode)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_t status, status_nb;
    char text[1024];
    int saved[2], file;

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    file = cw_capture_start(saved);
    status = UCS_PTR_RAW_STATUS(ucp_ep_close_nbx(pair->tx->ep, &param));
    status_nb = UCS_PTR_RAW_STATUS(ucp_ep_close_nb(pair->tx->ep, UCP_EP_CLOSE_MODE_FORCE));
    cw_capture_end(file, saved, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(status, UCS_ERR_INVALID_PARAM);
    assert_int_equal(status_nb, UCS_ERR_INVALID_PARAM);
    cw_pair_ping(pair, 2); /* it remains open and usable */
    cw_pair_close(pair);
}

/* OPA-5. */
API_TEST(test_cls1_flags_only_with_their_bit)
{
    struct cw_op closing = {0};

    for (int mark = 0; mark < 2; mark++) {
        cw_pair_open(pair, NULL);
        cw_pair_ping(pair, 1);
        closing = (struct cw_op){0};
        start_close(pair->tx, &closing, mark);
        assert_int_equal(cw_op_wait(pair, &closing, "close"), UCS_OK);
        cw_pair_close(pair);
    }
}

API_TEST(test_r23_close_needs_no_progress_of_the_peer)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 4, in = 0;
    struct cw_op recv = {0};
    ucs_status_ptr_t send;

    cw_test_need_two_workers();
    if (cw_test_tls_has("tcp")) {
        cw_test_skip_reference("its close over tcp waits for the peer's progress");
    }
    cw_test_skip_over_providers("udp:", "a packet completes when its receiver calls progress");
    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    cw_pair_settle(pair);
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 2, &param);
    assert_int_equal(cw_worker_wait_request(pair->tx->worker, send, "small send without the peer"), UCS_OK);
    assert_int_equal(cw_worker_wait_request(pair->tx->worker, start_close(pair->tx, NULL, false),
                                            "close without the peer"), UCS_OK);
    cw_side_destroy(pair->tx);
    pair->count = 1;
    pair->sides[0] = pair->sides[1];
    pair->sides[1] = (struct cw_side){0};
    pair->rx = &pair->sides[0];
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 2, CW_TAG_ALL); /* CLS-5 */
    assert_int_equal(cw_op_wait(pair, &recv, "receive after the sender's worker is gone"), UCS_OK);
    assert_int_equal(in, out);
}

API_TEST(test_cls9_both_close_with_traffic_both_ways)
{
    cw_test_need_two_workers();
    for (int round = 0; round < 20; round++) {
        struct cw_op sends[2] = {0}, recvs[2] = {0}, closing[2] = {0};
        struct cw_buffer out = cw_buffer_new(4000), in[2]; /* CLS-13: not all of a rendezvous is promised here */

        cw_pair_open(pair, NULL);
        cw_pattern_fill(out.data, out.length, (uint64_t)round);
        for (int i = 0; i < 2; i++) {
            in[i] = cw_buffer_new(out.length);
            cw_op_send(&sends[i], pair->sides[i].ep, out.data, round % 2 == 0 ? 8 : out.length, 1);
        }
        for (int i = 0; i < 2; i++) {
            start_close(&pair->sides[i], &closing[i], true);
        }
        for (int i = 0; i < 2; i++) {
            cw_op_recv(&recvs[i], pair->sides[i].worker, in[i].data, out.length, 1, CW_TAG_ALL);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &closing[i], "close"), UCS_OK);
            cw_pattern_check(in[i].data, round % 2 == 0 ? 8 : out.length, (uint64_t)round);
            cw_buffer_free(&in[i]);
        }
        cw_buffer_free(&out);
        cw_pair_close(pair);
    }
}

API_TEST(test_cls12_posted_tag_receives_are_unaffected)
{
    struct cw_op recv = {0};
    uint64_t in;

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    cw_op_recv(&recv, pair->tx->worker, &in, sizeof(in), 5, CW_TAG_ALL);
    assert_int_equal(cw_pair_wait(pair, start_close(pair->tx, NULL, false), "close"), UCS_OK);
    cw_pair_settle(pair);
    assert_int_equal(recv.calls, 0);
    ucp_request_cancel(pair->tx->worker, recv.result);
    assert_int_equal(cw_op_wait(pair, &recv, "cancelled receive"), UCS_ERR_CANCELED);
    cw_pair_close(pair);
}

API_TEST(test_cls14_peer_goes_on_sending)
{
    static const size_t sizes[] = {8, 4000};
    char out[4000], in[4000];

    cw_test_need_two_workers();
    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    assert_int_equal(cw_pair_wait(pair, start_close(pair->rx, NULL, false), "close"), UCS_OK);
    for (int i = 0; i < 100; i++) {
        struct cw_op send = {0}, recv = {0};
        size_t length = sizes[i % 2];

        cw_pattern_fill(out, length, (uint64_t)i);
        cw_op_recv(&recv, pair->rx->worker, in, length, 2, CW_TAG_ALL);
        cw_op_send(&send, pair->tx->ep, out, length, 2);
        assert_int_equal(cw_op_wait(pair, &send, "send to who has closed"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive after own close"), UCS_OK);
        cw_pattern_check(in, length, (uint64_t)i);
    }
    cw_pair_close(pair);
}

API_TEST(test_cls15_reconnect)
{
    cw_pair_open(pair, NULL);
    for (int round = 0; round < 60; round++) {
        cw_pair_ping(pair, (ucp_tag_t)round);
        if (round % 3 != 1) {
            assert_int_equal(cw_pair_wait(pair, start_close(pair->tx, NULL, false), "close"), UCS_OK);
            pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
        }
        if (round % 3 != 0 && pair->count == 2) {
            assert_int_equal(cw_pair_wait(pair, start_close(pair->rx, NULL, false), "close"), UCS_OK);
            pair->rx->ep = cw_side_connect(pair->rx, pair->tx->worker, NULL);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_cls16_old_close_calls)
{
    for (int variant = 0; variant < 4; variant++) {
        ucs_status_ptr_t request;

        cw_pair_open(pair, NULL);
        cw_pair_ping(pair, 1);
        request = variant % 2 == 0 ? ucp_disconnect_nb(pair->tx->ep) :
                                 ucp_ep_close_nb(pair->tx->ep, UCP_EP_CLOSE_MODE_FLUSH);
        pair->tx->ep = NULL;
        assert_false(UCS_PTR_IS_ERR(request));
        if (request != NULL) {
            cw_pair_until(pair, ucp_request_is_completed(request), "close"); /* MPICH's loop */
            assert_int_equal(ucp_request_check_status(request), UCS_OK);
            assert_int_equal(ucp_request_test(request, NULL), UCS_OK);
            if (variant < 2) {
                ucp_request_release(request);
            } else {
                ucp_request_free(request);
            }
        }
        cw_pair_close(pair);
    }
}

API_TEST(test_cls17_ep_destroy_blocks_until_flushed)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 8, in = 0;
    struct cw_op recv = {0};
    ucs_status_ptr_t send;

    if (cw_test_tls_has("tcp")) {
        cw_test_skip_reference("its close over tcp waits for the peer's progress");
    }
    cw_test_skip_over_providers("udp:", "a packet completes when its receiver calls progress");
    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    cw_pair_settle(pair);
    send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 3, &param);
    ucp_ep_destroy(pair->tx->ep);
    pair->tx->ep = NULL;
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 3, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
    cw_pair_close(pair);
}

API_TEST(test_cls7_cls18_close_callback_and_no_imm_cmpl)
{
    for (int flags = 0; flags < 2; flags++) {
        struct cw_op closing = {0};
        ucp_request_param_t param = cw_param_send(&closing);

        cw_pair_open(pair, NULL);
        cw_pair_ping(pair, 1);
        param.op_attr_mask |= flags == 0 ? 0u : (uint32_t)UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        cw_op_started(&closing, ucp_ep_close_nbx(pair->tx->ep, &param));
        pair->tx->ep = NULL;
        assert_int_equal(cw_op_wait(pair, &closing, "close"), UCS_OK); /* NULL is legal with the flag, too */
        cw_pair_close(pair);
    }
}

API_TEST(test_opa8_close_and_flush_in_user_memory)
{
    struct cw_user_request user;

    cw_pair_open(pair, NULL);
    user = cw_user_request_new(pair->tx->context);
    cw_pair_ping(pair, 1);
    for (int i = 0; i < 2; i++) {
        struct cw_op op = {0};
        ucp_request_param_t param = cw_param_send(&op);

        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
        cw_op_started(&op, i == 0 ? ucp_ep_flush_nbx(pair->tx->ep, &param) : ucp_ep_close_nbx(pair->tx->ep, &param));
        assert_true(op.result == NULL || op.result == user.handle);
        cw_pair_wait_count(pair, &op.calls, op.result != NULL, "op in user memory");
        assert_int_equal(op.status, UCS_OK);
        cw_user_request_check(&user);
    }
    pair->tx->ep = NULL;
    cw_user_request_free(&user);
    cw_pair_close(pair);
}

/* WRK-27. */
API_TEST(test_r23_destroy_with_open_endpoints_and_posted_receives)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_op recvs[10] = {0};
    uint64_t in, out = 1;

    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    for (int i = 0; i < 10; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, &in, sizeof(in), 50, CW_TAG_ALL);
        assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, &out, 8, 60, &param), "send"), UCS_OK);
    }
    cw_pair_settle(pair); /* unmatched messages lie there, too */
    for (int i = 0; i < pair->count; i++) {
        cw_side_destroy(&pair->sides[i]);
    }
}

API_TEST(test_wrk26_destroy_completes_outstanding_sends)
{
    struct cw_buffer out = cw_buffer_new(3000000);
    struct cw_op sends[20] = {0};

    cw_test_skip_reference("it asserts while it destroys a shared-memory endpoint with rendezvous outstanding");
    for (int warm = 0; warm < 2; warm++) {
        memset(sends, 0, sizeof(sends));
        cw_pair_open(pair, NULL);
        if (warm) {
            cw_pair_ping(pair, 1);
        }
        for (int i = 0; i < 20; i++) {
            cw_op_send(&sends[i], pair->tx->ep, out.data, i % 2 == 0 ? out.length : 8, 1);
        }
        for (int i = 0; i < pair->count; i++) {
            cw_side_destroy(&pair->sides[i]);
        }
        for (int i = 0; i < 20; i++) {
            assert_int_equal(sends[i].calls, UCS_PTR_IS_PTR(sends[i].result));
            assert_true(sends[i].status == UCS_OK || sends[i].status == UCS_ERR_CANCELED);
        }
    }
    cw_buffer_free(&out);
}

API_TEST(test_wrk31_destroy_abandons_a_close_in_flight)
{
    for (int warm = 0; warm < 2; warm++) {
        ucs_status_ptr_t closing;

        cw_pair_open(pair, NULL);
        if (warm) {
            cw_pair_ping(pair, 1);
        }
        closing = start_close(pair->tx, NULL, false);
        if (UCS_PTR_IS_PTR(closing)) {
            ucp_request_free(closing);
        }
        for (int i = 0; i < pair->count; i++) { /* no progress at all */
            cw_side_destroy(&pair->sides[i]);
        }
    }
}

API_TEST(test_wrk30_destroyed_peer_does_not_hurt_the_sender)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t out = 1;

    cw_test_need_two_workers();
    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    cw_side_destroy(pair->rx);
    for (int i = 0; i < 100; i++) { /* NONE mode: silence, or an error; neither crash nor SIGPIPE (ABU-27) */
        ucs_status_ptr_t result = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);

        if (UCS_PTR_IS_PTR(result)) {
            ucp_request_free(result);
        }
        for (int k = 0; k < 20; k++) {
            ucp_worker_progress(pair->tx->worker);
        }
    }
    pair->tx->ep = NULL;
    cw_side_destroy(pair->tx);
}

/* Sends, closes, destroys and exits, as fast as it can. */
static int role_hasty_sender(int fd, const char *argument)
{
    struct cw_side side;
    ucp_request_param_t param = cw_param_none();
    bool warm = argument[0] == 'w';
    char out[4000];
    ucs_status_ptr_t closing;

    cw_side_open(&side, NULL);
    side.ep = cw_fd_connect(fd, &side, NULL);
    if (warm) {
        cw_worker_wait_request(side.worker, ucp_tag_send_nbx(side.ep, out, 8, 99, &param), "send");
        cw_fd_barrier(fd, side.worker);
    }
    for (int i = 0; i < 200; i++) {
        size_t length = i % 20 == 19 ? sizeof(out) : 64;
        ucs_status_ptr_t result;

        cw_pattern_fill(out, length, (uint64_t)i);
        result = ucp_tag_send_nbx(side.ep, out, length, 1, &param);
        if (cw_worker_wait_request(side.worker, result, "send") != UCS_OK) {
            return 3;
        }
    }
    closing = ucp_ep_close_nbx(side.ep, &param);
    if (cw_worker_wait_request(side.worker, closing, "close") != UCS_OK) {
        return 4;
    }
    cw_side_destroy(&side);
    cw_fd_write(fd, "e", 1);
    return 0;
}

static void receive_from_hasty(struct cw_pair *pair, const char *how, bool connect)
{
    struct cw_side *side = &pair->sides[0];
    struct cw_remote remote;
    struct cw_op recv = {0};
    char in[4000];

    cw_remote_start(&remote, "hasty_sender", how);
    cw_side_open(side, NULL);
    pair->count = 1;
    pair->tx = pair->rx = side;
    side->ep = cw_fd_connect(remote.fd, side, NULL);
    if (!connect) {
        cw_worker_wait_request(side->worker, start_close(side, NULL, false), "close");
    }
    if (how[0] == 'w') {
        cw_op_recv(&recv, side->worker, in, 8, 99, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "first receive"), UCS_OK);
        cw_fd_barrier(remote.fd, side->worker);
        usleep(200000); /* the sender does all it can in the meantime, and perhaps is gone */
    }
    for (int i = 0; i < 200; i++) {
        size_t length = i % 20 == 19 ? sizeof(in) : 64;

        memset(in, 0, sizeof(in));
        recv = (struct cw_op){0};
        cw_op_recv(&recv, side->worker, in, sizeof(in), 1, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive from a process that is gone"), UCS_OK);
        assert_int_equal(recv.info.length, length);
        cw_pattern_check(in, length, (uint64_t)i);
    }
    cw_fd_read(remote.fd, in, 1, side->worker); /* the reference's close over tcp wants our progress */
    cw_remote_join(&remote);
    cw_side_destroy(side);
}

API_TEST(test_cls5_everything_arrives_after_the_sender_exited)
{
    cw_test_need_two_processes();
    receive_from_hasty(pair, "warm", true);
    receive_from_hasty(pair, "cold", true);
    receive_from_hasty(pair, "warm", false);
    receive_from_hasty(pair, "cold", false);
}

int main(int argc, char **argv)
{
    const struct cw_role roles[] = {{"hasty_sender", role_hasty_sender}};

    return cw_test_main(argc, argv, roles, 1);
}
