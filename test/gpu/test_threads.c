/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several threads at once, each with a connection of its own, and with memory of several devices: a thread has no
 * context of the driver, that of the memory's device, or that of another one. The streams and the pinned memory that
 * the library keeps belong to all of them.
 */
#include "harness.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH ((size_t)300000)
#include "standin_memory.h"

enum { THREADS = 4, ROUNDS = 30 };

struct job {
    pthread_t thread;
    unsigned number;
    cuda_context context; /* NULL: none */
    char *from, *to;
    char *scratch;
    unsigned wrong;
};

static cuda_context contexts[STANDIN_DEVICES];

static ucs_status_t move(struct cw_pair *pair, const char *from, char *to, size_t length)
{
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t received = ucp_tag_recv_nbx(pair->rx->worker, to, length, 1, CW_TAG_ALL, &param);
    ucs_status_ptr_t sent = ucp_tag_send_nbx(pair->tx->ep, from, length, 1, &param);
    ucs_status_t status = cw_pair_wait(pair, sent, "a send");

    return (status == UCS_OK) ? cw_pair_wait(pair, received, "a receive") : status;
}

static void *run(void *arg)
{
    static const size_t lengths[] = {8, 5000, LENGTH};
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG};
    struct job *job = arg;
    struct cw_pair pair = {.count = 0};
    size_t length;

    ok(cuCtxSetCurrent(job->context));
    cw_pair_open(&pair, &config);
    for (unsigned i = 0; i < ROUNDS; i++) {
        length = lengths[i % 3];
        memset(job->scratch, (int)(job->number * 50 + i), length);
        standin_peek(job->from, job->scratch, length);
        job->wrong += move(&pair, job->from, job->to, length) != UCS_OK;
        standin_peek(job->scratch, job->to, length);
        for (size_t j = 0; j < length; j++) {
            job->wrong += (unsigned char)job->scratch[j] != (unsigned char)(job->number * 50 + i);
        }
    }
    cw_pair_close(&pair);
    for (int i = 0; i < 2; i++) {
        cw_side_destroy(&pair.sides[i]);
    }
    ok(cuCtxSetCurrent(NULL));
    return NULL;
}

static char *device_of(unsigned device)
{
    char *ptr;

    ok(cuCtxSetCurrent(contexts[device]));
    ptr = device_new(LENGTH);
    ok(cuCtxSetCurrent(NULL));
    return ptr;
}

TEST(test_threads_with_any_context)
{
    struct job jobs[THREADS];

    ok(cuInit(0));
    for (int i = 0; i < STANDIN_DEVICES; i++) {
        ok(cuDevicePrimaryCtxRetain(&contexts[i], i));
    }
    standin_delay(20000, 100000);
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){.number = i,
                              .context = (i == 0) ? NULL : contexts[i % STANDIN_DEVICES],
                              .from = device_of((i / 2) % STANDIN_DEVICES),
                              .to = device_of((i + 1) % STANDIN_DEVICES),
                              .scratch = malloc(LENGTH)};
        assert_non_null(jobs[i].scratch);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, run, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(jobs[i].thread, NULL), 0);
    }
    standin_delay(0, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(jobs[i].wrong, 0);
        ok(cuCtxSetCurrent(contexts[(i / 2) % STANDIN_DEVICES]));
        device_free(jobs[i].from);
        device_free(jobs[i].to);
        free(jobs[i].scratch);
    }
    assert_int_equal(standin_events(), 0);
}
