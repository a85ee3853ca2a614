/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get in all forms, sizes and alignments, between all kinds of memory, to the own process and to another one:
 * RMA-1..5, RMA-7..10, OPA-4, OPA-6, OPA-13..18, R1, R4, R17; also of several pieces, and that a put completes when its
 * buffer may be reused (VER-5, N22-111).
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

static const struct cw_pair_config config = {.features = CW_RMA_FEATURES, .thread_mode = UCS_THREAD_MODE_SERIALIZED};

enum variant {
    BLOCKING,
    NBI,
    NB,
    NBX,
    NBX_PLAIN,   /* without callback */
    NBX_NO_IMM,
    NBX_FAST,
    NBX_MULTI,
    NBX_FORCE,
    NBX_USER,
    NBX_MEMH,
    NBX_WORDS,   /* elements of more than one byte */
    NBX_IOV,
    NBX_FREED,   /* the request is freed at once */
    VARIANTS
};

static const char *const variant_names[] = {"blocking", "nbi", "nb", "nbx", "nbx without callback", "no-imm", "fast",
                                        "multi", "force", "user", "memh", "words", "iov", "freed"};

static const size_t small_sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 64, 65, 200, 1000, 4095, 4096, 4097, 8200};
static const size_t large_sizes[] = {16384, 30001, 65535, 65536, 65543, 200003, CW_MIB, (4 << 20) - 1, 4 << 20};
enum {
    SMALL = sizeof(small_sizes) / sizeof(small_sizes[0]),
    LARGE = sizeof(large_sizes) / sizeof(large_sizes[0]),
    ROOM = (4 << 20) + 256,
    ENTRIES = 40,
    MARGIN = 64
};

struct transfer {
    struct cw_target *target;
    enum variant variant;
    bool get;
    size_t length;
    size_t offset;      /* at the target */
    char *local;        /* with MARGIN bytes around */
    struct cw_region own;
    ucp_dt_iov_t iov[ENTRIES];
    struct cw_op op;
    bool known_complete;
};

static char running_text[200];
static struct cw_op *nb_op;

static void nb_done(void *request, ucs_status_t status)
{
    nb_op->calls++;
    nb_op->status = status;
    nb_op->checked = ucp_request_check_status(request);
    nb_op->request = request;
}

static ucs_status_ptr_t start_nbx(struct transfer *t, const void *buffer, size_t count, ucp_request_param_t *param)
{
    uint64_t address = t->target->address + t->offset;

    return t->get ? ucp_get_nbx(t->target->ep, (void *)(uintptr_t)buffer, count, address, t->target->key, param) :
                    ucp_put_nbx(t->target->ep, buffer, count, address, t->target->key, param);
}

/* Entries of very different lengths, some of them empty. */
static size_t cut(struct transfer *t)
{
    size_t offset = 0, count = 0;

    while (count < ENTRIES - 1) {
        size_t parts = count % 4 == 0 ? 2 : 7;
        size_t piece = count % 5 == 3 ? 0 : (t->length - offset) / parts;

        t->iov[count].buffer = piece == 0 ? NULL : t->local + offset;
        t->iov[count++].length = piece;
        offset += piece;
    }
    t->iov[count].buffer = t->local + offset;
    t->iov[count++].length = t->length - offset;
    return count;
}

static size_t word_of(size_t length)
{
    static const size_t words[] = {12, 8, 2};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (length % words[i] == 0) {
            return words[i];
        }
    }
    return 1;
}

/* Whatever attributes the variant has. */
static ucp_request_param_t attributes(struct transfer *t, size_t *count, const void **buffer)
{
    ucp_request_param_t param = cw_param_send(t->variant == NBX_PLAIN ? NULL : &t->op);

    *count = t->length;
    *buffer = t->local;
    switch (t->variant) {
    case NBX_NO_IMM:
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        break;
    case NBX_FAST:
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_FAST_CMPL;
        break;
    case NBX_MULTI:
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_MULTI_SEND;
        break;
    case NBX_FORCE:
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
        break;
    case NBX_MEMH:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = t->own.memh;
        break;
    case NBX_WORDS:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(word_of(t->length));
        *count = t->length / word_of(t->length);
        break;
    case NBX_IOV:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = UCP_DATATYPE_IOV;
        *count = cut(t);
        *buffer = t->iov;
        break;
    default:
        break;
    }
    return param;
}

