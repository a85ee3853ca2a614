/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys: packing, unpacking, pointers, comparison, garbage, destruction (KEY-1..8, R15, RMA-12, ABU-24, ABU-25). */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};
static const struct cw_pair_config peer_mode = {.features = CW_RMA_FEATURES, .peer_mode = true};
enum { LENGTH = 20000 };

static ucs_status_t put8(struct cw_pair *pair, ucp_ep_h ep, ucp_rkey_h key, uint64_t address, uint64_t value)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_t status = cw_pair_wait(pair, ucp_put_nbx(ep, &value, 8, address, key, &param), "put");
    ucs_status_t flushed = cw_pair_wait(pair, ucp_ep_flush_nbx(ep, &param), "flush");

    return status != UCS_OK ? status : flushed;
}

static ucs_status_t get8(struct cw_pair *pair, ucp_ep_h ep, ucp_rkey_h key, uint64_t address, uint64_t *value)
{
    ucp_request_param_t param = cw_param_none();

    return cw_pair_wait(pair, ucp_get_nbx(ep, value, 8, address, key, &param), "get");
}

API_TEST(test_key1_size_and_equality)
{
    static const size_t lengths[] = {1, 8, 4096, 100000, 5u << 20};
    struct cw_region region;
    size_t size, first_size;

    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            void *first, *again;

            cw_region_open(&region, pair->rx->context, (enum cw_memory)kind, lengths[i]);
            first = cw_region_blob(&region, &first_size);
            assert_true(first_size > 0 && first_size <= 64); /* R15 */
            for (int k = 0; k < 20; k++) {
                again = cw_region_blob(&region, &size);
                assert_int_equal(size, first_size); /* KEY-2 */
                assert_memory_equal(again, first, size);
                free(again);
            }
            free(first);
            cw_region_close(&region);
        }
    }
    cw_pair_close(pair);
}

/* Keys of different registrations differ, also of one and the same memory, before and after. */
API_TEST(test_key1_difference)
{
    enum { COUNT = 50 };
    char *heap = malloc(LENGTH);
    void *blobs[COUNT];
    size_t sizes[COUNT];

    cw_test_skip_reference("its keys may consist of nothing");
    assert_non_null(heap);
    cw_pair_open(pair, &plain);
    for (int i = 0; i < COUNT; i++) {
        struct cw_region region;

        cw_region_register(&region, pair->rx->context, heap, LENGTH);
        blobs[i] = cw_region_blob(&region, &sizes[i]);
        cw_region_close(&region);
        for (int k = 0; k < i; k++) {
            assert_true(sizes[i] != sizes[k] || memcmp(blobs[i], blobs[k], sizes[i]) != 0);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        free(blobs[i]);
    }
    free(heap);
    cw_pair_close(pair);
}

/* At every alignment, and not a byte beyond its end. */
API_TEST(test_key1_anywhere)
{
    char *pages = mmap(NULL, 2 * CW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct cw_region region;
    ucp_rkey_h key;
    size_t size;
    void *blob;

    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + CW_PAGE, CW_PAGE, PROT_NONE), 0);
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_region_open(&region, pair->rx->context, (enum cw_memory)kind, LENGTH);
        blob = cw_region_blob(&region, &size);
        for (int i = 0; i < 17; i++) {
            char *place = i < 16 ? pages + 1000 + i : pages + CW_PAGE - size;
            uint64_t got = 0;

            memcpy(place, blob, size);
            assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, place, &key), UCS_OK);
            memset(place, 0xff, size);
            assert_int_equal(put8(pair, pair->tx->ep, key, (uintptr_t)region.base + 16, (uint64_t)i + 1), UCS_OK);
            assert_int_equal(get8(pair, pair->tx->ep, key, (uintptr_t)region.base + 16, &got), UCS_OK);
            assert_int_equal(got, i + 1);
            memcpy(&got, region.base + 16, 8);
            assert_int_equal(got, i + 1);
            ucp_rkey_destroy(key);
        }
        free(blob);
        cw_region_close(&region);
    }
    munmap(pages, 2 * CW_PAGE);
    cw_pair_close(pair);
}

API_TEST(test_key3_other_endpoint)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_target target;
    ucp_ep_h other;

    cw_test_skip_reference("1.13 with its checks refuses the key on another endpoint");
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, LENGTH);
        other = cw_side_connect(pair->tx, pair->rx->worker, &plain);
        assert_int_equal(put8(pair, other, target.key, target.address, 7), UCS_OK);
        assert_int_equal(cw_target_peek(&target, 0), 7);
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(other, &param), "close"), UCS_OK);
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

