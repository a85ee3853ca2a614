/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What only memory behind a driver has: several kinds of it, devices and contexts, addresses that are used again, a
 * driver that fails, contexts that go. Runs on the stand-in, whose device memory no processor can touch.
 */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin.h"

#define LENGTH  ((size_t)200000)
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static cuda_context primary[STANDIN_DEVICES];
static char expected[LENGTH];

static void ok(int result)
{
    assert_int_equal(result, CUDA_OK);
}

static int setup(void **state)
{
    int i;

    ok(cuInit(0));
    for (i = 0; i < STANDIN_DEVICES; i++) {
        ok(cuDevicePrimaryCtxRetain(&primary[i], i));
    }
    ok(cuCtxSetCurrent(primary[0]));
    return cw_test_setup(state);
}

static int teardown(void **state)
{
    int status = cw_test_teardown(state), i;

    standin_fail(NULL, 0, 0);
    ok(cuCtxSetCurrent(NULL));
    for (i = 0; i < STANDIN_DEVICES; i++) {
        ok(cuDevicePrimaryCtxReset_v2(i));
        ok(cuDevicePrimaryCtxRelease_v2(i));
    }
    assert_int_equal(standin_allocations(), 0);
    return status;
}

static void open_pair(struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};

    cw_pair_open(pair, &config);
}

static char *device_new(size_t length)
{
    cuda_ptr ptr = 0;

    ok(cuMemAlloc_v2(&ptr, length));
    return (char *)(uintptr_t)ptr;
}

/* Sends LENGTH bytes from here to there and compares. */
static ucs_status_t move(struct cw_pair *pair, char *from, char *to, uint64_t seed)
{
    static char got[LENGTH];
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t received, sent;
    ucs_status_t status, sent_status;

    cw_pattern_fill(expected, LENGTH, seed);
    standin_peek(from, expected, LENGTH);
    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    sent_status = cw_pair_wait(pair, sent, "a send");
    status = cw_pair_wait(pair, received, "a receive");
    if (status == UCS_OK && sent_status == UCS_OK) {
        standin_peek(got, to, LENGTH);
        cw_pattern_check(got, LENGTH, seed);
    }
    return (status != UCS_OK) ? status : sent_status;
}

/* ---- the proof ---- */