static void finish_status(struct transfer *t, ucs_status_t status, ucs_status_t unknown)
{
    if (status != UCS_OK && status != unknown) {
        fail_msg("It ends with %s", ucs_status_string(status));
    }
    t->known_complete = status == UCS_OK;
}

static void run_blocking(struct transfer *t)
{
    struct cw_helper helper;
    ucs_status_t status;

    cw_target_lend(t->target, &helper);
    status = t->get ? ucp_get(t->target->ep, t->local, t->length, t->target->address + t->offset, t->target->key) :
                      ucp_put(t->target->ep, t->local, t->length, t->target->address + t->offset, t->target->key);
    cw_target_return(t->target, &helper);
    finish_status(t, status, UCS_OK);
}

static void run_old(struct transfer *t)
{
    uint64_t address = t->target->address + t->offset;

    if (t->variant == NBI) {
        finish_status(t, t->get ? ucp_get_nbi(t->target->ep, t->local, t->length, address, t->target->key) :
                                  ucp_put_nbi(t->target->ep, t->local, t->length, address, t->target->key),
                      UCS_INPROGRESS);
        return;
    }
    nb_op = &t->op;
    t->op.result = t->get ? ucp_get_nb(t->target->ep, t->local, t->length, address, t->target->key, nb_done) :
                            ucp_put_nb(t->target->ep, t->local, t->length, address, t->target->key, nb_done);
    assert_int_equal(t->op.calls, 0); /* R1 */
    finish_status(t, cw_op_wait(t->target->pair, &t->op, "old operation"), UCS_OK);
}

static void run_nbx(struct transfer *t)
{
    struct cw_user_request user = {0};
    const void *buffer;
    size_t count;
    ucp_request_param_t param = attributes(t, &count, &buffer);

    if (t->variant == NBX_USER) {
        user = cw_user_request_new(t->target->pair->tx->context);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
    }
    cw_op_started(&t->op, start_nbx(t, buffer, count, &param));
    assert_true(t->variant == NBX_NO_IMM || t->op.calls == 0); /* R1 */
    if (t->variant == NBX_FORCE && UCS_PTR_RAW_STATUS(t->op.result) == UCS_ERR_NO_RESOURCE) { /* OPA-16 */
        param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
        t->op.inside = true;
        cw_op_started(&t->op, start_nbx(t, buffer, count, &param));
    } else if (t->variant == NBX_FORCE) {
        assert_null(t->op.result);
    }
    memset(&param, 0xff, sizeof(param)); /* OPA-19 */
    if (t->variant == NBX_NO_IMM) {
        assert_true(UCS_PTR_IS_PTR(t->op.result)); /* OPA-14 */
    }
    if (t->variant == NBX_USER) {
        assert_true(t->op.result == NULL || t->op.result == user.handle); /* OPA-6 */
        if (t->op.result != NULL) {
            cw_pair_wait_count(t->target->pair, &t->op.calls, 1, "callback");
            assert_int_equal(ucp_request_check_status(user.handle), t->op.status);
        }
        finish_status(t, t->op.result == NULL ? UCS_OK : t->op.status, UCS_OK);
        cw_user_request_check(&user);
        cw_user_request_free(&user);
    } else if (t->variant == NBX_FREED && UCS_PTR_IS_PTR(t->op.result)) {
        ucp_request_free(t->op.result); /* R4, RMA-8 */
        t->known_complete = false;
    } else if (t->variant == NBX_PLAIN) {
        finish_status(t, cw_pair_wait(t->target->pair, t->op.result, "operation"), UCS_OK);
    } else {
        finish_status(t, cw_op_wait(t->target->pair, &t->op, "operation"), UCS_OK);
    }
}

static void run_any(struct transfer *t)
{
    if (t->variant == BLOCKING) {
        run_blocking(t);
    } else if (t->variant == NBI || t->variant == NB) {
        run_old(t);
    } else {
        run_nbx(t);
    }
}

static void check_margins(const struct transfer *t)
{
    for (int i = 0; i < MARGIN; i++) {
        assert_int_equal((unsigned char)t->local[-1 - i], CW_GUARD_VALUE);
        assert_int_equal((unsigned char)t->local[t->length + (size_t)i], CW_GUARD_VALUE);
    }
}

