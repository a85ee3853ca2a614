/* SPDX-License-Identifier: BSD-3-Clause */
/* The deprecated interface of active messages, which MPICH uses: AMD-1..4, REQ-41, R4, and both forms side by side. */
#include "test_am_common.h"

#include <stdlib.h>
#include <string.h>

enum { ID = 21 };

static const size_t sizes[] = {0, 1, 8, 100, 1000, 8192, 9001, 70000, 500000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* What the old handler saw last; data is a copy. */
struct old_sink {
    bool keep;
    ucs_status_t answer;
    int calls;
    char *data;
    size_t length;
    ucp_ep_h reply_ep;
    unsigned flags;
    void *lent;
};

static ucs_status_t old_handler(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags)
{
    struct old_sink *sink = arg;

    sink->calls++;
    sink->length = length;
    sink->reply_ep = reply_ep;
    sink->flags = flags;
    sink->lent = NULL;
    if (sink->keep && (flags & UCP_CB_PARAM_FLAG_DATA) != 0) {
        sink->lent = data;
        return UCS_INPROGRESS;
    }
    free(sink->data);
    sink->data = malloc(length + 1);
    assert_non_null(sink->data);
    if (length > 0) {
        memcpy(sink->data, data, length);
    }
    return sink->answer;
}

static int sent_calls;
static ucs_status_t sent_status;

static void on_sent(void *request, ucs_status_t status)
{
    sent_calls++;
    sent_status = status;
    assert_int_equal(ucp_request_check_status(request), status);
}

/* Sends with the old call and waits for both ends. */
static void pass_old(struct cw_pair *pair, struct old_sink *sink, unsigned id, size_t length, unsigned flags)
{
    struct cw_buffer data = cw_buffer_new(length);
    int calls = sink->calls + 1;
    ucs_status_ptr_t result;

    cw_pattern_fill(data.data, length, length + 3);
    sent_calls = 0;
    result = ucp_am_send_nb(pair->tx->ep, (uint16_t)id, data.data, length, ucp_dt_make_contig(1), on_sent, flags);
    cw_pair_wait_count(pair, &sink->calls, calls, "message");
    assert_int_equal(sink->calls, calls);
    assert_int_equal(sink->length, length);
    cw_pattern_check(sink->lent != NULL ? sink->lent : sink->data, length, length + 3);
    if (sink->lent != NULL) {
        ucp_am_data_release(pair->rx->worker, sink->lent);
    }
    if (result == NULL) {
        assert_int_equal(sent_calls, 0); /* REQ-2 */
    } else {
        assert_false(UCS_PTR_IS_ERR(result));
        cw_pair_wait_count(pair, &sent_calls, 1, "callback of the old send");
        assert_int_equal(sent_status, UCS_OK);
        ucp_request_release(result);
    }
    cw_buffer_free(&data);
}

API_TEST(test_amd1_3_sizes)
{
    static const char *const thresholds[] = {NULL, "0", "100"};
    struct old_sink sink = {0};

    for (int t = 0; t < 3; t++) { /* always eager, whatever the threshold */
        cw_am_open(pair, thresholds[t]);
        assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, UCP_AM_FLAG_WHOLE_MSG),
                         UCS_OK);
        for (int i = 0; i < 2 * SIZES; i++) {
            sink.answer = i < SIZES || cw_test_reference() ? UCS_OK : UCS_ERR_NO_MEMORY; /* AMR-16: ignored */
            pass_old(pair, &sink, ID, sizes[i % SIZES], 0);
            assert_null(sink.reply_ep); /* AMD-2 */
        }
        cw_pair_close(pair);
    }
    free(sink.data);
}

API_TEST(test_amd1_flags)
{
    struct old_sink sink = {0};

    cw_am_open(pair, NULL);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, 0), UCS_OK);
    for (unsigned bit = 2; bit < 32 && !cw_test_reference(); bit++) { /* 1.13 takes any flag */
        assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, NULL, 1u << bit),
                         UCS_ERR_INVALID_PARAM);
    }
    pass_old(pair, &sink, ID, 10, 0);
    cw_pair_close(pair);
    free(sink.data);
}

