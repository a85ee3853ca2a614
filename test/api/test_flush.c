/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flush of endpoints and of workers, and closing, which flushes: FLU-1..9, CLS-4, ERR-11, ERR-16, ERR-22, RMA-8, RMA-9,
 * R27.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES, .thread_mode = UCS_THREAD_MODE_SERIALIZED};
enum { LENGTH = 4 << 20 };

static void post_put(struct cw_target *target, const void *data, size_t offset, size_t length)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result = ucp_put_nbx(target->ep, data, length, target->address + offset, target->key, &param);

    assert_false(UCS_PTR_IS_ERR(result));
    if (result != NULL) {
        ucp_request_free(result);
    }
}

static ucs_status_ptr_t flush_of(struct cw_pair *pair, bool of_worker, const ucp_request_param_t *param)
{
    return of_worker ? ucp_worker_flush_nbx(pair->tx->worker, param) : ucp_ep_flush_nbx(pair->tx->ep, param);
}

/* FLU-1, RMA-9: everything is there, whatever the sizes, and nobody has its request any more. */
API_TEST(test_flu1_everything_before)
{
    static const size_t sizes[] = {8, 3000, 70000, CW_MIB};
    char *data = malloc(LENGTH), *back = malloc(LENGTH);
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;

    assert_non_null(data);
    assert_non_null(back);
    cw_pair_open(pair, &plain);
    for (int round = 0; round < 2 * CW_MEMORY_KINDS; round++) {
        size_t offset = 0;
        uint64_t sum = 0;

        cw_target_open(&target, pair, NULL, (enum cw_memory)(round / 2), LENGTH);
        cw_pattern_fill(data, LENGTH, (uint64_t)round);
        memset(back, 0, LENGTH);
        for (uint64_t i = 0; offset + CW_MIB + 8 <= LENGTH; i++) {
            post_put(&target, data + offset, offset, sizes[i % 4]);
            offset += sizes[i % 4];
            assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, i, 8, target.address + LENGTH - 8,
                                             target.key), UCS_OK);
            sum += i;
        }
        assert_int_equal(cw_pair_wait(pair, flush_of(pair, round % 2, &param), "flush"), UCS_OK);
        cw_pattern_check(target.region.base, offset, (uint64_t)round);
        assert_true(cw_target_peek(&target, LENGTH - 8) == sum);
        for (size_t at = 0; at < offset; at += 50000) {
            size_t length = offset - at < 50000 ? offset - at : 50000;

            assert_true(ucp_get_nbi(target.ep, back + at, length, target.address + at, target.key) >= 0);
        }
        assert_int_equal(cw_pair_wait(pair, flush_of(pair, round % 2, &param), "flush"), UCS_OK);
        cw_pattern_check(back, offset, (uint64_t)round);
        cw_target_close(&target);
    }
    free(data);
    free(back);
    cw_pair_close(pair);
}

/* FLU-1, FLU-7: neither a rendezvous that nobody matched nor receives hold it up. */
API_TEST(test_flu1_what_is_not_waited_for)
{
    struct cw_op send = {0}, recv = {0}, lonely = {0};
    char *data = malloc(LENGTH), *in = malloc(LENGTH);
    struct cw_target target;
    char byte;

    assert_non_null(data);
    assert_non_null(in);
    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 100);
    cw_pattern_fill(data, LENGTH, 1);
    cw_op_recv(&lonely, pair->tx->worker, &byte, 1, 99, CW_TAG_ALL);
    cw_op_send(&send, pair->tx->ep, data, LENGTH, 1);
    cw_target_try(&target, 8);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    assert_int_equal(send.calls, 0);
    cw_op_recv(&recv, pair->rx->worker, in, LENGTH, 1, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pattern_check(in, LENGTH, 1);
    ucp_request_cancel(pair->tx->worker, lonely.result);
    assert_int_equal(cw_op_wait(pair, &lonely, "cancelled receive"), UCS_ERR_CANCELED);
    cw_target_close(&target);
    free(data);
    free(in);
    cw_pair_close(pair);
}

API_TEST(test_flu2_nothing)
{
    struct cw_op op = {0};
    ucp_request_param_t param = cw_param_send(&op);
    struct cw_target target;

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 100);
    cw_target_try(&target, 0);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_pair_settle(pair);
    for (int i = 0; i < 10; i++) {
        assert_null(ucp_ep_flush_nbx(pair->tx->ep, &param));
        assert_null(ucp_worker_flush_nbx(pair->tx->worker, &param));
    }
    cw_pair_settle(pair);
    assert_int_equal(op.calls, 0); /* REQ-2 */
    cw_target_close(&target);
    cw_pair_close(pair);
}

