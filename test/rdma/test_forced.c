/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that one side ends by force, over a device with the habits of hardware (habits.c): what other peers see,
 * and what the other side learns (ERR-2, ERR-16).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum {
    WAIT_S = 30,
    ROUNDS = 4,
    UNREAD = 200, /* more packets than receives: UCX_RC_RX_QUEUE_LEN */
    LONG = 65536,
    FEATURES = UCP_FEATURE_AM | UCP_FEATURE_RMA
};

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    unsigned got[2]; /* messages, by their first byte */
};

static struct side server, killer, healthy;

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    struct side *side = arg;

    (void)header;
    (void)header_length;
    (void)length;
    (void)param;
    side->got[*(const char *)data != 0]++;
    return UCS_OK;
}

static void side_open(struct side *side, const char *device)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = FEATURES};
    const ucp_worker_params_t worker_params = {.field_mask = 0};
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                          UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                            .id = 1,
                                            .cb = on_message,
                                            .arg = side};
    ucp_config_t *config;

    memset(side, 0, sizeof(*side));
    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "NET_DEVICES", device), UCS_OK);
    assert_int_equal(ucp_init(&params, config, &side->context), UCS_OK);
    ucp_config_release(config);
    assert_int_equal(ucp_worker_create(side->context, &worker_params, &side->worker), UCS_OK);
    assert_int_equal(ucp_worker_set_am_recv_handler(side->worker, &handler), UCS_OK);
}

static void side_close(struct side *side)
{
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    *(ucs_status_t *)arg = status;
}

static ucp_ep_h connect_to(struct side *from, const struct side *to, ucs_status_t *failure)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = failed, .arg = failure}};
    ucp_address_t *address;
    size_t length;
    ucp_ep_h ep;

    *failure = UCS_OK;
    assert_int_equal(ucp_worker_get_address(to->worker, &address, &length), UCS_OK);
    params.address = address;
    assert_int_equal(ucp_ep_create(from->worker, &params, &ep), UCS_OK);
    ucp_worker_release_address(to->worker, address);
    return ep;
}

static void progress(void)
{
    ucp_worker_progress(server.worker);
    ucp_worker_progress(killer.worker);
    ucp_worker_progress(healthy.worker);
}

static void wait_for(const unsigned *counter, unsigned target)
{
    const double end = seconds() + WAIT_S;

    while (*counter < target) {
        progress();
        assert_true(seconds() < end);
    }
}

static void send_one(ucp_ep_h ep, char what)
{
    static char bytes[2][64] = {{0}, {1}};
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t request = ucp_am_send_nbx(ep, 1, NULL, 0, bytes[(int)what], sizeof(bytes[0]), &param);

    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void close_by_force(ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    const double end = seconds() + WAIT_S;
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);

    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        progress();
        assert_true(seconds() < end);
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

/* All receives of the server hold packets of a peer that nobody has read. The server ends the connection to that
 * peer, and goes on serving others. */
TEST(test_unread)
{
    ucs_status_t failure, failure_of_killer, failure_of_server;
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH};
    char *from = calloc(1, LONG), *to = calloc(1, LONG);
    ucs_status_ptr_t request;
    ucp_ep_h ep, of_killer, of_server;
    ucp_mem_h memh, target;
    ucp_rkey_h key;
    size_t length;
    void *blob;
    double until;

    assert_true(from != NULL && to != NULL);
    side_open(&server, "rxe0:1");
    side_open(&killer, "rxe1:1");
    side_open(&healthy, "rxe1:1");
    map.address = from;
    assert_int_equal(ucp_mem_map(server.context, &map, &memh), UCS_OK);
    map.address = to;
    assert_int_equal(ucp_mem_map(killer.context, &map, &target), UCS_OK);
    assert_int_equal(ucp_rkey_pack(killer.context, target, &blob, &length), UCS_OK);
    ep = connect_to(&healthy, &server, &failure);
    send_one(ep, 1);
    wait_for(&server.got[1], 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        server.got[0] = killer.got[0] = 0;
        of_killer = connect_to(&killer, &server, &failure_of_killer);
        send_one(of_killer, 0);
        wait_for(&server.got[0], 1);
        of_server = connect_to(&server, &killer, &failure_of_server); /* takes the same connection */
        send_one(of_server, 0);
        wait_for(&killer.got[0], 1);
        for (int i = 0; i < UNREAD; i++) {
            send_one(of_killer, 0);
            ucp_worker_progress(killer.worker);
        }
        for (until = seconds() + 0.5; seconds() < until;) { /* the device delivers while the server is busy */
            ucp_worker_progress(killer.worker);
        }
        assert_int_equal(ucp_ep_rkey_unpack(of_server, blob, &key), UCS_OK);
        param.memh = memh;
        request = ucp_put_nbx(of_server, from, LONG, (uintptr_t)to, key, &param);
        assert_false(UCS_PTR_IS_ERR(request));
        close_by_force(of_server); /* the put uses memory of the program, so all requests must end now */
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
        ucp_rkey_destroy(key);
        close_by_force(of_killer);
        send_one(ep, 1);
        wait_for(&server.got[1], round + 2);
    }
    assert_int_equal(failure, UCS_OK);
    close_by_force(ep);
    ucp_rkey_buffer_release(blob);
    assert_int_equal(ucp_mem_unmap(server.context, memh), UCS_OK);
    assert_int_equal(ucp_mem_unmap(killer.context, target), UCS_OK);
    free(from);
    free(to);
    side_close(&healthy);
    side_close(&killer);
    side_close(&server);
}

