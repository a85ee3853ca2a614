/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of many pieces to many places over the loopback interface: a trip is 1,000 pieces of -s bytes, of which
 * one sendmsg() takes up to 16 and one recvmsg() brings up to 16 to their places, and one byte that says that all are
 * there. Both sides spin. It is what a put of many pieces (bench_sgl) can cost at best over TCP.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "stream.h"

enum { PIECES = 1000, TOGETHER = 16, STEP = 7919 };

static int connection;
static size_t piece = 4096;
static char *memory;

static void set_size(uint64_t size)
{
    piece = (size_t)size;
}

static void open_listener(bool sleeps)
{
    (void)sleeps;
    memory = cw_stream_memory(PIECES * piece);
    cw_stream_listen();
}

static void start(bool is_ping)
{
    connection = cw_stream_connect(is_ping);
}

/* Where the bytes from `done` on lie, up to 16 pieces of them. */
static size_t window(size_t done, size_t step, struct iovec iov[TOGETHER])
{
    size_t count = 0, at = done, left;

    while (count < TOGETHER && at < PIECES * piece) {
        left = piece - at % piece;
        iov[count++] = (struct iovec){memory + (at / piece * step) % PIECES * piece + at % piece, left};
        at += left;
    }
    return count;
}

static void move_all(bool out)
{
    struct iovec iov[TOGETHER];
    ssize_t part;

    for (size_t done = 0; done < PIECES * piece;) {
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = window(done, out ? 1 : STEP, iov)};

        part = out ? sendmsg(connection, &message, MSG_NOSIGNAL) : recvmsg(connection, &message, 0);
        if (part > 0) {
            done += (size_t)part;
        } else if (part == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die(out ? "sendmsg" : "recvmsg");
        }
    }
}

static void ping(uint64_t trip)
{
    char byte;

    (void)trip;
    move_all(true);
    cw_stream_recv(connection, &byte, 1);
}

static void pong(uint64_t trip)
{
    (void)trip;
    move_all(false);
    cw_stream_send(connection, "", 1);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_pieces",
        .open = open_listener,
        .start = start,
        .ping = ping,
        .pong = pong,
        .set_size = set_size,
    };

    return cw_bare_main(&bare, argc, argv);
}