static void flush_worker(struct cw_pair *pair)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nbx(pair->tx->worker, &param), "flush of the worker"), UCS_OK);
}

/* FLU-4: the worker takes endpoints without work from its flush list. One operation makes it look there again, whatever
 * it is. */
API_TEST(test_flu4_after_nothing)
{
    enum { SENDS = 400, SIZE = 4000 };
    static const size_t sizes[] = {8, 3000, 70000};
    struct cw_op *ops = calloc(SENDS, sizeof(*ops));
    char *data = malloc(CW_MIB), in[SIZE];
    struct cw_target target;
    uint64_t sum;

    assert_non_null(ops);
    assert_non_null(data);
    cw_pair_open(pair, &plain);
    cw_pattern_fill(data, CW_MIB, 3);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, CW_MIB);
        cw_target_try(&target, 0);
        for (int i = 0; i < 3; i++) {
            flush_worker(pair);
            post_put(&target, data, 0, sizes[i]);
            flush_worker(pair);
            cw_pattern_check(target.region.base, sizes[i], 3);
        }
        sum = cw_target_peek(&target, 8);
        flush_worker(pair);
        assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 5, 8, target.address + 8, target.key),
                         UCS_OK);
        flush_worker(pair);
        assert_true(cw_target_peek(&target, 8) == sum + 5);
        cw_target_close(&target);
    }
    for (int i = 0; i < SENDS; i++) { /* at some point they have to wait */
        cw_op_send(&ops[i], pair->tx->ep, data, SIZE, 1);
        if (i % 100 == 0) {
            flush_worker(pair);
        }
    }
    flush_worker(pair);
    for (int i = 0; i < SENDS; i++) {
        assert_true(!UCS_PTR_IS_PTR(ops[i].result) || ucp_request_check_status(ops[i].result) == UCS_OK);
    }
    for (int i = 0; i < SENDS; i++) {
        struct cw_op recv = {0};

        cw_op_recv(&recv, pair->rx->worker, in, SIZE, 1, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &ops[i], "send"), UCS_OK);
    }
    free(ops);
    free(data);
    cw_pair_close(pair);
}

/* FLU-3: there is always something new under way, of every size. */
API_TEST(test_flu3_not_starved)
{
    static const size_t sizes[] = {8, 40000, 300000};
    char *data = calloc(1, CW_MIB);
    struct cw_target target;

    cw_test_skip_reference("1.13 starves it");
    assert_non_null(data);
    cw_pair_open(pair, &plain);
    for (int round = 0; round < 2 * CW_MEMORY_KINDS; round++) {
        struct cw_op op = {0};
        ucp_request_param_t param = cw_param_send(&op);
        double deadline = cw_time_now_s() + CW_WAIT_S;
        size_t length = sizes[round % 3];

        cw_target_open(&target, pair, NULL, (enum cw_memory)(round / 2), CW_MIB);
        for (int i = 0; i < 20; i++) {
            post_put(&target, data, 0, length);
        }
        cw_op_started(&op, flush_of(pair, round % 2, &param));
        while (UCS_PTR_IS_PTR(op.result) && op.calls == 0) {
            post_put(&target, data, 0, length);
            cw_pair_progress(pair);
            assert_true(cw_time_now_s() < deadline);
        }
        assert_int_equal(cw_op_wait(pair, &op, "flush"), UCS_OK);
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        cw_target_close(&target);
    }
    free(data);
    cw_pair_close(pair);
}