/* The target of a get breaks its queue pair. The getter learns that from it: the time in which it would notice silence
 * is longer than this test waits. The connection goes on. */
TEST(test_unmapped)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    const ucp_request_param_t param = {.op_attr_mask = 0};
    char *memory = calloc(1, LONG), *copy = calloc(1, LONG);
    ucs_status_t failure, status;
    ucs_status_ptr_t request;
    ucp_mem_h memh;
    ucp_rkey_h key;
    ucp_ep_h ep;
    size_t length;
    void *blob;
    double end;

    if (strstr(getenv("CW_HABITS"), "never") != NULL) {
        free(memory);
        free(copy);
        skip(); /* the getter's device never says that the target refused */
    }
    assert_true(memory != NULL && copy != NULL);
    map.address = memory;
    side_open(&server, "rxe0:1");
    side_open(&killer, "rxe1:1");
    side_open(&healthy, "rxe1:1");
    assert_int_equal(ucp_mem_map(server.context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(server.context, memh, &blob, &length), UCS_OK);
    ep = connect_to(&healthy, &server, &failure);
    send_one(ep, 1);
    wait_for(&server.got[1], 1);
    assert_int_equal(ucp_ep_rkey_unpack(ep, blob, &key), UCS_OK);
    assert_int_equal(ucp_mem_unmap(server.context, memh), UCS_OK);
    request = ucp_get_nbx(ep, copy, LONG, (uintptr_t)memory, key, &param);
    for (end = seconds() + WAIT_S; UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS;) {
        progress();
        assert_true(seconds() < end);
    }
    status = UCS_PTR_IS_PTR(request) ? ucp_request_check_status(request) : UCS_PTR_STATUS(request);
    assert_true(status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_INVALID_ADDR);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    send_one(ep, 1);
    wait_for(&server.got[1], 2);
    assert_int_equal(failure, UCS_OK);
    ucp_rkey_destroy(key);
    ucp_rkey_buffer_release(blob);
    close_by_force(ep);
    side_close(&healthy);
    side_close(&killer);
    side_close(&server);
    free(memory);
    free(copy);
}

static int is_over(ucs_status_ptr_t request)
{
    return !UCS_PTR_IS_PTR(request) || ucp_request_check_status(request) != UCS_INPROGRESS;
}

/* Memory is unmapped under the gets of a peer, whose device may miss the refusal of one that is not the next: it would
 * repeat it for longer than this test waits. */
