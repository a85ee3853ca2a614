/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many operations at once, freed requests, order of get and put, and abuse of put and get: RMA-3..8, RMA-12, RMA-14,
 * OPA-11, OPA-13, OPA-15, CTX-11, R4, R16, ABU-2.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};
static const struct cw_pair_config peer_mode = {.features = CW_RMA_FEATURES, .peer_mode = true};

/* ---- many ---- */

static void post(struct cw_target *target, bool get, void *local, size_t offset, size_t length)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t address = target->address + offset;
    ucs_status_ptr_t result = get ? ucp_get_nbx(target->ep, local, length, address, target->key, &param) :
                                    ucp_put_nbx(target->ep, local, length, address, target->key, &param);

    if (UCS_PTR_IS_ERR(result)) {
        fail_msg("Not accepted: %s", ucs_status_string(UCS_PTR_STATUS(result)));
    }
    if (result != NULL) {
        ucp_request_free(result);
    }
}

/* RMA-14: 100000 at once, nobody progresses meanwhile; flush covers them although their requests are gone. */
static void many(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind, long how_many)
{
    size_t count = (size_t)cw_test_scaled(how_many);
    uint64_t *words = malloc(count * 8);
    struct cw_target target;

    assert_non_null(words);
    cw_target_open(&target, pair, servant, kind, count * 8);
    cw_pattern_fill(words, count * 8, 1);
    for (size_t i = 0; i < count; i++) {
        post(&target, false, &words[i], 8 * i, 8);
    }
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_target_check(&target, 0, count * 8, 1);
    memset(words, 0, count * 8);
    for (size_t i = 0; i < count; i++) {
        post(&target, true, &words[i], 8 * i, 8);
    }
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_pattern_check(words, count * 8, 1);
    cw_target_close(&target);
    free(words);
}

API_TEST(test_rma14_hundred_thousand)
{
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        many(pair, NULL, (enum cw_memory)kind, kind == CW_MEMORY_HEAP ? 100000 : 20000);
    }
    cw_pair_close(pair);
}

API_TEST(test_rma14_many_in_two_processes)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    many(pair, &servant, CW_MEMORY_ALLOCATED, 20000);
    many(pair, &servant, CW_MEMORY_HEAP, 20000);
    cw_servant_dismiss(&servant);
}

/* All sizes mixed, both directions of data, all pending together, each with its handle. */
static void mixed(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind)
{
    enum { COUNT = 200, SLOT = 70000 };
    struct cw_op *ops = calloc(2 * COUNT, sizeof(*ops));
    char *data = malloc((size_t)2 * COUNT * SLOT);
    size_t lengths[COUNT];
    struct cw_target target;
    uint64_t random = 5;

    assert_non_null(ops);
    assert_non_null(data);
    cw_target_open(&target, pair, servant, kind, (size_t)2 * COUNT * SLOT);
    cw_target_fill(&target, (size_t)COUNT * SLOT, (size_t)COUNT * SLOT, 99);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t number = cw_random_next(&random);
        ucp_request_param_t put = cw_param_send(&ops[i]), get = cw_param_send(&ops[COUNT + i]);

        lengths[i] = 1 + number % (number % 7 == 0 ? SLOT - 100 : 300);
        cw_pattern_fill(data + i * SLOT, lengths[i], i);
        cw_op_started(&ops[i], ucp_put_nbx(target.ep, data + i * SLOT, lengths[i], target.address + i * SLOT,
                                           target.key, &put));
        cw_op_started(&ops[COUNT + i], ucp_get_nbx(target.ep, data + (COUNT + i) * SLOT, SLOT,
                                                   target.address + (COUNT + i) * SLOT, target.key, &get));
    }
    for (int i = 0; i < 2 * COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &ops[i], "one of many"), UCS_OK);
    }
    cw_pattern_check(data + (size_t)COUNT * SLOT, (size_t)COUNT * SLOT, 99);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    for (size_t i = 0; i < COUNT; i += servant == NULL ? 1 : 13) {
        cw_target_check(&target, i * SLOT, lengths[i], i);
    }
    cw_target_close(&target);
    free(ops);
    free(data);
}

