/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the log says of endpoints that fail and of whose failure the program cannot know: mode NONE without a handler
 * (ERR-1, ERR-5, LOG-4). One line at the default level, with the peer, its address and the reason; nothing at the
 * orderly end of a peer (LOG-3, ERR-20).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test_am_common.h"

enum { TEXT = 16384 };

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG};
static char text[TEXT];

/* Connects, sends one message, and then ends as asked. */
static int run_peer(int fd, const char *how)
{
    struct cw_side side;
    ucp_ep_h ep;
    ucp_request_param_t param = cw_param_none();

    cw_side_open(&side, &config);
    ep = cw_fd_connect(fd, &side, &config);
    (void)cw_worker_wait_request(side.worker, ucp_tag_send_nbx(ep, "x", 1, 1, &param), "the first message");
    cw_fd_barrier(fd, side.worker);
    if (strcmp(how, "dies") == 0) {
        raise(SIGKILL);
    }
    side.ep = NULL;
    cw_side_destroy(&side);
    cw_fd_barrier(fd, NULL);
    return 0;
}

/* Sends until it fails, or for so long. */
static ucs_status_t send_until(struct cw_side *side, ucp_ep_h ep, double seconds)
{
    const double end = cw_time_now_s() + seconds;
    ucp_request_param_t param = cw_param_none();
    ucs_status_t status = UCS_OK;

    while (status == UCS_OK && cw_time_now_s() < end) {
        ucs_status_ptr_t result = ucp_tag_send_nbx(ep, "y", 1, 2, &param);

        status = cw_worker_wait_request(side->worker, result, "a message to a peer that is gone");
        for (int i = 0; i < 20; i++) {
            ucp_worker_progress(side->worker);
            usleep(50);
        }
    }
    return status;
}

/* What is logged while the peer ends like that, and a moment longer. */
static ucs_status_t end_of_peer(const char *how)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_remote remote;
    ucs_status_t status;
    struct cw_side side;
    int saved[2], file;
    char byte;

    cw_remote_start(&remote, "peer", how);
    cw_side_open(&side, &config);
    side.ep = cw_fd_connect(remote.fd, &side, &config);
    (void)cw_worker_wait_request(side.worker, ucp_tag_recv_nbx(side.worker, &byte, 1, 1, CW_TAG_ALL, &param),
                                 "the first message");
    file = cw_capture_start(saved);
    cw_fd_barrier(remote.fd, side.worker);
    if (strcmp(how, "dies") != 0) {
        cw_fd_barrier(remote.fd, side.worker);
    }
    status = send_until(&side, side.ep, (strcmp(how, "dies") == 0) ? CW_WAIT_S : 0.3);
    (void)send_until(&side, side.ep, 0.05);
    cw_capture_end(file, saved, text, sizeof(text));
    if (strcmp(how, "dies") != 0) {
        cw_remote_join(&remote);
    }
    cw_side_destroy(&side);
    return status;
}

API_TEST(test_a_death_is_logged_once)
{
    const char *line;

    cw_test_need_two_processes();
    cw_test_skip_reference("it logs this at a level that nobody sees");
    /* A device learns of it by silence. */
    assert_int_equal(end_of_peer("dies"), cw_test_tls_has("rc") ? UCS_ERR_ENDPOINT_TIMEOUT : UCS_ERR_CONNECTION_RESET);
    if (cw_capture_count(text, "will not be handled") != 1) {
        fail_msg("the death of a peer is logged %d times, not once:\n%s", cw_capture_count(text, "will not be handled"),
                 text);
    }
    line = strstr(text, " WARN ");
    assert_non_null(line);
    assert_non_null(strstr(line, "to worker "));
    assert_null(strstr(line, "unknown address"));
    if (cw_test_tls_has("rc")) {
        assert_non_null(strstr(line, "RDMA connection by "));
        assert_non_null(strstr(line, "no acknowledgement"));
        return;
    }
    assert_non_null(strstr(line, cw_test_tls_has("tcp") ? "TCP connection with " : "shared memory with process "));
    assert_non_null(strstr(line, "see the last output of the peer's process"));
}

API_TEST(test_an_orderly_end_is_not)
{
    cw_test_need_two_processes();
    cw_test_skip_reference("as above");
    (void)end_of_peer("leaves");
    assert_string_equal(text, "");
}

API_TEST(test_a_connection_that_fails_is_logged)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_side gone, side;
    ucp_ep_params_t params;
    ucs_status_ptr_t result;
    int saved[2], file;
    size_t length;
    void *address;

    cw_test_need_two_workers();
    cw_test_skip_reference("as above");
    cw_side_open(&gone, &config);
    address = cw_test_worker_address(gone.worker, &length);
    cw_side_destroy(&gone);
    cw_side_open(&side, &config);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = address;
    assert_int_equal(ucp_ep_create(side.worker, &params, &side.ep), UCS_OK);
    file = cw_capture_start(saved);
    result = ucp_tag_send_nbx(side.ep, "z", 1, 3, &param);
    assert_true(cw_worker_wait_request(side.worker, result, "a message to nobody") != UCS_OK);
    for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
        ucp_worker_progress(side.worker);
    }
    cw_capture_end(file, saved, text, sizeof(text));
    assert_int_equal(cw_capture_count(text, "will not be handled"), 1);
    assert_non_null(strstr(text, " WARN "));
    if (cw_test_tls_has("tcp")) {
        assert_non_null(strstr(text, "cannot connect by TCP to "));
        assert_non_null(strstr(text, "Connection refused"));
    }
    cw_side_destroy(&side);
    free(address);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"peer", run_peer}};

    return cw_test_main(argc, argv, roles, 1);
}
