/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The situation of the tests of a peer that does not keep to the protocol: a fresh endpoint for each breach, whose
 * connection only records what is sent, and which is fed with packets. begin() opens it; end() holds that the breach
 * cost the connection (or nothing, where it is worth keeping), with at most one line in the log, and that the worker
 * still serves others. Messages of 500 bytes or more are announced.
 */
#ifndef CW_TEST_UNIT_TEST_PEER_LIES_H
#define CW_TEST_UNIT_TEST_PEER_LIES_H

#include <endian.h>

#include "test_alone.h"
#include "test_log_lines.h"
#include "test_under.h"

#include "core/ep.h"

enum { GUARD = 64, ROOM = 1000 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static uint8_t memory[GUARD + ROOM + GUARD];
static unsigned failures;

static inline void ep_failed(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg;
    (void)failed;
    (void)status;
    failures++;
}

static inline ucs_status_t finish(ucs_status_ptr_t result)
{
    return cw_alone_wait(worker, result);
}

static inline ucp_ep_h connected(void)
{
    return cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                                    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                                      .err_handler.cb = ep_failed});
}

static inline void begin(void)
{
    ep = connected();
    put_under(ep);
    fake_packets.send_zcopy = NULL;
    fake_packets.send_placed = NULL;
    fake_transport.copies = NULL;
    fake_iface.limits.max_zcopy = 0;
    fake_iface.limits.max_placed = 0;
    log_lines = failures = 0;
}

/* Whatever the peer did, the worker still serves others. `lives`: the connection was worth keeping. */
static inline void end(int lives)
{
    int failed = ep->state == CW_EP_FAILED;

    if (ep->conn != NULL) {
        take_away(ep);
    }
    for (int i = 0; i < 100; i++) {
        ucp_worker_progress(worker);
    }
    assert_int_equal(failed, !lives);
    assert_int_equal(failures, !lives);
    assert_in_range(log_lines, 0, lives ? 0 : 1);
    cw_alone_end(worker, ep);
    cw_alone_end(worker, connected());
}

static inline void feed(uint8_t id, const void *packet, size_t length)
{
    cw_alone_feed(ep, id, packet, length);
}

static char message[ROOM] = "message";

static inline ucs_status_ptr_t start_send(size_t length, int sync)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucs_status_ptr_t result = sync ? ucp_tag_send_sync_nbx(ep, message, length, 5, &param) :
                                     ucp_tag_send_nbx(ep, message, length, 5, &param);

    assert_true(UCS_PTR_IS_PTR(result));
    return result;
}

static inline int setup(void **state)
{
    (void)state;
    log_count_begin();
    setenv("UCX_RNDV_THRESH", "500", 1);
    return cw_alone_open(UCP_FEATURE_TAG, &context, &worker) ? 0 : -1;
}

static inline int teardown(void **state)
{
    (void)state;
    cw_alone_close(context, worker);
    log_count_end();
    return 0;
}

#endif