/* A library that takes device memory for the host's, here because UCX_TLS forbids it to look, dies of it. */
static void test_a_touch_by_the_library_ends_the_program(void **state)
{
    struct cw_pair *pair = *state;
    const char *tls = getenv("UCX_TLS");
    int status;
    pid_t pid;

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* which has a driver of its own only in a new image */
        char reduced[64];

        snprintf(reduced, sizeof(reduced), "%.*s", (int)(strlen(tls) - strlen(",cuda")), tls);
        (void)setenv("UCX_TLS", reduced, 1);
        (void)execl("/proc/self/exe", "gpu_cuda", "touch", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    (void)pair;
}

static int touch(void)
{
    void *state = NULL;
    struct cw_pair *pair;

    (void)setup(&state);
    (void)signal(SIGSEGV, SIG_DFL);
    pair = state;
    open_pair(pair);
    (void)move(pair, device_new(LENGTH), device_new(LENGTH), 1);
    return 0;
}

/* ---- kinds of memory ---- */

struct kind {
    const char *name;
    char *ptr;
};

/* As programs with growing segments have it: pieces mapped behind each other into one range of addresses. */
static char *mapped_new(void)
{
    const int properties[8] = {1, 0, 1, 1}; /* of device 1 */
    const struct cuda_access access = {CUDA_LOCATION_DEVICE, 1, CUDA_ACCESS_READ_WRITE};
    unsigned long long handle;
    cuda_ptr ptr = 0, place;

    ok(cuMemAddressReserve(&ptr, 8 * STANDIN_GRAIN, 0, 0, 0));
    for (place = ptr; place < ptr + 4 * STANDIN_GRAIN; place += STANDIN_GRAIN) {
        ok(cuMemCreate(&handle, STANDIN_GRAIN, properties, 0));
        ok(cuMemMap(place, STANDIN_GRAIN, 0, handle, 0));
        ok(cuMemSetAccess(place, STANDIN_GRAIN, &access, 1));
        ok(cuMemRelease(handle));
    }
    return (char *)(uintptr_t)ptr;
}

static void mapped_free(char *ptr)
{
    ok(cuMemUnmap((uintptr_t)ptr, 4 * STANDIN_GRAIN));
    ok(cuMemAddressFree((uintptr_t)ptr, 8 * STANDIN_GRAIN));
}

/* Every kind to every other, by a thread with a context of one device and with none. */
static void test_all_kinds_of_memory(void **state)
{
    enum { DEVICE, OTHER_DEVICE, POOL, MAPPED, MANAGED, PINNED, PLAIN, KINDS };
    struct cw_pair *pair = *state;
    char *from[KINDS], *to[KINDS];
    cuda_ptr ptr;
    void *pinned;

    open_pair(pair);
    for (int end = 0; end < 2; end++) {
        char **kinds = end ? to : from;

        kinds[DEVICE] = device_new(LENGTH);
        ok(cuCtxSetCurrent(primary[2]));
        kinds[OTHER_DEVICE] = device_new(LENGTH);
        ok(cuMemAllocAsync(&ptr, LENGTH, NULL));
        kinds[POOL] = (char *)(uintptr_t)ptr;
        ok(cuCtxSetCurrent(primary[0]));
        kinds[MAPPED] = mapped_new();
        ok(cuMemAllocManaged(&ptr, LENGTH, CUDA_MANAGED_GLOBAL));
        kinds[MANAGED] = (char *)(uintptr_t)ptr;
        ok(cuMemHostAlloc(&pinned, LENGTH, CUDA_HOST_PORTABLE));
        kinds[PINNED] = pinned;
        kinds[PLAIN] = malloc(LENGTH);
        assert_non_null(kinds[PLAIN]);
    }
    for (int i = 0; i < KINDS; i++) {
        for (int j = 0; j < KINDS; j++) {
            ok(cuCtxSetCurrent((i + j) % 2 == 0 ? NULL : primary[1]));
            assert_int_equal(move(pair, from[i], to[j], (uint64_t)(i * KINDS + j)), UCS_OK);
        }
    }
    ok(cuCtxSetCurrent(primary[0]));
    for (int end = 0; end < 2; end++) {
        char **kinds = end ? to : from;

        ok(cuMemFree_v2((uintptr_t)kinds[DEVICE]));
        ok(cuMemFree_v2((uintptr_t)kinds[OTHER_DEVICE]));
        ok(cuMemFreeAsync((uintptr_t)kinds[POOL], NULL));
        mapped_free(kinds[MAPPED]);
        ok(cuMemFree_v2((uintptr_t)kinds[MANAGED]));
        ok(cuMemFreeHost(kinds[PINNED]));
        free(kinds[PLAIN]);
    }
    cw_pair_close(pair);
}

/* Each piece is known by itself; where they end the memory ends, and that is said. */
static void test_mapped_pieces_end(void **state)
{
    const ucp_request_param_t param = cw_param_none();
    struct cw_pair *pair = *state;
    char *ptr = mapped_new();

    open_pair(pair);
    assert_int_equal(UCS_PTR_STATUS(ucp_tag_send_nbx(pair->tx->ep, ptr, 4 * STANDIN_GRAIN + 1, 1, &param)),
                     UCS_ERR_INVALID_PARAM);
    mapped_free(ptr);
    cw_pair_close(pair);
}

/* ---- short messages ---- */

/* A device that is late is asked again, which does not count. */
static unsigned num_calls(void)
{
    return standin_all_calls() - standin_calls("cuStreamSynchronize");
}

static unsigned calls_of_a_send(struct cw_pair *pair, const char *from, const ucp_request_param_t *param)
{
    const ucp_request_param_t plain = cw_param_none();
    const unsigned before = num_calls();
    ucs_status_ptr_t sent = ucp_tag_send_nbx(pair->tx->ep, from, 8, 1, param);
    const unsigned calls = num_calls() - before;
    char to[8], expected[8];

    assert_int_equal(cw_pair_wait(pair, ucp_tag_recv_nbx(pair->rx->worker, to, 8, 1, CW_TAG_ALL, &plain), "a receive"),
                     UCS_OK);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    standin_peek(expected, from, 8);
    assert_memory_equal(to, expected, 8);
    return calls;
}

static unsigned calls_of_a_receive(struct cw_pair *pair, char *to, const ucp_request_param_t *param)
{
    const ucp_request_param_t plain = cw_param_none();
    const unsigned before = num_calls();
    ucs_status_ptr_t received = ucp_tag_recv_nbx(pair->rx->worker, to, 8, 1, CW_TAG_ALL, param);
    char from[8] = "message";

    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, from, 8, 1, &plain), "a send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    return num_calls() - before;
}

