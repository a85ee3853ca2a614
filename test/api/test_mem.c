/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: mapping in all its forms, query, advice, unmapping, what is left behind (MEM-1..18, R18, GEN-14). */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};

static bool is_mapped(void *page)
{
    unsigned char byte;

    return mincore(page, CW_PAGE, &byte) == 0 || errno != ENOMEM;
}

API_TEST(test_mem1_what_is_missing)
{
    ucp_mem_map_params_t params;
    ucp_mem_h memh;
    char byte;

    cw_pair_open(pair, &plain);
    params = cw_mem_garbage(0);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM); /* MEM-1 */
    params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
    params.address = &byte;
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_LENGTH);
    params.length = 100;
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM); /* MEM-4 */
    params = cw_mem_params(NULL, 100, 0);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_params(NULL, 100, UCP_MEM_MAP_NONBLOCK);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_params(&byte, 1, UCP_MEM_MAP_FIXED); /* MEM-6 */
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_params(&byte, 0, UCP_MEM_MAP_FIXED);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_params(NULL, 0, UCP_MEM_MAP_FIXED); /* MEM-3 */
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    cw_mem_unmap(pair->tx->context, memh);
    cw_pair_close(pair);
}

static void check_registered(ucp_context_h context, void *address, size_t length)
{
    ucp_mem_h memh = cw_mem_map(context, address, length, 0);
    ucp_mem_attr_t attr = cw_mem_query(memh);
    uintptr_t from = (uintptr_t)attr.address, hint = (uintptr_t)address;
    void *blob = NULL;
    size_t size = 0;

    assert_true(from <= hint && hint - from < CW_PAGE); /* R18 */
    assert_true(attr.length >= length && from + attr.length >= hint + length);
    assert_int_equal(attr.mem_type, UCS_MEMORY_TYPE_HOST);
    assert_int_equal(ucp_rkey_pack(context, memh, &blob, &size), UCS_OK);
    ucp_rkey_buffer_release(blob);
    cw_mem_unmap(context, memh);
    assert_true(is_mapped((void *)(hint / CW_PAGE * CW_PAGE))); /* MEM-12 */
}

API_TEST(test_mem2_all_sorts_of_memory)
{
    static const char constant[100] = "constant";
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char stack[1000], *heap = malloc(300007), *file, *nothing, *shared;

    cw_pair_open(pair, &plain);
    file = mmap(NULL, 2 * CW_PAGE, PROT_READ, MAP_SHARED, fd, 0);
    nothing = mmap(NULL, CW_MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    shared = mmap(NULL, CW_MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(file != MAP_FAILED && nothing != MAP_FAILED && shared != MAP_FAILED);
    assert_non_null(heap);
    memset(heap, 7, 300007);
    check_registered(pair->tx->context, stack, sizeof(stack));
    for (size_t offset = 0; offset < 20; offset++) {
        check_registered(pair->tx->context, heap + offset, 1 + offset * offset);
    }
    check_registered(pair->tx->context, heap + 1, 300006);
    check_registered(pair->tx->context, file, 2 * CW_PAGE);
    check_registered(pair->tx->context, file + 3, 100);
    check_registered(pair->tx->context, shared, CW_MIB);
    check_registered(pair->tx->context, (void *)(uintptr_t)constant, sizeof(constant));
    check_registered(pair->tx->context, (void *)(uintptr_t)&test_mem2_all_sorts_of_memory, 16);
    if (!cw_test_reference()) {
        check_registered(pair->tx->context, nothing, CW_MIB);
    }
    for (size_t i = 0; i < 300007; i++) {
        assert_int_equal(heap[i], 7);
    }
    munmap(file, 2 * CW_PAGE);
    munmap(nothing, CW_MIB);
    munmap(shared, CW_MIB);
    close(fd);
    free(heap);
    cw_pair_close(pair);
}

static void check_empty(ucp_context_h context, const ucp_mem_map_params_t *params)
{
    ucp_mem_h memh = NULL;
    ucp_mem_attr_t attr;
    void *blob = NULL;
    size_t size = 0;

    assert_int_equal(ucp_mem_map(context, params, &memh), UCS_OK);
    assert_non_null(memh);
    attr = cw_mem_query(memh);
    assert_null(attr.address);
    assert_int_equal(attr.length, 0);
    assert_int_equal(ucp_rkey_pack(context, memh, &blob, &size), UCS_OK);
    assert_true(blob != NULL && size > 0 && size <= 64);
    ucp_rkey_buffer_release(blob);
    cw_mem_unmap(context, memh);
}

API_TEST(test_mem3_nothing)
{
    static const unsigned flags[] = {0, UCP_MEM_MAP_NONBLOCK, UCP_MEM_MAP_ALLOCATE,
                                     UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_NONBLOCK};
    ucp_mem_map_params_t params;
    char byte;

    cw_pair_open(pair, &plain);
    params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_LENGTH);
    params.length = 0;
    check_empty(pair->tx->context, &params);
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        params = cw_mem_params(NULL, 0, flags[i]);
        check_empty(pair->tx->context, &params);
        params = cw_mem_params(&byte, 0, flags[i]);
        check_empty(pair->tx->context, &params);
    }
    cw_pair_close(pair);
}

