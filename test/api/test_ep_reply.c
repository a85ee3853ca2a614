/* SPDX-License-Identifier: BSD-3-Clause */
/* The endpoint for replies that a handler of active messages gets is the own one of that connection (EP-10, R21), and
 * stays that of this connection when the peer has gone (AMR-22), which its error handler reports. */
#define _GNU_SOURCE
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
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

API_TEST(test_ep10_reply_ep_is_the_own_handle)
{
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

/* ---- after the end of the peer ---- */

static ucp_ep_h last_reply_ep;
static volatile int messages, answers;

static ucs_status_t on_request(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)length;
    last_reply_ep = param->reply_ep;
    messages++;
    return UCS_OK;
}

static ucs_status_t on_answer(void *arg, const void *header, size_t header_length, void *data, size_t length,
                              const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)length, (void)param;
    answers++;
    return UCS_OK;
}

static void set_handler(ucp_worker_h worker, ucp_am_recv_callback_t callback)
{
    ucp_am_handler_param_t handler;

    memset(&handler, 0xff, sizeof(handler));
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    handler.id = AM_ID;
    handler.cb = callback;
    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &handler), UCS_OK);
}

/* A client that asks; its end at the server. */
static ucp_ep_h ask(struct cw_pair *pair, ucp_ep_h *client)
{
    static const struct cw_pair_config watched = {.peer_mode = true};
    ucp_request_param_t param = cw_param_none();
    const int before = messages;

    *client = cw_side_connect(pair->tx, pair->rx->worker, &watched);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_REPLY;
    assert_int_equal(cw_pair_wait(pair, ucp_am_send_nbx(*client, AM_ID, NULL, 0, "?", 1, &param), "a question"),
                     UCS_OK);
    cw_pair_wait_count(pair, &messages, before + 1, "questions");
    return last_reply_ep;
}

static void leave(struct cw_pair *pair, ucp_ep_h client)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(client, &param), "close"), UCS_OK);
    (void)cw_pair_progress(pair);
}

static void assert_refused(struct cw_pair *pair, ucs_status_ptr_t result, const char *what)
{
    const ucs_status_t status = cw_pair_wait(pair, result, what);

    if (status != UCS_ERR_CONNECTION_RESET && status != UCS_ERR_NOT_CONNECTED) {
        fail_msg("%s by an endpoint whose peer has gone: %s", what, ucs_status_string(status));
    }
}

/* Whatever is called with the handle says that the peer has gone. */
static void use_all_calls(struct cw_pair *pair, ucp_ep_h ep)
{
    static char buffer[200000];
    ucp_dt_iov_t iov[2] = {{buffer, 10}, {buffer + 100, 100000}};
    ucp_request_param_t param = cw_param_none(), two = cw_param_none(), force = cw_param_none();
    ucp_ep_params_t modified = {.field_mask = UCP_EP_PARAM_FIELD_USER_DATA};
    ucp_ep_evaluate_perf_param_t of = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE, .message_size = 100};
    ucp_ep_evaluate_perf_attr_t perf = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_NAME};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = buffer,
                                .length = sizeof(buffer)};
    uint64_t word = 1, reply = 1;
    ucs_status_ptr_t result;
    ucp_rkey_h key;
    ucp_mem_h memh;
    size_t size;
    void *packed;
    FILE *null;

    two.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    two.datatype = ucp_dt_make_iov();
    for (size_t length = 0; length < sizeof(buffer); length = 4 * length + 1) {
        assert_refused(pair, ucp_tag_send_nbx(ep, buffer, length, 1, &param), "a send");
        assert_refused(pair, ucp_tag_send_sync_nbx(ep, buffer, length, 1, &param), "a synchronous send");
        assert_refused(pair, ucp_am_send_nbx(ep, AM_ID, "h", 1, buffer, length, &param), "an active message");
        assert_refused(pair, ucp_am_send_nbx(ep, AM_ID, NULL, 0, buffer, length, &param), "an active message");
        assert_refused(pair, ucp_stream_send_nbx(ep, buffer, length, &param), "a stream send");
    }
    assert_refused(pair, ucp_tag_send_nbx(ep, iov, 2, 1, &two), "a send");
    assert_refused(pair, ucp_am_send_nbx(ep, AM_ID, NULL, 0, iov, 2, &two), "an active message");
    assert_refused(pair, ucp_stream_send_nbx(ep, iov, 2, &two), "a stream send");
    assert_refused(pair, ucp_stream_recv_nbx(ep, buffer, 10, &size, &param), "a stream receive");
    result = ucp_stream_recv_data_nb(ep, &size);
    assert_false(UCS_PTR_IS_PTR(result));
    assert_refused(pair, ucp_ep_flush_nbx(ep, &param), "a flush");
    assert_int_equal(ucp_mem_map(pair->rx->context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep, packed, &key), UCS_OK);
    ucp_rkey_buffer_release(packed);
    for (size_t length = 1; length < sizeof(buffer) / 2; length *= 4) {
        assert_refused(pair, ucp_put_nbx(ep, buffer, length, (uintptr_t)buffer, key, &param), "a put");
        assert_refused(pair, ucp_get_nbx(ep, buffer, length, (uintptr_t)buffer, key, &param), "a get");
    }
    two = cw_param_none();
    two.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    two.datatype = ucp_dt_make_contig(8);
    assert_refused(pair, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &word, 1, (uintptr_t)buffer, key, &two), "an atomic");
    two.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    two.reply_buffer = &reply;
    assert_refused(pair, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &word, 1, (uintptr_t)buffer, key, &two), "an atomic");
    ucp_rkey_destroy(key);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    null = fopen("/dev/null", "w");
    assert_non_null(null);
    ucp_ep_print_info(ep, null);
    fclose(null);
    (void)ucp_ep_evaluate_perf(ep, &of, &perf);
    assert_int_equal(ucp_ep_query(ep, &attr), UCS_OK);
    (void)cw_pair_wait(pair, ucp_ep_modify_nb(ep, &modified), "modify");
    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nbx(pair->rx->worker, &param), "a flush of all"), UCS_OK);
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    assert_refused(pair, ucp_ep_close_nbx(ep, &force), "a close by force");
    assert_refused(pair, ucp_ep_close_nbx(ep, &param), "a close");
    ucp_ep_destroy(ep);
}