/* FLU-4: endpoints to many workers; the flush of the worker covers them all. */
API_TEST(test_flu4_all_endpoints)
{
    enum { PEERS = 6 };
    ucp_request_param_t param = cw_param_none();
    struct cw_side peers[PEERS];
    struct cw_target targets[PEERS];
    ucs_status_ptr_t flush;
    char *data;

    cw_test_need_two_workers();
    data = malloc(200000);
    assert_non_null(data);
    cw_pair_open(pair, &plain);
    cw_pattern_fill(data, 200000, 4);
    for (int i = 0; i < PEERS; i++) {
        cw_side_open(&peers[i], &plain);
        targets[i] = (struct cw_target){.pair = pair, .length = 200000};
        targets[i].ep = cw_side_connect(pair->tx, peers[i].worker, &plain);
        cw_region_open(&targets[i].region, peers[i].context, (enum cw_memory)(i % CW_MEMORY_KINDS), 200000);
        targets[i].address = (uintptr_t)targets[i].region.base;
        targets[i].key = cw_region_key(&targets[i].region, targets[i].ep);
        post_put(&targets[i], data, 0, 200000);
        post_put(&targets[i], data, 0, 8);
    }
    flush = ucp_worker_flush_nbx(pair->tx->worker, &param);
    for (double deadline = cw_time_now_s() + CW_WAIT_S;
         UCS_PTR_IS_PTR(flush) && ucp_request_check_status(flush) == UCS_INPROGRESS;) {
        cw_pair_progress(pair);
        for (int i = 0; i < PEERS; i++) {
            ucp_worker_progress(peers[i].worker);
        }
        assert_true(cw_time_now_s() < deadline);
    }
    assert_int_equal(cw_pair_wait(pair, flush, "flush of the worker"), UCS_OK);
    for (int i = 0; i < PEERS; i++) {
        cw_target_check(&targets[i], 0, 200000, 4);
        cw_target_close(&targets[i]);
        assert_int_equal(UCS_PTR_IS_ERR(ucp_ep_close_nbx(targets[i].ep, &param)), 0);
    }
    for (int i = 0; i < PEERS; i++) {
        cw_side_destroy(&peers[i]);
    }
    free(data);
    cw_pair_close(pair);
}

/* FLU-2, FLU-4, ERR-16, ERR-22: a process dies; the flush of the worker goes on with the rest. */
API_TEST(test_flu4_one_fails)
{
    struct cw_servant servant;
    struct cw_target lost, own;
    struct cw_region region;
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t flushes[3];
    ucs_status_t status;
    char *data;

    cw_test_need_two_processes();
    cw_test_skip_reference("over shared memory it does not notice");
    data = calloc(1, LENGTH);
    assert_non_null(data);
    cw_servant_start(&servant, pair);
    cw_target_open(&lost, pair, &servant, CW_MEMORY_HEAP, LENGTH);
    cw_target_try(&lost, 0);
    cw_region_open(&region, pair->tx->context, CW_MEMORY_HEAP, 1000);
    own = (struct cw_target){.pair = pair, .address = (uintptr_t)region.base, .region = region};
    own.ep = cw_side_connect(pair->tx, pair->tx->worker, NULL);
    own.key = cw_region_key(&region, own.ep);
    cw_target_order(&lost, CW_ORDER_SILENT, 0, 0, 0);
    for (int i = 0; i < 20; i++) {
        post_put(&lost, data, 0, LENGTH);
        assert_int_equal(ucp_atomic_post(lost.ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, lost.address, lost.key), UCS_OK);
    }
    flushes[0] = ucp_ep_flush_nbx(lost.ep, &param);
    assert_true(UCS_PTR_IS_PTR(flushes[0]));
    flushes[1] = ucp_worker_flush_nbx(pair->tx->worker, &param);
    flushes[2] = ucp_ep_flush_nbx(lost.ep, &param);
    for (int i = 0; i < 20; i++) {
        cw_pair_progress(pair);
    }
    cw_servant_kill(&servant);
    assert_true(cw_pair_wait(pair, flushes[0], "flush of the endpoint") < 0);
    assert_int_equal(cw_pair_wait(pair, flushes[1], "flush of the worker"), UCS_OK);
    assert_true(cw_pair_wait(pair, flushes[2], "other flush of the endpoint") < 0);
    cw_pair_wait_count(pair, &cw_servant_failures, 1, "error handler");
    status = UCS_PTR_RAW_STATUS(ucp_ep_flush_nbx(lost.ep, &param));
    assert_int_equal(status, cw_servant_failure); /* FLU-2 */
    cw_target_try(&own, 0);
    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nbx(pair->tx->worker, &param), "flush of the worker"), UCS_OK);
    ucp_rkey_destroy(lost.key);
    cw_target_close(&own);
    free(data);
    cw_side_destroy(&pair->sides[0]);
}

/* FLU-5, R27: it waits for the connection; if there is nobody, it says so. */
API_TEST(test_flu5_connecting)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;
    uint64_t word = 5;

    for (int of_worker = 0; of_worker < 2; of_worker++) {
        ucs_status_ptr_t flush;

        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 100);
        post_put(&target, &word, 8, 8);
        flush = flush_of(pair, of_worker, &param);
        word = 99; /* whatever the put took along... */
        assert_int_equal(cw_pair_wait(pair, flush, "flush of an endpoint without connection"), UCS_OK);
        assert_true(cw_target_peek(&target, 8) == 5 || cw_target_peek(&target, 8) == 99);
        word = 5;
        cw_target_close(&target);
        cw_pair_close(pair);
    }
}

