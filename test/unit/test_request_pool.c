/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests and their pool (core/request.h): who owns the memory when, which callbacks run, and how often
 * (CTX-23, CTX-24, CTX-28, R3). The worker and the context are as bare as the pool needs them.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/context.h"
#include "core/request.h"
#include "core/worker.h"

#define MANY      1000u
#define USER_SIZE 24u

static struct ucp_context context;
static struct ucp_worker *worker;
static unsigned inits, cleanups, calls, lets_go;
static ucs_status_t seen_status;
static void *seen_handle, *seen_data;
static int refuse, refuse_array;
static void (*inside)(void *handle);

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return refuse ? NULL : __real_aligned_alloc(alignment, size);
}

void *__real_realloc(void *ptr, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

void *__wrap_realloc(void *ptr, size_t size)
{
    return refuse_array ? NULL : __real_realloc(ptr, size);
}

static void on_init(void *handle)
{
    inits++;
    memset(handle, 0x11, USER_SIZE);
}

static void on_cleanup(void *handle)
{
    cleanups++;
    assert_int_equal(*(unsigned char *)handle & 0x0f, 1);
}

static void on_done(void *handle, ucs_status_t status, void *user_data)
{
    calls++;
    seen_handle = handle;
    seen_status = status;
    seen_data = user_data;
    if (inside != NULL) {
        inside(handle);
    }
}

static void let_go(struct cw_request *request)
{
    assert_int_equal(request->flags & CW_REQUEST_COMPLETED, 0);
    assert_int_equal(request->status, UCS_INPROGRESS);
    assert_int_equal(calls, 0);
    lets_go++;
}

static int set_up(void **state)
{
    (void)state;
    worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return -1;
    }
    memset(&context, 0, sizeof(context));
    context.request_init = on_init;
    context.request_cleanup = on_cleanup;
    context.request_size = USER_SIZE;
    worker->context = &context;
    inits = cleanups = calls = lets_go = 0;
    refuse = refuse_array = 0;
    inside = NULL;
    cw_request_pool_init(&worker->requests, USER_SIZE);
    return 0;
}

/* CTX-24: one cleanup for each init. */
static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    cw_request_pool_cleanup(&worker->requests, &context);
    assert_int_equal(cleanups, inits);
    cw_request_pool_cleanup(&worker->requests, &context);
    assert_int_equal(cleanups, inits);
    free(worker);
    return 0;
}

static ucp_request_param_t with_callback(void)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_done,
                                 .user_data = &calls};
}

static void check_called(unsigned times, void *handle, ucs_status_t status)
{
    assert_int_equal(calls, times);
    assert_ptr_equal(seen_handle, handle);
    assert_int_equal(seen_status, status);
    assert_ptr_equal(seen_data, &calls);
}

TEST_WITH(nothing_is_made_before_it_is_needed, set_up, tear_down)
{
    assert_int_equal(inits, 0);
    assert_null(worker->requests.slabs);
}

/* CTX-23: init runs once for each object, however often that is used; objects neither overlap nor move. */
TEST_WITH(objects_are_initialised_once_and_keep_apart, set_up, tear_down)
{
    static struct cw_request *requests[MANY];
    unsigned round, i, j, inits_before = 0;
    unsigned char *handle;

    for (round = 0; round < 3; round++) {
        for (i = 0; i < MANY; i++) {
            requests[i] = cw_request_get(worker, NULL, CW_REQUEST_SEND);
            assert_non_null(requests[i]);
            assert_ptr_equal(requests[i]->worker, worker);
            assert_int_equal(requests[i]->status, UCS_INPROGRESS);
            assert_int_equal(requests[i]->flags, 0);
            assert_true(cw_list_empty(&requests[i]->link));
            handle = cw_request_handle(requests[i]);
            assert_int_equal((uintptr_t)handle % 16, 0);
            assert_ptr_equal(cw_request_of(handle), requests[i]);
            assert_int_equal(handle[0], (round == 0) ? 0x11 : 0x21);
            memset(cw_request_state(requests[i]), (int)i, CW_REQUEST_STATE_SIZE);
            memset(handle, 0x21, USER_SIZE);
            memcpy(handle + 1, &i, sizeof(i));
        }
        assert_int_equal(cw_request_pool_in_use(&worker->requests), MANY);
        assert_true(inits >= MANY && inits < 2 * MANY);
        assert_true(round == 0 || inits == inits_before);
        inits_before = inits;
        for (i = 0; i < MANY; i++) {
            handle = cw_request_handle(requests[i]);
            assert_memory_equal(handle + 1, &i, sizeof(i));
            for (j = 0; j < CW_REQUEST_STATE_SIZE; j++) {
                assert_int_equal(((unsigned char *)cw_request_state(requests[i]))[j], i & 0xff);
            }
            cw_request_put(requests[i]);
        }
        assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    }
    assert_int_equal(cleanups, 0);
}

