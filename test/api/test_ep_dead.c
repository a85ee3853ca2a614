/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints with error handling, made by worker address, on which nothing is sent: they connect by themselves, from
 * progress, so that whoever only receives learns of its peer's death (ERR-2, ERR-3, ERR-4, ERR-11, ERR-19, EP-2, EP-7,
 * EP-12, EP-17, CLS-4, CLS-19, WAK-5). Those without error handling stay as cheap as they are. Flush of what was never
 * used says whether somebody is there (FLU-2, FLU-4, FLU-5).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 40, TAG = 7 };

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP, .no_endpoints = true};

struct watched {
    ucp_ep_h ep;
    int failures;
    ucs_status_t status;
};

static bool inside_progress;

static void note_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct watched *watched = arg;

    assert_true(inside_progress); /* ERR-4 */
    assert_ptr_equal(watched->ep, ep);
    watched->failures++;
    watched->status = status;
}

static unsigned progress(ucp_worker_h worker)
{
    unsigned count;

    inside_progress = true;
    count = ucp_worker_progress(worker);
    inside_progress = false;
    return count;
}

/* The modes that report a peer's end take turns: with one lane, or after the last one, FAILOVER does what PEER does
 * (N22-81). */
static ucp_err_handling_mode_t reporting_mode(void)
{
#if UCP_API_VERSION >= UCP_VERSION(1, 21)
    static unsigned number;

    if (number++ % 2 == 1) {
        return UCP_ERR_HANDLING_MODE_FAILOVER;
    }
#endif
    return UCP_ERR_HANDLING_MODE_PEER;
}

static void watched_open(struct watched *watched, ucp_worker_h worker, const void *address, bool peer_mode)
{
    ucp_ep_params_t params;

    memset(watched, 0, sizeof(*watched));
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = address;
    params.err_mode = peer_mode ? reporting_mode() : UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler.cb = note_failure;
    params.err_handler.arg = watched;
    assert_int_equal(ucp_ep_create(worker, &params, &watched->ep), UCS_OK);
}

static ucs_status_ptr_t close_now(struct watched *watched, bool force)
{
    ucp_request_param_t param = cw_param_none();

    if (force) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    return ucp_ep_close_nbx(watched->ep, &param);
}

static ucs_status_ptr_t send_now(ucp_ep_h ep, const uint64_t *value, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_tag_send_nbx(ep, value, sizeof(*value), tag, &param);
}

static ucs_status_ptr_t recv_now(ucp_worker_h worker, uint64_t *value, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_tag_recv_nbx(worker, value, sizeof(*value), tag, CW_TAG_ALL, &param);
}

/* ---- a peer that dies ---- */

/* Sends its address, makes progress or none, and waits for its end, or for that of the test. */
static int doomed(int fd, const char *argument)
{
    struct cw_side side;
    uint64_t length;
    size_t size;
    void *blob;

    cw_side_open(&side, &config);
    blob = cw_test_worker_address(side.worker, &size);
    length = size;
    cw_fd_write(fd, &length, sizeof(length));
    cw_fd_write(fd, blob, size);
    free(blob);
    do {
        if (strcmp(argument, "lively") == 0) {
            (void)ucp_worker_progress(side.worker);
        }
    } while (cw_fd_poll(fd, 1) == 0);
    return 1;
}

static void *doomed_start(struct cw_remote *remote, const char *argument)
{
    uint64_t length;
    void *blob;

    cw_remote_start(remote, "doomed", argument);
    cw_fd_read(remote->fd, &length, sizeof(length), NULL);
    blob = malloc(length);
    assert_non_null(blob);
    cw_fd_read(remote->fd, blob, length, NULL);
    return blob;
}

/* Only receives: by progress alone, or asleep as long as it may. */
static void wait_for_failure(ucp_worker_h worker, const struct watched *watched, bool sleeps)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    while (watched->failures == 0) {
        if (progress(worker) == 0 && sleeps && ucp_worker_arm(worker) == UCS_OK) {
            assert_int_equal(cw_fd_poll(cw_worker_efd(worker), CW_WAIT_S * 1000), 1);
        }
        if (cw_time_now_s() > deadline) {
            fail_msg("the end of the peer was not reported within %d s", CW_WAIT_S);
        }
    }
}

