/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of TCP bandwidth over the loopback interface: one stream, messages of -s bytes, each a non-blocking
 * send() that is repeated until all is gone, and recv() at the other side; both spin. A trip is a batch of messages
 * that the receiver acknowledges with one byte while the next batch is on its way already: the stream never rests.
 * -k both: each side sends and receives, and bytes count in both directions. The congestion control is the plainest,
 * as the library chooses it there: others compute a pace for each segment.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH_BYTES = 8 << 20, BATCH_MESSAGES = 4096, ROOM = 65536, PAGE = 4096 };

static int listener;
static int connection;
static struct sockaddr_in address = {.sin_family = AF_INET};
static uint64_t message = 8;
static uint64_t messages;
static size_t room;
static char *buffer;
static char *other; /* both ways: where messages come to */
static bool both;

static bool set_kind(const char *kind)
{
    both = strcmp(kind, "both") == 0;
    return both || strcmp(kind, "one") == 0;
}

/* Where malloc begins large memory, 16 bytes behind a page's beginning, the system may copy five times as slowly (AMD
 * Zen 3): no limit to compare with. */
static char *new_buffer(void)
{
    char *memory = aligned_alloc(PAGE, (room + PAGE - 1) / PAGE * PAGE);

    if (memory == NULL) {
        cw_bare_die("memory");
    }
    memset(memory, 1, room);
    return memory;
}

static void set_size(uint64_t size)
{
    message = size;
}

static void open_listener(bool sleeps)
{
    socklen_t length = sizeof(address);

    (void)sleeps;
    messages = BATCH_BYTES / message;
    messages = messages < 1 ? 1 : messages > BATCH_MESSAGES ? BATCH_MESSAGES : messages;
    room = message > ROOM ? message : ROOM;
    buffer = new_buffer();
    other = new_buffer();
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        cw_bare_die("listening on the loopback interface");
    }
}

static void start(bool is_ping)
{
    static const char plainest[] = "reno";
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
    (void)setsockopt(connection, IPPROTO_TCP, TCP_CONGESTION, plainest, sizeof(plainest) - 1);
    /* Without it the end of a batch waits for the timer of a delayed acknowledgement. */
    if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
        fcntl(connection, F_SETFL, O_NONBLOCK) != 0) {
        cw_bare_die("setting socket options");
    }
}

static void put(size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(connection, buffer + done, length - done, MSG_NOSIGNAL);
        if (sent > 0) {
            done += (size_t)sent;
        } else if (sent == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("send");
        }
    }
}

static void get(uint64_t length)
{
    while (length > 0) {
        ssize_t got = recv(connection, buffer, length < room ? length : room, 0);
        if (got > 0) {
            length -= (uint64_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("recv");
        }
    }
}

/* One attempt each way, of what is left of a message and of a batch. */
static void give_and_take(size_t *unsent, uint64_t *missing)
{
    const size_t left = *unsent > 0 ? (*unsent - 1) % message + 1 : 0;
    ssize_t done;

    if (left > 0) {
        done = send(connection, buffer + message - left, left, MSG_NOSIGNAL);
        if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("send");
        }
        *unsent -= done > 0 ? (size_t)done : 0;
    }
    if (*missing > 0) {
        const uint64_t at = (messages * message - *missing) % message;
        const uint64_t most = message - at;
        done = recv(connection, other + at, *missing < most ? *missing : most, 0);
        if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR)) {
            cw_bare_die("recv");
        }
        *missing -= done > 0 ? (uint64_t)done : 0;
    }
}

static void exchange(void)
{
    size_t unsent = messages * message;
    uint64_t missing = messages * message;

    while (unsent > 0 || missing > 0) {
        give_and_take(&unsent, &missing);
    }
}

static void ping(uint64_t trip)
{
    if (both) {
        exchange();
        return;
    }
    for (uint64_t i = 0; i < messages; i++) {
        put(message);
    }
    if (trip > 1) {
        get(1);
    }
}

static void pong(uint64_t trip)
{
    (void)trip;
    if (both) {
        exchange();
        return;
    }
    get(messages * message);
    put(1);
}

static void show_bytes(void)
{
    printf("bytes_per_trip %llu\n", (unsigned long long)(both ? 2 : 1) * messages * message);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_tcp_bw",
        .open = open_listener,
        .start = start,
        .ping = ping,
        .pong = pong,
        .set_size = set_size,
        .set_kind = set_kind,
        .show = show_bytes,
    };

    return cw_bare_main(&bare, argc, argv);
}