/* Something is to be carried to a worker that is not there any more. */
API_TEST(test_flu5_nobody_there)
{
    const struct cw_pair_config lone = {.features = CW_RMA_FEATURES, .peer_mode = true, .no_endpoints = true};
    ucp_request_param_t param = cw_param_none();
    uint64_t word = 5;
    struct cw_target target;
    ucs_status_t status;
    ucs_status_ptr_t flush;

    cw_test_need_two_workers();
    cw_test_skip_reference("it connects at creation");
    for (int i = 0; i < 2; i++) {
        cw_pair_open(pair, &lone);
        pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, &lone);
        cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 100);
        cw_region_unmap(&target.region);
        cw_side_destroy(pair->rx);
        post_put(&target, &word, 0, 8);
        flush = flush_of(pair, i == 1, &param);
        status = cw_pair_wait(pair, flush, "flush of an endpoint to nobody");
        assert_true(i == 1 ? status == UCS_OK : status < 0); /* FLU-4 */
        assert_true(ucp_put_nbi(target.ep, &word, 8, target.address, target.key) < 0); /* ERR-11 */
        assert_int_equal(cw_target_peek(&target, 0), 0);
        cw_target_close(&target);
        cw_side_destroy(pair->tx);
    }
}

static int old_calls;
static ucs_status_t old_status;

static void old_done(void *request, ucs_status_t status)
{
    (void)request;
    old_calls++;
    old_status = status;
}

/* FLU-6: the old and the blocking ones; callbacks of other operations run inside. */
API_TEST(test_flu6_old_calls)
{
    char *data = malloc(CW_MIB);
    struct cw_target target;
    struct cw_helper helper;

    assert_non_null(data);
    for (int round = 0; round < 8; round++) {
        struct cw_op op = {0};
        ucp_request_param_t param = cw_param_send(&op);
        ucs_status_ptr_t result;

        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, CW_MIB);
        cw_pattern_fill(data, CW_MIB, (uint64_t)round);
        cw_op_started(&op, ucp_put_nbx(target.ep, data, CW_MIB, target.address, target.key, &param));
        if (round % 4 < 2) {
            cw_target_lend(&target, &helper);
            assert_int_equal(round % 2 == 0 ? ucp_ep_flush(target.ep) : ucp_worker_flush(pair->tx->worker), UCS_OK);
            cw_target_return(&target, &helper);
            assert_true(op.result == NULL || op.calls == 1);
        } else {
            old_calls = 0;
            result = round % 2 == 0 ? ucp_ep_flush_nb(target.ep, 0xffffffffu, old_done) :
                                      ucp_worker_flush_nb(pair->tx->worker, 0xffffffffu, old_done);
            assert_int_equal(old_calls, 0);
            if (UCS_PTR_IS_PTR(result)) {
                cw_pair_wait_count(pair, &old_calls, 1, "callback of the flush");
                assert_int_equal(old_status, UCS_OK);
                ucp_request_free(result);
            } else {
                assert_null(result);
            }
        }
        assert_int_equal(cw_op_wait(pair, &op, "put"), UCS_OK);
        cw_target_check(&target, 0, CW_MIB, (uint64_t)round);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
    free(data);
}

/* FLU-8: each flush when what was before it is done; all of them, freed ones and the user's too. */
API_TEST(test_flu8_several)
{
    enum { FLUSHES = 40, STEP = 20000 };
    struct cw_op ops[FLUSHES];
    char *data = malloc((size_t)FLUSHES * STEP);
    struct cw_user_request user;
    struct cw_target target;

    assert_non_null(data);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, (size_t)FLUSHES * STEP);
        user = cw_user_request_new(pair->tx->context);
        cw_pattern_fill(data, (size_t)FLUSHES * STEP, 8);
        memset(ops, 0, sizeof(ops));
        for (size_t i = 0; i < FLUSHES; i++) {
            ucp_request_param_t param = cw_param_send(&ops[i]);

            post_put(&target, data + i * STEP, i * STEP, STEP);
            if (i == 7) {
                param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
                param.request = user.handle;
            }
            cw_op_started(&ops[i], flush_of(pair, i % 4 == 3 && i != 7, &param));
            if (i % 5 == 4 && UCS_PTR_IS_PTR(ops[i].result)) {
                ucp_request_free(ops[i].result); /* R4 */
                ops[i].result = NULL;
            }
        }
        for (size_t i = FLUSHES; i-- > 0;) {
            if (i % 5 == 4) {
                continue;
            }
            if (i == 7) {
                if (ops[7].result != NULL) {
                    assert_ptr_equal(ops[7].result, user.handle);
                    cw_pair_wait_count(pair, &ops[7].calls, 1, "flush in the user's request");
                }
                continue;
            }
            assert_int_equal(cw_op_wait(pair, &ops[i], "one of several flushes"), UCS_OK);
            cw_pattern_check(target.region.base, i * STEP + STEP, 8);
        }
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        cw_pair_settle(pair);
        for (int i = 4; i < FLUSHES; i += 5) {
            assert_int_equal(ops[i].calls, 0);
        }
        cw_user_request_check(&user);
        cw_user_request_free(&user);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
    free(data);
}