API_TEST(test_mem5_allocate)
{
    static const size_t sizes[] = {1, 100, CW_PAGE - 1, CW_PAGE, 5000, 65537, CW_MIB + 1, 40u << 20};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    ucp_mem_map_params_t params;
    ucp_mem_h handles[SIZES];
    ucp_mem_attr_t attrs[SIZES];

    cw_pair_open(pair, &plain);
    for (size_t i = 0; i < SIZES; i++) {
        params = cw_mem_params(NULL, sizes[i], UCP_MEM_MAP_ALLOCATE);
        if (i % 2 == 0) {
            params.field_mask &= ~(uint64_t)UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
            params.address = (void *)8;
        }
        assert_int_equal(ucp_mem_map(pair->tx->context, &params, &handles[i]), UCS_OK);
        attrs[i] = cw_mem_query(handles[i]);
        assert_true(attrs[i].length >= sizes[i]);
        assert_int_equal((uintptr_t)attrs[i].address % CW_PAGE, 0);
        assert_int_equal(attrs[i].mem_type, UCS_MEMORY_TYPE_HOST);
        cw_pattern_fill(attrs[i].address, attrs[i].length, i);
    }
    for (size_t i = 0; i < SIZES; i++) {
        cw_pattern_check(attrs[i].address, attrs[i].length, i);
        cw_mem_unmap(pair->tx->context, handles[i]);
        if (!cw_test_reference()) { /* 1.13 takes small ones from the heap */
            assert_false(is_mapped(attrs[i].address)); /* MEM-15 */
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_mem6_hints_and_fixed_addresses)
{
    ucp_mem_map_params_t params;
    ucs_status_t status;
    ucp_mem_attr_t attr;
    ucp_mem_h memh;
    char byte, *room;

    cw_pair_open(pair, &plain);
    memh = cw_mem_map(pair->tx->context, &byte, 5000, UCP_MEM_MAP_ALLOCATE); /* a hint; it is occupied */
    attr = cw_mem_query(memh);
    memset(attr.address, 1, 5000);
    cw_mem_unmap(pair->tx->context, memh);
    room = mmap(NULL, CW_MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(room != MAP_FAILED);
    params = cw_mem_params(room + 1, CW_PAGE, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_params(NULL, CW_PAGE, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED);
    status = cw_mem_refusal(pair->tx->context, &params);
    assert_true(status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_NO_MEMORY);
    params = cw_mem_params((void *)0xffff800000000000ull, CW_PAGE, UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED);
    status = cw_mem_refusal(pair->tx->context, &params);
    assert_true(status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_NO_MEMORY);
    munmap(room, CW_MIB);
    cw_pair_close(pair);
}

/* More than there is. The limit keeps a library that fills files page by page from eating all memory. */
API_TEST(test_mem6_too_much)
{
    static const size_t sizes[] = {(size_t)1 << 60, SIZE_MAX / 2, SIZE_MAX - 5000, SIZE_MAX};
    struct rlimit before, limit = {.rlim_cur = 256u << 20, .rlim_max = RLIM_INFINITY};
    ucp_mem_map_params_t params;
    ucs_status_t status;

    cw_test_skip_reference("it fills /dev/shm until the system kills somebody");
    cw_pair_open(pair, &plain);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        params = cw_mem_params(NULL, sizes[i], UCP_MEM_MAP_ALLOCATE);
        status = cw_mem_refusal(pair->tx->context, &params);
        assert_true(status == UCS_ERR_NO_MEMORY || (status == UCS_ERR_INVALID_PARAM && i > 0));
    }
    setrlimit(RLIMIT_FSIZE, &before);
    cw_pair_close(pair);
}

static void check_bytes(const char *from, size_t length, int byte)
{
    for (size_t i = 0; i < length; i++) {
        if (from[i] != byte) {
            fail_msg("Byte %zu is %d instead of %d", i, from[i], byte);
        }
    }
}

API_TEST(test_mem7_fixed_replaces)
{
    enum { PAGES = 40, LENGTH = 7 * CW_PAGE };
    static const unsigned more[] = {0, UCP_MEM_MAP_NONBLOCK};
    ucp_mem_attr_t attr;
    ucp_mem_h memh;
    char *room;

    cw_pair_open(pair, &plain);
    for (int i = 0; i < 6; i++) {
        size_t length = i % 2 == 0 ? LENGTH : LENGTH - 100;

        room = mmap(NULL, PAGES * CW_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(room != MAP_FAILED);
        memset(room, 'x', PAGES * CW_PAGE);
        if (i >= 4) { /* nothing there */
            munmap(room + 10 * CW_PAGE, LENGTH);
        }
        memh = cw_mem_map(pair->tx->context, room + 10 * CW_PAGE, length,
                          UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED | more[i % 2]);
        attr = cw_mem_query(memh);
        assert_ptr_equal(attr.address, room + 10 * CW_PAGE);
        assert_true(attr.length >= length);
        memset(attr.address, 'y', length);
        check_bytes(room, 10 * CW_PAGE, 'x');
        check_bytes(room + 10 * CW_PAGE, length, 'y');
        check_bytes(room + 17 * CW_PAGE, (PAGES - 17) * CW_PAGE, 'x');
        cw_mem_unmap(pair->tx->context, memh);
        check_bytes(room, 10 * CW_PAGE, 'x');
        check_bytes(room + 17 * CW_PAGE, (PAGES - 17) * CW_PAGE, 'x');
        munmap(room, PAGES * CW_PAGE);
    }
    cw_pair_close(pair);
}

API_TEST(test_mem8_hints)
{
    static const unsigned prots[] = {0, UCP_MEM_MAP_PROT_LOCAL_READ, UCP_MEM_MAP_PROT_REMOTE_READ,
                                     UCP_MEM_MAP_PROT_REMOTE_WRITE, UCP_MEM_MAP_PROT_LOCAL_WRITE,
                                     UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_LOCAL_READ, 0x303};
    ucp_mem_map_params_t params;
    ucp_mem_h memh;
    char bytes[100];

    cw_pair_open(pair, &plain);
    for (size_t i = 0; i < 2 * sizeof(prots) / sizeof(prots[0]); i++) {
        params = cw_mem_params(i % 2 == 0 ? bytes : NULL, sizeof(bytes), i % 2 == 0 ? 0 : UCP_MEM_MAP_ALLOCATE);
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_PROT;
        params.prot = prots[i / 2];
        assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK); /* MEM-8 */
        cw_mem_unmap(pair->tx->context, memh);
    }
    for (unsigned bit = 0; bit < 32; bit++) {
        if ((1u << bit) & (UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_FIXED)) {
            continue;
        }
        cw_mem_unmap(pair->tx->context, cw_mem_map(pair->tx->context, bytes, sizeof(bytes), 1u << bit)); /* MEM-9 */
        cw_mem_unmap(pair->tx->context, cw_mem_map(pair->tx->context, NULL, 100, UCP_MEM_MAP_ALLOCATE | 1u << bit));
    }
    params = cw_mem_params(bytes, sizeof(bytes), 0);
    params.field_mask |= 0xffffff00ull << 32; /* GEN-3 */
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    cw_mem_unmap(pair->tx->context, memh);
    cw_pair_close(pair);
}

API_TEST(test_mem10_kinds_of_memory)
{
    ucp_mem_map_params_t params;
    ucs_status_t status;
    ucp_mem_h memh;
    char bytes[100];

    cw_pair_open(pair, &plain);
    for (int i = 0; i < 4; i++) {
        params = cw_mem_params(i % 2 == 0 ? bytes : NULL, sizeof(bytes), i % 2 == 0 ? 0 : UCP_MEM_MAP_ALLOCATE);
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.memory_type = i < 2 || i % 2 != 0 ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_UNKNOWN;
        assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
        assert_int_equal(cw_mem_query(memh).mem_type, UCS_MEMORY_TYPE_HOST);
        cw_mem_unmap(pair->tx->context, memh);
    }
    params = cw_mem_params(NULL, sizeof(bytes), UCP_MEM_MAP_ALLOCATE);
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    for (int type = UCS_MEMORY_TYPE_HOST + 1; type < UCS_MEMORY_TYPE_LAST; type++) {
        params.memory_type = (ucs_memory_type_t)type;
        status = cw_mem_refusal(pair->tx->context, &params);
        assert_true(status == UCS_ERR_NO_MEMORY || status == UCS_ERR_UNSUPPORTED);
    }
    params.memory_type = (ucs_memory_type_t)(UCS_MEMORY_TYPE_LAST + 5);
    if (!cw_test_reference()) {
        assert_true(cw_mem_refusal(pair->tx->context, &params) < 0);
    }
    cw_pair_close(pair);
}

API_TEST(test_mem11_again_and_overlapping)
{
    ucp_mem_h handles[30], own = NULL;
    char *heap = malloc(100000), *bytes = heap;
    void *blob;
    size_t size;

    assert_non_null(heap);
    cw_pair_open(pair, &plain);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 30; i++) {
            handles[i] = cw_mem_map(pair->tx->context, bytes + i / 3 * 100, (size_t)(50000 - i / 3 * 150), 0);
        }
        for (int i = 0; i < 30; i++) {
            int victim = i * 7 % 30;

            assert_true(cw_mem_query(handles[victim]).length >= (size_t)(50000 - victim / 3 * 150));
            assert_int_equal(ucp_rkey_pack(pair->tx->context, handles[victim], &blob, &size), UCS_OK);
            ucp_rkey_buffer_release(blob);
            cw_mem_unmap(pair->tx->context, handles[victim]);
        }
        if (round == 0) { /* and the same in memory of the library's */
            own = cw_mem_map(pair->tx->context, NULL, 100000, UCP_MEM_MAP_ALLOCATE);
            bytes = cw_mem_query(own).address;
        }
    }
    memset(bytes, 1, 100000);
    cw_mem_unmap(pair->tx->context, own);
    free(heap);
    cw_pair_close(pair);
}

API_TEST(test_mem12_fork)
{
    ucp_mem_h own, memh;
    char *heap = malloc(CW_MIB), *bytes;
    int status;
    pid_t child;

    assert_non_null(heap);
    cw_pair_open(pair, &plain);
    own = cw_mem_map(pair->tx->context, NULL, CW_MIB, UCP_MEM_MAP_ALLOCATE);
    memh = cw_mem_map(pair->tx->context, heap, CW_MIB, 0);
    bytes = cw_mem_query(own).address;
    memset(bytes, 1, CW_MIB);
    memset(heap, 1, CW_MIB);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        memset(heap, 2, CW_MIB);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check_bytes(bytes, CW_MIB, 1);
    check_bytes(heap, CW_MIB, 1);
    cw_mem_unmap(pair->tx->context, own);
    cw_mem_unmap(pair->tx->context, memh);
    free(heap);
    cw_pair_close(pair);
}

API_TEST(test_mem13_query)
{
    char bytes[100];
    ucp_mem_h memh;

    cw_pair_open(pair, &plain);
    memh = cw_mem_map(pair->tx->context, bytes, sizeof(bytes), 0);
    for (uint64_t mask = 0; mask < 8; mask++) {
        ucp_mem_attr_t attr, before;

        memset(&attr, 0x77, sizeof(attr));
        attr.field_mask = mask;
        before = attr;
        assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
        assert_true(attr.field_mask == mask); /* R13 */
        assert_true(((mask & UCP_MEM_ATTR_FIELD_ADDRESS) != 0) != (attr.address == before.address));
        assert_true(((mask & UCP_MEM_ATTR_FIELD_LENGTH) != 0) != (attr.length == before.length));
        assert_true(((mask & UCP_MEM_ATTR_FIELD_MEM_TYPE) != 0) != (attr.mem_type == before.mem_type)); /* GEN-4 */
    }
    cw_mem_unmap(pair->tx->context, memh);
    cw_pair_close(pair);
}

static ucs_status_t advise(ucp_context_h context, ucp_mem_h memh, uint64_t mask, char *address, size_t length,
                           int advice)
{
    ucp_mem_advise_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = mask;
    params.address = address;
    params.length = length;
    params.advice = (ucp_mem_advice_t)advice;
    return ucp_mem_advise(context, memh, &params);
}

API_TEST(test_mem14_advice)
{
    enum { LENGTH = 5 * CW_PAGE, ALL = 7 };
    ucp_context_h context;
    char *heap = malloc(LENGTH);

    assert_non_null(heap);
    cw_pair_open(pair, &plain);
    context = pair->tx->context;
    for (int i = 0; i < 2; i++) {
        ucp_mem_h memh = i == 0 ? cw_mem_map(context, heap, LENGTH, 0) :
                                  cw_mem_map(context, NULL, LENGTH, UCP_MEM_MAP_ALLOCATE);
        ucp_mem_attr_t attr = cw_mem_query(memh);
        char *base = i == 0 ? heap : attr.address, *end = (char *)attr.address + attr.length;

        assert_int_equal(advise(context, memh, ALL, base, LENGTH, UCP_MADV_NORMAL), UCS_OK);
        assert_int_equal(advise(context, memh, ALL, base, LENGTH, UCP_MADV_WILLNEED), UCS_OK);
        assert_int_equal(advise(context, memh, ALL, base + 77, LENGTH - 99, UCP_MADV_WILLNEED), UCS_OK);
        assert_int_equal(advise(context, memh, ALL, base + LENGTH - 1, 1, UCP_MADV_WILLNEED), UCS_OK);
        for (uint64_t mask = 0; mask < ALL; mask++) {
            assert_int_equal(advise(context, memh, mask, base, LENGTH, UCP_MADV_NORMAL), UCS_ERR_INVALID_PARAM);
        }
        assert_int_equal(advise(context, memh, ALL, (char *)attr.address - 1, 10, UCP_MADV_NORMAL),
                         UCS_ERR_INVALID_PARAM);
        assert_int_equal(advise(context, memh, ALL, end - 1, 2, UCP_MADV_NORMAL), UCS_ERR_INVALID_PARAM);
        assert_int_equal(advise(context, memh, ALL, end + 1, 0, UCP_MADV_NORMAL), UCS_ERR_INVALID_PARAM);
        if (!cw_test_reference()) { /* it does not see the wrap-around */
            assert_int_equal(advise(context, memh, ALL, base + 1, SIZE_MAX, UCP_MADV_NORMAL), UCS_ERR_INVALID_PARAM);
        }
        assert_int_equal(advise(context, memh, ALL, base, LENGTH, 2), UCS_ERR_INVALID_PARAM);
        assert_int_equal(advise(context, memh, ALL, base, LENGTH, -1), UCS_ERR_INVALID_PARAM);
        memset(base, 1, LENGTH);
        cw_mem_unmap(context, memh);
    }
    free(heap);
    cw_pair_close(pair);
}

/* What /proc/self/maps has of something that another process could find: 0 unless its name is gone already. */
static int findable_mappings(pid_t pid)
{
    char path[64], line[512];
    FILE *file;
    int count = 0;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        bool shared = strstr(line, "/dev/shm/") != NULL || strstr(line, "SYSV") != NULL;

        count += shared && strstr(line, "(deleted)") == NULL;
    }
    fclose(file);
    return count;
}

