/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider that begins to lie while messages travel: the endpoint fails, everything can be taken down, and the
 * process goes on with another transport. What was received before is what was sent, and memory of a receive that ended
 * is not written any more. The messages are short, or as long as CW_LIES_LENGTH says.
 */
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { SHORT = 32, LONG = 100000, AT_ONCE = 8, POISON = 0xee }; /* short packets leave without a completion */

static char sent[AT_ONCE][LONG], seen[AT_ONCE][LONG];
static char poison[LONG];
static size_t length_of_all = SHORT;

static volatile int failures;
static int failed_sends;

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    assert_int_not_equal(status, UCS_OK);
    failures++;
}

/* A flush behind a send that failed is no success, also before the failure is reported. */
static void refuses_flush(ucp_ep_h ep, ucp_worker_h from, ucp_worker_h to)
{
    ucp_request_param_t none = cw_param_none();
    const double end = cw_time_now_s() + CW_WAIT_S;
    ucs_status_ptr_t flush = ucp_ep_flush_nbx(ep, &none);
    ucs_status_t status = UCS_PTR_RAW_STATUS(flush);

    if (UCS_PTR_IS_PTR(flush)) {
        while ((status = ucp_request_check_status(flush)) == UCS_INPROGRESS && cw_time_now_s() < end) {
            ucp_worker_progress(from);
            ucp_worker_progress(to);
        }
        ucp_request_free(flush);
    }
    assert_true(status != UCS_OK && status != UCS_INPROGRESS);
    failed_sends++;
}

/* Sends AT_ONCE messages and checks those that arrive; returns whether the provider was found out. */
static int exchange(ucp_ep_h ep, ucp_worker_h from, ucp_worker_h to, unsigned round)
{
    ucp_request_param_t none = cw_param_none();
    ucs_status_ptr_t sends[AT_ONCE], receives[AT_ONCE];
    const double end = cw_time_now_s() + CW_WAIT_S;
    int ended[AT_ONCE] = {0}, i, open = 1;

    for (i = 0; i < AT_ONCE; i++) {
        memset(sent[i], (int)(round * AT_ONCE + (unsigned)i), length_of_all);
        receives[i] = ucp_tag_recv_nbx(to, seen[i], length_of_all, round * AT_ONCE + (unsigned)i, UINT64_MAX, &none);
        sends[i] = ucp_tag_send_nbx(ep, sent[i], length_of_all, round * AT_ONCE + (unsigned)i, &none);
        if (UCS_PTR_IS_ERR(sends[i])) {
            refuses_flush(ep, from, to);
        }
    }
    while (open && failures == 0) {
        ucp_worker_progress(from);
        ucp_worker_progress(to);
        for (i = 0, open = 0; i < AT_ONCE; i++) {
            open |= UCS_PTR_IS_PTR(receives[i]) && ucp_request_check_status(receives[i]) == UCS_INPROGRESS;
            open |= UCS_PTR_IS_PTR(sends[i]) && ucp_request_check_status(sends[i]) == UCS_INPROGRESS;
        }
        if (cw_time_now_s() > end) {
            fail_msg("nobody noticed that the provider lies");
        }
    }
    for (i = 0; i < AT_ONCE; i++) {
        if (UCS_PTR_IS_PTR(receives[i])) {
            if (ucp_request_check_status(receives[i]) == UCS_INPROGRESS) {
                ucp_request_cancel(to, receives[i]);
            } else if (failures == 0) {
                assert_memory_equal(sent[i], seen[i], length_of_all);
            }
            ended[i] = ucp_request_check_status(receives[i]) != UCS_INPROGRESS;
            ucp_request_free(receives[i]);
        }
        if (UCS_PTR_IS_PTR(sends[i])) {
            ucp_request_free(sends[i]);
        }
    }
    for (i = 0; i < AT_ONCE; i++) {
        memset(seen[i], POISON, length_of_all);
    }
    for (i = 0; i < CW_SETTLE_ROUNDS; i++) { /* until nobody uses the buffers any more */
        ucp_worker_progress(from);
        ucp_worker_progress(to);
    }
    memset(poison, POISON, sizeof(poison));
    for (i = 0; i < AT_ONCE; i++) {
        if (ended[i]) {
            assert_memory_equal(seen[i], poison, length_of_all);
        }
    }
    return failures > 0;
}

TEST(test_lie)
{
    const struct cw_pair_config config = {.no_endpoints = true};
    struct cw_side sides[2] = {{0}};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {.cb = on_error}};
    struct cw_pair pair;
    unsigned round = 0;
    size_t length;
    void *address;
    ucp_ep_h ep;

    cw_side_open(&sides[0], &config);
    cw_side_open(&sides[1], &config);
    address = cw_test_worker_address(sides[1].worker, &length);
    params.address = address;
    assert_int_equal(ucp_ep_create(sides[0].worker, &params, &ep), UCS_OK);
    while (!exchange(ep, sides[0].worker, sides[1].worker, round)) {
        assert_true(++round < 1000);
    }
    assert_true(failed_sends > 0 || strstr(getenv("CW_STAND_IN"), "lie_taken") == NULL);
    free(address);
    cw_side_destroy(&sides[0]);
    cw_side_destroy(&sides[1]);
    setenv("UCX_TLS", "self,tcp", 1);
    unsetenv("UCX_NET_DEVICES");
    memset(&pair, 0, sizeof(pair));
    cw_pair_open(&pair, NULL);
    cw_pair_close(&pair);
}

int main(void)
{
    const char *length = getenv("CW_LIES_LENGTH");

    if (length != NULL) {
        length_of_all = strtoul(length, NULL, 10);
    }

    return cw_tests_run(NULL, NULL);
}
