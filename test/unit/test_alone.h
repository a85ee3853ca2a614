/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker that talks to itself: its endpoints, waiting for a request, and packets that it gets as if a peer had sent
 * them.
 */
#ifndef CW_TEST_UNIT_TEST_ALONE_H
#define CW_TEST_UNIT_TEST_ALONE_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"

#include <ucp/api/ucp.h>

#include "api/dispatch.h"
#include "core/worker.h"
#include "msg/op_ep.h"

enum { CW_ALONE_ROUNDS = 100000 };

/* Whether there is a context with these features now, and a worker that has nobody else to talk to. */
static inline int cw_alone_open(uint64_t features, ucp_context_h *context, ucp_worker_h *alone)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    ucp_worker_params_t worker_params = {.field_mask = 0};

    setenv("UCX_TLS", "self", 1);
    return ucp_init(&params, NULL, context) == UCS_OK && ucp_worker_create(*context, &worker_params, alone) == UCS_OK;
}

static inline void cw_alone_close(ucp_context_h context, ucp_worker_h alone)
{
    ucp_worker_destroy(alone);
    ucp_cleanup(context);
}

/* Ends the request as well. */
static inline ucs_status_t cw_alone_wait(ucp_worker_h alone, ucs_status_ptr_t result)
{
    ucs_status_t status = UCS_PTR_STATUS(result);

    if (!UCS_PTR_IS_PTR(result)) {
        return status;
    }
    for (int i = 0; (status = ucp_request_check_status(result)) == UCS_INPROGRESS; i++) {
        assert_true(i < CW_ALONE_ROUNDS);
        ucp_worker_progress(alone);
    }
    ucp_request_free(result);
    return status;
}

/* Has not dialled yet. `params`: beside the address. */
static inline ucp_ep_h cw_alone_ep(ucp_worker_h alone, ucp_ep_params_t params)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_h made;

    assert_int_equal(ucp_worker_query(alone, &attr), UCS_OK);
    params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = attr.address;
    assert_int_equal(ucp_ep_create(alone, &params, &made), UCS_OK);
    ucp_worker_release_address(alone, attr.address);
    return made;
}

/* A message has passed on it, so the worker needs tags. */
static inline ucp_ep_h cw_alone_connect(ucp_worker_h alone, ucp_ep_params_t params)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_ep_h made = cw_alone_ep(alone, params);
    ucs_status_ptr_t receive;
    char byte = 0;

    receive = ucp_tag_recv_nbx(alone, &byte, 1, 0, UINT64_MAX, &none);
    assert_int_equal(cw_alone_wait(alone, ucp_tag_send_nbx(made, "x", 1, 0, &none)), UCS_OK);
    assert_int_equal(cw_alone_wait(alone, receive), UCS_OK);
    assert_int_equal(byte, 'x');
    return made;
}

static inline void cw_alone_end(ucp_worker_h alone, ucp_ep_h which)
{
    (void)cw_alone_wait(alone, ucp_ep_close_nb(which, UCP_EP_CLOSE_MODE_FORCE));
}

/* The worker gets the packet in memory of exactly its size, so that a sanitizer sees a read behind it. */
static inline void cw_alone_feed(ucp_ep_h which, uint8_t id, const void *packet, size_t length)
{
    uint8_t *copy = malloc(length + (length == 0));

    assert_non_null(copy);
    memcpy(copy, packet, length);
    if (which->conn != NULL) {
        cw_op_packet(which->conn, id, copy, length);
    }
    free(copy);
}

#endif
