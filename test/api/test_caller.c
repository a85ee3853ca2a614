/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a caller may do at the edges of the interface, and what settings of other releases change (nothing): ABU-23,
 * CFG-40, DT-14, ERR-13, N22-28, N22-113, N22-118, RMA-11, VER-26, WRK-29.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};

/* ABU-23: the peer gets any mixture of a buffer that is changed before completion, and nothing else breaks. */
API_TEST(test_abu23_buffer_changed_too_early)
{
    enum { LONG = 3000000 };
    struct cw_buffer out = cw_buffer_new(LONG), in = cw_buffer_new(LONG);

    cw_pair_open(pair, NULL);
    for (int round = 0; round < 4; round++) {
        struct cw_op send = {0}, recv = {0};

        memset(out.data, 1, LONG);
        cw_op_send(&send, pair->tx->ep, out.data, LONG, 1);
        memset(out.data, 2, LONG);
        cw_op_recv(&recv, pair->rx->worker, in.data, LONG, 1, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &send, "send of changing bytes"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "receive of changing bytes"), UCS_OK);
        assert_int_equal(recv.info.length, LONG);
        for (size_t i = 0; i < LONG; i++) {
            assert_in_range(in.data[i], 1, 2);
        }
        cw_buffer_check(&in);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

/* CFG-40: each device of a list that is not there is logged, unless the setting forbids it. */
API_TEST(test_cfg40_absent_device_is_logged)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    char text[8192];

    cw_test_skip_reference("1.13 has other words");
    for (int quiet = 0; quiet < 2; quiet++) {
        ucp_config_t *config;
        ucp_context_h context;
        int saved[2], file;

        assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
        assert_int_equal(ucp_config_modify(config, "SHM_DEVICES", "memory,nosuch0"), UCS_OK);
        assert_int_equal(ucp_config_modify(config, "TLS", "all"), UCS_OK);
        assert_int_equal(ucp_config_modify(config, "WARN_INVALID_CONFIG", quiet ? "n" : "y"), UCS_OK);
        file = cw_capture_start(saved);
        assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
        cw_capture_end(file, saved, text, sizeof(text));
        assert_true((strstr(text, "device 'nosuch0' is not available, please use one or more of") != NULL) == !quiet);
        ucp_cleanup(context);
        ucp_config_release(config);
    }
}

/* CFG-40: a long list costs a line for each of its first 100 names, and one for the rest. */
API_TEST(test_cfg40_long_lists)
{
    static const char *const lists[][2] = {{"TLS", "self,tcp"}, {"NET_DEVICES", "all"}, {"SELF_DEVICES", "memory"}};
    enum { NAMES = 5000 };
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    char *text = calloc(1, 1 << 20), *list = malloc(NAMES * 8);
    ucp_config_t *config;
    ucp_context_h context;
    int saved[2], file, length, lines;

    cw_test_skip_reference("1.13 has no bound");
    assert_true(text != NULL && list != NULL);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        length = sprintf(list, "%s", lists[i][1]);
        for (int k = 0; k < NAMES; k++) {
            length += sprintf(list + length, ",n%d", k);
        }
        assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
        assert_int_equal(ucp_config_modify(config, lists[i][0], list), UCS_OK);
        file = cw_capture_start(saved);
        assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
        cw_capture_end(file, saved, text, 1 << 20);
        lines = 0;
        for (const char *line = strchr(text, '\n'); line != NULL; line = strchr(line + 1, '\n')) {
            lines++;
        }
        assert_in_range(lines, 98, 101 + 100); /* with the reasons of each transport or device */
        assert_non_null(strstr(text, "those after the first 100 are not checked"));
        ucp_cleanup(context);
        ucp_config_release(config);
    }
    free(list);
    free(text);
}

/* A transport that was asked for and is not there: the log says why, be it not built, or without device, library or
 * provider. */
API_TEST(test_absent_transport_says_why)
{
    static const char *const absent[][2] = {{"ib", "verbs: "}, {"rc", "verbs: "}, {"cxi", "ofi: "}};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    char text[8192], expected[128];
    ucp_config_t *config;
    ucp_context_h context;
    int saved[2], file;

    cw_test_skip_reference("it does not say why");
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
        assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
        snprintf(expected, sizeof(expected), "self,%s", absent[i][0]);
        assert_int_equal(ucp_config_modify(config, "TLS", expected), UCS_OK);
        file = cw_capture_start(saved);
        assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
        cw_capture_end(file, saved, text, sizeof(text));
        snprintf(expected, sizeof(expected), "transport '%s' is not available", absent[i][0]);
        if (strstr(text, expected) != NULL) { /* else this machine has it */
            assert_non_null(strstr(strstr(text, expected), absent[i][1]));
        }
        ucp_cleanup(context);
        ucp_config_release(config);
    }
}

