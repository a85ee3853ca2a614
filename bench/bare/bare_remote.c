/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limits of one-sided operations between two processes of a machine. A trip is a few operations, or one copy:
 *   -k load    a word of shared memory is loaded and stored to private memory, one after the other
 *   -k atomic  fetch-and-add on a word of shared memory
 *   -k put     -s bytes are copied by memcpy() into shared memory, from shared memory that the other one never touches
 *   -k get     the other way round
 *   -k readv   -s bytes of the other process's private memory are copied by process_vm_readv()
 *   -k both    the same bytes, in shares of 128 KiB: each process takes the next one, this one by process_vm_readv(),
 *              the other one by process_vm_writev()
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

enum { OPERATIONS = 64, SHARE = 128 << 10 };

/* So far behind the beginning of a page the process's own bytes begin, as those of the performance tool do. How fast
 * memcpy() is depends on that. */
enum { OWN_OFFSET = 64 };

/* What both processes see. */
struct board {
    _Atomic int owners[2]; /* processes of the memory: the other one's, and the measuring one's; 0: not there yet */
    _Alignas(64) _Atomic uint64_t word;
    /* Of shares that both copy, counted over all trips: offered, taken, copied. */
    _Alignas(64) _Atomic uint64_t offered;
    _Alignas(64) _Atomic uint64_t taken;
    _Alignas(64) _Atomic uint64_t copied;
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

typedef ssize_t copy_fn(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long);

/* The private memory of both processes lies at the same address. */
static void copy_by_system(copy_fn *copy, int owner, size_t offset, size_t length)
{
    struct iovec here = {.iov_base = private + offset, .iov_len = length}, there = here;
    ssize_t got;

    while ((got = copy(owner, &here, 1, &there, 1, 0)) != (ssize_t)length) {
        if (got < 0 && (errno == EPERM || errno == ENOSYS)) {
            cw_say_error("the memory of another process must not be copied here");
            _exit(77);
        }
        if (got >= 0) {
            errno = EIO;
        }
        cw_bare_die("copying the memory of another process");
    }
}

static void read_other(void)
{
    copy_by_system(process_vm_readv, atomic_load(&board->owners[0]), 0, size);
}

static uint64_t shares_of(uint64_t trips)
{
    return trips * ((size + SHARE - 1) / SHARE);
}

/* Copies shares of a trip until all are taken. */
static void take_shares(uint64_t trip, bool is_ping)
{
    const uint64_t end = shares_of(trip);
    uint64_t share = atomic_load(&board->taken);

    while (share < end) {
        if (!atomic_compare_exchange_weak(&board->taken, &share, share + 1)) {
            continue;
        }
        const size_t offset = (size_t)(share - shares_of(trip - 1)) * SHARE;
        const size_t left = size - offset;
        copy_by_system(is_ping ? process_vm_readv : process_vm_writev, atomic_load(&board->owners[is_ping ? 0 : 1]),
                       offset, left < SHARE ? left : SHARE);
        atomic_fetch_add(&board->copied, 1);
        share = atomic_load(&board->taken);
    }
}

static void copy_with_help(uint64_t trip)
{
    atomic_store(&board->offered, shares_of(trip));
    take_shares(trip, true);
    while (atomic_load(&board->copied) < shares_of(trip)) {
    }
}

static void help(uint64_t trip)
{
    while (atomic_load(&board->offered) < shares_of(trip)) {
    }
    take_shares(trip, false);
}

static bool set_kind(const char *name);
static void set_size(uint64_t bytes);
static void open_memory(bool sleeps);
static void start(bool is_ping);
static void ping(uint64_t trip);
static void show(void);

static bool helped;
static struct cw_bare bare = {
    .name = "bare_remote",
    .open = open_memory,
    .start = start,
    .ping = ping,
    .set_size = set_size,
    .set_kind = set_kind,
    .show = show,
};

static bool set_kind(const char *name)
{
    helped = strcmp(name, "both") == 0;
    if (helped) {
        operate = NULL;
        bare.pong = help; /* the only kind in which the other one acts */
        return true;
    }
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
    if (operate == NULL && !helped) {
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
        atomic_store(&board->owners[0], (int)getpid());
        while (atomic_load(&board->owners[1]) == 0) {
            usleep(100);
        }
        return;
    }
    memset(shared, 0, size);
    memset(own, 1, size);
    atomic_store(&board->owners[1], (int)getpid());
    while (atomic_load(&board->owners[0]) == 0) {
        usleep(100);
    }
}

static void ping(uint64_t trip)
{
    if (helped) {
        copy_with_help(trip);
    } else {
        operate();
    }
}

static void show(void)
{
    bool by_system = operate == read_other || helped;
    bool copies = operate == copy_out || operate == copy_in || by_system;

    if (by_system && (private[0] != 2 || private[size - 1] != 2)) {
        errno = EIO;
        cw_bare_die("what the system copied");
    }
    printf("operations_per_trip %d\n", copies ? 1 : OPERATIONS);
    printf("bytes_per_trip %zu\n", copies ? size : OPERATIONS * sizeof(uint64_t));
}

int main(int argc, char **argv)
{
    return cw_bare_main(&bare, argc, argv);
}
