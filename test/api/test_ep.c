/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints made from worker addresses: EP-1..18, EP-30..37, R24, R27, as far as tag messages can show it. */
#define _GNU_SOURCE
#include "harness.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/seccomp.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER true
#else
#define UNDER_SANITIZER false
#endif
/* Can be set to have memory at hand. */
#if defined(__GLIBC__)
#define KNOWN_ALLOCATOR true
#else
#define KNOWN_ALLOCATOR false
#endif

/* One message over this endpoint to a worker of the pair's receiving side. */
static void ping_over(struct cw_pair *pair, ucp_ep_h ep, ucp_worker_h target, ucp_tag_t tag)
{
    struct cw_op send = {0}, recv = {0};
    uint64_t out = tag * 7 + 1, in = 0;

    cw_op_recv(&recv, target, &in, sizeof(in), tag, CW_TAG_ALL);
    cw_op_send(&send, ep, &out, sizeof(out), tag);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
}

static void close_all(struct cw_pair *pair, ucp_ep_h *eps, int count)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t *closing = calloc((size_t)count, sizeof(*closing));

    assert_non_null(closing);
    for (int i = 0; i < count; i++) {
        closing[i] = ucp_ep_close_nbx(eps[i], &param);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(cw_pair_wait(pair, closing[i], "close"), UCS_OK);
    }
    free(closing);
}

API_TEST(test_ep1_dispatch_errors)
{
    ucp_ep_params_t params;
    ucp_ep_h ep = (ucp_ep_h)0x5a5a, before = ep;

    cw_pair_open(pair, NULL);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = 0;
    assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &ep), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = NULL;
    assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &ep), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &ep), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.sockaddr.addr = NULL;
    params.sockaddr.addrlen = 0;
    assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &ep), UCS_ERR_INVALID_PARAM);
    assert_ptr_equal(ep, before);
    cw_pair_close(pair);
}

API_TEST(test_ep2_creation_and_sends_do_not_wait_for_the_peer)
{
    struct cw_op sends[100] = {0};
    uint64_t out[100];
    double start = cw_time_now_s();

    cw_pair_open(pair, NULL);
    for (int i = 0; i < 100; i++) { /* the peer has never made a call yet */
        out[i] = (uint64_t)i;
        cw_op_send(&sends[i], pair->tx->ep, &out[i], sizeof(out[i]), (ucp_tag_t)i);
        assert_false(UCS_PTR_IS_ERR(sends[i].result));
    }
    assert_true(cw_time_now_s() - start < 5);
    for (int i = 0; i < 100; i++) {
        struct cw_op recv = {0};
        uint64_t in = 0;

        cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), (ucp_tag_t)i, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(in, i);
        assert_int_equal(cw_op_wait(pair, &sends[i], "queued send"), UCS_OK);
    }
    cw_pair_close(pair);
}

API_TEST(test_ep4_unreachable)
{
    struct cw_side lonely = {0};
    ucp_config_t *config;
    ucp_params_t params;
    ucp_worker_params_t worker_params;
    ucp_ep_params_t ep_params;
    ucp_ep_h ep = NULL;
    size_t length;
    void *blob;
    ucs_status_t status;

    cw_pair_open(pair, NULL);
    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "TLS", "self"), UCS_OK);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    assert_int_equal(ucp_init(&params, config, &lonely.context), UCS_OK);
    ucp_config_release(config);
    worker_params.field_mask = 0;
    assert_int_equal(ucp_worker_create(lonely.context, &worker_params, &lonely.worker), UCS_OK);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    memset(&ep_params, 0xff, sizeof(ep_params));
    ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    ep_params.address = blob;
    status = ucp_ep_create(lonely.worker, &ep_params, &ep);
    free(blob);
    cw_side_destroy(&lonely);
    assert_int_equal(status, UCS_ERR_UNREACHABLE);
    cw_pair_close(pair);
}

API_TEST(test_ep7_simultaneous_creation_and_first_sends)
{
    enum { ROUNDS = 30 };

    cw_test_need_two_workers();
    for (int round = 0; round < ROUNDS; round++) {
        struct cw_op sends[2][3], recvs[2][3];
        uint64_t out = (uint64_t)round, in[2][3];

        memset(sends, 0, sizeof(sends));
        memset(recvs, 0, sizeof(recvs));
        cw_pair_open(pair, NULL); /* both create before either progresses */
        for (int i = 0; i < 6; i++) {
            int side = (i + round) % 2;

            cw_op_send(&sends[side][i / 2], pair->sides[side].ep, &out, sizeof(out), (ucp_tag_t)(i / 2));
        }
        for (int i = 0; i < round; i++) { /* different numbers of steps on the two sides */
            ucp_worker_progress(pair->sides[round % 2].worker);
        }
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < 3; i++) {
                cw_op_recv(&recvs[side][i], pair->sides[side].worker, &in[side][i], 8, (ucp_tag_t)i, CW_TAG_ALL);
            }
        }
        for (int i = 0; i < 6; i++) {
            assert_int_equal(cw_op_wait(pair, &recvs[i % 2][i / 2], "receive of a first message"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &sends[i % 2][i / 2], "first send"), UCS_OK);
            assert_int_equal(in[i % 2][i / 2], round);
        }
        cw_pair_close(pair);
    }
}