static void connect_quietly(ucp_worker_h worker, bool sleeps)
{
    double end = cw_time_now_s() + 0.1;

    while (cw_time_now_s() < end) {
        if (progress(worker) == 0 && sleeps && ucp_worker_arm(worker) == UCS_OK) {
            (void)cw_fd_poll(cw_worker_efd(worker), 20);
        }
    }
}

/* `when`: the peer dies before the endpoint is made, before it is connected, or after. */
enum when { BEFORE, CONNECTING, CONNECTED, WHENS };

/* ERR-18: a peer whose death ends an open connection resets it; one that no connection reaches any more is silent.
 * UNREACHABLE is the answer of ucp_ep_create where no transport fits. */
static void check_notified(struct cw_side *side, struct watched *watched, enum when when)
{
    uint64_t value = 1;

    for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
        progress(side->worker);
    }
    assert_int_equal(watched->failures, 1);
    assert_true(watched->status == UCS_ERR_ENDPOINT_TIMEOUT ||
                (watched->status == UCS_ERR_CONNECTION_RESET && when == CONNECTED));
    assert_int_equal(UCS_PTR_RAW_STATUS(send_now(watched->ep, &value, TAG)), watched->status); /* ERR-11, ERR-19 */
    assert_int_equal(UCS_PTR_RAW_STATUS(close_now(watched, false)), watched->status);          /* ERR-12 */
}

API_TEST(test_err2_receiver_learns_of_a_death)
{
    cw_test_need_two_processes();
    for (int i = 0; i < 2 * WHENS; i++) {
        enum when when = (enum when)(i / 2);
        bool sleeps = i % 2;
        struct watched watched;
        struct cw_remote remote;
        ucs_status_ptr_t receive;
        uint64_t value;
        void *address;

        cw_side_open(&pair->sides[0], &config);
        address = doomed_start(&remote, when == CONNECTING ? "still" : "lively");
        receive = recv_now(pair->sides[0].worker, &value, TAG);
        if (when == BEFORE) {
            cw_remote_kill(&remote);
        }
        watched_open(&watched, pair->sides[0].worker, address, true); /* EP-17: a failure surfaces later */
        if (when != BEFORE) {
            connect_quietly(pair->sides[0].worker, sleeps);
            assert_int_equal(watched.failures, 0);
            cw_remote_kill(&remote);
        }
        wait_for_failure(pair->sides[0].worker, &watched, sleeps);
        check_notified(&pair->sides[0], &watched, when);
        assert_int_equal(ucp_request_check_status(receive), UCS_INPROGRESS); /* ERR-9 */
        ucp_request_cancel(pair->sides[0].worker, receive);
        assert_int_equal(cw_worker_wait_request(pair->sides[0].worker, receive, "receive"), UCS_ERR_CANCELED);
        free(address);
        cw_side_destroy(&pair->sides[0]);
    }
}

static ucs_status_ptr_t flush_now(const struct watched *watched)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_ep_flush_nbx(watched->ep, &param);
}

/* A device of RDMA in software notices a death by silence, and has no descriptor for a connection. What the library
 * itself sent over it is known to have come only when a flush or a close has asked. */
static bool is_detected_by_silence(void)
{
    return cw_test_tls_has("rc");
}

