/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous as a program sees it: when senders complete, memory of all kinds, a peer that dies, stands still or is not
 * allowed to copy, many at once, and a receiver that is flooded (TAG-14..16, OPA-9, ERR-2, ERR-4, ERR-9, ERR-11).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20 };
static const size_t long_length = ((size_t)16 << 20) + 3; /* takes a while */
static const size_t huge_length = ((size_t)64 << 20) + 3;
static const char *const schemes[] = {"auto", "get_zcopy", "put_zcopy", "am"};
enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]) };

static void use_rndv(const char *threshold, const char *scheme)
{
    setenv("UCX_RNDV_THRESH", threshold, 1);
    setenv("UCX_RNDV_SCHEME", scheme, 1);
}

static int rndv_teardown(void **state)
{
    unsetenv("UCX_RNDV_THRESH");
    unsetenv("UCX_RNDV_SCHEME");
    return cw_test_teardown(state);
}

/* One message between two given places. */
static void carry(struct cw_pair *pair, const void *from, void *to, size_t length, uint64_t seed, bool expected)
{
    struct cw_op send = {0}, recv = {0};
    ucp_tag_recv_info_t info;

    if (expected) {
        cw_op_recv(&recv, pair->rx->worker, to, length, 3, CW_TAG_ALL);
    }
    cw_op_send(&send, pair->tx->ep, from, length, 3);
    if (!expected) {
        cw_pair_wait_probe(pair, 3, CW_TAG_ALL, &info);
        cw_op_recv(&recv, pair->rx->worker, to, length, 3, CW_TAG_ALL);
    }
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(recv.info.length, length);
    cw_pattern_check(to, length, seed);
}

static void test_tag16_sender_waits_for_the_match(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_buffer out = cw_buffer_new(2 * MIB), in = cw_buffer_new(2 * MIB);
    struct cw_user_request user;

    for (int i = 0; i < SCHEMES; i++) {
        struct cw_op send = {0}, recv = {0};
        ucp_request_param_t param = cw_param_send(&send);
        ucp_tag_recv_info_t info;

        use_rndv("1", schemes[i]);
        cw_pair_open(pair, NULL);
        user = cw_user_request_new(pair->tx->context);
        cw_pattern_fill(out.data, out.length, (uint64_t)i);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = user.handle;
        cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, out.data, out.length, 3, &param));
        assert_ptr_equal(send.result, user.handle);
        cw_pair_wait_probe(pair, 3, CW_TAG_ALL, &info);
        cw_pair_settle(pair);
        assert_int_equal(send.calls, 0); /* TAG-16 */
        cw_op_recv(&recv, pair->rx->worker, in.data, in.length, 3, CW_TAG_ALL);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        cw_pair_wait_count(pair, &send.calls, 1, "callback of the send"); /* OPA-9 */
        assert_int_equal(send.status, UCS_OK);
        cw_pattern_check(in.data, in.length, (uint64_t)i);
        cw_user_request_check(&user);
        cw_user_request_free(&user);
        cw_pair_close(pair);
    }
    cw_buffer_check(&in);
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

static void test_huge_and_odd(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_buffer out = cw_buffer_new(huge_length), in = cw_buffer_new(huge_length);
    size_t length = (size_t)cw_test_scaled((long)huge_length);

    cw_pattern_fill(out.data, length, 64);
    for (int i = 0; i < SCHEMES; i++) {
        use_rndv("auto", schemes[i]);
        cw_pair_open(pair, NULL);
        memset(in.data, CW_GUARD_VALUE, length);
        carry(pair, out.data, in.data, length, 64, i % 2 == 0);
        cw_buffer_check(&in);
        cw_pair_close(pair);
    }
    cw_buffer_free(&out);
    cw_buffer_free(&in);
}

/* The last `length` bytes before a page that nobody may touch. */
static char *before_the_edge(size_t length, size_t *mapped)
{
    size_t pages = (length + PAGE - 1) / PAGE * PAGE;
    char *base = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(base != MAP_FAILED);
    assert_int_equal(mprotect(base + pages, PAGE, PROT_NONE), 0);
    *mapped = pages + PAGE;
    return base + pages - length;
}

