/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of shared memory: two processes hand a cache line to and fro. Each direction has a line of its own
 * that carries an 8-byte payload beside its sequence number, as a transport's slot would. Other sizes (-s) are copied
 * into shared memory behind the line and out of it at the other side.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Two lines apart: the adjacent-line prefetcher fetches pairs. */
struct line {
    _Atomic uint64_t sequence;
    uint64_t payload;
    char rest[240];
};

static struct line *lines;
static size_t message = sizeof(uint64_t);
static char *shared[2]; /* of messages that are not in their line */
static char *own;
static volatile uint64_t sink;

static void set_size(uint64_t size)
{
    message = size;
}

static void *map_shared(size_t length)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (memory == MAP_FAILED) {
        cw_bare_die("mmap");
    }
    return memory;
}

static void open_lines(bool sleeps)
{
    (void)sleeps;
    lines = map_shared(2 * sizeof(*lines));
    if (message == sizeof(uint64_t)) {
        return;
    }
    shared[0] = map_shared(message);
    shared[1] = map_shared(message);
    own = malloc(message);
    if (own == NULL) {
        cw_bare_die("memory");
    }
    memset(own, 1, message);
}

static void start(bool is_ping)
{
    (void)is_ping;
}

static void put(unsigned direction, uint64_t trip)
{
    struct line *line = &lines[direction];

    if (own == NULL) {
        line->payload = trip * 3;
    } else {
        memcpy(shared[direction], own, message);
    }
    atomic_store_explicit(&line->sequence, trip, memory_order_release);
}

static void get(unsigned direction, uint64_t trip)
{
    struct line *line = &lines[direction];

    while (atomic_load_explicit(&line->sequence, memory_order_acquire) != trip) {
    }
    if (own == NULL) {
        sink = line->payload;
    } else {
        memcpy(own, shared[direction], message);
        sink = (uint64_t)own[message - 1];
    }
}

static void ping(uint64_t trip)
{
    put(0, trip);
    get(1, trip);
}

static void pong(uint64_t trip)
{
    get(0, trip);
    put(1, trip);
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
        .set_size = set_size,
    };

    return cw_bare_main(&bare, argc, argv);
}