API_TEST(test_mem15_nothing_stays)
{
    enum { LENGTH = CW_MIB };
    int fds = 0, rounds = (int)cw_test_scaled(300);
    long rss = 0;

    cw_test_skip_reference("it keeps memory, and names in /dev/shm while it runs");
    cw_pair_open(pair, &plain);
    for (int i = 0; i < rounds; i++) {
        ucp_mem_h own = cw_mem_map(pair->tx->context, NULL, LENGTH, UCP_MEM_MAP_ALLOCATE);
        ucp_mem_h overlapping = cw_mem_map(pair->tx->context, (char *)cw_mem_query(own).address + 100, 1000, 0);
        void *blob;
        size_t size;

        memset(cw_mem_query(own).address, 1, LENGTH);
        assert_int_equal(ucp_rkey_pack(pair->tx->context, own, &blob, &size), UCS_OK);
        ucp_rkey_buffer_release(blob);
        assert_int_equal(findable_mappings(getpid()), 0); /* GEN-14 */
        cw_mem_unmap(pair->tx->context, overlapping);
        cw_mem_unmap(pair->tx->context, own);
        if (i == 5) {
            fds = cw_process_fds();
            rss = cw_process_rss_kb();
        }
    }
    assert_int_equal(cw_process_fds(), fds);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(cw_process_rss_kb() - rss < 4096);
#endif
    (void)rss;
    cw_pair_close(pair);
}

