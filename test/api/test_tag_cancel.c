/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Taking tag sends back (docs/change/long-messages.md): either a receive gets all of the message and the send completes
 * OK, or the send completes with UCS_ERR_CANCELED and nobody ever sees the message. REQ-24..26, TAG-10, TAG-16, TAG-21,
 * GEN-7.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 300000, PIECES = 30000 };

static void open_pair(struct cw_pair *pair, const char *rndv_threshold)
{
    cw_test_skip_reference("it does not take sends back");
    setenv("UCX_RNDV_THRESH", rndv_threshold, 1);
    cw_pair_open(pair, NULL);
    unsetenv("UCX_RNDV_THRESH");
}

static void send_with(struct cw_op *op, struct cw_pair *pair, const void *data, size_t length, ucp_tag_t tag, bool sync)
{
    ucp_request_param_t param = cw_param_send(op);

    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    cw_op_started(op, sync ? ucp_tag_send_sync_nbx(pair->tx->ep, data, length, tag, &param) :
                             ucp_tag_send_nbx(pair->tx->ep, data, length, tag, &param));
    assert_true(UCS_PTR_IS_PTR(op->result));
}

/* Connects the endpoints and leaves nothing under way. */
static void ping(struct cw_pair *pair)
{
    cw_pair_ping(pair, 11);
    cw_pair_settle(pair);
}

static void nothing_unexpected(struct cw_pair *pair)
{
    ucp_tag_recv_info_t info;

    cw_pair_settle(pair);
    assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
}

/* What is behind a message that was taken back is not disturbed. */
static void check_tail(struct cw_pair *pair)
{
    nothing_unexpected(pair);
    ping(pair);
}

API_TEST(test_queued_before_the_connection)
{
    static const size_t lengths[] = {0, 8, PIECES, LONG};
    struct cw_op sends[9] = {{0}}, recv = {0};
    struct cw_buffer out, in;

    cw_test_need_two_workers();
    out = cw_buffer_new(LONG);
    in = cw_buffer_new(LONG);
    open_pair(pair, "auto");
    for (int i = 0; i < 8; i++) { /* every second one stays */
        send_with(&sends[i], pair, out.data, lengths[i / 2], (ucp_tag_t)i, i % 3 == 0);
    }
    for (int i = 0; i < 8; i += 2) {
        assert_int_equal(sends[i].calls, 0);
        ucp_request_cancel(pair->tx->worker, sends[i].result);
        assert_int_equal(sends[i].calls, 1); /* inside the call */
        assert_int_equal(sends[i].status, UCS_ERR_CANCELED);
        ucp_request_cancel(pair->tx->worker, sends[i].result); /* REQ-26 */
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_ERR_CANCELED);
    }
    for (int i = 1; i < 8; i += 2) { /* TAG-10: in order, without those */
        memset(&recv, 0, sizeof(recv));
        cw_op_recv(&recv, pair->rx->worker, in.data, LONG, 0, 0);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(recv.info.sender_tag, i);
        assert_int_equal(recv.info.length, lengths[i / 2]);
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
    }
    check_tail(pair);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

/* The receiver does not progress: sends queue up behind what the transport takes. The last one has not left. */
API_TEST(test_queued_behind_others)
{
    enum { MANY = 3000, LENGTH = 8000 };
    struct cw_op *sends, recv = {0};
    struct cw_buffer out, in;
    int count = 0, pending = 0;

    cw_test_need_two_workers();
    out = cw_buffer_new(LENGTH + MANY);
    in = cw_buffer_new(LENGTH);
    sends = calloc(MANY, sizeof(*sends));
    assert_non_null(sends);
    open_pair(pair, "inf");
    ping(pair);
    cw_pattern_fill(out.data, out.length, 5);
    while (pending < 20 && count < MANY) {
        cw_op_send(&sends[count], pair->tx->ep, out.data + count, LENGTH, 1000 + (ucp_tag_t)count);
        pending += UCS_PTR_IS_PTR(sends[count].result);
        count++;
        ucp_worker_progress(pair->tx->worker); /* or it leaves with the next one (docs/why/tcp-rate.md) */
    }
    assert_int_equal(pending, 20);
    for (int i = count - 1; i > count - 15; i -= 2) {
        ucp_request_cancel(pair->tx->worker, sends[i].result);
        assert_int_equal(sends[i].calls, 1);
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_ERR_CANCELED);
    }
    for (int i = 0; i < count; i++) {
        if (i > count - 15 && (count - 1 - i) % 2 == 0) {
            continue;
        }
        memset(&recv, 0, sizeof(recv));
        cw_op_recv(&recv, pair->rx->worker, in.data, LENGTH, 0, 0);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(recv.info.sender_tag, 1000 + i);
        assert_memory_equal(in.data, out.data + i, LENGTH);
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
    }
    check_tail(pair);
    free(sends);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

