/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs transport over a device in this process: thousands of connections of one worker, a completion queue that
 * does not grow with them, and a peer whose process ends while the device says nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "os/clock.h"
#include "test_log_lines.h"
#include "test_verbs_child.h"

#define HANG_NS UINT64_C(60000000000)

enum { RXE_CQ = 32767, MOST = 10000, BURST = 60 };

struct side {
    ucp_context_h context;
    ucp_worker_h worker;
};

static struct side one, other;
static ucp_ep_h eps[MOST];

bool __real_cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address);
bool __wrap_cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address);

bool __wrap_cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address)
{
    if (child_port == 0) {
        return __real_cw_watch_listen(listener, address);
    }
    listener->port = child_port;
    return true;
}

static void side_open(struct side *side)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};

    assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
    assert_int_equal(ucp_worker_create(side->context, &worker_params, &side->worker), UCS_OK);
}

static void side_close(struct side *side)
{
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
}

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_UD_TIMEOUT", "60s", 1);
    setenv("UCX_RC_MAX_NUM_EPS", "inf", 1);
    device_is.max_cqe = 1 << 22;
    device_is.resizes = 1;
    device_is.max_qp = 1 << 20;
    memset(&device_saw, 0, sizeof(device_saw));
    return 0;
}

static void open_both(void)
{
    side_open(&one);
    side_open(&other);
}

static void close_both(void)
{
    side_close(&one);
    side_close(&other);
    assert_int_equal(device_saw.qps, 0);
}

static void progress(void)
{
    ucp_worker_progress(one.worker);
    ucp_worker_progress(other.worker);
}

static ucs_status_t end_request(ucs_status_ptr_t request)
{
    const uint64_t end = cw_clock_ns() + HANG_NS;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress();
        assert_true(cw_clock_ns() < end);
    }
    ucp_request_free(request);
    return status;
}

static void connect_eps(unsigned num, ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .err_mode = mode,
                              .err_handler = {.cb = failed}};
    ucp_address_t *address;
    size_t length;
    unsigned i;

    assert_int_equal(ucp_worker_get_address(other.worker, &address, &length), UCS_OK);
    params.address = address;
    for (i = 0; i < num; i++) {
        assert_int_equal(ucp_ep_create(one.worker, &params, &eps[i]), UCS_OK);
    }
    ucp_worker_release_address(other.worker, address);
}

static void close_eps(unsigned num)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t *requests = calloc(num, sizeof(*requests));
    unsigned i;

    assert_non_null(requests);
    for (i = 0; i < num; i++) {
        requests[i] = ucp_ep_close_nbx(eps[i], &param);
    }
    for (i = 0; i < num; i++) {
        assert_int_equal(end_request(requests[i]), UCS_OK);
    }
    free(requests);
}

/* Sends `each` messages by each endpoint without progress between them, and receives all, in order. */
static void exchange(unsigned num, unsigned each)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t *requests = calloc((size_t)num * each, sizeof(*requests));
    uint32_t(*sent)[16] = calloc((size_t)num * each, sizeof(*sent));
    uint32_t got[16];
    unsigned i, j;

    assert_true(requests != NULL && sent != NULL);
    for (j = 0; j < each; j++) {
        for (i = 0; i < num; i++) {
            sent[j * num + i][0] = j;
            requests[j * num + i] = ucp_tag_send_nbx(eps[i], sent[j * num + i], sizeof(got), i, &param);
        }
    }
    for (i = 0; i < num; i++) {
        for (j = 0; j < each; j++) {
            got[0] = UINT32_MAX;
            assert_int_equal(end_request(ucp_tag_recv_nbx(other.worker, got, sizeof(got), i, UINT64_MAX, &param)),
                             UCS_OK);
            assert_int_equal(got[0], j);
        }
    }
    for (i = 0; i < num * each; i++) {
        assert_int_equal(end_request(requests[i]), UCS_OK);
    }
    free(requests);
    free(sent);
}

/* As many as a device of RDMA in software has completions for, at 128 requests each, are 255. */
TEST_WITH(test_many_connections, setup, NULL)
{
    device_is.max_cqe = RXE_CQ;
    open_both();
    connect_eps(MOST, UCP_ERR_HANDLING_MODE_NONE);
    exchange(MOST, 1);
    assert_true(device_saw.qps > 2 * MOST);
    exchange(MOST, 3);
    exchange(50, BURST);
    close_eps(MOST);
    close_both();
}