/* The driver is asked whether it knows the address and for the type, for the memory at the time of the copy, and for
 * the copy itself: the context is pushed and popped, a copy is put on a stream, and a flag behind it; a stream writes a
 * word, and the flag, by one call. */
static void test_short_messages_cost_few_calls(void **state)
{
    enum { COPY = 5, WORD = 4, TYPE = 2 };
    ucp_request_param_t plain = cw_param_none(), typed = cw_param_none();
    struct cw_pair *pair = *state;
    char *from = device_new(LENGTH), *to = device_new(LENGTH);

    open_pair(pair);
    typed.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    typed.memory_type = UCS_MEMORY_TYPE_CUDA;
    (void)calls_of_a_send(pair, from, &plain); /* makes the streams */
    (void)calls_of_a_receive(pair, to, &plain);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(calls_of_a_send(pair, from + i, &plain), COPY + TYPE);
        assert_int_equal(calls_of_a_send(pair, from + i, &typed), COPY);
        assert_int_equal(calls_of_a_receive(pair, to + i, &plain), ((i == 0) ? WORD : COPY) + TYPE);
        assert_int_equal(calls_of_a_receive(pair, to + i, &typed), (i == 0) ? WORD : COPY);
    }
    ok(cuMemFree_v2((uintptr_t)from));
    ok(cuMemFree_v2((uintptr_t)to));
    cw_pair_close(pair);
}

/* ---- the search ---- */

static unsigned queries_of_a_send(struct cw_pair *pair, const void *ptr, const ucp_request_param_t *param)
{
    const ucp_request_param_t plain = cw_param_none();
    const unsigned before = standin_calls("cuPointerGetAttributes");
    ucs_status_ptr_t sent = ucp_tag_send_nbx(pair->tx->ep, ptr, 64, 1, param);
    const unsigned queries = standin_calls("cuPointerGetAttributes") - before;
    char to[64];

    assert_int_equal(cw_pair_wait(pair, ucp_tag_recv_nbx(pair->rx->worker, to, 64, 1, CW_TAG_ALL, &plain), "a receive"),
                     UCS_OK);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    return queries;
}

static void test_search_costs_little(void **state)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = 4096};
    ucp_request_param_t plain = cw_param_none(), typed = cw_param_none(), handle = cw_param_none();
    struct cw_pair *pair = *state;
    char stack[64] = "", *heap = sbrk(64), *elsewhere;

    open_pair(pair);
    elsewhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(elsewhere, MAP_FAILED);
    map.address = elsewhere;
    typed.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    typed.memory_type = UCS_MEMORY_TYPE_HOST;
    handle.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    assert_int_equal(ucp_mem_map(pair->tx->context, &map, &handle.memh), UCS_OK);
    assert_int_equal(queries_of_a_send(pair, stack, &plain), 0);
    assert_int_equal(queries_of_a_send(pair, heap, &plain), 0);
    assert_int_equal(queries_of_a_send(pair, elsewhere, &plain), 1);
    assert_int_equal(queries_of_a_send(pair, elsewhere, &typed), 0);
    assert_int_equal(queries_of_a_send(pair, elsewhere, &handle), 0);
    assert_int_equal(ucp_mem_unmap(pair->tx->context, handle.memh), UCS_OK);
    (void)munmap(elsewhere, 4096);
    cw_pair_close(pair);
}

/* What was device memory becomes managed memory at the same addresses, and back. */
static void test_addresses_that_are_used_again(void **state)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LENGTH};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};
    struct cw_pair *pair = *state;
    char *to = malloc(LENGTH), *ptr = device_new(LENGTH), *again;
    ucp_mem_h memh;

    open_pair(pair);
    assert_int_equal(move(pair, ptr, to, 1), UCS_OK);
    ok(cuMemFree_v2((uintptr_t)ptr));
    again = mmap(ptr, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(again, ptr); /* of the host now */
    assert_int_equal(move(pair, again, to, 2), UCS_OK);
    map.address = again;
    assert_int_equal(ucp_mem_map(pair->tx->context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
    assert_int_equal(attr.mem_type, UCS_MEMORY_TYPE_HOST);
    assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    standin_reuse_addresses();
    assert_ptr_equal(device_new(LENGTH), ptr);
    assert_int_equal(mprotect(ptr, LENGTH, PROT_NONE), 0);
    assert_int_equal(move(pair, ptr, to, 3), UCS_OK);
    ok(cuMemFree_v2((uintptr_t)ptr));
    free(to);
    cw_pair_close(pair);
}

/* ---- regions ---- */

static void allocate(struct cw_pair *pair, ucs_memory_type_t type, ucs_status_t expect)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .length = LENGTH,
                                   .flags = UCP_MEM_MAP_ALLOCATE,
                                   .memory_type = type};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE | UCP_MEM_ATTR_FIELD_ADDRESS};
    static char bytes[LENGTH], zeros[LENGTH];
    ucp_mem_h memh;

    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), expect);
    if (expect == UCS_OK) {
        assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
        assert_int_equal(attr.mem_type, type);
        standin_peek(bytes, attr.address, LENGTH);
        assert_memory_equal(bytes, zeros, LENGTH);
        assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    }
    assert_int_equal(standin_allocations(), 0);
}