/* Announced or synchronous, arrived and unexpected: the receiver lets go of it, the answer takes progress. */
static void take_back_unmatched(struct cw_pair *pair, size_t length, bool sync)
{
    struct cw_buffer out = cw_buffer_new(length);
    struct cw_op send = {0};
    ucp_tag_recv_info_t info;

    send_with(&send, pair, out.data, length, 77, sync);
    cw_pair_wait_probe(pair, 77, CW_TAG_ALL, &info);
    assert_int_equal(info.length, length);
    cw_pair_settle(pair);
    assert_int_equal(send.calls, 0); /* TAG-16, TAG-21 */
    ucp_request_cancel(pair->tx->worker, send.result);
    ucp_request_cancel(pair->tx->worker, send.result); /* REQ-26 */
    assert_int_equal(cw_op_wait(pair, &send, "cancelled send"), UCS_ERR_CANCELED);
    check_tail(pair);
    cw_buffer_check(&out);
    cw_buffer_free(&out);
}

API_TEST(test_announced_unmatched)
{
    open_pair(pair, "1");
    ping(pair);
    take_back_unmatched(pair, 100, false);
    take_back_unmatched(pair, PIECES, false);
    take_back_unmatched(pair, LONG, false);
    take_back_unmatched(pair, LONG, true);
    cw_pair_close(pair);
}

API_TEST(test_sync_unmatched)
{
    open_pair(pair, "inf");
    ping(pair);
    take_back_unmatched(pair, 0, true);
    take_back_unmatched(pair, 8, true);
    take_back_unmatched(pair, 3000, true);
    take_back_unmatched(pair, PIECES, true);
    take_back_unmatched(pair, LONG, true);
    cw_pair_close(pair);
}

/* A message to the worker itself: when the call returns it is gone, arrived or not, and a receive that waits for it
 * goes on waiting. Programs of MPI check the status at once, and receive what is left with the thread that would have
 * to wait for an answer. By every transport that may lead there; of a long one, part may not have left. */
static void own_worker(struct cw_pair *pair, const char *tls, bool announced)
{
    static const size_t lengths[] = {0, 8, 3000, PIECES, LONG};
    char *before = strdup(getenv("UCX_TLS"));

    setenv("UCX_TLS", tls, 1);
    setenv("UCX_RNDV_THRESH", announced ? "1" : "inf", 1);
    memset(pair, 0, sizeof(*pair));
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    cw_side_open(pair->tx, NULL);
    pair->tx->ep = cw_side_connect(pair->tx, pair->tx->worker, NULL);
    setenv("UCX_TLS", before, 1);
    unsetenv("UCX_RNDV_THRESH");
    free(before);
    ping(pair);
    for (int i = 0; i < 30; i++) {
        struct cw_buffer out = cw_buffer_new(lengths[i % 5]), in = cw_buffer_new(out.length);
        const bool asks = i >= 10 && !announced && out.length >= PIECES && strstr(tls, "self") == NULL;
        struct cw_op send = {0}, again = {0}, recv = {0};
        ucp_tag_recv_info_t info;

        if (i >= 20) {
            cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 78, CW_TAG_ALL);
        }
        send_with(&send, pair, out.data, out.length, 78, i % 2 == 0 || out.length == 0 || !announced);
        assert_int_equal(send.calls, 0);
        if (i < 10) {
            cw_pair_wait_probe(pair, 78, CW_TAG_ALL, &info);
            cw_pair_settle(pair);
        }
        ucp_request_cancel(pair->tx->worker, send.result);
        assert_true(send.calls == 1 || asks);
        if (asks && i >= 20 && send.calls == 0) {
            assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        } else {
            assert_int_equal(cw_op_wait(pair, &send, "cancelled send"), UCS_ERR_CANCELED);
        }
        if (i >= 20) {
            cw_pair_settle(pair);
            if (recv.calls == 0) {
                cw_pattern_fill(out.data, out.length, 9);
                cw_op_send(&again, pair->tx->ep, out.data, out.length, 78);
                cw_pair_wait_count(pair, &recv.calls, 1, "receive of the next one");
                assert_int_equal(cw_op_wait(pair, &again, "next one"), UCS_OK);
                cw_pattern_check(in.data, in.length, 9);
            }
            assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        }
        check_tail(pair);
        cw_buffer_free(&out);
        cw_buffer_free(&in);
    }
    cw_pair_close(pair);
}

