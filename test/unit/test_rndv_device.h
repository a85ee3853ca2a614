/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two workers of the simulated RDMA device, for tests of announced messages that devices move. Packets on their way are
 * changed where the test wants it, so each test's peer lies as it likes.
 */
#ifndef TEST_RNDV_DEVICE_H
#define TEST_RNDV_DEVICE_H

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "sim.h"
#include "wire/key.h"
#include "wire/packet.h"

enum { MAX_PACKET = 4096, ROUNDS = 200000, TAG = 7 };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
};

/* Changes a packet of MAX_PACKET bytes at most; returns its new length. */
typedef size_t (*change_fn)(uint8_t *bytes, size_t length);

static struct cw_sim_network *network;
static struct side sides[2];
static struct cw_sim_knobs device; /* what it wants */
static int retained;               /* registrations stay */
static uint8_t change_id;
static change_fn change;
static unsigned counts[CW_PACKET_COUNT], failures;
static size_t lengths[CW_PACKET_COUNT];

void __real_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);

void __wrap_cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    uint8_t bytes[MAX_PACKET], *copy;

    counts[id]++;
    lengths[id] = length;
    if (change == NULL || id != change_id || length > sizeof(bytes)) {
        __real_cw_op_packet(conn, id, data, length);
        return;
    }
    memcpy(bytes, data, length);
    length = change(bytes, length);
    copy = malloc(length); /* exactly as long as it is, so that a sanitizer sees a byte too much being read */
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    __real_cw_op_packet(conn, id, copy, length);
    free(copy);
}

/* ---- two workers ---- */

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg, (void)ep, (void)status;
    failures++;
}

static void open_side(struct side *side, const char *scheme)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA};
    const ucp_worker_params_t no_param = {0};
    ucp_config_t *config;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "TLS", "simrdma"), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "RNDV_THRESH", "1000"), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "RNDV_SCHEME", scheme), UCS_OK);
    assert_int_equal(ucp_init(&params, config, &side->context), UCS_OK);
    ucp_config_release(config);
    assert_int_equal(ucp_worker_create(side->context, &no_param, &side->worker), UCS_OK);
}

static void connect_to(struct side *side, const struct side *other)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler.cb = failed};
    ucp_address_t *address;
    size_t length;

    assert_int_equal(ucp_worker_get_address(other->worker, &address, &length), UCS_OK);
    params.address = address;
    assert_int_equal(ucp_ep_create(side->worker, &params, &side->ep), UCS_OK);
    ucp_worker_release_address(other->worker, address);
}

static void begin(const char *scheme)
{
    struct cw_sim_knobs knobs;

    cw_sim_knobs_default(&knobs);
    knobs.rdma = (device.rdma > 0) ? device.rdma : 1;
    knobs.ratio = device.ratio;
    knobs.alignment = device.alignment;
    knobs.on_demand = device.on_demand;
    network = cw_sim_network_new(1, &knobs);
    change = NULL;
    failures = 0;
    memset(counts, 0, sizeof(counts));
    assert_non_null(network);
    open_side(&sides[0], scheme);
    open_side(&sides[1], scheme);
    connect_to(&sides[0], &sides[1]);
    connect_to(&sides[1], &sides[0]);
}

static void progress(void)
{
    (void)ucp_worker_progress(sides[0].worker);
    (void)ucp_worker_progress(sides[1].worker);
}

static ucs_status_t wait_for(ucs_status_ptr_t result)
{
    ucs_status_t status = UCS_PTR_IS_PTR(result) ? UCS_INPROGRESS : UCS_PTR_STATUS(result);

    for (int i = 0; status == UCS_INPROGRESS && i < ROUNDS; i++) {
        progress();
        status = ucp_request_check_status(result);
    }
    if (UCS_PTR_IS_PTR(result)) {
        ucp_request_free(result);
    }
    return status;
}

static struct cw_sim_stats stats(void)
{
    struct cw_sim_stats now;

    cw_sim_get_stats(network, &now);
    return now;
}

/* Nothing is registered when all is over, unless it is kept. */
static void end(void)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    change = NULL;
    assert_true(retained || stats().registered == stats().deregistered);
    (void)wait_for(ucp_ep_close_nbx(sides[0].ep, &force));
    (void)wait_for(ucp_ep_close_nbx(sides[1].ep, &force));
    for (int i = 0; i < 2; i++) {
        ucp_worker_destroy(sides[i].worker);
        ucp_cleanup(sides[i].context);
    }
    cw_sim_network_free(network);
}

#endif