API_TEST(test_amd2_reply_endpoint)
{
    struct old_sink sink = {0}, back = {0};

    cw_am_open(pair, NULL);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, 0), UCS_OK);
    assert_int_equal(ucp_worker_set_am_handler(pair->tx->worker, ID + 1, old_handler, &back, 0), UCS_OK);
    for (int i = 0; i < SIZES; i++) {
        ucs_status_ptr_t result;

        pass_old(pair, &sink, ID, sizes[i], UCP_AM_SEND_FLAG_REPLY);
        assert_ptr_equal(sink.reply_ep, pair->rx->ep);
        result = ucp_am_send_nb(sink.reply_ep, ID + 1, "re", 2, ucp_dt_make_contig(1), on_sent, 0);
        cw_pair_wait_count(pair, &back.calls, i + 1, "answer");
        assert_memory_equal(back.data, "re", 2);
        assert_int_equal(cw_pair_wait(pair, result, "answer"), UCS_OK);
    }
    cw_pair_close(pair);
    free(sink.data);
    free(back.data);
}

API_TEST(test_amd2_retained_data)
{
    struct old_sink sink = {.keep = true};

    cw_am_open(pair, NULL);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, UCP_AM_FLAG_WHOLE_MSG),
                     UCS_OK);
    for (int i = 0; i < SIZES; i++) {
        pass_old(pair, &sink, ID, sizes[i], 0);
        assert_int_equal(sink.flags & ~(unsigned)UCP_CB_PARAM_FLAG_DATA, 0);
        if (sizes[i] >= 500000) {
            assert_int_equal(sink.flags, UCP_CB_PARAM_FLAG_DATA); /* AMR-18 */
        }
    }
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink,
                                               UCP_AM_FLAG_PERSISTENT_DATA), UCS_OK);
    for (int i = 1; i < SIZES; i++) {
        pass_old(pair, &sink, ID, sizes[i], 0);
        assert_int_equal(sink.flags, UCP_CB_PARAM_FLAG_DATA); /* AMR-19 */
    }
    cw_pair_close(pair);
    free(sink.data);
}

API_TEST(test_amd1_last_registration_wins)
{
    struct old_sink old = {0};
    struct cw_am_sink *sink;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &old, 0), UCS_OK);
    pass_old(pair, &old, ID, 10, 0);
    cw_am_install(sink, ID, 0);
    assert_int_equal(cw_am_pass(pair, sink, ID, 5, 10, 0), UCS_OK);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &old, 0), UCS_OK);
    pass_old(pair, &old, ID, 10, 0);
    assert_int_equal(old.calls, 2);
    assert_int_equal(sink->calls, 1);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, NULL, NULL, 0), UCS_OK);
    cw_am_install(sink, ID, 0);
    assert_int_equal(cw_am_pass(pair, sink, ID, 5, 10, 0), UCS_OK);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    free(old.data);
}

