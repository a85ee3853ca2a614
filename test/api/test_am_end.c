/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages where something ends early: the endpoint is closed by this side, within the handler as well, the
 * worker is destroyed, data is received or released a second time, a call is refused: CLS-1, CLS-13, WRK-26, ABU-2,
 * AMR-15, AMR-23, AMR-31, AMR-35, AMR-37.
 */
#define _GNU_SOURCE
#include "test_am_common.h"

#include <stdlib.h>
#include <string.h>

enum { ID = 17, FAR_ID = 40000, LONG = 3000001 /* several packets, whatever the transport */ };

static int old_calls;

static ucs_status_t old_handler(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags)
{
    (void)arg;
    (void)data;
    (void)length;
    (void)flags;
    assert_null(reply_ep);
    old_calls++;
    return UCS_OK;
}

static void close_receiver(struct cw_pair *pair)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t closing = ucp_ep_close_nbx(pair->rx->ep, &param);

    pair->rx->ep = NULL;
    assert_int_equal(cw_pair_wait(pair, closing, "close"), UCS_OK);
    cw_pair_settle(pair);
}

/* AMR-23, CLS-13: whatever the handler is, single packets without REPLY come, and nothing else does. */
API_TEST(test_amr23_all_kinds_for_a_closed_endpoint)
{
    static const uint32_t dropped[] = {UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY, UCP_AM_SEND_FLAG_EAGER,
                                       UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY};
    static const size_t lengths[] = {100, LONG, LONG};
    struct cw_am_sink *sinks[3];
    struct cw_buffer out;

    cw_test_need_two_workers();
    cw_test_skip_reference("what it delivers there was not tried");
    out = cw_buffer_new(LONG);
    cw_am_open(pair, NULL);
    for (unsigned i = 0; i < 3; i++) {
        sinks[i] = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    }
    cw_am_install(sinks[0], ID, 0);
    cw_am_install(sinks[1], ID + 1, UCP_AM_FLAG_PERSISTENT_DATA);
    cw_am_install(sinks[2], FAR_ID, 0);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID + 2, old_handler, NULL, 0), UCS_OK);
    assert_int_equal(cw_am_pass(pair, sinks[0], ID, 0, 100, 0), UCS_OK);
    close_receiver(pair);
    old_calls = 0;
    for (unsigned i = 0; i < 3; i++) {
        const unsigned id = (i == 2) ? FAR_ID : ID + i;
        struct cw_op rndv = {0};
        int calls = sinks[i]->calls;

        for (unsigned k = 0; k < 3; k++) {
            struct cw_op send = {0};

            cw_am_send(&send, pair->tx->ep, id, NULL, 0, out.data, lengths[k], dropped[k]);
            assert_int_equal(cw_op_wait(pair, &send, "send to a closed endpoint"), UCS_OK);
        }
        cw_am_send(&rndv, pair->tx->ep, id, NULL, 0, out.data, 1000, UCP_AM_SEND_FLAG_RNDV);
        assert_true(cw_op_wait(pair, &rndv, "rendezvous with a closed endpoint") < 0);
        assert_int_equal(cw_am_pass(pair, sinks[i], id, 3, 100, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
        cw_pair_settle(pair);
        assert_int_equal(sinks[i]->calls, calls + 1);
    }
    for (unsigned k = 0; k < 2; k++) {
        struct cw_op send = {0};

        cw_am_send(&send, pair->tx->ep, ID + 2, NULL, 0, "old", 3,
                   UCP_AM_SEND_FLAG_EAGER | (k == 0 ? UCP_AM_SEND_FLAG_REPLY : 0));
        assert_int_equal(cw_op_wait(pair, &send, "send to a closed endpoint"), UCS_OK);
    }
    cw_pair_wait_count(pair, &old_calls, 1, "message");
    cw_pair_settle(pair);
    assert_int_equal(old_calls, 1);
    cw_pair_close(pair);
    for (unsigned i = 0; i < 3; i++) {
        cw_am_sink_free(sinks[i]);
    }
    cw_buffer_free(&out);
}

/* A message is on its way in packets when this side closes: it is dropped, and the sender has not to care. */
API_TEST(test_amr23_closed_between_two_packets)
{
    struct cw_op send = {0};
    struct cw_am_sink *sink;
    struct cw_buffer out;

    cw_test_need_two_workers();
    cw_test_skip_reference("what it delivers there was not tried");
    out = cw_buffer_new(20 * LONG);
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    assert_int_equal(cw_am_pass(pair, sink, ID, 0, 100, 0), UCS_OK);
    cw_am_send(&send, pair->tx->ep, ID, NULL, 0, out.data, out.length, UCP_AM_SEND_FLAG_EAGER);
    ucp_worker_progress(pair->rx->worker);
    assert_int_equal(sink->calls, 1);
    close_receiver(pair);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pair_settle(pair);
    assert_int_equal(sink->calls, 1);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&out);
}

