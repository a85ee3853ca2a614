/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics: every operation in every form and width against a model, what is captured when, and what is refused:
 * AMO-1..18, R1, R17, OPA-6, CTX-12.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config config = {.features = CW_RMA_FEATURES, .thread_mode = UCS_THREAD_MODE_SERIALIZED};

enum form {
    POST,        /* nbx without reply */
    POST_NO_IMM,
    FETCH,
    FETCH_PLAIN, /* without callback */
    FETCH_NO_IMM,
    FETCH_USER,
    OLD_POST,
    OLD_FETCH,
    OLD_BLOCKING,
    FORMS
};

static const char *const form_names[] = {"posted", "posted, no-imm", "fetching", "fetching without callback",
                                         "fetching, no-imm", "fetching, user request", "old post", "old fetch",
                                         "old blocking"};
static const char *const op_names[] = {"add", "swap", "cswap", "and", "or", "xor"};

struct atomic {
    struct cw_target *target;
    enum form form;
    ucp_atomic_op_t op;
    size_t width;
    size_t offset;
    uint64_t before;    /* what the word holds */
    uint64_t operand;
    uint64_t swap;      /* of CSWAP */
    uint64_t reply;
    bool fetched;
    struct cw_op done;
};

static struct cw_op *old_op;
static char running_text[120];

static void old_done(void *request, ucs_status_t status)
{
    old_op->calls++;
    old_op->status = status;
    old_op->checked = ucp_request_check_status(request);
    old_op->request = request;
}

static uint64_t cut(uint64_t value, size_t width)
{
    return width == 8 ? value : (uint32_t)value;
}

static uint64_t model(const struct atomic *a)
{
    switch (a->op) {
    case UCP_ATOMIC_OP_ADD:
        return cut(a->before + a->operand, a->width);
    case UCP_ATOMIC_OP_SWAP:
        return cut(a->operand, a->width);
    case UCP_ATOMIC_OP_CSWAP:
        return cut(a->before, a->width) == cut(a->operand, a->width) ? cut(a->swap, a->width) :
                                                                       cut(a->before, a->width);
    case UCP_ATOMIC_OP_AND:
        return cut(a->before & a->operand, a->width);
    case UCP_ATOMIC_OP_OR:
        return cut(a->before | a->operand, a->width);
    default:
        return cut(a->before ^ a->operand, a->width);
    }
}

static bool is_swap(ucp_atomic_op_t op)
{
    return op == UCP_ATOMIC_OP_SWAP || op == UCP_ATOMIC_OP_CSWAP;
}

static bool exists(const struct atomic *a)
{
    switch (a->form) {
    case POST:
    case POST_NO_IMM:
    case OLD_POST:
        return !is_swap(a->op);
    case OLD_BLOCKING:
        return a->op <= UCP_ATOMIC_OP_CSWAP;
    default: /* in the reference AND, OR and XOR that fetch change nothing over shared memory */
        return !cw_test_reference() || a->op <= UCP_ATOMIC_OP_CSWAP || cw_test_tls_has("tcp");
    }
}

static ucp_request_param_t param_for(struct atomic *a)
{
    ucp_request_param_t param = cw_param_send(a->form == FETCH_PLAIN ? NULL : &a->done);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(a->width);
    if (a->form == POST_NO_IMM || a->form == FETCH_NO_IMM) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    if (a->form != POST && a->form != POST_NO_IMM) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = &a->reply;
        a->fetched = true;
        if (a->op == UCP_ATOMIC_OP_CSWAP) {
            memcpy(&a->reply, &a->swap, a->width);
        }
    }
    return param;
}

static void run_nbx(struct atomic *a)
{
    struct cw_user_request user = {0};
    uint64_t operand = a->operand; /* a word of either width: the machine is little-endian */
    ucp_request_param_t param = param_for(a);

    if (a->form == FETCH_USER) {
        user = cw_user_request_new(a->target->pair->tx->context);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
    }
    cw_op_started(&a->done, ucp_atomic_op_nbx(a->target->ep, a->op, &operand, 1, a->target->address + a->offset,
                                              a->target->key, &param));
    assert_true(a->form == POST_NO_IMM || a->form == FETCH_NO_IMM || a->done.calls == 0); /* R1 */
    operand = ~operand; /* AMO-10, VER-24: captured */
    if (a->form == POST) {
        assert_null(a->done.result); /* AMO-11 */
    } else if (a->form == POST_NO_IMM || a->form == FETCH_NO_IMM) {
        assert_true(UCS_PTR_IS_PTR(a->done.result));
    }
    if (a->form == FETCH_PLAIN) {
        assert_int_equal(cw_pair_wait(a->target->pair, a->done.result, "atomic"), UCS_OK);
    } else if (a->form != FETCH_USER) {
        assert_int_equal(cw_op_wait(a->target->pair, &a->done, "atomic"), UCS_OK);
    } else {
        assert_true(a->done.result == NULL || a->done.result == user.handle);
        if (a->done.result != NULL) {
            cw_pair_wait_count(a->target->pair, &a->done.calls, 1, "callback");
            assert_int_equal(a->done.status, UCS_OK);
        }
        cw_user_request_check(&user);
        cw_user_request_free(&user);
    }
}