API_TEST(test_own_worker)
{
    cw_test_skip_reference("it does not take sends back");
    for (int announced = 0; announced < 2; announced++) {
        own_worker(pair, getenv("UCX_TLS"), announced != 0);
        if (!cw_test_self_only()) {
            own_worker(pair, cw_test_tls_has("tcp") ? "tcp" : "shm", announced != 0);
        }
    }
}

/* Taken out by a probe means taken: the message stays whole. */
API_TEST(test_probed_with_remove)
{
    struct cw_buffer out = cw_buffer_new(LONG), in = cw_buffer_new(LONG);

    open_pair(pair, "1000");
    ping(pair);
    cw_pattern_fill(out.data, LONG, 4);
    for (int i = 0; i < 2; i++) {
        size_t length = i == 0 ? LONG : 100;
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t param = cw_param_recv(&recv);
        ucp_tag_message_h message;
        ucp_tag_recv_info_t info;

        send_with(&send, pair, out.data, length, 5, true);
        cw_pair_wait_probe(pair, 5, CW_TAG_ALL, &info);
        message = ucp_tag_probe_nb(pair->rx->worker, 5, CW_TAG_ALL, 1, &info);
        assert_non_null(message);
        ucp_request_cancel(pair->tx->worker, send.result);
        cw_pair_settle(pair);
        assert_int_equal(send.calls, 0);
        memset(in.data, 0, length);
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        cw_op_started(&recv, ucp_tag_msg_recv_nbx(pair->rx->worker, in.data, LONG, message, &param));
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_pattern_check(in.data, length, 4);
        check_tail(pair);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

/* A receive was posted before: at whatever moment the cancel comes, all is received or nothing. */
static void cancel_after(struct cw_pair *pair, size_t length, bool sync, int rounds, int counts[2])
{
    struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
    struct cw_op send = {0}, recv = {0};
    ucs_status_t status;

    cw_pattern_fill(out.data, length, 9);
    cw_op_recv(&recv, pair->rx->worker, in.data, length, 5, CW_TAG_ALL);
    send_with(&send, pair, out.data, length, 5, sync);
    for (int i = 0; i < rounds; i++) {
        cw_pair_progress(pair);
    }
    ucp_request_cancel(pair->tx->worker, send.result);
    status = cw_op_wait(pair, &send, "send");
    counts[status != UCS_OK]++;
    if (status == UCS_OK) {
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pattern_check(in.data, length, 9);
    } else {
        assert_int_equal(status, UCS_ERR_CANCELED);
        cw_pair_settle(pair);
        assert_int_equal(recv.calls, 0);
        ucp_request_cancel(pair->rx->worker, recv.result);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_ERR_CANCELED);
        for (size_t i = 0; i < length; i++) {
            assert_int_equal((unsigned char)in.data[i], CW_GUARD_VALUE); /* TAG-36 */
        }
    }
    check_tail(pair);
    cw_buffer_check(&in);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

API_TEST(test_matched)
{
    static const size_t lengths[] = {8, PIECES, LONG, 3 << 20};

    for (int variant = 0; variant < 8; variant++) {
        int counts[2] = {0};

        open_pair(pair, variant % 2 == 0 ? "1000" : "inf");
        ping(pair);
        for (int rounds = 0; rounds < 12; rounds++) {
            cancel_after(pair, lengths[variant / 2], rounds % 3 == 0, rounds / 3 + (rounds > 9) * 30, counts);
        }
        assert_true(counts[0] > 0); /* matched by then, at the latest after some rounds */
        cw_pair_close(pair);
    }
}

API_TEST(test_eager_that_left)
{
    struct cw_op send = {0}, recv = {0};
    uint64_t out = 3, in = 0;
    ucp_tag_recv_info_t info;

    open_pair(pair, "inf");
    ping(pair);
    send_with(&send, pair, &out, sizeof(out), 5, false);
    cw_pair_wait_probe(pair, 5, CW_TAG_ALL, &info);
    ucp_request_cancel(pair->tx->worker, send.result);
    cw_pair_settle(pair);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), 5, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
    check_tail(pair);
    cw_pair_close(pair);
}

/* The first packets of a long eager message have left, the rest not: the message must not stay cut off. */
API_TEST(test_eager_that_left_in_part)
{
    enum { HUGE = 8 << 20 };
    struct cw_buffer out = cw_buffer_new(HUGE), in = cw_buffer_new(HUGE);
    struct cw_op recv = {0};

    open_pair(pair, "inf");
    ping(pair);
    cw_pattern_fill(out.data, HUGE, 2);
    for (int sync = 0; sync < 2; sync++) {
        for (int expected = 0; expected < 2; expected++) {
            struct cw_op send = {0};
            ucp_tag_recv_info_t info;
            ucs_status_t status;

            memset(&recv, 0, sizeof(recv));
            if (expected) {
                cw_op_recv(&recv, pair->rx->worker, in.data, HUGE, 5, CW_TAG_ALL);
            }
            send_with(&send, pair, out.data, HUGE, 5, sync);
            if (!expected) {
                cw_pair_wait_probe(pair, 5, CW_TAG_ALL, &info);
            } else {
                cw_pair_progress(pair);
                cw_pair_progress(pair);
            }
            ucp_request_cancel(pair->tx->worker, send.result);
            cw_pair_settle(pair);
            if (!expected && ucp_tag_probe_nb(pair->rx->worker, 5, CW_TAG_ALL, 0, &info) != NULL) {
                cw_op_recv(&recv, pair->rx->worker, in.data, HUGE, 5, CW_TAG_ALL);
            }
            status = cw_op_wait(pair, &send, "send");
            if (status == UCS_OK) {
                assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
                cw_pattern_check(in.data, HUGE, 2);
                memset(in.data, 0, HUGE);
            } else {
                assert_int_equal(status, UCS_ERR_CANCELED);
                assert_true(recv.result == NULL || recv.calls == 0);
                if (UCS_PTR_IS_PTR(recv.result)) {
                    ucp_request_cancel(pair->rx->worker, recv.result);
                    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_ERR_CANCELED);
                }
            }
            check_tail(pair);
        }
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
    cw_pair_close(pair);
}

static ucp_worker_h cancel_worker;
static void *cancel_request;

static void cancel_in_callback(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)info;
    (void)user_data;
    assert_int_equal(status, UCS_OK);
    ucp_request_cancel(cancel_worker, cancel_request);
    ucp_request_free(request);
}