/* What the handler does before, or after, it closes the endpoint that the message came by. */
struct closer {
    struct cw_pair *pair;
    bool force;
    bool answer;
    ucs_status_ptr_t closing;
    struct cw_op reply;
};

static void close_inside(struct cw_am_sink *sink)
{
    struct closer *closer = sink->then_arg;
    ucp_request_param_t param = cw_param_none();

    if (closer->answer) {
        cw_am_send(&closer->reply, sink->reply_ep, ID + 1, "re", 2, "ply", 3, UCP_AM_SEND_FLAG_EAGER);
    }
    if (closer->force) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    closer->closing = ucp_ep_close_nbx(closer->pair->rx->ep, &param);
    closer->pair->rx->ep = NULL;
    sink->then = NULL;
}

/* Data that was kept stays, and what was announced is fetched, or ends with an error: never both, never neither. */
static void use_retained(struct cw_pair *pair, struct cw_am_sink *sink, size_t length, bool fetches)
{
    struct cw_buffer in = cw_buffer_new(length);
    struct cw_op fetch = {0};
    ucs_status_t status;
    size_t fetched;

    if (!cw_am_is_rndv(sink)) {
        cw_pattern_check(sink->lent, length, 3);
    }
    if (fetches) {
        cw_am_fetch(&fetch, &fetched, sink->worker, sink->lent, in.data, length, 0);
        status = cw_op_wait(pair, &fetch, "fetch after the close");
        assert_true(cw_am_is_rndv(sink) || status == UCS_OK);
        if (status == UCS_OK) {
            cw_pattern_check(in.data, length, 3);
        }
        cw_buffer_check(&in);
    } else {
        ucp_am_data_release(sink->worker, sink->lent);
    }
    sink->retained = false;
    cw_buffer_free(&in);
}

static void message_that_closes(struct cw_pair *pair, enum cw_am_action action, uint32_t flags, size_t length,
                                unsigned how)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_AM, .peer_mode = true};
    struct closer closer = {.pair = pair, .force = how & 1, .answer = how & 2};
    struct cw_buffer out = cw_buffer_new(length);
    struct cw_am_sink *sink, *back;
    struct cw_op send = {0};
    ucs_status_t status;

    cw_pair_open(pair, &config);
    sink = cw_am_sink_new(pair->rx->worker, action);
    back = cw_am_sink_new(pair->tx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, (how & 4) ? UCP_AM_FLAG_PERSISTENT_DATA : 0);
    cw_am_install(back, ID + 1, 0);
    assert_int_equal(cw_am_pass(pair, sink, ID, 0, 10, 0), UCS_OK);
    sink->then = close_inside;
    sink->then_arg = &closer;
    sink->answer = (action == CW_AM_DROP && (how & 4)) ? UCS_ERR_NO_RESOURCE : UCS_OK;
    cw_pattern_fill(out.data, length, 3);
    cw_am_send(&send, pair->tx->ep, ID, "h", 1, out.data, length, flags | UCP_AM_SEND_FLAG_REPLY);
    cw_am_wait(pair, sink, 2);
    if (closer.answer && !closer.force) {
        cw_am_wait(pair, back, 1); /* CLS-4 */
    }
    if (closer.answer) {
        status = cw_op_wait(pair, &closer.reply, "answer before the close");
        assert_true(status == UCS_OK || closer.force);
    }
    if (sink->retained) {
        use_retained(pair, sink, length, how & 4);
    } else if (action == CW_AM_FETCH || (action == CW_AM_TAKE && cw_am_is_rndv(sink))) {
        status = cw_op_wait(pair, &sink->fetch, "fetch before the close");
        assert_true(status == UCS_OK || (closer.force && cw_am_is_rndv(sink)));
        if (status == UCS_OK) {
            cw_pattern_check(sink->data.data, length, 3);
        }
    }
    status = cw_op_wait(pair, &send, "send");
    assert_true((flags & UCP_AM_SEND_FLAG_RNDV) || closer.force || status == UCS_OK);
    cw_pair_wait(pair, closer.closing, "close within the handler");
    cw_side_destroy(pair->tx);
    if (pair->count == 2) {
        cw_side_destroy(pair->rx);
    }
    cw_am_sink_free(sink);
    cw_am_sink_free(back);
    cw_buffer_free(&out);
}

