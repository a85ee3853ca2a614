/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous active messages: fetched now, later or never: AMS-6, AMS-7, AMR-13..17, AMR-30..38, R21. */
#define _GNU_SOURCE
#include "test_am_common.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ID = 11 };

static const size_t sizes[] = {0, 1, 8, 100, 5000, 8192, 9001, 70000, 262144, 3000001};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* A message whose descriptor the sink has kept. */
struct parked {
    struct cw_am_sink *sink;
    struct cw_buffer out;
    struct cw_op send;
};

/* Whether data come in packets of a network. */
static bool by_packets(void)
{
    return cw_test_over_network() || cw_test_tls_has("rc");
}

static struct parked park(struct cw_pair *pair, size_t length)
{
    struct parked parked = {.out = cw_buffer_new(length)};

    cw_am_open(pair, NULL);
    parked.sink = cw_am_sink_new(pair->rx->worker, CW_AM_KEEP);
    cw_am_install(parked.sink, ID, 0);
    cw_pattern_fill(parked.out.data, length, length);
    return parked;
}

static void park_send(struct cw_pair *pair, struct parked *parked, uint32_t more_flags)
{
    int calls = parked->sink->calls + 1;

    memset(&parked->send, 0, sizeof(parked->send));
    cw_am_send(&parked->send, pair->tx->ep, ID, "head", 4, parked->out.data, parked->out.length,
               UCP_AM_SEND_FLAG_RNDV | more_flags);
    cw_am_wait(pair, parked->sink, calls);
    assert_true(cw_am_is_rndv(parked->sink)); /* AMR-13 */
    assert_int_equal(parked->sink->length, parked->out.length);
    assert_memory_equal(parked->sink->header, "head", 4);
}

static void unpark(struct cw_pair *pair, struct parked *parked)
{
    cw_pair_close(pair);
    cw_am_sink_free(parked->sink);
    cw_buffer_free(&parked->out);
}

API_TEST(test_amr13_fetch_inside)
{
    struct cw_am_sink *sink;

    for (unsigned k = 0; k < 4; k++) {
        cw_am_open(pair, NULL);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_FETCH);
        sink->answer = k & 1 ? UCS_INPROGRESS : UCS_OK; /* AMR-17 */
        sink->fetch_mask = k & 2 ? UCP_OP_ATTR_FLAG_NO_IMM_CMPL : 0;
        cw_am_install(sink, ID, 0);
        for (int i = 0; i < SIZES; i++) {
            if (sizes[i] == 0 && cw_test_reference()) {
                continue; /* 1.13 stops at an empty fetch */
            }
            assert_int_equal(cw_am_pass(pair, sink, ID, 7, sizes[i], UCP_AM_SEND_FLAG_RNDV), UCS_OK);
        }
        cw_pair_close(pair);
        cw_am_sink_free(sink);
    }
}

API_TEST(test_amr36_fetch_later)
{
    for (int i = 1; i < SIZES; i++) {
        struct parked parked = park(pair, sizes[i]);

        for (int k = 0; k < 3; k++) {
            size_t room = k == 2 ? 2 * sizes[i] : sizes[i];
            struct cw_buffer in = cw_buffer_new(room);
            struct cw_op fetch = {0};
            size_t fetched;

            park_send(pair, &parked, 0);
            cw_pair_settle(pair);
            assert_int_equal(parked.send.calls, 0); /* AMS-6 */
            assert_int_equal(ucp_request_check_status(parked.send.result), UCS_INPROGRESS);
            cw_am_fetch(&fetch, &fetched, pair->rx->worker, parked.sink->lent, in.data, room,
                        k == 1 ? UCP_OP_ATTR_FLAG_NO_IMM_CMPL : 0);
            assert_true(k != 1 || UCS_PTR_IS_PTR(fetch.result));
            assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
            if (k != 2 || !cw_test_reference()) {
                assert_int_equal(fetched, sizes[i]); /* AMR-32, OPA-12; 1.13 reports the size of the buffer */
            }
            cw_pattern_check(in.data, sizes[i], sizes[i]);
            cw_buffer_check(&in);
            cw_buffer_free(&in);
        }
        unpark(pair, &parked);
    }
}