API_TEST(test_mixed)
{
    struct cw_servant servant;

    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_pair_open(pair, &plain);
        mixed(pair, NULL, (enum cw_memory)kind);
        cw_pair_close(pair);
    }
    if (!cw_test_self_only()) {
        cw_servant_start(&servant, pair);
        mixed(pair, &servant, CW_MEMORY_ALLOCATED);
        mixed(pair, &servant, CW_MEMORY_HEAP);
        cw_servant_dismiss(&servant);
    }
}

/* R16: what a get that was posted before a put brings is the old data, as Open MPI's accumulate expects. */
static void get_then_put(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind)
{
    static const size_t sizes[] = {1, 8, 100, 1000, 5000, 20000, 100000, CW_MIB};
    char *old = malloc(CW_MIB), *new = malloc(CW_MIB);
    struct cw_target target;

    assert_non_null(old);
    assert_non_null(new);
    cw_target_open(&target, pair, servant, kind, CW_MIB);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (cw_test_reference() && sizes[i] > 5000) {
            break; /* where it writes in place and reads by pieces it fails */
        }
        for (int round = 0; round < (sizes[i] < 10000 ? 10 : 3); round++) {
            uint64_t seed = i * 1000 + (uint64_t)round;

            cw_target_fill(&target, 0, sizes[i], seed);
            cw_pattern_fill(new, sizes[i], seed + 500);
            memset(old, 0, sizes[i]);
            post(&target, true, old, 0, sizes[i]);
            post(&target, false, new, 0, sizes[i]);
            assert_int_equal(cw_target_flush(&target), UCS_OK);
            cw_pattern_check(old, sizes[i], seed);
            cw_target_check(&target, 0, sizes[i], seed + 500);
        }
    }
    cw_target_close(&target);
    free(old);
    free(new);
}

API_TEST(test_r16_get_then_put)
{
    struct cw_servant servant;

    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        get_then_put(pair, NULL, (enum cw_memory)kind);
    }
    cw_pair_close(pair);
    if (!cw_test_self_only()) {
        cw_servant_start(&servant, pair);
        get_then_put(pair, &servant, CW_MEMORY_ALLOCATED);
        get_then_put(pair, &servant, CW_MEMORY_HEAP);
        cw_servant_dismiss(&servant);
    }
}

/* R16: the same of a get and an atomic. */
API_TEST(test_r16_get_then_atomic)
{
    struct cw_target target;
    uint64_t old[64];

    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, 4096);
        for (uint64_t i = 0; i < 64; i++) {
            old[i] = UINT64_MAX;
            post(&target, true, &old[i], 8, 8);
            assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, target.address + 8, target.key),
                             UCS_OK);
        }
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        for (uint64_t i = 0; i < 64; i++) {
            assert_true(old[i] <= i); /* of atomics before it promises nothing (RMA-6) */
        }
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

/* ---- abuse ---- */

static void *generic_start(void *context, const void *buffer, size_t count)
{
    (void)buffer;
    (void)count;
    return context;
}

static void *generic_start_unpack(void *context, void *buffer, size_t count)
{
    (void)buffer;
    (void)count;
    return context;
}

static size_t generic_size(void *state)
{
    (void)state;
    return 8;
}

static size_t generic_pack(void *state, size_t offset, void *to, size_t max)
{
    (void)state;
    (void)offset;
    memset(to, 1, max);
    return max;
}

static ucs_status_t generic_unpack(void *state, size_t offset, const void *from, size_t length)
{
    (void)state;
    (void)offset;
    (void)from;
    (void)length;
    return UCS_OK;
}

static void generic_finish(void *state)
{
    (void)state;
}

static void refused(struct cw_target *target, const void *buffer, size_t count, ucp_request_param_t *param,
                    ucs_status_t want, ucs_status_t or_else)
{
    for (int get = 0; get < 2; get++) {
        ucs_status_ptr_t result = get ? ucp_get_nbx(target->ep, (void *)(uintptr_t)buffer, count, target->address,
                                                    target->key, param) :
                                        ucp_put_nbx(target->ep, buffer, count, target->address, target->key, param);

        assert_true(UCS_PTR_IS_ERR(result));
        assert_true(UCS_PTR_STATUS(result) == want || UCS_PTR_STATUS(result) == or_else);
    }
}

