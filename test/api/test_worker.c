/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: WRK-1..11, WRK-20..23, GEN-4, GEN-9, ABU-21, R9, R10, R13, R27. Addresses: test_address.c. */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ucp_context_h open_context(uint64_t features)
{
    ucp_context_h context = NULL;
    ucp_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    return context;
}

static ucp_worker_params_t garbage_params(void)
{
    ucp_worker_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = 0;
    return params;
}

static ucp_worker_attr_t query(ucp_worker_h worker, uint64_t mask)
{
    ucp_worker_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = mask;
    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    assert_true(attr.field_mask == mask); /* R13 */
    return attr;
}

API_TEST(test_wrk1_defaults_with_garbage)
{
    struct cw_side *side = &pair->sides[0];
    ucp_worker_params_t params = garbage_params();
    ucp_worker_attr_t attr;

    side->context = open_context(UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    assert_int_equal(ucp_worker_create(side->context, &params, &side->worker), UCS_OK);
    attr = query(side->worker, UCP_WORKER_ATTR_FIELD_THREAD_MODE | UCP_WORKER_ATTR_FIELD_NAME);
    assert_int_equal(attr.thread_mode, UCS_THREAD_MODE_SINGLE);
    assert_non_null(memchr(attr.name, 0, sizeof(attr.name)));
    assert_int_not_equal(attr.name[0], 0);
}

API_TEST(test_wrk2_thread_modes)
{
    struct cw_side *side = &pair->sides[0];
    ucp_worker_h before = (ucp_worker_h)0x5a5a, none = before;

    side->context = open_context(UCP_FEATURE_TAG);
    for (int mode = UCS_THREAD_MODE_SINGLE; mode < UCS_THREAD_MODE_LAST; mode++) {
        ucp_worker_params_t params = garbage_params();

        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        params.thread_mode = (ucs_thread_mode_t)mode;
        assert_int_equal(ucp_worker_create(side->context, &params, &side->worker), UCS_OK);
        assert_int_equal(query(side->worker, UCP_WORKER_ATTR_FIELD_THREAD_MODE).thread_mode, mode); /* R13 */
        ucp_worker_destroy(side->worker);
        side->worker = NULL;
    }
    cw_test_skip_reference("1.13 crashes while it cleans up after the refusal");
    for (int mode = UCS_THREAD_MODE_LAST; mode < UCS_THREAD_MODE_LAST + 3; mode++) {
        ucp_worker_params_t params = garbage_params();

        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        params.thread_mode = (ucs_thread_mode_t)mode;
        assert_int_equal(ucp_worker_create(side->context, &params, &none), UCS_ERR_INVALID_PARAM);
        assert_ptr_equal(none, before);
    }
}

API_TEST(test_wrk5_r10_hints_and_unknown_bits)
{
    struct cw_side *side = &pair->sides[0];
    ucp_worker_params_t params = garbage_params();

    side->context = open_context(UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    params.field_mask = UCP_WORKER_PARAM_FIELD_CPU_MASK | UCP_WORKER_PARAM_FIELD_EVENTS | UCP_WORKER_PARAM_FIELD_FLAGS |
                        UCP_WORKER_PARAM_FIELD_CLIENT_ID | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT | 1ull << 50;
    UCS_CPU_ZERO(&params.cpu_mask);
    UCS_CPU_SET(0, &params.cpu_mask);
    UCS_CPU_SET(777, &params.cpu_mask);
    params.events = 0xffff0000u;
    params.flags = UINT64_MAX;
    params.client_id = 99;
    params.am_alignment = 64;
    assert_int_equal(ucp_worker_create(side->context, &params, &side->worker), UCS_OK);
    ucp_worker_destroy(side->worker);
    side->worker = NULL;
    params.am_alignment = 24; /* WRK-7: not a power of two */
    switch (ucp_worker_create(side->context, &params, &side->worker)) {
    case UCS_OK:
        break;
    case UCS_ERR_INVALID_PARAM:
        side->worker = NULL;
        break;
    default:
        fail_msg("An am_alignment of 24 must be accepted or be an invalid parameter");
    }
}

/* What is no alignment, or would cost each message more than a page, is refused (WRK-7). */
API_TEST(test_wrk7_alignments)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), bad[] = {0, 3, 24, 4097, 2 * page, (size_t)1 << 40, SIZE_MAX};
    struct cw_side *side = &pair->sides[0];
    ucp_worker_params_t params = garbage_params();

    cw_test_skip_reference("it checks nothing");
    side->context = open_context(UCP_FEATURE_AM);
    params.field_mask = UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        params.am_alignment = bad[i];
        assert_int_equal(ucp_worker_create(side->context, &params, &side->worker), UCS_ERR_INVALID_PARAM);
        side->worker = NULL;
    }
    for (params.am_alignment = 1; params.am_alignment <= page; params.am_alignment *= 2) {
        assert_int_equal(ucp_worker_create(side->context, &params, &side->worker), UCS_OK);
        ucp_worker_destroy(side->worker);
        side->worker = NULL;
    }
}