/* FLU-5: it connects, and fails with that. FLU-4: the flush of the worker would say UCS_OK anyway, and asks nobody. */
API_TEST(test_flu5_never_used_and_dead)
{
    ucp_request_param_t param = cw_param_none();

    cw_test_need_two_processes();
    for (int i = 0; i < 4; i++) {
        struct watched watched;
        struct cw_remote remote;
        ucs_status_ptr_t flush;
        ucs_status_t status;
        void *address;

        cw_side_open(&pair->sides[0], &config);
        address = doomed_start(&remote, "still");
        cw_remote_kill(&remote);
        watched_open(&watched, pair->sides[0].worker, address, i % 2);
        assert_null(ucp_worker_flush_nbx(pair->sides[0].worker, &param));
        if (i >= 2) {
            connect_quietly(pair->sides[0].worker, false);
            if (i % 2 && is_detected_by_silence()) {
                wait_for_failure(pair->sides[0].worker, &watched, false);
            }
            assert_int_equal(watched.failures, i % 2); /* FLU-4: nobody was asked */
        }
        flush = flush_now(&watched);
        inside_progress = true;
        status = cw_worker_wait_request(pair->sides[0].worker, flush, "flush");
        inside_progress = false;
        assert_int_equal(status, UCS_ERR_ENDPOINT_TIMEOUT); /* ERR-18 */
        wait_for_failure(pair->sides[0].worker, &watched, false); /* ERR-5 */
        assert_int_equal(watched.status, status);
        assert_int_equal(UCS_PTR_RAW_STATUS(flush_now(&watched)), status); /* FLU-2 */
        assert_int_equal(UCS_PTR_RAW_STATUS(close_now(&watched, false)), status);
        free(address);
        cw_side_destroy(&pair->sides[0]);
    }
}

/* CLS-4, CLS-19: nothing was posted, so a close waits for nobody. It may come before any progress, too. */
API_TEST(test_cls19_unused_to_a_still_peer)
{
    struct cw_remote remote;
    struct watched watched;
    void *address;
    int fds;

    cw_test_need_two_processes();
    cw_side_open(&pair->sides[0], &config);
    address = doomed_start(&remote, "still");
    for (int i = 0; i < 4; i++) {
        fds = cw_process_fds();
        watched_open(&watched, pair->sides[0].worker, address, true);
        assert_int_equal(cw_process_fds(), fds); /* EP-2: progress connects, not the call */
        if (i >= 2) {
            connect_quietly(pair->sides[0].worker, false);
            assert_true(cw_process_fds() > fds || is_detected_by_silence());
        }
        assert_null(close_now(&watched, i % 2));
        for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
            progress(pair->sides[0].worker);
        }
        assert_true(cw_process_fds() == fds || i == 2); /* that one ends when the peer comes by, or dies */
        assert_int_equal(watched.failures, 0);
    }
    cw_side_destroy(&pair->sides[0]);
    cw_remote_kill(&remote);
    free(address);
}

/* ---- peers that live ---- */

static void *address_of(ucp_worker_h worker)
{
    size_t length;

    return cw_test_worker_address(worker, &length);
}

static void settle(struct cw_pair *pair)
{
    double end = cw_time_now_s() + 0.05;

    while (cw_time_now_s() < end) {
        for (int i = 0; i < pair->count; i++) {
            progress(pair->sides[i].worker);
        }
    }
}

static void ping(struct cw_pair *pair, ucp_ep_h ep, ucp_worker_h to, uint64_t value)
{
    ucs_status_ptr_t request, receive;
    uint64_t in = 0;

    receive = recv_now(to, &in, TAG);
    request = send_now(ep, &value, TAG);
    inside_progress = true;
    assert_int_equal(cw_pair_wait(pair, receive, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, request, "send"), UCS_OK);
    inside_progress = false;
    assert_true(in == value);
}

API_TEST(test_without_error_handling_nothing_happens)
{
    struct watched watched[MANY];
    int fds;
    void *address;

    cw_pair_open(pair, &config);
    address = address_of(pair->rx->worker);
    settle(pair);
    fds = cw_process_fds();
    for (int i = 0; i < MANY; i++) {
        watched_open(&watched[i], pair->tx->worker, address, false);
    }
    settle(pair);
    assert_int_equal(cw_process_fds(), fds);
    for (int i = 0; i < MANY; i++) {
        assert_null(close_now(&watched[i], false));
    }
    settle(pair);
    assert_int_equal(cw_process_fds(), fds);
    free(address);
}

/* FLU-5: it waits until the peer has answered. Without error handling it waits until the peer is known to be there, and
 * over shared memory that needs no progress of the peer. FLU-2: then there is nothing to wait for. */
