/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics of several processes on the same words, while a thread of the owner works on them with its CPU's own atomics
 * (AMO-14). Every word belongs to a kind of operation whose results can be checked exactly: sums, values that each come
 * once, bits that have one owner, tokens that change hands, a lock with something behind it. The memory is once the
 * library's and once the program's; with shm, further, half of the processes reach it by loads and stores and the other
 * half by TCP.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 4, OWNER = PROCESSES, WORKERS = PROCESSES + 1, FETCHES = 20000, BITS = 8, KINDS = 8, LINE = 128 };

#define SECONDS      0.5
#define TURN_SECONDS 0.002

#define START64 (UINT64_MAX - 100) /* sums wrap around (AMO-13) */
#define START32 (UINT32_MAX - 100)
#define GUARD   0x5ca1ab1eu

/* One word per kind and width. A word of 32 bits has a guard behind it. */
struct words {
    struct {
        _Alignas(LINE) uint64_t word;
        _Alignas(LINE) uint32_t half;
        uint32_t guard;
    } kinds[KINDS];
    _Alignas(LINE) uint64_t behind_lock;
};

enum kind { ADD, FETCH_ADD, XOR, SET_CLEAR, SWAP, LOCK, CSWAP_ADD, MASK };

/* What one of them did, by width: 0: 64 bits, 1: 32 bits. */
struct report {
    uint64_t added[2];
    uint64_t xored[2];
    uint64_t put_in[2];         /* by swaps: the sum of all tokens given ... */
    uint64_t got_out[2];        /* ... and taken */
    uint64_t mixed_in[2];       /* the same, of a hash of each */
    uint64_t mixed_out[2];
    uint64_t locked;
    uint64_t swapped[2];        /* increments by compare-and-swap */
    uint64_t bits[2];           /* that it has set at the end */
    uint32_t num_fetched[2];
    uint32_t fetched[2][FETCHES];
};

/* Where a worker works. */
struct place {
    unsigned number;
    struct words *words;        /* the owner; else NULL */
    struct cw_side side;
    ucp_rkey_h rkey;
    uint64_t address;
    uint64_t random;
    struct report *report;
};

static uint64_t mixed(uint64_t token)
{
    token = (token ^ (token >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return token ^ (token >> 29);
}

/* There are more of them than processors: who waits lets others work. */
static void relax(ucp_worker_h worker)
{
    if (worker == NULL || ucp_worker_progress(worker) == 0) {
        sched_yield();
    }
}

static ucs_status_t wait_for(ucp_worker_h worker, ucs_status_ptr_t request)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        relax(worker);
        if (cw_time_now_s() > deadline) {
            fail_msg("An operation did not end within %d s", CW_WAIT_S);
        }
    }
    ucp_request_free(request);
    return status;
}

/* ---- one operation ---- */

