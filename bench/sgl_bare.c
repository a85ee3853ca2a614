/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements sgl_bare.h. The origin asks by a number that grows, and the owner answers with this number when it has
 * received all pieces. Positions in a ring only grow, too.
 */
#define _GNU_SOURCE
#include "sgl_bare.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "bare.h"
#include "past.h"
#include "stream.h"

enum { MOST_JOINED = 4, RING_PIECES = 128, IN_SYSTEM_CALL = 64, IN_MESSAGE = 16, LINE = 64 };

struct packet {
    uint64_t number; /* position in the ring plus 1, written last */
    uint32_t first, count;
    char padding[LINE - 16];
    char bytes[];
};

struct ring {
    uint64_t taken; /* by the owner */
    char padding[LINE - sizeof(uint64_t)];
    char packets[];
};

/* What both processes map; each word has a cache line of its own. */
struct shared {
    uint64_t asked;
    uint64_t method;
    char padding[LINE - 2 * sizeof(uint64_t)];
    uint64_t answered;
    char more_padding[LINE - sizeof(uint64_t)];
};

const char *const cw_bare_names[CW_BARE_COUNT] = {"bare_ring", "bare_joined", "bare_system", "bare_mapped", "bare_tcp"};

static const unsigned in_packet[2] = {1, MOST_JOINED};

static size_t pieces, bytes, step;
static struct shared *shared;
static struct ring *rings[2];
static char *mapped, *memory;
static uint64_t position[2]; /* this process's, in each ring */
static uint64_t last;        /* question of the origin, or answer of the owner */
static int connection;

static void *map(size_t length)
{
    void *ptr = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (ptr == MAP_FAILED) {
        cw_bare_die("mmap");
    }
    return ptr;
}

/* From piece to piece in a packet: each begins with a cache line. */
static size_t stride(void)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static size_t packet_size(unsigned kind)
{
    return sizeof(struct packet) + in_packet[kind] * stride();
}

static struct packet *packet_at(unsigned kind, uint64_t number)
{
    return (void *)(rings[kind]->packets + number % (RING_PIECES / in_packet[kind]) * packet_size(kind));
}

void cw_bare_open(size_t num_pieces, size_t piece_bytes, size_t piece_step)
{
    pieces = num_pieces;
    bytes = piece_bytes;
    step = piece_step;
    shared = map(sizeof(*shared));
    mapped = map(pieces * bytes);
    for (unsigned kind = 0; kind < 2; kind++) {
        rings[kind] = map(sizeof(struct ring) + RING_PIECES / in_packet[kind] * packet_size(kind));
    }
    cw_stream_listen();
}

void cw_bare_join(bool is_origin, char *own_memory)
{
    memory = own_memory;
    connection = cw_stream_connect(is_origin);
}

static size_t place(size_t piece)
{
    return (piece * step) % pieces * bytes;
}

static void send_ring(unsigned kind)
{
    const uint64_t room = RING_PIECES / in_packet[kind];

    for (size_t piece = 0; piece < pieces; position[kind]++) {
        struct packet *packet = packet_at(kind, position[kind]);
        const size_t left = pieces - piece;

        while (position[kind] - __atomic_load_n(&rings[kind]->taken, __ATOMIC_ACQUIRE) >= room) {
        }
        packet->first = (uint32_t)piece;
        packet->count = (left < in_packet[kind]) ? (uint32_t)left : in_packet[kind];
        for (unsigned i = 0; i < packet->count; i++) {
            cw_copy_past(packet->bytes + i * stride(), memory + (piece + i) * bytes, bytes);
        }
        piece += packet->count;
        __atomic_store_n(&packet->number, position[kind] + 1, __ATOMIC_RELEASE);
    }
}

static void receive_ring(unsigned kind)
{
    for (size_t piece = 0; piece < pieces; position[kind]++) {
        const struct packet *packet = packet_at(kind, position[kind]);

        while (__atomic_load_n(&packet->number, __ATOMIC_ACQUIRE) != position[kind] + 1) {
        }
        for (unsigned i = 0; i < packet->count; i++) {
            memcpy(memory + place(packet->first + i), packet->bytes + i * stride(), bytes);
        }
        piece += packet->count;
        __atomic_store_n(&rings[kind]->taken, position[kind] + 1, __ATOMIC_RELEASE);
    }
}

static void write_by_system(pid_t owner, char *there)
{
    struct iovec from[IN_SYSTEM_CALL], to[IN_SYSTEM_CALL];

    for (size_t piece = 0; piece < pieces;) {
        size_t count;

        for (count = 0; count < IN_SYSTEM_CALL && piece + count < pieces; count++) {
            from[count] = (struct iovec){memory + (piece + count) * bytes, bytes};
            to[count] = (struct iovec){there + place(piece + count), bytes};
        }
        if (process_vm_writev(owner, from, count, to, count, 0) != (ssize_t)(count * bytes)) {
            cw_bare_die("process_vm_writev");
        }
        piece += count;
    }
}

/* Where the bytes from `done` on lie: in the order of the origin, or in the places of the owner. */
static size_t window(size_t done, bool out, struct iovec iov[IN_MESSAGE])
{
    size_t count = 0, begin;

    while (count < IN_MESSAGE && done < pieces * bytes) {
        begin = out ? done / bytes * bytes : place(done / bytes);
        iov[count++] = (struct iovec){memory + begin + done % bytes, bytes - done % bytes};
        done += bytes - done % bytes;
    }
    return count;
}

static void move_stream(bool out)
{
    struct iovec iov[IN_MESSAGE];
    ssize_t part;

    for (size_t done = 0; done < pieces * bytes;) {
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = window(done, out, iov)};

        part = out ? sendmsg(connection, &message, MSG_NOSIGNAL) : recvmsg(connection, &message, 0);
        if (part > 0) {
            done += (size_t)part;
        } else if (part == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die(out ? "sendmsg" : "recvmsg");
        }
    }
}

void cw_bare_serve(void)
{
    const uint64_t asked = __atomic_load_n(&shared->asked, __ATOMIC_ACQUIRE);

    if (asked == last) {
        return;
    }
    last = asked;
    if (shared->method == CW_BARE_TCP) {
        move_stream(false);
    } else {
        receive_ring((unsigned)shared->method);
    }
    __atomic_store_n(&shared->answered, asked, __ATOMIC_RELEASE);
}

void cw_bare_put(enum cw_bare_method method, pid_t owner, char *there)
{
    if (method == CW_BARE_SYSTEM) {
        write_by_system(owner, there);
        return;
    }
    if (method == CW_BARE_MAPPED) {
        memcpy(mapped, memory, pieces * bytes);
        return;
    }
    shared->method = method;
    __atomic_store_n(&shared->asked, ++last, __ATOMIC_RELEASE);
    if (method == CW_BARE_TCP) {
        move_stream(true);
    } else {
        send_ring((unsigned)method);
    }
    while (__atomic_load_n(&shared->answered, __ATOMIC_ACQUIRE) != last) {
    }
}