API_TEST(test_rma4_wrong_calls)
{
    static const ucp_generic_dt_ops_t ops = {generic_start, generic_start_unpack, generic_size, generic_pack,
                                             generic_unpack, generic_finish};
    ucp_request_param_t param;
    ucp_datatype_t generic;
    struct cw_target target;
    uint64_t word = 0;

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 100);
    param = cw_param_none();
    refused(&target, NULL, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM); /* RMA-3 */
    if (!cw_test_reference()) { /* 1.13 checks none of these, or asserts */
        param.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND; /* OPA-15 */
        refused(&target, &word, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
        assert_int_equal(ucp_dt_create_generic(&ops, &param, &generic), UCS_OK);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = generic;
        refused(&target, &word, 1, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_UNSUPPORTED);
        param.datatype = UCP_DATATYPE_STRIDED;
        refused(&target, &word, 1, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_UNSUPPORTED);
        ucp_dt_destroy(generic);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE; /* OPA-11 */
        param.memory_type = (ucs_memory_type_t)(UCS_MEMORY_TYPE_LAST + 1);
        refused(&target, &word, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    }
    cw_pair_settle(pair);
    assert_int_equal(cw_target_peek(&target, 0), 0);
    cw_target_try(&target, 0);
    cw_target_close(&target);
    cw_pair_close(pair);
}

API_TEST(test_opa13_memory_handles)
{
    char *bytes = calloc(1, 10000);
    ucp_request_param_t param = cw_param_none();
    ucp_dt_iov_t iov[2] = {{.buffer = bytes + 100, .length = 8}, {.buffer = bytes + 10000 - 7, .length = 8}};
    struct cw_region own;
    struct cw_target target;

    cw_test_skip_reference("1.13 with its checks aborts");
    assert_non_null(bytes);
    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 20000);
    cw_region_register(&own, pair->tx->context, bytes + 64, 10000 - 64);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    param.memh = NULL;
    refused(&target, bytes + 64, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    param.memh = own.memh;
    refused(&target, bytes + 63, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    refused(&target, bytes + 10000 - 7, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    refused(&target, bytes + 64, 10000, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(target.ep, bytes + 64, 10000 - 64, target.address, target.key,
                                                    &param), "put with a handle"), UCS_OK);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = UCP_DATATYPE_IOV;
    refused(&target, iov, 2, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    iov[1].buffer = bytes + 10000 - 8;
    assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(target.ep, iov, 2, target.address, target.key, &param),
                                  "list with a handle"), UCS_OK);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_region_close(&own);
    cw_target_close(&target);
    free(bytes);
    cw_pair_close(pair);
}

API_TEST(test_ctx11_without_the_feature)
{
    const struct cw_pair_config tags = {.features = UCP_FEATURE_TAG};
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;
    uint64_t word = 5;

    cw_test_skip_reference("it has no path to the memory then, and says so at once");
    cw_pair_open(pair, &tags);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 100); /* CTX-12: these need no feature */
    refused(&target, &word, 8, &param, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_put(target.ep, &word, 8, target.address, target.key), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_get_nbi(target.ep, &word, 8, target.address, target.key), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, target.address, target.key),
                     UCS_ERR_INVALID_PARAM);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_target_close(&target);
    cw_pair_close(pair);
}

/* One access that must not be; somewhere there is an error, and the bytes around stay. */
static void forbidden(struct cw_pair *pair, struct cw_target *target, bool get, uint64_t address, size_t length)
{
    char *local = malloc(length);
    ucp_request_param_t param = cw_param_none();
    ucs_status_t status, flushed;

    assert_non_null(local);
    memset(local, 0x77, length);
    status = cw_pair_wait(pair, get ? ucp_get_nbx(target->ep, local, length, address, target->key, &param) :
                                      ucp_put_nbx(target->ep, local, length, address, target->key, &param), "access");
    flushed = cw_target_flush(target);
    if (status >= 0 && flushed >= 0) {
        fail_msg("%s of %zu bytes at %+lld of %zu worked", get ? "get" : "put", length,
                 (long long)(address - target->address), target->length);
    }
    if (get) {
        assert_true(status < 0); /* RMA-2: there is no data */
    }
    free(local);
}