/* What a program in C++ does: its callback fulfils what the call's result is stored in afterwards. */
struct late_store {
    struct cw_op *send;
    void *stored;
    int calls;
    int calls_before_store;
    int sender_behind;
    ucs_status_t status;
};

static void late_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct late_store *store = user_data;

    (void)length;
    store->calls++;
    store->calls_before_store += request != store->stored;
    store->sender_behind += store->send->calls == 0;
    store->status = status;
}

static void late_fetch(struct cw_am_sink *sink)
{
    struct late_store *store = sink->then_arg;
    ucp_request_param_t param = cw_param_none();

    sink->data = cw_buffer_new(sink->exact_room ? sink->room : sink->length);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv_am = late_callback;
    param.user_data = store;
    store->stored = ucp_am_recv_data_nbx(sink->worker, sink->lent, sink->data.data, sink->data.length, &param);
    assert_true(UCS_PTR_IS_PTR(store->stored));
    assert_int_equal(ucp_request_check_status(store->stored), UCS_INPROGRESS);
    sink->retained = false;
}

/* Rooms of a receive for a message: all of it, more, and, which fails or drops, less and nothing. */
static size_t late_room(size_t length, int kind)
{
    switch (kind) {
    case 0:
        return length;
    case 1:
        return 2 * length;
    case 2:
        return length / 2;
    default:
        return 0;
    }
}

/* AMR-30 with NO_IMM_CMPL of what was announced: the callback comes from progress, in the handler and later, with every
 * result; and where one thread drives both sides in turn, not before the sender has its answer. */
API_TEST(test_amr30_callback_from_progress_alone)
{
    static const size_t lengths[] = {1, 8, 1000, 8192, 16384, 16385, 65536, 131072, 262144};
    int kinds = cw_test_reference() ? 1 : 4;

    for (int i = 0; i < 9 * 2 * kinds; i++) {
        size_t length = lengths[i % 9];
        int inside = i / 9 % 2;
        struct late_store store = {0};
        struct parked parked = park(pair, length);

        parked.sink->exact_room = true;
        parked.sink->room = late_room(length, i / 18);
        parked.sink->then_arg = &store;
        parked.sink->then = inside ? late_fetch : NULL;
        store.send = &parked.send;
        park_send(pair, &parked, 0);
        if (!inside) {
            cw_pair_settle(pair);
            late_fetch(parked.sink);
            assert_int_equal(store.calls, 0);
        }
        cw_pair_wait_count(pair, &store.calls, 1, "callback of the fetch");
        assert_int_equal(store.calls_before_store, 0);
        assert_true(length > 16384 || by_packets() || pair->count == 2 || store.sender_behind == 0);
        assert_int_equal(store.status, i / 18 == 2 && length > 1 ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK);
        assert_int_equal(ucp_request_check_status(store.stored), store.status);
        ucp_request_free(store.stored);
        assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
        cw_pattern_check(parked.sink->data.data, i / 18 < 2 ? length : 0, length);
        cw_buffer_check(&parked.sink->data);
        unpark(pair, &parked);
    }
}

static void close_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
    static const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                              .flags = UCP_EP_CLOSE_FLAG_FORCE};
    struct cw_side *side = user_data;

    (void)length;
    assert_int_equal(status, UCS_OK);
    ucp_request_free(request);
    assert_null(ucp_ep_close_nbx(side->ep, &force));
    side->ep = NULL;
}

/* AMS-6: a receiver that closes by force as soon as it has the message leaves the sender its success. */
API_TEST(test_ams6_receiver_closes_when_it_is_through)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_AM, .peer_mode = true};

    cw_test_need_two_workers();
    for (int i = 0; i < (SIZES - 1) * 2; i++) {
        struct parked parked = {.out = cw_buffer_new(sizes[1 + i % (SIZES - 1)])};
        struct cw_buffer in = cw_buffer_new(parked.out.length);
        ucp_request_param_t param = cw_param_none();

        cw_pair_open(pair, &config);
        parked.sink = cw_am_sink_new(pair->rx->worker, CW_AM_KEEP);
        cw_am_install(parked.sink, ID, 0);
        park_send(pair, &parked, 0);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv_am = close_callback;
        param.user_data = pair->rx;
        assert_true(UCS_PTR_IS_PTR(ucp_am_recv_data_nbx(pair->rx->worker, parked.sink->lent, in.data, in.length,
                                                        &param)));
        while (i < SIZES - 1 && pair->rx->ep != NULL) { /* the sender looks away */
            ucp_worker_progress(pair->rx->worker);
            if (in.length < 8192 || in.length > 16384 || by_packets()) {
                ucp_worker_progress(pair->tx->worker);
            }
        }
        assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
        while (pair->rx->ep != NULL) { /* over TCP the sender may be through first */
            cw_pair_progress(pair);
        }
        cw_side_destroy(pair->rx);
        cw_side_destroy(pair->tx);
        cw_am_sink_free(parked.sink);
        cw_buffer_free(&parked.out);
        cw_buffer_free(&in);
    }
}