TEST(test_unmapped_under_way)
{
    enum { GETS = 8, TIMES = 6 };
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    const ucp_request_param_t param = {.op_attr_mask = 0};
    char *memory = calloc(1, LONG), *copies = calloc(GETS, LONG);
    ucs_status_ptr_t requests[GETS];
    ucs_status_t failure, status;
    ucp_mem_h memh;
    ucp_rkey_h key;
    ucp_ep_h ep;
    size_t length;
    void *blob;

    assert_true(memory != NULL && copies != NULL);
    map.address = memory;
    side_open(&server, "rxe0:1");
    side_open(&killer, "rxe1:1");
    side_open(&healthy, "rxe1:1");
    for (unsigned round = 0; round < TIMES; round++) {
        const double end = seconds() + WAIT_S;

        assert_int_equal(ucp_mem_map(server.context, &map, &memh), UCS_OK);
        assert_int_equal(ucp_rkey_pack(server.context, memh, &blob, &length), UCS_OK);
        ep = connect_to(&healthy, &server, &failure);
        send_one(ep, 1);
        wait_for(&server.got[1], 2 * round + 1);
        assert_int_equal(ucp_ep_rkey_unpack(ep, blob, &key), UCS_OK);
        for (unsigned i = 0; i < GETS; i++) {
            requests[i] = ucp_get_nbx(ep, copies + i * LONG, LONG, (uintptr_t)memory, key, &param);
        }
        while (!is_over(requests[round % GETS])) {
            progress();
            assert_true(seconds() < end);
        }
        assert_int_equal(ucp_mem_unmap(server.context, memh), UCS_OK);
        for (unsigned i = 0; i < GETS; i++) {
            while (!is_over(requests[i])) {
                progress();
                assert_true(seconds() < end);
            }
            status = UCS_PTR_IS_PTR(requests[i]) ? ucp_request_check_status(requests[i]) : UCS_PTR_STATUS(requests[i]);
            assert_true(status == UCS_OK || status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_INVALID_ADDR);
            if (UCS_PTR_IS_PTR(requests[i])) {
                ucp_request_free(requests[i]);
            }
        }
        send_one(ep, 1);
        wait_for(&server.got[1], 2 * round + 2);
        assert_int_equal(failure, UCS_OK);
        ucp_rkey_destroy(key);
        ucp_rkey_buffer_release(blob);
        close_by_force(ep);
    }
    side_close(&healthy);
    side_close(&killer);
    side_close(&server);
    free(memory);
    free(copies);
}

static void wire(const char *how)
{
    char command[512];

    snprintf(command, sizeof(command), "sh \"%s\" %s", getenv("CW_WIRE"), how);
    assert_int_equal(system(command), 0);
}

/* A device that does not complete what it was to stop: the worker that waits for it makes progress meanwhile. */
TEST(test_stuck)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LONG};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH};
    const ucp_request_param_t by_force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    char *from = calloc(1, LONG), *to = calloc(1, LONG);
    const double end = seconds() + WAIT_S;
    ucs_status_ptr_t request, closing;
    ucp_mem_h memh, target;
    ucs_status_t failure;
    ucp_rkey_h key;
    ucp_ep_h ep;
    size_t length;
    void *blob;

    if (strstr(getenv("CW_HABITS"), "never") == NULL) {
        free(from);
        free(to);
        skip(); /* the device is done at once, or nearly */
    }
    assert_true(from != NULL && to != NULL);
    side_open(&server, "rxe0:1");
    side_open(&killer, "rxe1:1");
    side_open(&healthy, "rxe1:1");
    map.address = from;
    assert_int_equal(ucp_mem_map(server.context, &map, &memh), UCS_OK);
    map.address = to;
    assert_int_equal(ucp_mem_map(killer.context, &map, &target), UCS_OK);
    assert_int_equal(ucp_rkey_pack(killer.context, target, &blob, &length), UCS_OK);
    ep = connect_to(&server, &killer, &failure);
    send_one(ep, 1);
    wait_for(&killer.got[1], 1);
    assert_int_equal(ucp_ep_rkey_unpack(ep, blob, &key), UCS_OK);
    wire("cut");
    param.memh = memh;
    request = ucp_put_nbx(ep, from, LONG, (uintptr_t)to, key, &param);
    assert_true(UCS_PTR_IS_PTR(request));
    closing = ucp_ep_close_nbx(ep, &by_force);
    assert_false(UCS_PTR_IS_ERR(closing));
    ucp_worker_progress(server.worker);
    assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
    while (!is_over(request) || !is_over(closing)) {
        progress();
        assert_true(seconds() < end);
    }
    assert_int_equal(ucp_request_check_status(request), UCS_ERR_CANCELED);
    ucp_request_free(request);
    if (UCS_PTR_IS_PTR(closing)) {
        ucp_request_free(closing);
    }
    wire("good");
    ucp_rkey_destroy(key);
    ucp_rkey_buffer_release(blob);
    assert_int_equal(ucp_mem_unmap(server.context, memh), UCS_OK);
    assert_int_equal(ucp_mem_unmap(killer.context, target), UCS_OK);
    free(from);
    free(to);
    side_close(&healthy);
    side_close(&killer);
    side_close(&server);
}
