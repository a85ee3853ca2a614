/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that send to each other by more connections than they keep with a queue pair. Idle ones are parked, and
 * each message arrives once and in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "runner.h"

enum { PROCESSES = 8, ROUNDS = 4, HANG_S = 100, REST_MS = 400 };

static struct {
    _Atomic int ready;
    _Atomic int over;
    char addresses[PROCESSES][1024];
} * shared;

static ucp_worker_h worker;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "process %d: %s\n", (int)getpid(), what);
        _exit(1);
    }
}

static long now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_for(_Atomic int *count, int value)
{
    const long end = now_ms() + HANG_S * 1000;

    while (*count < value) {
        ucp_worker_progress(worker);
        check(now_ms() < end, "the others do not come");
        sched_yield();
    }
}

static void end_request(ucs_status_ptr_t request)
{
    const long end = now_ms() + HANG_S * 1000;

    check(!UCS_PTR_IS_ERR(request), "an operation fails");
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
        check(now_ms() < end, "an operation does not end");
        sched_yield();
    }
    if (UCS_PTR_IS_PTR(request)) {
        check(ucp_request_check_status(request) == UCS_OK, "an operation fails");
        ucp_request_free(request);
    }
}

static void open_worker(int me)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_address_t *address;
    ucp_context_h context;
    char file[64];
    size_t length;

    snprintf(file, sizeof(file), "/tmp/rdma_park.%d", me);
    setenv("UCX_LOG_LEVEL", "debug", 1);
    setenv("UCX_LOG_FILE", file, 1);
    setenv("UCX_NET_DEVICES", (me % 2 == 0) ? "rxe0:1" : "rxe1:1", 1);
    check(ucp_init(&params, NULL, &context) == UCS_OK, "ucp_init");
    check(ucp_worker_create(context, &worker_params, &worker) == UCS_OK, "ucp_worker_create");
    check(ucp_worker_get_address(worker, &address, &length) == UCS_OK && length <= sizeof(shared->addresses[0]),
          "ucp_worker_get_address");
    memcpy(shared->addresses[me], address, length);
    ucp_worker_release_address(worker, address);
}

static void rest(void)
{
    const long end = now_ms() + REST_MS;

    while (now_ms() < end) {
        ucp_worker_progress(worker);
        sched_yield();
    }
}

static void child(int me)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucs_status_ptr_t requests[PROCESSES];
    ucp_ep_h eps[PROCESSES];
    uint32_t round, got;
    int i;

    open_worker(me);
    shared->ready++;
    wait_for(&shared->ready, PROCESSES);
    for (i = 0; i < PROCESSES; i++) {
        params.address = (const ucp_address_t *)shared->addresses[i];
        check(ucp_ep_create(worker, &params, &eps[i]) == UCS_OK, "ucp_ep_create");
    }
    for (round = 0; round < ROUNDS; round++) {
        for (i = 0; i < PROCESSES; i++) {
            requests[i] = ucp_tag_send_nbx(eps[i], &round, sizeof(round), (ucp_tag_t)me, &param);
        }
        for (i = 0; i < PROCESSES; i++) {
            got = UINT32_MAX;
            end_request(ucp_tag_recv_nbx(worker, &got, sizeof(got), (ucp_tag_t)i, UINT64_MAX, &param));
            check(got == round, "a message is out of order");
            end_request(requests[i]);
        }
        rest();
    }
    shared->over++;
    wait_for(&shared->over, PROCESSES);
    _exit(0);
}

static unsigned count_parked(int me)
{
    char name[64], line[1024];
    unsigned count = 0;
    FILE *file;

    snprintf(name, sizeof(name), "/tmp/rdma_park.%d", me);
    file = fopen(name, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, "is parked") != NULL;
    }
    (void)fclose(file);
    (void)remove(name);
    return count;
}

TEST(test_park)
{
    int i, status, parked = 0;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            child(i);
        }
    }
    for (i = 0; i < PROCESSES; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    for (i = 0; i < PROCESSES; i++) {
        parked += (int)count_parked(i);
    }
    printf("%d connections were parked\n", parked);
    assert_true(parked >= PROCESSES);
}
