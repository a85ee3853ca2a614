/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * System calls of small sends: over TCP at most one for each, and fewer for sends and one-sided operations that follow
 * each other; over memory none. A child counts them as a debugger sees them, so nothing escapes. Skipped where the
 * system does not allow that.
 */
#include "test_rma_common.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SINGLES = 50, BURST = 64, TAG = 3, AM_ID = 5, LONG_PUT = 16384 };

/* Between us and the child. */
struct board {
    volatile int state;        /* 0, then 1: it counts, or -1: it cannot */
    volatile int stop;
    volatile int counting;
    volatile unsigned calls;
    volatile unsigned sends;   /* among them */
    volatile unsigned pushes;  /* among these: nothing is said to follow at once, so a segment ends */
};

static struct board *board;
static pid_t child;
static int received;

/* The flags (MSG_*) of a call that sends, 0 for others. */
static uint64_t flags_of(uint64_t number, const uint64_t *arguments)
{
    switch (number) {
    case SYS_sendto:
        return arguments[3];
    case SYS_sendmsg:
        return arguments[2];
    default:
        return 0;
    }
}

static void count(uint64_t number, const uint64_t *arguments)
{
    const uint64_t flags = flags_of(number, arguments);
    const int sends = number == SYS_sendto || number == SYS_sendmsg || number == SYS_sendmmsg ||
                      number == SYS_write || number == SYS_writev;

    board->calls++;
    board->sends += sends;
    board->pushes += sends && !(flags & MSG_MORE);
}

/* The child: returns when it may not, when it is ordered to stop, or when the program has gone. */
static void trace(pid_t pid)
{
    struct __ptrace_syscall_info info;
    int status, signal_number;

    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0) {
        return;
    }
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        signal_number = 0;
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info), &info) <= 0) {
                return;
            }
            if (info.op == PTRACE_SYSCALL_INFO_ENTRY && board->counting) {
                count(info.entry.nr, info.entry.args);
            }
            board->state = 1;
        } else if (status >> 16 == 0) {
            signal_number = WSTOPSIG(status);
        }
        if (board->stop) {
            ptrace(PTRACE_DETACH, pid, NULL, NULL);
            return;
        }
        ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)signal_number);
    }
}

static int start_counting(void **state)
{
    const struct timespec a_while = {.tv_nsec = 1000000};
    pid_t self = getpid();

    (void)state;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        return -1;
    }
    child = fork();
    if (child == 0) {
        trace(self);
        board->state = -1;
        _exit(0);
    }
    (void)prctl(PR_SET_PTRACER, child);
    for (int i = 0; i < CW_WAIT_S * 1000 && board->state == 0; i++) {
        nanosleep(&a_while, NULL);
    }
    return 0;
}

static int stop_counting(void **state)
{
    (void)state;
    board->stop = 1;
    (void)getppid(); /* where it finds out */
    return (child > 0 && waitpid(child, NULL, 0) == child) ? 0 : -1;
}

static ucs_status_ptr_t send_tag(ucp_ep_h ep, const uint64_t *value)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_tag_send_nbx(ep, value, sizeof(*value), TAG, &param);
}

static ucs_status_ptr_t send_am(ucp_ep_h ep, const uint64_t *value)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_am_send_nbx(ep, AM_ID, NULL, 0, value, sizeof(*value), &param);
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    received++;
    return UCS_OK;
}

static void take(struct cw_pair *pair, ucs_status_ptr_t (*send)(ucp_ep_h, const uint64_t *))
{
    struct cw_op receive = {0};
    uint64_t value;
    static int before;

    if (send == send_am) {
        cw_pair_wait_count(pair, &received, ++before, "an active message");
        return;
    }
    cw_op_recv(&receive, pair->rx->worker, &value, sizeof(value), TAG, CW_TAG_ALL);
    assert_int_equal(cw_op_wait(pair, &receive, "receive"), UCS_OK);
}

static void begin_count(void)
{
    board->calls = 0;
    board->sends = 0;
    board->pushes = 0;
    board->counting = 1;
}