/* Any user size, none included: there is room for a word behind the handle (CTX-28). */
TEST_WITH(every_user_size_has_its_room, set_up, tear_down)
{
    struct cw_request *requests[20];
    size_t size, space;
    unsigned i;

    for (size = 0; size < 70; size++) {
        context.request_init = NULL;
        context.request_cleanup = NULL;
        space = (size < 8) ? 8 : size;
        cw_request_pool_init(&worker->requests, size);
        for (i = 0; i < 20; i++) {
            requests[i] = cw_request_get(worker, NULL, CW_REQUEST_SEND);
            assert_non_null(requests[i]);
            memset(cw_request_handle(requests[i]), 0xff, space);
        }
        for (i = 0; i < 20; i++) {
            assert_ptr_equal(requests[i]->worker, worker);
            assert_int_equal(requests[i]->flags, 0);
            cw_request_put(requests[i]);
        }
        cw_request_pool_cleanup(&worker->requests, &context);
    }
}

TEST_WITH(without_memory_there_is_no_request, set_up, tear_down)
{
    struct cw_request *requests[64];
    struct cw_request *request;
    unsigned count;

    refuse = 1;
    assert_null(cw_request_get(worker, NULL, CW_REQUEST_SEND));
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    assert_int_equal(inits, 0);
    refuse = 0;
    refuse_array = 1;
    assert_null(cw_request_get(worker, NULL, CW_REQUEST_SEND));
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    assert_int_equal(inits, 0);
    refuse_array = 0;
    request = cw_request_get(worker, NULL, CW_REQUEST_SEND);
    assert_non_null(request);
    refuse = 1;
    requests[0] = request;
    for (count = 1; (request = cw_request_get(worker, NULL, CW_REQUEST_SEND)) != NULL; count++) {
        assert_true(count < inits && count < 64);
        requests[count] = request;
    }
    assert_int_equal(count, inits);
    refuse = 0;
    refuse_array = 1;
    assert_null(cw_request_get(worker, NULL, CW_REQUEST_SEND)); /* and those that there are stay known */
    cw_request_put(requests[0]);
    assert_ptr_equal(cw_request_get(worker, NULL, CW_REQUEST_SEND), requests[0]);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), count);
    while (count-- > 0) {
        cw_request_put(requests[count]);
    }
}

/* R3: status first, then the callback, then the memory. */
TEST_WITH(completion_stores_status_then_calls_back, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;
    void *handle;

    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    request->release = let_go;
    handle = cw_request_handle(request);
    cw_request_complete(request, UCS_ERR_CANCELED);
    check_called(1, handle, UCS_ERR_CANCELED);
    assert_int_equal(lets_go, 1);
    assert_int_equal(request->status, UCS_ERR_CANCELED);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 1); /* the user has not given it back */
    cw_request_release(request, 0);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    assert_int_equal(calls, 1);
}

static void free_inside(void *handle)
{
    free((char *)handle - CW_REQUEST_SIZE);
}

/* The program may do with its memory what it likes once the callback runs: reuse it, or free it. */
TEST_WITH(a_users_request_may_be_freed_in_its_callback, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;

    inside = free_inside;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
    param.request = (char *)malloc(CW_REQUEST_SIZE) + CW_REQUEST_SIZE;
    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    request->release = let_go;
    cw_request_complete(request, UCS_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(lets_go, 1);
}

/* ucp_request_release or _free before the end changes nothing for the user's memory: the callback still says when it
 * may be reused. */
TEST_WITH(a_users_request_keeps_its_callback, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;
    uint64_t memory[CW_REQUEST_SIZE / 8];

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
    param.request = memory + CW_REQUEST_SIZE / 8;
    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    cw_request_release(request, 0);
    cw_request_complete(request, UCS_OK);
    assert_int_equal(calls, 1);
}