/* FLU-8: nothing was started since the flush before, which is still under way. */
API_TEST(test_flu8_behind_another)
{
    static const size_t sizes[] = {8, 3000, 70000};
    ucs_status_ptr_t first, second;
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;
    char data[70000];

    for (int round = 0; round < 6 * CW_MEMORY_KINDS; round++) {
        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, (enum cw_memory)(round / 6), sizeof(data));
        cw_target_try(&target, 8); /* connected */
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        cw_pattern_fill(data, sizeof(data), (uint64_t)round + 100);
        post_put(&target, data, 0, sizes[round % 3]);
        first = flush_of(pair, round / 3 % 2, &param);
        second = flush_of(pair, round / 3 % 2, &param);
        assert_int_equal(cw_pair_wait(pair, second, "second flush"), UCS_OK);
        cw_pattern_check(target.region.base, sizes[round % 3], (uint64_t)round + 100);
        assert_int_equal(cw_pair_wait(pair, first, "first flush"), UCS_OK);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
}

/* FLU-9: a chain of put and flush, each started by the callback of the flush before. */
struct chain {
    struct cw_target *target;
    uint64_t number;
    int done;
    bool of_worker;
};

static void chain_next(struct chain *chain);

static void chain_flushed(void *request, ucs_status_t status, void *user_data)
{
    struct chain *chain = user_data;

    assert_int_equal(status, UCS_OK);
    assert_true(cw_target_peek(chain->target, 8 * chain->number) == chain->number);
    ucp_request_free(request);
    chain_next(chain);
}

static void chain_next(struct chain *chain)
{
    static uint64_t words[100];
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result;

    do {
        if (++chain->number == 100) {
            chain->done = 1;
            return;
        }
        words[chain->number] = chain->number;
        post_put(chain->target, &words[chain->number], 8 * chain->number, 8);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.send = chain_flushed;
        param.user_data = chain;
        result = flush_of(chain->target->pair, chain->of_worker, &param);
        assert_false(UCS_PTR_IS_ERR(result));
    } while (result == NULL);
}

API_TEST(test_flu9_from_the_callback)
{
    struct cw_target target;

    cw_pair_open(pair, &plain);
    for (int i = 0; i < 2 * CW_MEMORY_KINDS; i++) {
        struct chain chain = {.target = &target, .of_worker = i % 2};

        cw_target_open(&target, pair, NULL, (enum cw_memory)(i / 2), 1000);
        chain_next(&chain);
        cw_pair_wait_count(pair, &chain.done, 1, "end of the chain");
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

/* CLS-4: closing in flush mode is a flush. */
API_TEST(test_cls4_close_flushes)
{
    ucp_request_param_t param = cw_param_none();
    char *data = malloc(CW_MIB);
    struct cw_target target;

    assert_non_null(data);
    for (int i = 0; i < 2 * CW_MEMORY_KINDS; i++) {
        size_t length = i % 2 == 0 ? CW_MIB : 100;

        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, (enum cw_memory)(i / 2), CW_MIB + 8);
        cw_pattern_fill(data, length, (uint64_t)i);
        post_put(&target, data, 0, length);
        assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 3, 8, target.address + CW_MIB, target.key),
                         UCS_OK);
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(pair->tx->ep, &param), "close"), UCS_OK);
        pair->tx->ep = NULL;
        cw_pair_settle(pair); /* packets are carried out when the owner comes by */
        cw_target_check(&target, 0, length, (uint64_t)i);
        assert_int_equal(cw_target_peek(&target, CW_MIB), 3);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
    free(data);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