/* RMA-5: the region lies in the middle of memory that is nobody's business. */
API_TEST(test_rma5_out_of_bounds)
{
    enum { LENGTH = 5000, AROUND = 100000 };
    char *bytes = malloc(LENGTH + 2 * AROUND);
    struct cw_target target;

    cw_test_skip_reference("it believes every address");
    assert_non_null(bytes);
    memset(bytes, 0x5a, LENGTH + 2 * AROUND);
    for (int get = 0; get < 2; get++) {
        struct {
            int64_t offset;
            size_t length;
        } cases[] = {{-1, 1}, {-1, 2}, {-8, 8}, {LENGTH, 1}, {LENGTH - 1, 2}, {LENGTH - 7, 8}, {0, LENGTH + 1},
                     {-1, LENGTH + 2}, {LENGTH + 5000, 8}, {-AROUND, AROUND}, {0, 50000}, {4999, 70000}};

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            cw_pair_open(pair, &peer_mode);
            memset(&target, 0, sizeof(target));
            target = (struct cw_target){.pair = pair, .ep = pair->tx->ep, .length = LENGTH};
            cw_region_register(&target.region, pair->rx->context, bytes + AROUND, LENGTH);
            target.address = (uintptr_t)bytes + AROUND;
            target.key = cw_region_key(&target.region, target.ep);
            forbidden(pair, &target, get, target.address + (uint64_t)cases[i].offset, cases[i].length);
            if (i == 0) { /* around the end of all addresses */
                forbidden(pair, &target, get, UINT64_MAX - 3, 8);
                forbidden(pair, &target, get, 0, 8);
            }
            for (int k = 0; k < LENGTH + 2 * AROUND; k++) {
                assert_int_equal(bytes[k], 0x5a);
            }
            cw_target_try(&target, 8); /* the endpoint is none the worse for it */
            memset(bytes + AROUND, 0x5a, LENGTH);
            cw_target_close(&target);
            cw_pair_close(pair);
        }
    }
    free(bytes);
}

/* The same to memory of the library's, which may end earlier than its pages. */
API_TEST(test_rma5_out_of_bounds_of_allocated)
{
    struct cw_target target;
    ucp_mem_attr_t attr;

    cw_test_skip_reference("it believes every address");
    for (int get = 0; get < 2; get++) {
        for (int i = 0; i < 4; i++) {
            uint64_t address;

            cw_pair_open(pair, &peer_mode);
            cw_target_open(&target, pair, NULL, CW_MEMORY_ALLOCATED, 5000);
            attr.field_mask = UCP_MEM_ATTR_FIELD_LENGTH;
            assert_int_equal(ucp_mem_query(target.region.memh, &attr), UCS_OK);
            address = i == 0 ? target.address - 8 : target.address + attr.length;
            address += i == 3 ? 1 << 30 : 0;
            forbidden(pair, &target, get, address, i == 2 ? 100000 : 8);
            cw_target_try(&target, 8);
            cw_target_close(&target);
            cw_pair_close(pair);
        }
    }
}

/* MEM-8: what the owner does not allow to peers it does not do for them. */
API_TEST(test_mem8_rights)
{
    static const unsigned rights[] = {UCP_MEM_MAP_PROT_REMOTE_READ, UCP_MEM_MAP_PROT_REMOTE_WRITE};
    ucp_mem_map_params_t params;
    struct cw_target target;

    cw_test_skip_reference("for it this is a hint");
    for (int i = 0; i < 8; i++) {
        bool get = i / 2 % 2 == 0;
        void *heap = malloc(70000);

        assert_non_null(heap);
        cw_pair_open(pair, &peer_mode);
        params = cw_mem_params(i % 2 == 0 ? heap : NULL, 70000, i % 2 == 0 ? 0 : UCP_MEM_MAP_ALLOCATE);
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_PROT;
        params.prot = UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE | rights[get ? 1 : 0];
        target = (struct cw_target){.pair = pair, .ep = pair->tx->ep, .length = 70000};
        target.region = (struct cw_region){.context = pair->rx->context, .kind = CW_MEMORY_HEAP, .own = heap};
        assert_int_equal(ucp_mem_map(target.region.context, &params, &target.region.memh), UCS_OK);
        target.region.base = i % 2 == 0 ? heap : cw_mem_query(target.region.memh).address;
        memset(target.region.base, 0, 70000);
        target.address = (uintptr_t)target.region.base;
        target.key = cw_region_key(&target.region, target.ep);
        forbidden(pair, &target, get, target.address, i / 4 == 0 ? 8 : 60000);
        assert_int_equal(cw_target_peek(&target, 0), 0);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
}

/* Closes the endpoints of a connection that failed. */
static void close_failed(struct cw_pair *pair)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (int i = 0; i < pair->count; i++) {
        if (pair->sides[i].ep != NULL) {
            (void)cw_pair_wait(pair, ucp_ep_close_nbx(pair->sides[i].ep, &param), "close");
            pair->sides[i].ep = NULL;
        }
    }
}