API_TEST(test_wrk8_name_is_truncated)
{
    static const char *const names[] = {"short", "exactly_31_characters_long_name",
                                        "this name is much longer than thirty-two bytes"};
    struct cw_side *side = &pair->sides[0];
    char own[64];

    side->context = open_context(UCP_FEATURE_TAG);
    for (int i = 0; i < 3; i++) {
        ucp_worker_params_t params = garbage_params();
        ucp_worker_attr_t attr;

        strcpy(own, names[i]);
        params.field_mask = UCP_WORKER_PARAM_FIELD_NAME;
        params.name = own;
        assert_int_equal(ucp_worker_create(side->context, &params, &side->worker), UCS_OK);
        memset(own, 'x', sizeof(own) - 1); /* it was copied */
        attr = query(side->worker, UCP_WORKER_ATTR_FIELD_NAME);
        assert_int_equal(strncmp(attr.name, names[i], UCP_ENTITY_NAME_MAX - 1), 0);
        assert_true(strnlen(attr.name, sizeof(attr.name)) ==
                    (strlen(names[i]) < UCP_ENTITY_NAME_MAX ? strlen(names[i]) : UCP_ENTITY_NAME_MAX - 1));
        ucp_worker_destroy(side->worker);
        side->worker = NULL;
    }
}

API_TEST(test_wrk8_gen4_query_touches_what_was_asked)
{
    static const struct {
        uint64_t bit;
        size_t offset, size;
    } fields[] = {
        {UCP_WORKER_ATTR_FIELD_THREAD_MODE, offsetof(ucp_worker_attr_t, thread_mode), sizeof(ucs_thread_mode_t)},
        {UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER, offsetof(ucp_worker_attr_t, max_am_header), sizeof(size_t)},
        {UCP_WORKER_ATTR_FIELD_NAME, offsetof(ucp_worker_attr_t, name), UCP_ENTITY_NAME_MAX},
        {UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING, offsetof(ucp_worker_attr_t, max_debug_string), sizeof(size_t)},
        {UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS, offsetof(ucp_worker_attr_t, address_flags), sizeof(uint32_t)},
        {1ull << 60, 0, 0},
    };

    cw_side_open(&pair->sides[0], NULL);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        ucp_worker_attr_t attr = query(pair->sides[0].worker, fields[i].bit);
        const unsigned char *bytes = (const unsigned char *)&attr;

        for (size_t k = sizeof(attr.field_mask); k < sizeof(attr); k++) {
            if (k < fields[i].offset || k >= fields[i].offset + fields[i].size) {
                assert_int_equal(bytes[k], 0xff);
            }
        }
    }
}

API_TEST(test_wrk8_max_info_string_suffices)
{
    ucp_request_param_t param = cw_param_none();
    ucp_request_attr_t attr;
    size_t size;
    char *text, in[8];
    ucs_status_ptr_t recv;

    cw_pair_open(pair, NULL);
    size = query(pair->rx->worker, UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING).max_debug_string;
    assert_true(size >= 64 && size <= 65536);
    text = malloc(size);
    recv = ucp_tag_recv_nbx(pair->rx->worker, in, sizeof(in), 1, CW_TAG_ALL, &param);
    attr.field_mask = UCP_REQUEST_ATTR_FIELD_INFO_STRING | UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE;
    attr.debug_string = text;
    attr.debug_string_size = size;
    assert_int_equal(ucp_request_query(recv, &attr), UCS_OK);
    assert_true(strnlen(text, size) < size - 1);
    ucp_request_cancel(pair->rx->worker, recv);
    assert_int_equal(cw_pair_wait(pair, recv, "cancelled receive"), UCS_ERR_CANCELED);
    free(text);
    cw_pair_close(pair);
}

