/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of many pieces to many places over the loopback interface: a trip is 1,000 pieces of -s bytes, of which
 * one sendmsg() takes up to 16 and one recvmsg() brings up to 16 to their places, and one byte that says that all are
 * there. Both sides spin. It is what a put of many pieces (bench_sgl) can cost at best over TCP.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES = 1000, TOGETHER = 16, STEP = 7919, PAGE = 4096 };

static int listener;
static int connection;
static struct sockaddr_in address = {.sin_family = AF_INET};
static size_t piece               = 4096;
static char *memory;

static void set_size(uint64_t size)
{
    piece = (size_t)size;
}

static void open_listener(bool sleeps)
{
    socklen_t length = sizeof(address);

    (void)sleeps;
    memory = aligned_alloc(PAGE, (PIECES * piece + PAGE - 1) / PAGE * PAGE);
    if (memory == NULL) {
        cw_bare_die("memory");
    }
    memset(memory, 1, PIECES * piece);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener                = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        cw_bare_die("listening on the loopback interface");
    }
}

static void start(bool is_ping)
{
    static const char plainest[] = "reno"; /* as the library has it there */
    int one                      = 1;

    if (is_ping) {
        connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof(address)) != 0) {
            cw_bare_die("connect");
        }
    } else {
        connection = accept(listener, NULL, NULL);
        if (connection < 0) {
            cw_bare_die("accept");
        }
    }
    close(listener);
    (void)setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, plainest, sizeof(plainest) - 1);
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        fcntl(connection, F_SETFL, O_NONBLOCK) != 0) {
        cw_bare_die("setting socket options");
    }
}

/* Where the bytes from `done` on lie, up to 16 pieces of them. */
static size_t window(size_t done, size_t step, struct iovec iov[TOGETHER])
{
    size_t count = 0, at = done, left;

    while (count < TOGETHER && at < PIECES * piece) {
        left         = piece - at % piece;
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
    while (recv(connection, &byte, 1, 0) != 1) {
        if (errno != EAGAIN && errno != EINTR) {
            cw_bare_die("recv");
        }
    }
}

static void pong(uint64_t trip)
{
    (void)trip;
    move_all(false);
    if (send(connection, "", 1, MSG_NOSIGNAL) != 1) {
        cw_bare_die("send");
    }
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name     = "bare_pieces",
        .open     = open_listener,
        .start    = start,
        .ping     = ping,
        .pong     = pong,
        .set_size = set_size,
    };

    return cw_bare_main(&bare, argc, argv);
}