static void check_put(struct transfer *t, uint64_t seed)
{
    struct cw_target *target = t->target;
    size_t before = t->offset < MARGIN ? t->offset : MARGIN;
    uint64_t guard = 0x0101010101010101ull * CW_GUARD_VALUE;

    if (t->known_complete && t->length > 0) { /* RMA-1 */
        memset(t->local, 0, t->length);
    }
    assert_int_equal(cw_target_flush(target), UCS_OK);
    cw_target_check(target, t->offset, t->length, seed);
    assert_true(before == 0 || cw_target_peek(target, t->offset - 8) == guard);
    assert_true(cw_target_peek(target, t->offset + t->length) == guard);
    assert_int_equal(t->op.calls, t->op.calls > 0); /* REQ-3 */
}

static void transfer_run(struct transfer *t, uint64_t seed)
{
    size_t whole = t->length + 2 * MARGIN;

    memset(t->local - MARGIN, CW_GUARD_VALUE, whole);
    memset(&t->op, 0, sizeof(t->op));
    snprintf(running_text, sizeof(running_text), "%s %s of %zu bytes, at %#zx of the target, here at %#zx",
             variant_names[t->variant], t->get ? "get" : "put", t->length, t->offset, (size_t)t->local % CW_PAGE);
    if (t->get) {
        cw_target_fill(t->target, t->offset, t->length, seed);
        run_any(t);
        if (!t->known_complete) {
            assert_int_equal(cw_target_flush(t->target), UCS_OK); /* RMA-7, RMA-8 */
        }
        cw_pattern_check(t->local, t->length, seed); /* RMA-2 */
        check_margins(t);
        cw_target_check(t->target, t->offset, t->length, seed);
    } else {
        cw_target_set(t->target, t->offset < 8 ? t->offset : t->offset - 8, t->length + 16, CW_GUARD_VALUE);
        cw_pattern_fill(t->local, t->length, seed);
        run_any(t);
        check_margins(t);
        check_put(t, seed);
    }
}

/* The reference of this level: no lists, no NO_IMM_CMPL for what completes at once. */
static bool skipped(const struct transfer *t)
{
    return cw_test_reference() && (t->variant == NBX_IOV || t->variant == NBX_WORDS || t->variant == NBX_NO_IMM ||
                                   t->variant == NBX_FORCE);
}

static void run_size(struct transfer *t, char *room, size_t length, uint64_t *random, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        uint64_t number = cw_random_next(random);

        t->length = length;
        t->offset = 8 + number % 13;
        t->local = room + MARGIN + (number >> 8) % 17;
        if (!skipped(t)) {
            transfer_run(t, number);
        }
    }
}

static void run_matrix(struct cw_pair *pair, struct cw_servant *servant)
{
    static struct transfer t; /* outlives a failure */
    struct cw_region rooms[2];
    struct cw_target target;
    uint64_t random = 7;
    size_t step = servant == NULL ? 3 : 5; /* each variant meets each size in some memory */
    int turn = 0;

    cw_region_open(&rooms[0], pair->tx->context, CW_MEMORY_HEAP, ROOM);
    cw_region_open(&rooms[1], pair->tx->context, CW_MEMORY_ALLOCATED, ROOM);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, servant, (enum cw_memory)kind, ROOM);
        t.target = &target;
        for (int variant = 0; variant < VARIANTS; variant++) {
            for (int get = 0; get < 2; get++) {
                t.variant = (enum variant)variant;
                t.get = get;
                t.own = rooms[turn % 2];
                for (size_t i = servant == NULL ? 0 : (size_t)turn % 3; i < SMALL; i += servant == NULL ? 1 : 3) {
                    run_size(&t, t.own.base, small_sizes[i], &random, servant == NULL ? 2 : 1);
                }
                for (size_t i = (size_t)turn % step; i < LARGE; i += step) {
                    run_size(&t, t.own.base, large_sizes[i], &random, 1);
                }
                turn++;
            }
        }
        cw_target_close(&target);
    }
    cw_region_close(&rooms[0]);
    cw_region_close(&rooms[1]);
    running_text[0] = '\0';
}

static int matrix_teardown(void **state)
{
    if (running_text[0] != '\0') {
        print_error("The case was: %s\n", running_text);
        running_text[0] = '\0';
    }
    return cw_test_teardown(state);
}

API_TEST_WITH(test_matrix_in_one_process, cw_test_setup, matrix_teardown)
{
    cw_pair_open(pair, &config);
    run_matrix(pair, NULL);
    cw_pair_close(pair);
}

