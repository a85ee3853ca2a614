/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fence: order without completion, over all paths that an operation may take, and never a wait: FLU-20..23, R16.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};

static void put(struct cw_target *target, const void *data, size_t offset, size_t length, uint32_t flags)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result;

    param.op_attr_mask = flags;
    result = ucp_put_nbx(target->ep, data, length, target->address + offset, target->key, &param);
    assert_false(UCS_PTR_IS_ERR(result));
    if (result != NULL) {
        ucp_request_free(result);
    }
}

static void fence(struct cw_pair *pair)
{
    assert_int_equal(ucp_worker_fence(pair->tx->worker), UCS_OK);
}

/* FLU-23: a large put, fence, its first and last bytes again. */
static void overwrite(struct cw_target *target, size_t length, uint32_t flags, char *data, uint64_t seed)
{
    static char marks[] = {'A', 'B', 'C', 'D'};
    size_t part = length < 8 ? 1 : 4;

    cw_pattern_fill(data, length, seed);
    put(target, data, 0, length, flags);
    fence(target->pair);
    put(target, marks, 0, part, flags);
    if (length > part) {
        put(target, marks, length - part, part, flags);
    }
    assert_int_equal(cw_target_flush(target), UCS_OK);
    memcpy(data, marks, part);
    memcpy(data + length - part, marks, part);
    if (target->servant == NULL) {
        assert_memory_equal(target->region.base, data, length);
    } else { /* the servant knows only patterns: fetch it */
        char *back = malloc(length);
        ucp_request_param_t param = cw_param_none();

        assert_non_null(back);
        assert_int_equal(cw_pair_wait(target->pair, ucp_get_nbx(target->ep, back, length, target->address, target->key,
                                                                &param), "get"), UCS_OK);
        assert_memory_equal(back, data, length);
        free(back);
    }
}

static void overwrite_all(struct cw_pair *pair, struct cw_servant *servant)
{
    static const size_t sizes[] = {1, 2, 8, 100, 4000, 8192, 20000, 70000, 200001, CW_MIB};
    static const uint32_t flags[] = {0, UCP_OP_ATTR_FLAG_FAST_CMPL, UCP_OP_ATTR_FLAG_MULTI_SEND};
    char *data = malloc(CW_MIB);
    struct cw_target target;

    assert_non_null(data);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, servant, (enum cw_memory)kind, CW_MIB + 1);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            for (uint64_t k = 0; k < (sizes[i] < 50000 ? 15 : 6); k++) {
                overwrite(&target, sizes[i], flags[k % 3], data, i * 100 + k);
            }
        }
        cw_target_close(&target);
    }
    free(data);
}

API_TEST(test_flu23_overwrite)
{
    cw_pair_open(pair, &plain);
    overwrite_all(pair, NULL);
    cw_pair_close(pair);
}

API_TEST(test_flu23_overwrite_in_two_processes)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    overwrite_all(pair, &servant);
    cw_servant_dismiss(&servant);
}

/* FLU-21, VER-5: the other side is in this thread and cannot progress while fence runs. GEN-10. */
API_TEST(test_flu21_never_waits)
{
    char *data = malloc(CW_MIB);
    struct cw_target target;

    assert_non_null(data);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_pair_open(pair, &plain);
        fence(pair); /* nothing yet, not even a connection */
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, CW_MIB);
        for (uint64_t i = 0; i < 30; i++) {
            cw_pattern_fill(data, CW_MIB, i / 10);
            put(&target, data, 0, i % 3 == 0 ? 8 : CW_MIB - 8, 0);
            fence(pair);
            fence(pair);
            assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, target.address + CW_MIB - 8,
                                             target.key), UCS_OK);
            if (i % 10 == 9) { /* up to here nobody progressed; data has to stay as it is until now */
                assert_int_equal(cw_target_flush(&target), UCS_OK);
                cw_target_check(&target, 0, CW_MIB - 8, i / 10);
                assert_int_equal(cw_target_peek(&target, CW_MIB - 8), i + 1);
            }
        }
        cw_target_close(&target);
        cw_pair_close(pair);
    }
    free(data);
}