API_TEST(test_cls1_close_within_the_handler)
{
    static const enum cw_am_action actions[] = {CW_AM_TAKE, CW_AM_FETCH, CW_AM_KEEP, CW_AM_DROP};
    static const size_t lengths[] = {8, 5000, LONG};

    cw_test_need_two_workers();
    cw_test_skip_reference("its shared memory has no PEER mode, and 1.13 frees what the handler still uses");
    for (unsigned how = 0; how < 8; how++) {
        for (unsigned i = 0; i < 4 * 3; i++) {
            message_that_closes(pair, actions[i % 4], UCP_AM_SEND_FLAG_EAGER, lengths[i / 4], how);
            message_that_closes(pair, actions[i % 4], UCP_AM_SEND_FLAG_RNDV, lengths[i / 4], how);
        }
    }
}

static char destroyed_bytes[LONG];
static struct cw_op destroyed_reply;

static void destroy_inside(struct cw_am_sink *sink)
{
    struct cw_pair *pair = sink->then_arg;

    cw_am_send(&destroyed_reply, pair->rx->ep, ID + 1, NULL, 0, destroyed_bytes, sizeof(destroyed_bytes), 0);
    ucp_ep_destroy(pair->rx->ep); /* would wait for ever for what only progress does */
    pair->rx->ep = NULL;
    sink->then = NULL;
}

/* CLS-17: the blocking call within a handler comes back, and what was posted before arrives. */
API_TEST(test_cls17_destroy_within_the_handler)
{
    struct cw_am_sink *sink, *back;

    cw_test_need_two_workers();
    cw_test_skip_reference("1.13 progresses within the handler");
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    back = cw_am_sink_new(pair->tx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    cw_am_install(back, ID + 1, 0);
    sink->then = destroy_inside;
    sink->then_arg = pair;
    memset(&destroyed_reply, 0, sizeof(destroyed_reply));
    assert_int_equal(cw_am_pass(pair, sink, ID, 3, 100, 0), UCS_OK);
    cw_am_wait(pair, back, 1);
    assert_int_equal(back->length, sizeof(destroyed_bytes));
    if (cw_am_is_rndv(back)) {
        assert_int_equal(cw_op_wait(pair, &back->fetch, "fetch"), UCS_OK);
    }
    assert_int_equal(cw_op_wait(pair, &destroyed_reply, "answer before the end"), UCS_OK);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_am_sink_free(back);
}

/* WRK-26: with messages kept, announced, half arrived, and fetches under way. */
API_TEST(test_wrk26_worker_destroyed_in_the_middle)
{
    static struct cw_op sends[8];   /* static: callbacks may come from the destruction */
    struct cw_op fetch = {0};
    struct cw_buffer out, in;
    struct cw_am_sink *sink;
    size_t fetched;

    cw_test_need_two_workers();
    cw_test_skip_reference("1.13 waits for what is under way");
    out = cw_buffer_new(64 << 20);
    in = cw_buffer_new(64 << 20);
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_KEEP);
    cw_am_install(sink, ID, UCP_AM_FLAG_PERSISTENT_DATA);
    for (int i = 0; i < 8; i++) {
        const size_t length = (i % 3 == 0) ? out.length : 10000;

        sends[i] = (struct cw_op){.free_inside = true};
        cw_am_send(&sends[i], pair->tx->ep, ID, "h", 1, out.data, length,
                   i == 7 || i % 3 == 1 ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV);
        if (i < 7) {
            cw_am_wait(pair, sink, i + 1);
        }
        if (i == 3) {
            fetch.free_inside = true;
            cw_am_fetch(&fetch, &fetched, pair->rx->worker, sink->lent, in.data, in.length,
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
        }
    }
    ucp_worker_progress(pair->rx->worker);
    pair->rx->ep = NULL;
    cw_side_destroy(pair->rx);
    assert_int_equal(fetch.calls, 1);
    pair->tx->ep = NULL;
    cw_side_destroy(pair->tx);
    for (int i = 0; i < 8; i++) {
        assert_true(!UCS_PTR_IS_PTR(sends[i].result) || sends[i].calls == 1);
    }
    cw_buffer_check(&in);
    cw_am_sink_free(sink);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
}

static ucs_status_t second_status;

static void fetch_again(struct cw_am_sink *sink)
{
    ucp_request_param_t param = cw_param_none();
    static char again[100];

    second_status = UCS_PTR_RAW_STATUS(ucp_am_recv_data_nbx(sink->worker, sink->lent, again, sizeof(again), &param));
    ucp_am_data_release(sink->worker, sink->lent); /* logged, without effect */
}

/* AMR-35, AMR-31: within the handler, whatever the data is like. */
API_TEST(test_amr35_second_fetch_within_the_handler)
{
    struct cw_am_sink *sink;

    cw_test_skip_reference("1.13 takes what it has given away already");
    for (unsigned i = 0; i < 8; i++) {
        cw_am_open(pair, NULL);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_FETCH);
        sink->then = fetch_again;
        sink->fetch_mask = (i & 4) ? UCP_OP_ATTR_FLAG_NO_IMM_CMPL : 0;
        cw_am_install(sink, ID, (i & 1) ? UCP_AM_FLAG_PERSISTENT_DATA : 0);
        second_status = UCS_OK;
        assert_int_equal(cw_am_pass(pair, sink, ID, 3, 100, (i & 2) ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER),
                         UCS_OK);
        assert_int_equal(second_status, UCS_ERR_INVALID_PARAM);
        cw_pair_close(pair);
        cw_am_sink_free(sink);
    }
}