API_TEST_WITH(test_matrix_in_two_processes, cw_test_setup, matrix_teardown)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    run_matrix(pair, &servant);
    cw_servant_dismiss(&servant);
}

static void check_zero(struct cw_pair *pair, struct cw_target *target, uint64_t address)
{
    ucp_request_param_t param = cw_param_none();
    ucp_dt_iov_t empty[2] = {{.buffer = NULL, .length = 0}, {.buffer = NULL, .length = 0}};

    assert_null(ucp_put_nbx(pair->tx->ep, NULL, 0, address, target->key, &param)); /* RMA-3 */
    assert_null(ucp_get_nbx(pair->tx->ep, NULL, 0, address, target->key, &param));
    assert_int_equal(ucp_put_nbi(pair->tx->ep, NULL, 0, address, target->key), UCS_OK);
    assert_int_equal(ucp_get_nbi(pair->tx->ep, NULL, 0, address, target->key), UCS_OK);
    assert_null(ucp_put_nb(pair->tx->ep, NULL, 0, address, target->key, nb_done));
    assert_null(ucp_get_nb(pair->tx->ep, NULL, 0, address, target->key, nb_done));
    assert_int_equal(ucp_put(pair->tx->ep, NULL, 0, address, target->key), UCS_OK);
    assert_int_equal(ucp_get(pair->tx->ep, NULL, 0, address, target->key), UCS_OK);
    if (!cw_test_reference()) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = UCP_DATATYPE_IOV;
        assert_null(ucp_put_nbx(pair->tx->ep, empty, 2, address, target->key, &param));
        assert_null(ucp_get_nbx(pair->tx->ep, empty, 2, address, target->key, &param));
        assert_null(ucp_put_nbx(pair->tx->ep, NULL, 0, address, target->key, &param));
        param.datatype = ucp_dt_make_contig(0);
        assert_null(ucp_put_nbx(pair->tx->ep, NULL, 5, address, target->key, &param));
        param.datatype = ucp_dt_make_contig(8);
        assert_null(ucp_get_nbx(pair->tx->ep, NULL, 0, address, target->key, &param));
    }
}

API_TEST(test_rma3_nothing)
{
    struct cw_target target;

    cw_pair_open(pair, &config);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, 100);
        check_zero(pair, &target, target.address);
        check_zero(pair, &target, target.address + 100);
        check_zero(pair, &target, 0);
        check_zero(pair, &target, UINT64_MAX);
        assert_null(ucp_put_nbx(pair->tx->ep, NULL, 0, target.address, NULL, &(ucp_request_param_t){0}));
        cw_target_close(&target);
    }
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nb(pair->tx->ep, 0, nb_done), "flush") < 0, 0);
    cw_pair_close(pair);
}

/* Source: a page that nobody may write, at its very end; the stack. */
API_TEST(test_rma5_odd_memory)
{
    static const size_t sizes[] = {1, 100, 4096, 70001, 3000001};
    ucp_request_param_t param = cw_param_none();
    size_t room = (3000001 + CW_PAGE - 1) / CW_PAGE * CW_PAGE;
    char *pages = mmap(NULL, room + CW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char stack[5000];
    struct cw_target target;

    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + room, CW_PAGE, PROT_NONE), 0);
    cw_pair_open(pair, &config);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, 3000001);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            char *end = pages + room - sizes[i];
            uint64_t far = target.address + 3000001 - sizes[i]; /* to the very end there, too */

            assert_int_equal(mprotect(pages, room, PROT_READ | PROT_WRITE), 0);
            cw_pattern_fill(end, sizes[i], i);
            assert_int_equal(mprotect(pages, room, PROT_READ), 0);
            assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, end, sizes[i], far, target.key, &param),
                                          "put"), UCS_OK);
            assert_int_equal(cw_target_flush(&target), UCS_OK);
            cw_target_check(&target, 3000001 - sizes[i], sizes[i], i);
            assert_int_equal(mprotect(pages, room, PROT_READ | PROT_WRITE), 0);
            memset(pages, 0, room);
            assert_int_equal(cw_pair_wait(pair, ucp_get_nbx(pair->tx->ep, end, sizes[i], far, target.key, &param),
                                          "get"), UCS_OK);
            cw_pattern_check(end, sizes[i], i);
        }
        cw_pattern_fill(stack, sizeof(stack), 5);
        assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, stack, sizeof(stack), target.address + 1,
                                                        target.key, &param), "put"), UCS_OK);
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        memset(stack, 0, sizeof(stack));
        assert_int_equal(cw_pair_wait(pair, ucp_get_nbx(pair->tx->ep, stack, sizeof(stack), target.address + 1,
                                                        target.key, &param), "get"), UCS_OK);
        cw_pattern_check(stack, sizeof(stack), 5);
        cw_target_close(&target);
    }
    munmap(pages, room + CW_PAGE);
    cw_pair_close(pair);
}

