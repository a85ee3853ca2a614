/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets of many pieces: N22-90 to N22-104, VER-21, and lists that lie.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

#define MOST      4096
#define ROOM      (4u * CW_MIB)
#define FEATURES  (CW_RMA_FEATURES | UCP_FEATURE_STREAM)

static const struct cw_pair_config plain = {.features = FEATURES};

/* One list for both sides, all members that no mask names garbage. */
struct lists {
    ucp_dt_local_sgl_t local;
    ucp_dt_remote_sgl_t remote;
    ucp_request_param_t param;
    void *buffers[MOST];
    size_t lengths[MOST], remote_lengths[MOST], counts[MOST], strides[MOST];
    uint64_t addresses[MOST];
    ucp_rkey_h rkeys[MOST];
    ucp_mem_h memhs[MOST];
    size_t count;
};

static struct lists *lists_new(void)
{
    struct lists *lists = malloc(sizeof(*lists));

    assert_non_null(lists);
    memset(lists, 0xff, sizeof(*lists));
    lists->count = 0;
    lists->local.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS;
    lists->local.buffers = lists->buffers;
    lists->local.lengths = lists->lengths;
    lists->remote.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS | UCP_DT_REMOTE_SGL_FIELD_LENGTHS |
                               UCP_DT_REMOTE_SGL_FIELD_RKEYS;
    lists->remote.remote_addrs = lists->addresses;
    lists->remote.lengths = lists->remote_lengths;
    lists->remote.rkeys = lists->rkeys;
    lists->param = cw_param_none();
    lists->param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                                 UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT;
    lists->param.datatype = ucp_dt_make_sgl();
    lists->param.remote_datatype = ucp_dt_make_sgl();
    lists->param.remote = &lists->remote;
    return lists;
}

static void add(struct lists *lists, struct cw_target *target, void *buffer, size_t offset, size_t length)
{
    const size_t i = lists->count++;

    assert_true(i < MOST && offset + length <= target->length);
    lists->buffers[i] = buffer;
    lists->lengths[i] = lists->remote_lengths[i] = length;
    lists->addresses[i] = target->address + offset;
    lists->rkeys[i] = target->key;
    lists->param.remote_count = lists->count;
}

static ucs_status_ptr_t start(struct cw_target *target, struct lists *lists, bool get)
{
    return get ? ucp_get_nbx(target->ep, &lists->local, lists->count, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID,
                             &lists->param) :
                 ucp_put_nbx(target->ep, &lists->local, lists->count, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID,
                             &lists->param);
}

static void move(struct cw_target *target, struct lists *lists, bool get)
{
    assert_int_equal(cw_pair_wait(target->pair, start(target, lists, get), "many pieces"), UCS_OK);
    assert_int_equal(cw_target_flush(target), UCS_OK);
}

/* Puts, gets what was put, and compares: `length(i)` bytes each, in two regions that take turns of `run` pieces. */
static void there_and_back(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind, size_t count,
                           size_t (*length_of)(size_t i), size_t run)
{
    struct lists *lists = lists_new();
    struct cw_target targets[2];
    size_t i, at[2] = {0, 0}, total = 0, length;
    char *out = malloc(ROOM), *in = malloc(ROOM);

    assert_true(out != NULL && in != NULL);
    cw_target_open(&targets[0], pair, servant, kind, ROOM);
    cw_target_open(&targets[1], pair, servant, CW_MEMORY_HEAP, ROOM);
    cw_pattern_fill(out, ROOM, 9);
    memset(in, 0, ROOM);
    for (i = 0; i < count; i++) {
        const size_t to = i / run % 2;

        length = length_of(i);
        add(lists, &targets[to], out + total, at[to], length);
        total += length;
        at[to] += length + i % 5; /* with gaps, at any alignment */
    }
    move(&targets[0], lists, false);
    for (i = 0; i < count; i++) {
        lists->buffers[i] = in + ((char *)lists->buffers[i] - out);
    }
    move(&targets[1], lists, true);
    assert_memory_equal(in, out, total);
    for (i = total; i < ROOM; i++) {
        assert_int_equal(in[i], 0);
    }
    cw_target_close(&targets[1]);
    cw_target_close(&targets[0]);
    free(out);
    free(in);
    free(lists);
}

static size_t small(size_t i)
{
    return 1 + (i * 37) % 60;
}

static size_t page(size_t i)
{
    (void)i;
    return CW_PAGE;
}

