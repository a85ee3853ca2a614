/* SPDX-License-Identifier: BSD-3-Clause */
/* What the wake-up programs share: descriptors, polling and the drain-and-arm loop of WAK-4. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

void cw_pair_open_wakeup(struct cw_pair *pair)
{
    static const struct cw_pair_config wakeup_config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};

    if (cw_test_self_only()) {
        cw_test_skip_reference("its self transport has no wake-up and refuses the endpoint");
    }
    cw_pair_open(pair, &wakeup_config);
}

void cw_side_open_on_epoll(struct cw_side *side, int epoll_fd, void *user_data, unsigned events)
{
    ucp_params_t params;
    ucp_worker_params_t worker_params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
    memset(&worker_params, 0xff, sizeof(worker_params));
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_EVENT_FD | UCP_WORKER_PARAM_FIELD_USER_DATA;
    worker_params.field_mask |= events != 0 ? UCP_WORKER_PARAM_FIELD_EVENTS : 0;
    worker_params.event_fd = epoll_fd;
    worker_params.user_data = user_data;
    worker_params.events = events;
    assert_int_equal(ucp_worker_create(side->context, &worker_params, &side->worker), UCS_OK);
}

int cw_worker_efd(ucp_worker_h worker)
{
    int fd = -1;

    assert_int_equal(ucp_worker_get_efd(worker, &fd), UCS_OK);
    assert_true(fd >= 0);
    return fd;
}

int cw_fd_poll(int fd, int timeout_ms)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    int count;

    while ((count = poll(&item, 1, timeout_ms)) < 0 && errno == EINTR) {
    }
    return count;
}

void cw_worker_drain_and_arm(ucp_worker_h worker)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    do {
        while (ucp_worker_progress(worker) != 0) {
        }
        status = ucp_worker_arm(worker);
        if (cw_time_now_s() > deadline) {
            fail_msg("arm still says %s after %d s without any event", ucs_status_string(status), CW_WAIT_S);
        }
    } while (status == UCS_ERR_BUSY);
    assert_int_equal(status, UCS_OK);
}