/* MEM-10: where the thread has no context, on a device that the program uses. */
static void test_mem10_allocates(void **state)
{
    struct cw_pair *pair = *state;

    open_pair(pair);
    for (int current = 0; current < 2; current++) {
        ok(cuCtxSetCurrent(current ? primary[1] : NULL));
        allocate(pair, UCS_MEMORY_TYPE_CUDA, UCS_OK);
        allocate(pair, UCS_MEMORY_TYPE_CUDA_MANAGED, UCS_OK);
    }
    standin_fail("cuMemAlloc_v2", 0, CUDA_NO_MEMORY);
    allocate(pair, UCS_MEMORY_TYPE_CUDA, UCS_ERR_NO_MEMORY);
    standin_fail("cuMemsetD8Async", 0, CUDA_ILLEGAL_ADDRESS);
    allocate(pair, UCS_MEMORY_TYPE_CUDA_MANAGED, UCS_ERR_NO_MEMORY);
    cw_pair_close(pair);
}

/* ---- contexts ---- */

/* The library has a stream in the context that the program destroys, and memory of it that the driver has forgotten. */
static void test_contexts_that_go(void **state)
{
    struct cw_pair *pair = *state;
    char *host = malloc(LENGTH), *ptr;
    cuda_context context;

    open_pair(pair);
    for (int round = 0; round < 3; round++) {
        ok(cuCtxCreate_v2(&context, 0, 1));
        ptr = device_new(LENGTH);
        assert_int_equal(move(pair, ptr, host, 1), UCS_OK);
        assert_int_equal(move(pair, host, ptr, 2), UCS_OK);
        ok(cuCtxDestroy_v2(context));
        ptr = device_new(LENGTH); /* of the primary context */
        assert_int_equal(move(pair, ptr, host, 3), UCS_OK);
        ok(cuDevicePrimaryCtxReset_v2(0)); /* its handle stays, its streams do not */
        ptr = device_new(LENGTH);
        assert_int_equal(move(pair, ptr, host, 4), UCS_OK);
        ok(cuMemFree_v2((uintptr_t)ptr));
    }
    free(host);
    cw_pair_close(pair);
}

/* Freed while a receive waits for it: the receive fails, and nobody else's memory is written. */
static void test_memory_that_goes(void **state)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_pair *pair = *state;
    char *host = malloc(LENGTH), *ptr = device_new(LENGTH);
    ucs_status_ptr_t received, sent;

    open_pair(pair);
    cw_pattern_fill(host, LENGTH, 1);
    received = ucp_tag_recv_nbx(pair->rx->worker, ptr, LENGTH, 1, CW_TAG_ALL, &param);
    ok(cuMemFree_v2((uintptr_t)ptr));
    sent = ucp_tag_send_nbx(pair->tx->ep, host, LENGTH, 1, &param);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_ERR_IO_ERROR);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    free(host);
    cw_pair_close(pair);
}