API_TEST(test_amd4_old_send_reaches_new_handler)
{
    struct cw_am_sink *sink;

    cw_am_open(pair, "0");
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    for (int i = 0; i < SIZES; i++) {
        struct cw_buffer data = cw_buffer_new(sizes[i]);
        ucs_status_ptr_t result;

        cw_pattern_fill(data.data, sizes[i], 4);
        result = ucp_am_send_nb(pair->tx->ep, ID, data.data, sizes[i], ucp_dt_make_contig(1), on_sent, 0);
        cw_am_wait(pair, sink, i + 1);
        assert_int_equal(sink->header_length, 0);
        assert_int_equal(sink->length, sizes[i]);
        assert_false(cw_am_is_rndv(sink));
        cw_pattern_check(sink->data.data, sizes[i], 4);
        assert_int_equal(cw_pair_wait(pair, result, "old send"), UCS_OK);
        cw_buffer_free(&data);
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_amd4_new_sends_to_an_old_handler)
{
    struct old_sink sink = {0};
    struct cw_op eager = {0}, header = {0}, rndv = {0};

    cw_am_open(pair, NULL);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, 0), UCS_OK);
    cw_am_send(&eager, pair->tx->ep, ID, NULL, 0, "plain", 5, UCP_AM_SEND_FLAG_EAGER);
    cw_pair_wait_count(pair, &sink.calls, 1, "message");
    assert_memory_equal(sink.data, "plain", 5);
    assert_int_equal(cw_op_wait(pair, &eager, "send"), UCS_OK);
    cw_am_send(&header, pair->tx->ep, ID, "head", 4, "data", 4, UCP_AM_SEND_FLAG_EAGER);
    assert_int_equal(cw_op_wait(pair, &header, "send"), UCS_OK);
    cw_am_send(&rndv, pair->tx->ep, ID, NULL, 0, "data", 4, UCP_AM_SEND_FLAG_RNDV);
    assert_int_equal(cw_op_wait(pair, &rndv, "rendezvous to an old handler"), UCS_ERR_INVALID_PARAM);
    cw_pair_settle(pair);
    assert_int_equal(sink.calls, 1);
    pass_old(pair, &sink, ID, 5, 0);
    cw_pair_close(pair);
    free(sink.data);
}

/* R4: MPICH releases the request at once and counts on the callback. */
API_TEST(test_r4_release_before_completion_keeps_the_callback)
{
    enum { COUNT = 50 };
    struct old_sink sink = {0};
    struct cw_buffer data = cw_buffer_new(300000);
    int expected = 0;

    cw_am_open(pair, NULL);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, UCP_AM_FLAG_WHOLE_MSG),
                     UCS_OK);
    sent_calls = 0;
    cw_pattern_fill(data.data, data.length, 1);
    for (int i = 0; i < COUNT; i++) {
        ucs_status_ptr_t result = ucp_am_send_nb(pair->tx->ep, ID, data.data, data.length, ucp_dt_make_contig(1),
                                                 on_sent, 0);

        assert_false(UCS_PTR_IS_ERR(result));
        if (result != NULL) {
            expected++;
            ucp_request_release(result);
        }
    }
    cw_pair_wait_count(pair, &sink.calls, COUNT, "message");
    cw_pair_wait_count(pair, &sent_calls, expected, "callback");
    cw_pair_settle(pair);
    assert_int_equal(sent_calls, expected);
    cw_pattern_check(sink.data, data.length, 1);
    cw_pair_close(pair);
    cw_buffer_free(&data);
    free(sink.data);
}

API_TEST(test_amd3_datatypes)
{
    struct old_sink sink = {0};
    char bytes[3000];
    ucp_dt_iov_t iov[3] = {{bytes + 2000, 1000}, {NULL, 0}, {bytes, 2000}};
    ucs_status_ptr_t result;

    cw_am_open(pair, NULL);
    assert_int_equal(ucp_worker_set_am_handler(pair->rx->worker, ID, old_handler, &sink, 0), UCS_OK);
    cw_pattern_fill(bytes, sizeof(bytes), 8);
    result = ucp_am_send_nb(pair->tx->ep, ID, bytes, 125, ucp_dt_make_contig(24), on_sent, 0);
    cw_pair_wait_count(pair, &sink.calls, 1, "message");
    assert_int_equal(sink.length, 3000);
    cw_pattern_check(sink.data, 3000, 8);
    assert_int_equal(cw_pair_wait(pair, result, "send"), UCS_OK);
    result = ucp_am_send_nb(pair->tx->ep, ID, iov, 3, ucp_dt_make_iov(), on_sent, 0);
    cw_pair_wait_count(pair, &sink.calls, 2, "message");
    assert_int_equal(sink.length, 3000);
    assert_memory_equal(sink.data, bytes + 2000, 1000);
    assert_memory_equal(sink.data + 1000, bytes, 2000);
    assert_int_equal(cw_pair_wait(pair, result, "send"), UCS_OK);
    cw_pair_close(pair);
    free(sink.data);
}