API_TEST(test_key4_before_connection_and_self)
{
    struct cw_target target;
    struct cw_region region;
    ucp_request_param_t param = cw_param_none();
    uint64_t got = 0;
    ucp_rkey_h key;
    ucp_ep_h own;

    cw_pair_open(pair, &plain);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, LENGTH); /* no progress up to here */
    cw_target_try(&target, 8);
    cw_target_close(&target);
    own = cw_side_connect(pair->tx, pair->tx->worker, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_region_open(&region, pair->tx->context, (enum cw_memory)kind, LENGTH);
        key = cw_region_key(&region, own);
        assert_int_equal(put8(pair, own, key, (uintptr_t)region.base, 77), UCS_OK);
        assert_int_equal(get8(pair, own, key, (uintptr_t)region.base, &got), UCS_OK);
        assert_int_equal(got, 77);
        ucp_rkey_destroy(key);
        cw_region_close(&region);
    }
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(own, &param), "close"), UCS_OK);
    cw_pair_close(pair);
}

API_TEST(test_key6_destroy_any_time)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_target targets[3];
    int fds = 0, rounds = 6 + (int)cw_test_scaled(200);

    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&targets[kind], pair, NULL, (enum cw_memory)kind, LENGTH);
        cw_target_try(&targets[kind], 0);
        for (int i = 0; i < rounds; i++) {
            ucp_rkey_h key = cw_region_key(&targets[kind].region, pair->tx->ep);
            void *local;

            (void)ucp_rkey_ptr(key, targets[kind].address, &local);
            ucp_rkey_destroy(key);
            fds = i == 5 ? cw_process_fds() : fds;
        }
        assert_int_equal(cw_process_fds(), fds);
    }
    cw_target_close(&targets[0]);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(pair->tx->ep, &param), "close"), UCS_OK);
    if (pair->rx != pair->tx) {
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(pair->rx->ep, &param), "close"), UCS_OK);
    }
    pair->tx->ep = pair->rx->ep = NULL;
    cw_target_close(&targets[1]);
    cw_target_close(&targets[2]);
    cw_pair_close(pair);
}

/* ---- pointers ---- */

static bool reaches(const struct cw_target *target, const void *local)
{
    volatile uint64_t *here = (volatile uint64_t *)(uintptr_t)local;
    volatile uint64_t *there = (volatile uint64_t *)(uintptr_t)target->address;

    *here = 5;
    if (*there != 5) {
        return false;
    }
    *there = 6;
    return *here == 6;
}

/* Whether processes of this machine share memory: a peer maps what the library allocates. */
static bool shares_memory(void)
{
    return !cw_test_over_network() && !cw_test_tls_has("rc");
}

API_TEST(test_key7_pointer_in_one_process)
{
    static const size_t offsets[] = {0, 1, 8, 4095, 4096, LENGTH - 1};
    struct cw_target target;
    ucs_status_t status;
    void *base, *local;

    if (cw_test_self_only()) {
        cw_test_skip_reference("it does not know its own memory");
    }
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, LENGTH);
        local = (void *)8;
        status = ucp_rkey_ptr(target.key, target.address, &base);
        print_message("Memory %d: %s\n", kind, ucs_status_string(status));
        if (cw_test_self_only() || (kind == CW_MEMORY_ALLOCATED && shares_memory())) {
            assert_int_equal(status, UCS_OK);
        }
        if (status == UCS_OK) {
            assert_true(reaches(&target, base));
            if (cw_test_self_only()) {
                assert_true((uintptr_t)base == target.address);
            }
            for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
                assert_int_equal(ucp_rkey_ptr(target.key, target.address + offsets[i], &local), UCS_OK);
                assert_ptr_equal(local, (char *)base + offsets[i]);
            }
        } else {
            assert_int_equal(status, UCS_ERR_UNREACHABLE);
        }
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

static void check_out_of_range(const struct cw_target *target, size_t length)
{
    const uint64_t outside[] = {target->address - 1, target->address + length, target->address + length + 1,
                                target->address + (1ull << 40), target->address ^ (1ull << 63), 0, UINT64_MAX};

    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        void *local = NULL;

        assert_int_equal(ucp_rkey_ptr(target->key, outside[i], &local), UCS_ERR_INVALID_ADDR); /* ABU-14 */
    }
}

