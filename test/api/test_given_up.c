/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program gives up while requests still need it. KEY-6 and DT-6 want keys and generic types alive until the
 * operations with them have completed, but Open MPI 4.1 destroys a key right after it has posted the access, and the
 * reference carries such accesses out. Everything else here is the program's right.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};

/* Allocates and writes blocks of the sizes that objects of a library may have, so that freed memory is used again. */
static void reuse_freed_memory(void)
{
    enum { SIZES = 64, EACH = 16 };
    static void *blocks[SIZES][EACH];

    for (size_t i = 0; i < SIZES; i++) {
        for (int k = 0; k < EACH; k++) {
            blocks[i][k] = malloc(16 * (i + 1));
            assert_non_null(blocks[i][k]);
            memset(blocks[i][k], 0xe5, 16 * (i + 1));
        }
    }
    for (size_t i = 0; i < SIZES; i++) {
        for (int k = 0; k < EACH; k++) {
            free(blocks[i][k]);
        }
    }
}

/* ---- keys ---- */

enum operation { PUT, GET, POST, FETCH, OPERATIONS };

/* Destroys the target's key, as a program does that counts on nobody needing it. */
static void destroy_key(struct cw_target *target)
{
    ucp_rkey_destroy(target->key);
    target->key = NULL;
    reuse_freed_memory();
}

static void close_without_key(struct cw_target *target)
{
    if (target->servant == NULL) {
        cw_region_close(&target->region);
    } else {
        cw_target_order(target, CW_ORDER_DROP, 0, 0, 0);
    }
}

static ucs_status_ptr_t start(struct cw_target *target, enum operation operation, char *local, size_t offset,
                              size_t length)
{
    static const uint64_t one = 1;
    ucp_request_param_t param = cw_param_none();

    if (operation == PUT) {
        return ucp_put_nbx(target->ep, local, length, target->address + offset, target->key, &param);
    }
    if (operation == GET) {
        return ucp_get_nbx(target->ep, local, length, target->address + offset, target->key, &param);
    }
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(sizeof(one));
    if (operation == FETCH) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = local;
    }
    return ucp_atomic_op_nbx(target->ep, UCP_ATOMIC_OP_ADD, &one, 1, target->address + offset, target->key, &param);
}

/* Posts so many operations at once, gives up the key, and waits for the requests, or for a flush that stands for
 * them. */
static void without_key(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind, enum operation operation,
                        size_t length, bool flush)
{
    enum { COUNT = 4 };
    const size_t size = (operation < POST) ? length : sizeof(uint64_t);
    char *local = calloc(COUNT, size);
    ucs_status_ptr_t requests[COUNT];
    struct cw_target target;

    assert_non_null(local);
    cw_target_open(&target, pair, servant, kind, COUNT * size);
    if (operation == PUT) {
        cw_pattern_fill(local, COUNT * size, length);
    } else if (operation == GET) {
        cw_target_fill(&target, 0, COUNT * size, length);
    }
    for (size_t i = 0; i < COUNT; i++) {
        requests[i] = start(&target, operation, local + i * size, i * size, size);
    }
    destroy_key(&target);
    for (int i = 0; i < COUNT; i++) {
        if (flush && UCS_PTR_IS_PTR(requests[i])) {
            ucp_request_free(requests[i]);
        } else {
            assert_int_equal(cw_pair_wait(pair, requests[i], "an access whose key is gone"), UCS_OK);
        }
    }
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    if (operation == PUT) {
        cw_target_check(&target, 0, COUNT * size, length);
    } else if (operation == GET) {
        cw_pattern_check(local, COUNT * size, length);
    }
    for (size_t i = 0; i < COUNT && operation >= POST; i++) {
        assert_int_equal(cw_target_peek(&target, i * size), 1);
    }
    close_without_key(&target);
    free(local);
}

static void all_without_key(struct cw_pair *pair, struct cw_servant *servant)
{
    static const size_t lengths[] = {8, 1000, 9000, 33288, 140000, 560000};

    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            without_key(pair, servant, (enum cw_memory)kind, PUT, lengths[i], (kind + i) % 2 == 0);
            without_key(pair, servant, (enum cw_memory)kind, GET, lengths[i], (kind + i) % 2 == 0);
        }
        without_key(pair, servant, (enum cw_memory)kind, POST, 8, true);
        without_key(pair, servant, (enum cw_memory)kind, FETCH, 8, false);
    }
}

