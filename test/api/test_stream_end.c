/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams and the end of endpoints: CLS-3, CLS-4, CLS-5, CLS-12, CLS-13, ERR-2, ERR-8, ERR-11, FLU-1, FLU-3, FLU-7. */
#include "test_stream_common.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES = 80, PIECE = 65536 }; /* more than any window */

static char out[PIECE], in[PIECE];

static const struct cw_pair_config peer_config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM, .peer_mode = true};

static void fill_up(struct cw_pair *pair, struct cw_op *sends, int count)
{
    cw_pattern_fill(out, PIECE, 3);
    memset(sends, 0, (size_t)count * sizeof(*sends));
    for (int i = 0; i < count; i++) {
        ucp_request_param_t param = cw_param_send(&sends[i]);

        cw_op_started(&sends[i], ucp_stream_send_nbx(pair->tx->ep, out, PIECE, &param));
    }
    cw_pair_settle(pair);
}

static void read_all(struct cw_pair *pair, int count)
{
    for (int i = 0; i < count; i++) {
        memset(in, 0, PIECE);
        stream_get(pair, in, PIECE);
        cw_pattern_check(in, PIECE, 3);
    }
}

static void end_all(struct cw_pair *pair, struct cw_op *sends, int count, ucs_status_t status)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "stream send"), status);
    }
}

static ucs_status_ptr_t start_close(ucp_ep_h ep, struct cw_op *op, unsigned flags)
{
    ucp_request_param_t param = cw_param_send(op);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    cw_op_started(op, ucp_ep_close_nbx(ep, &param));
    return op->result;
}

/* FLU-1, FLU-3: a flush waits for the sends before it, with or without a reader's leave, not for those behind it. */
API_TEST(test_flu1_flush_waits_for_held_sends)
{
    struct cw_op sends[PIECES], more[PIECES], flush = {0};
    ucp_request_param_t param;

    cw_test_skip_reference("it stores what is unread without a bound");
    cw_pair_open(pair, &stream_config);
    fill_up(pair, sends, PIECES);
    param = cw_param_send(&flush);
    cw_op_started(&flush, ucp_ep_flush_nbx(pair->tx->ep, &param));
    fill_up(pair, more, PIECES);
    assert_true(UCS_PTR_IS_PTR(flush.result));
    assert_int_equal(flush.calls, 0);
    read_all(pair, PIECES);
    assert_int_equal(cw_op_wait(pair, &flush, "flush behind held sends"), UCS_OK);
    assert_int_equal(more[PIECES - 1].calls, 0);
    end_all(pair, sends, PIECES, UCS_OK);
    read_all(pair, PIECES);
    end_all(pair, more, PIECES, UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_flu7_flush_does_not_wait_for_receives)
{
    ucp_request_param_t none = cw_param_none();
    struct stream_op recv;
    char byte;

    cw_pair_open(pair, &stream_config);
    stream_recv(&recv, pair->rx->ep, &byte, 1, 0);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->rx->ep, &none), "flush"), UCS_OK);
    assert_int_equal(recv.op.calls, 0);
    stream_put(pair, "x", 1);
    assert_int_equal(stream_wait(pair, &recv), 1);
    cw_pair_close(pair);
}