static char *mapped_file(size_t length, int flags, int *fd)
{
    char *base;

    *fd = memfd_create("rndv", MFD_CLOEXEC);
    assert_true(*fd >= 0);
    assert_int_equal(ftruncate(*fd, (off_t)length), 0);
    base = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, *fd, 0);
    assert_true(base != MAP_FAILED);
    return base;
}

/* Source and target: at the edge of what is mapped; a file; read-only. */
static void odd_memory(struct cw_pair *pair, size_t length)
{
    size_t room = (length + PAGE - 1) / PAGE * PAGE, out_mapped, in_mapped;
    char *out = before_the_edge(length, &out_mapped), *in = before_the_edge(length, &in_mapped);
    int file_fd, shared_fd;
    char *file = mapped_file(room, MAP_PRIVATE, &file_fd), *shared = mapped_file(room, MAP_SHARED, &shared_fd);
    char *copy = malloc(length);

    assert_non_null(copy);
    cw_pattern_fill(out, length, length);
    for (int expected = 0; expected < 2; expected++) {
        carry(pair, out, in, length, length, expected);
        carry(pair, in, shared, length, length, expected);
        assert_int_equal(pread(shared_fd, copy, length, 0), length);
        cw_pattern_check(copy, length, length);
        carry(pair, shared, file, length, length, expected);
        assert_int_equal(mprotect(file, room, PROT_READ), 0);
        memset(out, 0, length);
        carry(pair, file, out, length, length, expected);
        assert_int_equal(mprotect(file, room, PROT_READ | PROT_WRITE), 0);
        memset(file, 0, length);
        memset(shared, 0, length);
        memset(in, 0, length);
    }
    free(copy);
    munmap(out - (room - length), out_mapped);
    munmap(in - (room - length), in_mapped);
    munmap(file, room);
    munmap(shared, room);
    close(file_fd);
    close(shared_fd);
}

static void test_odd_memory(void **state)
{
    static const size_t lengths[] = {1, 100, PAGE, PAGE + 1, 100003, 3 * MIB + 5};
    struct cw_pair *pair = *state;

    for (int i = 0; i < SCHEMES; i++) {
        use_rndv("1", schemes[i]);
        cw_pair_open(pair, NULL);
        for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
            odd_memory(pair, lengths[k]);
        }
        cw_pair_close(pair);
    }
}

static void test_many_in_both_directions(void **state)
{
    enum { COUNT = 1000, LENGTH = 3001 };
    struct cw_pair *pair = *state;
    struct cw_op *sends = calloc(2 * COUNT, sizeof(*sends)), *recvs = calloc(2 * COUNT, sizeof(*recvs));
    char *out = malloc(2 * COUNT * LENGTH), *in = malloc(2 * COUNT * LENGTH);

    assert_true(sends != NULL && recvs != NULL && out != NULL && in != NULL);
    for (int k = 0; k < SCHEMES; k++) {
        use_rndv("1", schemes[k]);
        cw_pair_open(pair, NULL);
        memset(sends, 0, 2 * COUNT * sizeof(*sends));
        memset(recvs, 0, 2 * COUNT * sizeof(*recvs));
        memset(in, 0, 2 * COUNT * LENGTH);
        for (int step = 0; step < 3; step++) { /* half of the receives first, then all sends, then the rest */
            for (int i = 0; i < 2 * COUNT; i++) {
                struct cw_side *from = i % 2 == 0 ? pair->tx : pair->rx, *to = i % 2 == 0 ? pair->rx : pair->tx;

                if (step == 1) {
                    cw_pattern_fill(out + i * LENGTH, LENGTH, (uint64_t)(i + k));
                    cw_op_send(&sends[i], from->ep, out + i * LENGTH, LENGTH, (ucp_tag_t)i);
                } else if ((i / 2 % 2 == 0) == (step == 0)) {
                    cw_op_recv(&recvs[i], to->worker, in + i * LENGTH, LENGTH, (ucp_tag_t)i, CW_TAG_ALL);
                }
            }
        }
        for (int i = 0; i < 2 * COUNT; i++) {
            assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
            cw_pattern_check(in + i * LENGTH, LENGTH, (uint64_t)(i + k));
        }
        cw_pair_close(pair);
    }
    free(sends);
    free(recvs);
    free(out);
    free(in);
}

