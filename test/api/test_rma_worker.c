/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote access of workers that are used by several threads, and of workers that sleep: CTX-8, WRK-22, MEM-18, WAK-4,
 * WAK-5, GEN-7 as far as it is about put, get, atomics and flush.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3, LENGTH = 100000 };

/* ---- threads ---- */

struct actor {
    pthread_t thread;
    int number;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucp_rkey_h key;         /* NULL: its own, from the blob */
    const void *blob;
    uint64_t address;
    const char *wrong;
};

static bool waited(struct actor *actor, ucs_status_ptr_t result)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status = UCS_PTR_RAW_STATUS(result);

    while (UCS_PTR_IS_PTR(result) && (status = ucp_request_check_status(result)) == UCS_INPROGRESS) {
        if (ucp_worker_progress(actor->worker) == 0) {
            if (cw_time_now_s() > deadline) {
                return false;
            }
            sched_yield();
        }
    }
    if (UCS_PTR_IS_PTR(result)) {
        ucp_request_free(result);
    }
    return status == UCS_OK;
}

static ucs_status_ptr_t add(struct actor *actor, uint64_t *reply)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t one = 1;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | (reply != NULL ? UCP_OP_ATTR_FIELD_REPLY_BUFFER : 0);
    param.datatype = ucp_dt_make_contig(8);
    param.reply_buffer = reply;
    return ucp_atomic_op_nbx(actor->ep, UCP_ATOMIC_OP_ADD, &one, 1, actor->address, actor->key, &param);
}

/* One round in the actor's own part of the memory, which begins behind the common word. */
static const char *act(struct actor *actor, char *out, char *in, uint64_t round)
{
    static const size_t lengths[] = {8, 3000, LENGTH};
    uint64_t place = actor->address + 64 + (uint64_t)actor->number * LENGTH, reply;
    ucp_request_param_t param = cw_param_none();
    size_t length = lengths[round % 3];

    cw_pattern_fill(out, length, round);
    memset(in, 0, length);
    if (!waited(actor, ucp_put_nbx(actor->ep, out, length, place, actor->key, &param))) {
        return "put";
    }
    if (add(actor, NULL) != NULL || !waited(actor, add(actor, &reply))) {
        return "atomic";
    }
    if (!waited(actor, round % 2 == 0 ? ucp_ep_flush_nbx(actor->ep, &param) :
                                        ucp_worker_flush_nbx(actor->worker, &param))) {
        return "flush";
    }
    if (round % 5 == 0 && ucp_worker_fence(actor->worker) != UCS_OK) {
        return "fence";
    }
    if (!waited(actor, ucp_get_nbx(actor->ep, in, length, place, actor->key, &param))) {
        return "get";
    }
    return cw_pattern_find(in, length, round) >= 0 ? "data" : NULL;
}

static void *actor_run(void *arg)
{
    struct actor *actor = arg;
    char *out = malloc(LENGTH), *in = malloc(LENGTH);
    long rounds = cw_test_scaled(150);
    bool own_key = actor->key == NULL;

    for (long i = 0; i < rounds && actor->wrong == NULL; i++) {
        if (own_key && ucp_ep_rkey_unpack(actor->ep, actor->blob, &actor->key) != UCS_OK) {
            actor->wrong = "unpack";
            break;
        }
        actor->wrong = act(actor, out, in, (uint64_t)i);
        if (own_key) {
            ucp_rkey_destroy(actor->key);
        }
    }
    free(out);
    free(in);
    return NULL;
}

static void open_mt(struct cw_side *side, ucs_thread_mode_t mode)
{
    ucp_params_t params;
    ucp_worker_params_t worker;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = CW_RMA_FEATURES;
    params.mt_workers_shared = 1;
    if (side->context == NULL) {
        assert_int_equal(ucp_init(&params, NULL, &side->context), UCS_OK);
    }
    memset(&worker, 0xff, sizeof(worker));
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = mode;
    assert_int_equal(ucp_worker_create(side->context, &worker, &side->worker), UCS_OK);
}

