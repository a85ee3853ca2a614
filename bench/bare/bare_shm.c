/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of shared memory: two processes hand a cache line to and fro. Each direction has a line of its own
 * that carries an 8-byte payload beside its sequence number, as a transport's slot would.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

/* Two lines apart: the adjacent-line prefetcher fetches pairs. */
struct line {
    _Atomic uint64_t sequence;
    uint64_t payload;
    char rest[240];
};

static struct line *lines;
static volatile uint64_t sink;

static void open_lines(bool sleeps)
{
    (void)sleeps;
    lines = mmap(NULL, 2 * sizeof(*lines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (lines == MAP_FAILED) {
        cw_bare_die("mmap");
    }
}

static void start(bool is_ping)
{
    (void)is_ping;
}

static void put(struct line *line, uint64_t trip)
{
    line->payload = trip * 3;
    atomic_store_explicit(&line->sequence, trip, memory_order_release);
}

static void get(struct line *line, uint64_t trip)
{
    while (atomic_load_explicit(&line->sequence, memory_order_acquire) != trip) {
    }
    sink = line->payload;
}

static void ping(uint64_t trip)
{
    put(&lines[0], trip);
    get(&lines[1], trip);
}

static void pong(uint64_t trip)
{
    get(&lines[0], trip);
    put(&lines[1], trip);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_shm",
        .can_sleep = false,
        .open = open_lines,
        .start = start,
        .ping = ping,
        .pong = pong,
    };

    return cw_bare_main(&bare, argc, argv);
}