API_TEST(test_key7_pointer_outside)
{
    struct cw_target target;
    ucp_mem_attr_t attr;
    void *local;

    cw_test_skip_reference("it does not check the range within one process");
    cw_pair_open(pair, &plain);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, LENGTH);
        attr.field_mask = UCP_MEM_ATTR_FIELD_LENGTH;
        assert_int_equal(ucp_mem_query(target.region.memh, &attr), UCS_OK);
        if (ucp_rkey_ptr(target.key, target.address, &local) == UCS_OK) {
            check_out_of_range(&target, attr.length);
        }
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

/* Both processes see what the other one stores; neither needs the other's progress. */
API_TEST(test_key7_pointer_between_processes)
{
    struct cw_servant servant;
    struct cw_target target;
    ucs_status_t status;
    uint64_t *local;

    cw_test_need_two_processes();
    cw_servant_start(&servant, pair);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, &servant, (enum cw_memory)kind, LENGTH);
        status = ucp_rkey_ptr(target.key, target.address, (void **)&local);
        if (kind == CW_MEMORY_ALLOCATED && shares_memory()) {
            assert_int_equal(status, UCS_OK);
        }
        if (status != UCS_OK) {
            print_message("Memory %d of another process: %s\n", kind, ucs_status_string(status));
            assert_int_equal(status, UCS_ERR_UNREACHABLE);
            cw_target_close(&target);
            continue;
        }
        for (uint64_t i = 1; i < 100; i++) {
            __atomic_store_n(&local[i], i, __ATOMIC_RELEASE);
            cw_target_order(&target, CW_ORDER_AWAIT, 8 * i, i, 0);
            cw_target_order(&target, CW_ORDER_STORE, 8 * i, 1000 + i, 0);
            assert_int_equal(__atomic_load_n(&local[i], __ATOMIC_ACQUIRE), 1000 + i);
        }
        cw_pattern_fill(local, LENGTH, 3);
        cw_target_check(&target, 0, LENGTH, 3);
        cw_target_fill(&target, 0, LENGTH, 4);
        cw_pattern_check(local, LENGTH, 4);
        if (!cw_test_reference()) { /* it takes a byte or two too many */
            check_out_of_range(&target, CW_MIB);
        }
        cw_target_close(&target);
    }
    cw_servant_dismiss(&servant);
}

/* The pointer outlives the owner's memory and the owner: what is there then is nobody's, but nothing crashes. */
API_TEST(test_key7_pointer_to_what_is_gone)
{
    struct cw_servant servant;
    struct cw_target target;
    char *local;

    cw_test_need_two_processes();
    for (int killed = 0; killed < 2; killed++) {
        cw_servant_start(&servant, pair);
        cw_target_open(&target, pair, &servant, CW_MEMORY_ALLOCATED, LENGTH);
        if (ucp_rkey_ptr(target.key, target.address, (void **)&local) == UCS_OK) {
            memset(local, 1, LENGTH);
            if (killed) {
                cw_servant_kill(&servant);
            } else {
                cw_target_order(&target, CW_ORDER_UNMAP, 0, 0, 0);
            }
            memset(local, 2, LENGTH);
            assert_int_equal(local[LENGTH - 1], 2);
        } else {
            killed = 2;
        }
        ucp_rkey_destroy(target.key);
        if (killed != 1) {
            cw_servant_dismiss(&servant);
        }
        cw_side_destroy(&pair->sides[0]);
    }
}

#if UCP_API_VERSION >= UCP_VERSION(1, 16)
enum { KEYS = 24 };

static int sign(int number)
{
    return (number > 0) - (number < 0);
}

static void check_order(struct cw_pair *pair, ucp_rkey_h *keys, bool *equal_seen)
{
    const ucp_rkey_compare_params_t none = {.field_mask = 0};
    static int order[KEYS][KEYS];

    for (int i = 0; i < KEYS; i++) {
        for (int k = 0; k < KEYS; k++) {
            order[i][k] = -99;
            assert_int_equal(ucp_rkey_compare(pair->tx->worker, keys[i], keys[k], &none, &order[i][k]), UCS_OK);
            order[i][k] = sign(order[i][k]);
            *equal_seen = *equal_seen || (i != k && order[i][k] == 0);
        }
        assert_int_equal(order[i][i], 0);
    }
    for (int i = 0; i < KEYS; i++) {
        for (int k = 0; k < KEYS; k++) {
            assert_int_equal(order[i][k], -order[k][i]);
            for (int m = 0; m < KEYS; m++) {
                if (order[i][k] <= 0 && order[k][m] <= 0) {
                    assert_true(order[i][m] < 0 || (order[i][m] == 0 && order[i][k] == 0 && order[k][m] == 0));
                }
            }
        }
    }
}

