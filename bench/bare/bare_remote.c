/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limits of one-sided operations between two processes of a machine. A trip is a few operations, or one copy:
 *   -k load    a word of shared memory is loaded and stored to private memory, one after the other
 *   -k atomic  fetch-and-add on a word of shared memory
 *   -k put     -s bytes are copied by memcpy() into shared memory, from shared memory that the other one never touches
 *   -k get     the other way round
 *   -k readv   -s bytes of the other process's private memory are copied by process_vm_readv()
 */
#define _GNU_SOURCE
#include "bare.h"

#include "say.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPERATIONS = 64 };

/* So far behind the beginning of a page the process's own bytes begin, as those of the performance tool do. How fast
 * memcpy() is depends on that. */
enum { OWN_OFFSET = 64 };

/* What both processes see. */
struct board {
    _Atomic int owner; /* process of the memory, 0: not there yet */
    _Atomic uint64_t word;
};

static const char *kind = "load";
static size_t size = 8;
static struct board *board;
static char *shared;
static char *own; /* of the same kind */
static char *private;
static volatile uint64_t sink;
static void (*operate)(void);

static void load_words(void)
{
    uint64_t value = 0;

    /* Each address depends on the value before: loads that overlap would show throughput. */
    for (int i = 0; i < OPERATIONS; i++) {
        _Atomic uint64_t *from = &board->word + (value & 1);
        value = atomic_load_explicit(from, memory_order_acquire);
        sink = value;
    }
}

static void add_words(void)
{
    for (int i = 0; i < OPERATIONS; i++) {
        sink = atomic_fetch_add_explicit(&board->word, 2, memory_order_acq_rel);
    }
}

static void copy_out(void)
{
    memcpy(shared, own, size);
    __asm__ volatile("" : : "r"(shared) : "memory");
}

static void copy_in(void)
{
    memcpy(own, shared, size);
    __asm__ volatile("" : : "r"(own) : "memory");
}

static void read_other(void)
{
    struct iovec here = {.iov_base = private, .iov_len = size}, there = here;
    ssize_t got;

    while ((got = process_vm_readv(atomic_load(&board->owner), &here, 1, &there, 1, 0)) != (ssize_t)size) {
        if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
            cw_say_error("process_vm_readv() is not allowed here");
            _exit(77);
        }
        if (got >= 0) {
            errno = EIO;
        }
        cw_bare_die("process_vm_readv");
    }
}

static bool set_kind(const char *name)
{
    static const struct {
        const char *name;
        void (*operate)(void);
    } kinds[] = {{"load", load_words}, {"atomic", add_words}, {"put", copy_out}, {"get", copy_in},
                 {"readv", read_other}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            kind = kinds[i].name;
            operate = kinds[i].operate;
            return true;
        }
    }
    return false;
}

static void set_size(uint64_t bytes)
{
    size = bytes;
}

static void open_memory(bool sleeps)
{
    const int access = PROT_READ | PROT_WRITE;

    (void)sleeps;
    if (operate == NULL) {
        set_kind(kind);
    }
    board = mmap(NULL, sizeof(*board), access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap(NULL, size, access, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    own = mmap(NULL, size + OWN_OFFSET, access, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    private = mmap(NULL, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || shared == MAP_FAILED || own == MAP_FAILED || private == MAP_FAILED) {
        cw_bare_die("mmap");
    }
    own += OWN_OFFSET;
}

/* Both write their private memory, so that no page is shared with the other or with nobody. */
static void start(bool is_ping)
{
    memset(private, is_ping ? 1 : 2, size);
    if (!is_ping) {
        atomic_store(&board->owner, (int)getpid());
        return;
    }
    memset(shared, 0, size);
    memset(own, 1, size);
    while (atomic_load(&board->owner) == 0) {
        usleep(100);
    }
}

static void ping(uint64_t trip)
{
    (void)trip;
    operate();
}

static void show(void)
{
    bool copies = operate == copy_out || operate == copy_in || operate == read_other;

    if (operate == read_other && private[size - 1] != 2) {
        errno = EIO;
        cw_bare_die("what process_vm_readv() brought");
    }
    printf("operations_per_trip %d\n", copies ? 1 : OPERATIONS);
    printf("bytes_per_trip %zu\n", copies ? size : OPERATIONS * sizeof(uint64_t));
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_remote",
        .open = open_memory,
        .start = start,
        .ping = ping,
        .set_size = set_size,
        .set_kind = set_kind,
        .show = show,
    };

    return cw_bare_main(&bare, argc, argv);
}
