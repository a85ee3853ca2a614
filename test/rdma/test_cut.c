/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two workers, one on each end of the wire of the virtual machine. The wire is cut, or loses its carrier, under
 * messages and puts: every request ends once, the endpoint fails once, and when the wire is whole again another
 * endpoint works (ERR-2, ERR-16, FLU-4). Where there is another wire or TCP, an endpoint in mode FAILOVER goes on
 * there, and one in mode PEER if its messages go by the other wire: each request ends well (N22-70, N22-71).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum { LONG = 1 << 20, MESSAGES = 8, WAIT_S = 20, BACK_S = 60, FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_RMA };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
};

struct link {
    struct side a, b;
    ucp_err_handling_mode_t mode;
    ucp_ep_h ep;
    int failures;
    ucs_status_t failure;
    char *memory; /* of b */
    ucp_mem_h memh;
    ucp_rkey_h key;
};

#define INTERVAL_S 4.0 /* UCX_KEEPALIVE_INTERVAL of test_opened_after_outage */

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void cable(unsigned number, const char *words)
{
    const char *script = getenv("CW_WIRE");
    char command[512];

    if (script == NULL) {
        skip();
    }
    snprintf(command, sizeof(command), "CW_CABLE=%u sh '%s' %s", number, script, words);
    assert_int_equal(system(command), 0);
}

static void wire(const char *words)
{
    cable(1, words);
}

static int good_wire(void **state)
{
    (void)state;
    wire("up");
    wire("good");
    return 0;
}

static int good_cables(void **state)
{
    if (getenv("CW_CABLES") != NULL) {
        cable(2, "up");
        cable(2, "good");
    }
    return good_wire(state);
}

static void need_cables(void)
{
    if (getenv("CW_CABLES") == NULL) {
        skip();
    }
}

static void side_open(struct side *side, const char *transports, const char *devices)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = FEATURES};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_config_t *config;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "TLS", transports), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "NET_DEVICES", devices), UCS_OK);
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
                              .err_mode = link->mode,
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

static void link_open(struct link *link, ucp_err_handling_mode_t mode, const char *transports, const char *of_a,
                      const char *of_b)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LONG};

    memset(link, 0, sizeof(*link));
    link->mode = mode;
    side_open(&link->a, transports, of_a);
    side_open(&link->b, transports, of_b);
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
    link_open(&link, UCP_ERR_HANDLING_MODE_PEER, "rc", "rxe0:1", "rxe1:1");
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
    print_message("%s: %d of %d requests failed, reported after %.2f s: %s\n", words, bad, 2 * MESSAGES + 1,
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

/* An endpoint that is opened when the wire is whole again, while TCP, which repeats its bytes at ever longer intervals,
 * still makes the watch of an earlier one seem silent: what happened before says nothing about it. */
TEST_WITH(test_opened_after_outage, NULL, good_wire)
{
    char *out = calloc(1, LONG);
    ucp_rkey_h first_key;
    struct link link;
    ucp_ep_h first;
    double begin;

    assert_non_null(out);
    link_open(&link, UCP_ERR_HANDLING_MODE_PEER, "rc", "rxe0:1", "rxe1:1");
    exchange(&link, out);
    for (begin = seconds(); seconds() < begin + INTERVAL_S / 4;) {
        progress(&link);
    }
    wire("cut");
    for (begin = seconds(); seconds() < begin + INTERVAL_S * 0.4;) {
        progress(&link);
    }
    wire("good");
    first = link.ep;
    first_key = link.key;
    connect_ep(&link);
    for (begin = seconds(); seconds() < begin + INTERVAL_S;) {
        exchange(&link, out);
    }
    print_message("of two endpoints %d failed\n", link.failures);
    close_ep(&link);
    link.ep = first;
    link.key = first_key;
    link_close(&link);
    free(out);
}

/* ---- another path ---- */

/* Which of the endpoint's lanes uses that device; the first one carries messages. -1: none. */
static int lane_of(const struct link *link, const char *device)
{
    ucp_transport_entry_t entries[8];
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
                          .transports = {.entries = entries, .num_entries = 8, .entry_size = sizeof(entries[0])}};

    assert_int_equal(ucp_ep_query(link->ep, &attr), UCS_OK);
    for (unsigned i = 0; i < attr.transports.num_entries; i++) {
        if (strcmp(entries[i].device_name, device) == 0) {
            return (int)i;
        }
    }
    return -1;
}

/* A lane that was lost is dialled again after some seconds, for the next long message. */
static void await_lanes(struct link *link, const char *const devices[2])
{
    const double end = seconds() + BACK_S;
    char *out = calloc(1, LONG);

    assert_non_null(out);
    while (lane_of(link, devices[0]) < 0 || lane_of(link, devices[1]) < 0) {
        exchange(link, out);
        assert_true(seconds() < end);
    }
    free(out);
}