static void run_old(struct atomic *a)
{
    static const ucp_atomic_post_op_t posts[] = {UCP_ATOMIC_POST_OP_ADD, 0, 0, UCP_ATOMIC_POST_OP_AND,
                                                 UCP_ATOMIC_POST_OP_OR, UCP_ATOMIC_POST_OP_XOR};
    static const ucp_atomic_fetch_op_t fetches[] = {UCP_ATOMIC_FETCH_OP_FADD, UCP_ATOMIC_FETCH_OP_SWAP,
                                                    UCP_ATOMIC_FETCH_OP_CSWAP, UCP_ATOMIC_FETCH_OP_FAND,
                                                    UCP_ATOMIC_FETCH_OP_FOR, UCP_ATOMIC_FETCH_OP_FXOR};
    uint64_t address = a->target->address + a->offset;

    if (a->form == OLD_POST) {
        assert_int_equal(ucp_atomic_post(a->target->ep, posts[a->op], a->operand, a->width, address, a->target->key),
                         UCS_OK); /* R17 */
        return;
    }
    old_op = &a->done;
    a->fetched = true;
    memcpy(&a->reply, &a->swap, a->width);
    a->done.result = ucp_atomic_fetch_nb(a->target->ep, fetches[a->op], a->operand, &a->reply, a->width, address,
                                         a->target->key, old_done);
    assert_int_equal(a->done.calls, 0);
    assert_int_equal(cw_op_wait(a->target->pair, &a->done, "old fetch"), UCS_OK);
}

static ucs_status_t call_blocking64(struct atomic *a, bool fetching)
{
    ucp_ep_h ep = a->target->ep;
    ucp_rkey_h key = a->target->key;
    uint64_t address = a->target->address + a->offset;

    if (a->op == UCP_ATOMIC_OP_ADD && !fetching) {
        return ucp_atomic_add64(ep, a->operand, address, key);
    }
    if (a->op == UCP_ATOMIC_OP_ADD) {
        return ucp_atomic_fadd64(ep, a->operand, address, key, &a->reply);
    }
    if (a->op == UCP_ATOMIC_OP_SWAP) {
        return ucp_atomic_swap64(ep, a->operand, address, key, &a->reply);
    }
    return ucp_atomic_cswap64(ep, a->operand, a->swap, address, key, &a->reply);
}

static ucs_status_t call_blocking32(struct atomic *a, bool fetching, uint32_t *reply)
{
    ucp_ep_h ep = a->target->ep;
    ucp_rkey_h key = a->target->key;
    uint64_t address = a->target->address + a->offset;

    if (a->op == UCP_ATOMIC_OP_ADD && !fetching) {
        return ucp_atomic_add32(ep, (uint32_t)a->operand, address, key);
    }
    if (a->op == UCP_ATOMIC_OP_ADD) {
        return ucp_atomic_fadd32(ep, (uint32_t)a->operand, address, key, reply);
    }
    if (a->op == UCP_ATOMIC_OP_SWAP) {
        return ucp_atomic_swap32(ep, (uint32_t)a->operand, address, key, reply);
    }
    return ucp_atomic_cswap32(ep, (uint32_t)a->operand, (uint32_t)a->swap, address, key, reply);
}

static ucs_status_t call_blocking(struct atomic *a, bool fetching)
{
    uint32_t word = 0;
    ucs_status_t status;

    if (a->width == 8) {
        return call_blocking64(a, fetching);
    }
    status = call_blocking32(a, fetching, &word);
    memcpy(&a->reply, &word, 4);
    return status;
}

static void run_blocking(struct atomic *a)
{
    struct cw_helper helper;

    a->fetched = is_swap(a->op) || a->operand % 2 != 0;
    cw_target_lend(a->target, &helper);
    assert_int_equal(call_blocking(a, a->fetched), UCS_OK);
    cw_target_return(a->target, &helper);
}