/* one_worker: all threads use one MULTI worker, endpoint and key; else each has its own, of one common context. */
static void threads(struct cw_pair *pair, enum cw_memory kind, bool one_worker)
{
    struct actor actors[THREADS];
    struct cw_side sides[THREADS] = {{0}};
    struct cw_helper helper;
    struct cw_region region;
    struct cw_side owner = {0};
    size_t size;
    void *blob;

    open_mt(&owner, UCS_THREAD_MODE_SERIALIZED);
    cw_region_open(&region, owner.context, kind, 64 + THREADS * LENGTH);
    memset(region.base, 0, region.length);
    blob = cw_region_blob(&region, &size);
    for (int i = 0; i < THREADS; i++) {
        sides[i].context = sides[0].context;
        if (i == 0 || !one_worker) {
            open_mt(&sides[i], UCS_THREAD_MODE_MULTI);
            sides[i].ep = cw_side_connect(&sides[i], owner.worker, NULL);
        } else {
            sides[i] = sides[0];
        }
        actors[i] = (struct actor){.number = i, .context = sides[i].context, .worker = sides[i].worker, .blob = blob,
                                   .ep = sides[i].ep, .address = (uintptr_t)region.base};
        if (one_worker) {
            actors[i].key = i == 0 ? cw_region_key(&region, sides[0].ep) : actors[0].key;
        }
    }
    cw_helper_start(&helper, owner.worker);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&actors[i].thread, NULL, actor_run, &actors[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(actors[i].thread, NULL);
    }
    cw_helper_stop(&helper);
    for (int i = 0; i < THREADS; i++) {
        if (actors[i].wrong != NULL) {
            fail_msg("Thread %d: something is wrong with %s", i, actors[i].wrong);
        }
    }
    assert_int_equal(*(uint64_t *)(void *)region.base, 2 * THREADS * cw_test_scaled(150));
    if (one_worker) {
        ucp_rkey_destroy(actors[0].key);
    }
    for (int i = 0; i < (one_worker ? 1 : THREADS); i++) {
        ucp_worker_destroy(sides[i].worker);
    }
    ucp_cleanup(sides[0].context);
    free(blob);
    cw_region_close(&region);
    cw_side_destroy(&owner);
    (void)pair;
}

API_TEST(test_ctx8_workers_of_one_context)
{
    cw_test_need_two_workers();
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        threads(pair, (enum cw_memory)kind, false);
    }
}

API_TEST(test_one_worker_of_several_threads)
{
    cw_test_need_two_workers();
    cw_test_skip_reference("its worker is not used by several threads here");
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        threads(pair, (enum cw_memory)kind, true);
    }
}

/* ---- sleep ---- */

/* Progress until something can be waited for; then sleeps until the descriptor is readable, or for a while. */
static bool sleep_once(ucp_worker_h worker)
{
    while (ucp_worker_progress(worker) != 0) {
    }
    return ucp_worker_arm(worker) == UCS_OK;
}

/* The owner of memory that does nothing but sleep and progress when it is woken. */
static int sleeper(int fd, const char *argument)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES | UCP_FEATURE_WAKEUP};
    struct cw_region region;
    struct cw_side side;
    uint64_t wire;
    size_t length;
    void *blob;

    cw_side_open(&side, &config);
    side.ep = cw_fd_connect(fd, &side, &config);
    cw_region_open(&region, side.context, (enum cw_memory)atoi(argument), LENGTH);
    memset(region.base, 0, LENGTH);
    blob = cw_region_blob(&region, &length);
    wire = (uintptr_t)region.base;
    cw_fd_write(fd, &wire, 8);
    wire = length;
    cw_fd_write(fd, &wire, 8);
    cw_fd_write(fd, blob, length);
    free(blob);
    while (cw_fd_poll(fd, 0) == 0) {
        if (sleep_once(side.worker)) {
            struct pollfd items[2] = {{.fd = cw_worker_efd(side.worker), .events = POLLIN},
                                      {.fd = fd, .events = POLLIN}};

            if (poll(items, 2, CW_WAIT_S * 1000) == 0) {
                return 4; /* nothing for so long: something was lost */
            }
        }
    }
    cw_fd_barrier(fd, side.worker);
    cw_region_close(&region);
    cw_side_destroy(&side);
    return 0;
}