/* CLS-4: everything that was posted before is delivered, also what waits for the reader. */
static void close_behind_sends(struct cw_pair *pair, bool connected)
{
    struct cw_op sends[PIECES], closing = {0};

    cw_pair_open(pair, &stream_config);
    if (connected) {
        stream_put(pair, "x", 1);
        stream_get(pair, in, 1);
    }
    fill_up(pair, sends, PIECES);
    start_close(pair->tx->ep, &closing, 0);
    pair->tx->ep = NULL;
    read_all(pair, PIECES);
    end_all(pair, sends, PIECES, UCS_OK);
    assert_int_equal(cw_op_wait(pair, &closing, "close behind held sends"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_cls4_close_delivers_held_sends)
{
    cw_test_need_two_workers();
    close_behind_sends(pair, true);
    close_behind_sends(pair, false);
}

/* CLS-12, CLS-13: our receives are cancelled, what is unread is discarded, and the peer can go on and close. */
API_TEST(test_cls12_close_ends_receives)
{
    struct cw_op sends[PIECES], closing = {0};
    struct stream_op recvs[2];
    char bytes[8];

    cw_test_need_two_workers();
    cw_pair_open(pair, &stream_config);
    stream_put(pair, "abc", 3);
    stream_get(pair, bytes, 3);
    for (int i = 0; i < 2; i++) {
        stream_recv(&recvs[i], pair->rx->ep, bytes, 4, UCP_STREAM_RECV_FLAG_WAITALL);
    }
    start_close(pair->rx->ep, &closing, 0);
    pair->rx->ep = NULL;
    assert_int_equal(cw_op_wait(pair, &closing, "close"), UCS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cw_op_wait(pair, &recvs[i].op, "receive on a closed endpoint"), UCS_ERR_CANCELED);
    }
    fill_up(pair, sends, cw_test_reference() ? 1 : PIECES); /* the reference sends these by rendezvous */
    end_all(pair, sends, cw_test_reference() ? 1 : PIECES, UCS_OK);
    cw_pair_close(pair);
}

/* Also when the sender closes behind sends that wait for us: nobody waits for ever (CLS-9). */
API_TEST(test_cls12_close_drops_unread)
{
    struct cw_op sends[PIECES], closing = {0}, sender_closing = {0};
    ucp_stream_poll_ep_t polled;

    cw_test_need_two_workers();
    cw_test_skip_reference("it stores what is unread without a bound");
    cw_pair_open(pair, &stream_config);
    fill_up(pair, sends, PIECES);
    start_close(pair->tx->ep, &sender_closing, 0);
    pair->tx->ep = NULL;
    cw_pair_settle(pair);
    assert_int_equal(sender_closing.calls, 0);
    start_close(pair->rx->ep, &closing, 0);
    pair->rx->ep = NULL;
    end_all(pair, sends, PIECES, UCS_OK);
    assert_int_equal(cw_op_wait(pair, &closing, "close"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &sender_closing, "close of the sender"), UCS_OK);
    assert_int_equal(ucp_stream_worker_poll(pair->rx->worker, &polled, 1, 0), 0);
    cw_pair_close(pair);
}

/* CLS-3, CLS-12: by force. */
API_TEST(test_cls3_force_cancels)
{
    struct cw_op sends[PIECES], closing = {0};
    struct stream_op recv;
    int canceled = 0;
    char byte;

    cw_test_need_two_workers();
    cw_test_skip_reference("it stores what is unread without a bound");
    cw_pair_open(pair, &peer_config);
    fill_up(pair, sends, PIECES);
    stream_recv(&recv, pair->tx->ep, &byte, 1, 0);
    assert_null(start_close(pair->tx->ep, &closing, UCP_EP_CLOSE_FLAG_FORCE));
    pair->tx->ep = NULL;
    assert_int_equal(cw_op_wait(pair, &recv.op, "receive"), UCS_ERR_CANCELED);
    for (int i = 0; i < PIECES; i++) {
        ucs_status_t status = cw_op_wait(pair, &sends[i], "stream send");

        assert_true(status == UCS_OK || status == UCS_ERR_CANCELED);
        canceled += status != UCS_OK;
    }
    assert_true(canceled > 0);
    cw_side_destroy(pair->tx);
    cw_side_destroy(pair->rx);
}

struct failure {
    volatile int calls;
    ucs_status_t status;
};

static void note_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct failure *failure = arg;

    (void)ep;
    failure->calls++;
    failure->status = status;
}

static void watch(ucp_ep_h ep, struct failure *failure)
{
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_handler.cb = note_failure;
    params.err_handler.arg = failure;
    assert_null(ucp_ep_modify_nb(ep, &params));
}

/* On a failed endpoint nothing is left to be read, and nothing will come. */
static void check_late_receive(ucp_ep_h ep, ucs_status_t status)
{
    struct stream_op late;

    stream_recv(&late, ep, in, 1, 0);
    if (cw_test_reference()) { /* 1.13 posts it, which shows at least that nothing was left */
        assert_true(UCS_PTR_IS_PTR(late.op.result));
        ucp_request_free(late.op.result);
        return;
    }
    assert_int_equal(UCS_PTR_RAW_STATUS(late.op.result), status);
}

static void need_peer_mode(void)
{
    cw_test_need_two_workers();
    if (cw_test_tls_has("shm")) {
        cw_test_skip_reference("its shared memory has no PEER mode");
    }
}

/* ERR-8, ERR-11, ERR-2: the peer goes away in the middle. */
API_TEST(test_err8_failure_ends_streams)
{
    struct failure failure = {0};
    struct cw_op sends[PIECES], closing = {0};
    struct stream_op recvs[3];
    ucp_request_param_t none = cw_param_none();
    ucp_stream_poll_ep_t polled;
    size_t length = 0;

    need_peer_mode();
    cw_pair_open(pair, &peer_config);
    watch(pair->tx->ep, &failure);
    stream_put_on(pair, pair->rx->ep, "ab", 2);
    fill_up(pair, sends, PIECES);
    for (int i = 0; i < 3; i++) {
        stream_recv(&recvs[i], pair->tx->ep, in + 10 * i, 10, UCP_STREAM_RECV_FLAG_WAITALL);
    }
    pair->rx->ep = NULL;
    cw_side_destroy(pair->rx);
    cw_pair_wait_count(pair, &failure.calls, 1, "the error callback");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cw_op_wait(pair, &recvs[i].op, "receive from a lost peer"), failure.status);
    }
    for (int i = 0; i < PIECES; i++) {
        cw_op_wait(pair, &sends[i], "stream send to a lost peer");
    }
    check_late_receive(pair->tx->ep, failure.status);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_stream_send_nbx(pair->tx->ep, out, 1, &none)), failure.status);
    assert_false(UCS_PTR_IS_PTR(ucp_stream_recv_data_nb(pair->tx->ep, &length)));
    assert_int_equal(ucp_stream_worker_poll(pair->tx->worker, &polled, 1, 0), 0);
    start_close(pair->tx->ep, &closing, UCP_EP_CLOSE_FLAG_FORCE);
    pair->tx->ep = NULL;
    assert_int_equal(cw_op_wait(pair, &closing, "close by force"), UCS_OK);
    cw_side_destroy(pair->tx);
}

