/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tests of memory of GPUs on the stand-in cannot pass by accident: a library that touches device memory by the
 * processor, in one place, fails. This program is such a library. Its copies, or the answer that some memory is a
 * GPU's, are replaced by what somebody might write who takes that memory for the host's; which, its argument says.
 */
#include "harness.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH ((size_t)1 << 20)
#include "mem/copy.h"
#include "mem/cuda/cuda_staging.h"
#include "mem/registry.h"
#include "standin_memory.h"

#define SHORT 100

enum touch { NONE, PACKED, STAGED, FOUND, TOUCHES };

static enum touch touch;

ucs_status_t __real_cw_mem_copy(void *to, ucs_memory_type_t to_type, const void *from, ucs_memory_type_t from_type,
                                size_t length);
ucs_status_t __wrap_cw_mem_copy(void *to, ucs_memory_type_t to_type, const void *from, ucs_memory_type_t from_type,
                                size_t length);
ucs_status_t __real_cw_cuda_start(const struct cuda_driver *cuda, void *to, const void *from, size_t length,
                                  struct cw_md_copy *copy);
ucs_status_t __wrap_cw_cuda_start(const struct cuda_driver *cuda, void *to, const void *from, size_t length,
                                  struct cw_md_copy *copy);
ucs_memory_type_t __real_cw_md_find(const void *ptr, size_t length);
ucs_memory_type_t __wrap_cw_md_find(const void *ptr, size_t length);

ucs_status_t __wrap_cw_mem_copy(void *to, ucs_memory_type_t to_type, const void *from, ucs_memory_type_t from_type,
                                size_t length)
{
    if (touch != PACKED) {
        return __real_cw_mem_copy(to, to_type, from, from_type, length);
    }
    memcpy(to, from, length);
    return UCS_OK;
}

ucs_status_t __wrap_cw_cuda_start(const struct cuda_driver *cuda, void *to, const void *from, size_t length,
                                  struct cw_md_copy *copy)
{
    if (touch != STAGED) {
        return __real_cw_cuda_start(cuda, to, from, length, copy);
    }
    memcpy(to, from, length);
    return UCS_OK;
}

ucs_memory_type_t __wrap_cw_md_find(const void *ptr, size_t length)
{
    return (touch == FOUND) ? UCS_MEMORY_TYPE_HOST : __real_cw_md_find(ptr, length);
}

/* ---- a message, in a process of its own ---- */

enum { FAILED = 2 };

static ucs_status_t move(struct cw_pair *pair, const char *from, char *to, size_t length)
{
    const ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t sent, received;
    ucs_status_t status;

    received = ucp_tag_recv_nbx(pair->rx->worker, to, length, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, length, 1, &param);
    status = cw_pair_wait(pair, sent, "a send");
    return (status == UCS_OK) ? cw_pair_wait(pair, received, "a receive") : status;
}

/* 0: the messages arrived as they were. */
static int run_messages(const char *which)
{
    static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG};
    static const size_t lengths[] = {SHORT, LENGTH};
    struct cw_pair *pair;
    void *state = NULL;
    char *from, *to, *got;

    (void)signal(SIGSEGV, SIG_DFL);
    touch = (enum touch)(which[0] - '0');
    begin();
    (void)cw_test_setup(&state);
    pair = state;
    from = device_new(LENGTH);
    to = device_new(LENGTH);
    got = malloc(LENGTH);
    cw_pair_open(pair, &config);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fill(from, i);
        if (move(pair, from, to, lengths[i]) != UCS_OK) {
            _exit(FAILED);
        }
        standin_peek(got, to, lengths[i]);
        if (memcmp(got, scratch, lengths[i]) != 0) {
            _exit(FAILED);
        }
    }
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
    free(got);
    (void)cw_test_teardown(&state);
    end();
    return 0;
}

/* ---- the proof ---- */

static int status_of(enum touch which)
{
    char argument[2] = {(char)('0' + which), '\0'};
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(60); /* a library that touches what it must not may wait for ever */
        (void)execl("/proc/self/exe", "gpu_touch", argument, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    return status;
}

TEST(test_a_library_that_touches_nothing_passes)
{
    assert_int_equal(status_of(NONE), 0);
}

TEST(test_a_library_that_touches_device_memory_fails)
{
    for (enum touch which = PACKED; which < TOUCHES; which++) {
        const int status = status_of(which);

        assert_int_not_equal(status, 0);
        if (which != FOUND) { /* the system, when it sends such memory, fails without a signal */
            assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        }
    }
}

int main(int argc, char **argv)
{
    return (argc > 1) ? run_messages(argv[1]) : cw_tests_run(NULL, NULL);
}
