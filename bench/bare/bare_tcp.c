/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of TCP over the loopback interface: messages of 8 bytes or more (-s) with non-blocking send() and recv(),
 * TCP_NODELAY. Spins on recv(); with -S it sleeps in poll() before each recv().
 */
#define _GNU_SOURCE
#include "bare.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "stream.h"

static int connection;
static bool asleep;
static size_t message = sizeof(uint64_t);
static char *buffer; /* a message: the number of its trip, then anything */

static void set_size(uint64_t size)
{
    message = size > sizeof(uint64_t) ? size : sizeof(uint64_t);
}

static void open_listener(bool sleeps)
{
    asleep = sleeps;
    buffer = cw_stream_memory(message);
    cw_stream_listen();
}

static void start(bool is_ping)
{
    connection = cw_stream_connect(is_ping);
}

static void put(uint64_t trip)
{
    memcpy(buffer, &trip, sizeof(trip));
    cw_stream_send(connection, buffer, message);
}

static void get(uint64_t trip)
{
    for (size_t have = 0; have < message;) {
        if (asleep) {
            struct pollfd item = {.fd = connection, .events = POLLIN};
            poll(&item, 1, -1);
        }
        ssize_t got = recv(connection, buffer + have, message - have, 0);
        if (got > 0) {
            have += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("recv");
        }
    }
    if (memcmp(buffer, &trip, sizeof(trip)) != 0) {
        errno = EPROTO;
        cw_bare_die("the order of messages");
    }
}

static void ping(uint64_t trip)
{
    put(trip);
    get(trip);
}

static void pong(uint64_t trip)
{
    get(trip);
    put(trip);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_tcp",
        .can_sleep = true,
        .open = open_listener,
        .start = start,
        .ping = ping,
        .pong = pong,
        .set_size = set_size,
    };

    return cw_bare_main(&bare, argc, argv);
}