API_TEST(test_key)
{
    cw_pair_open(pair, &plain);
    all_without_key(pair, NULL);
    cw_pair_close(pair);
}

API_TEST(test_key_of_another_process)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    all_without_key(pair, &servant);
    cw_servant_dismiss(&servant);
}

/* Before the endpoint has connected, so that everything waits for that. */
API_TEST(test_key_before_the_connection)
{
    for (int operation = 0; operation < OPERATIONS; operation++) {
        cw_pair_open(pair, &plain);
        without_key(pair, NULL, CW_MEMORY_HEAP, (enum operation)operation, 33288, false);
        cw_pair_close(pair);
    }
}

static void destroy_in_callback(void *request, ucs_status_t status, void *user_data)
{
    ucp_rkey_destroy(*(ucp_rkey_h *)user_data);
    *(ucp_rkey_h *)user_data = NULL;
    assert_int_equal(status, UCS_OK);
    ucp_request_free(request);
}

/* The callback of an operation destroys the key: the last moment that KEY-6 names. */
API_TEST(test_key_in_the_callback)
{
    ucp_request_param_t param = cw_param_none();
    char *local = malloc(560000);
    struct cw_target target;
    ucs_status_ptr_t result;

    assert_non_null(local);
    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 560000);
    cw_target_fill(&target, 0, 560000, 3);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.send = destroy_in_callback;
    param.user_data = &target.key;
    result = ucp_get_nbx(target.ep, local, 560000, target.address, target.key, &param);
    assert_false(UCS_PTR_IS_ERR(result));
    cw_pair_until(pair, target.key == NULL, "the callback");
    cw_pattern_check(local, 560000, 3);
    close_without_key(&target);
    cw_pair_close(pair);
    free(local);
}

/* What is under way when the worker is destroyed ends there, without the key. */
API_TEST(test_key_when_the_worker_ends)
{
    struct cw_target target;
    char *local;

    cw_test_need_two_workers();
    local = malloc(560000);
    assert_non_null(local);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        ucs_status_ptr_t result;

        cw_pair_open(pair, &plain);
        cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 560000);
        result = start(&target, (enum operation)operation, local, 0, operation < POST ? 560000 : 8);
        assert_false(UCS_PTR_IS_ERR(result));
        if (result != NULL) {
            ucp_request_free(result);
        }
        destroy_key(&target);
        cw_side_destroy(pair->tx);
        close_without_key(&target);
        cw_side_destroy(pair->rx);
        memset(pair, 0, sizeof(*pair));
    }
    free(local);
}

/* ---- generic types ---- */

static void *start_bytes(void *context, void *buffer, size_t count)
{
    uint64_t *state = malloc(2 * sizeof(*state));

    (void)context;
    assert_non_null(state);
    state[0] = (uintptr_t)buffer;
    state[1] = count;
    return state;
}

static void *start_const_bytes(void *context, const void *buffer, size_t count)
{
    return start_bytes(context, (void *)(uintptr_t)buffer, count);
}

static size_t size_of_bytes(void *state)
{
    return ((const uint64_t *)state)[1];
}

static size_t pack_bytes(void *state, size_t offset, void *to, size_t max)
{
    const size_t left = size_of_bytes(state) - offset, length = left < max ? left : max;

    memcpy(to, (const char *)(uintptr_t)((const uint64_t *)state)[0] + offset, length);
    return length;
}

static ucs_status_t unpack_bytes(void *state, size_t offset, const void *from, size_t length)
{
    memcpy((char *)(uintptr_t)((const uint64_t *)state)[0] + offset, from, length);
    return UCS_OK;
}