/* One letter wrong, or two in the wrong order. */
API_TEST(test_misspelt_transport_is_guessed)
{
    static const char *const misspelt[][2] = {{"tpc", "(maybe: tcp?)"}, {"sefl", "(maybe: self?)"}, {"xyz", NULL}};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    char text[8192], list[64];
    ucp_config_t *config;
    ucp_context_h context;
    int saved[2], file;

    cw_test_skip_reference("it does not guess");
    for (size_t i = 0; i < sizeof(misspelt) / sizeof(misspelt[0]); i++) {
        assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
        snprintf(list, sizeof(list), "self,tcp,%s", misspelt[i][0]);
        assert_int_equal(ucp_config_modify(config, "TLS", list), UCS_OK);
        file = cw_capture_start(saved);
        assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
        cw_capture_end(file, saved, text, sizeof(text));
        assert_non_null(strstr(text, "is not available, please use one or more of: "));
        assert_int_equal(strstr(text, "(maybe: ") != NULL, misspelt[i][1] != NULL);
        assert_true(misspelt[i][1] == NULL || strstr(text, misspelt[i][1]) != NULL);
        ucp_cleanup(context);
        ucp_config_release(config);
    }
}

/* ---- DT-14: pack and unpack run inside calls of the program alone; DT-13: on memory that memcpy can touch ---- */

static bool inside;

static void *start_state(void *context, void *buffer, size_t count)
{
    (void)context;
    (void)count;
    assert_true(inside);
    return buffer;
}

static void *start_pack(void *context, const void *buffer, size_t count)
{
    return start_state(context, (void *)(uintptr_t)buffer, count);
}

static size_t packed_size(void *state)
{
    (void)state;
    return CW_MIB;
}

static size_t pack(void *state, size_t offset, void *dest, size_t max)
{
    size_t length = max < CW_MIB - offset ? max : CW_MIB - offset;

    assert_true(inside);
    memcpy(dest, (char *)state + offset, length);
    return length;
}

static ucs_status_t unpack(void *state, size_t offset, const void *src, size_t length)
{
    assert_true(inside);
    memcpy((char *)state + offset, src, length);
    return UCS_OK;
}

static void finish(void *state)
{
    (void)state;
    assert_true(inside);
}

API_TEST(test_dt14_packs_inside_calls)
{
    const ucp_generic_dt_ops_t ops = {start_pack, start_state, packed_size, pack, unpack, finish};
    struct cw_buffer out = cw_buffer_new(CW_MIB), in = cw_buffer_new(CW_MIB);
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param;
    ucp_datatype_t datatype;

    cw_pair_open(pair, NULL);
    assert_int_equal(ucp_dt_create_generic(&ops, NULL, &datatype), UCS_OK);
    cw_pattern_fill(out.data, CW_MIB, 14);
    inside = true;
    param = cw_param_send(&send);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = datatype;
    cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, 1, 1, &param));
    param = cw_param_recv(&recv);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = datatype;
    cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, in.data, 1, 1, CW_TAG_ALL, &param));
    inside = false;
    while (send.calls + recv.calls < 2 && (send.result != NULL || recv.result != NULL)) {
        inside = true;
        cw_pair_progress(pair);
        inside = false;
        if ((send.calls || send.result == NULL) && (recv.calls || recv.result == NULL)) {
            break;
        }
    }
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    cw_pattern_check(in.data, CW_MIB, 14);
    inside = true;
    ucp_dt_destroy(datatype);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

/* ---- ERR-13: closing inside the error handler ---- */

static int failures;
static ucs_status_ptr_t closing;

static void close_at_once(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ucp_request_param_t param = cw_param_none();

    (void)arg;
    assert_int_not_equal(status, UCS_OK);
    failures++;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closing = ucp_ep_close_nbx(ep, &param);
}

API_TEST(test_err13_close_inside_the_error_handler)
{
    static const struct cw_pair_config alone = {.features = UCP_FEATURE_TAG, .no_endpoints = true};
    ucp_request_param_t param = cw_param_none();
    ucp_ep_params_t params;
    ucs_status_ptr_t send;
    ucs_status_t status;
    uint64_t word = 1;
    double end;
    size_t length;
    void *address;
    ucp_ep_h ep;

    cw_test_need_two_workers();
    cw_pair_open(pair, &alone);
    address = cw_test_worker_address(pair->rx->worker, &length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = address;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = close_at_once;
    params.err_handler.arg = NULL;
    status = ucp_ep_create(pair->tx->worker, &params, &ep);
    free(address);
    if (status != UCS_OK) {
        skip(); /* the reference has no PEER mode over shared memory */
    }
    failures = 0;
    closing = NULL;
    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(ep, &word, sizeof(word), 1, &param), "send"), UCS_OK);
    send = ucp_tag_send_sync_nbx(ep, &word, sizeof(word), 2, &param); /* under way when the peer goes */
    assert_true(UCS_PTR_IS_PTR(send));
    cw_pair_settle(pair);
    cw_side_destroy(pair->rx);
    for (end = cw_time_now_s() + CW_WAIT_S; failures == 0 && cw_time_now_s() < end;) {
        ucp_worker_progress(pair->tx->worker);
    }
    assert_int_equal(failures, 1);
    assert_int_not_equal(cw_worker_wait_request(pair->tx->worker, send, "send to a peer that is gone"), UCS_OK);
    assert_int_equal(cw_worker_wait_request(pair->tx->worker, closing, "close inside the handler"), UCS_OK);
    assert_int_equal(failures, 1);
    cw_side_destroy(pair->tx);
}