/* RMA-9, RMA-10, WRK-24: the owner computes, and yet it sees the data and gives them away. */
API_TEST(test_rma9_owner_that_computes)
{
    struct cw_servant servant;
    struct cw_target target;
    ucp_request_param_t param = cw_param_none();
    uint64_t word = 0;
    char *data;

    cw_test_need_two_processes();
    if (cw_test_over_network()) {
        skip();
    }
    data = malloc(CW_MIB);
    assert_non_null(data);
    cw_servant_start(&servant, pair);
    cw_target_open(&target, pair, &servant, CW_MEMORY_ALLOCATED, CW_MIB);
    cw_target_try(&target, 0);
    cw_target_order(&target, CW_ORDER_SILENT, 0, 0, 0);
    for (uint64_t i = 1; i < 50; i++) {
        size_t length = i % 2 == 0 ? 8 : CW_MIB - 8;

        cw_pattern_fill(data, CW_MIB, i);
        assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, data, length, target.address, target.key, &param),
                                      "put without the owner"), UCS_OK);
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        cw_target_check(&target, 0, length, i);
        cw_target_store(&target, CW_MIB - 8, i);
        assert_int_equal(cw_pair_wait(pair, ucp_get_nbx(pair->tx->ep, &word, 8, target.address + CW_MIB - 8, target.key,
                                                        &param), "get without the owner"), UCS_OK);
        assert_int_equal(word, i);
    }
    cw_target_order(&target, CW_ORDER_LIVELY, 0, 0, 0);
    free(data);
    cw_target_close(&target);
    cw_servant_dismiss(&servant);
}

static bool can_be_read(pid_t pid, uint64_t address)
{
    char byte;
    struct iovec local = {.iov_base = &byte, .iov_len = 1};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = 1};

    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1;
}

/* The same of memory of the program's own, where the system copies: short and long ones end in the call, and a flush
 * has nothing to ask. */
API_TEST(test_rma9_owner_comes_and_goes)
{
    enum { AT_ONCE = 20, MOST = 300000 };
    static const size_t lengths[] = {8, 64, 5000, 70000, MOST};
    struct cw_servant servant;
    struct cw_target target;
    ucp_request_param_t param = cw_param_none();
    static char data[MOST];

    cw_test_need_two_processes();
    if (!cw_test_tls_has("shm")) { /* no copies by the system */
        skip();
    }
    cw_servant_start(&servant, pair);
    cw_target_open(&target, pair, &servant, CW_MEMORY_HEAP, sizeof(data));
    cw_target_try(&target, 0);
    if (!can_be_read(servant.remote.pid, target.address)) {
        print_message("the system does not let processes read each other's memory\n");
        cw_target_close(&target);
        cw_servant_dismiss(&servant);
        skip();
    }
    for (uint64_t round = 1; round <= 40; round++) {
        const size_t length = lengths[round % 5];

        cw_target_fill(&target, 0, sizeof(data), round);
        if (round % 2 == 0) {
            cw_target_order(&target, CW_ORDER_SILENT, 0, 0, 0);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            memset(data, 0xee, length);
            assert_null(ucp_get_nbx(pair->tx->ep, data, length, target.address, target.key, &param));
            cw_pattern_check(data, length, round);
        }
        cw_pattern_fill(data, length, round + 1);
        for (int i = 0; i < AT_ONCE; i++) {
            assert_null(ucp_put_nbx(pair->tx->ep, data, length, target.address, target.key, &param));
        }
        assert_null(ucp_ep_flush_nbx(pair->tx->ep, &param));
        if (round % 2 == 0) {
            cw_target_order(&target, CW_ORDER_LIVELY, 0, 0, 0);
        }
        cw_target_check(&target, 0, length, round + 1);
    }
    cw_target_close(&target);
    cw_servant_dismiss(&servant);
}

/* What an owner gives away that never calls the library again. */
struct offer {
    uint64_t address_length;
    uint64_t key_length;
    uint64_t place;
    char address[4096];
    char key[1024];
};

