/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of AMD GPUs, and of GPUs of two makers in one process, on two stand-ins whose device memory no processor can
 * touch. The rules of HIP that CUDA does not have: the thread's device, and its last error.
 */
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin_hip.h"

#define LENGTH  ((size_t)200000)

static cuda_context nvidia;
static char expected[LENGTH], got[LENGTH];

static void ok(int result)
{
    assert_int_equal(result, CUDA_OK);
}

static int setup(void **state)
{
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&nvidia, 0));
    ok(cuCtxSetCurrent(nvidia));
    ok(hipSetDevice(0));
    return cw_test_setup(state);
}

static int teardown(void **state)
{
    return cw_test_teardown(state);
}

static void open_pair(struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};

    cw_pair_open(pair, &config);
}

struct kind {
    ucs_memory_type_t type;
    int device;
    char *ptr;
};

static struct kind new_of(ucs_memory_type_t type, int device)
{
    struct kind kind = {.type = type, .device = device};
    cuda_ptr ptr = 0;

    switch (type) {
    case UCS_MEMORY_TYPE_ROCM:
        ok(hipSetDevice(device));
        ok(hipMalloc(&ptr, LENGTH));
        ok(hipSetDevice(0));
        break;
    case UCS_MEMORY_TYPE_ROCM_MANAGED:
        ok(hipMallocManaged(&ptr, LENGTH, CUDA_MANAGED_GLOBAL));
        break;
    case UCS_MEMORY_TYPE_CUDA:
        ok(cuMemAlloc_v2(&ptr, LENGTH));
        break;
    default:
        ptr = (uintptr_t)malloc(LENGTH);
    }
    kind.ptr = (char *)(uintptr_t)ptr;
    return kind;
}

static void free_of(const struct kind *kind)
{
    switch (kind->type) {
    case UCS_MEMORY_TYPE_ROCM:
    case UCS_MEMORY_TYPE_ROCM_MANAGED:
        ok(hipFree((uintptr_t)kind->ptr));
        break;
    case UCS_MEMORY_TYPE_CUDA:
        ok(cuMemFree_v2((uintptr_t)kind->ptr));
        break;
    default:
        free(kind->ptr);
    }
}

/* By the kind's own driver; `ours` is memory of the host. */
static void copy(const struct kind *kind, void *to, const void *from, size_t length)
{
    if (kind->type == UCS_MEMORY_TYPE_CUDA) {
        ok(cuMemcpy((uintptr_t)to, (uintptr_t)from, length));
    } else if (kind->type == UCS_MEMORY_TYPE_HOST) {
        memcpy(to, from, length);
    } else {
        ok(hipMemcpy((uintptr_t)to, (uintptr_t)from, length, HIP_DEFAULT));
    }
}

static void move(struct cw_pair *pair, const struct kind *from, const struct kind *to, size_t length, uint64_t seed)
{
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t received, sent;

    cw_pattern_fill(expected, length, seed);
    copy(from, from->ptr, expected, length);
    received = ucp_tag_recv_nbx(pair->rx->worker, to->ptr, length, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from->ptr, length, 1, &param);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    memset(got, 0, length);
    copy(to, got, to->ptr, length);
    cw_pattern_check(got, length, seed);
}