API_TEST(test_flu5_never_used_and_alive)
{
    const bool is_mapped = cw_test_tls_has("shm") || cw_test_tls_has("all");
    struct watched watched[2];
    ucs_status_ptr_t flush;
    void *address;

    cw_test_need_two_workers();
    cw_pair_open(pair, &config);
    address = address_of(pair->rx->worker);
    for (int i = 0; i < 2; i++) {
        watched_open(&watched[i], pair->tx->worker, address, i);
        flush = flush_now(&watched[i]);
        assert_true(i == 0 || UCS_PTR_IS_PTR(flush));
        for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
            progress(pair->tx->worker);
        }
        if (i == 0 && is_mapped) {
            assert_int_equal(cw_worker_wait_request(pair->tx->worker, flush, "flush"), UCS_OK);
            assert_null(flush_now(&watched[i]));
        } else {
            assert_int_equal(ucp_request_check_status(flush), UCS_INPROGRESS);
            assert_int_equal(cw_pair_wait(pair, flush, "flush"), UCS_OK);
        }
        settle(pair);
        flush = flush_now(&watched[i]);
        if (is_detected_by_silence() && UCS_PTR_IS_PTR(flush)) {
            assert_int_equal(cw_pair_wait(pair, flush, "flush"), UCS_OK);
            flush = flush_now(&watched[i]);
        }
        assert_null(flush);
        assert_int_equal(watched[i].failures, 0);
    }
    free(address);
}

/* RMA-9, FLU-2: what was stored directly is there, although the owner has never made progress. */
API_TEST(test_flu2_direct_stores)
{
    static const struct cw_pair_config with_rma = {.features = UCP_FEATURE_RMA, .no_endpoints = true};
    ucp_mem_map_params_t map;
    struct watched watched[2];
    uint64_t value = 77, *word;
    void *address, *blob, *place = NULL;
    ucp_mem_attr_t attr;
    ucp_rkey_h key;
    ucp_mem_h memory;
    size_t length;

    cw_pair_open(pair, &with_rma);
    address = address_of(pair->rx->worker);
    memset(&map, 0xff, sizeof(map));
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    map.length = 4096;
    map.flags = UCP_MEM_MAP_ALLOCATE;
    assert_int_equal(ucp_mem_map(pair->rx->context, &map, &memory), UCS_OK);
    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    assert_int_equal(ucp_mem_query(memory, &attr), UCS_OK);
    word = attr.address;
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memory, &blob, &length), UCS_OK);
    for (int i = 0; i < 2; i++) {
        watched_open(&watched[i], pair->tx->worker, address, i);
    }
    assert_int_equal(ucp_ep_rkey_unpack(watched[0].ep, blob, &key), UCS_OK);
    ucp_rkey_buffer_release(blob);
    for (int i = 0; i < 2 && ucp_rkey_ptr(key, (uintptr_t)word, &place) == UCS_OK; i++) { /* KEY-3: with both */
        ucp_request_param_t param = cw_param_none();

        *word = 0;
        progress(pair->tx->worker);
        assert_null(ucp_put_nbx(watched[i].ep, &value, 8, (uintptr_t)word, key, &param));
        assert_null(flush_now(&watched[i]));
        assert_true(*word == 77);
    }
    ucp_rkey_destroy(key);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memory), UCS_OK);
    free(address);
}

/* WAK-5: who armed is woken for the sake of an endpoint made afterwards; who did not may not sleep. */
API_TEST(test_wak5_made_before_a_sleep)
{
    struct watched watched[2];
    void *address;
    int efd;

    if (cw_test_self_only()) {
        cw_test_skip_reference("its self transport has no wake-up");
    }
    cw_pair_open(pair, &config);
    address = address_of(pair->rx->worker);
    efd = cw_worker_efd(pair->tx->worker);
    cw_worker_drain_and_arm(pair->tx->worker);
    assert_int_equal(cw_fd_poll(efd, 0), 0);
    watched_open(&watched[0], pair->tx->worker, address, true);
    assert_int_equal(cw_fd_poll(efd, CW_WAIT_S * 1000), 1);
    settle(pair);
    cw_worker_drain_and_arm(pair->tx->worker);
    (void)progress(pair->tx->worker);
    watched_open(&watched[1], pair->tx->worker, address, true);
    assert_int_equal(ucp_worker_arm(pair->tx->worker), UCS_ERR_BUSY);
    settle(pair);
    for (int i = 0; i < 2; i++) {
        ping(pair, watched[i].ep, pair->rx->worker, (uint64_t)i);
        assert_int_equal(watched[i].failures, 0);
        assert_false(UCS_PTR_IS_ERR(close_now(&watched[i], true)));
    }
    free(address);
}