static size_t odd(size_t i)
{
    return 1000 + (i * 613) % 9000;
}

static size_t mixed(size_t i)
{
    static const size_t lengths[] = {0, 1, 4096, 8, 0, 300000, 257, 65537, 100};

    return lengths[i % 9];
}

/* N22-90, N22-98, N22-100, N22-101, N23-35, N23-36 */
static void sizes(struct cw_pair *pair, struct cw_servant *servant)
{
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        there_and_back(pair, servant, (enum cw_memory)kind, 1, page, 1);
        there_and_back(pair, servant, (enum cw_memory)kind, 1000, page, 1);
        there_and_back(pair, servant, (enum cw_memory)kind, 1000, page, 99);
        there_and_back(pair, servant, (enum cw_memory)kind, 500, odd, 70);
        there_and_back(pair, servant, (enum cw_memory)kind, MOST, small, 1);
        there_and_back(pair, servant, (enum cw_memory)kind, MOST, small, 1000);
        there_and_back(pair, servant, (enum cw_memory)kind, 60, mixed, 1);
        there_and_back(pair, servant, (enum cw_memory)kind, 60, mixed, 30);
    }
}

API_TEST(test_n22_98_sizes)
{
    cw_pair_open(pair, &plain);
    sizes(pair, NULL);
    cw_pair_close(pair);
}

/* Where the system can copy, it does if the owner stays away. */
API_TEST(test_n22_100_the_system_copies)
{
    struct cw_servant servant;
    struct cw_target target;
    struct lists *lists;
    char *from;

    cw_test_need_two_processes();
    if (!cw_test_tls_has("shm")) {
        skip();
    }
    cw_servant_start(&servant, pair);
    cw_target_open(&target, pair, &servant, CW_MEMORY_HEAP, ROOM);
    cw_target_try(&target, 0); /* connects */
    from = malloc(1000 * CW_PAGE);
    assert_non_null(from);
    cw_pattern_fill(from, 1000 * CW_PAGE, 8);
    lists = lists_new();
    for (size_t i = 0; i < 1000; i++) {
        add(lists, &target, from + i * CW_PAGE, i * CW_PAGE, CW_PAGE);
    }
    cw_target_order(&target, CW_ORDER_SILENT, 0, 0, 0);
    move(&target, lists, false);
    cw_target_check(&target, 0, 1000 * CW_PAGE, 8);
    cw_target_order(&target, CW_ORDER_LIVELY, 0, 0, 0);
    free(from);
    free(lists);
    cw_target_close(&target);
    cw_servant_dismiss(&servant);
}

API_TEST(test_n22_98_sizes_to_another_process)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    sizes(pair, &servant);
    cw_servant_dismiss(&servant);
}

#define BLOCKED 9u /* elements of the tests of counts and strides */

/* Elements of several blocks: short and long ones, adjacent, apart, overlapping, and none at all. */
static const struct {
    size_t length, count, stride;
} blocked[BLOCKED] = {
    {3, 5, 7}, {16, 4, 16},  {1, 9, 2},       {0, 3, 5},         {8, 0, 1},
    {8, 3, 2}, {6, 1000, 0}, {2000, 6, 3000}, {40000, 3, 70001},
};

static size_t blocked_span(size_t i)
{
    return (blocked[i].count == 0) ? 0 : (blocked[i].count - 1) * blocked[i].stride + blocked[i].length;
}

/* Copies what an element names, block by block. */
static void blocked_copy(size_t i, char *to, const char *from)
{
    for (size_t j = 0; j < blocked[i].count; j++) {
        memcpy(to + j * blocked[i].stride, from + j * blocked[i].stride, blocked[i].length);
    }
}

/* N22-97, N23-31, N23-33: `lengths` on both sides is that of one block, and the blocks of the remote side lie as far
 * apart as those here; the bytes between them stay as they are on either side. */