/* N22-28, N22-29: bit 0, and that of RDMA memory at most, where the process has loaded no accelerator's driver. */
API_TEST(test_n22_28_memory_types)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};

    cw_pair_open(pair, NULL);
    assert_int_equal(ucp_context_query(pair->tx->context, &attr), UCS_OK);
    assert_int_equal(attr.memory_types & ~(UINT64_C(1) << 5), 1);
    cw_pair_close(pair);
}

static void put(struct cw_target *target, uint64_t value)
{
    ucp_request_param_t param = cw_param_none();
    static uint64_t values[2];

    values[value % 2] = value;
    assert_int_equal(cw_pair_wait(target->pair, ucp_put_nbx(target->ep, &values[value % 2], sizeof(value),
                                                            target->address, target->key, &param), "put"), UCS_OK);
}

/* The order of two puts behind a fence, with a setting. */
static void put_twice(struct cw_pair *pair, const char *name, const char *value)
{
    struct cw_target target;

    assert_int_equal(setenv(name, value, 1), 0);
    cw_pair_open(pair, &plain);
    assert_int_equal(unsetenv(name), 0);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, CW_PAGE);
    for (uint64_t i = 1; i < 40; i += 2) {
        put(&target, i);
        assert_int_equal(ucp_worker_fence(pair->tx->worker), UCS_OK);
        put(&target, i + 1);
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        assert_true(cw_target_peek(&target, 0) == i + 1);
    }
    cw_target_close(&target);
    cw_pair_close(pair);
}

API_TEST(test_n22_113_proto_enable)
{
    cw_test_skip_reference("1.13 has two engines");
    put_twice(pair, "UCX_PROTO_ENABLE", "n");
}

API_TEST(test_n22_118_fence_mode)
{
    cw_test_skip_reference("1.13 does not know the word");
    put_twice(pair, "UCX_FENCE_MODE", "ep_based");
}

/* RMA-11: the target has no endpoint to the origin, and makes none. */
API_TEST(test_rma11_target_without_endpoint)
{
    static const struct cw_pair_config alone = {.features = CW_RMA_FEATURES, .no_endpoints = true};
    struct cw_target target;

    cw_pair_open(pair, &alone);
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, &alone);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, CW_PAGE);
    cw_target_try(&target, 64);
    cw_target_close(&target);
    cw_pair_close(pair);
}

/* VER-26: a synchronous message that waits as a whole is received in the call. */
API_TEST(test_ver26_waiting_synchronous_message)
{
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info;
    uint64_t out = 26, in = 0;
    ucs_status_ptr_t send;

    cw_test_skip_reference("1.13 completes a request");
    cw_pair_open(pair, NULL);
    send = ucp_tag_send_sync_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
    cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
    assert_null(ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param));
    assert_int_equal(in, 26);
    assert_int_equal(cw_pair_wait(pair, send, "synchronous send"), UCS_OK);
    cw_pair_close(pair);
}

/* WRK-29: memory goes before the worker, or behind it. */
API_TEST(test_wrk29_memory_goes_when_it_likes)
{
    for (int behind = 0; behind < 2; behind++) {
        struct cw_target target;
        struct cw_region other;

        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, CW_MEMORY_ALLOCATED, CW_PAGE);
        cw_region_open(&other, pair->rx->context, CW_MEMORY_HEAP, CW_PAGE);
        cw_target_try(&target, 0);
        cw_target_close(&target);
        if (!behind) {
            cw_region_close(&other);
        }
        for (int i = 0; i < pair->count; i++) {
            ucp_worker_destroy(pair->sides[i].worker);
            pair->sides[i].worker = NULL;
        }
        if (behind) {
            cw_region_close(&other);
        }
        for (int i = 0; i < pair->count; i++) {
            ucp_cleanup(pair->sides[i].context);
            pair->sides[i].context = NULL;
        }
        memset(pair->sides, 0, sizeof(pair->sides));
    }
}
