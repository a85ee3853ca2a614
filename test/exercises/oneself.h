/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker with an endpoint to itself, for the tests of the exercises. */
#ifndef CW_EXERCISE_ONESELF_H
#define CW_EXERCISE_ONESELF_H

#include "runner.h"
#include "ucp/api/ucp.h"

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;

static inline void oneself_open(uint64_t features)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    const ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;

    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
    ep_params.address = address;
    assert_int_equal(ucp_ep_create(worker, &ep_params, &ep), UCS_OK);
    ucp_worker_release_address(worker, address);
}

static inline void oneself_close(void)
{
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

static inline void finish(ucs_status_ptr_t request)
{
    assert_false(UCS_PTR_IS_ERR(request));
    if (request != NULL) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        assert_int_equal(ucp_request_check_status(request), UCS_OK);
        ucp_request_free(request);
    }
}

#endif
