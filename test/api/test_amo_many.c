/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics of several processes, of the owner's library and of the owner's CPU on the same words: sums are exact, each
 * ticket comes once, nothing that is swapped in gets lost, a lock of compare-and-swap locks (AMO-10..14, AMO-19).
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const struct cw_pair_config config = {.features = CW_RMA_FEATURES};

enum { CLIENTS = 3, ROUNDS = 100, LOCKS = 10, OWN = 20000, ROOM = 1 << 18 };

/* Words of 8 bytes; tickets begin at TICKETS, 8 bytes each. */
enum word { POSTED, TICKET, HALF, XORED, ORED, ANDED, SWAPPED, CSWAPPED, LOCK, LOCKED, TICKETS = 64 };

static long rounds(void)
{
    return cw_test_scaled(ROUNDS);
}

/* What a client, or the owner, did: to be compared with what the words hold in the end. */
struct account {
    uint64_t posted;
    uint64_t half;
    uint64_t xored;
    uint64_t ored;
    uint64_t anded;
    uint64_t swapped_in;
    uint64_t swapped_out;
};

struct client {
    struct cw_side side;
    ucp_rkey_h key;
    uint64_t address;
    uint64_t number;
    struct account account;
};

static ucs_status_ptr_t start(struct client *client, ucp_atomic_op_t op, enum word word, uint64_t operand, size_t width,
                              uint64_t *reply)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(width);
    if (reply != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = reply;
    }
    return ucp_atomic_op_nbx(client->side.ep, op, &operand, 1, client->address + 8 * (uint64_t)word, client->key,
                             &param);
}

static void post(struct client *client, ucp_atomic_op_t op, enum word word, uint64_t operand, size_t width)
{
    assert_null(start(client, op, word, operand, width, NULL));
}

static uint64_t fetch(struct client *client, ucp_atomic_op_t op, enum word word, uint64_t operand, uint64_t swap)
{
    uint64_t reply = swap;

    assert_int_equal(cw_worker_wait_request(client->side.worker, start(client, op, word, operand, 8, &reply), "fetch"),
                     UCS_OK);
    return reply;
}

static void flush(struct client *client)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_worker_wait_request(client->side.worker, ucp_ep_flush_nbx(client->side.ep, &param), "flush"),
                     UCS_OK);
}

static void client_round(struct client *client, uint64_t *random)
{
    uint64_t number = cw_random_next(random), old, new, ticket;
    struct account *account = &client->account;

    post(client, UCP_ATOMIC_OP_ADD, POSTED, number, 8);
    account->posted += number;
    post(client, UCP_ATOMIC_OP_ADD, HALF, number & 0xffff, 4);
    account->half += number & 0xffff;
    post(client, UCP_ATOMIC_OP_XOR, XORED, number, 8);
    account->xored ^= number;
    new = 1ull << (number % 16 + 16 * client->number);
    post(client, UCP_ATOMIC_OP_OR, ORED, new, 8);
    account->ored |= new;
    post(client, UCP_ATOMIC_OP_AND, ANDED, ~new, 8);
    account->anded |= new;
    ticket = fetch(client, UCP_ATOMIC_OP_ADD, TICKET, 1, 0);
    assert_true(ticket < ROOM / 8 - TICKETS);
    post(client, UCP_ATOMIC_OP_ADD, (enum word)(TICKETS + ticket), 1, 8);
    account->swapped_in += number;
    account->swapped_out += fetch(client, UCP_ATOMIC_OP_SWAP, SWAPPED, number, 0);
    old = 0;
    do { /* an increment of one's own */
        new = old;
        old = fetch(client, UCP_ATOMIC_OP_CSWAP, CSWAPPED, new, new + 1);
    } while (old != new);
}

