/* SPDX-License-Identifier: BSD-3-Clause */
/* What an endpoint reports about itself and its parameters: EP-5, EP-6, EP-16, EP-30..37, GEN-2..4, R24. */
#define _GNU_SOURCE
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ucp_ep_h create(struct cw_pair *pair, ucp_ep_params_t *params)
{
    size_t length;
    void *blob = cw_test_worker_address(pair->rx->worker, &length);
    ucp_ep_h ep = NULL;

    params->field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params->address = blob;
    assert_int_equal(ucp_ep_create(pair->tx->worker, params, &ep), UCS_OK);
    free(blob);
    return ep;
}

static void close_one(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
}

static void never_called(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    fail_msg("The error callback came without an error: %s", ucs_status_string(status));
}

API_TEST(test_r24_handler_without_mode_or_with_none)
{
    cw_pair_open(pair, NULL);
    for (int variant = 0; variant < 3; variant++) {
        ucp_ep_params_t params;
        ucp_ep_h ep;

        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_handler.cb = never_called;
        params.err_handler.arg = pair;
        if (variant > 0) {
            params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
            params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
        }
        if (variant > 1) {
            params.field_mask |= UCP_EP_PARAM_FIELD_USER_DATA | UCP_EP_PARAM_FIELD_NAME | UCP_EP_PARAM_FIELD_FLAGS;
            params.user_data = &params;
            params.name = "a name";
            params.flags = 0;
        }
        ep = create(pair, &params);
        cw_pair_ping_on(pair, ep, (ucp_tag_t)variant);
        close_one(pair, ep);
    }
    cw_pair_close(pair);
}

API_TEST(test_gen3_unknown_mask_bits_are_ignored)
{
    ucp_ep_params_t params;
    ucp_ep_h ep;

    cw_pair_open(pair, NULL);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = 1ull << 40 | 1ull << 63;
    ep = create(pair, &params);
    cw_pair_ping_on(pair, ep, 1);
    close_one(pair, ep);
    cw_pair_close(pair);
}

API_TEST(test_ep30_no_socket_addresses)
{
    ucp_ep_attr_t attr;

    cw_pair_open(pair, NULL);
    cw_pair_ping_on(pair, pair->tx->ep, 1);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_ERR_NOT_CONNECTED);
    attr.field_mask = UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_ERR_NOT_CONNECTED);
    attr.field_mask = UCP_EP_ATTR_FIELD_NAME | UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR; /* EP-33 */
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_ERR_NOT_CONNECTED);
    cw_pair_close(pair);
}

API_TEST(test_ep16_name_and_gen4_untouched_rest)
{
    ucp_ep_attr_t attr;
    const unsigned char *bytes = (const unsigned char *)&attr;

    cw_pair_open(pair, NULL);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_NAME;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
    assert_non_null(memchr(attr.name, 0, sizeof(attr.name)));
    assert_int_not_equal(attr.name[0], 0);
    assert_int_equal(attr.field_mask, UCP_EP_ATTR_FIELD_NAME);
    for (size_t i = offsetof(ucp_ep_attr_t, local_sockaddr); i < sizeof(attr); i++) {
        assert_int_equal(bytes[i], 0xff);
    }
    attr.field_mask = 0;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
    cw_pair_close(pair);
}

#if UCP_API_VERSION >= UCP_VERSION(1, 16)
/* An entry of a caller that knows more fields than the library: entry_size is the stride and the limit. */
struct wide_entry {
    ucp_transport_entry_t entry;
    char beyond[24];
};

API_TEST(test_ep32_transports)
{
    struct wide_entry entries[16];
    ucp_ep_attr_t attr;
    unsigned lanes;

    cw_pair_open(pair, NULL);
    cw_pair_ping_on(pair, pair->tx->ep, 1);
    memset(&attr, 0xff, sizeof(attr));
    memset(entries, 0x5c, sizeof(entries));
    attr.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
    attr.transports.entries = &entries[0].entry;
    attr.transports.num_entries = 16;
    attr.transports.entry_size = sizeof(entries[0]);
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
    lanes = attr.transports.num_entries;
    assert_true(lanes >= 1 && lanes <= 16);
    for (unsigned i = 0; i < 16; i++) {
        for (size_t k = 0; k < sizeof(entries[i].beyond); k++) {
            assert_int_equal(entries[i].beyond[k], 0x5c);
        }
        if (i < lanes) {
            assert_true(strlen(entries[i].entry.transport_name) > 0);
            assert_non_null(entries[i].entry.device_name);
        }
    }
    attr.transports.num_entries = 0;
    attr.transports.entries = NULL;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
    assert_int_equal(attr.transports.num_entries, 0);

    memset(entries, 0x5c, sizeof(entries)); /* room for the first name only */
    attr.transports.entries = &entries[0].entry;
    attr.transports.num_entries = 1;
    attr.transports.entry_size = offsetof(ucp_transport_entry_t, device_name);
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_OK);
    assert_int_equal(attr.transports.num_entries, 1);
    assert_int_equal((unsigned char)*(char *)&entries[0].entry.device_name, 0x5c);
    cw_pair_close(pair);
}
#endif