/* N22-55. */
API_TEST(test_key8_compare)
{
    const ucp_rkey_compare_params_t none = {.field_mask = 0}, some = {.field_mask = 1};
    struct cw_region regions[KEYS / 2];
    ucp_rkey_h keys[KEYS];
    bool equal_seen = false;
    int result = 0;

    cw_pair_open(pair, &plain);
    for (int i = 0; i < KEYS / 2; i++) {
        cw_region_open(&regions[i], pair->rx->context, (enum cw_memory)(i % CW_MEMORY_KINDS), 100 + (size_t)i);
    }
    for (int i = 0; i < KEYS; i++) { /* each region twice */
        keys[i] = cw_region_key(&regions[i % (KEYS / 2)], pair->tx->ep);
    }
    check_order(pair, keys, &equal_seen);
    print_message("Two keys of one blob are %s\n", equal_seen ? "equal" : "never equal");
    assert_int_equal(ucp_rkey_compare(pair->tx->worker, keys[0], keys[1], &none, NULL), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_rkey_compare(pair->tx->worker, keys[0], keys[1], &some, &result), UCS_ERR_INVALID_PARAM);
    for (int i = 0; i < KEYS; i++) {
        ucp_rkey_destroy(keys[i]);
    }
    for (int i = 0; i < KEYS / 2; i++) {
        cw_region_close(&regions[i]);
    }
    cw_pair_close(pair);
}
#endif

/* ---- garbage ---- */

/* Keys of Debian's 1.13.1: of heap over self, sysv and tcp; of an allocated segment. */
static const unsigned char unauth[][40] = {
    {0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {0x01}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0},
    {0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0c, 0x14, 0, 0x5d, 0x01, 0, 0xd0, 0x6b, 0x65, 0x68, 0x7f},
};

API_TEST(test_key5_foreign_keys)
{
    unsigned char blob[CW_BLOB_MAX];
    uint64_t random = 1;
    ucs_status_t status;
    ucp_rkey_h key;

    cw_test_skip_reference("it takes the first bytes for what they say");
    cw_pair_open(pair, &plain);
    for (size_t i = 0; i < sizeof(unauth) / sizeof(unauth[0]); i++) {
        memset(blob, 0, sizeof(blob));
        memcpy(blob, unauth[i], sizeof(unauth[i]));
        status = ucp_ep_rkey_unpack(pair->tx->ep, blob, &key);
        assert_true(status == UCS_ERR_UNREACHABLE || status == UCS_ERR_INVALID_PARAM);
    }
    for (long i = 0; i < cw_test_scaled(20000); i++) {
        for (int k = 0; k < 96; k += 8) {
            uint64_t word = cw_random_next(&random);

            memcpy(blob + k, &word, 8);
        }
        if (ucp_ep_rkey_unpack(pair->tx->ep, blob, &key) == UCS_OK) {
            ucp_rkey_destroy(key);
        }
    }
    cw_pair_close(pair);
}

/* Zeros, which the reference takes for memory of the peer that packets reach: Open MPI 4.1 unpacks them for the last
 * byte of a region of a dynamic window. A peer that shares memory with this process serves them within what it has
 * registered; over a network they are refused. Either way the endpoint lives. */