/* FLU-20: the signal is not seen before the data, also if the two take different paths and to different memory. */
static void signalled(struct cw_pair *pair, enum cw_memory data_kind, enum cw_memory signal_kind, size_t length,
                      bool by_atomic, bool other_endpoint)
{
    struct cw_target data, word;
    char *bytes = malloc(length);
    ucp_request_param_t param = cw_param_none();
    ucp_ep_h other = NULL;
    uint64_t value;

    assert_non_null(bytes);
    cw_target_open(&data, pair, NULL, data_kind, length);
    cw_target_open(&word, pair, NULL, signal_kind, 64);
    if (other_endpoint) {
        ucp_rkey_destroy(word.key);
        other = cw_side_connect(pair->tx, pair->rx->worker, &plain);
        word.ep = other;
        word.key = cw_region_key(&word.region, other);
        cw_target_try(&word, 8);
    }
    for (uint64_t i = 1; i <= 12; i++) {
        double deadline = cw_time_now_s() + CW_WAIT_S;

        cw_pattern_fill(bytes, length, i);
        put(&data, bytes, 0, length, 0);
        fence(pair);
        value = i;
        if (by_atomic) {
            assert_int_equal(ucp_atomic_post(word.ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, word.address, word.key), UCS_OK);
        } else {
            put(&word, &value, 0, 8, 0);
        }
        while (__atomic_load_n((uint64_t *)(void *)word.region.base, __ATOMIC_ACQUIRE) != i) {
            ucp_worker_progress(pair->tx->worker);
            if (pair->rx != pair->tx &&
                __atomic_load_n((uint64_t *)(void *)word.region.base, __ATOMIC_ACQUIRE) != i) {
                ucp_worker_progress(pair->rx->worker);
            }
            assert_true(cw_time_now_s() < deadline);
        }
        cw_target_check(&data, 0, length, i);
        assert_int_equal(cw_target_flush(&word), UCS_OK); /* value has to stay until then */
        assert_int_equal(cw_target_flush(&data), UCS_OK);
    }
    cw_target_close(&data);
    cw_target_close(&word);
    if (other != NULL) {
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(other, &param), "close"), UCS_OK);
    }
    free(bytes);
}

API_TEST(test_flu20_signal_after_data)
{
    static const size_t lengths[] = {8, 5000, 70000, 600000};

    cw_test_skip_reference("1.13 orders the two only if they take the same path");
    cw_pair_open(pair, &plain);
    for (int i = 0; i < CW_MEMORY_KINDS * CW_MEMORY_KINDS; i++) {
        for (size_t k = 0; k < 8; k++) {
            signalled(pair, (enum cw_memory)(i / CW_MEMORY_KINDS), (enum cw_memory)(i % CW_MEMORY_KINDS),
                      lengths[k / 2], k % 2, false);
        }
    }
    cw_pair_close(pair);
}

/* The order is that of the target's memory, whichever endpoint leads there. */
API_TEST(test_flu20_over_two_endpoints)
{
    static const size_t lengths[] = {8, 5000, 70000, 600000};

    cw_test_skip_reference("1.13 orders the two only if they take the same path");
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        for (size_t k = 0; k < 8; k++) {
            signalled(pair, (enum cw_memory)kind, CW_MEMORY_HEAP, lengths[k / 2], k % 2, true);
            signalled(pair, (enum cw_memory)kind, CW_MEMORY_ALLOCATED, lengths[k / 2], k % 2, true);
        }
    }
    cw_pair_close(pair);
}