API_TEST(test_ep35_print_info)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream;

    cw_pair_open(pair, NULL);
    for (int talked = 0; talked < 2; talked++) { /* before and after the connection stands */
        stream = open_memstream(&text, &size);
        assert_non_null(stream);
        ucp_ep_print_info(pair->tx->ep, stream);
        fclose(stream);
        assert_non_null(strstr(text, "UCP endpoint"));
        if (talked) {
            assert_non_null(strstr(text, "peer:"));
            assert_non_null(strstr(text, "lane[0]:"));
            assert_true(strstr(text, "self") != NULL || strstr(text, "tcp") != NULL || strstr(text, "posix") != NULL ||
                        strstr(text, "sysv") != NULL || strstr(text, "shm") != NULL ||
                        strstr(text, "verbs/") != NULL);
        }
        assert_int_equal(text[0], '#');
        assert_non_null(strstr(text, "\n# | tag send over "));
        assert_non_null(strstr(text, "\n# +--"));
        assert_non_null(strstr(text, "..inf | "));
        free(text);
        cw_pair_ping_on(pair, pair->tx->ep, 1);
        cw_pair_settle(pair);
    }
    cw_pair_close(pair);
}

static double estimate(ucp_ep_h ep, size_t size)
{
    ucp_ep_evaluate_perf_param_t param;
    ucp_ep_evaluate_perf_attr_t attr;

    memset(&param, 0xff, sizeof(param));
    memset(&attr, 0xff, sizeof(attr));
    param.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE;
    param.message_size = size;
    attr.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME;
    assert_int_equal(ucp_ep_evaluate_perf(ep, &param, &attr), UCS_OK);
    assert_int_equal(attr.field_mask, UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME);
    return attr.estimated_time;
}

/* N22-54. */
API_TEST(test_ep36_evaluate_perf)
{
    ucp_ep_evaluate_perf_param_t param = {0};
    ucp_ep_evaluate_perf_attr_t attr = {.estimated_time = -3};
    double last = 0;

    cw_pair_open(pair, NULL);
    for (size_t size = 1; size <= 1ull << 32; size *= 16) {
        double now = estimate(pair->tx->ep, size);

        assert_true(isfinite(now) && now > 0);
        assert_true(now >= last);
        last = now;
    }
    assert_true(estimate(pair->tx->ep, 1ull << 32) > 2 * estimate(pair->tx->ep, 1ull << 30));
    cw_test_skip_reference("it does not check the masks");
    attr.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME;
    assert_int_equal(ucp_ep_evaluate_perf(pair->tx->ep, &param, &attr), UCS_ERR_INVALID_PARAM);
    assert_true(attr.estimated_time < 0);
    cw_pair_close(pair);
}

API_TEST(test_ep37_modify)
{
    ucp_ep_params_t params;
    ucs_status_ptr_t result;

    cw_pair_open(pair, NULL);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_ep_modify_nb(pair->tx->ep, &params)), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR;
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_ep_modify_nb(pair->tx->ep, &params)), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_ep_modify_nb(pair->tx->ep, &params)), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA;
    params.err_handler.cb = never_called;
    params.err_handler.arg = NULL;
    params.user_data = pair;
    result = ucp_ep_modify_nb(pair->tx->ep, &params);
    assert_null(result);
    cw_pair_ping_on(pair, pair->tx->ep, 2);
    cw_pair_close(pair);
}

API_TEST(test_ctx11_feature_is_checked)
{
    struct cw_pair_config config = {.features = UCP_FEATURE_RMA};
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info;
    uint64_t value = 1;

    cw_pair_open(pair, &config);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_send_nbx(pair->tx->ep, &value, 8, 1, &param)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_send_sync_nbx(pair->tx->ep, &value, 8, 1, &param)),
                     UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_recv_nbx(pair->tx->worker, &value, 8, 1, CW_TAG_ALL, &param)),
                     UCS_ERR_INVALID_PARAM);
    assert_null(ucp_tag_probe_nb(pair->tx->worker, 0, 0, 0, &info));
    cw_pair_close(pair);
}