API_TEST(test_wrk9_max_am_header)
{
    struct cw_pair_config config = {.features = UCP_FEATURE_AM | UCP_FEATURE_TAG};
    size_t header;

    cw_side_open(&pair->sides[0], NULL);
    assert_int_equal(query(pair->sides[0].worker, UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER).max_am_header, 0);
    cw_side_destroy(&pair->sides[0]);
    cw_pair_open(pair, &config);
    header = query(pair->tx->worker, UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER).max_am_header;
    assert_true(header >= 64 && header < 1 << 20);
    cw_pair_ping(pair, 1);
    assert_true(query(pair->tx->worker, UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER).max_am_header >= header);
    cw_pair_close(pair);
}

API_TEST(test_wrk10_hundreds_of_workers)
{
    struct cw_side *side = &pair->sides[0];
    int count = cw_test_reference() ? 20 : 200, fds;
    ucp_worker_h *workers = calloc((size_t)count, sizeof(*workers));
    ucp_worker_params_t params = garbage_params();

    side->context = open_context(UCP_FEATURE_TAG);
    fds = cw_process_fds();
    for (int i = 0; i < count; i++) {
        assert_int_equal(ucp_worker_create(side->context, &params, &workers[i]), UCS_OK);
    }
    print_message("%d workers use %d descriptors\n", count, cw_process_fds() - fds);
    for (int i = 0; i < count; i++) {
        assert_int_equal(ucp_worker_progress(workers[i]), 0);
        ucp_worker_destroy(workers[i]);
    }
    assert_int_equal(cw_process_fds(), fds);
    free(workers);
}

API_TEST(test_wrk11_print_info)
{
    char *text = NULL, *address, wanted[64];
    size_t size = 0, length;
    FILE *stream = open_memstream(&text, &size);
    ucp_worker_params_t params = garbage_params();

    pair->sides[0].context = open_context(UCP_FEATURE_TAG | UCP_FEATURE_AMO64);
    params.field_mask = UCP_WORKER_PARAM_FIELD_NAME;
    params.name = "my worker";
    assert_int_equal(ucp_worker_create(pair->sides[0].context, &params, &pair->sides[0].worker), UCS_OK);
    ucp_worker_print_info(pair->sides[0].worker, stream);
    fclose(stream);
    address = cw_test_worker_address(pair->sides[0].worker, &length);
    snprintf(wanted, sizeof(wanted), "%zu bytes", length);
    assert_int_equal(text[0], '#');
    assert_true(cw_test_reference() || strstr(text, "my worker") != NULL); /* 1.13 prints host:pid always */
    assert_non_null(strstr(text, "address:"));
    assert_non_null(strstr(text, "atomics: "));
    assert_non_null(strstr(text, wanted));
    free(address);
    free(text);
}

/* WRK-6, LOG-4: a request that was never freed is logged, unless the worker was made with the flag. */
API_TEST(test_wrk6_requests_never_freed)
{
    ucp_request_param_t param = cw_param_none();
    char text[4096], byte;

    cw_test_skip_reference("the words are ours");
    for (int ignored = 0; ignored < 2; ignored++) {
        ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_FLAGS,
                                      .flags = ignored ? UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK : 0};
        ucp_params_t features = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
        ucp_context_h context;
        ucp_worker_h worker;
        int saved[2], file;

        assert_int_equal(ucp_init(&features, NULL, &context), UCS_OK);
        assert_int_equal(ucp_worker_create(context, &params, &worker), UCS_OK);
        assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(worker, &byte, 1, 1, CW_TAG_ALL, &param)));
        file = cw_capture_start(saved);
        ucp_worker_destroy(worker);
        cw_capture_end(file, saved, text, sizeof(text));
        assert_true((strstr(text, "was not returned to mpool") != NULL) == !ignored);
        ucp_cleanup(context);
    }
}

