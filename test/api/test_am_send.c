/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers and sends of active messages: AMR-1..6, AMS-1..9, AMS-30, OPA and REQ as they apply to the send. */
#define _GNU_SOURCE
#include "test_am_common.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {0, 1, 7, 8, 64, 100, 1000, 4096, 8000, 8192, 9000, 20000, 70000, 300000, 3000001};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ID = 5 };

static const uint32_t protocols[] = {0, UCP_AM_SEND_FLAG_EAGER, UCP_AM_SEND_FLAG_RNDV};
enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

static size_t max_header(ucp_worker_h worker)
{
    ucp_worker_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    return attr.max_am_header;
}

API_TEST(test_amr1_handler_needs_id_and_callback)
{
    ucp_am_handler_param_t param;

    cw_am_open(pair, NULL);
    memset(&param, 0xff, sizeof(param));
    param.id = 1;
    param.cb = cw_am_handler;
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_CB;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &param), UCS_ERR_INVALID_PARAM);
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &param), UCS_ERR_INVALID_PARAM);
    param.field_mask = 0;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &param), UCS_ERR_INVALID_PARAM);
    cw_pair_close(pair);
}

static int plain_calls;
static void *plain_arg;

static ucs_status_t plain_handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                                  const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    plain_calls++;
    plain_arg = arg;
    return UCS_OK;
}

API_TEST(test_amr1_absent_argument_is_null)
{
    struct cw_op send = {0};

    cw_am_open(pair, NULL);
    plain_calls = 0;
    plain_arg = &plain_calls;
    assert_int_equal(cw_am_set(pair->rx->worker, ID, plain_handler, NULL, 0), UCS_OK);
    cw_am_send(&send, pair->tx->ep, ID, NULL, 0, "x", 1, 0);
    cw_pair_wait_count(pair, &plain_calls, 1, "message");
    assert_null(plain_arg);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_amr1_feature_is_needed)
{
    ucp_request_param_t param = cw_param_none();

    cw_pair_open(pair, NULL); /* TAG alone */
    assert_int_equal(max_header(pair->tx->worker), 0); /* WRK-9 */
    assert_int_equal(cw_am_set(pair->rx->worker, ID, plain_handler, NULL, 0), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_send_nbx(pair->tx->ep, ID, NULL, 0, "x", 1, &param)),
                     UCS_ERR_INVALID_PARAM);
    cw_pair_close(pair);
}

API_TEST(test_amr2_sparse_sixteen_bit_ids)
{
    static const unsigned ids[] = {65535, 0, 7, 3, 255, 256, 32768, 1000};
    enum { IDS = sizeof(ids) / sizeof(ids[0]) };
    struct cw_am_sink *sinks[IDS];

    cw_am_open(pair, NULL);
    for (int i = 0; i < IDS; i++) {
        sinks[i] = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
        cw_am_install(sinks[i], ids[i], 0);
    }
    for (int i = IDS - 1; i >= 0; i--) {
        assert_int_equal(cw_am_pass(pair, sinks[i], ids[i], 3, 10 + (size_t)i, 0), UCS_OK);
        for (int k = 0; k < IDS; k++) {
            assert_int_equal(sinks[k]->calls, k >= i ? 1 : 0);
        }
    }
    cw_pair_close(pair);
    for (int i = 0; i < IDS; i++) {
        cw_am_sink_free(sinks[i]);
    }
}

/* AMR-2: what 16 bits do not hold is refused by every call, and is not taken for another id. */
API_TEST(test_amr2_ids_beyond_sixteen_bits)
{
    static const size_t lengths[] = {0, 8, 40, 300, 3000, 100000, 800000};
    static const unsigned bad[] = {65536, 65536 + ID, 1u << 31 | ID, UINT_MAX};
    ucp_request_param_t param = cw_param_none(), with_flags = cw_param_none();
    struct cw_am_sink *sink, *other;
    char *data = calloc(1, 800000);

    cw_test_skip_reference("it cuts them");
    assert_non_null(data);
    with_flags.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    with_flags.flags = UCP_AM_SEND_FLAG_REPLY;
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    other = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    for (int connected = 0; connected < 2; connected++) {
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            assert_int_equal(cw_am_set(pair->rx->worker, bad[i], cw_am_handler, other, 0), UCS_ERR_INVALID_PARAM);
            for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
                for (size_t header = 0; header < 10; header += 9) {
                    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_send_nbx(pair->tx->ep, bad[i], data, header, data,
                                                                        lengths[k], &param)), UCS_ERR_INVALID_PARAM);
                    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_send_nbx(pair->tx->ep, bad[i], data, header, data,
                                                                        lengths[k], &with_flags)),
                                     UCS_ERR_INVALID_PARAM);
                }
            }
        }
        assert_int_equal(cw_am_pass(pair, sink, ID, 3, 100, 0), UCS_OK);
        assert_int_equal(sink->calls, connected + 1);
        assert_int_equal(other->calls, 0);
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_am_sink_free(other);
    free(data);
}

