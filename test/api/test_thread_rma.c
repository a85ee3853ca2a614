/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that share workers of mode MULTI and an endpoint: one-sided calls beside each other, plain ones and others,
 * with probes, flushes and fences between (WRK-3, AMO-10, FLU-1). Threads note failures; only the main thread asserts.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <string.h>

enum { THREADS = 3, ROUNDS = 600, PLACE = 256, REQUEST_TAG = 7 };

struct caller {
    struct cw_pair *pair;
    ucp_rkey_h key;
    uint64_t sum;                   /* address of the word that all add to */
    uint64_t place;                 /* and of what belongs to this thread */
    int rounds;
    int index;
    const char *failure;
};

/* Progresses both workers until the request is done, as every other thread does at the same time. */
static bool is_done(const struct caller *caller, ucs_status_ptr_t request)
{
    const double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return request == NULL;
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        cw_pair_progress(caller->pair);
        if (cw_time_now_s() > deadline) {
            return false;
        }
    }
    ucp_request_free(request);
    return status == UCS_OK;
}

static bool is_flushed(const struct caller *caller, int round)
{
    ucp_request_param_t param = cw_param_none();

    return is_done(caller, (round % 2 == 0) ? ucp_ep_flush_nbx(caller->pair->tx->ep, &param) :
                                              ucp_worker_flush_nbx(caller->pair->tx->worker, &param));
}

/* Every other one is not plain. */
static ucp_request_param_t param_of(int round)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask = (round % 2 == 0) ? 0 : UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    return param;
}

static bool adds(const struct caller *caller, int round)
{
    ucp_request_param_t param = param_of(round);
    uint64_t one = 1, before = 0;

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(sizeof(one));
    if (round % 3 == 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = &before;
    }
    return is_done(caller, ucp_atomic_op_nbx(caller->pair->tx->ep, UCP_ATOMIC_OP_ADD, &one, 1, caller->sum, caller->key,
                                             &param));
}

/* Puts, sees to it that it is there, and gets it back. */
static bool takes_back(const struct caller *caller, int round)
{
    const size_t length = (round % 5 == 0) ? PLACE : 8;
    ucp_request_param_t param = param_of(round);
    char out[PLACE], in[PLACE];

    cw_pattern_fill(out, length, (uint64_t)round * THREADS + (uint64_t)caller->index);
    memset(in, 0, sizeof(in));
    return is_done(caller, ucp_put_nbx(caller->pair->tx->ep, out, length, caller->place, caller->key, &param)) &&
           is_flushed(caller, round) &&
           is_done(caller, ucp_get_nbx(caller->pair->tx->ep, in, length, caller->place, caller->key, &param)) &&
           memcmp(in, out, length) == 0;
}

/* A receive that nothing comes for, beside a look for what nobody sent. */
static bool finds_nothing(const struct caller *caller)
{
    ucp_worker_h worker = caller->pair->tx->worker;
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t receive;
    ucp_tag_recv_info_t info;
    uint64_t word;

    receive = ucp_tag_recv_nbx(worker, &word, sizeof(word), REQUEST_TAG, CW_TAG_ALL, &param);
    if (!UCS_PTR_IS_PTR(receive) || ucp_tag_probe_nb(worker, REQUEST_TAG, CW_TAG_ALL, 1, &info) != NULL ||
        ucp_worker_fence(worker) != UCS_OK) {
        return false;
    }
    ucp_request_cancel(worker, receive);
    while (ucp_request_check_status(receive) == UCS_INPROGRESS) {
        cw_pair_progress(caller->pair);
    }
    ucp_request_free(receive);
    return true;
}

static void *call_all(void *argument)
{
    struct caller *caller = argument;

    for (int round = 0; round < caller->rounds && caller->failure == NULL; round++) {
        if (!adds(caller, round)) {
            caller->failure = "an addition failed or did not complete";
        } else if (!takes_back(caller, round)) {
            caller->failure = "what was put did not come back";
        } else if (!finds_nothing(caller)) {
            caller->failure = "a receive without a message, a probe or a fence failed";
        }
    }
    if (caller->failure == NULL && !is_flushed(caller, 0)) {
        caller->failure = "the last flush failed or did not complete";
    }
    return NULL;
}

API_TEST(test_wrk3_one_sided_calls_of_several_threads)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES, .thread_mode = UCS_THREAD_MODE_MULTI};
    const int rounds = (int)cw_test_scaled(ROUNDS);
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    struct cw_region region;
    ucp_rkey_h key;
    uint64_t sum;

    cw_pair_open(pair, &config);
    for (enum cw_memory kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_region_open(&region, pair->rx->context, kind, (THREADS + 1) * PLACE);
        memset(region.base, 0, region.length);
        key = cw_region_key(&region, pair->tx->ep);
        for (int i = 0; i < THREADS; i++) {
            callers[i] = (struct caller){.pair = pair, .key = key, .sum = (uintptr_t)region.base, .rounds = rounds,
                                         .place = (uintptr_t)region.base + ((uint64_t)i + 1) * PLACE, .index = i};
            assert_int_equal(pthread_create(&threads[i], NULL, call_all, &callers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
        }
        for (int i = 0; i < THREADS; i++) {
            if (callers[i].failure != NULL) {
                fail_msg("Thread %d: %s", i, callers[i].failure);
            }
        }
        memcpy(&sum, region.base, sizeof(sum));
        assert_int_equal(sum, (uint64_t)rounds * THREADS);
        ucp_rkey_destroy(key);
        cw_region_close(&region);
    }
    cw_pair_close(pair);
}