API_TEST(test_ep8_ep10_send_before_the_peer_creates)
{
    struct cw_pair_config config = {.no_endpoints = true};

    cw_test_need_two_workers();
    cw_pair_open(pair, &config);
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    for (ucp_tag_t tag = 0; tag < 50; tag++) {
        ping_over(pair, pair->tx->ep, pair->rx->worker, tag); /* the receiver has no endpoint: EP-10 */
    }
    pair->rx->ep = cw_side_connect(pair->rx, pair->tx->worker, NULL);
    for (ucp_tag_t tag = 0; tag < 50; tag++) {
        ping_over(pair, pair->rx->ep, pair->tx->worker, tag);
        ping_over(pair, pair->tx->ep, pair->rx->worker, tag);
    }
    cw_pair_close(pair);
}

API_TEST(test_ep9_adoption_with_another_error_mode)
{
    struct cw_pair_config config = {.no_endpoints = true};
    ucp_ep_params_t params;
    ucp_ep_h ep = NULL;
    size_t length;
    void *blob;
    ucs_status_t status;

    cw_test_need_two_workers();
    cw_pair_open(pair, &config);
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    ping_over(pair, pair->tx->ep, pair->rx->worker, 1);
    cw_pair_settle(pair);
    blob = cw_test_worker_address(pair->tx->worker, &length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = blob;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    status = ucp_ep_create(pair->rx->worker, &params, &ep);
    free(blob);
    /* UNREACHABLE where the transport has no PEER mode at all; 1.13 does not check. */
    assert_true(cw_test_reference() || status == UCS_ERR_UNSUPPORTED || status == UCS_ERR_UNREACHABLE);
    if (status == UCS_OK) {
        close_all(pair, &ep, 1);
    }
    ping_over(pair, pair->tx->ep, pair->rx->worker, 2); /* nothing was hurt */
    pair->rx->ep = cw_side_connect(pair->rx, pair->tx->worker, NULL);
    ping_over(pair, pair->rx->ep, pair->tx->worker, 3);
    cw_pair_close(pair);
}

API_TEST(test_ep1_error_mode_that_does_not_exist)
{
    static const unsigned modes[] = {UCP_ERR_HANDLING_MODE_FAILOVER + 1, 255, 256, 257, 0xffffffffu};
    ucp_ep_params_t params;
    ucp_ep_h ep = NULL;
    size_t length;
    void *blob;

    cw_pair_open(pair, NULL);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
        params.address = blob;
        params.err_mode = (ucp_err_handling_mode_t)modes[i];
        assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &ep), UCS_ERR_INVALID_PARAM); /* N22-74 */
    }
    free(blob);
    ping_over(pair, pair->tx->ep, pair->rx->worker, 1);
    cw_pair_close(pair);
}