/* In another process, which looks without progress once it has seen the signal. */
API_TEST(test_flu20_in_two_processes)
{
    struct cw_servant servant;
    struct cw_target target;
    char *data;

    cw_test_need_two_processes();
    data = malloc(CW_MIB);
    assert_non_null(data);
    cw_servant_start(&servant, pair);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, &servant, (enum cw_memory)kind, CW_MIB);
        for (uint64_t i = 1; i <= 60; i++) {
            static const size_t lengths[] = {CW_MIB - 8, 8, 50000};
            size_t length = lengths[i % 3];

            cw_pattern_fill(data, length, i);
            put(&target, data, 0, length, 0);
            fence(pair);
            assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, target.address + CW_MIB - 8,
                                             target.key), UCS_OK);
            while (cw_target_peek(&target, CW_MIB - 8) != i) {
                ucp_worker_progress(pair->tx->worker);
            }
            cw_target_check(&target, 0, length, i);
        }
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        cw_target_close(&target);
    }
    free(data);
    cw_servant_dismiss(&servant);
}

/* A get before, a put behind, and the other way round. */
API_TEST(test_flu20_gets)
{
    static const size_t lengths[] = {8, 5000, 70000, 600000};
    char *one = malloc(CW_MIB), *two = malloc(CW_MIB), *back = malloc(CW_MIB);
    struct cw_target target;

    assert_non_null(one);
    assert_non_null(two);
    assert_non_null(back);
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, CW_MIB);
        for (uint64_t i = 0; i < 24; i++) {
            size_t length = lengths[i % 4];

            cw_pattern_fill(one, length, i);
            cw_pattern_fill(two, length, i + 1000);
            memset(back, 0, length);
            put(&target, one, 0, length, 0);
            fence(pair);
            assert_true(ucp_get_nbi(target.ep, back, length, target.address, target.key) >= 0);
            fence(pair);
            put(&target, two, 0, length, 0);
            assert_int_equal(cw_target_flush(&target), UCS_OK);
            cw_pattern_check(back, length, i);
            cw_target_check(&target, 0, length, i + 1000);
        }
        cw_target_close(&target);
    }
    free(one);
    free(two);
    free(back);
    cw_pair_close(pair);
}

/* ---- put, fence, active message (R16) ---- */

struct listener {
    struct cw_target *target;
    size_t length;
    uint64_t seed;
    int calls;
    ssize_t wrong;
};

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    struct listener *listener = arg;

    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    listener->calls++;
    listener->wrong = cw_pattern_find(listener->target->region.base, listener->length, listener->seed);
    return UCS_OK;
}

API_TEST(test_r16_message_after_data)
{
    static const size_t lengths[] = {8, 1000, 5000, 30000, 70000, 300000, CW_MIB};
    struct listener listener = {.calls = 0};
    ucp_am_handler_param_t handler;
    ucp_request_param_t param = cw_param_none();
    char *data = malloc(CW_MIB);
    struct cw_target target;

    cw_test_skip_reference("1.13 does not order them (FLU-22)");
    assert_non_null(data);
    cw_pair_open(pair, &plain);
    memset(&handler, 0xff, sizeof(handler));
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = 5;
    handler.cb = on_message;
    handler.arg = &listener;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, CW_MIB);
        listener.target = &target;
        for (uint64_t i = 0; i < 70; i++) {
            ucs_status_ptr_t message;

            listener.calls = 0;
            listener.length = lengths[i % 7];
            listener.seed = i;
            cw_pattern_fill(data, listener.length, i);
            put(&target, data, 0, listener.length, 0);
            fence(pair);
            message = ucp_am_send_nbx(pair->tx->ep, 5, &i, 8, data, i % 2 == 0 ? 0 : 500, &param);
            cw_pair_wait_count(pair, &listener.calls, 1, "message");
            assert_int_equal(listener.wrong, -1);
            assert_int_equal(cw_pair_wait(pair, message, "message"), UCS_OK);
            assert_int_equal(cw_target_flush(&target), UCS_OK);
        }
        cw_target_close(&target);
    }
    free(data);
    cw_pair_close(pair);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