static void atomic_run(struct atomic *a)
{
    const uint64_t guard = 0xa5a5a5a5a5a5a5a5ull;
    uint64_t word = a->width == 8 ? a->before : (guard << 32) | (uint32_t)a->before;

    snprintf(running_text, sizeof(running_text), "%s, %zu bits, %s", op_names[a->op], 8 * a->width,
             form_names[a->form]);
    memset(&a->done, 0, sizeof(a->done));
    a->fetched = false;
    a->reply = guard;
    cw_target_store(a->target, a->offset, word);
    if (a->form >= OLD_POST) {
        if (a->form == OLD_BLOCKING) {
            run_blocking(a);
        } else {
            run_old(a);
        }
    } else {
        run_nbx(a);
    }
    if (a->fetched) { /* AMO-10, AMO-12: at completion, without a flush */
        assert_true(cut(a->reply, a->width) == cut(a->before, a->width));
        assert_true(a->width == 8 || a->form == OLD_BLOCKING || a->reply >> 32 == guard >> 32);
    }
    assert_int_equal(cw_target_flush(a->target), UCS_OK);
    word = a->width == 8 ? model(a) : (guard << 32) | model(a);
    if (cw_target_peek(a->target, a->offset) != word) {
        fail_msg("The word is %#llx instead of %#llx", (unsigned long long)cw_target_peek(a->target, a->offset),
                 (unsigned long long)word);
    }
}

static void run_all(struct cw_pair *pair, struct cw_servant *servant)
{
    static struct atomic a; /* outlives a failure */
    struct cw_target target;
    uint64_t random = 3;

    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, servant, (enum cw_memory)kind, 1000);
        for (int form = 0; form < FORMS; form++) {
            for (int op = 0; op < UCP_ATOMIC_OP_LAST; op++) {
                for (int i = 0; i < 12; i++) {
                    a = (struct atomic){.target = &target, .form = (enum form)form, .op = (ucp_atomic_op_t)op};
                    a.width = i % 2 == 0 ? 8 : 4;
                    a.offset = a.width * (1 + cw_random_next(&random) % 100);
                    a.offset -= a.offset > 990 - a.width ? 8 : 0;
                    a.before = i < 2 ? UINT64_MAX : cw_random_next(&random);
                    if (i < 4) {
                        a.operand = 1;
                    } else if (i < 8 && op == UCP_ATOMIC_OP_CSWAP) {
                        a.operand = a.before;
                    } else {
                        a.operand = cw_random_next(&random);
                    }
                    a.swap = cw_random_next(&random);
                    if (exists(&a)) {
                        atomic_run(&a);
                    }
                }
            }
        }
        cw_target_close(&target);
    }
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

/* AMO-2. */
API_TEST_WITH(test_all_in_one_process, cw_test_setup, matrix_teardown)
{
    cw_pair_open(pair, &config);
    run_all(pair, NULL);
    cw_pair_close(pair);
}

API_TEST_WITH(test_all_in_two_processes, cw_test_setup, matrix_teardown)
{
    struct cw_servant servant;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    run_all(pair, &servant);
    cw_servant_dismiss(&servant);
}

/*
 * AMO-11, R17: posted ones before there is a connection, many of them, from one word that changes each time.
 * N22-112.
 */
API_TEST(test_amo11_captured)
{
    long count = cw_test_scaled(20000);
    uint64_t operand, sum = 0;
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;

    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_pair_open(pair, &config);
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, 1000);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(8);
        sum = 0;
        for (long i = 0; i < count; i++) {
            operand = (uint64_t)i * 7 + 1;
            sum += operand;
            assert_null(ucp_atomic_op_nbx(target.ep, UCP_ATOMIC_OP_ADD, &operand, 1, target.address + 8, target.key,
                                          &param));
            operand = UINT64_MAX;
        }
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        assert_true(cw_target_peek(&target, 8) == sum);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
}

/* Many fetching ones under way at once: each value comes once. */
API_TEST(test_amo10_many_fetches)
{
    enum { COUNT = 3000 };
    struct cw_op *ops = calloc(COUNT, sizeof(*ops));
    uint64_t *replies = calloc(COUNT, 8), one = 1;
    bool *seen = calloc(COUNT, 1);
    struct cw_target target;

    assert_non_null(ops);
    assert_non_null(replies);
    assert_non_null(seen);
    cw_pair_open(pair, &config);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        memset(ops, 0, COUNT * sizeof(*ops));
        memset(seen, 0, COUNT);
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, 1000);
        for (int i = 0; i < COUNT; i++) {
            ucp_request_param_t param = cw_param_send(&ops[i]);

            param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
            param.datatype = ucp_dt_make_contig(8);
            param.reply_buffer = &replies[i];
            cw_op_started(&ops[i], ucp_atomic_op_nbx(target.ep, UCP_ATOMIC_OP_ADD, &one, 1, target.address + 8,
                                                     target.key, &param));
        }
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(cw_op_wait(pair, &ops[i], "fetch"), UCS_OK);
            assert_true(replies[i] < COUNT && !seen[replies[i]]);
            seen[replies[i]] = true;
        }
        assert_int_equal(cw_target_peek(&target, 8), COUNT);
        cw_target_close(&target);
    }
    free(ops);
    free(replies);
    free(seen);
    cw_pair_close(pair);
}