/* Waits for a request asleep. */
static void wait_asleep(struct cw_pair *pair, ucs_status_ptr_t result, const char *what)
{
    ucs_status_t status = UCS_PTR_RAW_STATUS(result);

    while (UCS_PTR_IS_PTR(result) && (status = ucp_request_check_status(result)) == UCS_INPROGRESS) {
        if (sleep_once(pair->tx->worker) && ucp_request_check_status(result) == UCS_INPROGRESS &&
            cw_fd_poll(cw_worker_efd(pair->tx->worker), CW_WAIT_S * 1000) == 0) {
            fail_msg("%s: nobody woke the worker for %d s", what, CW_WAIT_S);
        }
    }
    assert_int_equal(status, UCS_OK);
    if (UCS_PTR_IS_PTR(result)) {
        ucp_request_free(result);
    }
}

static void asleep(struct cw_pair *pair, struct actor *actor)
{
    static char out[LENGTH], in[LENGTH];
    ucp_request_param_t param = cw_param_none();
    uint64_t reply = 0;

    for (uint64_t i = 0; i < 60; i++) {
        static const size_t lengths[] = {8, 5000, LENGTH - 8};
        size_t length = lengths[i % 3];

        cw_pattern_fill(out, length, i);
        wait_asleep(pair, ucp_put_nbx(actor->ep, out, length, actor->address + 8, actor->key, &param), "put");
        if (i % 2 == 0) {
            wait_asleep(pair, ucp_ep_flush_nbx(actor->ep, &param), "flush");
        } else {
            wait_asleep(pair, ucp_worker_flush_nbx(pair->tx->worker, &param), "flush of the worker");
        }
        wait_asleep(pair, ucp_get_nbx(actor->ep, in, length, actor->address + 8, actor->key, &param), "get");
        cw_pattern_check(in, length, i);
        wait_asleep(pair, add(actor, &reply), "atomic");
        assert_int_equal(reply, i);
    }
}

API_TEST(test_wak5_both_asleep)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES | UCP_FEATURE_WAKEUP};

    cw_test_need_two_processes();
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        char number[] = {(char)('0' + kind), '\0'};
        unsigned char blob[CW_BLOB_MAX];
        struct actor actor = {.number = 0};
        struct cw_remote remote;
        uint64_t length;
        char byte = 'b';

        cw_remote_start(&remote, "sleeper", number);
        cw_side_open(&pair->sides[0], &config);
        pair->count = 1;
        pair->tx = pair->rx = &pair->sides[0];
        actor.worker = pair->tx->worker;
        actor.ep = pair->tx->ep = cw_fd_connect(remote.fd, pair->tx, &config);
        cw_fd_read(remote.fd, &actor.address, 8, NULL);
        cw_fd_read(remote.fd, &length, 8, NULL);
        cw_fd_read(remote.fd, blob, length, NULL);
        assert_int_equal(ucp_ep_rkey_unpack(actor.ep, blob, &actor.key), UCS_OK);
        asleep(pair, &actor);
        ucp_rkey_destroy(actor.key);
        cw_fd_write(remote.fd, &byte, 1);
        cw_fd_read(remote.fd, &byte, 1, pair->tx->worker);
        cw_remote_join(&remote);
        cw_side_destroy(&pair->sides[0]);
    }
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"sleeper", sleeper}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
