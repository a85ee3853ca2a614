/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/peer_memory.h against a second process: many entries, holes in either process' memory, a process that is not the
 * right one, and one that is gone. Skipped where the system does not let a process copy from its child.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "os/peer_memory.h"

enum { AREA = 1 << 20, PAGE = 4096, ENTRIES = 3000, PROBE = 12345 };

/* The child has the same at the same addresses, but for what either changes later. */
static uint64_t probe;
static uint8_t area[AREA], local[AREA];
static struct cw_peer_process child;

static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static int child_starts(void **state)
{
    int ready[2];
    size_t i;
    char byte;
    pid_t pid;

    (void)state;
    if (pipe(ready) != 0 || (pid = fork()) < 0) {
        return -1;
    }
    if (pid == 0) {
        probe = PROBE;
        for (i = 0; i < AREA; i++) {
            area[i] = byte_at(i);
        }
        _exit(write(ready[1], "x", 1) == 1 && pause() == 0);
    }
    child = (struct cw_peer_process){.pid = pid, .probe_address = (uintptr_t)&probe, .probe = PROBE};
    i = (size_t)read(ready[0], &byte, 1);
    close(ready[0]);
    close(ready[1]);
    return (i == 1) ? 0 : -1;
}

static int child_ends(void **state)
{
    (void)state;
    if (child.pid > 0) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, NULL, 0);
    }
    return 0;
}

static ucs_status_t read_flat(const void *from, size_t length)
{
    struct iovec iov = {.iov_base = local, .iov_len = length};

    memset(local, 0, sizeof(local));
    return cw_peer_memory_read(&child, &iov, 1, (uintptr_t)from);
}

static ucs_status_t write_flat(const void *to, size_t length)
{
    struct iovec iov = {.iov_base = local, .iov_len = length};

    return cw_peer_memory_write(&child, &iov, 1, (uintptr_t)to);
}

static void need_copies(void)
{
    if (read_flat(area, 1) != UCS_OK || write_flat(area, 1) != UCS_OK) {
        print_message("Skipped: the system does not let a process copy from its child\n");
        skip();
    }
}

/* Entries of 0 to 600 bytes, more of them than one call of the system takes. */
static size_t cut(struct iovec *iov)
{
    size_t at = 0;
    unsigned i;

    for (i = 0; i < ENTRIES; i++) {
        iov[i].iov_base = local + at;
        iov[i].iov_len = (i % 5 == 0 || i > ENTRIES - 4) ? 0 : (i * 7u) % 600;
        at += iov[i].iov_len;
    }
    return at;
}

TEST_WITH(many_entries_are_copied, child_starts, child_ends)
{
    static struct iovec iov[ENTRIES];
    size_t length = cut(iov), i;

    need_copies();
    assert_true(length < AREA - 3);
    memset(local, 0, sizeof(local));
    assert_int_equal(cw_peer_memory_read(&child, iov, ENTRIES, (uintptr_t)area + 3), UCS_OK);
    for (i = 0; i < length; i++) {
        assert_int_equal(local[i], byte_at(i + 3));
    }
    assert_int_equal(local[length], 0);
    for (i = 0; i < length; i++) {
        local[i] = (uint8_t)~local[i];
    }
    assert_int_equal(cw_peer_memory_write(&child, iov, ENTRIES, (uintptr_t)area + 1), UCS_OK);
    assert_int_equal(read_flat(area, length + 2), UCS_OK);
    assert_int_equal(local[0], byte_at(0));
    for (i = 0; i < length; i++) {
        assert_int_equal(local[i + 1], (uint8_t)~byte_at(i + 3));
    }
    assert_int_equal(local[length + 1], byte_at(length + 1));
}

/* Where both sides lie so that the system would be slow, all the same arrives, by way of other memory: in one piece, in
 * several entries. */