/* ---- what is refused ---- */

static uint64_t reply_word;

static ucs_status_t attempt(struct cw_target *target, int op, size_t count, uint64_t offset, uint64_t datatype,
                            uint32_t without, uint32_t with)
{
    const uint64_t operand[4] = {1, 1, 1, 1};
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result;

    param.op_attr_mask = ((uint32_t)UCP_OP_ATTR_FIELD_DATATYPE | (uint32_t)UCP_OP_ATTR_FIELD_REPLY_BUFFER | with) &
                         ~without;
    param.datatype = datatype;
    param.reply_buffer = &reply_word;
    param.memh = target->region.memh;
    result = ucp_atomic_op_nbx(target->ep, (ucp_atomic_op_t)op, operand, count, target->address + offset, target->key,
                               &param);
    return cw_pair_wait(target->pair, result, "atomic");
}

static void refuse_all(struct cw_target *target)
{
    static const size_t widths[] = {0, 1, 2, 3, 5, 16};
    const uint64_t eight = ucp_dt_make_contig(8), four = ucp_dt_make_contig(4);
    const uint32_t reply = UCP_OP_ATTR_FIELD_REPLY_BUFFER, datatype = UCP_OP_ATTR_FIELD_DATATYPE;
    const int add = UCP_ATOMIC_OP_ADD;

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) { /* AMO-1 */
        assert_int_equal(attempt(target, add, 1, 8, ucp_dt_make_contig(widths[i]), 0, 0), UCS_ERR_INVALID_PARAM);
        assert_int_equal(attempt(target, add, 1, 8, ucp_dt_make_contig(widths[i]), reply, 0), UCS_ERR_INVALID_PARAM);
    }
    assert_int_equal(attempt(target, add, 1, 8, 0, datatype, 0), UCS_ERR_INVALID_PARAM);
    for (uint64_t offset = 1; offset < 8; offset++) {
        assert_int_equal(attempt(target, add, 1, 8 + offset, eight, 0, 0), UCS_ERR_INVALID_PARAM);
        if (offset != 4) {
            assert_int_equal(attempt(target, add, 1, 8 + offset, four, reply, 0), UCS_ERR_INVALID_PARAM);
        }
    }
    assert_int_equal(attempt(target, add, 0, 8, eight, 0, 0), UCS_ERR_INVALID_PARAM);
    assert_int_equal(attempt(target, add, 2, 8, eight, 0, 0), UCS_ERR_INVALID_PARAM);
    assert_int_equal(attempt(target, UCP_ATOMIC_OP_LAST, 1, 8, eight, 0, 0), UCS_ERR_INVALID_PARAM);
    if (!cw_test_reference()) {
        assert_int_equal(attempt(target, add, 1, 8, UCP_DATATYPE_IOV, 0, 0), UCS_ERR_INVALID_PARAM);
        assert_int_equal(attempt(target, -1, 1, 8, eight, 0, 0), UCS_ERR_INVALID_PARAM);
        /* AMO-11, AMO-18 */
        assert_int_equal(attempt(target, UCP_ATOMIC_OP_SWAP, 1, 8, eight, reply, 0), UCS_ERR_INVALID_PARAM);
        assert_int_equal(attempt(target, UCP_ATOMIC_OP_CSWAP, 1, 8, four, reply, 0), UCS_ERR_INVALID_PARAM);
        assert_int_equal(attempt(target, add, 1, 8, eight, 0, UCP_OP_ATTR_FIELD_MEMH), UCS_ERR_INVALID_PARAM);
    }
}

