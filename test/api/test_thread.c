/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads: WRK-3, WRK-4, CTX-8, GEN-6, GEN-11, WAK-9. Threads note failures; only the main thread asserts. */
#define _GNU_SOURCE
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4 };

struct talker {
    struct cw_pair *pair;
    pthread_mutex_t *lock; /* NULL with a MULTI worker */
    int index;
    int count;
    const char *failure;
};

static void enter(struct talker *talker)
{
    if (talker->lock != NULL) {
        pthread_mutex_lock(talker->lock);
    }
}

static void leave(struct talker *talker)
{
    if (talker->lock != NULL) {
        pthread_mutex_unlock(talker->lock);
    }
}

/* Progresses both workers until the request is done, as every other thread does at the same time. */
static bool talker_wait(struct talker *talker, ucs_status_ptr_t request)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return request == NULL;
    }
    for (;;) {
        enter(talker);
        for (int i = 0; i < talker->pair->count; i++) {
            ucp_worker_progress(talker->pair->sides[i].worker);
        }
        status = ucp_request_check_status(request);
        if (status != UCS_INPROGRESS) {
            ucp_request_free(request);
        }
        leave(talker);
        if (status != UCS_INPROGRESS) {
            return status == UCS_OK;
        }
        if (cw_time_now_s() > deadline) {
            return false;
        }
    }
}

static void *talker_run(void *argument)
{
    static const size_t sizes[] = {8, 0, 100, 5000, 20000};
    struct talker *talker = argument;
    ucp_request_param_t param = cw_param_none();
    char *out = malloc(20000), *in = malloc(20000);

    for (int i = 0; i < talker->count && talker->failure == NULL; i++) {
        size_t length = sizes[i % 5];
        ucp_tag_t tag = (ucp_tag_t)talker->index << 32 | (ucp_tag_t)i;
        ucs_status_ptr_t send, recv;

        cw_pattern_fill(out, length, tag);
        enter(talker);
        recv = ucp_tag_recv_nbx(talker->pair->rx->worker, in, length, tag, CW_TAG_ALL, &param);
        send = ucp_tag_send_nbx(talker->pair->tx->ep, out, length, tag, &param);
        leave(talker);
        if (!talker_wait(talker, recv)) {
            talker->failure = "a receive failed or did not complete";
        } else if (!talker_wait(talker, send)) {
            talker->failure = "a send failed or did not complete";
        } else if (cw_pattern_find(in, length, tag) >= 0) {
            talker->failure = "wrong data";
        }
    }
    free(out);
    free(in);
    return NULL;
}