/* Clients come and go; an answer for the first of them reaches none of those that live. */
API_TEST(test_amr22_handle_is_never_anothers)
{
    static const struct cw_pair_config all = {
        .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64,
        .no_endpoints = true};
    enum { LIVE = 8 };
    const long gone = cw_test_scaled(4200);
    ucp_ep_h *handles, clients[LIVE];

    cw_test_skip_reference("it frees the endpoint with its connection");
    cw_test_need_two_workers();
    handles = calloc((size_t)gone + LIVE, sizeof(*handles));
    assert_non_null(handles);
    cw_pair_open(pair, &all);
    set_handler(pair->rx->worker, on_request);
    set_handler(pair->tx->worker, on_answer);
    for (long i = 0; i < gone; i++) {
        ucp_ep_h client;

        handles[i] = ask(pair, &client);
        leave(pair, client);
    }
    cw_pair_settle(pair);
    for (int i = 0; i < LIVE; i++) {
        handles[gone + i] = ask(pair, &clients[i]);
    }
    for (long i = 0; i < gone; i++) {
        ucp_request_param_t param = cw_param_none();

        for (int k = 0; k < LIVE; k++) {
            assert_ptr_not_equal(handles[i], handles[gone + k]);
        }
        assert_refused(pair, ucp_am_send_nbx(handles[i], AM_ID, NULL, 0, "!", 1, &param), "an answer");
    }
    use_all_calls(pair, handles[0]);
    use_all_calls(pair, handles[gone / 2]);
    use_all_calls(pair, handles[gone - 1]);
    cw_pair_settle(pair);
    assert_int_equal(answers, 0);
    for (int i = 0; i < LIVE; i++) {
        ucp_request_param_t param = cw_param_none();

        assert_int_equal(cw_pair_wait(pair, ucp_am_send_nbx(handles[gone + i], AM_ID, NULL, 0, "!", 1, &param),
                                      "an answer"), UCS_OK);
    }
    cw_pair_wait_count(pair, &answers, LIVE, "answers");
    for (int i = 0; i < LIVE; i++) {
        leave(pair, clients[i]);
    }
    free(handles);
    cw_pair_close(pair);
}

struct lent {
    ucp_ep_h ep, ended;
    ucs_status_t status;
    volatile int calls, ends;
};

static void note_end(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct lent *lent = arg;

    lent->ended = ep;
    lent->status = status;
    lent->ends++;
}

static ucs_status_t ask_for_the_end(void *arg, const void *header, size_t header_length, void *data, size_t length,
                                    const ucp_am_recv_param_t *param)
{
    struct lent *lent = arg;
    ucp_ep_params_t params;

    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_handler.cb = note_end;
    params.err_handler.arg = lent;
    lent->ep = param->reply_ep;
    assert_null(ucp_ep_modify_nb(lent->ep, &params));
    lent->calls++;
    return UCS_OK;
}

/* The program does not close a reply_ep, so only its error handler can notice that the peer has. */
static void ends(struct cw_pair *pair, bool peer_mode)
{
    struct lent lent = {.calls = 0};
    struct cw_pair_config watched = config;
    ucp_request_param_t reply = cw_param_none(), none = cw_param_none();
    ucp_am_handler_param_t handler;
    ucs_status_ptr_t late;
    ucp_ep_h ep;

    watched.peer_mode = peer_mode;
    cw_pair_open(pair, &watched);
    memset(&handler, 0xff, sizeof(handler));
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = AM_ID;
    handler.cb = ask_for_the_end;
    handler.arg = &lent;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    ep = cw_side_connect(pair->tx, pair->rx->worker, &watched);
    reply.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    reply.flags = UCP_AM_SEND_FLAG_REPLY;
    assert_int_equal(cw_pair_wait(pair, ucp_am_send_nbx(ep, AM_ID, NULL, 0, NULL, 0, &reply), "AM send"), UCS_OK);
    cw_pair_wait_count(pair, &lent.calls, 1, "the active message");
    assert_int_equal(lent.ends, 0);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &none), "close"), UCS_OK);
    cw_pair_wait_count(pair, &lent.ends, 1, "the end of the handle");
    assert_ptr_equal(lent.ended, lent.ep);
    assert_int_equal(lent.status, UCS_ERR_CONNECTION_RESET);
    late = ucp_am_send_nbx(lent.ep, AM_ID, NULL, 0, NULL, 0, &none);
    assert_int_equal(UCS_PTR_RAW_STATUS(late), UCS_ERR_CONNECTION_RESET);
    cw_pair_settle(pair);
    assert_int_equal(lent.ends, 1);
    cw_pair_close(pair);
}

API_TEST(test_end_of_a_lent_handle)
{
    cw_test_need_two_workers();
    cw_test_skip_reference("it notifies nobody");
    ends(pair, true);
    ends(pair, false);
}