/* EP-7: both sides dial, all at once; each endpoint gets its partner, and no failure is reported. */
API_TEST(test_ep7_all_dial_at_once)
{
    struct watched watched[2][MANY];
    void *addresses[2];

    for (int round = 0; round < 10; round++) {
        cw_pair_open(pair, &config);
        for (int side = 0; side < pair->count; side++) {
            addresses[side] = address_of(pair->sides[side].worker);
        }
        for (int i = 0; i < MANY; i++) {
            for (int side = 0; side < pair->count; side++) {
                watched_open(&watched[side][i], pair->sides[side].worker, addresses[pair->count - 1 - side], true);
            }
        }
        if (round % 2) {
            settle(pair);
        }
        for (int i = 0; i < MANY; i++) {
            for (int side = 0; side < pair->count; side++) {
                ping(pair, watched[side][i].ep, pair->sides[pair->count - 1 - side].worker, (uint64_t)i);
            }
        }
        for (int i = 0; i < MANY; i++) {
            for (int side = 0; side < pair->count; side++) {
                assert_int_equal(watched[side][i].failures, 0);
            }
        }
        for (int side = 0; side < pair->count; side++) {
            free(addresses[side]);
            cw_side_destroy(&pair->sides[side]);
        }
    }
}

/* ERR-20: that a peer closes its end, at whatever moment, is no failure of ours. */
API_TEST(test_err20_closed_while_it_connects)
{
    struct watched ours, theirs;
    ucs_status_ptr_t closing;
    void *addresses[2];

    cw_test_need_two_workers();
    for (int rounds = 0; rounds < 12; rounds++) {
        cw_pair_open(pair, &config);
        addresses[0] = address_of(pair->tx->worker);
        addresses[1] = address_of(pair->rx->worker);
        watched_open(&ours, pair->tx->worker, addresses[1], true);
        watched_open(&theirs, pair->rx->worker, addresses[0], true);
        for (int i = 0; i < rounds; i++) {
            progress(pair->tx->worker);
            if (rounds % 2) {
                progress(pair->rx->worker);
            }
        }
        closing = close_now(&theirs, false);
        assert_true(!UCS_PTR_IS_PTR(closing) || is_detected_by_silence());
        if (UCS_PTR_IS_PTR(closing)) {
            assert_int_equal(cw_pair_wait(pair, closing, "close"), UCS_OK);
        }
        settle(pair);
        assert_int_equal(ours.failures + theirs.failures, 0);
        ping(pair, ours.ep, pair->rx->worker, 5); /* CLS-14 */
        assert_int_equal(ours.failures, 0);
        free(addresses[0]);
        free(addresses[1]);
        cw_side_destroy(&pair->sides[0]);
        cw_side_destroy(&pair->sides[1]);
    }
}

/* EP-12, EP-15: to oneself; and made inside a callback, which reports another one's end. */
API_TEST(test_ep12_to_oneself)
{
    struct watched watched[3];
    void *address;

    cw_pair_open(pair, &config);
    address = address_of(pair->tx->worker);
    for (int i = 0; i < 3; i++) {
        watched_open(&watched[i], pair->tx->worker, address, true);
    }
    settle(pair);
    for (int i = 0; i < 3; i++) {
        ping(pair, watched[i].ep, pair->tx->worker, (uint64_t)i);
        assert_int_equal(watched[i].failures, 0);
        assert_false(UCS_PTR_IS_ERR(close_now(&watched[i], i % 2)));
    }
    settle(pair);
    free(address);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"doomed", doomed}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