/* An endpoint to the same worker instead of one that failed, and the key for it. */
static void renew(struct cw_pair *pair, struct cw_target *target)
{
    ucp_rkey_destroy(target->key);
    close_failed(pair);
    pair->tx->ep = cw_side_connect(pair->tx, pair->rx->worker, &peer_mode);
    target->ep = pair->tx->ep;
    target->key = cw_region_key(&target->region, target->ep);
}

/* RMA-12, MEM-15: an old key. Memory of the program's is still there and must not change. With error handling that ends
 * the connection, unless a device refuses it; nobody else suffers, and another endpoint works. */
static void stale(struct cw_pair *pair, enum cw_memory kind, bool get, size_t length, bool registered_again)
{
    struct cw_region again = {.memh = NULL};
    struct cw_target target, other;
    ucs_status_t status;

    cw_pair_open(pair, &peer_mode);
    cw_target_open(&target, pair, NULL, kind, 70000);
    cw_target_open(&other, pair, NULL, kind, 70000);
    cw_target_try(&target, 0);
    memset(target.region.base, 0x5a, 70000);
    cw_region_unmap(&target.region);
    if (registered_again) { /* the new registration is none of the old key's business */
        cw_region_register(&again, pair->rx->context, target.region.base, 70000);
    }
    forbidden(pair, &target, get, target.address, length);
    for (size_t k = 0; k < 70000 && kind != CW_MEMORY_ALLOCATED; k++) {
        assert_int_equal(target.region.base[k], 0x5a);
    }
    status = cw_target_flush(&other);
    if (cw_test_tls_has("rc")) {
        assert_int_equal(status, UCS_OK);
    } else {
        assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
        renew(pair, &other);
    }
    cw_target_try(&other, 8); /* nobody else suffers */
    cw_region_unmap(&again);
    cw_target_close(&target);
    cw_target_close(&other);
    cw_pair_close(pair);
}

API_TEST(test_rma12_stale_key)
{
    cw_test_skip_reference("it is undefined there");
    for (int i = 0; i < 4 * CW_MEMORY_KINDS; i++) {
        enum cw_memory kind = (enum cw_memory)(i / 4);

        stale(pair, kind, i % 2 != 0, i / 2 % 2 == 0 ? 8 : 60000, false);
        if (kind != CW_MEMORY_ALLOCATED) {
            stale(pair, kind, i % 2 != 0, i / 2 % 2 == 0 ? 8 : 60000, true);
        }
    }
}

/* The same in another process, and of memory that does not exist any more. */
API_TEST(test_rma12_stale_key_of_another_process)
{
    struct cw_servant servant;
    struct cw_target target;

    cw_test_need_two_processes();
    cw_test_skip_reference("it is undefined there");
    for (int i = 0; i < 2 * CW_MEMORY_KINDS; i++) {
        enum cw_memory kind = (enum cw_memory)(i / 2);

        cw_servant_start(&servant, pair);
        cw_target_open(&target, pair, &servant, kind, 20000);
        cw_target_try(&target, 0);
        cw_target_set(&target, 0, 20000, 0);
        for (int k = 0; k < 2000; k++) { /* the connection opens */
            ucp_worker_progress(pair->tx->worker);
        }
        cw_target_try(&target, 8); /* just before the end */
        cw_target_order(&target, CW_ORDER_UNMAP, 0, 0, 0);
        forbidden(pair, &target, i % 2 != 0, target.address, 8);
        forbidden(pair, &target, i % 2 != 0, target.address, 20000);
        if (kind != CW_MEMORY_ALLOCATED) {
            assert_int_equal(cw_target_peek(&target, 0), 0);
        }
        cw_target_close(&target);
        assert_int_equal(cw_servant_failures, cw_test_tls_has("rc") ? 0 : 1);
        cw_servant_dismiss(&servant);
        cw_side_destroy(&pair->sides[0]);
    }
}

static ucp_ep_h watched_ep;
static int failures;
static ucs_status_t failed_with;

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    if (ep == watched_ep) {
        failures++;
        failed_with = status;
    }
}