static void use_zeros(struct cw_pair *pair, struct cw_servant *servant)
{
    enum { ZEROS = 9 };
    const bool served = cw_test_reference() || shares_memory();
    char *pages = mmap(NULL, 2 * CW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ucp_request_param_t param = cw_param_none(), add = cw_param_none();
    char *to = calloc(1, LENGTH), *from = calloc(1, LENGTH);
    uint64_t one = 1, before = 0;
    struct cw_target target;
    ucs_status_t status;
    ucp_rkey_h key;
    void *local;

    assert_true(pages != MAP_FAILED && to != NULL && from != NULL);
    assert_int_equal(mprotect(pages + CW_PAGE, CW_PAGE, PROT_NONE), 0);
    cw_target_open(&target, pair, servant, CW_MEMORY_HEAP, LENGTH);
    cw_target_fill(&target, 0, LENGTH, 1);
    assert_int_equal(ucp_ep_rkey_unpack(target.ep, pages + CW_PAGE - ZEROS, &key), UCS_OK);
    munmap(pages, 2 * CW_PAGE);
    assert_int_equal(ucp_rkey_ptr(key, target.address, &local), UCS_ERR_UNREACHABLE);
    for (size_t length = 1; length < LENGTH; length = 5 * length + 3) {
        status = cw_pair_wait(pair, ucp_get_nbx(target.ep, to, length, target.address + 16, key, &param), "get");
        assert_int_equal(status == UCS_OK, served);
        cw_pattern_fill(from, length, length);
        (void)cw_pair_wait(pair, ucp_put_nbx(target.ep, from, length, target.address + 16, key, &param), "put");
        status = cw_pair_wait(pair, ucp_ep_flush_nbx(target.ep, &param), "flush");
        assert_int_equal(status == UCS_OK, served);
        if (served) {
            cw_target_check(&target, 16, length, length);
        } else {
            cw_target_check(&target, 0, LENGTH, 1);
        }
    }
    cw_target_store(&target, 8, 41);
    add.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    add.datatype = ucp_dt_make_contig(8);
    add.reply_buffer = &before;
    status = cw_pair_wait(pair, ucp_atomic_op_nbx(target.ep, UCP_ATOMIC_OP_ADD, &one, 1, target.address + 8, key, &add),
                          "atomic");
    assert_int_equal(status == UCS_OK, served);
    assert_int_equal(cw_target_peek(&target, 8), served ? 42 : 41);
    if (!cw_test_reference()) { /* which has no bounds here: not what nobody registered */
        assert_int_not_equal(cw_pair_wait(pair, ucp_get_nbx(target.ep, to, 8, target.address + LENGTH - 4, key, &param),
                                          "get"), UCS_OK);
    }
    ucp_rkey_destroy(key);
    cw_target_try(&target, 0);
    cw_target_close(&target);
    free(to);
    free(from);
}

API_TEST(test_key5_zeros)
{
    struct cw_servant servant;

    cw_pair_open(pair, &peer_mode);
    use_zeros(pair, NULL);
    cw_pair_close(pair);
    if (!cw_test_self_only()) {
        cw_servant_start(&servant, pair);
        use_zeros(pair, &servant);
        cw_servant_dismiss(&servant);
    }
}

/* One blob that is not quite right: refused, or a key whose use may fail, but harms nobody. */
static void use_broken(const unsigned char *blob, size_t size, enum cw_memory kind)
{
    struct cw_pair pair = {.count = 0};
    struct cw_region region;
    unsigned char bytes[CW_BLOB_MAX] = {0};
    uint64_t got;
    ucp_rkey_h key;
    void *local;

    cw_pair_open(&pair, &peer_mode);
    cw_region_open(&region, pair.rx->context, kind, LENGTH);
    memset(region.base, 0x5a, LENGTH);
    memcpy(bytes, blob, size);
    if (ucp_ep_rkey_unpack(pair.tx->ep, bytes, &key) == UCS_OK) {
        (void)get8(&pair, pair.tx->ep, key, (uintptr_t)region.base, &got);
        (void)put8(&pair, pair.tx->ep, key, (uintptr_t)region.base, 1);
        (void)ucp_rkey_ptr(key, (uintptr_t)region.base, &local);
        ucp_rkey_destroy(key);
    }
    for (size_t i = 8; i < LENGTH; i++) {
        assert_int_equal(region.base[i], 0x5a);
    }
    cw_region_close(&region);
    for (int i = 0; i < pair.count; i++) {
        cw_side_destroy(&pair.sides[i]);
    }
}

/* Every byte of a right blob, some bits of it: with the right one the rest still works. */
API_TEST(test_key5_flipped)
{
    static const unsigned char flips[] = {0x01, 0x80, 0xff};
    struct cw_target target;
    unsigned char *blob;
    int refused = 0, refused_use = 0, harmless = 0;
    ucp_rkey_h key;
    size_t size;

    cw_test_skip_reference("it takes the first bytes for what they say");
    cw_pair_open(pair, &peer_mode);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, LENGTH);
        cw_target_try(&target, 0);
        blob = cw_region_blob(&target.region, &size);
        for (size_t i = 0; i < size * sizeof(flips); i++) {
            unsigned char bytes[CW_BLOB_MAX] = {0};
            uint64_t got;

            memcpy(bytes, blob, size);
            bytes[i / sizeof(flips)] ^= flips[i % sizeof(flips)];
            if (ucp_ep_rkey_unpack(pair->tx->ep, bytes, &key) != UCS_OK) {
                refused++;
                continue;
            }
            if (get8(pair, pair->tx->ep, key, target.address, &got) != UCS_OK) {
                refused_use++;
            } else {
                harmless++;
            }
            ucp_rkey_destroy(key);
            if (i % 8 == 0) {
                use_broken(bytes, size, (enum cw_memory)kind);
            }
        }
        free(blob);
        cw_target_try(&target, 0); /* the endpoint is none the worse for it */
        cw_target_close(&target);
    }
    print_message("Of flipped blobs %d were refused, %d when used, %d made no difference\n", refused, refused_use,
                  harmless);
    cw_pair_close(pair);
}