API_TEST(test_err8_unread_is_dropped)
{
    struct failure failure = {0};
    ucp_stream_poll_ep_t polled;
    struct cw_op closing = {0};

    need_peer_mode();
    cw_pair_open(pair, &peer_config);
    watch(pair->rx->ep, &failure);
    stream_put(pair, "abc", 3);
    wait_ready(pair, pair->rx->ep);
    stream_put(pair, "def", 3);
    cw_pair_settle(pair);
    pair->tx->ep = NULL;
    cw_side_destroy(pair->tx);
    cw_pair_wait_count(pair, &failure.calls, 1, "the error callback");
    check_late_receive(pair->rx->ep, failure.status);
    assert_int_equal(ucp_stream_worker_poll(pair->rx->worker, &polled, 1, 0), 0);
    start_close(pair->rx->ep, &closing, UCP_EP_CLOSE_FLAG_FORCE);
    pair->rx->ep = NULL;
    assert_int_equal(cw_op_wait(pair, &closing, "close by force"), UCS_OK);
    cw_side_destroy(pair->rx);
}

/* CLS-5: in NONE mode the orderly end of the peer is no failure; what it sent can still be read, also by an endpoint
 * that is made only then (EP-8). */
static void peer_is_gone(struct cw_pair *pair, bool late)
{
    static const struct cw_pair_config no_eps = {.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM,
                                                 .no_endpoints = true};
    struct stream_op recv;
    char text[6] = "";
    size_t length;
    void *blob;

    cw_pair_open(pair, late ? &no_eps : &stream_config);
    blob = cw_test_worker_address(pair->tx->worker, &length);
    if (late) {
        pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    }
    stream_put(pair, "abcdef", 6);
    cw_pair_settle(pair);
    stream_close(pair, pair->tx->ep);
    pair->tx->ep = NULL;
    cw_side_destroy(pair->tx);
    cw_pair_settle(pair);
    if (late) {
        ucp_ep_params_t params;

        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = blob;
        assert_int_equal(ucp_ep_create(pair->rx->worker, &params, &pair->rx->ep), UCS_OK);
    }
    free(blob);
    wait_ready(pair, pair->rx->ep);
    stream_recv_elements(&recv, pair->rx->ep, text, 2, 2, 0);
    assert_int_equal(stream_wait(pair, &recv), 4);
    stream_get(pair, text + 4, 2);
    assert_memory_equal(text, "abcdef", 6);
    stream_close(pair, pair->rx->ep);
    pair->rx->ep = NULL;
    cw_side_destroy(pair->rx);
}

API_TEST(test_cls5_readable_after_the_peers_end)
{
    cw_test_need_two_workers();
    cw_test_skip_reference("what it does there was not tried");
    peer_is_gone(pair, false);
    peer_is_gone(pair, true);
}

/* WRK-26: with receives posted, data unread, data handed out, sends held. */
API_TEST(test_wrk26_worker_destroyed_in_the_middle)
{
    struct cw_op sends[PIECES];
    struct stream_op recv;
    size_t length = 0;
    void *data;

    cw_test_need_two_workers();
    cw_test_skip_reference("it stores what is unread without a bound");
    cw_pair_open(pair, &stream_config);
    fill_up(pair, sends, PIECES);
    wait_ready(pair, pair->rx->ep);
    data = ucp_stream_recv_data_nb(pair->rx->ep, &length);
    assert_true(UCS_PTR_IS_PTR(data));
    stream_recv(&recv, pair->tx->ep, in, 1, 0);
    for (int i = 0; i < PIECES; i++) {
        if (UCS_PTR_IS_PTR(sends[i].result)) {
            ucp_request_release(sends[i].result);
        }
    }
    ucp_request_release(recv.op.result);
    cw_side_destroy(pair->tx);
    assert_int_equal(recv.op.calls, 1);
    assert_int_equal(recv.op.status, UCS_ERR_CANCELED);
    ucp_stream_data_release(pair->rx->ep, data);
    cw_side_destroy(pair->rx);
}