static void talk(struct cw_pair *pair, ucs_thread_mode_t mode, pthread_mutex_t *lock)
{
    struct cw_pair_config config = {.thread_mode = mode};
    struct talker talkers[THREADS];
    pthread_t threads[THREADS];

    cw_pair_open(pair, &config);
    for (int i = 0; i < THREADS; i++) {
        talkers[i] = (struct talker){.pair = pair, .lock = lock, .index = i, .count = (int)cw_test_scaled(2000)};
        assert_int_equal(pthread_create(&threads[i], NULL, talker_run, &talkers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        if (talkers[i].failure != NULL) {
            fail_msg("Thread %d: %s", i, talkers[i].failure);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_wrk3_multi_threads_send_and_progress)
{
    talk(pair, UCS_THREAD_MODE_MULTI, NULL);
}

API_TEST(test_wrk3_serialized_any_thread_under_the_users_lock)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    talk(pair, UCS_THREAD_MODE_SERIALIZED, &lock);
}

API_TEST(test_wrk3_nothing_is_bound_to_the_creating_thread)
{
    struct cw_pair_config config = {.thread_mode = UCS_THREAD_MODE_SERIALIZED};

    cw_pair_open(pair, &config);
    for (int i = 0; i < 3; i++) { /* one thread after the other, none of them the creator */
        struct talker talker = {.pair = pair, .index = i, .count = 50};
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, talker_run, &talker), 0);
        pthread_join(thread, NULL);
        if (talker.failure != NULL) {
            fail_msg("Thread %d: %s", i, talker.failure);
        }
    }
    cw_pair_close(pair);
}

/* WRK-4: everything that GEN-7 allows, inside a callback of a MULTI worker. */
struct busy_callback {
    struct cw_pair *pair;
    uint64_t out;
    uint64_t in[2];
    ucs_status_ptr_t send;
    ucs_status_ptr_t recv;
    ucp_ep_h ep;
    ucs_status_ptr_t closing;
    ucs_status_ptr_t flush;
    int calls;
    bool failed;
};

static void call_everything(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct busy_callback *busy = user_data;
    ucp_worker_h worker = busy->pair->rx->worker;
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t seen;
    ucs_status_ptr_t cancelled;
    ucp_worker_attr_t attr;

    (void)status;
    (void)info;
    busy->send = ucp_tag_send_nbx(busy->pair->rx->ep, &busy->out, 8, 2, &param);
    cancelled = ucp_tag_recv_nbx(worker, &busy->in[1], 8, 77, CW_TAG_ALL, &param);
    ucp_request_cancel(worker, cancelled);
    busy->failed = busy->failed || ucp_request_check_status(cancelled) != UCS_ERR_CANCELED;
    ucp_request_free(cancelled);
    busy->failed = busy->failed || ucp_tag_probe_nb(worker, 78, CW_TAG_ALL, 0, &seen) != NULL;
    attr.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE;
    busy->failed = busy->failed || ucp_worker_query(worker, &attr) != UCS_OK;
    busy->ep = cw_side_connect(busy->pair->rx, busy->pair->tx->worker, NULL);
    busy->flush = ucp_ep_flush_nbx(busy->pair->rx->ep, &param);
    busy->closing = ucp_ep_close_nbx(busy->ep, &param);
    ucp_request_free(request);
    busy->calls++;
}

API_TEST(test_wrk4_callbacks_reenter_without_deadlock)
{
    struct cw_pair_config config = {.thread_mode = UCS_THREAD_MODE_MULTI};

    cw_pair_open(pair, &config);
    for (int round = 0; round < 20; round++) {
        struct busy_callback busy = {.pair = pair, .out = 4};
        ucp_request_param_t param = cw_param_none();
        struct cw_op send = {0}, recv = {0};
        uint64_t value = 1, in = 0;

        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.cb.recv = call_everything;
        param.user_data = &busy;
        assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(pair->rx->worker, &busy.in[0], 8, 1, CW_TAG_ALL, &param)));
        cw_op_send(&send, pair->tx->ep, &value, 8, 1);
        cw_pair_wait_count(pair, &busy.calls, 1, "callback");
        assert_false(busy.failed);
        cw_op_recv(&recv, pair->tx->worker, &in, 8, 2, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive of what a callback sent"), UCS_OK);
        assert_int_equal(in, 4);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, busy.send, "send in a callback"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, busy.flush, "flush in a callback"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, busy.closing, "close in a callback"), UCS_OK);
    }
    cw_pair_close(pair);
}

/* A progress thread that sleeps on the fd while this thread sends and is notified by callbacks only (ucxx, NIXL). */
struct progress_thread {
    ucp_worker_h worker;
    int efd;
    int stop;
    long rounds;
    const char *failure;
};

static void *progress_run(void *argument)
{
    struct progress_thread *self = argument;

    while (!__atomic_load_n(&self->stop, __ATOMIC_ACQUIRE)) {
        struct pollfd item = {.fd = self->efd, .events = POLLIN};
        ucs_status_t status;

        while (ucp_worker_progress(self->worker) != 0) {
        }
        status = ucp_worker_arm(self->worker);
        if (status == UCS_OK && poll(&item, 1, CW_WAIT_S * 1000) == 0) {
            self->failure = "slept until the limit";
            return NULL;
        }
        self->rounds++;
    }
    return NULL;
}

static void note_done(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)status;
    (void)info;
    ucp_request_free(request);
    __atomic_add_fetch((int *)user_data, 1, __ATOMIC_RELEASE);
}