static void counts_and_strides(struct cw_pair *pair, struct cw_servant *servant, enum cw_memory kind)
{
    const size_t room = 256u << 10;
    const ucp_request_param_t none = cw_param_none();
    struct lists *lists = lists_new();
    char *from = malloc(room), *wanted = malloc(room), *to = malloc(room);
    struct cw_target target;
    size_t i, here, there;

    assert_true(from != NULL && wanted != NULL && to != NULL);
    cw_target_open(&target, pair, servant, kind, room);
    cw_pattern_fill(from, room, 3);
    memset(wanted, 0x55, room);
    cw_target_set(&target, 0, room, 0x55);
    for (i = 0, here = 0, there = 5; i < BLOCKED; i++) {
        add(lists, &target, from + here, there, blocked[i].length);
        assert_true(there + blocked_span(i) <= room);
        lists->counts[i] = blocked[i].count;
        lists->strides[i] = blocked[i].stride;
        blocked_copy(i, wanted + there, from + here);
        here += blocked_span(i) + 8;
        there += blocked_span(i) + 3;
    }
    lists->local.field_mask |= UCP_DT_LOCAL_SGL_FIELD_COUNTS | UCP_DT_LOCAL_SGL_FIELD_STRIDES;
    lists->local.counts = lists->counts;
    lists->local.strides = lists->strides;
    move(&target, lists, false);
    memset(to, 1, room);
    assert_int_equal(cw_pair_wait(pair, ucp_get_nbx(target.ep, to, room, target.address, target.key, &none), "a get"),
                     UCS_OK);
    assert_memory_equal(to, wanted, room);
    memset(to, 0x66, room);
    memset(wanted, 0x66, room);
    for (i = 0; i < BLOCKED; i++) {
        blocked_copy(i, wanted + ((char *)lists->buffers[i] - from), lists->buffers[i]);
        lists->buffers[i] = to + ((char *)lists->buffers[i] - from);
    }
    move(&target, lists, true);
    assert_memory_equal(to, wanted, room);
    cw_target_close(&target);
    free(from);
    free(wanted);
    free(to);
    free(lists);
}

API_TEST(test_n22_97_counts_and_strides)
{
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        counts_and_strides(pair, NULL, (enum cw_memory)kind);
    }
    cw_pair_close(pair);
}

API_TEST(test_n22_97_to_another_process)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        counts_and_strides(pair, &servant, (enum cw_memory)kind);
    }
    cw_servant_dismiss(&servant);
}

/* N22-97: what an element of several blocks may ask for. */
API_TEST(test_n22_97_bounds)
{
    static const struct {
        size_t length, remote_length, count, stride;
        int strides; /* the member is given */
        ucs_status_t status;
    } cases[] = {
        {8, 8, 1, 0, 0, UCS_OK},
        {8, 8, 0, 0, 0, UCS_OK},
        {8, 8, 2, 0, 0, UCS_ERR_INVALID_PARAM},                 /* the second block lies nowhere */
        {8, 16, 2, 8, 1, UCS_ERR_INVALID_PARAM},                /* the product, not the block */
        {8, 8, 2, 56, 1, UCS_OK},                               /* up to the last byte */
        {8, 8, 2, 57, 1, UCS_ERR_INVALID_ADDR},                 /* one byte more than the key has */
        {8, 8, 3, 32, 1, UCS_ERR_INVALID_ADDR},
        {8, 8, SIZE_MAX, 0, 1, UCS_OK},                         /* the same block again */
        {8, 8, SIZE_MAX / 16 + 2, 16, 1, UCS_ERR_INVALID_PARAM}, /* wraps around */
        {8, 8, 2, SIZE_MAX - 7, 1, UCS_ERR_INVALID_PARAM},
    };
    struct cw_target target;
    char from[64];

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, sizeof(from));
    memset(from, 1, sizeof(from));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int get = 0; get < 2; get++) {
            struct lists *lists = lists_new();
            ucs_status_ptr_t result;

            add(lists, &target, from, 0, cases[i].length);
            lists->remote_lengths[0] = cases[i].remote_length;
            lists->counts[0] = cases[i].count;
            lists->strides[0] = cases[i].stride;
            lists->local.counts = lists->counts;
            lists->local.strides = lists->strides;
            lists->local.field_mask |= UCP_DT_LOCAL_SGL_FIELD_COUNTS;
            lists->local.field_mask |= cases[i].strides ? UCP_DT_LOCAL_SGL_FIELD_STRIDES : 0;
            result = start(&target, lists, get != 0);
            assert_int_equal(cw_pair_wait(pair, result, "an element of blocks"), cases[i].status);
            lists->local.field_mask &= ~(uint64_t)UCP_DT_LOCAL_SGL_FIELD_COUNTS; /* strides alone have no effect */
            lists->remote_lengths[0] = cases[i].length;
            result = start(&target, lists, get != 0);
            assert_int_equal(cw_pair_wait(pair, result, "an element of one block"), UCS_OK);
            free(lists);
        }
    }
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_target_close(&target);
    cw_pair_close(pair);
}