API_TEST(test_amr2_ids_belong_to_the_worker)
{
    struct cw_am_sink *there, *back;
    struct cw_op send = {0};

    cw_test_need_two_workers();
    cw_am_open(pair, NULL);
    there = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    back = cw_am_sink_new(pair->tx->worker, CW_AM_TAKE);
    cw_am_install(there, ID, 0);
    cw_am_install(back, ID, 0);
    assert_int_equal(cw_am_pass(pair, there, ID, 8, 100, 0), UCS_OK);
    assert_int_equal(back->calls, 0);
    cw_am_send(&send, pair->rx->ep, ID, NULL, 0, "abc", 3, 0);
    cw_am_wait(pair, back, 1);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(there->calls, 1);
    cw_pair_close(pair);
    cw_am_sink_free(there);
    cw_am_sink_free(back);
}

static void replace_and_remove(struct cw_pair *pair, unsigned id)
{
    struct cw_am_sink *first, *second;
    struct cw_op send = {0};

    cw_am_open(pair, NULL);
    first = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    second = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    assert_int_equal(cw_am_set(pair->rx->worker, id, NULL, NULL, 0), UCS_OK); /* there was none */
    cw_am_install(first, id, UCP_AM_FLAG_PERSISTENT_DATA);
    assert_int_equal(cw_am_pass(pair, first, id, 8, 10, 0), UCS_OK);
    assert_true((first->attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0);
    cw_am_install(second, id, 0);
    assert_int_equal(cw_am_pass(pair, second, id, 8, 10, 0), UCS_OK);
    assert_int_equal(first->calls, 1);
    assert_int_equal(cw_am_set(pair->rx->worker, id, NULL, NULL, 0), UCS_OK);
    cw_am_send(&send, pair->tx->ep, id, NULL, 0, "x", 1, UCP_AM_SEND_FLAG_RNDV);
    assert_int_equal(cw_op_wait(pair, &send, "send to a removed handler"), UCS_ERR_INVALID_PARAM);
    assert_int_equal(first->calls + second->calls, 2);
    cw_am_install(first, id, 0);
    assert_int_equal(cw_am_pass(pair, first, id, 8, 10, 0), UCS_OK);
    cw_pair_close(pair);
    cw_am_sink_free(first);
    cw_am_sink_free(second);
}

API_TEST(test_amr3_replace_and_remove)
{
    replace_and_remove(pair, ID);
    replace_and_remove(pair, 300);
    replace_and_remove(pair, 65535);
}

API_TEST(test_amr4_flags)
{
    struct cw_am_sink *sink;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    assert_int_equal(cw_am_set(pair->rx->worker, ID, cw_am_handler, sink, UCP_AM_FLAG_WHOLE_MSG), UCS_OK);
    assert_int_equal(cw_am_pass(pair, sink, ID, 8, 100000, UCP_AM_SEND_FLAG_EAGER), UCS_OK);
    assert_int_equal(cw_am_set(pair->rx->worker, ID, cw_am_handler, sink,
                               UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA), UCS_OK);
    for (unsigned bit = 2; bit < 32 && !cw_test_reference(); bit++) { /* 1.13 takes any flag */
        assert_int_equal(cw_am_set(pair->rx->worker, ID, plain_handler, NULL, UINT32_C(1) << bit),
                         UCS_ERR_INVALID_PARAM);
    }
    assert_int_equal(cw_am_pass(pair, sink, ID, 8, 100, 0), UCS_OK); /* ABU-2: nothing has changed */
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

static void install_next(struct cw_am_sink *sink)
{
    cw_am_install(sink->then_arg, ID, 0);
    cw_am_install(sink->then_arg, 60000, 0); /* the table may have to grow under the running handler */
}

API_TEST(test_amr5_set_inside_a_callback)
{
    struct cw_am_sink *first, *second;

    cw_am_open(pair, NULL);
    first = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    second = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    first->then = install_next;
    first->then_arg = second;
    cw_am_install(first, ID, 0);
    assert_int_equal(cw_am_pass(pair, first, ID, 8, 100, 0), UCS_OK);
    assert_int_equal(cw_am_pass(pair, second, ID, 8, 100, 0), UCS_OK);
    assert_int_equal(cw_am_pass(pair, second, 60000, 8, 100, 0), UCS_OK);
    assert_int_equal(first->calls, 1);
    cw_pair_close(pair);
    cw_am_sink_free(first);
    cw_am_sink_free(second);
}

API_TEST(test_amr6_unknown_id)
{
    struct cw_am_sink *sink;
    struct cw_op eager = {0}, big = {0}, rndv = {0};
    struct cw_buffer out = cw_buffer_new(100000);
    char text[8192];
    int saved[2], file;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, 7, 0);
    assert_int_equal(cw_am_pass(pair, sink, 7, 8, 100, 0), UCS_OK);
    file = cw_capture_start(saved);
    cw_am_send(&eager, pair->tx->ep, 4321, NULL, 0, "x", 1, 0);
    cw_am_send(&big, pair->tx->ep, 4321, NULL, 0, out.data, out.length, UCP_AM_SEND_FLAG_EAGER);
    cw_am_send(&rndv, pair->tx->ep, 4321, "h", 1, out.data, out.length, UCP_AM_SEND_FLAG_RNDV);
    assert_int_equal(cw_op_wait(pair, &eager, "eager send to an unknown id"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &big, "big eager send to an unknown id"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &rndv, "rendezvous send to an unknown id"), UCS_ERR_INVALID_PARAM);
    cw_pair_settle(pair);
    cw_capture_end(file, saved, text, sizeof(text));
    assert_non_null(strstr(text, "4321"));
    assert_non_null(strstr(text, "WARN"));
    assert_int_equal(cw_am_pass(pair, sink, 7, 8, 100, 0), UCS_OK);
    assert_int_equal(sink->calls, 2);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&out);
}