/* Messages in order, long ones and puts, while the cable is cut: all of them arrive, once. */
static void survive(struct link *link, unsigned number, const char *words)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t requests[5 * MESSAGES];
    int numbers[MESSAGES], got[MESSAGES + 1];
    char *out = malloc(LONG), *in[MESSAGES];
    unsigned count = 0;
    ucs_status_t status;
    int i;

    assert_non_null(out);
    memset(out, 'a' + number, LONG);
    for (i = 0; i < MESSAGES; i++) {
        in[i] = calloc(1, LONG);
        assert_non_null(in[i]);
        got[i] = -1;
        requests[count++] = ucp_tag_recv_nbx(link->b.worker, in[i], LONG, 2, UINT64_MAX, &param);
        requests[count++] = ucp_tag_recv_nbx(link->b.worker, &got[i], sizeof(got[i]), 3, UINT64_MAX, &param);
    }
    for (i = 0; i < MESSAGES; i++) {
        numbers[i] = i;
        requests[count++] = ucp_tag_send_nbx(link->ep, out, LONG, 2, &param);
        requests[count++] = ucp_tag_send_nbx(link->ep, &numbers[i], sizeof(numbers[i]), 3, &param);
        requests[count++] = ucp_put_nbx(link->ep, out, LONG, (uintptr_t)link->memory, link->key, &param);
        if (i == 1) {
            cable(number, words);
        }
    }
    for (i = 0; i < (int)count; i++) {
        status = ended(link, requests[i]);
        if (status != UCS_OK) {
            print_message("request %d of %u: %s; the endpoint failed %d times: %s\n", i, count,
                          ucs_status_string(status), link->failures, ucs_status_string(link->failure));
        }
        assert_int_equal(status, UCS_OK);
    }
    assert_int_equal(ended(link, ucp_ep_flush_nbx(link->ep, &param)), UCS_OK);
    assert_memory_equal(link->memory, out, LONG);
    for (i = 0; i < MESSAGES; i++) {
        assert_memory_equal(in[i], out, LONG);
        assert_int_equal(got[i], i);
        free(in[i]);
    }
    got[MESSAGES] = -1;
    requests[0] = ucp_tag_recv_nbx(link->b.worker, &got[MESSAGES], sizeof(int), 3, UINT64_MAX, &param);
    for (i = 0; i < 1000; i++) {
        progress(link);
    }
    assert_int_equal(ucp_request_check_status(requests[0]), UCS_INPROGRESS); /* no copy of a message comes late */
    assert_int_equal(ended(link, ucp_tag_send_nbx(link->ep, numbers, sizeof(int), 3, &param)), UCS_OK);
    assert_int_equal(ended(link, requests[0]), UCS_OK);
    assert_int_equal(link->failures, 0);
    free(out);
}

static void open_well(struct link *link, ucp_err_handling_mode_t mode, const char *transports, const char *of_a,
                      const char *of_b, const char *const devices[2])
{
    good_wire(NULL);
    link_open(link, mode, transports, of_a, of_b);
    await_lanes(link, devices);
}

/* The cables are cut in turn, each when the other one is whole again. */
TEST_WITH(test_survives_on_a_device, NULL, good_cables)
{
    static const char *const devices[] = {"rxe0:1", "rxe2:1"}, *const words[] = {"cut", "cut", "down", "down"};
    struct link link;

    need_cables();
    open_well(&link, UCP_ERR_HANDLING_MODE_FAILOVER, "rc", "rxe0:1,rxe2:1", "rxe1:1,rxe3:1", devices);
    for (unsigned i = 0; i < 4; i++) {
        survive(&link, 1 + i % 2, words[i]);
        cable(1 + i % 2, "up");
        cable(1 + i % 2, "good");
        await_lanes(&link, devices);
    }
    link_close(&link);
}

TEST_WITH(test_survives_on_tcp, NULL, good_cables)
{
    static const char *const devices[] = {"rxe0:1", "wire2"};
    struct link link;

    need_cables();
    open_well(&link, UCP_ERR_HANDLING_MODE_FAILOVER, "rc,tcp", "rxe0:1,wire2", "rxe1:1,wire3", devices);
    assert_int_equal(lane_of(&link, devices[0]), 0);
    survive(&link, 1, "cut");
    assert_int_equal(lane_of(&link, devices[1]), 0);
    good_wire(NULL);
    await_lanes(&link, devices);
    survive(&link, 1, "down");
    link_close(&link);
}

/* Mode PEER: two devices share long messages, and the one that carries no other messages loses its cable. */
TEST_WITH(test_survives_in_mode_peer, NULL, good_cables)
{
    static const char *const devices[] = {"rxe0:1", "rxe2:1"}, *const words[] = {"cut", "down"};
    struct link link;
    unsigned other;

    need_cables();
    open_well(&link, UCP_ERR_HANDLING_MODE_PEER, "rc", "rxe0:1,rxe2:1", "rxe1:1,rxe3:1", devices);
    other = (lane_of(&link, devices[0]) == 0) ? 2 : 1;
    for (unsigned i = 0; i < 2; i++) {
        survive(&link, other, words[i]);
        cable(other, "up");
        cable(other, "good");
        await_lanes(&link, devices);
    }
    link_close(&link);
}