/* Few connections have all their places; more share a queue that is too small for that, and none starves. */
TEST_WITH(test_shared_queue, setup, NULL)
{
    unsigned num;

    for (num = 1; num <= 128; num *= 2) {
        device_saw.most_under_way = 0;
        device_is.max_cqe = 512;
        open_both();
        connect_eps(num, UCP_ERR_HANDLING_MODE_NONE);
        exchange(num, BURST);
        exchange(num, 2 * BURST);
        close_eps(num);
        close_both();
        assert_true(device_saw.most_under_way <= 512);
    }
    assert_true(device_saw.most_under_way > 100);
}

/* Memory for completions ends before the patience of the device does. */
TEST_WITH(test_queue_ends, setup, NULL)
{
    open_both();
    connect_eps(1000, UCP_ERR_HANDLING_MODE_NONE);
    exchange(1000, 80);
    assert_in_range(device_saw.largest_cq, 1 << 16, 3 << 15);
    close_eps(1000);
    close_both();
}

/* A driver that cannot resize a completion queue. */
TEST_WITH(test_queue_that_stays, setup, NULL)
{
    device_is.resizes = 0;
    open_both();
    connect_eps(500, UCP_ERR_HANDLING_MODE_NONE);
    exchange(500, 1);
    exchange(500, 20);
    close_eps(500);
    close_both();
}

/* A bound of the device is logged once, and the connections that it allows go on. */
TEST_WITH(test_bound_is_logged, setup, NULL)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    uint32_t word = 0;

    device_is.max_qp = 2 + 20; /* each worker has one for datagrams */
    setenv("UCX_UD_TIMEOUT", "1s", 1);
    open_both();
    log_count_begin();
    connect_eps(12, UCP_ERR_HANDLING_MODE_NONE);
    exchange(10, 1);
    assert_int_equal(log_lines, 0);
    assert_int_not_equal(end_request(ucp_tag_send_nbx(eps[10], &word, sizeof(word), 1, &param)), UCS_OK);
    assert_int_not_equal(end_request(ucp_tag_send_nbx(eps[11], &word, sizeof(word), 1, &param)), UCS_OK);
    assert_true(device_saw.refused_qps > 0);
    log_count_end();
    assert_non_null(strstr(log_text, "out of resources for another connection"));
    exchange(10, 5);
    close_both();
}

/* A list that asks for datagrams alone gets connections, with a warning. */
TEST_WITH(test_datagrams_are_logged, setup, NULL)
{
    static const struct {
        const char *tls;
        unsigned lines;
    } lists[] = {{"ud,self", 1}, {"self,dc_x", 1}, {"rc,ud,self", 0}, {"ud,ib", 0},
                           {"self", 0},    {"all", 0},       {"^ud", 0}};
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    size_t i;

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        setenv("UCX_TLS", lists[i].tls, 1);
        log_count_begin();
        assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
        ucp_cleanup(context);
        log_count_end();
        assert_int_equal(log_lines, lists[i].lines);
        assert_true(lists[i].lines == 0 || strstr(log_text, "connections (rc)") != NULL);
    }
}

/* The device would never report the end: the requests of dead peers are repeated for ever. All endpoints to the process
 * that are watched fail, those that are not go on. */
TEST_WITH(test_process_ends, setup, NULL)
{
    const pid_t child = start_child();
    uint64_t end;
    int i;

    setenv("UCX_KEEPALIVE_INTERVAL", "1000s", 1);
    open_both();
    failures = 0;
    connect_eps(3, UCP_ERR_HANDLING_MODE_PEER);
    exchange(3, 1);
    for (i = 0; i < 100; i++) { /* the watch is established */
        progress();
        usleep(1000);
    }
    assert_int_equal(failures, 0);
    kill_child(child);
    end = cw_clock_ns() + HANG_NS;
    while (failures < 3) {
        progress();
        assert_true(cw_clock_ns() < end);
    }
    assert_int_equal(failure, UCS_ERR_CONNECTION_RESET);
    child_port = 0;
    close_both();
    assert_int_equal(failures, 3);
    forget_child();
}

int main(int argc, char **argv)
{
    return cw_tests_main(argc, argv);
}
