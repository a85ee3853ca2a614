/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous between two processes, as a program sees it: no result depends on the right to copy from process to
 * process, which the system may take away at any moment (TAG-15); who progresses and who computes decides when a
 * message is over (TAG-13, TAG-16); and a peer that is killed ends its messages with an error, once (ERR-2, ERR-4,
 * ERR-9, ERR-11, ERR-19). The second process does what it is ordered to and progresses only within an order.
 */
#define _GNU_SOURCE
#include "test_rndv_common.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Takes a while, and longer under a sanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const size_t long_length = ((size_t)4 << 20) + 3;
#else
static const size_t long_length = ((size_t)16 << 20) + 3;
#endif
static const size_t huge_length = ((size_t)64 << 20) + 3;
static int failures;
static ucs_status_t failure;

static void note_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    failures++;
    failure = status;
}

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

static int second(int fd, const char *argument)
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
    lone.tx->ep = cw_fd_connect(fd, lone.tx, &(const struct cw_pair_config){.peer_mode = true});
    while (command.order != QUIT) {
        cw_fd_read(fd, &command, sizeof(command), NULL);
        answer = obey(&command, &lone, bytes, &op) ? 'k' : 'n';
        cw_fd_write(fd, &answer, 1);
    }
    cw_side_destroy(&lone.sides[0]);
    free(bytes);
    return 0;
}

/* The test's own side alone, and the second process. */
static void open_with_second(struct cw_pair *pair, struct cw_remote *remote)
{
    const struct cw_pair_config config = {.peer_mode = true, .on_failure = note_failure};

    cw_test_need_two_processes();
    failures = 0;
    cw_remote_start(remote, "second", NULL);
    cw_side_open(&pair->sides[0], NULL);
    pair->count = 1;
    pair->tx = pair->rx = &pair->sides[0];
    pair->tx->ep = cw_fd_connect(remote->fd, pair->tx, &config);
}

static void order(struct cw_remote *remote, enum order what, uint64_t length, uint64_t rounds)
{
    struct command command = {.order = what, .length = length, .rounds = rounds};

    cw_fd_write(remote->fd, &command, sizeof(command));
}

/* The order was carried out; the worker is progressed meanwhile unless it is NULL. */
static void await_answer(struct cw_remote *remote, ucp_worker_h worker)
{
    char answer;

    cw_fd_read(remote->fd, &answer, 1, worker);
    assert_int_equal(answer, 'k');
}

static void dismiss(struct cw_pair *pair, struct cw_remote *remote)
{
    order(remote, QUIT, 0, 0);
    await_answer(remote, pair->tx->worker);
    cw_remote_join(remote);
}

/* A message there and one back. */
static void both_ways(struct cw_pair *pair, struct cw_remote *remote, size_t length)
{
    char *bytes = malloc(length);

    assert_non_null(bytes);
    for (int back = 0; back < 2; back++) {
        struct cw_op op = {0};

        order(remote, back ? SEND : RECV, length, 0);
        await_answer(remote, NULL);
        order(remote, WAIT, 0, 0);
        if (back) {
            memset(bytes, 0, length);
            cw_op_recv(&op, pair->tx->worker, bytes, length, 1, CW_TAG_ALL);
        } else {
            cw_pattern_fill(bytes, length, length);
            cw_op_send(&op, pair->tx->ep, bytes, length, 1);
        }
        assert_int_equal(cw_op_wait(pair, &op, back ? "receive" : "send"), UCS_OK);
        await_answer(remote, pair->tx->worker);
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

API_TEST_WITH(test_tag15_all_lengths_pass_between_processes, cw_test_setup, rndv_teardown)
{
    struct cw_remote remote;

    cw_test_need_two_processes();
    for (int i = 0; i < 2 * SCHEMES; i++) {
        use_rndv(i % 2 == 0 ? "1" : "auto", schemes[i / 2]);
        open_with_second(pair, &remote);
        lengths_both_ways(pair, &remote);
        dismiss(pair, &remote);
        cw_side_destroy(&pair->sides[0]);
    }
}

/* The system does not let one of the two copy: from the beginning, or not any more. */
API_TEST_WITH(test_tag15_copies_are_forbidden, cw_test_setup, rndv_teardown)
{
    struct cw_remote remote;

    cw_test_need_two_processes();
    for (int i = 0; i < 2 * SCHEMES; i++) {
        use_rndv("1", schemes[i / 2]);
        open_with_second(pair, &remote);
        if (i % 2 == 0) {
            both_ways(pair, &remote, 2 * MIB);
        }
        order(&remote, FORBID, 0, 0);
        await_answer(&remote, NULL);
        lengths_both_ways(pair, &remote);
        dismiss(pair, &remote);
        cw_side_destroy(&pair->sides[0]);
    }
}

/* The sender announced and helped for some rounds; then its right to copy ends, and the transfer still ends well. */
API_TEST_WITH(test_tag15_copies_are_forbidden_in_the_middle, cw_test_setup, rndv_teardown)
{
    struct cw_remote remote;
    char *bytes;

    cw_test_need_two_processes();
    bytes = malloc(huge_length);
    assert_non_null(bytes);
    for (int i = 0; i < 8; i++) {
        struct cw_op op = {0};
        size_t length = 6 * MIB + 1;

        use_rndv("auto", schemes[i % SCHEMES]);
        open_with_second(pair, &remote);
        both_ways(pair, &remote, 8);
        if (i < SCHEMES) { /* the second process helps to send */
            order(&remote, SEND, length, 0);
            await_answer(&remote, NULL);
            memset(bytes, 0, length);
            cw_op_recv(&op, pair->tx->worker, bytes, length, 1, CW_TAG_ALL);
        } else {           /* the second process receives */
            order(&remote, RECV, length, 0);
            await_answer(&remote, NULL);
            cw_pattern_fill(bytes, length, length);
            cw_op_send(&op, pair->tx->ep, bytes, length, 1);
        }
        for (int k = 0; k < 5; k++) {
            ucp_worker_progress(pair->tx->worker);
        }
        order(&remote, FORBID, 0, 5);
        await_answer(&remote, NULL);
        order(&remote, WAIT, 0, 0);
        assert_int_equal(cw_op_wait(pair, &op, "operation"), UCS_OK);
        await_answer(&remote, pair->tx->worker);
        cw_pattern_check(bytes, length, length);
        lengths_both_ways(pair, &remote);
        dismiss(pair, &remote);
        cw_side_destroy(&pair->sides[0]);
    }
    free(bytes);
}

/* Whether the system lets this process read the second process's memory. */
static bool may_copy_from(pid_t pid)
{
    uint64_t word;
    struct iovec local = {.iov_base = &word, .iov_len = sizeof(word)};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)&huge_length, .iov_len = sizeof(word)};

    return process_vm_readv(pid, &local, 1, &remote, 1, 0) > 0 || errno == EFAULT;
}