static void count_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
    (void)length;
    ucp_request_free(request);
    *(int *)user_data += status == UCS_OK; /* over TCP the last one is under way when the worker goes */
}

/* AMR-36: a receive whose end progress has not reported yet, when its worker goes; and one that nobody waits for. */
API_TEST(test_amr30_worker_ends_before_progress)
{
    struct parked parked = park(pair, 9000);
    struct cw_buffer in = cw_buffer_new(9000);
    ucp_request_param_t param = cw_param_none();
    int calls = 0;

    cw_test_skip_reference("1.13 drops what is under way");
    for (int i = 0; i < 3; i++) {
        park_send(pair, &parked, 0);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv_am = count_callback;
        param.user_data = &calls;
        parked.send.free_inside = true;
        ucs_status_ptr_t fetch = ucp_am_recv_data_nbx(pair->rx->worker, parked.sink->lent, in.data, 9000, &param);

        assert_true(UCS_PTR_IS_PTR(fetch));
        if (i == 0) {
            ucp_request_free(fetch);
            cw_pair_wait_count(pair, &parked.send.calls, 1, "send");
            cw_pair_settle(pair);
            assert_int_equal(calls, 0); /* REQ-20 */
        } else if (i == 1) {
            cw_pair_wait_count(pair, &calls, 1, "fetch");
            cw_pair_wait_count(pair, &parked.send.calls, 1, "send");
        }
    }
    cw_side_destroy(pair->rx);
    assert_int_equal(calls, by_packets() || cw_test_tls_has("posix") ? calls : 2);
    cw_pattern_check(in.data, 9000, 9000);
    if (pair->count == 2) {
        cw_side_destroy(pair->tx);
    }
    cw_am_sink_free(parked.sink);
    cw_buffer_free(&in);
    cw_buffer_free(&parked.out);
}

