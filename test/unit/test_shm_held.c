/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of this machine that holds its memory back while the system copies from or to it (docs/reference/bounds.md,
 * "Work that a peer can delay"): its process has half a second for that and a tenth of the time, on all its connections
 * together, and then nothing is copied any more. Clock, process numbers and the system's copies are the test's. ERR-9,
 * RMA-9.
 */
#define _GNU_SOURCE
#include "test_shm.h"
#include "test_log_lines.h"

#include <sys/uio.h>
#include <unistd.h>


enum { MS = 1000000 };

struct pair {
    struct side from, to;
    struct cw_conn *dialled, *accepted;
};

static uint64_t now_ns = 1, hold_ns, sleeps;
static int pid_told, holds_asleep = 1;
static unsigned num_calls;
static struct pair pair;
static uint64_t word = 7;

uint64_t cw_clock_ns(void)
{
    return now_ns;
}

int __wrap_cw_unix_peer_pid(int fd);
uint64_t __wrap_cw_thread_sleeps(void);
ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                                unsigned long from_count, unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                                unsigned long from_count, unsigned long flags);

/* Both sides live in this process; who is told to be there is up to the test. */
int __wrap_cw_unix_peer_pid(int fd)
{
    (void)fd;
    return pid_told;
}

uint64_t __wrap_cw_thread_sleeps(void)
{
    return sleeps;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count, const struct iovec *from,
                                unsigned long from_count, unsigned long flags)
{
    assert_int_equal(pid, pid_told);
    num_calls++;
    now_ns += hold_ns;
    sleeps += hold_ns > 0 && holds_asleep;
    hold_ns = 0; /* a long copy may take several calls */
    return __real_process_vm_readv(getpid(), to, to_count, from, from_count, flags);
}

ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *from, unsigned long from_count, const struct iovec *to,
                                 unsigned long to_count, unsigned long flags);
ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *from, unsigned long from_count, const struct iovec *to,
                                 unsigned long to_count, unsigned long flags);

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *from, unsigned long from_count, const struct iovec *to,
                                 unsigned long to_count, unsigned long flags)
{
    assert_int_equal(pid, pid_told);
    num_calls++;
    return __real_process_vm_writev(getpid(), from, from_count, to, to_count, flags);
}

/* ---- a connection ---- */

static ucs_status_t accepted(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                             size_t *reply_length)
{
    (void)owner, (void)hello, (void)hello_length, (void)reply;
    pair.accepted = conn;
    *reply_length = 0;
    return UCS_OK;
}

static void opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)reply, (void)reply_length;
    assert_int_equal(status, UCS_OK);
    pair.dialled = conn;
}

static const struct cw_upcalls upcalls = {.accept = accepted, .opened = opened};

static void begin(int pid)
{
    struct cw_conn *conn;

    memset(&pair, 0, sizeof(pair));
    pid_told = pid;
    hold_ns  = 0;
    side_open(&pair.from, 8192, 64, 0, &upcalls, NULL);
    side_open(&pair.to, 8192, 64, 0, &upcalls, NULL);
    cw_container_of(pair.from.iface, struct shm_iface, super)->peer_memory = 1;
    cw_container_of(pair.to.iface, struct shm_iface, super)->peer_memory   = 1;
    side_dial(&pair.from, &pair.to, NULL, &conn);
    for (int i = 0; i < 1000 && (pair.dialled == NULL || pair.accepted == NULL); i++) {
        side_progress(&pair.to);
        side_progress(&pair.from);
    }
    assert_non_null(pair.dialled);
    assert_non_null(pair.accepted);
    num_calls = 0;
    log_lines = 0;
}

static void end(void)
{
    cw_shm_transport.connect->close_conn(pair.dialled);
    cw_shm_transport.connect->close_conn(pair.accepted);
    side_close(&pair.from);
    side_close(&pair.to);
}

static int is_ready(void)
{
    return cw_shm_transport.copies->ready(pair.accepted);
}

static ucs_status_t read_word(uint64_t held_ns)
{
    uint64_t value   = 0;
    struct iovec iov = {.iov_base = &value, .iov_len = sizeof(value)};
    ucs_status_t status;

    hold_ns = held_ns;
    status  = cw_shm_transport.copies->read(pair.accepted, &iov, 1, (uintptr_t)&word, NULL);
    hold_ns = 0;
    assert_true(status != UCS_OK || value == word);
    return status;
}

static ucs_status_t write_word(uint64_t held_ns)
{
    uint64_t value   = word;
    struct iovec iov = {.iov_base = &value, .iov_len = sizeof(value)};
    ucs_status_t status;

    hold_ns = held_ns; /* where the probe is read */
    status  = cw_shm_transport.copies->write(pair.accepted, &iov, 1, (uintptr_t)&word, NULL);
    hold_ns = 0;
    return status;
}

static void check_over(void)
{
    num_calls = 0;
    assert_false(is_ready());
    assert_int_equal(read_word(0), UCS_ERR_IO_ERROR);
    assert_int_equal(write_word(0), UCS_ERR_IO_ERROR);
    assert_int_equal(num_calls, 0);
    assert_false(cw_shm_transport.copies->excused(pair.accepted, 0));
}

