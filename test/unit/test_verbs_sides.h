/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers of one process that the verbs transport connects over the devices of test/devices/verbs_stand_in.c, on a
 * clock of their own.
 */
#ifndef CW_TEST_VERBS_SIDES_H
#define CW_TEST_VERBS_SIDES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "core/worker.h"
#include "os/clock.h"
#include "test_verbs_child.h"
#include "transport/verbs/verbs.h"

enum { MOST_SIDES = 24, ROUNDS_HANG = 100000000 };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
};

static struct side sides[MOST_SIDES];
static unsigned num_sides;

/* ---- a clock that goes on with each round of progress ---- */

static uint64_t now_ns = UINT64_C(1000000000);
static uint64_t round_ns = 20000;
static uint64_t call_ns; /* while a call waits */

uint64_t __wrap_cw_clock_ns(void);

uint64_t __wrap_cw_clock_ns(void)
{
    now_ns += call_ns;
    return now_ns;
}

bool __wrap_cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address);

bool __wrap_cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address)
{
    (void)address;
    listener->port = child_port;
    return child_port != 0;
}

static inline void open_sides(unsigned num, unsigned most_live)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    char text[16];
    size_t length;

    snprintf(text, sizeof(text), "%u", most_live);
    setenv("UCX_RC_MAX_NUM_EPS", (most_live < UINT32_MAX) ? text : "inf", 1);
    for (num_sides = 0; num_sides < num; num_sides++) {
        struct side *side = &sides[num_sides];

        assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
        assert_int_equal(ucp_worker_create(side->context, &worker_params, &side->worker), UCS_OK);
        assert_int_equal(ucp_worker_get_address(side->worker, &side->address, &length), UCS_OK);
    }
}

static inline void close_sides(void)
{
    unsigned i;

    call_ns = 1000000;
    for (i = 0; i < num_sides; i++) {
        ucp_worker_release_address(sides[i].worker, sides[i].address);
        ucp_worker_destroy(sides[i].worker);
        ucp_cleanup(sides[i].context);
    }
    call_ns = 0;
    assert_int_equal(device_saw.qps, 0);
}

static inline void progress(void)
{
    unsigned i;

    now_ns += round_ns;
    for (i = 0; i < num_sides; i++) {
        ucp_worker_progress(sides[i].worker);
    }
}

static inline void pass(unsigned ms)
{
    const uint64_t end = now_ns + UINT64_C(1000000) * ms;

    while (now_ns < end) {
        progress();
    }
}

static inline ucs_status_t end_request(ucs_status_ptr_t request)
{
    unsigned rounds = ROUNDS_HANG;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress();
        assert_true(rounds-- > 0);
    }
    ucp_request_free(request);
    return status;
}

static inline ucp_ep_h connect_ep(unsigned from, unsigned to, ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = sides[to].address,
                              .err_mode = mode,
                              .err_handler = {.cb = failed}};
    ucp_ep_h ep;

    assert_int_equal(ucp_ep_create(sides[from].worker, &params, &ep), UCS_OK);
    return ep;
}

static inline ucs_status_ptr_t send_word(ucp_ep_h ep, const uint32_t *word, ucp_tag_t tag)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    return ucp_tag_send_nbx(ep, word, sizeof(*word), tag, &param);
}

static inline void expect_word(unsigned side, ucp_tag_t tag, uint32_t word)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    uint32_t got = ~word;

    assert_int_equal(end_request(ucp_tag_recv_nbx(sides[side].worker, &got, sizeof(got), tag, UINT64_MAX, &param)),
                     UCS_OK);
    assert_int_equal(got, word);
}

static inline struct cw_verbs_iface *iface_of(unsigned side)
{
    return cw_container_of(sides[side].worker->ifaces[0], struct cw_verbs_iface, super);
}

#endif