API_TEST(test_ams7_handler_returns_ok_without_fetching)
{
    struct cw_am_sink *sink;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
    cw_am_install(sink, ID, 0);
    for (int i = 0; i < 3 * SIZES; i++) {
        assert_int_equal(cw_am_pass(pair, sink, ID, 7, sizes[i % SIZES], UCP_AM_SEND_FLAG_RNDV), UCS_OK);
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_ams7_status_of_the_handler)
{
    static const ucs_status_t answers[] = {UCS_ERR_NO_MEMORY, UCS_ERR_IO_ERROR, UCS_ERR_REJECTED,
                                           UCS_ERR_CANCELED, UCS_ERR_INVALID_PARAM, UCS_ERR_UNSUPPORTED};
    struct cw_am_sink *sink;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
    cw_am_install(sink, ID, 0);
    for (int i = 1; i < 6 * SIZES; i++) {
        sink->answer = answers[i % 6];
        assert_int_equal(cw_am_pass(pair, sink, ID, 7, sizes[i % SIZES], UCP_AM_SEND_FLAG_RNDV), sink->answer);
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_amr37_release_of_an_unfetched_message)
{
    for (int i = 0; i < SIZES; i++) {
        struct parked parked = park(pair, sizes[i]);

        for (int k = 0; k < 10; k++) {
            park_send(pair, &parked, 0);
            ucp_am_data_release(pair->rx->worker, parked.sink->lent);
            assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
        }
        unpark(pair, &parked);
    }
}

API_TEST(test_amr33_buffer_too_small)
{
    struct cw_am_sink *sink;

    cw_test_skip_reference("1.13 with its assertions aborts");
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_FETCH);
    sink->exact_room = true;
    cw_am_install(sink, ID, 0);
    for (int i = 1; i < SIZES; i++) {
        for (size_t k = 0; k < 3; k++) {
            sink->room = k == 0 ? sizes[i] - 1 : sizes[i] / (1 + k);
            if (sink->room > 0) {
                assert_int_equal(cw_am_pass(pair, sink, ID, 7, sizes[i], UCP_AM_SEND_FLAG_RNDV), UCS_OK);
            }
        }
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_amr34_count_zero_drops)
{
    for (int i = 0; i < SIZES; i++) {
        struct parked parked = park(pair, sizes[i]);
        struct cw_op fetch = {0};
        size_t fetched;

        park_send(pair, &parked, 0);
        cw_am_fetch(&fetch, &fetched, pair->rx->worker, parked.sink->lent, NULL, 0, 0);
        assert_null(fetch.result);
        assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
        assert_int_equal(fetched, 0);
        assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
        park_send(pair, &parked, 0);
        memset(&fetch, 0, sizeof(fetch));
        cw_am_fetch(&fetch, &fetched, pair->rx->worker, parked.sink->lent, NULL, 0, UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
        assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
        unpark(pair, &parked);
    }
}

API_TEST(test_amr35_second_fetch_is_refused)
{
    struct parked parked = park(pair, 3000001);
    struct cw_buffer in = cw_buffer_new(3000001);
    struct cw_op fetch = {0}, second = {0};
    size_t fetched, fetched_second;

    park_send(pair, &parked, 0);
    cw_am_fetch(&fetch, &fetched, pair->rx->worker, parked.sink->lent, in.data, in.length, 0);
    if (UCS_PTR_IS_PTR(fetch.result) && fetch.calls == 0) {
        cw_am_fetch(&second, &fetched_second, pair->rx->worker, parked.sink->lent, in.data, in.length, 0);
        assert_int_equal(UCS_PTR_RAW_STATUS(second.result), UCS_ERR_INVALID_PARAM);
        assert_int_equal(cw_op_wait(pair, &second, "second fetch"), UCS_ERR_INVALID_PARAM);
    }
    assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
    cw_pattern_check(in.data, in.length, in.length);
    cw_buffer_check(&in);
    cw_buffer_free(&in);
    unpark(pair, &parked);
}

/* What is lent and used up in any order: fetched, released, refused, dropped (Traps AM). */
API_TEST(test_amr36_many_descriptors_in_any_order)
{
    enum { COUNT = 200 };
    struct parked parked = park(pair, 20000);
    struct cw_buffer in = cw_buffer_new(20000);
    struct cw_op *sends = calloc(COUNT, sizeof(*sends));
    void *lent[COUNT];

    for (int i = 0; i < COUNT; i++) {
        cw_am_send(&sends[i], pair->tx->ep, ID, &i, sizeof(i), parked.out.data, parked.out.length,
                   UCP_AM_SEND_FLAG_RNDV);
        cw_am_wait(pair, parked.sink, i + 1);
        lent[i] = parked.sink->lent;
    }
    for (int i = 0; i < COUNT; i++) {
        int at = (i * 77) % COUNT;

        if (at % 3 == 0) {
            ucp_am_data_release(pair->rx->worker, lent[at]);
        } else {
            struct cw_op fetch = {0};
            size_t fetched;

            memset(in.data, 0, in.length);
            cw_am_fetch(&fetch, &fetched, pair->rx->worker, lent[at], in.data, at % 3 == 1 ? in.length : 0, 0);
            assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
            if (at % 3 == 1) {
                cw_pattern_check(in.data, in.length, in.length);
            }
        }
        assert_int_equal(cw_op_wait(pair, &sends[at], "send"), UCS_OK);
    }
    free(sends);
    cw_buffer_free(&in);
    unpark(pair, &parked);
}

/* AMR-36: fetched from the callback of another message. */
static void fetch_parked(struct cw_am_sink *sink)
{
    struct cw_am_sink *other = sink->then_arg;

    other->data = cw_buffer_new(other->length);
    cw_am_fetch(&other->fetch, &other->fetched, other->worker, other->lent, other->data.data, other->length, 0);
}

API_TEST(test_amr36_fetch_from_another_callback)
{
    struct parked parked = park(pair, 100000);
    struct cw_am_sink *other = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);

    other->then = fetch_parked;
    other->then_arg = parked.sink;
    cw_am_install(other, ID + 1, 0);
    park_send(pair, &parked, 0);
    assert_int_equal(cw_am_pass(pair, other, ID + 1, 4, 4, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &parked.sink->fetch, "fetch"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &parked.send, "send"), UCS_OK);
    cw_pattern_check(parked.sink->data.data, 100000, 100000);
    cw_buffer_check(&parked.sink->data);
    unpark(pair, &parked);
    cw_am_sink_free(other);
}

/* WRK: a worker with descriptors that nobody fetched can be destroyed. */
API_TEST(test_r23_destroy_with_unfetched_messages)
{
    struct parked parked = park(pair, 50000);

    for (int i = 0; i < 5; i++) {
        static struct cw_op sends[5]; /* static: a callback may come from the destruction */

        sends[i] = (struct cw_op){.free_inside = true};
        cw_am_send(&sends[i], pair->tx->ep, ID, NULL, 0, parked.out.data, parked.out.length, UCP_AM_SEND_FLAG_RNDV);
        cw_am_wait(pair, parked.sink, i + 1);
    }
    cw_side_destroy(pair->rx);
    if (pair->count == 2) {
        cw_side_destroy(pair->tx);
    }
    cw_am_sink_free(parked.sink);
    cw_buffer_free(&parked.out);
}

/* The sending process of test_amr38: waits to be killed. */
static int run_sender(int fd, const char *argument)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_AM, .peer_mode = true};
    size_t length = 64 << 20;
    char *data = calloc(1, length);
    struct cw_side side;
    ucp_ep_h ep;
    ucp_request_param_t param = cw_param_none();

    (void)argument;
    cw_side_open(&side, &config);
    ep = cw_fd_connect(fd, &side, &config);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_RNDV | UCP_AM_SEND_FLAG_REPLY;
    if (UCS_PTR_IS_ERR(ucp_am_send_nbx(ep, ID, NULL, 0, data, length, &param))) {
        return 1;
    }
    for (;;) {
        char byte;

        ucp_worker_progress(side.worker);
        if (recv(fd, &byte, 1, MSG_DONTWAIT) == 0) {
            return 2;
        }
    }
}

