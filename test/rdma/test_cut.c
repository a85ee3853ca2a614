/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two workers, one on each end of the wire of the virtual machine. The wire is cut, or loses its carrier, under
 * messages and puts: every request ends once, the endpoint fails once, and when the wire is whole again another
 * endpoint works (ERR-2, ERR-16, FLU-4).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum { LONG = 1 << 20, MESSAGES = 8, WAIT_S = 20, FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_RMA };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
};

struct link {
    struct side a, b;
    ucp_ep_h ep;
    int failures;
    ucs_status_t failure;
    char *memory; /* of b */
    ucp_mem_h memh;
    ucp_rkey_h key;
};

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void wire(const char *words)
{
    const char *script = getenv("CW_WIRE");
    char command[512];

    if (script == NULL) {
        skip();
    }
    snprintf(command, sizeof(command), "sh '%s' %s", script, words);
    assert_int_equal(system(command), 0);
}

static int good_wire(void **state)
{
    (void)state;
    wire("up");
    wire("good");
    return 0;
}

static void side_open(struct side *side, const char *device)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = FEATURES};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_config_t *config;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "NET_DEVICES", device), UCS_OK);
    assert_int_equal(ucp_init(&params, config, &side->context), UCS_OK);
    ucp_config_release(config);
    assert_int_equal(ucp_worker_create(side->context, &worker_params, &side->worker), UCS_OK);
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct link *link = arg;

    (void)ep;
    link->failures++;
    link->failure = status;
}

static void progress(struct link *link)
{
    ucp_worker_progress(link->a.worker);
    ucp_worker_progress(link->b.worker);
}

/* The status of a request, which is freed; it has to end in time. */
static ucs_status_t ended(struct link *link, ucs_status_ptr_t request)
{
    const double end = seconds() + WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress(link);
        assert_true(seconds() < end);
    }
    ucp_request_free(request);
    return status;
}

static void connect_ep(struct link *link)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = failed, .arg = link}};
    ucp_address_t *address;
    size_t length;
    void *blob;

    link->failures = 0;
    assert_int_equal(ucp_worker_get_address(link->b.worker, &address, &length), UCS_OK);
    params.address = address;
    assert_int_equal(ucp_ep_create(link->a.worker, &params, &link->ep), UCS_OK);
    ucp_worker_release_address(link->b.worker, address);
    assert_int_equal(ucp_rkey_pack(link->b.context, link->memh, &blob, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(link->ep, blob, &link->key), UCS_OK);
    ucp_rkey_buffer_release(blob);
}

static void close_ep(struct link *link)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    ucp_rkey_destroy(link->key);
    (void)ended(link, ucp_ep_close_nbx(link->ep, &param));
}

static void exchange(struct link *link, char *out)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t receive;
    char *in = calloc(1, LONG);

    assert_non_null(in);
    receive = ucp_tag_recv_nbx(link->b.worker, in, LONG, 1, UINT64_MAX, &param);
    assert_int_equal(ended(link, ucp_tag_send_nbx(link->ep, out, LONG, 1, &param)), UCS_OK);
    assert_int_equal(ended(link, receive), UCS_OK);
    assert_memory_equal(in, out, LONG);
    assert_int_equal(ended(link, ucp_put_nbx(link->ep, out, LONG, (uintptr_t)link->memory, link->key, &param)), UCS_OK);
    assert_int_equal(ended(link, ucp_ep_flush_nbx(link->ep, &param)), UCS_OK);
    assert_memory_equal(link->memory, out, LONG);
    free(in);
}

static void link_open(struct link *link)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LONG};

    memset(link, 0, sizeof(*link));
    side_open(&link->a, "rxe0:1");
    side_open(&link->b, "rxe1:1");
    link->memory = calloc(1, LONG);
    params.address = link->memory;
    assert_non_null(link->memory);
    assert_int_equal(ucp_mem_map(link->b.context, &params, &link->memh), UCS_OK);
    connect_ep(link);
}

static void link_close(struct link *link)
{
    close_ep(link);
    assert_int_equal(ucp_mem_unmap(link->b.context, link->memh), UCS_OK);
    ucp_worker_destroy(link->a.worker);
    ucp_worker_destroy(link->b.worker);
    ucp_cleanup(link->a.context);
    ucp_cleanup(link->b.context);
    free(link->memory);
}

static void lost(const char *words)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t requests[2 * MESSAGES + 1];
    char *out = malloc(LONG);
    struct link link;
    double begin;
    int bad = 0;

    assert_non_null(out);
    memset(out, 0x5a, LONG);
    wire("good");
    link_open(&link);
    exchange(&link, out);
    wire(words);
    begin = seconds();
    for (int i = 0; i < MESSAGES; i++) {
        requests[2 * i] = ucp_tag_send_nbx(link.ep, out, LONG, 2, &param);
        requests[2 * i + 1] = ucp_put_nbx(link.ep, out, LONG, (uintptr_t)link.memory, link.key, &param);
    }
    requests[2 * MESSAGES] = ucp_ep_flush_nbx(link.ep, &param);
    for (int i = 0; i <= 2 * MESSAGES; i++) {
        bad += ended(&link, requests[i]) < 0;
    }
    while (link.failures == 0) {
        progress(&link);
        assert_true(seconds() < begin + WAIT_S);
    }
    print_message("%s: %d of %d requests failed, told after %.2f s: %s\n", words, bad, 2 * MESSAGES + 1,
                  seconds() - begin, ucs_status_string(link.failure));
    assert_int_equal(bad, 2 * MESSAGES + 1);
    assert_int_equal(link.failures, 1);
    good_wire(NULL);
    close_ep(&link);
    connect_ep(&link);
    memset(out, 0x33, LONG);
    exchange(&link, out);
    assert_int_equal(link.failures, 0);
    link_close(&link);
    free(out);
}

TEST_WITH(test_cut, NULL, good_wire)
{
    lost("cut");
}

TEST_WITH(test_no_carrier, NULL, good_wire)
{
    lost("down");
}