/* N22-92, N22-99 */
API_TEST(test_n22_99_requests)
{
    struct cw_user_request memory;
    struct cw_op op = {0};
    struct cw_target target;
    struct lists *lists;
    ucp_request_param_t of_op;
    ucs_status_ptr_t result;
    char from[64];

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, sizeof(from));
    cw_pattern_fill(from, sizeof(from), 4);
    lists = lists_new();
    add(lists, &target, from, 0, 40);
    add(lists, &target, from + 40, 40, 24);
    of_op = cw_param_send(&op);
    lists->param.op_attr_mask |= of_op.op_attr_mask | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    lists->param.cb = of_op.cb;
    lists->param.user_data = of_op.user_data;
    result = start(&target, lists, false);
    assert_true(UCS_PTR_IS_PTR(result));
    cw_op_started(&op, result);
    assert_int_equal(cw_op_wait(pair, &op, "a put of pieces"), UCS_OK);
    assert_int_equal(op.calls, 1);
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_target_check(&target, 0, sizeof(from), 4);

    lists->param.op_attr_mask &= ~(of_op.op_attr_mask | UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
    lists->param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_MULTI_SEND;
    cw_target_set(&target, 0, sizeof(from), 0);
    result = start(&target, lists, false); /* freed at once; the flush covers it */
    if (UCS_PTR_IS_PTR(result)) {
        ucp_request_free(result);
    }
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    cw_target_check(&target, 0, sizeof(from), 4);

    memory = cw_user_request_new(pair->tx->context);
    lists->param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
    lists->param.request = memory.handle;
    result = start(&target, lists, true);
    if (result != NULL) {
        assert_ptr_equal(result, memory.handle);
        while (ucp_request_check_status(result) == UCS_INPROGRESS) {
            cw_pair_progress(pair);
        }
    }
    cw_user_request_check(&memory);
    cw_user_request_free(&memory);
    free(lists);
    cw_target_close(&target);
    cw_pair_close(pair);
}

static struct cw_target *judged;
static struct lists *judged_lists;

static void refused(ucs_status_t expected)
{
    for (int get = 0; get < 2; get++) {
        ucs_status_ptr_t result = start(judged, judged_lists, get != 0);

        assert_true(UCS_PTR_IS_ERR(result));
        assert_int_equal(UCS_PTR_STATUS(result), expected);
    }
}

/* What one test changes goes back by this. */
static struct lists *fresh(void *buffer)
{
    free(judged_lists);
    judged_lists = lists_new();
    for (size_t i = 0; i < 4; i++) {
        add(judged_lists, judged, (char *)buffer + 16 * i, 16 * i, 16);
    }
    return judged_lists;
}

/* Members and arrays that are missing. */
static void refused_lists(char *from)
{
    struct lists *lists;

    for (uint64_t bit = 1; bit <= UCP_DT_REMOTE_SGL_FIELD_RKEYS; bit <<= 1) {
        lists = fresh(from);
        lists->remote.field_mask &= ~bit;
        refused(UCS_ERR_INVALID_PARAM);
    }
    for (uint64_t bit = 1; bit <= UCP_DT_LOCAL_SGL_FIELD_LENGTHS; bit <<= 1) {
        lists = fresh(from);
        lists->local.field_mask &= ~bit;
        refused(UCS_ERR_INVALID_PARAM);
    }
    lists = fresh(from), lists->local.buffers = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->local.lengths = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->remote.remote_addrs = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->remote.lengths = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->remote.rkeys = NULL, refused(UCS_ERR_INVALID_PARAM);
    for (uint64_t bit = UCP_DT_LOCAL_SGL_FIELD_MEMHS; bit <= UCP_DT_LOCAL_SGL_FIELD_STRIDES; bit <<= 1) {
        lists = fresh(from);
        lists->local.field_mask |= bit;
        lists->local.memhs = NULL;
        lists->local.counts = NULL;
        lists->local.strides = NULL;
        refused(UCS_ERR_INVALID_PARAM);
    }
}

/* What does not fit together. */
static void refused_elements(char *from)
{
    struct lists *lists;

    lists = fresh(from), lists->param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_REMOTE;
    refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->param.remote = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_REMOTE_DATATYPE;
    refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->param.remote_datatype = ucp_dt_make_contig(1), refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->param.remote_count = 3, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->rkeys[3] = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->rkeys[0] = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->buffers[3] = NULL, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->remote_lengths[3] = 15, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->lengths[2] = SIZE_MAX, refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->addresses[3] += 1, refused(UCS_ERR_INVALID_ADDR);
    lists = fresh(from), lists->addresses[0] = UINT64_MAX - 3, refused(UCS_ERR_INVALID_ADDR);
}