API_TEST(test_amr38_sender_dies_before_the_fetch)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_AM, .peer_mode = true};
    struct cw_buffer in;
    struct cw_am_sink *sink;
    struct cw_remote remote;
    struct cw_op fetch = {0};
    size_t fetched;

    cw_test_need_two_processes();
    if (!cw_test_tls_has("tcp")) {
        cw_test_skip_reference("over shared memory 1.13 may read the memory of the dead, or notice late");
    }
    in = cw_buffer_new(64 << 20);
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    cw_side_open(pair->rx, &config);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_KEEP);
    cw_am_install(sink, ID, 0);
    cw_remote_start(&remote, "sender", "");
    pair->rx->ep = cw_fd_connect(remote.fd, pair->rx, &config);
    cw_am_wait(pair, sink, 1);
    assert_ptr_equal(sink->reply_ep, pair->rx->ep);
    cw_remote_kill(&remote);
    cw_am_fetch(&fetch, &fetched, pair->rx->worker, sink->lent, in.data, in.length, 0);
    assert_int_not_equal(cw_op_wait(pair, &fetch, "fetch from the dead"), UCS_OK);
    cw_buffer_check(&in);
    cw_side_destroy(pair->rx);
    cw_am_sink_free(sink);
    cw_buffer_free(&in);
}

/* AMS-4: every protocol choice of the library gives the same content. */
API_TEST(test_ams4_schemes)
{
    static const char *const schemes[] = {"get_zcopy", "put_zcopy", "am"};
    struct cw_am_sink *sink;

    for (int s = 0; s < 3; s++) {
        assert_int_equal(setenv("UCX_RNDV_SCHEME", schemes[s], 1), 0);
        cw_am_open(pair, "0");
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_FETCH);
        cw_am_install(sink, ID, 0);
        for (int i = 1; i < SIZES; i++) {
            assert_int_equal(cw_am_pass(pair, sink, ID, 7, sizes[i], 0), UCS_OK);
            assert_true(cw_am_is_rndv(sink));
        }
        cw_pair_close(pair);
        cw_am_sink_free(sink);
        unsetenv("UCX_RNDV_SCHEME");
    }
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"sender", run_sender}};

    return cw_test_main(argc, argv, roles, 1);
}