static const char *printed(struct cw_pair *pair, const char *spec)
{
    static char text[20000];
    FILE *stream = fmemopen(text, sizeof(text), "w");

    assert_non_null(stream);
    memset(text, 0, sizeof(text));
    ucp_mem_print_info(spec, pair->tx->context, stream);
    fclose(stream);
    return text;
}

/* VER-4. */
API_TEST(test_mem17_print)
{
    static const char *const right[] = {"1m", "4096", "4096,host", "64k,host", "100"};
    static const char *const wrong[] = {"", ",", "abc", "1m,nothing", "100000000t", "-1", "0", "1m,", "4096,cuda"};

    cw_pair_open(pair, &plain);
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        const char *text = printed(pair, right[i]);

        if (cw_test_reference() && strchr(right[i], ',') != NULL) {
            continue;
        }
        assert_non_null(strstr(text, "allocated "));
        assert_non_null(strstr(text, "0x"));
        assert_non_null(strstr(text, "page"));
        assert_non_null(strstr(text, "registered on:"));
        assert_true(cw_test_reference() || strstr(text, "rkey") != NULL);
        for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
            assert_int_equal(*line, '#');
            assert_non_null(strchr(line, '\n'));
        }
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]) && !cw_test_reference(); i++) {
        printed(pair, wrong[i]);
    }
    cw_pair_close(pair);
}

