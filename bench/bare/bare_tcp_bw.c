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

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "stream.h"

enum { BATCH_BYTES = 8 << 20, BATCH_MESSAGES = 4096, ROOM = 65536 };

static int connection;
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

static void set_size(uint64_t size)
{
    message = size;
}

static void open_listener(bool sleeps)
{
    (void)sleeps;
    messages = BATCH_BYTES / message;
    if (messages < 1) {
        messages = 1;
    } else if (messages > BATCH_MESSAGES) {
        messages = BATCH_MESSAGES;
    }
    room = message > ROOM ? message : ROOM;
    buffer = cw_stream_memory(room);
    other = cw_stream_memory(room);
    cw_stream_listen();
}

static void start(bool is_ping)
{
    connection = cw_stream_connect(is_ping);
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
        cw_stream_send(connection, buffer, message);
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
    cw_stream_send(connection, buffer, 1);
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