API_TEST(test_ep11_several_endpoints_between_two_workers)
{
    enum { COUNT = 8, EACH = 20 };
    ucp_ep_h eps[2 * COUNT];
    struct cw_op sends[COUNT * EACH];
    uint64_t out[COUNT * EACH], in;

    memset(sends, 0, sizeof(sends));
    cw_pair_open(pair, NULL);
    for (int i = 0; i < COUNT; i++) {
        eps[i] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
        eps[COUNT + i] = cw_side_connect(pair->rx, pair->tx->worker, NULL);
    }
    for (int i = 0; i < COUNT * EACH; i++) {
        out[i] = (uint64_t)(i / COUNT);
        cw_op_send(&sends[i], eps[i % COUNT], &out[i], 8, (ucp_tag_t)(i % COUNT));
    }
    for (int i = 0; i < COUNT * EACH; i++) { /* each ordered by itself: TAG-10 */
        struct cw_op recv = {0};

        cw_op_recv(&recv, pair->rx->worker, &in, 8, (ucp_tag_t)(i % COUNT), CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(in, i / COUNT);
    }
    for (int i = 0; i < COUNT * EACH; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
    }
    for (int i = 0; i < COUNT; i++) { /* independent: closing some leaves the others alone */
        if (i % 2 == 0) {
            close_all(pair, &eps[i], 1);
        }
    }
    for (int i = 1; i < COUNT; i += 2) {
        ping_over(pair, eps[i], pair->rx->worker, (ucp_tag_t)i);
        ping_over(pair, eps[COUNT + i], pair->tx->worker, (ucp_tag_t)i);
        close_all(pair, &eps[i], 1);
    }
    close_all(pair, &eps[COUNT], COUNT);
    cw_pair_close(pair);
}

API_TEST(test_ep12_to_oneself)
{
    ucp_ep_h eps[3];

    cw_pair_open(pair, NULL);
    for (int i = 0; i < 3; i++) { /* R27 */
        eps[i] = cw_side_connect(pair->tx, pair->tx->worker, NULL);
        ping_over(pair, eps[i], pair->tx->worker, (ucp_tag_t)i);
    }
    for (int i = 0; i < 30; i++) {
        ping_over(pair, eps[i % 3], pair->tx->worker, (ucp_tag_t)i);
    }
    close_all(pair, eps, 3);
    cw_pair_close(pair);
}

API_TEST(test_ep12_no_loopback_pairs)
{
    ucp_ep_h eps[4];
    ucp_ep_params_t params;
    size_t length;
    void *blob;

    cw_pair_open(pair, NULL);
    blob = cw_test_worker_address(pair->tx->worker, &length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_FLAGS;
    params.address = blob;
    params.flags = UCP_EP_PARAMS_FLAGS_NO_LOOPBACK;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &eps[i]), UCS_OK);
    }
    free(blob);
    for (int i = 0; i < 20; i++) { /* which is paired with which shows only in streams and replies */
        ping_over(pair, eps[i % 4], pair->tx->worker, (ucp_tag_t)i);
    }
    close_all(pair, eps, 4);
    cw_pair_close(pair);
}

API_TEST(test_ep13_two_workers_of_one_context)
{
    struct cw_side second = {0};
    ucp_worker_params_t params;

    cw_test_need_two_workers();
    cw_side_open(&pair->sides[0], NULL);
    pair->count = 2;
    pair->tx = &pair->sides[0];
    pair->rx = &second;
    params.field_mask = 0;
    assert_int_equal(ucp_worker_create(pair->tx->context, &params, &second.worker), UCS_OK);
    pair->sides[1].worker = second.worker;
    pair->tx->ep = cw_side_connect(pair->tx, second.worker, NULL);
    second.ep = cw_side_connect(&second, pair->tx->worker, NULL);
    for (int i = 0; i < 20; i++) {
        ping_over(pair, pair->tx->ep, second.worker, (ucp_tag_t)i);
        ping_over(pair, second.ep, pair->tx->worker, (ucp_tag_t)i);
    }
    close_all(pair, (ucp_ep_h[]){pair->tx->ep, second.ep}, 2);
    cw_side_destroy(&pair->sides[1]);
    cw_side_destroy(pair->tx);
}

API_TEST(test_ep14_thousand_endpoints_that_talk)
{
    int count = cw_test_reference() ? 100 : (int)cw_test_scaled(1000); /* the reference needs a socket for each */
    ucp_ep_h *eps = calloc((size_t)count, sizeof(*eps));

    cw_pair_open(pair, NULL);
    for (int i = 0; i < count; i++) {
        eps[i] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
        ping_over(pair, eps[i], pair->rx->worker, (ucp_tag_t)i);
    }
    for (int i = 0; i < count; i++) {
        ping_over(pair, eps[i], pair->rx->worker, (ucp_tag_t)i);
    }
    close_all(pair, eps, count);
    free(eps);
    cw_pair_close(pair);
}

API_TEST(test_ep14_silent_endpoints_are_cheap)
{
    enum { BYTES_EACH = 512 };
    int count = 20000, fds;
    ucp_ep_h *eps = calloc((size_t)count, sizeof(*eps));
    ucp_ep_params_t params;
    size_t length;
    void *blob;
    long rss;

    cw_test_skip_reference("it connects at creation");
    cw_test_skip_over_providers("sockets:", "it has threads, which keep a process whose first thread ended");
    cw_pair_open(pair, NULL);
    ping_over(pair, pair->tx->ep, pair->rx->worker, 1);
    memset(eps, 1, (size_t)count * sizeof(*eps)); /* its pages are there before the measurement */
    blob = cw_test_worker_address(pair->rx->worker, &length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = blob;
    fds = cw_process_fds();
    rss = cw_process_rss_kb();
    for (int i = 0; i < count; i++) {
        assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &eps[i]), UCS_OK);
    }
    rss = cw_process_rss_kb() - rss;
    print_message("a silent endpoint costs %ld bytes\n", rss * 1024 / count);
    assert_int_equal(cw_process_fds(), fds);
    if (!UNDER_SANITIZER) {
        assert_true(rss * 1024 / count <= BYTES_EACH);
    }
    free(blob);
    close_all(pair, eps, count);
    free(eps);
    cw_pair_close(pair);
}