/* A further one to the same peer, of which no key is. */
static ucp_ep_h another_ep(struct cw_pair *pair)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    size_t length;
    void *address = cw_test_worker_address(pair->rx->worker, &length);
    ucp_ep_h ep;

    params.address = address;
    assert_int_equal(ucp_ep_create(pair->tx->worker, &params, &ep), UCS_OK);
    free(address);
    return ep;
}

static void close_ep(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
}

/* N22-93, N22-94, N22-95, N23-30: nothing is written by what is refused. */
API_TEST(test_n22_94_refusals)
{
    struct cw_target target;
    struct lists *lists;
    char from[64];
    ucp_mem_h memh;
    ucp_ep_h other;

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, sizeof(from));
    memset(from, 1, sizeof(from));
    cw_target_set(&target, 0, sizeof(from), 2);
    judged = &target;
    refused_lists(from);
    refused_elements(from);
    other = another_ep(pair);
    lists = fresh(from);
    assert_int_equal(UCS_PTR_STATUS(ucp_put_nbx(other, &lists->local, 4, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID,
                                                &lists->param)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_STATUS(ucp_get_nbx(other, &lists->local, 4, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID,
                                                &lists->param)), UCS_ERR_INVALID_PARAM);
    close_ep(pair, other);
    lists = fresh(from), lists->local.counts = lists->counts, lists->local.strides = lists->strides;
    lists->local.field_mask |= UCP_DT_LOCAL_SGL_FIELD_COUNTS | UCP_DT_LOCAL_SGL_FIELD_STRIDES;
    for (size_t i = 0; i < 4; i++) { /* counts that make too much of it */
        lists->counts[i] = SIZE_MAX / 8 + 3;
        lists->strides[i] = 16;
    }
    refused(UCS_ERR_INVALID_PARAM);
    memh = cw_mem_map(pair->tx->context, from, 48, 0);
    lists = fresh(from), lists->local.memhs = lists->memhs;
    lists->local.field_mask |= UCP_DT_LOCAL_SGL_FIELD_MEMHS;
    for (size_t i = 0; i < 4; i++) {
        lists->memhs[i] = memh; /* covers all but the last one */
    }
    refused(UCS_ERR_INVALID_PARAM);
    lists->memhs[3] = NULL;
    refused(UCS_ERR_INVALID_PARAM);
    cw_mem_unmap(pair->tx->context, memh);
    lists = fresh(from), lists->param.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    refused(UCS_ERR_NO_RESOURCE);
    lists = fresh(from), lists->param.op_attr_mask |= UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;
    refused(UCS_ERR_INVALID_PARAM);
    lists = fresh(from), lists->param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    lists->param.memory_type = UCS_MEMORY_TYPE_CUDA;
    refused(UCS_ERR_UNSUPPORTED);
    lists = fresh(from);
    assert_int_equal(UCS_PTR_STATUS(ucp_put_nbx(target.ep, &lists->local, 4, target.address, NULL, &lists->param)),
                     UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_STATUS(ucp_put_nbx(target.ep, &lists->local, 4, UCP_REMOTE_ADDR_INVALID, target.key,
                                                &lists->param)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_STATUS(ucp_put_nbx(target.ep, NULL, 4, UCP_REMOTE_ADDR_INVALID, NULL, &lists->param)),
                     UCS_ERR_INVALID_PARAM);
    assert_null(ucp_put_nbx(target.ep, NULL, 0, 0, NULL, &lists->param)); /* nothing else is checked */
    assert_null(ucp_get_nbx(target.ep, NULL, 0, 0, NULL, &lists->param));
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    for (size_t i = 0; i < sizeof(from); i++) {
        assert_int_equal(target.region.base[i], 2);
        assert_int_equal(from[i], 1);
    }
    free(judged_lists);
    judged_lists = NULL;
    cw_target_close(&target);
    cw_pair_close(pair);
}

/* N22-94, N22-96: handles are taken where they cover. */
API_TEST(test_n22_96_memory_handles)
{
    struct cw_target target;
    struct lists *lists;
    char from[64];
    ucp_mem_h memh;

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, sizeof(from));
    cw_pattern_fill(from, sizeof(from), 6);
    memh = cw_mem_map(pair->tx->context, from, sizeof(from), 0);
    lists = lists_new();
    lists->local.field_mask |= UCP_DT_LOCAL_SGL_FIELD_MEMHS;
    lists->local.memhs = lists->memhs;
    for (size_t i = 0; i < 4; i++) {
        add(lists, &target, from + 16 * i, 16 * i, 16);
        lists->memhs[i] = memh;
    }
    lists->param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH; /* not for this datatype */
    lists->param.memh = NULL;
    move(&target, lists, false);
    cw_target_check(&target, 0, sizeof(from), 6);
    cw_mem_unmap(pair->tx->context, memh);
    free(lists);
    cw_target_close(&target);
    cw_pair_close(pair);
}

