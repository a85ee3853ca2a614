/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limits of messages through a ring of shared memory, one way. A trip is a batch of messages of -s bytes; the next
 * one follows at once, and the ring is never left empty on purpose.
 *   -k copy   packets of at most 16 KiB are copied into an area of 2 MiB and out of it, by memcpy()
 *   -k past   the same, but the sender's stores go past the caches (x86; elsewhere as copy)
 *   -k cells  messages of 8 bytes beside a header of 8, three in a cache line, in a ring of 256 lines
 *   -k lines  the same, one in a line
 * What a library has to do beside that is left out: matching, requests, credit, headers of packets. -i N,M puts so
 * many instructions in its place, for each message, at the sender and at the receiver, on memory of their own (to the
 * nearest multiple of 32).
 */
#define _GNU_SOURCE
#include "bare.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "past.h"

enum { BATCH_BYTES = 8 << 20, BATCH_MESSAGES = 30000, AREA = 2 << 20, PACKET = 16 << 10, LINE = 64, PAGE = 4096 };
enum { LINES = 256, MOST_IN_LINE = 3, MESSAGE = 20 };

/* Counters of the consumer: bytes of packets, or lines. */
struct counters {
    _Alignas(LINE) _Atomic uint64_t done;
    _Alignas(LINE) _Atomic uint64_t published; /* bytes of packets */
};

struct ring {
    struct counters counters;
    _Alignas(PAGE) char lines[LINES * LINE];
    _Alignas(PAGE) char area[AREA];
};

static struct ring *ring;
static uint64_t size = 8, messages;
static unsigned in_line; /* 0: packets */
static int past;
static char *own;
static uint64_t position; /* of this side: bytes of packets, or lines */
static volatile uint64_t sink;
static unsigned works[2]; /* instructions for a message: the sender's, the receiver's */

static bool set_kind(const char *kind)
{
    past = strcmp(kind, "past") == 0;
    in_line = (strcmp(kind, "cells") == 0) ? MOST_IN_LINE : (strcmp(kind, "lines") == 0);
    return past || in_line > 0 || strcmp(kind, "copy") == 0;
}

static void set_size(uint64_t bytes)
{
    size = bytes;
}

static void set_work(unsigned sender, unsigned receiver)
{
    works[0] = sender;
    works[1] = receiver;
}

/* In rounds of 32: ten words are loaded, added to and stored, and the loop. */
static void work(unsigned instructions)
{
    static volatile uint64_t words[10];

    for (unsigned left = (instructions + 16) / 32; left > 0; left--) {
#pragma GCC unroll 10
        for (unsigned i = 0; i < 10; i++) {
            words[i]++;
        }
    }
}

static void open_ring(bool sleeps)
{
    (void)sleeps;
    messages = BATCH_BYTES / size;
    if (messages < 1) {
        messages = 1;
    } else if (messages > BATCH_MESSAGES) {
        messages = BATCH_MESSAGES;
    }
    ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    own = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
    if (ring == MAP_FAILED || own == NULL) {
        cw_bare_die("memory");
    }
}

static void start(bool is_ping)
{
    memset(own, is_ping, size); /* pages of its own */
}

static void await(_Atomic uint64_t *counter, uint64_t least)
{
    while (atomic_load_explicit(counter, memory_order_acquire) < least) {
    }
}

/* Packets begin at a line and do not wrap around: the area is a multiple of the longest one. */
static size_t packet_at(uint64_t offset)
{
    const uint64_t left = size - offset;

    return (left < PACKET) ? left : PACKET;
}

static uint64_t place_of(size_t length)
{
    const uint64_t offset = position % AREA;

    position += (offset + length > AREA) ? AREA - offset : 0;
    return position % AREA;
}

static void put_packets(void)
{
    struct counters *counters = &ring->counters;

    for (uint64_t offset = 0; offset < size; offset += PACKET) {
        const size_t length = packet_at(offset);
        const uint64_t place = place_of(length);
        const uint64_t end = position + (length + LINE - 1) / LINE * LINE;
        await(&counters->done, (end > AREA) ? end - AREA : 0);
        if (past) {
            cw_copy_past(ring->area + place, own + offset, length);
        } else {
            memcpy(ring->area + place, own + offset, length);
        }
        position = end;
        atomic_store_explicit(&counters->published, position, memory_order_release);
    }
}

static void take_packets(void)
{
    struct counters *counters = &ring->counters;

    for (uint64_t offset = 0; offset < size; offset += PACKET) {
        const size_t length = packet_at(offset);
        const uint64_t place = place_of(length);
        position += (length + LINE - 1) / LINE * LINE;
        await(&counters->published, position);
        memcpy(own + offset, ring->area + place, length);
        if (position - atomic_load_explicit(&counters->done, memory_order_relaxed) >= AREA / 4) {
            atomic_store_explicit(&counters->done, position, memory_order_release);
        }
    }
}

/* A message: its line's number from 1, to publish it, header, payload. */
static void put_lines(void)
{
    for (uint64_t i = 0; i < messages; position++) {
        char *line = ring->lines + position % LINES * LINE;
        await(&ring->counters.done, (position >= LINES) ? position + 1 - LINES : 0);
        for (unsigned k = 0; k < in_line && i < messages; k++, i++) {
            char *at = line + (size_t)k * MESSAGE;
            const uint64_t word[] = {i, position};
            work(works[0]);
            memcpy(at + sizeof(uint32_t), word, sizeof(word));
            atomic_store_explicit((_Atomic uint32_t *)(void *)at, (uint32_t)position + 1, memory_order_release);
        }
    }
}

static void take_lines(void)
{
    for (uint64_t i = 0; i < messages; position++) {
        char *line = ring->lines + position % LINES * LINE;
        for (unsigned k = 0; k < in_line && i < messages; k++, i++) {
            char *at = line + (size_t)k * MESSAGE;
            uint64_t word[2];
            while (atomic_load_explicit((_Atomic uint32_t *)(void *)at, memory_order_acquire) !=
                   (uint32_t)position + 1) {
            }
            memcpy(word, at + sizeof(uint32_t), sizeof(word));
            sink = word[0] + word[1];
            work(works[1]);
        }
        if ((position + 1) % (LINES / 4) == 0) {
            atomic_store_explicit(&ring->counters.done, position + 1, memory_order_release);
        }
    }
}

static void ping(uint64_t trip)
{
    (void)trip;
    if (in_line > 0) {
        put_lines();
        return;
    }
    for (uint64_t i = 0; i < messages; i++) {
        work(works[0]);
        put_packets();
    }
}

static void pong(uint64_t trip)
{
    (void)trip;
    if (in_line > 0) {
        take_lines();
        return;
    }
    for (uint64_t i = 0; i < messages; i++) {
        take_packets();
        work(works[1]);
    }
}

static void show(void)
{
    const uint64_t bytes = messages * size;

    printf("bytes_per_trip %" PRIu64 "\nmessages_per_trip %" PRIu64 "\n", bytes, messages);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_ring",
        .open = open_ring,
        .start = start,
        .ping = ping,
        .pong = pong,
        .set_size = set_size,
        .set_kind = set_kind,
        .set_work = set_work,
        .show = show,
    };

    return cw_bare_main(&bare, argc, argv);
}