/* Registering some ids must leave all others empty (Traps AM). */
API_TEST(test_amr6_neighbours_of_known_ids_are_unknown)
{
    static const unsigned known[] = {7, 3, 65535, 12};
    static const unsigned unknown[] = {0, 1, 2, 4, 6, 8, 11, 13, 15, 16, 255, 256, 259, 32767, 65534};
    struct cw_am_sink *sink;
    char text[8192];
    int saved[2], file;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        cw_am_install(sink, known[i], 0);
    }
    file = cw_capture_start(saved);
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        struct cw_op send = {0};

        cw_am_send(&send, pair->tx->ep, unknown[i], NULL, 0, "x", 1, UCP_AM_SEND_FLAG_RNDV);
        assert_int_equal(cw_op_wait(pair, &send, "send to an unknown id"), UCS_ERR_INVALID_PARAM);
    }
    cw_capture_end(file, saved, text, sizeof(text));
    assert_int_equal(sink->calls, 0);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_ams1_header_sizes)
{
    static const size_t payloads[] = {0, 1, 100, 9000, 100000};
    struct cw_am_sink *sink;
    size_t most;

    cw_am_open(pair, NULL);
    most = max_header(pair->tx->worker);
    assert_in_range(most, 64, sizeof(sink->header)); /* WRK-9 */
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    for (int p = 0; p < PROTOCOLS; p++) {
        for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
            const size_t headers[] = {0, 1, 3, 8, 63, 64, 65, most / 2, most - 1, most};

            for (size_t k = 0; k < sizeof(headers) / sizeof(headers[0]); k++) {
                assert_int_equal(cw_am_pass(pair, sink, ID, headers[k], payloads[i], protocols[p]), UCS_OK);
            }
        }
    }
    assert_int_equal(max_header(pair->tx->worker), most);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_ams1_header_too_long)
{
    struct cw_am_sink *sink;
    char *header = calloc(1, 1 << 20);

    cw_test_skip_reference("1.13 does not check the length of a header");
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    for (int p = 0; p < PROTOCOLS; p++) {
        struct cw_op near = {0}, far = {0};

        cw_am_send(&near, pair->tx->ep, ID, header, max_header(pair->tx->worker) + 1, "x", 1, protocols[p]);
        assert_int_equal(UCS_PTR_RAW_STATUS(near.result), UCS_ERR_INVALID_PARAM);
        cw_am_send(&far, pair->tx->ep, ID, header, 1 << 20, NULL, 0, protocols[p]);
        assert_int_equal(UCS_PTR_RAW_STATUS(far.result), UCS_ERR_INVALID_PARAM);
    }
    cw_pair_settle(pair);
    assert_int_equal(sink->calls, 0);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    free(header);
}