enum { THREADS = 4 };

struct churn {
    pthread_t thread;
    ucp_context_h context;
    char *common;
    int number;
    const char *wrong;
};

static void *churn_run(void *arg)
{
    struct churn *churn = arg;
    long rounds = cw_test_scaled(400);
    uint64_t random = (uint64_t)churn->number;

    for (long i = 0; i < rounds && churn->wrong == NULL; i++) {
        bool allocate = cw_random_next(&random) % 2 == 0;
        size_t length = 1 + cw_random_next(&random) % 100000, size;
        ucp_mem_map_params_t params = cw_mem_params(allocate ? NULL : churn->common, length,
                                                 allocate ? UCP_MEM_MAP_ALLOCATE : 0);
        ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};
        ucp_mem_h memh;
        void *blob;

        if (ucp_mem_map(churn->context, &params, &memh) != UCS_OK) {
            churn->wrong = "map";
        } else if (ucp_mem_query(memh, &attr) != UCS_OK || attr.length < length) {
            churn->wrong = "query";
        } else if (ucp_rkey_pack(churn->context, memh, &blob, &size) != UCS_OK) {
            churn->wrong = "pack";
        } else {
            ucp_rkey_buffer_release(blob);
            if (allocate) {
                cw_pattern_fill(attr.address, length, random);
                churn->wrong = cw_pattern_find(attr.address, length, random) >= 0 ? "memory" : NULL;
            }
            if (ucp_mem_unmap(churn->context, memh) != UCS_OK) {
                churn->wrong = "unmap";
            }
        }
    }
    return NULL;
}