/* Some hundred long transfers at once: all share the few claim pairs of a connection. */
static void test_many_long_ones(void **state)
{
    enum { COUNT = 60, LENGTH = 1200001 };
    struct cw_pair *pair = *state;
    struct cw_op sends[COUNT] = {{0}}, recvs[COUNT] = {{0}};
    char *out = malloc((size_t)COUNT * LENGTH), *in = calloc(COUNT, LENGTH);

    assert_true(out != NULL && in != NULL);
    use_rndv("auto", "auto");
    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        cw_pattern_fill(out + i * LENGTH, LENGTH, i);
        cw_op_send(&sends[i], pair->tx->ep, out + i * LENGTH, LENGTH, i);
    }
    for (size_t i = COUNT; i-- > 0;) {
        cw_op_recv(&recvs[i], pair->rx->worker, in + i * LENGTH, LENGTH, i, CW_TAG_ALL);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &recvs[i], "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        cw_pattern_check(in + i * LENGTH, LENGTH, i);
    }
    free(out);
    free(in);
    cw_pair_close(pair);
}

/* ---- two processes ---- */

static const struct cw_pair_config peer_mode = {.peer_mode = true};
static int failures;
static ucs_status_t failure;

static void note_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    failures++;
    failure = status;
}

/* As cw_fd_connect, with an error handler. */
static ucp_ep_h connect_watched(int fd, struct cw_side *side)
{
    size_t length;
    void *blob = cw_worker_address(side->worker, &length);
    uint64_t wire = length;
    ucp_ep_params_t params;
    ucp_ep_h ep;

    failures = 0;
    cw_fd_write(fd, &wire, sizeof(wire));
    cw_fd_write(fd, blob, length);
    free(blob);
    cw_fd_read(fd, &wire, sizeof(wire), NULL);
    blob = malloc(wire);
    assert_non_null(blob);
    cw_fd_read(fd, blob, wire, NULL);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = blob;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = note_failure;
    params.err_handler.arg = NULL;
    assert_int_equal(ucp_ep_create(side->worker, &params, &ep), UCS_OK);
    free(blob);
    return ep;
}

/* The second process does what it is told, and progresses only within an order. */
enum order { SEND = 'S', RECV = 'R', WAIT = 'W', FORBID = 'F', QUIT = 'Q' };

struct command {
    uint64_t order;
    uint64_t length;
    uint64_t rounds;        /* of progress before it answers */
};