static void refuse_old(struct cw_target *target)
{
    static const size_t widths[] = {0, 1, 2, 3, 16};
    uint64_t result = 0, address = target->address + 8;

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) { /* R17 */
        assert_int_equal(ucp_atomic_post(target->ep, UCP_ATOMIC_POST_OP_ADD, 1, widths[i], address, target->key),
                         UCS_ERR_INVALID_PARAM);
        assert_int_equal(UCS_PTR_STATUS(ucp_atomic_fetch_nb(target->ep, UCP_ATOMIC_FETCH_OP_FADD, 1, &result, widths[i],
                                                            address, target->key, old_done)), UCS_ERR_INVALID_PARAM);
    }
    assert_int_equal(ucp_atomic_post(target->ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, address + 4, target->key),
                     UCS_ERR_INVALID_PARAM);
    if (!cw_test_reference()) {
        assert_int_equal(ucp_atomic_post(target->ep, UCP_ATOMIC_POST_OP_LAST, 1, 8, address, target->key),
                         UCS_ERR_INVALID_PARAM);
        assert_int_equal(UCS_PTR_STATUS(ucp_atomic_fetch_nb(target->ep, UCP_ATOMIC_FETCH_OP_LAST, 1, &result, 8,
                                                            address, target->key, old_done)), UCS_ERR_INVALID_PARAM);
        assert_int_equal(ucp_atomic_add32(target->ep, 1, address + 2, target->key), UCS_ERR_INVALID_PARAM);
        result = 77;
        assert_int_equal(ucp_atomic_cswap64(target->ep, 1, 2, address + 4, target->key, &result),
                         UCS_ERR_INVALID_PARAM);
        assert_int_equal(result, 77); /* AMO-16: written only on OK */
    }
}

/* OPA-10. */
API_TEST(test_amo1_refused)
{
    struct cw_target target;

    cw_pair_open(pair, &config);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, 1000);
        reply_word = 99;
        refuse_all(&target);
        refuse_old(&target);
        cw_pair_settle(pair);
        assert_int_equal(cw_target_peek(&target, 8), 0); /* ABU-2 */
        assert_int_equal(cw_target_peek(&target, 16), 0);
        assert_int_equal(reply_word, 99);
        assert_int_equal(attempt(&target, UCP_ATOMIC_OP_ADD, 1, 8, ucp_dt_make_contig(8), 0, 0), UCS_OK);
        assert_int_equal(cw_target_peek(&target, 8), 1);
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

/* A word of which a part lies outside, or all of it. */
API_TEST(test_rma5_words_outside)
{
    static const int64_t offsets[] = {-8, 96, 104, 1 << 20};
    char *bytes = aligned_alloc(8, 304);
    struct cw_target target;

    cw_test_skip_reference("it believes every address");
    assert_non_null(bytes);
    cw_pair_open(pair, &config);
    for (int i = 0; i < 8; i++) {
        bool fetch = i % 2 == 0;
        uint32_t without = fetch ? 0 : UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        ucs_status_t status, flushed;

        memset(bytes, 0x5a, 304);
        target = (struct cw_target){.pair = pair, .ep = pair->tx->ep, .address = (uintptr_t)bytes + 104};
        cw_region_register(&target.region, pair->rx->context, bytes + 104, 100); /* 12 words and a half */
        target.key = cw_region_key(&target.region, target.ep);
        status = attempt(&target, UCP_ATOMIC_OP_ADD, 1, (uint64_t)offsets[i / 2], ucp_dt_make_contig(8), without, 0);
        flushed = cw_target_flush(&target);
        assert_true(status < 0 || flushed < 0);
        assert_true(!fetch || status < 0);
        for (int k = 0; k < 304; k++) {
            assert_int_equal(bytes[k], 0x5a);
        }
        cw_target_try(&target, 8);
        cw_target_close(&target);
    }
    free(bytes);
    cw_pair_close(pair);
}

API_TEST(test_ctx12_features_of_widths)
{
    struct cw_target target;

    cw_test_skip_reference("it looks for transports instead");
    for (int width = 4; width <= 8; width += 4) {
        const struct cw_pair_config half = {.features = UCP_FEATURE_RMA | (width == 4 ? UCP_FEATURE_AMO32 :
                                                                                        UCP_FEATURE_AMO64)};

        cw_pair_open(pair, &half);
        cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, 1000);
        assert_int_equal(attempt(&target, UCP_ATOMIC_OP_ADD, 1, 8, ucp_dt_make_contig((size_t)width), 0, 0), UCS_OK);
        assert_int_equal(attempt(&target, UCP_ATOMIC_OP_ADD, 1, 8, ucp_dt_make_contig(12 - (size_t)width), 0, 0),
                         UCS_ERR_INVALID_PARAM);
        assert_int_equal(ucp_atomic_post(target.ep, UCP_ATOMIC_POST_OP_ADD, 1, 12 - (size_t)width, target.address + 8,
                                         target.key), UCS_ERR_INVALID_PARAM);
        assert_int_equal(cw_target_peek(&target, 8), 1);
        cw_target_close(&target);
        cw_pair_close(pair);
    }
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