/* GEN-7; the request lies in the user's memory and is used again (OPA-6, OPA-7). */
API_TEST(test_cancel_from_a_callback_with_user_request)
{
    struct cw_buffer out = cw_buffer_new(LONG);
    struct cw_user_request user;
    ucp_request_param_t param = cw_param_none();
    uint64_t word;

    open_pair(pair, "1000");
    ping(pair);
    user = cw_user_request_new(pair->tx->context);
    cancel_worker = pair->tx->worker;
    cancel_request = user.handle;
    for (int i = 0; i < 20; i++) {
        struct cw_op send = {0}, knock = {0};
        ucp_tag_recv_info_t info;

        param = cw_param_send(&send);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
        send.result = ucp_tag_send_nbx(pair->tx->ep, out.data, LONG, 5, &param);
        assert_ptr_equal(send.result, user.handle);
        cw_pair_wait_probe(pair, 5, CW_TAG_ALL, &info);
        param = cw_param_none();
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv = cancel_in_callback;
        assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(pair->tx->worker, &word, sizeof(word), 6, CW_TAG_ALL, &param)));
        cw_op_send(&knock, pair->rx->ep, &word, sizeof(word), 6);
        cw_pair_wait_count(pair, &send.calls, 1, "callback of the cancelled send");
        assert_int_equal(send.status, UCS_ERR_CANCELED);
        assert_int_equal(cw_op_wait(pair, &knock, "send"), UCS_OK);
        nothing_unexpected(pair);
    }
    ping(pair);
    cw_user_request_check(&user);
    cw_user_request_free(&user);
    cw_buffer_free(&out);
    cw_pair_close(pair);
}

/* ---- the race, between two processes ---- */

enum { RACE_ROUNDS = 1500, RACE_LENGTH = 70000, MUST_CANCEL = 0, MUST_MATCH = 1, KINDS = 8 };
#define RACE_VERDICT UINT64_C(0x100000000)

static size_t race_length(int round)
{
    return round % 3 == 0 ? 40 : RACE_LENGTH;
}