/* From now on the system refuses this process to copy from and to others. Not to be undone. */
static bool forbid_copies(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool obey(const struct command *command, struct cw_pair *lone, char *bytes, struct cw_op *op)
{
    static bool receiving;
    static uint64_t length;
    bool right = true;

    if (command->order == SEND || command->order == RECV) {
        memset(op, 0, sizeof(*op));
        length = command->length;
        receiving = command->order == RECV;
    }
    if (command->order == SEND) {
        cw_pattern_fill(bytes, length, length);
        cw_op_send(op, lone->tx->ep, bytes, length, 1);
    } else if (command->order == RECV) {
        memset(bytes, 0, length);
        cw_op_recv(op, lone->tx->worker, bytes, length, 1, CW_TAG_ALL);
    } else if (command->order == WAIT) {
        right = cw_op_wait(lone, op, "operation of the second process") == UCS_OK &&
                (!receiving || cw_pattern_find(bytes, length, length) < 0);
    } else if (command->order == FORBID) {
        right = forbid_copies();
    }
    for (uint64_t i = 0; i < command->rounds; i++) {
        ucp_worker_progress(lone->tx->worker);
    }
    return right;
}

static int servant(int fd, const char *argument)
{
    struct cw_pair lone = {.count = 1};
    char *bytes = malloc(huge_length), answer;
    struct command command = {0};
    struct cw_op op = {0};

    (void)argument;
    if (bytes == NULL) {
        return 3;
    }
    cw_side_open(&lone.sides[0], NULL);
    lone.tx = lone.rx = &lone.sides[0];
    lone.tx->ep = cw_fd_connect(fd, lone.tx, &peer_mode);
    while (command.order != QUIT) {
        cw_fd_read(fd, &command, sizeof(command), NULL);
        answer = obey(&command, &lone, bytes, &op) ? 'k' : 'n';
        cw_fd_write(fd, &answer, 1);
    }
    cw_side_destroy(&lone.sides[0]);
    free(bytes);
    return 0;
}

/* The test's own side alone, and the servant. */
static void open_with_servant(struct cw_pair *pair, struct cw_remote *remote, const char *role)
{
    cw_test_need_two_processes();
    cw_remote_start(remote, role, NULL);
    cw_side_open(&pair->sides[0], NULL);
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    pair->tx->ep = connect_watched(remote->fd, pair->tx);
}

static void tell(struct cw_remote *remote, enum order order, uint64_t length, uint64_t rounds)
{
    struct command command = {.order = order, .length = length, .rounds = rounds};

    cw_fd_write(remote->fd, &command, sizeof(command));
}

/* What is said to be done: the worker is progressed meanwhile unless it is NULL. */
static void hear(struct cw_remote *remote, ucp_worker_h worker)
{
    char answer;

    cw_fd_read(remote->fd, &answer, 1, worker);
    assert_int_equal(answer, 'k');
}

static void dismiss(struct cw_pair *pair, struct cw_remote *remote)
{
    tell(remote, QUIT, 0, 0);
    hear(remote, pair->tx->worker);
    cw_remote_join(remote);
}

/* A message there and one back. */
static void both_ways(struct cw_pair *pair, struct cw_remote *remote, size_t length)
{
    char *bytes = malloc(length);

    assert_non_null(bytes);
    for (int back = 0; back < 2; back++) {
        struct cw_op op = {0};

        tell(remote, back ? SEND : RECV, length, 0);
        hear(remote, NULL);
        tell(remote, WAIT, 0, 0);
        if (back) {
            memset(bytes, 0, length);
            cw_op_recv(&op, pair->tx->worker, bytes, length, 1, CW_TAG_ALL);
        } else {
            cw_pattern_fill(bytes, length, length);
            cw_op_send(&op, pair->tx->ep, bytes, length, 1);
        }
        assert_int_equal(cw_op_wait(pair, &op, back ? "receive" : "send"), UCS_OK);
        hear(remote, pair->tx->worker);
        cw_pattern_check(bytes, length, length);
    }
    free(bytes);
}

static const size_t two_process_lengths[] = {8, 1000, 70000, 200000, 2 * MIB + 1};

static void lengths_both_ways(struct cw_pair *pair, struct cw_remote *remote)
{
    for (size_t i = 0; i < sizeof(two_process_lengths) / sizeof(two_process_lengths[0]); i++) {
        both_ways(pair, remote, two_process_lengths[i]);
    }
}

static void test_two_processes(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_remote remote;

    cw_test_need_two_processes();
    for (int i = 0; i < 2 * SCHEMES; i++) {
        use_rndv(i % 2 == 0 ? "1" : "auto", schemes[i / 2]);
        open_with_servant(pair, &remote, "servant");
        lengths_both_ways(pair, &remote);
        dismiss(pair, &remote);
        cw_side_destroy(&pair->sides[0]);
    }
}

/* The system does not let one of the two copy: from the beginning, or not any more. */
static void test_copies_are_forbidden(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_remote remote;

    cw_test_need_two_processes();
    for (int i = 0; i < 2 * SCHEMES; i++) {
        use_rndv("1", schemes[i / 2]);
        open_with_servant(pair, &remote, "servant");
        if (i % 2 == 0) {
            both_ways(pair, &remote, 2 * MIB);
        }
        tell(&remote, FORBID, 0, 0);
        hear(&remote, NULL);
        lengths_both_ways(pair, &remote);
        dismiss(pair, &remote);
        cw_side_destroy(&pair->sides[0]);
    }
}

/* The sender announced and helped for some rounds; then its right to copy ends, and the transfer still ends well. */
static void test_copies_are_forbidden_in_the_middle(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_remote remote;
    char *bytes;

    cw_test_need_two_processes();
    bytes = malloc(huge_length);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) {
        struct cw_op op = {0};
        size_t length = 6 * MIB + 1;

        use_rndv("auto", schemes[i % SCHEMES]);
        open_with_servant(pair, &remote, "servant");
        both_ways(pair, &remote, 8);
        if (i < SCHEMES) { /* the servant helps to send */
            tell(&remote, SEND, length, 0);
            hear(&remote, NULL);
            memset(bytes, 0, length);
            cw_op_recv(&op, pair->tx->worker, bytes, length, 1, CW_TAG_ALL);
        } else {           /* the servant receives */
            tell(&remote, RECV, length, 0);
            hear(&remote, NULL);
            cw_pattern_fill(bytes, length, length);
            cw_op_send(&op, pair->tx->ep, bytes, length, 1);
        }
        for (int k = 0; k < 5; k++) {
            ucp_worker_progress(pair->tx->worker);
        }
        tell(&remote, FORBID, 0, 5);
        hear(&remote, NULL);
        tell(&remote, WAIT, 0, 0);
        assert_int_equal(cw_op_wait(pair, &op, "operation"), UCS_OK);
        hear(&remote, pair->tx->worker);
        cw_pattern_check(bytes, length, length);
        lengths_both_ways(pair, &remote);
        dismiss(pair, &remote);
        cw_side_destroy(&pair->sides[0]);
    }
    free(bytes);
}