API_TEST(test_mem18_threads)
{
    ucp_params_t params;
    ucp_context_h context;
    struct churn churns[THREADS];
    char *common = malloc(100001);

    assert_non_null(common);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = CW_RMA_FEATURES;
    params.mt_workers_shared = 1;
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    for (int i = 0; i < THREADS; i++) {
        churns[i] = (struct churn){.context = context, .common = common, .number = i};
        assert_int_equal(pthread_create(&churns[i].thread, NULL, churn_run, &churns[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(churns[i].thread, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        if (churns[i].wrong != NULL) {
            fail_msg("A thread found something wrong: %s", churns[i].wrong);
        }
    }
    ucp_cleanup(context);
    free(common);
}

/* A process that allocates and waits to be killed. */
static int allocator(int fd, const char *argument)
{
    struct cw_side side;
    char byte = 'b';

    (void)argument;
    cw_side_open(&side, &plain);
    for (int i = 0; i < 4; i++) {
        memset(cw_mem_query(cw_mem_map(side.context, NULL, CW_MIB, UCP_MEM_MAP_ALLOCATE)).address, 1, CW_MIB);
    }
    cw_fd_write(fd, &byte, 1);
    cw_fd_read(fd, &byte, 1, NULL);
    return 0;
}

API_TEST(test_gen14_killed_process_leaves_nothing)
{
    struct cw_remote remote;
    char byte;

    cw_test_skip_reference("it removes names at the end only");
    cw_remote_start(&remote, "allocator", NULL);
    cw_fd_read(remote.fd, &byte, 1, NULL);
    assert_int_equal(findable_mappings(remote.pid), 0);
    cw_remote_kill(&remote);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"allocator", allocator}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