/* A library that takes device memory for the host's, here because UCX_TLS forbids it to look, dies of it. */
TEST_WITH(test_a_touch_by_the_library_ends_the_program, setup, teardown)
{
    const char *tls = getenv("UCX_TLS");
    int status;
    pid_t pid;

    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* which has a driver of its own only in a new image */
        char reduced[64];

        snprintf(reduced, sizeof(reduced), "%.*s", (int)(strlen(tls) - strlen(",rocm")), tls);
        (void)setenv("UCX_TLS", reduced, 1);
        (void)execl("/proc/self/exe", "gpu_rocm", "touch", (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static int touch(void)
{
    struct kind from, to;
    void *state = NULL;

    (void)setup(&state);
    (void)signal(SIGSEGV, SIG_DFL);
    open_pair(state);
    from = new_of(UCS_MEMORY_TYPE_ROCM, 0);
    to = new_of(UCS_MEMORY_TYPE_ROCM, 0);
    move(state, &from, &to, LENGTH, 1);
    return 0;
}

/* OPA-11, MEM-10: the types are found, of every kind of memory and from every one to every other. */
API_TEST_WITH(test_memory_of_two_makers, setup, teardown)
{
    static const ucs_memory_type_t types[] = {UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM_MANAGED,
                                              UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_HOST};
    static const size_t lengths[] = {8, 20000, LENGTH};
    enum { KINDS = sizeof(types) / sizeof(types[0]) };
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LENGTH};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};
    ucp_context_attr_t supported = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    struct kind from[KINDS], to[KINDS];
    ucp_mem_h memh;

    open_pair(pair);
    assert_int_equal(ucp_context_query(pair->tx->context, &supported), UCS_OK);
    for (int i = 0; i < KINDS; i++) {
        assert_true(supported.memory_types & UCS_BIT(types[i]));
        from[i] = new_of(types[i], i % 2);
        to[i] = new_of(types[i], 0);
        params.address = from[i].ptr;
        assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
        assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
        assert_int_equal(attr.mem_type, types[i]);
        assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    }
    for (int i = 0; i < KINDS; i++) {
        for (int j = 0; j < KINDS; j++) {
            for (int k = 0; k < 3; k++) {
                move(pair, &from[i], &to[j], lengths[k], (uint64_t)(i * 100 + j * 10 + k));
            }
        }
    }
    for (int i = 0; i < KINDS; i++) {
        free_of(&from[i]);
        free_of(&to[i]);
    }
    cw_pair_close(pair);
}

/* The thread keeps the device that it has chosen, and gets no error of the library's calls, as of a check of an event
 * that is not over. */
API_TEST_WITH(test_the_thread_keeps_its_device_and_error, setup, teardown)
{
    struct kind from = new_of(UCS_MEMORY_TYPE_ROCM, 0), to = new_of(UCS_MEMORY_TYPE_ROCM, 1);
    int device;

    open_pair(pair);
    ok(hipSetDevice(2));
    move(pair, &from, &to, LENGTH, 1);
    assert_int_equal(hipPeekAtLastError(), CUDA_OK);
    ok(hipGetDevice(&device));
    assert_int_equal(device, 2);
    assert_int_equal(hipHostUnregister(&device), CUDA_INVALID_VALUE);
    move(pair, &from, &to, 8, 2); /* no call of the library fails, and the error of the program stays */
    assert_int_equal(hipGetLastError(), CUDA_INVALID_VALUE);
    free_of(&from);
    free_of(&to);
    cw_pair_close(pair);
}

/* MEM-10: the library allocates it, zeroed; what is not there is refused. */
API_TEST_WITH(test_mem10_allocates, setup, teardown)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .length = LENGTH,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE | UCP_MEM_ATTR_FIELD_ADDRESS};
    struct kind kind = {.type = UCS_MEMORY_TYPE_ROCM};
    ucp_mem_h memh;

    open_pair(pair);
    for (int managed = 0; managed < 2; managed++) {
        params.memory_type = managed ? UCS_MEMORY_TYPE_ROCM_MANAGED : UCS_MEMORY_TYPE_ROCM;
        assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
        assert_int_equal(ucp_mem_query(memh, &attr), UCS_OK);
        assert_int_equal(attr.mem_type, params.memory_type);
        memset(got, 1, LENGTH);
        memset(expected, 0, LENGTH);
        copy(&kind, got, attr.address, LENGTH);
        assert_memory_equal(got, expected, LENGTH);
        assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    }
    cw_pair_close(pair);
}

/* The program resets the device: streams and memory of the library are gone with the program's own. Nothing of them is
 * used again, and new memory is. */
API_TEST_WITH(test_a_device_that_is_reset, setup, teardown)
{
    struct kind host = new_of(UCS_MEMORY_TYPE_HOST, 0), gpu, other;

    open_pair(pair);
    for (uint64_t i = 0; i < 4; i++) {
        gpu = new_of(UCS_MEMORY_TYPE_ROCM, 0);
        other = new_of(UCS_MEMORY_TYPE_ROCM, 1);
        move(pair, &host, &gpu, LENGTH, 5 * i);
        move(pair, &gpu, &other, LENGTH, 5 * i + 1);
        move(pair, &other, &host, 100, 5 * i + 2);
        free_of(&other);
        ok(hipSetDevice(0));
        ok(hipDeviceReset()); /* the other device goes on */
        assert_int_equal(hipPeekAtLastError(), CUDA_OK);
    }
    cw_pair_close(pair);
    free_of(&host);
}

/* A transfer is under way when the program resets the device: it ends, whichever way, and the process goes on. */
API_TEST_WITH(test_a_reset_under_a_transfer, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    struct kind host = new_of(UCS_MEMORY_TYPE_HOST, 0), gpu;
    ucs_status_ptr_t received, sent;

    open_pair(pair);
    for (int rounds = 0; rounds < 40; rounds += 3) {
        gpu = new_of(UCS_MEMORY_TYPE_ROCM, 0);
        received = ucp_tag_recv_nbx(pair->rx->worker, gpu.ptr, LENGTH, 1, CW_TAG_ALL, &param);
        sent = ucp_tag_send_nbx(pair->tx->ep, host.ptr, LENGTH, 1, &param);
        for (int i = 0; i < rounds; i++) {
            (void)cw_pair_progress(pair);
        }
        ok(hipDeviceReset());
        assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
        (void)cw_pair_wait(pair, received, "a receive");
        gpu = new_of(UCS_MEMORY_TYPE_ROCM, 0);
        move(pair, &host, &gpu, LENGTH, (uint64_t)rounds);
        free_of(&gpu);
    }
    cw_pair_close(pair);
    free_of(&host);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "touch") == 0) {
        return touch();
    }
    return cw_tests_run(NULL, NULL);
}