enum { OWNED = 4 << 20 };

/* Ends when it gets the seed of the pattern that its memory has to have then. */
static int run_owner(int fd, const char *kind)
{
    static struct offer offer;
    struct cw_region region;
    struct cw_side side;
    void *address, *key;
    uint64_t seed;
    size_t length;

    cw_side_open(&side, &config);
    cw_region_open(&region, side.context, (enum cw_memory)(kind[0] - '0'), OWNED);
    cw_pattern_fill(region.base, OWNED, 1);
    address = cw_test_worker_address(side.worker, &length);
    assert_true(length <= sizeof(offer.address));
    memcpy(offer.address, address, length);
    offer.address_length = length;
    key = cw_region_blob(&region, &length);
    assert_true(length <= sizeof(offer.key));
    memcpy(offer.key, key, length);
    offer.key_length = length;
    offer.place = (uintptr_t)region.base;
    cw_fd_write(fd, &offer, sizeof(offer));
    cw_fd_read(fd, &seed, sizeof(seed), NULL);
    cw_pattern_check(region.base, OWNED, seed);
    free(address);
    free(key);
    cw_region_close(&region);
    cw_side_destroy(&side);
    return 0;
}

struct silent {
    struct cw_remote owner;
    struct offer offer;
    struct cw_side side;
    ucp_rkey_h key;
    char *data;
};

static void silent_connect(struct silent *silent, ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params)); /* GEN-2 */
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = (const ucp_address_t *)silent->offer.address;
    params.err_mode = mode;
    cw_side_open(&silent->side, &config);
    assert_int_equal(ucp_ep_create(silent->side.worker, &params, &silent->side.ep), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(silent->side.ep, silent->offer.key, &silent->key), UCS_OK);
}

static void silent_leave(struct silent *silent)
{
    ucp_request_param_t param = cw_param_none();

    ucp_rkey_destroy(silent->key);
    (void)cw_worker_wait_request(silent->side.worker, ucp_ep_close_nbx(silent->side.ep, &param), "close");
    cw_side_destroy(&silent->side);
}

static ucs_status_t silent_access(struct silent *silent, bool get, bool is_list, size_t length)
{
    ucp_dt_iov_t list[2] = {{silent->data, length / 2}, {silent->data + length / 2, length - length / 2}};
    ucp_request_param_t param = cw_param_none();
    void *buffer = is_list ? (void *)list : silent->data;
    const size_t count = is_list ? 2 : length;

    if (is_list) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.datatype = ucp_dt_make_iov();
    }
    return cw_worker_wait_request(silent->side.worker,
                                  get ? ucp_get_nbx(silent->side.ep, buffer, count, silent->offer.place, silent->key,
                                                    &param)
                                      : ucp_put_nbx(silent->side.ep, buffer, count, silent->offer.place, silent->key,
                                                    &param), "access without the owner");
}

static void silent_flush(struct silent *silent)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_worker_wait_request(silent->side.worker, ucp_ep_flush_nbx(silent->side.ep, &param), "flush"),
                     UCS_OK);
    assert_int_equal(cw_worker_wait_request(silent->side.worker, ucp_worker_flush_nbx(silent->side.worker, &param),
                                            "flush of the worker"), UCS_OK);
}

/* The first access of an endpoint, which no answer of the owner has opened, and further ones. */
static void silent_rounds(struct silent *silent, ucp_err_handling_mode_t mode, bool is_list, bool puts_first,
                          uint64_t *seed)
{
    static const size_t lengths[] = {8, 65536, OWNED};

    silent_connect(silent, mode);
    for (int i = 0; i < 3; i++) {
        if (!puts_first || i > 0) {
            assert_int_equal(silent_access(silent, true, is_list, lengths[i]), UCS_OK);
            cw_pattern_check(silent->data, lengths[i], *seed);
        }
        cw_pattern_fill(silent->data, OWNED, ++*seed);
        assert_int_equal(silent_access(silent, false, is_list, lengths[i]), UCS_OK);
        silent_flush(silent);
        assert_int_equal(silent_access(silent, true, is_list, lengths[i]), UCS_OK);
        cw_pattern_check(silent->data, lengths[i], *seed);
        assert_int_equal(silent_access(silent, false, is_list, OWNED), UCS_OK);
        silent_flush(silent);
    }
    silent_leave(silent);
}

