/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests and their pool (core/request.h): who owns the memory when, which callbacks run, and how often
 * (CTX-20 to CTX-24, R3, R4, R5, R7, ABU-20). The worker and the context are as bare as the pool needs them.
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

static void on_received(void *handle, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    assert_int_equal(info->sender_tag, 0x1234);
    assert_int_equal(info->length, 99);
    on_done(handle, status, user_data);
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
    assert_null(worker->requests.chunks);
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
TEST_WITH(completion_tells_status_then_callback, set_up, tear_down)
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

TEST_WITH(receives_get_their_info, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;

    param.cb.recv = on_received;
    request = cw_request_get(worker, &param, CW_REQUEST_TAG_RECV);
    request->info = (ucp_tag_recv_info_t){.sender_tag = 0x1234, .length = 99};
    cw_request_complete(request, UCS_OK);
    check_called(1, cw_request_handle(request), UCS_OK);
    cw_request_release(request, 1);
}

/* Callback and user data count under their mask only. */
TEST_WITH(attributes_count_under_their_mask, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;

    param.op_attr_mask = 0;
    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    assert_null(request->user_data);
    cw_request_complete(request, UCS_OK);
    assert_int_equal(calls, 0);
    cw_request_release(request, 1);

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK;
    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    cw_request_complete(request, UCS_OK);
    assert_int_equal(calls, 1);
    assert_null(seen_data);
    cw_request_release(request, 1);
}

/* R4: ucp_request_release keeps the callback of an operation under way, ucp_request_free drops it. */
TEST_WITH(release_before_completion_keeps_the_callback_and_free_drops_it, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;
    int keeps;

    for (keeps = 0; keeps < 2; keeps++) {
        request = cw_request_get(worker, &param, CW_REQUEST_SEND);
        cw_request_release(request, keeps);
        assert_int_equal(cw_request_pool_in_use(&worker->requests), 1);
        assert_int_equal(calls, 0);
        cw_request_release(request, !keeps); /* the first word counts */
        cw_request_complete(request, UCS_OK);
        assert_int_equal(calls, (unsigned)keeps);
        assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    }
    check_called(1, cw_request_handle(request), UCS_OK);
}

/* R5: the status stays readable, and the object is given out only once. */
TEST_WITH(a_double_release_is_harmless, set_up, tear_down)
{
    struct cw_request *request, *first, *second;

    request = cw_request_get(worker, NULL, CW_REQUEST_SEND);
    cw_request_complete(request, UCS_ERR_MESSAGE_TRUNCATED);
    cw_request_release(request, 0);
    cw_request_release(request, 0);
    cw_request_release(request, 1);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    assert_int_equal(request->status, UCS_ERR_MESSAGE_TRUNCATED);
    assert_true(request->flags & CW_REQUEST_COMPLETED);
    first = cw_request_get(worker, NULL, CW_REQUEST_SEND);
    second = cw_request_get(worker, NULL, CW_REQUEST_SEND);
    assert_ptr_not_equal(first, second);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 2);
    cw_request_put(first);
    cw_request_put(second);
}

static void release_inside(void *handle)
{
    cw_request_release(cw_request_of(handle), 0);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 1); /* still in use by its own completion */
    cw_request_release(cw_request_of(handle), 1);
}

TEST_WITH(a_callback_may_release_its_request, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request, *next;

    inside = release_inside;
    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    cw_request_complete(request, UCS_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    assert_int_equal(request->status, UCS_OK);
    cw_request_release(request, 0);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    inside = NULL;
    next = cw_request_get(worker, NULL, CW_REQUEST_SEND);
    assert_ptr_equal(next, request);
    assert_int_equal(next->flags, 0);
    cw_request_put(next);
}

static struct cw_request *chained;

static void start_another_inside(void *handle)
{
    cw_request_release(cw_request_of(handle), 0);
    inside = NULL;
    chained = cw_request_get(worker, NULL, CW_REQUEST_SEND);
    assert_ptr_not_equal(chained, cw_request_of(handle));
}

/* What a callback posts does not get the object whose callback runs. */
TEST_WITH(a_callback_may_start_another_request, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;

    inside = start_another_inside;
    request = cw_request_get(worker, &param, CW_REQUEST_SEND);
    cw_request_complete(request, UCS_OK);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 1);
    assert_int_equal(chained->flags, 0);
    cw_request_put(chained);
}

/* FIELD_REQUEST: CW_REQUEST_SIZE bytes below the handle are the library's, at 8 bytes' alignment; above is nothing of
 * ours, and neither is the pool touched (CTX-20, CTX-22, R7, ABU-20). */
TEST_WITH(a_users_request_stays_within_its_bytes, set_up, tear_down)
{
    ucp_request_param_t param = with_callback();
    struct cw_request *request;
    size_t shift, i;
    char *memory;

    assert_true(CW_REQUEST_SIZE <= 256);
    for (shift = 0; shift < 64; shift += 8) {
        calls = 0;
        memory = aligned_alloc(64, 64 + 256 + 64);
        assert_non_null(memory);
        memset(memory, 0x77, 64 + 256 + 64);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = memory + shift + CW_REQUEST_SIZE;
        request = cw_request_get(worker, &param, CW_REQUEST_SEND);
        assert_ptr_equal(cw_request_handle(request), param.request);
        memset(cw_request_state(request), 0x55, CW_REQUEST_STATE_SIZE);
        cw_request_complete(request, UCS_ERR_IO_ERROR);
        check_called(1, param.request, UCS_ERR_IO_ERROR);
        assert_int_equal(request->status, UCS_ERR_IO_ERROR);
        cw_request_release(request, 0); /* not ours to free */
        cw_request_put(request);
        for (i = 0; i < 64 + 256 + 64; i++) {
            assert_true((i >= shift && i < shift + CW_REQUEST_SIZE) || memory[i] == 0x77);
        }
        free(memory);
    }
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    assert_null(worker->requests.chunks);
    assert_int_equal(inits, 0);
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

/* ucp_request_release or _free before the end changes nothing for the user's memory: the callback still tells when it
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