static void spin(ucp_worker_h worker, uint64_t *random)
{
    for (uint64_t i = cw_random_next(random) % 60; i > 0; i--) {
        if (i % 4 == 0) {
            ucp_worker_progress(worker);
        }
    }
}

/* Receives each message, or learns that it was taken back. Exits with 0 if that is always so. */
static int race_receiver(int fd, const char *argument)
{
    static char in[RACE_LENGTH];
    struct cw_side side;
    struct cw_pair lone = {.count = 1};
    uint64_t random = 99, verdict;
    char byte = 'x';

    (void)argument;
    cw_side_open(&side, NULL);
    side.ep = cw_fd_connect(fd, &side, NULL);
    lone.sides[0] = side;
    lone.tx = lone.rx = &lone.sides[0];
    for (int round = 0; round < RACE_ROUNDS; round++) {
        struct cw_op recv = {0}, verdict_op = {0};

        cw_op_recv(&verdict_op, side.worker, &verdict, sizeof(verdict), RACE_VERDICT | (uint64_t)round, CW_TAG_ALL);
        if (round % KINDS == MUST_CANCEL) {
            assert_int_equal(cw_op_wait(&lone, &verdict_op, "verdict"), UCS_OK);
            assert_int_equal((ucs_status_t)verdict, UCS_ERR_CANCELED);
        } else if (round % KINDS != MUST_MATCH) {
            spin(side.worker, &random);
        }
        memset(in, 0x33, sizeof(in));
        cw_op_recv(&recv, side.worker, in, sizeof(in), (ucp_tag_t)round, CW_TAG_ALL);
        if (round % KINDS != MUST_CANCEL) {
            assert_int_equal(cw_op_wait(&lone, &verdict_op, "verdict"), UCS_OK);
        }
        if ((ucs_status_t)verdict == UCS_OK) {
            assert_int_equal(cw_op_wait(&lone, &recv, "matched receive"), UCS_OK);
            assert_int_equal(recv.info.length, race_length(round));
            cw_pattern_check(in, race_length(round), (uint64_t)round);
        } else {
            for (int i = 0; i < 30; i++) {
                ucp_worker_progress(side.worker);
            }
            assert_true(UCS_PTR_IS_PTR(recv.result) && recv.calls == 0);
            ucp_request_cancel(side.worker, recv.result);
            assert_int_equal(cw_op_wait(&lone, &recv, "receive of what was taken back"), UCS_ERR_CANCELED);
            assert_true(in[0] == 0x33 && in[RACE_LENGTH - 1] == 0x33);
        }
        cw_fd_write(fd, &byte, 1);
    }
    cw_fd_barrier(fd, side.worker);
    cw_side_destroy(&side);
    return 0;
}

API_TEST(test_cancel_against_match)
{
    static char out[RACE_LENGTH];
    struct cw_remote remote;
    uint64_t random = 7, verdict;
    int counts[2] = {0};
    char byte;

    cw_test_need_two_processes();
    cw_test_skip_reference("it does not take sends back");
    setenv("UCX_RNDV_THRESH", "1000", 1);
    cw_remote_start(&remote, "race", NULL);
    cw_side_open(&pair->sides[0], NULL);
    unsetenv("UCX_RNDV_THRESH");
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    pair->tx->ep = cw_fd_connect(remote.fd, pair->tx, NULL);
    for (int round = 0; round < RACE_ROUNDS; round++) {
        struct cw_op send = {0}, verdict_op = {0};

        cw_pattern_fill(out, race_length(round), (uint64_t)round);
        send_with(&send, pair, out, race_length(round), (ucp_tag_t)round, true);
        if (round % KINDS != MUST_MATCH) {
            spin(pair->tx->worker, &random);
            ucp_request_cancel(pair->tx->worker, send.result);
        }
        verdict = (uint64_t)cw_op_wait(pair, &send, "send");
        counts[(ucs_status_t)verdict != UCS_OK]++;
        cw_op_send(&verdict_op, pair->tx->ep, &verdict, sizeof(verdict), RACE_VERDICT | (uint64_t)round);
        assert_int_equal(cw_op_wait(pair, &verdict_op, "verdict"), UCS_OK);
        cw_fd_read(remote.fd, &byte, 1, pair->tx->worker);
    }
    cw_fd_barrier(remote.fd, pair->tx->worker);
    cw_remote_join(&remote);
    print_message("%d received, %d taken back\n", counts[0], counts[1]);
    assert_true(counts[0] >= RACE_ROUNDS / KINDS && counts[1] >= RACE_ROUNDS / KINDS);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"race", race_receiver}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