/* Under strict seccomp every system call but read, write and exit kills the process. */
static int role_creator(int fd, const char *argument)
{
    enum { COUNT = 1000 };
    static ucp_ep_h eps[COUNT];
    struct cw_side side;
    ucp_ep_params_t params;
    char byte, *blob = malloc(8192);
    char *volatile warm; /* a compiler may drop an allocation that is only freed */
    size_t length = (size_t)atol(argument);

#if defined(__GLIBC__)
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
    cw_side_open(&side, NULL);
    warm = malloc(16 << 20); /* from the heap, where it stays: the library's own allocations need no more of it */
    memset(warm, 1, 16 << 20);
    free(warm);
    cw_fd_read(fd, blob, length, NULL);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = (const ucp_address_t *)blob;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) {
        cw_fd_write(fd, "?", 1);
        return 0;
    }
    byte = 'y';
    for (int i = 0; i < COUNT; i++) {
        if (ucp_ep_create(side.worker, &params, &eps[i]) != UCS_OK) {
            byte = 'n';
        }
    }
    syscall(SYS_exit, write(fd, &byte, 1) == 1 ? 0 : 1);
    return 1;
}

API_TEST(test_ep2_creation_makes_no_system_call)
{
    struct cw_remote remote;
    char text[24], byte = 0;
    size_t length;
    void *blob;

    cw_test_need_two_processes();
    cw_test_skip_reference("it connects at creation");
    if (UNDER_SANITIZER || !KNOWN_ALLOCATOR) {
        skip(); /* which makes system calls when it likes */
    }
    cw_pair_open(pair, NULL);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    snprintf(text, sizeof(text), "%zu", length);
    cw_remote_start(&remote, "creator", text);
    cw_fd_write(remote.fd, blob, length);
    free(blob);
    cw_fd_read(remote.fd, &byte, 1, NULL); /* "ended early" here means: a system call was made */
    cw_remote_join(&remote);
    cw_pair_close(pair);
    if (byte == '?') {
        skip();
    }
    assert_int_equal(byte, 'y');
}

struct creator {
    struct cw_pair *pair;
    ucp_ep_h ep;
    struct cw_op send;
    uint64_t out;
    int calls;
};

static void create_inside(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct creator *creator = user_data;

    (void)status;
    (void)info;
    creator->ep = cw_side_connect(creator->pair->rx, creator->pair->tx->worker, NULL);
    cw_op_send(&creator->send, creator->ep, &creator->out, sizeof(creator->out), 2);
    creator->calls++;
    ucp_request_free(request);
}

API_TEST(test_ep15_creation_inside_a_callback)
{
    struct creator creator = {.pair = pair, .out = 77};
    ucp_request_param_t param = cw_param_none();
    struct cw_op send = {0}, recv = {0};
    uint64_t value = 1, in = 0;

    cw_pair_open(pair, NULL);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv = create_inside;
    param.user_data = &creator;
    assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param)));
    cw_op_send(&send, pair->tx->ep, &value, sizeof(value), 1);
    cw_pair_wait_count(pair, &creator.calls, 1, "callback");
    cw_op_recv(&recv, pair->tx->worker, &value, sizeof(value), 2, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &recv, "receive over the endpoint made in a callback"), UCS_OK);
    assert_int_equal(value, 77);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &creator.send, "send"), UCS_OK);
    close_all(pair, &creator.ep, 1);
    cw_pair_close(pair);
}

API_TEST(test_ep17_peer_is_gone_before_creation)
{
    struct cw_pair_config config = {.no_endpoints = true};
    ucp_request_param_t param = cw_param_none();
    ucp_ep_params_t params;
    uint64_t out = 1;
    size_t length;
    void *blob;
    ucs_status_t status;

    cw_test_need_two_workers();
    cw_pair_open(pair, &config);
    blob = cw_test_worker_address(pair->rx->worker, &length);
    cw_side_destroy(pair->rx);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = blob;
    status = ucp_ep_create(pair->tx->worker, &params, &pair->tx->ep);
    /* The reference over shared memory says that the segment is gone. */
    assert_true(cw_test_reference() || status == UCS_OK || status == UCS_ERR_UNREACHABLE);
    free(blob);
    for (int i = 0; i < 10 && status == UCS_OK; i++) { /* may never complete in NONE mode; must not crash */
        ucs_status_ptr_t result = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);

        if (UCS_PTR_IS_PTR(result)) {
            ucp_request_free(result);
        }
        cw_pair_settle(pair);
    }
    pair->tx->ep = NULL;
    cw_side_destroy(pair->tx);
}

int main(int argc, char **argv)
{
    const struct cw_role roles[] = {{"creator", role_creator}};

    return cw_test_main(argc, argv, roles, 1);
}