API_TEST(test_wrk3_wak20_sleeping_progress_thread)
{
    struct cw_pair_config config = {.thread_mode = UCS_THREAD_MODE_MULTI,
                                    .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};
    struct progress_thread threads[2];
    pthread_t handles[2];
    int done = 0, rounds = (int)cw_test_scaled(3000);
    uint64_t in;

    if (cw_test_self_only()) {
        cw_test_skip_reference("its self transport has no wake-up and refuses the endpoint");
    }
    cw_pair_open(pair, &config);
    for (int i = 0; i < pair->count; i++) {
        threads[i] = (struct progress_thread){.worker = pair->sides[i].worker,
                                              .efd = cw_worker_efd(pair->sides[i].worker)};
        assert_int_equal(pthread_create(&handles[i], NULL, progress_run, &threads[i]), 0);
    }
    for (int i = 0; i < rounds; i++) {
        ucp_request_param_t param = cw_param_none();
        double deadline = cw_time_now_s() + CW_WAIT_S;
        uint64_t out = (uint64_t)i;
        ucs_status_ptr_t send;

        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv = note_done;
        param.user_data = &done;
        ucp_tag_recv_nbx(pair->rx->worker, &in, sizeof(in), 1, CW_TAG_ALL, &param);
        param.op_attr_mask = 0;
        send = ucp_tag_send_nbx(pair->tx->ep, &out, sizeof(out), 1, &param);
        ucp_worker_signal(pair->tx->worker); /* an op posted while the thread sleeps: its owner is woken */
        while (__atomic_load_n(&done, __ATOMIC_ACQUIRE) <= i) {
            if (cw_time_now_s() > deadline) {
                fail_msg("Round %d: the progress threads did not finish it", i);
            }
        }
        while (UCS_PTR_IS_PTR(send) && ucp_request_check_status(send) == UCS_INPROGRESS) {
            assert_true(cw_time_now_s() < deadline);
        }
        if (UCS_PTR_IS_PTR(send)) {
            ucp_request_free(send);
        }
    }
    for (int i = 0; i < pair->count; i++) {
        __atomic_store_n(&threads[i].stop, 1, __ATOMIC_RELEASE);
        ucp_worker_signal(pair->sides[i].worker);
        pthread_join(handles[i], NULL);
        assert_null(threads[i].failure);
    }
    cw_pair_close(pair);
}

/* CTX-8: workers of one context made, used and destroyed by several threads at once. */
struct owner {
    ucp_context_h context;
    const char *failure;
};

static void *owner_run(void *argument)
{
    struct owner *owner = argument;
    ucp_request_param_t param = cw_param_none();

    for (int round = 0; round < 20 && owner->failure == NULL; round++) {
        ucp_worker_params_t params = {.field_mask = 0};
        struct cw_side side = {.context = owner->context};
        uint64_t out = (uint64_t)round, in = 0;
        ucs_status_ptr_t recv, send;

        if (ucp_worker_create(owner->context, &params, &side.worker) != UCS_OK) {
            owner->failure = "worker creation failed";
            break;
        }
        side.ep = cw_side_connect(&side, side.worker, NULL);
        recv = ucp_tag_recv_nbx(side.worker, &in, 8, 1, CW_TAG_ALL, &param);
        send = ucp_tag_send_nbx(side.ep, &out, 8, 1, &param);
        for (double end = cw_time_now_s() + CW_WAIT_S; ucp_request_check_status(recv) == UCS_INPROGRESS;) {
            ucp_worker_progress(side.worker);
            if (cw_time_now_s() > end) {
                owner->failure = "a receive did not complete";
                break;
            }
        }
        ucp_request_free(recv);
        if (UCS_PTR_IS_PTR(send)) {
            ucp_request_free(send);
        }
        if (in != out) {
            owner->failure = "wrong data";
        }
        ucp_worker_destroy(side.worker);
    }
    return NULL;
}

API_TEST(test_ctx8_workers_of_one_context_in_many_threads)
{
    struct owner owners[THREADS];
    pthread_t threads[THREADS];
    ucp_params_t params;
    ucp_context_attr_t attr;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = UCP_FEATURE_TAG;
    params.mt_workers_shared = 1;
    assert_int_equal(ucp_init(&params, NULL, &pair->sides[0].context), UCS_OK);
    attr.field_mask = UCP_ATTR_FIELD_THREAD_MODE;
    assert_int_equal(ucp_context_query(pair->sides[0].context, &attr), UCS_OK);
    assert_int_equal(attr.thread_mode, UCS_THREAD_MODE_MULTI); /* CTX-30 */
    for (int i = 0; i < THREADS; i++) {
        owners[i] = (struct owner){.context = pair->sides[0].context};
        assert_int_equal(pthread_create(&threads[i], NULL, owner_run, &owners[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (owners[i].failure != NULL) {
            fail_msg("Thread %d: %s", i, owners[i].failure);
        }
    }
}

static void *context_run(void *argument)
{
    const char **failure = argument;

    for (int round = 0; round < 20 && *failure == NULL; round++) {
        ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
        ucp_worker_params_t worker_params = {.field_mask = 0};
        ucp_context_h context;
        ucp_worker_h worker;

        if (ucp_init(&params, NULL, &context) != UCS_OK) {
            *failure = "ucp_init failed";
        } else if (ucp_worker_create(context, &worker_params, &worker) != UCS_OK) {
            *failure = "ucp_worker_create failed";
            ucp_cleanup(context);
        } else {
            ucp_worker_destroy(worker);
            ucp_cleanup(context);
        }
    }
    return NULL;
}

API_TEST(test_gen11_contexts_in_many_threads)
{
    const char *failures[THREADS] = {NULL};
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, context_run, &failures[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_null(failures[i]);
    }
}