TEST_WITH(memory_that_lies_badly_is_copied, child_starts, child_ends)
{
    static const size_t lengths[] = {4096, 65536, 65537, 300001};
    const size_t from = 64 + 9, to = (((uintptr_t)area + from - (uintptr_t)local) & 4095) + 8;
    struct iovec iov[3];
    size_t length, i, k;

    need_copies();
    for (k = 0; k < 2 * sizeof(lengths) / sizeof(lengths[0]); k++) {
        length = lengths[k / 2];
        iov[0] = (struct iovec){.iov_base = local + to, .iov_len = (k % 2) ? length : 1000};
        iov[1] = (struct iovec){.iov_base = NULL, .iov_len = 0};
        iov[2] = (struct iovec){.iov_base = local + to + 1000, .iov_len = length};
        length = (k % 2) ? length : length + 1000;
        memset(local, 0, sizeof(local));
        assert_int_equal(cw_peer_memory_read(&child, iov, (k % 2) ? 1 : 3, (uintptr_t)area + from), UCS_OK);
        for (i = 0; i < length; i++) {
            assert_int_equal(local[to + i], byte_at(from + i));
        }
        assert_int_equal(local[to - 1], 0);
        assert_int_equal(local[to + length], 0);
        for (i = 0; i < length; i++) {
            local[to + i] = (uint8_t)~byte_at(i);
        }
        assert_int_equal(cw_peer_memory_write(&child, iov, (k % 2) ? 1 : 3, (uintptr_t)area + from + 16), UCS_OK);
        assert_int_equal(read_flat(area + from, length + 17), UCS_OK);
        assert_int_equal(local[15], byte_at(from + 15));
        for (i = 0; i < length; i++) {
            assert_int_equal(local[16 + i], (uint8_t)~byte_at(i));
        }
        assert_int_equal(local[16 + length], byte_at(from + 16 + length));
        for (i = 0; i < length; i++) {
            local[i] = byte_at(from + 16 + i);
        }
        assert_int_equal(write_flat(area + from + 16, length), UCS_OK);
    }
}

TEST_WITH(nothing_is_always_copied, child_starts, child_ends)
{
    struct iovec iov = {.iov_base = NULL, .iov_len = 0};

    assert_int_equal(cw_peer_memory_read(&child, &iov, 0, 0), UCS_OK);
    assert_int_equal(cw_peer_memory_write(&child, &iov, 1, 0), UCS_OK);
}

/* The other process has all of it, we lack a page of ours. Too short for more than the system's own copies. */
TEST_WITH(holes_of_ours_fail, child_starts, child_ends)
{
    uint8_t *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec iov[2] = {{pages + 5, 10}, {pages + PAGE + 5, PAGE / 2}};

    need_copies();
    assert_true(pages != MAP_FAILED);
    assert_int_equal(cw_peer_memory_read(&child, iov, 2, (uintptr_t)area), UCS_OK);
    assert_int_equal(munmap(pages + PAGE, PAGE), 0);
    assert_int_equal(cw_peer_memory_read(&child, iov, 2, (uintptr_t)area), UCS_ERR_IO_ERROR);
    assert_int_equal(cw_peer_memory_write(&child, iov, 2, (uintptr_t)area), UCS_ERR_IO_ERROR);
    munmap(pages, PAGE);
    munmap(pages + 2 * PAGE, PAGE);
}

/* The number of the process belongs to somebody else: it has the address, but not the value. */
TEST_WITH(another_process_is_noticed, child_starts, child_ends)
{
    uint8_t first;

    need_copies();
    assert_int_equal(read_flat(area, 1), UCS_OK);
    first = local[0];
    child.probe++;
    assert_int_equal(read_flat(area, 100), UCS_ERR_IO_ERROR);
    local[0] = (uint8_t)~first;
    assert_int_equal(write_flat(area, 1), UCS_ERR_IO_ERROR);
    child.probe--;
    child.probe_address = 8;
    assert_int_equal(read_flat(area, 100), UCS_ERR_IO_ERROR);
    local[0] = (uint8_t)~first;
    assert_int_equal(write_flat(area, 1), UCS_ERR_IO_ERROR);
    child.probe_address = (uintptr_t)&probe;
    assert_int_equal(read_flat(area, 1), UCS_OK);
    assert_int_equal(local[0], first); /* nothing was written */
}

TEST_WITH(a_process_that_is_gone_fails, child_starts, child_ends)
{
    const int pid = child.pid;

    need_copies();
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    assert_int_equal(read_flat(area, 1), UCS_ERR_IO_ERROR);
    assert_int_equal(write_flat(area, 1), UCS_ERR_IO_ERROR);
    child.pid = 0;
    assert_int_not_equal(pid, 0);
}