/* Get, add one, put, under a lock. */
static void client_lock(struct client *client)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t value = 0, zero = 0;

    while (fetch(client, UCP_ATOMIC_OP_CSWAP, LOCK, 0, client->number + 1) != 0) {
        ucp_worker_progress(client->side.worker);
        sched_yield();
    }
    assert_int_equal(cw_worker_wait_request(client->side.worker, ucp_get_nbx(client->side.ep, &value, 8,
                     client->address + 8 * LOCKED, client->key, &param), "get"), UCS_OK);
    value++;
    assert_int_equal(cw_worker_wait_request(client->side.worker, ucp_put_nbx(client->side.ep, &value, 8,
                     client->address + 8 * LOCKED, client->key, &param), "put"), UCS_OK);
    flush(client);
    assert_int_equal(fetch(client, UCP_ATOMIC_OP_SWAP, LOCK, zero, 0), client->number + 1);
}

static int client_run(int fd, const char *argument)
{
    struct client client = {.number = (uint64_t)atoi(argument)};
    unsigned char blob[CW_BLOB_MAX];
    uint64_t length, random = client.number + 1;

    cw_side_open(&client.side, &config);
    client.side.ep = cw_fd_connect(fd, &client.side, &config);
    cw_fd_read(fd, &client.address, 8, client.side.worker);
    cw_fd_read(fd, &length, 8, client.side.worker);
    cw_fd_read(fd, blob, length, client.side.worker);
    assert_int_equal(ucp_ep_rkey_unpack(client.side.ep, blob, &client.key), UCS_OK);
    for (long i = 0; i < rounds(); i++) {
        client_round(&client, &random);
        if (i % (ROUNDS / LOCKS) == 0) {
            client_lock(&client);
        }
    }
    flush(&client);
    cw_fd_write(fd, &client.account, sizeof(client.account));
    cw_fd_barrier(fd, client.side.worker);
    ucp_rkey_destroy(client.key);
    cw_side_destroy(&client.side);
    return 0;
}

/* ---- owner ---- */