static void silent_start(struct silent *silent, enum cw_memory kind)
{
    const char name[2] = {(char)('0' + (int)kind), '\0'};

    cw_remote_start(&silent->owner, "owner", name);
    cw_fd_read(silent->owner.fd, &silent->offer, sizeof(silent->offer), NULL);
}

/* RMA-9, RMA-10, RMA-11, FLU-1: an owner that makes no progress since it gave its address and key away. */
API_TEST(test_rma10_owner_that_never_progresses)
{
    static struct silent silent;

    cw_test_need_two_processes();
    if (cw_test_over_network() || cw_test_tls_has("rc")) {
        skip(); /* the first access connects, which needs the owner */
    }
    silent.data = malloc(OWNED);
    assert_non_null(silent.data);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        uint64_t seed = 1;

        silent_start(&silent, (enum cw_memory)kind);
        if (kind == CW_MEMORY_ALLOCATED ||
            (cw_test_tls_has("shm") && can_be_read(silent.owner.pid, silent.offer.place))) {
            for (int i = 0; i < 8; i++) {
                silent_rounds(&silent, ((i & 1) && !cw_test_reference()) ? UCP_ERR_HANDLING_MODE_PEER
                                                                         : UCP_ERR_HANDLING_MODE_NONE,
                              i & 2, i & 4, &seed);
            }
        }
        cw_fd_write(silent.owner.fd, &seed, sizeof(seed));
        cw_remote_join(&silent.owner);
    }
    free(silent.data);
}

/* ERR-2: the same owner is killed: an access that follows ends with an error. */
API_TEST(test_err2_owner_that_never_progressed)
{
    static struct silent silent;

    cw_test_need_two_processes();
    if (cw_test_over_network()) {
        skip();
    }
    cw_test_skip_reference("over shared memory it does not notice");
    silent.data = malloc(OWNED);
    assert_non_null(silent.data);
    for (int i = 0; i < 4; i++) {
        silent_start(&silent, CW_MEMORY_HEAP);
        silent_connect(&silent, (i & 1) ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE);
        if (cw_test_tls_has("shm") && can_be_read(silent.owner.pid, silent.offer.place)) {
            assert_int_equal(silent_access(&silent, i & 2, false, 8), UCS_OK);
        }
        cw_remote_kill(&silent.owner);
        assert_true(silent_access(&silent, i & 2, false, OWNED) != UCS_OK);
        silent_leave(&silent);
    }
    free(silent.data);
}

/* A put and a get of both forms, and what the owner then has. */
static void check_without_owner(struct cw_target *target, char *data, size_t length, uint64_t seed)
{
    ucp_dt_iov_t list[2] = {{data, length / 2}, {data + length / 2, length - length / 2}};
    ucp_request_param_t param = cw_param_none();
    const bool is_list = seed % 2;
    void *buffer = is_list ? (void *)list : data;
    const size_t count = is_list ? 2 : length;

    if (is_list) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.datatype = ucp_dt_make_iov();
    }
    cw_pattern_fill(data, length, seed);
    assert_int_equal(cw_pair_wait(target->pair, ucp_put_nbx(target->ep, buffer, count, target->address + CW_PAGE,
                                                            target->key, &param), "put behind atomics"), UCS_OK);
    cw_target_check(target, CW_PAGE, length, seed);
    memset(data, 0, length);
    assert_int_equal(cw_pair_wait(target->pair, ucp_get_nbx(target->ep, buffer, count, target->address + CW_PAGE,
                                                            target->key, &param), "get behind atomics"), UCS_OK);
    cw_pattern_check(data, length, seed);
}

/* RMA-6, WRK-24, FLU-20: atomics on memory of the program's own wait for the owner, on an endpoint without connection
 * and on one with more atomics than may be in flight. Puts and gets, which the system copies, do not wait behind them,
 * except behind a fence. */