/* Whether the system lets this process read the servant's memory. */
static bool may_copy_from(pid_t pid)
{
    uint64_t word;
    struct iovec local = {.iov_base = &word, .iov_len = sizeof(word)};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)&huge_length, .iov_len = sizeof(word)};

    return process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0 || errno == EFAULT;
}

/* On shared memory the receiver needs nothing from a sender that went away to compute. */
static void test_sender_that_computes(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_remote remote;
    static struct cw_op op;
    char *bytes;

    if (!cw_test_tls_has("shm")) {
        skip();
    }
    bytes = calloc(1, huge_length);
    assert_non_null(bytes);
    use_rndv("auto", "auto");
    open_with_servant(pair, &remote, "servant");
    both_ways(pair, &remote, 1000);
    if (!may_copy_from(remote.pid)) {
        print_message("Skipped: the system does not let processes read each other's memory\n");
        dismiss(pair, &remote);
        free(bytes);
        skip();
    }
    tell(&remote, SEND, huge_length, 0);
    hear(&remote, NULL);
    cw_op_recv(&op, pair->tx->worker, bytes, huge_length, 1, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &op, "receive from a sender that computes"), UCS_OK);
    cw_pattern_check(bytes, huge_length, huge_length);
    tell(&remote, WAIT, 0, 0);
    hear(&remote, pair->tx->worker);
    free(bytes);
    dismiss(pair, &remote);
}

/* A receiver that computes: the sender is not complete, and talks to itself meanwhile. */
static void test_receiver_that_computes(void **state)
{
    struct cw_pair *pair = *state;
    struct cw_remote remote;
    struct cw_op op = {0};
    char *bytes;

    cw_test_need_two_processes();
    bytes = malloc(MIB);
    assert_non_null(bytes);
    use_rndv("1", "auto");
    open_with_servant(pair, &remote, "servant");
    both_ways(pair, &remote, 1000);
    cw_pattern_fill(bytes, MIB, MIB);
    cw_op_send(&op, pair->tx->ep, bytes, MIB, 1);
    tell(&remote, RECV, MIB, 0);
    hear(&remote, pair->tx->worker);
    cw_pair_settle(pair);
    assert_int_equal(op.calls, 0); /* TAG-13, TAG-16: nothing arrives without progress */
    tell(&remote, WAIT, 0, 0);
    assert_int_equal(cw_op_wait(pair, &op, "send"), UCS_OK);
    hear(&remote, pair->tx->worker);
    free(bytes);
    dismiss(pair, &remote);
}