static void open_pair(struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES};
    ucp_am_handler_param_t param;

    if (board->state != 1) {
        print_message("SKIPPED: the system lets no process count the system calls of another one here\n");
        skip();
    }
    begin_count();
    (void)getppid();
    board->counting = 0;
    assert_int_equal(board->calls, 1);
    cw_pair_open(pair, &config);
    memset(&param, 0xff, sizeof(param));
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    param.id = AM_ID;
    param.cb = on_am;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &param), UCS_OK);
}

/* Each alone; then many, with as much progress of the sender as they want. */
static void count_sends(struct cw_pair *pair, ucs_status_ptr_t (*send)(ucp_ep_h, const uint64_t *))
{
    const unsigned most = cw_test_tls_has("tcp") ? 1 : 0;
    ucs_status_ptr_t results[BURST];
    uint64_t value = 1;

    assert_int_equal(cw_pair_wait(pair, send(pair->tx->ep, &value), "first send"), UCS_OK);
    take(pair, send);
    for (unsigned i = 0; i < SINGLES; i++) {
        cw_pair_settle(pair);
        begin_count();
        results[0] = send(pair->tx->ep, &value);
        board->counting = 0;
        assert_in_range(board->calls, 0, most);
        assert_int_equal(cw_pair_wait(pair, results[0], "send"), UCS_OK);
        take(pair, send);
    }
    cw_pair_settle(pair);
    begin_count();
    for (unsigned i = 0; i < BURST; i++) {
        results[i] = send(pair->tx->ep, &value);
    }
    for (unsigned i = 0; i < BURST; i++) {
        assert_int_equal(cw_worker_wait_request(pair->tx->worker, results[i], "send"), UCS_OK);
    }
    board->counting = 0;
    assert_in_range(board->sends, 0, most * BURST / 8);
    for (unsigned i = 0; i < BURST; i++) {
        take(pair, send);
    }
}

/* One-sided operations, one behind the other: puts, `length` bytes each, or gets. */
static void count_burst(struct cw_pair *pair, struct cw_target *target, bool get, size_t length, unsigned most)
{
    static char local[BURST][LONG_PUT];
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t results[BURST];
    uint64_t address;

    cw_pattern_fill(local, BURST * LONG_PUT, get ? 0 : length);
    cw_pair_settle(pair);
    begin_count();
    for (unsigned i = 0; i < BURST; i++) {
        address = target->address + i * length;
        results[i] = get ? ucp_get_nbx(target->ep, local[0] + i * length, length, address, target->key, &param) :
                           ucp_put_nbx(target->ep, local[0] + i * length, length, address, target->key, &param);
    }
    ucp_worker_progress(pair->tx->worker);
    board->counting = 0;
    assert_in_range(board->pushes, 0, most);
    for (unsigned i = 0; i < BURST; i++) {
        assert_int_equal(cw_pair_wait(pair, results[i], "one-sided operation"), UCS_OK);
    }
    assert_int_equal(cw_target_flush(target), UCS_OK);
    cw_target_check(target, 0, BURST * length, get ? 3 : length);
    if (get) {
        cw_pattern_check(local, BURST * length, 3);
    }
}

/* In a few segments: the first one, and whatever the others fill, of long puts as far as the socket takes them. */
API_TEST(test_one_sided)
{
    struct cw_target target;
    unsigned most;

    open_pair(pair);
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, (size_t)BURST * LONG_PUT);
    cw_target_try(&target, 0);
    most = cw_test_tls_has("tcp") ? BURST / 8 : 0;
    count_burst(pair, &target, false, sizeof(uint64_t), most);
    count_burst(pair, &target, false, LONG_PUT, most);
    cw_target_fill(&target, 0, target.length, 3);
    count_burst(pair, &target, true, sizeof(uint64_t), most);
    count_burst(pair, &target, true, LONG_PUT, most);
    cw_target_close(&target);
    cw_pair_close(pair);
}

API_TEST(test_tag)
{
    open_pair(pair);
    count_sends(pair, send_tag);
    cw_pair_close(pair);
}

API_TEST(test_am)
{
    open_pair(pair);
    count_sends(pair, send_am);
    cw_pair_close(pair);
}

int main(void)
{
    return cw_tests_run(start_counting, stop_counting);
}