static void invalid(ucs_status_ptr_t result)
{
    assert_true(UCS_PTR_IS_ERR(result));
    assert_int_equal(UCS_PTR_STATUS(result), UCS_ERR_INVALID_PARAM);
}

/* N22-101, N22-102, N22-103 */
API_TEST(test_n22_102_other_calls)
{
    static const uint32_t bits[] = {UCP_OP_ATTR_FIELD_DATATYPE, UCP_OP_ATTR_FIELD_REMOTE_DATATYPE,
                                    UCP_OP_ATTR_FIELD_REMOTE, UCP_OP_ATTR_FIELD_REMOTE_COUNT};
    ucp_datatype_attr_t attr = {.field_mask = UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE};
    struct cw_target target;
    ucp_request_param_t param;
    uint64_t words[2] = {3, 4};
    size_t length;

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 64);
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        param = cw_param_none();
        param.op_attr_mask |= bits[i];
        param.datatype = ucp_dt_make_sgl();
        invalid(ucp_tag_send_nbx(pair->tx->ep, words, 8, 1, &param));
        invalid(ucp_tag_send_sync_nbx(pair->tx->ep, words, 8, 1, &param));
        invalid(ucp_tag_recv_nbx(pair->rx->worker, words, 8, 1, CW_TAG_ALL, &param));
        invalid(ucp_am_send_nbx(pair->tx->ep, 1, NULL, 0, words, 8, &param));
        invalid(ucp_stream_send_nbx(pair->tx->ep, words, 8, &param));
        invalid(ucp_stream_recv_nbx(pair->rx->ep, words, 8, &length, &param));
        if (i > 0) {
            param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
            param.datatype = ucp_dt_make_contig(8);
        }
        invalid(ucp_atomic_op_nbx(target.ep, UCP_ATOMIC_OP_ADD, words, 1, target.address, target.key, &param));
        if (i > 0) {
            invalid(ucp_get_nbx(target.ep, words, 1, target.address, target.key, &param));
            words[0] = 70 + i;
            assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(target.ep, words, 1, target.address, target.key, &param),
                                          "a put"), UCS_OK); /* which ignores it */
            assert_int_equal(cw_target_flush(&target), UCS_OK);
            assert_int_equal(cw_target_peek(&target, 0), words[0]);
        }
    }
    assert_int_equal(ucp_dt_query(ucp_dt_make_sgl(), &attr), UCS_ERR_INVALID_PARAM);
    ucp_dt_destroy(ucp_dt_make_sgl());
    cw_target_close(&target);
    cw_pair_close(pair);
}

/* N22-92: an error ends the whole; what was not asked of the peer is not. */
API_TEST(test_n22_92_the_owner_unmapped)
{
    struct cw_servant servant;
    struct cw_target targets[2];
    struct lists *lists;
    char to[200];
    ucs_status_t status;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    cw_target_open(&targets[0], pair, &servant, CW_MEMORY_HEAP, CW_PAGE);
    cw_target_open(&targets[1], pair, &servant, CW_MEMORY_HEAP, CW_PAGE);
    cw_target_order(&targets[1], CW_ORDER_UNMAP, 0, 0, 0);
    lists = lists_new();
    add(lists, &targets[0], to, 0, 100);
    add(lists, &targets[1], to + 100, 0, 100);
    status = cw_pair_wait(pair, start(&targets[0], lists, true), "a get of pieces");
    assert_true(status == UCS_ERR_CONNECTION_RESET || (status == UCS_ERR_INVALID_ADDR && cw_test_tls_has("rc")));
    free(lists);
    cw_target_close(&targets[0]);
    cw_target_close(&targets[1]);
    cw_servant_dismiss(&servant);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, 1);
}