API_TEST(test_rma10_atomics_that_wait)
{
    enum { ATOMICS = 300, MOST = 100000 };
    static const size_t lengths[] = {8, 8, 5000, 5000, MOST, MOST};
    static ucs_status_ptr_t atomics[ATOMICS];
    static uint64_t replies[ATOMICS];
    static char data[MOST];
    ucp_request_param_t param = cw_param_none(), fetch = cw_param_none();
    ucs_status_ptr_t late = NULL;
    uint64_t one = 1, word = 0;
    struct cw_servant servant;
    struct cw_target target;

    cw_test_need_two_processes();
    if (!cw_test_tls_has("shm")) { /* no copies by the system */
        skip();
    }
    fetch.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    fetch.datatype = ucp_dt_make_contig(8);
    cw_servant_start(&servant, pair);
    cw_target_open(&target, pair, &servant, CW_MEMORY_HEAP, CW_PAGE + MOST);
    for (uint64_t round = 1; round <= 2 && can_be_read(servant.remote.pid, target.address); round++) {
        cw_target_order(&target, CW_ORDER_SILENT, 0, 0, 0);
        for (int i = 0; i < ATOMICS; i++) {
            fetch.reply_buffer = &replies[i];
            atomics[i] = ucp_atomic_op_nbx(target.ep, UCP_ATOMIC_OP_ADD, &one, 1, target.address, target.key, &fetch);
        }
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            check_without_owner(&target, data, lengths[i], round * 10 + i);
        }
        assert_int_equal(ucp_request_check_status(atomics[0]), UCS_INPROGRESS);
        if (!cw_test_reference()) { /* its fence waits for the atomics */
            assert_int_equal(ucp_worker_fence(pair->tx->worker), UCS_OK);
            late = ucp_get_nbx(target.ep, &word, 8, target.address, target.key, &param);
            assert_true(UCS_PTR_IS_PTR(late));
            for (int i = 0; i < 1000; i++) {
                ucp_worker_progress(pair->tx->worker);
            }
            assert_int_equal(ucp_request_check_status(late), UCS_INPROGRESS);
        }
        cw_target_order(&target, CW_ORDER_LIVELY, 0, 0, 0);
        for (int i = 0; i < ATOMICS; i++) {
            assert_int_equal(cw_pair_wait(pair, atomics[i], "atomic"), UCS_OK);
        }
        if (late != NULL) {
            assert_int_equal(cw_pair_wait(pair, late, "get after a fence"), UCS_OK);
            assert_int_equal(word, round * ATOMICS);
        }
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        assert_int_equal(cw_target_peek(&target, 0), round * ATOMICS);
    }
    cw_target_close(&target);
    cw_servant_dismiss(&servant);
}

/* N22-114: what only packets reach is accepted, logged, and canceled; mapped memory is reached as ever. */
API_TEST(test_n22_114_no_emulation)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;
    struct cw_servant servant;
    uint64_t data[2] = {7, 8};
    ucs_status_ptr_t request;
    char text[4096];
    int saved[2], file;

    cw_test_need_two_processes();
    if (!cw_test_tls_has("tcp") || cw_test_tls_has("shm")) { /* the system copies there */
        skip();
    }
    cw_test_skip_reference("1.13 has no such setting");
    assert_int_equal(setenv("UCX_PROTO_EMULATION_ENABLE", "n", 1), 0);
    cw_servant_start(&servant, pair);
    assert_int_equal(unsetenv("UCX_PROTO_EMULATION_ENABLE"), 0);
    cw_target_open(&target, pair, &servant, CW_MEMORY_HEAP, CW_PAGE);
    cw_target_fill(&target, 0, CW_PAGE, 3);
    for (int i = 0; i < 4; i++) {
        file = cw_capture_start(saved);
        request = (i % 2 == 0) ? ucp_put_nbx(pair->tx->ep, data, sizeof(data), target.address, target.key, &param) :
                                 ucp_get_nbx(pair->tx->ep, data, sizeof(data), target.address, target.key, &param);
        assert_true(UCS_PTR_IS_PTR(request));
        assert_int_equal(cw_pair_wait(pair, request, "access"), UCS_ERR_CANCELED);
        cw_capture_end(file, saved, text, sizeof(text));
        assert_non_null(strstr(text, (i % 2 == 0) ? "canceled a put of 16 bytes between host memory and memory of "
                                                  : "canceled a get of 16 bytes between host memory and memory of "));
    }
    assert_int_equal(cw_target_flush(&target), UCS_OK);
    assert_true(data[0] == 7 && data[1] == 8);
    cw_target_check(&target, 0, CW_PAGE, 3);
    cw_target_close(&target);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, CW_PAGE); /* in this process: reached by its address */
    assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(target.ep, data, sizeof(data), target.address, target.key, &param),
                                  "put"), UCS_OK);
    assert_true(cw_target_peek(&target, 8) == 8);
    cw_target_close(&target);
    cw_servant_dismiss(&servant);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE, {"owner", run_owner}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
