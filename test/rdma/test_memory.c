/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device does with memory: registration, its rights and its cost, revocation, atomics, fork, memory that is
 * given back while registered. The contract of a transport stands on it (docs/why/verbs.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "pair.h"

enum { MEMORY = 4 << 20, PAGE = 4096, SIGNALED = IBV_SEND_SIGNALED };
enum { REMOTE_READ = IBV_ACCESS_REMOTE_READ, REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE };

static int good_wire(void **state)
{
    (void)state;
    pair_wire("good");
    return 0;
}

static char *map(size_t length, int rights)
{
    char *memory = mmap(NULL, length, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    return memory;
}

TEST(test_cost)
{
    static const size_t sizes[] = {PAGE, 64 << 10, 1 << 20, 64 << 20};
    struct pair pair;

    pair_open(&pair, MEMORY, NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *memory = map(sizes[i], PROT_READ | PROT_WRITE);
        double best_reg = 1, best_dereg = 1;
        memset(memory, 1, sizes[i]);
        for (int round = 0; round < 20; round++) {
            const double begin = pair_seconds();
            struct ibv_mr *mr = ibv_reg_mr(pair.a.pd, memory, sizes[i], REMOTE_WRITE);
            assert_non_null(mr);
            const double middle = pair_seconds();
            assert_int_equal(ibv_dereg_mr(mr), 0);
            const double end = pair_seconds();
            best_reg = middle - begin < best_reg ? middle - begin : best_reg;
            best_dereg = end - middle < best_dereg ? end - middle : best_dereg;
        }
        print_message("%8zu KiB: registered in %.0f us, given back in %.0f us\n", sizes[i] >> 10, best_reg * 1e6,
                      best_dereg * 1e6);
        munmap(memory, sizes[i]);
    }
    pair_close(&pair);
}

/* Memory that cannot be written is registered without rights to write, and read from afar. */
TEST(test_read_only)
{
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, NULL);
    char *memory = map(PAGE, PROT_READ | PROT_WRITE);
    strcpy(memory, "constant");
    assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
    errno = 0;
    assert_null(ibv_reg_mr(pair.b.pd, memory, PAGE, REMOTE_WRITE | REMOTE_READ));
    print_message("rights to write on memory that has none: %s\n", strerror(errno));
    struct ibv_mr *mr = ibv_reg_mr(pair.b.pd, memory, PAGE, REMOTE_READ);
    assert_non_null(mr);
    pair.name_b.key = mr->rkey;
    pair.name_b.address = (uintptr_t)memory;
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_READ, 0, 9, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_string_equal(pair.a.memory, "constant");
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 9, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&pair);
}

/* The limit of locked memory counts; root is free of it until it gives up CAP_IPC_LOCK. */
static void limited(struct pair *pair)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    struct rlimit limit = {1 << 20, 1 << 20};
    char *memory = map(MEMORY, PROT_READ | PROT_WRITE);

    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || syscall(SYS_capset, &header, data) != 0) {
        _exit(2);
    }
    struct ibv_context *context = ibv_open_device(pair->a.context->device);
    struct ibv_pd *pd = context != NULL ? ibv_alloc_pd(context) : NULL;
    if (pd == NULL) {
        _exit(3);
    }
    errno = 0;
    if (ibv_reg_mr(pd, memory, MEMORY, REMOTE_WRITE) != NULL) {
        _exit(4);
    }
    const int why = errno;
    if (ibv_reg_mr(pd, memory, 64 << 10, REMOTE_WRITE) == NULL) {
        _exit(5);
    }
    _exit(why == ENOMEM ? 0 : 6);
}