enum under_way { GETS, PUTS, FETCHES, ADDS, NUM_UNDER_WAY };

static ucs_status_ptr_t access_memory(const struct cw_target *target, enum under_way what, void *local, size_t length,
                                      size_t at)
{
    ucp_request_param_t param = cw_param_none();

    switch (what) {
    case GETS:
        return ucp_get_nbx(target->ep, local, length, target->address + at, target->key, &param);
    case PUTS:
        return ucp_put_nbx(target->ep, local, length, target->address + at, target->key, &param);
    default:
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(8);
        if (what == FETCHES) {
            param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
            param.reply_buffer = local;
        }
        return ucp_atomic_op_nbx(target->ep, UCP_ATOMIC_OP_ADD, local, 1, target->address + at, target->key, &param);
    }
}

/* Whether the system copies puts and gets of this memory in the call. */
static bool is_copied(struct cw_pair *pair, const struct cw_target *target)
{
    ucs_status_ptr_t result;
    char byte;

    result = access_memory(target, GETS, &byte, 1, 0);
    assert_int_equal(cw_pair_wait(pair, result, "a get"), UCS_OK);
    return result == NULL;
}

/* MEM-16, ERR-2, ERR-4: whether the owner has begun with an access or not when it unmaps the memory, the program learns
 * the same. What was over before is none of this. */
static void unmapped(struct cw_pair *pair, enum under_way what, size_t length, unsigned rounds)
{
    const struct cw_pair_config watched = {.features = CW_RMA_FEATURES, .peer_mode = true, .on_failure = failed};
    enum { COUNT = 8 };
    ucs_status_ptr_t posted[COUNT];
    char *local = calloc(COUNT, length);
    struct cw_target target;
    ucs_status_t status;
    bool is_over;
    int ended = 0;

    assert_non_null(local);
    failures = 0;
    cw_pair_open(pair, &watched);
    watched_ep = pair->tx->ep;
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, COUNT * length);
    cw_target_try(&target, 0);
    is_over = what <= PUTS && is_copied(pair, &target);
    for (size_t i = 0; i < COUNT; i++) {
        posted[i] = access_memory(&target, what, local + i * length, length, i * length);
    }
    for (unsigned i = 0; i < rounds; i++) {
        ucp_worker_progress(pair->tx->worker);
        ucp_worker_progress(pair->rx->worker);
    }
    cw_region_unmap(&target.region);
    for (int i = 0; i < COUNT; i++) {
        status = cw_pair_wait(pair, posted[i], "an access");
        assert_true(status == UCS_OK || status == UCS_ERR_CONNECTION_RESET);
        ended += status != UCS_OK;
    }
    status = cw_target_flush(&target);
    assert_true(status == UCS_ERR_CONNECTION_RESET || (status == UCS_OK && ended == 0));
    if (is_over) {
        assert_int_equal(status, UCS_OK);
        posted[0] = access_memory(&target, what, local, length, 0); /* by a key that is no more */
        (void)cw_pair_wait(pair, posted[0], "an access to unmapped memory");
        status = cw_target_flush(&target);
        assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
    } else if (rounds == 0) {
        assert_true(status != UCS_OK || length > 8);
    }
    for (int i = 0; i < 1000 && status != UCS_OK && failures == 0; i++) {
        cw_pair_progress(pair);
    }
    assert_int_equal(failures, status != UCS_OK ? 1 : 0);
    assert_true(failures == 0 || failed_with == UCS_ERR_CONNECTION_RESET);
    if (status != UCS_OK) {
        close_failed(pair);
    }
    free(local);
    cw_target_close(&target);
    cw_pair_close(pair);
}

API_TEST(test_mem16_unmapped_under_way)
{
    static const size_t lengths[] = {8, 4000, 60000, 1000000};

    cw_test_skip_reference("it is undefined there");
    cw_test_need_two_workers();
    if (cw_test_tls_has("rc")) {
        skip(); /* its device asks no owner */
    }
    for (unsigned rounds = 0; rounds < 4; rounds++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            unmapped(pair, GETS, lengths[i], rounds);
            unmapped(pair, PUTS, lengths[i], rounds);
        }
        unmapped(pair, FETCHES, 8, rounds);
        unmapped(pair, ADDS, 8, rounds);
    }
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