/* Each function of the driver fails at each of its first calls: no crash, no leak, and it goes on afterwards. */
static void test_a_driver_that_fails(void **state)
{
#define NAME(name, symbol, parameters) #symbol,
    static const char *const symbols[] = {CUDA_CALLS(NAME) CUDA_CALLS_OPTIONAL(NAME)};
#undef NAME
    struct cw_pair *pair = *state;
    char *host = malloc(LENGTH), *ptr = device_new(LENGTH);

    open_pair(pair);
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        if (strcmp(symbols[i], "cuPointerGetAttributes") == 0 || strcmp(symbols[i], "cuCtxPopCurrent_v2") == 0) {
            continue; /* without an answer memory is the host's; a stack of contexts that only grows has no remedy */
        }
        for (unsigned after = 0; after < 3; after++) {
            standin_fail(symbols[i], after, CUDA_ILLEGAL_ADDRESS);
            (void)move(pair, host, ptr, after);
            standin_fail(NULL, 0, 0);
            assert_int_equal(move(pair, host, ptr, after), UCS_OK);
        }
    }
    ok(cuMemFree_v2((uintptr_t)ptr));
    free(host);
    cw_pair_close(pair);
}

/* Nothing that the library does makes a device's context live that the program does not use. */
static void test_no_device_is_woken(void **state)
{
    struct cw_pair *pair = *state;
    char *host = malloc(LENGTH), *ptr = device_new(LENGTH);
    unsigned flags;
    int active;

    ok(cuDevicePrimaryCtxRelease_v2(2));
    open_pair(pair);
    assert_int_equal(move(pair, host, ptr, 1), UCS_OK);
    ok(cuDevicePrimaryCtxGetState(2, &flags, &active));
    assert_int_equal(active, 0);
    ok(cuDevicePrimaryCtxRetain(&primary[2], 2));
    ok(cuMemFree_v2((uintptr_t)ptr));
    free(host);
    cw_pair_close(pair);
}

/* ---- settings ---- */

static uint64_t types_with(const char *tls)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucp_context_h context;
    ucp_config_t *config;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    assert_int_equal(ucp_config_modify(config, "TLS", tls), UCS_OK);
    assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
    ucp_config_release(config);
    assert_int_equal(ucp_context_query(context, &attr), UCS_OK);
    ucp_cleanup(context);
    return attr.memory_types;
}

static void test_settings_choose_it(void **state)
{
    const uint64_t host = UCS_BIT(UCS_MEMORY_TYPE_HOST);
    const uint64_t all = host | UCS_BIT(UCS_MEMORY_TYPE_CUDA) | UCS_BIT(UCS_MEMORY_TYPE_CUDA_MANAGED);
    char text[4096];
    int saved[2], file = cw_capture_start(saved);
    uint64_t types[8];

    (void)state;
    types[0] = types_with("all");
    types[1] = types_with("self,cuda");
    types[2] = types_with("self,cuda_copy");
    types[3] = types_with("self,cuda_copy,cuda_ipc,gdr_copy");
    types[4] = types_with("^cuda");
    types[5] = types_with("^cuda_copy");
    types[6] = types_with("self,tcp");
    types[7] = types_with("^tcp");
    cw_capture_end(file, saved, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(types[0], all);
    assert_int_equal(types[1], all);
    assert_int_equal(types[2], all);
    assert_int_equal(types[3], all);
    assert_int_equal(types[4], host);
    assert_int_equal(types[5], host);
    assert_int_equal(types[6], host);
    assert_int_equal(types[7], all);
}

/* A forked child has no driver any more, and the parent goes on. */
static void test_a_forked_child(void **state)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    struct cw_pair *pair = *state;
    char *host = malloc(LENGTH), *ptr = device_new(LENGTH);
    ucp_context_h context;
    ucp_worker_h worker;
    int status;
    pid_t pid;

    open_pair(pair);
    assert_int_equal(move(pair, host, ptr, 1), UCS_OK);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (ucp_init(&params, NULL, &context) != UCS_OK ||
            ucp_worker_create(context, &worker_params, &worker) != UCS_OK) {
            _exit(1);
        }
        (void)ucp_worker_progress(worker);
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(move(pair, ptr, host, 2), UCS_OK);
    ok(cuMemFree_v2((uintptr_t)ptr));
    free(host);
    cw_pair_close(pair);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        T(test_no_device_is_woken), /* before the library had to do with all of them */
        T(test_a_touch_by_the_library_ends_the_program),
        T(test_all_kinds_of_memory),
        T(test_mapped_pieces_end),
        T(test_short_messages_cost_few_calls),
        T(test_search_costs_little),
        T(test_addresses_that_are_used_again),
        T(test_mem10_allocates),
        T(test_contexts_that_go),
        T(test_memory_that_goes),
        T(test_a_driver_that_fails),
        T(test_settings_choose_it),
        T(test_a_forked_child),
    };

    if (argc > 1 && strcmp(argv[1], "touch") == 0) {
        return touch();
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