TEST(test_locked_limit)
{
    struct pair pair;
    int status = -1;

    pair_open(&pair, MEMORY, NULL);
    const pid_t child = fork();
    if (child == 0) {
        limited(&pair);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pair_close(&pair);
}

TEST(test_odd_registrations)
{
    struct pair pair;

    pair_open(&pair, MEMORY, NULL);
    errno = 0;
    struct ibv_mr *mr = ibv_reg_mr(pair.a.pd, pair.a.memory, 0, REMOTE_WRITE);
    print_message("of no bytes: %s\n", mr != NULL ? "yes" : strerror(errno));
    if (mr != NULL) {
        ibv_dereg_mr(mr);
    }
    /* Twice the same memory: two keys, each good. */
    mr = ibv_reg_mr(pair.a.pd, pair.a.memory, MEMORY, REMOTE_WRITE);
    assert_non_null(mr);
    assert_int_not_equal(mr->rkey, pair.a.mr->rkey);
    print_message("keys of two registrations in a row: %#x %#x\n", pair.a.mr->rkey, mr->rkey);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    errno = 0;
    mr = ibv_reg_mr(pair.a.pd, pair.a.memory, MEMORY, REMOTE_WRITE | IBV_ACCESS_ON_DEMAND);
    print_message("on demand: %s\n", mr != NULL ? "yes" : strerror(errno));
    assert_null(mr);
    mr = ibv_reg_mr(pair.a.pd, pair.a.memory, MEMORY, REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    print_message("relaxed order: %s\n", mr != NULL ? "yes" : strerror(errno));
    if (mr != NULL) {
        ibv_dereg_mr(mr);
    }
    pair_close(&pair);
}

/* Memory that is given back to the system while registered: the device keeps the old pages, and a cache of
 * registrations by address would read what nobody has any more. */
TEST(test_unmapped)
{
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, NULL);
    memset(pair.b.memory, 1, PAGE);
    char *again = mmap(pair.b.memory, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(again, pair.b.memory);
    memset(again, 2, PAGE);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_READ, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_int_equal(pair.a.memory[0], 1);
    pair_close(&pair);
}

/* After a fork both processes write: the registered pages stay those of the parent, without ibv_fork_init(). */
TEST(test_fork)
{
    struct pair pair;
    struct ibv_wc wc;
    int status = -1;

    pair_open(&pair, MEMORY, NULL);
    memset(pair.b.memory, 1, PAGE);
    print_message("ibv_is_fork_initialized: %d (2: not needed)\n", ibv_is_fork_initialized());
    const pid_t child = fork();
    if (child == 0) {
        memset(pair.b.memory, 3, PAGE);
        usleep(200000);
        _exit(pair.b.memory[0] == 3 ? 0 : 1);
    }
    usleep(50000);
    memset(pair.b.memory, 2, PAGE);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_READ, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    assert_int_equal(pair.a.memory[0], 2);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    pair_close(&pair);
}

static enum ibv_wc_status fetch_add(struct pair *pair, size_t offset, size_t length, struct ibv_wc *wc)
{
    const int posted = pair_post(pair, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, offset, length, SIGNALED);

    if (posted != 0) {
        print_message("atomic of %zu bytes at %zu: refused when posted: %s\n", length, offset, strerror(posted));
        return IBV_WC_GENERAL_ERR;
    }
    return pair_await(pair->a.send_cq, wc);
}

/* Eight bytes, in the order of the host, at multiples of eight. */
TEST(test_atomics)
{
    const uint64_t before = 0x0102030405060708u;
    struct pair pair;
    struct ibv_wc wc;
    uint64_t value;

    pair_open(&pair, MEMORY, NULL);
    memcpy(pair.b.memory, &before, sizeof(before));
    assert_int_equal(fetch_add(&pair, 0, 8, &wc), IBV_WC_SUCCESS);
    memcpy(&value, pair.a.memory, sizeof(value));
    assert_int_equal(value, before);
    memcpy(&value, pair.b.memory, sizeof(value));
    assert_int_equal(value, before + 1);
    const enum ibv_wc_status odd = fetch_add(&pair, 4, 8, &wc);
    print_message("atomic at an address of 4 modulo 8: %d (%s)\n", odd, ibv_wc_status_str(odd));
    assert_int_not_equal(odd, IBV_WC_SUCCESS);
    pair_close(&pair);
    pair_open(&pair, MEMORY, NULL);
    const enum ibv_wc_status four = fetch_add(&pair, 0, 4, &wc);
    print_message("atomic with 4 bytes for the answer: %d (%s)\n", four, ibv_wc_status_str(four));
    pair_close(&pair);
}

static _Atomic bool adding;

static void *add(void *word)
{
    uintptr_t count = 0;

    while (adding) {
        __atomic_fetch_add((uint64_t *)word, 1, __ATOMIC_SEQ_CST);
        count++;
    }
    return (void *)count;
}

/* Device and processor add to one word at once: sums are lost, as the device says (atomic_cap is not GLOB). */
TEST(test_atomic_with_processor)
{
    enum { ADDS = 20000 };
    struct ibv_device_attr attr;
    struct pair pair;
    struct ibv_wc wc;
    pthread_t thread;
    void *own;

    pair_open(&pair, MEMORY, NULL);
    uint64_t *word = (uint64_t *)(void *)pair.b.memory;
    adding = true;
    assert_int_equal(pthread_create(&thread, NULL, add, word), 0);
    for (int i = 0; i < ADDS; i++) {
        assert_int_equal(pair_post(&pair, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, SIGNALED), 0);
        assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_SUCCESS);
    }
    adding = false;
    assert_int_equal(pthread_join(thread, &own), 0);
    assert_int_equal(ibv_query_device(pair.b.context, &attr), 0);
    print_message("device %d, processor %llu, lost %lld\n", ADDS, (unsigned long long)(uintptr_t)own,
                  (long long)(ADDS + (uintptr_t)own - *word));
    assert_int_not_equal(attr.atomic_cap, IBV_ATOMIC_GLOB);
    pair_close(&pair);
}

/* What still comes after `revoke` returned. Side a writes without pause; 1: bytes changed afterwards. */
static bool late_write(struct pair *pair, int (*revoke)(struct pair *pair), const char *what)
{
    enum { LENGTH = 1 << 20 };
    char *before = malloc(LENGTH);
    struct ibv_wc wc;

    assert_non_null(before);
    memset(pair->b.memory, 0, LENGTH);
    for (int i = 0; i < 16; i++) {
        memset(pair->a.memory, i + 1, LENGTH);
        assert_int_equal(pair_post(pair, (uint64_t)i, IBV_WR_RDMA_WRITE, 0, LENGTH, SIGNALED), 0);
    }
    const volatile char *first = pair->b.memory;
    while (*first == 0) {
    }
    const double begin = pair_seconds();
    assert_int_equal(revoke(pair), 0);
    const double end = pair_seconds();
    memcpy(before, pair->b.memory, LENGTH);
    memset(pair->a.memory, 99, LENGTH); /* which what is still to come will bring */
    usleep(20000);
    const bool soon = memcmp(before, pair->b.memory, LENGTH) != 0;
    memcpy(before, pair->b.memory, LENGTH);
    usleep(200000);
    const bool late = soon || memcmp(before, pair->b.memory, LENGTH) != 0;
    const bool end_is_seen = memcmp(before, pair->b.memory, LENGTH) == 0;
    while (cw_verbs_wait(pair->a.send_cq, &wc, 2000) && wc.status == IBV_WC_SUCCESS) {
    }
    const char *how_long = end_is_seen ? "for a while" : "no end";
    print_message("%s took %.0f us; late writes: %s; the writer gets: %s, %.2f s later\n", what, (end - begin) * 1e6,
                  late ? how_long : "none", ibv_wc_status_str(wc.status), pair_seconds() - end);
    free(before);
    return late;
}

static int target_to_error(struct pair *pair)
{
    return cw_verbs_to_error(pair->b.qp);
}

/* The control: without revocation the writer goes on. */
static int nothing(struct pair *pair)
{
    (void)pair;
    return 0;
}

/* Its receives are flushed by what carries out requests, after the last one that it carried out. */
static int target_to_error_and_flushed(struct pair *pair)
{
    struct ibv_wc wc;
    const int result = cw_verbs_to_error(pair->b.qp);

    assert_int_equal(pair_await(pair->b.recv_cq, &wc), IBV_WC_WR_FLUSH_ERR);
    return result;
}

static int close_registration(struct pair *pair)
{
    struct ibv_mr *mr = pair->b.mr;

    pair->b.mr = NULL;
    return ibv_dereg_mr(mr);
}

static int destroy_target(struct pair *pair)
{
    struct ibv_qp *qp = pair->b.qp;

    pair->b.qp = NULL;
    return ibv_destroy_qp(qp);
}

TEST(test_revocation)
{
    static const struct {
        const char *what;
        int (*revoke)(struct pair *pair);
        bool sure;
    } revocations[] = {
        {"target's queue pair to error", target_to_error, false},
        {"target's queue pair to error and flushed", target_to_error_and_flushed, true},
        {"closing the registration", close_registration, true},
        {"destroying the target's queue pair", destroy_target, true},
    };
    const struct cw_verbs_options options = {.timeout = 12, .retries = 3};
    enum { ROUNDS = 5 };
    struct pair pair;

    pair_open(&pair, MEMORY, &options);
    assert_true(late_write(&pair, nothing, "nothing"));
    pair_close(&pair);
    for (size_t i = 0; i < sizeof(revocations) / sizeof(revocations[0]); i++) {
        for (int round = 0; round < ROUNDS; round++) {
            pair_open(&pair, MEMORY, &options);
            cw_verbs_receive(&pair.b, 1, 0, 8);
            const bool late = late_write(&pair, revocations[i].revoke, revocations[i].what);
            assert_false(late && revocations[i].sure);
            pair_close(&pair);
        }
    }
}

/* Stopping the one that writes is not enough: what is on the wire arrives. */
TEST_WITH(test_revocation_at_writer, NULL, good_wire)
{
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, NULL);
    pair_wire("delay 200");
    pair.a.memory[0] = 42;
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 1, SIGNALED), 0);
    usleep(20000);
    assert_int_equal(cw_verbs_to_error(pair.a.qp), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_destroy_qp(pair.a.qp), 0);
    pair.a.qp = NULL;
    const volatile char *first = pair.b.memory;
    const bool early = *first == 42;
    usleep(500000);
    print_message("writer's queue pair to error and destroyed, its request flushed: the byte was there before: %s, "
                  "half a second later: %s\n",
                  early ? "yes" : "no", *first == 42 ? "yes" : "no");
    assert_false(early);
    assert_int_equal(*first, 42);
    pair_wire("good");
    pair_close(&pair);
}

/* A key that was given back is refused, also when the memory is registered again. */
TEST(test_old_key)
{
    struct pair pair;
    struct ibv_wc wc;

    pair_open(&pair, MEMORY, NULL);
    assert_int_equal(ibv_dereg_mr(pair.b.mr), 0);
    pair.b.mr = ibv_reg_mr(pair.b.pd, pair.b.memory, MEMORY, REMOTE_WRITE);
    assert_non_null(pair.b.mr);
    print_message("key before %#x, after %#x\n", pair.name_b.key, pair.b.mr->rkey);
    assert_int_not_equal(pair.name_b.key, pair.b.mr->rkey);
    assert_int_equal(pair_post(&pair, 1, IBV_WR_RDMA_WRITE, 0, 8, SIGNALED), 0);
    assert_int_equal(pair_await(pair.a.send_cq, &wc), IBV_WC_REM_ACCESS_ERR);
    pair_close(&pair);
}