static uint64_t by_cpu(void *word, ucp_atomic_op_t op, uint64_t operand, uint64_t swap, int narrow)
{
    uint32_t small = (uint32_t)operand;

    switch (op) {
    case UCP_ATOMIC_OP_ADD:
        return narrow ? __atomic_fetch_add((uint32_t *)word, small, __ATOMIC_SEQ_CST) :
                        __atomic_fetch_add((uint64_t *)word, operand, __ATOMIC_SEQ_CST);
    case UCP_ATOMIC_OP_SWAP:
        return narrow ? __atomic_exchange_n((uint32_t *)word, small, __ATOMIC_SEQ_CST) :
                        __atomic_exchange_n((uint64_t *)word, operand, __ATOMIC_SEQ_CST);
    case UCP_ATOMIC_OP_AND:
        return narrow ? __atomic_fetch_and((uint32_t *)word, small, __ATOMIC_SEQ_CST) :
                        __atomic_fetch_and((uint64_t *)word, operand, __ATOMIC_SEQ_CST);
    case UCP_ATOMIC_OP_OR:
        return narrow ? __atomic_fetch_or((uint32_t *)word, small, __ATOMIC_SEQ_CST) :
                        __atomic_fetch_or((uint64_t *)word, operand, __ATOMIC_SEQ_CST);
    case UCP_ATOMIC_OP_XOR:
        return narrow ? __atomic_fetch_xor((uint32_t *)word, small, __ATOMIC_SEQ_CST) :
                        __atomic_fetch_xor((uint64_t *)word, operand, __ATOMIC_SEQ_CST);
    default:
        if (narrow) {
            __atomic_compare_exchange_n((uint32_t *)word, &small, (uint32_t)swap, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST);
            return small;
        }
        __atomic_compare_exchange_n((uint64_t *)word, &operand, swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return operand;
    }
}

static uint64_t offset_of(enum kind kind, int narrow)
{
    return narrow ? offsetof(struct words, kinds[kind].half) : offsetof(struct words, kinds[kind].word);
}

static uint64_t fetch_at(struct place *place, uint64_t offset, ucp_atomic_op_t op, uint64_t operand, uint64_t swap,
                         int narrow)
{
    uint32_t small[2] = {(uint32_t)operand, (uint32_t)swap};
    uint64_t large[2] = {operand, swap};
    ucp_request_param_t param;

    if (place->words != NULL) {
        return by_cpu((char *)place->words + offset, op, operand, swap, narrow);
    }
    param = cw_param_none();
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype = ucp_dt_make_contig(narrow ? 4 : 8);
    param.reply_buffer = narrow ? (void *)&small[1] : (void *)&large[1];
    if (wait_for(place->side.worker, ucp_atomic_op_nbx(place->side.ep, op, narrow ? (void *)small : (void *)large, 1,
                                                       place->address + offset, place->rkey, &param)) != UCS_OK) {
        fail_msg("A fetching atomic fails");
    }
    return narrow ? small[1] : large[1];
}

static uint64_t fetch(struct place *place, enum kind kind, ucp_atomic_op_t op, uint64_t operand, uint64_t swap,
                      int narrow)
{
    return fetch_at(place, offset_of(kind, narrow), op, operand, swap, narrow);
}

static void post(struct place *place, enum kind kind, ucp_atomic_op_t op, uint64_t operand, int narrow)
{
    ucp_request_param_t param = cw_param_none();
    uint32_t small = (uint32_t)operand;
    uint64_t offset = offset_of(kind, narrow);
    ucs_status_ptr_t result;

    if (place->words != NULL) {
        (void)by_cpu((char *)place->words + offset, op, operand, 0, narrow);
        return;
    }
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(narrow ? 4 : 8);
    result = ucp_atomic_op_nbx(place->side.ep, op, narrow ? (void *)&small : (void *)&operand, 1,
                               place->address + offset, place->rkey, &param);
    if (result != NULL) {
        fail_msg("A posted atomic returns something else than NULL (AMO-11)");
    }
}

/* ---- what each kind does ---- */

/* The bits of the word that are this worker's own. */
static uint64_t own_bits(const struct place *place, int narrow)
{
    unsigned width = narrow ? 6 : BITS;

    return ((UINT64_C(1) << width) - 1) << (place->number * width);
}

static void set_and_clear(struct place *place, int narrow)
{
    uint64_t own = own_bits(place, narrow);
    uint64_t change = cw_random_next(&place->random) & own;
    int sets = (cw_random_next(&place->random) & 1) != 0;
    uint64_t before = sets ? fetch(place, SET_CLEAR, UCP_ATOMIC_OP_OR, change, 0, narrow) :
                             fetch(place, SET_CLEAR, UCP_ATOMIC_OP_AND, ~change, 0, narrow);

    if ((before & own) != place->report->bits[narrow]) {
        fail_msg("Somebody else changed a bit of mine");
    }
    place->report->bits[narrow] = sets ? (before & own) | change : before & own & ~change;
}

static void swap_token(struct place *place, int narrow)
{
    uint64_t token = cw_random_next(&place->random);
    uint64_t out;

    token = narrow ? (uint32_t)token : token;
    out = fetch(place, SWAP, UCP_ATOMIC_OP_SWAP, token, 0, narrow);
    place->report->put_in[narrow] += token;
    place->report->mixed_in[narrow] += mixed(token);
    place->report->got_out[narrow] += out;
    place->report->mixed_out[narrow] += mixed(out);
}

/* What is behind the lock is changed in two steps, which nobody may come between. */
static void use_lock(struct place *place, int narrow)
{
    const uint64_t behind = offsetof(struct words, behind_lock);
    uint64_t value;

    if (fetch(place, LOCK, UCP_ATOMIC_OP_CSWAP, 0, place->number + 1, narrow) != 0) {
        relax(place->side.worker);
        return;
    }
    if (!narrow) {
        value = fetch_at(place, behind, UCP_ATOMIC_OP_ADD, 0, 0, 0);
        if (fetch_at(place, behind, UCP_ATOMIC_OP_SWAP, value + 1, 0, 0) != value) {
            fail_msg("Two of them have the lock");
        }
        place->report->locked++;
    }
    if (fetch(place, LOCK, UCP_ATOMIC_OP_CSWAP, place->number + 1, 0, narrow) != place->number + 1) {
        fail_msg("The lock is somebody else's before it was given back");
    }
}

static void add_by_cswap(struct place *place, int narrow)
{
    uint64_t seen = fetch(place, CSWAP_ADD, UCP_ATOMIC_OP_OR, 0, 0, narrow);

    if (fetch(place, CSWAP_ADD, UCP_ATOMIC_OP_CSWAP, seen, seen + 1, narrow) == seen) {
        place->report->swapped[narrow]++;
    }
}

static void one_round(struct place *place, enum kind kind, int narrow)
{
    struct report *report = place->report;
    uint64_t value = cw_random_next(&place->random);

    switch (kind) {
    case ADD:
        post(place, ADD, UCP_ATOMIC_OP_ADD, value, narrow);
        report->added[narrow] += value;
        break;
    case FETCH_ADD:
        if (report->num_fetched[narrow] < FETCHES) {
            report->fetched[narrow][report->num_fetched[narrow]++] =
                (uint32_t)(fetch(place, FETCH_ADD, UCP_ATOMIC_OP_ADD, 1, 0, narrow) - (narrow ? START32 : START64));
        }
        break;
    case XOR:
        post(place, XOR, UCP_ATOMIC_OP_XOR, value, narrow);
        report->xored[narrow] ^= value;
        break;
    case SET_CLEAR:
        set_and_clear(place, narrow);
        break;
    case SWAP:
        swap_token(place, narrow);
        break;
    case LOCK:
        use_lock(place, narrow);
        break;
    case CSWAP_ADD:
        add_by_cswap(place, narrow);
        break;
    case MASK: /* each posts bits of its own: all are set, or cleared, at the end */
        post(place, MASK, UCP_ATOMIC_OP_OR, own_bits(place, narrow) & value, narrow);
        post(place, MASK, UCP_ATOMIC_OP_AND, ~(own_bits(place, narrow) & mixed(value)), narrow);
        break;
    }
}

/* For a time, so that all of them work at once, however fast or slow they are. The clock says on which word most of the
 * work is: on the same one for all. */
static void work(struct place *place)
{
    double now, end = cw_time_now_s() + SECONDS;
    uint64_t turn, random;

    while ((now = cw_time_now_s()) < end) {
        turn = (uint64_t)(now / TURN_SECONDS);
        for (unsigned i = 0; i < 10; i++) {
            random = cw_random_next(&place->random);
            turn = (random % 8 == 0) ? random >> 8 : turn;
            one_round(place, (enum kind)(turn % KINDS), (turn / KINDS) % 2 != 0);
        }
    }
    post(place, MASK, UCP_ATOMIC_OP_OR, own_bits(place, 0), 0);
    post(place, MASK, UCP_ATOMIC_OP_AND, ~own_bits(place, 1), 1);
}

/* ---- the other processes ---- */

static const struct cw_pair_config config = {.features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};

/* The argument: number, then what UCX_TLS is to be. */
static int run_process(int fd, const char *argument)
{
    struct place *place = calloc(1, sizeof(*place));
    ucp_request_param_t param;
    char key[1024];
    size_t length;
    int mapped;
    void *ptr;

    place->number = (unsigned)(argument[0] - '0');
    setenv("UCX_TLS", argument + 1, 1);
    place->random = place->number + 1;
    place->report = calloc(1, sizeof(*place->report));
    cw_side_open(&place->side, &config);
    place->side.ep = cw_fd_connect(fd, &place->side, &config);
    cw_fd_read(fd, &place->address, sizeof(place->address), place->side.worker);
    cw_fd_read(fd, &length, sizeof(length), place->side.worker);
    cw_fd_read(fd, key, length, place->side.worker);
    assert_int_equal(ucp_ep_rkey_unpack(place->side.ep, key, &place->rkey), UCS_OK);
    mapped = ucp_rkey_ptr(place->rkey, place->address, &ptr) == UCS_OK;
    cw_fd_write(fd, &mapped, sizeof(mapped));
    cw_fd_barrier(fd, place->side.worker);
    work(place);
    param = cw_param_none();
    assert_int_equal(wait_for(place->side.worker, ucp_ep_flush_nbx(place->side.ep, &param)), UCS_OK);
    cw_fd_write(fd, place->report, sizeof(*place->report));
    cw_fd_barrier(fd, place->side.worker);
    ucp_rkey_destroy(place->rkey);
    cw_side_destroy(&place->side);
    free(place->report);
    free(place);
    return 0;
}

/* ---- the owner ---- */

static struct report reports[WORKERS];
static uint8_t seen[2][WORKERS * FETCHES];

static void *run_owner(void *argument)
{
    work(argument);
    return NULL;
}

static void prepare(struct words *words)
{
    memset(words, 0, sizeof(*words));
    for (unsigned i = 0; i < KINDS; i++) {
        words->kinds[i].guard = GUARD;
    }
    words->kinds[ADD].word = START64;
    words->kinds[ADD].half = START32;
    words->kinds[FETCH_ADD].word = START64;
    words->kinds[FETCH_ADD].half = START32;
    memset(reports, 0, sizeof(reports));
    memset(seen, 0, sizeof(seen));
}

static uint64_t value_of(const struct words *words, enum kind kind, int narrow)
{
    return narrow ? words->kinds[kind].half : words->kinds[kind].word;
}

/* Every value between the first and the last came to exactly one. */
static void check_fetched(const struct words *words, int narrow)
{
    const uint64_t mask = narrow ? UINT32_MAX : UINT64_MAX;
    uint64_t total = 0;

    for (unsigned i = 0; i < WORKERS; i++) {
        total += reports[i].num_fetched[narrow];
        for (uint32_t k = 0; k < reports[i].num_fetched[narrow]; k++) {
            uint32_t value = reports[i].fetched[narrow][k];

            assert_true(value < WORKERS * FETCHES);
            assert_int_equal(seen[narrow][value], 0);
            seen[narrow][value] = 1;
        }
    }
    for (uint64_t value = 0; value < total; value++) {
        assert_int_equal(seen[narrow][value], 1);
    }
    assert_true(value_of(words, FETCH_ADD, narrow) == (((narrow ? START32 : START64) + total) & mask));
}

static void check_width(const struct words *words, int narrow)
{
    const uint64_t mask = narrow ? UINT32_MAX : UINT64_MAX;
    struct report sum = {.locked = 0};
    struct place place = {.number = 0};
    uint64_t all_bits = 0, last;

    for (unsigned i = 0; i < WORKERS; i++) {
        place.number = i;
        all_bits |= own_bits(&place, narrow);
        sum.added[narrow] += reports[i].added[narrow];
        sum.xored[narrow] ^= reports[i].xored[narrow];
        sum.bits[narrow] |= reports[i].bits[narrow];
        sum.swapped[narrow] += reports[i].swapped[narrow];
        sum.put_in[narrow] += reports[i].put_in[narrow];
        sum.got_out[narrow] += reports[i].got_out[narrow];
        sum.mixed_in[narrow] += reports[i].mixed_in[narrow];
        sum.mixed_out[narrow] += reports[i].mixed_out[narrow];
        sum.locked += reports[i].locked;
    }
    assert_true(value_of(words, ADD, narrow) == (((narrow ? START32 : START64) + sum.added[narrow]) & mask));
    assert_true(value_of(words, XOR, narrow) == (sum.xored[narrow] & mask));
    assert_true(value_of(words, SET_CLEAR, narrow) == sum.bits[narrow]);
    assert_true(value_of(words, CSWAP_ADD, narrow) == sum.swapped[narrow]);
    assert_true(value_of(words, LOCK, narrow) == 0);
    assert_true(value_of(words, MASK, narrow) == (narrow ? 0 : all_bits));
    last = value_of(words, SWAP, narrow);
    assert_true(sum.put_in[narrow] == sum.got_out[narrow] + last);
    assert_true(sum.mixed_in[narrow] + mixed(0) == sum.mixed_out[narrow] + mixed(last));
    assert_true(words->behind_lock == sum.locked);
    check_fetched(words, narrow);
    if (!narrow) {
        print_message("%llu times behind the lock, %llu compare-and-swaps\n", (unsigned long long)sum.locked,
                      (unsigned long long)sum.swapped[0]);
    }
}

/* Starts the processes, works with them, takes their reports. `mapped`: bit per process that reaches the memory by
 * loads and stores. */
static unsigned run_all(struct cw_side *side, struct words *words, ucp_mem_h memh, const char *const *tls)
{
    struct place owner = {.number = OWNER, .words = words, .random = OWNER + 1, .report = &reports[OWNER]};
    uint64_t address = (uint64_t)(uintptr_t)words;
    struct cw_remote remotes[PROCESSES];
    unsigned mapped_by = 0;
    char argument[64];
    pthread_t thread;
    size_t length;
    void *key;
    int mapped;

    assert_int_equal(ucp_rkey_pack(side->context, memh, &key, &length), UCS_OK);
    for (unsigned i = 0; i < PROCESSES; i++) {
        snprintf(argument, sizeof(argument), "%u%s", i, tls[i]);
        cw_remote_start(&remotes[i], "process", argument);
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        (void)cw_fd_connect(remotes[i].fd, side, &config);
        cw_fd_write(remotes[i].fd, &address, sizeof(address));
        cw_fd_write(remotes[i].fd, &length, sizeof(length));
        cw_fd_write(remotes[i].fd, key, length);
        cw_fd_read(remotes[i].fd, &mapped, sizeof(mapped), side->worker);
        mapped_by |= (mapped ? 1u : 0u) << i;
    }
    ucp_rkey_buffer_release(key);
    for (unsigned i = 0; i < PROCESSES; i++) {
        cw_fd_barrier(remotes[i].fd, side->worker);
    }
    assert_int_equal(pthread_create(&thread, NULL, run_owner, &owner), 0);
    for (unsigned i = 0; i < PROCESSES; i++) {
        for (double end = cw_time_now_s() + CW_WAIT_S; cw_time_now_s() < end && !cw_fd_poll(remotes[i].fd, 0);) {
            for (unsigned k = 0; k < 100; k++) {
                relax(side->worker);
            }
        }
        cw_fd_read(remotes[i].fd, &reports[i], sizeof(reports[i]), side->worker);
    }
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < PROCESSES; i++) {
        cw_fd_barrier(remotes[i].fd, side->worker);
        cw_remote_join(&remotes[i]);
    }
    return mapped_by;
}