API_TEST(test_ams2_empty_parts_with_garbage_pointers)
{
    static void *const pointers[] = {NULL, (void *)1, (void *)~(uintptr_t)0};
    struct cw_am_sink *sink;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
    cw_am_install(sink, ID, 0);
    for (int i = 0; i < 3 * PROTOCOLS; i++) {
        struct cw_op nothing = {0}, header = {0}, payload = {0};
        uint32_t flags = protocols[i / 3];

        cw_am_send(&nothing, pair->tx->ep, ID, pointers[i % 3], 0, pointers[i % 3], 0, flags);
        cw_am_wait(pair, sink, 3 * i + 1);
        assert_true(sink->header_length == 0 && sink->length == 0);
        assert_int_equal(cw_am_is_rndv(sink), flags == UCP_AM_SEND_FLAG_RNDV); /* AMS-4 */
        assert_int_equal(cw_op_wait(pair, &nothing, "empty send"), UCS_OK);
        cw_am_send(&header, pair->tx->ep, ID, "head", 4, pointers[i % 3], 0, flags);
        cw_am_wait(pair, sink, 3 * i + 2);
        assert_true(sink->header_length == 4 && sink->length == 0);
        assert_memory_equal(sink->header, "head", 4);
        assert_int_equal(cw_op_wait(pair, &header, "send without payload"), UCS_OK);
        cw_am_send(&payload, pair->tx->ep, ID, pointers[i % 3], 0, "data", 4, flags);
        cw_am_wait(pair, sink, 3 * i + 3);
        assert_true(sink->header_length == 0 && sink->length == 4);
        assert_int_equal(cw_op_wait(pair, &payload, "send without header"), UCS_OK);
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

/* Over a fresh endpoint the send is queued until the connection is up; over an old one it goes at once. */
API_TEST(test_ams3_header_may_be_wiped_after_the_call)
{
    static const size_t lengths[] = {0, 8, 8192, 100000};
    struct cw_am_sink *sink;
    char header[64];

    cw_test_skip_reference("1.13 has no COPY_HEADER");
    for (int i = 0; i < 4 * PROTOCOLS; i++) {
        struct cw_buffer data = cw_buffer_new(lengths[i % 4]);
        struct cw_op sends[4];

        memset(sends, 0, sizeof(sends));
        cw_am_open(pair, NULL);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
        cw_am_install(sink, ID, 0);
        for (int k = 0; k < 4; k++) {
            cw_pattern_fill(header, sizeof(header), 99);
            cw_am_send(&sends[k], pair->tx->ep, ID, header, sizeof(header), data.data, data.length,
                       protocols[i / 4] | CW_AM_COPY_HEADER);
            memset(header, 0xee, sizeof(header));
        }
        for (int k = 0; k < 4; k++) {
            cw_pair_wait_count(pair, &sink->calls, k + 1, "message");
            cw_pattern_check(sink->header, sizeof(header), 99);
            assert_int_equal(cw_op_wait(pair, &sends[k], "send"), UCS_OK);
        }
        cw_pair_close(pair);
        cw_am_sink_free(sink);
        cw_buffer_free(&data);
    }
}

API_TEST(test_ams4_sizes_and_protocols)
{
    static const char *const thresholds[] = {NULL, "0", "1000", "inf"};
    struct cw_am_sink *sink;

    for (int t = 0; t < 4; t++) {
        cw_am_open(pair, thresholds[t]);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
        cw_am_install(sink, ID, 0);
        for (int i = 0; i < SIZES * PROTOCOLS; i++) {
            uint32_t flags = protocols[i / SIZES];

            assert_int_equal(cw_am_pass(pair, sink, ID, (size_t)(i % 4) * 13, sizes[i % SIZES], flags), UCS_OK);
            if (flags != 0) {
                assert_int_equal(cw_am_is_rndv(sink), flags == UCP_AM_SEND_FLAG_RNDV); /* R21 */
            }
        }
        cw_pair_close(pair);
        cw_am_sink_free(sink);
    }
}

/* AMS-4: a contradiction, which is refused here. */
API_TEST(test_ams4_both_protocols)
{
    struct cw_am_sink *sink;
    struct cw_op send = {0};

    cw_test_skip_reference("1.13 does not check");
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    cw_am_send(&send, pair->tx->ep, ID, "h", 1, "x", 1, UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_RNDV);
    assert_int_equal(UCS_PTR_RAW_STATUS(send.result), UCS_ERR_INVALID_PARAM);
    cw_pair_settle(pair);
    assert_int_equal(sink->calls, 0);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_ams4_threshold_counts_header_and_payload)
{
    static const struct {
        const char *threshold;
        size_t header, length;
        bool rndv;
    } cases[] = {
        {"4000", 0, 3000, false}, {"4000", 0, 5000, true},      {"4000", 900, 2000, false},
        {"4000", 1000, 3500, true}, {"inf", 100, 3000001, false}, {"0", 0, 1, true},
    };
    struct cw_am_sink *sink;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (cw_test_reference() && (i == 0 || i == 3)) {
            continue; /* 1.13: its minimum, and the payload alone */
        }
        cw_am_open(pair, cases[i].threshold);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
        cw_am_install(sink, ID, 0);
        assert_int_equal(cw_am_pass(pair, sink, ID, cases[i].header, cases[i].length, 0), UCS_OK);
        assert_int_equal(cw_am_is_rndv(sink), cases[i].rndv);
        cw_pair_close(pair);
        cw_am_sink_free(sink);
    }
}

API_TEST(test_ams6_eager_completion_is_local)
{
    struct cw_am_sink *sink;
    struct cw_op send = {0};

    cw_test_need_two_workers();
    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    assert_int_equal(cw_am_pass(pair, sink, ID, 8, 8, 0), UCS_OK); /* the connection is up */
    cw_am_send(&send, pair->tx->ep, ID, "head", 4, "data", 4, UCP_AM_SEND_FLAG_EAGER);
    if (send.result != NULL) {
        assert_int_equal(cw_worker_wait_request(pair->tx->worker, send.result, "eager send"), UCS_OK);
    }
    assert_int_equal(sink->calls, 1);
    cw_am_wait(pair, sink, 2);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

/* The n-th call brings the n-th message. */
static void count_late(struct cw_am_sink *sink)
{
    int *late = sink->then_arg;
    uint64_t number;

    memcpy(&number, sink->header, sizeof(number));
    *late += number != (uint64_t)sink->calls - 1;
}

API_TEST(test_ams30_order_within_a_protocol)
{
    enum { COUNT = 300 };
    static const size_t most[] = {100, 50000, 100};
    struct cw_op *sends = calloc(COUNT, sizeof(*sends));
    struct cw_buffer data = cw_buffer_new(50000);
    struct cw_am_sink *sink;
    uint64_t numbers[COUNT];
    uint64_t random = 1;
    int late = 0;

    for (int p = 0; p < 3; p++) {
        uint32_t flags = p == 2 ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;

        memset(sends, 0, COUNT * sizeof(*sends));
        cw_am_open(pair, NULL);
        sink = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
        sink->then = count_late;
        sink->then_arg = &late;
        cw_am_install(sink, ID, 0);
        for (int i = 0; i < COUNT; i++) {
            numbers[i] = (uint64_t)i;
            cw_am_send(&sends[i], pair->tx->ep, ID, &numbers[i], sizeof(numbers[i]), data.data,
                       p == 1 ? most[1] : cw_random_next(&random) % most[p], flags);
        }
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        }
        cw_am_wait(pair, sink, COUNT);
        assert_int_equal(late, 0);
        cw_pair_close(pair);
        cw_am_sink_free(sink);
    }
    cw_buffer_free(&data);
    free(sends);
}

static void answer_back(struct cw_am_sink *sink)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result;
    ucp_ep_h *ep = sink->then_arg;

    if (sink->calls < 50) {
        result = ucp_am_send_nbx(ep != NULL ? *ep : sink->reply_ep, ID + 1, NULL, 0, NULL, 0, &param);
        assert_false(UCS_PTR_IS_ERR(result));
        if (result != NULL) {
            ucp_request_free(result);
        }
    }
}

API_TEST(test_ams9_sends_from_callbacks)
{
    struct cw_am_sink *there, *back;
    struct cw_op send = {0};

    cw_am_open(pair, NULL);
    there = cw_am_sink_new(pair->rx->worker, CW_AM_DROP);
    back = cw_am_sink_new(pair->tx->worker, CW_AM_DROP);
    there->then = answer_back;
    back->then_arg = &pair->tx->ep;
    cw_am_install(there, ID, 0);
    cw_am_install(back, ID + 1, 0);
    for (int i = 1; i < 50; i++) {
        memset(&send, 0, sizeof(send));
        cw_am_send(&send, pair->tx->ep, ID, NULL, 0, "x", 1,
                   UCP_AM_SEND_FLAG_REPLY | (i % 2 == 0 ? UCP_AM_SEND_FLAG_RNDV : 0));
        cw_am_wait(pair, back, i);
        assert_int_equal(there->calls, i);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    }
    cw_pair_close(pair);
    cw_am_sink_free(there);
    cw_am_sink_free(back);
}