API_TEST(test_wrk20_gen9_r9_idle_progress_is_zero)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    cw_pair_open(pair, NULL);
    for (int phase = 0; phase < 2; phase++) {
        while (cw_pair_progress(pair) != 0) {
            if (cw_time_now_s() > deadline) {
                fail_msg("A loop of progress until 0 did not end although nothing happens");
            }
        }
        for (double end = cw_time_now_s() + 0.05; cw_time_now_s() < end;) { /* connection steps may still come */
            cw_pair_progress(pair);
        }
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(cw_pair_progress(pair), 0);
        }
        cw_pair_ping(pair, 1);
    }
    cw_pair_close(pair);
}

API_TEST(test_wrk22_other_workers_need_no_progress)
{
    ucp_worker_params_t params = garbage_params();
    ucp_worker_h bystander;

    cw_pair_open(pair, NULL);
    assert_int_equal(ucp_worker_create(pair->tx->context, &params, &bystander), UCS_OK);
    for (ucp_tag_t tag = 0; tag < 20; tag++) {
        cw_pair_ping(pair, tag);
    }
    ucp_worker_destroy(bystander);
    cw_pair_ping(pair, 21);
    cw_pair_close(pair);
}

struct reentrant {
    ucp_worker_h worker;
    unsigned inner;
    int calls;
};

static void progress_inside(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct reentrant *reentrant = user_data;

    (void)status;
    (void)info;
    reentrant->inner += ucp_worker_progress(reentrant->worker);
    reentrant->calls++;
    ucp_request_free(request);
}

API_TEST(test_abu21_recursive_progress)
{
    struct reentrant reentrant = {0};
    ucp_request_param_t param = cw_param_none();
    uint64_t value = 1;

    cw_test_skip_reference("undefined there");
    cw_pair_open(pair, NULL);
    cw_pair_ping(pair, 1);
    reentrant.worker = pair->rx->worker;
    for (int i = 1; i <= 10; i++) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.recv = progress_inside;
        param.user_data = &reentrant;
        ucp_tag_recv_nbx(pair->rx->worker, &value, sizeof(value), 2, CW_TAG_ALL, &param);
        param.op_attr_mask = 0;
        assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, &value, 8, 2, &param), "send"), UCS_OK);
        cw_pair_wait_count(pair, &reentrant.calls, i, "callback");
    }
    assert_int_equal(reentrant.inner, 0);
    cw_pair_close(pair);
}

API_TEST(test_r27_flush_after_creation_completes_the_wireup)
{
    ucp_request_param_t param = cw_param_none();

    cw_pair_open(pair, NULL);
    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nbx(pair->tx->worker, &param), "worker flush"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->rx->ep, &param), "endpoint flush"), UCS_OK);
    cw_pair_ping(pair, 1);
    assert_int_equal(ucp_worker_fence(pair->tx->worker), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nbx(pair->tx->worker, &param), "worker flush"), UCS_OK);
    cw_pair_close(pair);
}

struct flusher {
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucs_status_t status;
    volatile int done;
};

static void *flusher_run(void *argument)
{
    struct flusher *flusher = argument;

    flusher->status = ucp_worker_flush(flusher->worker);
    flusher->status = (flusher->status == UCS_OK) ? ucp_ep_flush(flusher->ep) : flusher->status;
    __atomic_store_n(&flusher->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The blocking flushes of Charm++, right after creation; the peer, which has to answer, progresses in this thread. */
API_TEST(test_r27_blocking_flush)
{
    struct cw_pair_config config = {.thread_mode = UCS_THREAD_MODE_MULTI};
    struct flusher flusher = {0};
    pthread_t thread;

    cw_pair_open(pair, &config);
    flusher.worker = pair->tx->worker;
    flusher.ep = pair->tx->ep;
    assert_int_equal(pthread_create(&thread, NULL, flusher_run, &flusher), 0);
    for (double end = cw_time_now_s() + CW_WAIT_S; __atomic_load_n(&flusher.done, __ATOMIC_ACQUIRE) == 0;) {
        ucp_worker_progress(pair->rx->worker);
        assert_true(cw_time_now_s() < end);
    }
    pthread_join(thread, NULL);
    assert_int_equal(flusher.status, UCS_OK);
    cw_pair_ping(pair, 1);
    cw_pair_close(pair);
}