static void release_borrowed(struct cw_am_sink *sink)
{
    if ((sink->attr & UCP_AM_RECV_ATTR_FLAG_DATA) == 0) {
        ucp_am_data_release(sink->worker, sink->lent);
    }
}

/* AMR-15: what was not lent is given back, what may not be kept is kept: a line in the log each, and nothing else. */
API_TEST(test_amr15_mistakes_are_logged)
{
    struct cw_am_sink *sink;
    char text[8192];
    int saved[2], file;

    cw_test_skip_reference("1.13 takes anything for its own");
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
    cw_am_install(sink, ID, 0);
    assert_int_equal(cw_am_pass(pair, sink, ID, 4, 8, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
    assert_int_equal(sink->attr & UCP_AM_RECV_ATTR_FLAG_DATA, 0);
    file = cw_capture_start(saved);
    sink->answer = UCS_INPROGRESS;
    assert_int_equal(cw_am_pass(pair, sink, ID, 4, 8, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
    assert_int_equal(cw_am_pass(pair, sink, ID, 0, 8, UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY), UCS_OK);
    sink->answer = UCS_OK;
    sink->then = release_borrowed;
    assert_int_equal(cw_am_pass(pair, sink, ID, 4, 8, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
    cw_capture_end(file, saved, text, sizeof(text));
    assert_non_null(strstr(text, "ERROR"));
    assert_non_null(strstr(strstr(text, "UCS_INPROGRESS") + 1, "UCS_INPROGRESS"));
    assert_non_null(strstr(text, "cannot be released"));
    sink->then = NULL;
    assert_int_equal(cw_am_pass(pair, sink, ID, 4, 8, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

/* ABU-2: a call that is refused leaves the message where it was. */
API_TEST(test_abu2_refused_fetch_changes_nothing)
{
    struct cw_am_sink *sink;

    cw_test_skip_reference("1.13 does not check it");
    for (unsigned i = 0; i < 2; i++) {
        ucp_request_param_t param = cw_param_none();
        struct cw_op send = {0};
        char byte;

        cw_am_open(pair, NULL);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_KEEP);
        cw_am_install(sink, ID, UCP_AM_FLAG_PERSISTENT_DATA);
        cw_am_send(&send, pair->tx->ep, ID, NULL, 0, "x", 1, i == 0 ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV);
        cw_am_wait(pair, sink, 1);
        param.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;
        assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_recv_data_nbx(sink->worker, sink->lent, &byte, 1, &param)),
                         UCS_ERR_INVALID_PARAM);
        cw_pair_settle(pair);
        assert_true(i == 0 || send.calls == 0);
        ucp_am_data_release(sink->worker, sink->lent);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pair_close(pair);
        cw_am_sink_free(sink);
    }
}

API_TEST(test_ctx11_feature_is_needed)
{
    ucp_request_param_t param = cw_param_none();
    char byte;

    cw_test_skip_reference("1.13 does not check");
    cw_pair_open(pair, NULL); /* TAG alone */
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_recv_data_nbx(pair->rx->worker, &byte, &byte, 1, &param)),
                     UCS_ERR_INVALID_PARAM);
    ucp_am_data_release(pair->rx->worker, &byte); /* nothing is checked */
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, 1, old_handler, NULL, 0), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_send_nb(pair->tx->ep, 1, "x", 1, ucp_dt_make_contig(1), NULL, 0)),
                     UCS_ERR_INVALID_PARAM);
    cw_pair_close(pair);
}