static void need_copies(void)
{
    if (!is_ready()) {
        end();
        print_message("Skipped: the system lets no process copy from itself\n");
        skip();
    }
}

/* ---- what it costs ---- */

/* One copy that does not end for long is the last one, for each connection of that process; others are not concerned.
 * It is told once. */
static void one_hold_is_enough(void **state)
{
    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        begin(1000 + writes);
        need_copies();
        assert_int_equal(read_word(0), UCS_OK);
        assert_int_equal(writes ? write_word(600 * MS) : read_word(600 * MS), UCS_OK);
        check_over();
        assert_int_equal(log_lines, 1);
        end();
        now_ns += UINT64_C(3600000) * MS; /* however long ago it was */
        for (int i = 0; i < 3; i++) {
            begin(1000 + writes);
            check_over();
            assert_int_equal(log_lines, 0);
            end();
        }
        begin(2000 + writes);
        assert_true(is_ready());
        assert_int_equal(read_word(0), UCS_OK);
        assert_true(cw_shm_transport.copies->excused(pair.accepted, 0));
        end();
    }
}

/* Nor does it help to open the next connection after each hold, or to hold many a time for less. */
static void holds_add_up(void **state)
{
    static const uint64_t holds[] = {300 * MS, 50 * MS, MS, MS / 5};
    uint64_t held;

    (void)state;
    for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        for (int fresh = 0; fresh < 2; fresh++) {
            held = 0;
            begin(3000 + (int)(2 * i) + fresh);
            while (is_ready()) {
                assert_int_equal(read_word(holds[i]), UCS_OK);
                held += holds[i];
                assert_true(held <= 560 * MS + holds[i]); /* and a tenth of the time */
                if (fresh && held % (40 * holds[i]) == 0) {
                    end();
                    begin(pid_told);
                }
            }
            assert_true(held > 500 * MS);
            check_over();
            end();
        }
    }
}

/* The proof that copies work is a copy, too. */
static void the_first_copy_counts(void **state)
{
    (void)state;
    begin(4000);
    hold_ns = 600 * MS;
    assert_false(is_ready());
    hold_ns = 0;
    check_over();
    end();
}

/* What was waited for elsewhere is the same. Those whose number cannot be known are taken for one process. */
static void other_waits_count(void **state)
{
    (void)state;
    for (int pid = 0; pid <= 4001; pid += 4001) {
        begin(pid);
        assert_true(cw_shm_transport.copies->excused(pair.accepted, 0));
        assert_true(cw_shm_transport.copies->excused(pair.accepted, 300 * MS));
        assert_true(cw_shm_transport.copies->excused(pair.accepted, 0));
        assert_false(cw_shm_transport.copies->excused(pair.accepted, 300 * MS));
        check_over();
        end();
        begin(pid);
        check_over();
        end();
    }
}

/* ---- what it does not cost ---- */

/* This thread lost its processor in the middle of copies, again and again: nobody's fault. */
static void a_busy_machine_is_no_hold(void **state)
{
    (void)state;
    begin(5000);
    need_copies();
    holds_asleep = 0;
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(read_word(20 * MS), UCS_OK);
    }
    for (int i = 0; i < 10; i++) { /* and after a while, once more */
        for (int k = 0; k < 300; k++) {
            assert_int_equal(read_word(0), UCS_OK);
        }
        now_ns += 200 * MS;
        assert_int_equal(read_word(20 * MS), UCS_OK);
    }
    holds_asleep = 1;
    assert_true(is_ready());
    assert_int_equal(log_lines, 0);
    end();
}

/* Memory that comes from a disk now and then. */
static void rare_waits_are_forgiven(void **state)
{
    (void)state;
    begin(5001);
    need_copies();
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(read_word(5 * MS), UCS_OK);
        now_ns += 60 * MS;
    }
    assert_true(is_ready());
    end();
}

/* Copies as long as their bytes take are no waits. */
static void long_copies_are_no_waits(void **state)
{
    enum { LENGTH = 4 << 20 };
    static char there[LENGTH], here[LENGTH];
    struct iovec iov = {.iov_base = here, .iov_len = LENGTH};

    (void)state;
    begin(5002);
    need_copies();
    for (int i = 0; i < 1000; i++) {
        hold_ns = (i % 2) ? 4 * MS : 0;
        assert_int_equal(cw_shm_transport.copies->read(pair.accepted, &iov, 1, (uintptr_t)there + i % 64, NULL),
                         UCS_OK);
    }
    hold_ns = 0;
    assert_true(is_ready());
    end();
}

/* More processes than are remembered. */
static void many_processes_come_and_go(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        begin(10000 + i);
        need_copies();
        assert_int_equal(read_word((i % 2) ? 600 * MS : MS), UCS_OK);
        assert_int_equal(is_ready(), i % 2 == 0);
        end();
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_hold_is_enough),
        cmocka_unit_test(holds_add_up),
        cmocka_unit_test(the_first_copy_counts),
        cmocka_unit_test(other_waits_count),
        cmocka_unit_test(a_busy_machine_is_no_hold),
        cmocka_unit_test(rare_waits_are_forgiven),
        cmocka_unit_test(long_copies_are_no_waits),
        cmocka_unit_test(many_processes_come_and_go),
    };

    log_count_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
