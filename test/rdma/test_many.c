/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * More connections of one worker than the completion queue of the device has room for, at all places of each. Messages
 * by all of them at once arrive once and in order; unit.verbs_many fills the places.
 */
#include <stdio.h>
#include <stdlib.h>

#include <time.h>
#include <ucp/api/ucp.h>

#include "runner.h"

enum { EPS = 320, EACH = 4, HANG_S = 100 };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
};

static struct side one, other;
static ucp_ep_h eps[EPS];
static ucs_status_ptr_t requests[EPS][EACH];
static uint32_t words[EACH];

static void side_open(struct side *side, const char *device)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_config_t *config;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "NET_DEVICES", device), UCS_OK);
    assert_int_equal(ucp_init(&params, config, &side->context), UCS_OK);
    ucp_config_release(config);
    assert_int_equal(ucp_worker_create(side->context, &worker_params, &side->worker), UCS_OK);
}

static void side_close(struct side *side)
{
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
}

static long free_kib(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    long found = 0;

    while (file != NULL && found == 0 && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "MemAvailable: %ld", &found);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

static void end_request(ucs_status_ptr_t request)
{
    const time_t end = time(NULL) + HANG_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        assert_int_equal(UCS_PTR_STATUS(request), UCS_OK);
        return;
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(one.worker);
        ucp_worker_progress(other.worker);
        assert_true(time(NULL) < end);
    }
    assert_int_equal(status, UCS_OK);
    ucp_request_free(request);
}

static void connect_eps(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    int i;

    assert_int_equal(ucp_worker_get_address(other.worker, &address, &length), UCS_OK);
    params.address = address;
    for (i = 0; i < EPS; i++) {
        assert_int_equal(ucp_ep_create(one.worker, &params, &eps[i]), UCS_OK);
        end_request(ucp_ep_flush_nbx(eps[i], &param));
    }
    ucp_worker_release_address(other.worker, address);
}

TEST(test_many_connections)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    long before;
    uint32_t got;
    int i, j;

    side_open(&one, "rxe0:1");
    side_open(&other, "rxe1:1");
    before = free_kib();
    connect_eps();
    printf("%d connections: %ld KiB of the system for each, with both ends\n", EPS, (before - free_kib()) / EPS);
    for (j = 0; j < EACH; j++) {
        words[j] = (uint32_t)j;
        for (i = 0; i < EPS; i++) {
            requests[i][j] = ucp_tag_send_nbx(eps[i], &words[j], sizeof(words[j]), (ucp_tag_t)i, &param);
        }
    }
    for (i = 0; i < EPS; i++) {
        for (j = 0; j < EACH; j++) {
            got = UINT32_MAX;
            end_request(ucp_tag_recv_nbx(other.worker, &got, sizeof(got), (ucp_tag_t)i, UINT64_MAX, &param));
            assert_int_equal(got, j);
            end_request(requests[i][j]);
        }
    }
    side_close(&one);
    side_close(&other);
}