/* On shared memory the receiver needs nothing from a sender that went away to compute. */
API_TEST_WITH(test_tag16_a_receive_needs_no_progress_of_its_sender, cw_test_setup, rndv_teardown)
{
    struct cw_remote remote;
    static struct cw_op op;
    char *bytes;

    if (!cw_test_tls_has("shm")) {
        skip();
    }
    bytes = calloc(1, huge_length);
    assert_non_null(bytes);
    use_rndv("auto", "auto");
    open_with_second(pair, &remote);
    both_ways(pair, &remote, 1000);
    if (!may_copy_from(remote.pid)) {
        print_message("Skipped: the system does not let processes read each other's memory\n");
        dismiss(pair, &remote);
        free(bytes);
        skip();
    }
    order(&remote, SEND, huge_length, 0);
    await_answer(&remote, NULL);
    cw_op_recv(&op, pair->tx->worker, bytes, huge_length, 1, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &op, "receive from a sender that computes"), UCS_OK);
    cw_pattern_check(bytes, huge_length, huge_length);
    order(&remote, WAIT, 0, 0);
    await_answer(&remote, pair->tx->worker);
    free(bytes);
    dismiss(pair, &remote);
}

/* A receiver that computes: the sender is not complete, and talks to itself meanwhile. */
API_TEST_WITH(test_tag13_tag16_a_send_waits_for_progress_of_its_receiver, cw_test_setup, rndv_teardown)
{
    struct cw_remote remote;
    struct cw_op op = {0};
    char *bytes;

    cw_test_need_two_processes();
    bytes = malloc(MIB);
    assert_non_null(bytes);
    use_rndv("1", "auto");
    open_with_second(pair, &remote);
    both_ways(pair, &remote, 1000);
    cw_pattern_fill(bytes, MIB, MIB);
    cw_op_send(&op, pair->tx->ep, bytes, MIB, 1);
    order(&remote, RECV, MIB, 0);
    await_answer(&remote, pair->tx->worker);
    cw_pair_settle(pair);
    assert_int_equal(op.calls, 0); /* TAG-13, TAG-16: nothing arrives without progress */
    order(&remote, WAIT, 0, 0);
    assert_int_equal(cw_op_wait(pair, &op, "send"), UCS_OK);
    await_answer(&remote, pair->tx->worker);
    free(bytes);
    dismiss(pair, &remote);
}

/* ERR-2, ERR-9: the second process is killed in the middle of a long message; the other one is notified. */
static void killed_in_the_middle(struct cw_pair *pair, bool second_sends, int rounds, bool announced_only)
{
    struct cw_op op = {0}, lonely = {0}, late = {0};
    struct cw_remote remote;
    char *bytes = malloc(long_length), byte;
    ucp_tag_recv_info_t info;
    ucs_status_t status;

    assert_non_null(bytes);
    open_with_second(pair, &remote);
    both_ways(pair, &remote, 8);
    cw_op_recv(&lonely, pair->tx->worker, &byte, 1, 999, CW_TAG_ALL);
    order(&remote, second_sends ? SEND : RECV, long_length, 0);
    await_answer(&remote, NULL);
    if (second_sends) {
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
    cw_remote_kill(&remote);
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

API_TEST_WITH(test_err2_err9_a_killed_peer_ends_its_messages, cw_test_setup, rndv_teardown)
{
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

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"second", second}};

    return cw_test_main(argc, argv, roles, 1);
}