static void *own_thread(void *arg)
{
    uint64_t *words = arg;

    for (int i = 0; i < OWN; i++) {
        __atomic_fetch_add(&words[POSTED], 3, __ATOMIC_RELAXED);
        __atomic_fetch_add((uint32_t *)&words[HALF], 1, __ATOMIC_RELAXED);
        __atomic_fetch_xor(&words[XORED], (uint64_t)i << 40, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void own_account(struct account *sum)
{
    for (int i = 0; i < OWN; i++) {
        sum->posted += 3;
        sum->half++;
        sum->xored ^= (uint64_t)i << 40;
    }
}

/* One step of the owner's own CPU in the thread that progresses. */
static void own_step(uint64_t *words, long *increments, long *locks, struct account *account)
{
    uint64_t ticket, expected = 0, number = (uint64_t)*increments * 11;

    ticket = __atomic_fetch_add(&words[TICKET], 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&words[TICKETS + ticket], 1, __ATOMIC_SEQ_CST);
    account->swapped_in += number;
    account->swapped_out += __atomic_exchange_n(&words[SWAPPED], number, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&words[CSWAPPED], 1, __ATOMIC_SEQ_CST);
    (*increments)++;
    if (__atomic_compare_exchange_n(&words[LOCK], &expected, 99, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        __atomic_store_n(&words[LOCKED], __atomic_load_n(&words[LOCKED], __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&words[LOCK], 0, __ATOMIC_SEQ_CST);
        (*locks)++;
    }
}

static bool readable(int fd)
{
    return cw_fd_poll(fd, 0) != 0;
}

static void check_words(const uint64_t *words, const struct account *sum, long increments, long locks)
{
    long total = CLIENTS * rounds() + increments;
    long client_locks = 0;

    for (long i = 0; i < rounds(); i++) {
        client_locks += i % (ROUNDS / LOCKS) == 0;
    }
    assert_true(words[POSTED] == sum->posted);
    assert_true((uint32_t)words[HALF] == (uint32_t)sum->half);
    assert_int_equal(words[HALF] >> 32, 0);
    assert_true(words[XORED] == sum->xored);
    assert_true(words[ORED] == sum->ored);
    assert_true(words[ANDED] == ~sum->anded);
    assert_int_equal(words[TICKET], total);
    for (long i = 0; i < total; i++) {
        assert_int_equal(words[TICKETS + i], 1);
    }
    assert_true(words[SWAPPED] + sum->swapped_out == sum->swapped_in);
    assert_int_equal(words[CSWAPPED], total);
    assert_int_equal(words[LOCK], 0);
    assert_int_equal(words[LOCKED], CLIENTS * client_locks + locks);
}

static void hand_over(struct cw_remote *remote, const struct cw_region *region)
{
    size_t length;
    void *blob = cw_region_blob(region, &length);
    uint64_t address = (uintptr_t)region->base, wire = length;

    cw_fd_write(remote->fd, &address, 8);
    cw_fd_write(remote->fd, &wire, 8);
    cw_fd_write(remote->fd, blob, length);
    free(blob);
}

static void add_account(struct account *sum, const struct account *more)
{
    sum->posted += more->posted;
    sum->half += more->half;
    sum->xored ^= more->xored;
    sum->ored |= more->ored;
    sum->anded |= more->anded;
    sum->swapped_in += more->swapped_in;
    sum->swapped_out += more->swapped_out;
}

/* clients_tls: UCX_TLS of each client, or NULL: as this process. */
static void concur(struct cw_pair *pair, enum cw_memory kind, const char *const *clients_tls)
{
    struct cw_remote remotes[CLIENTS];
    struct account sum = {0}, account;
    struct cw_region region;
    long increments = 0, locks = 0;
    pthread_t thread;
    uint64_t *words;
    const char *tls = getenv("UCX_TLS");
    char *own_tls = strdup(tls == NULL ? "all" : tls);

    cw_side_open(&pair->sides[0], &config);
    pair->count = 1;
    cw_region_open(&region, pair->sides[0].context, kind, ROOM);
    words = (uint64_t *)(void *)region.base;
    memset(words, 0, ROOM);
    words[ANDED] = UINT64_MAX;
    for (int i = 0; i < CLIENTS; i++) {
        char number[] = {(char)('0' + i), '\0'};

        setenv("UCX_TLS", clients_tls == NULL ? own_tls : clients_tls[i], 1);
        cw_remote_start(&remotes[i], "client", number);
        setenv("UCX_TLS", own_tls, 1);
        (void)cw_fd_connect(remotes[i].fd, &pair->sides[0], &config);
        hand_over(&remotes[i], &region);
    }
    assert_int_equal(pthread_create(&thread, NULL, own_thread, words), 0);
    for (int i = 0; i < CLIENTS; i++) {
        double deadline = cw_time_now_s() + 8 * CW_WAIT_S; /* five that spin share what processors there are */

        for (long k = 0; !readable(remotes[i].fd); k++) {
            assert_true(cw_time_now_s() < deadline);
            cw_pair_progress(pair);
            if (increments < ROUNDS && k % 16 == 0) {
                own_step(words, &increments, &locks, &sum);
            } else if (k % 64 == 63) {
                sched_yield();
            }
        }
        cw_fd_read(remotes[i].fd, &account, sizeof(account), pair->sides[0].worker);
        add_account(&sum, &account);
    }
    pthread_join(thread, NULL);
    own_account(&sum);
    check_words(words, &sum, increments, locks);
    for (int i = 0; i < CLIENTS; i++) {
        cw_fd_barrier(remotes[i].fd, pair->sides[0].worker);
        cw_remote_join(&remotes[i]);
    }
    free(own_tls);
    cw_region_close(&region);
    cw_side_destroy(&pair->sides[0]);
}

API_TEST(test_amo14_allocated)
{
    cw_test_need_two_processes();
    concur(pair, CW_MEMORY_ALLOCATED, NULL);
}

API_TEST(test_amo14_heap)
{
    cw_test_need_two_processes();
    concur(pair, CW_MEMORY_HEAP, NULL);
}

/* Peers that are reached by different paths: directly, by packets over shared memory, over a network. */
API_TEST(test_amo14_mixed_transports)
{
    static const char *const tls[CLIENTS] = {"self,tcp", "self,posix", "self,shm,tcp"};

    cw_test_need_two_processes();
    if (cw_test_tls_has("tcp")) {
        skip();
    }
    cw_test_skip_reference("1.13 wants all processes to be equal");
    setenv("UCX_TLS", "self,shm,tcp", 1);
    concur(pair, CW_MEMORY_ALLOCATED, tls);
    concur(pair, CW_MEMORY_SHARED, tls);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"client", client_run}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