static void kill_servant(struct cw_remote *remote)
{
    assert_int_equal(kill(remote->pid, SIGKILL), 0);
    assert_int_equal(waitpid(remote->pid, NULL, 0), remote->pid);
    close(remote->fd);
}

/* ERR-2, ERR-9: the servant is killed in the middle of a long message; whoever is left is told. */
static void killed_in_the_middle(struct cw_pair *pair, bool servant_sends, int rounds, bool announced_only)
{
    struct cw_op op = {0}, lonely = {0}, late = {0};
    struct cw_remote remote;
    char *bytes = malloc(long_length), byte;
    ucp_tag_recv_info_t info;
    ucs_status_t status;

    assert_non_null(bytes);
    open_with_servant(pair, &remote, "servant");
    both_ways(pair, &remote, 8);
    cw_op_recv(&lonely, pair->tx->worker, &byte, 1, 999, CW_TAG_ALL);
    tell(&remote, servant_sends ? SEND : RECV, long_length, 0);
    hear(&remote, NULL);
    if (servant_sends) {
        cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
        if (!announced_only) {
            cw_op_recv(&op, pair->tx->worker, bytes, long_length, 1, CW_TAG_ALL);
        }
    } else {
        cw_op_send(&op, pair->tx->ep, bytes, long_length, 1);
    }
    for (int i = 0; i < rounds; i++) {
        ucp_worker_progress(pair->tx->worker);
    }
    kill_servant(&remote);
    if (announced_only) {
        cw_op_recv(&op, pair->tx->worker, bytes, long_length, 1, CW_TAG_ALL);
    }
    status = cw_op_wait(pair, &op, "operation with a process that died");
    assert_true(status < 0 && status != UCS_ERR_MESSAGE_TRUNCATED);
    cw_pair_wait_count(pair, &failures, 1, "error handler");
    cw_pair_settle(pair);
    assert_int_equal(failures, 1); /* ERR-4 */
    cw_op_send(&late, pair->tx->ep, bytes, long_length, 2);
    assert_int_equal(UCS_PTR_RAW_STATUS(late.result), failure); /* ERR-11, ERR-19 */
    assert_int_equal(lonely.calls, 0);                          /* ERR-9 */
    ucp_request_cancel(pair->tx->worker, lonely.result);
    assert_int_equal(cw_op_wait(pair, &lonely, "receive"), UCS_ERR_CANCELED);
    free(bytes);
    cw_side_destroy(&pair->sides[0]);
}

static void test_err9_killed_in_the_middle(void **state)
{
    struct cw_pair *pair = *state;

    cw_test_need_two_processes();
    for (int i = 0; i < SCHEMES; i++) {
        use_rndv("auto", schemes[i]);
        killed_in_the_middle(pair, true, 0, true);
        killed_in_the_middle(pair, true, 0, false);
        killed_in_the_middle(pair, true, 6, false);
        killed_in_the_middle(pair, false, 0, false);
        killed_in_the_middle(pair, false, 6, false);
    }
}

/* ---- flood ---- */

enum { FLOOD_LENGTH = 4000, FLOOD_POOL = 1 << 20, FLOOD_BATCH = 200 };

static long flood_count(void)
{
    return cw_test_scaled(100L * MIB / FLOOD_LENGTH);
}

static char *flood_message(char *pool, long number)
{
    return pool + number * 61 % FLOOD_POOL;
}

static char *flood_pool(void)
{
    char *pool = malloc(FLOOD_POOL + FLOOD_LENGTH);

    assert_non_null(pool);
    cw_pattern_fill(pool, FLOOD_POOL + FLOOD_LENGTH, 1);
    return pool;
}