/* A prefix of a right blob, then something else. */
API_TEST(test_key5_truncated)
{
    static const unsigned char fillers[] = {0, 0xff, 0x5a};
    struct cw_target target;
    unsigned char *blob, bytes[CW_BLOB_MAX];
    ucp_rkey_h key;
    size_t size;

    cw_test_skip_reference("it takes the first bytes for what they say");
    cw_pair_open(pair, &peer_mode);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_target_open(&target, pair, NULL, (enum cw_memory)kind, LENGTH);
        blob = cw_region_blob(&target.region, &size);
        for (size_t i = 0; i < size * sizeof(fillers); i++) {
            memset(bytes, fillers[i % sizeof(fillers)], sizeof(bytes));
            memcpy(bytes, blob, i / sizeof(fillers));
            if (ucp_ep_rkey_unpack(pair->tx->ep, bytes, &key) == UCS_OK) {
                uint64_t got;

                (void)get8(pair, pair->tx->ep, key, target.address, &got);
                ucp_rkey_destroy(key);
            }
        }
        free(blob);
        cw_target_try(&target, 0);
        cw_target_close(&target);
    }
    cw_pair_close(pair);
}

/* MEM-3: the key of nothing admits nothing. */
API_TEST(test_mem3_key_of_nothing)
{
    char own[LENGTH];
    struct cw_region region;
    ucp_request_param_t param = cw_param_none();
    uint64_t word = 1;
    ucp_rkey_h key;

    cw_pair_open(pair, &plain);
    cw_region_register(&region, pair->rx->context, NULL, 0);
    key = cw_region_key(&region, pair->tx->ep);
    assert_null(ucp_put_nbx(pair->tx->ep, &word, 0, (uintptr_t)own, key, &param));
    assert_null(ucp_get_nbx(pair->tx->ep, NULL, 0, 0, key, &param));
    if (!cw_test_reference()) {
        memset(own, 0, sizeof(own));
        assert_true(put8(pair, pair->tx->ep, key, (uintptr_t)own, 1) < 0);
        assert_true(put8(pair, pair->tx->ep, key, 0, 1) < 0);
        for (int i = 0; i < LENGTH; i++) {
            assert_int_equal(own[i], 0);
        }
    }
    ucp_rkey_destroy(key);
    cw_region_close(&region);
    cw_pair_close(pair);
}

/* APP-2: a heap at an address that is equal in both processes. */
API_TEST(test_mem7_symmetric_heap)
{
    enum { HEAP = 8 * CW_MIB };
    char *base = mmap(NULL, HEAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct cw_target target = {.address = (uintptr_t)base, .length = HEAP, .pair = pair};

    assert_true(base != MAP_FAILED);
    cw_pair_open(pair, &plain);
    target.region = (struct cw_region){.kind = CW_MEMORY_ALLOCATED, .base = base, .length = HEAP};
    target.region.context = pair->rx->context;
    target.region.memh = cw_mem_map(pair->rx->context, base, HEAP, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED);
    target.ep = pair->tx->ep;
    target.key = cw_region_key(&target.region, pair->tx->ep);
    memset(base, 0, HEAP);
    for (size_t offset = 0; offset < HEAP; offset += CW_MIB - 8) {
        cw_target_try(&target, offset);
    }
    cw_target_close(&target);
    cw_pair_close(pair);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
