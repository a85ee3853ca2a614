/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of TCP over the loopback interface: messages of 8 bytes or more (-s) with non-blocking send() and recv(),
 * TCP_NODELAY. Spins on recv(); with -S it sleeps in poll() before each recv().
 */
#define _GNU_SOURCE
#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int listener;
static int connection;
static struct sockaddr_in address = {.sin_family = AF_INET};
static bool asleep;
static size_t message = sizeof(uint64_t);
static char *buffer; /* a message: the number of its trip, then anything */

static void set_size(uint64_t size)
{
    message = size > sizeof(uint64_t) ? size : sizeof(uint64_t);
}

static void open_listener(bool sleeps)
{
    socklen_t length = sizeof(address);

    asleep = sleeps;
    buffer = aligned_alloc(PAGE, (message + PAGE - 1) / PAGE * PAGE); /* see bare_tcp_bw.c */
    if (buffer == NULL) {
        cw_bare_die("memory");
    }
    memset(buffer, 1, message);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        cw_bare_die("listening on the loopback interface");
    }
}

static void start(bool is_ping)
{
    int one = 1;

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
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        fcntl(connection, F_SETFL, O_NONBLOCK) != 0) {
        cw_bare_die("setting socket options");
    }
}

static void put(uint64_t trip)
{
    memcpy(buffer, &trip, sizeof(trip));
    for (size_t done = 0; done < message;) {
        ssize_t sent = send(connection, buffer + done, message - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
        } else if (sent == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("send");
        }
    }
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