static int flooder(int fd, const char *argument)
{
    struct cw_side side;
    char *pool = flood_pool(), answer = 'k';
    long count = flood_count(), done = 0;
    ucs_status_ptr_t *requests = calloc((size_t)count, sizeof(*requests));
    ucp_request_param_t param = cw_param_none();

    (void)argument;
    assert_non_null(requests);
    cw_side_open(&side, NULL);
    side.ep = cw_fd_connect(fd, &side, &peer_mode);
    for (long i = 0; i < count; i++) { /* TAG-27 */
        requests[i] = ucp_tag_send_nbx(side.ep, flood_message(pool, i), FLOOD_LENGTH, (ucp_tag_t)i, &param);
        assert_false(UCS_PTR_IS_ERR(requests[i]));
        ucp_worker_progress(side.worker);
    }
    cw_fd_write(fd, &answer, 1);
    cw_fd_read(fd, &answer, 1, side.worker); /* it goes on sending what there is room for */
    for (; done < count; done++) {
        assert_int_equal(cw_worker_wait_request(side.worker, requests[done], "send of the flood"), UCS_OK);
    }
    cw_fd_barrier(fd, side.worker);
    cw_side_destroy(&side);
    free(requests);
    free(pool);
    return 0;
}

static void progress_until_quiet(ucp_worker_h worker)
{
    double now = cw_time_now_s(), quiet_since = now;

    while (now < quiet_since + 0.1) {
        bool busy = ucp_worker_progress(worker) > 0;

        now = cw_time_now_s();
        quiet_since = busy ? now : quiet_since;
    }
}

/* TAG-14: nothing is lost or refused, and the receiver keeps no more than its window and a note for each message. */
static void test_flood(void **state)
{
    enum { WINDOW_KB = 16 << 10, NOTE_BYTES = 256, SLACK_KB = 8 << 10 };
    struct cw_pair *pair = *state;
    struct cw_remote remote;
    static char in[FLOOD_BATCH][FLOOD_LENGTH];
    static struct cw_op recvs[FLOOD_BATCH];
    char *pool, byte = 'g';
    long before, grown, count = flood_count();

    cw_test_need_two_processes();
    cw_test_skip_reference("it keeps everything");
    cw_test_skip_over("ofi", "providers have receive buffers of their own");
    pool = flood_pool();
    use_rndv("inf", "auto");
    open_with_servant(pair, &remote, "flooder");
    before = cw_process_rss_kb();
    hear(&remote, pair->tx->worker);
    progress_until_quiet(pair->tx->worker);
    grown = cw_process_rss_kb() - before;
    print_message("%ld messages of %d bytes grew the receiver by %ld KiB\n", count, FLOOD_LENGTH, grown);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(grown < WINDOW_KB + count * NOTE_BYTES / 1024 + SLACK_KB);
#endif
    cw_fd_write(remote.fd, &byte, 1);
    for (long i = 0; i < count; i++) {
        struct cw_op *recv = &recvs[i % FLOOD_BATCH];

        if (i % FLOOD_BATCH == 0) {
            memset(recvs, 0, sizeof(recvs));
            for (long k = 0; k < FLOOD_BATCH && i + k < count; k++) {
                cw_op_recv(&recvs[k], pair->tx->worker, in[k], FLOOD_LENGTH, 0, 0);
            }
        }
        assert_int_equal(cw_op_wait(pair, recv, "receive of the flood"), UCS_OK);
        assert_int_equal(recv->info.sender_tag, i); /* TAG-10 */
        assert_int_equal(recv->info.length, FLOOD_LENGTH);
        assert_memory_equal(in[i % FLOOD_BATCH], flood_message(pool, i), FLOOD_LENGTH);
    }
    cw_fd_barrier(remote.fd, pair->tx->worker);
    cw_remote_join(&remote);
    free(pool);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_flood, cw_test_setup, rndv_teardown), /* while little is used */
        cmocka_unit_test_setup_teardown(test_tag16_sender_waits_for_the_match, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_huge_and_odd, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_odd_memory, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_many_in_both_directions, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_many_long_ones, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_two_processes, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_copies_are_forbidden, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_copies_are_forbidden_in_the_middle, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_sender_that_computes, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_receiver_that_computes, cw_test_setup, rndv_teardown),
        cmocka_unit_test_setup_teardown(test_err9_killed_in_the_middle, cw_test_setup, rndv_teardown),
    };
    static const struct cw_role roles[] = {{"servant", servant}, {"flooder", flooder}};
    int code;

    if (cw_test_role(argc, argv, roles, sizeof(roles) / sizeof(roles[0]), &code)) {
        return code;
    }
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