/* DT-6: what the type's functions need is the program's; here they need nothing. */
API_TEST(test_generic_type)
{
    static const size_t lengths[] = {10, 5000, 300000};
    static const ucp_generic_dt_ops_t ops = {.start_pack = start_const_bytes,
                                           .start_unpack = start_bytes,
                                           .packed_size = size_of_bytes,
                                           .pack = pack_bytes,
                                           .unpack = unpack_bytes,
                                           .finish = free};
    char *from = malloc(300000), *to = malloc(300000);

    cw_test_skip_reference("it frees the type at once");
    assert_true(from != NULL && to != NULL);
    cw_pair_open(pair, &plain);
    for (size_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
        const size_t length = lengths[i / 2];
        ucp_request_param_t param = cw_param_none();
        ucs_status_ptr_t sent, received = NULL;

        cw_pattern_fill(from, length, i);
        memset(to, 0, length);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        assert_int_equal(ucp_dt_create_generic(&ops, NULL, &param.datatype), UCS_OK);
        received = ucp_tag_recv_nbx(pair->rx->worker, to, length, i, CW_TAG_ALL, &param);
        sent = (i % 2 == 0) ? ucp_tag_send_nbx(pair->tx->ep, from, length, i, &param)
                            : ucp_tag_send_sync_nbx(pair->tx->ep, from, length, i, &param);
        ucp_dt_destroy(param.datatype);
        reuse_freed_memory();
        assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
        cw_pattern_check(to, length, i);
    }
    cw_pair_close(pair);
    free(from);
    free(to);
}

/* ---- many pieces ---- */

#if UCP_API_VERSION >= UCP_VERSION(1, 22)
/* Puts, then gets, many pieces of that length. The keys go, and so does their array; the others stay (N22-91,
 * N23-34). */
static void pieces_without_keys(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind, size_t length)
{
    enum { COUNT = 8 };
    char *local = malloc(COUNT * length);
    ucp_rkey_h *rkeys = malloc(COUNT * sizeof(*rkeys));
    ucp_dt_local_sgl_t here = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS};
    ucp_dt_remote_sgl_t there = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                              UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS};
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result = NULL;
    void *buffers[COUNT];
    size_t lengths[COUNT];
    uint64_t addresses[COUNT];
    struct cw_target target;

    assert_true(local != NULL && rkeys != NULL);
    cw_target_open(&target, pair, servant, kind, COUNT * length);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE;
    param.datatype = param.remote_datatype = ucp_dt_make_sgl();
    param.remote = &there;
    here.buffers = buffers;
    here.lengths = there.lengths = lengths;
    there.remote_addrs = addresses;
    there.rkeys = rkeys;
    cw_target_fill(&target, 0, COUNT * length, 5);
    cw_pattern_fill(local, COUNT * length, 4);
    for (size_t i = 0; i < COUNT; i++) {
        buffers[i] = local + i * length;
        lengths[i] = length;
        addresses[i] = target.address + i * length;
        rkeys[i] = target.key;
    }
    result = (length % 2) ? ucp_get_nbx(target.ep, &here, COUNT, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID, &param)
                          : ucp_put_nbx(target.ep, &here, COUNT, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID, &param);
    destroy_key(&target);
    memset(rkeys, 0xe5, COUNT * sizeof(*rkeys));
    free(rkeys);
    assert_int_equal(cw_pair_wait(pair, result, "pieces whose keys are gone"), UCS_OK);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    if (length % 2) {
        cw_pattern_check(local, COUNT * length, 5);
    } else {
        cw_target_check(&target, 0, COUNT * length, 4);
    }
    close_without_key(&target);
    free(local);
}

static void all_pieces_without_keys(struct cw_pair *pair, struct cw_servant *servant)
{
    static const size_t lengths[] = {64, 65, 2000, 2001, 70000, 70001};

    for (int kind = 0; kind < CW_MEMORY_SHARED; kind++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            pieces_without_keys(pair, servant, (enum cw_memory)kind, lengths[i]);
        }
    }
}

API_TEST(test_keys_of_many_pieces)
{
    struct cw_servant servant;

    cw_pair_open(pair, &plain);
    all_pieces_without_keys(pair, NULL);
    cw_pair_close(pair);
    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    all_pieces_without_keys(pair, &servant);
    cw_servant_dismiss(&servant);
}
#endif

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, 1);
}