/* Returns which processes mapped the memory. */
static unsigned stress(int allocated, const char *const *tls)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = sizeof(struct words),
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    struct words *user = NULL;
    struct cw_side side;
    unsigned mapped;
    ucp_mem_h memh;

    memset(&side, 0, sizeof(side));
    cw_side_open(&side, &config);
    if (!allocated) {
        user = aligned_alloc(LINE, sizeof(*user));
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        params.address = user;
    }
    assert_int_equal(ucp_mem_map(side.context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
    prepare(attr.address);
    mapped = run_all(&side, attr.address, memh, tls);
    for (int narrow = 0; narrow < 2; narrow++) {
        check_width(attr.address, narrow);
    }
    for (unsigned i = 0; i < KINDS; i++) {
        assert_int_equal(((struct words *)attr.address)->kinds[i].guard, GUARD);
    }
    assert_int_equal(ucp_mem_unmap(side.context, memh), UCS_OK);
    cw_side_destroy(&side);
    free(user);
    return mapped;
}

API_TEST(test_library_memory)
{
    const char *tls = getenv("UCX_TLS");
    const char *const all[PROCESSES] = {tls, tls, tls, tls};
    unsigned mapped;

    cw_test_need_two_processes();
    mapped = stress(1, all);
    if (cw_test_tls_has("shm")) {
        assert_int_equal(mapped, (1u << PROCESSES) - 1);
    }
}

API_TEST(test_user_memory)
{
    const char *tls = getenv("UCX_TLS");
    const char *const all[PROCESSES] = {tls, tls, tls, tls};

    cw_test_need_two_processes();
    assert_int_equal(stress(0, all), 0);
}

/* The same words, by loads and stores and by packets at once. */
API_TEST(test_both_ways)
{
    const char *const mixed_tls[PROCESSES] = {"self,shm", "self,tcp", "self,shm", "self,tcp"};

    if (!cw_test_tls_has("shm")) {
        print_message("Needs shm\n");
        skip();
    }
    setenv("UCX_TLS", "self,shm,tcp", 1);
    assert_int_equal(stress(1, mixed_tls), 5);
    setenv("UCX_TLS", "self,shm", 1);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"process", run_process}};

    return cw_test_main(argc, argv, roles, 1);
}
